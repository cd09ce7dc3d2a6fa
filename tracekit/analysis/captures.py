"""Calls that a thread makes between a begin and an end, as launches that a CUDA graph captures."""

from __future__ import annotations

import numpy as np

from tracekit.analysis.intervals import merge
from tracekit.analysis.segments import rows_by
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model.arrow import I64, Mask

__all__ = ["CAPTURE_BEGIN", "CAPTURE_END", "between"]

CAPTURE_BEGIN = lazy_pattern(r"^(?:cuda|cu|hip)StreamBeginCapture\w*$")
CAPTURE_END = lazy_pattern(r"^(?:cuda|cu|hip)StreamEndCapture\w*$")
"""Names of the calls around what a graph captures: a launch between them launches nothing."""


def between(begins: tuple[I64, I64], ends: tuple[I64, I64], calls: tuple[I64, I64]) -> Mask:
    """Return which calls lie between a begin and the next end on their lane.

    Each is a pair of shape (n,), (n,): the lane, and the start in ns. A begin without an end counts for nothing.

    >>> lanes = np.zeros(3, np.int64)
    >>> between((lanes[:1], np.array([10])), (lanes[:1], np.array([20])), (lanes, np.array([5, 15, 25]))).tolist()
    [False, True, False]
    """
    found = np.zeros(calls[0].size, np.bool_)
    if not begins[0].size or not ends[0].size:
        return found
    ends_of, calls_of, none = dict(rows_by(ends[0])), dict(rows_by(calls[0])), np.zeros(0, np.int64)
    for lane, at_begin in rows_by(begins[0]):
        stops = np.sort(ends[1][ends_of.get(lane, none)])
        opens = np.sort(begins[1][at_begin])
        at = np.searchsorted(stops, opens)
        opens, at = opens[at < stops.size], at[at < stops.size]
        first, last = merge(opens, stops[at])
        mine = calls_of.get(lane, none)
        place = np.searchsorted(first, calls[1][mine], "right") - 1
        found[mine] = (place >= 0) & (calls[1][mine] < np.append(last, 0)[place])
    return found
