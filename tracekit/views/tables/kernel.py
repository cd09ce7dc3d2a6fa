"""kernel: what the devices computed, by full name.

Columns: calls, total, avg (rounded to ns, a half to the even one), min, max, percentiles (nearest rank:
`tracekit.analysis.statistics`), std and ratio, of the sum over all kernels. From TOTALS (nvprof's summary) there are no
percentiles, and several runs in one file stay apart.

measured_bytes, measured_rate, of_bandwidth: where counters of the same kernels are among the inputs, such as those of
Nsight Compute or of nvprof's metrics: the bytes that a counted launch moved, for all calls of the trace.

flops, bytes and what follows from them: of the operators whose work the kernel did, where the trace has shapes
(`index.work_units`). An operator with several kernels counts for the one that took longest, with the time of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracekit.analysis.efficiency.counters import counted_bytes
from tracekit.index.batch_sums import BatchSums
from tracekit.index.trace_index import TraceIndex
from tracekit.index.work_units import ARGS_OF
from tracekit.model.picture import Picture
from tracekit.model.report import Cell, Column
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views import specs
from tracekit.views.base import ViewColumn
from tracekit.views.named import FurtherColumns, NamedTable
from tracekit.views.pictures import KERNEL_CLASS
from tracekit.views.tables.metrics import measured_kernels
from tracekit.views.work_columns import NEEDED, SHOWS, NoWork, kernel_work, work_columns

__all__ = ["TABLE", "VIEW"]


_MEASURED = (
    ViewColumn(
        "measured_bytes",
        "Measured bytes",
        Unit.BYTES,
        "The bytes that the calls moved: the mean of the launches whose counters are an input too, times the calls.",
    ),
    ViewColumn("measured_rate", "Measured bytes/s", Unit.BYTES_PER_S, "The measured bytes over the total."),
    ViewColumn("of_bandwidth", "Of bandwidth", Unit.RATIO, "The same, as a share of the peak of the memory."),
)


def _work(index: TraceIndex, names: Sequence[Cell]) -> list[Column]:
    return [*work_columns(kernel_work(index), names), *_measured(index, names)]


def _measured(index: TraceIndex, names: Sequence[Cell]) -> list[Column]:
    """Return what counters of another input say of kernels of these names; none where there are no such counters."""
    launches, moved, peak = dict[Cell, int](), dict[Cell, float](), dict[Cell, float | None]()
    for kernel in measured_kernels(index):
        amount = counted_bytes(kernel.metrics).moved
        if amount is None:
            continue
        launches[kernel.name] = launches.get(kernel.name, 0) + kernel.calls
        moved[kernel.name] = moved.get(kernel.name, 0.0) + amount * kernel.calls
        peak[kernel.name] = kernel.device.peaks.memory_gbps * 1e9 if kernel.device.peaks is not None else None
    if not moved.keys() & set(names):
        return []
    figures = TABLE.figures(index)
    calls, time = figures.stats.calls, figures.stats.total
    code = {label: number for number, label in enumerate(figures.labels[0]) if label is not None}
    found: list[list[Cell]] = [[], [], []]
    for name in names:
        number = code.get(str(name), -1)
        known = name in moved and number >= 0 and calls[number] > 0
        whole = moved[name] / launches[name] * int(calls[number]) if known else None
        rate = whole / int(time[number]) * 1e9 if whole is not None and time[number] else None
        top = peak.get(name)
        found[0].append(None if whole is None else round(whole))
        found[1].append(rate)
        found[2].append(rate / top if rate is not None and top else None)
    columns = [spec.column(cells, 4) for spec, cells in zip(_MEASURED, found, strict=True)]
    return [column for column in columns if any(cell is not None for cell in column.values)]


def _sums() -> tuple[BatchSums, ...]:
    return (NoWork(),)


TABLE = NamedTable(
    name="kernel",
    title="Kernels",
    what="kernel",
    kinds=frozenset({Kind.KERNEL}),
    columns=frozenset({"ts_ns", "dur_ns", "kind", "name"}),
    statistics=(
        specs.CALLS,
        specs.TOTAL,
        specs.AVG,
        specs.MIN,
        specs.MAX,
        *specs.PERCENTILES,
        specs.STD,
        specs.RATIO,
    ),
    further=FurtherColumns((*SHOWS, *_MEASURED), _work, NEEDED, ARGS_OF, _sums),
)

VIEW = replace(
    TABLE.view(),
    pictures=(
        Picture("icicle", "Kernels by class and name", "kernel.kernels", ("total",), ("name",), by=KERNEL_CLASS),
    ),
)
