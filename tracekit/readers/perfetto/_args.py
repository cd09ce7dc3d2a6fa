"""Debug annotations of events as JSON objects, column by column.

Each annotation becomes the text of one member, `"key":value`; Arrow joins those of an event. Those within lists and
dictionaries are read in the same way, level by level.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I32, I64, Column, Mask, pc
from tracekit.readers.engine.wire import Fields, Picked, scan
from tracekit.readers.packets.fields import KEYS, STRINGS
from tracekit.readers.packets.framing import PacketBlock
from tracekit.readers.packets.sequences import Stated
from tracekit.readers.packets.texts import NONE, PacketTexts, distinct, slices

# Nested values of older producers (DebugAnnotation.NestedValue) as JSON, level by level.


_DEPTH = 16
_KIND, _KEYS, _MEMBERS, _ITEMS, _INT, _DOUBLE, _BOOL, _STRING = range(1, 9)
_DICT, _LIST = 1, 2


def read_nested(block: PacketBlock, picked_values: Picked, depth: int = 0) -> Column:
    """Return values as JSON. A dictionary has as many members as it has both keys and values; the last of a key counts.

    picked_values: bytes of the values. depth: of the lists and dictionaries that they are in.
    """
    count = len(picked_values)
    if depth > _DEPTH:
        return arrow.array(['"..."'] * count, pa.string())
    inner = scan(block.view, picked_values.at, picked_values.ends)
    kind, _ = inner.last(_KIND, 0, count)
    keys, members, items = (inner.of(number, 2) for number in (_KEYS, _MEMBERS, _ITEMS))
    is_dict = (kind == _DICT) | _has(keys, count) | _has(members, count)
    is_list = ~is_dict & ((kind == _LIST) | _has(items, count))
    shown: list[Column] = [arrow.array(["null"], pa.string())]
    place = np.zeros(count, np.int64)
    size = 1
    free = ~is_dict & ~is_list
    parts: list[tuple[I64, Column]] = []
    if is_dict.any():
        rows = np.flatnonzero(is_dict)
        parts.append((rows, _nested_objects(block, _of(keys, is_dict), _of(members, is_dict), rows, depth)))
    if is_list.any():
        rows = np.flatnonzero(is_list)
        elements = _of(items, is_list)
        parts.append((rows, _joined("[", elements.row, read_nested(block, elements, depth + 1), rows, "]")))
    for rows, values in _scalars(block, inner, free):
        parts.append((rows, values))
    for rows, values in parts:
        place[rows] = size + np.arange(len(rows))
        shown.append(values)
        size += len(rows)
    return arrow.take(pa.concat_arrays(shown), place)


def _scalars(block: PacketBlock, inner: Fields, free: Mask) -> list[tuple[I64, Column]]:
    """Return the values that are a number, truth or text. free: the values that have none yet; it is changed."""
    parts = []
    for number, wire in ((_INT, 0), (_DOUBLE, 1), (_BOOL, 0), (_STRING, 2)):
        picked = _last(_of(inner.of(number, wire), free))
        if not len(picked):
            continue
        free[picked.row] = False
        if number == _INT:
            values = arrow.array(picked.value.view(np.int64)).cast(pa.string())
        elif number == _BOOL:
            values = arrow.array(np.where(picked.value != 0, "true", "false").astype(object), pa.string())
        elif number == _DOUBLE:
            bits, at = distinct(picked.value)
            values = arrow.take(
                arrow.array([number_json(each) for each in bits.view(np.float64).tolist()], pa.string()), at
            )
        else:
            values = _texts(block, picked)
        parts.append((picked.row, values))
    return parts


def _nested_objects(block: PacketBlock, keys: Picked, members: Picked, rows: I64, depth: int) -> Column:
    """Return the objects of some rows. keys, members: by row; the first key is that of the first member."""
    values = read_nested(block, members, depth + 1)
    (key_at, key_place), (at, place) = _places(keys.row), _places(members.row)
    width = 1 + max(int(each.max(initial=0)) for each in (key_place, place))
    first, second = keys.row[key_at] * width + key_place, members.row[at] * width + place
    _, of_key, of_member = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    key_at, at = key_at[of_key], at[of_member]
    encoded = arrow.encoded(slices(block.data, keys))
    codes = arrow.codes(encoded).astype(np.int64)[key_at]
    names = [each.decode("utf-8", "replace") for each in arrow.binaries(encoded.dictionary)]
    known = {name: code for code, name in reversed(list(enumerate(names)))}
    codes = np.array([known[name] for name in names], np.int64)[codes]
    owner = members.row[at]
    # The place of a key is that of its first member, its value that of the last.
    pairs, pair = distinct(owner * max(len(names), 1) + codes)
    latest = np.zeros(len(pairs), np.int64)
    latest[pair] = at
    _, begin = np.unique(pair, return_index=True)
    shown = arrow.array([orjson.dumps(name).decode() for name in names], pa.string())
    texts = pc.binary_join_element_wise(arrow.take(shown, codes[begin]), arrow.take(values, latest), ":")
    return _joined("{", owner[begin], texts, rows, "}")


def _joined(before: str, owner: I64, values: Column, rows: I64, behind: str) -> Column:
    """Return the values of each row, joined by commas. owner: the row of each value."""
    order = np.argsort(owner, kind="stable")
    offsets = np.zeros(len(rows) + 1, np.int32)
    offsets[1:] = np.searchsorted(owner[order], rows, "right")
    untyped: Any = arrow.array(offsets)
    lists: Column = pa.ListArray.from_arrays(untyped, arrow.take(values, order))
    return pc.binary_join_element_wise(before, pc.binary_join(lists, ","), behind, "")


def _places(row: I64) -> tuple[I64, I64]:
    """Return an order by row, and the place of each value among those of its row."""
    order = np.argsort(row, kind="stable")
    ordered = row[order]
    first = np.searchsorted(ordered, ordered)
    return order, np.arange(len(row)) - first


def _has(picked: Picked, count: int) -> Mask:
    has = np.zeros(count, np.bool_)
    has[picked.row] = True
    return has


def _of(picked: Picked, mask: Mask) -> Picked:
    return picked.where(mask[picked.row])


def _last(picked: Picked) -> Picked:
    """Return the last field of each row."""
    if not len(picked):
        return picked
    _, last = np.unique(picked.row[::-1], return_index=True)
    at = len(picked) - 1 - last
    return Picked(picked.row[at], picked.value[at], picked.at[at])


def _texts(block: PacketBlock, picked: Picked) -> Column:
    encoded = arrow.encoded(slices(block.data, picked))
    shown = [orjson.dumps(each.decode("utf-8", "replace")).decode() for each in arrow.binaries(encoded.dictionary)]
    return arrow.take(arrow.array(shown, pa.string()), encoded.indices.to_numpy())


def number_json(value: float) -> str:
    """Return a number as JSON; one that is not finite as text."""
    return orjson.dumps(value).decode() if math.isfinite(value) else f'"{value}"'


BOOL, UINT, INT, DOUBLE, STRING, POINTER, NESTED = 2, 3, 4, 5, 6, 7, 8
JSON, DICT, LIST, PROTO, INTERNED = 9, 11, 12, 14, 17
_WIRES = {BOOL: 0, UINT: 0, INT: 0, DOUBLE: 1, STRING: 2, POINTER: 0, JSON: 2, INTERNED: 0}


class ArgMembers:
    """Members of the args of some rows: rows, numbers of keys, JSON of values."""

    def __init__(self, texts: PacketTexts) -> None:
        self._texts = texts
        self._rows: list[I64] = []
        self._keys: list[I32] = []
        self._values: list[Column] = []

    def add(self, rows: I64, keys: I32, values: Column) -> None:
        """Add members. rows, keys, values: shape (n,)."""
        if len(rows):
            self._rows.append(rows)
            self._keys.append(keys)
            self._values.append(values)

    def add_same(self, rows: I64, key: str, values: Column) -> None:
        """Add members with the same key."""
        self.add(rows, np.full(len(rows), self._texts.code(key), np.int32), values)

    def column(self, count: int) -> Column:
        """Return the objects of `count` rows as JSON, null for a row without members."""
        if not self._rows:
            return arrow.nulls(count, pa.string())
        rows, keys = np.concatenate(self._rows), np.concatenate(self._keys)
        own = np.arange(len(rows))
        if len(self._rows) > 1 or np.any(rows[1:] < rows[:-1]):
            own = np.argsort(rows, kind="stable")
            rows, keys = rows[own], keys[own]
        # Each row is a list of pieces, such as `{"a":` and `1` and `,"b":` and `2` and `}`: Arrow copies all at once.
        begins = np.append(True, rows[1:] != rows[:-1])
        used, key = distinct(self._apart(rows, keys) * 2 + begins)
        shown = [f"{'{' if code % 2 else ','}{self._texts.json_of(code // 2)}:" for code in used.tolist()]
        pieces = pa.concat_arrays([arrow.array([*shown, "}"], pa.string()), *self._values])
        members = np.bincount(rows, minlength=count)
        has = members > 0
        bounds = np.zeros(count + 1, np.int64)
        np.cumsum(2 * members + has, out=bounds[1:])
        order = np.empty(int(bounds[-1]), np.int64)
        place = 2 * np.arange(len(rows)) + np.cumsum(begins) - 1
        order[place], order[place + 1] = key, own + (len(shown) + 1)
        order[bounds[1:][has] - 1] = len(shown)
        offsets, data = arrow.text_parts(arrow.take(pieces, order))
        valid = None if has.all() else arrow.array(has).buffers()[1]
        ends = offsets[bounds].astype(np.int32)
        whole: Column = pa.Array.from_buffers(pa.string(), count, [valid, arrow.buffer(ends), arrow.buffer(data)])
        return whole

    def _apart(self, rows: I64, keys: I32) -> I64:
        """Return the keys; one that a row has already gets a number behind it."""
        if bool((rows[1:] > rows[:-1]).all()):
            # One member each: none can be there twice.
            return keys.astype(np.int64)
        pairs = rows * len(self._texts.all) + keys
        order = np.argsort(pairs, kind="stable")
        again = np.flatnonzero(np.diff(pairs[order]) == 0)
        if not len(again):
            return keys.astype(np.int64)
        out = keys.astype(np.int64)
        seen: dict[int, int] = {}
        for place in order[again + 1].tolist():
            pair = int(pairs[place])
            seen[pair] = seen.get(pair, 1) + 1
            out[place] = self._texts.code(f"{self._texts.all[int(keys[place])]} ({seen[pair]})")
        return out


@dataclass(frozen=True, slots=True, eq=False)
class DecodedAnnotations:
    """Annotations whose fields and keys were read. row: the event, or the annotation, that each is of."""

    row: I64
    fields: Fields
    keys: I32

    def among(self, kept: Mask) -> DecodedAnnotations:
        """Return some of the annotations."""
        return DecodedAnnotations(self.row[kept], self.fields.among(kept), self.keys[kept])


def annotations_of(
    block: PacketBlock, stated: Stated, texts: PacketTexts, found: Picked, owner: I64
) -> DecodedAnnotations:
    """Return annotations with their fields and keys. found: their rows and bytes. owner: the packet of each."""
    fields = scan(block.view, found.at, found.ends)
    return DecodedAnnotations(found.row, fields, keys_of(block, stated, texts, fields, owner))


def read_annotations(
    block: PacketBlock, stated: Stated, texts: PacketTexts, found: DecodedAnnotations, packets: I64, members: ArgMembers
) -> None:
    """Add the annotations of events. packets: the packet of each event."""
    if len(found.row):
        members.add(found.row, found.keys, _read(block, stated, texts, found, packets[found.row], 0))


def _read(
    block: PacketBlock, stated: Stated, texts: PacketTexts, found: DecodedAnnotations, owner: I64, depth: int
) -> Column:
    """Return the value of each annotation as JSON. owner: the packet of each."""
    count, inner = len(found.row), found.fields
    rows: list[I64] = [np.arange(count)]
    values: list[Column] = [pa.repeat("null", count)]
    for kind, wire in _WIRES.items():
        picked = inner.of(kind, wire)
        if len(picked):
            rows.append(picked.row)
            values.append(_values(kind, block, stated, texts, picked, owner[picked.row]))
    for kind in (LIST, DICT):
        picked = inner.of(kind, 2)
        if not len(picked):
            continue
        parents, place = distinct(picked.row)
        if depth >= _DEPTH:
            shown: Column = arrow.array(['"..."'] * len(parents), pa.string())
        else:
            within = annotations_of(block, stated, texts, picked, owner[picked.row])
            each = _read(block, stated, texts, within, owner[picked.row], depth + 1)
            shown = (
                _lists(place, each, len(parents))
                if kind == LIST
                else _objects(texts, place, within.keys, each, len(parents))
            )
        rows.append(parents)
        values.append(shown)
    for kind, convert in ((NESTED, read_nested), (PROTO, _hex)):
        picked = inner.of(kind, 2)
        if len(picked):
            rows.append(picked.row)
            values.append(convert(block, picked))
    if len(rows) == 2 and len(rows[1]) == count and bool((rows[1] == rows[0]).all()):
        return values[1]
    place = np.empty(count, np.int64)
    every = np.concatenate(rows)
    place[every] = np.arange(len(every))
    return arrow.take(pa.concat_arrays(values), place)


def _lists(parents: I64, values: Column, count: int) -> Column:
    """Return JSON lists. parents: shape (n,), the list of each value."""
    order = np.argsort(parents, kind="stable")
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(parents, minlength=count), out=offsets[1:])
    untyped: Any = arrow.array(offsets)
    lists: Column = pa.ListArray.from_arrays(untyped, arrow.take(values, order))
    return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")


def _objects(texts: PacketTexts, parents: I64, keys: I32, values: Column, count: int) -> Column:
    members = ArgMembers(texts)
    members.add(parents, keys, values)
    return members.column(count)


def keys_of(block: PacketBlock, stated: Stated, texts: PacketTexts, inner: Fields, owner: I64) -> I32:
    """Return the number of the key of each annotation. inner: their fields. owner: the packet of each."""
    keys = np.full(len(owner), texts.code("argument"), np.int32)
    for picked, interned in ((inner.of(10, 2), False), (inner.of(1, 0), True)):
        if len(picked):
            stated_keys = (
                stated.texts(owner[picked.row], KEYS, picked.value.view(np.int64))
                if interned
                else texts.codes(block.data, picked)
            )
            good = stated_keys != NONE
            keys[picked.row[good]] = stated_keys[good]
    return keys


def texts_of(kind: int, block: PacketBlock, stated: Stated, texts: PacketTexts, picked: Picked, owner: I64) -> I32:
    """Return the number of the text that each annotation has as its value, NONE without one. kind: of the value."""
    if kind == STRING:
        return texts.codes(block.data, picked)
    return stated.texts(owner[picked.row], STRINGS, picked.value.view(np.int64))


def _values(kind: int, block: PacketBlock, stated: Stated, texts: PacketTexts, picked: Picked, owner: I64) -> Column:
    if kind == BOOL:
        return arrow.array(np.where(picked.value != 0, "true", "false").astype(object), pa.string())
    if kind == UINT:
        return arrow.array(picked.value).cast(pa.string())
    if kind == INT:
        return arrow.array(picked.value.view(np.int64)).cast(pa.string())
    if kind == POINTER:
        values, place = distinct(picked.value)
        return arrow.take(arrow.array([f'"0x{value:x}"' for value in values.tolist()], pa.string()), place)
    if kind == DOUBLE:
        bits, place = distinct(picked.value)
        shown = [number_json(value) for value in bits.view(np.float64).tolist()]
        return arrow.take(arrow.array(shown, pa.string()), place)
    if kind == INTERNED:
        codes = stated.texts(owner, STRINGS, picked.value.view(np.int64))
        return texts.json(np.where(codes == NONE, texts.code(""), codes))
    encoded = arrow.encoded(slices(block.data, picked))
    convert = _json_text if kind == JSON else _json_string
    converted = [convert(each) for each in arrow.binaries(encoded.dictionary)]
    return arrow.take(arrow.array(converted, pa.string()), encoded.indices.to_numpy())


def _json_string(data: bytes) -> str:
    return orjson.dumps(data.decode("utf-8", "replace")).decode()


def _json_text(data: bytes) -> str:
    try:
        return orjson.dumps(orjson.loads(data)).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
        return _json_string(data)


def json_of(value: object) -> str:
    """Return a value as JSON; a number that is not finite as text."""
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, orjson.JSONEncodeError):
        return orjson.dumps(repr(value)).decode()


def _hex(block: PacketBlock, picked: Picked) -> Column:
    encoded = arrow.encoded(slices(block.data, picked))
    shown = arrow.array([f'"{each.hex()}"' for each in arrow.binaries(encoded.dictionary)], pa.string())
    return arrow.take(shown, encoded.indices.to_numpy())
