"""api: what the host called of the CUDA runtime and driver, and where it waited (sync), by name and kind.

Columns as in the view kernel; ratio is of the sum over all rows, or of those of the same thread with `thread_sep`.
"""

from __future__ import annotations

from tracekit.index.trace_index import TraceIndex
from tracekit.report import Section
from tracekit.schema import API_CALLS, Kind
from tracekit.views import specs
from tracekit.views.base import View, ViewOptions
from tracekit.views.named import by_name
from tracekit.views.quantities import named

_KINDS = API_CALLS | {Kind.SYNC}
_COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "name", "source", "pid", "tid"})


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the table of API calls. Raises: UsageError for an unknown key of --sort."""
    return by_name(
        index, options, view="api", title="API calls", kinds=_KINDS, what="API call", columns=_COLUMNS, show_kind=True
    )


_SHOWS = (
    specs.NAME,
    specs.KIND,
    *specs.STATISTICS,
    specs.MEDIAN,
    *specs.THREADS,
    *specs.PLACED,
)

VIEW = View(
    name="api",
    title="API calls",
    columns=_COLUMNS,
    kinds=_KINDS,
    compute=compute,
    define=named(_KINDS, "API call", ("name", "kind")),
    shows=_SHOWS,
)
