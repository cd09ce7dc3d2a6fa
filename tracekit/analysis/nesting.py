"""The event tree of each lane (thread or stream): parent, depth, self time; partial overlaps reported, never fatal.

The rule (Paddle's event tree, PyTorch's profiler): an event is a child of the innermost event of its lane that holds
it whole. A range is [start, end), so one that starts where another ends is beside it. If two are equal, the later
row is the child of the earlier one. An instant (zero length) may be a child, and is never a parent.

Upstream stops with an error at events that overlap in part. Here the later one becomes a child of the innermost event
that does hold it, and so a sibling of the one that it crosses.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracekit.analysis.segments import (
    INT64_MAX,
    Index,
    as_int64,
    check_same_length,
    narrow,
    order_by_lane,
    previous_greater,
    run_starts,
)
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Codes, Numbers, Rows

__all__ = ["NestingTree", "depths_of", "innermost", "nest", "parents"]

# The innermost range that runs on a lane at a given time, found for many times at once.


def innermost(
    lanes: Numbers,
    starts: Numbers,
    ends: Numbers,
    at_lanes: Numbers,
    at: Numbers,
) -> I64:
    """Return shape (m,): for each time the row of the innermost range of its lane that holds it; -1 where none does.

    lanes, starts, ends: shape (n,), any order; a range is [start, end), so an instant holds nothing. at_lanes, at:
    shape (m,), any order. Innermost is the one that began last; of several that began together the one that ends first,
    of equal ones the later row. Ranges may overlap in part.
    Raises: TypeError for values that are no integers, ValueError for different lengths.

    >>> innermost(np.array([0, 0]), np.array([0, 2]), np.array([9, 5]), np.array([0, 0, 0, 1]), np.array([1, 2, 5, 3]))
    array([ 0,  1,  0, -1])
    """
    lane, first, last = as_int64(lanes, "lanes"), as_int64(starts, "starts"), as_int64(ends, "ends")
    asked_lane, asked = as_int64(at_lanes, "at_lanes"), as_int64(at, "at")
    check_same_length(lanes=lane, starts=first, ends=last)
    check_same_length(at_lanes=asked_lane, at=asked)
    n = first.size
    if n == 0 or asked.size == 0:
        return np.full(asked.size, -1, np.int64)
    # A time comes after all ranges that begin at it or before, and contains nothing.
    lowest = np.iinfo(np.int64).min
    given = np.concatenate((lane, asked_lane))
    all_lanes: npt.NDArray[np.integer] = narrow(given) if int(given.min()) >= 0 else given
    del given
    begin = np.concatenate((first, asked))
    end = np.concatenate((np.maximum(last, first), np.full(asked.size, lowest)))
    order = np.lexsort((~end, begin, all_lanes))
    is_time = order >= n
    begins = run_starts(all_lanes[order])
    del all_lanes
    than = np.where(is_time, begin[order], INT64_MAX)
    del begin
    end = end[order]
    found = previous_greater(end, than, begins)
    result = np.full(asked.size, -1, np.int64)
    hit = is_time & (found >= 0)
    result[order[hit] - n] = order[found[hit]]
    return result


@dataclass(frozen=True, slots=True, eq=False)
class NestingTree:
    """The result of `nest`; arrays of shape (n,), in the order of the input; int64, where nobody made them narrower.

    parent: row of the innermost event that holds this one whole; -1 for a root.
    depth: number of events that hold it along `parent`; 0 for a root.
    self_ns: the part of its duration that no child covers. With proper nesting this is duration less the durations of
    the children, and the self times of a tree add up to its root; siblings that cross each other count the time that
    they share once, so it is never negative.
    crosses: row of the sibling (a root: the root of the same lane) that began earlier and ends inside this event: the
    two overlap in part; -1 for none. An event within one that crosses is not reported again; a lane is properly nested
    exactly if none of its events has a row here.
    """

    parent: Rows
    depth: Codes
    self_ns: I64
    crosses: I64


def nest(lanes: Numbers, starts: Numbers, ends: Numbers) -> NestingTree:
    """Return the tree of each lane.

    lanes: shape (n,), any int64. starts, ends: shape (n,), ns, any order; a range with end < start counts as empty.
    Raises: TypeError for values that are no integers, ValueError for different lengths, OverflowError for a range
    longer than int64 holds.

    >>> tree = nest(np.array([0, 0, 0]), np.array([0, 2, 4]), np.array([10, 4, 7]))
    >>> tree.parent, tree.depth, tree.self_ns
    (array([-1,  0,  0]), array([0, 1, 1]), array([5, 2, 3]))
    """
    order, lane, first, last = _in_order(lanes, starts, ends)
    parent, proper = _parents(lane, first, last)
    if proper:  # one number for all takes no memory
        crosses, shared = np.broadcast_to(np.int64(-1), parent.size), np.broadcast_to(np.int64(0), parent.size)
    else:
        crosses, shared = _crossings(lane, first, last, parent)

    depth = depths_of(parent)
    self_ns = last - first
    children = np.flatnonzero(parent >= 0)
    np.subtract.at(self_ns, parent[children], self_ns[children] - shared[children])
    return NestingTree(
        _unsorted(_rows(parent, order), order),
        _unsorted(depth, order),
        _unsorted(self_ns, order),
        _unsorted(_rows(crosses, order), order) if crosses.strides[0] else crosses,
    )


def parents(lanes: Numbers, starts: Numbers, ends: Numbers) -> I64:
    """Return the parents of `nest` alone. Raises: as `nest`."""
    order, lane, first, last = _in_order(lanes, starts, ends)
    return _unsorted(_rows(_parents(lane, first, last)[0], order), order)


def _in_order(lanes: Numbers, starts: Numbers, ends: Numbers) -> tuple[Index, I64, I64, I64]:
    """Return the order of `_order`, and the columns in it."""
    lane, first, last = as_int64(lanes, "lanes"), as_int64(starts, "starts"), as_int64(ends, "ends")
    check_same_length(lanes=lane, starts=first, ends=last)
    last = np.maximum(first, last)
    if (last - first < 0).any():
        raise OverflowError("a range is longer than int64 holds")
    order = _order(lane, first, last)
    return order, lane[order], first[order], last[order]


def _parents(lane: I64, first: I64, last: I64) -> tuple[I64, bool]:
    """Return the parent of each row, in order, and whether no event overlaps another in part."""
    segments = run_starts(lane)
    # The nearest earlier event that is still open. Where nesting is proper it holds the event: then it is the parent.
    around = previous_greater(last, first, segments)
    if (last[around] >= last)[around >= 0].all():
        return around, True
    # The nearest earlier event that ends no earlier; behind an instant's start, since one that ends there is over.
    return previous_greater(last, last - (last > first), segments), False


def _order(lane: I64, first: I64, last: I64) -> Index:
    """Return the order of rows by lane, then start, then the longer first, then as given."""
    in_order = first[1:] > first[:-1]
    in_order |= (first[1:] == first[:-1]) & (last[1:] <= last[:-1])
    # ~last descends as last ascends, and unlike -last it exists for each int64.
    return order_by_lane(lane) if in_order.all() else np.lexsort((~last, first, lane))


def _crossings(lane: I64, first: I64, last: I64, parent: I64) -> tuple[I64, I64]:
    """Return for each row the sibling before it if that ends inside it, else -1, and the ns that the two share.

    Siblings end in the order in which they begin (one that ended later would hold the next), so an event that crosses
    any earlier one crosses the sibling just before it, and shares with all of them what it shares with that one.
    """
    order = np.lexsort((parent, lane))
    before, after = order[:-1], order[1:]
    siblings = (lane[before] == lane[after]) & (parent[before] == parent[after]) & (last[before] > first[after])
    before, after = before[siblings], after[siblings]
    crosses, shared = np.full(lane.size, -1, np.int64), np.zeros(lane.size, np.int64)
    crosses[after] = before
    shared[after] = last[before] - first[after]
    return crosses, shared


def depths_of(parent: I64) -> I64:
    """Return how many steps each row is below its root. Each round doubles the steps: 20 rounds reach 2^20 levels."""
    depth = (parent >= 0).astype(np.int64)
    hop = parent.copy()
    climbing = np.flatnonzero(hop >= 0)
    while climbing.size:
        depth[climbing] += depth[hop[climbing]]
        hop[climbing] = hop[hop[climbing]]
        climbing = climbing[hop[climbing] >= 0]
    return depth


def _rows(sorted_rows: I64, order: Index) -> I64:
    """Turn row numbers of the sorted table into those of the input; -1 stays."""
    return np.append(order, -1)[sorted_rows]


def _unsorted(column: I64, order: Index) -> I64:
    result = np.empty_like(column)
    result[order] = column
    return result
