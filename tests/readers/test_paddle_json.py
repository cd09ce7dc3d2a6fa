"""Paddle's JSON: exact starts rebuilt, glued durations, the .pb of the same run, broken tails, devices."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_limits import Limit, small
from support import corpus, sample, sure_readers
from trace_event_cases import Event, args_of, ledger_adds_up, ns, plain, rows, sums_by_category

import tracekit

REAL = [
    "paddle_profiler/paddle_2.6.2.paddle_trace.json",
    "paddle_profiler/paddle_2.6.2_shapes_memory.paddle_trace.json",
    "generated/paddle26/range.0.json",
    "generated/paddle26/workers.0.json",
    "generated/paddle3/all.0.json",
    "generated/paddle3/shapes_mem.0.json",
]
SAME_RUN = [
    "generated/paddle26/range.0",
    "generated/paddle26/workers.0",
    "generated/paddle3/all.0",
    "generated/paddle3/shapes_mem.0",
]


def bare(name: str) -> str:
    return re.sub(r"\[[0-9.]+ [nmu]?s\]$", "", name)


@pytest.mark.parametrize("name", REAL)
def test_every_event_is_there_with_its_exact_duration(name: str, tmp_path: Path) -> None:
    (tmp_path / "unknown").write_bytes(corpus(name).read_bytes())
    assert sure_readers(tmp_path / "unknown") == ["paddle-json"]
    events = dict(enumerate(plain(corpus(name))[0], 1))
    trace = tracekit.read(corpus(name))
    found = {r["event_id"]: r for r in rows(trace)}
    assert found.keys() == {n for n, e in events.items() if e.get("ph") not in (None, "M")}
    sums: dict[str, tuple[int, int]] = {}
    for number, row in found.items():
        event = events[number]
        assert row["ts_ns"] // 1000 == event["ts"]
        assert (row["raw_name"] or row["name"]) == bare(event["name"])
        assert row["tid"] == int(event["tid"].split("(")[0])
        said = {k: v for k, v in event["args"].items() if k not in ("start_time", "end_time", "increase_bytes")}
        have = args_of(row)
        have.pop("cat", None)
        assert have == said
        if event["ph"] == "X":
            assert row["dur_ns"] == ns(event["dur"])
            count, total = sums.get(event["cat"], (0, 0))
            sums[event["cat"]] = count + 1, total + row["dur_ns"]
    assert sums == sums_by_category(events.values())
    ledger = ledger_adds_up(corpus(name), "paddle-json")
    assert ledger["ignored"] == {"empty object": 1}
    assert not ledger["dropped"]


@pytest.mark.parametrize("stem", SAME_RUN)
def test_json_and_protobuf_of_one_run_agree_event_by_event(stem: str) -> None:
    ours, theirs = (tracekit.read(corpus(f"{stem}{end}")) for end in (".json", ".pb"))
    uncertain = ours.run.sources[0].facts["base_uncertainty_ns"]
    assert uncertain < 100

    def keyed(trace: tracekit.Trace) -> dict[tuple[Any, ...], list[Event]]:
        out: dict[tuple[Any, ...], list[Event]] = {}
        for row in rows(trace):
            key = (row["kind"], row["name"], row["pid"], row["tid"], row["step"], row["bytes"])
            out.setdefault(key, []).append(row)
        return out

    mine, other = keyed(ours), keyed(theirs)
    assert mine.keys() == other.keys()
    first = min(r["ts_ns"] for r in rows(theirs))
    for key, group in mine.items():
        assert len(group) == len(other[key])
        for a, b in zip(group, other[key], strict=True):
            assert a["ts_ns"] // 1000 == b["ts_ns"] // 1000
            if a["dur_ns"] is not None:
                assert abs(a["dur_ns"] - b["dur_ns"]) <= 4  # a 32-bit float of µs
                if b["ts_ns"] - first < 1 << 24:
                    assert abs(a["ts_ns"] - b["ts_ns"]) <= uncertain


@pytest.mark.parametrize("name", REAL)
def test_no_range_crosses_its_parent(name: str) -> None:
    ends: list[int] = []
    timed = [r for r in rows(tracekit.read(corpus(name))) if r["dur_ns"] is not None]
    for row in sorted(timed, key=lambda r: (r["ts_ns"], -r["dur_ns"])):
        while ends and ends[-1] <= row["ts_ns"]:
            ends.pop()
        assert not ends or row["ts_ns"] + row["dur_ns"] <= ends[-1]
        ends.append(row["ts_ns"] + row["dur_ns"])


def test_device_rows_calls_names_and_a_broken_tail() -> None:
    path = sample("paddle-json/gpu-broken-tail.json")
    trace = tracekit.read(path)
    found = rows(trace)
    calls = {(r["pid"], r["correlation"]) for r in found if r["kind"] in ("runtime", "driver")}
    work = [r for r in found if r["kind"] in ("kernel", "memcpy", "memset")]
    assert len(work) == 61
    assert all((r["pid"], r["correlation"]) in calls for r in work)
    assert {(r["device"], r["context"]) for r in work} == {(0, 1)}
    assert {r["stream"] for r in work} == {7, 14}
    assert {r["copy_kind"] for r in work if r["kind"] == "memcpy"} == {"HtoD", "DtoH", "DtoD"}
    assert [r["dur_ns"] for r in found if r["name"] == 'say "hi"'] == [1000]
    assert trace.run.devices == {(0, 0): "Tesla P100-PCIE-16GB"}
    assert "facts-not-read" in trace.ledgers[0].notes


def test_a_size_that_overflowed_is_no_size_and_it_is_told(tmp_path: Path) -> None:
    """Paddle prints num_bytes, which is 64 bits wide, with %d (chrometracing_logger.cc, 2.2 to 3.x)."""
    events = [
        {
            "name": "MEMCPY_HtoD[1.000 us]", "pid": 0, "tid": 7, "ts": 1795226444607652 + n, "dur": 1.0, "ph": "X",
            "cat": "Memcpy", "args": {"start_time": f"{n}.000 us", "end_time": f"{n + 1}.000 us", "bytes": size},
        }
        for n, size in enumerate((4096, -1294967296, 0))
    ]  # fmt: skip
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"schemaVersion": "1.0.2", "span_indx": "0", "traceEvents": [*events, {}]}))
    trace = tracekit.read(path)
    assert [row["bytes"] for row in rows(trace)] == [4096, None, 0]
    assert args_of(rows(trace)[1]) == {"bytes": -1294967296}
    assert trace.ledgers[0].notes["bytes-overflow"].count == 1


def test_without_start_time_starts_are_whole_microseconds_and_it_is_told(tmp_path: Path) -> None:
    events = [
        {
            "name": "a[1.722 ms]",
            "pid": 7,
            "tid": "7(Python)",
            "ts": 1795226444607652,
            "dur": 1722.441,
            "ph": "X",
            "cat": "Forward",
        },
        {},
    ]
    text = json.dumps({"schemaVersion": "1.0.0", "displayTimeUnit": "ms", "span_indx": "0", "traceEvents": events})
    (tmp_path / "x").write_text(text, encoding="utf-8")
    trace = tracekit.read(tmp_path / "x")
    assert [(r["name"], r["ts_ns"], r["dur_ns"]) for r in rows(trace)] == [("a", 1795226444607652000, 1722441)]
    assert "whole-microseconds" in trace.ledgers[0].notes


def test_memory_rows_are_signed_and_steps_have_their_number() -> None:
    found = rows(tracekit.read(corpus("generated/paddle3/shapes_mem.0.json")))
    memory = [r for r in found if r["kind"] == "memory"]
    events = [e for e in plain(corpus("generated/paddle3/shapes_mem.0.json"))[0] if e.get("name") == "[memory]"]
    assert sorted((r["name"], r["bytes"]) for r in memory) == sorted(
        (e["cat"], e["args"]["increase_bytes"]) for e in events
    )
    assert {r["raw_name"] for r in memory} == {"[memory]"}
    assert sorted(r["step"] for r in found if r["kind"] == "step") == [0, 1, 2]


def test_slabs_do_not_change_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    path = corpus("generated/paddle3/all.0.json")
    whole = rows(tracekit.read(path))
    small(monkeypatch, Limit.JSON_SLAB_BYTES, 997)
    assert rows(tracekit.read(path)) == whole


def test_the_base_of_starts_is_that_of_all_early_events_with_what_their_floats_hold(tmp_path: Path) -> None:
    """Few events lie in the first 16 ms of a run whose first step is long: the later ones tell the base as well."""
    base, starts = 1_700_000_000_000_000_437, [0, *(40_000_000 + 1_000_123 * i for i in range(200))]
    events = []
    for start in starts:
        us = np.float32(np.float32(start) / np.float32(1000))  # as Paddle makes them
        args = {"start_time": f"{us:.3f} us", "end_time": f"{us:.3f} us"}
        events.append({
            "name": "op[1.000 us]", "pid": 7, "tid": "7(C++)", "ts": (base + start) // 1000, "dur": 1.0, "ph": "X",
            "cat": "Operator", "args": args,
        })  # fmt: skip
    made = {"displayTimeUnit": "ms", "schemaVersion": "1.0.2", "span_indx": "0", "traceEvents": [*events, {}]}
    path = tmp_path / "run.paddle_trace.json"
    path.write_text(json.dumps(made), encoding="utf-8")
    trace = tracekit.read(path)
    assert trace.run.sources[0].facts["base_uncertainty_ns"] <= 20
    found = trace.events.column("ts_ns").to_pylist()
    assert max(abs(ts - base - start) for ts, start in zip(found, starts, strict=True)) <= 40


def test_launches_of_kernels_are_inner_operators_that_keep_their_type(tmp_path: Path) -> None:
    event = {
        "name": "op kernel launch[1.000 us]", "pid": 7, "tid": "7(C++)", "ts": 1_700_000_000_000_000, "dur": 1.0,
        "ph": "X", "cat": "StaticKernelLaunch", "args": {"start_time": "0.000 us", "end_time": "1.000 us"},
    }  # fmt: skip
    made = {"displayTimeUnit": "ms", "schemaVersion": "1.0.2", "span_index": "0", "traceEvents": [event, {}]}
    path = tmp_path / "run.paddle_trace.json"
    path.write_text(json.dumps(made), encoding="utf-8")
    [row] = rows(tracekit.read(path))
    assert (row["kind"], args_of(row)) == ("operator_inner", {"cat": "StaticKernelLaunch"})
