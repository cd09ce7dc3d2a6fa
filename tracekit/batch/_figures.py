"""The key figures of a run: read off the tables of its report, so that page and report can never differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracekit.report import Report, ReportTable
from tracekit.trace import Trace
from tracekit.units import Unit

Number = int | float | None


@dataclass(frozen=True, slots=True)
class Figure:
    """One key figure. drawn: it has a chart over time."""

    name: str
    title: str
    unit: Unit
    drawn: bool


FIGURES = (
    Figure("span", "Span", Unit.NS, True),
    Figure("steps", "Steps", Unit.COUNT, False),
    Figure("step_p50", "Step p50", Unit.NS, True),
    Figure("busy", "Device busy", Unit.RATIO, True),
    Figure("kernel_time", "Kernels", Unit.NS, True),
    Figure("kernel_calls", "Kernel calls", Unit.COUNT, False),
    Figure("operator_time", "Operators", Unit.NS, True),
    Figure("exposed_comm", "Exposed comm.", Unit.NS, True),
    Figure("peak_memory", "Peak memory", Unit.BYTES, True),
)
"""span: first start to last end, where one clock rules all. steps, and step_p50: the median of their times.
busy: time in which a device worked, over its span, all devices together. kernel_time, operator_time: sums of durations.
exposed_comm: communication that no computation hid. peak_memory: the highest of any device, of what was allocated.
A figure that a trace does not tell is null."""


def figures_of(trace: Trace, report: Report) -> dict[str, Number]:
    """Return the key figures of a run by name."""
    tables = {(section.view, table.name): table for section in report.sections for table in section.tables}
    devices = tables.get(("device", "devices"))
    kinds = tables.get(("overview", "kinds"))
    steps = tables.get(("steps", "step_times"))
    every = _where(steps, "which", ("all",))
    allocated = _where(tables.get(("memory", "memory")), "type", ("allocated",))
    busy, span = _sum(devices, "busy_time"), _sum(devices, "span")
    peaks = _cells(allocated, "peak")
    medians = _cells(every, "p50")
    return {
        "span": _span(trace),
        "steps": _sum(every, "steps"),
        "step_p50": max(medians) if medians else None,
        "busy": busy / span if busy is not None and span else None,
        "kernel_time": _sum(_where(kinds, "kind", ("kernel",)), "total"),
        "kernel_calls": _sum(_where(kinds, "kind", ("kernel",)), "calls"),
        "operator_time": _sum(_where(kinds, "kind", ("operator",)), "total"),
        "exposed_comm": _sum(tables.get(("breakdown", "devices")), "exposed_comm"),
        "peak_memory": max(peaks) if peaks else None,
    }


def _span(trace: Trace) -> int | None:
    run = trace.run
    if run.origin_ns is None and (len(run.sources) > 1 or any(len(s.facts.get("runs", ())) > 1 for s in run.sources)):
        return None  # several clocks
    span = trace.span()
    return None if span is None else span[1] - span[0]


Rows = tuple[ReportTable, Sequence[int]] | None


def _where(table: ReportTable | None, column: str, values: Sequence[str]) -> Rows:
    if table is None or all(c.name != column for c in table.columns):
        return None
    cells = table.column(column).values
    return table, [i for i, value in enumerate(cells) if value in values]


def _cells(rows: ReportTable | Rows, column: str) -> list[int | float]:
    """Return the numbers of a column, of all rows or of some; none where there is no such table or column."""
    if rows is None:
        return []
    table, wanted = (rows, range(len(rows))) if isinstance(rows, ReportTable) else rows
    if all(c.name != column for c in table.columns):
        return []
    values = table.column(column).values
    return [value for i in wanted if isinstance(value := values[i], (int, float))]


def _sum(rows: ReportTable | Rows, column: str, add: Callable[[list[int | float]], int | float] = sum) -> Number:
    cells = _cells(rows, column)
    return add(cells) if cells else None
