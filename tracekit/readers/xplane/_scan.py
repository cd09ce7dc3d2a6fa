"""Events of lines as columns: their numbers, and their stats.

protobuf splits a line into the bytes of its events; an object for each of them would cost more than all the rest. So
the fields of all events are decoded together, one after the other, in the order in which every writer puts them. An
event of another form, which is rare, is given to protobuf.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, U64, Bytes
from tracekit.model.digits import BLOCK, PackedDigits

ID, OFFSET, LENGTH, STATS, OCCURRENCES = 0x08, 0x10, 0x18, 0x22, 0x28
"""Fields of an event, with their wire types: what their first byte is."""
DOUBLE, UNSIGNED, SIGNED, TEXT, REFERENCE = 0x11, 0x18, 0x20, 0x2A, 0x38
"""Those of a stat, behind its id."""
_FAR = np.uint64(1 << 40)


@dataclass(frozen=True, slots=True, eq=False)
class Stats:
    """Stats of events, those of each event in their order.

    row: of the event. nth: place among those of its event. key: its metadata id. form: field of its value. value: 64
    bits of a number, bytes of a text, which begins at `at`.
    """

    row: I64
    nth: I64
    key: I64
    form: Bytes
    value: U64
    at: I64

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, slots=True, eq=False)
class Scanned:
    """Events of lines. odd: the rows of another form, of which the columns say nothing, in order.

    begins, ends: their bytes in `packed`. number: their metadata id. offset, length: ps. often: occurrences.
    """

    packed: PackedDigits
    begins: I64
    ends: I64
    number: I64
    offset: I64
    length: I64
    often: I64
    stats: Stats
    odd: I64

    def body(self, row: int) -> bytes:
        """Return the bytes of an event."""
        return self.packed.bytes[self.begins[row] : self.ends[row]].tobytes()


def scan(events: Sequence[bytes]) -> Scanned:
    """Return the columns of events."""
    count = len(events)
    ends = np.cumsum(np.fromiter(map(len, events), np.int64, count))
    begins = np.zeros(count, np.int64)
    begins[1:] = ends[:-1]
    packed = PackedDigits(b"".join(events))
    columns = np.zeros((4, count), np.int64)
    odd: list[I64] = []
    stats: list[Stats] = []
    for first in range(0, count, BLOCK):
        part = slice(first, first + BLOCK)
        found = _ScanBlock(packed, begins[part], ends[part], columns[:, part])
        own = found.read()
        odd.append(np.flatnonzero(found.odd) + first)
        stats.append(Stats(own.row + first, own.nth, own.key, own.form, own.value, own.at))
    every = _joined(stats)
    number, offset, length, often = columns
    return Scanned(
        packed, begins, ends, number, offset, length, often, every, np.concatenate([np.empty(0, np.int64), *odd])
    )


def _joined(parts: list[Stats]) -> Stats:
    if len(parts) == 1:
        return parts[0]
    empty = np.empty(0, np.int64)
    none = Stats(empty, empty, empty, np.empty(0, np.uint8), np.empty(0, np.uint64), empty)
    return Stats(*(np.concatenate([getattr(part, name) for part in (none, *parts)]) for name in Stats.__slots__))


class _ScanBlock:
    """Some thousand events. odd: those of another form."""

    def __init__(self, packed: PackedDigits, begins: I64, ends: I64, columns: I64) -> None:
        self.packed, self.bytes = packed, packed.bytes
        self.at, self.ends = begins.copy(), ends
        self.columns = columns
        self.odd = np.zeros(len(begins), np.bool_)

    def read(self) -> Stats:
        """Fill the columns, and return the stats of the events of the usual form."""
        for column, tag in enumerate((ID, OFFSET, LENGTH)):
            self._number(column, tag)
        row, nth, begin, end = self._messages()
        self._number(3, OCCURRENCES)
        self.odd |= self.at != self.ends
        if self.odd.any():
            self.columns[:, self.odd] = 0
        if self.odd.any() and len(row):
            usual = ~self.odd[row]
            row, nth, begin, end = row[usual], nth[usual], begin[usual], end[usual]
        return self._stats(row, nth, begin, end)

    def _number(self, column: int, tag: int) -> None:
        """Read a field if an event has it next."""
        here = self.bytes.take(self.at) == tag
        here &= self.at < self.ends
        if not (every := bool(here.all())):
            rows = np.flatnonzero(here)
            if not rows.size:
                return
        value, size = self.packed.numbers((self.at if every else self.at[rows]) + 1)
        if every:
            self.columns[column] = value.view(np.int64)
            self.at += size
            self.at += 1
            self.odd |= size == 0
        else:
            self.columns[column, rows] = value.view(np.int64)
            self.at[rows] += size + 1
            self.odd[rows] |= size == 0
        if (over := self.at > self.ends).any():
            self.odd |= over
            self.at = np.minimum(self.at, self.ends)

    def _messages(self) -> tuple[I64, I64, I64, I64]:
        """Return the stats: row, place among those of the row, begin and end of their bytes."""
        rows: list[I64] = []
        begins: list[I64] = []
        ends: list[I64] = []
        active = np.flatnonzero((self.bytes.take(self.at) == STATS) & (self.at < self.ends))
        at, bound = self.at[active], self.ends[active]
        while len(active):
            size, width = self._sizes(at + 1)
            begin = at + 1 + width
            end = begin + size
            good = (width > 0) & (end <= bound)
            if not good.all():
                self.odd[active[~good]] = True
                active, begin, end, bound = active[good], begin[good], end[good], bound[good]
            rows.append(active)
            begins.append(begin)
            ends.append(end)
            self.at[active] = end
            more = np.flatnonzero((self.bytes.take(end) == STATS) & (end < bound))
            if len(more) == len(active):
                at = end
            else:
                active, at, bound = active[more], end[more], bound[more]
        if not rows:
            empty = np.empty(0, np.int64)
            return empty, empty, empty, empty
        nth = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
        return np.concatenate(rows), nth, np.concatenate(begins), np.concatenate(ends)

    def _sizes(self, places: I64) -> tuple[I64, I64]:
        """Return the lengths at some places, and how many bytes each has."""
        size = self.bytes.take(places).astype(np.int64)
        width = np.ones(len(size), np.int64)
        if (long := np.flatnonzero(size > 127)).size:
            value, width[long] = self.packed.numbers(places[long])
            size[long] = np.minimum(value, _FAR).view(np.int64)
        return size, width

    def _stats(self, row: I64, nth: I64, begin: I64, end: I64) -> Stats:
        word = self.packed.words(begin)
        usual = (word & np.uint64(0xFF)) == np.uint64(ID)
        # The id has one byte or two.
        two = word >> np.uint64(15)
        two &= np.uint64(1)
        key = word >> np.uint64(9)
        key &= np.uint64(0x3F80)
        key *= two
        key |= (word >> np.uint64(8)) & np.uint64(0x7F)
        word >>= np.uint64(16)
        word >>= two << np.uint64(3)
        at = begin + 3
        at += two.view(np.int64)
        form = (word & np.uint64(0xFF)).astype(np.uint8)
        usual &= at <= end
        if (two != 0).any():
            # A third byte of the id would be taken for a form.
            usual &= (two == 0) | (self.bytes.take(begin + 2) < 128)
        at = np.minimum(at, self.packed.size)
        value, size = self.packed.numbers(at)
        number = (form == UNSIGNED) | (form == SIGNED) | (form == REFERENCE)
        good = number & (size > 0) & (at + size == end)
        text = np.flatnonzero(form == TEXT)
        if text.size:
            begins = at[text] + size[text]
            fits = (size[text] > 0) & (value[text] < _FAR)
            fits &= begins + np.minimum(value[text], _FAR).view(np.int64) == end[text]
            good[text] = fits
            at[text] = begins
        double = np.flatnonzero(form == DOUBLE)
        if double.size:
            value[double] = self.packed.words(at[double])
            good[double] = at[double] + 8 == end[double]
        good &= usual
        kept = Stats(row, nth, key.view(np.int64), form, value, at)
        if good.all():
            return kept
        self.odd[row[~good]] = True
        self.columns[:, self.odd] = 0
        rest = np.flatnonzero(~self.odd[row])
        return Stats(*(getattr(kept, name)[rest] for name in Stats.__slots__))
