"""Lines of columns of fixed width, rows by name and the unit of times, for the layouts of several upstreams."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tracekit.errors import Option, UsageError, sentence
from tracekit.model.units import TIME_EXPONENT

if TYPE_CHECKING:
    from tracekit.model.report import ReportTable
    from tracekit.render.base import RenderOptions

__all__ = ["Row", "fixed_width", "padded", "rows_of", "time_unit"]

Row: TypeAlias = dict[str, Any]
"""The cells of a row by the names of their columns."""


def rows_of(table: ReportTable) -> list[Row]:
    """Return the rows of a table."""
    names = [column.name for column in table.columns]
    return [dict(zip(names, cells, strict=True)) for cells in table.rows()]


def time_unit(options: RenderOptions, units: Collection[str] = TIME_EXPONENT) -> str:
    """Return the unit of times, ms where none is asked for. Raises: UsageError for one that is not among `units`."""
    unit = options.time_unit or "ms"
    if unit not in units:
        raise UsageError(sentence(Option("unit", unit), ": no unit of time"), choices=tuple(units))
    return unit


def fixed_width(cells: Sequence[object], widths: Sequence[int], sides: str = "", gap: str = "") -> str:
    """Return one line of cells; one that is wider than its column moves the others.

    sides: `<`, `>` or `^` of each cell, "" for `<` of all. gap: between two cells.
    >>> fixed_width(["a", 12, "b"], [3, 4, 1], "<><", " ")
    'a     12 b'
    """
    parts = zip(cells, widths, sides or "<" * len(widths), strict=True)
    return gap.join([f"{cell!s:{side}{width}}" for cell, width, side in parts])


def padded(text: str, width: int) -> str:
    """Return text with blanks behind it up to a number of bytes, which C++ counts."""
    return text + " " * (width - len(text.encode()))
