"""Cells of the rows in a CUDA profiler log: lines with the same keys in the same places are read together.

Such lines have one shape: the same keys, or the same number of cells. The reader reads a line of no shape by itself.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from decimal import Decimal, InvalidOperation
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np
import orjson
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I32, I64, U64, Bytes, Column, DictColumn, Mask, pc
from tracekit.model.units import MAX_NS, to_ns

# Cells of a block of text by their places: numbers and texts of many cells at once, exact.
#
# A cell is a start and an end in a padded copy of the text. Numbers are read eight characters at a time: one 64-bit
# word is fetched for each cell, and multiplications combine its digits, for all cells together. A cell of an unusual
# form (more decimals, an exponent, a sign, junk) is reported as not read, for an exact path that goes cell by cell.
# Source of the eight-digit step: the well-known SWAR conversion ("simd within a register").


PAD = 16
"""Line ends before a text; as many characters as a number has at most."""
_BEHIND = 256
"""Line ends behind a text: a key and its value are fetched together, also at the end."""
_PIECE = 256 << 10
"""Bytes that are searched at once: their mask stays in the processor's cache."""
_ALL = (1 << 64) - 1
_KEEP = np.array([_ALL ^ (_ALL >> (8 * n)) for n in range(9)], np.uint64)
"""Masks of the last n characters of a word: a word holds its last character in the highest byte."""
_FIRST = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)


@cache
def _u(value: int) -> np.uint64:
    return np.uint64(value)


_ZEROS, _HIGH = _u(0x3030303030303030), _u(0xF0F0F0F0F0F0F0F0)
_SIX, _TOP = _u(0x0606060606060606), _u(0x8080808080808080)


Words = tuple[U64, ...]


@dataclass(frozen=True, slots=True)
class LogCells:
    """Some cells of one text: `starts` and `ends` are int64 of shape (n,), places in the padded text.

    words: the characters of each cell and what is behind them, eight in a word, where they were fetched already: the
    first word, and the second one if any cell is longer than eight.
    """

    text: LogText
    starts: I64
    ends: I64
    words: Words | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: I64 | Mask) -> LogCells:
        """Return some of the cells."""
        words = None if self.words is None else tuple(word[rows] for word in self.words)
        return LogCells(self.text, self.starts[rows], self.ends[rows], words)

    def one(self, row: int) -> str:
        """Return the text of one cell."""
        return self.text.data[self.starts[row] - PAD : self.ends[row] - PAD].decode("utf-8", "replace")

    def integers(self) -> tuple[I64, Mask]:
        """Return the values of cells of 1 to 16 digits, and the mask of these cells."""
        if self.words is not None and len(self.starts):
            length = self.ends - self.starts
            if int(length.min()) >= 1 and int(length.max()) <= 8:
                digits = _aligned(self.words[0], length)
                return _value(digits).astype(np.int64), _are_digits(digits)
        return self.text.digits(self.starts, self.ends)

    def thousands(self) -> tuple[I64, Mask]:
        """Return 1000 x the value of decimals with up to three places (us to ns), and the mask of these cells."""
        if self.words is not None:
            value, ok = _short_thousands(self.words[0], self.ends - self.starts)
            if not ok.all():
                others = ~ok
                value[others], ok[others] = LogCells(self.text, self.starts[others], self.ends[others]).thousands()
            return value, ok
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
        if self.words is not None and len(self.words) == 2 and bool((length == PAD).all()):
            high, high_ok = _hex_of_equal(self.words[0])
            low, low_ok = _hex(self.words[1])
        else:
            low, low_ok = self.text.hex8(self.ends, _clipped(length))
            high, high_ok = self._high_digits(_clipped(length - 8))
        value = (high << _u(32)) | low
        return value.astype(np.int64), ok & low_ok & high_ok & (value < _u(1 << 62))

    def _high_digits(self, count: I64) -> tuple[U64, Mask]:
        """Return what `hex8` does for the digits before the last eight, which are nearly always equal in stamps."""
        ends = self.ends - 8
        words = self.text.words(ends - 8)
        if len(ends) and bool((words == words[0]).all()) and bool((count == count[0]).all()):
            value, ok = self.text.hex8(ends[:1], count[:1])
            return np.broadcast_to(value, ends.shape), np.broadcast_to(ok, ends.shape)
        return self.text.hex8(ends, count)

    def texts(self) -> DictColumn:
        """Return the cells as text. Cells point into the text, so only the distinct ones are copied."""
        count = len(self.starts)
        length = (self.ends - self.starts).astype(np.int32)
        views = np.zeros((count, 4), "<u4")
        views[:, 0] = length
        first = self.text.words(self.starts) if self.words is None else self.words[0]
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
            pa.string_view(), count, [None, arrow.buffer(views), arrow.buffer(self.text.bytes)]
        )
        encoded = arrow.encoded(column)
        return pa.DictionaryArray.from_arrays(encoded.indices, pc.cast(encoded.dictionary, pa.string()))


class LogMemory:
    """Memory for one text after the other. New memory for each comes from the system page by page, which takes longer.

    Only one `LogText` may use it at a time.
    """

    def __init__(self) -> None:
        self._bytes: Bytes = np.empty(0, np.uint8)

    def of(self, size: int) -> Bytes:
        """Return uint8 of shape (size,), with any values."""
        if len(self._bytes) < size:
            self._bytes = np.empty(size + size // 8, np.uint8)
        return self._bytes[:size]


class LogText:
    """A block of text, padded so that a word can be fetched at each of its places."""

    def __init__(self, data: bytes, memory: LogMemory | None = None) -> None:
        self.data = data
        end = PAD + len(data)
        self.bytes = (memory or LogMemory()).of(end + _BEHIND)
        self.bytes[:PAD] = self.bytes[end:] = ord("\n")
        self.bytes[PAD:end] = np.frombuffer(data, np.uint8)
        self._places: dict[str, I64] = {}
        self._words: U64 = np.ndarray((len(self.bytes) - 7,), "<u8", self.bytes, 0, (1,))

    def places(self, character: str) -> I64:
        """Return the places of all characters of this kind."""
        if character not in self._places:
            self._places[character] = places_of(self.bytes, character)
        return self._places[character]

    def behind(self, places: I64, text: bytes, length: I64) -> tuple[Mask, Words | None]:
        """Return the mask of the places where this text begins, and the words behind it, as `LogCells` has them.

        places: of the text or up to two behind its end. length: of the cells behind the text. No words for a long text.
        """
        # The text ends at the end of a word, so one fetch gets it and whole words behind it.
        lead = -len(text) % 8
        size = lead + len(text) + 16
        if size >= _BEHIND:
            return self.same(places, text), None
        windows = np.ndarray((len(self.bytes) - size + 1,), f"V{size}", self.bytes, 0, (1,))
        rows = windows[places - lead].view("<u8").reshape(-1, size // 8)
        wanted = np.frombuffer(bytes(lead) + text, "<u8")
        found: Mask = (rows[:, 0] & ~_FIRST[lead]) == wanted[0]
        for at in range(1, len(wanted)):
            found &= rows[:, at] == wanted[at]
        words = (-2, -1) if len(length) and int(length.max()) > 8 else (-2,)
        return found, tuple(np.ascontiguousarray(rows[:, at]) for at in words)

    def words_of(self, places: I64, length: I64) -> Words:
        """Return the words of cells, as `LogCells` has them. length: of the cells."""
        if not len(length) or int(length.max()) <= 8:
            return (self.words(places),)
        windows = np.ndarray((len(self.bytes) - 15,), "V16", self.bytes, 0, (1,))
        rows = windows[places].view("<u8").reshape(-1, 2)
        return np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1])

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
        value, low_ok = self._digits8(ends, _clipped(length))
        ok &= low_ok
        if bool((length > 8).any()):
            high, high_ok = self._digits8(ends - 8, _clipped(length - 8))
            ok &= high_ok
            value = value + high * _u(100_000_000)
        return value.astype(np.int64), ok

    def _digits8(self, ends: I64, count: I64) -> tuple[U64, Mask]:
        keep = _KEEP[count]
        word = (self._words[ends - 8] & keep) | (_ZEROS & ~keep)
        digits = word ^ _ZEROS
        return _value(digits), _are_digits(digits)

    def hex8(self, ends: I64, count: I64) -> tuple[U64, Mask]:
        """Return the values of the last `count` (0 to 8) hexadecimal digits before the places, and the mask of such."""
        keep = _KEEP[count]
        word = (self._words[ends - 8] & keep) | (_ZEROS & ~keep)
        return _hex(word)


def places_of(codes: Bytes, character: str) -> I64:
    """Return the places of all bytes of this kind.

    >>> places_of(np.frombuffer(b"a,b,", np.uint8), ",")
    array([1, 3])
    """
    code = ord(character)
    pieces = range(0, max(len(codes), 1), _PIECE)
    return np.concatenate([(codes[at : at + _PIECE] == code).nonzero()[0] + at for at in pieces])


def _aligned(word: U64, length: I64) -> U64:
    """Return the values of the characters as digits, the last of `length` (0 to 8) of them in the highest byte."""
    aligned: U64 = (word ^ _ZEROS) << (64 - (length << 3)).view(np.uint64)  # numpy shifts by 64 and more to 0
    return aligned


def _are_digits(digits: U64) -> Mask:
    """Return the mask of the words whose bytes are all 0 to 9."""
    mask: Mask = ((digits | (digits + _SIX)) & _HIGH) == 0
    return mask


def _value(digits: U64) -> U64:
    """Return the number of the eight digits, the first in the lowest byte."""
    digits = digits * _u(10) + (digits >> _u(8))
    pairs = _u(0x000000FF000000FF)
    low = (digits & pairs) * _u(0x000F424000000064)
    high = ((digits >> _u(16)) & pairs) * _u(0x0000271000000001)
    return (low + high) >> _u(32)


def _short_thousands(word: U64, length: I64) -> tuple[I64, Mask]:
    """Return what `thousands` does for cells of 5 to 8 characters with three decimals, as the profiler prints them."""
    cell = _aligned(word, length)
    # The characters before the point go into its place.
    digits = (cell & _u(0xFFFFFF0000000000)) | ((cell & _u(0xFFFFFFFF)) << _u(8))
    ok = (cell & _u(0xFF00000000)) == _u((ord(".") ^ ord("0")) << 32)
    ok &= _are_digits(digits)
    ok &= (length >= 5) & (length <= 8)
    return _value(digits).astype(np.int64), ok


def _hex_of_equal(word: U64) -> tuple[U64, Mask]:
    """Return what `_hex` does, for words that are nearly always equal."""
    if len(word) and bool((word == word[0]).all()):
        value, ok = _hex(word[:1])
        return np.broadcast_to(value, word.shape), np.broadcast_to(ok, word.shape)
    return _hex(word)


def _hex(word: U64) -> tuple[U64, Mask]:
    """Return the values of eight hexadecimal digits, and the mask of the words that have such."""
    lower = word | _u(0x2020202020202020)
    off = word ^ _ZEROS
    no_digit = (((off & ~_TOP) + _u(0x7676767676767676)) | off) & _TOP
    is_letter = _letters(lower)
    fine = ((no_digit ^ _TOP) | is_letter) == _TOP
    nibbles = (word & _u(0x0F0F0F0F0F0F0F0F)) + (is_letter >> _u(7)) * _u(9)
    nibbles = ((nibbles & _u(0x000F000F000F000F)) << _u(4)) | ((nibbles >> _u(8)) & _u(0x000F000F000F000F))
    nibbles = ((nibbles & _u(0x000000FF000000FF)) << _u(8)) | ((nibbles >> _u(16)) & _u(0x000000FF000000FF))
    return ((nibbles & _u(0xFFFF)) << _u(16)) | (nibbles >> _u(32)), fine


def _clipped(length: I64) -> I64:
    """Return the lengths from 0 to 8: np.clip takes five times as long for as few cells as a block has."""
    return np.minimum(np.maximum(length, 0), 8)


def _letters(word: U64) -> U64:
    """Return a high bit for each byte that is a..f. Bit 5 of each byte must be set."""
    plain = word & ~_TOP
    from_a = plain + _u(0x1F1F1F1F1F1F1F1F)  # >= 'a' (0x61) sets the high bit
    after_f = plain + _u(0x1919191919191919)  # > 'f' (0x66) sets the high bit
    return from_a & ~after_f & ~word & _TOP


# Columns of a CUDA profiler log: their meaning, and the values of one block of rows.


INTEGERS = {
    **{f"{shape}{axis}": f"grid_{axis.lower()}" for shape in ("gridsize", "ndrangesize") for axis in "XYZ"},
    **{f"{shape}{axis}": f"block_{axis.lower()}" for shape in ("threadblocksize", "workgroupsize") for axis in "XYZ"},
    **dict.fromkeys(("stasmemperblock", "stapmemperblock", "stapmemperworkgroup"), "static_smem_bytes"),
    **dict.fromkeys(("dynsmemperblock", "dynsmemperworkgroup"), "dynamic_smem_bytes"),
    **dict.fromkeys(("regperthread", "regperworkitem"), "registers"),
    "streamid": "stream",
    "memtransfersize": "bytes",
}
"""Column of the log -> column of the schema; all others go into `args` as printed.

OpenCL has words of its own for the same things: the Visual Profiler imports an OpenCL log if they are replaced
(uob-hpc.github.io/2015/05/27/nvvp-import-opencl).
"""
SHAPES = ("gridsize", "threadblocksize", "ndrangesize", "workgroupsize")
"""Key-value logs of version 1 have one key for a shape: `gridsize=[ 16, 16 ] threadblocksize=[ 16, 16, 1 ]`."""
INT32 = frozenset({"grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers"})
TIMES = ("gputime", "cputime", "timestamp", "gpustarttimestamp", "gpuendtimestamp")
NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,20})?([eE][+-]?\d{1,3})?", re.ASCII)
COPY = re.compile(r"memcpy(HtoD|DtoH|DtoD|HtoH|HtoA|AtoH|AtoD|DtoA|AtoA|PtoP|Peer)\w*", re.IGNORECASE | re.ASCII)
OTHER_COPY = re.compile(r"memcopy|memcpy(?!_)\w*", re.IGNORECASE | re.ASCII)
"""memcopy: any copy, in logs of CUDA 1.x (README of the CUDA Visual Profiler 1.0)."""
MEMSET = re.compile(r"memset(?!_)\w*", re.IGNORECASE | re.ASCII)
"""memset128, memset32_post; but a kernel of the user that is declared extern "C" may be called memset_kernel."""


def exact(column: str, text: str) -> int:
    """Return the integer value of one odd cell: ns of a time, else the number. Raises: ValueError."""
    text = text.strip()
    if column in ("gpustarttimestamp", "gpuendtimestamp"):
        if not re.fullmatch(r"[0-9a-fA-F]{1,16}", text):
            raise ValueError(f"not hexadecimal ns: {text[:40]!r}")
        value = int(text, 16)
    elif column in TIMES:
        value = to_ns(text, "us")
    else:
        try:
            number = Decimal(text)
        except InvalidOperation as err:
            raise ValueError(f"not a number: {text[:40]!r}") from err
        if not number.is_finite() or number.adjusted() > 20 or number != number.to_integral_value():
            raise ValueError(f"not a whole number: {text[:40]!r}")
        value = int(number)
    if not 0 <= value < MAX_NS:
        raise ValueError(f"not a possible value: {text[:40]!r}")
    return value


def below_ns(text: str) -> bool:
    """Return whether a time in us has digits below 1 ns. Hexadecimal stamps have none."""
    try:
        ns = Decimal(text.strip()).scaleb(3)
    except ArithmeticError:  # not a number, or an exponent too large
        return False
    return ns != ns.to_integral_value()


class LogWords:
    """The different texts of a column, numbered in order of appearance."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def numbers(self, texts: list[str]) -> I32:
        """Return the numbers of these texts, int32 of the same length."""
        known = self._known
        numbers = [known.setdefault(text, len(known)) for text in texts]
        return np.array(numbers, np.int32)

    def column(self) -> Column:
        """Return the texts."""
        return arrow.array(list(self._known), pa.string())


@dataclass(slots=True)
class LogBlock:
    """The rows of one block of lines.

    values: column -> int64 of shape (n,), and the mask of the rows that have a value. texts: column -> rows and their
    texts. bad: row -> the reason why it is not an event. odd: row and column of cells that the column cannot hold.
    rounded: rows with a time that has digits below 1 ns.
    """

    count: int
    methods: LogWords
    values: dict[str, tuple[I64, Mask]] = field(default_factory=dict)
    texts: dict[str, list[tuple[I64, Column]]] = field(default_factory=dict)
    bad: dict[int, str] = field(default_factory=dict)
    odd: set[tuple[int, str]] = field(default_factory=set)
    rounded: set[int] = field(default_factory=set)
    _marked: tuple[I64, Mask] | None = None

    def add(self, rows: I64, column: str, cells: LogCells) -> None:
        """Add the cells of some rows to a column. Empty cells are nulls."""
        full = cells.ends > cells.starts
        if not full.all():
            rows, cells = rows[full], cells.take(full)
        if not len(rows):
            return
        if column in SHAPES:
            rows, cells = self._add_shape(rows, column, cells)
        if column not in TIMES and column not in INTEGERS:
            self.texts.setdefault(column, []).append((rows, cells.texts()))
            return
        if column in ("gpustarttimestamp", "gpuendtimestamp"):
            numbers, ok = cells.hexadecimal()
        elif column in TIMES:
            numbers, ok = cells.thousands()
        else:
            numbers, ok = cells.integers()
            if INTEGERS[column] in INT32:
                ok &= numbers < 1 << 31
        for at in np.flatnonzero(~ok).tolist():
            self.add_one(int(rows[at]), column, cells.one(at))
        if not ok.all():
            rows, numbers = rows[ok], numbers[ok]
        values, present = self._numbers(column)
        values[rows] = numbers
        present |= self._mask(rows)

    def _mask(self, rows: I64) -> Mask:
        """Return the mask of these rows. The columns of a shape have the same ones, one after the other."""
        if self._marked is None or self._marked[0] is not rows:
            mask = np.zeros(self.count, np.bool_)
            mask[rows] = True
            self._marked = rows, mask
        return self._marked[1]

    def _add_shape(self, rows: I64, column: str, cells: LogCells) -> tuple[I64, LogCells]:
        """Add shapes `x, y, z` or `x, y` to the columns of their parts, and return the other cells."""
        places = cells.text.places(",")
        first = np.searchsorted(places, cells.starts)
        count = np.searchsorted(places, cells.ends) - first
        rest = np.ones(len(rows), np.bool_)
        for parts in (2, 3):
            chosen = np.flatnonzero(count == parts - 1)
            if not len(chosen):
                continue
            cuts = places[first[chosen][:, None] + np.arange(parts - 1)]
            begins = np.column_stack([cells.starts[chosen], cuts + 1])
            begins[:, 1:] += cells.text.bytes[begins[:, 1:]] == ord(" ")
            ends = np.column_stack([cuts, cells.ends[chosen]])
            read = [LogCells(cells.text, begins[:, at], ends[:, at]).integers() for at in range(parts)]
            good = np.logical_and.reduce([ok & (numbers < 1 << 31) for numbers, ok in read])
            for axis, (numbers, _) in zip("XYZ", read, strict=False):
                values, present = self._numbers(column + axis)
                values[rows[chosen[good]]] = numbers[good]
                present[rows[chosen[good]]] = True
            rest[chosen[good]] = False
        return rows[rest], cells.take(rest)

    def add_one(self, row: int, column: str, text: str) -> None:
        """Add one odd cell to a column, exactly. A bad time makes the row bad; another bad cell is kept as text."""
        if not text.strip():
            return
        if column in TIMES or column in INTEGERS:
            try:
                value = exact(column, text)
            except ValueError as err:
                if column in TIMES and column != "cputime":
                    self.bad[row] = f"{column}: {err}"
                    return
            else:
                if INTEGERS.get(column) not in INT32 or value < 1 << 31:
                    values, present = self._numbers(column)
                    values[row], present[row] = value, True
                    if column in TIMES and below_ns(text):
                        self.rounded.add(row)
                    return
            self.odd.add((row, column))
        elif column in SHAPES and (match := re.fullmatch(r" *(\d{1,9}), ?(\d{1,9})(?:, ?(\d{1,9}))? *", text)):
            for axis, number in zip("XYZ", match.groups(), strict=True):
                if number is not None:
                    self.add_one(row, column + axis, number)
            return
        self.texts.setdefault(column, []).append((np.array([row]), arrow.array([text])))

    def _numbers(self, column: str) -> tuple[I64, Mask]:
        if column not in self.values:
            self.values[column] = np.zeros(self.count, np.int64), np.zeros(self.count, np.bool_)
        return self.values[column]

    def number(self, column: str, rows: I64) -> tuple[I64, Mask]:
        """Return the values of some rows, and the mask of those present. rows: ascending, each at most once."""
        if column not in self.values:
            return np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
        values, present = self.values[column]
        return (values, present) if len(rows) == self.count else (values[rows], present[rows])

    def nullable(self, column: str, kind: pa.DataType, rows: I64) -> Column | None:
        """Return a column with nulls, None when it has no value at all."""
        values, present = self.number(column, rows)
        return arrow.nullable(values, kind, present) if present.any() else None

    def text(self, column: str, rows: I64) -> DictColumn:
        """Return a text column of some rows."""
        words = LogWords()
        codes = self._codes(column, words)
        chosen = codes if len(rows) == self.count else codes[rows]
        return pa.DictionaryArray.from_arrays(arrow.array(chosen, mask=chosen < 0), words.column())

    def method(self) -> I32:
        """Return the numbers of the rows' methods in `methods`, -1 for none."""
        return self._codes("method", self.methods)

    def _codes(self, column: str, words: LogWords) -> I32:
        codes = np.full(self.count, -1, np.int32)
        for rows, part in self.texts.get(column, ()):
            encoded = arrow.encoded(part)
            codes[rows] = words.numbers(arrow.texts(encoded.dictionary))[arrow.codes(encoded)]
        return codes


def args_of(block: LogBlock, rows: I64, dur_ns: I64, *, stamps: tuple[str, ...] = ()) -> Column | None:
    """Return the JSON objects of the values without a column of their own, null where nothing is left.

    Whole ns: cputime_ns; gputime_ns if it differs from the time stamps; gpustarttimestamp_ns and timestamp_ns of the
    `stamps` that are not the start. All other members have the name of the log and hold the number as printed, or a
    string if it is not a JSON number.
    """
    parts: dict[str, Column] = {}
    for column in ("cputime", "gputime", *stamps):
        values, present = block.number(column, rows)
        if column == "gputime":
            present = present & (values != dur_ns)
        if present.any():
            parts[f"{column}_ns"] = pc.cast(arrow.array(values, mask=~present), pa.string())
    for column in block.texts:
        if column == "method":
            continue
        encoded = block.text(column, rows)
        words = [w if NUMBER.fullmatch(w) else orjson.dumps(w).decode() for w in arrow.texts(encoded.dictionary)]
        if encoded.null_count < len(encoded):
            name = column
            while name in parts:  # a counter with the name of a member that is made here
                name += "_"
            parts[name] = pc.take(arrow.array(words, pa.string()), encoded.indices)
    if not parts:
        return None
    if len(parts) == 1:
        ((name, part),) = parts.items()
        return pc.binary_join_element_wise("{" + _key(name), part, "}", "")
    # Not null_handling="skip": with it Arrow leaves out a row in which all parts are null (seen with 26.0.1).
    ended = [
        pc.fill_null(pc.binary_join_element_wise(_member(name, part), ",", ""), "") for name, part in parts.items()
    ]
    joined = pc.utf8_rtrim(pc.binary_join_element_wise(*ended, ""), ",")
    joined = pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), joined)
    return pc.binary_join_element_wise("{", joined, "}", "")


def _member(name: str, values: Column) -> Column:
    return pc.binary_join_element_wise(_key(name), values, "")


def _key(name: str) -> str:
    return orjson.dumps(name).decode() + ":"


@lru_cache(maxsize=4096)
def copy_kind(method: str) -> str | None:
    """Return the direction of a copy (HtoD, PtoP ...) by its method, "" if unknown, None for other work."""
    match = COPY.fullmatch(method)
    if match is None:
        return "" if OTHER_COPY.fullmatch(method) else None
    return {"peer": "PtoP"}.get(match[1].lower(), match[1][0].upper() + "to" + match[1][3].upper())


MOST_FIELDS = 200
SHAPES_A_BLOCK = 24
"""Key-value lines of more shapes than this in one block are read line by line."""
_PAIR = re.compile(r"([A-Za-z_]\w*+)=\[ ?(.*?) ?\](?:\s+(?=[A-Za-z_]\w*+=\[)|\s*$)", re.ASCII)
"""A key with its value, up to the next key or the end of the line."""
_KEY = re.compile(rb"([A-Za-z_][A-Za-z0-9_]*)=\[ ")

Shape = tuple[I64, Mapping[str, LogCells]]
"""Numbers of the lines in their block, and the cells of each column."""


def key_value_shapes(text: LogText, starts: I64, ends: I64) -> Iterator[Shape]:
    """Yield lines `key=[ value ] key=[ value ] ` by shape. starts, ends: shape (n,), places of all lines.

    Only closing brackets are searched. The keys of the shape give the places where the values begin.
    """
    closes = text.places("]")
    stop = np.searchsorted(closes, ends)
    first = np.zeros_like(stop)
    first[1:] = stop[:-1]
    count = stop - first
    for fields in np.flatnonzero(np.bincount(count))[:MOST_FIELDS].tolist():
        if not 0 < fields <= MOST_FIELDS:
            continue
        rows = np.flatnonzero(count == fields)
        # One row for each field, so that the places of a field are side by side in memory. A key begins two characters
        # behind the bracket of the field before it.
        brackets = np.empty((fields + 1, len(rows)), np.int64)
        brackets[0] = starts[rows] - 2
        place = first[rows]
        for at in range(1, fields + 1):
            brackets[at] = closes[place]
            place += 1
        stops = ends[rows]
        for _ in range(SHAPES_A_BLOCK):
            if not len(rows):
                break
            names = _keys(text, brackets[:, 0])
            same, words = _same_shape(text, names, brackets, stops)
            whole = bool(same.all())
            if whole:
                yield rows, KeyedCells(text, names, brackets, words)
                break
            if same[0]:
                words = [None if each is None else tuple(word[same] for word in each) for each in words]
                yield rows[same], KeyedCells(text, names, brackets[:, same], words)
            else:
                same[:] = False
                same[0] = True  # not a shape: this line is read by itself
            rows, brackets, stops = rows[~same], brackets[:, ~same], stops[~same]


def _keys(text: LogText, brackets: I64) -> list[str]:
    """Return the keys of one line, "" for other text."""
    names = []
    for before, right in pairwise(brackets.tolist()):
        match = _KEY.match(text.bytes.data, before + 2, right)
        names.append(match[1].decode("ascii") if match else "")
    return names if len(set(names)) == len(names) else [""]


def _same_shape(text: LogText, names: list[str], brackets: I64, ends: I64) -> tuple[Mask, list[Words | None]]:
    """Return the mask of the lines with these keys in their places, blanks around values, and nothing at the end.

    With it come the words of each field's cells. names: [""] for none.
    """
    same: Mask = ends - brackets[-1] <= 2
    data = text.bytes
    words: list[Words | None] = []
    for at, (name, before, right) in enumerate(zip(names, brackets, brackets[1:], strict=False)):
        if not name:
            same[:] = False
            break
        length = right - before - (len(name) + 6)
        blank = min(at, 1)
        here, behind = text.behind(before + (2 - blank), f"{' ' * blank}{name}=[ ".encode(), length)
        words.append(behind)
        same &= here
        same &= (length >= 0) & (data[right - 1] == ord(" "))
    return same, words


class KeyedCells(Mapping[str, LogCells]):
    """The cells of the fields of key-value lines of one shape. Their places are made for one field at a time.

    brackets: shape (fields + 1, n), places of the closing brackets; the first ones are two before the lines.
    """

    def __init__(self, text: LogText, names: list[str], brackets: I64, words: list[Words | None]) -> None:
        self._text, self._brackets, self._words = text, brackets, words
        self._places = {name: at for at, name in enumerate(names)}

    def __getitem__(self, name: str) -> LogCells:
        """Return the cells of a field."""
        at = self._places[name]
        starts = self._brackets[at] + (len(name) + 5)
        return LogCells(self._text, starts, self._brackets[at + 1] - 1, self._words[at])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class CommaCells(Mapping[str, LogCells]):
    """The cells of comma-separated lines. Their places are made for one column at a time.

    cuts: shape (columns + 1, n), places of the commas before and behind each cell, as if lines were between commas.
    """

    def __init__(self, text: LogText, columns: list[str], cuts: I64) -> None:
        self._text, self._cuts = text, cuts
        self._places = {column: at for at, column in enumerate(columns)}

    def __getitem__(self, column: str) -> LogCells:
        """Return the cells of a column."""
        at = self._places[column]
        starts, ends = self._cuts[at] + 1, self._cuts[at + 1]
        return LogCells(self._text, starts, ends, self._text.words_of(starts, ends - starts))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def comma_shapes(text: LogText, starts: I64, ends: I64, columns: list[str]) -> Iterator[Shape]:
    """Yield comma-separated lines by their number of cells. A line may end early, without its last columns."""
    commas = text.places(",")
    last = np.searchsorted(commas, ends)
    first = np.zeros_like(last)
    first[1:] = last[:-1]
    cells = last - first + 1
    quotes = text.places('"')
    plain = np.ones(len(starts), np.bool_)
    if len(quotes):
        plain = np.searchsorted(quotes, starts) == np.searchsorted(quotes, ends)
    for count in np.flatnonzero(np.bincount(cells[plain & (cells > 1) & (cells <= len(columns))])).tolist():
        rows = np.flatnonzero(plain & (cells == count))
        cuts = np.empty((count + 1, len(rows)), np.int64)
        cuts[0] = starts[rows] - 1
        place = first[rows]
        for at in range(1, count):
            cuts[at] = commas[place]
            place += 1
        cuts[count] = ends[rows]
        yield rows, CommaCells(text, columns[:count], cuts)


def one_line(line: str, columns: list[str], *, comma: bool) -> dict[str, str]:
    """Return the cells of one odd line by column, {} when it is not a row."""
    if comma:
        try:
            cells = next(csv.reader([line]), [])
        except csv.Error:
            return {}
        return dict(zip(columns, cells, strict=False)) if 1 < len(cells) <= len(columns) else {}
    pairs: dict[str, str] = {}
    at = len(line) - len(line.lstrip())
    while at < len(line):
        # Only here: a search in a long line of something else would try every place, and each to the end.
        found = _PAIR.match(line, at)
        if found is None or found[1] in pairs:
            return {}
        pairs[found[1]] = found[2]
        at = found.end()
    return pairs
