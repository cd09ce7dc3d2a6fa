"""A column of whole numbers in as few bytes as hold it: a number and a step, or offsets to the least one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracekit.model.arrow import I64, Rows

__all__ = ["Packed"]

_UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)
_WIDEST_STEP = 1 << 20


class Packed:
    """A column of integers that int64 holds, shape (n,), n > 0. One value, and numbers that count up, take no array.

    >>> packed = Packed(np.array([1_000_000_007, 1_000_000_005, 1_000_000_250]))
    >>> packed.nbytes, packed.at(np.array([2])), packed.all().tolist()
    (3, array([1000000250]), [1000000007, 1000000005, 1000000250])
    """

    __slots__ = ("_base", "_offsets", "_size", "_step")

    def __init__(self, column: Rows) -> None:
        low, high = int(column.min()), int(column.max())
        self._size, self._base, self._step = column.size, np.int64(low), np.int64(0)
        self._offsets: npt.NDArray[np.unsignedinteger] | None = None
        if low == high:
            return
        step = int(column[1]) - int(column[0])
        if step and high - low == abs(step) * (column.size - 1) and abs(step) <= _WIDEST_STEP:
            ramp = np.arange(column.size) * step
            if (column - ramp == column[0]).all():
                self._base, self._step = np.int64(column[0]), np.int64(step)
                return
        narrowest = next(each for each in _UNSIGNED if high - low <= np.iinfo(each).max)
        # A difference that exceeds int64 wraps around, and is right as uint64.
        wide = (column.astype(np.int64, copy=False) - self._base).view(np.uint64)
        self._offsets = wide.astype(narrowest)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the array, 0 for none."""
        return 0 if self._offsets is None else self._offsets.nbytes

    def at(self, places: Rows) -> I64:
        """Return the values at places."""
        if self._offsets is None:
            return self._base + self._step * places
        return self._offsets[places].astype(np.uint64).view(np.int64) + self._base

    def all(self) -> I64:
        """Return the column."""
        if self._offsets is None:
            return self.at(np.arange(self._size))
        return self._offsets.astype(np.uint64).view(np.int64) + self._base
