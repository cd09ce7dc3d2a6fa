"""Shared by the dialects of the Trace Event format: ids, metadata events, flows, names, and the loop over slabs.

The format is "Trace Event Format" (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU); ts and dur
are µs. A record is an element of the list of events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import field

import numpy as np
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Column, Mask, pc
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.base import ReadOptions
from tracekit.readers.builder import FIRST_TEXT_ID, IdTable, Values, event_batch
from tracekit.readers.names import Pair
from tracekit.readers.printed.late import AROUND_BYTES, BLOCK_BYTES, SEARCH_SHARE, text_around
from tracekit.readers.source import Source
from tracekit.readers.trace_event.columns import Planner
from tracekit.readers.trace_event.plan import FACT, MOVABLE, Build, EventRows, fact_rows
from tracekit.readers.trace_event.stream import EventStream

__all__ = [
    "EPOCH_FROM_US",
    "FLOW_PHASES",
    "TOP",
    "EventReading",
    "LaneIds",
    "RankLabels",
    "as_it_is",
    "begin",
    "filled",
    "first_time",
    "flow",
    "lane",
    "look_for_names",
    "metadata",
    "move_arrows",
    "named",
    "planned",
    "times",
    "where",
]

TOP = frozenset({"ph", "cat", "name", "pid", "tid", "ts", "dur", "args"})
"""Members beside args that have columns, or a place in `kind`."""
FLOW_PHASES = frozenset({"s", "t", "f"})
INSTANT_PHASES = frozenset({"i", "I", "R", "n"})
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)
_FIRST_TIME = re.compile(rb'"ts"\s*:\s*"?([0-9]{1,25})')
_RANK = r"((?i:rank|[a-z]{0,4}[tpdecsm]p))[-_:= ]?([0-9]{1,6})"
_RANKED = re.compile(rf"\[({_RANK}(?:[-_:,/| ]{{1,3}}{_RANK})*)\]", re.ASCII)
"""Dimensions of parallel groups with their numbers: tp, pp, dp, ep, cp, sp, mp, fsdp, or a rank."""
_ANY_TIME = rb'"ts"\s*:\s*"?[1-9]'
EPOCH_FROM_US = 10**15
"""Times from here on are Unix time: 2001-09-09 in µs. A clock that counts from boot would need 31 years."""
_PHASE_M = re.compile(rb'"M"')
_MOST_BRACES = 8
"""Opening braces before a word of an event, of which one may begin the event."""
_MOST_MISSES = 1 << 14
"""Marks of metadata without an event around them, after which the search ends: each costs some attempts to decode."""
_DECODER = json.JSONDecoder()
MOST_NAMES = 100_000
"""Names of processes, threads and streams that one file may bring."""


class LaneIds(IdTable):
    """Ids of processes, threads or streams. Text that is a number is that number: torch 1.8 writes both of one thread.

    before: a text before the number ("stream 7").
    """

    def __init__(self, run: Run, column: str, source: int, *, before: str = "") -> None:
        super().__init__(run, column, source)
        self._before = before

    def number(self, text: str | int) -> int:
        """Return the integer of an id."""
        if isinstance(text, str) and _NUMBER.fullmatch(plain := text.removeprefix(self._before)):
            return int(plain)
        return super().number(text)


class RankLabels:
    """Ranks by the labels that tools put before each pid when they join files: "[TP01] 4711", "[DP0 TP1] 0".

    A label with one number has the rank of that number. Labels with several are numbered as they come, since the sizes
    of the groups are not in the file. `Run.ids` has their texts.
    """

    def __init__(self, run: Run, source: int) -> None:
        self._run, self._source = run, source
        self._known: dict[str, int] = {}

    def label(self, pid: int) -> str:
        """Return the label before a pid, "" without one."""
        return self._run.ids.get(("pid", self._source, pid), "").rpartition(" ")[0]

    def of(self, pids: I64) -> I64 | None:
        """Return the ranks that the labels name, -1 for none; None where no label names one."""
        if not len(pids) or int(pids.max()) < FIRST_TEXT_ID:
            return None
        known_pids, at, place = np.unique(pids, return_index=True, return_inverse=True)
        found = np.full(len(known_pids), -1, np.int64)
        for each in np.argsort(at).tolist():  # in their order in the file
            found[each] = self._number(self.label(int(known_pids[each])))
        return found[place] if (found >= 0).any() else None

    def names(self) -> str:
        """Return the ranks that labels name, in their order in the file."""
        return ", ".join(label.strip("[]") for label, rank in self._known.items() if rank >= 0)

    def _number(self, label: str) -> int:
        known = self._known.get(label)
        if known is None:
            match, known = _RANKED.fullmatch(label), -1
            if match is not None:
                taken, parts = set(self._known.values()), re.findall(_RANK, match[1])
                known = int(parts[0][1]) if len(parts) == 1 else 0
                while known in taken:
                    known += 1
                self._run.ids["rank", self._source, known] = re.sub(r"(?i)^rank\W?(?=[0-9]+$)", "", match[1])
            self._known[label] = known
        return known


@dataclass(slots=True)
class EventNames:
    """Names from metadata events: by (pid, tid), and labels of processes, in order of appearance."""

    processes: dict[int, str] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        """Return whether there are as many names as one file may bring."""
        return len(self.processes) + len(self.labels) + len(self.threads) > MOST_NAMES


@dataclass(slots=True)
class EventReading:
    """The state of one reading, which a dialect's functions share."""

    source: Source
    options: ReadOptions
    ledger: Ledger
    run: Run
    events: EventStream
    pids: IdTable
    tids: IdTable
    streams: IdTable
    flows: IdTable
    names: EventNames = field(default_factory=EventNames)

    @property
    def facts(self) -> dict[str, object]:
        """The members beside the events in the file."""
        return self.events.facts

    def batch(self, rows: EventRows, **more: Values) -> pa.RecordBatch:
        """Return rows as a batch of EVENTS, counted."""
        self.ledger.events_out += rows.count
        return event_batch(rows.count, {**rows.columns, "source": self.options.source, **more})


def begin(
    source: Source,
    options: ReadOptions,
    ledger: Ledger,
    tool: str,
    name: str,
    rewrite: Callable[[bytes], bytes] | None = None,
) -> EventReading:
    """Open the stream and find the facts before and behind the events. rewrite: as `EventStream` has it.

    Raises: ParseError.
    """
    run = Run()
    events = EventStream(source, ledger, rewrite)
    events.open()
    events.look_ahead()
    number = options.source
    run.sources.append(SourceFacts(source.name, name, facts={"tool": tool}))
    pids, tids, streams = (LaneIds(run, column, number) for column in ("pid", "tid", "stream"))
    return EventReading(source, options, ledger, run, events, pids, tids, streams, IdTable(run, "correlation", number))


def first_time(source: Source) -> int:
    """Return the latest time in the head of the input, in the file's unit; of one without any, a time behind it.

    0 where there is none: the head may be all metadata, whose times are 0.
    """
    return _latest(source.head().data) or _latest(text_around(source, [_ANY_TIME]))


def _latest(text: bytes) -> int:
    return max((int(t) for t in _FIRST_TIME.findall(text)), default=0)


def planned(reading: EventReading, planner: Planner) -> Iterator[EventRows]:
    """Yield the rows slab by slab; metadata events go into `reading.names`."""
    for slab in reading.events.slabs():
        rows, facts = planner.rows(slab)
        reading.ledger.facts += facts.count
        _take_names(reading, facts)
        if rows.count:
            yield rows


def metadata(reading: EventReading, build: Build) -> bool:
    """Take an event of phase M, or one that holds nothing; true when it was one."""
    event = build.event
    if not event.members:
        build.ignore("empty object")
        return True
    if event.get("ph") != "M":
        return False
    build.fate = FACT
    build.integer("pid", event.members.get("pid"), reading.pids.number)
    build.integer("tid", event.members.get("tid"), reading.tids.number)
    what = event.get("name") or ""
    text = event.arg("labels") if what == "process_labels" else event.arg("name")
    build.metadata = what, text or ""
    return True


def _take_names(reading: EventReading, facts: EventRows) -> None:
    names = reading.names
    for build, (pid, tid) in fact_rows(facts, ("pid", "tid")):
        what, text = build.metadata[0], build.metadata[1].strip()
        if pid is None or not text or names.full:
            continue
        if what == "process_name":
            names.processes[pid] = text
        elif what == "process_labels":
            names.labels[pid] = text
        elif what == "thread_name" and tid is not None:
            names.threads[pid, tid] = text


def _metadata_events(source: Source) -> Iterator[dict[str, object]]:
    """Yield the events of phase M of the whole file, as far as each is valid JSON of at most 1 KiB."""
    rest, misses = b"", 0
    with source.searched():
        for chunk in source.text_chunks(Ledger(), BLOCK_BYTES):
            if source.limits.late(SEARCH_SHARE) is not None:
                return
            data = rest + chunk
            begin = 0
            for match in _PHASE_M.finditer(data):
                if match.start() < begin:
                    continue
                if (found := _object_around(data, match.start())) is not None:
                    event, begin = found
                    yield event
                    continue
                misses += 1
                if misses > _MOST_MISSES:
                    return
            # An event that is cut here is whole in the next block, and was not found in this one.
            rest = data[max(begin, len(data) - AROUND_BYTES) :]


def _object_around(data: bytes, at: int) -> tuple[dict[str, object], int] | None:
    """Return the event of phase M that a place is in, and the place behind it."""
    lowest = max(0, at - AROUND_BYTES)
    begin = data.rfind(b"{", lowest, at)
    for _ in range(_MOST_BRACES):
        if begin < 0:
            return None
        text = data[begin : begin + AROUND_BYTES].decode("utf-8", "replace")
        with suppress(ValueError, RecursionError):
            event, size = _DECODER.raw_decode(text)
            if event.get("ph") == "M":
                return event, begin + len(text[:size].encode())
        begin = data.rfind(b"{", lowest, begin)
    return None


def look_for_names(reading: EventReading, words: bytes) -> None:
    """Take the names of all metadata events before any row is read, where the head has no name with such words."""
    head = reading.source.head()
    if head.complete or re.search(words, head.data):
        return
    names = reading.names
    for event in _metadata_events(reading.source):
        pid, args = event.get("pid"), event.get("args")
        if not isinstance(pid, (int, str)) or not isinstance(args, dict):
            continue
        key = "labels" if event.get("name") == "process_labels" else "name"
        text = args.get(key)
        if not isinstance(text, str) or not text.strip() or names.full:
            continue
        if key == "labels":
            names.labels[reading.pids.number(pid)] = text.strip()
        elif event.get("name") == "process_name":
            names.processes[reading.pids.number(pid)] = text.strip()
        elif event.get("name") == "thread_name" and isinstance(tid := event.get("tid"), (int, str)):
            names.threads[reading.pids.number(pid), reading.tids.number(tid)] = text.strip()


def lane(reading: EventReading, build: Build) -> None:
    """Take pid and tid of the host."""
    build.integer("pid", build.event.members.get("pid"), reading.pids.number)
    build.integer("tid", build.event.members.get("tid"), reading.tids.number)


def flow(reading: EventReading, build: Build) -> None:
    """Take a point of an arrow: its id into `correlation`, its phase and the rest into args."""
    event = build.event
    build.consts["kind"] = Kind.FLOW
    build.time("ts_ns", event.members.get("ts"))
    build.integer("correlation", event.members.get("id"), reading.flows.number)
    build.keep(event.members.get("ph"), event.members.get("cat"))
    build.keep_rest({}, TOP | {"id"} if "correlation" in build.runs or "correlation" in build.consts else TOP)


def named(build: Build) -> None:
    """Take the name as it is in the file."""
    if (name := build.event.get("name")) is not None:
        build.consts["name"] = name


def as_it_is(name: str) -> Pair:
    """Return `name` and `raw_name` of an event whose name is a text and no more."""
    return name, None


def times(build: Build) -> None:
    """Take ts and dur; what is odd about them is noted."""
    members = build.event.members
    build.time("ts_ns", members.get("ts"))
    if not build.time("dur_ns", members.get("dur")):
        build.notes["no-duration"] = "events of phase X without a duration: it is not known"
    elif build.times.get("dur_ns", (False,))[0] or build.is_below_zero("dur_ns"):
        build.notes["negative-duration"] = "events have a negative duration: kept as it is"


def filled(column: Column | None, count: int, kind: pa.DataType) -> Column:
    """Return the column, or nulls."""
    return arrow.nulls(count, kind) if column is None else column


def where(mask: Mask, yes: Column, no: Column) -> Column:
    """Return `yes` where the mask is set, else `no`."""
    return pc.if_else(arrow.array(mask), yes, no)


def move_arrows(rows: EventRows, host: int | None, devices: set[int]) -> None:
    """Ends of arrows on a device have pid = device and tid = stream in the file, as the rows they point at.

    host: the process whose device rows these are. Plans with the flag MOVABLE are the arrows.
    """
    arrows = rows.has(MOVABLE)
    if not arrows.any() or not devices:
        return
    pid, known = rows.ints("pid")
    moved = arrows & known & np.isin(pid, list(devices))
    if host is not None:
        moved &= pid != host
    if not moved.any():
        return
    columns, count = rows.columns, rows.count
    old = {n: filled(columns.get(n), count, pa.int64()) for n in ("pid", "tid", "stream")}
    device = filled(columns.get("device"), count, pa.int32())
    columns["device"] = where(moved, arrow.array(pid.astype(np.int32), mask=~moved), device)
    columns["stream"] = where(moved, old["tid"], old["stream"])
    own = arrow.array(np.full(count, host)) if host is not None else arrow.nulls(count, pa.int64())
    columns["pid"] = where(moved, own, old["pid"])
    columns["tid"] = where(moved, arrow.nulls(count, pa.int64()), old["tid"])
