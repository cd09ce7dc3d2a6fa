"""launch: from the call to the work: the time of launching, the time in the queue, and how full the queues are.

Work and call are joined by (source, process, correlation). Each device event has three times:

- call (A): duration of the call that launched it;
- queue (Q): from the call's end to the work's start; 0 where the work began before the call returned;
- work (K): its own duration.

A call that launched several (a CUDA graph) is charged once, and its queue time is measured once: for its first work.
Work that began before its call did (clocks of host and device that drift apart: kineto issue 1380) counts with Q = 0,
and a note counts it.

Table `launches`, by name of the work: calls counts device rows, launches those with a call of their own; short: rows
that took less time than the call that launched them; slow_calls: calls beyond SLOW_CALL_NS; late: Q beyond
LONG_QUEUE_NS (HTA's thresholds). Table `streams`: the queue of each stream, +1 as a launch call begins, -1 as its work
does (HTA's queue length): longest, mean over time from first launch to last start, time with FULL_QUEUE or more, when
the host stalls. launches_per_s: launches over the time from the first to the last of them. Statistics are those of the
view kernel.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracekit.analysis.segments import place_type
from tracekit.analysis.statistics import Grouped
from tracekit.index import devices as _devices
from tracekit.index import grouping
from tracekit.index import launches as _launches
from tracekit.index.devices import Devices, IndexedDevice
from tracekit.index.launches import LaunchedWork
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64
from tracekit.model.cells import Cells
from tracekit.model.display import plural
from tracekit.model.report import Column, ReportTable, Section
from tracekit.model.schema import API_CALLS, DEVICE_WORK
from tracekit.model.units import Unit, format_span
from tracekit.views import specs, tabulate, totals
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.tabulate import shares_by_row

__all__ = ["FULL_QUEUE", "SLOW_CALL_NS", "VIEW"]

SLOW_CALL_NS = 50_000
LONG_QUEUE_NS = 100_000
FULL_QUEUE = 1024
"""Launches that a stream of CUDA takes before the next launch call waits (HTA: CUDA_MAX_LAUNCH_QUEUE_PER_STREAM)."""

_TITLE = "Launches"
_COLUMNS = _devices.COLUMNS | _launches.COLUMNS | {"name", "stream", "context"}

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class LaunchTimes:
    """A, Q and K of device work with a known launch; arrays of shape (m,), ns.

    index: positions in `Devices.rows`. first: whether its call is charged here. call, queue, work: A, Q, K.
    begun: start of the call. early: work that began before its call.
    """

    positions: I64
    first: Mask
    begun: I64
    call: I64
    queue: I64
    work: I64
    early: Mask


def launch_times(devices: Devices, launched: LaunchedWork) -> LaunchTimes:
    """Return the times of all device work with a known launch; a call without a duration counts 0."""
    positions = np.flatnonzero(launched.launch >= 0)
    launch = launched.launch[positions]
    begun = devices.index.starts[launch]
    call = np.maximum(devices.index.ints("dur_ns")[launch], 0)
    starts = devices.starts[positions]
    queue = np.maximum(starts - (begun + call), 0)
    return LaunchTimes(
        positions, launched.first[positions], begun, call, queue, devices.ends[positions] - starts, starts < begun
    )


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the tables of launches by name and of the queues of streams. Raises: UsageError."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    devices = _devices.find(index)
    if not devices.devices:
        return totals.no_device_work(index, VIEW.name, _TITLE, options, devices.notes)
    launched = _launches.launches_of(index, devices.rows)
    times = launch_times(devices, launched)
    rest = [*devices.notes, *launched.notes()]
    if options.thread_sep:
        rest.append("launches are shown by the name of their work: one block for all threads")
    if not times.positions.size:
        needs = "needs runtime or driver calls that launched the device work; this trace has none"
        return Section(VIEW.name, _TITLE, notes=(needs, *rest, *tabulate.option_notes(options)))
    table = _by_name(devices, times, options)
    queues = _queues(devices, times, options)
    short = int(np.count_nonzero(times.first & (times.work < times.call)))
    notes = [
        "call: the launch call; queue: from its end to the start of the work; work: on the device",
        f"{short:,} of {int(times.first.sum()):,} launches took longer to call than to run",
        tabulate.PERCENTILE_NOTE,
    ]
    if early := int(np.count_nonzero(times.early)):
        before = int((times.begun - devices.starts[times.positions]).max())
        rows = f"{plural(early, 'row')} of device work began before the launch call, by up to"
        notes.append(
            f"{rows} {format_span(before)}: host and device clocks differ by that much or more; queued for 0 ns"
        )
    notes += [*rest, *totals.both_note(index, DEVICE_WORK, "device"), *tabulate.option_notes(options, table)]
    return Section(VIEW.name, _TITLE, (table, queues), notes=tuple(notes))


def _by_name(devices: Devices, times: LaunchTimes, options: ViewOptions) -> ReportTable:
    index, rows = devices.index, devices.rows[times.positions]
    groups = grouping.group_by(index.key("name", rows), index.key("kind", rows))
    whole = grouping.statistics(groups, times.work)
    first = times.first
    first_groups = grouping.Groups(groups.codes[first], groups.count, groups.labels)
    call, queue = (grouping.statistics(first_groups, values[first]) for values in (times.call, times.queue))

    def count(rows: Mask) -> I64:
        return np.bincount(first_groups.codes[rows[first]], minlength=groups.count)

    launches = call.calls
    short = count(times.work < times.call)
    columns = [
        _SHOWN["name"].column(groups.labels[0]),
        _SHOWN["kind"].column(groups.labels[1], 8),
        _SHOWN["calls"].column(Cells.of(whole.calls), 1),
        _SHOWN["launches"].column(Cells.of(launches), 7),
        _SHOWN["total"].column(Cells.of(whole.total)),
        _SHOWN["call_total"].column(Cells.of(call.total), 1),
        _SHOWN["queue_total"].column(Cells.of(queue.total), 3),
        *(
            c
            for times_of, part in ((call, "call"), (queue, "queue"), (whole, "work"))
            for c in _columns(times_of, part)
        ),
        _SHOWN["short"].column(Cells.of(short), 3),
        _SHOWN["short_share"].column(shares_by_row(short, launches), 2),
        _SHOWN["slow_calls"].column(Cells.of(count(times.call > SLOW_CALL_NS)), 6),
        _SHOWN["late"].column(Cells.of(count(times.queue > LONG_QUEUE_NS)), 6),
    ]
    return tabulate.finish("launches", _TITLE, columns, options)


def _columns(times: Grouped, part: str) -> list[Column]:
    """Return avg, p50, p95, p99 and std of one part; null where no launch is charged to the name."""
    word = part.capitalize()
    percentiles = ((spec.key, spec.values(times), 4) for spec in specs.PERCENTILES)
    values = [("avg", times.mean, 5), *percentiles, ("std", times.pstd, 7)]
    return [
        Column(f"{part}_{name}", f"{word} {name}", Unit.NS, Cells.of(figures, times.present), priority)
        for name, figures, priority in values
    ]


def _queues(devices: Devices, times: LaunchTimes, options: ViewOptions) -> ReportTable:
    """Return the table of streams: launches, rate, and length of the queue."""
    owner = np.zeros(devices.rows.size, np.int64)
    for number, device in enumerate(devices.devices):
        owner[device.positions] = number
    launched = times.positions[times.first]
    index, rows = devices.index, devices.rows[launched]
    keys = (index.key(column, rows) for column in ("context", "stream"))
    groups = grouping.group_by(grouping.Key(owner[launched], range(len(devices.devices))), *keys)
    starts = np.maximum(devices.starts[launched], times.begun[times.first])
    begun, call, work = times.begun[times.first], times.call[times.first], times.work[times.first]
    launches = np.bincount(groups.codes, minlength=groups.count)
    each = np.split(np.argsort(groups.codes, kind="stable"), np.cumsum(launches)[:-1])
    found = [_queue(begun[own], starts[own]) for own in each]
    short = np.bincount(groups.codes[work < call], minlength=groups.count)
    chosen: list[IndexedDevice] = [devices.devices[g] for g in groups.labels[0] if isinstance(g, int)]
    columns = [
        *devices.identity(chosen),
        _SHOWN["context"].column(groups.labels[1], 6),
        _SHOWN["stream"].column(groups.labels[2]),
        _SHOWN["launches"].column(Cells.of(launches)),
        _SHOWN["launches_per_s"].column([f.rate for f in found], 1),
        _SHOWN["queue_max"].column([f.longest for f in found], 1),
        _SHOWN["queue_mean"].column([f.mean for f in found], 1),
        _SHOWN["full_time"].column([f.full for f in found], 2),
        _SHOWN["short"].column(Cells.of(short), 3),
        _SHOWN["short_share"].column(shares_by_row(short, launches), 1),
    ]
    return tabulate.finish("streams", "Launch queues of streams", columns, options, own_order="launches")


@dataclass(frozen=True, slots=True)
class _Queue:
    """The queue of one stream. longest: the most launches that waited at once. mean: over time.

    full: ns with FULL_QUEUE or more waiting. mean, rate: to three decimals.
    """

    longest: int
    mean: float | None
    full: int
    rate: float | None


def _queue(begun: I64, starts: I64) -> _Queue:
    """Return the figures of a queue. begun: starts of the launch calls; starts: of their work, never earlier."""
    at = np.concatenate((begun, starts))
    change = np.repeat(np.array([1, -1], np.int8), begun.size)
    # Work that starts as another launch begins has left the queue before it; work that never waited leaves last.
    turn = np.concatenate((np.ones(begun.size, np.int8), np.where(starts > begun, np.int8(0), np.int8(2))))
    order = np.lexsort((turn, at))
    del turn
    length = np.cumsum(change[order], dtype=place_type(at.size))
    at = at[order]
    del change, order
    held = np.diff(at)
    span = int(at[-1] - at[0])
    waited = grouping.exact_sum(starts - begun)
    full = int(held[length[:-1] >= FULL_QUEUE].sum())
    first, last = int(begun.min()), int(begun.max())
    rate = round((begun.size - 1) * 1e9 / (last - first), 3) if last > first else None
    return _Queue(int(length.max()), round(waited / span, 3) if span else None, full, rate)


_OF_PARTS = tuple(
    ViewColumn(f"{part}_{name}", f"{part.capitalize()} {name}", Unit.NS, f"The {words} of the {meaning}.")
    for part, meaning in (
        ("call", "durations of the launch calls"),
        ("queue", "times from the end of the call to the start of the work"),
        ("work", "durations on the device"),
    )
    for name, words in (
        ("avg", "mean"),
        ("p50", "median"),
        ("p95", "95th percentile"),
        ("p99", "99th percentile"),
        ("std", "standard deviation"),
    )
)
_SHOWS = (
    *specs.DEVICE,
    *_OF_PARTS,
    ViewColumn("name", "Name", Unit.TEXT, "The full name of the work."),
    ViewColumn("kind", "Kind", Unit.TEXT, "The kind of the work."),
    ViewColumn("calls", "Calls", Unit.COUNT, "The number of device events."),
    ViewColumn("launches", "Launches", Unit.COUNT, "The number of launch calls."),
    ViewColumn("total", "Work total", Unit.NS, "The sum of the durations on the device."),
    ViewColumn("call_total", "Call total", Unit.NS, "The sum of the durations of the launch calls."),
    ViewColumn(
        "queue_total", "Queue total", Unit.NS, "The sum of the times from the end of the call to the start of the work."
    ),
    ViewColumn("short", "Short", Unit.COUNT, "The number of events that took less time than their launch call."),
    ViewColumn(
        "short_share", "Short share", Unit.RATIO, "The share of events that took less time than their launch call."
    ),
    ViewColumn("slow_calls", "Slow calls", Unit.COUNT, "The number of launch calls beyond the limit for slow calls."),
    ViewColumn("late", "Long queue", Unit.COUNT, "The number of events whose queue time is beyond the limit."),
    ViewColumn("context", "Context", Unit.ID, "The id of the context.", "place"),
    ViewColumn("stream", "Stream", Unit.ID, "The id of the stream.", "place"),
    ViewColumn(
        "launches_per_s",
        "Launches/s",
        Unit.NUMBER,
        "Launches per second, from the first to the last launch of the stream.",
    ),
    ViewColumn("queue_max", "Queue max", Unit.COUNT, "The largest number of queued launches."),
    ViewColumn("queue_mean", "Queue mean", Unit.NUMBER, "The mean number of queued launches over time."),
    ViewColumn("full_time", "Queue full", Unit.NS, "The time with a full queue, in which the next launch call waits."),
)
_SHOWN = specs.by_key(_SHOWS)

VIEW = View(name="launch", title=_TITLE, columns=_COLUMNS, kinds=DEVICE_WORK | API_CALLS, compute=compute, shows=_SHOWS)
