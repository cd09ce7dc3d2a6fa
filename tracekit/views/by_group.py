"""Views by rank, by host and by parallel group: the table of each group, or their spread (`--by`, `--each`).

The rows of a group are a trace of their own, and the view is computed on it as `--rank N` would. So a table by rank
holds what the tables of single ranks hold, whatever the view. One group is in memory beside the trace at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tracekit.errors import Option, UsageError, sentence
from tracekit.index import rank_groups
from tracekit.index.rank_groups import RankGroups
from tracekit.index.sources import by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.trace import Trace
from tracekit.model.units import Unit
from tracekit.views import tabulate
from tracekit.views.base import FINDINGS, View, ViewColumn, ViewOptions, computed
from tracekit.views.tabulate import NEAREST_RANK

__all__ = ["COLUMNS", "WHOLE", "ByGroup", "refuse", "sections", "spread"]

# The spread of a table over groups of ranks: median, least and most of each row's figures, and which group has them.
#
# It is made of the tables of the groups, so that a group can be computed anywhere and only its tables travel. A row is
# named by its texts and ids; places (device, thread, input) name it only where nothing else tells the rows of a group
# apart. A group without the row, or in which a figure is not known, does not count for it: `groups` says how many have
# it. The median is by nearest rank, so it is the figure of a group: the lower one of the middle two.


_WORDS = {
    Unit.NS: "time",
    Unit.COUNT: "count",
    Unit.BYTES: "bytes",
    Unit.RATIO: "share",
    Unit.BYTES_PER_S: "rate",
    Unit.NUMBER: "number",
}
"""Ends of the names of tables: figures of one unit are in one table."""

SHOWS = (
    ViewColumn("by", "Group", Unit.TEXT, "The rank, host or group that the row is of, with --each.", "place"),
    ViewColumn("measure", "Measure", Unit.TEXT, "The column of the table that is compared over the groups."),
    ViewColumn("groups", "Groups", Unit.COUNT, "The number of ranks, hosts or groups that have the row."),
    ViewColumn("median", "Median", Unit.NUMBER, "The median over the groups, by nearest rank; in the measure's unit."),
    ViewColumn("min", "Min", Unit.NUMBER, "The least value of a group."),
    ViewColumn("min_at", "Min at", Unit.TEXT, "The group that has the least; the first of several."),
    ViewColumn("max", "Max", Unit.NUMBER, "The greatest value of a group."),
    ViewColumn("max_at", "Max at", Unit.TEXT, "The group that has the greatest; the first of several."),
    ViewColumn("max_over_median", "Max / median", Unit.NUMBER, "The greatest value, divided by the median."),
)
"""The columns of such tables, beside the ones with names."""

Row = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """Figures over groups, a row each: shape (n,). groups: how many have it; least_at, most_at: numbers of groups."""

    groups: I64
    median: npt.NDArray[np.generic]
    least: npt.NDArray[np.generic]
    least_at: I64
    most: npt.NDArray[np.generic]
    most_at: I64


def spread(rows: I64, groups: I64, values: npt.NDArray[np.generic], count: int) -> Spread:
    """Return the spread of each of `count` rows. rows, groups, values: shape (n,); each row has a value at least."""
    order = np.lexsort((groups, values, rows))
    having = np.bincount(rows, minlength=count)
    begin = np.cumsum(having) - having
    in_order, at = values[order], groups[order]
    last = begin + having - 1
    # Of the groups with the most, the first: their values are alike, and alike values are in order of groups.
    is_most = in_order == np.repeat(in_order[last], having)
    first_most = np.full(count, order.size)
    np.minimum.at(first_most, np.repeat(np.arange(count), having)[is_most], np.flatnonzero(is_most))
    return Spread(
        having, in_order[begin + (having - 1) // 2], in_order[begin], at[begin], in_order[last], at[first_most]
    )


def over_groups(
    tables: Sequence[ReportTable | None], labels: Sequence[str], noun: str, options: ViewOptions
) -> tuple[list[ReportTable], list[str]]:
    """Return the tables of a spread, one for each unit of the figures, and notes.

    tables: one table of a view for each group, None for a group that lacks it. labels, noun: of the groups. `--sort`
    chooses the figure; else those are shown that the table never hides.
    """
    present = [(number, table) for number, table in enumerate(tables) if table is not None and len(table)]
    if not present:
        return [], []
    columns = _union([table for _, table in present])
    first = present[0][1]
    if any(column.role == "event" for column in columns.values()):
        return [], [f"{first.title}: a list of single events has no spread; --each shows it for each {noun}"]
    names = _naming(list(columns.values()), [table for _, table in present])
    keys = [_keys(table, names) for _, table in present]
    if not _apart([table for _, table in present], names):
        return [], [f"{first.title}: several rows of a {noun} have one name; --each shows the table for each {noun}"]
    wanted, notes = _measures(list(columns.values()), options)
    if len(present) > 1 and any(columns[name].role == "place" for name in names) and max(_counts(keys).values()) < 2:
        places = [columns[name].title.lower() for name in names if columns[name].role == "place"]
        names = [name for name in names if columns[name].role != "place"]
        keys = [_keys(table, names) for _, table in present]
        notes = [*notes, f"{first.title}: of several rows ({', '.join(places)}) of a {noun} the median is its figure"]
    every = list(dict.fromkeys(key for of_group in keys for key in of_group))
    place = {key: i for i, key in enumerate(every)}
    codes = [np.array([place[key] for key in of_group], np.int64) for of_group in keys]
    spreads = []
    for unit in dict.fromkeys(column.unit for column in wanted):
        chosen = [column for column in wanted if column.unit is unit]
        spreads.append(_table(present, codes, every, (names, columns, chosen), labels, noun, options))
    return spreads, notes


def each_group(tables: Sequence[ReportTable | None], labels: Sequence[str], noun: str) -> ReportTable:
    """Return the tables of all groups as one, with a column `by` that names the group; a block for each."""
    present = [(label, table) for label, table in zip(labels, tables, strict=True) if table is not None]
    columns = _union([table for _, table in present])
    parts: dict[str, list[Cell]] = {name: [] for name in columns}
    by: list[Cell] = []
    for label, table in present:
        there = {column.name: column.values for column in table.columns}
        for name, cells in parts.items():
            cells.extend(there[name] if name in there else [None] * len(table))
        by.extend([label] * len(table))
    shown_columns = [replace(column, values=parts[name]) for name, column in columns.items()]
    after = next((i for i, column in enumerate(shown_columns) if column.unit is Unit.TEXT), -1) + 1
    shown_columns.insert(after, Column("by", _title(noun), Unit.TEXT, by, 0, "place"))
    first = present[0][1]
    return ReportTable(
        first.name, f"{first.title}, each {noun}", tuple(shown_columns), sum(t.omitted for _, t in present)
    )


def _title(noun: str) -> str:
    return noun.capitalize() if noun.isalpha() else noun


def _union(tables: Sequence[ReportTable]) -> dict[str, Column]:
    """Return the columns that any of the tables has, in their order."""
    columns: dict[str, Column] = {}
    for table in tables:
        for column in table.columns:
            columns.setdefault(column.name, column)
    return columns


def _is_label(column: Column) -> bool:
    return column.role == "name" or (not column.role and column.unit in (Unit.TEXT, Unit.ID))


def _naming(columns: Sequence[Column], tables: Sequence[ReportTable]) -> list[str]:
    """Return the columns that name a row, with as few places as tell the rows of each table apart."""
    names = [column.name for column in columns if _is_label(column)]
    for place in [column.name for column in columns if column.role == "place"]:
        if _apart(tables, names):
            break
        names = [column.name for column in columns if column.name in (*names, place)]
    return names


def _apart(tables: Sequence[ReportTable], names: Sequence[str]) -> bool:
    """Return whether these columns tell the rows of each table apart."""
    return all(len(set(keys)) == len(keys) for keys in (_keys(table, names) for table in tables))


def _keys(table: ReportTable, names: Sequence[str]) -> list[Row]:
    """Return the name of each row."""
    there = {column.name: column.values for column in table.columns}
    cells = [there.get(name) or [None] * len(table) for name in names]
    rows: list[Row] = list(zip(*cells, strict=True)) if cells else [()] * len(table)
    return rows


def _counts(keys: Sequence[Sequence[Row]]) -> dict[Row, int]:
    often: dict[Row, int] = {}
    for of_group in keys:
        for key in set(of_group):
            often[key] = often.get(key, 0) + 1
    return often


def _measures(columns: Sequence[Column], options: ViewOptions) -> tuple[list[Column], list[str]]:
    """Return the figures to compare: that of --sort, else the ones that are never hidden, else the most important."""
    numbers = [
        column for column in columns if column.role in ("", "measure") and column.unit not in (Unit.TEXT, Unit.ID)
    ]
    key, _ = tabulate.sort_key(options, [column.name for column in columns])
    if key:
        if chosen := [column for column in numbers if column.name == key]:
            return chosen, []
        if key not in [column.name for column in columns]:
            note = [f"no column {key} here: the table keeps its own order"]
            return _measures(columns, replace(options, sorted_by=""))[0], note
    important = [column for column in numbers if not column.priority or column.name == "total"]
    plain = [column for column in important if column.unit is not Unit.RATIO]
    least = min((column.priority for column in numbers), default=0)
    return plain or important or [column for column in numbers if column.priority == least], []


def _table(
    shown: Sequence[tuple[int, ReportTable]],
    codes: Sequence[I64],
    every: Sequence[Row],
    about: tuple[Sequence[str], dict[str, Column], Sequence[Column]],
    labels: Sequence[str],
    noun: str,
    options: ViewOptions,
) -> ReportTable:
    names, columns, chosen = about
    rows, groups, values = [], [], []
    for (number, table), of_group in zip(shown, codes, strict=True):
        there = {column.name: column.values for column in table.columns}
        for place, column in enumerate(chosen):
            cells = there.get(column.name)
            if cells is None:
                continue
            known = [i for i, cell in enumerate(cells) if isinstance(cell, (int, float)) and cell == cell]
            rows.append(of_group[known] * len(chosen) + place)
            groups.append(np.full(len(known), number))
            values.append(_numbers([cells[i] for i in known], column.unit))
    at = np.concatenate([np.zeros(0, np.int64), *rows]) * len(labels)
    at += np.concatenate([np.zeros(0, np.int64), *groups])
    pairs, pair = np.unique(at, return_inverse=True)
    every_value = np.concatenate(values) if values else np.zeros(0, np.int64)
    # A group has one row of a name, or its figure is the median of several.
    figures = spread(pair.reshape(-1), np.zeros(at.size, np.int64), every_value, pairs.size).median
    present, dense = np.unique(pairs // len(labels), return_inverse=True)
    of = spread(dense.reshape(-1), pairs % len(labels), figures, present.size)
    unit = chosen[0].unit
    key, measure = present // len(chosen), present % len(chosen)
    medians = of.median.tolist()
    one = len(chosen) == 1
    over = [m / c if c else None for m, c in zip(of.most.tolist(), medians, strict=True)]
    counted = f"{_title(noun)}s" if noun in ("rank", "host") else "Groups"
    shown_columns = [
        *(replace(columns[name], values=[every[k][i] for k in key.tolist()]) for i, name in enumerate(names)),
        Column("measure", "Measure", Unit.TEXT, [chosen[m].title for m in measure.tolist()], 9 if one and names else 0),
        Column("groups", counted, Unit.COUNT, of.groups.tolist(), 1),
        Column("median", "Median", unit, medians, 0),
        Column("min", "Min", unit, of.least.tolist(), 2),
        Column("min_at", "Min at", Unit.TEXT, [labels[g] for g in of.least_at.tolist()], 3),
        Column("max", "Max", unit, of.most.tolist(), 0),
        Column("max_at", "Max at", Unit.TEXT, [labels[g] for g in of.most_at.tolist()], 0),
        Column("max_over_median", "Max / median", Unit.NUMBER, [_rounded(ratio) for ratio in over], 4),
    ]
    order = _order(key, measure, medians, [table for _, table in shown], chosen, options)
    kept = order[: options.top * len(chosen)] if options.top else order
    first = shown[0][1]
    table = tabulate.finish(
        f"{first.name}_by_{noun.replace(' ', '_')}_{_WORDS[unit]}",
        f"{first.title} by {noun}{f' · {chosen[0].title}' if one else ''}",
        [replace(column, values=[column.values[i] for i in kept]) for column in shown_columns],
        ViewOptions(),
        own_order="",
        blocks=[(i,) for i in range(len(kept))],
        top_each=False,
    )
    return replace(table, omitted=len(order) - len(kept))


def _order(
    key: I64,
    measure: I64,
    medians: list[float],
    tables: Sequence[ReportTable],
    chosen: Sequence[Column],
    options: ViewOptions,
) -> list[int]:
    """Return the rows in order: by --sort; as the tables, by the median of the first figure; else as they come."""
    wanted, backwards = tabulate.sort_key(options, [chosen[0].name])
    by_figure = wanted == chosen[0].name or all(_descends(table, chosen[0].name) for table in tables)
    first = {k: medians[i] for i, (k, m) in enumerate(zip(key.tolist(), measure.tolist(), strict=True)) if not m}
    places = list(range(key.size))
    if not by_figure:
        return places
    turn = 1 if wanted == chosen[0].name and backwards else -1
    pairs = list(zip(key.tolist(), measure.tolist(), strict=True))
    return sorted(places, key=lambda i: (turn * first.get(pairs[i][0], 0), pairs[i]))


def _descends(table: ReportTable, name: str) -> bool:
    """Return whether a table has a column in falling order."""
    values = next((column.values for column in table.columns if column.name == name), ())
    numbers = [cell for cell in values if isinstance(cell, (int, float))]
    return all(a >= b for a, b in pairwise(numbers))


def _numbers(cells: Sequence[Cell], unit: Unit) -> npt.NDArray[np.generic]:
    exact = unit in (Unit.NS, Unit.COUNT, Unit.BYTES) and all(isinstance(cell, int) for cell in cells)
    return np.array(cells, np.int64 if exact else np.float64)


def _rounded(value: float | None) -> Cell:
    return None if value is None else round(value, 4)


COLUMNS = rank_groups.COLUMNS
"""Columns of EVENTS that groups of ranks need."""
WHOLE = frozenset({FINDINGS, "timeline", "hang"})
"""Views of the run as a whole: they name ranks themselves."""
NOTES = 12
"""The most notes of groups that a section has."""
_NUMBER = re.compile(r"-?\d[\d,.]*(?: (?:ns|us|ms|s|min|h)\b)?")


@dataclass(slots=True)
class _GroupedSections:
    """The tables of one view by name, one for each group or None, and for each note the groups that have it."""

    tables: dict[str, list[ReportTable | None]] = field(default_factory=dict)
    notes: dict[str, list[int]] = field(default_factory=dict)


class ByGroup:
    """The sections of views by group, made of those of each group. Groups are added in order of their numbers."""

    def __init__(self, views: Sequence[View], groups: RankGroups, options: ViewOptions) -> None:
        self._views, self._groups, self._options = views, groups, options
        self._found = {view.name: _GroupedSections() for view in views if view.name not in WHOLE}
        of_a_group = replace(options, by="", each=False)
        self.own = of_a_group if options.each else replace(of_a_group, sorted_by="", top=0, op_detail=False)
        """The options of the sections of a group."""

    def of(self, index: TraceIndex) -> list[Section]:
        """Return the sections of one group. index: of its rows."""
        return [computed(view, index, self.own) for view in self._views if view.name in self._found]

    def add(self, number: int, sections: Sequence[Section]) -> None:
        """Add the sections of a group."""
        for grouped, section in zip(self._found.values(), sections, strict=True):
            for table in section.tables:
                grouped.tables.setdefault(table.name, [None] * len(self._groups.labels))[number] = table
            for note in section.notes:
                grouped.notes.setdefault(note, []).append(number)

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
    grouped = ByGroup(views, groups, options)
    for number, part in enumerate(_parts(index.trace, groups)):
        inside = TraceIndex(part)
        grouped.add(number, grouped.of(inside))
        inside.clear()
    of_view = {section.view: section for section in grouped.sections()}
    return [of_view.get(view.name) or computed(view, index, grouped.own) for view in views]


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


def _section(view: View, grouped: _GroupedSections, groups: RankGroups, options: ViewOptions) -> Section:
    section_tables: list[ReportTable] = []
    notes: list[str] = []
    for tables in grouped.tables.values():
        if options.each:
            section_tables.append(each_group(tables, groups.labels, groups.noun))
            continue
        known = [None if number == groups.unknown else table for number, table in enumerate(tables)]
        shown, more = over_groups(known, groups.labels, groups.noun, options)
        section_tables += shown
        notes += more
    if section_tables and not options.each:
        notes.append(
            f"compared: {_those(groups)}; one that lacks a row does not count for it; medians are by nearest rank"
        )
    return Section(
        view.name, view.title, tuple(section_tables), notes=(*groups.notes, *notes, *_notes(grouped, groups, options))
    )


def _those(groups: RankGroups) -> str:
    count = len(groups.labels) - (groups.unknown >= 0)
    rest = f", without the rows of {groups.labels[groups.unknown]}" if groups.unknown >= 0 else ""
    return f"{count:,} {groups.noun}{'' if count == 1 else 's'}{rest}"


def _notes(grouped: _GroupedSections, groups: RankGroups, options: ViewOptions) -> list[str]:
    """Return the notes of the groups; of several that differ in their numbers alone, the first."""
    alike: dict[str, list[tuple[str, list[int]]]] = {}
    for note, its_groups in grouped.notes.items():
        if note.endswith(NEAREST_RANK) and not options.each:
            continue
        alike.setdefault(_NUMBER.sub("#", note), []).append((note, its_groups))
    shown = []
    for several in alike.values():
        note, its_groups = several[0]
        count = sum(len(others) for _, others in several)
        if len(several) == 1 and len(its_groups) == len(groups.labels):
            shown.append(note)
            continue
        rest = f" (alike for {count - 1:,} more)" if count > 1 else ""
        shown.append(
            (note if note.startswith(groups.labels[its_groups[0]]) else f"{groups.labels[its_groups[0]]}: {note}")
            + rest
        )
    more = [f"{len(shown) - NOTES:,} more notes of single groups: --rank N shows those of rank N"]
    return [*shown[:NOTES], *(more if len(shown) > NOTES else ())]
