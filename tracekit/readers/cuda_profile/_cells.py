"""Cells of a block of text by their places: numbers and texts of many cells at once, exact.

A cell is a start and an end in a padded copy of the text. Numbers are read eight characters at a time: one 64-bit word
is fetched for each cell, and multiplications combine its digits, for all cells together. A cell of an unusual form
(more decimals, an exponent, a sign, junk) is reported as not read, for an exact path that goes cell by cell. Source of
the eight-digit step: the well-known SWAR conversion ("simd within a register").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64, U64, Bytes, Mask
from tracekit.columns.arrow import Column, DictColumn

PAD = 16
_ALL = (1 << 64) - 1
_KEEP = np.array([_ALL ^ (_ALL >> (8 * n)) for n in range(9)], np.uint64)
"""Masks of the last n characters of a word: a word holds its last character in the highest byte."""
_FIRST = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)


def _u(value: int) -> np.uint64:
    return np.uint64(value)


_ZEROS, _HIGH = _u(0x3030303030303030), _u(0xF0F0F0F0F0F0F0F0)
_SIX, _TOP = _u(0x0606060606060606), _u(0x8080808080808080)


@dataclass(frozen=True, slots=True)
class Cells:
    """Some cells of one text: `starts` and `ends` are int64 of shape (n,), places in the padded text."""

    text: Text
    starts: I64
    ends: I64

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: I64 | Mask) -> Cells:
        """Return some of the cells."""
        return Cells(self.text, self.starts[rows], self.ends[rows])

    def one(self, row: int) -> str:
        """Return the text of one cell."""
        return self.text.data[self.starts[row] - PAD : self.ends[row] - PAD].decode("utf-8", "replace")

    def integers(self) -> tuple[I64, Mask]:
        """Return the values of cells of 1 to 16 digits, and the mask of these cells."""
        return self.text.digits(self.starts, self.ends)

    def thousands(self) -> tuple[I64, Mask]:
        """Return 1000 x the value of decimals with up to three places (us to ns), and the mask of these cells."""
        text, starts, ends = self.text, self.starts, self.ends
        limit = (1 << 62) // 1000 - 1
        dot = ends - 4
        if bool(((text.bytes[dot] == ord(".")) & (dot > starts)).all()):  # as the profiler prints them
            return self._fraction(dot, 3, limit)
        whole, ok = text.digits(starts, ends)
        ok &= whole < limit
        whole = whole * 1000
        for places in (3, 2, 1):
            dot = ends - places - 1
            chosen = ~ok & (text.bytes[dot] == ord(".")) & (dot > starts)
            if chosen.any():
                whole[chosen], ok[chosen] = self.take(chosen)._fraction(dot[chosen], places, limit)
        return whole, ok

    def _fraction(self, dot: I64, places: int, limit: int) -> tuple[I64, Mask]:
        """Return what `thousands` does, for cells with a dot before their last `places` characters."""
        before, before_ok = self.text.digits(self.starts, dot)
        after, after_ok = self.text.digits(dot + 1, self.ends)
        return before * 1000 + after * 10 ** (3 - places), before_ok & after_ok & (before < limit)

    def hexadecimal(self) -> tuple[I64, Mask]:
        """Return the values of cells of 1 to 16 hexadecimal digits below 2^62, and the mask of these cells."""
        length = self.ends - self.starts
        ok = (length >= 1) & (length <= PAD)
        low, low_ok = self.text.hex8(self.ends, np.clip(length, 0, 8))
        high, high_ok = self.text.hex8(self.ends - 8, np.clip(length - 8, 0, 8))
        value = (high << _u(32)) | low
        return value.astype(np.int64), ok & low_ok & high_ok & (value < _u(1 << 62))

    def texts(self) -> DictColumn:
        """Return the cells as text. Cells point into the text, so only the distinct ones are copied."""
        count = len(self.starts)
        length = (self.ends - self.starts).astype(np.int32)
        views = np.zeros((count, 4), "<u4")
        views[:, 0] = length
        first = self.text.words(self.starts)
        views[:, 1] = (first & _FIRST[np.minimum(length, 4)]).astype(np.uint32)
        views[:, 3] = self.starts
        short = np.flatnonzero(length <= 12)
        if len(short):
            places, size = self.starts[short], length[short]
            # Arrow keeps texts up to 12 bytes inside the view: four bytes above, eight here.
            rest = self.text.words(places + 4) & _FIRST[np.clip(size - 4, 0, 8)]
            views[short, 2] = (rest & _u(0xFFFFFFFF)).astype(np.uint32)
            views[short, 3] = (rest >> _u(32)).astype(np.uint32)
        column: Column = pa.Array.from_buffers(
            pa.string_view(), count, [None, arrow.buffer(views), pa.py_buffer(self.text.padded)]
        )
        encoded = arrow.encoded(column)
        return pa.DictionaryArray.from_arrays(encoded.indices, encoded.dictionary.cast(pa.string()))


class Text:
    """A block of text, padded so that a word can be fetched at each of its places."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.padded = b"\n" * PAD + data + b"\n" * PAD
        self.bytes: Bytes = np.frombuffer(self.padded, np.uint8)
        self._commas: I64 | None = None
        self._words: U64 = np.ndarray((len(self.padded) - 7,), "<u8", self.padded, 0, (1,))

    def commas(self) -> I64:
        """Return the places of all commas."""
        if self._commas is None:
            self._commas = np.flatnonzero(self.bytes == ord(","))
        return self._commas

    def words(self, places: I64) -> U64:
        """Return the eight characters from each place on, the first in the lowest byte."""
        words: U64 = self._words[places]
        return words

    def same(self, places: I64, text: bytes) -> Mask:
        """Return the mask of the places where this text begins."""
        out = np.ones(len(places), np.bool_)
        # The padding behind the end holds line ends only, and `text` has none.
        last = len(self._words) - 1
        inside = not len(places) or int(places.max()) + len(text) <= last
        for at in range(0, len(text), 8):
            part = text[at : at + 8]
            wanted = _u(int.from_bytes(part.ljust(8, b"\0"), "little"))
            here = places + at if at else places
            words = self.words(here if inside else np.minimum(here, last))
            out &= (words if len(part) == 8 else words & _FIRST[len(part)]) == wanted
        return out

    def digits(self, starts: I64, ends: I64) -> tuple[I64, Mask]:
        """Return the values of 1 to 16 digits between the places, and the mask of the places that have such."""
        length = ends - starts
        ok = (length >= 1) & (length <= PAD)
        value, low_ok = self._digits8(ends, np.clip(length, 0, 8))
        ok &= low_ok
        if bool((length > 8).any()):
            high, high_ok = self._digits8(ends - 8, np.clip(length - 8, 0, 8))
            ok &= high_ok
            value = value + high * _u(100_000_000)
        return value.astype(np.int64), ok

    def _digits8(self, ends: I64, count: I64) -> tuple[U64, Mask]:
        keep = _KEEP[count]
        word = (self._words[ends - 8] & keep) | (_ZEROS & ~keep)
        fine = ((word & _HIGH) == _ZEROS) & (((word + _SIX) & _HIGH) == _ZEROS)
        word = word - _ZEROS
        word = word * _u(10) + (word >> _u(8))
        pairs = _u(0x000000FF000000FF)
        low = (word & pairs) * _u(0x000F424000000064)
        high = ((word >> _u(16)) & pairs) * _u(0x0000271000000001)
        return (low + high) >> _u(32), fine

    def hex8(self, ends: I64, count: I64) -> tuple[U64, Mask]:
        """Return the values of the last `count` (0 to 8) hexadecimal digits before the places, and the mask of such."""
        keep = _KEEP[count]
        word = (self._words[ends - 8] & keep) | (_ZEROS & ~keep)
        lower = word | _u(0x2020202020202020)
        off = word ^ _ZEROS
        no_digit = (((off & ~_TOP) + _u(0x7676767676767676)) | off) & _TOP
        is_letter = _letters(lower)
        fine = ((no_digit ^ _TOP) | is_letter) == _TOP
        nibbles = (word & _u(0x0F0F0F0F0F0F0F0F)) + (is_letter >> _u(7)) * _u(9)
        nibbles = ((nibbles & _u(0x000F000F000F000F)) << _u(4)) | ((nibbles >> _u(8)) & _u(0x000F000F000F000F))
        nibbles = ((nibbles & _u(0x000000FF000000FF)) << _u(8)) | ((nibbles >> _u(16)) & _u(0x000000FF000000FF))
        return ((nibbles & _u(0xFFFF)) << _u(16)) | (nibbles >> _u(32)), fine


def _letters(word: U64) -> U64:
    """Return a high bit for each byte that is a..f. Bit 5 of each byte must be set."""
    plain = word & ~_TOP
    from_a = plain + _u(0x1F1F1F1F1F1F1F1F)  # >= 'a' (0x61) sets the high bit
    after_f = plain + _u(0x1919191919191919)  # > 'f' (0x66) sets the high bit
    return from_a & ~after_f & ~word & _TOP
