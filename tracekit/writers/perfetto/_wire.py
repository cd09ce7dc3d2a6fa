"""The protobuf encoding: single fields as bytes, and whole columns of fields.

Numbers of fields are those of protos/perfetto/trace/trace_packet.proto and its imports. Perfetto skips fields that it
does not know, and never changes the meaning of a number, so no generated code is needed.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import F64, I64, Bytes, Mask, Numbers, Rows
from tracekit.columns.arrow import Column

BINARY = pa.large_binary()
Words: TypeAlias = npt.NDArray[np.uint64]
Unsigned: TypeAlias = npt.NDArray[np.unsignedinteger]


def varint(value: int) -> bytes:
    """Return a number as a varint; a negative one is the ten bytes of its 64-bit complement.

    >>> varint(300).hex(), len(varint(-1))
    ('ac02', 10)
    """
    rest = value & (1 << 64) - 1
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Return a field with a whole number."""
    return varint(field << 3) + varint(value)


def double(field: int, value: float) -> bytes:
    """Return a field with a double."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def message(field: int, *parts: bytes) -> bytes:
    """Return a field with bytes, or with the message that the parts are."""
    body = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    """Return a field with a text. Escapes replace lone surrogates, and NUL, where Perfetto would cut the text."""
    return message(field, value.replace("\0", "\\u0000").encode("utf-8", "backslashreplace"))


def packet(*parts: bytes) -> bytes:
    """Return a TracePacket, as an element of the Trace that the file is."""
    return message(1, *parts)


def varint_sizes(values: I64) -> Bytes:
    """Return the bytes that each number takes as a varint, shape (n,).

    >>> varint_sizes(np.array([0, 127, 128, -1])).tolist()
    [1, 1, 2, 10]
    """
    unsigned = values.view(np.uint64)
    sizes = np.ones(len(values), np.uint8)
    top = int(unsigned.max()) if len(values) else 0
    bits = 7
    while top >> bits:
        sizes += unsigned >= np.uint64(1 << bits)
        bits += 7
    return sizes


class Cells:
    """Rows of fields side by side, built by columns; a row may lack some of them.

    A matrix holds the widest form of each column, and a second one which of its bytes belong to the row. Columns are
    stored as words of 1, 2, 4 or 8 bytes, a few thousand rows at a time: the matrices then stay in the cache.
    """

    def __init__(self, rows: int) -> None:
        self.sizes = np.zeros(rows, np.int64)
        self._bytes = bytearray()
        self._kept = bytearray()
        self._words: list[tuple[int, Numbers]] = []
        self._masks: list[tuple[int, Numbers]] = []

    def put(self, data: bytes, where: Mask | None = None) -> None:
        """Add the same bytes to each row."""
        at = len(self._bytes)
        self._bytes += data
        self._kept += b"\1" * len(data)
        self.sizes += len(data) if where is None else where * np.int64(len(data))
        if where is not None:
            self._mask(at, len(data), where)

    def byte(self, values: Rows | Bytes, where: Mask | None = None) -> None:
        """Add one byte to each row: a length, or a varint below 128."""
        self._words.append((len(self._bytes), values.astype(np.uint8, copy=False)))
        self.put(b"\0", where)

    def fixed(self, words: Words, where: Mask | None = None) -> None:
        """Add eight bytes, the lowest first, to each row."""
        self._words.append((len(self._bytes), words))
        self.put(bytes(8), where)

    def varint(self, values: I64, sizes: Bytes, where: Mask | None = None) -> None:
        """Add a varint to each row. sizes: as `varint_sizes` returns them."""
        if where is not None:
            sizes = sizes * where
        width = int(sizes.max()) if len(sizes) else 0
        if not width:
            return
        self.sizes += sizes
        at = len(self._bytes)
        slot = next(wide for wide in (1, 2, 4, 8, 10) if wide >= width)
        self._bytes += bytes(slot)
        self._kept += b"\1" * slot
        unsigned = values.view(np.uint64)
        low = min(slot, 8)
        word = _WORD[low]
        self._words.append((at, _digits(unsigned, min(width, 8), word) | _MORE.astype(word)[sizes]))
        if slot > 8:
            self._words.append((at + 8, _digits(unsigned >> np.uint64(56), 2, np.uint16) | _MORE_ABOVE[sizes]))
        if int(sizes.min()) != slot:
            self._masks.append((at, _FIRST.astype(word)[np.minimum(sizes, 8)]))
            if slot > 8:
                self._masks.append((at + 8, _FIRST.astype(np.uint16)[np.maximum(sizes, 8) - 8]))

    def _mask(self, at: int, width: int, where: Mask) -> None:
        while width:
            step = next(wide for wide in (8, 4, 2, 1) if wide <= width)
            self._masks.append((at, where * _FIRST[step].astype(_WORD[step])))
            at, width = at + step, width - step

    def extend(self, other: Cells) -> None:
        """Add the fields of other cells behind these."""
        at = len(self._bytes)
        self._bytes += other._bytes
        self._kept += other._kept
        self._words += [(at + place, values) for place, values in other._words]
        self._masks += [(at + place, values) for place, values in other._masks]
        self.sizes = self.sizes + other.sizes

    def column(self) -> Column:
        """Return the bytes of each row."""
        rows, width = len(self.sizes), len(self._bytes)
        out = np.empty(int(self.sizes.sum()), np.uint8)
        slab = min(rows, _SLAB)
        matrix, kept = np.empty((slab, width), np.uint8), np.empty((slab, width), np.uint8)
        end = 0
        for first in range(0, rows, _SLAB):
            here = slice(first, min(first + _SLAB, rows))
            count = here.stop - first
            some, some_kept = matrix[:count], kept[:count]
            _fill(some, self._bytes, self._words, here)
            begin, end = end, end + int(self.sizes[here].sum())
            if self._masks:
                _fill(some_kept, self._kept, self._masks, here)
                out[begin:end] = some[some_kept.view(np.bool_)]
            else:
                out[begin:end] = some.reshape(-1)
        return binary(self.sizes, out)


_SLAB = 1 << 12
_WORD: dict[int, type[np.unsignedinteger]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_FIRST = np.array([(1 << 8 * n) // 255 for n in range(9)], np.uint64)
"""Words whose first n bytes are 1."""
_MORE = np.array([0x8080808080808080 & ((1 << 8 * max(n - 1, 0)) - 1) for n in range(11)], np.uint64)
"""Words with the high bit of the first n - 1 bytes: more bytes of the varint follow."""
_MORE_ABOVE = np.array([0] * 10 + [0x80], np.uint16)


def _digits(values: Words, width: int, word: type[np.unsignedinteger]) -> Unsigned:
    """Return words with seven bits of each value in each of the first `width` bytes."""
    rest = values.astype(word, copy=False) if width * 7 <= 8 * np.dtype(word).itemsize else values
    out = (rest & rest.dtype.type(127)).astype(word)
    for place in range(1, width):
        digits = (rest >> rest.dtype.type(7 * place)) & rest.dtype.type(127)
        out |= digits.astype(word) << word(8 * place)
    return out


def _fill(matrix: Bytes, row: bytearray, words: list[tuple[int, Numbers]], here: slice) -> None:
    matrix[:] = np.frombuffer(bytes(row), np.uint8)
    width = matrix.shape[1]
    for at, values in words:
        where = np.dtype({"names": ["x"], "formats": [values.dtype], "offsets": [at], "itemsize": width})
        matrix.reshape(-1).view(where)["x"] = values[here]


def binary(sizes: Rows, data: Bytes) -> Column:
    """Return the column whose rows are consecutive pieces of `data`, of these sizes."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    column: Column = pa.Array.from_buffers(BINARY, len(sizes), [None, arrow.buffer(offsets), arrow.buffer(data)])
    return column


def sizes_of(column: Column) -> I64:
    """Return the bytes of each row of a binary column without nulls."""
    offsets, _ = arrow.text_parts(column)
    return np.diff(offsets)


def words(values: I64 | F64) -> Words:
    """Return 64-bit numbers as the words that they are stored as."""
    return np.ascontiguousarray(values).view(np.uint64)
