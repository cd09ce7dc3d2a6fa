"""What each view promises: it needs the columns that it names, changes nothing, and an empty trace is no error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from views.tables import event_rows, trace

from tracekit.errors import UsageError
from tracekit.schema import KINDS
from tracekit.trace import Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

TABLES = ("overview", "device", "kernel", "memory_manipulation", "api", "metrics")


@pytest.mark.parametrize("name", TABLES)
def test_an_empty_trace_gives_a_note_and_no_table(name: str) -> None:
    section = VIEWS[name].compute(trace(), ViewOptions())
    assert section.view == name
    assert section.tables == ()
    assert section.notes[0].startswith("needs ")


@given(rows=event_rows())
@pytest.mark.parametrize("name", TABLES)
def test_the_columns_that_a_view_names_are_enough(name: str, rows: list[dict[str, Any]]) -> None:
    whole = trace(*rows)
    keep = [c for c in whole.events.schema.names if c in VIEWS[name].columns | {"ts_ns", "dur_ns"}]
    narrow = Trace(whole.events.select(keep), whole.totals, whole.run)
    assert VIEWS[name].compute(narrow, ViewOptions()) == VIEWS[name].compute(whole, ViewOptions())


@pytest.mark.parametrize("name", [n for n in TABLES if n != "metrics"])
def test_a_trace_read_without_a_needed_column_is_refused_by_name(name: str) -> None:
    whole = trace({"dur_ns": 1})
    narrow = Trace(whole.events.select(["ts_ns", "dur_ns"]), whole.totals, whole.run)
    with pytest.raises(UsageError, match=f"the view {name} needs the column"):
        VIEWS[name].compute(narrow, ViewOptions())


@pytest.mark.parametrize("name", TABLES)
def test_another_tools_figures_that_do_not_exist_are_told(name: str) -> None:
    assert "compat paddle changes nothing here" in VIEWS[name].compute(trace(), ViewOptions(compat="paddle")).notes


@pytest.mark.parametrize("name", TABLES)
def test_a_view_declares_kinds_of_the_schema(name: str) -> None:
    assert VIEWS[name].name == name
    assert set(VIEWS[name].kinds) <= KINDS


@given(rows=event_rows())
@pytest.mark.parametrize("name", TABLES)
def test_tables_become_data_frames(name: str, rows: list[dict[str, Any]]) -> None:
    section = VIEWS[name].compute(trace(*rows), ViewOptions())
    frame = section.to_pandas()
    assert len(frame) == (len(section.tables[0]) if section.tables else 0)
