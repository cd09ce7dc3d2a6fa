"""The part of an event that many rows share: its type, name, category and the args with few distinct values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tracekit.analysis.segments import previous_greater
from tracekit.model import arrow
from tracekit.model.arrow import F64, I64, Bytes, Column, DictColumn, Mask, Rows, pc
from tracekit.model.digits import varint, varint_sizes
from tracekit.writers.json_text import OWN_KEYS, parsed
from tracekit.writers.perfetto._wire import BINARY, WireCells, binary, double, message, number, sizes_of, text, words
from tracekit.writers.tracks.arrows import ENDED_FLOWS, OPEN_FLOWS, keep_newest
from tracekit.writers.tracks.batch import (
    BOUND_END,
    COUNTER,
    END,
    INSTANT,
    LONE_INSTANT,
    NOT_WRITTEN,
    SHAPES,
    SLICE,
    START,
    STEP,
    UNDRAWN,
    Batch,
    Codes,
    Integers,
    classes,
    own_numbers,
    value_codes,
)

# Texts that a file defines once for each track and then refers to by number.


CATEGORY, NAME, KEY, STRING = 1, 2, 3, 29
"""Fields of InternedData: categories, names of events, names of arguments, their texts."""

Text = tuple[int, int]
"""Field of InternedData and number (iid) of a text."""


class InternedNames:
    """All texts of a file. A number means the same on each track, but each track that uses it must define it."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, int]] = {field: {} for field in (CATEGORY, NAME, KEY, STRING)}
        self._definitions: dict[Text, bytes] = {}

    def iid(self, field: int, value: str) -> int:
        """Return the number of a text, from 1."""
        known = self._known[field]
        found = known.get(value)
        if found is None:
            found = known[value] = len(known) + 1
            self._definitions[field, found] = message(field, number(1, found), text(2, value))
        return found

    def definitions(self, texts: Iterable[Text]) -> bytes:
        """Return the fields of InternedData that define texts."""
        return b"".join(self._definitions[each] for each in texts)


# Debug annotations: the args of an event, as Perfetto shows them.
#
# Texts of `args` are JSON objects. Those with the same keys are written together, by columns; each distinct text once.


_TOGETHER = 48
"""Objects with the same keys that are worth a set of columns."""
_DEPTH = 16
"""Lists and objects nested deeper than this are written as JSON text."""
_LIMITS = -(1 << 63), (1 << 63) - 1


def value_field(value: object, depth: int = 0) -> bytes:
    """Return the value of a DebugAnnotation; what no field can hold exactly becomes its JSON text."""
    if isinstance(value, bool):
        return number(2, value)
    if isinstance(value, int) and _LIMITS[0] <= value <= _LIMITS[1]:
        return number(4, value)
    if isinstance(value, float):
        return double(5, value)
    if isinstance(value, str):
        return text(6, value)
    if isinstance(value, list) and value and depth < _DEPTH:
        return b"".join(message(12, value_field(each, depth + 1)) for each in value)
    if isinstance(value, dict) and value and depth < _DEPTH:
        return b"".join(message(11, text(10, key), value_field(each, depth + 1)) for key, each in value.items())
    if isinstance(value, int):
        return text(6, str(value))
    return text(6, _json(value))


def _json(value: object) -> str:
    try:
        return orjson.dumps(value).decode()
    except (TypeError, orjson.JSONEncodeError):  # a whole number beyond 64 bits, or deeper than orjson goes
        return repr(value)


def annotation(key: int, value: object) -> bytes:
    """Return an argument of an event. key: the number of its name."""
    return message(4, number(1, key), value_field(value))


@dataclass(frozen=True, slots=True, eq=False)
class Annotations:
    """The annotations of distinct texts of args: their bytes, and the names that each needs.

    code: shape (number of rows,), the text of each row, -1 without one. need: shape (number of texts,), an index of
    `needs`.
    """

    code: Rows
    data: Column
    sizes: I64
    need: I64
    needs: list[tuple[Text, ...]]


def of_args(args: DictColumn, interned: InternedNames) -> Annotations:
    """Return the annotations of a column of args."""
    texts = arrow.texts(args.dictionary)
    groups: dict[tuple[str, ...], list[int]] = {}
    objects: list[dict[str, object]] = []
    for at, source in enumerate(texts):
        found = _object(source)
        objects.append(found)
        groups.setdefault(tuple(found), []).append(at)
    parts: list[Column] = []
    places: list[int] = []
    needs: list[tuple[Text, ...]] = []
    need = np.zeros(len(texts), np.int64)
    for keys, members in groups.items():
        iids = [interned.iid(KEY, key) for key in keys]
        need[members] = len(needs)
        needs.append(tuple((KEY, iid) for iid in iids))
        columns = zip(*(objects[at].values() for at in members), strict=True)
        parts.append(
            _together(iids, columns, len(members))
            if len(members) >= _TOGETHER
            else _one_by_one(iids, [objects[at] for at in members])
        )
        places += members
    order = np.empty(len(texts), np.int64)
    order[places] = np.arange(len(texts))
    data = arrow.take(pa.concat_arrays(parts), order) if parts else binary(order, np.empty(0, np.uint8))
    return Annotations(arrow.codes(args), data, sizes_of(data), need, needs)


def _object(source: str) -> dict[str, object]:
    """Return the members that a text of args is written as; see `writers/chrome` for the same rule."""
    found = parsed(source)
    if found is None:
        return {"args_text": source}
    if not OWN_KEYS.isdisjoint(found):
        return {"args": found}
    return found


def _one_by_one(iids: list[int], objects: list[dict[str, object]]) -> Column:
    rows = [
        b"".join(annotation(iid, value) for iid, value in zip(iids, each.values(), strict=True)) for each in objects
    ]
    return arrow.array(rows, BINARY)


def _together(iids: list[int], columns: zip[tuple[object, ...]], count: int) -> Column:
    """Return the annotations of objects with the same keys, column by column."""
    pieces: list[Column] = []
    cells = WireCells(count)
    for iid, values in zip(iids, columns, strict=True):
        kinds = set(map(type, values))
        key = varint(iid)
        whole = _integers(values) if kinds == {int} else None
        if whole is not None:
            put_integers(cells, key, whole)
        elif kinds == {float}:
            put_doubles(cells, key, np.array(values, np.float64))
        elif kinds == {bool}:
            cells.put(b"\x22" + varint(len(key) + 3) + b"\x08" + key + b"\x10")
            cells.byte(np.array(values, np.uint8))
        else:
            long = arrow.array(_encoded(values), BINARY)
            sizes = sizes_of(long)
            inner = sizes + (1 + len(key))
            cells.put(b"\x22")
            cells.varint(inner, varint_sizes(inner))
            cells.put(b"\x08" + key)
            pieces += [cells.column(), long]
            cells = WireCells(count)
    pieces.append(cells.column())
    return joined(*pieces)


def _integers(values: tuple[object, ...]) -> I64 | None:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return None


def _encoded(values: tuple[object, ...]) -> list[bytes]:
    """Return the value of each row as a field; each distinct text or list is converted once."""
    known: dict[tuple[type, str], bytes] = {}
    out = []
    for value in values:
        key = type(value), value if isinstance(value, str) else repr(value)
        found = known.get(key)
        if found is None:
            found = known[key] = value_field(value)
        out.append(found)
    return out


def joined(*pieces: Column) -> Column:
    """Return the pieces of each row side by side."""
    nothing: Any = pa.scalar(b"", BINARY)
    return pc.binary_join_element_wise(*pieces, nothing) if len(pieces) > 1 else pieces[0]


def put_integers(cells: WireCells, key: bytes, values: I64, where: Mask | None = None) -> None:
    """Add an argument that is a whole number. key: the number of its name, as a varint."""
    sizes = varint_sizes(values)
    cells.put(b"\x22", where)
    cells.byte(sizes + np.uint8(2 + len(key)), where)
    cells.put(b"\x08" + key + b"\x20", where)
    cells.varint(values, sizes, where)


def put_doubles(cells: WireCells, key: bytes, values: F64, where: Mask | None = None) -> None:
    """Add an argument that is a double."""
    cells.put(b"\x22" + varint(len(key) + 10) + b"\x08" + key + b"\x29", where)
    cells.fixed(words(values), where)


def put_shape(cells: WireCells, key: bytes, axes: list[I64], where: Mask | None = None) -> None:
    """Add an argument that is a list of three whole numbers."""
    sizes = [varint_sizes(axis) for axis in axes]
    total = sum((size.astype(np.int64) for size in sizes), np.full(len(axes[0]), 1 + len(key) + 3 * len(axes)))
    cells.put(b"\x22", where)
    cells.byte(total, where)
    cells.put(b"\x08" + key, where)
    for axis, size in zip(axes, sizes, strict=True):
        cells.put(b"\x62", where)
        cells.byte(size + np.uint8(1), where)
        cells.put(b"\x20", where)
        cells.varint(axis, size, where)


# Arrows of the input that touch device work.
#
# A point of an arrow is a legacy event, which Perfetto binds to the slice around it, but only on threads. An arrow with
# a
# point on another track is written as ids on the slices themselves, like the arrow of a launch. Which of both an arrow
# is
# must be known when its first point is written, that is one batch after it was read.


POINTS = {START: b"s", STEP: b"t", END: b"f", BOUND_END: b"f"}
_FLOW = 1 << 48
"""First id of these arrows."""
_BEGINS, _ENDS = b"\xf9\x02", b"\x81\x03"
"""Keys of the fields flow_ids and terminating_flow_ids."""
_KEYS = tuple(np.uint64(int.from_bytes(key, "little")) for key in (_ENDS, _BEGINS))


@dataclass(slots=True, eq=False)
class Points:
    """The ends of arrows on the slices of a batch. calls: rows of the launches, numbered from `first`.

    absorbed: rows of the batch that are points, and are written on slices.
    """

    batch: Batch
    first: int
    calls: I64
    ends_before: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    """Last end of a slice on each track before the batch."""
    absorbed: int = 0
    _rows: list[I64] = field(default_factory=list)
    _ids: list[I64] = field(default_factory=list)
    _ends: list[Mask] = field(default_factory=list)
    _single: list[tuple[int, int, bool]] = field(default_factory=list)
    _slices: dict[int, I64] = field(default_factory=dict)
    _found: dict[bool, dict[int, tuple[Points, int]]] = field(default_factory=dict)

    def slices(self, track: int) -> I64:
        """Return the rows of the slices of a track."""
        if track not in self._slices:
            self._slices[track] = np.flatnonzero((self.batch.track == track) & (self.batch.phase == SLICE))
        return self._slices[track]

    def add(self, rows: I64, ids: I64, *, end: bool) -> None:
        """Add points. rows, ids: shape (n,)."""
        if len(rows):
            self._collect()
            self._rows.append(rows)
            self._ids.append(ids)
            self._ends.append(np.full(len(rows), end))

    def add_one(self, row: int, identity: int, *, end: bool) -> None:
        """Add one point."""
        self._single.append((row, identity, end))

    def _collect(self) -> None:
        if self._single:
            rows, ids, ends = zip(*self._single, strict=True)
            self._rows.append(np.array(rows, np.int64))
            self._ids.append(np.array(ids, np.int64))
            self._ends.append(np.array(ends, np.bool_))
            self._single = []

    def used(self) -> list[I64]:
        """Return the rows that have points, in parts."""
        self._collect()
        return self._rows

    def slice_of(self, row: int, before: Points | None) -> tuple[Points, int] | None:
        """Return the batch and the row of the slice that a point belongs to. before: the batch before, if not written.

        It is the innermost one around the point, else the last before it; for a point of phase END the next one.
        """
        known = self._found.get(before is not None)
        if known is None:
            known = self._found[before is not None] = _slices_of(self, before)
        return known.get(row)

    def put(self, cells: WireCells, place: I64) -> Column | None:
        """Add the fields of each item to its cells; return them instead where an item has several points.

        place: the item of each row of the batch.
        """
        if not self.used():
            return None
        items, ids, ends = place[np.concatenate(self._rows)], np.concatenate(self._ids), np.concatenate(self._ends)
        counts = np.bincount(items, minlength=cells.rows)
        if int(counts.max()) == 1:
            keys, identities = np.zeros(cells.rows, np.uint64), np.zeros(cells.rows, np.int64)
            keys[items], identities[items] = np.where(ends, *_KEYS), ids
            cells.pair(keys, words(identities), counts.astype(np.bool_))
            return None
        order = np.argsort(items, kind="stable")
        ids, ends = ids[order], ends[order]
        data = np.empty((len(items), 10), np.uint8)
        data[:, :2] = np.where(ends[:, None], np.frombuffer(_ENDS, np.uint8), np.frombuffer(_BEGINS, np.uint8))
        data[:, 2:] = np.ascontiguousarray(ids).view(np.uint8).reshape(-1, 8)
        return binary(10 * counts, data.reshape(-1))


class InputArrows:
    """Moves the flow events that touch a track which is not a thread to the slices that they belong to."""

    def __init__(self) -> None:
        # The first points that are not written yet, and the start of the slice that each moved arrow begins on.
        self._starts: dict[int, tuple[Points, int]] = {}
        self._moved: OrderedDict[int, int] = OrderedDict()
        self._ended: OrderedDict[int, None] = OrderedDict()

    def move(self, points: Points, before: Points | None, threads: Mask) -> None:
        """Move points of a batch. before: the batch before it, if not written. threads: whether a track is a thread."""
        batch = points.batch
        rows = np.array([row for row in batch.points if int(batch.phase[row]) in POINTS], np.int64)
        bound = threads[batch.track[rows]] & (_inside(points, rows) | (batch.phase[rows] == END))
        for row, on_thread in zip(rows.tolist(), bound.tolist(), strict=True):
            phase, identity = int(batch.phase[row]), int(batch.identity[row])
            if phase == START:
                self._starts[identity] = points, row
                self._moved.pop(identity, None)
                if not on_thread:
                    self._begin(identity, before)
                continue
            if identity in self._ended:  # an id on slices is one arrow
                batch.phase[row] = UNDRAWN
                continue
            if not on_thread and identity not in self._moved:
                self._begin(identity, before)
            if identity in self._moved:
                self._continue(identity, points, row, before)
                if phase != STEP:
                    del self._moved[identity]
                    keep_newest(self._ended, identity, None, ENDED_FLOWS)
            elif not on_thread:
                batch.phase[row] = UNDRAWN

    def forget(self, points: Points) -> None:
        """Forget the first points of a batch that is written now."""
        for identity in [identity for identity, (owner, _) in self._starts.items() if owner is points]:
            del self._starts[identity]

    def _begin(self, identity: int, before: Points | None) -> None:
        """Move the first point of an arrow to its slice."""
        owner, row = self._starts.pop(identity, (None, -1))
        if owner is None:
            return
        found = owner.slice_of(row, before if before is not owner else None)
        if found is None:
            owner.batch.phase[row] = UNDRAWN
            return
        holder, at = found
        holder.add_one(at, _FLOW + identity, end=False)
        owner.batch.phase[row] = NOT_WRITTEN
        owner.absorbed += 1
        keep_newest(self._moved, identity, int(holder.batch.ts[at]), OPEN_FLOWS)

    def _continue(self, identity: int, points: Points, row: int, before: Points | None) -> None:
        """Move a later point of an arrow to its slice; the arrow cannot go back in time."""
        batch = points.batch
        end = int(batch.phase[row]) != STEP
        found = points.slice_of(row, before)
        if found is None or int(found[0].batch.ts[found[1]]) < self._moved[identity]:
            batch.phase[row] = UNDRAWN
            return
        found[0].add_one(found[1], _FLOW + identity, end=end)
        batch.phase[row] = NOT_WRITTEN
        points.absorbed += 1


def _inside(points: Points, rows: I64) -> Mask:
    """Return whether the last slice before each point on its track, or one that began before the batch, is open."""
    batch = points.batch
    out = np.zeros(len(rows), np.bool_)
    tracks = batch.track[rows]
    for track in np.unique(tracks).tolist():
        here = np.flatnonzero(tracks == track)
        slices = points.slices(track)
        before = np.searchsorted(slices, rows[here]) - 1
        ends = np.concatenate((batch.ts[slices] + batch.dur[slices], points.ends_before[track : track + 1]))
        times = batch.ts[rows[here]]
        lasts = np.concatenate((batch.ts[slices], ends[-1:]))[before]
        empty = (lasts == times) & (ends[before] == times)  # a slice of 0 ns at this instant
        out[here] = ((ends[before] > times) | (ends[-1] > times)) & ~empty
    return out


def _slices_of(points: Points, before: Points | None) -> dict[int, tuple[Points, int]]:
    """Return for each point of a batch the batch and the row of its slice; without the points that have none."""
    batch = points.batch
    rows = np.array(list(batch.points), np.int64)
    rows = rows[np.isin(batch.phase[rows], list(POINTS))]
    found: dict[int, tuple[Points, int]] = {}
    tracks = batch.track[rows]
    for track in np.unique(tracks).tolist():
        here = rows[tracks == track]
        slices, times = points.slices(track), batch.ts[here]
        place = np.searchsorted(slices, here)
        latest = slices[place - 1] if len(slices) else place
        own = np.where(place > 0, _around(batch, slices, here), -1)
        empty = (place > 0) & (batch.ts[latest] == times) & (batch.dur[latest] == 0)  # a slice of 0 ns at this instant
        own[empty] = latest[empty]
        if before is not None and len(before.slices(track)):
            earlier, is_open = _open_at(before, track, times)
            found |= {row: (before, at) for row, at in zip(here.tolist(), earlier.tolist(), strict=True)}
            # Of this batch where a slice is around the point, or none of the batch before is.
            mine = (own >= 0) | (~is_open & (place > 0))
        else:
            mine = place > 0
        # Like the importers of Chrome traces: else the slice that has just ended.
        own = np.where(own >= 0, own, latest)
        ends = batch.phase[here] == END
        following = np.append(slices, -1)[place]
        own, mine = np.where(ends, following, own), np.where(ends, following >= 0, mine)
        found |= {row: (points, at) for row, at in zip(here[mine].tolist(), own[mine].tolist(), strict=True)}
        for row in here[ends & ~mine].tolist():
            found.pop(row, None)
    return found


def _around(batch: Batch, slices: I64, rows: I64) -> I64:
    """Return for each point the last slice before it that ends after it, -1 without one. slices, rows: of one track."""
    both = np.concatenate((slices, rows))
    order = np.argsort(both, kind="stable")
    is_slice = order < len(slices)
    both = both[order]
    ends = np.where(is_slice, batch.ts[both] + batch.dur[both], np.iinfo(np.int64).min)
    times = np.where(is_slice, np.iinfo(np.int64).max, batch.ts[both])
    around = previous_greater(ends, times, np.zeros(1, np.int64))[~is_slice]
    out = np.full(len(rows), -1, np.int64)
    out[order[~is_slice] - len(slices)] = np.where(around >= 0, both[around], -1)
    return out


def _open_at(points: Points, track: int, times: I64) -> tuple[I64, Mask]:
    """Return for each time the last slice of a track that ends after it, else the last one; and whether it does."""
    slices, batch = points.slices(track), points.batch
    latest = np.maximum.accumulate((batch.ts[slices] + batch.dur[slices])[::-1])  # from the last slice on
    back = np.searchsorted(latest, times, "right")
    is_open = back < len(slices)
    return slices[np.where(is_open, len(slices) - 1 - back, len(slices) - 1)], is_open


PACKET_END = b"\x48\x02"
"""The fields of the end of a slice."""
_TYPES = {SLICE: 1, INSTANT: 3, LONE_INSTANT: 3, COUNTER: 4}
_MOST_SHARED = 1 << 15
_TEXTS = ("kind", "name", "raw_name", "copy_kind")


@dataclass(frozen=True, slots=True)
class Template:
    """Fields of TrackEvent, and the texts that they refer to."""

    data: bytes
    needs: tuple[Text, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SharedState:
    """The templates of a batch. code: shape (n,). data, sizes: of each template, and of the end of a slice."""

    code: Rows
    templates: list[Template]
    data: Column
    sizes: I64


class Templates:
    """Makes the shared parts of events; each is made once for many batches."""

    def __init__(self, interned: InternedNames) -> None:
        self._interned = interned
        self._known: dict[tuple[object, ...], Template] = {}
        self._varies = {"correlation", "bytes"}  # columns that differ from row to row

    def shared(self, batch: Batch) -> tuple[SharedState, OwnFields]:
        """Return the templates of a batch, and the fields that each row has beside its template."""
        present = dict(own_numbers(batch))
        wide = [name for name in present if name not in self._varies]
        parts: list[Codes | None] = [(batch.phase.view(np.int8), NOT_WRITTEN + 1)]
        parts += [value_codes(batch.columns[name]) for name in _TEXTS]
        code, first = classes(parts, batch.count)
        split = [name for name in wide if not _follows(batch.columns[name], present[name], code, first)]
        if split:
            base: list[Codes | None] = [(code, len(first))]
            code, first = classes([*base, *(value_codes(batch.columns[n], present[n]) for n in split)], batch.count)
            if len(first) > _most_classes(batch):
                wide = self._choose(batch, base, present, wide)
                split = [name for name in split if name in wide]
                code, first = classes([*base, *(value_codes(batch.columns[n], present[n]) for n in split)], batch.count)
        own = OwnFields(self._interned, batch, {name: present[name] for name in present if name not in wide})
        templates = self._templates(batch, first, {name: present[name] for name in wide}, own.needs)
        data = arrow.array([*(template.data for template in templates), PACKET_END], BINARY)
        return SharedState(code, templates, data, sizes_of(data)), own

    def _choose(
        self, batch: Batch, base: list[Codes | None], present: dict[str, Mask | None], wide: list[str]
    ) -> list[str]:
        """Return the columns that rows with the same texts mostly agree in; the others vary from now on."""
        most = base[0][1] + _most_classes(batch) // 8 if base[0] else 0
        for name in wide:
            column = value_codes(batch.columns[name], present[name])
            if len(classes([*base, column], batch.count)[1]) > most:
                self._varies.add(name)
        for _, axes in SHAPES:
            if not self._varies.isdisjoint(axes):
                self._varies.update(axes)
        return [name for name in wide if name not in self._varies]

    def _templates(
        self, batch: Batch, first: I64, present: dict[str, Mask | None], own: tuple[Text, ...]
    ) -> list[Template]:
        columns: list[list[object]] = [batch.phase[first].tolist()]
        for name in _TEXTS:
            texts = [*batch.texts[name], None]
            column = batch.columns[name]
            columns.append([texts[code] for code in np.where(column.mask()[first], column.values[first], -1).tolist()])
        for name, mask in present.items():
            values: list[object] = batch.columns[name].values[first].tolist()
            known = [True] * len(first) if mask is None else mask[first].tolist()
            columns.append([value if has else None for value, has in zip(values, known, strict=True)])
        names = tuple(present)
        out = []
        for row in zip(*columns, strict=True):
            key = names, own, row
            found = self._known.get(key)
            if found is None:
                if len(self._known) >= _MOST_SHARED:
                    self._known.clear()
                found = self._known[key] = self._template(names, own, row)
            out.append(found)
        return out

    def _template(self, names: tuple[str, ...], own: tuple[Text, ...], row: tuple[object, ...]) -> Template:
        phase, kind, name, raw_name, copy_kind, *numbers = row
        iid = self._interned.iid
        needs = list(own)
        out = []
        if phase in _TYPES:
            out.append(number(9, _TYPES[phase]))
        if isinstance(name, str) and phase != COUNTER:
            needs.append((NAME, iid(NAME, name)))
            out.append(number(10, needs[-1][1]))
        if isinstance(kind, str):
            needs.append((CATEGORY, iid(CATEGORY, kind)))
            out.append(number(3, needs[-1][1]))
        for key, value in (("raw_name", raw_name), ("copy_kind", copy_kind)):
            if isinstance(value, str):
                needs += [(KEY, iid(KEY, key)), (STRING, iid(STRING, value))]
                out.append(message(4, number(1, needs[-2][1]), number(17, needs[-1][1])))
        given = {key: value for key, value in zip(names, numbers, strict=True) if value is not None}
        for shape, axes in SHAPES:
            if all(axis in given for axis in axes):
                given[shape] = [given.pop(axis) for axis in axes]
        for key, value in given.items():
            needs.append((KEY, iid(KEY, key)))
            out.append(annotation(needs[-1][1], value))
        return Template(b"".join(out), tuple(needs))


def _follows(column: Integers, mask: Mask | None, code: Rows, first: I64) -> bool:
    """Return whether the rows of each class agree in a column."""
    same = bool((column.values[first][code] == column.values).all())
    return same and (mask is None or bool((mask[first][code] == mask).all()))


def _most_classes(batch: Batch) -> int:
    return max(1024, batch.count // 8)


class OwnFields:
    """The fields that each row of a batch has for itself. needs: the texts that they refer to."""

    def __init__(self, interned: InternedNames, batch: Batch, present: dict[str, Mask | None]) -> None:
        self._batch = batch
        self._shapes: list[tuple[bytes, list[str], Mask | None]] = []
        self._numbers: list[tuple[bytes, I64, Mask | None]] = []
        needs: list[Text] = []

        def key(name: str) -> bytes:
            needs.append((KEY, interned.iid(KEY, name)))
            return varint(needs[-1][1])

        rest = dict(present)
        for shape, axes in SHAPES:
            if all(axis in rest for axis in axes):
                masks = [rest.pop(axis) for axis in axes]
                whole = _all_of(masks)
                self._shapes.append((key(shape), list(axes), whole))
                if whole is not None:  # rows that lack an axis have the others as numbers
                    some = {axis: ~whole if m is None else m & ~whole for axis, m in zip(axes, masks, strict=True)}
                    rest.update({axis: mask for axis, mask in some.items() if mask.any()})
        for name, mask in rest.items():
            self._numbers.append((key(name), _wide(batch.columns[name]), mask))
        if batch.negative:
            stated = np.zeros(batch.count, np.int64)
            stated[list(batch.negative)] = list(batch.negative.values())
            self._numbers.append((key("dur_ns"), stated, stated < 0))
        counters = batch.phase == COUNTER
        other = batch.has_value & ~counters
        self._counters = counters if counters.any() else None
        self._values = (key("value"), other) if other.any() else None
        points = np.isin(batch.phase, list(POINTS)) if batch.points else counters
        self._points = points if batch.points and points.any() else None
        self.needs = tuple(needs)

    def put(self, cells: WireCells, rows: I64, given: Mask | None) -> None:
        """Add the fields of these rows of the batch to as many cells. given: the others are no rows, and get none."""
        batch = self._batch

        def where(mask: Mask | None) -> Mask | None:
            return given if mask is None else mask[rows] if given is None else mask[rows] & given

        for key, axes, mask in self._shapes:
            put_shape(cells, key, [_wide(batch.columns[axis])[rows] for axis in axes], where(mask))
        for key, values, mask in self._numbers:
            put_integers(cells, key, values[rows], where(mask))
        if self._values is not None:
            put_doubles(cells, self._values[0], batch.value[rows], where(self._values[1]))
        if self._counters is not None:
            counters = where(self._counters)
            cells.put(b"\xe1\x02", counters)
            cells.fixed(words(batch.value[rows]), counters)
        if self._points is not None:
            points = self._points[rows] if given is None else self._points[rows] & given
            _put_points(cells, batch.phase[rows], batch.identity[rows], points)


def _put_points(cells: WireCells, phases: Bytes, identity: I64, points: Mask) -> None:
    """Add the fields of rows that are flow events: legacy events, which Perfetto joins by their id."""
    sizes = varint_sizes(identity)
    bound = (phases == BOUND_END) & points
    letters = np.zeros(len(phases), np.uint8)
    for phase, letter in POINTS.items():
        letters[phases == phase] = letter[0]
    cells.put(b"\x32", points)
    cells.byte(sizes + np.uint8(3) + 2 * bound.view(np.uint8), points)
    cells.put(b"\x10", points)
    cells.byte(letters, points)
    cells.put(b"\x30", points)
    cells.varint(identity, sizes, points)
    cells.put(b"\x60\x01", bound)


def _all_of(masks: list[Mask | None]) -> Mask | None:
    found = [mask for mask in masks if mask is not None]
    return np.logical_and.reduce(found) if found else None


def _wide(column: Integers) -> I64:
    return column.values.astype(np.int64, copy=False)
