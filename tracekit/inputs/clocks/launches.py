"""Clocks of devices by launch calls: no device work starts before the call that launched it.

A call and its work have one correlation id. Both may be in one input, or in two. Ids begin at 1 in every program, so
two inputs with the same ids may be of two programs. They count as one where both state one process, or where the files'
own times, which begin long before the program did, fit: all work starts after its call, and some soon after.

**Two inputs.** Launches and waits leave an interval of offsets. Where it has 0, the files' own times fit, and stay. Two
wall clocks that contradict it are brought together by the smallest shift that repairs it. Else the middle of the
interval is taken, or its end, where only one side has a limit. All of the interval remains possible, and the facts say
so.

**One input.** Without `--align launches` nothing is moved: that work starts before its launch shows that the clocks of
host and device differ by so much or more, not by how much. Durations and sums on one device are right as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace

import numpy as np
import pyarrow as pa

from tracekit.analysis.clocks.bounds import OPEN, Bounds, DeviceClock, LaunchCalls, LaunchedRows, device_clock
from tracekit.analysis.clocks.line import ClockLine
from tracekit.analysis.links import one_key
from tracekit.analysis.segments import rows_by
from tracekit.inputs.clocks.placement import AUTO, LAUNCHES, OFFSET, OWN, REFERENCE, Clocked, Placed
from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import arrow, schema, sets
from tracekit.model.arrow import I64, Column, Mask
from tracekit.model.schema import API_CALLS, DEVICE_WORK

__all__ = [
    "COLUMNS",
    "DEVICE_CLOCKS",
    "MOST_ROWS",
    "MOVED_COLUMNS",
    "DeviceLine",
    "LaunchLook",
    "contradictions",
    "device_rows_mover",
    "launched_pairs",
    "look",
    "place_by_launches",
    "repair_text",
    "repairs",
    "within",
]

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
_LAUNCHES = lazy_pattern(r"(?i)launch(?!hostfunc)|mem(?:cpy|set|prefetch)|graph|dispatch")
_WAITS = lazy_pattern(r"(?:cuda(?:Device|Thread)|hipDevice|(?:cu|hip)Ctx)Synchronize(?:_v\d+|_ptsz)?$")
_COPIES = lazy_pattern(r"(?:cuda|cu|hip)Memcpy(?!.*(?:Async|Batch))")
_LAUNCHER, WAITER, _COPIER = 1, 2, 4
UNKNOWN = np.iinfo(np.int64).min  # as `arrow.ints_or_least` has it
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
            *(arrow.ints_or_least(batch.column(name)) for name in ("pid", "device", "correlation")),
            *(ts, ts + np.maximum(dur, 0), marks),
        ]
        (self._calls if calls else self._work).append(tuple(column[rows] for column in columns))

    @property
    def calls(self) -> LaunchRows:
        """The calls. `marks`: bits: it launches, it waits for all work, it waits for its own copy."""
        return _rows(self._calls)

    @property
    def work(self) -> LaunchRows:
        """The device work. `marks`: 1 for a copy from device to host."""
        return _rows(self._work)


@dataclass(frozen=True, slots=True)
class LaunchRows:
    """Rows in columns of shape (n,). pid, device, correlation: UNKNOWN for null. starts, ends: ns."""

    pid: I64
    device: I64
    correlation: I64
    starts: I64
    ends: I64
    marks: I64

    def take(self, rows: I64 | Mask) -> LaunchRows:
        """Return some of the rows."""
        return LaunchRows(*(getattr(self, name)[rows] for name in LaunchRows.__slots__))


def _rows(parts: list[tuple[I64, ...]]) -> LaunchRows:
    if not parts:
        return LaunchRows(*([np.empty(0, np.int64)] * 6))
    return LaunchRows(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def look(batches: Iterable[pa.RecordBatch]) -> LaunchLook:
    """Return the calls and the device work of an input."""
    launch_look = LaunchLook()
    for batch in batches:
        launch_look.see(batch)
    return launch_look


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
    if not both_state and sets.unique(calls.pid).size > 1:
        return None  # ids of several processes
    host_calls = device.calls
    if (
        host_calls.pid.size
        and np.isin(work.correlation, host_calls.correlation[host_calls.correlation != UNKNOWN]).mean() > OUTLIERS
    ):
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


def _keys(calls: LaunchRows, work: LaunchRows) -> tuple[I64, I64]:
    columns = [np.concatenate(pair) for pair in ((calls.pid, work.pid), (calls.correlation, work.correlation))]
    key = one_key(columns, columns[0].size)
    return key[: calls.pid.size], key[calls.pid.size :]


def clock_of(
    calls: LaunchRows,
    work: LaunchRows,
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
    alone = sets.unique(work.device).size == 1 and sets.unique(calls.pid).size == 1
    waits = ((calls.marks & WAITER) != 0) & alone
    its_calls = LaunchCalls(
        key, calls.starts + host_origin_ns, calls.ends + host_origin_ns, waits, (calls.marks & _COPIER) != 0
    )
    theirs = LaunchedRows(work_key, work.starts + device_origin_ns, work.ends + device_origin_ns, work.marks == 1)
    return device_clock(its_calls, theirs, (step or step_of(calls.starts)) + step_of(work.starts) - 2)


def step_of(times: I64) -> int:
    """Return the ns that all times are multiples of: printed times are rounded to them."""
    if times.size < FEWEST:
        return 1
    return min(max(int(np.gcd.reduce(times - times[0])), 1), LARGEST_STEP_NS)


@dataclass(frozen=True, slots=True)
class LaunchClocks:
    """An input with device work, and the input with its launch calls, by their numbers."""

    host: int
    device: int
    clock: DeviceClock


def launched_pairs(looks: Mapping[int, LaunchLook], inputs: Mapping[int, Clocked]) -> list[LaunchClocks]:
    """Return which inputs have the launch calls of which others' work.

    Where the user names the method for an input with device work, or for all, it need not be proved that both are of
    one program; several inputs that could have its calls are none.
    """
    pairs = []
    for device, work in looks.items():
        named = inputs[device].choice == LAUNCHES
        every: list[tuple[int, Between]] = []
        for host, calls in looks.items():
            if host == device or not {inputs[host].choice, inputs[device].choice} <= {AUTO, LAUNCHES}:
                continue
            met = between(calls, work, inputs[host].origin_ns or 0, inputs[device].origin_ns or 0)
            if met is not None and met.clock.bounds is not None:
                every.append((host, met))
        same = [each for each in every if each[1].same] or (every if named else [])
        if len(same) == 1:
            pairs.append(LaunchClocks(same[0][0], device, same[0][1].clock))
    return pairs


def place_by_launches(
    launched: Sequence[LaunchClocks], inputs: Mapping[int, Clocked], placed: Mapping[int, Placed]
) -> dict[int, Placed]:
    """Return all inputs on their clocks: an input that launches relate to another one is on the clock of that one."""
    out = dict(placed)
    for each in launched:
        bounds = each.clock.bounds
        host, device = out[each.host], out[each.device]
        if bounds is None or OFFSET in (host.method, device.method):
            continue
        line = _line(each, bounds, inputs)
        low = None if bounds.low <= -OPEN // 2 else -bounds.low
        high = None if bounds.high >= OPEN // 2 else -bounds.high
        mover, stays, possible = each.device, host, (high, low)
        if inputs[each.host].origin_ns is None and inputs[each.device].origin_ns is not None and host.method == OWN:
            low, high = (None if limit is None else -limit for limit in (low, high))
            mover, stays, possible, line = each.host, device, (low, high), line.reversed()
        total = line if stays.line is None else line.over(stays.line)
        uncertainty = None if None in possible else line.uncertainty
        if uncertainty is not None and stays.line is not None:
            uncertainty = None if stays.uncertainty_ns is None else uncertainty + stays.uncertainty_ns
        moved_by = stays.then_ns - (total.offset - line.offset)
        out[mover] = Placed(
            mover,
            stays.group,
            LAUNCHES,
            inputs[stays.number].name,
            total if total.offset or total.drift else None,
            stays.then_ns,
            uncertainty,
            line.in_drift,
            (_plus(possible[0], moved_by), _plus(possible[1], moved_by)),
            each.clock.pairs,
        )
        if stays.method == OWN:
            out[stays.number] = Placed(stays.number, stays.group, REFERENCE, uncertainty_ns=0)
        elif stays.refused:
            out[stays.number] = replace(stays, refused=False)
    return out


def _plus(limit: int | None, by_ns: int) -> int | None:
    return None if limit is None else limit + by_ns


def _line(each: LaunchClocks, bounds: Bounds, inputs: Mapping[int, Clocked]) -> ClockLine:
    """Return the device's clock against the host's: the line that is applied."""
    clock = each.clock
    open_low, open_high = bounds.low <= -OPEN // 2, bounds.high >= OPEN // 2
    drift = 0.0
    if clock.least_shift == 0:
        ahead = 0
    elif clock.least_shift is not None and all(inputs[n].origin_ns is not None for n in (each.host, each.device)):
        ahead = -clock.least_shift
    elif open_low or open_high:
        ahead = bounds.steady_high if open_low else bounds.steady_low
    elif bounds.steady:
        ahead = (bounds.steady_low + bounds.steady_high) // 2
    else:
        ahead, drift = bounds.inside, (bounds.slowest + bounds.fastest) / 2
    in_drift = max(bounds.fastest - drift, drift - bounds.slowest)
    at_middle = max(bounds.high - ahead, ahead - bounds.low)
    uncertainty = at_middle + math.ceil(in_drift * (bounds.last - bounds.first) / 2)
    return ClockLine(
        ahead, drift, bounds.middle, at_middle, in_drift, uncertainty, bounds.first, bounds.last, clock.pairs
    )


def within(looked: LaunchLook) -> dict[tuple[int, int], DeviceClock]:
    """Return what an input with calls and device work says of the clock of each device, by process and device.

    UNKNOWN stands for a process or device that the rows do not state.
    """
    calls, work = looked.calls, looked.work
    out: dict[tuple[int, int], DeviceClock] = {}
    of_process = dict(rows_by(calls.pid))
    for pid, places in rows_by(work.pid):
        if pid not in of_process:
            continue
        of_pid, theirs = calls.take(of_process[pid]), work.take(places)
        devices = list(rows_by(theirs.device))
        step = step_of(of_pid.starts)
        if len(devices) > 1:  # a synchronization waits for one of them, and a device has to do with its own calls alone
            of_pid = replace(of_pid, marks=of_pid.marks & ~WAITER)
            of_pid = of_pid.take(np.argsort(of_pid.correlation, kind="stable"))
        for device, of_device in devices:
            rows = theirs.take(of_device)
            its = of_pid if len(devices) == 1 else of_pid.take(_rows_of(of_pid.correlation, rows.correlation))
            clock = clock_of(its, rows, (its.correlation, rows.correlation), step=step)
            if clock is not None:
                out[pid, device] = clock
    return out


def _rows_of(ascending: I64, wanted: I64) -> I64:
    """Return the rows that hold one of the wanted values."""
    wanted = sets.unique(wanted)
    first, last = np.searchsorted(ascending, wanted), np.searchsorted(ascending, wanted, "right")
    count = last - first
    rows: I64 = np.arange(count.sum()) + np.repeat(first - np.cumsum(count) + count, count)
    return rows


def contradictions(clocks: Mapping[tuple[int, int], DeviceClock], *, cut: bool = False) -> str:
    """Return a sentence on work that starts before its launch, or ends after the call that waited for it; "" for none.

    cut: there are more rows than were looked at.
    """
    wrong = [each for each in clocks.values() if each.early or each.late]
    if not wrong:
        return ""
    early, late = sum(each.early for each in wrong), sum(each.late for each in wrong)
    parts = [f"{early:,} of {sum(each.pairs for each in wrong):,} start before their launch"] if early else []
    parts += [f"{late:,} end after the call that waited for them returned"] if late else []
    head = f"rows of device work: {' and '.join(parts)}{', of the first rows' if cut else ''}"
    shifts = [each.least_shift for each in wrong]
    if None in shifts:
        return f"{head}: the clocks of host and device differ, and no single shift of the device's times repairs it"
    least = [each for each in shifts if each]
    low, high = min(least), max(least)
    text = f"{low:+,} ns" if low == high else f"{low:+,} to {high:+,} ns by device"
    return f"{head}: the clocks of host and device differ by {text} at least; --align launches moves the device's rows"


MOVED_COLUMNS = frozenset({"dur_ns", "pid", "device", "stream"})
"""Columns of EVENTS that moving the rows of devices needs, besides starts."""
DEVICE_CLOCKS = "device_clocks"
"""The fact of a source that says how the rows of its devices were moved."""


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """The rows of one device of one process, which are moved along a line. pid, device: as in `within`."""

    pid: int
    device: int
    line: ClockLine
    clock: DeviceClock

    def facts(self) -> dict[str, object]:
        """Return what the facts of the source say, in JSON types. possible_ns: None for a side without a limit."""
        bounds = self.clock.bounds
        low, high = (-bounds.high, -bounds.low) if bounds is not None else (-OPEN, OPEN)
        return {
            "pid": None if self.pid == UNKNOWN else self.pid,
            "device": None if self.device == UNKNOWN else self.device,
            "method": "launches",
            "offset_ns": -self.line.offset,
            "drift_ppm": round(self.line.drift * 1e6, 6),
            "possible_ns": [None if low <= -OPEN // 2 else low, None if high >= OPEN // 2 else high],
            "launches": self.clock.pairs,
            "early": self.clock.early,
            "late": self.clock.late,
        }


def repairs(clocks: Mapping[tuple[int, int], DeviceClock]) -> list[DeviceLine]:
    """Return how the rows of each device are moved: by the smallest shift that repairs it, else along a line.

    Devices whose launches contradict each other whatever the clock are left out.
    """
    out = []
    for (pid, device), clock in clocks.items():
        if clock.bounds is None:
            continue
        ahead, drift = -(clock.least_shift or 0), 0.0
        if clock.least_shift is None:
            ahead, drift = clock.bounds.inside, (clock.bounds.slowest + clock.bounds.fastest) / 2
        middle, first, last = clock.bounds.middle, clock.bounds.first, clock.bounds.last
        out.append(DeviceLine(pid, device, ClockLine(ahead, drift, middle, 0, 0.0, 0, first, last, clock.pairs), clock))
    return out


def device_rows_mover(lines: Sequence[DeviceLine]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return the function that moves the rows of devices in a batch, start and end alike."""
    line_of = {(each.pid, each.device): each for each in lines}

    def move(batch: pa.RecordBatch) -> pa.RecordBatch:
        if schema.is_totals(batch) or not batch.num_rows:
            return batch
        pid, device = (arrow.ints_or_least(batch.column(name)) for name in ("pid", "device"))
        on_device = arrow.valid(batch.column("device")) | arrow.valid(batch.column("stream"))
        starts, lengths = arrow.ints(batch.column("ts_ns")), arrow.ints(batch.column("dur_ns"))
        begins, ends = starts.copy(), starts + lengths
        rows = np.flatnonzero(on_device)
        for _, places in rows_by(one_key([pid[rows], device[rows]], rows.size)):
            of_device = rows[places]
            each = line_of.get((int(pid[of_device[0]]), int(device[of_device[0]])))
            if each is not None:
                begins[of_device], ends[of_device] = (
                    each.line.corrected(starts[of_device]),
                    each.line.corrected(ends[of_device]),
                )
        if not (begins != starts).any():
            return batch
        known = arrow.valid(batch.column("dur_ns"))
        batch = arrow.with_column(batch, "ts_ns", arrow.array(begins))
        return arrow.with_column(batch, "dur_ns", arrow.array(ends - begins, mask=~known))

    return move


def repair_text(lines: Sequence[DeviceLine]) -> str:
    """Return the sentence of a note on rows that were moved, "" where none are."""
    moved = [each for each in lines if each.line.offset or each.line.drift]
    if not moved:
        return ""
    parts = []
    for each in moved[:3]:
        name = "device" if each.device == UNKNOWN else f"device {each.device}"
        drift = f" and {-each.line.drift * 1e6:+.3f} ppm" if each.line.drift else ""
        parts.append(f"{name} by {-each.line.offset:+,} ns{drift}")
    more = ", ..." if len(moved) > 3 else ""
    how = "the smallest shift with which no work starts before its launch; the true one may be larger"
    return f"rows of devices are moved: {', '.join(parts)}{more}: {how}"
