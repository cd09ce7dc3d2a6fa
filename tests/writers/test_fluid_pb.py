"""Profiles that we write: what we read comes back, allocations are joined, nothing vanishes unsaid."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import corpus, sample

import tracekit
from tracekit.messages import messages
from tracekit.model import schema
from tracekit.model.trace import Run, Trace, concat
from tracekit.readers.builder import RowBuilder

CLASSES = messages("profile")


def trace_of(*rows: dict[str, Any]) -> Trace:
    builder = RowBuilder()
    for number, row in enumerate(rows, 1):
        builder.add(**{"event_id": number, "source": 0, "name": "x", "kind": "operator", "pid": 1, "tid": 2} | row)
    return Trace(concat([builder.take()], schema.EVENTS), run=Run(origin_ns=0))


def decoded(path: Path) -> Any:
    return CLASSES["Profile"].FromString(path.read_bytes())


def comparable(trace: Trace) -> Counter[tuple[Any, ...]]:
    rows = trace.events.drop_columns(["event_id", "raw_name"]).to_pylist()
    return Counter(tuple((row | {"args": None} if row["kind"] == "memory" else row).items()) for row in rows)


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name", ["paddle_fluid/fluid_profile_all.prof", "generated/paddle18_fluid/cpu_max_allopdetail.pb"]
)
def test_real_profiles_come_back_equal(name: str, tmp_path: Path) -> None:
    tracekit.convert(corpus(name), tmp_path / "again.prof")
    before, after = decoded(corpus(name)), decoded(tmp_path / "again.prof")
    for field in ("events", "mem_events"):
        assert Counter(m.SerializeToString() for m in getattr(before, field)) == Counter(
            m.SerializeToString() for m in getattr(after, field)
        )
    assert after.start_ns == min([e.start_ns for e in before.events] + [m.start_ns for m in before.mem_events])


def test_api_calls_device_work_and_blocks_come_back(tmp_path: Path) -> None:
    before = tracekit.read(sample("fluid-pb/gpu.prof"))
    written = tracekit.write(before, tmp_path / "x.prof")
    assert written.left_out == {}
    assert comparable(tracekit.read(tmp_path / "x.prof")) == comparable(before)
    calls = [e for e in decoded(tmp_path / "x.prof").events if e.device_id == -1]
    assert len(calls) == 76


def test_the_newer_profiler_s_allocations_are_joined_by_address(tmp_path: Path) -> None:
    written = tracekit.convert(sample("paddle-pb/gpu.paddle_trace.pb"), tmp_path / "x.prof", to="fluid-pb").written
    (memory,) = decoded(tmp_path / "x.prof").mem_events
    assert (memory.bytes, memory.place, memory.end_ns > memory.start_ns) == (4096, 0, True)
    assert any("correlation" in note and "launch shape" in note for note in written.notes)


def test_an_allocation_never_freed_ends_with_the_trace_and_a_lone_free_is_not_written(tmp_path: Path) -> None:
    memory = {"kind": "memory", "dur_ns": None}
    written = tracekit.write(
        trace_of(
            {"ts_ns": 1, "dur_ns": 50},
            {"ts_ns": 2, **memory, "bytes": 8, "args": '{"addr":1}'},
            {"ts_ns": 3, **memory, "bytes": -8, "args": '{"addr":2}'},
            {"ts_ns": 4, **memory, "bytes": 8},
            {"ts_ns": 5, **memory, "bytes": 8, "name": "ReservedAllocate", "args": '{"addr":1}'},
        ),
        tmp_path / "x.prof",
    )
    (memory_event,) = decoded(tmp_path / "x.prof").mem_events
    assert memory_event.end_ns == 51
    assert written.left_out == {
        "a free without its allocation": 1, "an allocation without its address": 1, "reserved memory": 1,
    }  # fmt: skip
    assert any("never freed" in note for note in written.notes)


def test_rows_that_a_profile_cannot_hold_are_counted_by_reason(tmp_path: Path) -> None:
    written = tracekit.write(
        trace_of(
            {"ts_ns": 1, "dur_ns": 5},
            {"ts_ns": 2, "kind": "counter", "value": 3.0},
            {"ts_ns": 4},
            {"ts_ns": 5, "dur_ns": -5},
            {"ts_ns": -6, "dur_ns": 5},
        ),
        tmp_path / "x.prof",
    )
    assert written.events == 1
    assert written.left_out == {
        "kind counter": 1, "no duration": 1, "negative duration": 1, "starts before the clock's zero": 1,
    }  # fmt: skip


def test_a_trace_without_rows_is_a_profile_without_events(tmp_path: Path) -> None:
    tracekit.write(Trace(schema.EVENTS.empty_table()), tmp_path / "x.prof")
    assert tracekit.read(tmp_path / "x.prof").events.num_rows == 0


def timeline(profile: Any) -> tuple[dict[tuple[int, str], int], list[tuple[int, str, int, int, int]], list[int]]:
    """What Paddle's tools/timeline.py makes of a profile: lanes by (device_id, kind), slices, memory in use.

    It knows the types CPU and GPUKernel and the first three places alone, and stops with an error at any other.
    """
    kinds = {0: "CPU", 1: "GPUKernel"}
    lanes: dict[tuple[int, str], int] = {}
    for event in profile.events:
        lanes.setdefault((event.device_id, kinds[event.type]), len(lanes))
    slices = [
        (lanes[e.device_id, kinds[e.type]], e.name, e.sub_device_id, e.start_ns, e.end_ns - e.start_ns)
        for e in profile.events
    ]
    steps: Counter[int] = Counter()
    for memory in profile.mem_events:
        assert memory.place in (0, 1, 2)
        steps[memory.start_ns] += memory.bytes
        steps[memory.end_ns] -= memory.bytes
    in_use, total = [], 0
    for time in sorted(steps):
        total += steps[time]
        in_use.append(total)
    return lanes, slices, in_use


@pytest.mark.parametrize(
    "name",
    ["fluid-pb/gpu.prof", "fluid-pb/paddle18-alloc.pb", "kineto/gpu.pt.trace.json", "nvprof-sqlite/version-8.nvvp"],
)
def test_paddles_own_timeline_tool_finds_all_ranges_on_their_lanes(name: str, tmp_path: Path) -> None:
    before = tracekit.read(sample(name))
    tracekit.write(before, tmp_path / "x.prof")
    lanes, slices, in_use = timeline(decoded(tmp_path / "x.prof"))
    rows = [
        row for row in before.events.to_pylist() if row["dur_ns"] is not None and row["kind"] not in ("memory", "mark")
    ]
    assert len(slices) == len(rows) > 0
    assert sum(dur for *_, dur in slices) == sum(row["dur_ns"] for row in rows)
    assert all(dur >= 0 for *_, dur in slices)
    devices = {row["device"] for row in rows if row["kind"] in ("kernel", "memcpy", "memset")}
    assert {device for device, kind in lanes if kind == "GPUKernel"} == devices
    assert ((-1, "CPU") in lanes) is any(row["kind"] in ("runtime", "driver") for row in rows)
    assert all(total >= 0 for total in in_use)
    assert in_use[-1:] in ([], [0])
