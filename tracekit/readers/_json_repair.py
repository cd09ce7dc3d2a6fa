"""JSON objects that their producers broke: split and mended one by one, by rules that are certain enough to name.

What is mended: control characters in strings, escapes that JSON does not have (Windows paths: kineto issues 617, 750,
1459), NaN and Infinity (they become strings), lone surrogates, quotes inside strings (MXNet and Mini-Caffe write names
as they are). What cannot be mended is given back as None, and costs its record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

LONGEST_OBJECT = 4 << 20
MOST_TRIES = 64
"""Ends of one broken object that are tried."""

_TO_ITS_END = rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
"""A string; one without an end takes all that is left: the search would else begin anew at each quote in it."""
_STRING = re.compile(_TO_ITS_END, re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_BAD_ESCAPE = re.compile(rb'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt]|(.?))', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|[c-fC-F][0-9a-fA-F]{2})")
_NUMBERLESS = re.compile(_TO_ITS_END + rb"|([-+]?\b(?:nan|infinity|inf)\b(?:\(ind\))?)", re.DOTALL | re.IGNORECASE)
_QUOTE = re.compile(rb'\\.|"', re.DOTALL)
_AFTER_STRING = re.compile(rb'\s*(?::|,\s*["\[{0-9tfn-]|[}\]])')
_SWALLOWED_QUOTE = re.compile(rb'\\"(?=\s*(?:,\s*"[^"\\,:]{1,40}"\s*:|\}\s*[,}\]]|\}\s*$))')
_END = re.compile(rb"\}(?=\s*(?:,?\s*\{|,?\s*\]|,?\s*\Z))")
_NEXT = re.compile(rb'\{\s*(?:"(?:name|ph|cat|pid|tid|ts|dur|id|args|s|bp|cname)"\s*:|\})|\]\s*[,}]|\]\s*\Z')
_BETWEEN = re.compile(rb"[\s,]*")


def is_json(text: bytes) -> bool:
    """Tell whether a text is one JSON value in strict UTF-8."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True


def mended(text: bytes) -> bytes | None:
    """Return the text as JSON that means the same, None where no rule helps. Digits outside strings never change.

    >>> mended(rb'{"name":"C:\\Users","v":NaN}')
    b'{"name":"C:\\\\\\\\Users","v":"NaN"}'
    """
    for change in (lambda t: t, _with_inner_quotes, _with_closing_quotes):
        changed = _NUMBERLESS.sub(_quoted, _STRING.sub(_clean_string, change(text)))
        if is_json(changed):
            return changed
    return None


def _with_inner_quotes(text: bytes) -> bytes:
    """Escape the quotes in strings that nothing follows which may follow a string."""
    out, copied, inside = [], 0, False
    for match in _QUOTE.finditer(text):
        if match[0] != b'"':
            continue
        at = match.start()
        if inside and not _AFTER_STRING.match(text, at + 1):
            out += [text[copied:at], b"\\"]
            copied = at
        else:
            inside = not inside
    return b"".join((*out, text[copied:]))


def _with_closing_quotes(text: bytes) -> bytes:
    return _SWALLOWED_QUOTE.sub(rb'\\\\"', text)


def _quoted(match: re.Match[bytes]) -> bytes:
    return match[0] if match[1] is None else b'"' + match[1] + b'"'


def _clean_string(match: re.Match[bytes]) -> bytes:
    text = match[0]
    if b"\\" in text:
        text = _BAD_ESCAPE.sub(lambda m: m[0] if m[1] is None else b"\\\\" + m[1], text)
        text = _SURROGATE.sub(lambda m: m[0] if m[1] else b"\\ufffd", text)
    return _CONTROL.sub(lambda m: b"\\u%04x" % m[0][0], text)


def objects(data: bytes, *, final: bool) -> Iterator[tuple[int, int, bytes | None]]:
    """Give (start, end, JSON text or None) for the objects of a list, one by one; ends at the bracket that closes it.

    The last thing given says how far it came: what may be cut at the end of `data` is left, unless it is `final`.
    None: not one JSON object, whatever was tried.
    """
    at = 0
    while True:
        gap = _BETWEEN.match(data, at)
        at = gap.end() if gap else at
        if at >= len(data) or data[at] == 0x5D:
            return
        found = _object(data, at, final=final)
        if found is None:
            return
        end, text = found
        yield at, end, text
        at = end


def _object(data: bytes, at: int, *, final: bool) -> tuple[int, bytes | None] | None:
    """Return end and text of what begins at `at`; None when it may go on behind the end of `data`."""
    ends: list[int] = []
    if data[at] == 0x7B:
        for match in _END.finditer(data, at, at + LONGEST_OBJECT):
            if match.end() == len(data) and not final and not is_json(data[at:]):
                break
            ends.append(match.end())
            if is_json(data[at : match.end()]):
                return match.end(), data[at : match.end()]
            if len(ends) >= MOST_TRIES:
                break
    follower = _NEXT.search(data, at + 1)
    limit = follower.start() if follower else len(data)
    for end in ends:
        if end > limit and end != ends[0]:
            break
        if (text := mended(data[at:end])) is not None:
            return end, text
    if follower is None and not final and len(data) - at < LONGEST_OBJECT:
        return None
    before = [end for end in ends if end <= limit]
    return (before[-1] if before else limit), None
