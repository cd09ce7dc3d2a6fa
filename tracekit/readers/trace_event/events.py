"""Shared by the dialects of the Trace Event format: ids, metadata events, flows, names, and the loop over slabs.

The format is "Trace Event Format" (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU); ts and dur
are µs. A record is an element of the list of events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import Mask
from tracekit.columns.arrow import Column, pc
from tracekit.readers.base import ReadOptions
from tracekit.readers.builder import IdTable, Values, event_batch
from tracekit.readers.source import Source
from tracekit.readers.trace_event.columns import Planner
from tracekit.readers.trace_event.plan import FACT, MOVABLE, Build
from tracekit.readers.trace_event.rows import Rows, fact_rows
from tracekit.readers.trace_event.stream import Events
from tracekit.schema import Kind
from tracekit.trace import Ledger, Run, SourceFacts

TOP = frozenset({"ph", "cat", "name", "pid", "tid", "ts", "dur", "args"})
"""Members beside args that have columns, or a place in `kind`."""
FLOW_PHASES = frozenset({"s", "t", "f"})
INSTANT_PHASES = frozenset({"i", "I", "R", "n"})
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)
_FIRST_TIME = re.compile(rb'"ts"\s*:\s*"?([0-9]{1,25})')
EPOCH_FROM_US = 10**15
"""Times from here on are Unix time: 2001-09-09 in µs. A clock that counts from boot would need 31 years."""
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


@dataclass(slots=True)
class Names:
    """Names from metadata events: by (pid, tid), and labels of processes, in order of appearance."""

    processes: dict[int, str] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """The state of one reading, which a dialect's functions share."""

    source: Source
    options: ReadOptions
    ledger: Ledger
    run: Run
    events: Events
    pids: IdTable
    tids: IdTable
    streams: IdTable
    flows: IdTable
    names: Names = field(default_factory=Names)

    @property
    def facts(self) -> dict[str, object]:
        """The members beside the events in the file."""
        return self.events.facts

    def batch(self, rows: Rows, **more: Values) -> pa.RecordBatch:
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
) -> Reading:
    """Open the stream and find the facts before and behind the events. rewrite: as `Events` has it.

    Raises: ParseError.
    """
    run = Run()
    events = Events(source, ledger, rewrite)
    events.open()
    events.look_ahead()
    number = options.source
    run.sources.append(SourceFacts(source.name, name, facts={"tool": tool}))
    pids, tids, streams = (LaneIds(run, column, number) for column in ("pid", "tid", "stream"))
    return Reading(source, options, ledger, run, events, pids, tids, streams, IdTable(run, "correlation", number))


def first_time(source: Source) -> int:
    """Return the latest time in the head of the input, in the file's unit, 0 where there is none."""
    return max((int(t) for t in _FIRST_TIME.findall(source.head().data)), default=0)


def planned(reading: Reading, planner: Planner) -> Iterator[Rows]:
    """Yield the rows slab by slab; metadata events go into `reading.names`."""
    for slab in reading.events.slabs():
        rows, facts = planner.rows(slab)
        reading.ledger.facts += facts.count
        _take_names(reading, facts)
        if rows.count:
            yield rows


def metadata(reading: Reading, build: Build) -> bool:
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


def _take_names(reading: Reading, facts: Rows) -> None:
    names = reading.names
    for build, (pid, tid) in fact_rows(facts, ("pid", "tid")):
        what, text = build.metadata[0], build.metadata[1].strip()
        if pid is None or not text or len(names.threads) + len(names.processes) > MOST_NAMES:
            continue
        if what == "process_name":
            names.processes[pid] = text
        elif what == "process_labels":
            names.labels[pid] = text
        elif what == "thread_name" and tid is not None:
            names.threads[pid, tid] = text


def lane(reading: Reading, build: Build) -> None:
    """Take pid and tid of the host."""
    build.integer("pid", build.event.members.get("pid"), reading.pids.number)
    build.integer("tid", build.event.members.get("tid"), reading.tids.number)


def flow(reading: Reading, build: Build) -> None:
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


def move_arrows(rows: Rows, host: int | None, devices: set[int]) -> None:
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
