"""Offsets between the clocks of several processes, from the work that they did together.

No rank leaves a collective (all-reduce, all-gather, reduce-scatter, all-to-all, barrier) before the last one has come,
and all leave at about the same time. So the differences of their *ends* are the differences of their clocks, and the
scatter of these differences is the uncertainty. Starts do not help: a rank that comes early waits.

Each clock is compared with the one that has most meetings. Offset and drift are a line through the differences: first
the median and Theil's slope (the median of the slopes between meeting i and meeting i + m/2; Theil, A Rank-invariant
Method of Linear Regression, 1950), which single late ranks do not move; then least squares over the differences within
`WITHIN` deviations of that line, which is more exact. A drift is kept where it is `SURE` times its standard error, else
it is 0. Uncertainty is the limit that 95 % of the differences stay within after that, widened by sqrt(m / (m - 2)) for
the two numbers that were fitted. A rank that always leaves a little later than the others looks like a clock that is a
little ahead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tracekit.analysis.segments import as_groups, as_int64, check_same_length
from tracekit.analysis.statistics import nearest_rank
from tracekit.columns.arrays import F64, I64, Mask, Numbers

__all__ = ["LEAST_MEETINGS", "Clocks", "align"]

LEAST_MEETINGS = 3
"""With fewer meetings there is no result: two points are always on a line."""
LEAST_FOR_DRIFT = 8
"""With fewer meetings the offset is the median difference, and there is no drift."""
SURE = 5.0
WITHIN = 3.0
_DEVIATION = 1.4826
"""The standard deviation of a normal distribution, as a multiple of the median distance from its median."""


@dataclass(frozen=True, slots=True, eq=False)
class Clocks:
    """Clocks against clock number `reference`; arrays of shape (c,).

    known: whether there were enough meetings. offset: ns that a clock is ahead at the time `middle` of the reference;
    drift: ns by which it gains in each ns; uncertainty: ns, 0 for the reference; meetings: those with the reference.
    """

    reference: int
    known: Mask
    offset: I64
    drift: F64
    uncertainty: I64
    meetings: I64
    middle: int

    def corrected(self, clocks: Numbers, times: Numbers) -> I64:
        """Return times of these clocks, shapes (n,), as times of the reference; unknown clocks stay as they are."""
        at = as_int64(times, "times")
        moved: I64 = at - self.offset[clocks]
        # The time that a clock has gained since the middle: microseconds in days, so floats hold it to the ns.
        gained: I64 = np.rint(self.drift[clocks] * (moved - self.middle)).astype(np.int64)
        return moved - gained


def align(meetings: Numbers, clocks: Numbers, ends: Numbers, n_clocks: int) -> Clocks:
    """Return the offset and the drift of each clock.

    meetings, clocks, ends: shape (n,): a process left this meeting at this time of its clock (ns). A clock is in a
    meeting once. n_clocks: 1 or more.
    Raises: ValueError for a clock outside 0 .. n_clocks - 1, different lengths; TypeError for no integers.

    >>> of = align(np.array([1, 1, 2, 2, 3, 3]), np.array([0, 1] * 3), np.array([10, 510, 20, 520, 30, 530]), 2)
    >>> of.offset, of.corrected(np.array([1]), np.array([520]))
    (array([  0, 500]), array([20]))
    """
    meeting, clock, end = as_int64(meetings, "meetings"), as_groups(clocks, n_clocks), as_int64(ends, "ends")
    check_same_length(meetings=meeting, clocks=clock, ends=end)
    reference = int(np.bincount(clock, minlength=n_clocks).argmax())
    known = np.zeros(n_clocks, np.bool_)
    offset, uncertainty = np.zeros(n_clocks, np.int64), np.zeros(n_clocks, np.int64)
    count, drift = np.zeros(n_clocks, np.int64), np.zeros(n_clocks)
    own = clock == reference
    order = np.argsort(meeting[own], kind="stable")
    met, left = meeting[own][order], end[own][order]
    middle = (int(left.min()) + int(left.max())) // 2 if left.size else 0
    for other in range(n_clocks):
        mine = np.flatnonzero(clock == other)
        at = np.minimum(np.searchsorted(met, meeting[mine]), max(met.size - 1, 0))
        both = met[at] == meeting[mine] if met.size else np.zeros(mine.size, np.bool_)
        mine, at = mine[both], at[both]
        count[other] = mine.size
        if other == reference:
            known[other] = bool(mine.size)
            continue
        if mine.size < LEAST_MEETINGS:
            continue
        known[other] = True
        offset[other], drift[other], uncertainty[other] = _fit(left[at], end[mine] - left[at], middle)
    return Clocks(reference, known, offset, drift, uncertainty, count, middle)


def _fit(times: I64, apart: I64, middle: int) -> tuple[int, float, int]:
    """Return offset, drift and uncertainty of differences `apart` at these times."""
    order = np.argsort(times, kind="stable")
    since, apart = (times[order] - middle).astype(np.float64), apart[order]
    offset = nearest_rank(np.sort(apart), 50)
    flat = apart - offset
    if since.size < LEAST_FOR_DRIFT:
        return offset, 0.0, _wider(_scatter(flat), since.size)
    drift = _slope(since, flat)
    left = flat - np.rint(drift * since).astype(np.int64)
    shift = round(float(left[_near(left)].mean()))
    return offset + shift, drift, _wider(_scatter(left - shift), since.size)


def _slope(since: F64, flat: I64) -> float:
    """Return the drift of differences in order of time; 0 where it could be chance."""
    half = since.size // 2
    length = since[-half:] - since[:half]
    slopes = (flat[-half:] - flat[:half])[length > 0] / length[length > 0]
    if not slopes.size:
        return 0.0
    slope, error = float(np.median(slopes)), 0.0
    for _ in range(2):  # the second time, the line that decides what is near is a better one
        near = _near(flat - np.rint(slope * since).astype(np.int64))
        x, y = since[near] - since[near].mean(), flat[near] - flat[near].mean()
        spread = float(x @ x)
        if not spread:
            return 0.0
        slope = float(x @ y) / spread
        rest = y - slope * x
        error = math.sqrt(float(rest @ rest) / max(x.size - 2, 1) / spread)
    return slope if abs(slope) > SURE * error else 0.0


def _near(left: I64) -> Mask:
    """Return which differences are within WITHIN deviations of their median: at least half of them."""
    distance = np.abs(left - nearest_rank(np.sort(left), 50))
    near: Mask = distance <= WITHIN * _DEVIATION * nearest_rank(np.sort(distance), 50)
    return near


def _scatter(left: I64) -> int:
    return nearest_rank(np.sort(np.abs(left)), 95)


def _wider(scatter: int, count: int) -> int:
    return math.ceil(scatter * math.sqrt(count / (count - 2)))
