"""Debug annotations: the args of an event, as Perfetto shows them.

Texts of `args` are JSON objects; each distinct text is written once. Texts that differ in digits alone, and
texts with the same keys, are written together, by columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import F64, I64, Column, DictColumn, Mask, Rows, pc
from tracekit.model.digits import varint, varint_sizes
from tracekit.writers.json_text import OWN_KEYS, all_parsed
from tracekit.writers.perfetto._alike import AlikeObjects, Constant, alike_objects
from tracekit.writers.perfetto._interned_names import KEY, InternedNames, Text
from tracekit.writers.perfetto._wire import BINARY, WireCells, binary, double, message, number, sizes_of, text, words

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
    count = len(args.dictionary)
    alike = [each for each in alike_objects(args.dictionary, _TOGETHER) if OWN_KEYS.isdisjoint(each.values)]
    rest = np.ones(count, np.bool_)
    for objects in alike:
        rest[objects.members] = False
    others = np.flatnonzero(rest)
    texts = dict(zip(others.tolist(), all_parsed(arrow.take(args.dictionary, others)), strict=True))
    groups = _groups(texts)
    # Names are numbered in the order in which the texts use them.
    first = [(int(objects.members[0]), tuple(objects.values)) for objects in alike]
    first += [(members[0], keys) for keys, members in groups.items()]
    number: dict[tuple[str, ...], int] = {}
    needs: list[tuple[Text, ...]] = []
    for _, keys in sorted(first):
        if keys not in number:
            number[keys] = len(needs)
            needs.append(tuple((KEY, interned.iid(KEY, key)) for key in keys))
    parts: list[Column] = []
    places: list[I64] = []
    need = np.zeros(count, np.int64)
    for objects in alike:
        need[objects.members] = number[tuple(objects.values)]
        parts.append(_of_columns(needs[number[tuple(objects.values)]], objects))
        places.append(objects.members)
    for keys, members in groups.items():
        need[members] = number[keys]
        iids = [iid for _, iid in needs[number[keys]]]
        same_keys = _objects(args.dictionary, texts, members, keys)
        columns = zip(*(each.values() for each in same_keys), strict=True)
        parts.append(
            _together(iids, columns, len(members)) if len(members) >= _TOGETHER else _one_by_one(iids, same_keys)
        )
        places.append(np.array(members, np.int64))
    order = np.empty(count, np.int64)
    if parts:
        order[np.concatenate(places)] = np.arange(count)
    data = arrow.take(pa.concat_arrays(parts), order) if parts else binary(order, np.empty(0, np.uint8))
    return Annotations(arrow.codes(args), data, sizes_of(data), need, needs)


def _groups(texts: dict[int, dict[str, object] | None]) -> dict[tuple[str, ...], list[int]]:
    """Return the numbers of the texts by the keys that they are written with."""
    groups: dict[tuple[str, ...], list[int]] = {}
    of_keys: dict[tuple[str, ...] | None, list[int]] = {}
    for at, found in texts.items():
        keys = None if found is None else tuple(found)
        members = of_keys.get(keys)
        if members is None:
            members = of_keys[keys] = groups.setdefault(_written_keys(keys), [])
        members.append(at)
    return groups


def _of_columns(names: tuple[Text, ...], objects: AlikeObjects) -> Column:
    """Return the annotations of objects whose texts are alike. names: of the keys."""
    cells = WireCells(len(objects.members))
    for (_, iid), values in zip(names, objects.values.values(), strict=True):
        if isinstance(values, Constant):
            cells.put(annotation(iid, values.value))
        elif values.dtype == np.float64:
            put_doubles(cells, varint(iid), values.astype(np.float64, copy=False))
        else:
            put_integers(cells, varint(iid), values.astype(np.int64, copy=False))
    return cells.column()


_NO_OBJECT, _WHOLE = ("args_text",), ("args",)


def _written_keys(keys: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the keys with which an object of args is written; see `writers/chrome` for the same rule."""
    if keys is None:
        return _NO_OBJECT
    return keys if OWN_KEYS.isdisjoint(keys) else _WHOLE


def _objects(
    sources: Column, texts: dict[int, dict[str, object] | None], members: list[int], keys: tuple[str, ...]
) -> list[dict[str, object]]:
    """Return what these texts of args are written as, all with the same keys."""
    found = [texts[at] for at in members]
    if keys == _NO_OBJECT:
        return [{"args_text": sources[at].as_py()} for at in members]
    if keys == _WHOLE:
        return [{"args": each} for each in found]
    return [each for each in found if each is not None]


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
