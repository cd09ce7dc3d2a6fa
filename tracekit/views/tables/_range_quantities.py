"""Quantities of the cells of tables of host ranges (operator, user_defined), for `tracekit explain`: see `_ranges`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from tracekit.columns.arrays import I64, Mask
from tracekit.index.clocks import by_clock
from tracekit.index.host import tree as _host
from tracekit.index.host.by_time import by_time
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Cell
from tracekit.schema import Kind
from tracekit.views.base import Define, Quantity, ViewOptions
from tracekit.views.quantities import named, ratio, where

_BY_TIME = ("device_by_time", "device_self_by_time")
_DEVICE = ("device_total", "device_self", "device_ratio", *_BY_TIME)


def of_ranges(kinds_of: Callable[[TraceIndex], Collection[Kind]], what: str, keys: Collection[str]) -> Define:
    """Return the definitions of such a table. kinds_of: the kinds of its rows; what: one of them in words.

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
        mine = every & where(index, **{key: row[key] for key in keys if key in row})
        host = _host.host(index)
        if column in ("self", "self_ratio"):
            part = _self(host, mine, f"time of {who} less what ranges and calls within them took")
            if column == "self":
                return part
            whole = _self(host, every, f"time of all {what}s less what ranges and calls within them took")
            return ratio(part, whole, f"{part.words} / {whole.words}")
        loose = bool(row) and row.get("calls") is None
        which = column in ("device_total", "device_by_time"), not row or loose, not loose
        if column in _BY_TIME:
            return _started(index, (mine, every), which, what, who)
        part = _launched(index, host, (mine, every), which, what, who)
        if column != "device_ratio":
            return part
        whole = _work(index, host, np.arange(host.work.size), "sum of the durations of all device work")
        return ratio(part, whole, f"{part.words} / {whole.words}")

    return define


def _places(host: _host.Host, mask: Mask) -> Mask:
    """Return shape (places,): whether the row of each place is in the mask of rows of EVENTS."""
    found: Mask = mask[host.rows]
    return found


def _self(host: _host.Host, mask: Mask, words: str) -> Quantity:
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
    index: TraceIndex, host: _host.Host, masks: tuple[Mask, Mask], which: tuple[bool, bool, bool], what: str, who: str
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


def _charged(host: _host.Host, masks: tuple[Mask, Mask], which: tuple[bool, bool, bool], owner: I64) -> I64:
    """Return the device events of these ranges, once for each that holds it. owner: the place of each piece."""
    nested, loose, ranges = which
    mine, every = (_places(host, mask) for mask in masks)
    times = np.zeros(host.rows.size + 1, np.int64)  # the last: work that is in no range
    near = np.append(host.nearest(every), -1)
    if nested and ranges:
        times[:-1] = mine
        for here in host.levels()[1:]:
            times[here] += times[host.tree.parent[here]]
    elif ranges:
        times[:-1] = np.append(mine, False)[near[:-1]]
    count = times[owner]
    if loose:
        count = count + (near[owner] < 0)
    return np.repeat(np.arange(host.work.size), count)


def _work(index: TraceIndex, host: _host.Host, at: I64, words: str) -> Quantity:
    rows = host.work[at]
    starts: I64 = index.starts[rows]
    clocks = by_clock(index).codes[rows]
    return Quantity(words, "sum", rows, starts, starts + host.work_ns[at], clocks, clocks)
