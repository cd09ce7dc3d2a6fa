"""Rows that are behind the others: the ranks that need longer than the rest in the same steps.

A row is behind if it needs LEAST_EXCESS more than the median of the others over all steps together, and as much more in
LEAST_STEPS of the steps: one slow step, such as a checkpoint, makes no rank late. With fewer than FEWEST steps no row is behind.
"""

from __future__ import annotations

import numpy as np

from tracekit.model.arrow import F64

__all__ = ["FEWEST", "LEAST_EXCESS", "LEAST_STEPS", "behind"]

LEAST_EXCESS = 0.05
LEAST_STEPS = 0.1
FEWEST = 5


def behind(times: F64) -> list[tuple[int, float]]:
    """Return the rows that are behind the others, each with its excess over the median of the others, 0.05 for 5 %.

    times: shape (rows, steps), NaN where a row has no such step.

    >>> times = np.array([[10.0] * 6, [10.0] * 6, [10.0, 10.0, 12.0, 12.0, 12.0, 12.0]])
    >>> [(row, round(excess, 2)) for row, excess in behind(times)]
    [(2, 0.13)]
    """
    late = []
    for row in range(times.shape[0]):
        own, others = times[row], np.delete(times, row, axis=0)
        shared = ~np.isnan(own) & ~np.isnan(others).all(axis=0)
        if np.count_nonzero(shared) < FEWEST:
            continue
        level = np.nanmedian(others[:, shared], axis=0)
        excess = float(own[shared].sum() / level.sum() - 1) if level.sum() else 0.0
        if excess >= LEAST_EXCESS and np.mean(own[shared] >= level * (1 + LEAST_EXCESS)) >= LEAST_STEPS:
            late.append((row, excess))
    return late
