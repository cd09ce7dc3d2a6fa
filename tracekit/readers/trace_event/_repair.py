"""JSON objects that their producers broke: repaired one by one, by rules that are certain enough to name.

Repaired are control characters in strings, escapes that JSON does not have (Windows paths: kineto issues 617, 750,
1459), NaN, Infinity and numbers beyond a double (they become strings), lone surrogates, and quotes inside strings
(MXNet and Mini-Caffe write names as they are). An object that no rule repairs is dropped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

import msgspec

from tracekit.trace import Ledger

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
PHASE = re.compile(rb'"ph"\s*[:"]|"ph\s*:|\bph"\s*:')
"""The phase of an event, which each one has, also where one of its quotes is missing."""
_LARGE = re.compile(rb"[eE][-+]?\d|\d{300}")
_QUOTE = re.compile(rb'\\.|"', re.DOTALL)
_AFTER_STRING = re.compile(rb'\s*(?::|,\s*["\[{0-9tfn-]|[}\]])')
_SWALLOWED_QUOTE = re.compile(rb'\\"(?=\s*(?:,\s*"[^"\\,:]{1,40}"\s*:|\}\s*[,}\]]|\}\s*$))')


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
    if is_json(text):
        return text
    if _LARGE.search(text):
        text = with_large_numbers_as_text(text)
    return text if is_json(text) else None


def _with_inner_quotes(text: bytes) -> bytes:
    """Escape the quotes in values that nothing follows which may follow a string; text with such keys stays as it is.

    A key has no quotes inside: another quote, comma or colon is missing before it.
    """
    out, copied, inside, escaped = [], 0, False, False
    for match in _QUOTE.finditer(text):
        if match[0] != b'"':
            continue
        at = match.start()
        if inside and (after := _AFTER_STRING.match(text, at + 1)) is None:
            out += [text[copied:at], b"\\"]
            copied, escaped = at, True
        else:
            if inside and escaped and after is not None and after[0].endswith(b":"):
                return text
            inside, escaped = not inside, False
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


def valid_utf8(chunks: Iterator[bytes], ledger: Ledger) -> Iterator[bytes]:
    """Yield the same text with U+FFFD for what is no UTF-8; pieces end at whole characters."""
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        rest = b""
        if not data.isascii():
            size = _whole_characters(data)
            data, rest = data[:size], data[size:]
            try:
                data.decode()
            except UnicodeDecodeError:
                ledger.note("not-utf-8", "bytes that are not UTF-8 were replaced by U+FFFD")
                data = data.decode("utf-8", "replace").encode()
        if data:
            yield data
    if rest:
        ledger.note("not-utf-8", "bytes that are not UTF-8 were replaced by U+FFFD")
        yield rest.decode("utf-8", "replace").encode()


def _whole_characters(data: bytes) -> int:
    """Return the bytes up to the last character that may go on behind the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return len(data)
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if size > back else len(data)
    return len(data)


def rewritten(chunks: Iterator[bytes], rewrite: Callable[[bytes], bytes], most: int) -> Iterator[bytes]:
    """Yield the text changed, in pieces that end between events: at a line end behind a "}", else where they end.

    most: bytes that wait for such an end.
    """
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        cut = max(data.rfind(b"},"), data.rfind(b"}\n"), data.rfind(b"}\r")) + 1
        if not cut and len(data) > most:
            cut = len(data)
        rest = data[cut:]
        if cut:
            yield rewrite(data[:cut])
    if rest:
        yield rewrite(rest)


def events_in(text: bytes) -> int:
    """Return how many events a broken text was, at least; 0 for text that begins as none, and has no phase of one."""
    return max(len(PHASE.findall(text)), text[:1] == b"{")


def defect(text: bytes) -> tuple[str, str]:
    """Return code and words for what is wrong with a broken text.

    >>> defect(b'{"name":"gemm,"ph":"X"}')[0], defect(b'{"ph":"X","args":{"a":1}')[0], defect(b'{"ph":"X",,"ts":1}')[0]
    ('lost-quote', 'lost-bracket', 'bad-json')
    """
    if sum(each == b'"' for each in _QUOTE.findall(text)) % 2:
        return "lost-quote", "events with a string that is never opened or closed (a quote is missing)"
    outside = _STRING.sub(b"", text)
    if outside.count(b"{") != outside.count(b"}") or outside.count(b"[") != outside.count(b"]"):
        return "lost-bracket", "events with a missing brace or bracket"
    return "bad-json", "events that are no JSON"
