"""Runs of digits in many bytes at once: where they are, and the numbers that they mean."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I32, I64, Bytes, Mask


def mask(data: Bytes) -> Mask:
    """Return which bytes are digits."""
    found: Mask = (data - np.uint8(48)) < 10
    return found


def runs(digit: Mask, offsets: I64 | None = None) -> tuple[I64, I64]:
    """Return begin and end of each run of digits. offsets: of texts one after the other; no run goes beyond its text.

    >>> runs(mask(np.frombuffer(b"a12b3", np.uint8)), np.array([0, 2, 5]))
    (array([1, 2, 4]), array([2, 3, 5]))
    """
    edges = np.flatnonzero(digit[1:] != digit[:-1]) + 1
    if digit.size and digit[0]:
        edges = np.append(0, edges)
    if edges.size % 2:
        edges = np.append(edges, digit.size)
    begins, ends = edges[0::2], edges[1::2]
    if offsets is not None:
        between = offsets[(offsets > 0) & (offsets < digit.size)]
        inside = np.unique(between[digit[between - 1] & digit[between]])
        if inside.size:
            begins, ends = np.sort(np.append(begins, inside)), np.sort(np.append(ends, inside))
    return begins, ends


def clear(digit: Mask, begins: I64, ends: I64) -> None:
    """Take some runs for other text."""
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        digit[begin:end] = False


def numbers(data: Bytes, digit: Mask, sizes: I32 | I64) -> I64:
    """Return the number of each run of digits. sizes: of the runs, of at most 18 digits each."""
    if not len(sizes):
        return np.zeros(0, np.int64)
    ends = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    return arrow.ints(arrow.text_column(ends, data[digit]).cast(pa.int64()))
