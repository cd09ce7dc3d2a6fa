"""Messages of protobuf in memory: one of them field by field, or many at once as columns.

`engine.protobuf` walks through files that are too large for that.

A loop in Python over packets would cost more than Perfetto's own C++ for all of its work. So the first fields of all
messages are decoded together, then their second fields, and so on. What is left of a loop is over the fields of the
longest message.
Source: the wire format of protobuf (protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I64, Bytes, Mask
from tracekit.model.digits import SEVEN, STEPS, numbers_of, signed, varint_at

__all__ = [
    "BYTES",
    "FIXED32",
    "FIXED64",
    "VARINT",
    "Fields",
    "Picked",
    "WireError",
    "WireMessage",
    "Words",
    "checked_varint",
    "fields_of",
    "padded",
    "scan",
    "varints",
    "walk",
    "words_of",
]

Words: TypeAlias = npt.NDArray[np.uint64]
PAD = 24
"""Bytes behind the data that a word may be read from."""
_ROWS = 1 << 14
"""Messages that are decoded together: their columns stay in the processor's cache."""
_USUAL = 1 << 13
"""Tags of fields are mostly below."""
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types. 3 and 4 are groups, which no format here has."""


class WireError(ValueError):
    """Bytes that are not the messages that they should be. Its text is the reason."""


class Field(NamedTuple):
    """A field of a message. value: of a number, its bits, unsigned; of bytes their count.

    at, end: its bytes, or those of the number; they may end beyond the data.
    """

    number: int
    wire: int
    value: int
    at: int
    end: int


def fields_of(data: bytes, place: int = 0) -> Iterator[Field]:
    """Yield the fields of a message, from a place on. Raises: WireError at damage, behind the fields before it."""
    while place < len(data):
        tag, place = checked_varint(data, place)
        wire = tag & 7
        if tag < 8:
            raise WireError("a field number that no message has")
        if wire == BYTES:
            value, at = checked_varint(data, place)
            place = at + value
        elif wire == VARINT:
            at = place
            value, place = checked_varint(data, at)
        elif wire in (FIXED64, FIXED32):
            at, place = place, place + (8 if wire == FIXED64 else 4)
            value = int.from_bytes(data[at:place], "little")
        else:
            raise WireError("a wire type that no message has")
        yield Field(tag >> 3, wire, value, at, place)


def checked_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place of bytes, unsigned, and the place behind it. Raises: WireError."""
    value, behind = varint_at(data, at)
    if value < 0:
        raise WireError("a number that does not end")
    return value & ((1 << 64) - 1), behind


class WireMessage:
    """The fields of one message, up to the first damage: for the few packets that describe others."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[int | bytes]] = {}
        try:
            for field in fields_of(data):
                if field.end > len(data):
                    break
                value = data[field.at : field.end] if field.wire == BYTES else field.value
                self._fields.setdefault(field.number, []).append(value)
        except WireError:
            return

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    def all(self, number: int) -> list[int]:
        """Return the numbers of a repeated field, as int64."""
        return [signed(value) for value in self._fields.get(number, ()) if isinstance(value, int)]

    def each(self, number: int) -> list[bytes]:
        """Return the texts or messages of a repeated field."""
        return [value for value in self._fields.get(number, ()) if isinstance(value, bytes)]

    def optional(self, number: int) -> int | None:
        """Return a number as int64, None where the field is not there."""
        return values[-1] if (values := self.all(number)) else None

    def number(self, number: int) -> int:
        """Return a number as int64, 0 where the field is not there."""
        return self.optional(number) or 0

    def double(self, number: int) -> float:
        """Return a number that is stored as a double."""
        value: float = struct.unpack("<d", struct.pack("<q", self.number(number)))[0]
        return value

    def bytes(self, number: int) -> bytes:
        """Return a text or message, b"" where the field is not there."""
        return values[-1] if (values := self.each(number)) else b""

    def text(self, number: int) -> str:
        """Return a text."""
        return self.bytes(number).decode("utf-8", "replace")


WireStep = tuple[I64, Words, Words, I64]
"""One field of each of some messages: the message, its tag, the value or count of bytes, the first byte."""


class Fields:
    """Fields of messages; those of one message are in its order.

    steps: the fields as `walk` read them, one of each message at most in a step. bad: the messages that are damaged;
    the fields before the damage are here. Most messages have the same fields in the same order, so most steps have one
    tag: no field is searched for among others.
    """

    def __init__(self) -> None:
        self.steps: list[WireStep] = []
        self._bad: list[I64] = []
        self._pieces: dict[int, list[tuple[I64, Words, I64]]] = {}

    def add(self, row: I64, tag: Words, value: Words, at: I64) -> None:
        """Take one field of each of some messages: `walk` calls this."""
        self.steps.append((row, tag, value, at))
        first = tag[0]
        if not tag.strides[0] or (tag == first).all():
            self._pieces.setdefault(int(first), []).append((row, value, at))
            return
        for each in _distinct_tags(tag):
            mine = np.flatnonzero(tag == each)
            self._pieces.setdefault(int(each), []).append((row[mine], value[mine], at[mine]))

    def damaged(self, row: I64) -> None:
        """Take the messages that are damaged behind the fields so far: `walk` calls this."""
        self._bad.append(row)

    @property
    def bad(self) -> I64:
        """Return the messages that are damaged."""
        return np.concatenate((np.empty(0, np.int64), *self._bad))

    def counts(self) -> dict[int, int]:
        """Return how many fields each number has."""
        found: dict[int, int] = {}
        for tag, pieces in self._pieces.items():
            found[tag >> 3] = found.get(tag >> 3, 0) + sum(len(row) for row, _, _ in pieces)
        return found

    def per_message(self, count: int) -> I64:
        """Return how many fields each of `count` messages has."""
        found = np.zeros(count, np.int64)
        for row, _, _, _ in self.steps:
            found[row] += 1
        return found

    def among(self, kept: Mask) -> Fields:
        """Return the fields of some messages, which are numbered anew."""
        found, number = Fields(), np.cumsum(kept) - 1
        for row, tag, value, at in self.steps:
            mine = np.flatnonzero(kept[row])
            if len(mine):
                found.add(number[row[mine]], tag[mine], value[mine], at[mine])
        return found

    def last(self, number: int, wire: int, count: int) -> tuple[I64, Mask]:
        """Return for each of `count` messages its last number of a field as int64, 0 for none, and whether it has one.

        wire: as for `of`.
        """
        values, has = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        for row, value, _ in self._pieces.get(number << 3 | wire, ()):
            rows = _run(row)
            values[rows] = value.view(np.int64)
            has[rows] = True
        return values, has

    def besides(self, numbers: frozenset[int]) -> tuple[I64, I64, I64]:
        """Return message, number and place of the fields that have none of these numbers."""
        none = np.empty(0, np.int64)
        found = [(none, none, none)]
        for tag, pieces in self._pieces.items():
            if tag >> 3 not in numbers:
                found += [(row, np.full(len(row), tag >> 3), at) for row, _, at in pieces]
        rows, fields, places = zip(*found, strict=True)
        return np.concatenate(rows), np.concatenate(fields), np.concatenate(places)

    def of(self, number: int, wire: int) -> Picked:
        """Return the fields of one number that have the wire type that they should have.

        value: of a number, its 64 bits; of bytes their count. at: the first byte of bytes.
        """
        pieces = self._pieces.get(number << 3 | wire)
        if pieces is None:
            return _NOTHING
        if len(pieces) == 1:
            return Picked(*pieces[0])
        rows, values, places = zip(*pieces, strict=True)
        return Picked(np.concatenate(rows), np.concatenate(values), np.concatenate(places))


def _run(rows: I64) -> I64 | slice:
    """Return ascending rows, as a slice where none of them is left out: numpy copies these several times as fast."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else rows


def _distinct_tags(tags: Words) -> list[int]:
    few = int(tags.max()) < _USUAL
    found: list[int] = (np.flatnonzero(np.bincount(tags.view(np.int64))) if few else sets.unique(tags)).tolist()
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Picked:
    """Fields of one number: the message of each, its value or count of bytes, where its bytes begin."""

    row: I64
    value: Words
    at: I64

    def __len__(self) -> int:
        return len(self.row)

    @property
    def ends(self) -> I64:
        """Return where the bytes end."""
        return self.at + self.value.view(np.int64)

    def where(self, mask: Mask) -> Picked:
        """Return some of the fields."""
        return self if mask.all() else Picked(self.row[mask], self.value[mask], self.at[mask])

    def one_each(self, taken: Mask) -> Picked:
        """Return the last field of each message, without those of messages that are taken."""
        last = np.full(len(taken), -1, np.int64)
        last[self.row] = np.arange(len(self.row))
        last[taken] = -1
        kept = last[last >= 0]
        return Picked(self.row[kept], self.value[kept], self.at[kept])


_NOTHING = Picked(np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.int64))


def padded(data: bytes | memoryview) -> Bytes:
    """Return the bytes as an array with room for a word behind them."""
    out = np.zeros(len(data) + PAD, np.uint8)
    out[: len(data)] = np.frombuffer(data, np.uint8)
    return out


def words_of(data: Bytes) -> Words:
    """Return the eight bytes from each byte on, the first one lowest. data: as `padded` returns it."""
    return np.ndarray((len(data) - 7,), "<u8", data, 0, (1,))


def varints(view: Words, at: I64) -> tuple[Words, I64]:
    """Return the numbers at some bytes and how long each is, 0 for one that does not end within ten bytes."""
    word = view[at]
    if not np.bitwise_or.reduce(word, initial=0) & np.uint64(0x80):  # one byte each
        return word & np.uint64(0x7F), np.ones(len(at), np.int64)
    return numbers_of(word, lambda rows: view[at[rows] + 8])


class FieldTaker(Protocol):
    """A place for the fields of messages, as `walk` reads them."""

    def add(self, row: I64, tag: Words, value: Words, at: I64) -> None:
        """Take one field of each of some messages: the message, its tag, the value or count of bytes, its place."""

    def damaged(self, row: I64) -> None:
        """Take the messages that are damaged behind the fields so far."""


def scan(view: Words, starts: I64, ends: I64) -> Fields:
    """Return the fields of messages. starts, ends: shape (n,), their bytes."""
    found = Fields()
    walk(view, starts, ends, found)
    return found


def _usual(view: Words, at: I64, end: I64) -> tuple[Words, Words, I64, I64] | None:
    """Return tag, value, its place and the end of fields as most are, None where one is not: tags of one or two bytes;
    a number of 64 bits; bytes, or a number, that end within the eight bytes.

    Mostly all tags are one: then it is known what each field is, and the tags are one number that is seen in all rows.
    """
    word = view[at]
    every, some = int(np.bitwise_and.reduce(word)), int(np.bitwise_or.reduce(word))
    wide = some & 0x80
    width: int | I64 = 2 if wide else 1
    if not (every ^ some) & (0xFFFF if wide else 0xFF):
        if wide and some & 0x8000:
            return None
        number = (some & 0x7F | (some & 0x7F00) >> 1) if wide else some & 0xFF
        tag = np.broadcast_to(np.uint64(number), len(at))
        wire = number & 7
        if number < 8 or wire > BYTES:
            return None
        if wire == FIXED64:
            begin = at + width
            after = begin + 8
            return None if (after > end).any() else (tag, view[begin], begin, after)
        kinds = None
    else:
        if not wide:
            tag = word & np.uint64(0xFF)
        elif every & 0x80:
            if some & 0x8000:
                return None
            tag = (word & np.uint64(0x7F)) | ((word >> _ONE) & np.uint64(0x3F80))
        else:
            two = (word >> np.uint64(7)) & _ONE
            if (word & (two << np.uint64(15))).any():
                return None
            width = two.view(np.int64) + 1
            tag = (word & np.uint64(0x7F)) | (((word >> _ONE) & np.uint64(0x3F80)) * two)
        # Wire types 0 and 2 alone have neither bit.
        if int(np.bitwise_or.reduce(tag)) & 0x05 or int(tag.min()) < 8:
            return None
        kinds, wire = (tag >> _ONE) & _ONE, BYTES
    rest = word >> (np.uint64(8 * width) if isinstance(width, int) else (width << 3).view(np.uint64))
    usual = (some >> 8 * width) & 0x80 if isinstance(width, int) else int(np.bitwise_or.reduce(rest)) & 0x80
    if not usual:
        value = rest & np.uint64(0x7F)
        begin = at + (width + 1)
    else:
        stops = ~rest & (_SEVEN_ENDS if isinstance(width, int) and width == 1 else _SIX_ENDS)
        if not stops.all():
            return None
        low = stops & (~stops + _ONE)
        begin = low.astype(np.float64).view(np.int64)
        begin >>= 52
        begin -= 1023
        begin >>= 3
        begin += at
        begin += width + 1
        value = rest & (low | (low - _ONE))
        value &= SEVEN
        keep, above, bits = STEPS[0]
        value = (value & keep) | ((value & above) >> bits)
        if int(low.max()) > 1 << 15:
            for keep, above, bits in STEPS[1:]:
                value = (value & keep) | ((value & above) >> bits)
    after = begin
    if wire == BYTES:
        after = begin + (value if kinds is None else value * kinds).view(np.int64)
    return None if (after > end).any() else (tag, value, begin, after)


_SEVEN_ENDS, _SIX_ENDS = np.uint64(0x80808080808080), np.uint64(0x808080808080)
"""The bits of the bytes behind a tag of one byte, and of two, that say whether another byte follows."""


def walk(view: Words, starts: I64, ends: I64, taker: FieldTaker) -> None:
    """Read the fields of messages, the first ones of all of them first. starts, ends: as in `scan`."""
    for at in range(0, len(starts), _ROWS):
        _walk(view, starts[at : at + _ROWS], ends[at : at + _ROWS], at, taker)


def _walk(view: Words, starts: I64, ends: I64, first: int, taker: FieldTaker) -> None:
    row = np.flatnonzero(starts < ends)
    at, end = starts[row].astype(np.int64), ends[row].astype(np.int64)
    row += first
    while len(row):
        if (usual := _usual(view, at, end)) is not None:
            tag, value, begin, after = usual
        else:
            tag, value, begin, after, damaged = _of_any_kind(view, at, end)
            if damaged.any():
                taker.damaged(row[damaged])
                fine = ~damaged
                row, end, begin, after = row[fine], end[fine], begin[fine], after[fine]
                tag, value = tag[fine], value[fine]
                if not len(row):
                    break
        taker.add(row, tag, value, begin)
        going = after < end
        if going.all():
            at = after
        else:
            row, end, at = row[going], end[going], after[going]


def _of_any_kind(view: Words, at: I64, end: I64) -> tuple[Words, Words, I64, I64, Mask]:
    """Return tag, value, begin and end of one field of each message, and which are damaged."""
    key = view[at]
    one = key & np.uint64(0xFF)
    two = key & np.uint64(0x80)
    if two.any():
        tag, size = one, np.ones(len(at), np.int64)
        if (key[two != _ZERO] & np.uint64(0x8000)).any():
            tag, size = varints(view, at)
        else:
            second = two >> np.uint64(7)
            tag = (one & np.uint64(0x7F)) | (((key >> _ONE) & np.uint64(0x3F80)) * second)
            size += second.view(np.int64)
        at = at + size
        damaged = (size == 0) | (tag >= np.uint64(1 << 32))
    else:
        tag, at = one, at + 1
        damaged = np.zeros(len(at), np.bool_)
    wire = (tag & np.uint64(7)).astype(np.int8)
    at = np.minimum(at, end)
    value, size = varints(view, at)
    is_bytes = wire == 2
    damaged |= (size == 0) & (wire <= 2) & (wire != 1)
    begin = at + size
    after = begin
    if is_bytes.any():
        # Counts beyond the data would overflow when added.
        beyond = is_bytes & (value > np.uint64(1 << 40))
        damaged |= beyond
        after = np.where(is_bytes & ~beyond, begin + value.view(np.int64), begin)
    fixed = (wire == 1) | (wire == 5)
    if fixed.any():
        raw = view[at]
        value = np.where(wire == 1, raw, np.where(wire == 5, raw & np.uint64(0xFFFFFFFF), value))
        after = np.where(wire == 1, at + 8, np.where(wire == 5, at + 4, after))
        begin = np.where(fixed, at, begin)
    damaged |= (wire == 3) | (wire == 4) | (wire > 5) | (tag < np.uint64(8)) | (after > end)
    return tag, value, begin, after, damaged
