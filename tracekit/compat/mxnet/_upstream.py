"""The tables of `--compat mxnet`: one a category, with the figures that MXNet prints, defects and all.

A counter stands among the times as if its value were us, and the average of counters and of memory is half of maximum
less minimum. Memory is in MXNet's own "kB" of 1000 bytes; its "kb" before 1.9 was 100 (`--option memory_unit=kb`).
Rows are ordered by one figure, the largest first unless asked otherwise, and by name, the last first, among equals.

Source: aggregate_stats.cc of MXNet 1.5 and 1.9, held against the tables of dumps() in five orders.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tracekit.compat.mxnet._rows import MEMORY, Samples, bounds_of, last_of, rows_of
from tracekit.errors import Option, UsageError, sentence
from tracekit.index.grouping import INT64_MAX, statistics
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Column, ReportTable
from tracekit.units import Unit
from tracekit.views.base import ViewOptions
from tracekit.views.totals import TotalsRow, cell, fields, totals_rows

FORMAT = "mxnet-table"
KEYS: Final = ("total", "avg", "min", "max", "count")
UNITS: Final = {"kB": 1000, "kb": 100}
"""Bytes of what MXNet calls so."""
_JSON_DIGITS = 4
RUN = "run"
"""Name of the table before those of each run."""


@dataclass(frozen=True, slots=True)
class Line:
    """One row: times in ns, of memory in the printed unit. keys: what rows are ordered by, in KEYS' order."""

    name: str
    count: int
    total: float
    low: float
    high: float
    average: float

    def key(self, by: str) -> float:
        """Return the figure of that name."""
        figures = (self.total, self.average, self.low, self.high, self.count)
        return float(figures[KEYS.index(by)])


def order_of(options: ViewOptions) -> tuple[str, bool]:
    """Return the key, "" where none is asked for, and whether it ascends. Raises: UsageError."""
    key = options.sorted_by.removeprefix("-")
    key = {"calls": "count", "ave": "avg"}.get(key, key)
    if key and key not in KEYS:
        hint = f"one of: {', '.join(KEYS)}; -KEY ascends"
        raise UsageError(sentence(Option("sort", key), ": MXNet has no such order"), hint=hint, choices=KEYS)
    return key, options.sorted_by.startswith("-")


def sorted_lines(lines: Sequence[Line], key: str, *, ascending: bool) -> list[Line]:
    """Return the rows in MXNet's order."""
    by_name = sorted(lines, key=lambda line: line.name.encode(), reverse=True)
    return sorted(by_name, key=lambda line: line.key(key) * (1 if ascending else -1))


def tables_of(index: TraceIndex, options: ViewOptions) -> tuple[list[ReportTable], list[str]]:
    """Return the tables that MXNet would print of the events of a trace, and notes.

    Raises: UsageError for another key of --sort; TracekitError where a sum exceeds int64.
    """
    key, ascending = order_of(options)
    rows = rows_of(index)
    lines: dict[str, list[Line]] = {category: [] for category in rows.categories}
    stats = statistics(rows.durations.groups, rows.durations.ns)
    figures = zip(
        *rows.durations.groups.labels,
        *(a.tolist() for a in (stats.calls, stats.total, stats.min, stats.max)),
        strict=True,
    )
    for category, name, count, total, low, high in figures:
        lines[str(category)].append(Line(str(name), count, total, low, high, total / count))
    for category, line in _counter_lines(rows.counters, 1000.0):
        lines[category].append(line)
    unit = next((u for f in facts_by_source(index).values() if (u := f.facts.get("memory_unit")) in UNITS), "kB")
    for category, line in _counter_lines(rows.memory, 1 / UNITS[unit]):
        lines[category].append(line)
    tables = [
        _table(category, sorted_lines(found, key or "total", ascending=ascending), unit, options.top)
        for category, found in sorted(lines.items(), key=lambda item: item[0].encode())
    ]
    notes = list(rows.notes)
    if rows.counters.groups.count:
        notes.append("MXNet prints a counter as if it were us, and half of its maximum less its minimum as its average")
    if rows.memory.groups.count and rows.is_mxnet:
        notes.append(
            f"a {unit} of memory is {UNITS[unit]} bytes; older MXNet than 1.9: --option memory_unit=kb, of 100"
        )
    return tables, notes


def _counter_lines(samples: Samples, scale: float) -> list[tuple[str, Line]]:
    counts, lows, highs, _ = bounds_of(samples)
    columns = (*samples.groups.labels, counts.tolist(), last_of(samples).tolist(), lows.tolist(), highs.tolist())
    return [
        (str(category), Line(str(name), count, last * scale, low * scale, high * scale, _half(high - low) * scale))
        for category, name, count, last, low, high in zip(*columns, strict=True)
    ]


def _half(value: float) -> float:
    """Return the half; of a whole number without its rest, as MXNet divides integers."""
    return float(value // 2) if value.is_integer() else value / 2


def _ns(value: float) -> int | None:
    """Return whole ns; null for what int64 does not hold, as a counter may."""
    return round(value) if abs(value) < INT64_MAX else None


def _table(category: str, lines: Sequence[Line], unit: str, top: int) -> ReportTable:
    kept = lines[:top] if top > 0 else lines
    columns = [
        Column("name", "Name", Unit.TEXT, [line.name for line in kept]),
        Column("count", "Total Count", Unit.COUNT, [line.count for line in kept]),
    ]
    if category in MEMORY:
        columns += [
            Column(name, f"{title} Use ({unit})", Unit.NUMBER, [float(value) for value in values])
            for name, title, values in (
                ("min", "Min", [line.low for line in kept]),
                ("max", "Max", [line.high for line in kept]),
                ("avg", "Avg", [line.average for line in kept]),
            )
        ]
    else:
        columns += [
            Column("total", "Time", Unit.NS, [_ns(line.total) for line in kept]),
            Column("min", "Min Time", Unit.NS, [_ns(line.low) for line in kept]),
            Column("max", "Max Time", Unit.NS, [_ns(line.high) for line in kept]),
            Column("avg", "Avg Time (ns)", Unit.NUMBER, [float(line.average) for line in kept]),
        ]
    return ReportTable(category, category, tuple(columns), omitted=len(lines) - len(kept))


def printed_sources(index: TraceIndex) -> list[int]:
    """Return the inputs that are tables which MXNet printed."""
    return sorted(
        n for n, facts in facts_by_source(index).items() if facts.format == FORMAT or "sections" in facts.facts
    )


def printed_rows(index: TraceIndex) -> list[TotalsRow]:
    """Return the rows of TOTALS of such inputs."""
    sources = printed_sources(index)
    return [row for row in totals_rows(index) if row["source"] in sources] if sources else []


def tables_of_printed(index: TraceIndex, options: ViewOptions) -> tuple[list[ReportTable], list[str]]:
    """Return the tables as MXNet printed them, in its order unless another one is asked for. Raises: UsageError."""
    key, ascending = order_of(options)
    facts = facts_by_source(index)
    rows: dict[tuple[int, int, str], list[TotalsRow]] = {}
    notes: list[str] = []
    for source in printed_sources(index):
        found = facts[source].facts.get("sections")
        for place in found if isinstance(found, list) else ():
            if isinstance(place, list) and len(place) == 2 and isinstance(place[0], int):
                rows[source, place[0], str(place[1])] = []
        if facts[source].facts.get("form") == "json":
            notes.append(f"JSON of MXNet has {_JSON_DIGITS} digits of each figure; its tables have four decimals")
    for row in printed_rows(index):
        rows.setdefault((row["source"], row["run"], row["section"]), []).append(row)
    tables: list[ReportTable] = []
    runs = {place[:2] for place in rows}
    several = len(runs) > 1
    for place in sorted(rows) if notes else sorted(rows, key=lambda place: place[:2]):
        if several and place[:2] in runs:
            runs.discard(place[:2])
            tables.append(_run_table(*place[:2]))
        unit = next((str(row["unit"]) for row in rows[place] if row["unit"]), "kB")
        lines = [_printed_line(row) for row in rows[place]]
        lines = sorted_lines(lines, key, ascending=ascending) if key else lines
        tables.append(_table(place[2], lines, unit, options.top))
    return tables, notes


def _run_table(source: int, run: int) -> ReportTable:
    """Return the table that precedes those of a run where there are several."""
    columns = (Column("source", "Source", Unit.ID, [source]), Column("run", "Run", Unit.ID, [run]))
    return ReportTable(RUN, "Profile Statistics", columns)


def _printed_line(row: TotalsRow) -> Line:
    """Return the row; what it lacks is 0: MXNet prints all figures, so it was written by someone else."""
    timed = row["total_ns"] is not None
    names = ("total_ns", "min_ns", "max_ns", "avg_ns") if timed else ("value_min", "value_max", "value_avg")
    figures = list(fields(row, names))
    if not timed:
        figures.insert(0, cell(row["args"].get("last", 0)))
    scale = 1000.0 if row["kind"] == "counter" and not timed else 1
    known = (scale * f if isinstance(f, (int, float)) and math.isfinite(f) else 0 for f in figures)
    return Line(row["name"] or "", row["calls"] or 0, *known)
