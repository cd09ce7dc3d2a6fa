"""One line of the recorder's log, typed. The specification is the docstring of recorder/log_format.py."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec

from tracekit.recorder import log_format as log

LIMIT = 1 << 61
"""Numbers beyond are no times: with an offset two of them still fit into 64 bits."""

Int = Annotated[int, msgspec.Meta(ge=-LIMIT, le=LIMIT)]
Count = Annotated[int, msgspec.Meta(ge=0, le=LIMIT)]
Payloads = list[tuple[Annotated[int, msgspec.Meta(ge=0)], msgspec.Raw]]
Numbers = list[Annotated[int, msgspec.Meta(ge=0)]]


class BadLineError(ValueError):
    """A line that is no record; its text is the reason, as the ledger has it."""


class Header(msgspec.Struct, gc=False):
    """The first line of a log."""

    format: str
    version: int
    pid: Int | None = None
    parent_pid: Int | None = None
    rank: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)] | None = None
    world_size: Int | None = None
    tracekit: str = ""
    host: str | None = None
    process: str | None = None
    python: str | None = None
    command: list[str] | None = None
    perf_ns: Int = 0
    epoch_ns: Int | None = None
    forked: bool = False


class _Line(msgspec.Struct, tag_field="k", gc=False):
    pass


class Clock(_Line, tag=log.CLOCK):
    """An anchor: perf_ns, epoch_ns, uncertainty_ns."""

    x: tuple[Int, Int, Int]


class Thread(_Line, tag=log.THREAD):
    """Facts of a thread."""

    t: Int
    tid: int
    name: str = ""
    ident: int | None = None


class Name(_Line, tag=log.NAME):
    """The definition of a name."""

    id: Annotated[int, msgspec.Meta(gt=0, le=LIMIT)]
    name: str
    kind: str | None = None
    category: str | None = None
    color: str | None = None


class Items(_Line):
    """A line with items. count: how many."""

    x: list[Int]
    o: Int = 0
    p: Payloads = []
    u: Numbers = []

    def count(self) -> int:
        """Return the number of items. Raises: BadLineError when the length is no multiple of an item's."""
        stride = log.ITEM_LENGTH[self.kind()]
        if len(self.x) % stride:
            raise BadLineError("bad-line")
        return len(self.x) // stride

    def kind(self) -> str:
        """Return the line's kind."""
        return str(self.__struct_config__.tag)


class Ranges(Items, tag=log.RANGES):
    """Nested begins and ends of one thread."""

    t: Int = 0


class Marks(Items, tag=log.MARKS):
    """Marks."""


class Async(Items, tag=log.ASYNC):
    """Begins and ends that may overlap."""


class Steps(Items, tag=log.STEPS):
    """Step numbers."""


class Counters(Items, tag=log.COUNTERS):
    """Counter values, one an item."""

    v: list[int | float | str] = []


class Note(_Line, tag=log.NOTE):
    """Something that the recorder repaired or gave up."""

    code: str
    count: Count = 1


class Beat(_Line, tag=log.BEAT):
    """A sign of life: all until `t` was written."""

    t: Int
    items: Count
    flushes: Count = 0
    wait: Count = 0


class End(_Line, tag=log.END):
    """The end of the recording."""

    t: Int
    items: Count = 0
    how: str = log.STOP
    error: str = ""
    lost: Count = 0


Line = Clock | Thread | Name | Ranges | Marks | Async | Steps | Counters | Note | Beat | End
_LINES: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
_HEADER: msgspec.json.Decoder[Header] = msgspec.json.Decoder(Header)
_ANY: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KINDS = frozenset((*log.ITEM_LENGTH, *log.FACT_KINDS))
_LARGEST = int(sys.float_info.max)


def parse(line: bytes) -> Line | Header:
    """Return the parsed line. line: without NULs and blanks at its ends.

    Raises: BadLineError with the reason: not-json, unknown-line-kind, bad-line.
    """
    try:
        if line.startswith(b'{"format"'):
            return _header(line)
        found = _LINES.decode(line)
    except (msgspec.DecodeError, RecursionError) as err:
        return _other(line, err)
    if isinstance(found, Items):
        _check_items(found)
    return found


def _header(line: bytes) -> Header:
    head = _HEADER.decode(line)
    if head.format != log.FORMAT_NAME:
        raise BadLineError("unknown-line-kind")
    return head


def _check_items(line: Items) -> None:
    count = line.count()
    if isinstance(line, Counters):
        if len(line.v) != count or any(isinstance(v, str) and v not in log.NON_FINITE for v in line.v):
            raise BadLineError("bad-line")
        if any(isinstance(v, int) and abs(v) > _LARGEST for v in line.v):
            raise BadLineError("bad-line")  # more than a float holds
    elif (line.p and max(n for n, _ in line.p) >= count) or (line.u and max(line.u) >= count):
        raise BadLineError("bad-line")


def _other(line: bytes, err: Exception) -> Header:
    try:
        keys = _ANY.decode(line)
    except (msgspec.DecodeError, RecursionError):
        raise BadLineError("not-json") from err
    if "format" in keys:
        try:
            return _header(line)
        except msgspec.DecodeError:
            raise BadLineError("bad-line") from err
    try:
        kind = msgspec.json.decode(keys.get("k", msgspec.Raw(b"null")))
    except (msgspec.DecodeError, RecursionError):
        kind = None
    raise BadLineError("bad-line" if isinstance(kind, str) and kind in _KINDS else "unknown-line-kind") from err
