"""memory_manipulation: copies and memsets on the devices, by name, kind and direction.

Columns as in the view kernel, then bytes (sum over the rows that say it; null where none does) and bandwidth: bytes
per second of the rows that have both a size and a duration, null where these took no time. Ratio is of the sum over all
rows.

Sums that a profiler made itself have a second table, of sizes, where it printed these apart from the times.
"""

from __future__ import annotations

import numpy as np

from tracekit.index import grouping
from tracekit.index.trace_index import PickedRows, TraceIndex
from tracekit.model import arrow
from tracekit.model.report import Cell, Column, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views import totals as _totals
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.quantities import named

__all__ = ["VIEW"]

_TITLE = "Copies and memsets"
_KINDS = frozenset({Kind.MEMCPY, Kind.MEMSET})
_COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "name", "copy_kind", "bytes"})


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the table of copies and memsets. Raises: UsageError for an unknown key of --sort."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    picked = index.pick(_KINDS)
    if not picked.rows.size:
        return _from_totals(index, options, picked)
    groups = grouping.group_by(picked.key("name"), picked.key("kind"), picked.key("copy_kind"))
    stats = grouping.statistics(groups, picked.durations)
    size, rate, parts = _sizes(picked, groups)
    columns = [
        Column("name", "Name", Unit.TEXT, groups.labels[0], 0),
        Column("kind", "Kind", Unit.TEXT, groups.labels[1], 8),
        Column("copy_kind", "Copy", Unit.TEXT, groups.labels[2], 7),
        *tabulate.statistic_columns(stats),
        Column("bytes", "Bytes", Unit.BYTES, size, 2),
        Column("bandwidth", "Bandwidth", Unit.BYTES_PER_S, rate, 1),
    ]
    table = tabulate.finish("copies", _TITLE, columns, options)
    notes = [tabulate.PERCENTILE_NOTE, *picked.notes("memory operation")]
    if parts:
        notes.append(f"{parts:,} of {picked.rows.size:,} rows are without a size: bandwidth is that of the others")
    if options.thread_sep:
        notes.append("copies run on streams, not on threads: one block for all")
    notes += [*_totals.both_note(index, _KINDS, "memory"), *tabulate.option_notes(options, table)]
    return Section(VIEW.name, _TITLE, (table,), notes=tuple(notes))


def _sizes(picked: PickedRows, groups: grouping.Groups) -> tuple[list[Cell], list[Cell], int]:
    """Return bytes and bandwidth by group, and how many rows have no size while others have one."""
    column = picked.index.events.column("bytes")
    known = column.is_valid().to_numpy()[picked.rows]
    codes = groups.codes[known]
    sizes = arrow.ints(column)[picked.rows][known]
    having, total = grouping.sums(codes, groups.count, sizes, "sizes")
    _, spent = grouping.sums(codes, groups.count, picked.durations[known], "durations")
    size: list[Cell] = [t if n else None for n, t in zip(having, total, strict=True)]
    rate: list[Cell] = [t * 10**9 / ns if n and ns else None for n, t, ns in zip(having, total, spent, strict=True)]
    unknown = int(np.count_nonzero(~known))
    return size, rate, unknown if unknown < known.size else 0


def _from_totals(index: TraceIndex, options: ViewOptions, picked: PickedRows) -> Section:
    timed = _totals.summed(index, _KINDS, ("name", "kind"))
    sized = _totals.sized(index, _KINDS, ("name", "kind"))
    tables = []
    if len(timed):
        columns = [*_placed(timed), *_totals.statistic_columns(timed)]
        sizes = [row["bytes"] for row in timed.rows]
        if any(size is not None for size in sizes):
            both = [(row["bytes"], row["total_ns"]) for row in timed.rows]
            rate: list[Cell] = [size * 10**9 / ns if size is not None and ns else None for size, ns in both]
            columns.append(Column("bytes", "Bytes", Unit.BYTES, sizes, 2))
            columns.append(Column("bandwidth", "Bandwidth", Unit.BYTES_PER_S, rate, 1))
        tables.append(tabulate.finish("copies", _TITLE, columns, options, blocks=timed.blocks))
    if len(sized):
        columns = [*_placed(sized), *_totals.size_columns(sized)]
        tables.append(tabulate.finish("sizes", "Sizes, without times", columns, options, own_order="bytes"))
    if not tables:
        return tabulate.nothing(VIEW.name, _TITLE, "memcpy or memset", options, picked.notes("memory operation"))
    notes = [*(_totals.block_notes(timed) if len(timed) else [_totals.TOTALS_NOTE])]
    notes += [*picked.notes("memory operation"), *tabulate.option_notes(options, tables[0])]
    return Section(VIEW.name, _TITLE, tuple(tables), notes=tuple(notes))


def _placed(summed: _totals.Summed) -> list[Column]:
    return [
        Column("name", "Name", Unit.TEXT, summed.values("name"), 0),
        Column("kind", "Kind", Unit.TEXT, summed.values("kind"), 8),
        *_totals.block_columns(summed),
    ]


_SHOWS = (
    specs.NAME,
    specs.KIND,
    *specs.STATISTICS,
    specs.MEDIAN,
    specs.BYTES,
    specs.BANDWIDTH,
    *specs.PLACED,
    ViewColumn("copy_kind", "Copy", Unit.TEXT, "The direction of the copy."),
    ViewColumn("avg", "Avg", Unit.BYTES, "The mean size of a call."),
    ViewColumn("min", "Min", Unit.BYTES, "The smallest size of a call."),
    ViewColumn("max", "Max", Unit.BYTES, "The largest size of a call."),
)

VIEW = View(
    name="memory_manipulation",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=_KINDS,
    compute=compute,
    define=named(_KINDS, "memory operation", ("name", "kind", "copy_kind")),
    shows=_SHOWS,
)
