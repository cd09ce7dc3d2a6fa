"""The course of a figure in the height of a line: SVG in percent of its width, without a script."""

from __future__ import annotations

from collections.abc import Collection

from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import plural
from tracekit.model.report import Series
from tracekit.model.units import Unit, sentence_span
from tracekit.render.figures import amount

__all__ = ["Spark", "amount_at_a_glance", "spark"]

_LEAST_RANGE = 0.1
"""Part of the largest value that the picture shows at least, so that noise does not look like a change."""
_MOST_DOTS = 40
"""Values from which on only the last one has a dot."""


@dataclass(frozen=True, slots=True)
class Spark:
    """A course ready for the template.

    path: through the known values, in a box of 100 by 100; runs without a value leave a gap. dots: (x, y) in percent.
    crosses: x of the runs that failed. summary: for those who do not see it.
    """

    path: str
    dots: tuple[tuple[str, str], ...]
    last: tuple[str, str] | None
    crosses: tuple[str, ...]
    summary: str


def amount_at_a_glance(value: int | float, unit: Unit) -> str:
    """Return a value with four digits and its unit."""
    return sentence_span(round(value)) if unit is Unit.NS else amount(value, unit)


def spark(figure: Series, failed: Collection[int] = ()) -> Spark:
    """Return the course of a figure. failed: places of runs that failed, which have no value."""
    count = len(figure.values)
    known = [(place, value) for place, value in enumerate(figure.values) if value is not None]
    high = max((value for _, value in known), default=0)
    low = min((value for _, value in known), default=0)
    if high - low < _LEAST_RANGE * high:
        middle = (high + low) / 2
        low, high = middle - _LEAST_RANGE * high / 2, middle + _LEAST_RANGE * high / 2

    def x(place: int) -> str:
        return f"{2 + 96 * (place / (count - 1) if count > 1 else 0.5):.1f}"

    def y(value: int | float) -> str:
        return f"{88 - 76 * ((value - low) / (high - low) if high > low else 0.5):.1f}"

    pieces, before = [], -2
    for place, value in known:
        pieces.append(f"{'L' if place == before + 1 else 'M'}{x(place)} {y(value)}")
        before = place
    dots = tuple((x(place), y(value)) for place, value in known)
    summary = f"{figure.title} of {plural(count, 'run')}"
    if known:
        values = [value for _, value in known]
        ends = [amount_at_a_glance(value, figure.unit) for value in (min(values), max(values), values[-1])]
        summary += f": {ends[0]} to {ends[1]}, last {ends[2]}"
    if failed:
        summary += f"; {len(failed):,} failed"
    return Spark(
        "".join(pieces),
        dots if len(dots) <= _MOST_DOTS else (),
        dots[-1] if dots else None,
        tuple(x(place) for place in sorted(failed)),
        summary,
    )
