"""Trends in values that follow each other: a rank test against noise, a robust slope, and where the trend begins.

The test is Mann and Kendall's (normal approximation, one-sided, with the correction for equal values left out: it makes
the test more careful). The slope is the median over all pairs (Theil and Sen). Neither assumes a shape of the noise, so
single outliers are harmless. The beginning is the place from which a level followed by a line fits best, in the sum of
absolute distances.
"""

from __future__ import annotations

import math

import numpy as np

from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import F64, Numbers

__all__ = ["Rise", "chance_of_rise", "median_slope", "rising"]

_MOST = 400
"""Values that are compared in pairs: of more, so many that are evenly spread."""


@dataclass(frozen=True, slots=True)
class Rise:
    """A rise. at: the number of the value from which on it rises. base: the level before; slope: a value, after it.

    last: the level that the line reaches at the last value. chance: of such a rise in values without a trend.
    """

    at: int
    base: float
    slope: float
    last: float
    chance: float


def some(values: Numbers) -> F64:
    """Return at most 400 of the values, evenly spread: pairs of them all would be too many."""
    column = np.asarray(values, np.float64)
    at = np.linspace(0, column.size - 1, min(column.size, _MOST)).astype(np.int64)
    found: F64 = column[at]
    return found


def median_slope(values: Numbers) -> float:
    """Return the median slope of all pairs (Theil and Sen), a value.

    >>> median_slope(np.array([1, 3, 5, 70, 9]))
    2.0
    """
    column = np.asarray(values, np.float64)
    spread = some(column)
    if spread.size < 2:
        return 0.0
    i, j = np.triu_indices(spread.size, 1)
    return float(np.median((spread[j] - spread[i]) / (j - i))) * (spread.size - 1) / max(column.size - 1, 1)


def chance_of_rise(values: Numbers) -> float:
    """Return the chance of such a rise in values without a trend (Mann-Kendall, normal approximation, one-sided).

    >>> round(chance_of_rise(np.arange(10)), 5), chance_of_rise(np.zeros(10))
    (4e-05, 1.0)
    """
    spread = some(values)
    n = spread.size
    if n < 3:
        return 1.0
    i, j = np.triu_indices(n, 1)
    score = float(np.sign(spread[j] - spread[i]).sum())
    deviation = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    return 0.5 * math.erfc((score - 1) / deviation / math.sqrt(2)) if score > 0 else 1.0


def rising(values: Numbers, *, chance: float, least: float) -> Rise | None:
    """Return the trend of values that rise by `least` or more of their first level; None where they do not.

    chance: the largest at which a rise is believed. The rise must also be larger than the scatter about it.
    """
    column = np.asarray(values, np.float64)
    if column.size < 3:
        return None
    found = chance_of_rise(column)
    if found > chance:
        return None
    at, base, last = _hinge(column)
    span = column.size - 1 - at
    slope = (last - base) / span if span > 0 else last - base
    fitted = np.where(np.arange(column.size) < at, base, base + slope * (np.arange(column.size) - at))
    scatter = float(np.median(np.abs(column - fitted)))
    if base <= 0 or last - base < max(least * base, 3 * scatter):
        return None
    return Rise(at, base, slope, last, found)


def _hinge(column: F64) -> tuple[int, float, float]:
    """Return where a level turns into a rise, the level, and the last point of the line that follows."""
    n = column.size
    best = (math.inf, 0, 0.0, 0.0)
    for at in sets.unique(np.linspace(0, n - 3, min(n - 2, 60)).astype(np.int64)).tolist():  # few: places to try
        after = column[at:]
        slope = median_slope(after)
        number = np.arange(after.size)
        if at >= 3:
            base = float(np.median(column[:at]))
            # The line starts at the level, so its slope is that of the distances to it.
            slope = float(np.median((after[1:] - base) / number[1:]))
        else:
            base = float(np.median(after - slope * number))
            if at:
                continue
        error = float(np.abs(column[:at] - base).sum() + np.abs(after - base - slope * number).sum())
        if error < best[0]:
            best = (error, at, base, base + slope * (after.size - 1))
    return best[1:]
