"""Which step each row belongs to, where the file says it of the steps alone.

Some formats mark steps as ranges on a thread (Kineto's ProfilerStep#n, Paddle's ProfileStep#n) and leave the work to
time and place. A row of the host is in the step that runs when it starts: of its own thread, if that has had a step
by then, else of its process, if the threads that are in one agree. Work on a device is in the step of the call that
launched it, by correlation; without such a call its step is not known. What a file says itself stays.

Rows must come in order of start: then a step is always seen before what is in it, and few of them are open at a time.
Device work is looked at one batch later than the calls, since its clock may run a little ahead of the host's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit import schema
from tracekit.analysis.enclosing import innermost
from tracekit.analysis.links import link
from tracekit.schema import API_CALLS, DEVICE_WORK, Kind
from tracekit.trace import Ledger

COLUMNS = frozenset({"kind", "source", "pid", "tid", "device", "stream", "correlation", "step", "ts_ns", "dur_ns"})
"""Columns of EVENTS that the step of a row depends on."""
PENDING_LAUNCHES = 1 << 17
"""Calls in a step kept for device work that has not come yet; GPUs queue about a thousand a stream."""
MOST_THREADS = 256
"""Threads of steps that are told apart at a time."""

_NONE = np.iinfo(np.int64).min
"""Stands for null in a key."""

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Steps:
    """Steps, in order of start. owner: (source, pid), one number each a row; thread: tid. All of shape (n,)."""

    source: I64
    pid: I64
    thread: I64
    start: I64
    end: I64
    number: I64

    def columns(self) -> tuple[I64, ...]:
        return self.source, self.pid, self.thread, self.start, self.end, self.number

    def take(self, rows: Mask | I64) -> _Steps:
        return _Steps(*(column[rows] for column in self.columns()))

    def then(self, other: _Steps) -> _Steps:
        return _Steps(*(np.concatenate(both) for both in zip(self.columns(), other.columns(), strict=True)))


@dataclass(slots=True)
class Marker:
    """Sets `step`, batch by batch. `finish` gives what waits."""

    ledger: Ledger | None = None
    _open: _Steps = field(default_factory=lambda: _Steps(*([np.empty(0, np.int64)] * 6)))
    _threads: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """(source, pid, tid) -> start of its first step."""
    _launches: I64 = field(default_factory=lambda: np.empty((0, 4), np.int64))
    """Of calls in a step: source, pid, correlation, step."""
    _waiting: tuple[pa.RecordBatch, I64] | None = None
    _forgotten: bool = False

    def add(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Take a batch of EVENTS, or of rows with COLUMNS; give the one before it."""
        steps = self._host_steps(batch)
        done = self.finish()
        self._waiting = batch, steps
        return done

    def finish(self) -> pa.RecordBatch | None:
        """Give the batch that waits."""
        if self._waiting is None:
            return None
        (batch, steps), self._waiting = self._waiting, None
        self._device_steps(batch, steps)
        if len(self._launches) > PENDING_LAUNCHES:
            self._launches, self._forgotten = self._launches[-PENDING_LAUNCHES:], True
        index = batch.schema.get_field_index("step")
        if not (steps >= 0).any():
            return batch
        column = pa.array(steps.astype(np.int32), mask=steps < 0)
        return batch.set_column(index, batch.schema.field(index), column)

    def _host_steps(self, batch: pa.RecordBatch) -> I64:
        """Return the step of each row, -1 where it is not known yet; keep the calls for the device."""
        steps = _values(batch, "step", -1)
        is_step = _of_kind(batch, {Kind.STEP})
        if is_step.any():
            self._learn(batch, np.flatnonzero(is_step & (steps >= 0)))
        if not len(self._open.start):
            return steps
        ts = _values(batch, "ts_ns", 0)
        source, pid, tid = (_values(batch, name) for name in ("source", "pid", "tid"))
        ask = np.flatnonzero(_on_host(batch) & (steps < 0) & ~is_step)
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
                self.ledger.note("many-step-threads", f"steps beyond those of {MOST_THREADS} threads were passed over")
        end = ts + np.minimum(np.maximum(dur, 0), np.iinfo(np.int64).max - np.maximum(ts, 0))
        new = _Steps(places[0], places[1], places[2], ts, end, _values(batch, "step", -1)[rows])
        self._open = self._open.then(new)

    def _at(self, source: I64, pid: I64, tid: I64, ts: I64, dur: I64) -> I64:
        """Return the step that runs at each time and place, -1 where there is none, or threads disagree."""
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


def marked(batches: Iterator[pa.RecordBatch], ledger: Ledger | None = None) -> Iterator[pa.RecordBatch]:
    """Give the same rows with `step` set; they must come in order of start. TOTALS pass through."""
    marker = Marker(ledger)
    for batch in batches:
        if schema.is_totals(batch) or not batch.num_rows:
            yield batch
        elif (done := marker.add(batch)) is not None:
            yield done
    if (done := marker.finish()) is not None:
        yield done


def marked_table(events: pa.Table) -> pa.Table:
    """Return rows in order of start with `step` set; they need the columns COLUMNS. One chunk a column."""
    batches = events.combine_chunks().to_batches()
    if len(batches) != 1 or not _of_kind(batches[0], {Kind.STEP}).any():
        return events
    marker = Marker()
    marker.add(batches[0])
    return pa.Table.from_batches([marker.finish()], events.schema)


def _running(steps: _Steps, ts: I64, dur: I64) -> I64:
    """Return the number of the step of one thread that runs at each time, -1 where none does."""
    apart = bool((steps.start[1:] >= steps.end[:-1]).all())
    if apart:
        at = np.searchsorted(steps.start, ts, "right") - 1
        at[(at >= 0) & (ts >= steps.end[at])] = -1
    else:
        lane = np.zeros(len(steps.start), np.int64)
        at = innermost(lane, steps.start, steps.end, np.zeros(len(ts), np.int64), ts)
    # What begins with a step and lasts longer is around it.
    around = (at >= 0) & (ts == steps.start[at]) & (dur > steps.end[at] - steps.start[at])
    return np.where((at >= 0) & ~around, steps.number[at], -1)


def _values(batch: pa.RecordBatch, name: str, null: int = _NONE) -> I64:
    column = batch.column(name)
    if column.null_count:
        column = column.cast(pa.int64()).fill_null(null)
    values: I64 = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return values


def _of_kind(batch: pa.RecordBatch, kinds: frozenset[Kind] | set[Kind]) -> Mask:
    column = batch.column("kind")
    wanted = [code for code, kind in enumerate(column.dictionary.to_pylist()) if kind in kinds]
    if not wanted:
        return np.zeros(batch.num_rows, np.bool_)
    found: Mask = np.isin(column.indices.to_numpy(), wanted)
    return found


def _on_host(batch: pa.RecordBatch) -> Mask:
    """Tell which rows are at a place of the host: on a thread, or on nothing of a device."""
    known = {n: batch.column(n).is_valid().to_numpy(zero_copy_only=False) for n in ("tid", "device", "stream")}
    host: Mask = known["tid"] | ~(known["device"] | known["stream"] | _of_kind(batch, DEVICE_WORK))
    return host
