"""memory_manipulation: copies and memsets on the devices, by name, kind and direction.

Columns as in the view kernel, then bytes (sum over the rows that say it; null where none does) and bandwidth: bytes
per second of the rows that have both a size and a duration, null where these took no time. Ratio is of the sum over all
rows.

Sums that a profiler made itself have a second table, of sizes, where it printed these apart from the times.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tracekit.analysis.statistics import Grouped
from tracekit.analysis.value_counts import tally
from tracekit.index import grouping
from tracekit.index.batch_sums import BatchSums, Tallies
from tracekit.index.trace_index import TraceIndex, join, notes_on_rows
from tracekit.lazy_dataclass import dataclass
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
    found = figures(index)
    on_rows = notes_on_rows("memory operation", found.untimed, found.negative)
    if not found.labels[0]:
        return _from_totals(index, options, on_rows)
    size: list[Cell] = [t if n else None for n, t in zip(found.having, found.sizes, strict=True)]
    rated = zip(found.having, found.sizes, found.spent, strict=True)
    rate: list[Cell] = [total * 10**9 / ns if n and ns else None for n, total, ns in rated]
    rows = int(found.stats.calls.sum())
    parts = rows - sum(found.having)
    columns = [
        Column("name", "Name", Unit.TEXT, found.labels[0], 0),
        Column("kind", "Kind", Unit.TEXT, found.labels[1], 8),
        Column("copy_kind", "Copy", Unit.TEXT, found.labels[2], 7),
        *tabulate.statistic_columns(found.stats),
        Column("bytes", "Bytes", Unit.BYTES, size, 2),
        Column("bandwidth", "Bandwidth", Unit.BYTES_PER_S, rate, 1),
    ]
    table = tabulate.finish("copies", _TITLE, columns, options)
    notes = [tabulate.PERCENTILE_NOTE, *on_rows]
    if 0 < parts < rows:
        notes.append(f"{parts:,} of {rows:,} rows are without a size: bandwidth is that of the others")
    if options.thread_sep:
        notes.append("copies run on streams, not on threads: one block for all")
    notes += [*_totals.both_note(index, _KINDS, "memory"), *tabulate.option_notes(options, table)]
    return Section(VIEW.name, _TITLE, (table,), notes=tuple(notes))


@dataclass(frozen=True, slots=True, eq=False)
class CopyFigures:
    """Figures of copies by name, kind and direction. labels: of each key, one a group.

    having, sizes, spent: of the rows of each group that have a size, their number, bytes and ns. untimed, negative:
    rows without a duration, and with one below zero.
    """

    labels: tuple[list[Cell], ...]
    stats: Grouped
    having: list[int]
    sizes: list[int]
    spent: list[int]
    untimed: int
    negative: int


@join
def figures(index: TraceIndex) -> CopyFigures:
    """Return the figures of all copies. Raises: TracekitError where a sum exceeds int64."""
    picked = index.pick(_KINDS)
    groups = grouping.group_by(*(picked.key(key) for key in _KEYS))
    stats = grouping.statistics(groups, picked.durations)
    known = index.has("bytes")[picked.rows]
    codes, sizes = groups.codes[known], index.ints("bytes")[picked.rows][known]
    having, total = grouping.sums(codes, groups.count, sizes, _SIZES)
    _, spent = grouping.sums(codes, groups.count, picked.durations[known], "durations")
    return CopyFigures(groups.labels, stats, having, total, spent, picked.untimed, picked.negative)


class CopySums:
    """The same figures, added up batch by batch."""

    columns: ClassVar[frozenset[str]] = frozenset({"dur_ns", "name", "kind", "copy_kind", "bytes"})
    args_of: ClassVar[frozenset[Kind]] = frozenset()

    def __init__(self) -> None:
        self._tallies = Tallies()
        self._sums: list[list[int]] = []
        """Rows that have a size, their bytes and ns, for each group."""
        self._untimed = self._negative = 0

    def fits(self, _formats: Collection[str], /) -> bool:
        """Return True: durations and sizes add up whatever the format is."""
        return True

    def take(self, batch: pa.RecordBatch) -> bool:
        """Add the rows of a batch."""
        mask, timed = grouping.kind_mask(batch, _KINDS), arrow.valid(batch.column("dur_ns"))
        rows = np.flatnonzero(mask & timed)
        self._untimed += int(np.count_nonzero(mask)) - rows.size
        if not rows.size:
            return True
        durations = arrow.ints(batch.column("dur_ns"))[rows]
        self._negative += int(np.count_nonzero(durations < 0))
        durations = np.maximum(durations, 0)
        groups = grouping.group_by(*(grouping.used_key(batch, key, rows) for key in _KEYS))
        numbers = self._tallies.add(groups.labels, tally(groups.codes, groups.count, durations))
        self._sums += [[0, 0, 0] for _ in range(len(self._tallies.labels) - len(self._sums))]
        known = arrow.valid(batch.column("bytes"))[rows]
        codes, sizes = groups.codes[known], arrow.ints(batch.column("bytes"))[rows][known]
        having = np.bincount(codes, minlength=groups.count).tolist()
        moved, spent = (grouping.exact_sums(codes, groups.count, each) for each in (sizes, durations[known]))
        for number, *more in zip(numbers, having, moved, spent, strict=True):
            self._sums[number] = [one + other for one, other in zip(self._sums[number], more, strict=True)]
        return True

    def give(self, index: TraceIndex) -> None:
        """Put the figures into the index. Raises: TracekitError where a sum exceeds int64."""
        labels = tuple([list(column) for column in zip(*self._tallies.labels, strict=True)] or [[], [], []])
        stats = self._tallies.statistics()
        having, sizes, spent = ([each[place] for each in self._sums] for place in range(3))
        if any(not -grouping.INT64_MAX - 1 <= size <= grouping.INT64_MAX for size in sizes):
            raise grouping.too_much(_SIZES)
        index.give(figures, CopyFigures(labels, stats, having, sizes, spent, self._untimed, self._negative))


_KEYS = ("name", "kind", "copy_kind")
_SIZES = "sizes"


def _sums() -> tuple[BatchSums, ...]:
    return (CopySums(),)


def _from_totals(index: TraceIndex, options: ViewOptions, on_rows: Sequence[str]) -> Section:
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
        return tabulate.nothing(VIEW.name, _TITLE, "memcpy or memset", options, on_rows)
    notes = [*(_totals.block_notes(timed) if len(timed) else [_totals.TOTALS_NOTE])]
    notes += [*on_rows, *tabulate.option_notes(options, tables[0])]
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
    sums=_sums,
)
