"""Explain why two numbers differ: their definitions, and steps that add up exactly from one to the other.

A cell is VIEW.COLUMN (all rows of the view's table) or VIEW.ROW.COLUMN. ROW is the text of a row, or a part of it
that only one row has: `kernel.total`, `device.GPU 0.kernel_time`, `kernel.volta_sgemm_128x64_nn.total`.

Both cells are reduced to the time that they cover. A sum is the union of its ranges plus the overlaps. A union by
device is the union over all devices plus the time when several were busy. The rest is time that only one cell covers.
Each step is an integer of ns, and value + steps = the other value.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from tracekit import pipeline
from tracekit.analysis.intervals import Ranges, difference, length, merge, union_length_by
from tracekit.analysis.statistics import grouped
from tracekit.errors import UsageError
from tracekit.index.trace_index import index_of
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I64
from tracekit.model.report import Cell, Column, Report, ReportTable, Section
from tracekit.model.trace import Trace
from tracekit.model.units import Unit
from tracekit.views import VIEWS
from tracekit.views.base import Quantity, ViewOptions

__all__ = ["explain", "value_of"]

_TIMES = ("sum", "union")
_MAX_SHOWN = 10


@dataclass(frozen=True, slots=True)
class _ExplainedCell:
    address: str
    value: Cell
    unit: Unit
    quantity: Quantity


@dataclass(frozen=True, slots=True)
class _Step:
    """One step from the left value to the right one, with its ranges by clock."""

    words: str
    ns: int
    ranges: dict[int, Ranges]
    quantity: Quantity


def explain(trace: Trace, left: str, right: str) -> Report:
    """Return a report that explains the difference of two cells. left, right: VIEW.COLUMN or VIEW.ROW.COLUMN.

    Raises: UsageError for a cell that does not exist or has no definition.
    """
    a, b = _cell(trace, left), _cell(trace, right)
    cells = ReportTable(
        "cells",
        "The cells",
        (
            Column("cell", "Cell", Unit.TEXT, [a.address, b.address]),
            Column("value", "Value", a.unit, [a.value, b.value])
            if a.unit == b.unit
            else Column("value", "Value", Unit.TEXT, [_plain(a), _plain(b)]),
        ),
    )
    tables, notes = [cells], [f"{cell.address}: {cell.quantity.words}" for cell in (a, b)]
    names = (left, right)
    for words, x, y in _pairs(a.quantity, b.quantity):
        steps = _steps(x, y, names)
        tables += _tables(trace, words, (x, y), names, steps)
        if not steps:
            notes.append(f"the {words or 'two'} are equal and cover the same time")
    notes += _remarks(a, b)
    return pipeline.report_of(trace, [Section("explain", f"{left} and {right}", tuple(tables), notes=tuple(notes))])


def _cell(trace: Trace, address: str) -> _ExplainedCell:
    view, dot, rest = address.partition(".")
    row_text, _, column = rest.rpartition(".")
    if not dot or not column:
        raise UsageError(f"{address}: not a cell", hint="VIEW.COLUMN or VIEW.ROW.COLUMN, such as kernel.total")
    index = index_of(trace)
    section = pipeline.view(trace, view)
    define = pipeline.view_named(view).define
    known = [c.name for table in section.tables for c in table.columns]
    table = next((t for t in section.tables if any(c.name == column for c in t.columns)), None)
    if table is None:
        why = f"its columns: {', '.join(dict.fromkeys(known))}" if known else " ".join(section.notes)
        raise UsageError(f"{address}: the view {view} has no column {column}", hint=why)
    row: Mapping[str, Cell] = {}
    if row_text:
        row = _row(table, address, row_text)
    quantity = define(index, ViewOptions(), row, column) if define else None
    if quantity is None:
        hint = f"views with such cells: {', '.join(name for name, each in VIEWS.items() if each.define)}"
        if define and not row_text:
            explained = [each for each in _rows(table) if define(index, ViewOptions(), each, column)]
            examples = [f"{view}.{name}.{column}" for each in explained if (name := _only_name(table, each))]
            such = f", such as {examples[0]!r}" if examples else ""
            hint = f"name one row: {view}.ROW.{column}{such}" if explained else hint
        raise UsageError(f"{address}: this cell cannot be explained (it is not defined by time ranges)", hint=hint)
    unit = table.column(column).unit
    return _ExplainedCell(address, row[column] if row else value_of(quantity), unit, quantity)


def _rows(table: ReportTable) -> list[Mapping[str, Cell]]:
    """Return the first rows of a table, each as cells by column name."""
    return [{c.name: c.values[i] for c in table.columns} for i in range(min(len(table), _MAX_SHOWN))]


def _only_name(table: ReportTable, row: Mapping[str, Cell]) -> str:
    """Return a short text of a row that names it and no other row of its table, "" for none."""
    for column in table.columns:
        text = str(row[column.name] or "") if column.unit is Unit.TEXT else ""
        if 0 < len(text) <= _LONGEST_EXAMPLE:
            with suppress(UsageError):
                if _row(table, "", text) == row:
                    return text
    return ""


_LONGEST_EXAMPLE = 60
"""Characters of a name in a hint."""


def _row(table: ReportTable, address: str, text: str) -> Mapping[str, Cell]:
    """Return the only row whose text equals, or else contains, `text`. Raises: UsageError."""
    labels = [c for c in table.columns if c.unit in (Unit.TEXT, Unit.ID)]
    rows = [tuple(str(c.values[i]) for c in labels if c.values[i] is not None) for i in range(len(table))]
    exact = [i for i, cells in enumerate(rows) if text in cells]
    chosen = exact or [i for i, cells in enumerate(rows) if any(text.lower() in cell.lower() for cell in cells)]
    if len(chosen) != 1:
        names = ", ".join(dict.fromkeys(rows[i][0] for i in (chosen or range(len(rows))) if rows[i]))
        count = f"{len(chosen)} rows" if chosen else "no row"
        raise UsageError(f"{address}: {count} of {table.name} match {text}", hint=f"name one: {names[:300]}")
    return {c.name: c.values[chosen[0]] for c in table.columns}


def value_of(quantity: Quantity) -> int | float | None:
    """Return the value of a quantity, as in the view; None for a division by nothing."""
    if quantity.measure in _TIMES:
        return _total(quantity, quantity.measure)
    if quantity.measure == "count":
        return quantity.rows.size
    if quantity.measure == "ratio":
        whole = value_of(quantity.whole) if quantity.whole else None
        return _total(quantity, quantity.of) / whole if whole else None
    if not quantity.rows.size:
        return None
    percents = (int(quantity.measure[1:]),) if quantity.measure.startswith("p") else ()
    statistics = grouped(np.zeros(quantity.rows.size, np.int64), 1, quantity.ends - quantity.starts, percents)
    if percents:
        return int(statistics.percentile(*percents)[0])
    # The standard deviation in views is that of the population.
    return int(getattr(statistics, "pstd" if quantity.measure == "std" else quantity.measure)[0])


def _total(quantity: Quantity, measure: str) -> int:
    if measure == "sum":
        return int((quantity.ends - quantity.starts).sum())
    codes = np.unique(quantity.lanes, return_inverse=True)[1]
    return int(union_length_by(codes, int(codes.max(initial=-1)) + 1, quantity.starts, quantity.ends).sum())


def _pairs(a: Quantity, b: Quantity) -> list[tuple[str, Quantity, Quantity]]:
    """Return the times to compare: of the two cells, or of the parts and the wholes of two ratios."""
    tops = (_as_time(a), _as_time(b))
    if a.whole is not None and b.whole is not None:
        return [("parts", *tops), ("wholes", a.whole, b.whole)]
    return [("" if a.measure in _TIMES and b.measure in _TIMES else "times", *tops)]


def _as_time(quantity: Quantity) -> Quantity:
    measure = quantity.of if quantity.measure == "ratio" else quantity.measure
    measure = measure if measure in _TIMES else "sum"
    return Quantity(
        quantity.words, measure, quantity.rows, quantity.starts, quantity.ends, quantity.lanes, quantity.clocks
    )


def _steps(a: Quantity, b: Quantity, names: tuple[str, str]) -> list[_Step]:
    """Return the steps from a to b, without steps of 0 ns: a.value + sum of ns == b.value."""
    if a.measure == b.measure and all(map(np.array_equal, _arrays(a), _arrays(b))):
        return []
    cover_a, cover_b = _cover(a), _cover(b)
    clocks = sorted({*cover_a, *cover_b})
    nothing = merge(np.zeros(0, np.int64), np.zeros(0, np.int64))
    only_a = {c: difference(cover_a.get(c, nothing), cover_b.get(c, nothing)) for c in clocks}
    only_b = {c: difference(cover_b.get(c, nothing), cover_a.get(c, nothing)) for c in clocks}
    steps = [*_to_cover(a, cover_a, names[0], -1)]
    steps.append(_Step(f"time that only {names[0]} covers", -sum(map(length, only_a.values())), only_a, a))
    steps.append(_Step(f"time that only {names[1]} covers", sum(map(length, only_b.values())), only_b, b))
    steps += reversed(_to_cover(b, cover_b, names[1], 1))
    return [step for step in steps if step.ns]


def _arrays(quantity: Quantity) -> tuple[I64, I64, I64, I64]:
    return quantity.starts, quantity.ends, quantity.lanes, quantity.clocks


def _cover(quantity: Quantity) -> dict[int, Ranges]:
    """Return the merged ranges of a quantity by clock."""
    out = {}
    for clock in sets.unique(quantity.clocks).tolist():
        on_clock = quantity.clocks == clock
        out[clock] = merge(quantity.starts[on_clock], quantity.ends[on_clock])
    return out


def _to_cover(quantity: Quantity, cover: dict[int, Ranges], name: str, sign: int) -> list[_Step]:
    """Return the steps between a value and the time it covers: overlaps on a lane, and lanes at the same time."""
    by_lane = _total(quantity, "union")
    steps = []
    if quantity.measure == "sum":
        more = _total(quantity, "sum") - by_lane
        words = f"overlaps, counted more than once by {name}"
        steps.append(_Step(words, sign * more, _overlaps(quantity), quantity))
    at_once = by_lane - sum(map(length, cover.values()))
    steps.append(_Step(f"several lanes at the same time, counted for each by {name}", sign * at_once, {}, quantity))
    return steps


def _overlaps(quantity: Quantity) -> dict[int, Ranges]:
    """Return the ranges by clock in which at least two ranges overlap."""
    out = {}
    for clock in sets.unique(quantity.clocks).tolist():
        on_clock = (quantity.clocks == clock) & (quantity.ends > quantity.starts)
        edges = np.concatenate((quantity.starts[on_clock], quantity.ends[on_clock]))
        moves = np.concatenate((np.ones(on_clock.sum(), np.int64), np.full(on_clock.sum(), -1, np.int64)))
        order = np.lexsort((moves, edges))
        depth = np.cumsum(moves[order])
        at = np.flatnonzero(depth[:-1] >= 2)
        out[clock] = merge(edges[order][at], edges[order][at + 1])
    return out


def _tables(
    trace: Trace, words: str, both: tuple[Quantity, Quantity], names: tuple[str, str], steps: list[_Step]
) -> list[ReportTable]:
    a, b = both
    title = f"From {names[0]} to {names[1]}{f': {words}' if words else ''}"
    lines: list[tuple[str, int]] = [(names[0], _total(a, a.measure)), *((s.words, s.ns) for s in steps)]
    lines.append((names[1], _total(b, b.measure)))
    name = words or "steps"
    tables = [
        ReportTable(
            name,
            title,
            (
                Column("step", "Step", Unit.TEXT, [text for text, _ in lines]),
                Column("time", "Time", Unit.NS, [ns for _, ns in lines]),
            ),
        )
    ]
    for number, step in enumerate((step for step in steps if step.ranges), 1):
        largest = _largest(trace, step)
        starts, durations, events, names_, others = (list(values) for values in zip(*largest, strict=True))
        columns = [
            Column("start", "Start", Unit.NS, starts),
            Column("duration", "Duration", Unit.NS, durations),
            Column("event_id", "Event", Unit.ID, events, 1),
            Column("name", "Name", Unit.TEXT, names_),
        ]
        if any(other is not None for other in others):
            columns.append(Column("with", "At the same time as", Unit.TEXT, others, 2))
        omitted = sum(len(r[0]) for r in step.ranges.values()) - len(largest)
        title = f"{step.words}: the longest"
        tables.append(ReportTable(f"{name}_ranges_{number}", title, tuple(columns), omitted=omitted))
    return tables


def _largest(trace: Trace, step: _Step) -> list[tuple[int, int, Cell, Cell, Cell]]:
    """Return the longest ranges of a step, each with the first two rows that run at its start."""
    ranges = [(clock, int(s), int(e)) for clock, (ss, es) in step.ranges.items() for s, e in zip(ss, es, strict=True)]
    ranges.sort(key=lambda r: (r[1] - r[2], r[1], r[0]))
    out: list[tuple[int, int, Cell, Cell, Cell]] = []
    for clock, start, end in ranges[:_MAX_SHOWN]:
        rows = _rows_at(step.quantity, clock, start)
        name, other, *_ = [*(trace.events.column("name")[row].as_py() for row in rows[:2]), None, None]
        event: Cell = trace.events.column("event_id")[rows[0]].as_py() if rows else None
        out.append((start, end - start, event, name, other))
    return out


def _rows_at(quantity: Quantity, clock: int, at: int) -> list[int]:
    """Return the rows whose ranges contain an instant, in order; ranges without a row are skipped."""
    covering: I64 = quantity.rows[(quantity.clocks == clock) & (quantity.starts <= at) & (quantity.ends > at)]
    rows: list[int] = covering[covering >= 0].tolist()
    return rows


def _remarks(a: _ExplainedCell, b: _ExplainedCell) -> list[str]:
    notes = []
    if a.unit != b.unit:
        notes.append(f"the cells have different units ({a.unit}, {b.unit}): the steps compare their times")
    for cell in (a, b):
        quantity = cell.quantity
        if quantity.measure in (*_TIMES, "ratio", "count"):
            continue
        count = quantity.rows.size
        notes.append(f"{cell.address} is the {quantity.measure} of {count:,} ranges; the steps compare their sums")
    if a.quantity.measure == "count" or b.quantity.measure == "count":
        first, second = sets.unique(a.quantity.rows), sets.unique(b.quantity.rows)
        shared = sets.common(first, second).size
        notes.append(
            f"{first.size - shared:,} rows count only for the first cell, {second.size - shared:,} only for the "
            f"second, {shared:,} for both"
        )
    return notes


def _plain(cell: _ExplainedCell) -> str:
    return f"{cell.value} {cell.unit}" if cell.unit != Unit.COUNT else str(cell.value)
