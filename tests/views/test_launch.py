"""The view launch: call, queue and work times and the queues of streams, held against plain Python."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from views.device_rows import Row, end, in_order, launch_of, length, traces, work_by_device
from views.tables import dicts, on_trace, statistics, trace
from views.test_breakdown import call, work

from tracekit.index.grouping import exact_sum
from tracekit.model.report import Section
from tracekit.model.trace import Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions
from tracekit.views.device import launch


def compute(made: Trace, **options: Any) -> Section:
    return on_trace(VIEWS["launch"])(made, ViewOptions(**options))


def table(section: Section, name: str) -> list[Row]:
    return next((dicts(t) for t in section.tables if t.name == name), [])


def linked(rows: list[Row]) -> list[tuple[Row, Row, bool]]:
    """Work with its call, and whether it is the first work of that call."""
    seen: set[int] = set()
    found = []
    for row in in_order(rows):
        if row["kind"] in ("kernel", "memcpy", "memset") and row["dur_ns"] is not None:
            made = launch_of(rows, row)
            if made is not None:
                found.append((row, made, made["event_id"] not in seen))
                seen.add(made["event_id"])
    return found


@settings(max_examples=150)
@given(rows=traces())
def test_times_by_name_are_those_of_each_launch(rows: list[Row]) -> None:
    groups: dict[Any, list[tuple[Row, Row, bool]]] = defaultdict(list)
    for row, made, first in linked(rows):
        groups[row["name"], row["kind"]].append((row, made, first))
    section = compute(trace(*rows))
    found = table(section, "launches")
    assert {(r["name"], r["kind"]) for r in found} == set(groups)
    for row in found:
        mine = groups[row["name"], row["kind"]]
        firsts = [(w, c) for w, c, first in mine if first]
        parts = {
            "work": [length(w) for w, _, _ in mine],
            "call": [length(c) for _, c in firsts],
            "queue": [max(w["ts_ns"] - end(c), 0) for w, c in firsts],
        }
        for part, values in parts.items():
            wanted = statistics(values) if values else {}
            for key in ("avg", "p50", "p95", "p99", "std"):
                assert row[f"{part}_{key}"] == wanted.get(key)
        assert (row["calls"], row["launches"]) == (len(mine), len(firsts))
        sums = [sum(values) for values in (parts["work"], parts["call"], parts["queue"])]
        assert [row["total"], row["call_total"], row["queue_total"]] == sums
        assert row["short"] == sum(length(w) < length(c) for w, c in firsts)
        assert row["short_share"] == (row["short"] / len(firsts) if firsts else None)


@settings(max_examples=150)
@given(rows=traces())
def test_queues_of_streams_are_those_of_each_instant(rows: list[Row]) -> None:
    groups: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for row, made, first in linked(rows):
        if first:
            groups[row["device"], row["stream"]].append((made["ts_ns"], max(row["ts_ns"], made["ts_ns"])))
    found = table(compute(trace(*rows)), "streams")
    assert {(r["device"], r["stream"]) for r in found} == set(groups)
    for row in found:
        mine = groups[row["device"], row["stream"]]
        low, high = min(a for a, _ in mine), max(b for _, b in mine)
        waiting = [sum(a <= t < b for a, b in mine) for t in range(low, high)]
        assert row["launches"] == len(mine)
        # Work that never waited was in the queue for no time, but it was.
        at_once = [1 + sum(a <= t < b for a, b in mine) for t in {a for a, b in mine if a == b}]
        assert (
            max(waiting, default=0) <= row["queue_max"] <= max([*waiting, *(n + len(mine) for n in at_once)], default=1)
        )
        if not at_once:
            assert row["queue_max"] == max(waiting)
        assert row["queue_mean"] == (round(sum(waiting) / len(waiting), 3) if waiting else None)
        first, last = low, max(a for a, _ in mine)
        rate = round((len(mine) - 1) * 1e9 / (last - first), 3) if last > first else None
        assert row["launches_per_s"] == rate


@given(rows=traces())
def test_work_whose_launch_is_not_known_is_counted_in_a_note(rows: list[Row]) -> None:
    every = sum(len(mine) for mine in work_by_device(rows).values())
    known = len(linked(rows))
    notes = " ".join(compute(trace(*rows)).notes)
    if every and not known:
        assert "needs runtime or driver calls" in notes
        assert "the launch calls of the device work are unknown" in notes
    elif known < every:
        assert f"{every - known} of {every} rows of device work have no launch call" in notes
    else:
        assert "no launch call" not in notes


def test_the_call_of_a_graph_is_charged_once_to_the_first_work() -> None:
    section = compute(trace(
        call(0, 10, 1), work(15, 5, correlation=1, pid=1), work(20, 5, correlation=1, pid=1, name="relu"),
        work(25, 5, correlation=1, pid=1),
    ))  # fmt: skip
    found = {row["name"]: row for row in table(section, "launches")}
    assert (found["gemm"]["calls"], found["gemm"]["launches"], found["gemm"]["call_total"]) == (2, 1, 10)
    assert (found["gemm"]["queue_p99"], found["gemm"]["work_avg"]) == (5, 5)
    assert (found["relu"]["calls"], found["relu"]["launches"], found["relu"]["call_avg"]) == (1, 0, None)
    assert table(section, "streams")[0]["queue_max"] == 1
    assert any(note.startswith("1 call launched more than one (CUDA graphs)") for note in section.notes)


def test_ids_that_repeat_in_another_process_or_input_join_nothing() -> None:
    # Either of the two calls stands first in the trace: of equal starts the longer one.
    for mine, other in ((20, 10), (20, 30)):
        section = compute(trace(call(0, other, 1), call(0, mine, 1, pid=2), work(30, 5, correlation=1, pid=2)))
        assert table(section, "launches")[0]["call_total"] == mine
    section = compute(trace(call(0, 10, 1, source=1), work(30, 5, correlation=1, pid=1)))
    assert section.tables == ()


def test_work_that_begins_before_its_call_is_told_and_queued_for_no_time() -> None:
    section = compute(trace(call(10, 10, 1), work(5, 30, correlation=1, pid=1)))
    (row,) = table(section, "launches")
    assert row["queue_total"] == 0
    shift = "by up to 5 ns: host and device clocks differ by that much or more; queued for 0 ns"
    assert f"1 row of device work began before the launch call, {shift}" in section.notes
    assert table(section, "streams")[0]["queue_mean"] is None


def test_work_that_starts_as_the_next_launch_begins_has_left_the_queue() -> None:
    rows = (call(0, 1, 1), work(10, 5, correlation=1, pid=1), call(10, 1, 2), work(20, 5, correlation=2, pid=1))
    (stream,) = table(compute(trace(*rows)), "streams")
    assert (stream["queue_max"], stream["queue_mean"]) == (1, 1.0)
    # Work that never waited was in the queue beside what still waits.
    at_once = (call(0, 1, 1), work(10, 5, correlation=1, pid=1), call(5, 1, 2), work(5, 2, correlation=2, pid=1))
    assert table(compute(trace(*at_once)), "streams")[0]["queue_max"] == 2


def test_a_full_queue_is_timed_and_thresholds_count_what_passes_them() -> None:
    full = launch.FULL_QUEUE
    rows = [call(n, 1, n) for n in range(full + 10)]
    rows += [work(1_000_000 + n, 1, correlation=n, pid=1) for n in range(full + 10)]
    section = compute(trace(*rows))
    (stream,) = table(section, "streams")
    assert stream["queue_max"] == full + 10
    # From the launch that fills it to the start that leaves one fewer.
    assert stream["full_time"] == 1_000_010 - (full - 1)
    (row,) = table(section, "launches")
    assert (row["late"], row["slow_calls"], row["short"]) == (full + 10, 0, 0)
    slow = call(0, launch.SLOW_CALL_NS + 1, 1)
    (row,) = table(compute(trace(slow, work(200_000, 5, correlation=1, pid=1))), "launches")
    assert (row["slow_calls"], row["short"], row["late"]) == (1, 1, 1)
    edge = call(0, launch.SLOW_CALL_NS, 1)
    (row,) = table(compute(trace(edge, work(150_000, 50_000, correlation=1, pid=1))), "launches")
    assert (row["slow_calls"], row["short"], row["late"]) == (0, 0, 0)


def test_totals_alone_and_device_work_without_calls_are_told() -> None:
    assert "only totals" in compute(trace(totals=({"name": "k", "calls": 1, "total_ns": 5},))).notes[0]
    section = compute(trace(work(0, 5)))
    assert section.tables == ()
    assert section.notes[0].startswith("needs runtime or driver calls")


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=20))
def test_a_sum_that_int64_does_not_hold_is_exact(values: list[int]) -> None:
    assert exact_sum(np.array(values, np.int64)) == sum(values)
