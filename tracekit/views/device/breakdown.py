"""breakdown: the time of each device in parts: compute, exposed communication, exposed copies, idle.

Parts of a device, over all its streams, in whole ns that add up to the span exactly (TraceLens' partition):

- compute: the union of all kernels that do not communicate;
- exposed communication: the union of the collectives less compute; one that XLA starts with one op and awaits with
  another is in flight in between;
- exposed copies: the union of copies and memsets less both;
- idle: the rest of the span.

communication is the whole union of the collectives, overlap what compute hides of it, overlap_share = overlap /
communication (HTA's overlap percentage). The span is that of the view `device`: first start to last end of all rows of
the input. active is first start to last end of the device's own work (HTA's kernel time), idle_active the idle time in
it. The table of `tracekit.analysis.kernel_class` lists the kernels that communicate; the environment variable
TRACEKIT_KERNEL_CLASSES names a file that extends it.

Table `devices`: each device in all. Table `steps`: the same for the window of each step on the device, which
`step_windows` defines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tracekit.analysis.intervals import (
    Ranges,
    coverage,
    difference,
    gaps,
    intersection,
    length,
    merge,
    union,
    union_length_by,
)
from tracekit.analysis.range_union import length_of
from tracekit.index import devices as _devices
from tracekit.index import grouping, launches, step_windows, work_unions
from tracekit.index.async_collectives import ends_in_flight, is_half
from tracekit.index.batch_sums import BatchSums
from tracekit.index.devices import Devices, IndexedDevice, by_clock
from tracekit.index.kernel_classes import communicates, names_that_communicate
from tracekit.index.trace_index import TraceIndex, join
from tracekit.index.work_unions import UnitedWork, WorkUnions
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Mask
from tracekit.model.display import plural
from tracekit.model.report import Bar, Cell, Column, Picture, ReportTable, Section
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate, totals
from tracekit.views.base import Quantity, View, ViewColumn, ViewOptions
from tracekit.views.pictures import DEVICE_NAMES, SLOW
from tracekit.views.quantities import ratio
from tracekit.views.tabulate import shares_of

__all__ = ["VIEW", "DeviceParts", "Parts", "all_work", "device_parts", "steps_of_devices"]

# The time of each device in parts: compute, exposed communication, exposed copies, idle; of its span and of steps.
#
# The view `breakdown` says what the parts are. Devices may be many: their whole spans are found in one go, and the
# ranges of a device are merged only where windows of it are asked for.


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of some windows, each of shape (windows,), ns: the first four after the span add up to the window."""

    span: I64
    compute: I64
    exposed_comm: I64
    exposed_copies: I64
    idle: I64
    communication: I64

    def values(self, name: str) -> list[int]:
        """Return one part, an integer a window."""
        values: list[int] = getattr(self, name).tolist()
        return values

    def together(self) -> Parts:
        """Return the parts of all windows added up, as one window."""
        every = (self.span, self.compute, self.exposed_comm, self.exposed_copies, self.idle, self.communication)
        return Parts(*(part.sum(keepdims=True) for part in every))

    def overlap(self) -> list[int]:
        """Return the communication that compute hides."""
        hidden: list[int] = (self.communication - self.exposed_comm).tolist()
        return hidden


@dataclass(frozen=True, slots=True)
class DeviceBusyParts:
    """Merged ranges of one device: compute; with communication; with copies too; communication alone."""

    compute: Ranges
    kernels: Ranges
    busy: Ranges
    communication: Ranges

    def parts(self, begins: I64, ends: I64) -> Parts:
        """Return the parts of each window [begins[i], ends[i]); windows ascend and do not overlap."""
        edges = np.column_stack((begins, ends)).ravel()
        compute, kernels, busy, communication = (
            coverage(*ranges, edges)[::2] for ranges in (self.compute, self.kernels, self.busy, self.communication)
        )
        span = ends - begins
        return Parts(span, compute, kernels - compute, busy - kernels, span - busy, communication)


@dataclass(frozen=True, slots=True)
class DeviceParts:
    """The parts of a device's span, and of all its steps together: None for a device without steps.

    active: first start to last end of its work; busy: time with any of it.
    """

    device: IndexedDevice
    span: Parts
    steps: Parts | None
    active: int
    busy: int


@join
def device_parts(index: TraceIndex) -> tuple[DeviceParts, ...]:
    """Return the parts of each device: of its span in one window, and of its steps in one.

    Steps of several processes on one device may overlap: their union is one window here.
    """
    work, windows = all_work(index), steps_of_devices(index)
    parts = []
    for number, (device, whole, active) in enumerate(_whole(work)):
        edges = windows[number]
        together = work.of(number).parts(*edges).together() if edges is not None else None
        parts.append(DeviceParts(device, whole, together, active, int(whole.span[0] - whole.idle[0])))
    return tuple(parts)


@join
def steps_of_devices(index: TraceIndex) -> tuple[Ranges | None, ...]:
    """Return the windows of the steps on each device, merged; None for a device without steps."""
    devices = _devices.find(index)
    steps = step_windows.host_steps(index, devices.places)
    launched = launches.launches_of(index, devices.rows)
    found: list[Ranges | None] = []
    for device in devices.devices:
        windows = step_windows.windows_on(devices, device, steps, launched)
        if not windows:
            found.append(None)
            continue
        edges = merge(np.concatenate([w.begins for w in windows]), np.concatenate([w.ends for w in windows]))
        found.append(edges if length(edges) else None)
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class AllWork:
    """The work of all devices: which rows of it compute, which communicate. merged: that of devices with steps.

    ends: of the rows; of a collective that is in flight until another row ends, the end of that.
    """

    devices: Devices
    computes: Mask
    talks: Mask
    ends: I64
    merged: dict[int, DeviceBusyParts]

    def of(self, number: int) -> DeviceBusyParts:
        """Return the work of one device, merged."""
        if number not in self.merged:
            rows = self.devices.devices[number].positions
            starts, ends = self.devices.starts[rows], self.ends[rows]
            computes, talks = self.computes[rows], self.talks[rows]
            done, talk = _merged(starts, ends, computes), _merged(starts, ends, talks)
            kernels = union(done, talk) if talks.any() else done
            self.merged[number] = DeviceBusyParts(done, kernels, merge(starts, ends), talk)
        return self.merged[number]


@join
def all_work(index: TraceIndex) -> AllWork:
    """Return the work of all devices."""
    devices = _devices.find(index)
    kernel = devices.index.kind_mask({Kind.KERNEL})[devices.rows]
    collective = np.zeros(kernel.size, np.bool_)
    collective[kernel] = communicates(devices.index, devices.rows[kernel])
    ends = ends_in_flight(devices.index, devices.rows, devices.ends, collective)
    return AllWork(devices, kernel & ~collective, collective, ends, {})


def _whole(work: AllWork) -> Iterator[tuple[IndexedDevice, Parts, int]]:
    """Yield each device, the parts of its span, and first start to last end of its work."""
    devices = work.devices
    count = len(devices.devices)
    if not count:
        return
    sizes = [device.positions.size for device in devices.devices]
    rows = np.concatenate([device.positions for device in devices.devices])
    of, starts, ends = np.repeat(np.arange(count), sizes), devices.starts[rows], work.ends[rows]
    computes, talks = work.computes[rows], work.talks[rows]

    def union_of(chosen: Mask) -> I64:
        return union_length_by(of[chosen], count, starts[chosen], ends[chosen])

    compute, kernels, talk = union_of(computes), union_of(computes | talks), union_of(talks)
    busy = union_length_by(of, count, starts, ends)
    span = np.array([device.end - device.begin for device in devices.devices], np.int64)
    firsts = np.append(0, np.cumsum(sizes)[:-1]).astype(np.int64)
    active = np.maximum.reduceat(ends, firsts) - np.minimum.reduceat(starts, firsts)
    parts = (span, compute, kernels - compute, busy - kernels, span - busy, talk)
    for at, device in enumerate(devices.devices):
        yield device, Parts(*(part[at : at + 1] for part in parts)), int(active[at])


def _merged(starts: I64, ends: I64, chosen: Mask) -> Ranges:
    return merge(starts[chosen], ends[chosen])


_OF_STEPS = frozenset(
    {"ascend-csv", "ascend-db", "chrome-trace", "kineto", "paddle-json", "paddle-pb", "recorder-log", "xplane"}
)
"""Formats in which steps are usual: they are not read until one comes, and then once more."""


class PartSums:
    """The parts of devices added up batch by batch, of traces without steps: what a step launched needs all events."""

    columns: ClassVar[frozenset[str]] = work_unions.COLUMNS | {"name"}
    args_of: ClassVar[frozenset[Kind]] = frozenset()

    def __init__(self) -> None:
        self._work = WorkUnions(3)
        """Kernels that compute, kernels that communicate, other work."""
        self._talks: dict[Cell, bool] = {}

    def fits(self, formats: Collection[str], /) -> bool:
        """Return whether steps are not to be expected in these formats."""
        return not _OF_STEPS & set(formats)

    def take(self, batch: pa.RecordBatch) -> bool:
        """Add the rows of a batch; return False where it has a step, or a collective of two rows."""
        if grouping.kind_mask(batch, {Kind.STEP}).any():
            return False
        return self._work.take(batch, lambda rows: self._class_of(batch, rows))

    def _class_of(self, batch: pa.RecordBatch, rows: I64) -> I64 | None:
        kernel = grouping.kind_mask(batch, {Kind.KERNEL})[rows]
        names = grouping.used_key(batch, "name", rows[kernel])
        new = [name for name in names.labels if name not in self._talks]
        if new or not self._talks:
            talks = names_that_communicate([None if name is None else str(name) for name in new])
            if any(is_half(str(name)) for name, is_collective in zip(new, talks, strict=True) if is_collective):
                return None
            self._talks.update(zip(new, talks, strict=True))
        classes = np.full(rows.size, 2)
        classes[kernel] = np.array([self._talks[name] for name in names.labels], np.int64)[names.codes]
        return classes

    def give(self, index: TraceIndex) -> None:
        """Put the parts, and the devices without their rows, into the index."""
        work = self._work.by_device(index)
        devices = _devices.without_rows(index, work, self._work.untimed, self._work.negative)
        index.give(_devices.find, devices)
        index.give(device_parts, tuple(_of_unions(each, *work[each.key]) for each in devices.devices))


def _of_unions(device: IndexedDevice, compute: UnitedWork, talk: UnitedWork, others: UnitedWork) -> DeviceParts:
    """Return the parts of the span of a device whose work was added up."""
    kernels = [*compute.unions, *talk.unions]
    every = [*kernels, *others.unions]
    extents = [union.extent for union in every if union.extent is not None]
    active = max(last for _, last in extents) - min(first for first, _ in extents)
    span, busy = device.end - device.begin, length_of(every)
    of_kernels, computed = length_of(kernels), length_of(compute.unions)
    parts = (span, computed, of_kernels - computed, busy - of_kernels, span - busy, length_of(talk.unions))
    return DeviceParts(device, Parts(*(np.array([part], np.int64) for part in parts)), None, active, busy)


def _sums() -> tuple[BatchSums, ...]:
    return (PartSums(),)


_TITLE = "Breakdown of device time"
OF_RUN = "of the run"
"""The window of the table of devices and of the bars, which is not that of the table of steps."""
_COLUMNS = _devices.COLUMNS | launches.COLUMNS | step_windows.COLUMNS
_PARTS = (
    ("compute", "Compute"),
    ("exposed_comm", "Exposed comm"),
    ("exposed_copies", "Exposed copies"),
    ("idle", "Idle"),
)
_BARS = 8


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the tables of devices and steps, and a bar for each device. Raises: UsageError."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    devices = _devices.find(index)
    if not devices.devices:
        return totals.no_device_work(index, VIEW.name, _TITLE, options, devices.notes)
    each_device = device_parts(index)
    parts = [each.span for each in each_device]
    table = _device_table(devices, each_device, options)
    if index.was_given(device_parts):
        steps, notes = None, _step_notes(devices, sum(each.steps is None for each in each_device))
    else:
        steps, notes = _step_table(all_work(index), options)
    tables = (table, *([steps] if steps else []))
    notes_of_all = [
        "percentages are of the whole run (first start to last end, host included)",
        *devices.notes,
        *notes,
        *totals.both_note(index, DEVICE_WORK, "device"),
    ]
    if not any(p.communication.any() for p in parts):
        notes_of_all.append("no collective took time: communication is 0")
    notes_of_all += tabulate.option_notes(options, table)
    return Section(VIEW.name, _TITLE, tables, figures=_bars(devices, parts), notes=tuple(notes_of_all))


def _part_columns(parts: Sequence[Parts]) -> list[Column]:
    """Return span, parts, shares, communication and overlap: rows of all windows, one after the other."""

    def column(name: str) -> list[int]:
        return [value for each in parts for value in each.values(name)]

    span, talk = column("span"), column("communication")
    hidden = [value for each in parts for value in each.overlap()]
    shares = [
        Column(f"{name}_share", f"{title} share", Unit.RATIO, shares_of(column(name), span), 1 + (name != "idle"))
        for name, title in _PARTS
    ]
    return [
        _SHOWN["span"].column(span, 1),
        *(Column(name, title, Unit.NS, column(name), 0) for name, title in _PARTS),
        *shares,
        _SHOWN["communication"].column(talk, 4),
        _SHOWN["overlap"].column(hidden, 5),
        _SHOWN["overlap_share"].column(shares_of(hidden, talk), 3),
    ]


def _device_table(devices: Devices, each_device: Sequence[DeviceParts], options: ViewOptions) -> ReportTable:
    active = [each.active for each in each_device]
    chosen = list(devices.devices)
    columns = [
        *devices.identity(chosen),
        *_part_columns([each.span for each in each_device]),
        _SHOWN["active"].column(active, 6),
        _SHOWN["idle_active"].column([each.active - each.busy for each in each_device], 6),
    ]
    places: list[tuple[Cell, ...]] = [(place,) for place in range(len(chosen))]
    return tabulate.finish(
        "devices", f"{_TITLE}, {OF_RUN}", columns, options, own_order="", blocks=places, top_each=False
    )


def _step_table(work: AllWork, options: ViewOptions) -> tuple[ReportTable | None, list[str]]:
    devices = work.devices
    steps = step_windows.host_steps(devices.index, devices.places)
    if not steps.of:
        return None, [NO_STEPS]
    launched = launches.launches_of(devices.index, devices.rows)
    chosen: list[IndexedDevice] = []
    processes: list[Cell] = []
    numbers: list[Cell] = []
    parts: list[Parts] = []
    without, by_host, ahead = 0, False, False
    for number, device in enumerate(devices.devices):
        windows = step_windows.windows_on(devices, device, steps, launched)
        without += not windows
        for window in windows:
            by_host |= not window.by_launch
            ahead |= window.ahead
            parts.append(work.of(number).parts(window.begins, window.ends))
            chosen += [device] * window.begins.size
            processes += [window.steps.pid] * window.begins.size
            numbers += window.steps.numbers
    notes = _notes_on_steps(devices, without)
    if not chosen:
        return None, notes
    if by_host:
        notes.append("no launch of the device work is known: a step is the time of its range on the host")
    elif ahead:
        notes.append("the host runs ahead: a step on a device is from the end of the last work of the step before")
    else:
        notes.append(
            "a step on a device: from the first work launched in it to that of the next step; the first begins and the "
            "last ends with its range on the host"
        )
    columns = [*devices.identity(chosen), _SHOWN["step"].column(numbers), *_part_columns(parts)]
    if len(set(processes)) > 1 and "pid" not in [c.name for c in columns]:
        columns.insert(1, Column("pid", "Pid", Unit.ID, processes, 1, "place"))
    places: list[tuple[Cell, ...]] = [(place,) for place in range(len(chosen))]
    title = f"{_TITLE} by step"
    return tabulate.finish("steps", title, columns, options, own_order="", blocks=places, top_each=False), notes


def _notes_on_steps(devices: Devices, without: int) -> list[str]:
    """Return notes on steps and devices that are left out. without: devices on which no step launched work."""
    inside = step_windows.host_steps(devices.index, devices.places).inside
    notes = [f"{plural(inside, 'step')} within another step: not counted separately"] if inside else []
    if without:
        notes.append(f"no step launched work on {plural(without, 'device')}: the whole span only")
    return notes


def _step_notes(devices: Devices, without: int) -> list[str]:
    """Return the notes of a run that is read rank by rank, in the place of the table of steps."""
    if not step_windows.host_steps(devices.index, devices.places).of:
        return [NO_STEPS]
    apart = "the parts of each step are not shown for a run that is read rank by rank"
    return [apart, *_notes_on_steps(devices, without)]


NO_STEPS = "no steps in the trace: the whole span only"


def _bars(devices: Devices, parts: list[Parts]) -> tuple[Bar, ...]:
    """Return a bar of all devices together where there are several, and one for each of the first devices."""

    def bar(title: str, chosen: list[Parts]) -> Bar:
        amounts = [(words.lower(), sum(sum(p.values(name)) for p in chosen)) for name, words in _PARTS]
        return Bar(title, Unit.NS, tuple(amounts))

    worked = [(d, p) for d, p in zip(devices.devices, parts, strict=True) if p.span.any()]
    bars = [bar(f"Time of {d.label}, {OF_RUN}", [p]) for d, p in worked[:_BARS]]
    if len(worked) > 1:
        bars.insert(0, bar(f"Time of all {len(devices.devices):,} devices, {OF_RUN}", parts))
    return tuple(bars)


_WORDS = {
    "span": "first start to last end of all rows of the input, host rows too",
    "compute": "time in which a kernel that does not communicate ran",
    "exposed_comm": "time in which a collective ran and no other kernel did",
    "exposed_copies": "time in which a copy or memset ran and no kernel did",
    "idle": "the span less the time in which a kernel, copy or memset ran",
    "communication": "time in which a collective ran",
    "overlap": "time in which a collective and another kernel ran",
    "active": "first start to last end of the device's own work",
    "idle_active": "first start to last end of the device's own work, less the time in which any of it ran",
}


def _define(index: TraceIndex, _: ViewOptions, row: Mapping[str, Cell], column: str) -> Quantity | None:
    """Define the cells of the table of devices; those of the steps have none."""
    if "step" in row or (row and row.get(column) is None):
        return None
    devices = _devices.find(index)
    identity = devices.identity(list(devices.devices))
    of_row = [
        i for i in range(len(devices.devices)) if all(row.get(c.name, c.values[i]) == c.values[i] for c in identity)
    ]
    work = all_work(index)

    def part(name: str) -> Quantity:
        pieces = [_pieces(name, devices.devices[i], work.of(i)) for i in of_row]
        starts, ends = (np.concatenate([np.zeros(0, np.int64), *times]) for times in zip(*pieces, strict=True))
        number = np.repeat(np.array(of_row, np.int64), [piece[0].size for piece in pieces])
        at = [_running(devices, devices.devices[i], piece[0]) for i, piece in zip(of_row, pieces, strict=True)]
        rows = np.concatenate([np.zeros(0, np.int64), *at]) if name not in _NO_ROW else np.full(starts.size, -1)
        first = np.array([devices.rows[device.positions[0]] for device in devices.devices])
        return Quantity(_WORDS[name], "sum", rows, starts, ends, number, by_clock(index).codes[first[number]])

    if column in _WORDS:
        return part(column)
    over, under = (column.removesuffix("_share"), "communication" if column == "overlap_share" else "span")
    if over == column or over not in _WORDS:
        return None
    return ratio(part(over), part(under), f"{_WORDS[over]} / {_WORDS[under]}")


_NO_ROW = ("span", "idle", "active", "idle_active")


def _pieces(name: str, device: IndexedDevice, work: DeviceBusyParts) -> Ranges:
    """Return the pieces of time, merged, that make a part of a device's span."""
    low, high = int(work.busy[0][0]), int(work.busy[1][-1])
    if name in ("span", "active"):
        begin, end = (device.begin, device.end) if name == "span" else (low, high)
        return np.array([begin]), np.array([end])
    if name in ("idle", "idle_active"):
        return gaps(work.busy, device.begin, device.end) if name == "idle" else gaps(work.busy, low, high)
    if name == "overlap":
        return intersection(work.communication, work.compute)
    if name in ("exposed_comm", "exposed_copies"):
        exposed = (work.kernels, work.compute) if name == "exposed_comm" else (work.busy, work.kernels)
        return difference(*exposed)
    return work.compute if name == "compute" else work.communication


def _running(devices: Devices, device: IndexedDevice, at: I64) -> I64:
    """Return for each time a row of the device's work that runs then; there is one."""
    starts, ends = devices.starts[device.positions], devices.ends[device.positions]
    order = np.argsort(starts, kind="stable")
    last = np.maximum.accumulate(ends[order])
    longest = np.maximum.accumulate(np.where(ends[order] == last, np.arange(order.size), 0))
    running: I64 = devices.rows[device.positions[order[longest[np.searchsorted(starts[order], at, "right") - 1]]]]
    return running


_SHOWS = (
    *specs.DEVICE,
    ViewColumn("step", "Step", Unit.ID, "The number of the step."),
    ViewColumn(
        "span",
        "Span",
        Unit.NS,
        "From the first start to the last end of all rows of the input, or the window of the step.",
    ),
    ViewColumn("compute", "Compute", Unit.NS, "The union of the kernels that do not communicate."),
    ViewColumn("exposed_comm", "Exposed comm", Unit.NS, "The union of the collectives that no compute hides."),
    ViewColumn(
        "exposed_copies",
        "Exposed copies",
        Unit.NS,
        "The union of copies and memsets that neither compute nor collectives hide.",
    ),
    ViewColumn("idle", "Idle", Unit.NS, "The rest of the span."),
    ViewColumn("compute_share", "Compute share", Unit.RATIO, "Compute, as a share of the span."),
    ViewColumn(
        "exposed_comm_share", "Exposed comm share", Unit.RATIO, "Exposed communication, as a share of the span."
    ),
    ViewColumn("exposed_copies_share", "Exposed copies share", Unit.RATIO, "Exposed copies, as a share of the span."),
    ViewColumn("idle_share", "Idle share", Unit.RATIO, "Idle time, as a share of the span."),
    ViewColumn("communication", "Communication", Unit.NS, "The union of the collectives, hidden or not."),
    ViewColumn("overlap", "Overlap", Unit.NS, "The communication that compute hides."),
    ViewColumn("overlap_share", "Overlap share", Unit.RATIO, "The overlap, as a share of the communication."),
    ViewColumn("active", "Active", Unit.NS, "From the first start to the last end of the device's own work."),
    ViewColumn(
        "idle_active",
        "Idle in active",
        Unit.NS,
        "The idle time between the first start and the last end of the device's own work.",
    ),
)
_SHOWN = specs.by_key(_SHOWS)

VIEW = View(
    name="breakdown",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=DEVICE_WORK | {Kind.STEP},
    compute=compute,
    define=_define,
    shows=_SHOWS,
    sums=_sums,
    pictures=(
        Picture(
            "stack",
            "Communication of each step: hidden by compute, and exposed",
            "breakdown.steps",
            ("overlap", "exposed_comm"),
            DEVICE_NAMES,
            "step",
        ),
        Picture(
            "multiples", "Compute time of each rank", "breakdown.steps", ("compute",), ("rank", "name"), "step", SLOW
        ),
        Picture(
            "bars",
            "Communication: hidden by compute, and exposed",
            "breakdown.devices",
            ("overlap", "exposed_comm"),
            DEVICE_NAMES,
        ),
    ),
)
