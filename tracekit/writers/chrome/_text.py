"""Texts as both engines take them: escaped for JSON, and for the places where Perfetto's tokenizer is not JSON.

Found by trying Perfetto v52: a string whose last character is an escaped backslash (`\\\\"`) is taken for an escaped
quote, and the whole file is refused; a raw U+007F in a value outside `traceEvents` is refused too. Both are legal JSON,
so they are written as `\\u005c` and `\\u007f`: JSON.parse gives the same text. A control character below U+0020 is
escaped as JSON wants it. Perfetto shows escapes as they are written, but for `\\"`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

import orjson

from tracekit.writers.json_text import facts_json

OWN_KEYS = frozenset({
    "name", "raw_name", "copy_kind", "device", "context", "stream", "tid", "correlation", "step", "bytes", "grid",
    "grid_x", "grid_y", "grid_z", "block", "block_x", "block_y", "block_z", "registers", "static_smem_bytes",
    "dynamic_smem_bytes", "value", "dur_ns", "args", "args_text",
})  # fmt: skip
"""Keys of an event's args that hold columns: an args object of the row that uses one of them is not merged."""

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def quoted(text: str) -> str:
    """Return the text as a JSON string that JSON.parse and Perfetto both take.

    >>> print(quoted('say "hi"\\\\'))
    "say \\"hi\\"\\u005c"
    """
    try:
        out = orjson.dumps(text).decode()
    except TypeError:  # a lone surrogate, from a file name or a JSON escape: UTF-8 has no place for it
        out = orjson.dumps(text.encode("utf-8", "backslashreplace").decode()).decode()
    if out.endswith('\\\\"'):
        out = out[:-3] + '\\u005c"'
    return out.replace("\x7f", "\\u007f") if "\x7f" in out else out


def facts_text(facts: Mapping[str, Any]) -> str:
    """Return facts as compact ASCII JSON."""
    return facts_json(facts).replace("\x7f", "\\u007f")


def number(value: float) -> str:
    """Return a JSON number that reads back as the same double; what JSON has no number for as a string.

    >>> number(0.1), number(float("inf"))
    ('0.1', '"inf"')
    """
    return repr(value) if math.isfinite(value) else f'"{value!r}"'


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def parsed(text: str) -> dict[str, Any] | None:
    """Return the object that an args text is; None where it is no JSON object."""
    try:
        value = orjson.loads(text)
    except ValueError:
        try:  # orjson refuses lone surrogates and what is nested beyond its limit
            value = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def merged(text: str) -> str:
    """Return the members of an args object, each followed by a comma, to stand beside our own keys.

    Numbers and order stay as they were written. An empty object, or one that uses a key of ours, stands whole under
    "args"; a text that is no JSON object, as a string under "args_text".
    """
    value = parsed(text)
    if value is None:
        return f'"args_text":{quoted(text)},'
    body = text.strip()
    if "\\\\" in body:
        body = _ESCAPE.sub(lambda found: "\\u005c" if found[1] == "\\" else found[0], body)
    body = body.replace("\x7f", "\\u007f").replace("\r", " ").replace("\n", " ")
    if not value or not OWN_KEYS.isdisjoint(value):
        return f'"args":{body},'
    return body[1:-1] + ","
