"""A table of durations by name, for kinds of work that differ in nothing else: kernels, API calls."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tracekit.analysis.statistics import Grouped
from tracekit.index import grouping
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import Picked, TraceIndex, join, notes_on_rows
from tracekit.report import Cell, Column, Section
from tracekit.schema import Kind
from tracekit.views import specs, tabulate, totals
from tracekit.views.base import ViewOptions


@dataclass(frozen=True, slots=True, eq=False)
class NamedFigures:
    """Statistics of the durations of rows by name, and by kind where kinds stay apart.

    labels: of each key, one a group. untimed, negative: rows without a duration, and with one below zero.
    """

    labels: tuple[list[Cell], ...]
    stats: Grouped
    untimed: int
    negative: int


@join
def figures(index: TraceIndex, kinds: frozenset[Kind], *, by_kind: bool) -> NamedFigures:
    """Return the figures of all rows of these kinds. Raises: TracekitError where a sum exceeds int64."""
    picked = index.pick(kinds)
    groups = grouping.group_by(picked.key("name"), *([picked.key("kind")] if by_kind else []))
    stats = grouping.statistics(groups, picked.durations)
    return NamedFigures(groups.labels, stats, picked.untimed, picked.negative)


def by_name(
    index: TraceIndex,
    options: ViewOptions,
    *,
    view: str,
    title: str,
    kinds: Collection[Kind],
    what: str,
    columns: Collection[str],
    show_kind: bool = False,
) -> Section:
    """Return the section: from EVENTS where there are any of these kinds, else from TOTALS.

    what: one of them in words. columns: of EVENTS, that the view declares. show_kind: kinds stay apart.
    Raises: UsageError for a missing column; TracekitError where a sum exceeds int64.
    """
    notes: list[str] = []
    tabulate.require(index, view, columns)
    found = figures(index, frozenset(kinds), by_kind=show_kind)
    if found.labels[0]:
        labels, stats = found.labels, found.stats
        blocks: list[tuple[Cell, ...]] = []
        if options.thread_sep and show_kind:
            picked = index.pick(kinds)
            groups = grouping.group_by(picked.key("name"), picked.key("kind"), *thread_keys(picked))
            labels, stats = groups.labels[:2], grouping.statistics(groups, picked.durations)
            blocks = list(zip(*groups.labels[2:], strict=True))
        shown = [specs.NAME.column(labels[0])]
        if show_kind:
            shown.append(_kinds(*labels))
        if blocks:
            shown.extend(thread_columns(index, blocks))
        elif options.thread_sep:
            notes.append(f"{what}s run on streams, not on threads: one block for all")
        shown.extend(tabulate.statistic_columns(stats, blocks))
        table = tabulate.finish(table_name(what), title, shown, options, blocks=blocks)
        notes += [tabulate.PERCENTILE_NOTE, *notes_on_rows(what, found.untimed, found.negative)]
        notes += totals.both_note(index, kinds, what)
        notes += tabulate.option_notes(options, table)
        return Section(view, title, (table,), notes=tuple(notes))
    return from_totals(
        index,
        options,
        view=view,
        title=title,
        kinds=kinds,
        what=what,
        show_kind=show_kind,
        notes=[*notes, *notes_on_rows(what, found.untimed, found.negative)],
    )


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
    shown += [*totals.block_columns(of_totals), *totals.statistic_columns(of_totals)]
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


def thread_keys(picked: Picked) -> list[grouping.Key]:
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
