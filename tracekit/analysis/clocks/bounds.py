"""Offsets between two clocks that inequalities leave open: an interval, and none where they contradict each other.

Each inequality says that at some time a clock is ahead of the reference by no less than `low` and no more than `high`.
No rank leaves a collective before the last one has come; a range inside another one does not begin earlier; a kernel
does not start before the call that launches it. All of these are certain. The clock is a line (offset and drift), so
the answer is a linear program of two unknowns.

The program is solved on the hulls: a lower limit counts only where a line from above can touch it, an
upper one only where a line from below can.
"""

from __future__ import annotations

import math

import numpy as np

from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import F64, I64, Mask

__all__ = ["OPEN", "SHORTEST_WAIT_NS", "Bounds", "DeviceClock", "LaunchCalls", "LaunchedRows", "device_clock", "solve"]

OPEN = 1 << 62
"""A limit that is not known: low = -OPEN, high = OPEN."""
_BINS = 128
"""Of so many parts of the time the strictest limits count each: dropping the others can only widen the answer."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets and drifts that remain possible. low, high: ns by which the clock is ahead at the time `middle`.

    slowest, fastest: its drift, ns in each ns. steady: some offset without drift satisfies all of them; steady_low,
    steady_high: then its interval. inside: an offset that satisfies all with the drift (slowest + fastest) / 2;
    0 where one side has no limit. first, last: times of the inequalities, ns of the reference. count: their number.
    """

    low: int
    high: int
    slowest: float
    fastest: float
    middle: int
    steady: bool
    steady_low: int
    steady_high: int
    inside: int
    first: int
    last: int
    count: int


def solve(times: I64, low: I64, high: I64, slack: int = 0, steepest: float = 2e-4) -> Bounds | None:
    """Return the offsets and drifts that satisfy all inequalities, None where none does, or there is no inequality.

    times, low, high: shape (n,), ns. slack: ns by which each of them may be missed. steepest: no clock drifts more.

    >>> found = solve(np.array([0, 1_000_000]), np.array([90, 95]), np.array([120, 110]))
    >>> found.steady, found.steady_low, found.steady_high
    (True, 95, 110)
    """
    if not times.size:
        return None
    first, last = int(times.min()), int(times.max())
    middle = first + (last - first) // 2
    low, high = low - slack * (low > -OPEN), high + slack * (high < OPEN)
    steady_low, steady_high = int(low.max()), int(high.min())
    steady = steady_low <= steady_high
    one_sided = steady_low <= -OPEN or steady_high >= OPEN
    if one_sided or last == first:
        if not steady:
            return None
        # A clock may have gained so much between an inequality and the middle.
        reach = np.ceil(np.abs(times - middle) * steepest).astype(np.int64)
        lowest, highest = int((low - reach).max(initial=-OPEN)), int((high + reach).min(initial=OPEN))
        return Bounds(
            *(lowest, highest, -steepest, steepest, middle, True, steady_low, steady_high),
            *(0 if one_sided else (steady_low + steady_high) // 2, first, last, times.size),
        )
    base = (steady_low + steady_high) // 2
    below = _hull(*_strictest(times - middle, low - base, low > -OPEN))
    above = _hull(*_strictest(times - middle, base - high, high < OPEN))
    found = _program(below, (above[0], -above[1]), steepest)
    if found is None:
        return None
    least, most, slowest, fastest, inside = found
    return Bounds(
        base + math.floor(least),
        base + math.ceil(most),
        slowest,
        fastest,
        middle,
        steady,
        steady_low,
        steady_high,
        base + round(inside),
        first,
        last,
        int(times.size),
    )


def _strictest(times: I64, limits: I64, known: Mask) -> tuple[F64, F64]:
    """Return times and limits of the largest limit in each part of the time, in order of time."""
    times, limits = times[known], limits[known]
    if times.size > _BINS:
        begin, span = int(times.min()), int(times.max()) - int(times.min()) + 1
        part = ((times - begin) / span * _BINS).astype(np.int64)
        order = np.lexsort((limits, part))
        last = np.append(part[order][1:] != part[order][:-1], True)
        chosen = order[last]
        times, limits = times[chosen], limits[chosen]
    order = np.lexsort((limits, times))
    times, limits = times[order], limits[order]
    last = np.append(times[1:] != times[:-1], True)
    return times[last].astype(np.float64), limits[last].astype(np.float64)


def _hull(x: F64, y: F64) -> tuple[F64, F64]:
    """Return the upper hull of points in order of x: at most _BINS of them, so a loop does."""
    kept: list[int] = []
    for at in range(x.size):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            if (y[b] - y[a]) * (x[at] - x[a]) > (y[at] - y[a]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(at)
    return x[kept], y[kept]


def _program(
    below: tuple[F64, F64], above: tuple[F64, F64], steepest: float
) -> tuple[float, float, float, float, float] | None:
    """Return least and greatest height at 0, least and greatest slope, of lines between two hulls, and a height.

    The height is that of a line between them, which has the mean of the two slopes.
    """
    (bx, by), (ax, ay) = below, above
    with np.errstate(divide="ignore", invalid="ignore"):
        across = (ay[None, :] - by[:, None]) / (ax[None, :] - bx[:, None])
    along = np.diff(by) / np.diff(bx), np.diff(ay) / np.diff(ax)
    slopes = np.concatenate((across.ravel(), *along, [-steepest, steepest, 0.0]))
    slopes = sets.unique(slopes[np.abs(slopes) <= steepest])  # two limits at one time have no slope: inf or nan
    least = (by[None, :] - slopes[:, None] * bx[None, :]).max(axis=1)
    most = (ay[None, :] - slopes[:, None] * ax[None, :]).min(axis=1)
    fits = least <= most + 1e-3  # a thousandth of an ns: what floats leave over
    if not fits.any():
        return None
    # Lines between the hulls are a convex set: the mean of the flattest and the steepest is one of them.
    inside = (least[fits] + most[fits])[[0, -1]].sum() / 4
    return (
        *(float(least[fits].min()), float(most[fits].max())),
        *(float(slopes[fits][0]), float(slopes[fits][-1]), float(inside)),
    )


# The clock of devices against the clock of the host, from launch calls and the work that they started.
#
# Two facts hold for every program. No work starts before the call that launched it has begun. And no call that waits
# returns before the work that it waits for has ended: a synchronization of the device waits for all work that was
# launched before, a copy from device to host waits for itself (CUDA Runtime API, "API synchronization behavior"). Each
# is an inequality on how far the device's clock is ahead. They leave an interval, never a point: how long the fastest
# launch takes, and how soon a wait ends, no file says.


SHORTEST_WAIT_NS = 20_000
"""A synchronization shorter than this may have had nothing to wait for, on a device that the file does not show."""


@dataclass(frozen=True, slots=True)
class LaunchCalls:
    """API calls, shape (n,). keys: no two calls have the same. starts, ends: ns of the host's clock.

    all_work: it waits for all work that was launched before; own_work: it waits for the work that it launches.
    """

    keys: I64
    starts: I64
    ends: I64
    all_work: Mask
    own_work: Mask


@dataclass(frozen=True, slots=True)
class LaunchedRows:
    """Work of a device, shape (m,). keys: of the calls that launched it. starts, ends: ns of the device's clock.

    to_host: copies from device to host.
    """

    keys: I64
    starts: I64
    ends: I64
    to_host: Mask


@dataclass(frozen=True, slots=True)
class DeviceClock:
    """Distance of a device's clock from the host's.

    bounds: what all inequalities leave open, None where they contradict each other. pairs: pieces of work whose call is
    known; calls: calls with such work; waits: calls that waited for work. early: work that starts before its call, as
    the two clocks are; late: waits that return before the work ends. least_shift: the smallest number of ns to add to
    the device's times so that no work is early and no wait late, if one number does; None where none does.
    """

    bounds: Bounds | None
    pairs: int
    calls: int
    waits: int
    early: int
    late: int
    least_shift: int | None


def device_clock(calls: LaunchCalls, work: LaunchedRows, slack: int = 0) -> DeviceClock | None:
    """Return what launches and waits say of the device's clock, None where no work has its call.

    slack: ns by which printed times may be wrong.

    >>> no, yes = np.array([False]), np.array([True])
    >>> calls = LaunchCalls(np.array([7]), np.array([100]), np.array([160]), no, yes)
    >>> device_clock(calls, LaunchedRows(np.array([7]), np.array([90]), np.array([130]), yes)).least_shift
    10
    """
    order = np.argsort(calls.keys, kind="stable")
    keys = calls.keys[order]
    place = np.minimum(np.searchsorted(keys, work.keys), max(keys.size - 1, 0))
    linked = np.flatnonzero(keys[place] == work.keys) if keys.size else np.empty(0, np.int64)
    if not linked.size:
        return None
    own = order[place[linked]]
    begun, ended = work.starts[linked], work.ends[linked]
    times, high = calls.starts[own], begun - calls.starts[own]
    waiting, low = _waits(calls, own, ended, work.to_host[linked])
    every = np.concatenate((times, calls.ends[waiting]))
    lows = np.concatenate((np.full(times.size, -OPEN), low))
    highs = np.concatenate((high, np.full(low.size, OPEN)))
    least, most = (int(low.max()) - slack if low.size else -OPEN), int(high.min()) + slack
    return DeviceClock(
        solve(every, lows, highs, slack),
        pairs=int(linked.size),
        calls=int(sets.unique(own).size),
        waits=int(sets.unique(waiting).size),
        early=int(np.count_nonzero(high < -slack)),
        late=int(np.count_nonzero(low > slack)),
        least_shift=None if least > most else -min(max(0, least), most),
    )


def _waits(calls: LaunchCalls, own: I64, ended: I64, to_host: Mask) -> tuple[I64, I64]:
    """Return the calls that waited, and by how much the device's clock is ahead at their ends at least.

    own: of each piece of work, its call; ended: its end.
    """
    copies = to_host & calls.own_work[own]
    own_calls, own_low = own[copies], ended[copies] - calls.ends[own[copies]]
    waiting = np.flatnonzero(calls.all_work & (calls.ends - calls.starts >= SHORTEST_WAIT_NS))
    # A wait counts for work whose launch call had returned when the wait began: also on other threads.
    launched = np.argsort(calls.ends[own], kind="stable")
    returned, last_end = calls.ends[own][launched], np.maximum.accumulate(ended[launched])
    before = np.searchsorted(returned, calls.starts[waiting], "right")
    waiting, before = waiting[before > 0], before[before > 0]
    low = last_end[before - 1] - calls.ends[waiting]
    return np.concatenate((own_calls, waiting)), np.concatenate((own_low, low))
