"""Launch calls and device work, in one input or in two: what they say of the device's clock.

A call and its work have one correlation id. Ids begin at 1 in every program, so two inputs with the same ids may be of
two programs. They count as one where both state one process, or where the files' own times, which begin long before
the program did, fit: all work starts after its call, and some soon after.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tracekit import schema
from tracekit.analysis.clocks.bounds import OPEN
from tracekit.analysis.clocks.launches import Calls, DeviceClock, Work, device_clock
from tracekit.analysis.links import one_key
from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask
from tracekit.columns.arrow import Column
from tracekit.schema import API_CALLS, DEVICE_WORK

COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "name", "pid", "device", "correlation", "copy_kind"})
"""Columns of EVENTS that are looked at."""
MOST_ROWS = 1 << 20
"""Calls, and pieces of work, of an input that are looked at; the first ones of the file."""
FEWEST = 8
"""Launch calls that two inputs of one process must share."""
FEWEST_AT_OWN_TIMES = 2
"""The same where the files' own times fit."""
FITTING_NS = 10_000_000
"""The files' own times fit where some work starts at most this long after its call."""
OLD_NS = 1_000_000_000_000
"""Times from here on do not begin with the program: 1,000 s since a machine was started, or more."""
OUTLIERS = 0.05
"""Share of the shared ids that may be of calls that launch nothing."""
LARGEST_STEP_NS = 1_000_000
_LAUNCHES = re.compile(r"(?i)launch(?!hostfunc)|mem(?:cpy|set|prefetch)|graph|dispatch")
_WAITS = re.compile(r"(?:cuda(?:Device|Thread)|hipDevice|(?:cu|hip)Ctx)Synchronize(?:_v\d+|_ptsz)?$")
_COPIES = re.compile(r"(?:cuda|cu|hip)Memcpy(?!.*(?:Async|Batch))")
_LAUNCHER, WAITER, _COPIER = 1, 2, 4
UNKNOWN = np.iinfo(np.int64).min
"""The process or device that rows do not state."""


@dataclass(slots=True)
class LaunchLook:
    """The calls and the device work of one input. cut: there are more of them than are kept."""

    cut: bool = False
    _calls: list[tuple[I64, ...]] = field(default_factory=list)
    _work: list[tuple[I64, ...]] = field(default_factory=list)
    _count: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})

    def see(self, batch: pa.RecordBatch) -> None:
        """Take the next rows."""
        if schema.is_totals(batch) or not batch.num_rows:
            return
        kinds = arrow.encoded(batch.column("kind"))
        texts, codes = arrow.texts(kinds.dictionary), arrow.codes(kinds)
        call, work = (
            np.array([text in wanted for text in texts], np.bool_)[codes] for wanted in (API_CALLS, DEVICE_WORK)
        )
        known = arrow.valid(batch.column("correlation"))
        call, work = call & arrow.valid(batch.column("dur_ns")), work & known
        if call.any():
            marks = _marks(batch.column("name"))
            self._keep(True, batch, np.flatnonzero(call & (known | ((marks & WAITER) != 0))), marks)
        if work.any():
            copies = arrow.encoded(batch.column("copy_kind"))
            to_host = np.array([text == "DtoH" for text in arrow.optional_texts(copies.dictionary)] + [False])
            self._keep(False, batch, np.flatnonzero(work), to_host[arrow.codes(copies)].astype(np.int64))

    def _keep(self, calls: bool, batch: pa.RecordBatch, rows: I64, marks: I64) -> None:
        room = MOST_ROWS - self._count[calls]
        if rows.size > room:
            self.cut = True
            rows = rows[:room]
        if not rows.size:
            return
        self._count[calls] += rows.size
        ts, dur = arrow.ints(batch.column("ts_ns")), arrow.ints(batch.column("dur_ns"), 0)
        columns = [
            *(with_null(batch.column(name)) for name in ("pid", "device", "correlation")),
            *(ts, ts + np.maximum(dur, 0), marks),
        ]
        (self._calls if calls else self._work).append(tuple(column[rows] for column in columns))

    @property
    def calls(self) -> Rows:
        """The calls. `marks`: bits: it launches, it waits for all work, it waits for its own copy."""
        return _rows(self._calls)

    @property
    def work(self) -> Rows:
        """The device work. `marks`: 1 for a copy from device to host."""
        return _rows(self._work)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in columns of shape (n,). pid, device, correlation: UNKNOWN for null. starts, ends: ns."""

    pid: I64
    device: I64
    correlation: I64
    starts: I64
    ends: I64
    marks: I64

    def take(self, rows: I64 | Mask) -> Rows:
        """Return some of the rows."""
        return Rows(*(getattr(self, name)[rows] for name in Rows.__slots__))


def _rows(parts: list[tuple[I64, ...]]) -> Rows:
    if not parts:
        return Rows(*([np.empty(0, np.int64)] * 6))
    return Rows(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def look(batches: Iterable[pa.RecordBatch]) -> LaunchLook:
    """Return the calls and the device work of an input."""
    found = LaunchLook()
    for batch in batches:
        found.see(batch)
    return found


def with_null(column: Column) -> I64:
    """Return the integers of a column, UNKNOWN for null."""
    return np.where(arrow.valid(column), arrow.ints(column), UNKNOWN)


def _marks(names: Column) -> I64:
    encoded = arrow.encoded(names)
    marks = [
        (_LAUNCHER if _LAUNCHES.search(text) else 0)
        | (WAITER if _WAITS.match(text) else 0)
        | (_COPIER if _COPIES.match(text) else 0)
        for text in (each or "" for each in arrow.optional_texts(encoded.dictionary))
    ]
    return np.array([*marks, 0], np.int64)[arrow.codes(encoded)]


@dataclass(frozen=True, slots=True)
class Between:
    """Calls of one input, and device work of another. same: both are of one program."""

    clock: DeviceClock
    same: bool


def between(host: LaunchLook, device: LaunchLook, host_origin_ns: int, device_origin_ns: int) -> Between | None:
    """Return what the calls of one input say of the device's clock in another, None where they share no launch.

    host_origin_ns, device_origin_ns: Unix time of each input's time 0, 0 where it states none.
    """
    calls, work = host.calls, device.work
    if not calls.pid.size or not work.pid.size:
        return None
    both_state = bool((calls.pid != UNKNOWN).all() and (work.pid != UNKNOWN).all())
    if not both_state and np.unique(calls.pid).size > 1:
        return None  # ids of several processes
    own = device.calls
    if own.pid.size and np.isin(work.correlation, own.correlation[own.correlation != UNKNOWN]).mean() > OUTLIERS:
        return None  # the work has its calls in its own input
    again = host.work
    if again.pid.size and np.isin(work.correlation, again.correlation).mean() > OUTLIERS:
        return None  # the calls have their work in their own input
    shared = calls.take(np.isin(calls.correlation, work.correlation))
    launching = (shared.marks & _LAUNCHER) != 0
    if not shared.pid.size or launching.mean() < 1 - OUTLIERS:
        return None
    keys = _keys(calls, work) if both_state else (calls.correlation, work.correlation)
    clock = clock_of(calls, work, keys, host_origin_ns, device_origin_ns)
    if clock is None:
        return None
    fits = clock.least_shift == 0 and 0 <= _least_delay(clock) <= FITTING_NS
    old = min(int(calls.starts.min()) + host_origin_ns, int(work.starts.min()) + device_origin_ns) >= OLD_NS
    same = (both_state and clock.calls >= FEWEST) or (fits and old and clock.calls >= FEWEST_AT_OWN_TIMES)
    return Between(clock, same and clock.bounds is not None)


def _least_delay(clock: DeviceClock) -> int:
    return OPEN if clock.bounds is None else clock.bounds.steady_high


def _keys(calls: Rows, work: Rows) -> tuple[I64, I64]:
    columns = [np.concatenate(pair) for pair in ((calls.pid, work.pid), (calls.correlation, work.correlation))]
    key = one_key(columns, columns[0].size)
    return key[: calls.pid.size], key[calls.pid.size :]


def clock_of(
    calls: Rows,
    work: Rows,
    keys: tuple[I64, I64],
    host_origin_ns: int = 0,
    device_origin_ns: int = 0,
    step: int | None = None,
) -> DeviceClock | None:
    """Return the clock of one device, or of several whose clocks are one. step: that of the calls, where known."""
    if not calls.pid.size:
        return None
    key, work_key = keys
    # Several calls with one id: a driver call within a runtime call. The first counts.
    order = np.lexsort((calls.starts, key))
    first = np.append(True, key[order][1:] != key[order][:-1])[: key.size] | (calls.correlation[order] == UNKNOWN)
    calls, key = calls.take(order[first]), key[order[first]]
    without_id = calls.correlation == UNKNOWN
    key = np.where(without_id, np.int64(UNKNOWN) + 1 + np.arange(key.size), key)
    # Synchronizing waits for the device of its own process: for another one it would not.
    alone = np.unique(work.device).size == 1 and np.unique(calls.pid).size == 1
    waits = ((calls.marks & WAITER) != 0) & alone
    own = Calls(key, calls.starts + host_origin_ns, calls.ends + host_origin_ns, waits, (calls.marks & _COPIER) != 0)
    theirs = Work(work_key, work.starts + device_origin_ns, work.ends + device_origin_ns, work.marks == 1)
    return device_clock(own, theirs, (step or step_of(calls.starts)) + step_of(work.starts) - 2)


def step_of(times: I64) -> int:
    """Return the ns that all times are multiples of: printed times are rounded to them."""
    if times.size < FEWEST:
        return 1
    return min(max(int(np.gcd.reduce(times - times[0])), 1), LARGEST_STEP_NS)
