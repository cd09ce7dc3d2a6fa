"""JSON of facts in our own files: ASCII, strict, the same text each time."""

from __future__ import annotations

import json
import math


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
