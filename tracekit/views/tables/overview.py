"""overview: what a trace holds, by kind.

calls: all rows. total: sum of durations, overlaps counted twice. union: the time in which at least one row of the kind
ran, on any lane. share: union / span of the trace (first start to last end of all its rows); shares need not add up to
100 %. untimed: rows without a duration (marks, counters). Inputs, and runs in one file, that share no clock are laid
side by side: their unions and their spans are added. Rows whose starts a reader had to make up have no union.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracekit.analysis.intervals import union_length_by
from tracekit.index import grouping
from tracekit.index.devices import by_clock
from tracekit.index.sources import source_label, source_labels, spans, synthetic_sources
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.units import Unit, format_span
from tracekit.views import specs, tabulate
from tracekit.views import totals as _totals
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.quantities import of_kinds

__all__ = ["VIEW", "KindFigures", "figures"]

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
    timed = dur.is_valid().to_numpy()
    length = arrow.ints(dur)
    negative = int(np.count_nonzero(length < 0))
    length = np.maximum(length, 0)
    calls = np.bincount(kinds.codes, minlength=kinds.count)
    having, totals = grouping.sums(kinds.codes[timed], kinds.count, length[timed], "durations")
    made_up = synthetic_sources(index)
    placed = np.ones(every.size, np.bool_)
    if made_up:
        placed = ~np.isin(index.ints("source"), made_up)
    union, span = _unions(kinds, by_clock(index), start, start + length, placed, timed)
    has_time = np.bincount(kinds.codes[placed & timed], minlength=kinds.count) > 0
    unions: list[Cell] = [u if t else None for u, t in zip(union, has_time.tolist(), strict=True)]
    return KindFigures(kinds.labels[0], calls.tolist(), having, totals, unions, span, bool(placed.any()), negative)


def _unions(
    kinds: grouping.Groups, clock: grouping.Groups, start: I64, end: I64, placed: Mask, timed: Mask
) -> tuple[list[int], int]:
    """Return the union of each kind and the span, over rows whose starts are known; clocks apart, then added."""
    first, last = spans(clock.codes[placed], clock.count, start[placed], end[placed])
    span = sum((last - first).tolist())
    rows = placed & timed
    codes = kinds.codes[rows] * clock.count + clock.codes[rows]
    unions = union_length_by(codes, kinds.count * clock.count, start[rows], end[rows])
    return [sum(row) for row in unions.reshape(kinds.count, clock.count).tolist()], span


def _from_totals(index: TraceIndex, options: ViewOptions) -> Section:
    found_totals = _totals.summed(index, _every_kind(index), ("kind",))
    whole = _of_the_whole(index, options)
    if not len(found_totals) and whole:
        return Section(VIEW.name, _TITLE, whole, notes=(_WHOLE_NOTE, *tabulate.option_notes(options, whole[0])))
    if not len(found_totals):
        needs = "needs events or totals with times; this trace has none"
        return Section(VIEW.name, _TITLE, notes=(needs, *tabulate.option_notes(options)))
    columns = [
        Column("kind", "Kind", Unit.TEXT, found_totals.values("kind"), 0),
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
    name="overview", title=_TITLE, columns=_COLUMNS, kinds=frozenset(), compute=compute, define=of_kinds, shows=_SHOWS
)
