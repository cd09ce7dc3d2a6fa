"""Plan for one shape of trace events: the run of digits for each column, and the text that stays in `args`.

A dialect (`kineto`, `chrome_trace` ...) looks at one event of each shape and fills a `Build`. The columns of all
events of that shape follow by arithmetic (`columns`). Where a value is not plain (an exponent, 1e-06; a float
where an integer belongs) the dialect looks at each event by itself, in exact mode, and everything becomes a constant.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import field
from decimal import Decimal, InvalidOperation
from itertools import accumulate
from typing import TypeAlias

import msgspec
import numpy as np

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Column, Mask
from tracekit.model.units import to_ns
from tracekit.readers.names import Pair
from tracekit.readers.trace_event.scan import LONGEST_RUN

__all__ = [
    "CALL",
    "DEVICE",
    "DROPPED",
    "FACT",
    "HOST",
    "IGNORED",
    "KEPT",
    "MEMORY",
    "MOST_SEGMENTS",
    "MOVABLE",
    "NO_EVENT",
    "PAIRED",
    "RELATIVE",
    "SEVERAL",
    "Build",
    "EventPlan",
    "EventRows",
    "Member",
    "fact_rows",
    "members_of",
]

MOST_SEGMENTS = 8
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]|[^"{}\[\],:]++', re.DOTALL)
_DIGITS = re.compile(rb"[0-9]+")
_INTEGER = re.compile(rb"(-?)([0-9]{1,18})")
_DECIMAL = re.compile(rb"(-?)([0-9]{1,18})(?:\.([0-9]{1,18}))?")
_ANY_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)

KEPT, FACT, IGNORED, DROPPED = range(4)
"""Fates of a record: a row, a fact for Run, ignored as one of a class, dropped with a reason."""


HOST, DEVICE, MOVABLE, MEMORY, RELATIVE, PAIRED, SEVERAL, CALL = (1 << n for n in range(8))
"""Flags by which a dialect finds the rows of a shape again: work of the host, of a device; an arrow that may
end on a device; an allocation; a time after the trace's begin; a begin or end; a counter of several series; a call of
the runtime or driver."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object. key_start, start, end: places in the event's text, of the key and of the value."""

    raw: bytes
    key_start: int
    start: int
    end: int

    def text(self) -> str | None:
        """Return the decoded text of a string, None for other values."""
        return msgspec.json.decode(self.raw, type=str) if self.raw[:1] == b'"' else None

    def is_null(self) -> bool:
        """Return whether the value is JSON's null."""
        return self.raw == b"null"


class EventPlan:
    """One event, taken apart: `members` of the object, `args` of its member of that name."""

    __slots__ = ("_behind", "_cut", "_shift", "args", "members", "runs", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.runs = _runs(text)
        self._cut = list(accumulate((end - start - 1 for start, end in self.runs), initial=0))
        self._behind, self._shift = len(text) + 1, 0
        self.members = _members(text, 0, len(text))
        own = self.members.get("args")
        self.args: dict[str, Member] = {}
        if own is not None and own.raw[:1] == b"{":
            self.args = _members(text, own.start, own.end)

    def renamed(self, raw: bytes) -> EventPlan:
        """Return an event whose shape differs from this one's in the name alone, without parsing it again.

        raw: its name as JSON, a string. Places stay those of this event's text, and `place` allows for the other name.
        """
        name = self.members["name"]
        other = EventPlan.__new__(EventPlan)
        other.text, other.runs, other._cut, other.args = self.text, self.runs, self._cut, self.args
        other.members = {**self.members, "name": Member(raw, name.key_start, name.start, name.end)}
        other._behind, other._shift = name.end, len(raw) - (name.end - name.start)
        return other

    def get(self, key: str) -> str | None:
        """Return the text of a member that is a string, else None."""
        member = self.members.get(key)
        return None if member is None else member.text()

    def arg(self, key: str) -> str | None:
        """Return the text of a member of args that is a string, else None."""
        member = self.args.get(key)
        return None if member is None else member.text()

    def items(self, member: Member) -> list[Member]:
        """Return the values of a member that is a list; [] for anything else."""
        return _items(self.text, member) if member.raw[:1] == b"[" else []

    def place(self, at: int) -> tuple[int, int]:
        """Return a place of the text as (offset in the shape, runs of digits before it)."""
        count = bisect_left(self.runs, (at, 0))
        return at - self._cut[count] + (self._shift if at >= self._behind else 0), count

    def run_at(self, at: int) -> int:
        """Return the number of the run that begins at a place, -1 when none does."""
        index = bisect_left(self.runs, (at, 0))
        return index if index < len(self.runs) and self.runs[index][0] == at else -1


def _runs(text: bytes) -> list[tuple[int, int]]:
    out = []
    for token in _TOKEN.finditer(text):
        if token[0][:1] != b'"':
            out += [
                (token.start() + m.start(), token.start() + m.end())
                for m in _DIGITS.finditer(token[0])
                if len(m[0]) <= LONGEST_RUN
            ]
    return out


def _values(text: bytes, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each key and value of one object or list; nested ones are whole."""
    depth = 0
    start = begin + 1
    for token in _TOKEN.finditer(text, begin, end):
        sign = token[0]
        if sign in (b"{", b"["):
            depth += 1
        elif sign in (b"}", b"]"):
            depth -= 1
        if (depth == 1 and sign in (b",", b":")) or depth == 0:
            if token.start() > start:
                yield start, token.start()
            start = token.end()


def _members(text: bytes, begin: int, end: int) -> dict[str, Member]:
    places = list(_values(text, begin, end))
    out: dict[str, Member] = {}
    for (key_start, key_end), (start, stop) in zip(places[::2], places[1::2], strict=True):
        key = msgspec.json.decode(text[key_start:key_end], type=str)
        out[key] = Member(text[start:stop], key_start, start, stop)
    return out


def members_of(text: bytes, member: Member) -> dict[str, Member]:
    """Return the members of a member that is an object."""
    return _members(text, member.start, member.end)


def _items(text: bytes, member: Member) -> list[Member]:
    return [Member(text[a:b], a, a, b) for a, b in _values(text, member.start, member.end)]


NO_EVENT = EventPlan(b"{}")
Const: TypeAlias = str | int | float | None


@dataclass(slots=True)
class Build:
    """A dialect's plan for a shape, or in exact mode for one event.

    consts: column -> value. runs: column -> (negative, run). times: column -> (negative, run, run of the fraction).
    kept: members whose text goes into args. odd: the shape must be looked at event by event.
    """

    event: EventPlan
    exact: bool = False
    unit: str = "us"
    fate: int = KEPT
    reason: str = ""
    why: str = ""
    phase: str = ""
    flags: int = 0
    consts: dict[str, Const] = field(default_factory=dict)
    runs: dict[str, tuple[bool, int]] = field(default_factory=dict)
    times: dict[str, tuple[bool, int, int]] = field(default_factory=dict)
    kept: list[Member] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    odd: bool = False
    whole_args: bool = False
    more_args: dict[str, bytes] = field(default_factory=dict)
    """Members of args that are not text of the event: renamed or computed ones."""
    metadata: tuple[str, str] = ("", "")
    """Of an event of phase M: its name, and the text that it gives a process or thread."""
    category: str | None = None
    """The cat of asynchronous work, None for other events."""
    is_global: bool = False
    """The id of asynchronous work holds for all processes."""
    is_copy: bool = False
    is_in_cycles: bool = False
    series: list[tuple[str, float]] = field(default_factory=list)
    """Name and value of each series of a counter that has several."""
    named: Callable[[str], Pair | None] | None = None
    """Returns `name` and `raw_name` of an event that differs from this one in the name alone.

    Returns None for a name that changes more than these two columns. Without the function every name may.
    """

    def is_below_zero(self, column: str) -> bool:
        """Return whether a column has a negative constant."""
        value = self.consts.get(column)
        return isinstance(value, int) and value < 0

    def drop(self, code: str, text: str) -> None:
        """Drop the record, with its reason."""
        self.fate, self.reason, self.why = DROPPED, code, text

    def ignore(self, what: str) -> None:
        """The record carries no event; `what` names its class."""
        self.fate, self.reason = IGNORED, what

    def integer(self, column: str, member: Member | None, number: Callable[[str | int], int] | None = None) -> bool:
        """Take an integer into a column; false, and nothing taken, where there is none.

        number: makes integers of ids that are text or too large.
        """
        if member is None or member.is_null():
            return False
        raw = member.raw
        match = _INTEGER.fullmatch(raw)
        if match and not self.exact:
            self.runs[column] = (bool(match[1]), self.event.run_at(member.start + len(match[1])))
            return True
        text = raw.decode() if raw[:1] != b'"' else member.text() or ""
        if _ANY_INTEGER.fullmatch(text) and raw[:1] != b'"':
            value: int | None = int(text)
        elif raw[:1] == b'"':
            value = int(text) if number is None and _ANY_INTEGER.fullmatch(text) else None
        else:
            self.odd = True
            value = _whole(text)
        if value is not None and -(1 << 63) < value < 1 << 63:
            self.consts[column] = value
        elif number is not None and (value is not None or raw[:1] == b'"'):
            self.consts[column] = number(text if value is None else value)
        else:
            return False
        return True

    def time(self, column: str, member: Member | None) -> bool:
        """Take a time in µs into "ts_ns" or "dur_ns"; false, and nothing taken, where there is none."""
        if member is None or member.is_null():
            return False
        match = _DECIMAL.fullmatch(member.raw)
        if match and not self.exact:
            at = member.start + len(match[1])
            fraction = self.event.run_at(at + len(match[2]) + 1) if match[3] is not None else -1
            self.times[column] = (bool(match[1]), self.event.run_at(at), fraction)
            return True
        if member.raw[:1] != b'"':
            self.odd = True
        text = member.text() if member.raw[:1] == b'"' else member.raw.decode()
        try:
            self.consts[column] = to_ns(Decimal((text or "").strip()), self.unit)
        except (ValueError, InvalidOperation):
            self.notes["bad-time"] = "times that are not numbers, or beyond 146 years, count as missing"
            return False
        return True

    def number(self, column: str, member: Member | None) -> bool:
        """Take a float into a column (values of counters)."""
        if member is None or member.raw[:1] in (b'"', b"{", b"[", b"n", b"t", b"f"):
            text = None if member is None else member.text()
            if text is None:
                return False
        else:
            text = member.raw.decode()
        try:
            value = float(text)
        except ValueError:
            return False
        match = _INTEGER.fullmatch(member.raw) if member is not None else None
        if match and member is not None and not self.exact and len(match[2]) <= 15:
            self.runs[column] = (bool(match[1]), self.event.run_at(member.start + len(match[1])))
            return True
        if member is not None and member.raw[:1] != b'"':
            self.odd = True
        self.consts[column] = value
        return True

    def keep(self, *members: Member | None) -> None:
        """Put members into args, as they are in the file."""
        self.kept += [m for m in members if m is not None]

    def keep_rest(self, taken: Collection[str], top: frozenset[str]) -> None:
        """Put what found no column into args: members of args but for `taken`, and those beside it that `top` lacks."""
        event = self.event
        rest = [m for k, m in event.args.items() if k not in taken]
        outer = {k: m for k, m in event.members.items() if k not in top}
        own = event.members.get("args")
        if own is not None and own.raw[:1] != b"{" and not own.is_null():
            outer["args"] = own
        for key, member in outer.items():
            if key in event.args and key not in taken:
                while key in event.args:
                    key += "_"
                self.more_args[key] = member.raw
                self.odd = True
            else:
                rest.append(member)
        self.whole_args = bool(event.args) and not outer and not self.kept and len(rest) == len(event.args)
        self.kept += rest

    def segments(self) -> list[tuple[int, int]]:
        """Return the pieces of text that args is made of; neighbours make one piece."""
        out: list[tuple[int, int]] = []
        for member in sorted(self.kept, key=lambda m: m.start):
            if out and out[-1][1] + 1 == member.key_start:
                out[-1] = (out[-1][0], member.end)
            else:
                out.append((member.key_start, member.end))
        return out

    def args_text(self) -> str | None:
        """Return args as a text of its own, for exact mode."""
        parts = [self.event.text[a:b] for a, b in self.segments()]
        parts += [msgspec.json.encode(k) + b":" + v for k, v in self.more_args.items()]
        return (b"{" + b",".join(parts) + b"}").decode() if parts else None


def _whole(text: str) -> int | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return int(value) if value.is_finite() and value.adjusted() < 30 and value == value.to_integral_value() else None


# Rows of one slab of trace events, as columns, with the dialect's plan for each.


@dataclass(slots=True)
class EventRows:
    """Rows of one slab. columns: those with values, all of `count` rows.

    plan: shape (count,), number of each row's plan. builds: plan -> the dialect's answer.
    """

    count: int
    columns: dict[str, Column]
    plan: I64
    builds: list[Build]
    flags: I64
    """Shape (count,), the flags of each row's plan."""
    _used: tuple[I64, I64] | None = None

    def has(self, flag: int) -> Mask:
        """Return which rows have a flag."""
        found: Mask = (self.flags & flag) != 0
        return found

    def used(self) -> tuple[I64, I64]:
        """Return the plans that occur, and for each row the place of its own among them."""
        if self._used is None:
            self._used = np.unique(self.plan, return_inverse=True)
        return self._used

    def take(self, rows: I64 | Mask) -> EventRows:
        """Return some of the rows."""
        if rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)
        index = arrow.array(rows)
        columns = {name: arrow.pc.take(column, index) for name, column in self.columns.items()}
        return EventRows(len(rows), columns, self.plan[rows], self.builds, self.flags[rows])

    def flag(self, of: Callable[[Build], bool]) -> Mask:
        """Return which rows have a plan with a property."""
        found: Mask = self.number(of) != 0
        return found

    def number(self, of: Callable[[Build], int]) -> I64:
        """Return a number of each row's plan."""
        used, place = self.used()
        return np.array([of(self.builds[p]) for p in used.tolist()], np.int64)[place]

    def ints(self, name: str) -> tuple[I64, Mask]:
        """Return the values of an integer column, 0 for null, and which are there."""
        column = self.columns.get(name)
        if column is None:
            return np.zeros(self.count, np.int64), np.zeros(self.count, np.bool_)
        return arrow.ints(column).copy(), arrow.valid(column)


def fact_rows(rows: EventRows, columns: Iterable[str]) -> list[tuple[Build, tuple[int | None, ...]]]:
    """Return each distinct (build, values of the columns) of rows that are facts, in order of appearance."""
    if not rows.count:
        return []
    parts = [rows.plan]
    for name in columns:
        values, mask = rows.ints(name)
        parts += [values, mask.astype(np.int64)]
    _, index = np.unique(np.column_stack(parts), axis=0, return_index=True)
    index.sort()
    out = []
    for at in index.tolist():
        values_of = tuple(int(parts[i][at]) if parts[i + 1][at] else None for i in range(1, len(parts), 2))
        out.append((rows.builds[int(rows.plan[at])], values_of))
    return out
