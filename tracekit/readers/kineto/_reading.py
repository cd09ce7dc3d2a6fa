"""Events of a Kineto trace, batch by batch."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.args import items_of
from tracekit.columns.arrays import I64, Mask
from tracekit.columns.arrow import Column
from tracekit.readers.base import Opened, ReadOptions
from tracekit.readers.builder import Values, event_batch
from tracekit.readers.kineto._hosts import Hosts
from tracekit.readers.kineto._look import Look
from tracekit.readers.source import Source
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.columns import Planner
from tracekit.readers.trace_event.events import Reading
from tracekit.readers.trace_event.plan import CALL, DEVICE, HOST, MEMORY, MOVABLE
from tracekit.readers.trace_event.rows import Rows
from tracekit.schema import Kind
from tracekit.trace import Ledger

_LOG_PREFIX = re.compile(r"^(?:WARNING|ERROR):[^\]]{0,200}\] ")
"""Level, time, process and line of source that libkineto puts before its messages."""
_NAMED_BY_HOST = re.compile(r"(?:^|[/\\])(?P<host>[^/\\]+)_(?P<pid>\d{1,7})\.\d{10,20}\.pt\.trace\.json(?:\.gz)?$")
"""torch/profiler/profiler.py, tensorboard_trace_handler: host name, process id and time."""
TIMELESS_NS = 10**12
"""In a trace with times beyond this, a device event at time 0 has no time: clocks count from boot or from 1970."""


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    reading = events.begin(source, options, ledger, "PyTorch profiler (Kineto)", "kineto")
    # torch 1.8 writes the tid of device rows as "stream 7".
    reading.tids = events.LaneIds(reading.run, "tid", options.source, before="stream ")
    reading.run.origin_ns = _origin(reading, events.first_time(source))
    return Opened(reading.run, _Kineto(reading).batches(), False, (ledger,))


def _origin(reading: Reading, first_us: int) -> int | None:
    base = reading.facts.get("baseTimeNanoseconds")
    if base is None and 0 < first_us < events.EPOCH_FROM_US:
        return None
    return base if isinstance(base, int) and abs(base) < 1 << 62 else 0


class _Kineto:
    """The state that spans the slabs of one file: the host's process, the devices, the rank."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        info = reading.facts.get("distributedInfo")
        rank = info.get("rank") if isinstance(info, dict) else None
        self.rank = rank if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 1 << 31 else None
        self.hosts = Hosts(reading.run, reading.options.source, reading.ledger)
        self.devices: set[int] = {number for p in self._properties() if isinstance(number := p.get("id"), int)}
        self.contexts: dict[tuple[int, int], int | None] = {}
        """(device, stream) -> the context of its work, None where it is of several."""

    def _properties(self) -> list[dict[str, object]]:
        found = self.reading.facts.get("deviceProperties", self.reading.facts.get("computeProperties"))
        return [p for p in found if isinstance(p, dict)] if isinstance(found, list) else []

    def batches(self) -> Iterator[pa.RecordBatch]:
        reading, waiting = self.reading, list[Rows]()
        look = Look(reading)
        args_of = reading.options.args_of if reading.options.wants("args") else frozenset[str]()
        planner = Planner(look, reading.ledger, args_of=args_of)
        for slab, rows in enumerate(events.planned(reading, planner)):
            self._watch(rows)
            waiting.append(rows)
            # Device rows take the pid of the process that launches, which is known at once in most files.
            if self.hosts.calls or slab > 16:
                for each in waiting:
                    yield from self._finished(each)
                waiting.clear()
        for each in waiting:
            yield from self._finished(each)
        self.hosts.note()
        look.close()
        self._name_everything()

    def _watch(self, rows: Rows) -> None:
        """Learn which process the host is, and which numbers are devices."""
        pid, has_pid = rows.ints("pid")
        self.hosts.see(pid[rows.has(CALL) & has_pid], pid[rows.has(HOST) & has_pid])
        device, known = rows.ints("device")
        if known.any() and (own := rows.has(DEVICE)).any():
            self.hosts.see_devices(pid[known & own & has_pid], device[known & own & has_pid])
            self.devices.update(np.unique(device[known & own]).tolist())
            (stream, on_stream), (context, in_context) = rows.ints("stream"), rows.ints("context")
            stream = np.where(on_stream & ~_no_number(stream), stream, -1)
            at = np.flatnonzero(known & own & in_context)
            for number, of, found in _distinct(device[at], stream[at], context[at])[0]:
                if self.contexts.setdefault((number, of), found) != found:
                    self.contexts[number, of] = None

    def _arrow_contexts(self, rows: Rows) -> None:
        """Ends of arrows on a device are in the context of the work that they point at; the file does not repeat it."""
        arrows = rows.has(MOVABLE)
        if not self.reading.options.wants("context") or not arrows.any():
            return
        (device, known), (stream, on_stream) = rows.ints("device"), rows.ints("stream")
        at = np.flatnonzero(arrows & known)
        stream = np.where(on_stream & ~_no_number(stream), stream, -1)
        places, place = _distinct(device[at], stream[at])
        found = [self.contexts.get((number, of)) for number, of in places]
        if any(context is not None for context in found):
            context, stated = rows.ints("context")
            context[at] = np.array([c or 0 for c in found], np.int64)[place]
            stated[at] = np.array([c is not None for c in found])[place]
            rows.columns["context"] = arrow.array(context, mask=~stated)

    def _finished(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        reading = self.reading
        reading.ledger.kept += rows.count
        rows = self._with_true_times(rows)
        named = self.hosts.ranks.of(rows.ints("pid")[0])
        columns = rows.columns
        own = rows.has(DEVICE)
        host = self.hosts.first
        events.move_arrows(rows, None if self.hosts.several else host, self.devices)
        self.hosts.move_arrows(rows)
        self._arrow_contexts(rows)
        if own.any():
            pid = events.filled(columns.get("pid"), rows.count, pa.int64())
            of, found = self.hosts.of(rows.ints("pid")[0])
            columns["pid"] = events.where(own, arrow.array(of, mask=~found), pid)
        for column in ("device", "stream", "context"):
            if column in columns and (none := _no_number(rows.ints(column)[0])).any():
                columns[column] = events.where(none, arrow.nulls(rows.count, columns[column].type), columns[column])
        rank = self._rank_of(rows, named)
        counters = self._memory(rows, rank)
        for name in ("scratch_0", "scratch_1", "scratch_2"):
            columns.pop(name, None)
        yield reading.batch(rows, rank=rank)
        yield from counters

    def _rank_of(self, rows: Rows, named: I64 | None) -> Column | int | None:
        """Return the ranks of rows: from labels, else the rank of the file for its first process."""
        if named is not None:
            return arrow.array(named.astype(np.int32), mask=named < 0)
        if self.hosts.several and self.rank is not None:
            of, known = rows.ints("pid")
            return arrow.array(np.full(rows.count, self.rank, np.int32), mask=~known | (of != self.hosts.first))
        return self.rank

    def _with_true_times(self, rows: Rows) -> Rows:
        ts, (dur, timed) = rows.columns["ts_ns"].to_numpy(), rows.ints("dur_ns")
        if not (ts == 0).any():
            return rows
        timeless = (ts == 0) & (dur == 0) & timed & rows.has(DEVICE)
        if not timeless.any() or not (ts.max() > TIMELESS_NS or self.reading.run.origin_ns):
            return rows
        count = int(timeless.sum())
        self.reading.ledger.kept -= count
        self.reading.ledger.drop(
            "no-time", count, text="dropped: device events at time 0, which the profiler has no time for"
        )
        return rows.take(~timeless)

    def _memory(self, rows: Rows, rank: Column | int | None) -> Iterator[pa.RecordBatch]:
        """Make counters of the running totals; remove the device where the memory is the host's."""
        own = rows.has(MEMORY)
        if not own.any():
            return iter(())
        columns = rows.columns
        kind, _ = rows.ints("scratch_0")
        if "device" in columns:
            host = own & (kind == 0)  # c10::DeviceType::CPU
            columns["device"] = events.where(host, arrow.nulls(rows.count, pa.int32()), columns["device"])
        made = []
        for column, name in (("scratch_1", "Total Allocated"), ("scratch_2", "Total Reserved")):
            values, known = rows.ints(column)
            at = np.flatnonzero(own & known)
            if len(at):
                same = [k for k in ("ts_ns", "event_id", "pid", "tid", "device") if k in columns]
                counters: dict[str, Values] = {k: arrow.take(columns[k], at) for k in same}
                counters |= {"kind": Kind.COUNTER.value, "name": name, "value": values[at].astype(np.float64)}
                counters |= {"source": self.reading.options.source}
                counters |= {"rank": rank if rank is None or isinstance(rank, int) else arrow.take(rank, at)}
                made.append(event_batch(len(at), counters))
                self.reading.ledger.events_out += len(at)
        return iter(made)

    def _host_of_name(self, name: object) -> str:
        """Return the host in a name that torch's `tensorboard_trace_handler` gave, "" for any other name."""
        found = _NAMED_BY_HOST.search(name) if isinstance(name, str) else None
        return found["host"] if found and int(found["pid"]) == self.hosts.first and not self.hosts.several else ""

    def _name_everything(self) -> None:
        reading = self.reading
        run, names, source = reading.run, reading.names, reading.options.source
        for properties in self._properties():
            number, text = properties.get("id"), properties.get("name")
            if isinstance(number, int) and isinstance(text, str):
                run.devices[source, number] = text
        devices = {pid for pid, label in names.labels.items() if label != "CPU"}
        devices |= self.devices & (names.processes.keys() | names.labels.keys())
        devices -= {self.hosts.first}
        for pid, text in names.processes.items():
            if pid not in devices:
                run.processes[source, pid] = text
            elif (
                pid in self.devices
                and (source, pid) not in run.devices
                and names.processes.get(self.hosts.first or -1) != text
            ):
                run.devices[source, pid] = text
        for (pid, tid), text in names.threads.items():
            if pid not in devices:
                run.threads[source, pid, tid] = text
            elif tid >= 0 and text != f"stream {tid}":
                run.streams[source, self.hosts.devices.get(pid, pid), tid] = text
        for level in ("WARNING", "ERROR"):
            messages = [text for text in items_of(reading.facts.get(level)) if isinstance(text, str) and text.strip()]
            if messages:
                first = " ".join(_LOG_PREFIX.sub("", messages[0]).split())[:200]
                reading.ledger.note(
                    f"profiler-{level.lower()}", f"{level} of the profiler itself: {first}", len(messages)
                )
        facts = run.sources[0].facts
        for key, value in reading.facts.items():
            if key not in ("traceEvents", "deviceProperties", "computeProperties"):
                facts[key] = value
        if ranks := self.hosts.ranks.names():
            facts["rank_names"] = ranks
        if "host_name" not in facts and (host := self._host_of_name(facts.get("traceName"))):
            facts["host_name"] = host
        if self._properties():
            facts["deviceProperties"] = self._properties()


def _distinct(*columns: I64) -> tuple[list[tuple[int, ...]], I64]:
    """Return the distinct rows of some columns, and for each row its place among them."""
    place = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        # Each column's values become small numbers first, so that these always fit beside those of the columns before.
        values, code = np.unique(column, return_inverse=True)
        _, place = np.unique(place * len(values) + code, return_inverse=True)
    first = np.zeros(int(place.max(initial=-1)) + 1, np.int64)
    first[place] = np.arange(len(place))
    return list(zip(*(column[first].tolist() for column in columns), strict=True)), place


def _no_number(values: I64) -> Mask:
    """Return which numbers of a device, stream or context mean none: -1, and -1 of 32 bits (Context Sync)."""
    none: Mask = (values < 0) | (values == 0xFFFFFFFF)
    return none
