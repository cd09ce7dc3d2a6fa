"""Which step a row belongs to: by time on its thread or process, by its launch on a device; streamed and at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_limits import Limit, small
from support import corpus, sample

import tracekit
from tracekit.inputs import steps
from tracekit.inputs.selection import Selection
from tracekit.model import schema
from tracekit.model.schema import API_CALLS, DEVICE_WORK
from tracekit.model.trace import Ledger
from tracekit.readers.builder import event_batch

Row = dict[str, Any]
WITH_STEPS = [
    "kineto/gpu.pt.trace.json",
    "paddle-json/paddle26.paddle_trace.json",
    "paddle-json/paddle3-memory.paddle_trace.json",
    "paddle-pb/gpu.paddle_trace.pb",
    "paddle-pb/paddle26.paddle_trace.pb",
]


def plainly(rows: list[Row]) -> list[int | None]:
    """The rule, row by row; rows by (ts, -dur)."""
    out: list[int | None] = []
    marked = [r for r in rows if r["kind"] == "step" and r["step"] is not None]

    def running(row: Row, thread: tuple[Any, ...]) -> int | None:
        best = None
        for step in marked:
            if (step["source"], step["pid"], step["tid"]) != thread or step["dur_ns"] is None:
                continue
            inside = step["ts_ns"] <= row["ts_ns"] < step["ts_ns"] + step["dur_ns"]
            around = row["ts_ns"] == step["ts_ns"] and (row["dur_ns"] or 0) > step["dur_ns"]
            if inside and not around and (best is None or step["ts_ns"] > best["ts_ns"]):
                best = step
        return None if best is None else int(best["step"])

    threads = {(s["source"], s["pid"], s["tid"]) for s in marked}
    launches: dict[tuple[Any, ...], int] = {}
    host = []
    for row in rows:
        on_host = row["tid"] is not None or (
            row["device"] is None and row["stream"] is None and row["kind"] not in DEVICE_WORK
        )
        host.append(on_host)
        number = row["step"]
        if number is None and on_host and row["kind"] != "step":
            own = (row["source"], row["pid"], row["tid"])
            begun = [s for s in marked if (s["source"], s["pid"], s["tid"]) == own and s["ts_ns"] <= row["ts_ns"]]
            asked = [own] if begun else [t for t in threads if t[:2] == own[:2]]
            found = {n for t in asked if (n := running(row, t)) is not None}
            number = found.pop() if len(found) == 1 else None
        if number is not None and row["kind"] in API_CALLS and row["correlation"] is not None:
            launches.setdefault((row["source"], row["pid"], row["correlation"]), number)
        out.append(number)
    for place, row in enumerate(rows):
        if out[place] is None and not host[place] and row["correlation"] is not None:
            out[place] = launches.get((row["source"], row["pid"], row["correlation"]))
    return out


@st.composite
def batches_of_rows(draw: st.DrawFn) -> pa.RecordBatch:
    rows: list[Row] = []
    for _ in range(draw(st.integers(1, 30))):
        kind = draw(st.sampled_from(["step", "operator", "runtime", "kernel", "counter", "sync"]))
        row: Row = {"kind": kind, "ts_ns": draw(st.integers(0, 20)), "dur_ns": draw(st.integers(0, 8) | st.none())}
        row |= {"source": draw(st.integers(0, 1)), "pid": draw(st.sampled_from([1, None])), "step": None}
        row |= {"tid": draw(st.sampled_from([1, 2])), "device": None, "stream": None, "correlation": None}
        if kind == "step":
            row["step"] = draw(st.integers(0, 3))
        elif kind in ("kernel", "sync"):
            row |= {"tid": None, "device": 0, "stream": 7, "correlation": draw(st.integers(1, 4) | st.none())}
        elif kind == "runtime":
            row["correlation"] = draw(st.integers(1, 4) | st.none())
        elif kind == "counter":
            row["tid"] = draw(st.sampled_from([1, None]))
        rows.append(row)
    # Two steps of one thread do not begin at one time: which of them is the inner one would be a guess.
    first = {(r["source"], r["pid"], r["tid"], r["ts_ns"]): r for r in reversed(rows) if r["kind"] == "step"}
    rows = [r for r in rows if r["kind"] != "step" or any(r is one for one in first.values())]
    rows.sort(key=lambda r: (r["ts_ns"], -(r["dur_ns"] if r["dur_ns"] is not None else -1)))
    columns = {n: pa.array([r[n] for r in rows], pa.string() if n == "kind" else pa.int64()) for n in steps.COLUMNS}
    return event_batch(len(rows), columns | {"event_id": np.arange(len(rows))})


@given(batches_of_rows())
def test_steps_are_those_of_the_plain_rule(batch: pa.RecordBatch) -> None:
    made = steps.marked_table(pa.Table.from_batches([batch]))
    assert made.column("step").to_pylist() == plainly(batch.to_pylist())


@given(batches_of_rows(), st.integers(1, 30))
def test_a_stream_gives_the_same_where_calls_stand_before_their_work(batch: pa.RecordBatch, size: int) -> None:
    calls: set[Any] = set()
    keep = []
    for row in batch.to_pylist():
        key = row["source"], row["pid"], row["correlation"]
        if row["kind"] == "runtime":
            calls.add(key)
        keep.append(row["kind"] not in ("kernel", "sync") or key in calls)
    batch = batch.filter(pa.array(keep))
    pieces = [batch.slice(at, size) for at in range(0, batch.num_rows, size)]
    streamed = [n for piece in steps.marked(iter(pieces)) for n in piece.column("step").to_pylist()]
    assert streamed == steps.marked_table(pa.Table.from_batches([batch])).column("step").to_pylist()


@pytest.mark.parametrize("name", WITH_STEPS)
def test_samples_have_steps_by_the_plain_rule_however_they_are_read(name: str, tmp_path: Path) -> None:
    trace = tracekit.read(sample(name))
    rows = trace.events.to_pylist()
    want = plainly([r if r["kind"] == "step" else r | {"step": None} for r in rows])
    assert [r["step"] for r in rows] == want
    assert {n for n in want if n is not None}
    tracekit.convert(sample(name), tmp_path / "x.parquet")
    stored = tracekit.read(tmp_path / "x.parquet").events.to_pylist()
    assert sorted((r["event_id"], r["name"] or "", r["step"] or -1) for r in stored) == sorted(
        (r["event_id"], r["name"] or "", r["step"] or -1) for r in rows
    )
    only = tracekit.read(sample(name), columns=frozenset({"step"}))
    assert only.events.column_names == ["ts_ns", "dur_ns", "step"]
    assert only.events.column("step").to_pylist() == want


def test_work_of_a_gpu_is_in_the_step_of_its_launch_not_of_its_time() -> None:
    trace = tracekit.read(sample("kineto/gpu.pt.trace.json"))
    rows = trace.events.to_pylist()
    kernels = [r for r in rows if r["kind"] == "kernel"]
    assert all(r["step"] is not None for r in kernels)
    launch = {r["correlation"]: r for r in rows if r["kind"] == "runtime"}
    assert all(r["step"] == launch[r["correlation"]]["step"] for r in kernels)


@pytest.mark.parametrize("name", WITH_STEPS)
def test_the_filter_of_steps_selects_the_work_in_them(name: str, tmp_path: Path) -> None:
    rows = tracekit.read(sample(name)).events.to_pylist()
    number = max(r["step"] for r in rows if r["step"] is not None)
    selection = Selection(steps=(number, number + 1))
    want = sorted(r["event_id"] for r in rows if r["step"] == number)
    assert len(want) > 1
    trace = tracekit.read(sample(name), selection=selection)
    assert sorted(trace.events.column("event_id").to_pylist()) == want
    entry = tracekit.inspect(sample(name), selection=selection).inputs[0]
    assert entry["events"] == len(want)
    tracekit.convert(sample(name), tmp_path / "x.parquet", selection=selection)
    assert sorted(tracekit.read(tmp_path / "x.parquet").events.column("event_id").to_pylist()) == want


def test_another_filter_does_not_take_the_steps_from_the_rows_that_stay(tmp_path: Path) -> None:
    path = sample("kineto/gpu.pt.trace.json")
    rows = tracekit.read(path).events.to_pylist()
    want = sorted((r["event_id"], r["step"]) for r in rows if r["kind"] == "kernel")
    kernels = Selection(kinds=frozenset({"kernel"}))
    tracekit.convert(path, tmp_path / "x.parquet", selection=kernels)
    for trace in (tracekit.read(path, selection=kernels), tracekit.read(tmp_path / "x.parquet")):
        assert sorted((r["event_id"], r["step"]) for r in trace.events.to_pylist()) == want


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["kineto/hta_ns_resolution_rank0.json.gz", "kineto/hta_nccl_data.json.gz"])
def test_real_traces_have_every_kernel_of_a_launch_in_a_step_in_that_step(name: str) -> None:
    events = tracekit.read(corpus(name)).events.to_pylist()
    marked = [r for r in events if r["kind"] == "step"]
    assert marked
    launch = {r["correlation"]: r for r in events if r["kind"] in API_CALLS and r["correlation"]}
    checked = 0
    for row in events:
        if row["kind"] == "kernel" and row["correlation"] in launch:
            assert row["step"] == launch[row["correlation"]]["step"]
            checked += row["step"] is not None
    assert checked


def test_device_work_far_behind_its_launch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.PENDING_LAUNCHES, 2)
    kinds = ["step", *["runtime"] * 4, *["kernel"] * 4]
    ids = [None, 1, 2, 3, 4, 1, 2, 3, 4]
    work = [k == "kernel" for k in kinds]
    batch = event_batch(
        9,
        {
            "ts_ns": np.arange(9), "dur_ns": pa.array([100] + [1] * 8), "kind": pa.array(kinds),
            "event_id": np.arange(9),
            "source": 0, "pid": 5, "tid": pa.array([None if w else 6 for w in work], pa.int64()),
            "stream": pa.array([7 if w else None for w in work], pa.int64()), "correlation": pa.array(ids),
            "step": pa.array([3] + [None] * 8, pa.int32()),
        },
    )  # fmt: skip
    ledger = Ledger()
    pieces = [batch.slice(at, 1) for at in range(9)]
    found = [n for piece in steps.marked(iter(pieces), ledger) for n in piece.column("step").to_pylist()]
    assert found == [3, 3, 3, 3, 3, None, None, 3, 3]
    assert ledger.notes["steps-unknown"].count == 2


def test_totals_and_empty_batches_pass() -> None:
    totals = pa.RecordBatch.from_pylist([], schema=schema.TOTALS)
    empty = event_batch(0, {})
    assert [b.schema for b in steps.marked(iter([totals, empty]))] == [schema.TOTALS, schema.EVENTS]


def test_a_kineto_file_with_the_steps_of_two_threads(tmp_path: Path) -> None:
    def slice_of(name: str, tid: int, ts: int, dur: int, cat: str = "cpu_op") -> Row:
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur}

    marks = [("ProfilerStep#1", 1, 0, 10), ("ProfilerStep#1", 2, 2, 10), ("ProfilerStep#2", 1, 10, 10)]
    events = [slice_of(*m, cat="user_annotation") for m in marks]
    events += [slice_of("a", 3, 5, 1), slice_of("b", 3, 11, 1), slice_of("c", 2, 13, 1), slice_of("d", 3, 13, 1)]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}), encoding="utf-8")
    found = {r["name"]: r["step"] for r in tracekit.read(path).events.to_pylist()}
    # b: thread 1 is in step 2, thread 2 still in step 1. c: its own thread is between steps.
    assert {n: found[n] for n in "abcd"} == {"a": 1, "b": None, "c": None, "d": 2}
