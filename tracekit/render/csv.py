"""csv: tables as comma-separated values (RFC 4180: CRLF, quotes doubled).

A table has a header; its first columns are `view` and `table`, so that a stream can hold several tables. An empty line
separates them. Of a trace that lost records the first lines say so, one cell each.

Times are integer ns with the unit in the header (`total_ns`), ratios are 0..1, null is an empty field
(an empty text is `""`). A view without a result becomes a table with the column `note`; other notes and the ledger are
in text and json only.

Names are written unchanged, even if they begin with = + - @: a spreadsheet may read such a cell as a formula, so
import untrusted files as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracekit.render.base import Renderer, RenderOptions
from tracekit.render.cells import finite
from tracekit.report import Cell, Column, Report, Section
from tracekit.units import Unit

END = "\r\n"
_SUFFIX = {Unit.NS: "_ns", Unit.BYTES: "_bytes", Unit.BYTES_PER_S: "_bytes_per_s"}
_QUOTED = frozenset('",\r\n')


def render(report: Report, options: RenderOptions) -> str:  # noqa: ARG001 - numbers are exact whatever the options
    """Return the tables of the report, an empty line between them."""
    blocks = [block for section in report.sections for block in _blocks(section)]
    if report.incomplete:
        blocks.insert(0, [_line([text]) for text in report.incomplete])
    return END.join("".join(f"{line}{END}" for line in block) for block in blocks)


def _blocks(section: Section) -> Iterator[list[str]]:
    for table in section.tables:
        first: list[Cell] = [section.view, table.name]
        header = ["view", "table", *map(header_of, table.columns)]
        yield [_line(header), *(_line([*first, *row]) for row in table.rows())]
    if not section.tables and section.notes:
        yield [_line(["view", "table", "note"]), *(_line([section.view, "", note]) for note in section.notes)]


def header_of(column: Column) -> str:
    """Return the name of a column with its unit, unless the name ends in it already."""
    suffix = _SUFFIX.get(column.unit, "")
    return column.name if column.name.endswith(suffix) or f"_{column.name}" == suffix else f"{column.name}{suffix}"


def _line(cells: Sequence[Cell]) -> str:
    return ",".join(map(_field, cells))


def _field(cell: Cell) -> str:
    cell = finite(cell)
    if cell is None:
        return ""
    text = str(cell)
    if isinstance(cell, str) and (not text or not _QUOTED.isdisjoint(text) or text != text.strip()):
        return '"' + text.replace('"', '""') + '"'
    return text


RENDERER = Renderer(name="csv", suffixes=(".csv",), render=render)
