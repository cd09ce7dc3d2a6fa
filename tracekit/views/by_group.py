"""Views by rank, by host and by parallel group: the table of each group, or their spread (`--by`, `--each`).

The rows of a group are a trace of their own, and the view is computed on it as `--rank N` would. So a table by rank
holds what the tables of single ranks hold, whatever the view. One group is in memory beside the trace at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tracekit.columns import arrow
from tracekit.errors import UsageError
from tracekit.index import rank_groups
from tracekit.index.rank_groups import RankGroups
from tracekit.index.sources import by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.report import ReportTable, Section
from tracekit.trace import Trace
from tracekit.views.base import FINDINGS, View, ViewOptions, computed
from tracekit.views.spread import each_group, over_groups
from tracekit.views.tabulate import PERCENTILE_NOTE

COLUMNS = rank_groups.COLUMNS
"""Columns of EVENTS that groups of ranks need."""
WHOLE = frozenset({FINDINGS, "timeline"})
"""Views of the run as a whole: they name ranks themselves."""
NOTES = 12
"""The most notes of groups that a section has."""
_NUMBER = re.compile(r"-?\d[\d,.]*(?: (?:ns|us|ms|s|min|h)\b)?")


@dataclass(slots=True)
class _Found:
    """The tables of one view by name, one for each group or None, and for each note the groups that have it."""

    tables: dict[str, list[ReportTable | None]] = field(default_factory=dict)
    notes: dict[str, list[int]] = field(default_factory=dict)


def sections(views: Sequence[View], index: TraceIndex, options: ViewOptions) -> list[Section]:
    """Return the section of each view by the groups that `options.by` names. Raises: UsageError."""
    if options.compat:
        raise UsageError(f"--by {options.by}: not with --compat", hint="the figures of another profiler know no ranks")
    if options.thread_sep and not options.each:
        raise UsageError("--thread-sep: with --by only where --each shows the tables", hint="add --each")
    groups = rank_groups.find(index, options.by, options.topology)
    own = replace(options, by="", each=False)
    if not options.each:
        own = replace(own, sorted_by="", top=0, op_detail=False)
    found = {view.name: _Found() for view in views if view.name not in WHOLE}
    for number, part in enumerate(_parts(index.trace, groups)):
        inside = TraceIndex(part)
        for view in views:
            if view.name in found:
                _add(found[view.name], computed(view, inside, own), number, len(groups.labels))
        inside.clear()
    return [
        _section(view, found[view.name], groups, options) if view.name in found else computed(view, index, own)
        for view in views
    ]


def _parts(trace: Trace, groups: RankGroups) -> Iterator[Trace]:
    """Yield the rows of each group as a trace, with the facts of the inputs that they are from."""
    orders = [np.argsort(codes, kind="stable") for codes in (groups.events, groups.totals)]
    bounds = [
        np.searchsorted(codes[order], np.arange(len(groups.labels) + 1))
        for codes, order in zip((groups.events, groups.totals), orders, strict=True)
    ]
    facts = by_source(trace)
    for number in range(len(groups.labels)):
        events, totals = (
            arrow.take(table, order[at[number] : at[number + 1]])
            for table, order, at in zip((trace.events, trace.totals), orders, bounds, strict=True)
        )
        run, ledgers = facts.of(groups.sources[number])
        yield Trace(events, totals, run, ledgers)


def _add(found: _Found, section: Section, number: int, count: int) -> None:
    for table in section.tables:
        found.tables.setdefault(table.name, [None] * count)[number] = table
    for note in section.notes:
        found.notes.setdefault(note, []).append(number)


def _section(view: View, found: _Found, groups: RankGroups, options: ViewOptions) -> Section:
    made: list[ReportTable] = []
    notes: list[str] = []
    for tables in found.tables.values():
        if options.each:
            made.append(each_group(tables, groups.labels, groups.noun))
            continue
        known = [None if number == groups.unknown else table for number, table in enumerate(tables)]
        shown, more = over_groups(known, groups.labels, groups.noun, options)
        made += shown
        notes += more
    if made and not options.each:
        notes.append(
            f"compared: {_those(groups)}; one that lacks a row does not count for it; medians are by nearest rank"
        )
    return Section(view.name, view.title, tuple(made), notes=(*groups.notes, *notes, *_notes(found, groups, options)))


def _those(groups: RankGroups) -> str:
    count = len(groups.labels) - (groups.unknown >= 0)
    rest = f", without the rows of {groups.labels[groups.unknown]}" if groups.unknown >= 0 else ""
    return f"{count:,} {groups.noun}{'' if count == 1 else 's'}{rest}"


def _notes(found: _Found, groups: RankGroups, options: ViewOptions) -> list[str]:
    """Return the notes of the groups; of several that differ in their numbers alone, the first."""
    alike: dict[str, list[tuple[str, list[int]]]] = {}
    for note, own in found.notes.items():
        if note == PERCENTILE_NOTE and not options.each:
            continue
        alike.setdefault(_NUMBER.sub("#", note), []).append((note, own))
    said = []
    for several in alike.values():
        note, own = several[0]
        count = sum(len(others) for _, others in several)
        if len(several) == 1 and len(own) == len(groups.labels):
            said.append(note)
            continue
        rest = f" (alike for {count - 1:,} more)" if count > 1 else ""
        said.append((note if note.startswith(groups.labels[own[0]]) else f"{groups.labels[own[0]]}: {note}") + rest)
    more = [f"{len(said) - NOTES:,} more notes of single groups: --rank N shows those of rank N"]
    return [*said[:NOTES], *(more if len(said) > NOTES else ())]
