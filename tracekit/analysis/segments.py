"""Groups and segments of plain columns: checked int64 columns, columns cut into groups, and a search to the left.

Order inside a group is found by sorting packed integers (group in the high bits, value in the low ones) and not by an
argsort: numpy sorts plain int64 with SIMD, six times faster than indices, and nothing here needs the indices.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from tracekit.model.arrow import I32, I64, Numbers, Rows, sort

__all__ = [
    "INT64_MAX",
    "Index",
    "as_codes",
    "as_groups",
    "as_int64",
    "check_same_length",
    "compact_codes",
    "distinct",
    "fitting",
    "gathered",
    "group_bounds",
    "narrow",
    "order_by_lane",
    "place_type",
    "previous_greater",
    "rows_by",
    "run_starts",
    "sort_within",
]

Index: TypeAlias = npt.NDArray[np.intp]
_Scalar = TypeVar("_Scalar", bound=np.generic)

INT64_MAX = (1 << 63) - 1
_BLOCK = 1 << 15
_MOST_IN_FOUR_BYTES = (1 << 31) - 1


def as_int64(values: Numbers, what: str) -> I64:
    """Return a one-dimensional integer array as int64; without a copy where it is int64 already.

    Raises: TypeError where the values are not integers that int64 holds (floats, uint64, null as object);
    ValueError where the array has not one dimension.
    """
    array = np.asarray(values)
    if array.dtype != np.int64 and not (np.issubdtype(array.dtype, np.integer) and np.can_cast(array.dtype, np.int64)):
        raise TypeError(f"{what}: integers that int64 holds are needed, not {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{what}: one dimension is needed, not {array.ndim}")
    return array.astype(np.int64, copy=False)


def check_same_length(**arrays: Numbers) -> None:
    """Raise ValueError, naming the arrays, where their lengths differ."""
    if len({array.shape[0] for array in arrays.values()}) > 1:
        found = ", ".join(f"{name} has {array.shape[0]}" for name, array in arrays.items())
        raise ValueError(f"columns of one length are needed: {found}")


def as_groups(codes: Numbers, n_groups: int) -> I64:
    """Return group codes as int64, each of them checked to be in 0 .. n_groups - 1.

    Raises: ValueError where a code is outside, or n_groups is negative; TypeError as `as_int64`.
    """
    return as_codes(codes, n_groups).astype(np.int64, copy=False)


def as_codes(codes: Numbers, n_groups: int) -> Rows:
    """Return group codes as `as_groups` does, but as narrow as they are.

    Raises: as `as_groups`.
    """
    array: npt.NDArray[Any] = np.asarray(codes)
    signed = np.issubdtype(array.dtype, np.signedinteger) and array.ndim == 1
    groups: Rows = array if signed else as_int64(codes, "codes")
    if n_groups < 0:
        raise ValueError(f"n_groups must not be negative: {n_groups}")
    if groups.size and (int(groups.min()) < 0 or int(groups.max()) >= n_groups):
        raise ValueError(f"codes must be in 0 .. {n_groups - 1}, found {groups.min()} .. {groups.max()}")
    return groups


def group_bounds(groups: Rows, n_groups: int) -> I64:
    """Return shape (n_groups + 1,): with rows in order of their group, group g is rows bounds[g] to bounds[g + 1]."""
    bounds = np.zeros(n_groups + 1, np.int64)
    # numpy counts int64: what is narrower is made so block by block, as long as there are fewer groups than rows.
    block = groups.size if groups.dtype == np.int64 else max(_BLOCK, n_groups)
    for first in range(0, groups.size, max(block, 1)):
        bounds[1:] += np.bincount(groups[first : first + block], minlength=n_groups)
    np.cumsum(bounds, out=bounds)
    return bounds


def sort_within(groups: Rows, n_groups: int, values: I64) -> I64:
    """Return the values in order of (group, value); `group_bounds` gives the place of each group."""
    if values.size == 0:
        return values.copy()
    lowest = int(values.min())
    bits = (int(values.max()) - lowest).bit_length()
    if bits + max(n_groups - 1, 0).bit_length() > 63:
        return values[np.lexsort((values, groups))]
    # In one array: touching new memory costs as much as the sort. Values that wrap around int64 come back below.
    # And in blocks that stay in the cache.
    packed = np.empty(values.size, np.int64)
    for first in range(0, values.size, _BLOCK):
        part = packed[first : first + _BLOCK]
        np.left_shift(groups[first : first + _BLOCK], np.int64(bits), out=part, dtype=np.int64)
        part += values[first : first + _BLOCK]
        part -= lowest
    sort(packed)
    for first in range(0, values.size, _BLOCK):
        part = packed[first : first + _BLOCK]
        part &= (1 << bits) - 1
        part += lowest
    return packed


def order_by_lane(lanes: I64) -> Index:
    """Return the stable order of rows by lane; small codes are sorted by radix, nine times faster."""
    if lanes.size and int(lanes.min()) >= 0 and int(lanes.max()) <= 0xFFFF:
        return np.argsort(lanes.astype(np.uint16), kind="stable")
    return np.argsort(lanes, kind="stable")


def distinct(places: I64 | I32, size: int, but: I64 | None = None) -> I64:
    """Return the places that occur, ascending, without those in `but`: all are 0 .. size - 1. Nothing is sorted.

    >>> distinct(np.array([3, 1, 3, 0]), 4, but=np.array([0]))
    array([1, 3])
    """
    occurs = np.zeros(size, np.bool_)
    occurs[places] = True
    if but is not None:
        occurs[but] = False
    return np.flatnonzero(occurs)


def compact_codes(codes: Rows, size: int) -> tuple[I64, I64]:
    """Return the codes that occur, ascending, and for each row the place of its code among them.

    size: codes are 0 .. size - 1. A few are counted, which takes a tenth of the time of a sort. The places may be
    read-only.

    >>> compact_codes(np.array([7, 3, 7]), 8)
    (array([3, 7]), array([1, 0, 1]))
    """
    if size > max(4 * codes.size, 1 << 16):
        found, places = np.unique(codes, return_inverse=True)
        return found, places.astype(np.int64, copy=False)
    present = np.zeros(size, np.bool_)
    present[codes] = True
    if int(np.count_nonzero(present)) == 1:
        return np.flatnonzero(present), np.broadcast_to(np.int64(0), codes.size)
    places = np.cumsum(present) - 1
    return np.flatnonzero(present), places[codes]


def narrow(codes: I64) -> npt.NDArray[np.integer]:
    """Return codes of 0 or more as uint16 where that holds them: numpy sorts those in linear time, and stably."""
    return codes.astype(np.uint16) if codes.size and int(codes.max()) <= np.iinfo(np.uint16).max else codes


def place_type(size: int) -> type[np.signedinteger]:
    """Return the type of numbers that say a place among so many, or -1: four bytes where they hold them."""
    return np.int32 if size <= _MOST_IN_FOUR_BYTES else np.int64


def fitting(values: I64) -> Rows:
    """Return the same values in four bytes each, where all of them fit."""
    most = _MOST_IN_FOUR_BYTES
    fits = not values.size or (int(values.min()) >= -most and int(values.max()) <= most)
    return values.astype(np.int32) if fits else values


def gathered(values: npt.NDArray[_Scalar], places: Rows) -> npt.NDArray[_Scalar]:
    """Return values[places], block by block: numpy makes places of four bytes ones of eight before it looks them up."""
    found = np.empty(places.size, values.dtype)
    for first in range(0, places.size, _BLOCK):
        found[first : first + _BLOCK] = values[places[first : first + _BLOCK]]
    return found


def run_starts(keys: Numbers) -> Index:
    """Return the places where runs of equal neighbours begin; of rows sorted by key, where each key begins."""
    if keys.size == 0:
        return np.zeros(0, np.intp)
    return np.concatenate((np.zeros(1, np.intp), np.flatnonzero(keys[1:] != keys[:-1]) + 1))


def rows_by(keys: npt.NDArray[np.integer]) -> Iterator[tuple[int, Index]]:
    """Yield each value that occurs, ascending, with its rows, ascending. It is one sort, however many values there are.

    >>> [(value, rows.tolist()) for value, rows in rows_by(np.array([7, 3, 7]))]
    [(3, [1]), (7, [0, 2])]
    """
    order = np.argsort(keys, kind="stable")
    starts = run_starts(keys[order])
    values = keys[order[starts]].tolist()
    for value, (start, end) in zip(values, pairwise(np.append(starts, keys.size).tolist()), strict=True):
        yield value, order[start:end]


def previous_greater(values: I64, than: I64, starts: Index) -> I64:
    """Return for each row i the nearest row j before it, in the same segment, with values[j] > than[i]; -1 if none.

    values, than: shape (n,). starts: where each segment begins, ascending; starts[0] is 0 unless n is 0.
    Takes O(n log n) at worst, whatever the values: rows climb a pyramid of block maxima until a block to their left
    holds a larger value, then go down into it. Loops over segments and levels, never over rows.
    """
    found = np.full(values.size, -1, np.int64)
    waiting = _rows_with_greater(values, than, starts)
    # Most rows of a real trace end here: the row before contains them.
    at_once = values[waiting - 1] > than[waiting]
    found[waiting[at_once]] = waiting[at_once] - 1
    waiting = waiting[~at_once]

    pyramid = [values]
    hits: list[tuple[I64, I64]] = []
    block = waiting
    while waiting.size:  # ends below the top: each of these rows has a block that it can hit
        maxima = pyramid[-1]
        left = np.flatnonzero(block & 1)
        left = left[maxima[block[left] - 1] > than[waiting[left]]]
        hits.append((waiting[left], block[left] - 1))
        stays = np.ones(waiting.size, np.bool_)
        stays[left] = False
        waiting, block = waiting[stays], block[stays] >> 1
        even = maxima.size & ~1  # no row is to the right of the last block, so an odd one needs none above it
        pyramid.append(np.maximum(maxima[0:even:2], maxima[1:even:2]))

    rows = np.zeros(0, np.int64)
    block = np.zeros(0, np.int64)
    for level in range(len(hits) - 1, -1, -1):
        if rows.size:
            block = block * 2 + 1
            block -= pyramid[level][block] <= than[rows]
        rows = np.concatenate((rows, hits[level][0]))
        block = np.concatenate((block, hits[level][1]))
    found[rows] = block
    return found


def _rows_with_greater(values: I64, than: I64, starts: Index) -> I64:
    """Return the rows that have any larger value before them in their segment: all others need no search."""
    rows = np.zeros(values.size, np.bool_)
    for start, end in pairwise(np.append(starts, values.size).tolist()):
        if end - start > 1:
            highest = np.maximum.accumulate(values[start : end - 1])
            np.greater(highest, than[start + 1 : end], out=rows[start + 1 : end])
    return np.flatnonzero(rows)
