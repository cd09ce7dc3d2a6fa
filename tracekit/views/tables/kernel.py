"""kernel: what the devices computed, by full name.

Columns: calls, total, avg (rounded to ns, a half to the even one), min, max, p50, p95, p99 (nearest rank:
`tracekit.analysis.statistics`) and ratio, of the sum over all kernels. From TOTALS (nvprof's summary) there are no
percentiles, and several runs in one file stay apart.
"""

from __future__ import annotations

from tracekit.index.trace_index import TraceIndex
from tracekit.report import Section
from tracekit.schema import Kind
from tracekit.views import specs
from tracekit.views.base import View, ViewOptions
from tracekit.views.named import by_name
from tracekit.views.quantities import named

_KINDS = frozenset({Kind.KERNEL})
_COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "name"})


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the table of kernels. Raises: UsageError for an unknown key of --sort."""
    return by_name(index, options, view="kernel", title="Kernels", kinds=_KINDS, what="kernel", columns=_COLUMNS)


_SHOWS = (
    specs.NAME,
    *specs.STATISTICS,
    specs.MEDIAN,
    *specs.PLACED,
)

VIEW = View(
    name="kernel",
    title="Kernels",
    columns=_COLUMNS,
    kinds=_KINDS,
    compute=compute,
    define=named(_KINDS, "kernel"),
    shows=_SHOWS,
)
