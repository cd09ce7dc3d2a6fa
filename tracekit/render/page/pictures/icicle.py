"""An icicle: groups above the names in them, each as wide as its part of the whole."""

from __future__ import annotations

from tracekit.model.display import escaped, plural, shown_name
from tracekit.model.names import short_names
from tracekit.model.picture import Picture
from tracekit.model.report import ReportTable
from tracekit.model.units import Unit, format_ratio
from tracekit.render.axes import linear
from tracekit.render.page.pictures import _drawing as draw
from tracekit.render.palette import class_color, color_of

__all__ = ["IcicleGroup", "icicle", "icicle_groups"]

MOST_BOXES = 24
LEAST_SHARE = 0.015
_LABELLED = 6
"""Percent of the width from which on a box has its name in it."""
_WIDE = 24

IcicleGroup = tuple[str, float, list[tuple[str, float]]]
"""The name of a group, its whole, and the names in it as the table has them with their values, the greatest first."""


def icicle_groups(picture: Picture, table: ReportTable) -> list[IcicleGroup]:
    """Return the groups, the greatest first: `groups` of the picture, or the rows of level 0 of the table."""
    names, values = draw.cells_of(table, picture.names[0]), draw.cells_of(table, picture.values[0])
    if names is None or values is None:
        return []
    if "level" not in table.column_names() and not picture.groups:
        return []
    levels, on_host = draw.cells_of(table, "level"), draw.cells_of(table, "total") or [None] * len(table)
    words: dict[int | str, str] = {}
    inner: dict[int | str, list[tuple[str, float]]] = {}
    group: int | str = ""
    for row, cell in enumerate(names):
        name, value = "" if cell is None else str(cell), draw.value_of(values[row]) or 0
        if levels is None:
            group = picture.groups[row] if row < len(picture.groups) else ""
            words[group] = str(group)
        elif not levels[row]:
            group = row
            words[group] = shown_name(name)
            continue
        elif on_host[row] is not None:
            continue  # a call of the host: what it launched has rows of its own
        inner.setdefault(group, []).append((name, value))
    made = [
        (words.get(key, ""), sum(value for _, value in rows), sorted(rows, key=lambda each: -each[1]))
        for key, rows in inner.items()
    ]
    return sorted((each for each in made if each[1] > 0), key=lambda each: -each[1])


def icicle(picture: Picture, table: ReportTable) -> str:
    """Return the icicle, "" for fewer than two names."""
    groups = icicle_groups(picture, table)
    boxes = sorted((value for *_, inner in groups for _, value in inner), reverse=True)
    if len(boxes) < 2:
        return ""
    whole, unit = sum(boxes), draw.columns_of(picture, table)[0].unit
    least = max(whole * LEAST_SHARE, boxes[min(MOST_BOXES, len(boxes)) - 1])
    outer, within, x, hidden = [], [], 0.0, 0
    for place, (word, value, inner) in enumerate(groups):
        shown = [each for each in inner if each[1] >= least]
        hidden += len(inner) - len(shown)
        if value < least:
            continue
        color = class_color(word) if picture.groups else color_of(word, place)
        outer.append(_box(x, value, whole, word, unit, color))
        at, boxes_within = x, ""
        for name, share in shown:
            boxes_within += _box(at, share, whole, shown_name(name), unit)
            at += 100 * share / whole
        within.append(boxes_within and draw.tag("g", boxes_within, fill=color))
        x += 100 * value / whole
    body = f"{''.join(outer)}{draw.tag('svg', ''.join(within), y=21)}"
    # The right end is the whole itself, not the round number after it.
    axis = linear(whole, unit)
    ticks = [(100 * value / whole, label) for value, label in axis.ticks if value < 0.9 * whole]
    ticks.append((100.0, draw.short(whole, unit)))
    remark = f"{plural(hidden, 'small one')} not drawn" if hidden else ""
    summary = ", ".join(f"{word} {format_ratio(value / whole)} %" for word, value, _ in groups[:4])
    made = draw.drawing(picture, summary, 42 + draw.ROOM, body + draw.texts_below(ticks, 55))
    return draw.figure(picture, [remark], made)


def _box(x: float, value: float, whole: float, name: str, unit: Unit, color: str = "") -> str:
    share = 100 * value / whole
    (label,) = short_names([name], draw.NAME)
    # A wide box has its name in it.
    words = f"{label}: " if share < _WIDE else ""
    title = draw.tag("title", escaped(f"{words}{draw.exact(value, unit)}"))
    text = draw.tag("text", escaped(label)) if share >= _LABELLED else ""
    size = {"x": draw.percentage(x), "width": draw.percentage(share), "fill": color}
    return draw.tag("svg", f"{title}<rect/>{text}", **size)
