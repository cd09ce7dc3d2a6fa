"""The step of each row, for files that number only the steps themselves.

Some formats mark steps as ranges on a thread (Kineto's ProfilerStep#n, Paddle's ProfileStep#n); the step of other rows
follows from time and place. A row of the host is in the step that runs when it starts: on its own thread, if that has
had a step by then, else in its process, if all threads with a running step agree. Work on a device is in the step of
the call that launched it, by correlation; without such a call its step is not known. A step in the file is kept.

Rows must come in order of start: then few steps are open at a time. A batch is marked when the next one has come,
which may have steps that start with its last rows. Device work is marked one batch later than the calls, because its
clock may be a little ahead of the host's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import numpy as np
import pyarrow as pa

from tracekit.analysis.links import link
from tracekit.analysis.nesting import innermost
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema
from tracekit.model.arrow import I64, Mask, pc
from tracekit.model.schema import API_CALLS, DEVICE_WORK, Kind
from tracekit.model.trace import Ledger

__all__ = ["COLUMNS", "PENDING_LAUNCHES", "marked", "marked_table"]

COLUMNS = frozenset({"kind", "source", "pid", "tid", "device", "stream", "correlation", "step", "ts_ns", "dur_ns"})
"""Columns of EVENTS that the step of a row depends on."""
PENDING_LAUNCHES = 1 << 17
"""Calls in a step that are kept for device work that comes later; GPUs queue about a thousand for each stream."""
MOST_THREADS = 256
"""Threads with steps that are tracked at a time."""
MOST_HELD = 64
"""Batches that are held together because all their rows start at one time."""

_NONE = np.iinfo(np.int64).min
"""Replaces null in a key."""


@dataclass(frozen=True, slots=True)
class _StepRanges:
    """Steps in order of start, all of shape (n,). thread: tid, _NONE for null."""

    source: I64
    pid: I64
    thread: I64
    start: I64
    end: I64
    number: I64

    def columns(self) -> tuple[I64, ...]:
        return self.source, self.pid, self.thread, self.start, self.end, self.number

    def take(self, rows: Mask | I64) -> _StepRanges:
        return _StepRanges(*(column[rows] for column in self.columns()))

    def then(self, other: _StepRanges) -> _StepRanges:
        return _StepRanges(*(np.concatenate(both) for both in zip(self.columns(), other.columns(), strict=True)))


@dataclass(slots=True)
class Marker:
    """Sets `step`, batch by batch. `finish` returns the last batch."""

    ledger: Ledger | None = None
    _open: _StepRanges = field(default_factory=lambda: _StepRanges(*([np.empty(0, np.int64)] * 6)))
    _threads: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """(source, pid, tid) -> start of its first step."""
    _launches: I64 = field(default_factory=lambda: np.empty((0, 4), np.int64))
    """Source, pid, correlation and step of each call in a step."""
    _held: list[pa.RecordBatch] = field(default_factory=list)
    """Batches whose rows wait for steps that start at the same time in the next batch."""
    _waiting: tuple[pa.RecordBatch, I64] | None = None
    """The batch whose device work waits for the calls of the next one."""
    _forgotten: bool = False

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take a batch of EVENTS, or of rows with COLUMNS; yield the batches before it that are marked now."""
        is_step = _of_kind(batch, {Kind.STEP})
        if is_step.any():
            self._learn(batch, np.flatnonzero(is_step & (_values(batch, "step", -1) >= 0)))
        if self._held and (_last_start(batch) > _last_start(self._held[-1]) or len(self._held) == MOST_HELD):
            yield from self._release()
        self._held.append(batch)

    def learn(self, steps: pa.RecordBatch) -> None:
        """Take steps that are no rows of the batches."""
        self._learn(steps, np.arange(steps.num_rows))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the last batches, marked."""
        yield from self._release()
        if self._waiting is not None:
            yield self._marked(*self._waiting)
            self._waiting = None

    def _release(self) -> Iterator[pa.RecordBatch]:
        held, self._held = self._held, []
        for batch in held:
            steps = self._host_steps(batch)
            if self._waiting is not None:
                yield self._marked(*self._waiting)
            self._waiting = batch, steps

    def _marked(self, batch: pa.RecordBatch, steps: I64) -> pa.RecordBatch:
        self._device_steps(batch, steps)
        if len(self._launches) > PENDING_LAUNCHES:
            self._launches, self._forgotten = self._launches[-PENDING_LAUNCHES:], True
        if not (steps >= 0).any():
            return batch
        return arrow.with_column(batch, "step", arrow.array(steps.astype(np.int32), mask=steps < 0))

    def _host_steps(self, batch: pa.RecordBatch) -> I64:
        """Return the step of each row, -1 while it is not known; keep the calls for the device."""
        steps = _values(batch, "step", -1).copy()
        if not len(self._open.start):
            return steps
        ts = _values(batch, "ts_ns", 0)
        source, pid, tid = (_values(batch, name) for name in ("source", "pid", "tid"))
        ask = np.flatnonzero(_on_host(batch) & (steps < 0) & ~_of_kind(batch, {Kind.STEP}))
        if len(ask):
            dur = _values(batch, "dur_ns", 0)[ask]
            steps[ask] = self._at(source[ask], pid[ask], tid[ask], ts[ask], dur)
        correlation = _values(batch, "correlation")
        calls = np.flatnonzero(_of_kind(batch, API_CALLS) & (steps >= 0) & (correlation != _NONE))
        if len(calls):
            new = np.column_stack((source[calls], pid[calls], correlation[calls], steps[calls]))
            self._launches = np.concatenate((self._launches, new))
        if len(ts):
            self._open = self._open.take(self._open.end > ts[-1])
        return steps

    def _learn(self, batch: pa.RecordBatch, rows: I64) -> None:
        ts, dur = _values(batch, "ts_ns", 0)[rows], _values(batch, "dur_ns", 0)[rows]
        places = [_values(batch, name)[rows] for name in ("source", "pid", "tid")]
        for source, pid, tid, start in zip(*(p.tolist() for p in places), ts.tolist(), strict=True):
            if len(self._threads) < MOST_THREADS:
                self._threads.setdefault((source, pid, tid), start)
            elif (source, pid, tid) not in self._threads and self.ledger is not None:
                self.ledger.note("many-step-threads", f"the steps of more than {MOST_THREADS} threads were skipped")
        end = ts + np.minimum(np.maximum(dur, 0), np.iinfo(np.int64).max - np.maximum(ts, 0))
        new = _StepRanges(places[0], places[1], places[2], ts, end, _values(batch, "step", -1)[rows])
        self._open = self._open.then(new)

    def _at(self, source: I64, pid: I64, tid: I64, ts: I64, dur: I64) -> I64:
        """Return the step that runs at each time and place, -1 where there is none or threads disagree."""
        found = np.full(len(ts), -1, np.int64)
        owned = np.zeros(len(ts), np.bool_)
        for (of_source, of_pid, of_tid), first in self._threads.items():
            owned |= (source == of_source) & (pid == of_pid) & (tid == of_tid) & (ts >= first)
        differ = np.zeros(len(ts), np.bool_)
        steps = self._open
        for place in self._threads:
            mine = (steps.source == place[0]) & (steps.pid == place[1]) & (steps.thread == place[2])
            if not mine.any():
                continue
            rows = np.flatnonzero((source == place[0]) & (pid == place[1]) & (~owned | (tid == place[2])))
            number = _running(steps.take(mine), ts[rows], dur[rows])
            hit = number >= 0
            rows, number = rows[hit], number[hit]
            differ[rows] |= (found[rows] >= 0) & (found[rows] != number)
            found[rows] = number
        found[differ] = -1
        return found

    def _device_steps(self, batch: pa.RecordBatch, steps: I64) -> None:
        if not len(self._launches):
            return
        correlation = _values(batch, "correlation")
        work = np.flatnonzero(~_on_host(batch) & (steps < 0) & (correlation != _NONE))
        if not len(work):
            return
        keys = np.column_stack((_values(batch, "source")[work], _values(batch, "pid")[work], correlation[work]))
        found = link(self._launches[:, :3], keys).launch
        hit = found >= 0
        steps[work[hit]] = self._launches[found[hit], 3]
        if self._forgotten and not hit.all() and self.ledger is not None:
            self.ledger.note(
                "steps-unknown",
                f"device work that comes more than {PENDING_LAUNCHES:,} calls after its launch may have no step",
                int((~hit).sum()),
            )


def marked(
    batches: Iterator[pa.RecordBatch], ledger: Ledger | None = None, known: pa.RecordBatch | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows with `step` set; they must come in order of start. TOTALS are not changed.

    known: rows of steps that are in another file, with the columns COLUMNS.
    """
    marker = Marker(ledger)
    if known is not None:
        marker.learn(known)
    for batch in batches:
        if schema.is_totals(batch) or not batch.num_rows:
            yield batch
        else:
            yield from marker.add(batch)
    yield from marker.finish()


def marked_table(events: pa.Table) -> pa.Table:
    """Return rows in order of start with `step` set, one chunk for each column; they need the columns COLUMNS."""
    batches = events.combine_chunks().to_batches()
    if len(batches) != 1 or not _of_kind(batches[0], {Kind.STEP}).any():
        return events
    done = pa.Table.from_batches(list(marked(iter(batches))), events.schema)
    arrow.release_memory()
    return done


def _running(steps: _StepRanges, ts: I64, dur: I64) -> I64:
    """Return the number of the step of one thread that runs at each time, -1 for none."""
    if (steps.start[1:] >= steps.end[:-1]).all():
        at = np.searchsorted(steps.start, ts, "right") - 1
        at[(at >= 0) & (ts >= steps.end[at])] = -1
    else:
        lane = np.zeros(len(steps.start), np.int64)
        at = innermost(lane, steps.start, steps.end, np.zeros(len(ts), np.int64), ts)
    # A row that begins with a step and lasts longer contains it.
    around = (at >= 0) & (ts == steps.start[at]) & (dur > steps.end[at] - steps.start[at])
    return np.where((at >= 0) & ~around, steps.number[at], -1)


def _last_start(batch: pa.RecordBatch) -> int:
    return int(_values(batch.slice(batch.num_rows - 1), "ts_ns", 0)[0])


def _values(batch: pa.RecordBatch, name: str, null: int = _NONE) -> I64:
    return arrow.ints(pc.cast(batch.column(name), pa.int64()), null)


def _of_kind(batch: pa.RecordBatch, kinds: frozenset[Kind] | set[Kind]) -> Mask:
    column = arrow.encoded(batch.column("kind"))
    wanted = [code for code, kind in enumerate(arrow.texts(column.dictionary)) if kind in kinds]
    return np.isin(arrow.codes(column), wanted) if wanted else np.zeros(batch.num_rows, np.bool_)


def _on_host(batch: pa.RecordBatch) -> Mask:
    """Return which rows are on the host: on a thread, or on no device."""
    thread, device, stream = (arrow.valid(batch.column(name)) for name in ("tid", "device", "stream"))
    return thread | ~(device | stream | _of_kind(batch, DEVICE_WORK))
