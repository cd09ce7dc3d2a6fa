"""Rows of one width: a template with numbers in it, all rows at once.

Numbers are right-aligned with spaces before them, which JSON allows (1 % more bytes). Digits come four at a time from
tables and are stored as one word. A number's first word includes the end of the text before it, so that the width is
that of the largest number. One digit at a time takes three times as long (measured).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I32, I64, Bytes, Column, Numbers, Rows, pc

__all__ = ["Micros", "Millis", "Piece", "fixed_rows"]

Words: TypeAlias = npt.NDArray[np.uint32]
Unsigned: TypeAlias = npt.NDArray[np.unsignedinteger]


@dataclass(frozen=True, slots=True, eq=False)
class Micros:
    """Times in ns, shape (n,), not negative: written in µs with exactly three decimals."""

    ns: Rows


@dataclass(frozen=True, slots=True, eq=False)
class Millis:
    """Times in ns, shape (n,), not negative: written in ms with exactly six decimals."""

    ns: Rows


Piece: TypeAlias = bytes | Rows | Micros | Millis
"""A text that all rows share, integers of shape (n,), or times."""


@lru_cache(maxsize=1)
def _zero_padded() -> Words:
    return np.frombuffer(b"".join(b"%04d" % i for i in range(10_000)), np.uint32)


@lru_cache(maxsize=256)
def _leading(fill: bytes, last: bool) -> Words:
    """Return the words of a number's first digits after `fill`: blanks for 0, unless they are the last."""
    width = 4 - len(fill)
    words = [fill + b"%*d" % (width, i) for i in range(10**width)]
    if not last:
        words[0] = fill + b" " * width
    return np.frombuffer(b"".join(words), np.uint32)


@lru_cache(maxsize=2)
def _following(last: bool) -> Words:
    """Return the words of later digits: 0 .. 9999 with zeros, from 10000 on with spaces (no digits before)."""
    return np.concatenate((_zero_padded(), _leading(b"", last)))


@lru_cache(maxsize=1)
def _decimals() -> Words:
    return np.frombuffer(b"".join(b".%03d" % i for i in range(1000)), np.uint32)


@lru_cache(maxsize=1)
def _three_digits() -> npt.NDArray[np.bytes_]:
    return np.array([b"%03d" % i for i in range(1000)])


def _taken(words: npt.NDArray[Any], at: Unsigned) -> npt.NDArray[Any]:
    """Return the words at places, all below 2^63. (The oldest NumPy that we allow takes no index of uint64.)"""
    return words.take(at.view(np.int64) if at.dtype == np.uint64 else at)


LARGE = 1 << 31
"""Bytes that strings of 32-bit offsets cannot have."""


class _Layout:
    """The texts and words of one row, from left to right."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.text = bytearray()
        self.words: list[tuple[int, Words]] = []
        self.columns: list[tuple[int, Numbers]] = []
        self._taken = 0

    def put(self, words: Words) -> None:
        self.words.append((len(self.text), words))
        self.text += b"0000"
        self._taken = len(self.text)

    def number(self, values: Rows | Unsigned) -> None:
        low, high = int(values.min()), int(values.max())
        if low == high:
            self.text += b"%d" % low
            return
        if low < 0:
            self._signed(values)
            return
        width = len(str(high))
        rest = _unsigned(values, high)
        groups: list[tuple[Unsigned, Unsigned]] = []  # four digits and the number before them, from the last
        while width > 4:
            upper = rest // 10_000
            groups.append((rest - upper * 10_000, upper))
            rest, width = upper, width - 4
        spare = min(4 - width, len(self.text) - self._taken)
        fill = bytes(self.text[len(self.text) - spare :])
        del self.text[len(self.text) - spare :]
        self.put(_taken(_leading(fill, not groups), rest))
        for at in range(len(groups) - 1, -1, -1):
            digits, upper = groups[at]
            self.put(_taken(_following(at == 0), np.where(upper == 0, digits + 10_000, digits)))

    def micros(self, ns: Rows) -> None:
        low, high = int(ns.min()), int(ns.max())
        if low == high:
            self.text += b"%d.%03d" % divmod(low, 1000)
            return
        values = _unsigned(ns, high)
        whole = values // 1000
        self.number(whole)
        self.put(_taken(_decimals(), values - whole * 1000))

    def millis(self, ns: Rows) -> None:
        low, high = int(ns.min()), int(ns.max())
        if low == high:
            self.text += b"%d.%06d" % divmod(low, 1_000_000)
            return
        thousands = _unsigned(ns, high) // 1000
        whole = thousands // 1000
        self.number(whole)
        self.put(_taken(_decimals(), thousands - whole * 1000))
        self.columns.append((len(self.text), _taken(_three_digits(), _unsigned(ns, high) - thousands * 1000)))
        self.text += b"000"
        self._taken = len(self.text)

    def _signed(self, values: Rows | Unsigned) -> None:
        texts = pc.cast(arrow.array(values, pa.int64()), pa.string())
        width = int(pc.max(pc.binary_length(texts)).as_py())
        _, data = arrow.text_parts(pc.utf8_lpad(texts, width))
        self.columns.append((len(self.text), data.view(f"S{width}")))
        self.text += b"0" * width
        self._taken = len(self.text)

    def fill(self, out: Bytes) -> None:
        width = len(self.text)
        out.reshape(self.rows, width)[:] = np.frombuffer(bytes(self.text), np.uint8)
        for at, values in [*self.words, *self.columns]:
            where = np.dtype({"names": ["x"], "formats": [values.dtype], "offsets": [at], "itemsize": width})
            out.view(where)["x"] = values


def _unsigned(values: Rows | Unsigned, high: int) -> Unsigned:
    """Return numbers from 0 to `high` in the narrower of two unsigned types."""
    if high < 1 << 32:
        return values.astype(np.uint32, copy=False)
    return values.astype(np.uint64, copy=False)


def fixed_rows(parts: Sequence[tuple[int, Sequence[Piece]]], texts: Sequence[bytes] = ()) -> Column:
    """Return one string for each row, the rows of the parts one after the other.

    parts: number of rows (above 0) and pieces of each; rows of one part have one width. texts: strings of UTF-8 that
    come before the rows. The column is of large strings where it has 2 GiB or more.
    """
    layouts = []
    for rows, pieces in parts:
        layout = _Layout(rows)
        for piece in pieces:
            if isinstance(piece, bytes):
                layout.text += piece
            elif isinstance(piece, Micros):
                layout.micros(piece.ns)
            elif isinstance(piece, Millis):
                layout.millis(piece.ns)
            else:
                layout.number(piece)
        layouts.append(layout)
    first = b"".join(texts)
    size, count = len(first) + sum(x.rows * len(x.text) for x in layouts), len(texts) + sum(x.rows for x in layouts)
    is_large = size >= LARGE
    offsets: I32 | I64 = np.zeros(count + 1, np.int64) if is_large else np.zeros(count + 1, np.int32)
    data = np.empty(size, np.uint8)
    data[: len(first)] = np.frombuffer(first, np.uint8)
    np.cumsum([len(text) for text in texts], out=offsets[1 : len(texts) + 1])
    at, row = len(first), len(texts) + 1
    for layout in layouts:
        width, end = len(layout.text), at + layout.rows * len(layout.text)
        layout.fill(data[at:end])
        offsets[row : row + layout.rows] = np.arange(at + width, end + width, width, dtype=offsets.dtype)
        at, row = end, row + layout.rows
    return arrow.text_column(offsets, data, pa.large_string() if is_large else pa.string())
