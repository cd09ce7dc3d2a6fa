"""Tables of a report for the templates: each cell with its text, its exact value and its tooltip."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tracekit.render._prose import levels
from tracekit.report import Cell, Column, ReportTable
from tracekit.text.display import UNKNOWN, is_words, typical_time_unit, visible
from tracekit.units import (
    Unit,
    format_bytes,
    format_ns,
    format_rate,
    format_ratio,
)

MOST_ROWS = 2000
"""Rows of one table in a page: a browser lays them out at once. The page says how many are not shown."""
_LONG = 48


@dataclass(frozen=True, slots=True)
class Head:
    """Title of a column, its unit ("" for none), and whether its cells are aligned and sorted as numbers.

    name, kind: of the column: its name, and the unit of its exact values.
    """

    title: str
    unit: str
    is_number: bool
    name: str = ""
    kind: Unit = Unit.TEXT


@dataclass(frozen=True, slots=True)
class SheetCell:
    """One cell.

    text: as shown. exact: the value for sorting, "" for text. full: the tooltip, "" for none. share: percent of the
    cell's width that a bar behind a ratio takes; negative for no bar. level: steps of indentation.
    """

    text: str
    exact: str = ""
    full: str = ""
    share: float = -1.0
    level: int = 0


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table ready for the template. row_head: the column that names the row, -1 for none. cut: rows not shown."""

    name: str
    title: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[SheetCell, ...], ...]
    row_head: int
    cut: str


def sheet(table: ReportTable, time_unit: str = "") -> Sheet:
    """Return a table with its first MOST_ROWS rows. Raises: UsageError for an unknown unit of time."""
    columns = [_column(column, time_unit) for column in table.columns]
    heads = tuple(
        replace(head, name=column.name, kind=column.unit)
        for (head, _), column in zip(columns, table.columns, strict=True)
    )
    named = next((i for i, c in enumerate(table.columns) if c.unit is Unit.TEXT), -1)
    if named >= 0 and any(steps := levels(table)):
        head, cells = columns[named]
        columns[named] = head, [replace(cell, level=step) for cell, step in zip(cells, steps, strict=False)]
    rows = tuple(zip(*(cells for _, cells in columns), strict=True))
    return Sheet(table.name, visible(table.title), heads, rows, named, _left_out(table))


def _left_out(table: ReportTable) -> str:
    if len(table) <= MOST_ROWS:
        return ""
    return f"the first {MOST_ROWS:,} of {len(table):,} rows; tracekit inspect prints them all"


def _column(column: Column, wanted: str) -> tuple[Head, list[SheetCell]]:
    values = list(column.values[:MOST_ROWS])
    title = visible(column.title)
    words = is_words(values, column.unit)
    if column.unit is Unit.NS:
        unit = typical_time_unit(values, wanted)
        return Head(title, unit, is_number=True), [_time(value, unit) for value in values]
    if column.unit is Unit.RATIO:
        return Head(title, "%", is_number=True), [_ratio(value) for value in values]
    if words:
        return Head(title, "", is_number=False), [_text(value) for value in values]
    return Head(title, "", is_number=True), [_number(value, column.unit) for value in values]


def _time(value: Cell, unit: str) -> SheetCell:
    """Return a time with every digit: people copy cells."""
    if value is None:
        return SheetCell(UNKNOWN)
    ns = int(value)
    return SheetCell(format_ns(ns, unit), str(ns), f"{ns:,} ns")


def _ratio(value: Cell) -> SheetCell:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return SheetCell(UNKNOWN)
    return SheetCell(
        format_ratio(value), repr(float(value)), f"{100 * value:.6g} %", min(max(100 * float(value), 0.0), 100.0)
    )


def _text(value: Cell) -> SheetCell:
    if value is None:
        return SheetCell(UNKNOWN)
    text = visible(str(value))
    return SheetCell(text, full=text if len(text) > _LONG else "")


def _number(value: Cell, unit: Unit) -> SheetCell:
    if value is None or isinstance(value, str) or not math.isfinite(value):
        return SheetCell(UNKNOWN)
    if unit is Unit.BYTES:
        return SheetCell(format_bytes(int(value)), str(value), f"{int(value):,} bytes")
    if unit is Unit.BYTES_PER_S:
        return SheetCell(format_rate(value), repr(value), f"{value:,.0f} bytes/s")
    if unit is Unit.ID:
        return SheetCell(str(value), str(value))
    text = f"{value:,}"
    return SheetCell(text.removesuffix(".0") if isinstance(value, float) else text, repr(value))
