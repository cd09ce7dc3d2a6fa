"""JSON of facts in our own files (ASCII, strict, the same text each time), and the JSON objects of `args`."""

from __future__ import annotations

import json
import math
from typing import NoReturn

import orjson

_OWN_KEYS = """
    name raw_name copy_kind device context stream tid correlation step bytes grid grid_x grid_y grid_z block block_x
    block_y block_z registers static_smem_bytes dynamic_smem_bytes value dur_ns args args_text
"""
OWN_KEYS = frozenset(_OWN_KEYS.split())
"""Keys of an event's args that hold columns. An args object of the row that uses one of them is not merged."""


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    return str(value)


def facts_json(value: object) -> str:
    """Return compact JSON of facts: integers of any size, lone surrogates of file names escaped, NaN as text.

    >>> facts_json({"a": [1, float("nan")], "b": "é"})
    '{"a":[1,"nan"],"b":"\\\\u00e9"}'
    """
    return json.dumps(_plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def parsed(text: str) -> dict[str, object] | None:
    """Return the JSON object of an args text, None where it is not one."""
    try:
        value: object = orjson.loads(text)
    except ValueError:
        try:  # orjson refuses lone surrogates and objects nested beyond its limit
            value = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None
