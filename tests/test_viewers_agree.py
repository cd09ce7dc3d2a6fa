"""The traces that our samples and real files become are opened in Perfetto's engine, the pages in Chromium."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import orjson
import pytest
from support import corpus_root, sample, without_corpus
from viewed import REAL, WITH_EVENTS, read_once
from viewers import chromium_page, perfetto

import tracekit

pytestmark = pytest.mark.viewer


def shown(text: str) -> str:
    """Perfetto takes escapes off a string only where it has an escaped quote; else it shows them as they stand."""
    raw = json.dumps(text, ensure_ascii=False)[1:-1]
    return text if '\\"' in raw else raw


def check(source: Path, target: Path) -> None:
    trace = read_once(source)
    if not trace.events.num_rows:
        return
    tracekit.convert(source, target)
    seen = perfetto(target, ["select name from slice"])
    rows = trace.events.to_pylist()
    drawn = [r for r in rows if r["kind"] not in ("counter", "flow")]
    assert seen["accepted"], seen["refusal"]
    assert seen["errors"] == {}
    assert seen["slices"] == len(drawn)
    assert (seen["sum_dur_ns"] or 0) == sum(
        max(r["dur_ns"] or 0, 0) for r in drawn
    )  # a negative one is written as 0, and told
    assert Counter(row["name"] or "" for row in seen["sql"][0]) == Counter(shown(r["name"] or "") for r in drawn)
    if source.suffix in (".json", ".gz") and (original := perfetto(source))["accepted"]:
        assert seen["flows"] >= original["flows"]


@pytest.mark.parametrize("name", WITH_EVENTS)
def test_perfetto_sees_our_counts_sums_and_names_of_each_sample(name: str, tmp_path: Path) -> None:
    check(sample(name), tmp_path / "x.json")


@pytest.mark.corpus
@pytest.mark.parametrize("name", REAL or ["nothing"])
def test_perfetto_sees_our_counts_sums_and_names_of_each_real_file(name: str, tmp_path: Path) -> None:
    if not REAL:
        without_corpus("the corpus of real files is not here (TRACEKIT_CORPUS names the folder)")
    check(corpus_root() / name, tmp_path / "x.json.gz")


@pytest.mark.parametrize(
    "name", ["nvprof-csv/gpu-and-api-trace.csv", "nvprof-csv/summary-new.csv", "recorder-log/rank0.jsonl"]
)
@pytest.mark.parametrize("width", [1300, 420])
def test_the_report_opens_without_error_request_or_overflow(name: str, width: int, tmp_path: Path) -> None:
    tracekit.write_report(tracekit.read(sample(name)), tmp_path / "r.html")
    page = chromium_page(tmp_path / "r.html", width=width)
    assert (page.console, page.page_errors, page.requests, page.overflow_px) == ([], [], [], 0)
    assert orjson.dumps(page.title)
