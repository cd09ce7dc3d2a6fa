"""Warm-up, outliers and change points in values that follow each other.

**Robust spread.** MAD is the median of the distances to the median. For normal values it is 0.6745 standard deviations,
and Iglewicz and Hoaglin (How to Detect and Handle Outliers, 1993) call a value an outlier beyond 3.5 of those: that is
3.5 / 0.6745 = 5.19 MAD. Times of a machine may repeat exactly, so that the MAD is next to nothing: a distance below a
share of the median is no outlier, however regular the rest.

**Warm-up** is the leading values above that limit, at most half of all. **Change points** are found by binary
segmentation: the split that separates a segment best by rank (Pettitt, A Non-parametric Approach to the Change-point
Problem, 1979) is kept where shuffled copies of the segment seldom split as well (a permutation test); then both parts
are looked at. Ranks make single outliers harmless.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracekit.analysis.segments import as_int64
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import F64, I64, Mask, Numbers

__all__ = ["RULE", "ChangePoint", "Judged", "SeriesRule", "change_points", "judge"]

_CHUNK = 1 << 21
"""Values of shuffled copies that are in memory at once, about."""


@dataclass(frozen=True, slots=True)
class SeriesRule:
    """Limits for an outlier.

    mads, least_share: distance from the median, in MAD and as a share of the median; both must be exceeded.
    least_values: fewer values are not judged. most_warm_up: the share of all values that warm-up may take.
    """

    mads: float = 5.19
    least_share: float = 0.05
    least_values: int = 5
    most_warm_up: float = 0.5


RULE = SeriesRule()


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """warm_up: how many leading values. outliers: shape (n,), true for values after warm-up beyond a limit.

    median, mad, low, high: of the values after warm-up, and the limits that outliers lie beyond.
    known: false where there are too few values to say anything.
    """

    warm_up: int
    outliers: Mask
    median: int
    mad: int
    low: int
    high: int
    known: bool


def judge(values: Numbers, rule: SeriesRule = RULE) -> Judged:
    """Return the warm-up and the outliers of values in their order, shape (n,), int64 (ns, say).

    Raises: TypeError for values that are no integers.

    >>> judge(np.array([900, 100, 101, 99, 100, 180])).warm_up
    1
    """
    column = as_int64(values, "values")
    none = np.zeros(column.size, np.bool_)
    if column.size < max(1, rule.least_values):
        median = _median(column) if column.size else 0
        return Judged(0, none, median, 0, median, median, known=False)
    _, _, _, high = _limits(column, rule)
    leading = int(np.argmax(column <= high))  # the median, if no other, is within the limits
    warm_up = min(leading, int(column.size * rule.most_warm_up))
    steady = column[warm_up:]
    median, mad, low, high = _limits(steady, rule)
    outliers = none
    outliers[warm_up:] = (steady < low) | (steady > high)
    return Judged(warm_up, outliers, median, mad, low, high, known=True)


def _median(values: I64) -> int:
    """Return the lower middle of the values."""
    middle = (values.size - 1) // 2
    return int(np.partition(values, middle)[middle])


def _limits(values: I64, rule: SeriesRule) -> tuple[int, int, int, int]:
    median = _median(values)
    mad = _median(np.abs(values - median))
    room = max(round(rule.mads * mad), round(rule.least_share * abs(median)))
    return median, mad, median - room, median + room


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of level from value number `at` on. before, after: medians of the stretch on either side.

    chance: the share of shuffled copies that split as well, at most.
    """

    at: int
    before: float
    after: float
    chance: float


def change_points(
    values: Numbers,
    *,
    significance: float = 0.01,
    least: int = 4,
    permutations: int = 999,
    seed: int = 20_240_501,
) -> list[ChangePoint]:
    """Return the changes of level of a history, in order; the same for the same values and seed.

    values: shape (n,), finite numbers, one a run. significance: the largest chance at which a split is accepted. least:
    values on each side of a split. A slow drift gives several small steps; a change of the spread alone is not found.
    Raises: ValueError for values that are not finite, or a significance that so few permutations can't show.

    >>> [c.at for c in change_points(np.array([10, 11, 10, 11, 10, 11, 15, 16, 15, 16, 15, 16]))]
    [6]
    """
    column = np.asarray(values, np.float64)
    if column.ndim != 1 or not np.isfinite(column).all():
        raise ValueError("finite values in one dimension are needed")
    if least < 1 or significance < 1 / (permutations + 1):
        raise ValueError("least is 1 or more, and significance at least 1 / (permutations + 1)")
    rng = np.random.default_rng(seed)
    found: dict[int, float] = {}
    waiting = [(0, column.size)]
    while waiting:
        first, end = waiting.pop()
        if end - first < 2 * least:
            continue
        ranks = _centred_ranks(column[first:end])
        score, at = _best_split(ranks[None, :], least)
        if score[0] <= 0:
            continue
        chance = _chance(ranks, float(score[0]), least, permutations, rng)
        if chance <= significance:
            split = first + int(at[0])
            found[split] = chance
            waiting += [(first, split), (split, end)]
    edges = [0, *sorted(found), column.size]
    return [
        ChangePoint(at, float(np.median(column[before:at])), float(np.median(column[at:after])), found[at])
        for before, at, after in zip(edges, edges[1:-1], edges[2:], strict=False)
    ]


def _centred_ranks(values: F64) -> F64:
    """Return the ranks less their mean; equal values share the mean of theirs."""
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: F64 = ((last - counts + last - 1) / 2)[codes]
    return ranks - (values.size - 1) / 2


def _best_split(rows: F64, least: int) -> tuple[F64, npt.NDArray[np.intp]]:
    """Return for each row the largest distance of its two sides' mean ranks, weighted by their sizes, and where."""
    n = rows.shape[1]
    left = np.arange(least, n - least + 1)
    # |sum of the left| / sqrt(k (n - k)): the rank-sum statistic with its deviation, without the factor that all splits
    # share.
    scores = np.abs(np.cumsum(rows, axis=1)[:, left - 1]) / np.sqrt(left * (n - left))
    best = scores.argmax(axis=1)
    return scores[np.arange(rows.shape[0]), best], left[best]


def _chance(ranks: F64, score: float, least: int, permutations: int, rng: np.random.Generator) -> float:
    as_good = 0
    step = max(1, _CHUNK // ranks.size)
    for first in range(0, permutations, step):
        rows = np.tile(ranks, (min(step, permutations - first), 1))
        rng.permuted(rows, axis=1, out=rows)
        # Sums of halves are exact, the division is not: what equals the score counts as equal.
        as_good += int(np.count_nonzero(_best_split(rows, least)[0] >= score * (1 - 1e-12)))
    return (as_good + 1) / (permutations + 1)
