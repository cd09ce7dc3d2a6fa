"""The view model: Paddle's printed tables and hand-made traces are the oracle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus
from views.hosts import Row, call, op, work
from views.tables import dicts, on_trace, trace, union

from tracekit.api import read
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

KINDS = {"step": "ProfileStep", "dataloader": "Dataloader", "forward": "Forward", "backward": "Backward",
         "optimizer": "Optimization"}  # fmt: skip


def model(*rows: Row, **options: Any) -> tuple[dict[str, Row], tuple[str, ...]]:
    section = on_trace(VIEWS["model"])(trace(*rows), ViewOptions(**options))
    return ({row["name"]: row for row in dicts(section)} if section.tables else {}), section.notes


@pytest.mark.parametrize("name", ["paddle3/all", "paddle26/range", "paddle26/workers"])
def test_paddles_model_table_of_a_cpu_run_is_ours(name: str) -> None:
    unit = "ns" if name == "paddle3/all" else "ms"
    printed = read(corpus(f"generated/{name}.summary.{unit}.op0.thr0.txt")).totals.to_pylist()
    wanted = {row["name"]: row for row in printed if row["section"].startswith("Model Summary")}
    section = on_trace(VIEWS["model"])(read(corpus(f"generated/{name}.0.pb")), ViewOptions())
    found = {row["name"]: row for row in dicts(section)}
    assert found.keys() == wanted.keys()
    for key, row in found.items():
        assert row["calls"] == wanted[key]["calls"]
        assert abs(row["total"] - wanted[key]["total_ns"]) <= (0 if unit == "ns" else 5_000)


@given(
    rows=st.lists(
        st.tuples(st.sampled_from(tuple(KINDS)), st.integers(0, 60), st.integers(0, 20), st.sampled_from((7, 8))),
        max_size=12,
    )
)
def test_phases_that_do_not_nest_are_sums_and_others_is_what_they_leave_of_the_whole(rows: list[Any]) -> None:
    apart: list[Row] = []
    ends = {(is_step, tid): 0 for is_step in (True, False) for tid in (7, 8)}
    for kind, start, length, tid in rows:
        first = ends[kind == "step", tid] + start
        ends[kind == "step", tid] = first + length
        apart.append(op(kind, first, first + length, kind, tid=tid))
    found, notes = model(*apart)
    phases = [r for r in apart if r["kind"] != "step"]
    # A range of no length is a child where it lies, also of a phase that it ends with.
    if not phases or any(r["dur_ns"] == 0 for r in apart):
        return
    ranges = {k: [(r["ts_ns"], r["ts_ns"] + r["dur_ns"]) for r in apart if r["kind"] == k] for k in KINDS}
    everything = [pair for kind in ranges.values() for pair in kind]
    span = max(b for _, b in everything) - min(a for a, _ in everything)
    time = union(everything) if ranges["step"] else span
    for kind, name in KINDS.items():
        mine = [r["dur_ns"] for r in apart if r["kind"] == kind]
        assert (name in found) == bool(mine)
        if mine:
            assert (found[name]["calls"], found[name]["total"]) == (len(mine), sum(mine))
            assert found[name]["ratio"] == union(ranges[kind]) / time
    in_phases = union([pair for kind, pairs in ranges.items() if kind != "step" for pair in pairs])
    assert found["Others"]["total"] == time - in_phases >= 0
    overlap = sum(union(pairs) for kind, pairs in ranges.items() if kind != "step") > in_phases
    assert any("their ratios do not add up" in note for note in notes) == overlap
    if not overlap:
        assert sum(row["ratio"] for name, row in found.items() if name != "ProfileStep") == pytest.approx(1)


def test_a_phase_within_a_phase_is_part_of_it() -> None:
    rows = (
        op("s", 0, 100, "step"),
        op("f", 10, 60, "forward"),
        op("g", 20, 40, "forward"),
        op("l", 25, 30, "dataloader"),
    )
    found, _ = model(*rows)
    assert {k: (r["calls"], r["total"]) for k, r in found.items()} == {
        "ProfileStep": (1, 100), "Forward": (1, 50), "Others": (None, 50),
    }  # fmt: skip


def test_work_launched_by_a_thread_without_phases_belongs_to_the_phase_that_ran() -> None:
    rows = (
        op("s", 0, 100, "step"), op("f", 0, 30, "forward"), op("b", 30, 80, "backward"),
        call(1, 5, 6), call(2, 40, 41, tid=99), call(3, 90, 91), call(4, 200, 201),
        work("k", 1, 10, 20), work("k", 2, 120, 150), work("k", 3, 150, 155), work("k", 4, 300, 301),
    )  # fmt: skip
    found, _ = model(*rows)
    assert {k: r["device_total"] for k, r in found.items()} == {
        "ProfileStep": 45, "Forward": 10, "Backward": 30, "Others": 5,
    }  # fmt: skip
    assert found["Backward"]["device_ratio"] == 30 / 45


def test_a_phase_on_no_thread_stands_apart_and_takes_nothing_from_others() -> None:
    rows = op("s", 0, 100, "step"), op("f", 10, 60, "forward"), op("p", 0, 90, "dataloader", tid=None)
    found, notes = model(*rows)
    assert found["Dataloader, without a thread"]["total"] == 90
    assert found["Others"]["total"] == 50
    assert "Phases without a thread are listed, but not subtracted from Others." in notes


def test_without_steps_ratios_are_of_the_span_and_it_is_said() -> None:
    found, notes = model(op("f", 10, 60, "forward"), op("x", 0, 100))
    assert found["Forward"]["ratio"] == 0.5
    assert "ProfileStep" not in found
    assert "no steps in this trace: ratios are of its span, 100 ns" in notes


def test_phases_that_overlap_leave_the_time_in_which_none_ran() -> None:
    rows = op("s", 0, 100, "step"), op("f", 0, 80, "forward"), op("b", 10, 90, "backward", tid=8)
    found, notes = model(*rows)
    assert {k: (r["total"], r["ratio"]) for k, r in found.items()} == {
        "ProfileStep": (100, 1.0), "Forward": (80, 0.8), "Backward": (80, 0.8), "Others": (10, 0.1),
    }  # fmt: skip
    assert "phases overlap each other (on several threads): their ratios do not add up" in notes


def test_data_that_is_loaded_between_the_steps_is_part_of_the_whole() -> None:
    # A watched loop: the step begins when the batch is there.
    rows: list[Row] = []
    for n in range(3):
        begin = 100 * n
        rows += [
            op("load", begin, begin + 60, "dataloader"),
            op("s", begin + 60, begin + 98, "step"),
            op("f", begin + 62, begin + 92, "forward"),
            call(n, begin + 10, begin + 11),
            work("copy", n, begin + 20, begin + 30),
        ]
    found, notes = model(*rows)
    assert {k: (r["total"], r["ratio"]) for k, r in found.items()} == {
        "ProfileStep": (114, 114 / 294), "Dataloader": (180, 180 / 294), "Forward": (90, 90 / 294),
        "Others": (24, 24 / 294),
    }  # fmt: skip
    assert {k: r["device_total"] for k, r in found.items()} == {
        "ProfileStep": 0, "Dataloader": 30, "Forward": 0, "Others": 0,
    }  # fmt: skip
    assert "phases ran for 180 ns outside of steps: ratios are of the time in steps and phases, 294 ns" in notes


def test_steps_alone_are_no_model() -> None:
    found, notes = model(op("s", 0, 100, "step"))
    assert not found
    assert notes[0].startswith("needs dataloader, forward, backward or optimizer events; this trace has 1 step")


def test_each_rank_is_a_block_with_ratios_of_its_own() -> None:
    rows = [op("s", 0, 100, "step", rank=r, pid=r) for r in (1, 0)]
    rows += [op("f", 0, 10 * (r + 1), "forward", rank=r, pid=r) for r in (1, 0)]
    section = on_trace(VIEWS["model"])(trace(*rows), ViewOptions())
    assert [(r["owner"], r["name"], r["ratio"]) for r in dicts(section)] == [
        ("rank 0", "ProfileStep", 1.0), ("rank 0", "Forward", 0.1), ("rank 0", "Others", 0.9),
        ("rank 1", "ProfileStep", 1.0), ("rank 1", "Forward", 0.2), ("rank 1", "Others", 0.8),
    ]  # fmt: skip
