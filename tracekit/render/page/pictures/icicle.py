"""An icicle: groups above the names in them, each as wide as its part of the whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import F64, I64
from tracekit.model.cells import whole_numbers
from tracekit.model.display import escaped, plural, shown_name
from tracekit.model.names import short_names
from tracekit.model.picture import Picture
from tracekit.model.report import Cell, ReportTable
from tracekit.model.units import Unit, format_ratio
from tracekit.render.axes import linear
from tracekit.render.page.pictures import _drawing as draw
from tracekit.render.palette import class_color, color_of

__all__ = ["IcicleGroups", "groups_of", "icicle"]

MOST_BOXES = 24
LEAST_SHARE = 0.015
_LABELLED = 6
"""Percent of the width from which on a box has its name in it."""
_WIDE = 24
_MOST = (1 << 63) - 1


@dataclass(frozen=True, slots=True, eq=False)
class IcicleGroups:
    """Names in groups, n of them: a table may have 100,000, of which some twenty are drawn.

    rows: shape (n,), the row of the table of each name; values: its value. codes: shape (n,), its group, ascending.
    sums: the whole of each group. words: gives the name of a group.
    """

    rows: I64
    values: I64 | F64
    codes: I64
    sums: list[float]
    words: Callable[[int], str]

    @property
    def order(self) -> list[int]:
        """The groups with a whole, the greatest first."""
        found = [code for code, whole in enumerate(self.sums) if whole > 0]
        return sorted(found, key=lambda code: -self.sums[code])


def groups_of(picture: Picture, table: ReportTable) -> IcicleGroups | None:
    """Return the groups of a table: `groups` of the picture, or the rows of level 0; None where it has none."""
    names, cells = draw.cells_of(table, picture.names[0]), draw.cells_of(table, picture.values[0])
    if names is None or cells is None or ("level" not in table.column_names() and not picture.groups):
        return None
    levels = draw.cells_of(table, "level")
    if levels is None:
        given = [*picture.groups[: len(table)], *[""] * (len(table) - len(picture.groups))]
        place: dict[str, int] = {}
        codes = np.array([place.setdefault(each, len(place)) for each in given], np.int64)
        rows = np.arange(len(table))
        texts = list(map(str, place))
        heads = None
    else:
        at_top = np.array([not level for level in levels], np.bool_)
        head = np.maximum.accumulate(np.where(at_top, np.arange(len(table)), -1))
        # A call of the host is left out: what it launched has rows of its own.
        on_host = draw.cells_of(table, "total") or [None] * len(table)
        rows = np.flatnonzero(~at_top & np.array([cell is None for cell in on_host], np.bool_))
        heads, codes = np.unique(head[rows], return_inverse=True)
    order = np.argsort(codes, kind="stable")
    rows, codes = rows[order], codes[order]
    values = _numbers(cells)[rows]

    def word(code: int) -> str:
        if heads is None:
            return texts[code]
        return shown_name(_text(names[int(heads[code])])) if heads[code] >= 0 else ""

    return IcicleGroups(rows, values, codes, _sums(values, codes), word)


def _numbers(cells: Sequence[Cell]) -> I64 | F64:
    """Return the numbers in cells, 0 where there is none."""
    whole = whole_numbers(cells)
    if whole is not None:
        return whole[0]
    return np.array([draw.value_of(cell) or 0 for cell in cells], np.float64)


def _sums(values: I64 | F64, codes: I64) -> list[float]:
    """Return the sum of each group; codes: ascending, none is left out."""
    if not values.size:
        return []
    begins = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    largest = max(-int(values.min()), int(values.max())) if values.dtype == np.int64 else _MOST
    if largest <= _MOST // values.size:
        found: list[float] = np.add.reduceat(values, begins).tolist()
        return found
    return [sum(part.tolist()) for part in np.split(values, begins[1:])]


def icicle(picture: Picture, table: ReportTable) -> str:
    """Return the icicle, "" for fewer than two names."""
    groups = groups_of(picture, table)
    if groups is None:
        return ""
    order = groups.order
    drawn = np.zeros(len(groups.sums), np.bool_)
    drawn[order] = True
    values = np.sort(groups.values[drawn[groups.codes]])[::-1]
    if values.size < 2:
        return ""
    whole, unit = sum(values.tolist()), draw.columns_of(picture, table)[0].unit
    least = max(whole * LEAST_SHARE, values[min(MOST_BOXES, values.size) - 1].item())
    shown = np.flatnonzero(groups.values >= (math.ceil(least) if groups.values.dtype == np.int64 else least))
    hidden = int(values.size) - int(np.count_nonzero(drawn[groups.codes[shown]]))
    outer, within, x = [], [], 0.0
    names = draw.cells_of(table, picture.names[0]) or ()
    for place, code in enumerate(order):
        value = groups.sums[code]
        if value < least:
            continue
        word = groups.words(code)
        color = class_color(word) if picture.groups else color_of(word, place)
        outer.append(_box(x, value, whole, word, unit, color))
        at, boxes_within = x, ""
        mine = shown[groups.codes[shown] == code]
        inner = [(int(groups.rows[i]), groups.values[i].item()) for i in mine.tolist()]
        for row, share in sorted(inner, key=lambda each: -each[1]):
            boxes_within += _box(at, share, whole, shown_name(_text(names[row])), unit)
            at += 100 * share / whole
        within.append(boxes_within and draw.tag("g", boxes_within, fill=color))
        x += 100 * value / whole
    body = f"{''.join(outer)}{draw.tag('svg', ''.join(within), y=21)}"
    # The right end is the whole itself, not the round number after it.
    axis = linear(whole, unit)
    ticks = [(100 * value / whole, label) for value, label in axis.ticks if value < 0.9 * whole]
    ticks.append((100.0, draw.short(whole, unit)))
    remark = f"{plural(hidden, 'small one')} not drawn" if hidden else ""
    summary = ", ".join(f"{groups.words(code)} {format_ratio(groups.sums[code] / whole)} %" for code in order[:4])
    made = draw.drawing(picture, summary, 42 + draw.ROOM, body + draw.texts_below(ticks, 55))
    return draw.figure(picture, [remark], made)


def _text(cell: Cell) -> str:
    return "" if cell is None else str(cell)


def _box(x: float, value: float, whole: float, name: str, unit: Unit, color: str = "") -> str:
    share = 100 * value / whole
    (label,) = short_names([name], draw.NAME)
    # A wide box has its name in it.
    words = f"{label}: " if share < _WIDE else ""
    title = draw.tag("title", escaped(f"{words}{draw.exact(value, unit)}"))
    text = draw.tag("text", escaped(label)) if share >= _LABELLED else ""
    size = {"x": draw.percentage(x), "width": draw.percentage(share), "fill": color}
    return draw.tag("svg", f"{title}<rect/>{text}", **size)
