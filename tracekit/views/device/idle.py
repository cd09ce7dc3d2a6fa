"""idle: every gap of each device, its cause, and what the host was doing.

A gap is a time within the device's span (that of the view `breakdown`, whose idle time the gaps add up to) in which no
work ran on it; with `thread_sep` a gap of each stream, between the stream's first start and last end. The cause comes
from the work that ended the gap, its launch call, and the thread of that call. The first rule that fits counts:

- no more work: nothing followed on the device;
- unknown: the launch of the work is not in the trace;
- synchronization: the launch began after the gap did, and the thread was waiting for the device as the gap began (a
  sync call, a blocking copy: `index/host/waits.py`), or for at least half of the time from there to the launch;
- host late: the launch began after the gap did, so nothing was queued;
- stream wait: the work was queued behind a wait for another stream: a cudaStreamWaitEvent on its thread since the
  launch of the stream's work before it, or the profiler's own row of such a wait on its stream;
- launch latency: the work was queued, but its call had not returned as the gap began, or the gap is no longer than
  SHORT_GAP_NS;
- unknown: the work was queued long before, and nothing in the trace shows what it waited for.

host_range is the innermost range (operator or range of the user) on the launching thread, user_range the innermost
range of the user, step or phase: for synchronization and host late those running halfway between the gap's begin and
the launch, else those in which the launch began. Other threads are ignored. HTA's HOST_WAIT is host late
and synchronization together; its KERNEL_WAIT is launch latency by the length of the gap alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracekit.analysis.nesting import innermost
from tracekit.index import devices as _devices
from tracekit.index import grouping, launches
from tracekit.index.devices import Devices, since_origin
from tracekit.index.gaps import CAUSES, THREAD, Gaps, find_gaps, keys_of, times_of
from tracekit.index.trace_index import TraceIndex, join
from tracekit.model.arrow import I64
from tracekit.model.report import Bar, Cell, Column, Picture, ReportTable, Section
from tracekit.model.schema import API_CALLS, DEVICE_WORK, HOST_RANGES, USER_RANGES, Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate, totals
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.pictures import DEVICE_NAMES

__all__ = ["MOST_GAPS", "VIEW", "host_ranges"]

MOST_GAPS = 200
"""Number of rows in the table of the largest gaps, unless --top asks for more."""

_TITLE = "Idle time of devices"
_COLUMNS = _devices.COLUMNS | launches.COLUMNS | {"tid", "name", "context", "stream", "event_id"}


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the tables of causes and of the largest gaps. Raises: UsageError."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    devices = _devices.find(index)
    if not devices.devices:
        return totals.no_device_work(index, VIEW.name, _TITLE, options, devices.notes)
    launched = launches.launches_of(index, devices.rows)
    gaps = find_gaps(index, by_stream=options.thread_sep)
    more = [
        *devices.notes,
        *launched.notes(),
        *totals.both_note(index, DEVICE_WORK, "device"),
        *tabulate.option_notes(options),
    ]
    if not gaps.starts.size:
        return Section(VIEW.name, _TITLE, notes=("no device was idle: there is no gap", *more))
    host = host_ranges(index, by_stream=options.thread_sep)
    largest, cut = _gap_table(devices, gaps, host, options)
    tables = (_cause_table(devices, gaps, options), _range_table(index, gaps, host, options), largest)
    notes = [
        "of a stream: between its first start and last end"
        if options.thread_sep
        else "gaps of a device add up to its idle time in the view breakdown",
        *([cut] if cut else []),
        *more,
    ]
    return Section(VIEW.name, _TITLE, tables, figures=_bars(gaps), notes=tuple(notes))


@join
def host_ranges(index: TraceIndex, *, by_stream: bool = False) -> I64:
    """Return for each gap the row of the operator or range that the launching thread was in; -1 for none."""
    return _running(index, find_gaps(index, by_stream=by_stream), HOST_RANGES)


def _running(index: TraceIndex, gaps: Gaps, kinds: frozenset[Kind]) -> I64:
    """Return for each gap the row of the innermost range of these kinds on the launching thread; -1 for none."""
    timed = index.has("dur_ns")
    ranges = np.flatnonzero(index.kind_mask(kinds) & timed)
    asked = np.flatnonzero(gaps.launch >= 0)
    result = np.full(gaps.starts.size, -1, np.int64)
    if ranges.size and asked.size:
        lanes = keys_of(index, np.concatenate((ranges, gaps.launch[asked])), THREAD)
        at = innermost(lanes[: ranges.size], *times_of(index, ranges), lanes[ranges.size :], gaps.middle[asked])
        result[asked] = np.append(ranges, -1)[at]
    return result


def _cause_table(devices: Devices, gaps: Gaps, options: ViewOptions) -> ReportTable:
    groups = grouping.group_by(grouping.Key(gaps.lane, range(len(gaps.owners))), grouping.Key(gaps.cause, CAUSES))
    of = grouping.statistics(groups, gaps.ends - gaps.starts)
    lanes = [lane for lane in groups.labels[0] if isinstance(lane, int)]
    blocks: list[tuple[Cell, ...]] = [(lane,) for lane in lanes]
    columns = [
        *_owner_columns(devices, gaps, lanes, options),
        _SHOWN["cause"].column(groups.labels[1]),
        *(replace(c, title="Gaps") if c.name == "calls" else c for c in tabulate.statistic_columns(of, blocks)),
    ]
    return tabulate.finish("causes", "Idle time by cause, of the run", columns, options, blocks=blocks)


def _range_table(index: TraceIndex, gaps: Gaps, host: I64, options: ViewOptions) -> ReportTable:
    """Return the idle time of all devices by cause and by what the launching thread was in."""
    names = index.key("name", np.maximum(host, 0))
    names = grouping.Key(np.where(host >= 0, names.codes, 0), names.labels)
    groups = grouping.group_by(grouping.Key(gaps.cause, CAUSES), names)
    of = grouping.statistics(groups, gaps.ends - gaps.starts)
    columns = [
        _SHOWN["host_range"].column(groups.labels[1]),
        _SHOWN["cause"].column(groups.labels[0]),
        *(replace(c, title="Gaps") if c.name == "calls" else c for c in tabulate.statistic_columns(of)),
    ]
    return tabulate.finish("ranges", "Idle time by what the host was in", columns, options)


def _owner_columns(devices: Devices, gaps: Gaps, lanes: list[int], options: ViewOptions) -> list[Column]:
    columns = devices.identity([gaps.owners[lane][0] for lane in lanes])
    if options.thread_sep:
        if len({context for _, context, _ in gaps.owners}) > 1:
            columns.append(_SHOWN["context"].column([gaps.owners[lane][1] for lane in lanes], 2))
        columns.append(_SHOWN["stream"].column([gaps.owners[lane][2] for lane in lanes]))
    return columns


def _gap_table(devices: Devices, gaps: Gaps, host: I64, options: ViewOptions) -> tuple[ReportTable, str]:
    """Return the largest gaps, and the sentence that says of how many."""
    index, length = devices.index, gaps.ends - gaps.starts
    count = max(options.top, MOST_GAPS)
    chosen = np.lexsort((gaps.starts, gaps.lane, -length))[:count]
    lanes = gaps.lane[chosen].tolist()
    work = np.append(devices.rows, -1)
    after, before, launch = work[gaps.after[chosen]], work[gaps.before[chosen]], gaps.launch[chosen]
    first_row = np.array([devices.rows[gaps.owners[lane][0].positions[0]] for lane in lanes], np.int64)
    user = _running(index, gaps, USER_RANGES)[chosen]
    columns = [
        _SHOWN["gap"].column(length[chosen].tolist()),
        _SHOWN["at"].column(since_origin(index, first_row, gaps.starts[chosen]).tolist(), 1),
        _SHOWN["cause"].column([CAUSES[c] for c in gaps.cause[chosen].tolist()]),
        *_owner_columns(devices, gaps, lanes, options),
        _SHOWN["host_range"].column(_names(index, host[chosen]), 1),
        _SHOWN["user_range"].column(_names(index, user), 2),
        _SHOWN["next"].column(_names(index, after), 3),
        _SHOWN["next_event"].column(_event_ids(index, after), 4),
        _SHOWN["launch_event"].column(_event_ids(index, launch), 4),
        _SHOWN["before_event"].column(_event_ids(index, before), 5),
    ]
    table = tabulate.finish("gaps", "Largest gaps", columns, options, own_order="gap")
    left = length.size - chosen.size
    words = f"the {count:,} largest of {length.size:,} gaps are listed" if left else ""
    return replace(table, omitted=table.omitted + left), words


def _names(index: TraceIndex, rows: I64) -> list[Cell]:
    codes, names = index.texts("name")
    return [names[code] if row >= 0 and code >= 0 else None for row, code in zip(rows, codes[rows], strict=True)]


def _event_ids(index: TraceIndex, rows: I64) -> list[Cell]:
    ids = index.events.column("event_id").to_numpy()[rows].tolist()
    return [number if row >= 0 else None for row, number in zip(rows.tolist(), ids, strict=True)]


def _bars(gaps: Gaps) -> tuple[Bar, ...]:
    length = gaps.ends - gaps.starts
    parts = [(cause, int(length[gaps.cause == place].sum())) for place, cause in enumerate(CAUSES)]
    return (Bar("Idle time by cause, of the run", Unit.NS, tuple(parts)),) if any(part for _, part in parts) else ()


_SHOWS = (
    *specs.DEVICE,
    ViewColumn("context", "Context", Unit.ID, "The id of the context.", "place"),
    ViewColumn("stream", "Stream", Unit.ID, "The id of the stream.", "place"),
    ViewColumn("cause", "Cause", Unit.TEXT, "The reason for the gap, as far as the trace shows it."),
    ViewColumn("calls", "Gaps", Unit.COUNT, "The number of gaps."),
    ViewColumn("total", "Total", Unit.NS, "The sum of the gaps."),
    *specs.SPREAD,
    ViewColumn("ratio", "Ratio", Unit.RATIO, "The share of all idle time of the device."),
    ViewColumn("gap", "Gap", Unit.NS, "The length of the gap."),
    ViewColumn("at", "At", Unit.NS, "The start of the gap, after the first event of the trace."),
    ViewColumn("host_range", "Host was in", Unit.TEXT, "The innermost operator or range on the launching thread."),
    ViewColumn(
        "user_range", "Range", Unit.TEXT, "The innermost range of the user, step or phase on the launching thread."
    ),
    ViewColumn("next", "Next", Unit.TEXT, "The work that ended the gap."),
    ViewColumn("next_event", "Next event", Unit.ID, "The id of the event that ended the gap.", "event"),
    ViewColumn("launch_event", "Launch event", Unit.ID, "The id of the call that launched that work.", "event"),
    ViewColumn("before_event", "Event before", Unit.ID, "The id of the last device event before the gap.", "event"),
)
_SHOWN = specs.by_key(_SHOWS)

VIEW = View(
    name="idle",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=DEVICE_WORK | API_CALLS | HOST_RANGES,
    compute=compute,
    shows=_SHOWS,
    pictures=(
        Picture(
            "bars",
            "Idle time of each device, by cause",
            "idle.causes",
            ("total",),
            DEVICE_NAMES,
            by="cause",
        ),
    ),
)
