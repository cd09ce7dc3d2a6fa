"""device: how busy each device was.

utilization = kernel_time / span; kernel_time: union of the kernels of the device over all its streams (copies do not
count); busy = busy_time / span with busy_time the union of kernels, copies and memsets; span: first start to last end
of all rows of the same input, host rows included; of the same process, where a file holds several runs. No steps are
needed (Paddle's table divides by the time in steps, and by zero without any).
"""

from __future__ import annotations

import numpy as np

from tracekit.analysis.intervals import union_length_by
from tracekit.index import grouping
from tracekit.index.devices import by_input, sources_of_several_runs
from tracekit.index.lanes import device_not_named, device_title
from tracekit.index.sources import source_label, source_labels, spans, synthetic_sources
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Cell, Column, Section
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
    picked = index.pick(DEVICE_WORK)
    if not picked.rows.size:
        return totals.no_device_work(index, VIEW.name, _TITLE, options, picked.notes("row"))
    inputs = by_input(index)
    place = grouping.Key(inputs.codes[picked.rows], range(inputs.count))
    groups = grouping.group_by(picked.key("source"), picked.key("rank"), picked.key("device"), place)
    sources, ranks, devices, places = groups.labels
    pids = [inputs.labels[1][p] for p in places if isinstance(p, int)]
    kernel = index.kind_mask({Kind.KERNEL})[picked.rows]
    ends = picked.starts + picked.durations
    in_kernels = union_length_by(groups.codes[kernel], groups.count, picked.starts[kernel], ends[kernel]).tolist()
    in_all = union_length_by(groups.codes, groups.count, picked.starts, ends).tolist()
    kernels = np.bincount(groups.codes[kernel], minlength=groups.count).tolist()
    copies = np.bincount(groups.codes[~kernel], minlength=groups.count).tolist()

    made_up = set(synthetic_sources(index))
    start = index.starts
    length = index.lengths
    first, last = spans(inputs.codes, inputs.count, start, start + length)
    of_place = (last - first).tolist()
    span = [None if s in made_up else of_place[p] for s, p in zip(sources, places, strict=True)]
    columns = [
        Column("name", "Device", Unit.TEXT, _names(index, sources, devices), 0, "place"),
        Column("device", "Number", Unit.ID, devices, 5, "place"),
        _SHOWN["utilization"].column(_shares(in_kernels, span)),
        _SHOWN["kernel_time"].column(_known(in_kernels, span), 2),
        _SHOWN["busy"].column(_shares(in_all, span), 1),
        _SHOWN["busy_time"].column(_known(in_all, span), 3),
        _SHOWN["span"].column(span, 3),
        _SHOWN["kernels"].column(kernels, 4),
        _SHOWN["copies"].column(copies, 4),
    ]
    if len(set(pids)) > 1:
        columns.insert(1, Column("pid", "Pid", Unit.ID, pids, 1, "place"))
    if len(set(ranks)) > 1:
        columns.insert(1, Column("rank", "Rank", Unit.ID, ranks, 1, "place"))
    labels = source_labels(index)
    if len(set(sources)) > 1:
        texts: list[Cell] = [source_label(labels, s) for s in sources if isinstance(s, int)]
        columns.insert(1, Column("source", "Source", Unit.TEXT, texts, 1, "place"))
    blocks = list(zip(sources, ranks, pids, strict=True))
    table = tabulate.finish("devices", _TITLE, columns, options, own_order="device", blocks=blocks, top_each=False)
    notes = [_NOTE, *picked.notes("row")]
    if sources_of_several_runs(index):
        notes.append("each run of a file has a clock of its own: a row and a span for each process")
    if None in devices:
        notes.append("rows that name no device are taken as those of one device")
    for number in sorted(made_up & set(sources)):
        notes.append(f"{source_label(labels, number)}: its file has no starts, so how busy the device was is unknown")
    notes += [*totals.both_note(index, DEVICE_WORK, "device"), *tabulate.option_notes(options, table)]
    return Section(VIEW.name, _TITLE, (table,), notes=tuple(notes))


def _names(index: TraceIndex, sources: list[Cell], devices: list[Cell]) -> list[Cell]:
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
    name="device", title=_TITLE, columns=_COLUMNS, kinds=DEVICE_WORK, compute=compute, define=of_devices, shows=_SHOWS
)
