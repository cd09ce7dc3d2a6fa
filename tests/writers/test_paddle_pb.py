"""Tree files that we write: what we read comes back, Paddle's required fields are there, nothing vanishes unsaid."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import MutableSequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus, sample

import tracekit
from tracekit.messages import STAND_IN, messages
from tracekit.model import schema
from tracekit.model.trace import Run, Trace, concat
from tracekit.readers.builder import RowBuilder

CLASSES = messages("nodetree")
ROUND = (
    "generated/paddle26/range.0.pb",
    "generated/paddle26/workers.0.pb",
    "generated/paddle3/shapes_mem.0.pb",
    "paddle_profiler/paddle_2.6.2.paddle_trace.pb",
)


def trace_of(*rows: dict[str, Any], origin: int | None = 0, run: Run | None = None) -> Trace:
    builder = RowBuilder()
    for number, row in enumerate(rows, 1):
        builder.add(**{"event_id": number, "source": 0, "name": "x", "kind": "operator", "pid": 1, "tid": 2} | row)
    run = run or Run()
    run.origin_ns = origin
    return Trace(concat([builder.take()], schema.EVENTS), run=run)


def decoded(path: Path) -> Any:
    return CLASSES["NodeTreesProto"].FromString(path.read_bytes())


def comparable(trace: Trace) -> Counter[tuple[Any, ...]]:
    """Rows without their numbers, the mangled spelling of names, and a type that only Paddle 3 has and cannot load."""
    rows = trace.events.drop_columns(["event_id", "raw_name"]).to_pylist()
    return Counter(tuple((row | {"args": None} if row["args"] == '{"type":15}' else row).items()) for row in rows)


def unset(message: Any) -> list[str]:
    """Return the fields that are not set: Paddle 2.6.2 declares all of them required, but for the three infos."""
    missing = []
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if isinstance(value, MutableSequence):
            for each in value if field.message_type else ():
                missing += unset(each)
        elif not message.HasField(field.name):
            missing += [] if field.name in ("kernel_info", "memcpy_info", "memset_info") else [field.full_name]
        elif field.message_type:
            missing += unset(value)
    return missing


@pytest.mark.corpus
@pytest.mark.parametrize("name", ROUND)
def test_real_files_come_back_equal(name: str, tmp_path: Path) -> None:
    before = tracekit.read(corpus(name))
    tracekit.convert(corpus(name), tmp_path / "again.paddle_trace.pb")
    after = tracekit.read(tmp_path / "again.paddle_trace.pb")
    assert comparable(after) == comparable(before)
    assert after.run.threads == before.run.threads
    assert after.run.sources[0].facts == before.run.sources[0].facts
    assert unset(decoded(tmp_path / "again.paddle_trace.pb")) == []


@pytest.mark.corpus
@pytest.mark.parametrize("name", ROUND)
def test_the_tree_is_paddle_s_own(name: str, tmp_path: Path) -> None:
    """Each range hangs below the same range, each allocation on the same one, as in the file that Paddle wrote."""
    tracekit.convert(corpus(name), tmp_path / "again.pb")

    def relations(path: Path) -> Counter[tuple[Any, ...]]:
        found: Counter[tuple[Any, ...]] = Counter()
        for tree in decoded(path).thread_trees:
            spans = {n.id: (n.host_trace_event.start_ns, n.host_trace_event.end_ns) for n in tree.host_nodes}
            for node in tree.host_nodes:
                found[tree.thread_id, node.host_trace_event.name, spans[node.id], spans.get(node.parentid)] += 1
                for each in node.mem_nodes:
                    found[tree.thread_id, each.mem_event.SerializeToString(), spans[node.id]] += 1
        return found

    assert relations(tmp_path / "again.pb") == relations(corpus(name))


def test_device_work_calls_allocations_and_supplements_come_back(tmp_path: Path) -> None:
    before = tracekit.read(sample("paddle-pb/gpu.paddle_trace.pb"))
    tracekit.convert(sample("paddle-pb/gpu.paddle_trace.pb"), tmp_path / "again.pb")
    after = tracekit.read(tmp_path / "again.pb")
    assert comparable(after) == comparable(before)
    assert after.run.devices == before.run.devices
    assert after.run.sources[0].facts == before.run.sources[0].facts
    assert unset(decoded(tmp_path / "again.pb")) == []


def test_device_work_without_a_launch_hangs_on_an_empty_call_that_reading_leaves_away(tmp_path: Path) -> None:
    before = tracekit.read(sample("nvprof-csv/gpu-trace-17-columns.csv"))
    written = tracekit.write(before, tmp_path / "x.pb")
    assert (written.events, written.left_out) == (61, {})
    assert any("no launch" in note for note in written.notes)
    calls = [c for t in decoded(tmp_path / "x.pb").thread_trees for n in t.host_nodes for c in n.runtime_nodes]
    assert {c.runtime_trace_event.name for c in calls} == {STAND_IN.encode()}
    after = tracekit.read(tmp_path / "x.pb")
    assert after.ledgers[0].ignored["stand-in-launch"] == 61
    keep = ("ts_ns", "dur_ns", "name", "kind", "device", "stream", "bytes", "grid_x", "registers")
    assert [{k: r[k] for k in keep} for r in after.events.to_pylist()] == [
        {k: r[k] for k in keep} for r in before.events.to_pylist()
    ]
    assert after.run.origin_ns is None


def test_the_first_launch_with_an_id_gets_its_work_within_source_and_process(tmp_path: Path) -> None:
    call = {"kind": "runtime", "dur_ns": 2, "correlation": 7}
    work = {"kind": "kernel", "dur_ns": 5, "tid": None, "correlation": 7, "device": 0}
    tracekit.write(
        trace_of(
            {"ts_ns": 1, "name": "a", **call},
            {"ts_ns": 4, "name": "b", **call},
            {"ts_ns": 4, "name": "c", **call, "pid": 9, "tid": 5},
            {"ts_ns": 6, "name": "ka", **work, "pid": None},
            {"ts_ns": 7, "name": "kc", **work, "pid": 9},
        ),
        tmp_path / "x.pb",
    )
    calls = [c for t in decoded(tmp_path / "x.pb").thread_trees for n in t.host_nodes for c in n.runtime_nodes]
    joined = {c.runtime_trace_event.name: [d.device_event.name for d in c.device_nodes] for c in calls}
    assert joined == {b"a": [b"ka"], b"b": [], b"c": [b"kc"]}


def test_rows_that_a_tree_cannot_hold_are_counted_by_reason(tmp_path: Path) -> None:
    written = tracekit.write(
        trace_of(
            {"ts_ns": 1, "dur_ns": 5},
            {"ts_ns": 2, "kind": "counter", "value": 3.0},
            {"ts_ns": 3, "kind": "mark"},
            {"ts_ns": 4},
            {"ts_ns": 5, "dur_ns": 5, "tid": None},
            {"ts_ns": -6, "dur_ns": 5},
        ),
        tmp_path / "x.pb",
    )
    assert written.events == 1
    assert written.left_out == {
        "kind counter": 1, "kind mark": 1, "no duration": 1, "starts before the clock's zero": 1,
        "no thread: it overlaps others, or its thread is not known": 1,
    }  # fmt: skip


def test_ranges_that_cross_keep_their_times(tmp_path: Path) -> None:
    rows = [{"ts_ns": 10, "dur_ns": 10}, {"ts_ns": 15, "dur_ns": 10}, {"ts_ns": 16, "dur_ns": 2}]
    written = tracekit.write(trace_of(*rows), tmp_path / "x.pb")
    assert any("overlap" in note for note in written.notes)
    nodes = decoded(tmp_path / "x.pb").thread_trees[0].host_nodes
    by_start = {n.host_trace_event.start_ns: n for n in nodes}
    assert by_start[15].parentid == 0
    assert by_start[16].parentid == by_start[15].id
    assert [r["dur_ns"] for r in tracekit.read(tmp_path / "x.pb").events.to_pylist()] == [10, 10, 2]


def test_threads_of_two_processes_with_one_id_stay_apart(tmp_path: Path) -> None:
    written = tracekit.write(
        trace_of({"ts_ns": 1, "dur_ns": 1, "pid": 1}, {"ts_ns": 1, "dur_ns": 1, "pid": 2}), tmp_path / "x.pb"
    )
    ids = [tree.thread_id for tree in decoded(tmp_path / "x.pb").thread_trees]
    assert len(set(ids)) == 2
    assert written.notes == ["1 threads have the same id as a thread of another process: they got new ones"]


def test_ranges_of_types_that_paddle_cannot_load_are_counted(tmp_path: Path) -> None:
    rows = [{"ts_ns": n, "dur_ns": 1, "kind": kind} for n, kind in enumerate(("other", "overhead", "operator"))]
    written = tracekit.write(trace_of(*rows), tmp_path / "x.pb")
    assert any(note.startswith("2 ranges of types that Paddle cannot load became") for note in written.notes)


def test_a_long_name_of_a_device_cannot_overrun_paddle_s_buffer(tmp_path: Path) -> None:
    run = Run(devices={(0, 0): "\u00e9" * 300})
    tracekit.write(trace_of({"ts_ns": 1, "dur_ns": 1}, run=run), tmp_path / "x.pb")
    name = decoded(tmp_path / "x.pb").device_property[0].name
    assert len(name) <= 255
    assert set(name.decode()) == {"\u00e9"}


def test_args_of_any_shape_do_no_harm(tmp_path: Path) -> None:
    odd = json.dumps(
        {"input_shapes": {"X": [[1, "a", None], 3]}, "input_dtypes": [1], "callstack": 4, "supplements": 9}
    )
    bad = json.dumps({"addr": -1, "place": 5, "occupancy": "x", "queued": 1 << 70, "value": None, "callback_id": "q"})
    tracekit.write(
        trace_of(
            {"ts_ns": 1, "dur_ns": 9, "args": odd},
            {"ts_ns": 2, "kind": "memory", "bytes": 4, "args": bad},
            {"ts_ns": 3, "dur_ns": 1, "kind": "runtime", "args": bad},
            {"ts_ns": 4, "dur_ns": 1, "kind": "kernel", "args": bad},
            {"ts_ns": 5, "dur_ns": 1, "kind": "memset", "args": "[1]"},
        ),
        tmp_path / "x.pb",
    )
    assert tracekit.read(tmp_path / "x.pb").events.num_rows == 5
    assert unset(decoded(tmp_path / "x.pb")) == []


def test_a_range_with_many_calls_goes_through_the_disk(tmp_path: Path) -> None:
    calls = [{"ts_ns": 10 + n, "dur_ns": 1, "kind": "runtime", "name": f"call {n:060}"} for n in range(3000)]
    tracekit.write(trace_of({"ts_ns": 1, "dur_ns": 10**6}, *calls), tmp_path / "x.pb")
    node = decoded(tmp_path / "x.pb").thread_trees[0].host_nodes[1]
    assert [c.runtime_trace_event.start_ns for c in node.runtime_nodes] == list(range(10, 3010))


ranges = st.lists(
    st.fixed_dictionaries({
        "ts_ns": st.integers(0, 60), "dur_ns": st.integers(0, 40), "tid": st.integers(1, 2),
        "kind": st.sampled_from(["operator", "runtime", "kernel", "memory", "other", "sync"]),
        "correlation": st.none() | st.integers(1, 4), "bytes": st.integers(0, 9),
    }), min_size=1, max_size=30,
)  # fmt: skip


@given(rows=ranges)
def test_every_row_comes_back_whatever_overlaps(
    rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = [row | {"dur_ns": None if row["kind"] == "memory" else row["dur_ns"]} for row in rows]
    path = tmp_path_factory.mktemp("w") / "x.pb"
    written = tracekit.write(trace_of(*made), path)
    assert written.events == len(rows)
    after = tracekit.read(path)
    assert after.ledgers[0].dropped == {}
    assert Counter((r["ts_ns"], r["dur_ns"]) for r in after.events.to_pylist()) == Counter(
        (r["ts_ns"], r["dur_ns"]) for r in made
    )
    for tree in decoded(path).thread_trees:
        spans = {n.id: n.host_trace_event for n in tree.host_nodes}
        assert sum(n.parentid == -1 for n in tree.host_nodes) == 1
        for node in tree.host_nodes:
            if node.parentid > 0:
                parent = spans[node.parentid]
                assert parent.start_ns <= node.host_trace_event.start_ns
                assert node.host_trace_event.end_ns <= parent.end_ns
