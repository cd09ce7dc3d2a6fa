"""Debug annotations of events as JSON objects, column by column.

Each annotation becomes the text of one member, `"key":value`; Arrow joins those of an event. Messages within messages
(dictionaries, lists) are decoded one by one, each distinct one once.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I32, I64
from tracekit.columns.arrow import Column, pc
from tracekit.readers.packets.fields import KEYS, STRINGS
from tracekit.readers.packets.framing import Block
from tracekit.readers.packets.message import Message
from tracekit.readers.packets.sequences import Stated
from tracekit.readers.packets.texts import NONE, Texts, distinct, slices
from tracekit.readers.packets.wire import Fields, Picked, scan

BOOL, UINT, INT, DOUBLE, STRING, POINTER, NESTED = 2, 3, 4, 5, 6, 7, 8
JSON, DICT, LIST, PROTO, INTERNED = 9, 11, 12, 14, 17
_DEPTH = 16
_WIRES = {BOOL: 0, UINT: 0, INT: 0, DOUBLE: 1, STRING: 2, POINTER: 0, JSON: 2, INTERNED: 0}
_DEEP = (NESTED, DICT, LIST, PROTO)


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
    if not len(found):
        return
    inner = scan(block.view, found.at, found.ends)
    owner = packets[found.row]
    keys = _keys(block, stated, texts, inner, owner)
    bad = np.zeros(len(found), np.bool_)
    bad[inner.bad] = True
    for kind, wire in _WIRES.items():
        picked = inner.of(kind, wire)
        if not len(picked):
            continue
        values = _values(kind, block, stated, texts, picked, owner[picked.row])
        members.add(found.row[picked.row], keys[picked.row], values)
        bad[picked.row] = False
    deep = np.unique(np.concatenate([inner.of(kind, 2).row for kind in _DEEP]))
    if len(deep):
        members.add(found.row[deep], keys[deep], _deep(block, stated, texts, found, owner, deep))
    bad[deep] = False
    known = np.zeros(len(found), np.bool_)
    known[inner.row[np.isin(inner.number, (*_WIRES, *_DEEP))]] = True
    nothing = np.flatnonzero(~known | bad)
    members.add(found.row[nothing], keys[nothing], arrow.array(["null"] * len(nothing), pa.string()))


def _keys(block: Block, stated: Stated, texts: Texts, inner: Fields, owner: I64) -> I32:
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


def number_json(value: float) -> str:
    """Return a number as JSON; one that is not finite as text."""
    return orjson.dumps(value).decode() if math.isfinite(value) else f'"{value}"'


def _json_string(data: bytes) -> str:
    return orjson.dumps(data.decode("utf-8", "replace")).decode()


def _json_text(data: bytes) -> str:
    try:
        return orjson.dumps(orjson.loads(data)).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
        return _json_string(data)


def _deep(block: Block, stated: Stated, texts: Texts, found: Picked, owner: I64, rows: I64) -> Column:
    """Return the JSON of the annotations of some rows that hold others."""
    shown = []
    known: dict[tuple[int, bytes], str] = {}
    for row in rows.tolist():
        start = int(found.at[row])
        raw = block.data[start : start + int(found.value[row])].tobytes()
        interned = stated.states[stated.state[owner[row]]].interned
        key = id(interned), raw
        text = known.get(key)
        if text is None:
            text = known[key] = json_of(_Deep(interned.texts, texts.all).value(Message(raw), 0))
        shown.append(text)
    return arrow.array(shown, pa.string())


def json_of(value: object) -> str:
    """Return a value as JSON; a number that is not finite as text."""
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, orjson.JSONEncodeError):
        return orjson.dumps(repr(value)).decode()


@dataclass(frozen=True, slots=True)
class _Deep:
    """Reads an annotation with all within it. interned: of its sequence."""

    interned: dict[tuple[int, int], int]
    texts: list[str]

    def _text(self, kind: int, iid: int) -> str:
        code = self.interned.get((kind, iid & (1 << 64) - 1))
        return "" if code is None else self.texts[code]

    def value(self, found: Message, depth: int) -> object:
        """Return the value of an annotation."""
        if depth > _DEPTH:
            return "..."
        if DICT in found:
            return self._object([Message(each) for each in found.each(DICT)], depth)
        if LIST in found:
            return [self.value(Message(each), depth + 1) for each in found.each(LIST)]
        if NESTED in found:
            return self._nested(Message(found.bytes(NESTED)), depth)
        if BOOL in found:
            return found.number(BOOL) != 0
        if UINT in found:
            return found.number(UINT) & (1 << 64) - 1
        if INT in found:
            return found.number(INT)
        if DOUBLE in found:
            return _double(found.number(DOUBLE))
        if STRING in found:
            return found.text(STRING)
        if INTERNED in found:
            return self._text(STRINGS, found.number(INTERNED))
        if POINTER in found:
            return f"0x{found.number(POINTER) & (1 << 64) - 1:x}"
        if JSON in found:
            return orjson.loads(_json_text(found.bytes(JSON)))
        return found.bytes(PROTO).hex() if PROTO in found else None

    def _object(self, entries: list[Message], depth: int) -> dict[str, object]:
        out: dict[str, object] = {}
        for each in entries:
            name = each.text(10) if 10 in each else self._text(KEYS, each.number(1))
            while name in out:
                name += "'"
            out[name] = self.value(each, depth + 1)
        return out

    def _nested(self, found: Message, depth: int) -> object:
        """Return a NestedValue: of older producers."""
        if depth > _DEPTH:
            return "..."
        kind = found.number(1)
        if kind == 1 or 2 in found or 3 in found:
            values = [self._nested(Message(each), depth + 1) for each in found.each(3)]
            names = [each.decode("utf-8", "replace") for each in found.each(2)]
            return dict(zip(names, values, strict=False))
        if kind == 2 or 4 in found:
            return [self._nested(Message(each), depth + 1) for each in found.each(4)]
        if 5 in found:
            return found.number(5)
        if 6 in found:
            return _double(found.number(6))
        if 7 in found:
            return found.number(7) != 0
        return found.text(8) if 8 in found else None


def _double(bits: int) -> float | str:
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value if math.isfinite(value) else str(value)
