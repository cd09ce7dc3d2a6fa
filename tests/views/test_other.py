"""The view other: calls of other interfaces than CUDA's, overhead, and what is counted without a time."""

from __future__ import annotations

from typing import Any

import pytest
from views.tables import dicts, on_trace, trace

from tracekit.pipeline import summary
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

OTHER = on_trace(VIEWS["other"])


def total(name: str, section: str, kind: str = "other", **more: Any) -> dict[str, Any]:
    return {"name": name, "section": section, "kind": kind, **more}


OPENACC = total("acc_wait@a.c:2", "OpenACC (excl)", calls=3, total_ns=90, min_ns=10, max_ns=50, avg_ns=30)
FAULTS = total("Gpu page fault groups", "Unified Memory", "overhead", calls=4, total_ns=70, device=0)
THRASHES = total("Memory thrashes", "Unified Memory", "overhead", calls=5, bytes=20480, device=0)


def test_calls_of_other_interfaces_and_page_faults_are_shown_each_of_its_own_whole() -> None:
    section = OTHER(trace(totals=(OPENACC, FAULTS)), ViewOptions())
    assert [(row["name"], row["kind"], row["calls"], row["total"], row["ratio"]) for row in dicts(section)] == [
        ("acc_wait@a.c:2", "other", 3, 90, 1.0),
        ("Gpu page fault groups", "overhead", 4, 70, 1.0),
    ]


def test_what_is_counted_without_a_time_has_a_table_of_its_own() -> None:
    timed, counted = OTHER(trace(totals=(FAULTS, THRASHES)), ViewOptions()).tables
    assert [row["name"] for row in dicts(timed)] == ["Gpu page fault groups"]
    assert dicts(counted) == [{"name": "Memory thrashes", "kind": "overhead", "calls": 5, "bytes": 20480}]
    alone = OTHER(trace(totals=({**FAULTS, "total_ns": None},)), ViewOptions())
    assert [table.name for table in alone.tables] == ["counts"]
    assert not [note for note in alone.notes if note.startswith("needs")]


def test_events_without_a_duration_are_counted_beside_those_with_one() -> None:
    fault = {"kind": "overhead", "name": "[Unified Memory CPU page faults]"}
    timed, counted = OTHER(trace({"kind": "other", "name": "poll", "dur_ns": 9}, fault, fault), ViewOptions()).tables
    assert [(row["name"], row["total"]) for row in dicts(timed)] == [("poll", 9)]
    assert dicts(counted) == [{"name": "[Unified Memory CPU page faults]", "kind": "overhead", "calls": 2}]


def test_events_of_unlike_kinds_that_nest_have_no_ratio() -> None:
    rows = dicts(OTHER(trace({"kind": "other", "name": "whole run", "dur_ns": 9}), ViewOptions()))
    assert "ratio" not in rows[0]


@pytest.mark.parametrize(
    "row",
    [
        total("Others", "Model Summary", total_ns=5),
        total("Kernel", "Overview Summary, GPU, parts", calls=7, total_ns=5),
        total("Total time", "header", calls=1, total_ns=5),
    ],
)
def test_remainders_and_parts_of_a_printed_table_are_no_calls(row: dict[str, Any]) -> None:
    assert OTHER(trace(totals=(row,)), ViewOptions()).tables == ()


def test_a_summary_shows_them_unasked_and_user_ranges_too() -> None:
    made = summary(trace({"kind": "user_range", "name": "epoch", "dur_ns": 9, "tid": 1}, totals=(OPENACC,)))
    shown = {section.view: section for section in made.sections}
    assert [row["name"] for row in dicts(shown["user_defined"])] == ["epoch"]
    assert [row["name"] for row in dicts(shown["other"])] == ["acc_wait@a.c:2"]
