"""Bars of rows: parts after each other, which add up to the row, or one below the other where they do not."""

from __future__ import annotations

from dataclasses import field

from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import escaped
from tracekit.model.names import short_names
from tracekit.model.picture import Picture
from tracekit.model.report import ReportTable
from tracekit.model.units import Unit
from tracekit.render.axes import linear
from tracekit.render.page.pictures import _drawing as draw

__all__ = ["MOST_ROWS", "BarRows", "bar_rows", "bars"]

MOST_ROWS = 12
MOST_GROUPS = 8
_NAME = 52
_TIMES = frozenset({"Duration", "gpu__time_duration.sum"})
"""Metrics that say how long a row takes."""
_PERCENT = 100


@dataclass(frozen=True, slots=True)
class BarRows:
    """Bars: the words of their parts, and each row's name with the values that it has, by part.

    weights: the time of a row, where the table has it.
    """

    parts: tuple[str, ...]
    rows: tuple[tuple[str, dict[int, float]], ...]
    unit: Unit
    weights: dict[str, float] = field(default_factory=dict)


def bar_rows(picture: Picture, table: ReportTable) -> BarRows:
    """Return the rows with a value. Parts are columns, or rows of the table whose cells in `by` name them."""
    columns, names = draw.columns_of(picture, table), draw.row_names(picture, table)
    if not columns:
        return BarRows((), (), Unit.COUNT)
    if not picture.by:
        cells = [[draw.value_of(cell) for cell in column.values] for column in columns]
        rows = [
            (name, {i: value for i, value in enumerate(row) if value is not None})
            for name, row in zip(names, zip(*cells, strict=True), strict=True)
        ]
        return BarRows(tuple(column.title.lower() for column in columns), _telling(rows), columns[0].unit)
    cells_by = [str(cell) for cell in draw.cells_of(table, picture.by) or ()]
    words = dict(picture.only) or {cell: cell for cell in cells_by}
    parts = tuple(dict.fromkeys(words.values()))
    # The cells of `only` are shares in percent where their row says so; others of the same name are something else.
    units = draw.cells_of(table, "unit") or [""] * len(names)
    scale, unit = (_PERCENT, Unit.RATIO) if picture.only else (1, columns[0].unit)
    grouped: dict[str, dict[int, float]] = {}
    weights: dict[str, float] = {}
    calls = draw.cells_of(table, "calls") or [1] * len(names)
    for name, cell, value, count in zip(names, cells_by, map(draw.value_of, columns[0].values), calls, strict=False):
        if cell in _TIMES and value is not None:
            weights.setdefault(name, value * (draw.value_of(count) or 1))
    for name, cell, value, word in zip(names, cells_by, map(draw.value_of, columns[0].values), units, strict=False):
        if cell in words and value is not None and (not picture.only or word == "%"):
            grouped.setdefault(name, {}).setdefault(parts.index(words[cell]), value / scale)
    return BarRows(parts, _telling(list(grouped.items())), unit, weights)


def _telling(rows: list[tuple[str, dict[int, float]]]) -> tuple[tuple[str, dict[int, float]], ...]:
    return tuple(row for row in rows if any(row[1].values()))


def _most_telling(found: BarRows, most: int, apart: bool) -> list[tuple[str, dict[int, float]]]:
    """Return the rows in their order, or if there are too many those with the most, the greatest first."""
    if len(found.rows) <= most:
        return list(found.rows)
    sizes = {name: found.weights.get(name, 0.0) if apart else sum(row.values()) for name, row in found.rows}
    return sorted(found.rows, key=lambda row: -sizes[row[0]])[:most]


def bars(picture: Picture, table: ReportTable) -> str:
    """Return the bars, "" where there is nothing to compare."""
    found = bar_rows(picture, table)
    apart, unit = picture.form == "grouped", found.unit
    shown = _most_telling(found, MOST_GROUPS if apart else MOST_ROWS, apart)
    used = [i for i in range(len(found.parts)) if any(i in row for _, row in shown)]
    # One stack of parts is a bar of the page already.
    if not shown or (len(found.rows) < 2 and not apart):
        return ""
    highest = max(max(row.values()) if apart else sum(row.values()) for _, row in shown)
    axis = linear(max(highest, 1) if unit is Unit.RATIO else highest, unit)
    parts = {i: draw.part(found.parts[i], i) for i in used}
    names = short_names([name for name, _ in shown], _NAME)
    height, gap = (6, 7) if apart else (12, 0)
    body, y, words = [], 0, []
    for name, (_, row) in zip(names, shown, strict=True):
        whole = "" if apart else draw.short(sum(row.values()), unit)
        body += [
            draw.tag("text", escaped(name), y=y + 11),
            draw.tag("text", whole, x="100%", y=y + 11, class_="e") if whole else "",
        ]
        y, x = y + 15, 0.0
        for i in (i for i in used if i in row):
            width = 100 * axis.place(row[i])
            title = f"{found.parts[i]}: {draw.exact(row[i], unit)}"
            body.append(draw.bar(0 if apart else x, y, width, height, parts[i].color, title))
            x, y = x + width, y + gap
        y += 5 if apart else height + 5
        values = (f"{found.parts[i]} {draw.short(row[i], unit)}" for i in used if i in row)
        words.append(f"{name}: {', '.join(values)}")
    most = "the most time" if apart else "the most"
    remark = f"{len(shown)} of {len(found.rows):,} rows, those with {most}" if len(found.rows) > len(shown) else ""
    inside = draw.axis_below(axis, y) + "".join(body)
    made = draw.drawing(picture, "; ".join(words[:4]), y + draw.ROOM, inside)
    return draw.figure(picture, [remark], made, list(parts.values()) if len(found.parts) > 1 else ())
