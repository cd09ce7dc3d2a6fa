"""Ranges, marks and counters of one log become columns: names by their ids, threads, steps, args."""

from __future__ import annotations

import json
import sys
from collections.abc import Container, Mapping
from functools import lru_cache
from typing import Annotated

import msgspec
import numpy as np
import pyarrow as pa

from tracekit.model import arrow, schema
from tracekit.model.arrow import I64, Column, Mask
from tracekit.recorder import log_format as log

# One line of the recorder's log, typed. The specification is the docstring of recorder/log_format.py.


LIMIT = 1 << 61
"""Numbers beyond are no times: with an offset two of them still fit into 64 bits."""

Int = Annotated[int, msgspec.Meta(ge=-LIMIT, le=LIMIT)]
Count = Annotated[int, msgspec.Meta(ge=0, le=LIMIT)]
Payloads = list[tuple[Annotated[int, msgspec.Meta(ge=0)], msgspec.Raw]]
Numbers = list[Annotated[int, msgspec.Meta(ge=0)]]


class BadLineError(ValueError):
    """A line that is no record; its text is the reason, as the ledger has it."""


class HeaderLine(msgspec.Struct, gc=False):
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


class _LogLine(msgspec.Struct, tag_field="k", gc=False):
    pass


class Clock(_LogLine, tag=log.CLOCK):
    """An anchor: perf_ns, epoch_ns, uncertainty_ns."""

    x: tuple[Int, Int, Int]


class Thread(_LogLine, tag=log.THREAD):
    """Facts of a thread."""

    t: Int
    tid: int
    name: str = ""
    ident: int | None = None


class NameLine(_LogLine, tag=log.NAME):
    """The definition of a name."""

    id: Annotated[int, msgspec.Meta(gt=0, le=LIMIT)]
    name: str
    kind: str | None = None
    category: str | None = None
    color: str | None = None


class ItemsLine(_LogLine):
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


class RangesLine(ItemsLine, tag=log.RANGES):
    """Nested begins and ends of one thread."""

    t: Int = 0


class MarksLine(ItemsLine, tag=log.MARKS):
    """Marks."""


class Async(ItemsLine, tag=log.ASYNC):
    """Begins and ends that may overlap."""


class StepsLine(ItemsLine, tag=log.STEPS):
    """Step numbers."""


class CountersLine(ItemsLine, tag=log.COUNTERS):
    """Counter values, one an item."""

    v: list[int | float | str] = []


class NoteLine(_LogLine, tag=log.NOTE):
    """Something that the recorder repaired or gave up."""

    code: str
    count: Count = 1


class Beat(_LogLine, tag=log.BEAT):
    """A sign of life: all until `t` was written."""

    t: Int
    items: Count
    flushes: Count = 0
    wait: Count = 0


class End(_LogLine, tag=log.END):
    """The end of the recording."""

    t: Int
    items: Count = 0
    how: str = log.STOP
    error: str = ""
    lost: Count = 0


Line = Clock | Thread | NameLine | RangesLine | MarksLine | Async | StepsLine | CountersLine | NoteLine | Beat | End
_LINES: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
_HEADER: msgspec.json.Decoder[HeaderLine] = msgspec.json.Decoder(HeaderLine)
_ANY: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KINDS = frozenset((*log.ITEM_LENGTH, *log.FACT_KINDS))
_LARGEST = int(sys.float_info.max)


def parse(line: bytes) -> Line | HeaderLine:
    """Return the parsed line. line: without NULs and blanks at its ends.

    Raises: BadLineError with the reason: not-json, unknown-line-kind, bad-line.
    """
    try:
        if line.startswith(b'{"format"'):
            return _header(line)
        parsed = _LINES.decode(line)
    except (msgspec.DecodeError, RecursionError) as err:
        return _other(line, err)
    if isinstance(parsed, ItemsLine):
        _check_items(parsed)
    return parsed


def _header(line: bytes) -> HeaderLine:
    head = _HEADER.decode(line)
    if head.format != log.FORMAT_NAME:
        raise BadLineError("unknown-line-kind")
    return head


def _check_items(line: ItemsLine) -> None:
    count = line.count()
    if isinstance(line, CountersLine):
        if len(line.v) != count or any(isinstance(v, str) and v not in log.NON_FINITE for v in line.v):
            raise BadLineError("bad-line")
        if any(isinstance(v, int) and abs(v) > _LARGEST for v in line.v):
            raise BadLineError("bad-line")  # more than a float holds
    elif (line.p and max(n for n, _ in line.p) >= count) or (line.u and max(line.u) >= count):
        raise BadLineError("bad-line")


def _other(line: bytes, err: Exception) -> HeaderLine:
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


NAMES_KEPT = 1 << 18
"""Names remembered at once: the recorder itself forgets sooner, and defines a name anew when it comes again."""

_OBJECT: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
Extras = Mapping[str, object]


def distinct(values: I64) -> tuple[I64, I64]:
    """Return the distinct values, ascending, and for each value its place among them; quick for small integers."""
    top = int(values.max()) if len(values) else 0
    if not len(values) or int(values.min()) < 0 or top > 4 * len(values) + (1 << 16):
        return np.unique(values, return_inverse=True)
    used = np.zeros(top + 1, np.bool_)
    used[values] = True
    values_used = np.flatnonzero(used)
    places = np.zeros(top + 1, np.int64)
    places[values_used] = np.arange(len(values_used))
    return values_used, places[values]


class NamesLine:
    """The names of one log. lost: how many ids were used without a definition."""

    def __init__(self) -> None:
        self._known: dict[int, NameLine] = {}
        self.lost = 0

    def define(self, name: NameLine) -> None:
        """Take a definition; the oldest one is forgotten when there are too many."""
        self._known[name.id] = name
        if len(self._known) > NAMES_KEPT:
            del self._known[next(iter(self._known))]

    def are(self, kind: str, ids: I64) -> Mask:
        """Return which ids are names of a kind."""
        numbers, places = distinct(ids)
        known = [self._known.get(number) for number in numbers.tolist()]
        return np.array([name is not None and name.kind == kind for name in known], np.bool_)[places]

    def columns(self, ids: I64, fixed_kind: str = "") -> tuple[Column, Column, list[str], I64]:
        """Return name and kind as dictionary arrays; the texts of args that names bring, and which row has which (-1:
        none). fixed_kind: of marks and counters, whose kind is not the name's.
        """
        numbers, places = distinct(ids)
        texts: dict[str, int] = {}
        kinds: dict[str, int] = {}
        args: dict[str, int] = {}
        codes = np.empty((3, len(numbers)), np.int32)
        for at, number in enumerate(numbers.tolist()):
            name = self._known.get(number)
            if name is None:
                self.lost += int(np.count_nonzero(places == at))
                name = NameLine(number, f"name {number} (lost)")
            kind, extra = _kind_and_args(name, fixed_kind)
            codes[0, at] = texts.setdefault(name.name, len(texts))
            codes[1, at] = kinds.setdefault(kind, len(kinds))
            codes[2, at] = args.setdefault(extra, len(args)) if extra else -1
        columns = (
            pa.DictionaryArray.from_arrays(arrow.array(codes[0][places]), arrow.array(list(texts), pa.string())),
            pa.DictionaryArray.from_arrays(arrow.array(codes[1][places]), arrow.array(list(kinds), pa.string())),
        )
        return *columns, list(args), codes[2][places].astype(np.int64)


def _kind_and_args(name: NameLine, fixed_kind: str) -> tuple[str, str]:
    extra: dict[str, object] = {}
    kind = name.kind or log.DEFAULT_KIND
    if fixed_kind:
        if name.kind and name.kind != fixed_kind:
            extra["kind"] = name.kind
        kind = fixed_kind
    elif kind not in schema.KINDS:
        extra["kind"], kind = kind, log.DEFAULT_KIND
    if name.category is not None:
        extra["category"] = name.category
    if name.color is not None:
        extra["color"] = name.color
    return kind, _json(extra) if extra else ""


def _json(value: Extras) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def joined_args(payload: bytes | None, named: str, extras: Extras) -> str:
    """Return the JSON object of an event's args: members of the payload, what the name brings, what the reader adds.

    payload: any JSON value as it is in the log. A key of ours that the payload has too begins with "recorder_".

    >>> joined_args(b'{"id":1}', '{"color":"#fff"}', {"id": 7})
    '{"id":1,"color":"#fff","recorder_id":7}'
    """
    inner = ""
    taken: Container[str] = ()
    keys, ours = _members(named)
    if payload is not None:
        text = payload.decode("utf-8")
        if not text.startswith("{"):
            text = f'{{"payload":{text}}}'
        inner = text[1:-1].strip()
        if "\\" in text or any(f'"{key}"' in text for key in (*keys, *extras)):
            taken = _OBJECT.decode(text)
    if extras or taken:
        members = (json.loads(named) if named else {}) | dict(extras)
        ours = _json({(f"recorder_{key}" if key in taken else key): value for key, value in members.items()})[1:-1]
    return f"{{{inner},{ours}}}" if inner and ours else f"{{{inner or ours}}}"


@lru_cache(maxsize=1024)
def _members(named: str) -> tuple[tuple[str, ...], str]:
    """Return the keys of the args that a name brings, and its members without the braces."""
    return (tuple(json.loads(named)), named[1:-1]) if named else ((), "")


def args_column(
    records: I64, payloads: dict[int, bytes], named: list[str], name_codes: I64, extras: Mapping[int, Extras]
) -> Column | None:
    """Return the args of each row, None where no row has any.

    records: number of the record of each row; its payload is taken out of `payloads`. named, name_codes: as `NamesLine`
    gives them. extras: by row.
    """
    rows = set(extras)
    if payloads:
        keys = np.fromiter(payloads, np.int64, len(payloads))
        rows.update(np.flatnonzero(np.isin(records, keys)).tolist())
    if not rows and not named:
        return None
    entries, codes = list(named), name_codes.copy()
    for row in rows:
        code = int(name_codes[row])
        payload = payloads.pop(int(records[row]), None)
        codes[row] = len(entries)
        entries.append(joined_args(payload, named[code] if code >= 0 else "", extras.get(row, {})))
    return arrow.pc.take(arrow.array(entries, pa.string()), arrow.array(codes, mask=codes < 0))


def step_column(steps: tuple[I64, I64], starts: I64) -> Column | None:
    """Return the step in which each start falls. steps: times, ascending, and the number that begins at each."""
    times, numbers = steps
    if not len(times):
        return None
    place = np.searchsorted(times, starts, "right") - 1
    step_numbers = np.where(place >= 0, numbers[place], log.NO_STEP).astype(np.int32)
    return arrow.array(step_numbers, mask=step_numbers == log.NO_STEP)
