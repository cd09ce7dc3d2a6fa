"""Rows to small codes: which rows agree in several columns, found without sorting where the columns are narrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NARROW = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column as numpy. values: shape (n,), 0 where null. valid: shape (n,), None when all are. none: all are null."""

    values: npt.NDArray[Any]
    valid: Mask | None
    none: bool

    def mask(self) -> Mask:
        """Return where it is not null."""
        if self.none:
            return np.zeros(len(self.values), np.bool_)
        return np.ones(len(self.values), np.bool_) if self.valid is None else self.valid


def column(array: pa.Array) -> Column:
    """Return an Arrow column (codes, where it is a dictionary) as numpy."""
    if pa.types.is_dictionary(array.type):
        array = array.indices
    if array.null_count == len(array):
        return Column(np.zeros(len(array), np.int32), None, True)
    if array.null_count == 0:
        return Column(array.to_numpy(zero_copy_only=False), None, False)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return Column(array.fill_null(0).to_numpy(zero_copy_only=False), valid, False)


Part = tuple[npt.NDArray[Any], int]
"""Codes of shape (n,), all in 0 .. size - 1, and the size."""


def part(col: Column, where: Mask | None = None) -> Part | None:
    """Return codes that are equal exactly where the values are, null and rows outside `where` being one more value.

    None where all rows agree.
    """
    if col.none:
        return None
    known = col.valid if where is None else where if col.valid is None else col.valid & where
    if known is not None and not known.any():
        return None
    values = col.values if known is None else col.values[known]
    low, high = int(values.min()), int(values.max())
    if low == high and known is None:
        return None
    if high - low < 1 << 40:
        shifted, size = values.astype(np.int64) - low, high - low + 1
    else:
        distinct, shifted = np.unique(values, return_inverse=True)
        size = len(distinct)
    if known is None:
        return shifted, size
    codes = np.zeros(len(col.values), np.int64)
    codes[known] = shifted + 1
    return codes, size + 1


def agreeing(parts: list[Part | None], rows: int) -> tuple[I64, I64]:
    """Return shape (rows,): the class of each row, and for each class its first row; rows are equal in all parts.

    Classes are numbered in order of their first row where they are few.
    """
    codes: npt.NDArray[Any] = np.zeros(rows, np.int64)
    size = 1
    for each in parts:
        if each is None:
            continue
        more, width = each
        if size * width > _NARROW and size > 1:
            codes, first = _dense(codes, size, rows)
            size = len(first)
        if size * width >= 1 << 62:
            distinct, more = np.unique(more, return_inverse=True)
            width = len(distinct)
        codes = codes * width + more
        size *= width
    if size == 1:
        return codes, np.zeros(1, np.int64)
    return _dense(codes, size, rows)


def _dense(codes: npt.NDArray[Any], size: int, rows: int) -> tuple[I64, I64]:
    if size > max(_NARROW, 2 * rows):
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        return inverse.astype(np.int64, copy=False), first.astype(np.int64, copy=False)
    table = np.full(size, -1, np.int64)
    table[codes[::-1]] = np.arange(rows - 1, -1, -1)  # written from the last row to the first, the first stays
    present = np.flatnonzero(table >= 0)
    first = table[present]
    order = np.argsort(first)
    table[present[order]] = np.arange(len(present))
    return table[codes], first[order]
