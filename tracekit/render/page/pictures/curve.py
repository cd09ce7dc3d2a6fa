"""Curves over time: stepped areas, the one with the greatest peak behind, or stacked; and the peak marked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tracekit.model.display import escape_controls, escaped
from tracekit.model.picture import Picture
from tracekit.model.report import Curve, StackedCurve
from tracekit.model.units import Unit, format_span, sentence_span
from tracekit.render.axes import linear
from tracekit.render.figures import WIDTH, amount, curve_box, wholes_of
from tracekit.render.page.pictures import _drawing as draw

__all__ = ["curve"]

MOST_TITLES = 32
_ENDS = 12
"""Percent of the width at each end that belongs to the labels of begin and end."""


def curve(figure: Curve) -> str:
    """Return the drawing of a curve."""
    box = curve_box(figure)
    is_stacked = isinstance(figure, StackedCurve)
    # The peak of a stack is that of the whole, which is the outline of its highest layer.
    marked = Curve(figure.title, figure.unit, figure.edges, ["all"], wholes_of(figure)[-1:]) if is_stacked else figure
    peaks = [max((value for value in layer if value is not None), default=0) for layer in marked.values]
    top, unit = max(peaks, default=0), figure.unit
    axis = linear(top, unit)
    height = draw.HEIGHT * axis.place(top) if top > 0 else draw.HEIGHT
    areas = "".join(draw.tag("path", fill=color, d=path) for color, path in box.areas)
    drawn = draw.tag(
        "svg",
        areas,
        y=draw.number(draw.HEIGHT - height),
        width="100%",
        height=draw.number(height),
        viewBox=f"0 0 {WIDTH} {draw.HEIGHT}",
        preserveAspectRatio="none",
    )
    titles = _titles(figure)
    over = draw.tag("g", titles, class_="over")
    count = len(figure.edges) - 1
    mark, peak = _peak(marked, peaks, draw.HEIGHT - height)
    begin, end = figure.edges[0], figure.edges[-1]
    times = linear(end, Unit.NS)
    middle = [(100 * (at - begin) / max(end - begin, 1), f"{label} {times.word}") for at, label in times.ticks[:-1]]
    labels = [
        (0.0, sentence_span(begin)),
        *((x, label) for x, label in middle if _ENDS < x < 100 - _ENDS),
        (100.0, sentence_span(end - 1)),
    ]
    body = draw.axis_at_left(axis) + drawn + draw.plot(over, count) + mark + draw.texts_below(labels, draw.HEIGHT + 14)
    shows = "the moment of its greatest total" if is_stacked else "its greatest value"
    remarks = [f"a column shows {shows}", peak, box.remark]
    parts = [draw.Part(word, color) for word, color in box.legend]
    picture = Picture("curve", figure.title, "", ())
    return draw.figure(picture, remarks, draw.drawing(picture, box.summary, draw.HEIGHT + draw.ROOM, body), parts)


def _peak(figure: Curve, peaks: Sequence[int], y: float) -> tuple[str, str]:
    """Return the mark of the greatest value, and its place and size in words; nothing where all are 0."""
    if not any(peak > 0 for peak in peaks):
        return "", ""
    layer = max(range(len(peaks)), key=lambda each: peaks[each])
    column = next(i for i, value in enumerate(figure.values[layer]) if value == peaks[layer])
    x = 100 * (column + 0.5) / (len(figure.edges) - 1)
    when = f"{format_span(figure.edges[column])} to {format_span(figure.edges[column + 1] - 1)}"
    words = f"peak {amount(peaks[layer], figure.unit)}"
    title = draw.tag("title", escaped(f"{figure.layers[layer]}, peak {draw.exact(peaks[layer], figure.unit)}, {when}"))
    dot = draw.tag("circle", title, cx=draw.percentage(x), cy=draw.number(y), r=4)
    # The label is on the side that has room for it, below the top of the plot.
    side = "e" if x > 50 else ""
    place = {"x": draw.percentage(x), "dx": 7 if side else -7, "y": draw.number(y - 7)}
    text = draw.tag("text", words, class_=f"peak {side}".strip(), **place)
    return dot + text, f"{words} at {sentence_span(figure.edges[column])}"


def _titles(figure: Curve) -> str:
    """Return what people point at: each stretch of columns with the greatest value of each total."""
    count = len(figure.edges) - 1
    stretches = min(count, MOST_TITLES)
    names = [escape_controls(name) for name in figure.layers]
    texts: list[tuple[int, int, str]] = []
    wholes = wholes_of(figure)[-1] if isinstance(figure, StackedCurve) and figure.values else None
    for first, end in pairwise(count * i // stretches for i in range(stretches + 1)):
        # The parts of a stack are of one moment, so that they add up.
        at = max(range(first, end), key=lambda column: wholes[column] or 0) if wholes else -1
        known = [
            f"{name} {draw.exact(max(found), figure.unit)}"
            for name, layer in zip(names, figure.values, strict=True)
            if (found := [value for value in (layer[first:end] if at < 0 else [layer[at]]) if value is not None])
            and (at < 0 or any(found))
        ]
        text = ", ".join(known) or "not known"
        if texts and texts[-1][2] == text:
            texts[-1] = texts[-1][0], end, text
        else:
            texts.append((first, end, text))
    return "".join(
        draw.tag(
            "rect",
            draw.tag("title", escaped(f"{_when(figure, first, end)}: {text}")),
            x=first,
            style="" if end == first + 1 else f"width:{end - first}px",
        )
        for first, end, text in texts
    )


def _when(figure: Curve, first: int, end: int) -> str:
    return f"{format_span(figure.edges[first])} to {format_span(figure.edges[end] - 1)}"
