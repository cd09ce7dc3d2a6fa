"""Reading trace events of any producer: rows as they come, begins and ends joined at the end of the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger
from tracekit.readers import rocm
from tracekit.readers.base import ReadOptions, ReadResult
from tracekit.readers.builder import RowBuilder
from tracekit.readers.source import Source
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.columns import SCRATCH, Planner
from tracekit.readers.trace_event.events import EventReading
from tracekit.readers.trace_event.look import BEGIN, Dialect, FilePrescan
from tracekit.readers.trace_event.pairs import Pairs
from tracekit.readers.trace_event.plan import PAIRED, SEVERAL, Build, EventRows

__all__ = ["ChromeReading", "read_generic"]


def _device_work(name: str) -> tuple[Kind, str | None]:
    """Return kind and direction of the work of a device with this name."""
    if (command := rocm.activity(name)) is not None:
        return command
    lower = name.lower()
    return Kind.MEMCPY if "memcpy" in lower else Kind.MEMSET if "memset" in lower else Kind.KERNEL, None


_OTHER_RECORDS = {
    "samples": "samples of stacks beside the events were skipped: not supported",
    "systemTraceEvents": "a trace of the system (ftrace) beside the events was skipped: not supported",
}
"""Members of the top level that hold records of another form."""


_OVERFLOW = (
    "the profiler's buffer overflowed: events were lost, so times and counts are too low; "
    "record a shorter time, or with a larger buffer (VizTracer: --tracer_entries)"
)
"""For a file whose facts say so: a member "overflow" that is true, at the top level or in one of its objects."""


def read_generic(source: Source, options: ReadOptions, ledger: Ledger, dialect: Dialect) -> ReadResult:
    """Return the events of a producer that differs from others by its dialect alone."""
    reading = events.begin(source, options, ledger, dialect.tool, dialect.name)
    return ReadResult(reading.run, ChromeReading(reading, dialect).batches(), False, (ledger,))


class ChromeReading:
    """One file of one producer. per_unit: ns of one unit of ts and dur. look: what sees an event of each shape."""

    def __init__(
        self, reading: EventReading, dialect: Dialect, per_unit: int = 1000, *, look: type[FilePrescan] = FilePrescan
    ) -> None:
        self.reading, self.dialect = reading, dialect
        patterns = look(reading, dialect)
        self._special = patterns.special
        self._planner = Planner(patterns, reading.ledger, per_unit)
        self._pairs = Pairs(reading.ledger)
        self._cats: dict[str, int] = {}
        self._ranks = events.RankLabels(reading.run, reading.options.source)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; the run has its names afterwards."""
        with closing(self._pairs), closing(self._special):
            for rows in events.planned(self.reading, self._planner):
                yield from self._finished(rows)
            yield from self._pairs.batches()
        self._name_everything()

    def _finished(self, rows: EventRows) -> Iterator[pa.RecordBatch]:
        if (ranks := self._ranks.of(rows.ints("pid")[0])) is not None:
            rows.columns["rank"] = arrow.array(ranks.astype(np.int32), mask=ranks < 0)
        paired = rows.has(PAIRED)
        several = rows.has(SEVERAL)
        if paired.any():
            self._take_pairs(rows.take(paired))
        if several.any():
            yield from self._series(rows.take(several))
        plain = ~(paired | several)
        if plain.any():
            kept = rows if plain.all() else rows.take(plain)
            for name in SCRATCH:
                kept.columns.pop(name, None)
            self._to_devices(kept)
            self._special.rows(kept)
            self.reading.ledger.kept += kept.count
            yield self.reading.batch(kept)

    def _to_devices(self, rows: EventRows) -> None:
        """Move ranges of processes that represent a device: they are its work, their threads are its streams."""
        pattern, names = self.dialect.device, self.reading.names
        if pattern is None:
            return
        devices = {pid: int(m[1]) for pid, text in names.processes.items() if (m := pattern.fullmatch(text))}
        pid, known = rows.ints("pid")
        _, timed = rows.ints("dur_ns")
        of_device = known & timed & np.isin(pid, list(devices))
        if not of_device.any():
            return
        columns, count = rows.columns, rows.count
        device = np.array([devices.get(p, 0) for p in pid.tolist()], np.int32)
        stated = events.filled(columns.get("device"), count, pa.int32())
        columns["device"] = events.where(of_device, arrow.array(device), stated)
        tid = events.filled(columns.get("tid"), count, pa.int64())
        columns["stream"] = events.where(of_device, tid, arrow.nulls(count, pa.int64()))
        columns["tid"] = events.where(of_device, arrow.nulls(count, pa.int64()), tid)
        columns["pid"] = events.where(of_device, arrow.nulls(count, pa.int64()), columns["pid"])
        name = columns.get("name")
        texts = [""] * count if name is None else [n or "" for n in arrow.optional_texts(name)]
        kinds = columns["kind"].to_pylist()
        copies: list[str | None] = columns["copy_kind"].to_pylist() if "copy_kind" in columns else [None] * count
        for at in np.flatnonzero(of_device).tolist():
            kinds[at], copies[at] = _device_work(texts[at])
        columns["kind"] = arrow.encoded(arrow.array([str(k) for k in kinds], pa.string()))
        if any(copies):
            columns["copy_kind"] = arrow.encoded(arrow.array(copies, pa.string()))
        for number, of in devices.items():
            if number in pid[of_device]:
                self.reading.run.devices[self.reading.options.source, of] = names.processes[number]

    def _take_pairs(self, rows: EventRows) -> None:
        begins = rows.flag(lambda build: build.phase == BEGIN)
        (pid, _), (tid, _), (identity, _) = (rows.ints(n) for n in ("pid", "tid", "scratch_0"))
        # On a thread: process, thread, -1. By id: process (none for a global id), id, the category's number.
        cat = rows.number(self._category)
        pid = np.where(rows.flag(lambda build: build.is_global), -1, pid)
        lanes = pid, np.where(cat < 0, tid, identity), cat
        for name in SCRATCH:
            rows.columns.pop(name, None)
        self._pairs.add(rows, self.reading.options.source, begins, lanes)

    def _category(self, build: Build) -> int:
        """Return the number of the category of asynchronous work, -1 for other events."""
        return -1 if build.category is None else self._cats.setdefault(build.category, len(self._cats))

    def _series(self, rows: EventRows) -> Iterator[pa.RecordBatch]:
        """Yield a row for each series of counters that have several."""
        series_rows = RowBuilder()
        table = {name: column.to_pylist() for name, column in rows.columns.items() if name not in SCRATCH}
        for at in range(rows.count):
            build = rows.builds[int(rows.plan[at])]
            row = {name: values[at] for name, values in table.items()}
            counter_name, row["source"] = row.get("name") or "", self.reading.options.source
            for key, value in build.series:
                name = f"{counter_name} {key}" if counter_name else key
                series_rows.add(**row | {"name": name, "raw_name": counter_name or None, "value": value})
        self.reading.ledger.kept += rows.count
        self.reading.ledger.events_out += len(series_rows)
        yield series_rows.take()

    def _name_everything(self) -> None:
        reading = self.reading
        run, names, source = reading.run, reading.names, reading.options.source
        run.processes.update({(source, pid): text for pid, text in names.processes.items()})
        for (pid, tid), text in names.threads.items():
            pattern = self.dialect.device
            device_name = pattern.fullmatch(names.processes.get(pid, "")) if pattern else None
            if device_name:
                run.streams[source, int(device_name[1]), tid] = text
            else:
                run.threads[source, pid, tid] = text
        self._special.names()
        facts = run.sources[0].facts
        facts |= {k: v for k, v in reading.facts.items() if k not in ("traceEvents", *_OTHER_RECORDS)}
        if ranks := self._ranks.names():
            facts["rank_names"] = ranks
        for key, text in _OTHER_RECORDS.items():
            if records := reading.facts.get(key):
                reading.ledger.note(f"other-records-{key}", text, len(records) if isinstance(records, list) else 1)
        if any(each.get("overflow") is True for each in (facts, *facts.values()) if isinstance(each, dict)):
            reading.ledger.note("profiler-warning-overflow", _OVERFLOW)
        if self.dialect.name:
            facts["dialect"] = self.dialect.name
