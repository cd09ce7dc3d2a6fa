"""Pauses of the host: stretches in which no thread that launches work ran an operator, a call or a loader.

What the host did there is not in the trace: garbage collection, Python of the program, another process on its core, or
a wait for the next request. A pause is a wait for requests where a range around it is named like a wait, or where it
lies in no step or other range, the device has nothing left to do, and pauses are the rule at this place of the program
(`REGULAR` of the stretches between the same two operators or calls, `LEAST_REGULAR` at least): a server between two
requests. A garbage collector pauses seldom.
"""

from __future__ import annotations

import re
from math import prod

import numpy as np

from tracekit.analysis.intervals import merge
from tracekit.analysis.nesting import innermost
from tracekit.analysis.segments import distinct
from tracekit.index import devices as _devices
from tracekit.index import grouping
from tracekit.index import owners as _owners
from tracekit.index import steps as _steps
from tracekit.index.launches import launches_of
from tracekit.index.loaders import LONGEST_NAME, find_loaders
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model.arrow import I64, Mask
from tracekit.model.patterns import rows_found
from tracekit.model.schema import API_CALLS, USER_RANGES, Kind

__all__ = ["Pauses", "find", "waits"]

LEAST_NS = 1_000_000
"""A shorter stretch is what launching from Python takes, not a pause."""
REGULAR = 0.2
LEAST_REGULAR = 3
WAITS = lazy_pattern(
    r"(?:^|[^a-z])(?:e?poll|select|accept|listen|sleep|dequeue|recv(?:from|_request|_message)?|idle)(?![a-z])"
    r"|(?:wait(?:ing)?|get|next|pop|receive|read)[ _]?(?:for[ _]?)?(?:a[ _]|the[ _]|next[ _])?"
    r"(?:requests?|messages?|jobs?|work|tasks?|event|client)(?![a-z])"
    r"|(?:^|[^a-z])queue(?:\.py.*)?[.: _]+get(?![a-z])",
    re.IGNORECASE,
)
"""Names of ranges in which a program waits for work from outside."""
_ACTIVE = frozenset({Kind.OPERATOR, Kind.OPERATOR_INNER, Kind.COMMUNICATION}) | API_CALLS
_RANGES = (USER_RANGES | {Kind.PYTHON_OP}) - {Kind.DATALOADER}
_THREAD = ("source", "pid", "tid")
_FEW_THREADS = 1 << 16
"""So many numbers of threads have a table, however few the rows are."""
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Pauses:
    """The pauses of one owner in order of time; shape (n,).

    starts, ends: ns. before, after: rows of EVENTS, of the operator, call or load that ended last before and of the one
    that began first after. around: row of the innermost range that held the middle of the pause on the thread of
    `after`, -1 for none. idle: ns of the pause in which no device of the owner worked. request: it is a wait for work
    from outside, judged by a name (named) or because pauses are the rule there. in_step: a step of the owner held its
    middle.
    """

    starts: I64
    ends: I64
    before: I64
    after: I64
    around: I64
    idle: I64
    regular: Mask
    request: Mask
    in_step: Mask
    named: Mask

    def only(self, kept: Mask) -> Pauses:
        """Return some of the pauses."""
        return Pauses(
            self.starts[kept],
            self.ends[kept],
            self.before[kept],
            self.after[kept],
            self.around[kept],
            self.idle[kept],
            self.regular[kept],
            self.request[kept],
            self.in_step[kept],
            self.named[kept],
        )


@join
def find(
    index: TraceIndex, owners: _owners.Owners, owner: int, *, loader: str = "", least: int = LEAST_NS
) -> Pauses | None:
    """Return the pauses of an owner of `least` ns or more; None where no thread of it is known to launch device work.

    loader: as in `loaders.find`.
    """
    devices = _devices.find(index)
    own = owners.codes[devices.rows] == owner
    launch = launches_of(index, devices.rows).launch[own]
    launch = distinct(launch[launch >= 0], index.events.num_rows)
    if not launch.size:
        return None
    mask = index.kind_mask(_ACTIVE)
    loads = np.zeros(mask.size, np.bool_)
    loads[find_loaders(index, loader)] = True
    active = np.flatnonzero((mask | loads) & index.has("dur_ns") & ~index.has("device") & (owners.codes == owner))
    active = active[_on_threads_of(index, active, launch)]
    if not active.size:  # the launches are another owner's
        return None
    starts, ends = index.starts[active], index.starts[active] + index.lengths[active]
    first, last = merge(starts, ends)
    low, high = last[:-1], first[1:]
    by_end = np.argsort(ends, kind="stable")
    before = active[by_end[np.searchsorted(ends[by_end], low, "right") - 1]]
    del by_end
    by_start = np.argsort(starts, kind="stable")
    after = active[by_start[np.searchsorted(starts[by_start], high, "left")]]
    del by_start
    busy = merge(devices.starts[own], devices.ends[own])
    idle = high - low - (_steps.covered(busy, high) - _steps.covered(busy, low))
    around = _around(index, owners.codes == owner, after, low + (high - low) // 2)
    steps = _steps.find(index, owners)
    mine = steps.owner == owner
    stepping = merge(steps.starts[mine], (steps.starts + steps.durations)[mine])
    middle = low + (high - low) // 2
    in_step = _steps.covered(stepping, middle + 1) > _steps.covered(stepping, middle)
    kept = high - low >= least
    regular = _regular(index, before, after, kept)
    # A range around the whole run, such as main or serve, says nothing about the pause.
    span = int(ends.max() - starts.min())
    open_ = ~in_step & ((around < 0) | (index.lengths[around] > span // 2)) & (idle == high - low)
    by_name = waits(index, around)
    request = (regular & open_) | by_name
    return Pauses(low, high, before, after, around, idle, regular, request, in_step, by_name).only(kept)


def keys_of(index: TraceIndex, rows: I64) -> I64:
    """Return one number a row, equal exactly where the rows are of one thread."""
    return grouping.numbered(index.key(column, rows) for column in _THREAD)


def _on_threads_of(index: TraceIndex, rows: I64, others: I64) -> Mask:
    """Return which of these rows are of a thread that one of the other rows is of."""
    codes = [index.codes(column) for column in _THREAD]
    size = prod(len(labels) for _, labels in codes)
    if size > max(4 * rows.size, _FEW_THREADS):
        lanes = keys_of(index, np.concatenate((rows, others)))
        return np.isin(lanes[: rows.size], lanes[rows.size :])

    def threads(at: I64) -> I64:
        thread = np.zeros(at.size, np.int64)
        for code, labels in codes:
            thread *= len(labels)
            thread += code[at]
        return thread

    there = np.zeros(size, np.bool_)
    there[threads(others)] = True
    found = np.empty(rows.size, np.bool_)
    for first in range(0, rows.size, _BLOCK):
        found[first : first + _BLOCK] = there[threads(rows[first : first + _BLOCK])]
    return found


def _around(index: TraceIndex, own: Mask, after: I64, middle: I64) -> I64:
    """Return the innermost range that holds each time on the thread of these rows; -1 where none does."""
    ranges = np.flatnonzero(index.kind_mask(_RANGES) & index.has("dur_ns") & index.has("tid") & own)
    if not ranges.size or not after.size:
        return np.full(after.size, -1, np.int64)
    lanes = keys_of(index, np.concatenate((ranges, after)))
    starts = index.starts[ranges]
    at = innermost(lanes[: ranges.size], starts, starts + index.lengths[ranges], lanes[ranges.size :], middle)
    return np.append(ranges, -1)[at]


def _regular(index: TraceIndex, before: I64, after: I64, kept: Mask) -> Mask:
    """Return for each stretch whether many of those between rows of the same two names are pauses (`kept`)."""
    codes, names = index.texts("name")
    pair = codes[before].astype(np.int64) * (len(names) + 1) + codes[after]
    place = np.unique(pair, return_inverse=True)[1]
    every = np.bincount(place)
    pauses = np.bincount(place[kept], minlength=every.size)
    found: Mask = ((pauses >= LEAST_REGULAR) & (pauses >= REGULAR * every))[place]
    return found


def waits(index: TraceIndex, around: I64) -> Mask:
    """Return which of these rows, ranges, -1 for none, are named like a wait for work from outside."""
    codes, names = index.texts("name")
    found = around >= 0
    found[found] = rows_found(WAITS, names, codes[around[found]], LONGEST_NAME)
    return found
