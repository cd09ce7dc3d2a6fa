"""csv: tables as comma-separated values (RFC 4180: CRLF, quotes doubled).

A table has a header; its first columns are `view` and `table`, so that a stream can hold several tables. An empty line
separates them. Of a trace that lost records the first lines say so, one cell each.

Times are integer ns with the unit in the header (`total_ns`), ratios are 0..1, null is an empty field
(an empty text is `""`). A view without a result becomes a table with the column `note`; other notes and the ledger are
in text and json only.

Names are written unchanged, even if they begin with = + - @: a spreadsheet may read such a cell as a formula, so for
one there is the form `spreadsheet`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tracekit.model.report import Cell, Column, Report, Section
from tracekit.model.units import Unit
from tracekit.render.base import Renderer, RenderOptions
from tracekit.render.cells import finite

__all__ = ["RENDERER", "exact_line", "tables"]

END = "\r\n"
_SUFFIX = {Unit.NS: "_ns", Unit.BYTES: "_bytes", Unit.BYTES_PER_S: "_bytes_per_s"}
_QUOTED = frozenset('",\r\n')


def render(report: Report, options: RenderOptions) -> str:  # noqa: ARG001 - numbers are exact whatever the options
    """Return the tables of the report, an empty line between them."""
    return tables(report)


def tables(report: Report, text_of: Callable[[str], str] = str) -> str:
    """Return the tables of the report, an empty line between them. text_of: makes the text of a cell of a name."""
    blocks = [block for section in report.sections for block in _blocks(section)]
    if report.incomplete:
        blocks.insert(0, [[text] for text in report.incomplete])
    return END.join("".join(line(row, text_of) for row in block) for block in blocks)


def _blocks(section: Section) -> Iterator[list[Sequence[Cell]]]:
    for table in section.tables:
        first: list[Cell] = [section.view, table.name]
        header = ["view", "table", *map(header_of, table.columns)]
        yield [header, *([*first, *row] for row in table.rows())]
    if not section.tables and section.notes:
        yield [["view", "table", "note"], *([section.view, "", note] for note in section.notes)]


def header_of(column: Column) -> str:
    """Return the name of a column with its unit, unless the name ends in it already."""
    suffix = _SUFFIX.get(column.unit, "")
    return column.name if column.name.endswith(suffix) or f"_{column.name}" == suffix else f"{column.name}{suffix}"


def line(cells: Iterable[Cell], text_of: Callable[[str], str] = str) -> str:
    """Return a line of cells, with its end. Null and numbers that are not finite are empty."""
    return f"{','.join(_field(finite(cell), text_of) for cell in cells)}{END}"


def exact_line(cells: Iterable[Cell], text_of: Callable[[str], str] = str) -> str:
    """Return a line of cells, with its end. Null is empty; a number that is not finite is a word."""
    return f"{','.join(_field(cell, text_of) for cell in cells)}{END}"


def _field(cell: Cell, text_of: Callable[[str], str]) -> str:
    if cell is None:
        return ""
    text = text_of(cell) if isinstance(cell, str) else str(cell)
    if isinstance(cell, str) and (not text or not _QUOTED.isdisjoint(text) or text != text.strip()):
        return '"' + text.replace('"', '""') + '"'
    return text


RENDERER = Renderer(name="csv", suffixes=(".csv",), render=render)
