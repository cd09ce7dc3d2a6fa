"""`args` of many events at once: their texts are put together from pieces, of which few differ.

Each row is a list of numbers of pieces: `,"group_id":` and `7` and so on. Arrow copies them all behind each other in
one call. What that cannot do exactly (a key twice in an event, a number that is not finite) is left to `StatCells`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import orjson
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I32, I64, U64, Bytes, Column, Mask, Rows, pc
from tracekit.readers.engine.protobuf import INT32_MAX, INT64_MAX
from tracekit.readers.xplane._planes import DETAILS, details
from tracekit.readers.xplane._scan import DOUBLE, REFERENCE, SIGNED, TEXT, UNSIGNED, Scanned

_END, _DERIVED, _START_PS, _LENGTH_PS = 1, 2, 3, 1003
_OWN = frozenset({"derived", "ts_ps", "dur_ps", "xla_op"})
_MOST_TEXT = 1 << 28
_NUMBERS = {"correlation_id": ("correlation", INT64_MAX), "step_num": ("step", INT32_MAX)}
"""Stats that are columns, and their largest values."""
_UNSAFE = r'["\\\x00-\x1f]'
_MOST_BITS = 64
_BRACE = ord("{")


class TooLongError(Exception):
    """The texts of these rows are too long for one column."""


@dataclass(frozen=True, slots=True, eq=False)
class Common:
    """The parts of `args` besides stats. derived: a mask. start, length: ps beyond whole ns, shape (n,).

    names: the text of what all events of a name have, `,"key":value...`; keys: its keys; name: the code of each row.
    ops: the distinct texts of the member `xla_op`, `,"xla_op":{...}`, the first one empty; op: the text of each row.
    """

    derived: Mask
    start: I64
    length: I64
    name: Rows
    names: Sequence[str]
    keys: Sequence[frozenset[str]]
    ops: Sequence[str]
    op: Rows


@dataclass(frozen=True, slots=True, eq=False)
class XPlaneMembers:
    """args: of all rows, null for a row without. columns: the values of each statistic, and which rows have one."""

    args: Column
    columns: dict[str, tuple[I64, Mask]]


Odd = Callable[[int], tuple[str | None, dict[str, int]]]
"""Returns `args` and columns of an odd row."""


def distinct(values: I64) -> tuple[list[int], Rows]:
    """Return the distinct values in order of first use, and the place of each value among them."""
    encoded = arrow.encoded(arrow.array(np.ascontiguousarray(values)))
    return arrow.ints(encoded.dictionary).tolist(), encoded.indices.to_numpy()


def members(scanned: Scanned, common: Common, key: Callable[[int], str], odd: Odd) -> XPlaneMembers:
    """Return `args` and columns of events. key: gives the name of a stat. odd: makes the rows that are odd here.

    Raises: TooLongError where `args` of several rows are too long for a column.
    """
    return _Making(scanned, common, key).made(odd)


@lru_cache(maxsize=1)
def _fixed() -> Column:
    starts = [f',"ts_ps":{ps}' if ps else "" for ps in range(1000)]
    lengths = [f',"dur_ps":{ps}' if ps else "" for ps in range(-999, 1000)]
    return arrow.array(["", "}", ',"derived":true', *starts, *lengths], pa.string())


class _Making:
    """One batch in the making. key, value: the piece of each stat; 0 for none."""

    def __init__(self, scanned: Scanned, common: Common, name: Callable[[int], str]) -> None:
        self.scanned, self.common, self.name, self.stats = scanned, common, name, scanned.stats
        self.count = count = len(scanned.number)
        self.parts: list[Column] = [_fixed()]
        self.pieces = len(_fixed())
        self.odd = np.zeros(count, np.bool_)
        self.odd[scanned.odd] = True
        if any(clash := [bool(keys & _OWN) for keys in common.keys]):
            self.odd |= np.array(clash)[common.name]
        self.columns: dict[str, tuple[I64, Mask]] = {}
        size = len(self.stats)
        self.key, self.value = np.zeros(size, np.int32), np.zeros(size, np.int32)
        self.counts = np.bincount(self.stats.row, minlength=count)
        self.first = np.cumsum(self.counts) - self.counts

    def made(self, odd: Odd) -> XPlaneMembers:
        common = self.common
        named = self._add(common.names)
        if len(self.stats):
            self._read()
        # What no row of the batch has takes no place in any row.
        before: list[Rows] = []
        if common.derived.any():
            before.append(np.where(common.derived, _DERIVED, 0))
        if common.start.any():
            before.append(common.start + _START_PS)
        if common.length.any():
            before.append(common.length + (_LENGTH_PS + 999))
        if any(common.names):
            before.append(common.name + named)
        if len(common.ops) > 1:
            before.append(common.op + self._add(common.ops))
        begins = np.arange(0, (len(before) + 1) * (self.count + 1), len(before) + 1)
        begins[1:] += 2 * np.cumsum(self.counts)
        order = np.zeros(int(begins[-1]), np.int32)
        start = begins[:-1]
        for place_of, pieces in enumerate(before):
            order[start + place_of] = pieces
        has = common.derived | (common.start != 0) | (common.length != 0)
        has |= np.array([bool(text) for text in common.names], np.bool_)[common.name]
        has |= common.op > 0
        if len(self.stats):
            place = start[self.stats.row]
            place += 2 * self.stats.nth + len(before)
            order[place] = self.key
            order[place + 1] = self.value
            has[self.stats.row[self.key != 0]] = True
        order[begins[1:][has] - 1] = _END
        if self.odd.any():
            self._take_odd(odd, order, begins, has)
        return XPlaneMembers(self._text(order, begins, has), self.columns)

    def _add(self, texts: Column | Sequence[str]) -> int:
        """Take pieces. Return the number of the first one."""
        first = self.pieces
        column = texts if isinstance(texts, pa.Array) else arrow.array(texts, pa.string())
        self.parts.append(column)
        self.pieces += len(column)
        return first

    def _text(self, order: I32, begins: I64, has: Mask) -> Column:
        pieces = pa.concat_arrays(self.parts)
        lengths = arrow.ints(pc.binary_length(pieces))
        may_be_long = self.count > 1 and int(lengths.max()) * len(order) > _MOST_TEXT
        if may_be_long and int(lengths.take(order).sum()) > _MOST_TEXT:
            raise TooLongError
        offsets, data = arrow.text_parts(pieces.take(arrow.array(order)))
        ends = offsets.take(begins).astype(np.int32)
        data = data if data.flags.writeable else data.copy()
        # Each row begins with a comma.
        data[ends[:-1][has]] = _BRACE
        column: Column = pa.Array.from_buffers(
            pa.string(),
            self.count,
            [arrow.array(has).buffers()[1], arrow.buffer(ends), arrow.buffer(data)],
        )
        return column

    def _take_odd(self, odd: Odd, order: I32, begins: I64, has: Mask) -> None:
        """Put the texts and columns of odd rows in their places."""
        rows = np.flatnonzero(self.odd).tolist()
        for _, mask in self.columns.values():
            mask[rows] = False
        texts = []
        for row in rows:
            text, columns = odd(row)
            order[begins[row] : begins[row + 1]] = 0
            has[row] = text is not None
            texts.append(text or "")
            for column, value in columns.items():
                self._set(column, np.array([row]), np.array([value]))
        order[begins[rows]] = np.arange(len(rows)) + self._add(texts)

    def _set(self, column: str, rows: Rows, values: I64) -> None:
        if column not in self.columns:
            self.columns[column] = np.zeros(self.count, np.int64), np.zeros(self.count, np.bool_)
        numbers, mask = self.columns[column]
        numbers[rows], mask[rows] = values, True

    def _read(self) -> None:
        """Find the pieces of all stats, and the columns."""
        stats = self.stats
        keys, code = distinct(stats.key)
        names = [self.name(number) for number in keys]
        self.key[:] = code
        self.key += self._add([f",{orjson.dumps(name).decode()}:" for name in names])
        self._twice(names, code)
        in_details = np.array([name in DETAILS for name in names], np.bool_)
        detailed = in_details[code] if in_details.any() else None
        if detailed is not None:
            # Two of them in an event may have the same column.
            self.odd |= np.bincount(stats.row[detailed], minlength=self.count) > 1
        for form in (SIGNED, UNSIGNED, DOUBLE, REFERENCE, TEXT):
            if (which := np.flatnonzero(stats.form == form)).size:
                if form == DOUBLE:
                    self._doubles(which)
                elif form == REFERENCE:
                    self._references(which, detailed)
                elif form == TEXT:
                    self._texts(which, detailed)
                else:
                    self._integers(which, form)
        for place, name in enumerate(names):
            if name in _NUMBERS:
                self._number(*_NUMBERS[name], code == place)

    def _twice(self, names: Sequence[str], code: Rows) -> None:
        """Find events that have a key twice: the last one counts."""
        places: dict[str, int] = {}
        of_name = [places.setdefault(name, len(places)) for name in names]
        bit = np.array([1 << place % _MOST_BITS for place in of_name], np.uint64)
        bits = np.empty(len(code), np.uint64)
        bits[self.first[self.stats.row] + self.stats.nth] = bit[code]
        rows = np.flatnonzero(self.counts)
        seen: U64 = np.bitwise_or.reduceat(bits, self.first[rows])
        # Different bits add up to what they are together.
        doubtful = np.add.reduceat(bits, self.first[rows]) != seen
        common = [_OWN | keys for keys in self.common.keys]
        shared = [sum({1 << places[key] % _MOST_BITS for key in keys if key in places}) for keys in common]
        if any(shared):
            doubtful |= (seen & np.array(shared, np.uint64)[self.common.name[rows]]) != 0
        doubtful[self.odd[rows]] = False
        if not doubtful.any():
            return
        order = self._in_order()
        for row in rows[doubtful].tolist():
            first, count = self.first[row], self.counts[row]
            own = [names[each] for each in code[order[first : first + count]].tolist()]
            if len({*own, *common[self.common.name[row]]}) < count + len(common[self.common.name[row]]):
                self.odd[row] = True

    def _in_order(self) -> I64:
        """Return the stats event by event."""
        order = np.empty(len(self.stats), np.int64)
        order[self.first[self.stats.row] + self.stats.nth] = np.arange(len(self.stats))
        return order

    def _number(self, column: str, most: int, mine: Mask) -> None:
        """Take a stat that is a column."""
        mine = mine & ((self.stats.form == SIGNED) | (self.stats.form == UNSIGNED))
        mine &= self.stats.value <= np.uint64(most)
        which = np.flatnonzero(mine)
        self._set(column, self.stats.row[which], self.stats.value[which].view(np.int64))
        self.key[which] = self.value[which] = 0

    def _integers(self, which: Rows, form: int) -> None:
        values = self.stats.value[which]
        first = self._add(pc.cast(arrow.array(values.view(np.int64) if form == SIGNED else values), pa.string()))
        self.value[which] = np.arange(first, first + len(which), dtype=np.int32)

    def _doubles(self, which: Rows) -> None:
        values = self.stats.value[which].view(np.float64)
        if not (finite := np.isfinite(values)).all():
            self.odd[self.stats.row[which[~finite]]] = True
            values = np.where(finite, values, 0.0)
        first = self._add(orjson.dumps(values.tolist())[1:-1].decode().split(","))
        self.value[which] = np.arange(first, first + len(which), dtype=np.int32)

    def _references(self, which: Rows, detailed: Mask | None) -> None:
        numbers, code = distinct(self.stats.value[which].view(np.int64))
        texts = [self.name(number) for number in numbers]
        first = self._add([orjson.dumps(text).decode() for text in texts])
        self.value[which] = code + first
        if detailed is not None and (rows := np.flatnonzero(detailed[which])).size:
            self._details(which[rows], code[rows], texts)

    def _texts(self, which: Rows, detailed: Mask | None) -> None:
        stats = self.stats
        order = self._in_order()
        which = order[stats.form[order] == TEXT]
        texts, good = decoded(self.scanned.packed.bytes, stats.at[which], stats.value[which].view(np.int64))
        if not good.all():
            self.odd[stats.row[which[~good]]] = True
        if detailed is not None and (rows := np.flatnonzero(detailed[which])).size:
            encoded = arrow.encoded(arrow.take(texts, rows))
            self._details(which[rows], encoded.indices.to_numpy(), arrow.texts(encoded.dictionary))
            rest = np.flatnonzero(~detailed[which])
            which, texts = which[rest], arrow.take(texts, rest)
        first = self._add(_quoted(texts))
        self.value[which] = np.arange(first, first + len(which), dtype=np.int32)

    def _details(self, which: Rows, code: Rows, texts: Sequence[str]) -> None:
        """Take texts of details: columns, and what is left of them. code: the text of each stat."""
        used = np.zeros(len(texts), np.bool_)
        used[code] = True
        found = [details(text) if there else ({}, "") for text, there in zip(texts, used.tolist(), strict=True)]
        row = self.stats.row[which]
        for column in dict.fromkeys(column for columns, _ in found for column in columns):
            has = np.array([column in columns for columns, _ in found], np.bool_)[code]
            values = np.array([columns.get(column, 0) for columns, _ in found], np.int64)[code]
            self._set(column, row[has], values[has])
        first = self._add([orjson.dumps(rest).decode() for _, rest in found])
        self.value[which] = code + first
        empty = np.array([not rest for _, rest in found], np.bool_)[code]
        self.key[which[empty]] = self.value[which[empty]] = 0


def decoded(data: Bytes, begins: I64, sizes: I64) -> tuple[Column, Mask]:
    """Return texts, which are in the order of their bytes, and which of them are UTF-8; others are ""."""
    bounds = np.zeros(2 * len(begins) + 1, np.int64)
    bounds[1::2], bounds[2::2] = begins, begins + sizes
    # Between any two texts is a gap, which may be empty: wanted and unwanted pieces take turns.
    column = arrow.text_column(bounds, data, pa.large_binary())
    texts = arrow.take(column, np.arange(1, 2 * len(begins), 2))
    good = np.ones(len(begins), np.bool_)
    try:
        return pc.cast(pc.cast(texts, pa.binary()), pa.string()), good
    except pa.ArrowInvalid:
        known: dict[bytes, str] = {}
        for row, text in enumerate(arrow.binaries(texts)):
            if text not in known:
                known[text] = text.decode("utf-8", "ignore")
            good[row] = known[text].encode() == text
        plain = [known[text] if fine else "" for text, fine in zip(arrow.binaries(texts), good.tolist(), strict=True)]
        return arrow.array(plain, pa.string()), good


def _quoted(texts: Column) -> Column:
    """Return texts as JSON."""
    _, data = arrow.text_parts(texts)
    quoted = pc.binary_join_element_wise('"', texts, '"', "")
    if ((data < 0x20) | (data == 0x22) | (data == 0x5C)).any():
        rows = np.flatnonzero(arrow.bools(pc.match_substring_regex(texts, _UNSAFE)))
        known: dict[str, str] = {}
        safe = [
            known.get(text) or known.setdefault(text, orjson.dumps(text).decode())
            for text in arrow.texts(arrow.take(texts, rows))
        ]
        mask = np.zeros(len(texts), np.bool_)
        mask[rows] = True
        quoted = pc.replace_with_mask(quoted, arrow.array(mask), arrow.array(safe, pa.string()))
    return quoted
