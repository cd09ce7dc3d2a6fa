"""Quantities of the cells of tables of host ranges (operator, user_defined), for `tracekit explain`: see `_ranges`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tracekit.analysis.statistics import Grouped
from tracekit.index import grouping
from tracekit.index import host_tree as _host
from tracekit.index.devices import by_clock
from tracekit.index.host_tree import UNATTRIBUTED, ByTime, HostTree, by_time
from tracekit.index.trace_index import PickedRows, TraceIndex, notes_on_rows
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Mask
from tracekit.model.cells import Cells, joined, only
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, ReportTable
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import Define, Quantity, ViewColumn, ViewOptions
from tracekit.views.quantities import named, ratio, where

__all__ = ["SELF_NOTE", "SHOWS", "Charged", "FiguresByTime", "RangeFigures", "charge", "of_ranges", "with_loose"]

# Tables of host ranges by name: what they took on the host, and the device work that they launched.
#
# total, avg ... are of the host. self: what no range or call inside of a range took. device_total: work launched in the
# range or in any inside of it; device_self: work of which this is the innermost range of the kinds of the table. So the
# device_self of a table and its row "(unattributed)" add up to all device work, while totals count nested ranges twice.


HOST_TITLES = frozenset(spec.key for spec in (specs.TOTAL, *specs.SPREAD, specs.RATIO))
SHOWS = (
    specs.NAME,
    *specs.THREADS,
    specs.CALLS,
    ViewColumn("total", "CPU total", Unit.NS, "The sum of the durations on the host."),
    ViewColumn("self", "CPU self", Unit.NS, "The host time that no range or call inside took."),
    *specs.SPREAD,
    specs.MEDIAN,
    ViewColumn(
        "ratio", "CPU ratio", Unit.RATIO, "The share of the sum of the totals, which count nested ranges again."
    ),
    ViewColumn("self_ratio", "CPU self ratio", Unit.RATIO, "The share of the sum of the self times."),
    ViewColumn(
        "device_total", "Device total", Unit.NS, "The device work launched in the range or in any range inside."
    ),
    ViewColumn(
        "device_self", "Device self", Unit.NS, "The device work of which this is the innermost range of the table."
    ),
    ViewColumn("device_avg", "Device avg", Unit.NS, "The mean device total."),
    ViewColumn("device_min", "Device min", Unit.NS, "The smallest device total."),
    ViewColumn("device_max", "Device max", Unit.NS, "The largest device total."),
    ViewColumn("device_ratio", "Device ratio", Unit.RATIO, "The device self time, as a share of all device work."),
    ViewColumn(
        "device_by_time",
        "Device by time",
        Unit.NS,
        "An estimate, where no call shows the launch: the device work that started while the range was open.",
    ),
    ViewColumn(
        "device_self_by_time",
        "Device self by time",
        Unit.NS,
        "The same, for work of which this was the innermost range of the table.",
    ),
    *specs.PLACED,
)
NESTED_NOTE = (
    "CPU ratios are shares of the sum of CPU totals, which counts nested ranges again; CPU self ratios count each "
    "time once"
)
_FIRST = (
    *("calls", "total", "self", "device_total", "device_by_time", "device_self", "device_self_by_time", "ratio"),
    *("self_ratio", "device_ratio"),
)
"""Columns in the order in which a reader wants them; the others follow."""
SELF_NOTE = (
    "device total: work launched in the range or in ranges inside; device self: without the work of ranges of this "
    "table inside"
)


@dataclass(frozen=True, slots=True, eq=False)
class Charged:
    """Ranges of some kinds: m rows of EVENTS in g groups.

    picked, groups: the rows, and the group of each. places: shape (m,), the place of each in the tree, -1 for a range
    without a thread. total, own: shape (n,) by place: device ns below each range, and charged to it as innermost of the
    table. loose_ns, loose: device ns and pieces that are charged to none. by_time: what is charged by time, apart
    from this, where no call shows the launch.
    """

    host: HostTree
    picked: PickedRows
    groups: grouping.Groups
    places: I64
    wanted: Mask
    total: I64
    own: I64
    loose_ns: int
    loose: int
    by_time: ByTime

    @property
    def lost(self) -> int:
        """The number of ranges without a thread: their calls and launches are not known."""
        return int(np.count_nonzero(self.places < 0))

    def figures(self) -> RangeFigures:
        """Return the figures of each group. Raises: TracekitError where a sum exceeds int64."""
        groups, on_thread = self.groups, self.places >= 0
        at, codes = self.places[on_thread], groups.codes[on_thread]
        having, own_time = grouping.sums(codes, groups.count, self.host.tree.self_ns[at], "durations")
        # Calls of the range's input could show what it launched; of other ranges that is not known.
        shown = ~self.by_time.silent(self.host.rows[at])
        heard, heard_at = codes[shown], at[shown]
        _, device_own = grouping.sums(heard, groups.count, self.own[heard_at], "durations")
        has_work = bool(self.host.work.size)
        return RangeFigures(
            host=grouping.statistics(groups, self.picked.durations),
            known=[n > 0 for n in having],
            own=own_time,
            device=grouping.statistics(replace(groups, codes=heard), self.total[heard_at]) if has_work else None,
            heard=self._having(heard),
            device_own=device_own,
            device_ns=int(self.host.work_ns.sum()),
            loose_ns=self.loose_ns,
            loose=self.loose,
            untimed=self.picked.untimed,
            negative=self.picked.negative,
            nested=int(self.host.tree.self_ns[at].sum()) < int(self.picked.durations[on_thread].sum()),
            lost=self.lost,
            host_notes=[*self.host.notes(*self.by_time.said), *self.by_time.notes()],
            by_time=self._by_time(codes[~shown], at[~shown]),
        )

    def _having(self, codes: I64) -> list[bool]:
        return [count > 0 for count in np.bincount(codes, minlength=self.groups.count).tolist()]

    def _by_time(self, codes: I64, at: I64) -> FiguresByTime | None:
        timed = self.by_time
        if not timed.known.any():
            return None
        near = np.append(self.host.nearest(self.wanted), -1)[timed.owner]
        own_ns = np.zeros(self.host.rows.size, np.int64)
        np.add.at(own_ns, near[near >= 0], self.host.work_ns[near >= 0])
        total = self.host.with_children(timed.own_work())
        totals, owns = (grouping.sums(codes, self.groups.count, each[at], "durations")[1] for each in (total, own_ns))
        loose = int(self.host.work_ns[timed.known & (near < 0)].sum())
        return FiguresByTime(self._having(codes), totals, owns, loose)


@dataclass(frozen=True, slots=True, eq=False)
class FiguresByTime:
    """Device ns that are charged by time, by group. known: whether a range of the group is of an input without calls.

    total, own: as in `RangeFigures`. loose_ns: of no range of the table.
    """

    known: list[bool]
    total: list[int]
    own: list[int]
    loose_ns: int

    def columns(self) -> list[Column]:
        """Return the columns, a row a group."""
        return [
            Column("device_by_time", "Device by time", Unit.NS, _where(self.known, self.total), 0),
            Column("device_self_by_time", "Device self by time", Unit.NS, _where(self.known, self.own), 2),
        ]


@dataclass(frozen=True, slots=True, eq=False)
class RangeFigures:
    """Figures of ranges in g groups, ns.

    host: of the durations. known: whether a range of the group is on a thread; own: self times of those. device: of the
    work launched below each range, None where no device worked; heard: whether calls could show what a range of the
    group launched; device_own: work of which a range of the group is the innermost; device_ns: all device work.
    loose_ns, loose: device ns and pieces that are of no range. untimed, negative: rows without a duration, or with one
    below zero. nested: some ranges are within others. lost: ranges without a thread. host_notes: notes on the host.
    by_time: estimates, None where there are none.
    """

    host: Grouped
    known: list[bool]
    own: list[int]
    device: Grouped | None
    heard: list[bool]
    device_own: list[int]
    device_ns: int
    loose_ns: int
    loose: int
    untimed: int
    negative: int
    nested: bool
    lost: int
    host_notes: list[str]
    by_time: FiguresByTime | None

    def columns(self, blocks: Sequence[tuple[Cell, ...]] = ()) -> list[Column]:
        """Return the columns, a row a group; those of devices only where there is device work."""
        host_columns = [_host_title(c) for c in tabulate.statistic_columns(self.host, blocks)]
        shares = tabulate.ratios(self.own, blocks) if blocks else tabulate.shares(np.array(self.own, np.int64))
        share = Column("self_ratio", "CPU self ratio", Unit.RATIO, _where(self.known, shares), 2)
        self_time = Column("self", "CPU self", Unit.NS, _where(self.known, Cells.of(np.array(self.own, np.int64))), 1)
        by_name = {c.name: c for c in (*host_columns, self_time, share, *self._device_columns())}
        first = [by_name.pop(name) for name in _FIRST if name in by_name]
        return [*first, *by_name.values()]

    def _device_columns(self) -> list[Column]:
        stats, known, timed = self.device, self.heard, self.by_time
        if stats is None:
            return []
        own = np.array(self.device_own, np.int64)
        shares = tabulate.parts_of(own, self.device_ns)
        return [
            Column("device_total", "Device total", Unit.NS, _where(known, Cells.of(stats.total)), 0),
            Column("device_self", "Device self", Unit.NS, _where(known, Cells.of(own)), 2),
            Column("device_avg", "Device avg", Unit.NS, _where(known, Cells.of(stats.mean)), 5),
            Column("device_min", "Device min", Unit.NS, _where(known, Cells.of(stats.min)), 6),
            Column("device_max", "Device max", Unit.NS, _where(known, Cells.of(stats.max)), 6),
            Column("device_ratio", "Device ratio", Unit.RATIO, _where(known, shares), 3),
            *(timed.columns() if timed else []),
        ]

    def notes(self, what: str) -> list[str]:
        """Return what to know of the ranges, in words."""
        out = [*notes_on_rows(what, self.untimed, self.negative), *self.host_notes]
        if self.nested:
            out.append(NESTED_NOTE)
        if self.lost:
            verb = "is" if self.lost == 1 else "are"
            out.append(f"{plural(self.lost, what)} {verb} without a thread: calls and launches in them are unknown")
        return out


def with_loose(table: ReportTable, figures: RangeFigures) -> ReportTable:
    """Return the table with a last row for the device work that no range of it launched, where there is any."""
    if not figures.loose:
        return table
    cells: dict[str, Cell] = {
        "name": UNATTRIBUTED,
        "level": 0,
        "device_total": figures.loose_ns,
        "device_self": figures.loose_ns,
        "device_ratio": figures.loose_ns / figures.device_ns if figures.device_ns else None,
    }
    if figures.by_time is not None:
        cells["device_by_time"] = cells["device_self_by_time"] = figures.by_time.loose_ns
    columns = [replace(c, values=joined([c.values, _one(cells.get(c.name))])) for c in table.columns]
    return replace(table, columns=tuple(columns))


def _one(cell: Cell) -> Sequence[Cell]:
    if cell is None:
        return Cells.unknown(1)
    return [cell] if isinstance(cell, str) or abs(cell) >= 1 << 63 else Cells.of(np.array([cell]))


def charge(host: HostTree, picked: PickedRows, groups: grouping.Groups) -> Charged:
    """Return these ranges with the device work that is theirs."""
    places = host.places_of(picked.rows)
    wanted = np.zeros(host.rows.size, np.bool_)
    wanted[places[places >= 0]] = True
    launched, _ = host.own_work()
    own_ns = np.zeros(host.rows.size, np.int64)
    near = host.nearest(wanted)
    charged = host.owner >= 0
    to = np.where(charged, np.append(near, -1)[host.owner], -1)
    np.add.at(own_ns, to[to >= 0], host.work_ns[to >= 0])
    loose = to < 0
    return Charged(
        host,
        picked,
        groups,
        places,
        wanted,
        host.with_children(launched),
        own_ns,
        int(host.work_ns[loose].sum()),
        int(np.count_nonzero(loose)),
        by_time(host.index),
    )


def _host_title(column: Column) -> Column:
    if column.name not in HOST_TITLES:
        return column
    title = f"CPU {column.title[:1].lower()}{column.title[1:]}" if column.title[1:].islower() else f"CPU {column.title}"
    # Its whole counts nested ranges again; the ratio of self times does not, and goes first.
    return replace(column, title=title, priority=5 if column.name == "ratio" else column.priority)


def _where(known: Sequence[bool], values: Sequence[Cell]) -> Sequence[Cell]:
    return only(values, np.array(known, np.bool_))


_BY_TIME = ("device_by_time", "device_self_by_time")
_DEVICE = ("device_total", "device_self", "device_ratio", *_BY_TIME)


def of_ranges(
    kinds_of: Callable[[TraceIndex], Collection[Kind]],
    what: str,
    keys: Collection[str],
    tree_of: Callable[[TraceIndex], HostTree] = _host.host,
) -> Define:
    """Return the definitions of such a table. kinds_of: the kinds of its rows; what: one of them in words.

    tree_of: returns the tree with the charges of the table.
    Rows of what an operator called (level 1 and 2) have none, nor have the statistics of device times.
    """

    def define(index: TraceIndex, options: ViewOptions, row: Mapping[str, Cell], column: str) -> Quantity | None:
        if row.get("level") or (row and row.get(column) is None):
            return None
        kinds = kinds_of(index)
        if column not in ("self", "self_ratio", *_DEVICE):
            return named(kinds, what, keys)(index, options, row, column)
        every = index.kind_mask(kinds) & index.has("dur_ns")
        if not every.any():
            return None  # totals: nobody knows what lay within
        who = f"{what}s" + (f" named {row['name']}" if row.get("name") is not None else "")
        of_row = every & where(index, **{key: row[key] for key in keys if key in row})
        host = tree_of(index)
        if column in ("self", "self_ratio"):
            part = _self(host, of_row, f"time of {who} less what ranges and calls within them took")
            if column == "self":
                return part
            whole = _self(host, every, f"time of all {what}s less what ranges and calls within them took")
            return ratio(part, whole, f"{part.words} / {whole.words}")
        loose = bool(row) and row.get("calls") is None
        which = column in ("device_total", "device_by_time"), not row or loose, not loose
        if column in _BY_TIME:
            return _started(index, (of_row, every), which, what, who)
        part = _launched(index, host, (of_row, every), which, what, who)
        if column != "device_ratio":
            return part
        whole = _work(index, host, np.arange(host.work.size), "sum of the durations of all device work")
        return ratio(part, whole, f"{part.words} / {whole.words}")

    return define


def _places(host: _host.HostTree, mask: Mask) -> Mask:
    """Return shape (places,): whether the row of each place is in the mask of rows of EVENTS."""
    places: Mask = mask[host.rows]
    return places


def _self(host: _host.HostTree, mask: Mask, words: str) -> Quantity:
    """Return the pieces of each of these ranges that none of its children covers."""
    wanted = _places(host, mask)
    parent = host.tree.parent
    child = np.flatnonzero((parent >= 0) & np.append(wanted, False)[parent])
    # Siblings end in the order in which they begin: what is free lies between each and the one before.
    child = child[np.lexsort((host.ends[child], host.starts[child], parent[child]))]
    above = parent[child]
    first = np.ones(child.size, np.bool_)
    first[1:] = above[1:] != above[:-1]
    before = np.where(first, host.starts[above], np.concatenate((host.ends[child[:1]], host.ends[child[:-1]])))
    last = np.append(first[1:], np.ones(min(child.size, 1), np.bool_))
    free_from = host.starts.copy()
    free_from[above[last]] = host.ends[child[last]]
    of = np.flatnonzero(wanted)
    place = np.concatenate((above, of))
    starts, ends = np.concatenate((before, free_from[of])), np.concatenate((host.starts[child], host.ends[of]))
    some = ends > starts
    rows = host.rows[place[some]]
    clocks = by_clock(host.index).codes[rows]
    return Quantity(words, "sum", rows, starts[some], ends[some], clocks, clocks)


def _launched(
    index: TraceIndex,
    host: _host.HostTree,
    masks: tuple[Mask, Mask],
    which: tuple[bool, bool, bool],
    what: str,
    who: str,
) -> Quantity:
    """Return the device work that is charged to the ranges of masks[0], of all that the table has, masks[1].

    which: within any of them, so that work in nested ranges counts for each (else in the innermost alone); with the
    work that is in none; with that of the ranges.
    """
    nested, loose, ranges = which
    how = "in them or in any range within" if nested else f"with none of the other {what}s between"
    words = f"sum of the durations of the device work that {who} launched, {how}"
    if not ranges:
        words = f"sum of the durations of the device work that no {what} launched"
    elif loose:
        words += f"; and of that which no {what} launched"
    return _work(index, host, _charged(host, masks, which, host.owner), words)


def _started(
    index: TraceIndex, masks: tuple[Mask, Mask], which: tuple[bool, bool, bool], what: str, who: str
) -> Quantity:
    """Return the device work that is charged to the ranges by time; arguments as in `_launched`."""
    timed = by_time(index)
    nested, loose, ranges = which
    how = f"while {who} were open" if nested else f"while {who} were open, with none of the other {what}s between"
    words = f"sum of the durations of the device work without a launch call that started {how}"
    if not ranges:
        words = f"sum of the durations of the device work without a launch call that started while no {what} was open"
    elif loose:
        words += f"; and while no {what} was open"
    at = _charged(timed.host, masks, which, timed.owner)
    return _work(index, timed.host, at[timed.known[at]], words)


def _charged(host: _host.HostTree, masks: tuple[Mask, Mask], which: tuple[bool, bool, bool], owner: I64) -> I64:
    """Return the device events of these ranges, once for each that holds it. owner: the place of each piece."""
    nested, loose, ranges = which
    wanted, every = (_places(host, mask) for mask in masks)
    times = np.zeros(host.rows.size + 1, np.int64)  # the last: work that is in no range
    near = np.append(host.nearest(every), -1)
    if nested and ranges:
        times[:-1] = wanted
        for level in host.levels()[1:]:
            times[level] += times[host.tree.parent[level]]
    elif ranges:
        times[:-1] = np.append(wanted, False)[near[:-1]]
    count = times[owner]
    if loose:
        count = count + (near[owner] < 0)
    return np.repeat(np.arange(host.work.size), count)


def _work(index: TraceIndex, host: _host.HostTree, at: I64, words: str) -> Quantity:
    rows = host.work[at]
    starts: I64 = index.starts[rows]
    clocks = by_clock(index).codes[rows]
    return Quantity(words, "sum", rows, starts, starts + host.work_ns[at], clocks, clocks)
