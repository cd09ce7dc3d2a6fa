"""Ranges that last over whole later ones of their lane, found in whole columns at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tracekit.analysis import covered
from tracekit.analysis.covered import Covers
from tracekit.analysis.segments import order_by_lane, run_starts
from tracekit.model.arrow import I64, Codes, Mask, Rows


def plain_covers(lanes: Rows, starts: I64, durations: Rows, names: Codes, launches: Codes) -> Covers:
    """Return the ranges that last over others, found in whole columns at once."""
    rows = _crossed(lanes, starts, durations)
    if not rows.size:
        return Covers(rows, rows)
    found = np.zeros(starts.size, np.int64)
    ends = starts[rows] + durations[rows]
    reach = ends - _rounding(starts, durations)[rows]
    covering = np.zeros(starts.size, np.bool_)
    for _ in range(8):
        # Without the ranges that were found: others may lie within them and last over others too.
        counts = _counts(lanes[rows], starts[rows], ends, reach, launches[rows])
        covering[rows[counts > 0]] = True
        bad = counts >= covered.LEAST
        if not bad.any():
            break
        found[rows[bad]] = counts[bad]
        rows, ends, reach = rows[~bad], ends[~bad], reach[~bad]
    if not found.any():
        return Covers(rows[:0], rows[:0])
    found[~_rare(lanes, names, durations > 0, covering)] = 0
    places = np.flatnonzero(found)
    return Covers(places, found[places])


def _crossed(lanes: Rows, starts: I64, durations: Rows) -> I64:
    """Return the ranges that overlap another one of their lane, by lane and start.

    A range that starts when all before it have ended, and ends before the next one starts, lies within none and lasts
    over none: on most traces few are left.
    """
    rows = np.flatnonzero(durations > 0)
    if (starts[rows[1:]] < starts[rows[:-1]]).any():
        rows = rows[np.argsort(starts[rows], kind="stable")]
    rows = rows[order_by_lane(lanes[rows])]
    begins, start = run_starts(lanes[rows]).tolist(), starts[rows]
    reached = start + durations[rows]
    for first, last in pairwise([*begins, rows.size]):
        np.maximum.accumulate(reached[first:last], out=reached[first:last])
    early = start[1:] < reached[:-1]
    early[np.array(begins[1:], np.int64) - 1] = False
    return rows[np.append(early, False) | np.append(False, early)] if early.any() else rows[:0]


def _counts(lanes: Rows, starts: I64, ends: I64, reach: I64, launches: Codes) -> I64:
    """Return for each range the later ones that lie within it; one that lies within several is of the last to end."""
    n = starts.size
    if n < 2:
        return np.zeros(n, np.int64)
    place = np.arange(n)
    begins = run_starts(lanes)
    # The range that reaches furthest so far in its lane, the earliest of equal ones.
    furthest = reach.copy()
    for first, last in pairwise([*begins.tolist(), n]):
        np.maximum.accumulate(reach[first:last], out=furthest[first:last])
    further = np.ones(n, np.bool_)
    further[1:] = reach[1:] > furthest[:-1]
    further[begins] = True
    longest = np.maximum.accumulate(np.where(further, place, 0))
    before = np.concatenate((np.zeros(1, np.int64), longest[:-1]))
    before[begins] = begins
    same_launch = (launches == launches[before]) & (launches >= 0)
    inside = (before != place) & (starts > starts[before]) & (ends <= reach[before]) & ~same_launch
    return np.bincount(before[inside], minlength=n)


def _rare(lanes: Rows, names: Codes, timed: Mask, covering: Mask) -> Mask:
    """Return for each range whether few ranges of its lane last over others, and not all those of its name."""
    _, lane = np.unique(lanes, return_inverse=True)
    size, bad = np.bincount(lane[timed], minlength=lane.size), np.bincount(lane[covering], minlength=lane.size)
    _, name = np.unique(names, return_inverse=True)
    calls, frames = np.bincount(name[timed], minlength=name.size), np.bincount(name[covering], minlength=name.size)
    few = bad <= np.maximum(covered.FEW, (size * covered.SHARE).astype(np.int64))
    habit = (frames >= covered.HABIT) & (frames == calls)
    rare: Mask = few[lane] & ~habit[name]
    return rare


def _rounding(starts: I64, durations: Rows) -> I64:
    """Return how far each start may have been rounded, ns: 0 where times are whole ns.

    Printed times have so many digits that later ones are coarser, so starts of equal length are looked at together.
    """
    found = np.zeros(starts.size, np.int64)
    if starts.size and not (starts % 1000).any() and not (durations % 1000).any():
        found[:] = 1000
    digits = np.empty(starts.size, np.int8)
    for first in range(0, starts.size, (1 << 16)):
        part = np.maximum(np.abs(starts[first : first + (1 << 16)]), 1).astype(np.float64)
        digits[first : first + (1 << 16)] = np.floor(np.log10(part))
    for length in np.flatnonzero(np.bincount(digits) >= 20).tolist():
        mine = digits == length
        step = 1
        while step < 10**length and not (starts[mine] % (step * 10)).any():
            step *= 10
        found[mine] = np.maximum(found[mine], step if step > 1 else 0)  # 1 is what whole ns have
    return found
