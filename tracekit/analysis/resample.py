"""Bootstrap intervals: the range that a statistic, or a difference of two, could be in, given the spread of the data.

Sources. The percentile and the BCa interval: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters
13 and 14. The expanded percentile interval: Hesterberg, What Teachers Should Know About the Bootstrap (2015), section
3.4: plain percentile intervals of few values are too narrow (of 10 values by a tenth), so the level is raised by
sqrt(n / (n - 1)) and by Student's t in the place of the normal distribution. It is the default.

Statistics are "mean", "median" and "pNN": percentiles by nearest rank, as everywhere in tracekit. All results are the
same for the same values in any order and the same seed.
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np

from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import F64, Numbers

__all__ = [
    "LEAST_VALUES",
    "Interval",
    "Method",
    "bootstrap",
    "bootstrap_difference",
    "relative_difference_of_few",
    "statistic",
]

Method: TypeAlias = Literal["expanded", "percentile", "bca"]

RESAMPLES = 4000
SEED = 20_240_501
LEAST_VALUES = 2
"""Fewer values have no spread to resample."""
_CHUNK = 1 << 22
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate, and an interval that contains the true value with a probability of about `level`.

    estimate, low, high: in the unit of the values, or a ratio where the difference is relative.
    """

    estimate: float
    low: float
    high: float
    level: float

    @property
    def excludes_zero(self) -> bool:
        """Return whether the interval does not contain zero difference."""
        return self.low > 0 or self.high < 0


def statistic(values: Numbers, which: str) -> float:
    """Return "mean", "median" (lower middle) or "pNN" (nearest rank) of values, shape (n,), n > 0.

    Raises: ValueError for no values, values that are not finite, or another statistic.

    >>> statistic(np.array([4, 1, 3, 2]), "median"), statistic(np.array([4, 1, 3, 2]), "p75")
    (2.0, 3.0)
    """
    ordered = _ordered(values, 1)
    share = _share(which)
    return float(ordered.mean()) if share is None else float(ordered[_rank(share, ordered.size) - 1])


def bootstrap(
    values: Numbers,
    which: str,
    *,
    level: float = 0.95,
    method: Method = "expanded",
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """Return the interval of one statistic. Raises: ValueError as `bootstrap_difference`."""
    ordered, share = _ordered(values, LEAST_VALUES), _share(which)
    _check(level, resamples)
    draws = _draws(ordered, share, resamples, np.random.default_rng(seed))
    estimate = statistic(ordered, which)
    influence = _jackknife(ordered, share)
    low, high = _tails(method, level, draws, estimate, [influence], [ordered.size])
    return Interval(estimate, *_quantiles(draws, low, high), level)


def bootstrap_difference(
    base: Numbers,
    new: Numbers,
    which: str,
    *,
    relative: bool = False,
    level: float = 0.95,
    method: Method = "expanded",
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """Return the interval of statistic(new) - statistic(base); each side is resampled for itself.

    base, new: shapes (n,) and (m,), at least 2 values each, integers or floats. relative: the difference is divided by
    that of the base, so 0.03 is 3 % more; all values must then be above zero.
    Raises: ValueError for too few values, values that are not finite or (relative) not positive, another statistic,
    a level outside 0.5 .. 1, or fewer than 100 resamples.
    """
    a, b, share = _ordered(base, LEAST_VALUES), _ordered(new, LEAST_VALUES), _share(which)
    _check(level, resamples)
    if relative and (a[0] <= 0 or b[0] <= 0):
        raise ValueError("a relative difference needs values above zero")
    rng = np.random.default_rng(seed)
    of_a, of_b = _draws(a, share, resamples, rng), _draws(b, share, resamples, rng)
    at_a, at_b = statistic(a, which), statistic(b, which)
    draws, estimate = of_b - of_a, at_b - at_a
    jack_a, jack_b = at_b - _jackknife(a, share), _jackknife(b, share) - at_a
    if relative:
        draws, estimate = draws / of_a, estimate / at_a
        jack_a, jack_b = jack_a / _jackknife(a, share), jack_b / at_a
    low, high = _tails(method, level, draws, estimate, [jack_a, jack_b], [a.size, b.size])
    return Interval(estimate, *_quantiles(draws, low, high), level)


def relative_difference_of_few(base: Numbers, new: Numbers, *, level: float = 0.95) -> Interval:
    """Return the interval of mean(new) / mean(base) - 1 by Student's t, for samples too small to resample.

    base, new: shapes (n,) and (m,), n + m >= 3, not below zero, of means above zero; one of them may be a single value,
    whose spread is then taken to be that of the other. Both are taken to spread alike relative to their mean, and to be
    normal: so few values allow no weaker assumption. Raises: ValueError.
    """
    a, b = _ordered(base, 1), _ordered(new, 1)
    _check(level)
    freedom = a.size + b.size - 2
    if freedom < 1:
        raise ValueError("three values in all are needed")
    if a[0] < 0 or b[0] < 0 or a.mean() <= 0 or b.mean() <= 0:
        raise ValueError("a relative difference needs means above zero")
    squares = sum(float(np.square(side / side.mean() - 1).sum()) for side in (a, b))
    ratio = float(b.mean() / a.mean())
    reach = _student_quantile(0.5 + level / 2, freedom) * math.sqrt(squares / freedom * (1 / a.size + 1 / b.size))
    return Interval(ratio - 1, ratio - 1 - ratio * reach, ratio - 1 + ratio * reach, level)


def _check(level: float, resamples: int = RESAMPLES) -> None:
    if not 0.5 <= level < 1:
        raise ValueError(f"a level is in 0.5 .. 1: {level}")
    if resamples < 100:
        raise ValueError(f"at least 100 resamples are needed: {resamples}")


def _ordered(values: Numbers, least: int) -> F64:
    column = np.asarray(values)
    if column.ndim != 1 or column.size < least:
        raise ValueError(f"at least {least} values in one dimension are needed, not {column.shape}")
    ordered = np.sort(column.astype(np.float64))
    if not np.isfinite(ordered).all():
        raise ValueError("values must be finite")
    return ordered


def _share(which: str) -> Fraction | None:
    """Return the share of a percentile; None for the mean."""
    if which == "mean":
        return None
    text = "50" if which == "median" else which[1:]
    try:
        share = Fraction(text) / 100 if which == "median" or which[:1] == "p" else Fraction(-1)
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 <= share <= 1:
        raise ValueError(f"a statistic is mean, median or pNN: {which!r}")
    return share


def _rank(share: Fraction, n: int) -> int:
    return max(1, math.ceil(share * n))


def _draws(ordered: F64, share: Fraction | None, count: int, rng: np.random.Generator) -> F64:
    """Return the statistic of `count` resamples, shape (count,).

    The r-th smallest of n draws from n values needs no draws of them all: the r-th smallest of n uniform numbers has
    the distribution Beta(r, n - r + 1), and each uniform number u stands for value number floor(u * n).
    """
    n = ordered.size
    if share is not None:
        r = _rank(share, n)
        at = np.minimum((rng.beta(r, n - r + 1, count) * n).astype(np.int64), n - 1)
        return ordered[at]
    means = np.empty(count)
    step = max(1, _CHUNK // n)
    for first in range(0, count, step):
        rows = min(step, count - first)
        means[first : first + rows] = ordered[rng.integers(0, n, (rows, n))].mean(axis=1)
    return means


def _jackknife(ordered: F64, share: Fraction | None) -> F64:
    """Return the statistic without each of the values in turn, shape (n,)."""
    n = ordered.size
    if share is None:
        without: F64 = (ordered.sum() - ordered) / (n - 1)
        return without
    r = _rank(share, n - 1)
    found: F64 = np.where(np.arange(n) < r, ordered[r], ordered[r - 1])
    return found


def _tails(
    method: Method, level: float, draws: F64, estimate: float, jackknives: list[F64], sizes: list[int]
) -> tuple[float, float]:
    """Return the two shares of the resamples between which the interval lies."""
    tail = (1 - level) / 2
    if method == "percentile":
        return tail, 1 - tail
    if method == "expanded":
        least = min(sizes)
        t = _student_quantile(1 - tail, max(1, sum(sizes) - len(sizes)))
        wider = _NORMAL.cdf(-math.sqrt(least / (least - 1)) * t)
        return wider, 1 - wider
    if method != "bca":
        raise ValueError(f"a method is expanded, percentile or bca: {method!r}")
    below = (np.count_nonzero(draws < estimate) + np.count_nonzero(draws == estimate) / 2) / draws.size
    bias = _NORMAL.inv_cdf(min(max(below, 0.5 / draws.size), 1 - 0.5 / draws.size))
    # Influence of each value, weighted by the size of its side (Efron and Tibshirani, section 14.3, for two samples).
    parts = [(jack.mean() - jack) * (jack.size - 1) / jack.size for jack in jackknives]
    square = sum(float(np.square(part).sum()) for part in parts)
    skew = sum(float((part**3).sum()) for part in parts)
    acceleration = skew / (6 * square**1.5) if square > 0 else 0.0

    def moved(z: float) -> float:
        room = 1 - acceleration * (bias + z)
        return _NORMAL.cdf(bias + (bias + z) / room) if room > 0 else _NORMAL.cdf(math.copysign(8, z))

    low, high = sorted((moved(_NORMAL.inv_cdf(tail)), moved(_NORMAL.inv_cdf(1 - tail))))
    return low, high


def _quantiles(draws: F64, low: float, high: float) -> tuple[float, float]:
    """Return the two quantiles of the draws; between two draws the outer one, so that the interval is never shorter."""
    ordered = np.sort(draws)
    last = ordered.size - 1
    first, end = math.floor(low * last), math.ceil(high * last)
    return float(ordered[first]), float(ordered[end])


def _student_cdf(t: float, freedom: int) -> float:
    """Return the distribution of Student's t: Abramowitz and Stegun, 26.7.3 and 26.7.4, exact for whole degrees."""
    angle = math.atan2(t, math.sqrt(freedom))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = freedom % 2 == 1
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for i in range(1 if odd else 0, freedom - 1, 2):
        total += term
        term *= square * (i + 1) / (i + 2)
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return 0.5 + inside / 2


def _student_quantile(share: float, freedom: int) -> float:
    """Return the t that a share of Student's distribution does not exceed; above 1,000 degrees it is the normal one."""
    if freedom > 1000:
        return _NORMAL.inv_cdf(share)
    low, high = 0.0, 1.0
    while _student_cdf(high, freedom) < share:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_cdf(middle, freedom) < share else (low, middle)
    return high
