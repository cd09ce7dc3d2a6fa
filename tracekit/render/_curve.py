"""Curves over time as stepped areas in SVG, written by the template: they need no script and can be printed.

Areas lie on each other, the one with the greatest peak behind. Neighbouring columns with equal values share a tooltip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tracekit.render._palette import color_of
from tracekit.render._series import HEIGHT, WIDTH, amount
from tracekit.report import Curve
from tracekit.text.display import visible
from tracekit.units import Unit, format_span


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
    """Return the drawing of a curve."""
    peaks = [max((value for value in values if value is not None), default=0) for values in figure.values]
    top = max(peaks, default=0)
    order = sorted(range(len(peaks)), key=lambda layer: (-peaks[layer], layer))
    names = [visible(name) for name in figure.layers]
    colors = [color_of("", layer) for layer in range(len(names))]
    wide = WIDTH / max(len(figure.edges) - 1, 1)
    areas = tuple((colors[layer], _path(figure.values[layer], top, wide)) for layer in order)
    legend = [f"{name}, at most {_exact(peak, figure.unit)}" for name, peak in zip(names, peaks, strict=True)]
    begin, end = format_span(figure.edges[0]), format_span(figure.edges[-1] - 1)
    title = visible(figure.title)
    return CurveBox(
        title,
        amount(top, figure.unit),
        visible(figure.remark),
        areas,
        _spans(figure, names, wide),
        tuple(zip(legend, colors, strict=True)),
        (begin, end),
        f"{title}, {begin} to {end}: {'; '.join(legend)}",
    )


def _path(values: Sequence[int | None], top: int, wide: float) -> str:
    """Return the area below the steps; a gap for each unknown value."""
    parts, column = [], 0
    for value, run in groupby(values):
        width = len(list(run))
        if value is not None and top > 0 and value > 0:
            left, right = column * wide, (column + width) * wide
            parts.append(f"M{left:.2f} {HEIGHT}V{HEIGHT - HEIGHT * value / top:.1f}H{right:.2f}V{HEIGHT}z")
        column += width
    return "".join(parts)


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
