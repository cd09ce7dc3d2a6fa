"""Programs that became slower: their last run, a new run, or the level of their last runs, beside their other runs.

A run is slow beside its siblings if it is beyond the limits of outliers (analysis/series): 5.19 MAD and 5 % above the
median of six runs or more. Fewer runs show little of their noise, so there only the last run counts, and only if it is
7.5 % above the slowest run before it (the change that `compare` believes of one run a side). The level of a program
rose if it changed by more than chance within its last runs, by 3 % or more. Runs are compared within a level.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from tracekit.analysis.series import RULE, change_points, judge
from tracekit.lazy_dataclass import dataclass

__all__ = ["Slowdown", "slowdown"]

SHOWN_BY_FEW = 1.075
"""The last of few runs is slow from so many times the slowest run before it on."""
SAME = 1.03
"""A level that rises by less is the same for all purposes."""
RECENT = 10
"""A level that rose before so many runs is the usual one by now."""
ALIKE = 0.05
"""Two runs do the same work if their numbers of calls or events differ by no more than this share."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A value of a program that is larger than before. at: its place among the values; others: their number.

    since: the whole level is higher from this run on, and `value` is its median. usual: the median of the others.
    """

    at: int
    value: float
    usual: float
    others: int
    since: bool

    @property
    def ratio(self) -> float:
        """Return how many times the usual value it is."""
        return self.value / self.usual


def slowdown(
    values: Sequence[int | float], new: Collection[int], work: Sequence[int | float | None] = ()
) -> Slowdown | None:
    """Return the largest slowdown of a program, None where there is none. values: positive, of its runs in order.

    new: the places of runs that were not there before; the last run counts in any case. work: for each run how much it
    did. A run that did more, or less, than the others is not slow for it; without work all runs do the same.
    """
    if len(values) < 2 or min(values) <= 0:
        return None
    column = np.array(values, np.float64)
    changes = change_points(column)
    edges = [0, *(change.at for change in changes), len(values)]
    slow = []
    for at in sorted({*new, len(values) - 1}):
        begin = max(edge for edge in edges if edge <= at)
        end = min(edge for edge in edges if edge > at)
        others = [place for place in range(begin, end) if place != at]
        if _is_slow(column[begin:end], at - begin, is_last=at == len(values) - 1) and _same_work(work, [at], others):
            slow.append(Slowdown(at, float(column[at]), float(np.median(column[others])), len(others), since=False))
    if changes:
        last = changes[-1]
        before = edges[-3]
        sides = (range(last.at, len(values)), range(before, last.at))
        if last.after >= SAME * last.before and last.at >= len(values) - RECENT and _same_work(work, *sides):
            slow.append(Slowdown(last.at, last.after, last.before, last.at - before, since=True))
    return max(slow, key=lambda each: each.ratio, default=None)


def _is_slow(level: np.ndarray[tuple[int], np.dtype[np.float64]], at: int, *, is_last: bool) -> bool:
    """Return whether a value is slow beside all others of its level."""
    if level.size > RULE.least_values:
        # Values are ns: fractions of them are nothing.
        judged = judge(np.rint(level).astype(np.int64))
        return bool(judged.outliers[at]) and bool(level[at] > judged.median)
    return is_last and level.size > 1 and bool(level[at] >= SHOWN_BY_FEW * np.delete(level, at).max())


def _same_work(work: Sequence[int | float | None], some: Sequence[int], others: Sequence[int]) -> bool:
    """Return whether some runs do about as much as the others; not where it is known of one side only."""
    if not work:
        return True
    sides = [[value for place in side if (value := work[place]) is not None] for side in (some, others)]
    if not sides[0] or not sides[1]:
        return False
    mine, usual = (float(np.median(side)) for side in sides)
    return abs(mine - usual) <= ALIKE * usual
