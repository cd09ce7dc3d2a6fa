"""Calls, total, minimum, maximum, mean, deviation and percentiles by group, in integers wherever the result is one.

**The percentile of tracekit** is the nearest rank: the p-th percentile of n sorted values is value number
ceil(p / 100 * n), counted from 1 (number 1 for p = 0). It is always a value that was observed, so a percentile of
times is whole ns and can be looked up in the trace. Libraries differ here (linear interpolation in numpy and pandas,
t-digest in pyarrow, another rank in DuckDB), so every figure of the package comes from this file. The median is
percentile 50: of an even number of values it is the lower middle one.

**The mean** is total / calls rounded to the nearest integer, a half to the even one. **The deviation** of views is that
of the population (divided by calls: a trace holds all calls, no sample of them), from an exact variance and rounded
like the mean: a single value has 0. `std` is that of a sample (divided by calls - 1), as the StdDev of `nsys stats`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tracekit.analysis.segments import INT64_MAX, as_codes, as_int64, check_same_length, group_bounds, sort_within
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import F64, I64, Mask, Numbers, Rows

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["DEFAULT_PERCENTILES", "Grouped", "between", "grouped", "median", "moments", "nearest_rank", "rank_of"]

DEFAULT_PERCENTILES = (50, 95, 99)

_BLOCK = 1 << 16
_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """Statistics of g groups: arrays of shape (g,), in the unit of the values; a group that is not `present` has none.

    calls: number of values. present: whether there is any; without one, all integers are 0 and mean nothing.
    total, min, max: exact. mean: exact, rounded to an integer, a half to the even one.
    std: float64, of a sample; nan for fewer than two values. pstd: of the population, exact, rounded to an integer, a
    half to the even one.
    percentiles: shape (g, p), nearest rank, one column for each entry of `percents`.
    """

    calls: I64
    present: Mask
    total: I64
    min: I64
    max: I64
    mean: I64
    std: F64
    pstd: I64
    percents: tuple[float, ...]
    percentiles: I64

    def percentile(self, percent: float) -> I64:
        """Return one column of `percentiles`. Raises: ValueError where it was not asked for."""
        return self.percentiles[:, self.percents.index(percent)]

    def of(self, groups: Rows) -> Grouped:
        """Return the statistics of these groups alone, in this order."""
        return Grouped(
            calls=self.calls[groups],
            present=self.present[groups],
            total=self.total[groups],
            min=self.min[groups],
            max=self.max[groups],
            mean=self.mean[groups],
            std=self.std[groups],
            pstd=self.pstd[groups],
            percents=self.percents,
            percentiles=self.percentiles[groups],
        )


def between(values: I64 | F64, share: float) -> float:
    """Return the value that this share of the values is below, between two of them: what `np.quantile` returns.

    For what a rule compares with: figures that are shown are nearest ranks. values: one or more. numpy's function makes
    a set of numbers, which is not quick (`model/sets.py`).

    >>> between(np.array([10, 40, 20]), 0.25)
    15.0
    """
    ordered = np.sort(values)
    place = share * (ordered.size - 1)
    at = int(place)
    low, high, part = ordered[at], ordered[min(at + 1, ordered.size - 1)], place - at
    # From the nearer of the two, as numpy does: the other way may round to another number.
    return float(low + (high - low) * part) if part < 0.5 else float(high - (high - low) * (1 - part))


def median(values: I64 | F64) -> float:
    """Return the middle value, or the mean of two, as `np.median` does: for what a rule compares with.

    values: one or more, none of them nan. numpy's function looks whether floats are of `numpy.ma`, which it imports.

    >>> median(np.array([10.0, 40.0, 20.0, 30.0]))
    25.0
    """
    ordered = np.sort(values)
    low, high = ordered[(ordered.size - 1) // 2], ordered[ordered.size // 2]
    return (float(low) + float(high)) / 2 if ordered.size % 2 == 0 else float(low)


def nearest_rank(sorted_values: Numbers, percent: float) -> int:
    """Return the percentile of values that ascend: value number ceil(percent / 100 * n), counted from 1.

    sorted_values: shape (n,), n > 0. percent: 0 .. 100, taken as the decimal that it prints as (99.9 is 999/10).
    Raises: ValueError for no values, values that descend, or a percent outside; TypeError for no integers.

    >>> nearest_rank(np.array([10, 20, 30, 40]), 50)
    20
    """
    values = as_int64(sorted_values, "sorted_values")
    if values.size == 0:
        raise ValueError("no values have no percentile")
    if (values[1:] < values[:-1]).any():
        raise ValueError("values must ascend")
    return int(values[_rank(_exact(percent), values.size) - 1])


def grouped(
    codes: Numbers,
    n_groups: int,
    values: Numbers,
    percentiles: Sequence[float] = DEFAULT_PERCENTILES,
) -> Grouped:
    """Return the statistics of the values of each group.

    codes: shape (n,), the group of each value, 0 .. n_groups - 1. values: shape (n,), any int64 (ns, bytes).
    percentiles: each 0 .. 100, as for `nearest_rank`.
    Raises: OverflowError where a total exceeds int64; ValueError for a code or percent outside or different lengths;
    TypeError for values that are no integers.

    >>> of = grouped(np.array([0, 0, 2]), 3, np.array([7, 4, 5]), (50,))
    >>> of.calls, of.total, of.mean, of.percentile(50)
    (array([2, 0, 1]), array([11,  0,  5]), array([6, 0, 5]), array([4, 0, 5]))
    """
    groups = as_codes(codes, n_groups)
    column = as_int64(values, "values")
    check_same_length(codes=groups, values=column)
    exact = [_exact(percent) for percent in percentiles]

    bounds = group_bounds(groups, n_groups)
    calls = np.diff(bounds)
    present = calls > 0
    n, first = calls[present], bounds[:-1][present]
    ordered = sort_within(groups, n_groups, column)
    totals = _totals(ordered, first, n)
    means = _means(totals, n)

    def spread(found: I64) -> I64:
        everywhere = np.zeros(n_groups, np.int64)
        everywhere[present] = found
        return everywhere

    std = np.full(n_groups, np.nan)
    std[present], pstd = _deviations(ordered, first, n, totals, means)
    columns = [spread(ordered[first + _ranks(percent, n) - 1]) for percent in exact]
    return Grouped(
        calls=calls,
        present=present,
        total=spread(totals),
        min=spread(ordered[first]),
        max=spread(ordered[first + n - 1]),
        mean=spread(means),
        std=std,
        pstd=spread(pstd),
        percents=tuple(percentiles),
        percentiles=np.stack(columns, axis=1) if columns else np.zeros((n_groups, 0), np.int64),
    )


def rank_of(percent: float, n: int) -> int:
    """Return the number, counted from 1, of the value that is the percentile of n values in order. n > 0.

    Raises: ValueError for a percent outside of 0 .. 100.
    """
    return _rank(_exact(percent), n)


def moments(calls: Sequence[int], totals: Sequence[int], squares: Sequence[int]) -> tuple[I64, F64, I64]:
    """Return mean, deviation of a sample and of the population of groups, as `Grouped` has them.

    calls, totals, squares: for each group the number of its values, their sum, and the sum of their squares, exact.
    """
    mean, sample, population = [], [], []
    for n, total, square in zip(calls, totals, squares, strict=True):
        divisor = max(n, 1)  # the sums of no values are 0
        whole, rest = divmod(total, divisor)
        mean.append(whole + (2 * rest > divisor or (2 * rest == divisor and whole % 2 == 1)))
        scaled = n * square - total * total
        sample.append(math.sqrt(scaled / (n * (n - 1))) if n > 1 else math.nan)
        population.append(_rounded_root(scaled, divisor))
    return np.array(mean, np.int64), np.array(sample, np.float64), np.array(population, np.int64)


def _exact(percent: float) -> Fraction:
    """Return the percent as the decimal that its user wrote: the binary 99.9 is a bit more, and could cost a rank."""
    from fractions import Fraction  # a command without percentiles needs none

    exact = Fraction(str(percent))
    if not 0 <= exact <= 100:
        raise ValueError(f"a percent must be in 0 .. 100: {percent}")
    return exact


def _rank(percent: Fraction, n: int) -> int:
    return max(1, -(-n * percent.numerator // (100 * percent.denominator)))


def _ranks(percent: Fraction, n: I64) -> I64:
    # In Python's integers, as n times a numerator may exceed int64. There are few different n: they add up to all rows.
    distinct, at = np.unique(n, return_inverse=True)
    return np.array([_rank(percent, count) for count in distinct.tolist()], np.int64)[at]


def _totals(ordered: I64, first: I64, n: I64) -> I64:
    """Return the sum of each group of sorted values; first, n: where each group (none is empty) begins, its size."""
    if first.size == 0:
        return np.zeros(0, np.int64)
    largest = max(-int(ordered[first].min()), int(ordered[first + n - 1].max()))
    if largest * int(n.max()) <= INT64_MAX:
        return np.add.reduceat(ordered, first)
    high = np.add.reduceat(ordered >> 32, first)
    low = np.add.reduceat(ordered & 0xFFFFFFFF, first)
    high += low >> 32
    if int(high.min()) < -(1 << 31) or int(high.max()) >= 1 << 31:
        raise OverflowError("a total exceeds int64")
    return (high << 32) | (low & 0xFFFFFFFF)


def _means(totals: I64, n: I64) -> I64:
    whole, rest = np.divmod(totals, n)
    whole += (2 * rest > n) | ((2 * rest == n) & (whole % 2 == 1))
    return whole


def _deviations(ordered: I64, first: I64, n: I64, totals: I64, means: I64) -> tuple[F64, I64]:
    """Return the deviation of a sample, nan for one value, and that of the population, of each group.

    The sum of squared distances to the mean is taken exactly, times n to be an integer: n * (squared distances to the
    rounded mean) - (n * what the rounding added)^2. So times since 1970 with a small spread lose nothing.
    """
    sample, population = np.full(n.size, np.nan), np.zeros(n.size, np.int64)
    several = np.flatnonzero(n > 1)  # one value deviates from nothing, and there may be a million such groups
    if not several.size:
        return sample, population
    squares = _squares(ordered, first, n, means)
    # totals - means * n is small; both sides may wrap around int64, their difference does not.
    rounding = (totals - means * n).tolist()
    for group, count in zip(several.tolist(), n[several].tolist(), strict=True):
        scaled = count * squares[group] - rounding[group] * rounding[group]
        sample[group] = math.sqrt(scaled / (count * (count - 1)))
        population[group] = _rounded_root(scaled, count)
    return sample, population


def _squares(ordered: I64, first: I64, n: I64, means: I64) -> list[int]:
    """Return for each group the sum of the squared distances to its rounded mean, exact.

    In blocks of rows that stay in the cache: whole columns of intermediate results cost more than the arithmetic.
    """
    ends = first + n
    squares = [0] * first.size
    for low in range(0, ordered.size, _BLOCK):
        high = min(low + _BLOCK, ordered.size)
        begin, end = int(np.searchsorted(ends, low, side="right")), int(np.searchsorted(first, high))
        starts = np.maximum(first[begin:end], low) - low
        values = ordered[low:high]
        centre = np.repeat(means[begin:end], np.minimum(ends[begin:end], high) - low - starts)
        distance = np.maximum(values, centre).view(np.uint64) - np.minimum(values, centre).view(np.uint64)
        for group, square in enumerate(_sums_of_squares(distance, starts), begin):
            squares[group] += square
    return squares


def _sums_of_squares(distance: npt.NDArray[np.uint64], first: I64) -> list[int]:
    """Return the sum of the squares of each group of a block, exact."""
    largest = int(distance.max())
    if largest * largest * distance.size <= INT64_MAX:
        found: list[int] = np.add.reduceat(distance * distance, first).tolist()
        return found
    low = distance & _LOW
    total = _halves(low * low, first, 0)
    if largest > int(_LOW):
        high = distance >> _SHIFT
        for part, shift in ((high * low, 33), (high * high, 64)):
            total = [a + b for a, b in zip(total, _halves(part, first, shift), strict=True)]
    return total


def _halves(products: npt.NDArray[np.uint64], first: I64, shift: int) -> list[int]:
    """Return the sum of each group times 2^shift; the halves of the products are added apart: none overflows."""
    upper = np.add.reduceat(products >> _SHIFT, first).tolist()
    lower = np.add.reduceat(products & _LOW, first).tolist()
    return [((a << 32) + b) << shift for a, b in zip(upper, lower, strict=True)]


def _rounded_root(scaled: int, count: int) -> int:
    """Return sqrt(scaled) / count, rounded to the nearest integer, a half to the even one."""
    floor = math.isqrt(scaled // (count * count))
    above = 4 * scaled - (2 * floor + 1) ** 2 * count * count
    return floor + (above > 0 or (above == 0 and floor % 2 == 1))
