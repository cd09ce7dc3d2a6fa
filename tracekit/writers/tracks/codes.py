"""Small codes for rows that agree in several columns, found without sorting where the columns are narrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask, Rows
from tracekit.columns.arrow import Column

_NARROW = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class Integers:
    """A column of integers as numpy. values: shape (n,), 0 where null. valid: shape (n,), None when no row is null."""

    values: Rows
    valid: Mask | None
    all_null: bool

    def mask(self) -> Mask:
        """Return which rows have a value, shape (n,)."""
        if self.all_null:
            return np.zeros(len(self.values), np.bool_)
        return np.ones(len(self.values), np.bool_) if self.valid is None else self.valid


def integers(column: Column) -> Integers:
    """Return a column of integers as numpy, or the codes of a dictionary column."""
    if isinstance(column, pa.DictionaryArray):
        column = column.indices
    if column.null_count == len(column):
        return Integers(np.zeros(len(column), np.int32), None, True)
    if column.null_count == 0:
        return Integers(column.to_numpy(zero_copy_only=False), None, False)
    return Integers(column.fill_null(0).to_numpy(zero_copy_only=False), arrow.valid(column), False)


Codes: TypeAlias = tuple[Rows, int]
"""Codes of shape (n,), all in 0 .. size - 1, and the size."""


def value_codes(column: Integers, where: Mask | None = None) -> Codes | None:
    """Return codes that are equal exactly where the values are equal; None where all rows agree.

    Null counts as one more value, and so does every row outside `where`.
    """
    if column.all_null:
        return None
    known = column.valid if where is None else where if column.valid is None else column.valid & where
    if known is not None and not known.any():
        return None
    values = column.values if known is None else column.values[known]
    low, high = int(values.min()), int(values.max())
    if low == high and known is None:
        return None
    shifted: Rows
    if high - low < 1 << 40:
        shifted, size = values.astype(np.int64) - low, high - low + 1
    else:
        distinct, shifted = np.unique(values, return_inverse=True)
        size = len(distinct)
    if known is None:
        return shifted, size
    codes = np.zeros(len(column.values), np.int64)
    codes[known] = shifted + 1
    return codes, size + 1


def classes(columns: list[Codes | None], rows: int) -> tuple[Rows, I64]:
    """Return the class of each row, shape (rows,), and the first row of each class.

    Rows of one class agree in all columns. Classes are numbered in order of their first row where they are few.
    """
    codes: Rows = np.zeros(rows, np.int64)
    size = 1
    for column in columns:
        if column is None:
            continue
        more, width = column
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


def _dense(codes: Rows, size: int, rows: int) -> tuple[I64, I64]:
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
