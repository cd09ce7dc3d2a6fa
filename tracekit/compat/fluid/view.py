"""fluid: what fluid's Profiling Report says, of any trace: ranges of the host by name, with the device work in them.

By default a row is a name whatever its thread (`--thread-sep`: a block for each thread), with percentiles, and a ratio
is of the time of the outermost ranges, so that nested ones are not in the whole twice. With `--compat fluid` the tables
are upstream's, and so is the text (`layout`). From a printed report the rows are those of all threads merged.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tracekit.compat.fluid.names import COPY, FluidRole, role_of
from tracekit.compat.fluid.printed import EVENT_SECTION, FluidPrinted, number, printed_reports, tables_of_printed
from tracekit.compat.fluid.ranges import COLUMNS, FluidRanges, ranges_of
from tracekit.compat.fluid.tables import tables_of
from tracekit.index import grouping
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import TraceIndex
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.named import thread_columns
from tracekit.views.totals import TotalsRow, cell

__all__ = ["VIEW"]

# Columns of the tables of this folder.


SHOWS = (
    specs.NAME,
    *specs.STATISTICS,
    *specs.THREADS,
    specs.SOURCE,
    specs.RUN,
    specs.SECTION,
    ViewColumn("thread", "Thread", Unit.ID, "The number of the thread."),
    ViewColumn("gpu_time", "GPU time", Unit.NS, "The device work of the range."),
    ViewColumn("part", "Part", Unit.TEXT, "The part of the time: computation, framework overhead or copies."),
    ViewColumn("key", "Key", Unit.TEXT, "The name of a line of the report's head."),
    ViewColumn("value", "Value", Unit.TEXT, "The text of that line."),
    ViewColumn("total", "Total (ns)", Unit.NUMBER, "The sum of the durations, in ns as printed."),
    ViewColumn("avg", "Ave (ns)", Unit.NUMBER, "The mean duration, in ns as printed."),
    ViewColumn("level", "Level", Unit.COUNT, "The depth of the row."),
    ViewColumn("cpu_time", "CPU Time", Unit.NS, "The time of the range on the host."),
    ViewColumn("cpu_ratio", "CPU Ratio", Unit.RATIO, "The host time, as a share of the total."),
    ViewColumn("gpu_ratio", "GPU Ratio", Unit.RATIO, "The device work, as a share of the total."),
    ViewColumn("allocs", "Alloc Calls", Unit.COUNT, "The number of allocations."),
    ViewColumn("alloc_size", "Alloc Size (bytes)", Unit.NUMBER, "The sum of the allocated bytes."),
    ViewColumn("frees", "Free Calls", Unit.COUNT, "The number of frees."),
    ViewColumn("free_size", "Free Size (bytes)", Unit.NUMBER, "The sum of the freed bytes."),
)

NAME, TITLE = "fluid", "Events (fluid's Profiling Report)"
SORTS = ("name", "calls", "total", "gpu_time", "avg", "min", "max", "std", "p50", "p95", "p99", "ratio")
_WHAT = "a range of the host"


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the section: from EVENTS where there are ranges of the host, else from the TOTALS of printed reports.

    Raises: UsageError for a missing column; TracekitError where a sum exceeds int64.
    """
    tabulate.require(index, NAME, COLUMNS)
    if options.compat == NAME:
        return _as_upstream(index, options)
    ranges = ranges_of(index)
    if len(ranges):
        return _from_events(index, ranges, options)
    reports = printed_reports(index)
    left = [r for r in reports if r.merged is options.thread_sep and _beside(r, reports)]
    rows = [(report, row) for report in reports if report not in left for row in _chosen(report, options)]
    if rows:
        return _from_printed(index, rows, options, len(left))
    return tabulate.nothing(NAME, TITLE, "host range", options, ranges.notes)


def _as_upstream(index: TraceIndex, options: ViewOptions) -> Section:
    tables, notes = tables_of(index, options)
    if not tables:
        tables, more = tables_of_printed(index, options)
        notes += more
    if not tables:
        return Section(NAME, TITLE, notes=(f"needs {_WHAT} with a duration; this trace has none", *notes))
    return Section(NAME, TITLE, tuple(tables), notes=tuple(notes))


def _from_events(index: TraceIndex, ranges: FluidRanges, options: ViewOptions) -> Section:
    kept = np.arange(len(ranges))
    notes = [tabulate.PERCENTILE_NOTE, *ranges.notes]
    if not options.op_detail:
        inner = np.array(
            [role_of(name) is not FluidRole.ORDINARY and COPY not in name for name in ranges.names], np.bool_
        )
        kept = np.flatnonzero(~inner[ranges.name])
        notes.append("inner parts of operators (compute, infer_shape, prepare_data) are not shown")
    keys = [grouping.Key(ranges.name[kept], ranges.names)]
    if options.thread_sep:
        keys.append(grouping.Key(ranges.thread[kept], range(max(ranges.labels) + 1)))
    groups = grouping.group_by(*keys)
    stats = grouping.statistics(groups, ranges.host_ns[kept])
    outer: dict[Cell, int] = {}
    for thread in sorted(ranges.labels):
        mine = ranges.is_outer & (ranges.thread == thread)
        block = thread if options.thread_sep else None
        outer[block] = outer.get(block, 0) + int(ranges.host_ns[mine].sum())
    threads: list[Cell] = groups.labels[1] if options.thread_sep else [None] * groups.count
    totals = stats.total.tolist()
    columns = [Column("name", "Name", Unit.TEXT, groups.labels[0])]
    blocks: list[tuple[Cell, ...]] = []
    if options.thread_sep:
        blocks = [ranges.labels[thread] for thread in threads if isinstance(thread, int)]
        columns += thread_columns(index, blocks)
    found = tabulate.statistic_columns(stats)
    if ranges.has_gpu:
        spent = grouping.statistics(groups, ranges.gpu_ns[kept]).total.tolist()
        found.insert(2, Column("gpu_time", "GPU time", Unit.NS, spent, 1))
        notes.append("GPU time is that of the work launched within a range: it counts for each range around the launch")
    shares: list[Cell] = [t / outer[b] if outer[b] else None for t, b in zip(totals, threads, strict=True)]
    found[-1] = Column("ratio", "Ratio", Unit.RATIO, shares, 1)
    notes.append("a ratio is of the time of the outermost ranges: nested ones have theirs within it")
    columns += found
    table = tabulate.finish("events", TITLE, columns, options, blocks=blocks)
    tables = (table, *_overhead(ranges, sum(outer.values())))
    return Section(NAME, TITLE, tables, notes=(*notes, *tabulate.option_notes(options, table)))


def _overhead(ranges: FluidRanges, whole: int) -> list[ReportTable]:
    """Return computation, the rest and copies, where ranges say so by name."""
    rows: list[tuple[str, int | None, int]] = []

    def add(part: str, wanted: list[bool]) -> None:
        mine = np.array(wanted, np.bool_)[ranges.name]
        if mine.any():
            rows.append((part, int(mine.sum()), int(ranges.host_ns[mine].sum())))

    add("computation", [name.rpartition("/")[2] == "compute" for name in ranges.names])
    if rows:
        rows.append(("framework overhead", None, whole - rows[0][2]))
    add("copies, asynchronous", [f"{COPY}Async" in name.rpartition("/")[2] for name in ranges.names])
    add("copies, synchronous", [f"{COPY}Sync" in name.rpartition("/")[2] for name in ranges.names])
    if not rows:
        return []
    columns = (
        Column("part", "Part", Unit.TEXT, [row[0] for row in rows]),
        Column("calls", "Calls", Unit.COUNT, [row[1] for row in rows]),
        Column("total", "Total", Unit.NS, [row[2] for row in rows]),
        Column("ratio", "Ratio", Unit.RATIO, [row[2] / whole if whole else None for row in rows]),
    )
    return [ReportTable("overhead", "Overhead: of the outermost ranges", columns)]


def _beside(report: FluidPrinted, reports: list[FluidPrinted]) -> bool:
    """Return whether a report is repeated beside it: by thread where this is of all threads, or the other way round.

    A log may as well have a report of another run there: then calls differ, and both are shown.
    """
    for other in reports:
        next_to = other.source == report.source and abs(other.run - report.run) == 1
        if next_to and other.merged is not report.merged and (other.run > report.run) is report.merged:
            return _calls(other) == _calls(report)
    return False


def _calls(report: FluidPrinted) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in report.rows(EVENT_SECTION):
        found[row["name"] or ""] += row["calls"] or 0
    return found


def _chosen(report: FluidPrinted, options: ViewOptions) -> list[TotalsRow]:
    rows = [row for row in report.rows(EVENT_SECTION) if row["total_ns"] is not None]
    if not options.op_detail:
        rows = [row for row in rows if role_of(str(row["name"])) is FluidRole.ORDINARY or COPY in (row["name"] or "")]
    return rows


def _from_printed(
    index: TraceIndex, found: list[tuple[FluidPrinted, TotalsRow]], options: ViewOptions, left: int
) -> Section:
    rows = [row for _, row in found]
    blocks: list[tuple[Cell, ...]] = [
        (report.source, report.run, cell(row["args"].get("thread"))) for report, row in found
    ]
    whole: dict[tuple[Cell, ...], int] = {}
    for row, block in zip(rows, blocks, strict=True):
        # A page on the web loses the blanks that a level is, but not the names of the parts.
        if not row["args"].get("level") and role_of(str(row["name"])) is FluidRole.ORDINARY:
            whole[block] = whole.get(block, 0) + (row["total_ns"] or 0)
    labels = source_labels(index)
    gpu = [number(row["args"].get("gpu_time")) for row in rows]
    columns = [
        Column("name", "Name", Unit.TEXT, [row["name"] for row in rows]),
        Column("thread", "Thread", Unit.ID, [block[2] for block in blocks], 1),
        Column("run", "Run", Unit.ID, [block[1] for block in blocks], 2),
        Column("source", "Source", Unit.TEXT, [source_label(labels, report.source) for report, _ in found], 2),
    ]
    columns = [c for c in columns if c.name == "name" or len(set(c.values)) > 1]
    columns += [
        Column("calls", "Calls", Unit.COUNT, [row["calls"] for row in rows], 1),
        Column("total", "Total", Unit.NS, [row["total_ns"] for row in rows]),
        Column("gpu_time", "GPU time", Unit.NS, [None if ms is None else round(ms * 1_000_000) for ms in gpu], 1),
        Column("avg", "Avg", Unit.NS, [None if row["avg_ns"] is None else round(row["avg_ns"]) for row in rows], 2),
        Column("min", "Min", Unit.NS, [row["min_ns"] for row in rows], 5),
        Column("max", "Max", Unit.NS, [row["max_ns"] for row in rows], 3),
        Column(
            "ratio",
            "Ratio",
            Unit.RATIO,
            [(r["total_ns"] or 0) / whole[b] if whole.get(b) else None for r, b in zip(rows, blocks, strict=True)],
            1,
        ),
    ]
    columns = [c for c in columns if c.name != "gpu_time" or any(v is not None for v in c.values)]
    table = tabulate.finish("events", TITLE, columns, options, blocks=blocks)
    notes = ["from a printed report: six digits of each figure, and no percentiles"]
    notes.append(
        "a ratio is of the time of the outermost rows"
        + (" of the same report and thread" if len(whole) > 1 else "")
        + ": parts have theirs within it"
    )
    if left:
        where = "of all threads together" if options.thread_sep else "by thread"
        shows = "without --thread-sep they are shown" if options.thread_sep else "--thread-sep shows them"
        notes.append(f"the same calls are in {plural(left, 'report')} {where} too: {shows}")
    return Section(NAME, TITLE, (table,), notes=(*notes, *tabulate.option_notes(options, table)))


VIEW = View(NAME, TITLE, COLUMNS, frozenset(), compute, shows=SHOWS)
