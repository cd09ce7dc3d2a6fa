"""Debug annotations of events as JSON objects, column by column.

Each annotation becomes the text of one member, `"key":value`; Arrow joins those of an event. Those within lists and
dictionaries are read in the same way, level by level.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I32, I64
from tracekit.columns.arrow import Column, pc
from tracekit.readers.engine.wire import Fields, Picked, scan
from tracekit.readers.packets.fields import KEYS, STRINGS
from tracekit.readers.packets.framing import Block
from tracekit.readers.packets.sequences import Stated
from tracekit.readers.packets.texts import NONE, Texts, distinct, slices
from tracekit.readers.perfetto._nested import number_json, read_nested

BOOL, UINT, INT, DOUBLE, STRING, POINTER, NESTED = 2, 3, 4, 5, 6, 7, 8
JSON, DICT, LIST, PROTO, INTERNED = 9, 11, 12, 14, 17
_DEPTH = 16
_WIRES = {BOOL: 0, UINT: 0, INT: 0, DOUBLE: 1, STRING: 2, POINTER: 0, JSON: 2, INTERNED: 0}


class Members:
    """Members of the args of some rows: rows, numbers of keys, JSON of values."""

    def __init__(self, texts: Texts) -> None:
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
        values: Column = pa.concat_arrays(self._values)
        if len(self._rows) > 1 or np.any(rows[1:] < rows[:-1]):
            order = np.argsort(rows, kind="stable")
            rows, keys, values = rows[order], keys[order], arrow.take(values, order)
        names = self._texts.json(self._apart(rows, keys))
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
        items = pc.binary_join_element_wise(names, values, ":")
        untyped: Any = arrow.array(offsets)
        lists: Column = pa.ListArray.from_arrays(untyped, items)
        whole = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")
        empty = offsets[1:] == offsets[:-1]
        return pc.if_else(arrow.array(empty), pa.scalar(None, pa.string()), whole) if empty.any() else whole

    def _apart(self, rows: I64, keys: I32) -> I64:
        """Return the keys; one that a row has already gets a number behind it."""
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


def read_annotations(block: Block, stated: Stated, texts: Texts, found: Picked, packets: I64, members: Members) -> None:
    """Add the annotations of events. found: row of the event and bytes. packets: the packet of each event."""
    if len(found):
        keys, values = _read(block, stated, texts, found, packets[found.row], 0)
        members.add(found.row, keys, values)


def _read(block: Block, stated: Stated, texts: Texts, found: Picked, owner: I64, depth: int) -> tuple[I32, Column]:
    """Return the key of each annotation, and its value as JSON. owner: the packet of each."""
    count = len(found)
    inner = scan(block.view, found.at, found.ends)
    keys = keys_of(block, stated, texts, inner, owner)
    rows: list[I64] = [np.arange(count)]
    values: list[Column] = [arrow.array(["null"] * count, pa.string())]
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
            own, each = _read(block, stated, texts, picked, owner[picked.row], depth + 1)
            shown = (
                _lists(place, each, len(parents)) if kind == LIST else _objects(texts, place, own, each, len(parents))
            )
        rows.append(parents)
        values.append(shown)
    for kind, convert in ((NESTED, read_nested), (PROTO, _hex)):
        picked = inner.of(kind, 2)
        if len(picked):
            rows.append(picked.row)
            values.append(convert(block, picked))
    if len(rows) == 2 and len(rows[1]) == count and bool((rows[1] == rows[0]).all()):
        return keys, values[1]
    place = np.empty(count, np.int64)
    every = np.concatenate(rows)
    place[every] = np.arange(len(every))
    return keys, arrow.take(pa.concat_arrays(values), place)


def _lists(parents: I64, values: Column, count: int) -> Column:
    """Return JSON lists. parents: shape (n,), the list of each value."""
    order = np.argsort(parents, kind="stable")
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(parents, minlength=count), out=offsets[1:])
    untyped: Any = arrow.array(offsets)
    lists: Column = pa.ListArray.from_arrays(untyped, arrow.take(values, order))
    return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")


def _objects(texts: Texts, parents: I64, keys: I32, values: Column, count: int) -> Column:
    members = Members(texts)
    members.add(parents, keys, values)
    return members.column(count)


def keys_of(block: Block, stated: Stated, texts: Texts, inner: Fields, owner: I64) -> I32:
    """Return the number of the key of each annotation. inner: their fields. owner: the packet of each."""
    keys = np.full(len(owner), texts.code("argument"), np.int32)
    for picked, interned in ((inner.of(10, 2), False), (inner.of(1, 0), True)):
        if len(picked):
            own = (
                stated.texts(owner[picked.row], KEYS, picked.value.view(np.int64))
                if interned
                else texts.codes(block.data, picked)
            )
            good = own != NONE
            keys[picked.row[good]] = own[good]
    return keys


def texts_of(kind: int, block: Block, stated: Stated, texts: Texts, picked: Picked, owner: I64) -> I32:
    """Return the number of the text that each annotation has as its value, NONE without one. kind: of the value."""
    if kind == STRING:
        return texts.codes(block.data, picked)
    return stated.texts(owner[picked.row], STRINGS, picked.value.view(np.int64))


def _values(kind: int, block: Block, stated: Stated, texts: Texts, picked: Picked, owner: I64) -> Column:
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
    found = [convert(each) for each in arrow.binaries(encoded.dictionary)]
    return arrow.take(arrow.array(found, pa.string()), encoded.indices.to_numpy())


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


def _hex(block: Block, picked: Picked) -> Column:
    encoded = arrow.encoded(slices(block.data, picked))
    shown = arrow.array([f'"{each.hex()}"' for each in arrow.binaries(encoded.dictionary)], pa.string())
    return arrow.take(shown, encoded.indices.to_numpy())
