"""Declarations of columns that tables of several views have.

A statistic of durations (`Statistic`) is declared once, with how it is computed: tables, `--sort`, help, JSON, the page
and `tracekit explain` follow. A view lists the ones of its table, most of them all of `STATISTICS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tracekit.analysis.statistics import DEFAULT_PERCENTILES, Grouped
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64
from tracekit.model.units import Unit
from tracekit.views.base import ViewColumn

__all__ = [
    "AVG",
    "BANDWIDTH",
    "BYTES",
    "CALLS",
    "DEVICE",
    "DEVICE_ID",
    "KIND",
    "MAX",
    "MEDIAN",
    "MIN",
    "NAME",
    "OWNER",
    "PERCENTILES",
    "PID",
    "PLACED",
    "RANGE",
    "RANK",
    "RATIO",
    "RUN",
    "SECTION",
    "SOURCE",
    "SPREAD",
    "STATISTICS",
    "STD",
    "THREAD",
    "THREADS",
    "TID",
    "TOTAL",
    "Statistic",
    "by_key",
    "measures",
    "percentile",
    "percents",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic(ViewColumn):
    """A column of a table of durations by name, computed from the durations of each group.

    values: the cells, one a group. measure: what `Quantity` calls it, for `tracekit explain`. priority: see
    `report.Column`. percent: of a percentile, which percentile it is. totals: the column of TOTALS that has it where a
    profiler summed the durations itself, "" for none. of_whole: a cell is the part of the value in that of all rows.
    """

    values: Callable[[Grouped], I64]
    measure: str
    priority: int
    percent: int | None = None
    totals: str = ""
    of_whole: bool = False


def percentile(percent: int, *, priority: int = 6) -> Statistic:
    """Return the column of a percentile by nearest rank. percent: 0 .. 100.

    >>> percentile(90).key, percentile(90).title, percentile(90).meaning
    ('p90', 'P90', 'The 90th percentile of the durations, by nearest rank.')
    """
    ends = {1: "st", 2: "nd", 3: "rd"}
    ordinal = f"{percent}{'th' if percent % 100 in (11, 12, 13) else ends.get(percent % 10, 'th')}"
    words = "median duration" if percent == 50 else f"{ordinal} percentile of the durations"
    return Statistic(
        f"p{percent}",
        f"P{percent}",
        Unit.NS,
        f"The {words}, by nearest rank.",
        values=lambda stats: stats.percentile(percent),
        measure=f"p{percent}",
        priority=priority,
        percent=percent,
    )


def percents(declared: Iterable[Statistic]) -> tuple[int, ...]:
    """Return the percentiles that these columns need, in their order."""
    return tuple(spec.percent for spec in declared if spec.percent is not None)


NAME = ViewColumn("name", "Name", Unit.TEXT, "The full name.")
KIND = ViewColumn("kind", "Kind", Unit.TEXT, "The kind of the events.")
CALLS = Statistic(
    "calls",
    "Calls",
    Unit.COUNT,
    "The number of events.",
    values=lambda stats: stats.calls,
    measure="count",
    priority=1,
    totals="calls",
)
TOTAL = Statistic(
    "total",
    "Total",
    Unit.NS,
    "The sum of the durations.",
    values=lambda stats: stats.total,
    measure="sum",
    priority=0,
    totals="total_ns",
)
AVG = Statistic(
    "avg",
    "Avg",
    Unit.NS,
    "The mean duration, rounded to whole ns.",
    values=lambda stats: stats.mean,
    measure="mean",
    priority=2,
    totals="avg_ns",
)
MIN = Statistic(
    "min",
    "Min",
    Unit.NS,
    "The shortest duration.",
    values=lambda stats: stats.min,
    measure="min",
    priority=5,
    totals="min_ns",
)
MAX = Statistic(
    "max",
    "Max",
    Unit.NS,
    "The longest duration.",
    values=lambda stats: stats.max,
    measure="max",
    priority=3,
    totals="max_ns",
)
PERCENTILES = tuple(percentile(percent, priority=4 if percent in (50, 99) else 6) for percent in DEFAULT_PERCENTILES)
"""The percentiles that every table of statistics has. A narrow terminal hides the outer ones last."""
STD = Statistic(
    "std",
    "Std",
    Unit.NS,
    "The standard deviation of the durations, over all events.",
    # That of the population: a trace holds all calls, no sample of them.
    values=lambda stats: stats.pstd,
    measure="std",
    priority=7,
)
RATIO = Statistic(
    "ratio",
    "Ratio",
    Unit.RATIO,
    "The share of the total of all rows, or of the rows of its block.",
    values=lambda stats: stats.total,
    measure="ratio",
    priority=1,
    totals="total_ns",
    of_whole=True,
)
MEDIAN = ViewColumn("median", "Median", Unit.NS, "The median as the profiler printed it.")

SPREAD: tuple[Statistic, ...] = (AVG, MIN, MAX, *PERCENTILES, STD)
"""Statistics of durations that are no sum."""
STATISTICS: tuple[Statistic, ...] = (CALLS, TOTAL, *SPREAD, RATIO)
"""Columns of a table of durations by name."""


def measures(declared: Iterable[ViewColumn]) -> dict[str, str]:
    """Return the measure of each statistic that is neither sum nor count nor share, by the key of its column."""
    return {
        spec.key: spec.measure
        for spec in declared
        if isinstance(spec, Statistic) and spec.measure not in ("sum", "count", "ratio")
    }


BYTES = ViewColumn("bytes", "Bytes", Unit.BYTES, "The sum of the sizes of the events that have a size.")
BANDWIDTH = ViewColumn(
    "bandwidth", "Bandwidth", Unit.BYTES_PER_S, "Bytes per second, over the events that have a size and a duration."
)

SOURCE = ViewColumn("source", "Source", Unit.TEXT, "The input that the row comes from.", "place")
RANK = ViewColumn("rank", "Rank", Unit.ID, "The rank.", "place")
RUN = ViewColumn("run", "Run", Unit.ID, "The number of the run, where a file holds several.", "place")
SECTION = ViewColumn("section", "Section", Unit.TEXT, "The table of the file that the row comes from.")
RANGE = ViewColumn("range", "Range", Unit.TEXT, "The NVTX range that the profiler limited the row to.")
DEVICE_ID = ViewColumn("device", "Device", Unit.ID, "The number of the device.", "place")

PLACED = (RANGE, SECTION, RUN, DEVICE_ID, RANK, SOURCE)
"""Columns that keep apart rows of TOTALS which may not be added up; a table has those in which its rows differ."""

THREAD = ViewColumn("thread", "Thread", Unit.TEXT, "The name of the thread.", "place")
PID = ViewColumn("pid", "Pid", Unit.ID, "The id of the process.", "place")
TID = ViewColumn("tid", "Tid", Unit.ID, "The id of the thread.", "place")
THREADS = (THREAD, PID, TID)
"""Columns of tables with a block for each thread."""

OWNER = (ViewColumn("owner", "Rank", Unit.TEXT, "The rank, process or input, where there are several.", "place"),)
"""The column of tables with a block for each rank, process or input."""
DEVICE = (
    ViewColumn("name", "Device", Unit.TEXT, "The name of the device.", "place"),
    ViewColumn("device", "Number", Unit.ID, "The number of the device.", "place"),
    PID,
    RANK,
    SOURCE,
)
"""Columns that say which device a row is about."""


def by_key(declared: Iterable[ViewColumn]) -> dict[str, ViewColumn]:
    """Return the declarations of a view by key; of several with one key, the last."""
    return {spec.key: spec for spec in declared}
