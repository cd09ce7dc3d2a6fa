"""Lines of a plane, gathered until their events are worth a batch; a long line is cut into pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tracekit.columns.varints import varint_at
from tracekit.messages import Message, messages
from tracekit.readers.engine.protobuf import plain
from tracekit.readers.engine.wire import BYTES, VARINT, fields_of
from tracekit.readers.xplane._kinds import Role, role_of
from tracekit.readers.xplane._planes import Plane
from tracekit.trace import Ledger

_PIECE_BYTES = 8 << 20
_BATCH_EVENTS = 1 << 16
_EVENT = 0x22
_NEAR = 1 << 14
_HOPS = 8
_GUESSES = 4


@dataclass(frozen=True, slots=True)
class Line:
    """A line or a piece of one. first: records read before its events. count: of its events."""

    number: int
    name: str
    start_ns: int
    role: Role
    where: str
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Taken:
    """Lines of a plane and their events, each as its bytes, line after line."""

    plane: Plane
    lines: Sequence[Line]
    events: Sequence[bytes]

    def halves(self) -> tuple[Taken, Taken]:
        """Return the first and the second half of the events."""
        middle = left = len(self.events) // 2
        before: list[Line] = []
        behind: list[Line] = []
        for line in self.lines:
            own = min(left, line.count)
            left -= own
            if own:
                before.append(replace(line, count=own))
            if own < line.count:
                behind.append(replace(line, first=line.first + own, count=line.count - own))
        return Taken(self.plane, before, self.events[:middle]), Taken(self.plane, behind, self.events[middle:])


@dataclass(slots=True)
class Lines:
    """The lines of a plane that wait for their batch."""

    plane: Plane
    ledger: Ledger
    _lines: list[Line] = field(default_factory=list)
    _events: list[bytes] = field(default_factory=list)
    _bytes: int = 0

    def add(self, data: bytes, where: str) -> Iterator[None]:
        """Take a line. Yields whenever there is enough for a batch."""
        from google.protobuf.message import DecodeError

        whole = messages("xplane")["XLine"]
        try:
            bounds = _bounds(data)
            # The fields of a line itself may be anywhere in it, although writers put them first.
            head = _head(data, bounds)
            name = plain(head.name, self.ledger)
            role = role_of(self.plane, name)
            for begin, end in pairwise(bounds):
                events = whole.FromString(data if len(bounds) == 2 else data[begin:end]).events
                line = Line(head.id, name, head.timestamp_ns, role, where, self.ledger.read, len(events))
                if line.count:
                    self.ledger.read += line.count
                    self._lines.append(line)
                    self._events.extend(events)
                    self._bytes += end - begin
                if len(self._events) >= _BATCH_EVENTS or self._bytes >= _PIECE_BYTES:
                    yield
        except (DecodeError, ValueError):
            self.ledger.read += 1
            self.ledger.drop("damaged", where=where, text="dropped: a line that is no protobuf message")

    def take(self) -> Taken:
        """Return the lines that wait, and begin anew."""
        taken = Taken(self.plane, self._lines, self._events)
        self._lines, self._events, self._bytes = [], [], 0
        return taken


def _bounds(data: bytes) -> list[int]:
    """Return where the pieces of a line begin and end: at its fields. Raises: ValueError, or protobuf's DecodeError.

    Only the lengths from the first field on say where fields begin. So a place is guessed, and what is before it is
    read: if that is a whole message, it ends where a field ends.
    """
    bounds = [0]
    while len(data) - bounds[-1] > _PIECE_BYTES:
        bounds.append(_next_bound(data, bounds[-1]))
    return [*bounds, len(data)]


def _next_bound(data: bytes, begin: int) -> int:
    from google.protobuf.message import DecodeError

    at = begin + _PIECE_BYTES
    for _ in range(_GUESSES):
        guess = _looks_like_a_field(data, at)
        if guess < 0:
            break
        try:
            messages("xplane")["XLineHead"].FromString(data[begin:guess])
        except DecodeError:
            at = guess + 1
            continue
        return guess
    place = begin
    while place < len(data) and place - begin < _PIECE_BYTES:
        place = _after(data, place)
    return place


def _looks_like_a_field(data: bytes, at: int) -> int:
    """Return a place that some events are before and one is at; -1 for none nearby."""
    for start in range(at, min(at + _NEAR, len(data))):
        place = start
        for _ in range(_HOPS):
            if place >= len(data) or data[place] != _EVENT:
                break
            length, behind = varint_at(data, place + 1)
            place = behind + length if length >= 0 else len(data)
        else:
            if place < len(data) and data[place] == _EVENT:
                return place
    return -1


def _after(data: bytes, place: int) -> int:
    """Return where a field ends. Raises: ValueError for what is none."""
    found = next(fields_of(data, place))
    if found.wire not in (VARINT, BYTES) or found.end > len(data):
        raise ValueError("no message")
    return found.end


def _head(data: bytes, bounds: list[int]) -> Message:
    """Return the fields of a line without its events. Raises: DecodeError."""
    kind = messages("xplane")["XLineHead"]
    if len(bounds) == 2:
        return kind.FromString(data)
    head = kind()
    for begin, end in pairwise(bounds):
        piece = kind.FromString(data[begin:end])
        for name in ("id", "name", "timestamp_ns"):
            if piece.HasField(name):
                setattr(head, name, getattr(piece, name))
    return head
