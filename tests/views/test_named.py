"""The views kernel and api: the table of durations by name."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from views.tables import dicts, event_rows, on_trace, statistics, trace

from tracekit.errors import TracekitError
from tracekit.model.trace import Run, SourceFacts
from tracekit.views import VIEWS, specs
from tracekit.views.base import ViewOptions
from tracekit.views.tables import kernel

KERNEL, API = on_trace(VIEWS["kernel"]), on_trace(VIEWS["api"])


@given(rows=event_rows())
@pytest.mark.parametrize(("view", "kinds"), [("kernel", {"kernel"}), ("api", {"runtime", "driver", "sync"})])
def test_statistics_equal_those_of_plain_python(view: str, kinds: set[str], rows: list[dict[str, Any]]) -> None:
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row in rows:
        if row["kind"] in kinds and row["dur_ns"] is not None:
            key = (row["name"],) if view == "kernel" else (row["name"], row["kind"])
            groups[key].append(max(row["dur_ns"], 0))
    section = on_trace(VIEWS[view])(trace(*rows), ViewOptions())
    if not groups:
        assert not section.tables
        assert section.notes[0].startswith("needs ")
        return
    whole = sum(sum(v) for v in groups.values())
    found = dicts(section)
    assert len(found) == len(groups)
    for row in found:
        values = groups[(row["name"],) if view == "kernel" else (row["name"], row["kind"])]
        wanted = statistics(values)
        assert {k: row[k] for k in wanted} == wanted
        assert row["ratio"] == (float(Fraction(sum(values), whole)) if whole else None)
    totals = [row["total"] for row in found]
    assert totals == sorted(totals, reverse=True)


@given(rows=event_rows(("kernel",)))
def test_a_trace_of_kernels_alone_has_the_table_of_one_with_other_rows(rows: list[dict[str, Any]]) -> None:
    timed = [row for row in rows if row["dur_ns"] is not None]
    if timed:
        other = {**timed[0], "kind": "mark", "event_id": len(rows)}
        section = KERNEL(trace(*timed), ViewOptions())
        assert section == KERNEL(trace(*timed, other), ViewOptions())
        assert sum(row["calls"] for row in dicts(section)) == len(timed)


@given(rows=event_rows(("kernel", "runtime")), seed=st.randoms(use_true_random=False))
def test_the_order_of_events_and_of_dictionaries_changes_nothing(rows: list[dict[str, Any]], seed: Any) -> None:
    shuffled = list(rows)
    seed.shuffle(shuffled)
    for compute in (KERNEL, API):
        for options in (ViewOptions(), ViewOptions(sorted_by="calls", top=2), ViewOptions(thread_sep=True)):
            assert compute(trace(*rows), options) == compute(trace(*shuffled), options)


def test_rows_without_a_duration_are_told_and_not_counted() -> None:
    section = KERNEL(trace({"name": "a", "dur_ns": 4}, {"name": "a"}, {"name": "b"}), ViewOptions())
    assert [(row["name"], row["calls"]) for row in dicts(section)] == [("a", 1)]
    assert "2 kernels have no duration and are not counted" in section.notes


def test_a_duration_below_zero_counts_as_zero_and_is_told() -> None:
    section = KERNEL(trace({"name": "a", "dur_ns": 4}, {"name": "a", "dur_ns": -4}), ViewOptions())
    assert dicts(section)[0]["total"] == 4
    assert dicts(section)[0]["min"] == 0
    assert "1 kernel has a duration below zero, counted as 0" in section.notes


def test_kernels_that_have_no_duration_at_all_are_nothing_to_show_with_the_reason() -> None:
    section = KERNEL(trace({"name": "a"}), ViewOptions())
    assert not section.tables
    assert section.notes == (
        "needs kernel events with a duration; this trace has none",
        "1 kernel has no duration and is not counted",
    )


def test_sums_beyond_int64_are_an_error_and_not_a_wrong_number() -> None:
    rows = [{"name": "a", "dur_ns": (1 << 62) - 1}] * 3
    with pytest.raises(TracekitError, match="292 years"):
        KERNEL(trace(*rows), ViewOptions())


class TestOrder:
    ROWS = (
        {"name": "b", "dur_ns": 5},
        {"name": "a", "dur_ns": 5},
        {"name": "c", "dur_ns": 1},
        {"name": "c", "dur_ns": 2},
        {"name": None, "dur_ns": 5},
    )

    def names(self, **options: Any) -> list[Any]:
        return [row["name"] for row in dicts(KERNEL(trace(*self.ROWS), ViewOptions(**options)))]

    def test_equal_totals_stand_by_name_and_the_nameless_last(self) -> None:
        assert self.names() == ["a", "b", None, "c"]

    def test_numbers_descend_and_a_minus_turns_them_around(self) -> None:
        assert self.names(sorted_by="calls") == ["c", "a", "b", None]
        assert self.names(sorted_by="-calls") == ["a", "b", None, "c"]

    def test_text_ascends_and_a_minus_turns_it_around_with_nulls_last_both_ways(self) -> None:
        assert self.names(sorted_by="name") == ["a", "b", "c", None]
        assert self.names(sorted_by="-name") == ["c", "b", "a", None]

    def test_a_column_of_other_views_is_a_note_since_a_summary_has_one_key_for_all(self) -> None:
        section = KERNEL(trace(*self.ROWS), ViewOptions(sorted_by="-bandwidth"))
        assert "no column bandwidth here: the table keeps its own order" in section.notes
        assert [row["name"] for row in dicts(section)] == ["a", "b", None, "c"]

    def test_top_keeps_the_first_rows_counts_the_others_and_leaves_ratios_of_all(self) -> None:
        table = KERNEL(trace(*self.ROWS), ViewOptions(top=1)).tables[0]
        assert len(table) == 1
        assert table.omitted == 3
        assert dicts(table)[0]["ratio"] == 5 / 18

    def test_a_top_above_the_number_of_rows_omits_nothing(self) -> None:
        assert KERNEL(trace(*self.ROWS), ViewOptions(top=9)).tables[0].omitted == 0


class TestThreads:
    RUN = Run(origin_ns=0, sources=[SourceFacts("a", "x"), SourceFacts("b", "x")], threads={(0, 1, 7): "loader"})
    ROWS = tuple(
        {"name": name, "kind": "runtime", "dur_ns": dur, "pid": 1, "tid": tid, "source": source}
        for name, dur, tid, source in (
            ("m", 2, 7, 0),
            ("n", 6, 7, 0),
            ("m", 4, 8, 0),
            ("m", 3, 7, 1),
            ("m", 1, None, 0),
        )
    )

    def test_each_thread_is_a_block_with_ratios_of_its_own(self) -> None:
        found = dicts(API(trace(*self.ROWS, run=self.RUN), ViewOptions(thread_sep=True)))
        assert [(r["thread"], r["source"], r["name"], r["total"], r["ratio"]) for r in found] == [
            ("loader", "a", "n", 6, 0.75),
            ("loader", "a", "m", 2, 0.25),
            ("thread 8", "a", "m", 4, 1.0),
            ("no thread known", "a", "m", 1, 1.0),
            ("thread 7", "b", "m", 3, 1.0),
        ]

    def test_top_keeps_rows_of_each_thread(self) -> None:
        table = API(trace(*self.ROWS, run=self.RUN), ViewOptions(thread_sep=True, top=1)).tables[0]
        assert [r["name"] for r in dicts(table)] == ["n", "m", "m", "m"]
        assert table.omitted == 1

    def test_a_key_of_sort_goes_before_the_blocks(self) -> None:
        found = dicts(API(trace(*self.ROWS, run=self.RUN), ViewOptions(thread_sep=True, sorted_by="total")))
        assert [r["total"] for r in found] == [6, 4, 3, 2, 1]

    def test_kernels_say_that_they_have_no_threads(self) -> None:
        section = KERNEL(trace({"name": "k", "dur_ns": 1}), ViewOptions(thread_sep=True))
        assert "kernels run on streams, not on threads: one block for all" in section.notes


class TestTotals:
    def test_totals_serve_where_there_are_no_events_and_the_section_says_so(self) -> None:
        rows = (
            {"name": "a", "calls": 3, "total_ns": 997440, "avg_ns": 332480.5, "min_ns": 321728, "max_ns": 342432},
            {"name": "b", "calls": 1, "total_ns": 2560},
            {"name": "[CUDA memset]", "kind": "memset", "calls": 1, "total_ns": 7},
            {"name": "a", "section": "metrics", "calls": 3, "value_avg": 1.5},
        )
        section = KERNEL(trace(totals=rows), ViewOptions())
        assert section.notes == ("from totals that the profiler had summed itself: there are no percentiles",)
        assert [c.name for c in section.tables[0].columns] == ["name", "calls", "total", "avg", "min", "max", "ratio"]
        assert section.tables[0].rows() == [
            ["a", 3, 997440, 332480, 321728, 342432, 0.99744],
            ["b", 1, 2560, 2560, None, None, 0.00256],
        ]

    def test_rows_of_one_run_merge_and_those_of_several_runs_stay_apart(self) -> None:
        rows = tuple(
            {"name": name, "run": run, "calls": calls, "total_ns": total, "avg_ns": 9.0, "min_ns": low, "max_ns": high}
            for name, run, calls, total, low, high in (
                ("a", 0, 2, 10, 4, 6), ("a", 0, 2, 20, 1, 12), ("b", 0, 1, 40, 40, 40), ("a", 1, 1, 30, 30, 30),
            )
        )  # fmt: skip
        section = KERNEL(trace(totals=rows), ViewOptions())
        assert [c.name for c in section.tables[0].columns][:2] == ["name", "run"]
        assert section.tables[0].rows() == [
            ["b", 0, 1, 40, 9, 40, 40, 4 / 7],
            ["a", 0, 4, 30, 8, 1, 12, 3 / 7],  # 30 / 4 = 7.5, a half goes to the even number
            ["a", 1, 1, 30, 9, 30, 30, 1.0],
        ]
        assert "a ratio is of the rows of the same run" in section.notes

    def test_what_one_of_the_merged_rows_does_not_say_is_unknown(self) -> None:
        rows = ({"name": "a", "calls": 1, "total_ns": 2, "min_ns": 2}, {"name": "a", "total_ns": 3, "median_ns": 3})
        (row,) = dicts(KERNEL(trace(totals=rows), ViewOptions()))
        assert (row["calls"], row["total"], row["avg"], row["min"]) == (None, 5, None, None)
        assert "median" not in row

    def test_a_median_of_the_file_is_shown(self) -> None:
        (row,) = dicts(KERNEL(trace(totals=({"name": "a", "calls": 2, "total_ns": 5, "median_ns": 2},)), ViewOptions()))
        assert (row["median"], row["avg"]) == (2, 2)

    def test_nvtx_ranges_are_never_added_up_since_they_nest(self) -> None:
        rows = tuple(
            {"name": "a", "section": "NVTX GPU activities", "calls": 1, "total_ns": 5, "args": f'{{"range":"{name}"}}'}
            for name in ("outer", "inner")
        )
        found = dicts(KERNEL(trace(totals=rows), ViewOptions()))
        assert [(r["range"], r["total"], r["ratio"]) for r in found] == [("inner", 5, 1.0), ("outer", 5, 1.0)]

    @pytest.mark.parametrize("args", ['{"range"', '["range"]', '{"range": ""}'])
    def test_args_that_are_no_range_harm_nothing(self, args: str) -> None:
        rows = ({"name": "a", "calls": 1, "total_ns": 5, "args": args},)
        assert dicts(KERNEL(trace(totals=rows), ViewOptions()))[0]["total"] == 5

    def test_events_win_and_the_totals_beside_them_are_told(self) -> None:
        made = trace({"name": "a", "dur_ns": 1}, totals=({"name": "a", "calls": 1, "total_ns": 5},))
        section = KERNEL(made, ViewOptions())
        assert dicts(section)[0]["total"] == 1
        assert "counted from events, not from the 1 row of kernel totals beside them" in section.notes

    def test_sums_beyond_int64_are_an_error(self) -> None:
        rows = ({"name": "a", "total_ns": (1 << 62) + 1},) * 2
        with pytest.raises(TracekitError, match="292 years"):
            KERNEL(trace(totals=rows), ViewOptions())

    def test_inputs_stay_apart_by_their_labels(self) -> None:
        run = Run(
            sources=[SourceFacts("x/a.csv", "f"), SourceFacts("y/a.csv", "f"), SourceFacts("y/a.csv", "f", "new")]
        )
        rows = tuple({"name": "k", "source": s, "calls": 1, "total_ns": 1 + s} for s in range(4))
        found = dicts(API(trace(totals=tuple({**r, "kind": "runtime"} for r in rows), run=run), ViewOptions()))
        assert [r["source"] for r in found] == ["x/a.csv", "y/a.csv", "new", "input 3"]
        assert "totals know no threads: one block for all" in (
            API(
                trace(totals=tuple({**r, "kind": "runtime"} for r in rows), run=run), ViewOptions(thread_sep=True)
            ).notes
        )


def test_a_table_has_the_statistics_that_it_declares_and_no_others() -> None:
    table = replace(kernel.TABLE, statistics=(specs.CALLS, specs.percentile(90), specs.RATIO))
    rows = [{"name": "a", "dur_ns": ns} for ns in range(1, 21)] + [{"name": "b", "dur_ns": 19}]
    section = on_trace(table.view())(trace(*rows), ViewOptions(sorted_by="p90"))
    assert dicts(section) == [
        {"name": "b", "calls": 1, "p90": 19, "ratio": 19 / 229},
        {"name": "a", "calls": 20, "p90": 18, "ratio": 210 / 229},
    ]
    assert "p90 is by nearest rank: each is a duration that occurs in the trace" in section.notes
    summed = {"name": "c", "kind": "kernel", "calls": 2, "total_ns": 9, "min_ns": 4, "order": 0}
    assert dicts(on_trace(table.view())(trace(totals=(summed,)), ViewOptions())) == [
        {"name": "c", "calls": 2, "ratio": 1.0}
    ]


@pytest.mark.parametrize(
    ("percent", "ordinal"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (42, "42nd"), (90, "90th"), (100, "100th")],
)
def test_the_meaning_of_a_percentile_is_said_in_english(percent: int, ordinal: str) -> None:
    assert specs.percentile(percent).meaning == f"The {ordinal} percentile of the durations, by nearest rank."
