"""Pieces of real traces, read with a JSON parser and Perfetto's engine alone: each event is in them exactly once."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support import corpus
from viewers import perfetto

import tracekit

ALEXNET = ("kineto/hta_alexnet.json.gz",)
GLOO = ("generated/torch/ddp_rank0.pt.trace.json", "generated/torch/ddp_rank1.pt.trace.json")
SPLITS = [
    *((ALEXNET, how) for how in ("events=97", "time=250ms", "mb=0.05")),
    *((GLOO, how) for how in ("rank", "step", "events=300", "time=3ms", "mb=0.1")),
]


def ns(us: int | Decimal) -> int:
    """Exact ns of a time in us."""
    return int(us * 1000)


def events_of(path: Path, origin_ns: int) -> tuple[Counter[Any], Counter[Any]]:
    """Events by time, duration, name and category, and the time of the parts of cut ones.

    origin_ns: Unix time of time 0 of the trace, on whose clock args.cut is.
    """
    whole = json.loads(path.read_text(), parse_float=Decimal)
    base = int(whole.get("baseTimeNanoseconds", 0))
    found: Counter[Any] = Counter()
    parts: Counter[Any] = Counter()
    for event in whole["traceEvents"]:
        if event["ph"] not in "XiC":
            continue
        start, dur = base + ns(event["ts"]), ns(event["dur"]) if "dur" in event else None
        cut = event.get("args", {}).get("cut")
        key = (start, dur) if cut is None else (origin_ns + cut["ts_ns"], cut["dur_ns"])
        key = (*key, event["ph"], event["name"], event.get("cat"))
        if cut is not None:
            parts[key] += dur or 0
        if cut is None or cut["part"] == 1:
            found[key] += 1
    return found, parts


@pytest.mark.parametrize(("names", "how"), SPLITS)
def test_each_event_is_in_the_pieces_once(tmp_path: Path, names: tuple[str, ...], how: str) -> None:
    inputs = [corpus(name) for name in names]
    tracekit.convert(inputs, tmp_path / "whole.json")
    tracekit.convert(inputs, tmp_path / "run.json", split=how)
    index = json.loads((tmp_path / "run.index.json").read_text())
    files = sorted(path.name for path in tmp_path.glob("run.0*.json"))
    assert [entry["file"] for entry in index["pieces"]] == files
    assert len(files) > 1
    found: Counter[Any] = Counter()
    parts: Counter[Any] = Counter()
    for entry in index["pieces"]:
        mine, cut = events_of(tmp_path / entry["file"], index["origin_ns"] or 0)
        found += mine
        parts += cut
        assert (tmp_path / entry["file"]).stat().st_size == entry["bytes"]
        if how.startswith("mb="):
            assert entry["bytes"] <= float(how[3:]) * 1e6
    wanted, none = events_of(tmp_path / "whole.json", 0)
    assert found == wanted
    assert not none
    # The parts of an event that was cut add up to it.
    for key, time in parts.items():
        assert time == key[1] * wanted[key]


@pytest.mark.viewer
@pytest.mark.parametrize("suffix", ["json", "pftrace"])
@pytest.mark.parametrize(("names", "how"), [(ALEXNET, "events=400"), (GLOO, "rank"), (GLOO, "step")])
def test_each_piece_opens_in_perfetto(tmp_path: Path, names: tuple[str, ...], how: str, suffix: str) -> None:
    inputs = [corpus(name) for name in names]
    tracekit.convert(inputs, tmp_path / f"whole.{suffix}")
    tracekit.convert(inputs, tmp_path / f"run.{suffix}", split=how)
    whole = perfetto(tmp_path / f"whole.{suffix}")
    index = json.loads((tmp_path / "run.index.json").read_text())
    seen = [perfetto(tmp_path / entry["file"]) for entry in index["pieces"]]
    assert all(each["accepted"] and not each["errors"] for each in seen)
    assert sum(each["slices"] for each in seen) == whole["slices"] + sum(each["continued"] for each in index["pieces"])
    for key in ("instants", "counters"):
        assert sum(each[key] for each in seen) == whole[key]
    # No time is lost where an event is cut.
    assert sum(each["sum_dur_ns"] for each in seen) == whole["sum_dur_ns"]
