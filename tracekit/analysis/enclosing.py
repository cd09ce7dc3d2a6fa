"""The innermost range that runs on a lane at a given time, found for many times at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracekit.analysis.segments import INT64_MAX, as_int64, check_same_length, narrow, previous_greater, run_starts
from tracekit.columns.arrays import I64, Numbers

__all__ = ["innermost"]


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
