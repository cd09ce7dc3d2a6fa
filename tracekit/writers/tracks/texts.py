"""Texts that both engines accept: escaped for JSON, and for the places where Perfetto's tokenizer differs from JSON.

Found with Perfetto v52: it reads an escaped backslash at the end of a string (`\\\\"`) as an escaped quote, and then
rejects the whole file. It also rejects a raw U+007F in a value outside `traceEvents`. Both are legal JSON, so they are
written as `\\u005c` and `\\u007f`, which JSON.parse reads as the same text. A control character below U+0020 is escaped
as JSON requires. Perfetto shows all escapes but `\\"` as they are written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import orjson

from tracekit.writers.json_text import OWN_KEYS, facts_json, parsed

__all__ = ["facts_text", "merged", "number_text", "quoted"]

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def quoted(text: str) -> str:
    """Return the text as a JSON string that JSON.parse and Perfetto both accept.

    >>> print(quoted('say "hi"\\\\'))
    "say \\"hi\\"\\u005c"
    """
    try:
        out = orjson.dumps(text).decode()
    except TypeError:  # a lone surrogate, from a file name or a JSON escape, which UTF-8 cannot hold
        out = orjson.dumps(text.encode("utf-8", "backslashreplace").decode()).decode()
    if out.endswith('\\\\"'):
        out = out[:-3] + '\\u005c"'
    return out.replace("\x7f", "\\u007f") if "\x7f" in out else out


def facts_text(facts: Mapping[str, object]) -> str:
    """Return facts as compact ASCII JSON."""
    return facts_json(facts).replace("\x7f", "\\u007f")


def number_text(value: float) -> str:
    """Return a JSON number that reads back as the same double; NaN and infinity become strings.

    >>> number_text(0.1), number_text(float("inf"))
    ('0.1', '"inf"')
    """
    return repr(value) if math.isfinite(value) else f'"{value!r}"'


def merged(text: str) -> str:
    """Return the members of an args object, each followed by a comma, as they are put beside our own keys.

    Numbers and order stay as they were written. An empty object, or one that uses a key of ours, is put under "args" as
    a whole. A text that is not a JSON object becomes a string under "args_text".
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
