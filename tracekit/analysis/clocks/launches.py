"""The clock of devices against the clock of the host, from launch calls and the work that they started.

Two facts hold for every program. No work starts before the call that launched it has begun. And no call that waits
returns before the work that it waits for has ended: a synchronization of the device waits for all work that was
launched before, a copy from device to host waits for itself (CUDA Runtime API, "API synchronization behavior"). Each
is an inequality on how far the device's clock is ahead. They leave an interval, never a point: how long the fastest
launch takes, and how soon a wait ends, no file says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.analysis.clocks.bounds import OPEN, Bounds, solve
from tracekit.columns.arrays import I64, Mask

__all__ = ["SHORTEST_WAIT_NS", "Calls", "DeviceClock", "Work", "device_clock"]

SHORTEST_WAIT_NS = 20_000
"""A synchronization shorter than this may have had nothing to wait for, on a device that the file does not show."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of the host, shape (n,). keys: no two calls have the same. starts, ends: ns of the host's clock.

    all_work: it waits for all work that was launched before; own_work: it waits for the work that it launches.
    """

    keys: I64
    starts: I64
    ends: I64
    all_work: Mask
    own_work: Mask


@dataclass(frozen=True, slots=True)
class Work:
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


def device_clock(calls: Calls, work: Work, slack: int = 0) -> DeviceClock | None:
    """Return what launches and waits say of the device's clock, None where no work has its call.

    slack: ns by which printed times may be wrong.

    >>> no, yes = np.array([False]), np.array([True])
    >>> calls = Calls(np.array([7]), np.array([100]), np.array([160]), no, yes)
    >>> device_clock(calls, Work(np.array([7]), np.array([90]), np.array([130]), yes)).least_shift
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
        calls=int(np.unique(own).size),
        waits=int(np.unique(waiting).size),
        early=int(np.count_nonzero(high < -slack)),
        late=int(np.count_nonzero(low > slack)),
        least_shift=None if least > most else -min(max(0, least), most),
    )


def _waits(calls: Calls, own: I64, ended: I64, to_host: Mask) -> tuple[I64, I64]:
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
