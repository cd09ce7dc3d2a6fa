"""kernel: what the devices computed, by full name.

Columns: calls, total, avg (rounded to ns, a half to the even one), min, max, percentiles (nearest rank:
`tracekit.analysis.statistics`), std and ratio, of the sum over all kernels. From TOTALS (nvprof's summary) there are no
percentiles, and several runs in one file stay apart.
"""

from __future__ import annotations

from dataclasses import replace

from tracekit.model.picture import Picture
from tracekit.model.schema import Kind
from tracekit.views import specs
from tracekit.views.named import NamedTable
from tracekit.views.pictures import KERNEL_CLASS

__all__ = ["TABLE", "VIEW"]

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
)

VIEW = replace(
    TABLE.view(),
    pictures=(
        Picture("icicle", "Kernels by class and name", "kernel.kernels", ("total",), ("name",), by=KERNEL_CLASS),
    ),
)
