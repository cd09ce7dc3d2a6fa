"""A page on paper: few pages of A4, no column cut off, and a line that says what is not printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support import sample
from viewers import chromium_page

from tracekit import pipeline
from tracekit.model.report import Column, Report, ReportTable, Section
from tracekit.model.units import Unit
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions
from tracekit.render.page.tables import FIRST_ROWS

pytestmark = pytest.mark.viewer

A4 = 718
"""CSS pixels between margins of 10 mm."""
MOST_ROWS = 15
READY = "(window.tracekit?.timeline?.ready ?? Promise.resolve())"
LAID_OUT = """(() => {
  dispatchEvent(new Event("beforeprint"));
  const seen = (each) => each.getBoundingClientRect().height > 0;
  const rows = (table) => [...table.tBodies[0].rows].filter(seen);
  const tables = [...document.querySelectorAll(".sheet table")];
  const heads = (table) => [...table.tHead.rows[0].cells].filter(seen);
  const root = document.documentElement;
  return {
    overflow: root.scrollWidth - root.clientWidth,
    out: tables.filter((each) => each.getBoundingClientRect().right > innerWidth + 1).map((each) => each.innerText),
    crushed: tables.flatMap((table) => rows(table).flatMap((row) => [...row.cells]))
      .filter((cell) => seen(cell) && cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.innerText),
    rows: tables.map((each) => rows(each).length),
    cells: tables.flatMap((each) => rows(each).map((row) => [...row.cells].filter(seen).length - heads(each).length)),
    notes: [...document.querySelectorAll(".sheet :is(.note, .more)")].filter(seen).map((each) => each.textContent),
    titles: tables.map((each) => heads(each).map((head) => head.textContent.trim().split(" ")[0])),
  };
})()"""


def pages(pdf: Path) -> int:
    return len(re.findall(rb"/Type /Page\b(?!s)", pdf.read_bytes()))


def laid_out(page: Path, *, scripts: bool, pdf: Path | None = None) -> Any:
    seen = chromium_page(
        page, width=A4, media="print", scripts=scripts, pdf=pdf, scheme="dark", script=f"{READY}.then(() => {LAID_OUT})"
    )
    assert (seen.console, seen.page_errors, seen.requests, seen.value["overflow"]) == ([], [], [], 0)
    return seen.value


@pytest.mark.parametrize(("name", "most"), [("kineto/gpu.pt.trace.json", 8), ("theano/theano-1.0.5.txt", 4)])
@pytest.mark.parametrize("scripts", [True, False])
def test_a_report_is_few_pages_and_no_column_is_cut(name: str, most: int, scripts: bool, tmp_path: Path) -> None:
    page, pdf = tmp_path / "report.html", tmp_path / "report.pdf"
    pipeline.write_report(pipeline.read(sample(name)), page)
    found = laid_out(page, scripts=scripts, pdf=pdf)
    assert found["out"] == []
    assert found["crushed"] == []
    assert set(found["cells"]) <= {0}
    assert max(found["rows"]) <= MOST_ROWS
    assert 1 <= pages(pdf) <= most


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize("rows", [FIRST_ROWS, MOST_ROWS + 1, 4000])
def test_what_is_not_printed_is_named_or_counted(rows: int, scripts: bool, tmp_path: Path) -> None:
    times = [Column(f"t{i}", f"Time{i}", Unit.NS, [10**15 + 1] * rows, priority=0 if i < 2 else i) for i in range(15)]
    name = Column("name", "Name", Unit.TEXT, ["void gemm<float, 128, 64, 32, true, false>(float const*, int)"] * rows)
    table = ReportTable("kernels", "Kernels", (name, *times))
    page, pdf = tmp_path / "report.html", tmp_path / "report.pdf"
    made = Report("t", "0", sections=(Section("kernel", "Kernels", (table,)),))
    page.write_bytes(RENDERERS["html"].render(made, RenderOptions()).encode())
    found = laid_out(page, scripts=scripts, pdf=pdf)
    assert (found["out"], found["crushed"]) == ([], [])
    assert found["rows"] == [FIRST_ROWS]
    (titles,), (note,) = found["titles"], found["notes"]
    assert titles[:3] == ["Name", "Time0", "Time1"]
    if scripts:
        named = note.split("not printed: ")[1].split(";")[0].split(", ")
        assert [*titles[1:], *named] == [f"Time{i}" for i in range(15)]
        assert (f"{rows - FIRST_ROWS:,} more rows" in note) == (rows > FIRST_ROWS)
    else:
        assert f"{len(titles)} of 16 columns" in note
        assert (f"the first {FIRST_ROWS} of {rows:,} rows" in note) == (rows > FIRST_ROWS)
    assert pages(pdf) == 1
