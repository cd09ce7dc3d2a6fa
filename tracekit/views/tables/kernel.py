"""kernel: what the devices computed, by full name.

Columns: calls, total, avg (rounded to ns, a half to the even one), min, max, percentiles (nearest rank:
`tracekit.analysis.statistics`), std and ratio, of the sum over all kernels. From TOTALS (nvprof's summary) there are no
percentiles, and several runs in one file stay apart.

flops, bytes and what follows from them: of the operators whose work the kernel did, where the trace has shapes
(`index.work_units`). An operator with several kernels counts for the one that took longest, with the time of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracekit.index.trace_index import TraceIndex
from tracekit.index.work_units import ARGS_OF
from tracekit.model.picture import Picture
from tracekit.model.report import Cell, Column
from tracekit.model.schema import Kind
from tracekit.views import specs
from tracekit.views.named import FurtherColumns, NamedTable
from tracekit.views.pictures import KERNEL_CLASS
from tracekit.views.work_columns import NEEDED, SHOWS, kernel_work, work_columns

__all__ = ["TABLE", "VIEW"]


def _work(index: TraceIndex, names: Sequence[Cell]) -> list[Column]:
    return work_columns(kernel_work(index), names)


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
    further=FurtherColumns(SHOWS, _work, NEEDED, ARGS_OF),
)

VIEW = replace(
    TABLE.view(),
    pictures=(
        Picture("icicle", "Kernels by class and name", "kernel.kernels", ("total",), ("name",), by=KERNEL_CLASS),
    ),
)
