"""Statistics that can be added up: how often each value occurs in each group, from many files that are read apart.

Tallies of two inputs add up to that of all their rows, so the statistics are the same as `statistics.grouped` finds in
all values at once. Where there are too many different values, `rounded` keeps their leading bits: calls, totals,
least, greatest, mean and deviation stay exact, and a percentile is too low by a known share at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tracekit.analysis.segments import INT64_MAX, as_codes, as_int64, check_same_length, group_bounds, sort_within
from tracekit.analysis.statistics import DEFAULT_PERCENTILES, Grouped, moments, rank_of
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Numbers

__all__ = ["ValueCounts", "added", "rounded", "statistics", "tally"]


@dataclass(frozen=True, slots=True, eq=False)
class ValueCounts:
    """Counts of the values of `groups` groups, by value.

    group, value, count: shape (n,), in order of (group, value), no two alike. calls, low, high: shape (groups,), 0 for
    a group without values. total, squares: sum of the values of each group and of their squares, exact. bits: leading
    bits that the values keep, 0 where they are exact.
    """

    groups: int
    group: I64
    value: I64
    count: I64
    calls: I64
    low: I64
    high: I64
    total: tuple[int, ...]
    squares: tuple[int, ...]
    bits: int = 0


def tally(codes: Numbers, n_groups: int, values: Numbers) -> ValueCounts:
    """Return how often each value occurs in each group. codes, values: shape (n,), as for `grouped`; values >= 0.

    Raises: ValueError for a value below zero, and as `grouped` does.

    >>> found = tally(np.array([0, 0, 1]), 2, np.array([7, 7, 4]))
    >>> found.value, found.count, found.total
    (array([7, 4]), array([2, 1]), (14, 4))
    """
    groups = as_codes(codes, n_groups)
    column = as_int64(values, "values")
    check_same_length(codes=groups, values=column)
    if column.size and int(column.min()) < 0:
        raise ValueError("values must not be below zero")
    bounds = group_bounds(groups, n_groups)
    ordered = sort_within(groups, n_groups, column)
    of = np.repeat(np.arange(n_groups), np.diff(bounds))
    return _counted(n_groups, of, ordered, np.ones(ordered.size, np.int64))


def _counted(groups: int, group: I64, value: I64, count: I64) -> ValueCounts:
    """Return the tally of rows in order of (group, value)."""
    group, value, count = _distinct(group, value, count)
    bounds = np.searchsorted(group, np.arange(groups + 1))
    there = np.flatnonzero(np.diff(bounds))
    first, last = bounds[there], bounds[there + 1] - 1
    low, high, calls = (np.zeros(groups, np.int64) for _ in range(3))
    low[there], high[there] = value[first], value[last]
    calls[there] = np.add.reduceat(count, first)
    total, squares = [0] * groups, [0] * groups
    fits = [int(high[g]) ** 2 * int(calls[g]) <= INT64_MAX for g in there.tolist()]
    if all(fits):
        sums = np.add.reduceat(value * count, first).tolist(), np.add.reduceat(value * value * count, first).tolist()
        for g, one, two in zip(there.tolist(), *sums, strict=True):
            total[g], squares[g] = one, two
    else:
        for g, begin, end in zip(there.tolist(), first.tolist(), (last + 1).tolist(), strict=True):
            pairs = list(zip(value[begin:end].tolist(), count[begin:end].tolist(), strict=True))
            total[g], squares[g] = sum(v * n for v, n in pairs), sum(v * v * n for v, n in pairs)
    return ValueCounts(groups, group, value, count, calls, low, high, tuple(total), tuple(squares))


def _distinct(group: I64, value: I64, count: I64) -> tuple[I64, I64, I64]:
    """Return rows in order of (group, value) with equal ones made one."""
    if not group.size:
        return group, value, count
    new = np.append(True, (group[1:] != group[:-1]) | (value[1:] != value[:-1]))
    first = np.flatnonzero(new)
    return group[first], value[first], np.add.reduceat(count, first)


def added(parts: Sequence[tuple[ValueCounts, I64]], n_groups: int) -> ValueCounts:
    """Return the tally of all parts together. Beside each: the group of the result that each of its groups is.

    Parts that are rounded to different numbers of bits become as coarse as the coarsest.
    """
    bits = min((part.bits for part, _ in parts if part.bits), default=0)
    low, high = np.full(n_groups, INT64_MAX), np.zeros(n_groups, np.int64)
    calls = np.zeros(n_groups, np.int64)
    total, squares = [0] * n_groups, [0] * n_groups
    columns: list[tuple[I64, I64, I64]] = []
    for part, to in parts:
        there = np.flatnonzero(part.calls)
        np.minimum.at(low, to[there], part.low[there])
        np.maximum.at(high, to[there], part.high[there])
        np.add.at(calls, to[there], part.calls[there])
        for g, target in zip(there.tolist(), to[there].tolist(), strict=True):
            total[target] += part.total[g]
            squares[target] += part.squares[g]
        value = part.value if part.bits == bits else _leading(part.value, bits)
        columns.append((to[part.group], value, part.count))
    group, value, count = (
        np.concatenate(column) if columns else np.zeros(0, np.int64)
        for column in (zip(*columns, strict=True) if columns else ((), (), ()))
    )
    order = _order(group, n_groups, value)
    group, value, count = _distinct(group[order], value[order], count[order])
    low[calls == 0] = 0
    return ValueCounts(n_groups, group, value, count, calls, low, high, tuple(total), tuple(squares), bits)


def _order(group: I64, n_groups: int, value: I64) -> I64:
    bits = int(value.max(initial=0)).bit_length()
    if bits + n_groups.bit_length() > 63:
        return np.lexsort((value, group))
    return np.argsort((group << bits) | value)


def rounded(of: ValueCounts, bits: int) -> ValueCounts:
    """Return a tally of fewer values: each keeps that many leading bits, and is too low by 2^(1 - bits) at most."""
    group, value, count = _distinct(of.group, _leading(of.value, bits), of.count)
    return replace(of, group=group, value=value, count=count, bits=bits)


def _leading(value: I64, bits: int) -> I64:
    # A float may round up to the next power of two; such a value keeps one bit more of the `bits` + 1 that are asked.
    length = np.frexp(value.astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(length - bits, 0)
    return (value >> shift) << shift


def statistics(of: ValueCounts, percentiles: Sequence[float] = DEFAULT_PERCENTILES) -> Grouped:
    """Return the statistics of each group, as `statistics.grouped` does of all values.

    Raises: OverflowError where a total exceeds int64.

    >>> statistics(tally(np.array([0, 0, 0]), 1, np.array([7, 4, 5])), (50,)).percentile(50)
    array([5])
    """
    if any(total > INT64_MAX for total in of.total):
        raise OverflowError("a total exceeds int64")
    mean, std, pstd = moments(of.calls.tolist(), of.total, of.squares)
    bounds = np.searchsorted(of.group, np.arange(of.groups))
    until = np.concatenate((np.zeros(1, np.int64), np.cumsum(of.count)))
    there = np.flatnonzero(of.calls)
    columns = []
    for percent in percentiles:
        found = np.zeros(of.groups, np.int64)
        ranks = np.array([rank_of(percent, n) for n in of.calls[there].tolist()], np.int64)
        at = np.searchsorted(until, until[bounds[there]] + ranks) - 1
        found[there] = np.maximum(of.value[at], of.low[there])
        columns.append(found)
    return Grouped(
        calls=of.calls,
        present=of.calls > 0,
        total=np.array(of.total, np.int64),
        min=of.low,
        max=of.high,
        mean=mean,
        std=std,
        pstd=pstd,
        percents=tuple(percentiles),
        percentiles=np.stack(columns, axis=1) if columns else np.zeros((of.groups, 0), np.int64),
    )
