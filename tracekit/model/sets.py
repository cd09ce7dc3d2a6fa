"""Sets of whole numbers as sorted arrays without repeats: what numpy's functions of sets return, in less time.

numpy 2.3 and later find distinct numbers with a hash. A million int64 that all differ take 1.3 to 2.1 s so, and 0.02 s
where they are sorted (numpy's own sort of int32 and int64, which uses the vector instructions of the processor); a
million with four values take 25 and 1 ms. `np.unique` also asks first whether its array is one of `numpy.ma`, and so
imports that, which is a thirtieth of the time of a command on a small file.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tracekit.model.arrow import Mask

__all__ = ["common", "is_in", "union", "unique", "without"]

T = TypeVar("T", bound=np.integer)

_FEW = 1 << 12
"""So few numbers of 8 or 16 bits are sorted; of more, the few that differ are found by the hash in less time."""


def unique(values: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return the numbers that occur, ascending, as `np.unique(values)` does.

    >>> unique(np.array([7, 3, 7]))
    array([3, 7])
    """
    if values.ndim != 1 or (values.itemsize < 4 and values.size > _FEW):
        return np.unique(values)
    ordered = np.sort(values)
    is_first = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    found: npt.NDArray[T] = ordered[is_first]
    return found


def union(one: npt.NDArray[T], other: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return the numbers of both, ascending, as `np.union1d` does.

    >>> union(np.array([5, 1]), np.array([1, 2]))
    array([1, 2, 5])
    """
    return unique(np.concatenate((one, other)))


def common(one: npt.NDArray[T], other: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return the numbers that are in both, ascending, as `np.intersect1d` does.

    >>> common(np.array([5, 1, 1]), np.array([1, 2]))
    array([1])
    """
    distinct = unique(one)
    return distinct[is_in(distinct, other)]


def without(one: npt.NDArray[T], other: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return the numbers of the first that are not in the second, ascending, as `np.setdiff1d` does.

    >>> without(np.array([5, 1, 5]), np.array([1, 2]))
    array([5])
    """
    distinct = unique(one)
    return distinct[~is_in(distinct, other)]


def is_in(values: npt.NDArray[T], members: npt.NDArray[T]) -> Mask:
    """Return for each number whether it is a member, as `np.isin` does: for numbers that lie far apart.

    Of numbers that lie close together, such as codes, `np.isin` makes a table, which takes less time.

    >>> is_in(np.array([4, 1, 4]), np.array([4, 2])).tolist()
    [True, False, True]
    """
    ordered = unique(members)
    if not ordered.size:
        return np.zeros(values.shape, np.bool_)
    places = np.searchsorted(ordered, values)
    found: Mask = ordered[np.minimum(places, ordered.size - 1)] == values
    return found
