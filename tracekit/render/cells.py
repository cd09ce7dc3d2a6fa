"""Columns of a report as text, and text filled up or wrapped to a width."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import (
    UNKNOWN,
    cell_texts,
    cell_width,
    escape_controls,
    head,
    is_words,
    time_unit_of,
    titled,
    typical_time_unit,
)
from tracekit.model.report import Cell, Column, ReportTable
from tracekit.model.units import Unit, four_digits, four_digits_of

__all__ = ["ShownCell", "columns_to_scale", "finite", "padded", "rounded_texts", "shown_columns", "wrapped"]


@dataclass(frozen=True, slots=True)
class ShownCell:
    """A column as text.

    key: the column's own name. title: `name` with its unit. right: a number, aligned right. is_text: may be cut.
    """

    key: str
    name: str
    title: str
    texts: list[str]
    right: bool
    is_text: bool
    priority: int


_COMPARED = frozenset({"base", "new", "difference"})
"""Columns of times that a reader holds against each other."""
_OVER_GROUPS = frozenset({"median", "min", "max"})
"""Such columns of a table over ranks or groups."""
_SPREAD = frozenset({"mean", "avg", "std", "min", "max", "median", "p5", "p50", "p95", "p99"})
"""Columns of one distribution."""


def columns_to_scale(table: ReportTable, *, exact: bool = True) -> list[Sequence[Cell]]:
    """Return the values that choose each column's unit of time: its own, and those of columns compared with it.

    exact: with every digit, a column of a distribution has its own unit; with four, all of them have one.
    """
    together: list[Cell] = []
    names = {column.name for column in table.columns}
    compared = _OVER_GROUPS if "max_at" in names else _COMPARED if exact or names & _COMPARED else _SPREAD
    for column in table.columns:
        if column.name in compared and column.unit is Unit.NS:
            together.extend(column.values)
    return [
        together if column.name in compared and column.unit is Unit.NS else column.values for column in table.columns
    ]


def shown_columns(table: ReportTable, time_unit: str, *, exact: bool = True) -> list[ShownCell]:
    """Return the columns of a table as text. Raises: UsageError for an unknown unit of time.

    exact: with every digit; else times and other measured numbers have four.
    """
    scales = columns_to_scale(table, exact=exact)
    return [_shown(column, scale, time_unit, exact) for column, scale in zip(table.columns, scales, strict=True)]


def rounded_texts(values: Sequence[Cell], unit: Unit, time_unit: str) -> list[str]:
    """Return the cells of a column for a person: measured numbers with four digits, all others as they are."""
    if unit is Unit.NS:
        return [UNKNOWN if value is None else four_digits(int(value), time_unit) for value in values]
    if unit is Unit.NUMBER:
        return [_rounded_number(value) for value in values]
    return cell_texts(values, unit, time_unit)


def _rounded_number(value: Cell) -> str:
    if isinstance(value, (int, float)) and math.isfinite(value):
        return four_digits_of(value)
    return cell_texts([value], Unit.NUMBER, "")[0]


def _shown(column: Column, scale: Sequence[Cell], time_unit: str, exact: bool) -> ShownCell:
    unit = ""
    if column.unit is Unit.NS:
        unit = time_unit_of(scale, time_unit) if exact else typical_time_unit(scale, time_unit)
    texts = (cell_texts if exact else rounded_texts)(column.values, column.unit, unit)
    words = is_words(column.values, column.unit)
    title = titled(column.title, column.unit, unit)
    return ShownCell(column.name, escape_controls(column.title), title, texts, not words, words, column.priority)


def padded(text: str, width: int, *, right: bool) -> str:
    """Return text filled with spaces to the cells."""
    fill = " " * (width - cell_width(text))
    return fill + text if right else text + fill


def wrapped(text: str, width: int, *, indent: int = 0) -> list[str]:
    """Return lines no wider than the cells, broken at spaces where possible; all but the first are indented.

    A number and its unit stay on one line. width: 0 for no limit.

    >>> wrapped("tail effect, at most 11 %.", 24)
    ['tail effect, at most', '11 %.']
    """
    if width <= 0 or cell_width(text) <= width:
        return [text]
    lines: list[str] = []
    words = text.lstrip(" ")
    line = text[: min(len(text) - len(words), width - 1)]
    for word in _unbroken(words.split(" ")):
        longer = f"{line} {word}" if line.strip() else line + word
        if cell_width(longer) <= width:
            line = longer
            continue
        if line.strip():
            lines.append(line)
            line = " " * indent
        line += word
        while cell_width(line) > width:
            part = head(line, width)
            lines.append(part)
            line = " " * indent + line[len(part) :]
    return [*lines, line] if line.strip() else lines


_UNITS = frozenset(["%", "ns", "us", "ms", "s"]).union(
    *({f"{power}{unit}" for unit in ("B", "iB", "B/s", "FLOP", "FLOP/s")} for power in ("", *"kKMGTP"))
)
"""What stays beside its number."""


def _unbroken(words: list[str]) -> Iterator[str]:
    """Yield the words, a number and its unit as one."""
    number = ""
    for word in words:
        if number and word.rstrip(".,:;)") in _UNITS:
            yield f"{number} {word}"
            number = ""
            continue
        if number:
            yield number
        number = word if word[-1:].isdigit() else ""
        if not number:
            yield word
    if number:
        yield number


def finite(value: Cell) -> Cell:
    """Return the cell, None for a float that is not finite: JSON and CSV have no word for it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
