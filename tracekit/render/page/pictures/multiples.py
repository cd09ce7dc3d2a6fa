"""Small multiples: a line for each rank along its steps, all on one scale, so that the one that differs is seen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tracekit.model.display import escaped, plural
from tracekit.model.picture import Picture, matched
from tracekit.model.report import ReportTable
from tracekit.render.axes import Axis, linear
from tracekit.render.page.pictures import _drawing as draw

__all__ = ["MOST_MULTIPLES", "multiples"]

MOST_MULTIPLES = 32
_HEIGHT = 30
_PLACES = 480
"""Places of all lines together."""


def multiples(picture: Picture, table: ReportTable) -> str:
    """Return the lines, "" for one row or one step."""
    columns, along = draw.columns_of(picture, table), draw.cells_of(table, picture.along)
    names = draw.row_names(picture, table)
    rows = list(dict.fromkeys(names))
    if not columns or along is None or len(rows) < 2:
        return ""
    places, steps = matched(names, along)
    values = [draw.value_of(cell) for cell in columns[0].values]
    highest = max((value for value in values if value is not None), default=0)
    if len(steps) < 2 or not highest:
        return ""
    late = dict(picture.marks)
    chosen = set(sorted(rows, key=lambda name: name not in late)[:MOST_MULTIPLES])
    count = min(len(steps), max(12, _PLACES // len(chosen)))
    cells: dict[str, list[list[float]]] = {name: [[] for _ in range(count)] for name in rows if name in chosen}
    for name, place, value in zip(names, places, values, strict=True):
        if name in cells and value is not None:
            cells[name][place * count // len(steps)].append(value)
    unit, axis = columns[0].unit, linear(highest, columns[0].unit)
    items = []
    for name, of_row in cells.items():
        known = sorted(value for each in of_row for value in each)
        if known:
            line = draw.tag("path", d=_line([sum(each) / len(each) if each else None for each in of_row], axis))
            size = {"viewBox": f"0 0 {count} {_HEIGHT}", "preserveAspectRatio": "none", "aria_hidden": "true"}
            mark = f" {draw.tag('b', escaped(late[name]))}" if name in late else ""
            words = f"{escaped(name)} {draw.short(known[(len(known) - 1) // 2], unit)}{mark}"
            title = f"{known[0]:,} to {known[-1]:,}{draw.WORDS.get(unit, '')}"
            items.append(draw.tag("li", draw.tag("svg", line, **size) + words, class_="late" * bool(mark), title=title))
    shared = -(-len(steps) // count)
    remarks = [
        f"0 to {axis.ticks[-1][1]}, {picture.along} {steps[0]} to {steps[-1]}, on one scale; the number is the median",
        f"a place of a line is the mean of up to {plural(shared, picture.along)}" if shared > 1 else "",
        f"{len(cells)} of {len(rows):,} are drawn" if len(cells) < len(rows) else "",
        f"{picture.by}: at least 5 % above the median of the others" if picture.by else "",
    ]
    return draw.figure(picture, remarks, draw.tag("ul", "".join(items)))


def _line(values: Sequence[float | None], axis: Axis) -> str:
    """Return values as a stepped line; a gap where one is not known."""
    path, x, pen = [], 0, False
    for y, run in groupby("" if value is None else f"{_HEIGHT * (1 - axis.place(value)):.0f}" for value in values):
        width = len(list(run))
        path.append((f"V{y}h{width}" if pen else f"M{x} {y}h{width}") if y else "")
        pen, x = bool(y), x + width
    return "".join(path)
