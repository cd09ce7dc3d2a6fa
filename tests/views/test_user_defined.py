"""The view user_defined: ranges that the program named."""

from __future__ import annotations

from views.hosts import call, op, work
from views.tables import dicts, on_trace, statistics, trace

from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

USER = on_trace(VIEWS["user_defined"])


def test_user_ranges_have_statistics_self_times_and_the_device_work_of_operators_in_them() -> None:
    rows = (
        op("load", 0, 50, "user_range"), op("conv", 10, 30), call(1, 12, 14), work("k", 1, 60, 70),
        op("load", 100, 120, "user_range"), op("nvtx", 200, 210, "user_range_native"),
    )  # fmt: skip
    found = dicts(USER(trace(*rows), ViewOptions()))
    assert [(r["name"], r["kind"]) for r in found] == [("load", "user_range"), ("nvtx", "user_range_native")]
    wanted = statistics([50, 20])
    assert {k: found[0][k] for k in wanted} == wanted
    assert (found[0]["self"], found[0]["device_total"], found[0]["device_self"]) == (50, 10, 10)


def test_a_range_without_a_thread_counts_but_what_it_launched_is_not_known() -> None:
    rows = op("span", 0, 50, "user_range", tid=None), call(1, 12, 14), work("k", 1, 60, 70)
    section = USER(trace(*rows), ViewOptions())
    assert [(r["name"], r["total"], r["device_total"]) for r in dicts(section)] == [
        ("span", 50, None), ("(unattributed)", None, 10),
    ]  # fmt: skip
    assert "1 user range is without a thread: calls and launches in them are unknown" in section.notes


def test_threads_are_blocks() -> None:
    rows = op("a", 0, 10, "user_range"), op("a", 0, 30, "user_range", tid=8)
    found = dicts(USER(trace(*rows), ViewOptions(thread_sep=True)))
    assert [(r["tid"], r["total"], r["ratio"]) for r in found] == [(7, 10, 1.0), (8, 30, 1.0)]


def test_totals_alone_give_the_printed_table() -> None:
    row = {"name": "mine", "kind": "user_range", "section": "UserDefined Summary", "calls": 1, "total_ns": 4}
    section = USER(trace(totals=(row,)), ViewOptions())
    assert dicts(section)[0]["total"] == 4
    assert "ranges may lie within one another: totals do not add up, and a ratio is of their sum" in section.notes


def test_the_ratio_that_counts_nested_ranges_again_says_so_and_leaves_the_place_to_that_of_self_times() -> None:
    section = USER(trace(op("all", 0, 100, "user_range"), op("half", 0, 50, "user_range")), ViewOptions())
    rows = {row["name"]: row for row in dicts(section)}
    assert (rows["all"]["ratio"], rows["all"]["self_ratio"]) == (100 / 150, 0.5)
    assert any("count each time once" in note for note in section.notes)
    priority = {column.name: column.priority for column in section.tables[0].columns}
    assert priority["self_ratio"] < priority["ratio"]
    flat = USER(trace(op("a", 0, 50, "user_range"), op("b", 50, 90, "user_range")), ViewOptions())
    assert not any("count each time once" in note for note in flat.notes)
