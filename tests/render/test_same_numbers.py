"""json, csv and markdown hold the numbers of the Report: each is read back by a parser that is not ours."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from render.reports import HOSTILE, reports, sample
from support import ROOT

from tracekit.errors import UsageError
from tracekit.model.display import UNKNOWN, escape_controls
from tracekit.model.report import Column, Report, ReportTable, Section
from tracekit.model.units import Unit, format_bytes, format_rate, format_ratio
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions
from tracekit.render.markdown import code, plain

FORMS = ("text", "json", "csv", "markdown")


def rendered(report: Report, form: str) -> str:
    return RENDERERS[form].render(report, RenderOptions())


def known(cell: Any) -> Any:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


@pytest.mark.parametrize(("form", "suffix"), [("json", "json"), ("csv", "csv"), ("markdown", "md")])
def test_the_sample_report(form: str, suffix: str, golden: Callable[[str, str], None]) -> None:
    golden(f"render/{form}.{suffix}", rendered(sample(), form).replace("\r\n", "\n"))


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_report_is_rendered(form: str) -> None:
    text = rendered(Report("t", "0", sections=(Section("kernel", "Kernels", notes=("needs kernel events",)),)), form)
    assert "needs kernel events" in text
    rendered(Report("", ""), form)


@given(report=reports())
def test_json_holds_every_cell(report: Report) -> None:
    text = rendered(report, "json")
    text.encode()
    found = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert list(found) == ["tracekit", "sections", "ledger"]
    assert found["tracekit"] == report.version
    assert found["ledger"] == [json.loads(json.dumps(ledger)) for ledger in report.ledgers]
    assert len(found["sections"]) == len(report.sections)
    for section, wanted in zip(found["sections"], report.sections, strict=True):
        assert list(section) == ["view", "tables", "notes"]
        assert section["notes"][: len(wanted.notes)] == list(wanted.notes)
        assert len(section["notes"]) == len(wanted.notes) + sum(table.omitted > 0 for table in wanted.tables)
        for table, made in zip(section["tables"], wanted.tables, strict=True):
            assert list(table) == ["name", "columns", "rows"]
            assert table["columns"] == [{"name": c.name, "unit": str(c.unit)} for c in made.columns]
            assert table["rows"] == [[known(cell) for cell in row] for row in made.rows()]


@given(report=reports())
def test_json_is_safe_to_show_in_a_terminal(report: Report) -> None:
    text = rendered(report, "json")
    assert not [c for c in text if c != "\n" and (ord(c) < 32 or 0x7F <= ord(c) < 0xA0)]
    assert "\u202e" not in text


@given(report=reports())
def test_csv_holds_every_cell(report: Report) -> None:
    text = rendered(report, "csv")
    found = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    wanted: list[list[str]] = []
    for section in report.sections:
        for table in section.tables:
            if wanted:
                wanted.append([])
            names = [f"{c.name}{_SUFFIX.get(c.unit, '')}" for c in table.columns]
            wanted.append(["view", "table", *names])
            for row in table.rows():
                cells = [known(cell) for cell in row]
                wanted.append([section.view, table.name, *("" if cell is None else str(cell) for cell in cells)])
        if not section.tables and section.notes:
            wanted += [[]] if wanted else []
            wanted.append(["view", "table", "note"])
            wanted += [[section.view, "", note] for note in section.notes]
    assert found == wanted


_SUFFIX = {Unit.NS: "_ns", Unit.BYTES: "_bytes", Unit.BYTES_PER_S: "_bytes_per_s"}


def test_csv_tells_an_empty_text_from_a_null_and_leaves_formulas_as_they_are() -> None:
    columns = (
        Column("bytes", "B", Unit.BYTES, [None, 1, 2]),
        Column("name", "N", Unit.TEXT, ["", None, "=1+1"]),
    )
    report = Report("t", "0", sections=(Section("v", "V", (ReportTable("t", "T", columns),)),))
    assert rendered(report, "csv") == 'view,table,bytes,name\r\nv,t,,""\r\nv,t,1,\r\nv,t,2,=1+1\r\n'


def _markdown_tables(text: str) -> list[list[list[str]]]:
    """Return the tables of a markdown text as a CommonMark parser sees them: cells as their visible text."""
    tables: list[list[list[str]]] = []
    within = False
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        within = token.type == "table_open" or (within and token.type != "table_close")
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        elif token.type == "inline" and within:
            inner = [t for t in token.children or [] if t.type != "html_inline"]
            assert {t.type for t in inner} <= {"text", "code_inline", "text_special"}, inner
            tables[-1][-1].append("".join(t.content for t in inner))
    return tables


def _shown(column: Column, cell: Any, title: str) -> str:
    cell = known(cell)
    if cell is None:
        return UNKNOWN
    if column.unit is Unit.RATIO:
        return format_ratio(cell or 0.0)  # -0.0 reads 0.00
    if column.unit is Unit.BYTES:
        return format_bytes(cell)
    if column.unit is Unit.BYTES_PER_S:
        return format_rate(cell or 0.0)
    if column.unit is Unit.NS:
        scale = {"s": 9, "ms": 6, "us": 3, "ns": 0}[title[title.rindex("(") + 1 : -1]]
        return f"{Decimal(cell).scaleb(-scale):,.{scale}f}"
    if column.unit in (Unit.COUNT, Unit.NUMBER):
        text = f"{cell:,}"
        return text[:-2] if text.endswith(".0") else text
    return escape_controls(str(cell))


@given(report=reports())
def test_markdown_holds_every_cell(report: Report) -> None:
    found = _markdown_tables(rendered(report, "markdown"))
    made = [table for section in report.sections for table in section.tables if table.columns]
    assert len(found) == len(made)
    for (titles, *rows), table in zip(found, made, strict=True):
        assert len(titles) == len(table.columns)
        wanted = [
            [_shown(c, cell, title) for c, cell, title in zip(table.columns, row, titles, strict=True)]
            for row in table.rows()
        ]
        assert [[c.strip() for c in row] for row in rows] == [[c.strip() for c in row] for row in wanted]


@given(text=st.sampled_from(HOSTILE) | st.text(max_size=40))
def test_markdown_names_and_texts_are_no_marks(text: str) -> None:
    parser = MarkdownIt("commonmark").enable("table")
    (table,) = _markdown_tables(f"| a |\n| --- |\n| {code(text)} |")
    assert [cell.strip() for cell in table[1]] == [escape_controls(text).strip()]
    inline = parser.parse(f"x {plain(text)} x")
    assert len(inline) == 3
    children = inline[1].children or []
    assert {t.type for t in children} <= {"text", "text_special"}
    assert "".join(t.content for t in children).split() == f"x {escape_controls(text)} x".split()


@given(text=st.sampled_from((*HOSTILE, "1. x", "- x", "+ x", "12) x", "---", "- [ ] x")) | st.text(max_size=20))
def test_markdown_list_items_hold_one_line_of_text(text: str) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(f"- {plain(text)}\n- end")
    assert [t.type for t in tokens if t.type not in ("paragraph_open", "paragraph_close", "inline")] == [
        "bullet_list_open", "list_item_open", "list_item_close", "list_item_open", "list_item_close",
        "bullet_list_close",
    ]  # fmt: skip
    texts = ["".join(c.content for c in t.children or []) for t in tokens if t.type == "inline"]
    assert [x.split() for x in texts if x.split()] == [x for x in (escape_controls(text).split(), ["end"]) if x]


def test_markdown_refuses_a_unit_that_is_none() -> None:
    with pytest.raises(UsageError, match="unit h"):
        RENDERERS["markdown"].render(sample(), RenderOptions(time_unit="h"))


@pytest.mark.parametrize("form", FORMS)
def test_another_process_with_another_hash_seed_gives_the_same_bytes(form: str) -> None:
    program = (
        "import sys; sys.path.insert(0, 'tests'); from render.reports import sample;"
        "from tracekit.render import RENDERERS; from tracekit.render.base import RenderOptions;"
        f"sys.stdout.buffer.write(RENDERERS[{form!r}].render(sample(), RenderOptions(width=80)).encode())"
    )
    made = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": "C"},
            cwd=ROOT,
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert made[0] == made[1] == RENDERERS[form].render(sample(), RenderOptions(width=80)).encode()
