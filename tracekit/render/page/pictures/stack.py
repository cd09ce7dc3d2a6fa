"""Parts along steps, on each other. Many steps, or those of several devices, are drawn as means with their spread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import escaped, plural
from tracekit.model.picture import Picture, matched
from tracekit.model.report import ReportTable
from tracekit.model.units import Unit
from tracekit.render.axes import Axis, linear
from tracekit.render.page.pictures import _drawing as draw

__all__ = ["MOST_PLACES", "StackPlace", "stack", "stack_places"]

MOST_PLACES = 64
_MOST_MEANS = 48
"""Places that are means: their titles are longer."""


@dataclass(frozen=True, slots=True)
class StackPlace:
    """One place of a stack: its label, the mean of each layer, and the least and the greatest whole of its rows."""

    label: str
    layers: tuple[float, ...]
    least: float
    most: float
    rows: int


def stack_places(picture: Picture, table: ReportTable) -> tuple[list[StackPlace], int]:
    """Return the places of a stack, and how many steps share one at most."""
    columns, along = draw.columns_of(picture, table), draw.cells_of(table, picture.along)
    if not columns or along is None:
        return [], 0
    places, labels = matched(draw.row_names(picture, table), along)
    count = min(len(labels), MOST_PLACES if len(labels) == len(places) else _MOST_MEANS)
    edges = [len(labels) * i // count for i in range(count + 1)]
    rows_of: list[list[int]] = [[] for _ in labels]
    for row, place in enumerate(places):
        rows_of[place].append(row)
    made = []
    for first, end in pairwise(edges):
        rows = [row for each in rows_of[first:end] for row in each]
        cells = [[draw.value_of(column.values[row]) or 0 for column in columns] for row in rows]
        wholes = [sum(each) for each in cells]
        label = labels[first] if end == first + 1 else f"{labels[first]} to {labels[end - 1]}"
        means = tuple(sum(layer) / len(rows) for layer in zip(*cells, strict=True))
        made.append(StackPlace(label, means, min(wholes), max(wholes), len(rows)))
    return made, max(end - first for first, end in pairwise(edges))


def stack(picture: Picture, table: ReportTable) -> str:
    """Return the stack, "" for fewer than two steps and where all parts are 0."""
    places, shared = stack_places(picture, table)
    columns = draw.columns_of(picture, table)
    used = [i for i in range(len(columns)) if any(place.layers[i] for place in places)]
    if len(places) < 2 or not used:
        return ""
    unit, parts = columns[0].unit, [draw.part(columns[i].title.lower(), i) for i in used]
    axis = linear(max(place.most for place in places), unit)
    # The areas lie on each other: the whole is behind, its lowest part in front.
    areas = [
        draw.tag("path", fill=parts[top].color, d=_outline((_upto(place, used[: top + 1]) for place in places), axis))
        for top in reversed(range(len(used)))
    ]
    spread = "".join(
        f"M{i + 0.5} {_y(axis, place.most)}V{_y(axis, place.least)}"
        for i, place in enumerate(places)
        if place.most > place.least
    )
    titles = (draw.tag("rect", draw.tag("title", _title(it, used, unit)), x=i) for i, it in enumerate(places))
    gap = round(min(0.1, len(places) / 400), 4)
    inside = [
        *areas,
        draw.tag("path", class_="gap", stroke_dasharray=f"{gap} {1 - gap}", d=f"M{1 - gap} 60h{len(places) - 1}"),
        draw.tag("path", class_="ax b", d=spread) if spread else "",
        draw.tag("g", "".join(titles), class_="over"),
    ]
    labels = draw.few_labels([place.label.split(" ")[0] for place in places], picture.along)
    # The lines of the axis are on top of the gaps, and below what people point at.
    body = draw.plot("".join(inside[:-1]), len(places)) + draw.axis_at_left(axis) + draw.plot(inside[-1], len(places))
    body += draw.texts_below(labels, draw.HEIGHT + 14)
    words = [part.words for part in parts]
    remarks = [f"{' + '.join(words)} by {picture.along}", _shared(picture, table, places, shared)]
    rows = sum(place.rows for place in places)
    means = [sum(place.layers[i] * place.rows for place in places) / rows for i in used]
    summary = ", ".join(f"{word} {draw.short(mean, unit)}" for word, mean in zip(words, means, strict=True))
    made = draw.drawing(picture, f"on average {summary}", draw.HEIGHT + draw.ROOM, body)
    return draw.figure(picture, remarks, made, parts)


def _shared(picture: Picture, table: ReportTable, places: Sequence[StackPlace], shared: int) -> str:
    """Return what a place is the mean of, "" where each has one row."""
    if all(place.rows == 1 for place in places):
        return ""
    devices = len(set(draw.row_names(picture, table)))
    of = [f"up to {plural(shared, picture.along)}"] if shared > 1 else []
    of += [f"up to {plural(devices, 'device')}"] if devices > 1 else []
    return f"a column is the mean of {' on '.join(of)}, its line spans the least and the greatest whole"


def _upto(place: StackPlace, layers: Iterable[int]) -> float:
    return sum(place.layers[i] for i in layers)


def _title(place: StackPlace, used: Sequence[int], unit: Unit) -> str:
    values = " + ".join(f"{round(place.layers[i]):,}" for i in used)
    spread = f" ({round(place.least):,} to {round(place.most):,})" if place.most > place.least else ""
    return escaped(f"{place.label}: {values}{draw.WORDS.get(unit, '')}{spread}")


def _y(axis: Axis, value: float) -> str:
    return f"{draw.HEIGHT * (1 - axis.place(value)):.0f}"


def _outline(values: Iterable[float], axis: Axis) -> str:
    """Return the area below values as a path; equal neighbours are one step of it."""
    steps = (f"V{y}h{len(list(run))}" for y, run in groupby(_y(axis, value) for value in values))
    return f"M0 {draw.HEIGHT}{''.join(steps)}V{draw.HEIGHT}z"
