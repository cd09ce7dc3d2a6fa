"""JSON objects that their producers broke: split and repaired one by one, by rules that are certain enough to name.

Repaired are control characters in strings, escapes that JSON does not have (Windows paths: kineto issues 617, 750,
1459), NaN, Infinity and numbers beyond a double (they become strings), lone surrogates, and quotes inside strings
(MXNet and Mini-Caffe write names as they are). An object that no rule repairs is dropped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

T = TypeVar("T")

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
_NO_NUMBER = re.compile(rb"\b(?:nan|inf)", re.IGNORECASE)
_NUMBER = re.compile(_TO_ITS_END + rb"|([-+]?\d[\d.]*(?:[eE][-+]?\d+)?)", re.DOTALL)
_EXPONENT = re.compile(rb"\d[eE][-+]?\d")
_QUOTE = re.compile(rb'\\.|"', re.DOTALL)
_AFTER_STRING = re.compile(rb'\s*(?::|,\s*["\[{0-9tfn-]|[}\]])')
_SWALLOWED_QUOTE = re.compile(rb'\\"(?=\s*(?:,\s*"[^"\\,:]{1,40}"\s*:|\}\s*[,}\]]|\}\s*$))')
_END = re.compile(rb"\}(?=\s*(?:,?\s*\{|,?\s*\]|,?\s*\Z))")
_BEGIN = rb'\{\s*(?:"(?:name|ph|cat|pid|tid|ts|dur|id|args|s|bp|cname)"\s*:|\})'
_EVENT = re.compile(_BEGIN)
_NEXT = re.compile(_BEGIN + rb"|\]\s*[,}]|\]\s*\Z")
_BRACKET = re.compile(_TO_ITS_END + rb"|([{\[])|[}\]]", re.DOTALL)
_BETWEEN = re.compile(rb"[\s,]*")


def is_json(text: bytes) -> bool:
    """Return whether a text is one JSON value in strict UTF-8."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True


def has_exponents(shape: bytes) -> bool:
    """Return whether an object has a number with an exponent.

    Objects with other exponents have the same shape: one may be a double (1e5), the other beyond it (1e999).
    """
    return bool(_EXPONENT.search(shape) and _EXPONENT.search(_STRING.sub(b'""', shape)))


def with_large_numbers_as_text(text: bytes) -> bytes:
    """Return the object with quotes around the numbers that no double can hold.

    >>> with_large_numbers_as_text(b'{"a":1e999,"b":1e9,"c":"1e999"}')
    b'{"a":"1e999","b":1e9,"c":"1e999"}'
    """
    return _NUMBER.sub(_quoted_beyond_double, text)


def _quoted_beyond_double(match: re.Match[bytes]) -> bytes:
    if match[1] is None or math.isfinite(_double(match[1])):
        return match[0]
    return b'"' + match[1] + b'"'


def _double(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:  # several points: 1.2.3
        return 0.0


def repaired(text: bytes) -> bytes | None:
    """Return the text as JSON that means the same, None where no rule helps. Digits outside strings never change.

    >>> repaired(rb'{"name":"C:\\Users","v":NaN}')
    b'{"name":"C:\\\\\\\\Users","v":"NaN"}'
    """
    if (better := cleaned(text)) is not None:
        return better
    for change in (_with_inner_quotes, _with_closing_quotes):
        changed = change(text)
        if changed != text and (better := cleaned(changed)) is not None:
            return better
    return None


def cleaned(text: bytes) -> bytes | None:
    """Return the text as JSON that means the same, its quotes and brackets as they are; None where that is not enough.

    >>> cleaned(b'{"v":[{"w":NaN}]}')
    b'{"v":[{"w":"NaN"}]}'
    """
    if b"\\" in text or _CONTROL.search(text):
        text = _STRING.sub(_clean_string, text)
    if _NO_NUMBER.search(text):
        text = _NUMBERLESS.sub(_quoted, text)
    if not is_json(text):
        text = with_large_numbers_as_text(text)
    return text if is_json(text) else None


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
    """Yield (start, end, JSON text or None) for the objects of a list, one by one; ends at the bracket that closes it.

    The last `end` is how far it came: an object that may be cut at the end of `data` is left, unless it is `final`.
    None: not one JSON object, whatever was tried.
    """
    at = 0
    splitter = _Splitter(data, final=final)
    while True:
        gap = _BETWEEN.match(data, at)
        at = gap.end() if gap else at
        if at >= len(data) or data[at] == 0x5D:
            return
        found = splitter.object(at)
        if found is None:
            return
        end, text = found
        yield at, end, text
        at = end


_SHORT = 4 << 10
_NEAR_END = 64 << 10
_WASTE: dict[object, int] = {is_json: 64, cleaned: 8, repaired: 8}
"""Bytes that may be looked at in vain, for each byte of the data, where an object may end behind another's begin."""


class _Splitter:
    """Finds where one object after another ends, in time that grows with the data.

    An object may end behind a place where another seems to begin, which may be a part of it. What is looked at for that
    in vain is limited, but for what is short: where all is broken, each object would else go on to the end of the data.
    """

    def __init__(self, data: bytes, *, final: bool) -> None:
        self._data, self._final = data, final
        self._left = {way: most * len(data) + LONGEST_OBJECT for way, most in _WASTE.items()}
        self._ends_from = 0
        """No object ends before."""

    def object(self, at: int) -> tuple[int, bytes | None] | None:
        """Return end and text of what begins at `at`; None when it may go on behind the end of the data."""
        data, final = self._data, self._final
        follower = _NEXT.search(data, at + 1)
        limit = follower.start() if follower else len(data)
        ends: list[int] = []
        for end in self._ends(at) if data[at] == 0x7B else ():
            whole = self._try(is_json, at, end, limit)
            if end == len(data) and not final and not whole:
                break
            ends.append(end)
            if whole:
                return end, data[at:end]
            if len(ends) >= MOST_TRIES:
                break
        closed = self._closed(at)
        if closed is not None and (text := self._try(cleaned, at, closed, limit)):
            return closed, text
        for end in ends:
            if end > limit and end != ends[0]:
                break
            if text := self._try(repaired, at, end, limit):
                return end, text
        if closed is None and not final and len(data) - at < (_NEAR_END if follower else LONGEST_OBJECT):
            return None
        if closed is not None and not _EVENT.search(data, at + 1, closed):
            return closed, None
        before = [end for end in ends if end <= limit]
        return (before[-1] if before else limit), None

    def _ends(self, at: int) -> Iterator[int]:
        """Yield the places behind `at` where an object may end. They are searched but once."""
        until = at + LONGEST_OBJECT
        first = True
        for match in _END.finditer(self._data, max(at, self._ends_from), until):
            if first:
                self._ends_from = match.start()
                first = False
            yield match.end()
        if first:
            self._ends_from = max(self._ends_from, min(until, len(self._data)))

    def _closed(self, at: int) -> int | None:
        """Return where the brackets outside strings are all closed; None where they are not, or may not be counted."""
        if self._left[cleaned] <= 0 or self._data[at] != 0x7B:
            return None
        depth = 0
        for match in _BRACKET.finditer(self._data, at, at + LONGEST_OBJECT):
            if match[0][:1] == b'"':
                continue
            depth += 1 if match[1] else -1
            if not depth:
                return match.end()
        looked_at = min(len(self._data) - at, LONGEST_OBJECT)
        self._left[cleaned] -= looked_at if looked_at > _SHORT else 0
        return None

    def _try(self, way: Callable[[bytes], T], at: int, end: int, limit: int) -> T | None:
        """Return what a way of reading makes of the bytes; None where it may not try them."""
        counts = end > limit and end - at > _SHORT
        if counts and self._left[way] <= 0:
            return None
        found = way(self._data[at:end])
        if counts and not found:
            self._left[way] -= end - at
        return found
