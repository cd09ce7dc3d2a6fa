"""The objects of a broken list of events, one by one: where each ends, and where the next event begins.

A defect costs the event that has it. An event that is not JSON ends where the next one begins: at a brace behind "}"
or ",", of an object that is an event by its members. Braces behind ":" and "[" belong to the event around them. What is
looked at for one event does not grow with the data: a window of 4 KiB first, and larger ones only while the event in
it is neither whole nor broken, and no other event is in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import islice
from typing import NamedTuple

import msgspec

from tracekit.model.trace import Ledger

__all__ = [
    "LONGEST_COUNTED",
    "EventText",
    "closes_list",
    "defect",
    "events_in",
    "has_exponents",
    "is_json",
    "next_event",
    "pieces",
    "repaired",
    "rewritten",
    "valid_utf8",
    "with_large_numbers_as_text",
]

# JSON objects that their producers broke: repaired one by one, by rules that are certain enough to name.
#
# Repaired are control characters in strings, escapes that JSON does not have (Windows paths: kineto issues 617, 750,
# 1459), NaN, Infinity and numbers beyond a double (they become strings), lone surrogates, and quotes inside strings
# (MXNet and Mini-Caffe write names as they are). An object that no rule repairs is dropped.


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


WINDOW = 4 << 10
NEAR_END = 64
"""Bytes behind a bracket that say whether it closes the list."""
LONGEST_COUNTED = 64 << 10
"""Broken text that is longer may be more than the one event that its marks show."""
LONGEST_BROKEN = 1 << 20
"""Broken text does not wait for its end longer than this."""
_GROWTH = 8
_MOST_REPAIRED = 4 << 20
_MOST_LIST_ENDS = 32

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(")?|([{\[])|[}\]]', re.DOTALL)
_CANDIDATE = re.compile(rb'\{(?=\s*"?[A-Za-z_])')
_MEMBER = re.compile(PHASE.pattern + rb'|"(?:ts|pid|tid)"\s*:')
_BETWEEN = re.compile(rb"[\s,]*")
_ZEROS = re.compile(rb"\0[\0\s]*")
_OBJECT_END = re.compile(rb"\}(?=\s*(?:,?\s*\{|,?\s*\]|,?\s*\Z))")
_NEXT_OBJECT = re.compile(rb"\}\s*,?\s*\{")
_GOES_ON = re.compile(rb'\s*(?:[}\]]+\s*)?,\s*["{]|\s*[}\]]\s*[}\],]')
"""What is behind an object or a list that is within another one."""
_BEHIND_LIST = re.compile(rb"\](?:\s*,\s*\{|\s*\]\s*[}\],]|\s*\}" + _GOES_ON.pattern + rb")")
"""What is behind a bracket that closes no list of events."""
_MEMBERS = re.compile(rb'\]\s*,\s*(?=")')
_LIST_END = re.compile(rb'\](?=\s*(?:,\s*"|\}|;?[\s\0]*\Z))')
_LIST_END_MEMBER = re.compile(rb'\](?=\s*,\s*"[^"\\]{1,64}"\s*:)')
_EMPTY = re.compile(rb"\{\s*\}")
_LIST_TAIL = re.compile(rb"\}\s*\]\s*\}?[\s\0;]*\Z")
_REST = b" \t\r\n\0;"
_OTHERS = frozenset({"name", "ts", "pid", "tid", "cat", "id", "args"})


_TRUNCATED, _BROKEN = -1, -2
_BEHIND_STRING = frozenset({b":", b",", b"}", b"]", b""})
_IN_OBJECT = frozenset({b":"})
_IN_ARRAY = frozenset({b",", b"["})


class EventText(NamedTuple):
    """A part of a list: an object as JSON text, or None for what is not one, whatever was tried.

    cut: the data ends within it. goes_on: it is broken text whose end is not in the data.
    """

    start: int
    end: int
    text: bytes | None
    cut: bool = False
    goes_on: bool = False


class _Is(Enum):
    WHOLE = 1
    OPEN = 2
    """The window ends before it does."""
    IN_STRING = 3
    """As OPEN, within a string."""
    CLOSED = 4
    """Its brackets and strings fit together, and it is not JSON."""
    BROKEN = 5


class _Begin(Enum):
    EVENT = 1
    BROKEN = 2
    """An event by its members, and not JSON as it is."""
    NONE = 3
    UNKNOWN = 4
    """What is behind the data decides."""


def pieces(data: bytes, *, final: bool, torn: bool = False) -> Iterator[EventText]:
    """Yield the parts of a list, one by one; ends at the bracket that closes it.

    torn: the data begins within broken text. The last `end` is how far it came: what may go on behind the end of `data`
    is left, unless it is `final`.
    """
    splitter = _EventSplitter(data, final=final)
    at = 0
    while True:
        gap = _BETWEEN.match(data, at)
        at = gap.end() if gap else at
        if at >= len(data):
            return
        if zeros := _ZEROS.match(data, at):
            piece: EventText | None = EventText(at, zeros.end(), None)
        elif torn:
            piece = splitter.broken(at, at - 1, at)
        elif data[at] == 0x5D:
            piece = splitter.broken(at, at, at) if splitter.behind_bracket(at) is _Begin.EVENT else None
        else:
            piece = splitter.piece(at)
        if piece is None:
            return
        torn = piece.goes_on
        if piece.end > at:
            yield piece
        at = piece.end


def closes_list(data: bytes, at: int, *, final: bool) -> bool:
    """Return whether the bracket there closes the list of events; False too where what is behind it must come first."""
    return _EventSplitter(data, final=final).behind_bracket(at) is _Begin.NONE


def next_event(data: bytes) -> int | None:
    """Return where an event begins in a text behind its first byte, as far as the text shows that."""
    begin = _EventSplitter(data, final=True).begin(0)
    return begin if isinstance(begin, int) and begin < len(data) else None


def _repaired_event(text: bytes) -> bytes | None:
    """Return the text of one event, repaired; None for text that has two, which would become one."""
    return repaired(text) if events_in(text) <= 1 else None


def _behind(err: msgspec.DecodeError) -> int | None:
    """Return the place that msgspec names for the first byte behind a whole value, None for another error."""
    match = _TRAILING.search(str(err))
    return None if match is None else int(match[1])


def _trailing_off() -> int:
    """Return how much msgspec adds to such a place: it counts the byte that it has read."""
    try:
        msgspec.json.decode(b"{},")
    except msgspec.DecodeError as err:
        return (_behind(err) or 2) - 2
    return 0  # pragma: no cover - that is not JSON


_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_TRAILING_OFF = _trailing_off()


class _NextPlaces:
    """The places of a pattern: asked for ever later ones, each is searched once."""

    def __init__(self, pattern: re.Pattern[bytes], data: bytes) -> None:
        self._pattern, self._data = pattern, data
        self._from, self._found = 0, -1

    def behind(self, at: int) -> int:
        """Return the first place from `at` on, the end of the data where there is none."""
        if not self._from <= at <= self._found:
            match = self._pattern.search(self._data, at)
            self._from, self._found = at, match.start() if match else len(self._data)
        return self._found


class _EventSplitter:
    """Finds where one object after another ends, in time that grows with the data."""

    def __init__(self, data: bytes, *, final: bool) -> None:
        self._data, self._final = data, final
        self._view = memoryview(data)
        self._from, self._next = 1, 0
        """No event begins between these two places."""
        self._passed = 0
        """Behind the last broken one between them."""
        self._members, self._next_objects = _NextPlaces(_MEMBER, data), _NextPlaces(_NEXT_OBJECT, data)

    def piece(self, at: int) -> EventText | None:
        """Return what begins at `at`; None when it may go on behind the end of the data."""
        data, final = self._data, self._final
        state, end = self._look(at)
        if state is _Is.WHOLE:
            return EventText(at, end, data[at:end])
        if state is _Is.CLOSED:
            text = cleaned(data[at:end])
            if text is not None and self._object_follows(end):
                # Its quotes and brackets are sound as they are, so it ends there, whatever the next object is.
                return EventText(at, end, text)
            text = text or _repaired_event(data[at:end])
            ends = self._ends_event(end)
            if ends is not _Begin.NONE:
                return EventText(at, end, text) if ends is _Begin.EVENT else None
        if state in (_Is.OPEN, _Is.IN_STRING):
            if not final:
                return None
            if state is _Is.OPEN or not _LIST_TAIL.search(data, max(at, len(data) - WINDOW)):
                return EventText(at, len(data), None, cut=True)
            end = at
        return self.broken(at, at, end)

    def broken(self, at: int, after: int, fits: int) -> EventText | None:
        """Return broken text up to the next event, which begins behind `after`; None where that is not known.

        fits: up to there quotes and brackets fit together.
        """
        data, final = self._data, self._final
        limit = self.begin(after, fits=fits)
        if limit is _Begin.UNKNOWN:
            return None
        assert isinstance(limit, int)
        if limit == len(data) and not final:
            if limit - at < LONGEST_BROKEN:
                return None
            for match in islice(_LIST_END_MEMBER.finditer(data, at + 1), _MOST_LIST_ENDS):
                if self.behind_bracket(match.start()) is _Begin.NONE:
                    return EventText(at, match.start(), None)
            return EventText(at, limit - WINDOW, None, goes_on=True)
        cut = False
        if limit == len(data):
            if self._is_behind_list(at):
                return None
            limit = self._list_end(at)
            cut = limit == len(data) and not data.rstrip(_REST).endswith(b"}")
        limit = len(data[at:limit].rstrip(b" \t\r\n,")) + at
        for end in self._ends(at, limit):
            if text := _repaired_event(data[at:end]):
                return EventText(at, end, text)
        return EventText(at, limit, None, cut)

    def _object_follows(self, end: int) -> bool:
        gap = _BETWEEN.match(self._data, end)
        at = gap.end() if gap else end
        return self._data[at : at + 1] == b"{"

    def _ends_event(self, end: int) -> _Begin:
        """Return EVENT if a broken event ends there, where its brackets do: an event or the end of the list follows."""
        data, final = self._data, self._final
        gap = _BETWEEN.match(data, end)
        at = gap.end() if gap else end
        if len(data) - at < (1 if final else NEAR_END):
            return _Begin.EVENT if final else _Begin.UNKNOWN
        if data[at] == 0x7B:
            kind = _Begin.EVENT if _EMPTY.match(data, at) else self._event_at(at)
            return _Begin.EVENT if kind is _Begin.BROKEN else kind
        if data[at] != 0x5D:
            return _Begin.NONE
        behind = self.behind_bracket(at)
        return _Begin.UNKNOWN if behind is _Begin.UNKNOWN else _Begin.EVENT if behind is _Begin.NONE else _Begin.NONE

    def _look(self, at: int) -> tuple[_Is, int]:
        """Return what an object is, and its end where it has one."""
        data = self._data
        if data[at] != 0x7B:
            return _Is.BROKEN, at
        size = WINDOW
        while True:
            stop = min(at + size, len(data))
            end = self._whole(at, stop)
            if end > 0:
                return _Is.WHOLE, end
            state = _Is.OPEN
            if end != _TRUNCATED or (stop == len(data) and self._final):
                state, end = self._brackets(at, stop)
            if state in (_Is.CLOSED, _Is.BROKEN):
                return state, end
            if stop < len(data) or self._final:
                # Events in an event: the end of the outer one is lost.
                begin = self.begin(at, stop, fits=stop)
                if isinstance(begin, int) and begin < stop:
                    return _Is.BROKEN, begin
            if stop == len(data):
                return state, stop
            size *= _GROWTH

    def _whole(self, at: int, stop: int) -> int:
        """Return the end of the JSON value that begins there, else _TRUNCATED or _BROKEN."""
        try:
            msgspec.json.decode(self._view[at:stop])
        except msgspec.ValidationError:
            return _BROKEN
        except msgspec.DecodeError as err:
            behind = _behind(err)
            if behind is None:
                return _TRUNCATED if str(err).endswith("truncated") else _BROKEN
            stop = at + behind - _TRAILING_OFF
        except (RecursionError, UnicodeDecodeError):
            return _BROKEN
        return len(self._data[at:stop].rstrip(b" \t\r\n")) + at

    def _brackets(self, at: int, stop: int) -> tuple[_Is, int]:
        """Return how far brackets and strings fit together, with the end of the object where they do."""
        data = self._data
        stack = bytearray()
        for token in _TOKEN.finditer(data, at, stop):
            first, end = data[token.start()], token.end()
            if first == 0x22:
                if not token[1]:
                    return _Is.IN_STRING, stop
                if data[end : end + 64].lstrip()[:1] not in _BEHIND_STRING:
                    return _Is.BROKEN, end
            elif token[2]:
                before = data[max(at, token.start() - 64) : token.start()].rstrip()[-1:]
                if stack and before not in (_IN_OBJECT if stack[-1] == 0x7B else _IN_ARRAY):
                    return _Is.BROKEN, token.start()
                stack.append(first)
            else:
                # The closing bracket has the code of the opening one, and 2.
                if not stack or stack.pop() + 2 != first:
                    return _Is.BROKEN, token.start()
                if not stack:
                    return _Is.CLOSED, end
        return _Is.OPEN, stop

    def begin(self, at: int, stop: int | None = None, *, fits: int = 0) -> int | _Begin:
        """Return where the next event behind `at` begins, the end of the data where none does, or UNKNOWN.

        stop: nothing from there on is of interest. fits: before it only whole events count, since what is broken there
        is within another object.
        """
        data = self._data
        stop = len(data) if stop is None else stop
        if not self._from <= at + 1 <= self._next or fits < self._passed:
            self._from = self._next = at + 1
            self._passed = 0
        while self._next < stop:
            match = _CANDIDATE.search(data, self._next, stop)
            if match is None:
                self._next = stop if stop == len(data) else max(self._next, stop - NEAR_END)
                break
            self._next = match.start()
            kind = self._event_at(self._next)
            if kind is _Begin.UNKNOWN:
                return kind
            if kind is _Begin.EVENT or (kind is _Begin.BROKEN and self._next >= fits):
                return self._next
            if kind is _Begin.BROKEN:
                self._passed = self._next + 1
            self._next += 1
        return max(self._next, stop) if stop < len(data) else len(data)

    def _event_at(self, at: int) -> _Begin:
        """Return whether an event of the list begins at a brace."""
        data = self._data
        before = data[max(0, at - 256) : at].rstrip()[-1:]
        if before in (b":", b"["):
            return _Begin.NONE
        stop = min(at + WINDOW, len(data))
        end = self._whole(at, stop)
        if end > 0:
            members = msgspec.json.decode(self._view[at:end])
            return _Begin.EVENT if "ph" in members and not _OTHERS.isdisjoint(members) else _Begin.NONE
        if stop == len(data) and not self._final and self._brackets(at, stop)[0] in (_Is.OPEN, _Is.IN_STRING):
            return _Begin.UNKNOWN
        if before not in (b",", b"}"):
            return _Begin.NONE
        member = self._members.behind(at)
        return _Begin.BROKEN if member < min(stop, self._next_objects.behind(at)) else _Begin.NONE

    def behind_bracket(self, at: int) -> _Begin:
        """Return EVENT if the list goes on behind a bracket that would close it, NONE if it is closed, or UNKNOWN."""
        data = self._data
        if not self._final and len(data) - at < NEAR_END:
            return _Begin.UNKNOWN
        behind = _BEHIND_LIST.match(data, at)
        goes_on = behind is not None
        if behind is None and (members := _MEMBERS.match(data, at)) is not None:
            # Members of the top level end with the file, those of an event with other brackets.
            rest = _EventSplitter(b"{" + data[members.end() : members.end() + LONGEST_COUNTED], final=False)
            end = rest.end_of_first()
            if end == 0 and not self._final and len(data) - at < LONGEST_COUNTED:
                return _Begin.UNKNOWN
            goes_on = end < 0 or (end > 0 and _GOES_ON.match(rest._data, end) is not None)
        if not goes_on:
            return _Begin.NONE
        if self._members.behind(at) < len(data):
            return _Begin.EVENT
        return _Begin.NONE if self._final or len(data) - at > LONGEST_COUNTED else _Begin.UNKNOWN

    def end_of_first(self) -> int:
        """Return the end of the object that the data begin with, 0 where it goes on behind them, -1 if it is broken."""
        end = self._whole(0, len(self._data))
        if end > 0:
            return end
        state, end = self._brackets(0, len(self._data))
        return end if state is _Is.CLOSED else -1 if state is _Is.BROKEN else 0

    def _list_end(self, at: int) -> int:
        """Return where the list is closed behind its last event, the end of the data where it is not."""
        data = self._data
        for tries, match in enumerate(_LIST_END.finditer(data, at)):
            rest = data[match.end() :].strip(_REST)
            if not rest or is_json(b"{" + rest.removeprefix(b",")):
                return match.start()
            if tries >= _MOST_LIST_ENDS:
                break
        return len(data)

    def _is_behind_list(self, at: int) -> bool:
        """Return whether members of the top level begin there: the list was not closed."""
        rest = self._data[at:].strip(_REST)
        return rest == b"}" or (rest[:1] == b'"' and is_json(b"{" + rest))

    def _ends(self, at: int, limit: int) -> Iterator[int]:
        """Yield the places where a broken object may end: the last one, and the one before (the last may be {})."""
        if self._data[at] != 0x7B or limit - at > _MOST_REPAIRED:
            return
        yield limit
        earlier = [match.end() for match in _OBJECT_END.finditer(self._data, at, limit) if match.end() < limit]
        yield from earlier[-1:]
