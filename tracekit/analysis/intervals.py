"""Unions, intersections, differences and gaps of time ranges, exact to the ns.

A range is [start, end) in integer ns; anywhere in int64 is allowed, nothing here overflows or becomes a float. A range
with end < start is clamped to zero length at its start (`count_reversed` says how many there are; upstream lets them
subtract time). A range of zero length is an instant: it covers nothing, but it is kept as a range of its own unless it
touches or lies in another.

*Merged* ranges are what `merge` gives: a pair (starts, ends) of shape (n,) each, sorted, none touching the next. All
results of this module that are ranges are merged again, except those of `clip` when its input was not.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from tracekit.analysis.segments import (
    INT64_MAX,
    Index,
    as_groups,
    as_int64,
    check_same_length,
    group_bounds,
    sort_within,
)
from tracekit.model.arrow import I64, U64, Mask, Numbers, sort

Ranges: TypeAlias = tuple[I64, I64]

__all__ = [
    "I64",
    "Ranges",
    "clip",
    "count_reversed",
    "coverage",
    "difference",
    "gaps",
    "intersection",
    "length",
    "merge",
    "union",
    "union_length",
    "union_length_by",
]


def count_reversed(starts: Numbers, ends: Numbers) -> int:
    """Return the number of ranges that end before they start. Every function here takes them as empty.

    Raises: TypeError for values that are no integers, ValueError for different lengths.
    """
    first, last = _columns(starts, ends)
    return int(np.count_nonzero(last < first))


def merge(starts: Numbers, ends: Numbers) -> Ranges:
    """Return the ranges merged: sorted, and joined where they overlap or touch.

    starts, ends: shape (n,), ns, any order; a range with end < start counts as empty at its start.
    Raises: TypeError for values that are no integers, ValueError for different lengths.

    >>> merge(np.array([5, 0, 9, 20]), np.array([9, 2, 12, 20]))
    (array([ 0,  5, 20]), array([ 2, 12, 20]))
    """
    first, last = _clamped(starts, ends)
    # Starts and ends are sorted apart. Between the i-th start and the next one nothing is open exactly if the i-th
    # smallest end lies before that next start: so no range needs to keep its own end, and no index is ever sorted.
    if (first[1:] < first[:-1]).any():
        first = first.copy()  # it may be the caller's
        sort(first)
    sort(last)
    return _joined(first, last)


def union(a: Ranges, b: Ranges) -> Ranges:
    """Return the time that at least one of two lists of ranges covers, merged; the lists need not be."""
    return merge(np.concatenate((a[0], b[0])), np.concatenate((a[1], b[1])))


def length(ranges: Ranges) -> int:
    """Return the ns that merged ranges cover: the sum of their lengths.

    Raises: ValueError where the ranges are not merged.
    """
    return int(_lengths(*_merged(ranges)).sum(dtype=np.uint64))


def union_length(starts: Numbers, ends: Numbers) -> int:
    """Return the ns covered by at least one of the ranges.

    starts, ends: shape (n,), ns, any order; a range with end < start counts as empty.
    Raises: TypeError for values that are no integers, ValueError for different lengths.

    >>> union_length(np.array([0, 5]), np.array([6, 9]))
    9
    """
    return int(_lengths(*merge(starts, ends)).sum(dtype=np.uint64))


def union_length_by(codes: Numbers, n_groups: int, starts: Numbers, ends: Numbers) -> I64:
    """Return shape (n_groups,): the ns covered by at least one range of each group; 0 for a group without ranges.

    codes: shape (n,), the group of each range, 0 .. n_groups - 1. starts, ends: as for `union_length`.
    Raises: TypeError for values that are no integers, ValueError for a code outside or different lengths,
    OverflowError where a group covers more than int64 holds.

    >>> union_length_by(np.array([1, 0, 1]), 3, np.array([0, 5, 2]), np.array([6, 9, 8]))
    array([4, 8, 0])
    """
    groups = as_groups(codes, n_groups)
    first, last = _clamped(starts, ends)
    check_same_length(codes=groups, starts=first)
    bounds = group_bounds(groups, n_groups)
    first = sort_within(groups, n_groups, first)
    last = sort_within(groups, n_groups, last)
    begins = _begins(first, last)
    begins[bounds] = True
    # Sums run modulo 2^64, and a union is shorter than that: the difference of two running sums is exact.
    running = np.zeros(np.count_nonzero(begins), np.uint64)
    np.cumsum(_lengths(first[begins[:-1]], last[begins[1:]]), out=running[1:])
    return _as_signed(np.diff(running[np.cumsum(begins)[bounds] - 1]))


def intersection(a: Ranges, b: Ranges) -> Ranges:
    """Return the time that two lists of merged ranges both cover, merged.

    An instant of one list that lies in a range of the other, or touches it, is kept as an instant.
    Raises: ValueError where a list is not merged.

    >>> intersection((np.array([0, 10]), np.array([5, 20])), (np.array([3]), np.array([12])))
    (array([ 3, 10]), array([ 5, 12]))
    """
    a, b = _merged(a), _merged(b)
    of_a, of_b, first, last = _meetings(a, b)
    instant = (a[0] == a[1])[of_a] | (b[0] == b[1])[of_b]
    keep = (last > first) | ((last == first) & instant)
    return first[keep], last[keep]


def difference(a: Ranges, b: Ranges) -> Ranges:
    """Return the parts of the merged ranges `a` that lie outside the merged ranges `b`, merged.

    Instants of `b` cut nothing; an instant of `a` is kept where it neither lies in a range of `b` nor touches one.
    Raises: ValueError where a list is not merged.

    >>> difference((np.array([0]), np.array([10])), (np.array([3, 9]), np.array([5, 12])))
    (array([0, 5]), array([3, 9]))
    """
    first, last = _merged(a)
    cut_from, cut_to = _merged(b)
    instants = np.flatnonzero(first == last)
    at = np.searchsorted(cut_to, first[instants])
    # A sentinel behind the last range of b: an instant that lies behind all of them is not hidden.
    hidden = np.append(cut_from, 0)[at] <= first[instants]
    hidden &= at < cut_from.size
    keep = np.ones(first.size, np.bool_)
    keep[instants[hidden]] = False
    first, last = first[keep], last[keep]
    if first.size == 0:
        return first, last

    near = (cut_to > cut_from) & (cut_from <= last[-1]) & (cut_to >= first[0])
    free = np.append(first[:1], cut_to[near]), np.append(cut_from[near], last[-1:])
    of_a, _, free_from, free_to = _meetings((first, last), free)
    keep = (free_to > free_from) | ((free_to == free_from) & (first == last)[of_a])
    return free_from[keep], free_to[keep]


def gaps(merged: Ranges, low: int, high: int) -> Ranges:
    """Return the parts of the window [low, high) that the merged ranges leave free, merged; instants cut nothing.

    An empty window (high <= low) has no gaps. Raises: ValueError where the ranges are not merged.

    >>> gaps((np.array([2, 6]), np.array([4, 20])), 0, 10)
    (array([0, 4]), array([2, 6]))
    """
    first, last = _merged(merged)
    wide = last > first
    free_from = np.append(low, np.clip(last[wide], low, max(low, high)))
    free_to = np.append(np.clip(first[wide], low, max(low, high)), high)
    free = free_to > free_from
    return free_from[free], free_to[free]


def clip(ranges: Ranges, low: int, high: int) -> Ranges:
    """Return the ranges cut to the window [low, high), in their order, without the ranges outside.

    The ranges need not be merged. An instant stays if low <= instant <= high. An empty window leaves nothing but
    instants. Raises: TypeError for values that are no integers, ValueError for different lengths.

    >>> clip((np.array([0, 8, 30]), np.array([5, 12, 40])), 3, 10)
    (array([3, 8]), array([ 5, 10]))
    """
    first, last = _clamped(*ranges)
    cut_first, cut_last = np.maximum(first, low), np.minimum(last, high)
    keep = (cut_first < cut_last) | ((first == last) & (cut_first == cut_last))
    return cut_first[keep], cut_last[keep]


def coverage(starts: Numbers, ends: Numbers, edges: Numbers) -> I64:
    """Return shape (len(edges) - 1,): the ns of merged ranges inside each bin [edges[i], edges[i + 1]).

    edges: shape (m,), ns, ascending (equal edges make an empty bin).
    Raises: ValueError where the ranges are not merged or the edges not ascending; OverflowError where a bin holds more
    than int64 does.

    >>> coverage(np.array([2, 6]), np.array([4, 20]), np.array([0, 3, 10]))
    array([1, 5])
    """
    first, last = _merged(_columns(starts, ends))
    bins = as_int64(edges, "edges")
    if (bins[1:] < bins[:-1]).any():
        raise ValueError("edges must ascend")
    whole = np.cumsum(_lengths(first, last), dtype=np.uint64)
    at = np.searchsorted(first, bins, side="right") - 1
    begun = at >= 0
    at = at[begun]
    before = np.zeros(bins.size, np.uint64)
    # All ranges that began before an edge, less the part of the last one that lies behind the edge.
    before[begun] = whole[at] - _lengths(np.minimum(bins[begun], last[at]), last[at])
    return _as_signed(np.diff(before))


def _columns(starts: Numbers, ends: Numbers) -> Ranges:
    first, last = as_int64(starts, "starts"), as_int64(ends, "ends")
    check_same_length(starts=first, ends=last)
    return first, last


def _clamped(starts: Numbers, ends: Numbers) -> Ranges:
    first, last = _columns(starts, ends)
    return first, np.maximum(first, last)


def _merged(ranges: Ranges) -> Ranges:
    """Return the ranges as int64 columns, checked to be merged: unmerged ones would give wrong sums silently."""
    first, last = _columns(*ranges)
    if (last < first).any() or (first[1:] <= last[:-1]).any():
        raise ValueError("merged ranges are needed: sorted, none touching the next (see merge)")
    return first, last


def _meetings(a: Ranges, b: Ranges) -> tuple[Index, Index, I64, I64]:
    """Pair each range of `a` with all of `b` that it meets or touches: rows of both, start and end of what they share.

    Both are sorted by start and by end; `b` may hold empty or even reversed ranges, whose pairs then end before they
    start.
    """
    low = np.searchsorted(b[1], a[0], side="left")
    high = np.searchsorted(b[0], a[1], side="right")
    count = np.maximum(high - low, 0)
    of_a = np.repeat(np.arange(a[0].size), count)
    of_b = np.arange(of_a.size) - np.repeat(np.cumsum(count) - count - low, count)
    return of_a, of_b, np.maximum(a[0][of_a], b[0][of_b]), np.minimum(a[1][of_a], b[1][of_b])


def _begins(starts: I64, ends: I64) -> Mask:
    """Return shape (n + 1,): whether a merged range begins at sorted row i; always true behind the last row."""
    begins = np.ones(starts.size + 1, np.bool_)
    np.greater(starts[1:], ends[:-1], out=begins[1:-1])
    return begins


def _joined(starts: I64, ends: I64) -> Ranges:
    begins = _begins(starts, ends)
    return starts[begins[:-1]], ends[begins[1:]]


def _lengths(starts: I64, ends: I64) -> U64:
    """Return end - start as uint64, which holds even the whole of int64: exact where end >= start."""
    return ends.view(np.uint64) - starts.view(np.uint64)


def _as_signed(lengths: U64) -> I64:
    if lengths.size and int(lengths.max()) > INT64_MAX:
        raise OverflowError("a length exceeds int64")
    return lengths.view(np.int64)
