"""Runs of digits in many bytes at once: where they are, and the numbers that they mean."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from tracekit.model import arrow, sets
from tracekit.model.arrow import I32, I64, U64, Bytes, Mask

__all__ = [
    "BLOCK",
    "SEVEN",
    "STEPS",
    "TOP",
    "PackedDigits",
    "clear",
    "delimited",
    "mask",
    "numbers",
    "numbers_of",
    "runs",
    "signed",
    "varint",
    "varint_at",
    "varint_sizes",
]

# Numbers and fields in protobuf's encoding (varints): one of them, or columns of them, to and from bytes.
#
# Readers and writers of all protobuf formats use it; what a field means is theirs.
#
# A gather of eight unaligned bytes costs numpy four times as much as two aligned ones that are shifted together, and
# numpy changes a number in place five times as fast as it makes a new one: so the steps here are many and cheap, some
# 12 ns a number. Give `PackedDigits` some thousand places at a time: then its columns stay in the processor's cache.
# Source: the wire format of protobuf (protobuf.dev/programming-guides/encoding).


BLOCK = 1 << 13
"""A good number of places for one call."""
_ROOM = 32
TOP = np.uint64(0x8080808080808080)
"""The bit of each byte that says that another byte follows."""
SEVEN = np.uint64(0x7F7F7F7F7F7F7F7F)
"""The bits of each byte that are the number's."""
STEPS = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)
"""How the sevens of eight bytes become one number: bits that stay, bits that move, by how many."""
_ONE = np.uint64(1)


def varint(value: int) -> bytes:
    """Return an integer as protobuf writes it; a negative one takes ten bytes, its 64-bit complement.

    >>> varint(300).hex(), len(varint(-1))
    ('ac02', 10)
    """
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint_at(data: bytes, place: int) -> tuple[int, int]:
    r"""Return a number and where it ends; -1 where the data ends within it.

    >>> varint_at(b"?\xac\x02", 1), varint_at(b"\xac", 0)
    ((300, 3), (-1, 1))
    """
    value = shift = 0
    while place < len(data) and shift < 70:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
    return -1, len(data)


def signed(value: int) -> int:
    """Return 64 bits as int64."""
    return value - (1 << 64) if value >= 1 << 63 else value


def delimited(number: int, data: bytes) -> bytes:
    """Return a field of wire type 2 (text or message) with its tag and length."""
    return varint(number << 3 | 2) + varint(len(data)) + data


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


def numbers_of(word: U64, behind: Callable[[I64], U64]) -> tuple[U64, I64]:
    """Return the varints that words begin with, and how many bytes each has: 0 if it does not end within ten.

    word: shape (n,), the eight bytes of each; it is changed. behind: returns the next eight bytes of some of the rows.
    """
    ends = ~word
    ends &= TOP
    long = np.flatnonzero(ends == 0) if not ends.all() else None
    low = ends - _ONE
    # All bits up to the first one that ends a number; then that bit alone.
    low ^= ends
    word &= low
    ends &= low
    # The exponent of a power of two is the number of its bit.
    size: I64 = ends.astype(np.float64).view(np.int64)
    size >>= 52
    size -= 1015
    size >>= 3
    word &= SEVEN
    for keep, above, bits in STEPS:
        high = word & above
        high >>= bits
        word &= keep
        word |= high
    if long is not None:
        rest = behind(long)
        first, second = rest & np.uint64(0xFF), (rest >> np.uint64(8)) & np.uint64(0xFF)
        nine = first < np.uint64(128)
        ten = ~nine & (second < np.uint64(128))
        word[long] |= (first & np.uint64(0x7F)) << np.uint64(56)
        word[long] |= np.where(ten, (second & _ONE) << np.uint64(63), np.uint64(0))
        size[long] = np.where(nine, 9, np.where(ten, 10, 0))
    return word, size


class PackedDigits:
    """Bytes from which words and varints can be taken at any place.

    bytes: the data with zeros behind it, which may be read too. size: of the data.
    """

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self.bytes: Bytes = np.zeros(-(-(len(data) + _ROOM) // 8) * 8, np.uint8)
        self.bytes[: len(data)] = np.frombuffer(data, np.uint8)
        self._words: U64 = self.bytes.view("<u8")

    def words(self, places: I64) -> U64:
        """Return the eight bytes from each place on, the first one lowest. places: 0 to `size` + 8.

        >>> PackedDigits(bytes(range(1, 12))).words(np.array([3])).tolist() == [0x0B0A090807060504]
        True
        """
        shift = (places & 7).view(np.uint64)
        shift <<= np.uint64(3)
        index = places >> 3
        low = self._words.take(index)
        low >>= shift
        index += 1
        high = self._words.take(index)
        # numpy gives 0 for a shift by 64 bits.
        np.subtract(np.uint64(64), shift, out=shift)
        high <<= shift
        low |= high
        return low

    def numbers(self, places: I64) -> tuple[U64, I64]:
        """Return the varint at each place, and how many bytes it has: 0 if it does not end within ten.

        places: 0 to `size`. A negative number has its 64 bits.

        >>> PackedDigits(b"\\xac\\x02\\x05").numbers(np.array([0, 2]))
        (array([300,   5], dtype=uint64), array([2, 1]))
        """
        return numbers_of(self.words(places), lambda rows: self.words(places[rows] + 8))


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
        inside = sets.unique(between[digit[between - 1] & digit[between]])
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
    return arrow.ints(arrow.pc.cast(arrow.text_column(ends, data[digit]), pa.int64()))
