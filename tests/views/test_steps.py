from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus, sample
from views.tables import dicts, event_rows, on_trace, trace, union

from tracekit.api import read
from tracekit.model.report import Series
from tracekit.model.trace import Run, SourceFacts, Trace
from tracekit.pipeline import render, summary
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

STEPS = on_trace(VIEWS["steps"])
KINDS = ("step", "step", "kernel", "memcpy", "operator", "communication")


def step(at: int, takes: int, number: int | None = None, **more: Any) -> dict[str, Any]:
    return {"ts_ns": at, "dur_ns": takes, "kind": "step", "step": number, "name": f"ProfilerStep#{number}", **more}


def in_a_row(times: list[int], gap: int = 1) -> list[dict[str, Any]]:
    at, rows = 0, []
    for number, takes in enumerate(times):
        rows.append(step(at, takes, number))
        at += takes + gap
    return rows


def test_warm_up_and_outliers_are_found_named_and_kept_out_of_the_steady_statistics() -> None:
    section = STEPS(trace(*in_a_row([900, 300, 100, 101, 99, 100, 250, 100, 60, 100])), ViewOptions())
    times, every = section.tables
    assert [(r["which"], r["steps"], r["p50"], r["max"]) for r in dicts(times)] == [
        ("all", 10, 100, 900), ("after warm-up", 8, 100, 250), ("warm-up", 2, 300, 900),
    ]  # fmt: skip
    said = [r["said"] for r in dicts(every)]
    assert said == ["warm-up", "warm-up", None, None, None, None, "slow", None, "fast", None]
    assert "the first 2 steps are warm-up: up to 900 ns, with a median of 100 ns after it" in section.notes
    assert "2 outliers, beyond 95 ns to 105 ns: step 6 (250 ns), step 8 (60 ns)" in section.notes
    (figure,) = section.figures
    assert isinstance(figure, Series)
    assert figure.marks == ((0, "warm-up"), (1, "warm-up"), (6, "slow"), (8, "fast"))
    assert figure.levels == (("median", 100),)


def test_device_work_counts_inside_a_step_once_and_gaps_are_told() -> None:
    rows = [
        step(0, 100, 0), step(110, 100, 1),
        {"ts_ns": 90, "dur_ns": 30, "device": 0}, {"ts_ns": 95, "dur_ns": 30, "device": 1, "kind": "memcpy"},
        {"ts_ns": 500, "dur_ns": 30},
    ]  # fmt: skip
    times, every = STEPS(trace(*rows), ViewOptions()).tables
    assert [(r["gap"], r["busy_time"], r["busy"]) for r in dicts(every)] == [(None, 10, 0.1), (10, 15, 0.15)]
    assert [r["busy"] for r in dicts(times)] == [0.125]


def test_ranks_and_inputs_stand_apart_in_order_of_rank() -> None:
    rows = [step(0, 10 + r, 0, rank=r, source=s) for s, r in ((0, 1), (1, 0), (1, 0))]
    run = Run(origin_ns=0, sources=[SourceFacts("x/a", "f"), SourceFacts("x/b", "f")])
    section = STEPS(trace(*rows, run=run), ViewOptions())
    assert [(r["owner"], r["steps"], r["avg"]) for r in dicts(section)] == [("rank 0", 1, 10), ("rank 1", 1, 11)]
    assert "1 step inside another step skipped: the outer one counts them" in section.notes
    rows = [step(0, 10, 0, pid=pid) for pid in (7, 3)]
    assert [r["owner"] for r in dicts(STEPS(trace(*rows), ViewOptions()))] == ["process 3", "process 7"]


@given(rows=event_rows(KINDS), top=st.integers(0, 3))
def test_every_figure_equals_that_of_plain_python(rows: list[dict[str, Any]], top: int) -> None:
    made = trace(*rows)
    section = STEPS(made, ViewOptions(top=top))
    steps = [r for r in rows if r["kind"] == "step" and r["dur_ns"] is not None]
    if not steps:
        assert section.tables == ()
        return
    times, every = section.tables
    assert sum(r["steps"] for r in dicts(times) if r["which"] == "all") + times.omitted >= len(dicts(every))
    whole = STEPS(made, ViewOptions())
    for row in dicts(whole.tables[1]):
        assert row["time"] in [max(s["dur_ns"], 0) for s in steps]
        if row.get("busy") is not None:
            assert 0 <= row["busy"] <= 1
    total = sum(r["time"] for r in dicts(whole.tables[1]))
    assert total == sum(r["total"] for r in dicts(whole.tables[0]) if r["which"] == "all")


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=8),
)
def test_busy_is_the_union_inside_the_step(steps: list[tuple[int, int]], work: list[tuple[int, int]]) -> None:
    rows = [step(a, d, i, tid=i) for i, (a, d) in enumerate(steps)]
    made = trace(*rows, *({"ts_ns": a, "dur_ns": d} for a, d in work))
    for row in dicts(STEPS(made, ViewOptions()).tables[1]):
        first, takes = steps[row["step"]]
        inside = [(max(a, first), min(a + d, first + takes)) for a, d in work]
        assert row["busy_time"] == union(inside)


@given(rows=event_rows(KINDS))
def test_the_columns_that_the_view_names_are_enough(rows: list[dict[str, Any]]) -> None:
    whole = trace(*rows)
    keep = [c for c in whole.events.schema.names if c in VIEWS["steps"].columns]
    assert STEPS(Trace(whole.events.select(keep), whole.totals, whole.run), ViewOptions()) == STEPS(
        whole, ViewOptions()
    )


@pytest.mark.parametrize("rows", [(), ({"dur_ns": 5},), (step(0, 5, 1) | {"dur_ns": None},)])
def test_without_steps_there_is_a_note_with_a_hint(rows: tuple[dict[str, Any], ...]) -> None:
    section = STEPS(trace(*rows), ViewOptions())
    assert section.tables == ()
    assert section.notes[0].startswith("needs step events")
    assert "torch.profiler" in section.notes[1]
    totals = STEPS(trace(totals=({"name": "a", "calls": 1, "total_ns": 5},)), ViewOptions())
    assert totals.tables == ()
    assert totals.notes[0].startswith("needs step events")


def test_columns_sort_and_unknown_ones_are_refused() -> None:
    made = trace(*in_a_row([5, 9, 7]))
    assert [r["time"] for r in dicts(STEPS(made, ViewOptions(sorted_by="time")).tables[1])] == [9, 7, 5]
    assert [r["time"] for r in dicts(STEPS(made, ViewOptions()).tables[1])] == [5, 9, 7]


def test_steps_of_no_length_divide_nothing() -> None:
    section = STEPS(trace(step(0, 0, 0), {"dur_ns": 3}), ViewOptions())
    assert dicts(section.tables[1])[0]["busy"] is None
    assert dicts(section)[0]["busy"] is None


def test_samples_are_rendered_in_every_form() -> None:
    made = summary(read([sample("recorder-log/rank0.jsonl"), sample("recorder-log/rank1.jsonl")]), views=["steps"])
    for form in ("text", "json", "csv", "markdown", "html"):
        assert "rank 1" in render(made, form)


def test_the_steps_of_a_real_kineto_file() -> None:
    section = STEPS(read(corpus("kineto/hta_ns_resolution_rank0.json.gz")), ViewOptions())
    rows = dicts(section.tables[1])
    assert [r["step"] for r in rows] == [101, 102, 103, 104, 105]
    assert all(0.8 < r["busy"] <= 1 for r in rows)
