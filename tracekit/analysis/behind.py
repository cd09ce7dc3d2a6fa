"""Rows that are behind the others: the ranks that need longer than the rest in the same steps.

A row is behind if it needs LEAST_EXCESS more than the median of the others over all steps together, and as much more in
LEAST_STEPS of the steps: one slow step, such as a checkpoint, makes no rank late. The excess must also be SURE times
what noise from step to step would give. With fewer than FEWEST steps no row is behind.
"""

from __future__ import annotations

import numpy as np

from tracekit.model.arrow import F64

__all__ = ["FEWEST", "LEAST_EXCESS", "LEAST_STEPS", "SURE", "behind"]

LEAST_EXCESS = 0.05
LEAST_STEPS = 0.1
FEWEST = 5
SURE = 4


def _scatter(ratios: F64) -> float:
    """Return the standard deviation of noise from step to step, in which a lasting change does not count."""
    return float(np.median(np.abs(np.diff(ratios)))) / (0.6745 * 2**0.5)


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
        if not level.all():
            continue
        excess = float(own[shared].sum() / level.sum() - 1)
        if excess < SURE * _scatter(own[shared] / level) / shared.sum() ** 0.5:
            continue
        if excess >= LEAST_EXCESS and np.mean(own[shared] >= level * (1 + LEAST_EXCESS)) >= LEAST_STEPS:
            late.append((row, excess))
    return late
