"""Kinds of rows that a run lacks although its siblings have them: it was cut, or recorded in another way.

A run that was cut before its first kernel has no kernel time. As a zero among its siblings it would lower their average
and be no worse than fast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

__all__ = ["lacking"]


def lacking(kinds: Sequence[Collection[str]]) -> list[tuple[str, ...]]:
    """Return for each run the kinds that it lacks and more than half of the other runs have, sorted.

    >>> lacking([{"kernels", "steps"}, {"steps"}, {"kernels", "steps"}])
    [(), ('kernels',), ()]
    >>> lacking([{"steps"}, {"steps"}, {"kernels", "steps"}])
    [(), (), ()]
    """
    runs_with = Counter(kind for each in kinds for kind in set(each))
    others = len(kinds) - 1
    return [tuple(sorted(k for k, runs in runs_with.items() if k not in each and 2 * runs > others)) for each in kinds]
