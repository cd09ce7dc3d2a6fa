"""Clocks that are set on the way: the parts of differences of two clocks between which a line does not go on.

A clock that is set (NTP's step), or slewed for a while, is several lines. One line through all of them would be wrong
everywhere, so the parts are found first. The noise is measured from neighbouring differences, which a break touches
once. Then the sums of what a line leaves over are looked at: without a break they wander by about the root of their
number (the CUSUM test: Page, Continuous Inspection Schemes, 1954; Brown, Durbin and Evans, Techniques for Testing the
Constancy of Regression Relationships over Time, 1975). Where they go further, the differences are cut in two where two
lines fit best, and each part is looked at again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracekit.columns.arrays import F64

__all__ = ["LEAST_IN_PART", "Part", "parts"]

LEAST_IN_PART = 8
"""With fewer differences there is no part."""
MOST_PARTS = 12
_CLIP = 3.0
"""What a line leaves over counts up to this many deviations: single late ends are no break."""
_FAR = 1.4
"""Sums that go further than this, in deviations of the root of their number, are no chance: 1 in 10,000 trials do."""
_TRIED = 24
"""Cuts that are tried, evenly over the differences, before the best is looked for around the best of them."""

Fit = Callable[[F64, F64], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Part:
    """Differences from place `first` to before `last`, in order of time, that are about one line."""

    first: int
    last: int
    shift: float
    slope: float

    def at(self, x: F64) -> F64:
        """Return the line at these times."""
        line: F64 = self.shift + self.slope * x
        return line


def parts(x: F64, y: F64, fit: Fit, least_noise: float) -> list[Part]:
    """Return the parts. x: times in order; y: differences; fit: returns shift and slope of the line through some.

    least_noise: the smallest deviation that the clocks can show. One part where nothing speaks for more.
    """
    whole = [Part(0, x.size, *fit(x, y))]
    if x.size < 2 * LEAST_IN_PART:
        return whole
    noise = max(_noise(x, y), least_noise)
    found: list[Part] = []
    waiting = whole
    while waiting:
        part = waiting.pop()
        cut = _cut(x, y, part, noise, fit) if len(found) + len(waiting) + 2 <= MOST_PARTS else None
        if cut is None:
            found.append(part)
        else:
            waiting += cut
    found.sort(key=lambda each: each.first)
    return found


def _noise(x: F64, y: F64) -> float:
    """Return the deviation of single differences, from neighbouring ones."""
    steps, times = np.diff(y), np.diff(x)
    apart = times > 0
    slope = float(np.median(steps[apart] / times[apart])) if apart.any() else 0.0
    return float(1.4826 / np.sqrt(2) * np.median(np.abs(steps - slope * times)))


def _left(x: F64, y: F64, part: Part, noise: float) -> F64:
    here = slice(part.first, part.last)
    clipped: F64 = np.clip((y[here] - part.at(x[here])) / noise, -_CLIP, _CLIP)
    return clipped


def _cut(x: F64, y: F64, part: Part, noise: float, fit: Fit) -> list[Part] | None:
    """Return the two parts of a part that is not one line, None where it is."""
    left = _left(x, y, part, noise)
    left = left - left.mean()
    spread = max(float(np.sqrt((np.diff(left) ** 2).mean() / 2)), 0.3)
    if np.abs(np.cumsum(left)).max() <= _FAR * spread * np.sqrt(left.size):
        return None
    best, cost = None, float((_left(x, y, part, noise) ** 2).sum())
    limit = cost - 12.0 * spread**2
    low, high = part.first + LEAST_IN_PART, part.last - LEAST_IN_PART
    step = max((high - low) // _TRIED, 1)
    tried = list(range(low, high + 1, step))
    while True:
        for at in tried:
            two = [Part(a, b, *fit(x[a:b], y[a:b])) for a, b in ((part.first, at), (at, part.last))]
            of_two = sum(float((_left(x, y, each, noise) ** 2).sum()) for each in two)
            if of_two < limit:
                best, limit = two, of_two
        if step == 1 or best is None:
            break
        middle, step = best[0].last, max(step // 6, 1)
        tried = [at for at in range(middle - 6 * step, middle + 6 * step + 1, step) if low <= at <= high]
    return best
