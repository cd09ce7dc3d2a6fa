"""The key figures of a run, read from the tables of its report: page and report always agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracekit.batch._store import Number
from tracekit.report import Report, ReportTable
from tracekit.trace import Trace
from tracekit.units import Unit


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One key figure. has_chart: the page draws it over time."""

    name: str
    title: str
    unit: Unit
    has_chart: bool


KEY_FIGURES = (
    KeyFigure("span", "Span", Unit.NS, True),
    KeyFigure("steps", "Steps", Unit.COUNT, False),
    KeyFigure("step_p50", "Step p50", Unit.NS, True),
    KeyFigure("busy", "Device busy", Unit.RATIO, True),
    KeyFigure("kernel_time", "Kernels", Unit.NS, True),
    KeyFigure("kernel_calls", "Kernel calls", Unit.COUNT, False),
    KeyFigure("operator_time", "Operators", Unit.NS, True),
    KeyFigure("exposed_comm", "Exposed comm.", Unit.NS, True),
    KeyFigure("peak_memory", "Peak memory", Unit.BYTES, True),
)
"""span: first start to last end, where one clock covers everything. steps: their number; step_p50: the median time.
busy: time with work on a device divided by its span, all devices together. kernel_time, operator_time: sums of
durations. exposed_comm: communication not hidden by computation. peak_memory: allocated bytes, of the highest device.
A figure that the trace does not have is null."""


def figures_of(trace: Trace, report: Report) -> dict[str, Number]:
    """Return the key figures of a run by name."""
    tables = {(section.view, table.name): table for section in report.sections for table in section.tables}
    devices = tables.get(("device", "devices"))
    kinds = tables.get(("overview", "kinds"))
    all_steps = _where(tables.get(("steps", "step_times")), "which", "all")
    allocated = _where(tables.get(("memory", "memory")), "type", "allocated")
    busy, span = _sum(devices, "busy_time"), _sum(devices, "span")
    return {
        "span": _span(trace),
        "steps": _sum(all_steps, "steps"),
        "step_p50": max(_cells(all_steps, "p50"), default=None),
        "busy": busy / span if busy is not None and span and not report.incomplete else None,
        "kernel_time": _sum(_where(kinds, "kind", "kernel"), "total"),
        "kernel_calls": _sum(_where(kinds, "kind", "kernel"), "calls"),
        "operator_time": _sum(_where(kinds, "kind", "operator"), "total"),
        "exposed_comm": _sum(tables.get(("breakdown", "devices")), "exposed_comm"),
        "peak_memory": max(_cells(allocated, "peak"), default=None),
    }


def _span(trace: Trace) -> int | None:
    run = trace.run
    if run.origin_ns is None and (len(run.sources) > 1 or any(len(s.facts.get("runs", ())) > 1 for s in run.sources)):
        return None  # several clocks
    span = trace.span()
    return None if span is None else span[1] - span[0]


_RowsOf = tuple[ReportTable, Sequence[int]] | None


def _where(table: ReportTable | None, column: str, value: str) -> _RowsOf:
    if table is None or all(c.name != column for c in table.columns):
        return None
    return table, [i for i, cell in enumerate(table.column(column).values) if cell == value]


def _cells(rows: ReportTable | _RowsOf, column: str) -> list[int | float]:
    """Return the numbers of a column, of all rows or of the chosen ones; none without such a table or column."""
    if rows is None:
        return []
    table, chosen = (rows, range(len(rows))) if isinstance(rows, ReportTable) else rows
    if all(c.name != column for c in table.columns):
        return []
    values = table.column(column).values
    return [value for i in chosen if isinstance(value := values[i], (int, float))]


def _sum(rows: ReportTable | _RowsOf, column: str) -> Number:
    cells = _cells(rows, column)
    return sum(cells) if cells else None
