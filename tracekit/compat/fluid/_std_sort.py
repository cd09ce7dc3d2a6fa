"""The order that C++'s std::sort gives, in the library of gcc: among equals it is not that of the input.

Upstream sorts its tables with it, so rows of equal figures stand as this algorithm leaves them: ranges of at most 16
are sorted by insertion, which keeps equals in order; longer ones are first parted around the median of three. The fall
back to a heap for hostile orders is not followed: there equals keep their order.

Source: introsort (Musser 1997), with the threshold and the pivots of libstdc++.
"""

from __future__ import annotations

from collections.abc import Sequence

_THRESHOLD = 16


def descending(keys: Sequence[float]) -> list[int]:
    """Return the order of rows, largest key first.

    >>> descending([1, 3, 2, 3])
    [1, 3, 2, 0]
    """
    order = list(range(len(keys)))
    _part(keys, order, 0, len(order), 2 * max(len(order).bit_length() - 1, 0))
    # The parts are in order among themselves: a stable sort of all does what insertion does.
    return sorted(order, key=lambda row: -keys[row])


def _part(keys: Sequence[float], order: list[int], first: int, last: int, depth: int) -> None:
    while last - first > _THRESHOLD and depth > 0:
        depth -= 1
        cut = _cut(keys, order, first, last)
        _part(keys, order, cut, last, depth)
        last = cut


def _cut(keys: Sequence[float], order: list[int], first: int, last: int) -> int:
    """Part the range around the median of its second, middle and last row; return where the smaller keys begin."""

    def before(a: int, b: int) -> bool:
        return keys[order[a]] > keys[order[b]]

    def swap(a: int, b: int) -> None:
        order[a], order[b] = order[b], order[a]

    low, mid, high = first + 1, first + (last - first) // 2, last - 1
    if before(low, mid):
        median = mid if before(mid, high) else high if before(low, high) else low
    else:
        median = low if before(low, high) else high if before(mid, high) else mid
    swap(first, median)
    left, right = first + 1, last
    while True:
        while before(left, first):
            left += 1
        right -= 1
        while before(first, right):
            right -= 1
        if left >= right:
            return left
        swap(left, right)
        left += 1
