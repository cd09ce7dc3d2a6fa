"""api: what the host called of the CUDA runtime and driver, and where it waited (sync), by name and kind.

Columns as in the view kernel; ratio is of the sum over all rows, or of those of the same thread with `thread_sep`.
"""

from __future__ import annotations

from tracekit.model.schema import API_CALLS, Kind
from tracekit.views.named import NamedTable

__all__ = ["TABLE", "VIEW"]

TABLE = NamedTable(
    name="api",
    title="API calls",
    what="API call",
    kinds=API_CALLS | {Kind.SYNC},
    columns=frozenset({"ts_ns", "dur_ns", "kind", "name", "source", "pid", "tid"}),
    show_kind=True,
)

VIEW = TABLE.view()
