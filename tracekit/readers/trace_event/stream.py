"""The events of a trace in JSON, in slabs: an array of objects, or an object with "traceEvents", of any size.

Memory: one block, one unfinished object, and the other members of the top level (each up to 64 KiB). An object in the
list is a record. A slab whose quotes or brackets do not fit is split and repaired object by object (`_resync`), and
a broken object costs itself alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import field

import msgspec
import numpy as np

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64
from tracekit.model.trace import Ledger
from tracekit.readers.engine.torn import TORN
from tracekit.readers.head import begun
from tracekit.readers.source import Source
from tracekit.readers.trace_event import resync
from tracekit.readers.trace_event.resync import (
    defect,
    events_in,
    has_exponents,
    is_json,
    repaired,
    rewritten,
    valid_utf8,
    with_large_numbers_as_text,
)
from tracekit.readers.trace_event.scan import Scan, inside_strings, object_end, scan

__all__ = ["MOST_CARRIED", "SLAB_BYTES", "EventStream", "Slab", "is_bare"]

# The members behind the list of events of a trace. They are read ahead, since a run's clock and rank may be there.


TAIL_BYTES = 1 << 20
LONGEST_FACT = 64 << 10
DEEPEST_FACT = 100
"""orjson stops at 254, json at 1000; facts of real files nest five deep."""
TOO_DEEP = object()
OUR_FACTS = "tracekit"
"""Our own member, which lists all lanes, may be longer: up to the MiB that is looked at ahead."""

_LIST_END = re.compile(rb"[}\[]\s*+,?\s*+\]")
_Members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def facts_behind(source: Source) -> dict[str, object]:
    """Return the members behind the list of events at the top level, as far as the last MiB shows them."""
    tail = source.tail(TAIL_BYTES).rstrip(b"\0 \t\r\n").decode("utf-8", "replace").encode()
    if not tail.endswith(b"}"):
        return {}
    raw_facts: dict[str, msgspec.Raw] = {}
    for match in list(_LIST_END.finditer(tail))[-256:][::-1]:
        members = _members_behind(tail[match.end() :])
        if members is not None and "traceEvents" not in members:
            raw_facts = members
    facts: dict[str, object] = {}
    for key, raw in raw_facts.items():
        if len(bytes(raw)) <= LONGEST_FACT or key == OUR_FACTS:
            value = fact_of(raw)
            if value is not TOO_DEEP:  # else a note is made when the events have been read
                facts[key] = value
    return facts


def fact_of(raw: msgspec.Raw) -> object:
    """Return the value of a member, TOO_DEEP for one that no JSON library of ours could write again."""
    try:
        value: object = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return TOO_DEEP
    level = [value]
    for _ in range(DEEPEST_FACT):
        level = [
            v
            for node in level
            if isinstance(node, (dict, list))
            for v in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return value
    return TOO_DEEP


def _members_behind(text: bytes) -> dict[str, msgspec.Raw] | None:
    text = text.lstrip()
    if text[:1] not in (b",", b"}"):
        return None
    try:
        return _Members.decode(b"{" + text.removeprefix(b","))
    except (msgspec.DecodeError, RecursionError):
        return None


SLAB_BYTES = 2 << 20
MOST_CARRIED = 16 << 20
"""An object that is not whole within so many bytes is none."""
MOST_SKIPPED = 256 << 20
"""The end of an object that is too long is looked for in so many bytes."""
MOST_HEAD = 64 << 20
MOST_LOST = 0.01
"""The share of bytes in which no event can be counted; with more of them the trace is incomplete."""
LONGEST_BEGIN = 8 << 10
"""Bytes of an event that show that it is one."""
LOST_BYTES = "lost-bytes"
KNOWN_SHAPES = 1 << 17

_LIST = re.compile(rb'"traceEvents"\s*:\s*(\[|null|(?=\{))')
_BARE = re.compile(rb'\{\s*"(?:name|ph|cat|pid|tid|ts|dur|args|id|s)"\s*:')
_AGAIN = {
    "object": re.compile(rb'\}\s*\{(?=[^{}\[\]]{0,4000}"traceEvents"\s*:\s*\[)'),
    "array": re.compile(rb'\A[,;\s]*\[\s*\{\s*"(?:name|ph|cat|pid|tid|ts|dur|args)"\s*:'),
}
"""A second trace behind the first, as `cat` makes it, by the form of the first."""


@dataclass(frozen=True, slots=True)
class Slab:
    """Objects that parse, and the number of each in its list, from 1."""

    scan: Scan
    numbers: I64


@dataclass(slots=True)
class EventStream:
    """The stream of one input. facts: the members beside the events, as JSON values; complete at the end.

    form: "array" (or events without brackets around them) or "object". whole: the list was closed.
    """

    source: Source
    ledger: Ledger
    rewrite: Callable[[bytes], bytes] | None = None
    """Changes whole lines of the text before anything else sees them; it must not depend on other lines."""
    facts: dict[str, object] = field(default_factory=dict)
    form: str = ""
    whole: bool = False
    comma: bool = False
    """A comma stands between the last event and the end of the list."""
    bare: bool = False
    """The events are outside any list, where they need no commas."""
    lost_commas: int = 0
    doubled_commas: int = 0
    _chunks: Iterator[bytes] | None = None
    _rest: bytes = b""
    _number: int = 0
    _size: int = 0
    _lost: int = 0
    """Bytes in the list that are no events, and of which no events can be counted."""
    _lost_at: str = ""
    _torn: bool = False
    """The next text goes on with broken text."""
    _zeros: int = 0
    """NUL bytes behind the last event: padding, unless an event follows."""
    _known: set[bytes] = field(default_factory=set)
    _by_name: bool = False
    """Events have names of their own, as those before them."""

    def open(self) -> None:
        """Read up to the first event, and the facts before it. Raises: ParseError where there is no list of events."""
        self._chunks = valid_utf8(self.source.text_chunks(self.ledger, SLAB_BYTES), self.ledger)
        if self.rewrite is not None:
            self._chunks = rewritten(self._chunks, self.rewrite, MOST_CARRIED)
        head = b""
        for chunk in self._chunks:
            head += chunk
            if (begin := self._list_begin(head)) is not None:
                self._rest = head[begin:]
                return
            if len(head) > MOST_HEAD:
                break
        raise ParseError(
            self.source.name,
            "",
            'neither a JSON array nor an object with "traceEvents"',
            hint="was it cut before them?",
        )

    def _list_begin(self, head: bytes) -> int | None:
        text = begun(head)
        if not text:
            return None
        if text[:1] == b"[":
            self.form = "array"
            return len(head) - len(text) + 1
        self.form = "object"
        if text[:1] != b"{":
            raise ParseError(self.source.name, "byte 0", "no JSON")
        place = _at_top(head)
        if place is None:
            if is_bare(text):
                self.form, self.bare = "array", True
                return len(head) - len(text)
            return None
        self._take_facts(head[len(head) - len(text) : place.start()].rstrip().removesuffix(b",") + b"}")
        if place[1] == b"null":
            self.whole = True
        elif not place[1]:
            self.ledger.note("list-not-opened", "the bracket that opens the list of events is missing")
        return place.end()

    def _take_facts(self, text: bytes) -> None:
        members = _members(text)
        if members is None:
            if text.strip(b"{}, \r\n\t\0"):
                self.ledger.note("facts-not-read", "the members beside the events are not valid JSON (cut?): skipped")
            return
        for key, raw in members.items():
            if len(bytes(raw)) > LONGEST_FACT and key != OUR_FACTS:
                self.ledger.note("long-fact", "members of the top level beyond 64 KiB were skipped", where=repr(key))
            elif (value := fact_of(raw)) is TOO_DEEP:
                self.ledger.note(
                    "deep-fact", "members of the top level that nest too deep were skipped", where=repr(key)
                )
            else:
                self.facts[key] = value

    def look_ahead(self) -> None:
        """Take the facts behind the events, as far as they are in the last MiB.

        A compressed input is decompressed for it once.
        """
        if self.form == "object":
            self.facts = facts_behind(self.source) | self.facts

    def slabs(self) -> Iterator[Slab]:
        """Yield the events. Counts `ledger.read`, and drops what is not JSON."""
        if self._chunks is None:
            self.open()
        assert self._chunks is not None
        carry, done = self._rest, self.whole
        self._rest = b""
        self._size = len(carry)
        final = False
        while not done:
            if not final and len(carry) < SLAB_BYTES:
                chunk = self._chunk()
                if chunk is None:
                    final = True
                else:
                    carry += chunk
            slab, used, done = self._slab(carry, final=final)
            if slab is not None and len(slab.numbers):
                yield slab
            carry = carry[used:]
            if final and not used:
                break
            if not used and not done and len(carry) >= SLAB_BYTES:
                # Nothing whole yet: take more, up to a limit.
                chunk = self._chunk()
                if chunk is None:
                    final = True
                elif len(carry) > MOST_CARRIED:
                    carry = self._skip(carry + chunk)
                else:
                    carry += chunk
        self._end(carry, done=done)

    def _chunk(self) -> bytes | None:
        assert self._chunks is not None
        chunk = next(self._chunks, None)
        self._size += len(chunk or b"")
        return chunk

    def _end(self, carry: bytes, *, done: bool) -> None:
        assert self._chunks is not None
        if self._lost:
            text = (
                f"{self._lost:,} byte{'s' * (self._lost > 1)} in which no event can be read (zeros, or rests of events)"
            )
            self.ledger.note(LOST_BYTES, f"skipped: {text}", where=self._lost_at)
            if self._lost > MOST_LOST * self._size:
                self.ledger.reserve(f"has {text}, of {self._size:,}")
        if not done:
            rest = carry.strip(b" \t\r\n\0,")
            if rest and self.form == "object" and _members(b"{" + rest) is not None:
                self.ledger.note("list-not-closed", "the bracket that closes the list of events is missing")
                self._take_facts(b"{" + rest)
            elif rest:
                self._drop(TORN, "dropped: the last event was cut")
            elif self.form == "object":
                self.ledger.note("no-end", "the list of events is not closed: the file was cut, events may be missing")
            return
        self.whole = True
        rest = carry
        for chunk in self._chunks:
            if len(rest) <= MOST_HEAD:
                rest += chunk
        rest = rest.lstrip(b" \t\r\n]")
        if again := _AGAIN[self.form].search(rest):
            self.ledger.note("another-list", "another list of events follows the first and was skipped: split the file")
            rest = rest[: again.start() + 1] if self.form == "object" else b""
        if self.form == "object":
            before = dict(self.facts)
            self._take_facts(b"{" + rest.lstrip(b",").rstrip(b"\0 \t\r\n"))
            self.facts = self.facts | before
        elif rest.strip(b"\0 \t\r\n;"):
            self.ledger.note("text-behind", "text behind the list of events was skipped")

    def _slab(self, data: bytes, *, final: bool) -> tuple[Slab | None, int, bool]:
        """Return the whole objects of data, the bytes they take, and whether the list is closed behind them."""
        scanned = scan(data, by_name=self._by_name)
        self._by_name = scanned.names is not None
        if self._is_sound(data, scanned, final=final):
            self.ledger.read += len(scanned.start)
            numbers = np.arange(self._number + 1, self._number + 1 + len(scanned.start))
            self.lost_commas += scanned.joined - (not self._number and scanned.starts_directly)
            self._number += len(scanned.start)
            if scanned.closed < 0:
                return Slab(scanned, numbers), scanned.consumed, False
            if resync.closes_list(data, scanned.closed, final=final):
                self.comma = bool(len(scanned.start)) and data[: scanned.closed].rstrip().endswith(b",")
                return Slab(scanned, numbers), scanned.closed + 1, True
            if len(scanned.start):
                return Slab(scanned, numbers), scanned.consumed, False
        return self._repaired_slab(data, final=final)

    def _is_sound(self, data: bytes, scanned: Scan, *, final: bool) -> bool:
        """Return whether the objects are what the text says, and the text behind them may be what is left of one."""
        if scanned.broken or self._torn or b"\0" in data or not self._all_parse(scanned):
            return False
        if scanned.closed >= 0:
            return not data[scanned.consumed : scanned.closed].strip(b" \t\r\n,")
        return bool(len(scanned.start)) or not (final or len(data) >= SLAB_BYTES)

    def _all_parse(self, scanned: Scan) -> bool:
        if len(self._known) > KNOWN_SHAPES:
            self._known.clear()
        for code, shape in enumerate(scanned.shapes):
            if shape not in self._known:
                if not is_json(scanned.object(int(scanned.sample[code]))):
                    return False
                if has_exponents(shape):
                    if not all(is_json(scanned.object(row)) for row in np.flatnonzero(scanned.codes == code).tolist()):
                        return False
                    continue
                self._known.add(shape)
        return True

    def _repaired_slab(self, data: bytes, *, final: bool) -> tuple[Slab | None, int, bool]:
        texts: list[bytes] = []
        numbers: list[int] = []
        used = 0
        whole = self._number > 0
        for piece in resync.pieces(data, final=final, torn=self._torn):
            commas = data.count(b",", used, piece.start)
            self.lost_commas += not commas and whole and piece.text is not None
            self.doubled_commas += commas > 1
            start, used, text, _, self._torn = piece
            whole = text is not None
            if text is None:
                self._lose(data[start:used], piece)
                continue
            self._lose_zeros()
            self.ledger.read += 1
            self._number += 1
            if text != data[start:used]:
                if text == with_large_numbers_as_text(data[start:used]):
                    code, why = "number-as-text", "events with numbers beyond a double: these were kept as text"
                else:
                    code, why = "mended-json", "events with broken JSON (quotes, escapes, NaN) were repaired"
                self.ledger.note(code, why, where=f"event {self._number}")
            texts.append(text)
            numbers.append(self._number)
        rest = data[used:].lstrip(b" \t\r\n,")
        done = rest[:1] == b"]" and resync.closes_list(data, len(data) - len(rest), final=final)
        if done:
            self.comma = self._number > 0 and b"," in data[used : len(data) - len(rest)]
            used = len(data) - len(rest) + 1
        if not texts:
            return None, used, done
        scanned = scan(b",".join(texts))
        if scanned.broken or len(scanned.start) != len(texts):
            self.ledger.drop("bad-json", len(texts), text="dropped: events that are no JSON")
            return None, used, done
        return Slab(scanned, np.array(numbers, np.int64)), used, done

    def _lose(self, text: bytes, piece: resync.EventText) -> None:
        """Count text that is no JSON: in events where it shows them, else in bytes."""
        if not text.strip(b"\0 \t\r\n"):
            self._zeros += len(text)
            return
        count = events_in(text)
        if piece.cut:
            code, why = TORN, "the last event was cut"
        else:
            code, why = defect(text)
            self._lose_zeros()
            whole = not count or (count == 1 and len(text) > resync.LONGEST_COUNTED)
            self._lose_bytes(len(text) if whole else text.count(b"\0"))
        if count:
            self._drop(code, f"dropped: {why}", count)

    def _lose_zeros(self) -> None:
        self._lose_bytes(self._zeros)
        self._zeros = 0

    def _lose_bytes(self, count: int) -> None:
        if count and not self._lost:
            self._lost_at = f"behind event {self._number}"
        self._lost += count

    def _drop(self, code: str, text: str, count: int = 1) -> None:
        self.ledger.read += count
        self._number += count
        self.ledger.drop(code, count, where=f"event {self._number - count + 1}", text=text)

    def _skip(self, carry: bytes) -> bytes:
        """Drop an object that is too long: return what is behind its end, or where the next event begins.

        Its quotes and brackets say where it ends, if they fit together.
        """
        self._drop("event-too-long", "dropped: an event longer than 16 MiB")
        depth, opened, skipped = 0, b"", 0
        carry = carry.lstrip(b" \t\r\n,")
        has_end = carry.startswith(b"{")
        while True:
            text = opened + carry
            rest = text[len(text.rstrip(b"\\")) :]  # a quote behind it may come with the next chunk
            end = None
            if has_end and skipped < MOST_SKIPPED:
                end, depth, in_string = object_end(text[: len(text) - len(rest)], depth)
                opened = b'"' if in_string else b""
            else:
                opened, rest = b"", text[-LONGEST_BEGIN:]
            begin = resync.next_event(text)
            if end is not None and (begin is None or end <= begin):
                return text[end:]
            if begin is not None:
                self._lose_bytes(skipped + begin)
                return text[begin:]
            skipped += len(carry)
            chunk = self._chunk()
            if chunk is None:
                self._lose_bytes(skipped)
                return b""
            carry = rest + chunk


def is_bare(text: bytes) -> bool:
    """Return whether a text begins with an event outside any list: lines of JSON, or a piece of a trace."""
    if not _BARE.match(text) or _LIST.search(text):
        return False
    try:
        first, _ = json.JSONDecoder().raw_decode(text[:LONGEST_FACT].decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    phase = first.get("ph")
    return isinstance(phase, str) and len(phase) == 1 and bool(first.keys() & {"ts", "pid", "tid"})


def _at_top(head: bytes) -> re.Match[bytes] | None:
    """Return the key "traceEvents" of the outermost object, where its list has begun already."""
    lists = list(_LIST.finditer(head))
    if not lists:
        return None
    head = head[: lists[-1].end()]
    codes = np.frombuffer(head, np.uint8)
    inside = inside_strings(head, codes)
    folded = codes | 0x20
    steps = np.where(inside, 0, (folded == 0x7B).astype(np.int64) - (folded == 0x7D))
    depth = np.cumsum(steps)
    for match in lists:
        at = match.start()
        if at and depth[at - 1] == 1 and not inside[at - 1]:
            return match
    # Quotes out of step before the events: a metadata string with a stray quote is no reason to refuse the file.
    return lists[0] if depth[lists[0].start() - 1] != 1 and not is_json(head[: lists[0].start()] + b'"":0}') else None


def _members(text: bytes) -> dict[str, msgspec.Raw] | None:
    try:
        return _Members.decode(text) if is_json(text) else _repaired_members(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _repaired_members(text: bytes) -> dict[str, msgspec.Raw] | None:
    better = repaired(text)
    return None if better is None else _Members.decode(better)
