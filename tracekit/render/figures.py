"""A series as bars in SVG, written by the template: it needs no script and can be printed.

Places are equally wide. With more values than bars, neighbours share a bar, which shows the largest of them and says so
in its tooltip. Marked values have a colour of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import escape_controls, plural
from tracekit.model.report import Curve, Heat, Series, StackedCurve
from tracekit.model.units import Unit, format_bytes, format_ratio, format_span
from tracekit.render.palette import color_of

__all__ = [
    "HEIGHT",
    "MOST_BARS",
    "WIDTH",
    "Chart",
    "CurveBox",
    "HeatMap",
    "amount",
    "chart",
    "curve_box",
    "heat_map",
    "series_lines",
    "shade",
    "wholes_of",
]

MOST_BARS = 400
WIDTH, HEIGHT = 1000, 120
_MARKS = ("var(--slow-2)", "var(--fast-2)", "var(--s2)", "var(--s3)")


@dataclass(frozen=True, slots=True)
class Stroke:
    """One bar: place and size in the drawing's units, colour ("" for a bar without a mark), and tooltip."""

    x: str
    y: str
    width: str
    height: str
    color: str
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A series ready for the template. levels: (y, text). legend: (word, colour). summary: for those who don't see."""

    title: str
    strokes: tuple[Stroke, ...]
    levels: tuple[tuple[str, str], ...]
    legend: tuple[tuple[str, str], ...]
    summary: str
    top: str


def amount(value: int | float, unit: Unit) -> str:
    """Return a value with its unit, exact where it is a time."""
    if unit is Unit.NS:
        return format_span(int(value))
    if unit is Unit.BYTES:
        return format_bytes(int(value))
    if unit is Unit.RATIO:
        return f"{format_ratio(value)} %"
    return f"{value:,}"


def series_lines(figure: Series) -> list[str]:
    """Return a series in words: number and range of the values, and the remarks on them."""
    known = [(value, place) for place, value in enumerate(figure.values) if value is not None]
    title = escape_controls(figure.title)
    if not known:
        return [f"{title}: all values are unknown"]
    most, last = max(known, key=lambda each: (each[0], -each[1]))
    least = min(value for value, _ in known)
    count = f"{len(known):,} {'value' if len(known) == 1 else 'values'}"
    line = f"{title}: {count}, {amount(least, figure.unit)} to {amount(most, figure.unit)}"
    line += f" (the largest at {escape_controls(str(figure.labels[last]))})" if most > least else ""
    words = [f"{escape_controls(word)} {amount(value, figure.unit)}" for word, value in figure.levels]
    for word in dict.fromkeys(word for _, word in figure.marks):
        words.append(f"{escape_controls(word)}: {sum(each == word for _, each in figure.marks):,}")
    return [line, *([", ".join(words)] if words else [])]


def chart(figure: Series, most: int = MOST_BARS) -> Chart:
    """Return the drawing of a series in at most so many bars."""
    count = len(figure.values)
    bars = min(count, most)
    words = list(dict.fromkeys(word for _, word in figure.marks))
    marked = dict(reversed(figure.marks))
    highest = max((value for value in figure.values if value is not None), default=0)
    highest = max(highest, *(value for _, value in figure.levels), 0) if figure.levels else max(highest, 0)
    strokes = []
    for bar in range(bars):
        places = range(count * bar // bars, count * (bar + 1) // bars)
        known = [(value, -place) for place in places if (value := figure.values[place]) is not None]
        if not known:
            continue
        value, place = max(known)[0], -max(known)[1]
        word = marked.get(place) or next((marked[p] for p in places if p in marked), "")
        strokes.append(_stroke(figure, bar, bars, value, place, len(places), word, words, highest))
    levels = [
        (f"{_y(value, highest):.1f}", f"{escape_controls(word)} {amount(value, figure.unit)}")
        for word, value in figure.levels
    ]
    legend = tuple((escape_controls(word), _MARKS[i % len(_MARKS)]) for i, word in enumerate(words))
    summary = "; ".join(series_lines(figure))
    return Chart(
        escape_controls(figure.title), tuple(strokes), tuple(levels), legend, summary, amount(highest, figure.unit)
    )


def _y(value: int | float, highest: int | float) -> float:
    return HEIGHT - (HEIGHT * max(value, 0) / highest if highest else 0)


def _stroke(
    figure: Series,
    bar: int,
    bars: int,
    value: int | float,
    place: int,
    shared: int,
    word: str,
    words: list[str],
    highest: int | float,
) -> Stroke:
    wide = WIDTH / bars
    y = min(_y(value, highest), HEIGHT - 0.8)
    text = f"{escape_controls(str(figure.labels[place]))}: {amount(value, figure.unit)}"
    text += f", {escape_controls(word)}" if word else ""
    text += f" (the largest of {shared:,})" if shared > 1 else ""
    color = _MARKS[words.index(word) % len(_MARKS)] if word else ""
    room = min(wide * 0.85, 40)
    return Stroke(f"{bar * wide + (wide - room) / 2:.2f}", f"{y:.1f}", f"{room:.2f}", f"{HEIGHT - y:.1f}", color, text)


# Curves over time as stepped areas in SVG, written by the template: they need no script and can be printed.
#
# Areas lie on each other, the one with the greatest peak behind. Neighbouring columns with equal values share a
# tooltip.


@dataclass(frozen=True, slots=True)
class CurveBox:
    """A curve ready for the template. areas: (colour, path). spans: (x, width, text). legend: (word, colour)."""

    title: str
    top: str
    remark: str
    areas: tuple[tuple[str, str], ...]
    spans: tuple[tuple[str, str, str], ...]
    legend: tuple[tuple[str, str], ...]
    ends: tuple[str, str]
    summary: str


def curve_box(figure: Curve) -> CurveBox:
    """Return the drawing of a curve. The layers of a stacked one lie on each other, in their order from below."""
    peaks = [_peak(values) for values in figure.values]
    is_stacked = isinstance(figure, StackedCurve)
    outlines = wholes_of(figure) if is_stacked else figure.values
    tops = [_peak(values) for values in outlines]
    top = max(tops, default=0)
    # Of equal outlines of a stack the lower layer is in front.
    order = sorted(range(len(tops)), key=lambda layer: (-tops[layer], -layer if is_stacked else layer))
    names = [escape_controls(name) for name in figure.layers]
    colors = [color_of(names[layer] if is_stacked else "", layer) for layer in range(len(names))]
    wide = WIDTH / max(len(figure.edges) - 1, 1)
    areas = tuple((colors[layer], _path(outlines[layer], top, wide)) for layer in order)
    legend = [f"{name}, at most {_exact(peak, figure.unit)}" for name, peak in zip(names, peaks, strict=True)]
    begin, end = format_span(figure.edges[0]), format_span(figure.edges[-1] - 1)
    title = escape_controls(figure.title)
    return CurveBox(
        title,
        amount(top, figure.unit),
        escape_controls(figure.remark),
        areas,
        _spans(figure, names, wide),
        tuple(zip(legend, colors, strict=True)),
        (begin, end),
        f"{title}, {begin} to {end}: {'; '.join(legend)}",
    )


def wholes_of(figure: Curve) -> list[list[int | None]]:
    """Return for each layer of a stack the sum of it and of all below it, in each column."""
    sums: list[list[int | None]] = []
    for layer in figure.values:
        below = sums[-1] if sums else [0] * len(layer)
        sums.append([None if a is None or b is None else a + b for a, b in zip(below, layer, strict=True)])
    return sums


def _peak(values: Sequence[int | None]) -> int:
    return max((value for value in values if value is not None), default=0)


def _path(values: Sequence[int | None], top: int, wide: float) -> str:
    """Return the outline of the area below the steps; a gap for each unknown value."""
    parts, column, pen = [], 0, False
    for value, run in groupby(values):
        width = len(list(run))
        drawn = value is not None and top > 0 and value > 0
        if drawn and not pen:
            parts.append(f"M{_short(column * wide)} {HEIGHT}")
        if drawn:
            parts.append(f"V{_short(HEIGHT - HEIGHT * (value or 0) / top)}H{_short((column + width) * wide)}")
        elif pen:
            parts.append(f"V{HEIGHT}z")
        pen, column = drawn, column + width
    return "".join([*parts, f"V{HEIGHT}z"] if pen else parts)


def _short(coordinate: float) -> str:
    return f"{coordinate:.1f}".removesuffix(".0")


def _spans(figure: Curve, names: list[str], wide: float) -> tuple[tuple[str, str, str], ...]:
    spans, column = [], 0
    for cells, run in groupby(zip(*figure.values, strict=True)):
        width = len(list(run))
        both = zip(names, cells, strict=True)
        known = [f"{name} {_exact(value, figure.unit)}" for name, value in both if value is not None]
        when = f"{format_span(figure.edges[column])} to {format_span(figure.edges[column + width] - 1)}"
        text = f"{when}: {', '.join(known) or 'not known'}"
        spans.append((f"{column * wide:.2f}", f"{width * wide:.2f}", text))
        column += width
    return tuple(spans)


def _exact(value: int, unit: Unit) -> str:
    return f"{value:,} bytes" if unit is Unit.BYTES else amount(value, unit)


# A heat map as a table of shaded cells, written by the template: without a script, and for screen readers and print.
#
# The shade is how far a value is above or below its level. The limits are decided in whole numbers.


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
    columns = list(map(escape_controls, figure.columns))
    wide = len(columns)
    cells = [
        (shade(value, level), _text(columns[place % wide], value, level, figure.unit))
        for place, (value, level) in enumerate(zip(figure.values, figure.levels, strict=True))
    ]
    rows = tuple(
        (escape_controls(label), tuple(cells[row * wide : (row + 1) * wide])) for row, label in enumerate(figure.rows)
    )
    used = {key for key, _ in cells}
    return HeatMap(
        escape_controls(figure.title),
        f"{plural(len(figure.rows), 'row')}, {plural(wide, 'column')}",
        escape_controls(figure.remark),
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
    beside = "" if level is None else f" (median {_exact_cell(level, unit)})"
    return f"{label}: {_exact_cell(value, unit)}{beside}"


def _exact_cell(value: int, unit: Unit) -> str:
    if unit is Unit.NS:
        return f"{value:,} ns"
    return format_bytes(value) if unit is Unit.BYTES else f"{value:,}"
