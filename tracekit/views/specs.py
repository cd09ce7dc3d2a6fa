"""Declarations of columns that tables of several views have."""

from __future__ import annotations

from collections.abc import Iterable

from tracekit.units import Unit
from tracekit.views.base import ColumnSpec

NAME = ColumnSpec("name", "Name", Unit.TEXT, "The full name.")
KIND = ColumnSpec("kind", "Kind", Unit.TEXT, "The kind of the events.")
CALLS = ColumnSpec("calls", "Calls", Unit.COUNT, "The number of events.")
TOTAL = ColumnSpec("total", "Total", Unit.NS, "The sum of the durations.")
AVG = ColumnSpec("avg", "Avg", Unit.NS, "The mean duration, rounded to whole ns.")
MIN = ColumnSpec("min", "Min", Unit.NS, "The shortest duration.")
MAX = ColumnSpec("max", "Max", Unit.NS, "The longest duration.")
P50 = ColumnSpec("p50", "P50", Unit.NS, "The median duration, by nearest rank.")
P95 = ColumnSpec("p95", "P95", Unit.NS, "The 95th percentile of the durations, by nearest rank.")
P99 = ColumnSpec("p99", "P99", Unit.NS, "The 99th percentile of the durations, by nearest rank.")
STD = ColumnSpec("std", "Std", Unit.NS, "The standard deviation of the durations, over all events.")
RATIO = ColumnSpec("ratio", "Ratio", Unit.RATIO, "The share of the total of all rows, or of the rows of its block.")
MEDIAN = ColumnSpec("median", "Median", Unit.NS, "The median as the profiler printed it.")

SPREAD = (AVG, MIN, MAX, P50, P95, P99, STD)
"""Statistics of durations."""
STATISTICS = (CALLS, TOTAL, *SPREAD, RATIO)
"""Columns of a table of durations by name."""

BYTES = ColumnSpec("bytes", "Bytes", Unit.BYTES, "The sum of the sizes of the events that have a size.")
BANDWIDTH = ColumnSpec(
    "bandwidth", "Bandwidth", Unit.BYTES_PER_S, "Bytes per second, over the events that have a size and a duration."
)

SOURCE = ColumnSpec("source", "Source", Unit.TEXT, "The input that the row comes from.", "place")
RANK = ColumnSpec("rank", "Rank", Unit.ID, "The rank.", "place")
RUN = ColumnSpec("run", "Run", Unit.ID, "The number of the run, where a file holds several.", "place")
SECTION = ColumnSpec("section", "Section", Unit.TEXT, "The table of the file that the row comes from.")
RANGE = ColumnSpec("range", "Range", Unit.TEXT, "The NVTX range that the profiler limited the row to.")
DEVICE_ID = ColumnSpec("device", "Device", Unit.ID, "The number of the device.", "place")

PLACED = (RANGE, SECTION, RUN, DEVICE_ID, RANK, SOURCE)
"""Columns that keep apart rows of TOTALS which may not be added up; a table has those in which its rows differ."""

THREAD = ColumnSpec("thread", "Thread", Unit.TEXT, "The name of the thread.", "place")
PID = ColumnSpec("pid", "Pid", Unit.ID, "The id of the process.", "place")
TID = ColumnSpec("tid", "Tid", Unit.ID, "The id of the thread.", "place")
THREADS = (THREAD, PID, TID)
"""Columns of tables with a block for each thread."""

OWNER = (ColumnSpec("owner", "Rank", Unit.TEXT, "The rank, process or input, where there are several.", "place"),)
"""The column of tables with a block for each rank, process or input."""
DEVICE = (
    ColumnSpec("name", "Device", Unit.TEXT, "The name of the device.", "place"),
    ColumnSpec("device", "Number", Unit.ID, "The number of the device.", "place"),
    PID,
    RANK,
    SOURCE,
)
"""Columns that say which device a row is about."""


def by_key(declared: Iterable[ColumnSpec]) -> dict[str, ColumnSpec]:
    """Return the declarations of a view by key; of several with one key, the last."""
    return {spec.key: spec for spec in declared}
