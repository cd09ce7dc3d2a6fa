from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from views.tables import dicts, event_rows, on_trace, trace, union

from tracekit.errors import TracekitError
from tracekit.model.trace import Run, SourceFacts
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

OVERVIEW = on_trace(VIEWS["overview"])


def test_calls_total_union_and_share_of_a_small_trace() -> None:
    rows = (
        {"ts_ns": 0, "dur_ns": 10, "kind": "kernel", "device": 0},
        {"ts_ns": 5, "dur_ns": 10, "kind": "kernel", "device": 1},
        {"ts_ns": 20, "dur_ns": 5, "kind": "runtime"},
        {"ts_ns": 30, "kind": "mark"},
    )
    section = OVERVIEW(trace(*rows), ViewOptions())
    assert section.tables[0].rows() == [
        ["kernel", 2, 20, 15, 0.5, 0],
        ["runtime", 1, 5, 5, 5 / 30, 0],
        ["mark", 1, None, None, None, 1],
    ]
    assert section.notes == ("union: time with at least one row of the kind; share: of the span, 30 ns",)


@given(rows=event_rows())
@pytest.mark.parametrize("clocks", ["one", "one each"])
def test_every_figure_equals_that_of_plain_python(clocks: str, rows: list[dict[str, Any]]) -> None:
    run = Run(origin_ns=0 if clocks == "one" else None, sources=[SourceFacts(n, "f") for n in "abc"])
    section = OVERVIEW(trace(*rows, run=run), ViewOptions())
    if not rows:
        assert section.notes == ("needs events or totals with times; this trace has none",)
        return
    ranges = [(r, r["ts_ns"], r["ts_ns"] + max(r["dur_ns"] or 0, 0)) for r in rows]
    groups = [{0, 1, 2}] if clocks == "one" else [{0}, {1}, {2}]
    span = 0
    for group in groups:
        mine = [(a, b) for r, a, b in ranges if r["source"] in group]
        span += max(b for _, b in mine) - min(a for a, _ in mine) if mine else 0
    found = {row["kind"]: row for row in dicts(section)}
    assert set(found) == {row["kind"] for row in rows}
    for kind, row in found.items():
        timed = [(r, a, b) for r, a, b in ranges if r["kind"] == kind and r["dur_ns"] is not None]
        assert row["calls"] == sum(r["kind"] == kind for r in rows)
        assert row["untimed"] == row["calls"] - len(timed)
        assert row["total"] == (sum(b - a for _, a, b in timed) if timed else None)
        covered = sum(union([(a, b) for r, a, b in timed if r["source"] in group]) for group in groups)
        assert row["union"] == (covered if timed else None)
        assert row["share"] == (covered / span if timed and span else None)
    assert ("inputs or runs that share no clock: unions and spans of each are added" in section.notes) == (
        clocks != "one" and len({r["source"] for r in rows}) > 1
    )


def test_many_inputs_without_a_common_clock_add_their_spans() -> None:
    rows = [{"ts_ns": 1000 * s, "dur_ns": 2, "source": s} for s in range(20)]
    run = Run(sources=[SourceFacts(f"{s}.csv", "f") for s in range(20)])
    section = OVERVIEW(trace(*rows, run=run), ViewOptions())
    assert section.tables[0].rows() == [["kernel", 20, 40, 40, 1.0, 0]]


def test_made_up_starts_give_no_union_and_the_input_is_named() -> None:
    facts = [SourceFacts("old.log", "cuda-profile", synthetic_time=True), SourceFacts("new.log", "cuda-profile")]
    rows = (
        {"ts_ns": 0, "dur_ns": 100, "kind": "memcpy", "source": 0},
        {"ts_ns": 0, "dur_ns": 100, "source": 0},
        {"ts_ns": 3, "dur_ns": 4, "source": 1},
    )
    section = OVERVIEW(trace(*rows, run=Run(origin_ns=0, sources=facts)), ViewOptions())
    assert section.tables[0].rows() == [["kernel", 2, 104, 4, 1.0, 0], ["memcpy", 1, 100, None, None, 0]]
    assert "old.log: durations without starts, which count only for calls and totals" in section.notes


def test_durations_below_zero_and_totals_beside_events_are_told() -> None:
    totals = ({"name": "a", "calls": 1, "total_ns": 5},)
    section = OVERVIEW(trace({"dur_ns": -5}, {"dur_ns": 2}, totals=totals), ViewOptions())
    assert section.tables[0].rows() == [["kernel", 2, 2, 2, 1.0, 0]]
    assert "1 row has a duration below zero, counted as 0" in section.notes
    assert "counted from events, not from the 1 row of totals beside them" in section.notes


def test_totals_alone_give_calls_and_total_by_kind_and_no_counters_are_added() -> None:
    totals = (
        {"name": "a", "calls": 3, "total_ns": 50},
        {"name": "b", "calls": 2, "total_ns": 20},
        {"name": "cudaFree", "kind": "runtime", "section": "API calls", "calls": 1, "total_ns": 9},
        {"name": "a", "section": "metrics", "calls": 3, "value_avg": 1.0},
    )
    section = OVERVIEW(trace(totals=totals), ViewOptions())
    assert section.tables[0].rows() == [["runtime", "API calls", 1, 9], ["kernel", "GPU activities", 5, 70]]
    assert section.notes == (
        "from totals that the profiler had summed itself: without starts there is no union and no share",
    )


def test_what_a_printed_report_says_of_the_whole_is_shown_even_without_a_table() -> None:
    whole = {"name": "Average Forward pass", "section": "header", "kind": "forward", "calls": 1, "total_ns": 70}
    layer = {"name": "conv1", "section": "layers", "kind": "forward", "calls": 1, "total_ns": 50}
    alone = OVERVIEW(trace(totals=(whole,)), ViewOptions())
    assert [table.rows() for table in alone.tables] == [[["Average Forward pass", 1, 70]]]
    both = OVERVIEW(trace(totals=(whole, layer)), ViewOptions())
    assert [table.rows() for table in both.tables] == [[["forward", 1, 50]], [["Average Forward pass", 1, 70]]]


def test_metrics_alone_are_nothing_to_show() -> None:
    made = trace(totals=({"name": "a", "section": "metrics", "calls": 3, "value_avg": 1.0},))
    assert OVERVIEW(made, ViewOptions()).tables == ()


def test_sums_beyond_int64_and_unknown_columns_are_errors() -> None:
    with pytest.raises(TracekitError, match="the durations add up"):
        OVERVIEW(trace(*[{"dur_ns": (1 << 62) - 1}] * 3), ViewOptions())


def test_many_inputs_with_made_up_starts_alone_give_totals() -> None:
    rows = [{"dur_ns": 2, "source": s} for s in range(20)]
    run = Run(sources=[SourceFacts(f"{s}.log", "f", synthetic_time=True) for s in range(20)])
    section = OVERVIEW(trace(*rows, run=run), ViewOptions())
    assert section.tables[0].rows() == [["kernel", 20, 40, None, None, 0]]
    assert any(note.startswith("0.log, 1.log, 2.log ...: durations without starts") for note in section.notes)
    assert not [note for note in section.notes if "of the span" in note]


def test_runs_in_one_file_stand_on_clocks_of_their_own() -> None:
    facts = SourceFacts("a.csv", "nvprof-csv", facts={"runs": [{"pid": 1}, {"pid": 2}]})
    rows = ({"ts_ns": 0, "dur_ns": 10, "pid": 1}, {"ts_ns": 5, "dur_ns": 10, "pid": 2})
    section = OVERVIEW(trace(*rows, run=Run(sources=[facts])), ViewOptions())
    assert section.tables[0].rows() == [["kernel", 2, 20, 20, 1.0, 0]]
    assert "inputs or runs that share no clock: unions and spans of each are added" in section.notes
    on_one_clock = OVERVIEW(trace(*rows, run=Run(origin_ns=0, sources=[facts])), ViewOptions())
    assert on_one_clock.tables[0].rows() == [["kernel", 2, 20, 15, 1.0, 0]]
