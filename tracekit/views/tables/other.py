"""other: rows that no view of one kind shows, by name: kinds other and overhead.

What a profiler takes itself (CUPTI's buffers, lazy loading), page faults of unified memory, and calls of other
interfaces than CUDA's: OpenACC, OpenMP, the operating system (nsys osrt_sum), libraries. Columns as in the view api,
but for the ratio: such events nest and have no whole. Of sums that a profiler made itself, it is of the file's table.

Rows that the file counts without giving them a time (page faults, thrashes) have a table of their own: calls and bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tracekit.index import grouping
from tracekit.index.batch_sums import BatchSums
from tracekit.index.trace_index import TraceIndex, join
from tracekit.model import arrow
from tracekit.model.arrow import Chunked, pc
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate, totals
from tracekit.views.base import ViewOptions
from tracekit.views.named import NamedTable, figures

__all__ = ["VIEW"]

_KINDS = frozenset({Kind.OTHER, Kind.OVERHEAD})
TABLE = NamedTable(
    name="other",
    title="Other calls and overhead",
    what="other or overhead",
    kinds=_KINDS,
    columns=frozenset({"ts_ns", "dur_ns", "kind", "name", "source", "pid", "tid"}),
    show_kind=True,
    more=(specs.BYTES,),
)


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the table of these rows, and that of those without times. Raises: UsageError for an unknown --sort."""
    tabulate.require(index, TABLE.name, TABLE.columns)
    whole = index
    totals_of_calls = pc.filter(index.totals, _calls(index))
    if totals_of_calls.num_rows < index.totals.num_rows:  # a trace of its own, for which all events are looked at
        index = TraceIndex(replace(index.trace, totals=totals_of_calls))
        kinds, by_kind, percents = TABLE.key
        index.give(figures, TABLE.figures(whole), kinds, by_kind=by_kind, percents=percents)
    section = TABLE.compute(index, options)
    if index.events.num_rows:
        section = replace(section, tables=tuple(_without_ratio(table) for table in section.tables))
    counted = _from_events(whole, options) or _from_totals(index, options)
    if counted is None:
        return section
    notes = section.notes if section.tables else tabulate.option_notes(options, counted)
    return replace(section, tables=(*section.tables, counted), notes=tuple(notes))


def _calls(index: TraceIndex) -> Chunked:
    """Return the rows of TOTALS that are calls or overhead: no remainder of a reader, no part counted elsewhere."""
    is_other = pc.equal(pc.cast(index.totals.column("kind"), pa.string()), str(Kind.OTHER))
    is_part = pc.ends_with(pc.cast(index.totals.column("section"), pa.string()), ", parts")
    none = pc.or_(pc.is_null(index.totals.column("calls")), pc.fill_null(is_part, False))
    return pc.invert(pc.and_(pc.fill_null(is_other, False), none))


def _without_ratio(table: ReportTable) -> ReportTable:
    return replace(table, columns=tuple(column for column in table.columns if column.name != "ratio"))


@join
def untimed(index: TraceIndex) -> dict[tuple[Cell, ...], int]:
    """Return how many of these rows have no duration, by name and kind."""
    rows = np.flatnonzero(index.kind_mask(_KINDS) & ~index.has("dur_ns"))
    return _by_label(grouping.group_by(*(index.key(column, rows) for column in ("name", "kind"))))


def _by_label(groups: grouping.Groups) -> dict[tuple[Cell, ...], int]:
    calls = np.bincount(groups.codes, minlength=groups.count).tolist()
    return dict(zip(zip(*groups.labels, strict=True), calls, strict=True))


class UntimedCounts:
    """Rows without a duration, counted batch by batch."""

    columns: ClassVar[frozenset[str]] = frozenset({"dur_ns", "name", "kind"})
    args_of: ClassVar[frozenset[Kind]] = frozenset()

    def __init__(self) -> None:
        self._calls: Counter[tuple[Cell, ...]] = Counter()

    def fits(self, _formats: Collection[str], /) -> bool:
        """Return True: counts add up whatever the format is."""
        return True

    def take(self, batch: pa.RecordBatch) -> bool:
        """Count the rows of a batch."""
        rows = np.flatnonzero(grouping.kind_mask(batch, _KINDS) & ~arrow.valid(batch.column("dur_ns")))
        if rows.size:
            keys = (grouping.used_key(batch, column, rows) for column in ("name", "kind"))
            self._calls.update(_by_label(grouping.group_by(*keys)))
        return True

    def give(self, index: TraceIndex) -> None:
        """Put the counts into the index."""
        index.give(untimed, dict(self._calls))


def _from_events(index: TraceIndex, options: ViewOptions) -> ReportTable | None:
    found = untimed(index)
    if not found:
        return None
    names, kinds = (list(column) for column in zip(*found, strict=True))
    return _counted(names, kinds, [], list(found.values()), [], options)


def _from_totals(index: TraceIndex, options: ViewOptions) -> ReportTable | None:
    counted = totals.counted(index, _KINDS, ("name", "kind"))
    if not len(counted):
        return None
    sizes = counted.values("bytes")
    more = [Column("bytes", "Bytes", Unit.BYTES, sizes, 1)] if any(size is not None for size in sizes) else []
    return _counted(
        counted.values("name"),
        counted.values("kind"),
        totals.block_columns(counted),
        counted.values("calls"),
        more,
        options,
    )


def _counted(
    names: list[Cell],
    kinds: list[Cell],
    blocks: list[Column],
    calls: list[Cell],
    more: list[Column],
    options: ViewOptions,
) -> ReportTable:
    columns = [
        Column("name", "Name", Unit.TEXT, names, 0),
        Column("kind", "Kind", Unit.TEXT, kinds, 0),
        *blocks,
        Column("calls", "Calls", Unit.COUNT, calls, 0),
        *more,
    ]
    return tabulate.finish("counts", "Counts, without times", columns, options, own_order="calls")


def _sums() -> tuple[BatchSums, ...]:
    return (*TABLE.sums(), UntimedCounts())


VIEW = replace(TABLE.view(), compute=compute, sums=_sums)
