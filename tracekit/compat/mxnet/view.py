"""mxnet: durations, counters and memory by category and name, as MXNet's aggregate statistics show them.

By default with the figures that are right: percentiles, a mean that is one, bytes; the categories of a trace of another
tool are the kinds of its events. With `--compat mxnet` the tables are those of `profiler.dumps()`, and so is the text
(`compat/mxnet/layout.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tracekit.compat.mxnet._rows import COLUMNS, Durations, Samples, bounds_of, last_of, rows_of
from tracekit.compat.mxnet._shows import SHOWS
from tracekit.compat.mxnet._upstream import printed_rows, tables_of, tables_of_printed
from tracekit.index import grouping
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Cell, Column, ReportTable, Section
from tracekit.units import Unit
from tracekit.views import tabulate
from tracekit.views.base import View, ViewOptions
from tracekit.views.totals import TotalsRow

NAME, TITLE = "mxnet", "Statistics by category (MXNet)"
SORTS = ("category", "name", "calls", "total", "avg", "min", "max", "std", "p50", "p95", "p99", "ratio", "last")
_BYTES = {"kB": 1000, "kb": None}
"""Bytes of the unit that a table states; "kb" was 100 bytes or 1000, and the table does not say which."""


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the section: from EVENTS where there are durations, counters or memory, else from printed tables.

    Raises: UsageError for a missing column; TracekitError where a sum exceeds int64.
    """
    tabulate.require(index, NAME, COLUMNS)
    if options.compat == NAME:
        found, notes = tables_of(index, options)
        if not found:
            found, more = tables_of_printed(index, options)
            notes += more
        needs = [] if found else ["needs events with a duration, counters or memory; this trace has none"]
        return Section(NAME, TITLE, tuple(found), notes=(*needs, *notes))
    rows = rows_of(index)
    tables = [table for table in _from_events(rows.durations, rows.counters, rows.memory, options) if table]
    notes = list(rows.notes)
    if rows.durations.groups.count:
        notes.append(tabulate.PERCENTILE_NOTE)
        notes.append("a ratio is of the same category")
    if rows.counters.groups.count or rows.memory.groups.count:
        notes.append("the mean of a counter and of memory is that of its samples, however long each one stood")
    if not tables:
        tables, notes = _from_printed(index, options)
    if not tables:
        return tabulate.nothing(NAME, TITLE, "timed, counter or memory", options)
    return Section(NAME, TITLE, tuple(tables), notes=(*notes, *tabulate.option_notes(options, tables[0])))


def _from_events(
    durations: Durations, counters: Samples, memory: Samples, options: ViewOptions
) -> list[ReportTable | None]:
    return [_times(durations, options), _counters(counters, options), _memory(memory, options)]


def _times(durations: Durations, options: ViewOptions) -> ReportTable | None:
    if not durations.groups.count:
        return None
    categories, names = durations.groups.labels
    blocks: list[tuple[Cell, ...]] = [(category,) for category in categories]
    stats = grouping.statistics(durations.groups, durations.ns)
    found = tabulate.statistic_columns(stats, blocks)
    return tabulate.finish("times", "Times", [*_named(categories, names), *found], options, blocks=blocks)


def _named(categories: Sequence[Cell], names: Sequence[Cell]) -> list[Column]:
    return [Column("name", "Name", Unit.TEXT, names), Column("category", "Category", Unit.TEXT, categories, 1)]


def _counters(samples: Samples, options: ViewOptions) -> ReportTable | None:
    if not samples.groups.count:
        return None
    count, low, high, mean = bounds_of(samples)
    columns = [
        *_named(*samples.groups.labels),
        Column("calls", "Samples", Unit.COUNT, count.tolist(), 1),
        Column("last", "Last", Unit.NUMBER, last_of(samples).tolist()),
        Column("min", "Min", Unit.NUMBER, low.tolist(), 2),
        Column("max", "Max", Unit.NUMBER, high.tolist(), 1),
        Column("avg", "Mean", Unit.NUMBER, mean.tolist(), 2),
    ]
    return tabulate.finish("counters", "Counters", columns, options, own_order="calls")


def _memory(samples: Samples, options: ViewOptions) -> ReportTable | None:
    if not samples.groups.count:
        return None
    count, low, high, mean = bounds_of(samples)
    sizes = [[_bytes(v) for v in values.tolist()] for values in (last_of(samples), low, high, mean)]
    columns = [
        *_named(*samples.groups.labels),
        Column("calls", "Samples", Unit.COUNT, count.tolist(), 1),
        Column("last", "Last", Unit.BYTES, sizes[0], 2),
        Column("min", "Min", Unit.BYTES, sizes[1], 2),
        Column("max", "Peak", Unit.BYTES, sizes[2]),
        Column("avg", "Mean", Unit.BYTES, sizes[3], 2),
    ]
    return tabulate.finish("memory", "Memory in use", columns, options, own_order="max")


def _bytes(value: float) -> int | None:
    return round(value) if abs(value) < grouping.INT64_MAX else None


def _from_printed(index: TraceIndex, options: ViewOptions) -> tuple[list[ReportTable], list[str]]:
    """Return the tables of what MXNet printed: its averages of counters and memory are none, and are left out."""
    rows = printed_rows(index)
    notes = ["from a printed table: there are no percentiles"]
    timed = [row for row in rows if row["total_ns"] is not None]
    counters = [row for row in rows if row["kind"] == "counter"]
    memory = [row for row in rows if row["kind"] == "memory"]
    tables: list[ReportTable] = []
    if timed:
        blocks: list[tuple[Cell, ...]] = [(row["source"], row["run"], row["section"]) for row in timed]
        totals = [row["total_ns"] for row in timed]
        columns = [
            *_placed(timed),
            Column("calls", "Calls", Unit.COUNT, [row["calls"] for row in timed], 1),
            Column("total", "Total", Unit.NS, totals),
            Column("avg", "Avg", Unit.NS, [_rounded(row["avg_ns"]) for row in timed], 2),
            Column("min", "Min", Unit.NS, [row["min_ns"] for row in timed], 5),
            Column("max", "Max", Unit.NS, [row["max_ns"] for row in timed], 3),
            Column("ratio", "Ratio", Unit.RATIO, tabulate.ratios([ns or 0 for ns in totals], blocks), 1),
        ]
        tables.append(tabulate.finish("times", "Times", columns, options, blocks=blocks))
        notes.append("a ratio is of the same category")
    if counters:
        columns = [
            *_placed(counters),
            Column("calls", "Samples", Unit.COUNT, [row["calls"] for row in counters], 1),
            Column("last", "Last", Unit.NUMBER, [_float(row["args"].get("last")) for row in counters]),
            Column("min", "Min", Unit.NUMBER, [row["value_min"] for row in counters], 2),
            Column("max", "Max", Unit.NUMBER, [row["value_max"] for row in counters], 1),
        ]
        tables.append(tabulate.finish("counters", "Counters", columns, options, own_order="calls"))
    if memory:
        tables.append(_printed_memory(memory, options))
        if any(row["unit"] == "kb" for row in memory):
            notes.append('memory in "kb": 100 bytes in older MXNet, 1000 in newer; the table does not say which')
    if counters or memory:
        notes.append("what MXNet prints as the average of counters and memory is not an average, and is not shown")
    return tables, notes if tables else []


def _placed(rows: list[TotalsRow]) -> list[Column]:
    columns = [
        *_named([row["section"] for row in rows], [row["name"] for row in rows]),
        Column("run", "Run", Unit.ID, [row["run"] for row in rows], 2),
        Column("source", "Source", Unit.ID, [row["source"] for row in rows], 2),
    ]
    return [c for c in columns if c.name in ("name", "category") or len(set(c.values)) > 1]


def _printed_memory(rows: list[TotalsRow], options: ViewOptions) -> ReportTable:
    units = [_BYTES.get(row["unit"] or "") for row in rows]
    if None not in units:
        low, high = (
            [_bytes((value or 0) * unit) for value, unit in zip(values, units, strict=True) if unit]
            for values in ([row["value_min"] for row in rows], [row["value_max"] for row in rows])
        )
        sizes = [Column("min", "Min", Unit.BYTES, low, 2), Column("max", "Peak", Unit.BYTES, high)]
    else:
        stated = ", ".join(sorted({row["unit"] or "" for row in rows}))
        sizes = [
            Column("min", f"Min ({stated})", Unit.NUMBER, [row["value_min"] for row in rows], 2),
            Column("max", f"Peak ({stated})", Unit.NUMBER, [row["value_max"] for row in rows]),
        ]
    columns = [*_placed(rows), Column("calls", "Samples", Unit.COUNT, [row["calls"] for row in rows], 1), *sizes]
    return tabulate.finish("memory", "Memory in use", columns, options, own_order="max")


def _rounded(ns: float | None) -> int | None:
    return round(ns) if ns is not None and math.isfinite(ns) else None


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


VIEW = View(NAME, TITLE, COLUMNS, frozenset(), compute, shows=SHOWS)
