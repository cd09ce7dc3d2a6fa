"""What each view promises: it needs the columns that it names, changes nothing, and an empty trace is no error."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from support import SAMPLES, sample
from views.tables import dicts, event_rows, trace

from tracekit.errors import UsageError
from tracekit.pipeline import read, render, summary
from tracekit.readers import READERS
from tracekit.render.base import RenderOptions
from tracekit.schema import KINDS
from tracekit.trace import Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

TABLES = (
    "overview", "device", "kernel", "memory_manipulation", "api", "metrics", "breakdown", "idle", "launch",
)  # fmt: skip


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


@given(rows=event_rows())
@pytest.mark.parametrize("form", ["text", "json", "csv", "markdown"])
def test_every_view_of_any_trace_is_rendered_and_json_holds_its_cells(form: str, rows: list[dict[str, Any]]) -> None:
    made = summary(trace(*rows), views=TABLES)
    text = render(made, form, RenderOptions(width=80))
    assert text.endswith("\n")
    if form == "json":
        found = json.loads(text)["sections"]
        assert [s["view"] for s in found] == list(TABLES)
        for section, wanted in zip(found, made.sections, strict=True):
            assert [t["rows"] for t in section["tables"]] == [t.rows() for t in wanted.tables]
            assert section["notes"] == list(wanted.notes)
    if form == "csv":
        read = csv.reader(io.StringIO(text, newline=""), strict=True)
        blocks = sum(max(1, len(section.tables)) for section in made.sections)
        assert sum(row[:2] == ["view", "table"] for row in read) == blocks


EXPECTED = {
    name: found
    for name, found in json.loads((SAMPLES / "expected.json").read_text(encoding="utf-8")).items()
    if found["reader"] in READERS
}


def sums(name: str, *views: str) -> tuple[int, int]:
    """Calls and total of all rows of these views, but for those of unified memory."""
    made = read(sample(name))
    sections = [VIEWS[view].compute(made, ViewOptions()) for view in views]
    rows = [row for section in sections if section.tables for row in dicts(section)]
    rows = [r for r in rows if "Unified" not in f"{r['name']} {r.get('section')}"]
    return sum(r["calls"] for r in rows), sum(r["total"] for r in rows)


@pytest.mark.parametrize("name", sorted(n for n, e in EXPECTED.items() if e.get("sum_dur_ns_by_kind")))
def test_the_views_of_a_sample_hold_the_sums_that_its_generator_wrote(name: str) -> None:
    calls, total = EXPECTED[name], EXPECTED[name]["sum_dur_ns_by_kind"]
    assert sums(name, "kernel") == (calls["kernels"], total.get("kernels", 0))
    copies = calls["copies"] + calls["memsets"], total.get("copies", 0) + total.get("memsets", 0)
    assert sums(name, "memory_manipulation") == copies
    assert sums(name, "api") == (calls["api"], total.get("api", 0))


@pytest.mark.parametrize("name", sorted(n for n, e in EXPECTED.items() if "api_calls_total_ns" in e.get("totals", {})))
def test_the_views_of_a_summed_sample_hold_the_sums_of_its_tables(name: str) -> None:
    totals = EXPECTED[name]["totals"]
    gpu = totals.get("gpu_activities_calls", 0), totals.get("gpu_activities_total_ns", 0)
    assert sums(name, "kernel", "memory_manipulation") == gpu
    assert sums(name, "api") == (totals["api_calls_calls"], totals["api_calls_total_ns"])
