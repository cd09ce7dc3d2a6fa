"""overview: what a trace holds, by kind.

calls: all rows. total: sum of durations, overlaps counted twice. union: the time in which at least one row of the kind
ran, on any lane. share: union / span of the trace (first start to last end of all its rows); shares need not add up to
100 %. untimed: rows without a duration (marks, counters). Inputs, and runs in one file, that share no clock are laid
side by side: their unions and their spans are added. Rows whose starts a reader had to make up have no union.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.analysis.intervals import union_length_by
from tracekit.analysis.range_union import RangeUnion, length_of
from tracekit.index import grouping
from tracekit.index.batch_sums import BatchSums
from tracekit.index.devices import by_clock
from tracekit.index.sources import source_label, source_labels, spans, synthetic_sources
from tracekit.index.trace_index import TraceIndex, join
from tracekit.index.work_unions import process_places
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit, format_span
from tracekit.views import specs, tabulate
from tracekit.views import totals as _totals
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.quantities import of_kinds

__all__ = ["VIEW", "KindFigures", "KindSums", "figures"]

Mask = npt.NDArray[np.bool_]

_TITLE = "Overview"
_COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "source", "pid"})


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the table of kinds. Raises: UsageError for an unknown key of --sort."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    if not index.events.num_rows:
        return _from_totals(index, options)
    found = figures(index)
    sums: list[Cell] = [t if n else None for n, t in zip(found.timed, found.totals, strict=True)]
    columns = [
        Column("kind", "Kind", Unit.TEXT, found.kinds, 0),
        Column("calls", "Calls", Unit.COUNT, found.calls, 0),
        Column("total", "Total", Unit.NS, sums, 1),
        _SHOWN["untimed"].column([n - timed for n, timed in zip(found.calls, found.timed, strict=True)], 3),
    ]
    made_up = synthetic_sources(index)
    if found.unions is None:
        notes = ["union and share need all events at once: not shown for a run that is read rank by rank"]
    else:
        shares = [u / found.span if isinstance(u, int) and found.span else None for u in found.unions]
        columns[3:3] = [_SHOWN["union"].column(found.unions, 2), _SHOWN["share"].column(shares, 2)]
        notes = ["no row has a known start: there is no union and no share"]
        if found.placed:
            notes = [f"union: time with at least one row of the kind; share: of the span, {format_span(found.span)}"]
    table = tabulate.finish("kinds", _TITLE, columns, options)
    negative = found.negative
    if by_clock(index).count > 1 and found.unions is not None:
        notes.append("inputs or runs that share no clock: unions and spans of each are added")
    if made_up:
        labels = source_labels(index)
        who = ", ".join(source_label(labels, number) for number in made_up[:3]) + (" ..." if len(made_up) > 3 else "")
        notes.append(f"{who}: durations without starts, which count only for calls and totals")
    if negative:
        verb = "has" if negative == 1 else "have"
        notes.append(f"{plural(negative, 'row')} {verb} a duration below zero, counted as 0")
    if index.totals.num_rows:
        beside = plural(index.totals.num_rows, "row")
        notes.append(f"counted from events, not from the {beside} of totals beside them")
    return Section(VIEW.name, _TITLE, (table,), notes=(*notes, *tabulate.option_notes(options, table)))


@dataclass(frozen=True, slots=True, eq=False)
class KindFigures:
    """Figures of the rows of each kind. calls: all rows; timed: those with a duration; totals: the sum of these.

    unions: of each kind, None for one without times; None in place of all where they were not computed. span: of all
    clocks together. placed: some row has a known start. negative: durations below zero.
    """

    kinds: list[Cell]
    calls: list[int]
    timed: list[int]
    totals: list[int]
    unions: list[Cell] | None
    span: int
    placed: bool
    negative: int


@join
def figures(index: TraceIndex) -> KindFigures:
    """Return the figures of all rows by kind. Raises: TracekitError where a sum exceeds int64."""
    every = np.arange(index.events.num_rows)
    kinds = grouping.group_by(index.key("kind", every))
    start = index.starts
    dur = index.events.column("dur_ns")
    timed = arrow.valid(dur)
    length = arrow.ints(dur)
    negative = int(np.count_nonzero(length < 0))
    length = np.maximum(length, 0)
    calls = np.bincount(kinds.codes, minlength=kinds.count)
    having, totals = grouping.sums(kinds.codes[timed], kinds.count, length[timed], _DURATIONS)
    placed, clock = _placed(index), by_clock(index)
    rows = placed & timed
    codes = kinds.codes[rows] * clock.count + clock.codes[rows]
    union = union_length_by(codes, kinds.count * clock.count, start[rows], start[rows] + length[rows])
    has_time = np.bincount(kinds.codes[rows], minlength=kinds.count) > 0
    of_kinds = zip(union.reshape(kinds.count, clock.count).tolist(), has_time.tolist(), strict=True)
    unions: list[Cell] = [sum(clocks) if there else None for clocks, there in of_kinds]
    span = _span(index, placed)
    return KindFigures(kinds.labels[0], calls.tolist(), having, totals, unions, span, bool(placed.any()), negative)


def _placed(index: TraceIndex) -> Mask:
    """Return for each row whether its start is known."""
    made_up = synthetic_sources(index)
    return ~np.isin(index.ints("source"), made_up) if made_up else np.ones(index.events.num_rows, np.bool_)


def _span(index: TraceIndex, placed: Mask) -> int:
    """Return the spans of all clocks added up, over rows whose starts are known."""
    clock, start = by_clock(index), index.starts
    first, last = spans(clock.codes[placed], clock.count, start[placed], (start + index.lengths)[placed])
    return sum((last - first).tolist())


_DURATIONS = "durations"
_KEYS = ("kind", "source", "pid")


class KindSums:
    """The same figures, added up: over the batches of a trace, and over the inputs of a run, without unions then."""

    columns: ClassVar[frozenset[str]] = _COLUMNS
    args_of: ClassVar[frozenset[Kind]] = frozenset()

    def __init__(self) -> None:
        self._sums: dict[Cell, list[int]] = {}
        """Rows of each kind, those with a duration, and ns."""
        self._unions: dict[tuple[Cell, ...], RangeUnion] = {}
        """The ranges of a kind in a process of an input: which of these share a clock is known in the end."""
        self._negative = 0
        self._has_times = True

    def fits(self, _formats: Collection[str], /) -> bool:
        """Return True: these figures add up whatever the format is."""
        return True

    def take(self, batch: pa.RecordBatch) -> bool:
        """Add the rows of a batch."""
        groups = grouping.group_by(*(grouping.used_key(batch, key, np.arange(batch.num_rows)) for key in _KEYS))
        column = batch.column("dur_ns")
        timed, length = arrow.valid(column), arrow.ints(column)
        self._negative += int(np.count_nonzero(length < 0))
        length = np.maximum(length, 0)
        start = arrow.ints(batch.column("ts_ns"))
        end = start + length
        calls, having = (
            np.bincount(codes, minlength=groups.count).tolist() for codes in (groups.codes, groups.codes[timed])
        )
        totals = grouping.exact_sums(groups.codes, groups.count, length)
        for group, rows in grouping.rows_of_groups(groups, timed):
            key = tuple(labels[group] for labels in groups.labels)
            self._unions.setdefault(key, RangeUnion()).add(start[rows], end[rows])
        self._add(groups.labels[0], calls, having, totals)
        return True

    def add(self, share: KindFigures) -> None:
        """Add the figures of an input."""
        self._add(share.kinds, share.calls, share.timed, share.totals)
        self._negative += share.negative
        self._has_times = False

    def _add(self, kinds: list[Cell], *columns: list[int]) -> None:
        for kind, *more in zip(kinds, *columns, strict=True):
            known = self._sums.get(kind, (0, 0, 0))
            self._sums[kind] = [one + other for one, other in zip(known, more, strict=True)]

    def give(self, index: TraceIndex) -> None:
        """Put the figures into the index. Raises: TracekitError where a sum exceeds int64."""
        kinds = list(self._sums)
        calls, timed, totals = ([self._sums[kind][place] for kind in kinds] for place in range(3))
        if not self._has_times:
            index.give(figures, KindFigures(kinds, calls, timed, totals, None, 0, True, self._negative))
            return
        if any(total > grouping.INT64_MAX for total in totals):
            raise grouping.too_much(_DURATIONS)
        placed, made_up = _placed(index), synthetic_sources(index)
        clock_of = process_places(index, by_clock(index))
        together: dict[Cell, dict[int, list[RangeUnion]]] = {}
        for (kind, source, process), union in self._unions.items():
            if source not in made_up:
                together.setdefault(kind, {}).setdefault(clock_of[source, process], []).append(union)
        unions: list[Cell] = [
            sum(map(length_of, together[kind].values())) if kind in together else None for kind in kinds
        ]
        span = _span(index, placed)
        index.give(figures, KindFigures(kinds, calls, timed, totals, unions, span, bool(placed.any()), self._negative))


def _sums() -> tuple[BatchSums, ...]:
    return (KindSums(),)


def _from_totals(index: TraceIndex, options: ViewOptions) -> Section:
    found_totals, kind = _totals.summed(index, _every_kind(index), ("kind",)), "kind"
    if not len(found_totals):  # other tables of the same run have the parts of these domains
        found_totals, kind = _totals.of_domains(index), "name"
    whole = _of_the_whole(index, options)
    if not len(found_totals) and whole:
        return Section(VIEW.name, _TITLE, whole, notes=(_WHOLE_NOTE, *tabulate.option_notes(options, whole[0])))
    if not len(found_totals):
        needs = "needs events or totals with times; this trace has none"
        return Section(VIEW.name, _TITLE, notes=(needs, *tabulate.option_notes(options)))
    columns = [
        Column("kind", "Kind", Unit.TEXT, found_totals.values(kind), 0),
        *_totals.block_columns(found_totals),
        Column("calls", "Calls", Unit.COUNT, found_totals.values("calls"), 0),
        Column("total", "Total", Unit.NS, found_totals.values("total_ns"), 1),
    ]
    table = tabulate.finish("kinds", _TITLE, columns, options, blocks=found_totals.blocks)
    note = "from totals that the profiler had summed itself: without starts there is no union and no share"
    notes = (note, *[_WHOLE_NOTE for _ in whole], *tabulate.option_notes(options, table))
    return Section(VIEW.name, _TITLE, (table, *whole), notes=notes)


_WHOLE_NOTE = "times of the whole may lie within one another: they do not add up"


def _of_the_whole(index: TraceIndex, options: ViewOptions) -> tuple[ReportTable, ...]:
    found_totals = _totals.of_header(index)
    if not len(found_totals):
        return ()
    columns = [
        Column("name", "Name", Unit.TEXT, found_totals.values("name"), 0),
        *_totals.block_columns(found_totals),
        Column("calls", "Calls", Unit.COUNT, found_totals.values("calls"), 1),
        Column("total", "Total", Unit.NS, found_totals.values("total_ns"), 0),
    ]
    return (
        tabulate.finish(
            "whole", "Of the whole, as the report itself says", columns, options, blocks=found_totals.blocks
        ),
    )


def _every_kind(index: TraceIndex) -> list[str]:
    return [text for text in index.totals.column("kind").unique().to_pylist() if text is not None]


_SHOWS = (
    specs.NAME,
    specs.KIND,
    specs.CALLS,
    specs.TOTAL,
    *specs.PLACED,
    ViewColumn("union", "Union", Unit.NS, "The time in which at least one event of the kind ran."),
    ViewColumn("share", "Share", Unit.RATIO, "The union, as a share of the span."),
    ViewColumn("untimed", "Untimed", Unit.COUNT, "The number of events without a duration."),
)
_SHOWN = specs.by_key(_SHOWS)

VIEW = View(
    name="overview",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=frozenset(),
    compute=compute,
    define=of_kinds,
    shows=_SHOWS,
    sums=_sums,
)
