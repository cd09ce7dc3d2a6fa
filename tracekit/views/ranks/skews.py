"""Skews of collectives on one clock, and the test that names stragglers, for the view `ranks` and for `findings`."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tracekit.analysis.clocks.matched_collectives import RankClocks, align
from tracekit.analysis.statistics import grouped
from tracekit.index import owners as _owners
from tracekit.index.matched_collectives import MatchedCollectives
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I64, Mask

__all__ = [
    "CHANCE",
    "LEAST_LATE",
    "Skews",
    "Straggler",
    "clocks_of",
    "on_one_clock",
    "skews_of",
    "stragglers",
    "tail_chance",
]

CHANCE = 0.01
LEAST_LATE = 5

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Skews:
    """The skew of each meeting, shape (m,), ns on one clock. sure: the lateness exceeds the uncertainty of the clocks.

    late: the time from the last but one start to the last. waits: the wait of each row of the meetings, shape (n,).
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
    """An owner that came last in `last` of `trials` meetings.

    median: of the ns from the last but one start to its own; late: their sum. meetings: the numbers of the meetings.
    """

    owner: int
    last: int
    trials: int
    median: int
    late: int
    meetings: I64


def clocks_of(owners: _owners.Owners, met: MatchedCollectives) -> RankClocks:
    """Return the offsets between the owners' clocks, from the ends of collectives."""
    rows = met.together[met.meeting]
    return align(met.meeting[rows], met.owner[rows], met.ends[rows], len(owners))


def _each(met: MatchedCollectives, values: npt.NDArray[T], reduce: np.ufunc) -> npt.NDArray[T]:
    """Return one value for each meeting: the values of its rows, reduced."""
    if not met.count:
        return values[:0]
    reduced: npt.NDArray[T] = reduce.reduceat(values, np.searchsorted(met.meeting, np.arange(met.count)))
    return reduced


def on_one_clock(owners: _owners.Owners, met: MatchedCollectives, clocks: RankClocks) -> Mask:
    """Return for each meeting whether all its rows are on aligned clocks, or on one and the same clock."""
    clock = np.array(owners.clocks, np.int64)[met.owner]
    same: Mask = _each(met, clock, np.minimum) == _each(met, clock, np.maximum)
    return same | _each(met, clocks.known[met.owner], np.logical_and).astype(np.bool_)


def skews_of(met: MatchedCollectives, clocks: RankClocks) -> Skews:
    """Return the skew of each meeting, and the owner that came last."""
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


def stragglers(owners: _owners.Owners, met: MatchedCollectives, skews: Skews) -> list[Straggler]:
    """Return the owners that came last significantly more often than by chance, most often first."""
    came = np.bincount(skews.latest[skews.sure], minlength=len(owners))
    present = sets.unique(met.owner).tolist()
    sizes = np.array([n for *_, n in met.names], np.int64)[met.kind]
    in_sure = np.bincount(met.owner[skews.sure[met.meeting]], minlength=len(owners))
    stragglers_found = []
    for o in sorted(present, key=lambda owner: (-came[owner], owner)):
        came_last = skews.sure & (skews.latest == o)
        trials = int(in_sure[o])
        if came[o] < LEAST_LATE:
            continue
        # The smallest meeting of an owner has the largest probability that it is last by chance.
        share = 1 / int(sizes[sets.unique(met.meeting[met.owner == o])].min())
        if tail_chance(int(came[o]), trials, share) * len(present) > CHANCE:
            continue
        delays = grouped(np.zeros(int(came[o]), np.int64), 1, skews.late[came_last])
        median, late = int(delays.percentile(50)[0]), int(delays.total[0])
        stragglers_found.append(Straggler(o, int(came[o]), trials, median, late, np.flatnonzero(came_last)))
    return stragglers_found


def tail_chance(least: int, trials: int, share: float) -> float:
    """Return the probability of at least `least` successes in so many trials."""
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
