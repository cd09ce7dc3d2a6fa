"""The tables of `--compat fluid` of a report that Paddle printed itself: the same figures, so that it prints itself.

Rows keep the order of the text unless another one is asked for, and then parts stay below what they are parts of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from tracekit.compat.fluid.names import COPY, FluidRole, role_of
from tracekit.compat.fluid.tables import (
    EVENTS,
    NEW,
    OLD,
    ORDERS,
    MemoryRow,
    copies_table,
    descending,
    header_table,
    memory_table,
    overhead_table,
    sort_key,
)
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model.report import Cell, Column, ReportTable
from tracekit.model.units import Unit
from tracekit.views.base import ViewOptions
from tracekit.views.totals import TotalsRow, fields, totals_rows

__all__ = ["EVENT_SECTION", "FluidPrinted", "number", "printed_reports", "tables_of_printed"]

EVENT_SECTION, COPY_SECTION, MEMORY_SECTION = "Event Summary", "GpuMemCpy Summary", "Memory Profiling Report"
_PARTS_OF_TOTAL = (
    "Total time",
    "Elapsed time of events",
    "Accumulated time of events",
    "Computation time",
    "Framework overhead",
)
_MB = 1 << 20
_FORMAT = "fluid-report"


@dataclass(slots=True)
class FluidPrinted:
    """One report of one file: its rows of TOTALS by section, args read."""

    source: int
    run: int
    sections: dict[str, list[TotalsRow]] = field(default_factory=dict)

    def rows(self, section: str) -> list[TotalsRow]:
        """Return the rows of a section and of its parts, in the order of the text."""
        found = [row for name in (section, f"{section}, parts") for row in self.sections.get(name, [])]
        return sorted(found, key=lambda row: int(row["order"]))

    def fact(self, name: str) -> TotalsRow | None:
        """Return the row of the header of that name, None where there is none."""
        return next((row for row in self.sections.get("header", []) if row["name"] == name), None)

    def text(self, name: str) -> str | None:
        """Return the text of the header of that name, None where there is none."""
        row = self.fact(name)
        return None if row is None else row["value_text"] or None

    @property
    def merged(self) -> bool:
        """True for a report of all threads together."""
        return bool(self.fact("Threads"))


def printed_reports(index: TraceIndex) -> list[FluidPrinted]:
    """Return the reports in a trace's TOTALS, in the order of files and text."""
    sources = {n for n, facts in facts_by_source(index).items() if facts.format == _FORMAT or "reports" in facts.facts}
    found: dict[tuple[int, int], FluidPrinted] = {}
    for row in totals_rows(index) if sources else ():
        if row["source"] not in sources:
            continue
        report = found.setdefault((row["source"], row["run"]), FluidPrinted(row["source"], row["run"]))
        report.sections.setdefault(row["section"], []).append(row)
    return [found[key] for key in sorted(found)]


def number(text: object) -> float | None:
    """Return a printed number; null for nan, inf and what is none."""
    try:
        value = float(str(text).rstrip("*"))
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def tables_of_printed(index: TraceIndex, options: ViewOptions) -> tuple[list[ReportTable], list[str]]:
    """Return the tables of the reports in TOTALS, and notes. Raises: UsageError for another key of --sort."""
    key = sort_key(options)
    layouts = {n: _layouts(facts.facts.get("reports")) for n, facts in facts_by_source(index).items()}
    tables: list[ReportTable] = []
    for count, report in enumerate(printed_reports(index)):
        layout = layouts.get(report.source, {}).get(report.run, {})
        tables += _tables(report, layout, key, options, f"_{count + 1}" if count else "")
    return tables, ["a report that was printed has six digits of each figure"] if tables else []


def _layouts(found: object) -> dict[int, dict[str, object]]:
    rows = found if isinstance(found, list) else []
    return {row["run"]: row for row in rows if isinstance(row, dict) and isinstance(row.get("run"), int)}


def _tables(
    report: FluidPrinted, layout: dict[str, object], key: str, options: ViewOptions, suffix: str
) -> Iterator[ReportTable]:
    rows = report.rows(EVENT_SECTION)
    order = report.text("Sorted by") or f"{ORDERS['']} in descending order in the same thread"
    if options.sorted_by:
        order = f"{ORDERS[key]} in descending order in the same thread"
        rows = _sorted(rows, key)
    if not options.op_detail:
        rows = [row for row in rows if role_of(_name(row)) is FluidRole.ORDINARY or COPY in (row["name"] or "")]
    facts = {
        "Place": report.text("Place") or "All",
        "Sorted by": order,
        "Layout": NEW if layout.get("overhead_heading", True) else OLD,
        "Name width": str(layout.get("name_width") or max((len(_name(row).encode()) for row in rows), default=0)),
    }
    if report.merged:
        facts["Threads"] = "merged"
    title = "all threads merged" if report.merged else "by thread"
    yield header_table(facts, suffix, f"Profiling Report: {title}")
    parts: list[tuple[str, float, float | None]] = []
    for name in _PARTS_OF_TOTAL:
        if row := report.fact(name):
            percent = number(row["args"].get("percent"))
            parts.append((name, _total(row), None if percent is None else percent / 100))
    if parts:
        yield overhead_table(parts, suffix)
    if copies := report.rows(COPY_SECTION):
        shares = [number(row["args"].get("percent")) for row in copies]
        yield copies_table(
            [
                (row["name"] or "", row["calls"] or 0, row["total_ns"] or 0, None if share is None else share / 100)
                for row, share in zip(copies, shares, strict=True)
            ],
            suffix,
        )
    yield _events_table(rows, suffix, options.top)
    memory = report.rows(MEMORY_SECTION)
    if memory or layout.get("memory"):
        yield memory_table([_memory(row) for row in memory])


def _total(row: TotalsRow) -> float:
    """Return ns; as printed where that has more digits than ns."""
    exact = number(row["args"].get("printed_ns"))
    return float(row["total_ns"] or 0) if exact is None else exact


def _name(row: TotalsRow) -> str:
    return str(row["raw_name"] or row["name"])


def _level(row: TotalsRow) -> int:
    level = row["args"].get("level", 0)
    return level if isinstance(level, int) else 0


def _sorted(rows: list[TotalsRow], key: str) -> list[TotalsRow]:
    """Return the rows of the tree with the children of each row in another order; all stay by thread."""
    if not key:
        return rows
    column = {"calls": "calls", "total": "total_ns", "max": "max_ns", "min": "min_ns", "ave": "avg_ns"}[key]
    groups: list[tuple[TotalsRow, list[TotalsRow]]] = []
    level = min((_level(row) for row in rows), default=0)
    for row in rows:
        if _level(row) <= level or not groups:
            groups.append((row, []))
        else:
            groups[-1][1].append(row)
    threads: dict[object, list[tuple[TotalsRow, list[TotalsRow]]]] = {}
    for group in groups:
        threads.setdefault(group[0]["args"].get("thread"), []).append(group)
    out: list[TotalsRow] = []
    for found in threads.values():
        for place in descending([_figure(head, column) for head, _ in found]):
            head, below = found[place]
            out += [head, *_sorted(below, key)]
    return out


def _figure(row: TotalsRow, column: str) -> float:
    """Return a column of a row as a number, 0 for null."""
    value = fields(row, (column,))[0]
    return float(value) if isinstance(value, (int, float)) else 0.0


def _events_table(rows: list[TotalsRow], suffix: str, top: int) -> ReportTable:
    kept, omitted = rows, 0
    if top > 0:
        heads: dict[object, int] = {}
        kept, keep = [], True
        for row in rows:
            if not _level(row):
                thread = row["args"].get("thread")
                heads[thread] = heads.get(thread, 0) + 1
                keep = heads[thread] <= top
                omitted += not keep
            if keep:
                kept.append(row)
    args = [row["args"] for row in kept]
    columns = [
        Column("level", "Level", Unit.COUNT, [_level(row) for row in kept], 7),
        Column("name", "Event", Unit.TEXT, [_name(row) for row in kept]),
        Column("calls", "Calls", Unit.COUNT, [row["calls"] for row in kept]),
        Column("total", "Total", Unit.NS, [row["total_ns"] for row in kept]),
    ]
    if any("cpu_time" in a for a in args):
        for side, title in (("cpu", "CPU"), ("gpu", "GPU")):
            times: list[Cell] = [_ns(a.get(f"{side}_time")) for a in args]
            columns.append(Column(f"{side}_time", f"{title} Time", Unit.NS, times))
            ratios = [number(a.get(f"{side}_ratio")) for a in args]
            columns.append(Column(f"{side}_ratio", f"{title} Ratio", Unit.RATIO, ratios))
    columns += [
        Column("min", "Min", Unit.NS, [row["min_ns"] for row in kept]),
        Column("max", "Max", Unit.NS, [row["max_ns"] for row in kept]),
        Column("avg", "Ave (ns)", Unit.NUMBER, [row["avg_ns"] for row in kept]),
    ]
    if any("ratio" in a for a in args) or not kept:
        columns.append(Column("ratio", "Ratio", Unit.RATIO, [number(a.get("ratio")) for a in args]))
    return ReportTable(f"{EVENTS}{suffix}", "Event Summary", tuple(columns), omitted=omitted)


def _ns(text: object) -> int | None:
    ms = number(text)
    return None if ms is None else round(ms * 1_000_000)


def _memory(row: TotalsRow) -> MemoryRow:
    args = row["args"]
    freed = number(args.get("free_mb")) or 0.0
    allocated = number(args.get("alloc_mb"))
    size = row["bytes"] or 0 if allocated is None else allocated * _MB
    frees = args.get("free_calls", 0)
    return row["name"] or "", row["calls"] or 0, float(size), frees if isinstance(frees, int) else 0, freed * _MB
