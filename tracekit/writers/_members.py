"""Members of the JSON objects in `args`, as columns of text: rows whose objects have the same keys go together."""

from __future__ import annotations

import re

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

_VALUE = r'(?:"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null)'
_KEY = r'"[A-Za-z_][A-Za-z0-9_]*"'
_FLAT = re.compile(rf"\{{(?:{_KEY}:(?:,{_KEY}:)*)?\}}", re.ASCII)


def members(args: pa.Array) -> tuple[dict[str, pa.Array], int]:
    """Return key -> JSON text of its value (null where a row lacks it), and how many members found no column.

    args: strings, each a JSON object or null. A member that is an object or a list, or whose key is no identifier,
    finds no column.
    """
    columns: dict[str, list[tuple[np.ndarray[tuple[int], np.dtype[np.intp]], pa.Array]]] = {}
    lost = 0
    encoded = pc.replace_substring_regex(args, rf'(":){_VALUE}', r"\1").dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy()
    for code, skeleton in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        mine = args.take(pa.array(rows))
        keys = re.findall(r'"(\w+)":', skeleton) if _FLAT.fullmatch(skeleton) else []
        if _FLAT.fullmatch(skeleton) and len(set(keys)) == len(keys) < 60:
            parts = ",".join(f'"{key}":(?P<m{at}>{_VALUE})' for at, key in enumerate(keys))
            if keys:
                found: pa.StructArray = pc.extract_regex(mine, rf"^\{{{parts}\}}$")
                for at, key in enumerate(keys):
                    columns.setdefault(key, []).append((rows, found.field(at)))
            continue
        for row, text in zip(rows.tolist(), mine.to_pylist(), strict=True):
            try:
                found_here = orjson.loads(text)
            except orjson.JSONDecodeError:
                found_here = None
            if not isinstance(found_here, dict):
                lost += 1
                continue
            for key, value in found_here.items():
                if isinstance(value, (dict, list)) or not re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII):
                    lost += 1
                else:
                    columns.setdefault(key, []).append((np.array([row]), pa.array([orjson.dumps(value).decode()])))
    return {key: _scattered(parts, len(args)) for key, parts in columns.items()}, lost


def _scattered(parts: list[tuple[np.ndarray[tuple[int], np.dtype[np.intp]], pa.Array]], count: int) -> pa.Array:
    """Return one array of `count` texts from parts that know their rows."""
    place = np.full(count, -1, np.int64)
    at = 0
    for rows, texts in parts:
        place[rows] = np.arange(at, at + len(texts))
        at += len(texts)
    return pa.concat_arrays([texts for _, texts in parts]).take(pa.array(place, mask=place < 0))
