"""JSON of facts in our own files (ASCII, strict, the same text each time), and the JSON objects of `args`."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from typing import NoReturn

import orjson

from tracekit.model import arrow
from tracekit.model.arrow import Column, pc

__all__ = ["OWN_KEYS", "all_parsed", "args_of", "facts_json", "parsed"]

_OWN_KEYS = """
    name raw_name copy_kind device context stream tid correlation step bytes grid grid_x grid_y grid_z block block_x
    block_y block_z registers static_smem_bytes dynamic_smem_bytes value dur_ns args args_text
"""
OWN_KEYS = frozenset(_OWN_KEYS.split())
"""Keys of an event's args that hold columns. An args object of the row that uses one of them is not merged."""

_LONG = re.compile(r"-\d{19}|\d{20}")
"""Digits of an integer that may be beyond 64 bits, of which orjson makes a double."""


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


def _double(text: str) -> float | str:
    """Return the number, or its text where a double has no room for it: 1e999."""
    value = float(text)
    return value if math.isfinite(value) else text


def parsed(text: str) -> dict[str, object] | None:
    """Return the JSON object of an args text, None where it is not one.

    Integers keep all digits; a number beyond a double is its text.

    >>> parsed('{"a": 1e999, "b": 123456789012345678901, "c": -9223372036854775809}')
    {'a': '1e999', 'b': 123456789012345678901, 'c': -9223372036854775809}
    """
    try:
        value: object = orjson.loads(text) if not _LONG.search(text) else _exact(text)
    except ValueError:
        try:  # orjson refuses lone surrogates, objects nested beyond its limit and numbers beyond a double
            value = _exact(text)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def all_parsed(texts: Column) -> list[dict[str, object] | None]:
    """Return what `parsed` gives for each text of args; none of them is null.

    >>> all_parsed(arrow.array(['{"a": 1}', "a", "[]"]))
    [{'a': 1}, None, None]
    """
    sources = arrow.texts(texts)
    if not pc.any(pc.match_substring_regex(texts, _LONG.pattern)).as_py():
        with suppress(ValueError):  # one of them needs to be looked at closely
            values: list[object] = list(map(orjson.loads, sources))
            return [value if isinstance(value, dict) else None for value in values]
    return list(map(parsed, sources))


def _exact(text: str) -> object:
    return json.loads(text, parse_constant=_refuse, parse_float=_double)


def args_of(text: str | None) -> dict[str, object]:
    """Return the object of the `args` of a row, {} without one."""
    return (parsed(text) or {}) if text is not None else {}
