"""Columns of EVENTS that the arguments of events hold in Perfetto traces that tracekit wrote.

The writer puts the columns before the arguments of the input: {"correlation":7,"step":2,"External id":5}. So they are
the first members of the text, and the rest of it are the arguments as they were. A text that is not so, such as one
whose arguments are apart because a name of theirs is that of a column, is taken apart by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import Column, Mask, pc
from tracekit.readers.engine.protobuf import INT32_MAX, INT64_MAX

SHAPES = {"grid": ("grid_x", "grid_y", "grid_z"), "block": ("block_x", "block_y", "block_z")}
SMALL = ("device", "step", "registers", *SHAPES["grid"], *SHAPES["block"])
WIDE = ("context", "stream", "tid", "correlation", "bytes", "static_smem_bytes", "dynamic_smem_bytes", "dur_ns")
TEXTS = ("raw_name", "copy_kind")
TYPES: dict[str, pa.DataType] = {
    **dict.fromkeys(SMALL, pa.int32()), **dict.fromkeys(WIDE, pa.int64()), **dict.fromkeys(TEXTS, pa.string()),
    "value": pa.float64(), "args": pa.string(),
}  # fmt: skip
"""The columns, and `args`: what is left."""


def _one_of(names: tuple[str, ...], value: str) -> str:
    return f'"(?:{"|".join(names)})":{value}'


_MEMBER = "|".join((
    _one_of(SMALL, "-?[0-9]{1,9}"), _one_of(WIDE, "-?[0-9]{1,18}"), _one_of(TEXTS, r'"(?:[^"\\]|\\.)*"'),
    _one_of(tuple(SHAPES), r"\[(?:-?[0-9]{1,9},){2}-?[0-9]{1,9}\]"),
))  # fmt: skip
_PARTS = rf"(?s)^\{{(?P<own>(?:(?:{_MEMBER})[,}}])*)(?P<rest>.*)$"
_ODD = _one_of((*SMALL, *WIDE, *TEXTS, *SHAPES, "value", "args", "args_text"), "")
_INT32S = pa.list_(pa.int32())
_STORED = pa.schema([(name, TYPES[name]) for name in (*SMALL, *WIDE, *TEXTS)] + [(name, _INT32S) for name in SHAPES])
_BLOCK_BYTES = 1 << 20


def naming_columns(texts: Column) -> Mask | None:
    """Return which texts may hold a column, None where none does. texts: as in `columns_of`."""
    offsets, data = arrow.text_parts(texts)
    # One search over the bytes of all texts: a name and its colon are within one text, since each ends with a brace.
    whole = arrow.text_column(offsets[[0, -1]], data, pa.large_string())
    if not pc.match_substring_regex(whole, _ODD)[0].as_py():
        return None
    return arrow.bools(pc.fill_null(pc.match_substring_regex(texts, _ODD), False))


def columns_of(texts: Column) -> dict[str, Column]:
    """Return each column of TYPES for these texts of args, and a null behind the last. texts: JSON objects or nulls."""
    count = len(texts)
    if not count:
        return {name: arrow.nulls(1, kind) for name, kind in TYPES.items()}
    parts = pc.extract_regex(texts, _PARTS)
    own, rest = pc.struct_field(parts, 0), pc.struct_field(parts, 1)
    odd = arrow.bools(pc.fill_null(pc.match_substring_regex(rest, _ODD), False))
    held = _stored(pc.if_else(arrow.array(odd), pa.scalar("", pa.string()), own))
    none = pa.scalar(None, pa.string())
    empty = pc.or_(pc.equal(rest, ""), pc.equal(rest, "}"))
    held["args"] = pc.if_else(empty, none, pc.binary_join_element_wise("{", rest, ""))
    rows = np.flatnonzero(odd)
    apart = [split(text) for text in arrow.optional_texts(arrow.take(texts, rows))]
    place = np.arange(count + 1)
    place[rows] = count + np.arange(len(rows))
    place[count] = count + len(rows)
    out = {}
    for name, kind in TYPES.items():
        usual = held.get(name, arrow.nulls(count, kind))
        others = arrow.array([*(found.get(name) for found in apart), None], kind)
        out[name] = arrow.take(pa.concat_arrays([usual, others]), place)
    return out


def _stored(own: Column) -> dict[str, Column]:
    """Return the columns in the members of each text, `"a":1,"b":2}` or `"a":1,`; a null has none."""
    from pyarrow import json

    objects = pc.binary_join_element_wise("{", pc.utf8_rtrim(pc.fill_null(own, ""), ",}"), "}", "")
    ends, lines = arrow.text_parts(pc.binary_join_element_wise(objects, "\n", ""))
    longest = int(np.diff(ends).max())
    table = json.read_json(
        arrow.byte_file(lines[ends[0] : ends[-1]].tobytes()),
        json.ReadOptions(use_threads=False, block_size=max(_BLOCK_BYTES, 2 * longest)),
        json.ParseOptions(explicit_schema=_STORED, unexpected_field_behavior="error"),
    )
    held: dict[str, Column] = {
        name: table.column(name).combine_chunks() for name in _STORED.names if name not in SHAPES
    }
    for shape, axes in SHAPES.items():
        sizes: Any = table.column(shape).combine_chunks()
        known = arrow.valid(sizes)
        numbers = np.zeros((len(sizes), len(axes)), np.int32)
        numbers[known] = arrow.ints(sizes.flatten()).reshape(-1, len(axes))
        for axis, number in zip(axes, numbers.T, strict=True):
            held[axis] = pc.coalesce(held[axis], arrow.array(np.ascontiguousarray(number), mask=~known))
    return held


def split(text: str | None) -> dict[str, object]:
    """Return the columns that an object of args holds, and as `args` what is left of it."""
    if text is None:
        return {}
    members = orjson.loads(text)
    found: dict[str, object] = {}
    for key, columns in SHAPES.items():
        sizes = members.get(key)
        if isinstance(sizes, list) and len(sizes) == len(columns) and all(_fits(size, INT32_MAX) for size in sizes):
            found |= dict(zip(columns, sizes, strict=True))
            del members[key]
    for names, most in ((SMALL, INT32_MAX), (WIDE, INT64_MAX)):
        for name in names:
            if _fits(members.get(name), most):
                found[name] = members.pop(name)
    for name in TEXTS:
        if isinstance(members.get(name), str):
            found[name] = members.pop(name)
    if isinstance(members.get("value"), float):
        found["value"] = members.pop("value")
    if isinstance(members.get("args_text"), str):
        found["args"] = members["args_text"]
    elif isinstance(members.get("args"), dict):
        found["args"] = orjson.dumps(members["args"]).decode()
    elif members:
        found["args"] = orjson.dumps(members).decode()
    return found


def _fits(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= most
