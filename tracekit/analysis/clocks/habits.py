"""Habits: how much later than others a rank usually leaves a collective, as far as ranks on one clock show it.

A rank that always leaves a little late looks like a clock that is a little ahead. Ranks on one clock tell the two
apart: their ends are compared without any clock in between. So each rank's own habit is taken out, against the middle
one of its clock, and the scatter of all habits says how far the middle ones of two clocks may be from each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tracekit.analysis.clocks.line import LEAST_FOR_DRIFT, limit
from tracekit.columns.arrays import I64

__all__ = ["Habits", "find"]

ENOUGH = 4
"""With fewer differences between habits their scatter is known too badly to count alone."""
FAR_NS = 1_000_000
"""Ranks whose ends are further apart than this are not on one clock, whatever their host is called."""
_PLAIN = 2.6


@dataclass(frozen=True, slots=True)
class Habits:
    """The habits of ranks. late: shape (n,), ns that each row's rank is later than the middle one on its clock.

    members: of each clock, the ranks on it whose habit is known, 1 or more. apart: of each clock with two, the ns
    between them, else 0. deviation: of a habit, ns; freedom: differences that it comes from.
    """

    late: I64
    members: I64
    apart: I64
    deviation: float
    freedom: int

    def allowance(self, clock: int, other: int, assumed: float) -> float:
        """Return the ns by which habits may look like a difference of two clocks.

        assumed: what is assumed where no two ranks are on one clock.
        """
        if not self.freedom:
            return assumed
        shares = [1 / n if n < 3 else 1.57 / n for n in self.members[[clock, other]].tolist()]  # of a median
        one = self.deviation * math.sqrt(sum(shares))
        wide = limit(self.freedom) * one
        if self.freedom < ENOUGH:
            wide = max(min(wide, assumed), _PLAIN * one)
        # Two ranks do not show which of them is the late one: their middle is off by half.
        return max(wide, float(self.apart[clock] + self.apart[other]) / 2)


def find(meeting: I64, clock: I64, member: I64, end: I64, n_clocks: int, hosts: I64) -> Habits:
    """Return the habits. meeting, clock, member, end: shape (n,): a rank on a clock left a meeting at this time.

    hosts: shape (n_clocks,): clocks of one number are one clock, if their ends agree.
    """
    late = np.zeros(end.size, np.int64)
    members, apart = np.ones(n_clocks, np.int64), np.zeros(n_clocks, np.int64)
    squares, freedom = 0.0, 0
    group = hosts[clock]
    for number in np.unique(group).tolist():
        rows = np.flatnonzero(group == number)
        names, place, counts = np.unique(member[rows], return_inverse=True, return_counts=True)
        if names.size < 2:
            continue
        first = int(counts.argmax())
        base = rows[place == first]
        base = base[np.argsort(meeting[base], kind="stable")]
        habit = np.full(names.size, np.iinfo(np.int64).min)
        habit[first] = 0
        for each in range(names.size):
            mine = rows[place == each]
            at = np.minimum(np.searchsorted(meeting[base], meeting[mine]), base.size - 1)
            both = meeting[base][at] == meeting[mine]
            if each != first and np.count_nonzero(both) >= LEAST_FOR_DRIFT:
                usual = int(np.median(end[mine[both]] - end[base[at[both]]]))
                habit[each] = usual if abs(usual) <= FAR_NS else habit[each]
        known = habit > np.iinfo(np.int64).min
        count = int(np.count_nonzero(known))
        if count < 2:
            continue
        middle = int(np.median(habit[known]))
        late[rows] = np.where(known, habit - middle, 0)[place]
        squares += float(((habit[known] - habit[known].mean()) ** 2).sum())
        freedom += count - 1
        here = np.unique(clock[rows])
        members[here] = count
        apart[here] = int(np.ptp(habit[known])) if count == 2 else 0
    return Habits(late, members, apart, math.sqrt(squares / freedom) if freedom else 0.0, freedom)
