"""A heat map as a table of shaded cells, written by the template: without a script, and for screen readers and print.

The shade is how far a value is above or below its level. The limits are decided in whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracekit.report import Heat
from tracekit.text.display import plural, visible
from tracekit.units import Unit, format_bytes

_NEAR, _EMPTY = "c", "n"
_ABOVE = ((150, "f"), (120, "e"), (105, "d"))
"""From so many percent of the level on; the greatest first."""
_BELOW = ((80, "a"), (95, "b"))
"""Down to so many percent of the level; the smallest first."""
_LEGEND = {
    "a": "20 % or more below the median",
    "b": "5 to 20 % below the median",
    _NEAR: "within 5 % of the median",
    "d": "5 to 20 % above the median",
    "e": "20 to 50 % above the median",
    "f": "50 % or more above the median",
    _EMPTY: "none",
}


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A heat map ready for the template. rows: a label and its cells (shade, text). ends: labels below the columns."""

    title: str
    size: str
    remark: str
    rows: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    ends: tuple[str, str]
    legend: tuple[tuple[str, str], ...]


def heat_map(figure: Heat) -> HeatMap:
    """Return the table of a heat map."""
    columns = list(map(visible, figure.columns))
    wide = len(columns)
    cells = [
        (shade(value, level), _text(columns[place % wide], value, level, figure.unit))
        for place, (value, level) in enumerate(zip(figure.values, figure.levels, strict=True))
    ]
    rows = tuple((visible(label), tuple(cells[row * wide : (row + 1) * wide])) for row, label in enumerate(figure.rows))
    used = {key for key, _ in cells}
    return HeatMap(
        visible(figure.title),
        f"{plural(len(figure.rows), 'row')}, {plural(wide, 'column')}",
        visible(figure.remark),
        rows,
        (columns[0], columns[-1] if wide > 1 else "") if columns else ("", ""),
        tuple((key, word) for key, word in _LEGEND.items() if key in used),
    )


def shade(value: int | None, level: int | None) -> str:
    """Return the class of a cell: a letter from "a" (far below its level) to "f" (far above), "n" for an empty cell."""
    if value is None:
        return _EMPTY
    if level is None or value == level:
        return _NEAR
    above = (key for least, key in _ABOVE if value * 100 >= level * least)
    below = (key for most, key in _BELOW if value * 100 <= level * most)
    return next(above if value > level else below, _NEAR)


def _text(label: str, value: int | None, level: int | None, unit: Unit) -> str:
    if value is None:
        return f"{label}: none"
    beside = "" if level is None else f" (median {_exact(level, unit)})"
    return f"{label}: {_exact(value, unit)}{beside}"


def _exact(value: int, unit: Unit) -> str:
    if unit is Unit.NS:
        return f"{value:,} ns"
    return format_bytes(value) if unit is Unit.BYTES else f"{value:,}"
