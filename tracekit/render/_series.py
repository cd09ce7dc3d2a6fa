"""A series as bars in SVG, written by the template: it needs no script and can be printed.

Places are equally wide. With more values than bars, neighbours share a bar, which shows the largest of them and says so
in its tooltip. Marked values have a colour of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracekit.render._palette import color_of
from tracekit.report import Series
from tracekit.text.display import visible
from tracekit.units import Unit, format_bytes, format_ratio, format_span

MOST_BARS = 400
WIDTH, HEIGHT = 1000, 120
_MARKS = ("#d9822b", "#c2556e", "#8d6cab", "#2f9e7e")
_PLAIN = color_of("kernel")


@dataclass(frozen=True, slots=True)
class Stroke:
    """One bar: place and size in the drawing's units, colour, and tooltip."""

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
    title = visible(figure.title)
    if not known:
        return [f"{title}: all values are unknown"]
    most, last = max(known, key=lambda each: (each[0], -each[1]))
    least = min(value for value, _ in known)
    count = f"{len(known):,} {'value' if len(known) == 1 else 'values'}"
    line = f"{title}: {count}, {amount(least, figure.unit)} to {amount(most, figure.unit)}"
    line += f" (the largest at {visible(str(figure.labels[last]))})" if most > least else ""
    words = [f"{visible(word)} {amount(value, figure.unit)}" for word, value in figure.levels]
    for word in dict.fromkeys(word for _, word in figure.marks):
        words.append(f"{visible(word)}: {sum(each == word for _, each in figure.marks):,}")
    return [line, *([", ".join(words)] if words else [])]


def chart(figure: Series) -> Chart:
    """Return the drawing of a series."""
    count = len(figure.values)
    bars = min(count, MOST_BARS)
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
        (f"{_y(value, highest):.1f}", f"{visible(word)} {amount(value, figure.unit)}") for word, value in figure.levels
    ]
    legend = tuple((visible(word), _MARKS[i % len(_MARKS)]) for i, word in enumerate(words))
    summary = "; ".join(series_lines(figure))
    return Chart(visible(figure.title), tuple(strokes), tuple(levels), legend, summary, amount(highest, figure.unit))


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
    text = f"{visible(str(figure.labels[place]))}: {amount(value, figure.unit)}"
    text += f", {visible(word)}" if word else ""
    text += f" (the largest of {shared:,})" if shared > 1 else ""
    color = _MARKS[words.index(word) % len(_MARKS)] if word else _PLAIN
    room = min(wide * 0.85, 40)
    return Stroke(f"{bar * wide + (wide - room) / 2:.2f}", f"{y:.1f}", f"{room:.2f}", f"{HEIGHT - y:.1f}", color, text)
