"""Properties over all views: parts and order of a trace change nothing, ranks add up."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views.hosts import op, programs
from views.tables import Row, dicts, event_rows, on_trace, trace

from tracekit import compat
from tracekit.model import schema
from tracekit.model.report import Section
from tracekit.model.trace import Trace, concat
from tracekit.pipeline import view_named
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

ADDING = {
    "kernel": ("calls", "total"), "memory_manipulation": ("calls", "total"), "api": ("calls", "total"),
    "overview": ("calls", "total"), "operator": ("calls", "total", "self", "device_total", "device_self"),
    "user_defined": ("calls", "total", "self", "device_total", "device_self"),
}  # fmt: skip
FLAT = ViewOptions(op_detail=False)


def by_name(section: Section, columns: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
    """Sums of columns by name and kind."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in dicts(section) if section.tables else ():
        for column in columns:
            found[row.get("name"), row.get("kind"), column] += row.get(column) or 0
    return +found


@settings(max_examples=12)
@given(
    rows=event_rows() | programs(),
    parts=st.lists(st.integers(0, 1), min_size=60, max_size=60),
    options=st.sampled_from((ViewOptions(), ViewOptions(thread_sep=True, sorted_by="-calls"))),
)
@pytest.mark.parametrize("name", [*VIEWS, *compat.VIEWS])
def test_a_view_of_a_trace_split_in_two_and_merged_is_that_of_the_whole(
    name: str, rows: list[Row], parts: list[int], options: ViewOptions
) -> None:
    rows = [{**row, "event_id": number} for number, row in enumerate(rows)]
    whole = trace(*rows)
    halves = [trace(*(r for r, p in zip(rows, parts, strict=False) if p == part)) for part in (0, 1)]
    # Rows of one start and length keep the order of the file: only the dictionaries differ from those of the whole.
    joined = concat([half.events for half in halves], schema.EVENTS).sort_by("event_id")
    merged = Trace(joined, whole.totals, whole.run)
    assert on_trace(view_named(name))(merged, options) == on_trace(view_named(name))(whole, options)


@settings(max_examples=30)
@given(rows=event_rows() | programs())
@pytest.mark.parametrize("name", ADDING)
def test_sums_over_ranks_are_the_sum_of_the_ranks(name: str, rows: list[Row]) -> None:
    # Launches are joined within a process: each rank is one.
    rows = [{**row, "rank": row.get("rank") or 0} for row in rows]
    rows += [op("own", 100, 101, kind, tid=7, rank=rank) for rank in (0, 1) for kind in ("operator", "user_range")]
    rows = [{**row, "pid": row["rank"]} for row in rows]
    whole = by_name(on_trace(view_named(name))(trace(*rows), FLAT), ADDING[name])
    added: Counter[tuple[Any, ...]] = Counter()
    for rank in {row["rank"] for row in rows}:
        mine = trace(*(row for row in rows if row["rank"] == rank))
        added += by_name(on_trace(view_named(name))(mine, FLAT), ADDING[name])
    assert whole == added
