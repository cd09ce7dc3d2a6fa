"""A table of durations by name, for kinds of work that differ in nothing else: kernels, API calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tracekit.analysis.statistics import Grouped
from tracekit.analysis.value_counts import ValueCounts, tally
from tracekit.index import grouping
from tracekit.index.batch_sums import BatchSums, Tallies
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import PickedRows, TraceIndex, join, notes_on_rows
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.report import Cell, Column, Section
from tracekit.model.schema import Kind
from tracekit.views import specs, tabulate, totals
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.quantities import named

__all__ = [
    "FiguresKey",
    "FurtherColumns",
    "NamedFigures",
    "NamedShare",
    "NamedSums",
    "NamedTable",
    "figures",
    "from_totals",
    "share_of",
    "thread_columns",
    "thread_keys",
]


@dataclass(frozen=True, slots=True, eq=False)
class NamedFigures:
    """Statistics of the durations of rows by name, and by kind where kinds stay apart.

    labels: of each key, one a group. untimed, negative: rows without a duration, and with one below zero.
    """

    labels: tuple[list[Cell], ...]
    stats: Grouped
    untimed: int
    negative: int


FiguresKey = tuple[frozenset[Kind], bool, tuple[int, ...]]
"""Kinds of a table, whether kinds stay apart in it, and its percentiles."""


@join
def figures(index: TraceIndex, kinds: frozenset[Kind], *, by_kind: bool, percents: tuple[int, ...]) -> NamedFigures:
    """Return the figures of all rows of these kinds. Raises: TracekitError where a sum exceeds int64."""
    mask = index.kind_mask(kinds)
    if not by_kind and mask.all() and index.has("dur_ns").all():
        # All rows are of the table, so no column of them is copied.
        names, stats = grouping.statistics_by(*index.codes("name"), index.lengths, percents)
        return NamedFigures((names,), stats, 0, int(np.count_nonzero(index.ints("dur_ns") < 0)))
    picked = index.pick(kinds)
    if not by_kind:
        codes, labels = index.codes("name")
        names, stats = grouping.statistics_by(codes[picked.rows], labels, picked.durations, percents)
        return NamedFigures((names,), stats, picked.untimed, picked.negative)
    groups = grouping.group_by(picked.key("name"), picked.key("kind"))
    stats = grouping.statistics(groups, picked.durations, percents)
    return NamedFigures(groups.labels, stats, picked.untimed, picked.negative)


@dataclass(frozen=True, slots=True, eq=False)
class NamedShare:
    """The part that some rows have in `NamedFigures`."""

    labels: tuple[list[Cell], ...]
    tally: ValueCounts
    untimed: int
    negative: int


def share_of(batch: pa.RecordBatch, kinds: Collection[Kind], *, by_kind: bool) -> NamedShare:
    """Return the part of a batch of EVENTS in the figures of the rows of these kinds."""
    mask, timed = grouping.kind_mask(batch, kinds), arrow.valid(batch.column("dur_ns"))
    rows = np.flatnonzero(mask & timed)
    durations = arrow.ints(batch.column("dur_ns"))[rows]
    groups = grouping.group_by(*(grouping.used_key(batch, key, rows) for key in (_KEYS if by_kind else _KEYS[:1])))
    return NamedShare(
        groups.labels,
        tally(groups.codes, groups.count, np.maximum(durations, 0)),
        int(np.count_nonzero(mask)) - rows.size,
        int(np.count_nonzero(durations < 0)),
    )


_KEYS = ("name", "kind")


class NamedSums:
    """The figures of a table by name, added up: over the batches of a trace, and over the inputs of a run."""

    columns: ClassVar[frozenset[str]] = frozenset({"dur_ns", "name", "kind"})
    args_of: ClassVar[frozenset[Kind]] = frozenset()

    def __init__(self, key: FiguresKey, most: int | None = None) -> None:
        self.tallies = Tallies(most)
        self._key, self._untimed, self._negative = key, 0, 0

    def fits(self, _formats: Collection[str], /) -> bool:
        """Return True: durations add up whatever the format is."""
        return True

    def take(self, batch: pa.RecordBatch) -> bool:
        """Add the rows of a batch."""
        kinds, by_kind, _ = self._key
        self.add(share_of(batch, kinds, by_kind=by_kind))
        return True

    def add(self, share: NamedShare) -> None:
        """Add a part."""
        self.tallies.add(share.labels, share.tally)
        self._untimed += share.untimed
        self._negative += share.negative

    def give(self, index: TraceIndex) -> None:
        """Put the figures into the index. Raises: TracekitError where a sum exceeds int64."""
        kinds, by_kind, percents = self._key
        labels = tuple([list(column) for column in zip(*self.tallies.labels, strict=True)] or [[], []])
        found = NamedFigures(labels, self.tallies.statistics(percents), self._untimed, self._negative)
        index.give(figures, found, kinds, by_kind=by_kind, percents=percents)


@dataclass(frozen=True, slots=True)
class FurtherColumns:
    """Columns of a table by name that are no statistics of durations. make: the columns for rows of these names.

    columns, args_of: what `make` reads, as in `View`; it makes no columns where the trace was read without them.
    sums: as in `View`, for these columns; None where they need all events.
    """

    shows: tuple[ViewColumn, ...]
    make: Callable[[TraceIndex, Sequence[Cell]], list[Column]]
    columns: frozenset[str]
    args_of: frozenset[Kind]
    sums: Callable[[], tuple[BatchSums, ...]] | None = None


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table of durations by name, declared: `view` makes the view of it, `compute` its section.

    name, title: of the view. what: one of the rows in words, such as "kernel". kinds, columns: of EVENTS. show_kind:
    rows of one name and several kinds stay apart, and the kind is a column; by threads where the user asks for them.
    statistics: the columns of figures, in their order; those of a profiler's own sums (TOTALS) are among them.
    more: columns that only other tables of the view have. further: columns after the statistics, with the function
    that makes them for rows of some names, and the columns of EVENTS and kinds of rows' args that it reads.
    """

    name: str
    title: str
    what: str
    kinds: frozenset[Kind]
    columns: frozenset[str]
    show_kind: bool = False
    statistics: tuple[specs.Statistic, ...] = specs.STATISTICS
    more: tuple[ViewColumn, ...] = ()
    further: FurtherColumns | None = None

    @property
    def shows(self) -> tuple[ViewColumn, ...]:
        """Return the columns that the table can have."""
        kind, threads = ((specs.KIND,), specs.THREADS) if self.show_kind else ((), ())
        further = self.further.shows if self.further else ()
        return (specs.NAME, *kind, *self.statistics, specs.MEDIAN, *self.more, *further, *threads, *specs.PLACED)

    def view(self) -> View:
        """Return the view that shows this table alone."""
        keys = ("name", "kind") if self.show_kind else ("name",)
        define = named(self.kinds, self.what, keys, self.statistics)
        if self.further is None:
            return View(
                self.name, self.title, self.columns, self.kinds, self.compute, define, self.shows, sums=self.sums
            )
        columns, args_of = self.columns | self.further.columns, self.further.args_of
        return View(
            self.name,
            self.title,
            columns,
            self.kinds,
            self.compute,
            define,
            self.shows,
            args_of=args_of,
            sums=self.sums if self.further.sums is not None else None,
        )

    def sums(self) -> tuple[BatchSums, ...]:
        """Return what adds the table up batch by batch."""
        further = self.further.sums if self.further is not None else None
        return (NamedSums(self.key), *(further() if further is not None else ()))

    @property
    def key(self) -> FiguresKey:
        """Return what the figures of the table depend on, as `figures` takes it."""
        return self.kinds, self.show_kind, specs.percents(self.statistics)

    def figures(self, index: TraceIndex) -> NamedFigures:
        """Return the statistics that the table shows. Raises: TracekitError where a sum exceeds int64."""
        kinds, by_kind, percents = self.key
        return figures(index, kinds, by_kind=by_kind, percents=percents)

    def compute(self, index: TraceIndex, options: ViewOptions) -> Section:
        """Return the section: from EVENTS where there are any of these kinds, else from TOTALS.

        Raises: UsageError for a missing column or an unknown key of --sort; TracekitError where a sum exceeds int64.
        """
        notes: list[str] = []
        tabulate.require(index, self.name, self.columns)
        found = self.figures(index)
        on_rows = notes_on_rows(self.what, found.untimed, found.negative)
        if not found.labels[0]:
            return from_totals(
                index,
                options,
                view=self.name,
                title=self.title,
                kinds=self.kinds,
                what=self.what,
                show_kind=self.show_kind,
                statistics=self.statistics,
                notes=on_rows,
            )
        labels, stats = found.labels, found.stats
        blocks: list[tuple[Cell, ...]] = []
        if options.thread_sep and self.show_kind:
            picked = index.pick(self.kinds)
            groups = grouping.group_by(picked.key("name"), picked.key("kind"), *thread_keys(picked))
            labels = groups.labels[:2]
            stats = grouping.statistics(groups, picked.durations, specs.percents(self.statistics))
            blocks = list(zip(*groups.labels[2:], strict=True))
        shown = [specs.NAME.column(labels[0])]
        if self.show_kind:
            shown.append(_kinds(*labels))
        if blocks:
            shown.extend(thread_columns(index, blocks))
        elif options.thread_sep:
            notes.append(f"{self.what}s run on streams, not on threads: one block for all")
        shown.extend(tabulate.statistic_columns(stats, blocks, self.statistics))
        if self.further is not None and not blocks:
            shown.extend(self.further.make(index, labels[0]))
        table = tabulate.finish(table_name(self.what), self.title, shown, options, blocks=blocks)
        notes += [tabulate.percentile_note(self.statistics), *on_rows]
        notes += totals.both_note(index, self.kinds, self.what)
        notes += tabulate.option_notes(options, table)
        return Section(self.name, self.title, (table,), notes=tuple(notes))


def from_totals(
    index: TraceIndex,
    options: ViewOptions,
    *,
    view: str,
    title: str,
    kinds: Collection[Kind],
    what: str,
    show_kind: bool = False,
    nested: bool = False,
    statistics: Sequence[specs.Statistic] = specs.STATISTICS,
    notes: Sequence[str] = (),
) -> Section:
    """Return the same table from TOTALS, or a section that says what is needed; `notes` say why events do not count.

    nested: rows may lie within one another, so their self times and the device times below them are shown, too.
    """
    of_totals = totals.summed(index, kinds, ("name", "kind") if show_kind else ("name",))
    if not len(of_totals):
        return tabulate.nothing(view, title, what, options, notes)
    shown = [specs.NAME.column(of_totals.values("name"))]
    if show_kind:
        shown.append(_kinds(of_totals.values("name"), of_totals.values("kind")))
    shown += [*totals.block_columns(of_totals), *totals.statistic_columns(of_totals, statistics)]
    shown += totals.nested_columns(of_totals) if nested else []
    table = tabulate.finish(table_name(what), title, shown, options, blocks=of_totals.blocks)
    all_notes = ["totals know no threads: one block for all"] if options.thread_sep else []
    all_notes += [*totals.block_notes(of_totals), *notes, *tabulate.option_notes(options, table)]
    return Section(view, title, (table,), notes=tuple(all_notes))


def _kinds(names: Sequence[Cell], kinds: Sequence[Cell]) -> Column:
    """Return the column of kinds, which a narrow terminal hides only where names alone tell the rows apart."""
    needed = len(set(zip(names, kinds, strict=True))) > len(set(names))
    return specs.KIND.column(kinds, 0 if needed else 7)


def table_name(what: str) -> str:
    """Return the name of the table of such things."""
    return f"{what.replace(' ', '_').lower()}s"


def thread_keys(picked: PickedRows) -> list[grouping.Key]:
    """Return the keys that tell threads apart."""
    return [picked.key(column) for column in ("source", "pid", "tid")]


def thread_columns(index: TraceIndex, blocks: list[tuple[Cell, ...]]) -> list[Column]:
    """Return thread (its name), pid, tid, and the source where there are several. blocks: (source, pid, tid) a row."""
    labels = source_labels(index)
    threads: list[Cell] = [
        index.run.threads.get(block, "no thread known" if block[2] is None else f"thread {block[2]}")
        for block in blocks
    ]
    columns = [
        specs.THREAD.column(threads, 1),
        specs.PID.column([b[1] for b in blocks], 5),
        specs.TID.column([b[2] for b in blocks], 5),
    ]
    if len({b[0] for b in blocks}) > 1:
        sources: list[Cell] = [source_label(labels, b[0]) for b in blocks if isinstance(b[0], int)]
        columns.append(specs.SOURCE.column(sources, 2))
    return columns
