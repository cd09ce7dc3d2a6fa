"""A Perfetto trace that tracekit wrote is read like its Chrome trace of the same events."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import sample, sure_readers
from viewed import WITH_EVENTS

import tracekit
from tracekit.errors import TracekitError
from tracekit.model.trace import Trace

LARGEST = (1 << 63) - 1


def as_perfetto_holds(value: object) -> object:
    """Empty lists and objects, and numbers beyond int64, are text: no field of an annotation holds them."""
    if value == [] or value == {}:
        return json.dumps(value)
    if isinstance(value, dict):
        return {key: as_perfetto_holds(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_perfetto_holds(each) for each in value]
    return str(value) if isinstance(value, int) and abs(value) > LARGEST else value


def rows(trace: Trace) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in trace.events.to_pylist():
        if row["kind"] == "flow":
            continue
        own: dict[str, Any] = {key: value for key, value in row.items() if value is not None and key != "event_id"}
        if row["args"]:
            own["args"] = as_perfetto_holds(json.loads(row["args"]))
        if row["kind"] == "counter":  # a counter of Perfetto belongs to a process
            for key in ("tid", "context", "stream"):
                own.pop(key, None)
        found[json.dumps(own, sort_keys=True)] += 1
    return found


@pytest.mark.parametrize("name", WITH_EVENTS)
def test_both_traces_of_a_sample_have_the_same_rows(name: str, tmp_path: Path) -> None:
    chrome, own = tmp_path / "t.json", tmp_path / "t.pftrace"
    for target in (chrome, own):
        try:
            tracekit.convert([str(sample(name))], str(target))
        except TracekitError as err:
            if "only totals" not in str(err):
                raise
            return
    assert sure_readers(own) == ["perfetto"]
    one, other = tracekit.read(chrome), tracekit.read(own)
    assert rows(other) == rows(one)
    assert other.run.origin_ns == one.run.origin_ns
    assert not other.ledgers[0].dropped
    assert not {"packets-not-read", "fields-not-read"} & other.ledgers[0].notes.keys()
    known = {key: value for key, value in one.run.devices.items() if key[1] is not None}
    assert (other.run.devices, other.run.processes, other.run.threads) == (known, one.run.processes, one.run.threads)
    assert [source.path for source in other.run.sources] == [source.path for source in one.run.sources]


def test_arrows_between_launches_and_kernels_are_not_rows_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    tracekit.convert([str(sample("nsys-sqlite/nvtx-v2.sqlite"))], str(path))
    trace = tracekit.read(path)
    assert "flow" not in {row["kind"] for row in trace.events.to_pylist()}
    before = tracekit.read(sample("nsys-sqlite/nvtx-v2.sqlite"))
    columns = ["ts_ns", "correlation", "grid_x", "block_x", "registers", "stream"]
    assert trace.events.select(columns).to_pylist() == before.events.select(columns).to_pylist()
