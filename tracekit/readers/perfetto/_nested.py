"""Nested values of older producers (DebugAnnotation.NestedValue) as JSON, level by level."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask
from tracekit.columns.arrow import Column, pc
from tracekit.readers.engine.wire import Fields, Picked, scan
from tracekit.readers.packets.framing import Block
from tracekit.readers.packets.texts import distinct, slices

_DEPTH = 16
_KIND, _KEYS, _MEMBERS, _ITEMS, _INT, _DOUBLE, _BOOL, _STRING = range(1, 9)
_DICT, _LIST = 1, 2


def read_nested(block: Block, found: Picked, depth: int = 0) -> Column:
    """Return values as JSON. A dictionary has as many members as it has both keys and values; the last of a key counts.

    found: bytes of the values. depth: of the lists and dictionaries that they are in.
    """
    count = len(found)
    if depth > _DEPTH:
        return arrow.array(['"..."'] * count, pa.string())
    inner = scan(block.view, found.at, found.ends)
    kind, _ = inner.of(_KIND, 0).last(count)
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
        parts.append((rows, _objects(block, _of(keys, is_dict), _of(members, is_dict), rows, depth)))
    if is_list.any():
        rows = np.flatnonzero(is_list)
        own = _of(items, is_list)
        parts.append((rows, _joined("[", own.row, read_nested(block, own, depth + 1), rows, "]")))
    for rows, values in _scalars(block, inner, free):
        parts.append((rows, values))
    for rows, values in parts:
        place[rows] = size + np.arange(len(rows))
        shown.append(values)
        size += len(rows)
    return arrow.take(pa.concat_arrays(shown), place)


def _scalars(block: Block, inner: Fields, free: Mask) -> list[tuple[I64, Column]]:
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


def _objects(block: Block, keys: Picked, members: Picked, rows: I64, depth: int) -> Column:
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


def _texts(block: Block, picked: Picked) -> Column:
    encoded = arrow.encoded(slices(block.data, picked))
    shown = [orjson.dumps(each.decode("utf-8", "replace")).decode() for each in arrow.binaries(encoded.dictionary)]
    return arrow.take(arrow.array(shown, pa.string()), encoded.indices.to_numpy())


def number_json(value: float) -> str:
    """Return a number as JSON; one that is not finite as text."""
    return orjson.dumps(value).decode() if math.isfinite(value) else f'"{value}"'
