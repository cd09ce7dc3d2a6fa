"""Cells of a column as arrays until one of them is asked for: a table of 100,000 names has two million cells.

A table is put in order, cut, and asked for its largest time; most of its cells nobody reads. Python's objects for all
of them would cost more than the figures themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from tracekit.model.arrow import I64, Mask, Rows

__all__ = ["Cells", "joined", "only", "taken", "whole_numbers"]

Arrays = tuple[npt.NDArray[np.int64] | npt.NDArray[np.float64], Mask | None]


class Cells(Sequence[Any]):
    """Cells that are made at the first look at one of them: int, float, str or None, as in a list.

    Equal to a list of the same cells, and pickled as one.
    """

    __slots__ = ("_arrays", "_count", "_made", "_make")

    def __init__(self, count: int, make: Callable[[], list[Any]], arrays: Arrays | None = None) -> None:
        """Take the number of cells, and what makes them. arrays: the same as numbers, and which are known."""
        self._count, self._arrays = count, arrays
        self._make: Callable[[], list[Any]] | None = make
        self._made: list[Any] = []

    @classmethod
    def of(cls, numbers: npt.NDArray[np.int64] | npt.NDArray[np.float64], known: Mask | None = None) -> Cells:
        """Return numbers as cells. known: shape (n,), False for None; all are known if omitted.

        >>> Cells.of(np.array([3, 5]), np.array([True, False]))
        [3, None]
        """
        if known is not None and known.all():
            known = None
        return cls(len(numbers), lambda: _listed(numbers, known), (numbers, known))

    @classmethod
    def unknown(cls, count: int) -> Cells:
        """Return cells that are all None."""
        return cls.of(np.zeros(count, np.int64), np.zeros(count, np.bool_))

    @property
    def arrays(self) -> Arrays | None:
        """The cells as numbers of int64 or float64, and which are known (None: all); None where they are others."""
        return self._arrays

    def _all(self) -> list[Any]:
        if self._make is not None:
            self._made, self._make = self._make(), None
        return self._made

    def taken(self, rows: Rows) -> Cells:
        """Return the cells of these rows, in this order."""
        if self._arrays is not None:
            numbers, known = self._arrays
            return Cells.of(numbers[rows], None if known is None else known[rows])
        return Cells(len(rows), lambda: _picked(self._all(), rows.tolist()))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Any: ...

    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...

    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice) and self._make is not None and self._arrays is not None:
            numbers, known = self._arrays
            return _listed(numbers[place], None if known is None else known[place])
        return self._all()[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Cells):
            return self._all() == other._all()
        return self._all() == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        return list, (self._all(),)


def taken(values: Sequence[Any], rows: Rows) -> Sequence[Any]:
    """Return the cells of these rows, in this order; they are made at the first look at one of them."""
    if isinstance(values, Cells):
        return values.taken(rows)
    return Cells(len(rows), lambda: _picked(values, rows.tolist()))


def joined(parts: Sequence[Sequence[Any]]) -> Cells:
    """Return the cells of all parts, one after the other."""

    def listed() -> list[Any]:
        return list(chain.from_iterable(parts))

    arrays = [each.arrays if isinstance(each, Cells) else None for each in parts]
    count = sum(map(len, parts))
    known = [each for each in arrays if each is not None]
    kinds = {numbers.dtype for numbers, mask in known if mask is None or mask.any()}
    if len(known) < len(parts) or len(kinds) > 1:
        return Cells(count, listed)
    kind = kinds.pop() if kinds else np.dtype(np.int64)
    masks = [np.ones(len(numbers), np.bool_) if mask is None else mask for numbers, mask in known]
    return Cells.of(
        np.concatenate([np.zeros(0, kind), *(numbers.astype(kind, copy=False) for numbers, _ in known)]),
        np.concatenate([np.zeros(0, np.bool_), *masks]),
    )


def only(values: Sequence[Any], known: Mask) -> Sequence[Any]:
    """Return the cells where they are known, None elsewhere. known: shape (n,)."""
    if isinstance(values, Cells) and values.arrays is not None:
        numbers, there = values.arrays
        return Cells.of(numbers, known if there is None else known & there)
    return [value if is_known else None for value, is_known in zip(values, known.tolist(), strict=True)]


def whole_numbers(values: Sequence[Any]) -> tuple[I64, Mask | None] | None:
    """Return the cells as int64, 0 for None, and which are known (None: all).

    Returns None where one is no whole number of 64 bits.

    >>> whole_numbers([3, None])
    (array([3, 0]), array([ True, False]))
    >>> whole_numbers([3, 0.5]), whole_numbers(["a"]), whole_numbers([True]), whole_numbers([1 << 63])
    (None, None, None, None)
    """
    if isinstance(values, Cells) and values.arrays is not None:
        cells, known = values.arrays
        if cells.dtype != np.int64:
            return None
        numbers = cells.astype(np.int64, copy=False)
        return numbers if known is None else np.where(known, numbers, 0), known
    kinds = set(map(type, values))
    if not kinds <= {int, type(None)}:
        return None
    mask: Mask | None = None
    if type(None) in kinds:
        mask = np.array([value is not None for value in values], np.bool_)
        values = [value or 0 for value in values]
    try:
        return np.array(values, np.int64), mask
    except OverflowError:
        return None


def _listed(numbers: npt.NDArray[np.int64] | npt.NDArray[np.float64], known: Mask | None) -> list[Any]:
    found: list[Any]
    if known is None:
        found = numbers.tolist()
    else:
        cells = numbers.astype(np.object_)
        cells[~known] = None
        found = cells.tolist()
    return found


def _picked(values: Sequence[Any], rows: list[int]) -> list[Any]:
    return list(itemgetter(*rows)(values)) if len(rows) > 1 else [values[row] for row in rows]
