"""The tree of host ranges, and the device work charged to what launched it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from views.hosts import RANGES, around, call, launch_of, op, programs, work
from views.tables import trace

from tracekit.index.host_tree import NO_NAME, call_paths, host
from tracekit.index.trace_index import TraceIndex
from tracekit.model.trace import Run, SourceFacts


@given(rows=programs())
def test_self_times_of_a_tree_add_up_to_its_roots(rows: list[dict[str, Any]]) -> None:
    found = host(TraceIndex(trace(*(r for r in rows if r["kind"] in RANGES))))
    roots = found.tree.parent < 0
    assert found.tree.self_ns.sum() == (found.ends - found.starts)[roots].sum()


@given(rows=programs())
def test_call_paths_have_every_range_once_and_the_self_times_of_the_tree(rows: list[dict[str, Any]]) -> None:
    index = TraceIndex(trace(*rows))
    found, paths = host(index), call_paths(index)
    names = index.events.column("name").to_pylist()
    wanted: Counter[tuple[str, ...]] = Counter()
    calls: Counter[tuple[str, ...]] = Counter()
    for place, own in enumerate(found.tree.self_ns.tolist()):
        path: list[str] = []
        at = place
        while at >= 0:
            path.insert(0, names[found.rows[at]] or NO_NAME)
            at = found.tree.parent[at]
        wanted[tuple(path)] += own
        calls[tuple(path)] += 1
    whole: list[tuple[str, ...]] = []
    for parent, name in zip(paths.parents.tolist(), paths.names, strict=True):
        whole.append((*whole[parent], name) if parent >= 0 else (name,))
    assert dict(zip(whole, paths.calls.tolist(), strict=True)) == dict(calls)
    assert dict(zip(whole, paths.self_ns.tolist(), strict=True)) == dict(wanted)


def test_steps_are_one_call_path_whatever_their_number() -> None:
    steps = [op(f"ProfilerStep#{n}", 100 * n, 100 * n + 90, "step") for n in range(3)]
    below = [op("mm", 100 * n + 10, 100 * n + 30 + n) for n in range(3)]
    paths = call_paths(TraceIndex(trace(*steps, *below)))
    assert (paths.names, paths.parents.tolist()) == (["ProfilerStep#…", "mm"], [-1, 0])
    assert (paths.calls.tolist(), paths.self_ns.tolist()) == ([3, 3], [270 - 63, 63])


@given(rows=programs())
def test_each_piece_of_device_work_is_charged_to_the_innermost_range_of_its_launch_or_to_none(
    rows: list[dict[str, Any]],
) -> None:
    made = trace(*rows)
    found = host(TraceIndex(made))
    ids = made.events.column("event_id").to_pylist()
    for piece, owner in zip(found.work.tolist(), found.owner.tolist(), strict=True):
        launch = launch_of(rows, rows[ids[piece]])
        wanted = around(rows, launch) if launch else None
        got = rows[ids[found.rows[owner]]] if owner >= 0 else None
        # Equal ranges are one as good as the other: their times say it all.
        assert (wanted is None) == (got is None)
        if wanted and got:
            assert (got["ts_ns"], got["dur_ns"], got["tid"]) == (wanted["ts_ns"], wanted["dur_ns"], wanted["tid"])


@given(rows=programs())
def test_what_is_charged_and_what_is_not_add_up_to_all_device_work(rows: list[dict[str, Any]]) -> None:
    found = host(TraceIndex(trace(*rows)))
    own, pieces = found.own_work()
    loose = found.owner < 0
    assert own.sum() + found.work_ns[loose].sum() == found.work_ns.sum()
    assert pieces.sum() + loose.sum() == found.work.size
    below = found.with_children(own)
    roots = found.tree.parent < 0
    assert below[roots].sum() == own.sum()


@given(rows=programs())
def test_values_of_a_range_and_of_all_below_it_are_those_of_a_walk(rows: list[dict[str, Any]]) -> None:
    found = host(TraceIndex(trace(*rows)))
    values = np.arange(1, found.rows.size + 1, dtype=np.int64)
    parents = found.tree.parent.tolist()
    wanted = values.tolist()
    for place in range(found.rows.size):
        at = parents[place]
        while at >= 0:
            wanted[at] += place + 1
            at = parents[at]
    assert found.with_children(values).tolist() == wanted


def test_a_launch_that_sticks_out_of_its_operator_by_rounding_still_belongs_to_it() -> None:
    found = host(TraceIndex(trace(op("a", 0, 10), call(1, 8, 12), work("k", 1, 20, 25))))
    assert found.rows[found.owner].tolist() == [0]


def test_a_driver_call_within_a_runtime_call_is_no_owner() -> None:
    rows = op("a", 0, 100), op("cudaLaunch", 10, 30, "runtime"), op("cuLaunch", 12, 20, "driver", correlation=1)
    found = host(TraceIndex(trace(*rows, work("k", 1, 50, 60))))
    assert found.rows[found.owner].tolist() == [0]


def test_correlation_ids_of_two_processes_do_not_meet() -> None:
    rows = op("a", 0, 10), call(1, 1, 2), op("b", 0, 10, pid=2), call(1, 1, 2, pid=2), work("k", 1, 5, 6, pid=2)
    made = trace(*rows)
    found = host(TraceIndex(made))
    assert made.events.column("name").to_pylist()[found.rows[found.owner][0]] == "b"


def test_frames_of_a_python_stack_are_no_ranges_but_python_operators_are() -> None:
    rows = op("frame", 0, 10, "python_op"), op("a", 2, 5)
    kineto = Run(origin_ns=0, sources=[SourceFacts("a.json", "kineto")])
    assert host(TraceIndex(trace(*rows, run=kineto))).rows.size == 1
    assert host(TraceIndex(trace(*rows))).rows.size == 2


def test_ranges_that_cross_and_device_work_without_an_owner_are_told() -> None:
    rows = op("a", 0, 10), op("b", 5, 15), call(1, 20, 21), work("k", 1, 30, 31), work("k", 2, 30, 31)
    notes = " ".join(host(TraceIndex(trace(*rows))).notes())
    assert "1 range overlaps another of the same thread in part" in notes
    assert "1 of 2 device events have no launch call" in notes
    assert "1 of 2 device events were launched outside ranges" in notes


@given(rows=programs())
def test_rows_have_the_places_that_the_column_of_all_places_has(rows: list[dict[str, Any]]) -> None:
    made = trace(*rows)
    found = host(TraceIndex(made))
    every = np.arange(made.events.num_rows)
    assert found.places_of(every).tolist() == found.places().tolist()
    assert found.places_of(every[:0]).size == 0
