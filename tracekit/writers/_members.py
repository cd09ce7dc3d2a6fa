"""Members of the JSON objects in `args`, as columns of text. Objects with the same keys are read together."""

from __future__ import annotations

import re

import numpy as np
import orjson
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import Rows
from tracekit.columns.arrow import Column, pc
from tracekit.writers.json_text import parsed

_VALUE = r'(?:"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null)'
_KEY = r'"[A-Za-z_][A-Za-z0-9_]*"'
_FLAT = re.compile(rf"\{{(?:{_KEY}:(?:,{_KEY}:)*)?\}}", re.ASCII)


def members(args: Column) -> tuple[dict[str, Column], int]:
    """Return key -> JSON text of its value (null where a row lacks it), and the number of members without a column.

    args: strings, each a JSON object or null. A member has no column if it is an object or a list, or if its key is not
    an identifier.
    """
    columns: dict[str, list[tuple[Rows, Column]]] = {}
    lost = 0
    skeletons = arrow.encoded(pc.replace_substring_regex(args, rf'(":){_VALUE}', r"\1"))
    codes = arrow.codes(skeletons)
    for code, skeleton in enumerate(arrow.texts(skeletons.dictionary)):
        rows = np.flatnonzero(codes == code)
        objects = arrow.take(args, rows)
        keys = re.findall(r'"(\w+)":', skeleton) if _FLAT.fullmatch(skeleton) else []
        if _FLAT.fullmatch(skeleton) and len(set(keys)) == len(keys) < 60:
            parts = ",".join(f'"{key}":(?P<m{at}>{_VALUE})' for at, key in enumerate(keys))
            if keys:
                values = pc.extract_regex(objects, rf"^\{{{parts}\}}$")
                for at, key in enumerate(keys):
                    columns.setdefault(key, []).append((rows, pc.struct_field(values, at)))
            continue
        for row, text in zip(rows.tolist(), arrow.texts(objects), strict=True):
            found = parsed(text)
            if found is None:
                lost += 1
                continue
            for key, value in found.items():
                exact = str(value) if type(value) is int else _json(value)
                if not exact or not re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII):
                    lost += 1
                else:
                    cell = arrow.array([exact])
                    columns.setdefault(key, []).append((np.array([row]), cell))
    return {key: _scattered(parts, len(args)) for key, parts in columns.items()}, lost


def _json(value: object) -> str:
    """Return the JSON of a value, "" for objects, lists and lone surrogates, which have no column."""
    try:
        return "" if isinstance(value, (dict, list)) else orjson.dumps(value).decode()
    except TypeError:
        return ""


def _scattered(parts: list[tuple[Rows, Column]], count: int) -> Column:
    """Return one column of `count` texts from parts with their row numbers."""
    place = np.full(count, -1, np.int64)
    at = 0
    for rows, texts in parts:
        place[rows] = np.arange(at, at + len(texts))
        at += len(texts)
    together: Column = pa.concat_arrays([texts for _, texts in parts])
    return together.take(arrow.array(place, mask=place < 0))
