"""Protobuf files in pieces: the outer messages are walked through as they come, the inner ones decoded one by one.

A file of Paddle is one message, which a decoder needs whole. Most of it is in repeated fields two levels down, so the
walker enters the levels that its caller names and yields everything below as bytes. Memory is bounded by the largest
inner message, and of a cut file all is read up to the cut.
Source: the wire format of protobuf (varints, tags, lengths), which both of Paddle's files follow without framing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import DictColumn
from tracekit.model.trace import Ledger
from tracekit.model.units import MAX_NS
from tracekit.readers.engine.torn import drop_torn

__all__ = [
    "EPOCH_NS",
    "INT32_MAX",
    "INT64_MAX",
    "EventType",
    "WireEvent",
    "fields",
    "good_range",
    "plain",
    "tell_cut",
    "text_column",
    "walk",
]

MAX_MESSAGE_BYTES = 64 << 20
"""A larger inner message is skipped: the largest of real files have some kilobytes."""
INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1
EPOCH_NS = 10**18
"""Paddle's clock is Unix time on Linux. A first time before September 2001 is another clock, of unknown zero."""


class EventType(Enum):
    """Kinds of events: begin and end of a level, a field, bytes that are no message, the end of a cut file."""

    OPEN = 0
    CLOSE = 1
    FIELD = 2
    DAMAGE = 3
    CUT = 4


class WireEvent(NamedTuple):
    """An event of the walker. `at`: its byte in the file.

    value: bytes (text, message) or int (varint) of a field; of CUT whether it is within a field. reason: of DAMAGE.
    """

    what: EventType
    level: str
    number: int = 0
    value: bytes | int | None = None
    at: int = 0
    reason: str = ""


class _Cut(Exception):
    """The input ends here; `partial`: within a field."""


class _Bad(Exception):
    """These bytes are no message."""


class _Bytes:
    """The input as one long text of bytes, of which a window is in memory."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._data = b""
        self._place = 0
        self._before = 0

    @property
    def at(self) -> int:
        return self._before + self._place

    def more(self) -> bool:
        """Return whether a byte is left."""
        return self._place < len(self._data) or self._fill(1)

    def _fill(self, count: int) -> bool:
        parts = [self._data[self._place :]]
        have = len(parts[0])
        self._before += self._place
        self._place = 0
        while have < count and (chunk := next(self._chunks, None)) is not None:
            parts.append(chunk)
            have += len(chunk)
        self._data = b"".join(parts)
        return have >= count

    def varint(self) -> int:
        if len(self._data) - self._place < 10:
            self._fill(10)
        value = shift = 0
        for place in range(self._place, min(self._place + 10, len(self._data))):
            byte = self._data[place]
            value |= (byte & 127) << shift
            if byte < 128:
                self._place = place + 1
                return value & ((1 << 64) - 1)
            shift += 7
        if len(self._data) - self._place < 10:
            raise _Cut
        raise _Bad

    def take(self, count: int) -> bytes:
        if len(self._data) - self._place < count and not self._fill(count):
            raise _Cut
        data = self._data[self._place : self._place + count]
        self._place += count
        return data

    def short_fields(self, level: str, end: int | None, enter: Mapping[int, str], most: int) -> Iterator[WireEvent]:
        """Take the next fields of bytes while they are short and in the window; others are left to `walk`.

        One by one: who looks at the first fields of a message pays for no others.
        """
        data, place, before = self._data, self._place, self._before
        limit = len(data) if end is None else min(len(data), end - before)
        while place + 3 <= limit:
            tag, length, at = data[place], data[place + 1], place + 2
            if tag & 0x87 != 2 or tag >> 3 in enter or tag < 8:
                break
            if length > 127:
                length = length & 127 | data[at] << 7
                if data[at] > 127:
                    break
                at += 1
            after = at + length
            if after > limit or length > most:
                break
            field, place = WireEvent(EventType.FIELD, level, tag >> 3, data[at:after], before + place), after
            self._place = place
            yield field

    def skip(self, count: int) -> None:
        while count > 0:
            if not self.more():
                raise _Cut
            step = min(count, len(self._data) - self._place)
            self._place += step
            count -= step


def walk(
    chunks: Iterable[bytes], enter: Mapping[str, Mapping[int, str]], most: int = MAX_MESSAGE_BYTES
) -> Iterator[WireEvent]:
    """Yield the fields of a message in their order.

    enter: level -> field number -> name of the level below; the file itself is level "". A field that is not named
    there is given as it is, if it has at most `most` bytes. What is no message costs the rest of its level, which
    DAMAGE says.
    """
    data = _Bytes(chunks)
    levels: list[tuple[str, int | None]] = [("", None)]
    while levels:
        level, end = levels[-1]
        yield from data.short_fields(level, end, enter.get(level, {}), most)
        start = data.at
        if start == end:
            levels.pop()
            yield WireEvent(EventType.CLOSE, level, at=start)
            continue
        try:
            if not data.more():
                if end is not None:
                    yield WireEvent(EventType.CUT, level, value=False, at=start)
                break
            tag = data.varint()
            number, wire = tag >> 3, tag & 7
            below = enter.get(level, {}).get(number)
            value: bytes | int
            # No field has such a number: these bytes are not protobuf.
            if not number or number > 1 << 29:
                raise _Bad
            if wire == 0:
                value = data.varint()
            elif wire == 2:
                length = data.varint()
                if end is not None and data.at + length > end:
                    raise _Bad
                if below is not None:
                    levels.append((below, data.at + length))
                    yield WireEvent(EventType.OPEN, below, at=start)
                    continue
                if length > most:
                    data.skip(length)
                    yield WireEvent(EventType.DAMAGE, level, number, at=start, reason=f"larger than {most >> 20} MiB")
                    continue
                value = data.take(length)
            elif wire in (1, 5):
                value = data.take(8 if wire == 1 else 4)
            else:
                raise _Bad
            if end is not None and data.at > end:
                raise _Bad
        except _Bad:
            yield WireEvent(EventType.DAMAGE, level, at=start, reason="no protobuf message")
            # Without an end that can be trusted nothing says where the next field begins.
            if end is None or data.at > end:
                break
            try:
                data.skip(end - data.at)
            except _Cut:
                break
            continue
        except _Cut:
            yield WireEvent(EventType.CUT, level, value=True, at=start)
            break
        yield WireEvent(EventType.FIELD, level, number, value, start)
    # Levels that a cut or damage left open are closed, so that callers always see pairs.
    for level, _ in reversed(levels[1:]):
        yield WireEvent(EventType.CLOSE, level, at=data.at)


def fields(data: bytes, most: int = 64) -> list[tuple[int, int, bytes | int]]:
    """Return number, wire type and value of the first fields of a message, for sniffers.

    Raises: ValueError where the bytes are no message. A field that is cut at the end is not among them.
    """
    found: list[tuple[int, int, bytes | int]] = []
    met = walk([data], {})
    for item in met:
        if item.what is EventType.DAMAGE:
            raise ValueError("no protobuf message")
        if item.what is EventType.FIELD and isinstance(item.value, (bytes, int)):
            wire = 0 if isinstance(item.value, int) else 2
            found.append((item.number, wire, item.value))
            if len(found) == most:
                break
    return found


def good_range(start: int, end: int) -> bool:
    """Return whether both ends are times that a trace can hold, in order."""
    return 0 <= start <= end < MAX_NS


def tell_cut(ledger: Ledger, met: WireEvent) -> None:
    """Count a record that is lost at the end of the file, or by damage."""
    where = f"byte {met.at}"
    if met.what is EventType.CUT and not met.value:
        ledger.note("cut", "the file ends within a message: all before it was read", where=where)
        return
    ledger.read += 1
    if met.what is EventType.CUT:
        drop_torn(ledger, where, what="the file ends within a record")
    else:
        ledger.drop("damaged", where=where, text=f"dropped: {met.reason}, up to the end of what holds it")


def text_column(values: list[bytes], ledger: Ledger) -> DictColumn:
    """Return names as a dictionary column; bytes that are not UTF-8 become U+FFFD, with a note."""
    encoded = arrow.encoded(arrow.array(values, pa.binary()))
    texts: dict[str, int] = {}
    codes: list[int] = []
    for value in arrow.binaries(encoded.dictionary):
        text = plain(value, ledger)
        codes.append(texts.setdefault(text, len(texts)))
    indices = np.array(codes, np.int32)[encoded.indices.to_numpy()] if len(values) else np.empty(0, np.int32)
    return pa.DictionaryArray.from_arrays(indices, arrow.array(list(texts), pa.string()))


def plain(value: bytes, ledger: Ledger | None = None) -> str:
    """Return the text of a field; bytes that are not UTF-8 become U+FFFD, with a note."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        if ledger is not None:
            ledger.note("not-utf-8", "bytes that are not UTF-8 were replaced by U+FFFD")
        return value.decode("utf-8", "replace")
