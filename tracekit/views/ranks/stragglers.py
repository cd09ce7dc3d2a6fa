"""Who comes last to the collectives of a run: skews on one clock, and the test that names stragglers (view `ranks`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.analysis.clocks import Clocks, align
from tracekit.analysis.intervals import I64
from tracekit.analysis.statistics import grouped
from tracekit.index import owners as _owners
from tracekit.index.meetings import Mask, Meetings

CHANCE = 0.01
LEAST_LATE = 5


@dataclass(frozen=True, slots=True, eq=False)
class Skews:
    """Of each meeting, shape (m,), ns on one clock. sure: the skew is larger than what the clocks leave open.

    late: how long the last came after the one before it. waits: of each row of the meetings, shape (n,).
    """

    first: I64
    skew: I64
    transfer: I64
    latest: I64
    late: I64
    sure: Mask
    judged: Mask
    waits: I64


@dataclass(frozen=True, slots=True, eq=False)
class Straggler:
    """One who came last in `last` of `trials` meetings. median, late: ns that it came after the one before it, and in
    all. meetings: their numbers."""

    owner: int
    last: int
    trials: int
    median: int
    late: int
    meetings: I64


def clocks_of(owners: _owners.Owners, met: Meetings) -> Clocks:
    """Return how the owners' clocks stand to each other, by the ends of collectives."""
    tells = met.together[met.meeting]
    return align(met.meeting[tells], met.owner[tells], met.ends[tells], len(owners))


def _each(met: Meetings, values: npt.NDArray[Any], how: np.ufunc) -> npt.NDArray[Any]:
    """Return one value for each meeting of those of its rows."""
    if not met.count:
        return values[:0]
    found: npt.NDArray[Any] = how.reduceat(values, np.searchsorted(met.meeting, np.arange(met.count)))
    return found


def on_one_clock(owners: _owners.Owners, met: Meetings, clocks: Clocks) -> Mask:
    """Return which meetings have all their rows on clocks that were brought in line, or on one and the same clock."""
    clock = np.array(owners.clocks, np.int64)[met.owner]
    same: Mask = _each(met, clock, np.minimum) == _each(met, clock, np.maximum)
    return same | _each(met, clocks.known[met.owner], np.logical_and).astype(np.bool_)


def skews_of(met: Meetings, clocks: Clocks) -> Skews:
    """Return who came when to each meeting."""
    starts, ends = clocks.corrected(met.owner, met.starts), clocks.corrected(met.owner, met.ends)
    order = np.lexsort((starts, met.meeting))
    bounds = np.searchsorted(met.meeting[order], np.arange(met.count + 1))
    first, last = order[bounds[:-1]], order[bounds[1:] - 1]
    before_last = order[bounds[1:] - 2]
    end = _each(met, ends, np.maximum)
    unsure = clocks.uncertainty[met.owner]
    judged = _each(met, clocks.known[met.owner], np.logical_and)
    late = starts[last] - starts[before_last]
    return Skews(
        starts[first],
        starts[last] - starts[first],
        np.maximum(end - starts[last], 0),
        met.owner[last],
        late,
        judged & (late > unsure[last] + unsure[before_last]),
        judged,
        starts[last][met.meeting] - starts,
    )


def stragglers(owners: _owners.Owners, met: Meetings, skews: Skews) -> list[Straggler]:
    """Return those who came last more often than chance would have it; who did so most often first."""
    came = np.bincount(skews.latest[skews.sure], minlength=len(owners))
    here = np.unique(met.owner).tolist()
    sizes = np.array([n for *_, n in met.names], np.int64)[met.kind]
    in_sure = np.bincount(met.owner[skews.sure[met.meeting]], minlength=len(owners))
    found = []
    for o in sorted(here, key=lambda each: (-came[each], each)):
        mine = skews.sure & (skews.latest == o)
        trials = int(in_sure[o])
        if came[o] < LEAST_LATE:
            continue
        # The chance to be last by accident is that of the smallest meeting that it was in.
        share = 1 / int(sizes[np.unique(met.meeting[met.owner == o])].min())
        if _tail(int(came[o]), trials, share) * len(here) > CHANCE:
            continue
        by = grouped(np.zeros(int(came[o]), np.int64), 1, skews.late[mine])
        median, late = int(by.percentile(50)[0]), int(by.total[0])
        found.append(Straggler(o, int(came[o]), trials, median, late, np.flatnonzero(mine)))
    return found


def _tail(least: int, trials: int, share: float) -> float:
    """Return the chance of `least` or more of so many trials."""
    if share >= 1:
        return 1.0
    logs = [
        math.lgamma(trials + 1)
        - math.lgamma(k + 1)
        - math.lgamma(trials - k + 1)
        + k * math.log(share)
        + (trials - k) * math.log1p(-share)
        for k in range(least, trials + 1)
    ]
    return min(1.0, sum(map(math.exp, logs)))
