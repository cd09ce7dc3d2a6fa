"""The part of an event that many rows share: its type, name, category and the args with few distinct values."""

from __future__ import annotations

import numpy as np

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Bytes, Column, Mask, Rows
from tracekit.model.digits import varint, varint_sizes
from tracekit.writers.perfetto._annotations import annotation, put_doubles, put_integers, put_shape
from tracekit.writers.perfetto._arrows import POINTS
from tracekit.writers.perfetto._interned_names import CATEGORY, KEY, NAME, STRING, InternedNames, Text
from tracekit.writers.perfetto._wire import BINARY, WireCells, message, number, sizes_of, words
from tracekit.writers.tracks.batch import (
    BOUND_END,
    COUNTER,
    INSTANT,
    LONE_INSTANT,
    NOT_WRITTEN,
    SHAPES,
    SLICE,
    Batch,
    Codes,
    Integers,
    classes,
    own_numbers,
    value_codes,
)

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
        points = np.isin(batch.phase, list(POINTS)) if batch.points.row.size else counters
        self._points = points if batch.points.row.size and points.any() else None
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
