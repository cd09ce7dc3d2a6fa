"""Host ranges as a tree, and the device work charged to the range that launched it.

The tree of a thread is that of `analysis.nesting`: a range belongs to the innermost one that contains it entirely.
Calls of the runtime and driver, and waits, are leaves: their time is no self time of the operator around them (as in
PyTorch's key_averages and Paddle's summary). Python frames of PyTorch's stacks are left out: they overlap user ranges
in part.

Device work is charged to the innermost range in which its launch call BEGAN, wherever and whenever it ran. Launches and
work are joined by (source, pid, correlation). Work whose launch is not in the trace, or began in no range, belongs into
a row "(unattributed)".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.analysis.intervals import I64
from tracekit.analysis.nesting import Tree, nest
from tracekit.analysis.segments import narrow
from tracekit.index import grouping
from tracekit.index.launches import launches_of
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex, join
from tracekit.schema import API_CALLS, DEVICE_WORK, HOST_RANGES, Kind

CALLS = API_CALLS | {Kind.SYNC}
KINDS = HOST_RANGES | CALLS | DEVICE_WORK
COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "source", "pid", "tid", "correlation"})
UNATTRIBUTED = "(unattributed)"
STACKS = frozenset({"kineto"})
"""Formats whose rows of kind python_op are frames of a stack, not operators."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Host:
    """Ranges and calls that have a thread and a duration, n of them, and m rows of device work.

    rows: shape (n,), rows of EVENTS. starts, ends: ns. tree: parents are places in `rows`. is_call: leaves that launch
    or wait. lanes: shape (n,), the thread of each.
    work, work_ns: shape (m,), rows of EVENTS and their durations; launch: the row of EVENTS that launched it, -1 where
    none is known; owner: the place in `rows` that is charged, -1 for none.
    """

    index: TraceIndex
    rows: I64
    starts: I64
    ends: I64
    lanes: I64
    is_call: Mask
    tree: Tree
    work: I64
    work_ns: I64
    launch: I64
    owner: I64
    negative: int

    @property
    def crossing(self) -> int:
        """The number of ranges that overlap another of their thread in part."""
        return int(np.count_nonzero((self.tree.crosses >= 0) & ~self.is_call))

    def places(self) -> I64:
        """Return for each row of EVENTS its place in `rows`, -1 for none."""
        at = np.full(self.index.events.num_rows, -1, np.int64)
        at[self.rows] = np.arange(self.rows.size)
        return at

    def own_work(self) -> tuple[I64, I64]:
        """Return shape (n,) twice: device ns and device events that each range launched itself."""
        charged = self.owner >= 0
        spent = np.zeros(self.rows.size, np.int64)
        np.add.at(spent, self.owner[charged], self.work_ns[charged])
        pieces = np.bincount(self.owner[charged], minlength=self.rows.size)
        return spent, pieces.astype(np.int64, copy=False)

    def with_children(self, values: I64) -> I64:
        """Return shape (n,): the values of each range and of all below it added up."""
        total = values.copy()
        for here in reversed(self.levels()[1:]):
            np.add.at(total, self.tree.parent[here], total[here])
        return total

    def nearest(self, wanted: Mask) -> I64:
        """Return shape (n,): each range that is wanted itself, else the innermost wanted one around it; -1 for none."""
        found = np.where(wanted, np.arange(self.rows.size), -1)
        for here in self.levels()[1:]:
            lacking = here[found[here] < 0]
            found[lacking] = found[self.tree.parent[lacking]]
        return found

    def levels(self) -> list[I64]:
        """Return the places of each depth, roots first."""
        if not self.rows.size:
            return []
        by_depth = np.argsort(narrow(self.tree.depth), kind="stable")
        return np.split(by_depth, np.cumsum(np.bincount(self.tree.depth))[:-1])

    def notes(self, no_call: int = 0, no_thread: int = 0) -> list[str]:
        """Return the notes on the tree and on the charges.

        no_call, no_thread: pieces without a launch call, and with one without a thread, that are named elsewhere.
        """
        out = []
        if self.crossing:
            verb = "overlaps" if self.crossing == 1 else "overlap"
            out.append(
                f"{grouping.plural('range', self.crossing)} {verb} another of the same thread in part: neither is "
                "part of the other, and self times count their common time once"
            )
        if not self.work.size:
            return out
        lost = int(np.count_nonzero(self.launch < 0)) - no_call
        outside = int(np.count_nonzero((self.owner < 0) & (self.launch >= 0))) - no_thread
        if lost:
            out.append(f"{lost:,} of {grouping.plural('device event', self.work.size)} have no launch call here")
        if outside:
            out.append(f"{outside:,} of {grouping.plural('device event', self.work.size)} were launched outside ranges")
        return out


def ends_of(starts: I64, durations: I64) -> I64:
    """Return starts + durations, the last instant of int64 where that is beyond it. durations: not negative."""
    ends = starts + durations
    ends[ends < starts] = grouping.INT64_MAX
    return ends


@join
def host(index: TraceIndex) -> Host:
    """Return the tree and the charges. Raises: TracekitError where device times add up to more than int64 holds."""
    ranges = index.kind_mask(HOST_RANGES) & ~_frames(index)
    calls = index.kind_mask(CALLS)
    timed = index.has("dur_ns")
    on_thread = timed & index.has("tid")
    rows = np.flatnonzero((ranges | calls) & on_thread)
    every_start, every_length = index.starts, index.ints("dur_ns")
    starts, durations = every_start[rows], every_length[rows]
    negative = int(np.count_nonzero(durations < 0))
    ends = ends_of(starts, np.maximum(durations, 0))
    lanes = lanes_of(index, rows)
    is_call = calls[rows]
    tree = nest(lanes, starts, ends)
    work = np.flatnonzero(index.kind_mask(DEVICE_WORK) & timed)
    work_ns = np.maximum(every_length[work], 0)
    if float(work_ns.sum(dtype=np.float64)) >= float(grouping.INT64_MAX):
        raise grouping.too_long()
    launch = launches_of(index, work).launch
    owner = np.full(work.size, -1, np.int64)
    if work.size and rows.size:
        owner = _owners(index, launch, rows, lanes, starts, ends, is_call, tree)
    return Host(index, rows, starts, ends, lanes, is_call, tree, work, work_ns, launch, owner, negative)


def lanes_of(index: TraceIndex, rows: I64) -> I64:
    """Return the number of the thread of each row: rows of one (source, pid, tid) share it."""
    return grouping.numbered(index.key(name, rows) for name in ("source", "pid", "tid"))


def _frames(index: TraceIndex) -> Mask:
    """Return for each row whether it is a frame of Python's stack."""
    numbers = [number for number, facts in facts_by_source(index).items() if facts.format in STACKS]
    if not numbers:
        return np.zeros(index.events.num_rows, np.bool_)
    of_stack = np.isin(index.ints("source"), numbers)
    return of_stack & index.kind_mask({Kind.PYTHON_OP})


def _owners(
    index: TraceIndex, launch: I64, rows: I64, lanes: I64, starts: I64, ends: I64, is_call: Mask, tree: Tree
) -> I64:
    """Return the place of the range that each device event is charged to, -1 for none."""
    at = np.full(index.events.num_rows, -1, np.int64)
    at[rows] = np.arange(rows.size)
    place = np.where(launch >= 0, at[launch], -1)
    parent = tree.parent
    if (tree.crosses[is_call] >= 0).any():
        # Rounded times let calls stick out of the range they are in: where they BEGAN is what counts.
        first = np.where(is_call, starts, ends)
        parent = nest(lanes, starts, first).parent
    owner = np.where(place >= 0, parent[place], -1)
    # A call within a call (driver within runtime) is not what launched.
    while (within := (owner >= 0) & is_call[owner]).any():
        owner = np.where(within, parent[owner], owner)
    return owner
