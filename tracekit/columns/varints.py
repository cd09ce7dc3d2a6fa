"""Numbers in protobuf's encoding (varints), many at once.

A gather of eight unaligned bytes costs numpy four times as much as two aligned ones that are shifted together, and
numpy changes a number in place five times as fast as it makes a new one: so the steps here are many and cheap, some
12 ns a number. Give it some thousand places at a time: then its columns stay in the processor's cache.
Source: the wire format of protobuf (protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

import numpy as np

from tracekit.columns.arrays import I64, U64, Bytes

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


class Packed:
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

        >>> Packed(bytes(range(1, 12))).words(np.array([3])).tolist() == [0x0B0A090807060504]
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

        >>> Packed(b"\\xac\\x02\\x05").numbers(np.array([0, 2]))
        (array([300,   5], dtype=uint64), array([2, 1]))
        """
        word = self.words(places)
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
            rest = self.words(places[long] + 8)
            first, second = rest & np.uint64(0xFF), (rest >> np.uint64(8)) & np.uint64(0xFF)
            nine = first < np.uint64(128)
            ten = ~nine & (second < np.uint64(128))
            word[long] |= (first & np.uint64(0x7F)) << np.uint64(56)
            word[long] |= np.where(ten, (second & _ONE) << np.uint64(63), np.uint64(0))
            size[long] = np.where(nine, 9, np.where(ten, 10, 0))
        return word, size
