"""The Perf Summary and the lines of step_info as Paddle's timer printed them: rows of TOTALS with their own figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import msgspec
import numpy as np

from tracekit.columns import args, arrow
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Cell, Column, ReportTable, Section
from tracekit.units import Unit
from tracekit.views import tabulate
from tracekit.views.base import ViewOptions

PERF, STEPS = "Perf Summary", "Benchmark"


class _Row(TypedDict):
    """A row of TOTALS, as far as this view reads it. step_info: the number of the printed line, 0 for none."""

    section: str
    source: int
    run: int
    order: int
    name: str | None
    unit: str | None
    avg_ns: float | None
    max_ns: int | None
    min_ns: int | None
    value_avg: float | None
    value_max: float | None
    value_min: float | None
    step_info: int


@dataclass(slots=True)
class _Line:
    """A printed line of step_info. costs: its rows by name."""

    number: int
    first: _Row
    costs: dict[str, _Row] = field(default_factory=dict)


_NOTE = (
    "as printed: of N steps Paddle sums the batches from the 10th on and divides by N - 10, and a value that raises "
    "the maximum is not looked at as a minimum"
)


def section(index: TraceIndex, options: ViewOptions, view: str, title: str, notes: Sequence[str]) -> Section:
    """Return the tables as printed, or a section with a note on what is missing."""
    rows = _rows(index)
    tables = [table for make in (_costs, _speeds, _lines) if (table := make(index, rows, options)) is not None]
    if not tables:
        return tabulate.nothing(view, title, "step", options, notes)
    printed = [_NOTE] if any(row["section"] == PERF for row in rows) else []
    if any(table.name == "step_info" for table in tables):
        printed.append("step_info: averages since the line before")
    return Section(view, title, tuple(tables), notes=(*printed, *notes, *tabulate.option_notes(options, tables[0])))


def _rows(index: TraceIndex) -> list[_Row]:
    table = index.totals
    sections = table.column("section").to_pylist()
    totals = arrow.take(table, np.array([n for n, text in enumerate(sections) if text in (PERF, STEPS)], np.int64))
    if not totals.num_rows:
        return []
    lines, _ = args.integers(totals.column("args"), "step_info")
    numbered = totals.append_column("step_info", arrow.array(lines))
    rows = msgspec.convert(numbered.select(list(_Row.__annotations__)).to_pylist(), list[_Row])
    return sorted(
        rows,
        key=lambda row: (row["source"], row["run"], row["order"]),
    )


def _which(index: TraceIndex, rows: list[_Row]) -> list[Column]:
    labels = source_labels(index)
    columns = [
        Column("run", "Run", Unit.ID, [row["run"] for row in rows], 0, "place"),
        Column("source", "Source", Unit.TEXT, [source_label(labels, row["source"]) for row in rows], 2, "place"),
    ]
    return [c for c in columns if len(set(c.values)) > 1]


def _table(name: str, title: str, columns: list[Column], options: ViewOptions) -> ReportTable:
    places: list[tuple[Cell, ...]] = [(i,) for i in range(len(columns[0].values))]
    return tabulate.finish(name, title, columns, options, own_order="", blocks=places, top_each=False)


def _costs(index: TraceIndex, rows: list[_Row], options: ViewOptions) -> ReportTable | None:
    mine = [row for row in rows if row["section"] == PERF and row["name"] in ("reader_cost", "batch_cost")]
    if not mine:
        return None
    shares = {(row["source"], row["run"]): row["value_avg"] for row in rows if row["name"] == "Reader Ratio"}
    ratio: list[Cell] = []
    for row in mine:
        percent = shares.get((row["source"], row["run"])) if row["name"] == "reader_cost" else None
        ratio.append(None if percent is None else percent / 100)
    columns = [
        Column("name", "Name", Unit.TEXT, [row["name"] for row in mine], 0),
        *_which(index, mine),
        Column("avg", "Avg", Unit.NS, [_ns(row) for row in mine], 0),
        Column("max", "Max", Unit.NS, [row["max_ns"] for row in mine], 1),
        Column("min", "Min", Unit.NS, [row["min_ns"] for row in mine], 1),
        Column("ratio", "Share of time", Unit.RATIO, ratio, 0),
    ]
    return _table("costs", "Costs", columns, options)


def _speeds(index: TraceIndex, rows: list[_Row], options: ViewOptions) -> ReportTable | None:
    mine = [row for row in rows if row["section"] == PERF and row["name"] == "ips"]
    if not mine:
        return None
    columns = [
        Column("name", "Name", Unit.TEXT, [row["name"] for row in mine], 0),
        *_which(index, mine),
        Column("unit", "Unit", Unit.TEXT, [row["unit"] for row in mine], 0),
        Column("avg", "Avg", Unit.NUMBER, [row["value_avg"] for row in mine], 0),
        Column("max", "Max", Unit.NUMBER, [row["value_max"] for row in mine], 1),
        Column("min", "Min", Unit.NUMBER, [row["value_min"] for row in mine], 1),
    ]
    return _table("ips", "Speed", columns, options)


def _lines(index: TraceIndex, rows: list[_Row], options: ViewOptions) -> ReportTable | None:
    """Return the lines of step_info, a row each."""
    lines: dict[tuple[int, int, int], _Line] = {}
    for row in rows:
        if row["section"] == STEPS:
            number = row["step_info"]
            lines.setdefault((row["source"], row["run"], number), _Line(number, row)).costs[row["name"] or ""] = row
    if not lines:
        return None
    mine = list(lines.values())

    def cost(name: str) -> list[Cell]:
        found = [line.costs.get(name) for line in mine]
        return [None if row is None else _ns(row) for row in found]

    speeds = [line.costs.get("ips") for line in mine]
    columns = [
        Column("line", "Line", Unit.ID, [line.number for line in mine], 0, "event"),
        *_which(index, [line.first for line in mine]),
        Column("reader_cost", "Reader cost", Unit.NS, cost("reader_cost"), 0),
        Column("batch_cost", "Batch cost", Unit.NS, cost("batch_cost"), 0),
        Column("ips", "Ips", Unit.NUMBER, [row and row["value_avg"] for row in speeds], 0),
        Column("unit", "Unit", Unit.TEXT, [row and row["unit"] for row in speeds], 1),
    ]
    return _table("step_info", "Lines of step_info", columns, options)


def _ns(row: _Row) -> Cell:
    value = row["avg_ns"]
    return round(value) if value is not None and math.isfinite(value) else None
