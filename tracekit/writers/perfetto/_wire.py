"""The protobuf encoding: single fields as bytes, and whole columns of fields.

Numbers of fields are those of protos/perfetto/trace/trace_packet.proto and its imports. Perfetto skips fields that it
does not know, and never changes the meaning of a number, so no generated code is needed.
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import F64, I32, I64, Bytes, Column, Mask, Rows
from tracekit.model.digits import delimited, varint

BINARY = pa.large_binary()
Words: TypeAlias = npt.NDArray[np.uint64]


def number(field: int, value: int) -> bytes:
    """Return a field with a whole number."""
    return varint(field << 3) + varint(value)


def double(field: int, value: float) -> bytes:
    """Return a field with a double."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def message(field: int, *parts: bytes) -> bytes:
    """Return a field with bytes, or with the message that the parts are."""
    return delimited(field, b"".join(parts))


def text(field: int, value: str) -> bytes:
    """Return a field with a text. Escapes replace lone surrogates, and NUL, where Perfetto would cut the text."""
    return message(field, value.replace("\0", "\\u0000").encode("utf-8", "backslashreplace"))


def packet(*parts: bytes) -> bytes:
    """Return a TracePacket, as an element of the Trace that the file is."""
    return message(1, *parts)


@dataclass(slots=True)
class _Piece:
    """Up to eight bytes of each row. words: the first byte lowest, 0 behind the last. most: the largest size."""

    words: Words | int
    sizes: Bytes | int
    most: int


class WireCells:
    """Rows of fields side by side, built by columns; a row may lack some of them.

    Fields are joined to words of eight bytes. All words of a row are stored one after the other, in order of the rows:
    what a word has too much is overwritten by the next one.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._same = 0
        self._varied: I32 | None = None
        self._pieces: list[_Piece] = []

    @property
    def sizes(self) -> I64:
        """Return the bytes of each row, shape (n,)."""
        if self._varied is None:
            return np.full(self.rows, self._same, np.int64)
        return np.add(self._varied, self._same, dtype=np.int64)

    def put(self, data: bytes, where: Mask | None = None) -> None:
        """Add the same bytes to each row."""
        for at in range(0, len(data), 8):
            part = data[at : at + 8]
            word = int.from_bytes(part, "little")
            if where is None:
                self._add(_Piece(word, len(part), len(part)))
            else:
                sizes = where.view(np.uint8) * np.uint8(len(part))
                self._add(_Piece(where * np.uint64(word), sizes, len(part)))

    def byte(self, values: Rows | Bytes, where: Mask | None = None) -> None:
        """Add one byte to each row: a length, or a varint below 128."""
        self._one_size(values.astype(np.uint64), 1, where)

    def fixed(self, words: Words, where: Mask | None = None) -> None:
        """Add eight bytes, the lowest first, to each row."""
        self._one_size(words, 8, where)

    def pair(self, keys: Words, words: Words, where: Mask) -> None:
        """Add two bytes, and eight more, to some rows. keys, words: 0 in the others."""
        sizes = where.view(np.uint8) << np.uint8(1)
        self._add(_Piece(keys, sizes, 2))
        self._add(_Piece(words, sizes << np.uint8(2), 8))

    def varint(self, values: I64, sizes: Bytes, where: Mask | None = None) -> None:
        """Add a varint to each row. sizes: as `varint_sizes` returns them."""
        if where is not None:
            sizes = sizes * where
        width = int(sizes.max()) if len(sizes) else 0
        if not width:
            return
        unsigned = values.view(np.uint64)
        low = _spread(unsigned, width)
        if width <= 8 and int(sizes.min()) == width:
            if width > 1:
                low |= _MORE[width]
            self._add(_Piece(low, width, width))
            return
        if width > 1:
            low |= _MORE[sizes]
        if where is not None:
            low *= where
        self._add(_Piece(low, np.minimum(sizes, 8) if width > 8 else sizes, min(width, 8)))
        if width > 8:
            high = _spread(unsigned >> np.uint64(56), 2) | _MORE_ABOVE[sizes]
            if where is not None:
                high *= where
            self._add(_Piece(high, np.maximum(sizes, 8) - np.uint8(8), width - 8))

    def texts(self, texts: Column, codes: Rows) -> None:
        """Add to each row one of a few short texts. codes: shape (n,), the text of each row."""
        offsets, data = arrow.text_parts(texts)
        padded = np.append(data, np.zeros(8, np.uint8))
        sizes = np.diff(offsets)
        view: Words = np.ndarray((len(data) + 1,), "<u8", padded, 0, (1,))
        for at in range(0, int(sizes.max(initial=0)), 8):
            here = np.clip(sizes - at, 0, 8).astype(np.uint8)
            words = view[np.minimum(offsets[:-1] + at, len(data))] & _FIRST[here]
            self._add(_Piece(words[codes], here[codes], int(here.max())))

    def extend(self, other: WireCells) -> None:
        """Add the fields of other cells behind these."""
        for piece in other._pieces:
            self._add(piece)

    def _one_size(self, words: Words, size: int, where: Mask | None) -> None:
        if where is None:
            self._add(_Piece(words, size, size))
        else:
            self._add(_Piece(words * where, where.view(np.uint8) * np.uint8(size), size))

    def _add(self, piece: _Piece) -> None:
        if isinstance(piece.sizes, int):
            self._same += piece.sizes
        else:
            if self._varied is None:
                self._varied = np.zeros(self.rows, np.int32)
            self._varied += piece.sizes
        last = self._pieces[-1] if self._pieces else None
        if last is None or last.most + piece.most > 8:
            self._pieces.append(piece)
            return
        more: Words | int
        if isinstance(last.sizes, int):
            bits = 8 * last.sizes
            more = piece.words << bits if isinstance(piece.words, int) else piece.words << np.uint64(bits)
        else:
            shift = last.sizes.astype(np.uint64)
            shift <<= np.uint64(3)
            more = np.left_shift(np.uint64(piece.words) if isinstance(piece.words, int) else piece.words, shift)
        sizes: Any = last.sizes
        self._pieces[-1] = _Piece(_either(more, last.words), sizes + piece.sizes, last.most + piece.most)

    def column(self) -> Column:
        """Return the bytes of each row."""
        offsets = np.zeros(self.rows + 1, np.int64)
        np.cumsum(self.sizes, out=offsets[1:])
        total, width = int(offsets[-1]), len(self._pieces)
        out = np.empty(total + 8, np.uint8)
        every: Words = np.ndarray((total + 1,), "<u8", out, 0, (1,))
        slab = min(self.rows, _SLAB)
        words, places = np.empty((slab, width), np.uint64), np.empty((slab, width), np.int64)
        for first in range(0, self.rows, _SLAB):
            here = slice(first, min(first + _SLAB, self.rows))
            count = here.stop - first
            place = offsets[here].copy()
            for at, piece in enumerate(self._pieces):
                words[:count, at] = piece.words if isinstance(piece.words, int) else piece.words[here]
                places[:count, at] = place
                place += piece.sizes if isinstance(piece.sizes, int) else piece.sizes[here]
            every[places[:count].reshape(-1)] = words[:count].reshape(-1)
        return _column(offsets, out)


_SLAB = 1 << 12
_FIRST = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
"""Words whose first n bytes are kept."""
_MORE = np.array([0x8080808080808080 & ((1 << 8 * max(n - 1, 0)) - 1) for n in range(11)], np.uint64)
"""Words with the high bit of the first n - 1 bytes: more bytes of the varint follow."""
_MORE_ABOVE = np.array([0] * 10 + [0x80], np.uint64)


def _either(more: Words | int, words: Words | int) -> Words | int:
    if isinstance(more, int):
        return more | words if isinstance(words, int) else words | np.uint64(more)
    more |= np.uint64(words) if isinstance(words, int) else words
    return more


def _spread(values: Words, width: int) -> Words:
    """Return new words with seven bits of each value in each of the first `width` bytes, at most eight."""
    if width == 1:
        return values & np.uint64(0x7F)
    out = values
    for most, keep, bits in _HALVES:
        if width <= most // 2:
            continue
        above = out & np.uint64(keep << bits * 7)
        above <<= np.uint64(bits)
        out = out & np.uint64(keep)
        out |= above
    return out


_HALVES = ((8, 0x0FFFFFFF, 4), (4, 0x00003FFF00003FFF, 2), (2, 0x007F007F007F007F, 1))
"""Steps that move the upper half of 8, 4 and 2 groups of seven bits up: bytes, bits that stay, how many bits up."""


def binary(sizes: Rows, data: Bytes) -> Column:
    """Return the column whose rows are consecutive pieces of `data`, of these sizes."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return _column(offsets, data)


def _column(offsets: I64, data: Bytes) -> Column:
    column: Column = pa.Array.from_buffers(BINARY, len(offsets) - 1, [None, arrow.buffer(offsets), arrow.buffer(data)])
    return column


def sizes_of(column: Column) -> I64:
    """Return the bytes of each row of a binary column without nulls."""
    offsets, _ = arrow.text_parts(column)
    return np.diff(offsets)


def words(values: I64 | F64) -> Words:
    """Return 64-bit numbers as the words that they are stored as."""
    return np.ascontiguousarray(values).view(np.uint64)
