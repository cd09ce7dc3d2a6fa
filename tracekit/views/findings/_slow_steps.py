"""Ranks whose own steps take longer than the same steps of the other ranks.

Ranks that train together take the same steps. Where one computes for longer, the others wait for it, whether or not
the trace shows where: in a collective, in a barrier on the host, in a wait for the network. The time of a step is
compared with the median of all ranks, step by step, so that what makes all ranks slow at once does not count.
"""

from __future__ import annotations

import numpy as np

from tracekit.analysis.series import change_points
from tracekit.model import sets
from tracekit.model.arrow import F64
from tracekit.model.display import plural
from tracekit.model.report import Finding
from tracekit.views.findings._facts import Facts, percent, span, whole_percent
from tracekit.views.ranks.skews import CHANCE, tail_chance

LEAST_RANKS = 3
"""With two ranks there is no median that one of them could be compared with."""
_LEAST_STEPS = 8
_LONGER = 1.05
"""A step that is longer than the median of the ranks by less than this is not slow."""


def slow_steps(facts: Facts) -> tuple[Finding, ...]:
    """Return the ranks whose steps are the longest, by 5 % or more, more often than by chance."""
    table, owners = _table(facts)
    if table.shape[0] < LEAST_RANKS or table.shape[1] < _LEAST_STEPS:
        return ()
    median = np.median(table, axis=0)
    longest = table.argmax(axis=0)
    slow = table.max(axis=0) > _LONGER * median
    found = []
    for place, owner in enumerate(owners):
        mine = slow & (longest == place)
        times, steps = int(np.count_nonzero(mine)), table.shape[1]
        if tail_chance(times, steps, 1 / len(owners)) * len(owners) > CHANCE:
            continue
        others = np.delete(table, place, axis=0).max(axis=0)
        excess = int(np.maximum(table[place] - others, 0)[mine].sum())
        low, high = facts.window(owner)
        share = excess / (high - low) if high > low else 0.0
        if share < max(facts.thresholds["straggler_share"], facts.thresholds["least_share"]):
            continue
        label = facts.owners.labels[owner]
        ratio = float(np.median((table[place] / median)[mine]))
        found.append(
            Finding(
                "straggler",
                facts.label(owner),
                f"{label} takes the longest step of all ranks in {times:,} of "
                f"{plural(steps, 'step')} ({percent(times / steps)}){_since(table[place] / median)}: "
                f"{whole_percent(ratio - 1)} longer than the median rank, {span(excess)} in all beyond the next one.",
                tuple(facts.cells("ranks", label, ("last", "late"), owner=label)),
                facts.ids(facts.steps.rows[facts.steps.owner == owner][mine]),
                excess,
                share,
                "medium",
                "a binomial test over the steps of all ranks; the upper bound is for steps no longer than those of the "
                "next rank, and holds where the ranks wait for each other in each step",
                "Look at what this rank does that the others do not: more or longer data, a slower device (clocks, "
                "heat), other work on its machine.",
                "tracekit summary NEW --view ranks: the mean step time of this rank is near that of the others.",
            )
        )
    return tuple(found)


def _table(facts: Facts) -> tuple[F64, list[int]]:
    """Return the length of each step of each rank, shape (ranks, steps), and the ranks; none if the numbers differ."""
    owners = sets.unique(facts.steps.owner).tolist()
    counts = [int(np.count_nonzero(facts.steps.owner == owner)) for owner in owners]
    if len(owners) < LEAST_RANKS or min(counts) != max(counts):
        return np.zeros((0, 0), np.float64), []
    shape = (len(owners), counts[0])
    return facts.steps.durations.astype(np.float64).reshape(shape), owners


def _since(ratios: F64) -> str:
    """Return from which step on the rank is slow, for a sentence; "" where it is from the begin."""
    changes = [each for each in change_points(ratios) if each.after > _LONGER >= each.before]
    return f" from step no. {changes[0].at + 1} on" if changes else ""
