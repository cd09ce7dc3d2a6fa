"""device: how busy each device was.

utilization = kernel_time / span; kernel_time: union of the kernels of the device over all its streams (copies do not
count); busy = busy_time / span with busy_time the union of kernels, copies and memsets; span: first start to last end
of all rows of the same input, host rows included; of the same process, where a file holds several runs. No steps are
needed (Paddle's table divides by the time in steps, and by zero without any).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tracekit.analysis.intervals import union_length_by
from tracekit.analysis.range_union import length_of
from tracekit.index import grouping, work_unions
from tracekit.index.batch_sums import BatchSums
from tracekit.index.devices import DeviceKey, by_input, sources_of_several_runs
from tracekit.index.lanes import device_not_named, device_title
from tracekit.index.sources import source_label, source_labels, spans, synthetic_sources
from tracekit.index.trace_index import TraceIndex, join, notes_on_rows
from tracekit.index.work_unions import WorkUnions
from tracekit.lazy_dataclass import dataclass
from tracekit.model.report import Cell, Column, Section, integer_of
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate, totals
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.quantities import of_devices

__all__ = ["VIEW"]

_TITLE = "Devices"
_COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "source", "rank", "device", "pid"})
_NOTE = (
    "utilization counts kernels, busy also copies and memsets; both are shares of the span (first start to last end "
    "of the input)"
)


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the table of devices. Raises: UsageError for an unknown key of --sort."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    found = figures(index)
    on_rows = notes_on_rows("row", found.untimed, found.negative)
    if not found.places:
        return totals.no_device_work(index, VIEW.name, _TITLE, options, on_rows)
    inputs = by_input(index)
    sources, ranks, devices, places = map(list, zip(*found.places, strict=True))
    pids = [inputs.labels[1][place] for place in places]
    made_up = set(synthetic_sources(index))
    start = index.starts
    length = index.lengths
    first, last = spans(inputs.codes, inputs.count, start, start + length)
    of_place = (last - first).tolist()
    span = [None if s in made_up else of_place[p] for s, p in zip(sources, places, strict=True)]
    columns = [
        Column("name", "Device", Unit.TEXT, _names(index, sources, devices), 0, "place"),
        Column("device", "Number", Unit.ID, devices, 5, "place"),
        _SHOWN["utilization"].column(_shares(found.kernel_time, span)),
        _SHOWN["kernel_time"].column(_known(found.kernel_time, span), 2),
        _SHOWN["busy"].column(_shares(found.busy_time, span), 1),
        _SHOWN["busy_time"].column(_known(found.busy_time, span), 3),
        _SHOWN["span"].column(span, 3),
        _SHOWN["kernels"].column(found.kernels, 4),
        _SHOWN["copies"].column(found.copies, 4),
    ]
    if len(set(pids)) > 1:
        columns.insert(1, Column("pid", "Pid", Unit.ID, pids, 1, "place"))
    if len(set(ranks)) > 1:
        columns.insert(1, Column("rank", "Rank", Unit.ID, ranks, 1, "place"))
    labels = source_labels(index)
    if len(set(sources)) > 1:
        texts: list[Cell] = [source_label(labels, s) for s in sources]
        columns.insert(1, Column("source", "Source", Unit.TEXT, texts, 1, "place"))
    blocks = list(zip(sources, ranks, pids, strict=True))
    table = tabulate.finish("devices", _TITLE, columns, options, own_order="device", blocks=blocks, top_each=False)
    notes = [_NOTE, *on_rows]
    if sources_of_several_runs(index):
        notes.append("each run of a file has a clock of its own: a row and a span for each process")
    if None in devices:
        notes.append("rows that name no device are taken as those of one device")
    for number in sorted(made_up & set(sources)):
        notes.append(f"{source_label(labels, number)}: its file has no starts, so how busy the device was is unknown")
    notes += [*totals.both_note(index, DEVICE_WORK, "device"), *tabulate.option_notes(options, table)]
    return Section(VIEW.name, _TITLE, (table,), notes=tuple(notes))


@dataclass(frozen=True, slots=True, eq=False)
class DeviceFigures:
    """Figures of the devices that worked. places: of each its source, rank, number, and its place in `by_input`.

    kernel_time: union of the kernels, ns; busy_time: that of all work. kernels, copies: their number. untimed,
    negative: work without a duration, and with one below zero.
    """

    places: list[DeviceKey]
    kernel_time: list[int]
    busy_time: list[int]
    kernels: list[int]
    copies: list[int]
    untimed: int
    negative: int


@join
def figures(index: TraceIndex) -> DeviceFigures:
    """Return the figures of all work."""
    picked = index.pick(DEVICE_WORK)
    inputs = by_input(index)
    place = grouping.Key(inputs.codes[picked.rows], range(inputs.count))
    groups = grouping.group_by(picked.key("source"), picked.key("rank"), picked.key("device"), place)
    sources, ranks, devices, places = groups.labels
    kernel = index.kind_mask({Kind.KERNEL})[picked.rows]
    ends = picked.starts + picked.durations
    return DeviceFigures(
        [
            (integer_of(source), rank, device, integer_of(place))
            for source, rank, device, place in zip(sources, ranks, devices, places, strict=True)
        ],
        union_length_by(groups.codes[kernel], groups.count, picked.starts[kernel], ends[kernel]).tolist(),
        union_length_by(groups.codes, groups.count, picked.starts, ends).tolist(),
        np.bincount(groups.codes[kernel], minlength=groups.count).tolist(),
        np.bincount(groups.codes[~kernel], minlength=groups.count).tolist(),
        picked.untimed,
        picked.negative,
    )


class DeviceSums:
    """The same figures, added up batch by batch."""

    columns: ClassVar[frozenset[str]] = work_unions.COLUMNS
    args_of: ClassVar[frozenset[Kind]] = frozenset()

    def __init__(self) -> None:
        self._work = WorkUnions(2)

    def fits(self, _formats: Collection[str], /) -> bool:
        """Return True: unions add up whatever the format is."""
        return True

    def take(self, batch: pa.RecordBatch) -> bool:
        """Add the rows of a batch."""
        return self._work.take(batch, lambda rows: (~grouping.kind_mask(batch, {Kind.KERNEL})[rows]).astype(np.int64))

    def give(self, index: TraceIndex) -> None:
        """Put the figures into the index."""
        work = self._work.by_device(index)
        found = DeviceFigures(
            list(work),
            [length_of(kernels.unions) for kernels, _ in work.values()],
            [length_of([*kernels.unions, *copies.unions]) for kernels, copies in work.values()],
            [kernels.count for kernels, _ in work.values()],
            [copies.count for _, copies in work.values()],
            self._work.untimed,
            self._work.negative,
        )
        index.give(figures, found)


def _sums() -> tuple[BatchSums, ...]:
    return (DeviceSums(),)


def _names(index: TraceIndex, sources: list[int], devices: list[Cell]) -> list[Cell]:
    """Return what each device is called: number and name, as far as the files say."""
    out: list[Cell] = []
    for source, device in zip(sources, devices, strict=True):
        name = index.run.devices.get((source, device), "")
        out.append(device_not_named(name) if device is None else device_title(device, name))
    return out


def _shares(parts: list[int], spans_ns: list[Cell]) -> list[Cell]:
    return [part / span if isinstance(span, int) and span else None for part, span in zip(parts, spans_ns, strict=True)]


def _known(parts: list[int], spans_ns: list[Cell]) -> list[Cell]:
    return [None if span is None else part for part, span in zip(parts, spans_ns, strict=True)]


_SHOWS = (
    *specs.DEVICE,
    ViewColumn("utilization", "Utilization", Unit.RATIO, "Kernel time, as a share of the span."),
    ViewColumn("kernel_time", "Kernel time", Unit.NS, "The union of the kernels, over all streams."),
    ViewColumn("busy", "Busy", Unit.RATIO, "Busy time, as a share of the span."),
    ViewColumn("busy_time", "Busy time", Unit.NS, "The union of kernels, copies and memsets."),
    ViewColumn(
        "span", "Span", Unit.NS, "From the first start to the last end of all rows of the input, host rows included."
    ),
    ViewColumn("kernels", "Kernels", Unit.COUNT, "The number of kernels."),
    ViewColumn("copies", "Copies", Unit.COUNT, "The number of copies and memsets."),
)
_SHOWN = specs.by_key(_SHOWS)

VIEW = View(
    name="device",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=DEVICE_WORK,
    compute=compute,
    define=of_devices,
    shows=_SHOWS,
    sums=_sums,
)
