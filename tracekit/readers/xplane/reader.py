"""xplane: profiles of TensorFlow, JAX and PyTorch/XLA (`*.xplane.pb`, the messages of xplane.proto).

    planes: {name: "/device:GPU:0", lines: {id: 7, name: "Stream #7(Compute)", timestamp_ns: 237916,
             events: {metadata_id: 2, offset_ps: 1921054081000, duration_ps: 57343000, stats: ...}}}

A record is an event of a line. A start is the `timestamp_ns` of the line plus the `offset_ps` of the event. `ts_ns` and
the end are whole ns, rounded down, so that what lies within a range stays within it. `args` has what is left, in ps:
`ts_ps` (0 to 999) and `dur_ps` (-999 to 999); `dur_ns * 1000 + dur_ps` is the exact duration. Neither is there for 0.

Kinds: work on the lines `Stream #n(...)` of a GPU and on `XLA Ops` and `Sparse Core Ops` of a TPU is kernel, memcpy or
memset. An op of a TPU that starts an asynchronous copy or waits for one (`copy-start`, `copy-done`) is memcpy: the core
does nothing else then. The copy itself is a row of Async XLA Ops, which may run beside compute. An op that encloses
others (a loop) is other, as its time is theirs. All other lines of devices are derived from these or overlap them
(Steps, XLA Modules, TensorFlow Ops and Name Scope, Async XLA Ops, ...): their rows are other, with `derived` in `args`,
and are in no sum of device work. On the host: calls of CUDA and HIP, Python functions (`$file.py:12 f`), other rows
with a correlation id (TensorFlow names calls of the driver after their kernel), operators of TensorFlow (`name:Type`)
and of XLA on a CPU (ranges with an `hlo_op`), steps (ranges with a `step_num`). All else is other, as ranges of users
look like those of XLA.

Stats of an event, and of all events of its name, are in `args`. Columns: `correlation`, launch shape and bytes out of
`kernel_details`, `memcpy_details`, `memset_details`. `device` is the number in the name of the plane, `stream` the id
of the line, `tid` the line of the host. An event with a number of occurrences has no time and is a row of totals.

Work on a GPU names its op of a compiled program (`hlo_op`, `program_id`), and `/host:metadata` has the programs. `args`
then has a member `xla_op`: op, opcode, computation and framework name; family, sizes and datatype of a product or
convolution; FLOPs, and the least bytes to read and write. Kernels of a CUDA graph (`command_buffer_1`) have the op that
the order of the program gives them. A TPU's events state FLOPs and bytes; `memory_access_breakdown` has those of HBM.

Times are Unix time where the lines have it, or where the plane `Task Environment` says when the profile began; else
they count from an unknown zero. Lines of devices may have another zero than those of the host.
Not supported: what compiled programs say about buffers.
Sources: xplane.proto and xplane_schema.h of tsl/profiler, hlo.proto and xla_data.proto of XLA; files of TensorFlow 2.4
(8 GPUs), JAX (4 TPUs, MI300X, H100), and of TensorFlow 2.21 and JAX 0.10 on a CPU, whose sums are those of JAX's
`ProfileData` and of xprof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.messages import ProtobufMessage, messages
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Mask, Rows, pc
from tracekit.model.digits import varint_at
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.model.units import MAX_NS
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import FIRST_TEXT_ID, IdTable, Values, bounded, event_batch, totals_batch
from tracekit.readers.engine.protobuf import INT32_MAX, INT64_MAX, EventType, plain, tell_cut, walk
from tracekit.readers.engine.wire import BYTES, VARINT, fields_of
from tracekit.readers.head import Head
from tracekit.readers.names import Demangler
from tracekit.readers.source import Source
from tracekit.readers.xplane._hlo_programs import HloPrograms
from tracekit.readers.xplane._hlo_rows import HloRows, NamedEvents, ops_of_events
from tracekit.readers.xplane._members import Common, TooLongError, XPlaneMembers, distinct, members
from tracekit.readers.xplane._planes import (
    DETAILS,
    ENTER,
    MOST_BYTES,
    Plane,
    PlaneName,
    PlaneRole,
    Space,
    details,
    is_changed,
    kind_of,
    look,
    role_of,
)
from tracekit.readers.xplane._scan import scan

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]


def sniff(head: Head) -> Confidence:
    """Return YES if the file begins with a plane that has one of XPlane's names."""
    if head.data[:1] != b"\x0a":
        return Confidence.NO
    from tracekit.readers.xplane import _planes

    return _planes.sniff(head)


# Stats of a name, and of events that `_members` leaves out, one by one: as columns and as `args`.


_MOST_CELLS = 1 << 16
_NOTHING: dict[str, int] = {}
_NO_KEYS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _StatCell:
    """A stat: its JSON, "" if its columns have all of it."""

    key: str
    value: str
    columns: dict[str, int]


class StatCells:
    """The stats of the events of one plane."""

    def __init__(self, plane: Plane, ledger: Ledger) -> None:
        self.plane, self.ledger = plane, ledger
        self._cells: dict[bytes, _StatCell] = {}
        self._common: dict[int, list[_StatCell]] = {}
        self._texts: dict[int, tuple[str, frozenset[str]]] = {}

    def row(
        self, stats: Iterable[bytes], name: PlaneName, rest: tuple[int, int], op: str = "", *, derived: bool
    ) -> tuple[str | None, dict[str, int]]:
        """Return `args` of an event, and the columns that its stats have.

        rest: the ps of start and duration. op: its member `xla_op`, behind a comma.
        """
        start_ps, length_ps = rest
        left = {'"derived":': "true"} if derived else {}
        if start_ps:
            left['"ts_ps":'] = str(start_ps)
        if length_ps:
            left['"dur_ps":'] = str(length_ps)
        for cell in self._of_name(name):
            left[cell.key] = cell.value
        if op:
            left['"xla_op":'] = op.partition(":")[2]
        columns: dict[str, int] = {}
        for data in stats:
            cell = self._cells.get(data) or self._cell(data)
            columns |= cell.columns
            if cell.value:
                left[cell.key] = cell.value
        return "{" + ",".join([key + value for key, value in left.items()]) + "}" if left else None, columns

    def of_name(self, name: PlaneName) -> tuple[str, frozenset[str]]:
        """Return what all events of a name have in `args`, each member behind a comma, and its keys."""
        if not name.stats and not name.short:
            return "", _NO_KEYS
        found = self._texts.get(id(name))
        if found is None:
            members = {cell.key: cell.value for cell in self._of_name(name)}
            text = "".join([f",{key}{value}" for key, value in members.items()])
            found = self._texts[id(name)] = text, frozenset(orjson.loads(key[:-1]) for key in members)
        return found

    def _of_name(self, name: PlaneName) -> list[_StatCell]:
        if not name.stats and not name.short:
            return []
        cells = self._common.get(id(name))
        if cells is None:
            cells = [self._cell(data) for data in name.stats]
            cells = [_StatCell(cell.key, cell.value or "null", _NOTHING) for cell in cells]
            if name.short and name.short != name.name:
                cells.append(
                    _StatCell('"display_name":', orjson.dumps(bounded(name.short, self.ledger)).decode(), _NOTHING)
                )
            self._common[id(name)] = cells
        return cells

    def _cell(self, data: bytes) -> _StatCell:
        from google.protobuf.message import DecodeError

        if len(self._cells) >= _MOST_CELLS:
            self._cells.clear()
        try:
            key, value = self.plane.stat(data)
        except DecodeError:
            self.ledger.note("bad-stat", "stats that are no protobuf messages were left out")
            key, value = "damaged stat", data[:64].hex()
        columns: dict[str, int] = _NOTHING
        text = ""
        if key in DETAILS and isinstance(value, str):
            columns, rest = details(value)
            text = orjson.dumps(rest).decode() if rest else ""
        elif key == "correlation_id" and isinstance(value, int) and 0 <= value <= INT64_MAX:
            columns = {"correlation": value}
        elif key == "step_num" and isinstance(value, int) and 0 <= value <= INT32_MAX:
            columns = {"step": value}
        else:
            text = orjson.dumps(value).decode()
        cell = self._cells[data] = _StatCell(orjson.dumps(key).decode() + ":", text, columns)
        return cell


# Lines of a plane, gathered until their events are worth a batch; a long line is cut into pieces.


_PIECE_BYTES = 8 << 20
_BATCH_EVENTS = 1 << 16
_EVENT = 0x22
_NEAR = 1 << 14
_HOPS = 8
_GUESSES = 4


@dataclass(frozen=True, slots=True)
class XPlaneLine:
    """A line or a piece of one. first: records read before its events. count: of its events."""

    number: int
    name: str
    start_ns: int
    role: PlaneRole
    where: str
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Taken:
    """Lines of a plane and their events, each as its bytes, line after line."""

    plane: Plane
    lines: Sequence[XPlaneLine]
    events: Sequence[bytes]

    def halves(self) -> tuple[Taken, Taken]:
        """Return the first and the second half of the events."""
        middle = left = len(self.events) // 2
        before: list[XPlaneLine] = []
        behind: list[XPlaneLine] = []
        for line in self.lines:
            taken = min(left, line.count)
            left -= taken
            if taken:
                before.append(replace(line, count=taken))
            if taken < line.count:
                behind.append(replace(line, first=line.first + taken, count=line.count - taken))
        return Taken(self.plane, before, self.events[:middle]), Taken(self.plane, behind, self.events[middle:])


@dataclass(slots=True)
class XPlaneLines:
    """The lines of a plane that wait for their batch."""

    plane: Plane
    ledger: Ledger
    _lines: list[XPlaneLine] = field(default_factory=list)
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
                line = XPlaneLine(head.id, name, head.timestamp_ns, role, where, self.ledger.read, len(events))
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
    next_field = next(fields_of(data, place))
    if next_field.wire not in (VARINT, BYTES) or next_field.end > len(data):
        raise ValueError("no message")
    return next_field.end


def _head(data: bytes, bounds: list[int]) -> ProtobufMessage:
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


# One batch: the rows of the events of some lines of a plane.


_MOST_PS = 1 << 62
"""53 days after the start of a line."""
_KINDS = tuple(Kind)
_ROLES = tuple(PlaneRole)


class XPlaneBatch:
    """The rows of some lines. Raises: TooLongError; nothing has been counted then."""

    def __init__(self, taken: Taken, cells: StatCells, ledger: Ledger, hlo: HloRows) -> None:
        self.taken, self.plane, self.cells, self.ledger = taken, taken.plane, cells, ledger
        self.lines = taken.lines
        self.count = len(taken.events)
        self.scanned = scan(taken.events)
        self.counts = np.array([line.count for line in self.lines])
        self.line = np.repeat(np.arange(len(self.lines)), self.counts)
        self.odd: dict[int, Any] = {}
        self.damaged = np.zeros(self.count, np.bool_)
        self._read_odd()
        self._read_times()
        self._read_names()
        role = np.array([_ROLES.index(line.role) for line in self.lines])
        self.role = role[self.line]
        self.ops = self._ops(hlo)
        self.members = self._members()

    def _read_odd(self) -> None:
        """Give events of another form to protobuf."""
        from google.protobuf.message import DecodeError

        kind, scanned = messages("xplane")["XEvent"], self.scanned
        for row in scanned.odd.tolist():
            try:
                event = self.odd[row] = kind.FromString(scanned.body(row))
            except DecodeError:
                self.damaged[row] = True
                continue
            scanned.number[row], scanned.offset[row] = event.metadata_id, event.offset_ps
            scanned.length[row], scanned.often[row] = event.duration_ps, event.num_occurrences

    def _read_times(self) -> None:
        scanned = self.scanned
        offset, length = scanned.offset, scanned.length
        good = (offset > -_MOST_PS) & (offset < _MOST_PS) & (length >= 0) & (length < _MOST_PS)
        if not good.all():
            offset, length = np.where(good, offset, 0), np.where(good, length, 0)
        starts = [line.start_ns if 0 <= line.start_ns < MAX_NS else -MAX_NS for line in self.lines]
        base = np.array(starts)[self.line]
        end = offset + length
        self.offset, self.behind = offset, end
        whole = offset // 1000
        self.start_ps = offset - whole * 1000
        end_ns = end // 1000
        self.length_ps = length - (end_ns - whole) * 1000
        self.start, self.end = base + whole, base + end_ns
        self.summed = (scanned.often > 0) & (offset == 0) & good & ~self.damaged
        self.good = good & (((self.start >= 0) & (self.end < MAX_NS)) | self.summed) & ~self.damaged

    def _read_names(self) -> None:
        numbers, self.name = distinct(self.scanned.number)
        used = set(self.name[~self.damaged].tolist()) if self.damaged.any() else range(len(numbers))
        self.unnamed = [numbers[at] for at in used if numbers[at] not in self.plane.names]
        self.names = [self.plane.names.get(number) or PlaneName(f"event {number}", "", ()) for number in numbers]

    def _ops(self, hlo: HloRows) -> tuple[list[str], Rows]:
        """Return the ops of compiled programs: distinct members of `args`, and the number of that of each event."""
        kinds = (PlaneRole.STREAM, PlaneRole.OPS)
        # A plane is of one sort of device, and has lines of one of these roles.
        role = next((line.role for line in self.lines if line.role in kinds), PlaneRole.OTHER)
        measured = self.role == _ROLES.index(role) if role in kinds else np.zeros(self.count, np.bool_)
        start = self.start * 1000 + self.start_ps
        return ops_of_events(NamedEvents(self.scanned, self.plane, self.names, self.name, start, measured, role), hlo)

    def _members(self) -> XPlaneMembers:
        common = [self.cells.of_name(name) for name in self.names]
        derived = self.role == _ROLES.index(PlaneRole.DERIVED)
        texts, keys = [text for text, _ in common], [keys for _, keys in common]
        rows = Common(derived, self.start_ps, self.length_ps, self.name, texts, keys, *self.ops)
        return members(self.scanned, rows, self.plane.key, self._odd_members)

    def _odd_members(self, row: int) -> tuple[str | None, dict[str, int]]:
        if self.damaged[row]:
            return None, {}
        event = self.odd.get(row) or messages("xplane")["XEvent"].FromString(self.scanned.body(row))
        rest = int(self.start_ps[row]), int(self.length_ps[row])
        derived = _ROLES[self.role[row]] is PlaneRole.DERIVED
        texts, codes = self.ops
        op = texts[codes[row]]
        return self.cells.row(event.stats, self.names[self.name[row]], rest, op, derived=derived)

    def count_rows(self) -> None:
        """Count the events in the ledger."""
        ledger = self.ledger
        bad = np.bincount(self.line[~self.good & ~self.damaged], minlength=len(self.lines))
        damaged = np.bincount(self.line[self.damaged], minlength=len(self.lines))
        for line, lost, broken in zip(self.lines, bad.tolist(), damaged.tolist(), strict=True):
            if broken:
                ledger.drop("damaged", broken, where=line.where, text="dropped: an event that is no protobuf message")
            if lost:
                text = "dropped: its time is negative or out of range"
                ledger.drop("bad-time", lost, where=line.where, text=text)
        for _ in self.unnamed:
            text = "names are not in the file, which ends before them: events have the number of their name"
            ledger.note("names-missing", text, where=self.lines[0].where)

    def totals(self, first: int, source: int) -> Iterator[pa.RecordBatch]:
        """Yield rows of events with a number of occurrences instead of a time, line by line. first: their order."""
        for at in sets.unique(self.line[self.good & self.summed]).tolist():
            rows = np.flatnonzero(self.good & self.summed & (self.line == at)).tolist()
            lengths = self.scanned.length[rows].tolist()
            args = [orjson.dumps({"plane": self.plane.name, "dur_ps": length}).decode() for length in lengths]
            columns: dict[str, Values] = {
                "source": source,
                "run": 0,
                "section": self.lines[at].name or self.plane.name or "events",
                "order": np.arange(first, first + len(rows), dtype=np.int32),
                "kind": str(Kind.OTHER),
                "name": [self.names[self.name[row]].name for row in rows],
                "calls": self.scanned.often[rows],
                "total_ns": [length // 1000 for length in lengths],
                "device": list(repeat(self.plane.device, len(rows))),
                "args": args,
            }
            first += len(rows)
            self.ledger.kept += len(rows)
            self.ledger.totals_out += len(rows)
            yield totals_batch(len(rows), columns)

    def events(self, lane: Callable[[XPlaneLine], int], names: Demangler, source: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows with a time. lane: names a line and returns the number of its thread or stream."""
        keep = np.flatnonzero(self.good & ~self.summed)
        count = len(keep)
        self.ledger.kept += count
        self.ledger.events_out += count
        if not count:
            return
        all_of_them = count == self.count
        line, name, start = (each if all_of_them else each[keep] for each in (self.line, self.name, self.start))
        used = np.zeros(len(self.lines), np.bool_)
        used[line] = True
        lanes = np.array([lane(each) if there else 0 for each, there in zip(self.lines, used.tolist(), strict=True)])
        first = np.array([each.first for each in self.lines]) - (np.cumsum(self.counts) - self.counts) + 1
        columns: dict[str, Values] = {"source": source, "ts_ns": start, "event_id": keep + first[line]}
        columns["dur_ns"] = (self.end if all_of_them else self.end[keep]) - start
        columns["tid" if self.plane.device is None else "stream"] = lanes[line]
        if self.plane.device is not None:
            columns["device"] = self.plane.device
        args = self.members.args
        columns["args"] = args if all_of_them else arrow.take(args, keep)
        for column, (values, there) in self.members.columns.items():
            values, there = (values, there) if all_of_them else (values[keep], there[keep])
            columns[column] = arrow.array(values, mask=~there)
        columns["kind"], columns["copy_kind"] = self._kinds(keep)
        texts: dict[str, int] = {}
        spots = np.array([texts.setdefault(each.name, len(texts)) for each in self.names], np.int32)
        dictionary = arrow.array(list(texts), pa.string())
        columns["name"], columns["raw_name"] = names.columns(pa.DictionaryArray.from_arrays(spots[name], dictionary))
        yield event_batch(count, columns)

    def _kinds(self, keep: Rows) -> tuple[Values, Values]:
        """Return kinds, and directions of copies."""
        role = self.role[keep]
        pairs, place = distinct(role * len(self.names) + self.name[keep])
        kinds_of_pairs = [
            kind_of(_ROLES[pair // len(self.names)], self.names[pair % len(self.names)].name) for pair in pairs
        ]
        codes = np.array([_KINDS.index(kind) for kind, _ in kinds_of_pairs], np.int32)[place]
        for at in sets.unique(self.line[keep[role == _ROLES.index(PlaneRole.OPS)]]).tolist():
            rows = np.flatnonzero(self.line[keep] == at)
            enclosing = rows[_encloses(self.offset[keep[rows]], self.behind[keep[rows]])]
            codes[enclosing] = _KINDS.index(Kind.OTHER)
        host = role == _ROLES.index(PlaneRole.HOST)
        if host.any() and "hlo_op" in self.plane.keys.values():
            # Ops of XLA, run by a CPU: their stats name the op.
            named = arrow.bools(pc.match_substring(self.members.args, '"hlo_op":'))[keep]
            codes[host & named & (codes == _KINDS.index(Kind.OTHER))] = _KINDS.index(Kind.OPERATOR)
        if "correlation" in self.members.columns:
            # TensorFlow names calls of CUDA's driver after their kernel or copy (cupti_collector.cc: DriverCallback).
            launching = self.members.columns["correlation"][1][keep]
            codes[host & launching & (codes == _KINDS.index(Kind.OTHER))] = _KINDS.index(Kind.DRIVER)
        if "step" in self.members.columns:
            codes[host & self.members.columns["step"][1][keep]] = _KINDS.index(Kind.STEP)
        kinds = pa.DictionaryArray.from_arrays(codes, arrow.array([str(kind) for kind in _KINDS]))
        copies = [direction for _, direction in kinds_of_pairs]
        if not any(copies):
            return kinds, None
        return kinds, arrow.take(arrow.array(copies, pa.string()), place)


def _encloses(start: I64, end: I64) -> Mask:
    """Return which ranges of a line have another one within them."""
    encloses = np.zeros(len(start), np.bool_)
    real = np.flatnonzero(end > start)
    order = real[np.lexsort((-end[real], start[real]))]
    first, then = order[:-1], order[1:]
    encloses[first] = (start[then] < end[first]) & (end[then] <= end[first])
    return encloses


# Events of an XSpace: the lines of a plane together, some ten thousand events at a time.


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events. Raises: ParseError for a file that was changed as if it were text, and without planes."""
    if is_changed(source.head()):
        raise ParseError(
            source.name,
            "byte 0",
            "the file was changed as if it were text: each byte above 0x7f became U+FFFD",
            hint="copy it again, in binary mode",
        )
    space = look(source)
    if not any(plane.name for plane in space.planes):
        raise ParseError(source.name, "byte 0", "no plane of an XSpace can be read")
    run = Run(sources=[SourceFacts(source.name, "xplane", facts={"tool": "XPlane profiler"})])
    space.describe(run, options.source, ledger)
    return ReadResult(
        run, _XPlaneReading(source, options, ledger, run, space).batches(), ordered=False, ledgers=(ledger,)
    )


class _XPlaneReading:
    """One reading of one file."""

    def __init__(self, source: Source, options: ReadOptions, ledger: Ledger, run: Run, space: Space) -> None:
        self.source, self.options, self.ledger, self.run, self.space = source, options, ledger, run, space
        self.names = Demangler(ledger, enabled=options.demangle)
        self.tids = IdTable(run, "tid", options.source)
        self.streams = IdTable(run, "stream", options.source)
        self.order = 0
        self.cells = StatCells(Plane(), ledger)
        self.hlo = HloRows(HloPrograms(space.planes))

    def batches(self) -> Iterator[pa.RecordBatch]:
        planes = iter(self.space.planes)
        lines = XPlaneLines(Plane(), self.ledger)
        try:
            for met in walk(self.source.chunks(self.ledger), ENTER, MOST_BYTES):
                if met.what in (EventType.DAMAGE, EventType.CUT):
                    tell_cut(self.ledger, met)
                elif met.what is EventType.OPEN:
                    lines = XPlaneLines(next(planes, Plane()), self.ledger)
                    self.cells = StatCells(lines.plane, self.ledger)
                elif met.what is EventType.CLOSE:
                    yield from self._of(lines.take())
                elif met.what is EventType.FIELD and met.level == "plane" and met.number == 3:
                    for _ in lines.add(met.value if isinstance(met.value, bytes) else b"\0", f"byte {met.at}"):
                        yield from self._of(lines.take())
        finally:
            self.names.close()

    def _of(self, taken: Taken) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some lines of a plane."""
        if taken.events:
            try:
                batch = XPlaneBatch(taken, self.cells, self.ledger, self.hlo)
            except TooLongError:
                for half in taken.halves():
                    yield from self._of(half)
                return
            batch.count_rows()
            for totals in batch.totals(self.order, self.options.source):
                self.order += totals.num_rows
                yield totals
            yield from batch.events(lambda line: self._lane(taken.plane, line), self.names, self.options.source)

    def _lane(self, plane: Plane, line: XPlaneLine) -> int:
        """Return the number of the thread or stream of a line, and name it."""
        source, text = self.options.source, line.name
        if plane.device is None:
            is_plain = plane.name == "/host:CPU" and line.number < FIRST_TEXT_ID
            tid = self.tids.number(line.number if is_plain else f"{plane.name} {line.number}")
            self.run.threads[source, None, tid] = text if line.role is PlaneRole.HOST else f"{plane.name} {text}"
            return tid
        is_plain = not plane.part and line.number < FIRST_TEXT_ID
        stream = self.streams.number(line.number if is_plain else f"{plane.name} {line.number}")
        self.run.streams[source, plane.device, stream] = f"{text} ({plane.name})" if plane.part else text
        return stream
