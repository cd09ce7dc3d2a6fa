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
from tracekit.errors import Option, UsageError, sentence
from tracekit.index import rank_groups
from tracekit.index.rank_groups import RankGroups
from tracekit.index.sources import by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.report import ReportTable, Section
from tracekit.trace import Trace
from tracekit.views.base import FINDINGS, View, ViewOptions, computed
from tracekit.views.spread import each_group, over_groups
from tracekit.views.tabulate import NEAREST_RANK

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


class ByGroup:
    """The sections of views by group, made of those of each group. Groups are added in order of their numbers."""

    def __init__(self, views: Sequence[View], groups: RankGroups, options: ViewOptions) -> None:
        self._views, self._groups, self._options = views, groups, options
        self._found = {view.name: _Found() for view in views if view.name not in WHOLE}
        own = replace(options, by="", each=False)
        self.own = own if options.each else replace(own, sorted_by="", top=0, op_detail=False)
        """The options of the sections of a group."""

    def of(self, index: TraceIndex) -> list[Section]:
        """Return the sections of one group. index: of its rows."""
        return [computed(view, index, self.own) for view in self._views if view.name in self._found]

    def add(self, number: int, sections: Sequence[Section]) -> None:
        """Add the sections of a group."""
        for found, section in zip(self._found.values(), sections, strict=True):
            for table in section.tables:
                found.tables.setdefault(table.name, [None] * len(self._groups.labels))[number] = table
            for note in section.notes:
                found.notes.setdefault(note, []).append(number)

    def sections(self) -> list[Section]:
        """Return the section of each view that is not of the run as a whole."""
        return [
            _section(view, self._found[view.name], self._groups, self._options)
            for view in self._views
            if view.name in self._found
        ]


def refuse(options: ViewOptions) -> None:
    """Raise a UsageError for options that contradict `options.by`."""
    if options.compat:
        text = sentence(Option("by", options.by), ": not with ", Option("compat"))
        raise UsageError(text, hint="the figures of another profiler know no ranks")
    if options.thread_sep and not options.each:
        each = Option("each")
        text = sentence(Option("thread-sep"), ": with ", Option("by"), " only where ", each, " shows the tables")
        raise UsageError(text, hint=sentence("add ", each))


def sections(views: Sequence[View], index: TraceIndex, options: ViewOptions) -> list[Section]:
    """Return the section of each view by the groups that `options.by` names. Raises: UsageError."""
    refuse(options)
    groups = rank_groups.find(index, options.by, options.topology)
    made = ByGroup(views, groups, options)
    for number, part in enumerate(_parts(index.trace, groups)):
        inside = TraceIndex(part)
        made.add(number, made.of(inside))
        inside.clear()
    found = {section.view: section for section in made.sections()}
    return [found.get(view.name) or computed(view, index, made.own) for view in views]


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
        if note.endswith(NEAREST_RANK) and not options.each:
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
