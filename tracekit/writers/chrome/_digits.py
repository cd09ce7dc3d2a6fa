"""Rows of one width: a template with numbers in it, all rows at once.

Numbers are right-aligned with spaces before them, which JSON allows (1 % more bytes). Digits come four at a time from
tables and are stored as one word; a number's first word takes the end of the text before it along, so that the width is
that of the largest number. The measured alternative, one digit at a time, takes three times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint32]
Ints = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Micros:
    """Shape (n,), ns, not negative: written in µs with exactly three decimals."""

    ns: npt.NDArray[Any]


Piece = bytes | Ints | Micros
"""A text that all rows share, integers of shape (n,), or times."""


@lru_cache(maxsize=1)
def _zero_padded() -> Words:
    return np.frombuffer(b"".join(b"%04d" % i for i in range(10_000)), np.uint32)


@lru_cache(maxsize=256)
def _leading(fill: bytes, last: bool) -> Words:
    """Words of a number's first digits behind `fill`; nothing where they are 0, unless they are the last ones."""
    width = 4 - len(fill)
    words = [fill + b"%*d" % (width, i) for i in range(10**width)]
    if not last:
        words[0] = fill + b" " * width
    return np.frombuffer(b"".join(words), np.uint32)


@lru_cache(maxsize=2)
def _following(last: bool) -> Words:
    """Words of later digits: at 0 .. 9999 with zeros before them, from 10000 on with spaces (nothing stands before)."""
    return np.concatenate((_zero_padded(), _leading(b"", last)))


@lru_cache(maxsize=1)
def _decimals() -> Words:
    return np.frombuffer(b"".join(b".%03d" % i for i in range(1000)), np.uint32)


class _Layout:
    """Texts and words of a row, from left to right."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.text = bytearray()
        self.words: list[tuple[int, Words]] = []
        self.columns: list[tuple[int, Any]] = []
        self._taken = 0

    def put(self, words: Words) -> None:
        self.words.append((len(self.text), words))
        self.text += b"0000"
        self._taken = len(self.text)

    def number(self, values: Ints) -> None:
        low, high = int(values.min()), int(values.max())
        if low == high:
            self.text += b"%d" % low
            return
        if low < 0:
            self._signed(values)
            return
        width = len(str(high))
        rest: Any = values.astype(np.uint32 if high < 1 << 32 else np.uint64, copy=False)
        groups: list[tuple[Any, Any]] = []  # digits, and what stands before them; from the last
        while width > 4:
            upper = rest // 10_000
            groups.append((rest - upper * 10_000, upper))
            rest, width = upper, width - 4
        spare = min(4 - width, len(self.text) - self._taken)
        fill = bytes(self.text[len(self.text) - spare :])
        del self.text[len(self.text) - spare :]
        self.put(_leading(fill, not groups).take(rest))
        for at in range(len(groups) - 1, -1, -1):
            digits, upper = groups[at]
            self.put(_following(at == 0).take(np.where(upper == 0, digits + 10_000, digits)))

    def micros(self, ns: Ints) -> None:
        low, high = int(ns.min()), int(ns.max())
        if low == high:
            self.text += b"%d.%03d" % divmod(low, 1000)
            return
        values: Any = ns.astype(np.uint32 if high < 1 << 32 else np.uint64, copy=False)
        whole = values // 1000
        self.number(whole)
        self.put(_decimals().take(values - whole * 1000))

    def _signed(self, values: Ints) -> None:
        texts = pa.array(values, pa.int64()).cast(pa.string())
        width = int(pc.max(pc.binary_length(texts)).as_py())
        padded = pc.utf8_lpad(texts, width)
        self.columns.append((len(self.text), np.frombuffer(padded.buffers()[2], f"S{width}")))
        self.text += b"0" * width
        self._taken = len(self.text)

    def fill(self, out: npt.NDArray[np.uint8]) -> None:
        width = len(self.text)
        out.reshape(self.rows, width)[:] = np.frombuffer(bytes(self.text), np.uint8)
        for at, values in [*self.words, *self.columns]:
            where = np.dtype({"names": ["x"], "formats": [values.dtype], "offsets": [at], "itemsize": width})
            out.view(where)["x"] = values


def fixed_rows(parts: Sequence[tuple[int, Sequence[Piece]]]) -> pa.StringArray:
    """Return one string for each row, the rows of the parts one after the other.

    parts: number of rows (above 0) and pieces of each; rows of one part have one width.
    """
    layouts = []
    for rows, pieces in parts:
        layout = _Layout(rows)
        for piece in pieces:
            if isinstance(piece, bytes):
                layout.text += piece
            elif isinstance(piece, Micros):
                layout.micros(piece.ns)
            else:
                layout.number(piece)
        layouts.append(layout)
    total = sum(x.rows * len(x.text) for x in layouts)
    data = np.empty(total, np.uint8)
    offsets = np.empty(sum(x.rows for x in layouts) + 1, np.int32)
    at = row = 0
    for layout in layouts:
        size = layout.rows * len(layout.text)
        layout.fill(data[at : at + size])
        offsets[row : row + layout.rows] = np.arange(at, at + size, len(layout.text), dtype=np.int32)
        at, row = at + size, row + layout.rows
    offsets[row] = at
    return pa.StringArray.from_buffers(row, pa.py_buffer(offsets), pa.py_buffer(data))
