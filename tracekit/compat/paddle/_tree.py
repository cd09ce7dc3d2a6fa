"""The event trees of Paddle's statistics: host events by thread, the runtime calls on them, the device work of these.

The rules (Paddle 2.2 to 3.x):

* a host event is the child of the innermost one of its thread around it; a runtime call and an allocation belong to
  the innermost host event that holds them, its ends included, else to the root of their thread;
* device work belongs to the call of its correlation id, of several calls to the last one; without a call it is dropped,
  and counted here;
* threads are visited by id, the nodes of each from the root, the last child first. Tables that Paddle does not sort
  keep that order, and so do rows that its sort finds equal.

Files of several processes are taken as threads of one. Source: event_node.cc and profiler_statistic.py of Paddle 2.6
and 3.0, as their own tables show them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.analysis.intervals import I64, union_length
from tracekit.analysis.links import link
from tracekit.analysis.nesting import nest
from tracekit.columns.arrays import Mask
from tracekit.compat.paddle import _order
from tracekit.compat.paddle._columns import CALL, HOST_TYPES, JSON, Columns, code_of
from tracekit.index.grouping import kind_mask, plural
from tracekit.index.trace_index import TraceIndex
from tracekit.schema import Kind


@dataclass(frozen=True, slots=True, eq=False)
class Hosts:
    """Host events, shape (n,) each, by thread, start, longest first: what is below a node follows it.

    rows: in EVENTS. parent: a node, -1: the root of the thread. seen: the node's place in Paddle's order of visits.
    blurred: starts may be off by some ns, durations and parents not.
    """

    rows: I64
    thread: I64
    kind: I64
    name: I64
    start: I64
    end: I64
    parent: I64
    depth: I64
    seen: I64
    blurred: bool

    def covered(self, wanted: Mask) -> int:
        """Return the ns that the wanted nodes cover, on all threads together.

        Where times are blurred those of one thread, which lie within each other or apart, are the sum of the outermost.
        """
        if self.blurred and np.unique(self.thread[wanted]).size == 1:
            outermost = wanted & ~_order.below(self.parent, self.depth, wanted)
            return int((self.end - self.start)[outermost].sum())
        return union_length(self.start[wanted], self.end[wanted])

    def is_kind(self, *types: str) -> Mask:
        """Return which nodes are of these types."""
        found: Mask = code_of(*types)[self.kind]
        return found

    def sum_up(self, owner: I64, values: I64) -> I64:
        """Return for each node the sum of the values that it and all nodes below it own; owner -1: none."""
        own = np.zeros(self.rows.size, np.int64)
        np.add.at(own, owner[owner >= 0], values[owner >= 0])
        return _order.sum_up(self.parent, self.depth, own)


@dataclass(frozen=True, slots=True, eq=False)
class Attached:
    """Runtime calls, device work or allocations that belong to host events, shape (m,) each, in Paddle's order.

    rows: in EVENTS. thread: of the host side. owner: host node, -1: the root of the thread.
    """

    rows: I64
    thread: I64
    owner: I64

    def taken(self, order: npt.NDArray[np.intp] | Mask) -> Attached:
        """Return these rows of it."""
        return Attached(self.rows[order], self.thread[order], self.owner[order])


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """The trees of a trace. kind, name: of each row of EVENTS, counting into TYPES and `names`.

    threads: (source, pid, tid). memory: empty unless it was asked for.
    """

    columns: Columns
    kind: I64
    name: I64
    names: list[str]
    threads: list[tuple[int, int | None, int]]
    hosts: Hosts
    calls: Attached
    work: Attached
    memory: Attached
    notes: tuple[str, ...]

    def work_is(self, *types: str) -> Mask:
        """Return which rows of `work` are of these types."""
        found: Mask = code_of(*types)[self.kind[self.work.rows]]
        return found

    @property
    def step_ns(self) -> int:
        """T: the union over all threads of the ProfileStep ranges."""
        return self.hosts.covered(self.hosts.is_kind("ProfileStep"))

    @property
    def work_ns(self) -> I64:
        """Durations of the device work."""
        return self.columns.end[self.work.rows] - self.columns.start[self.work.rows]


def forest(index: TraceIndex, *, launches: bool = False, memory: bool = False) -> Forest:
    """Return the trees of a trace, of allocations too where wanted.

    launches: tell launches of kernels from OperatorInner, which needs the column `args`.
    """
    columns = Columns(index)
    kind = columns.kinds(launches=launches)
    name, names = columns.names()
    is_host, is_call = (kind >= 0) & (kind < HOST_TYPES), kind == CALL
    is_memory = kind_mask(index.events, {Kind.MEMORY}) if memory else np.zeros(kind.size, np.bool_)
    lane, threads = _lanes(columns, ((is_host | is_call) & columns.timed) | is_memory)
    notes = []
    if lost := int(np.count_nonzero((is_host | is_call) & (lane < 0))):
        notes.append(f"{plural('host row', lost)} without a thread or a duration: in no tree of Paddle's")
    hosts, crossing = _hosts(columns, np.flatnonzero(is_host & (lane >= 0)), lane, kind, name)
    if hosts.blurred and (off := int(columns.slack()[hosts.rows].max()) // 2) > 1:
        notes.append(f"Paddle's JSON has times beyond 16 ms as 32-bit floats: starts are good to {off:,} ns here")
    if crossing:
        notes.append(
            f"{plural('range', crossing)} crossing another of the same thread: Paddle stops with an error there"
        )
    calls = attach(columns, hosts, np.flatnonzero(is_call & (lane >= 0)), lane)
    held = attach(columns, hosts, np.flatnonzero(is_memory & (lane >= 0)), lane)
    work, orphans = _work(columns, calls, kind)
    if orphans:
        notes.append(
            f"{plural('row', orphans)} of device work without a launch: Paddle drops these, so none is counted"
        )
    return Forest(columns, kind, name, names, threads, hosts, calls, work, held, tuple(notes))


def _lanes(columns: Columns, wanted: Mask) -> tuple[I64, list[tuple[int, int | None, int]]]:
    """Return the thread of each wanted row, -1 for other rows; and the threads, by source and id."""
    tid, known = columns.numbers("tid")
    pid, has_pid = columns.numbers("pid")
    rows = np.flatnonzero(wanted & known)
    keys = np.stack((columns.source[rows], tid[rows], np.where(has_pid, pid, -1)[rows]))
    lane = np.full(columns.start.size, -1, np.int64)
    # Unsigned, as Paddle sorts ids; and by column, which is faster than numpy's unique of rows.
    order = np.lexsort((keys[2], keys[1].astype(np.uint64), keys[0]))
    keys = keys[:, order]
    fresh = np.ones(order.size, np.bool_)
    fresh[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    lane[rows[order]] = np.cumsum(fresh) - 1
    found = keys[:, fresh].T.tolist()
    return lane, [(source, None if pid_ == -1 else pid_, tid_) for source, tid_, pid_ in found]


def _hosts(columns: Columns, rows: I64, lane: I64, kind: I64, name: I64) -> tuple[Hosts, int]:
    """Return the host events as trees, and how many ranges cross another."""
    order = np.lexsort((columns.event_id[rows], ~columns.end[rows], columns.start[rows], lane[rows]))
    rows = rows[order]
    thread, start, end = lane[rows], columns.start[rows], columns.end[rows]
    tree = nest(thread, start, end)
    parent, depth, crosses = tree.parent, tree.depth, tree.crosses >= 0
    blurred = columns.in_order_of_file()[rows] & columns.of_format(JSON)[rows]
    if blurred.any():
        by_time = (parent, depth, crosses)
        order, parent, depth, crosses = _order.rebuilt(
            thread, start, end, columns.event_id[rows], columns.slack()[rows], by_time, blurred
        )
        rows, thread, start, end = rows[order], thread[order], start[order], end[order]
    # Visits, last child first, are the reverse of the order in which nodes end, children before their parents.
    below = _order.sum_up(parent, depth, np.ones(rows.size, np.int64))
    first = np.searchsorted(thread, thread)
    beyond = np.searchsorted(thread, thread, "right")
    seen = beyond - (np.arange(rows.size) - first + below - depth)
    hosts = Hosts(rows, thread, kind[rows], name[rows], start, end, parent, depth, seen, bool(blurred.any()))
    return hosts, int(np.count_nonzero(crosses))


def attach(columns: Columns, hosts: Hosts, rows: I64, lane: I64) -> Attached:
    """Return rows, each with the host event that holds it, in Paddle's order. lane: thread of each row of EVENTS."""
    thread, start, end = lane[rows], columns.start[rows], columns.end[rows]
    nodes = _order.Nodes(hosts.thread, hosts.start, hosts.end, hosts.parent)
    owner = _order.around(thread, start, end, nodes)
    in_order = columns.in_order_of_file()
    written = in_order[rows]
    if written.any():
        own = np.flatnonzero(in_order[hosts.rows])
        places = _order.Places(own, columns.source[hosts.rows[own]], columns.event_id[hosts.rows[own]])
        rows_written = rows[written]
        owner[written] = _order.as_written(
            thread[written],
            start[written],
            end[written],
            columns.source[rows_written],
            columns.event_id[rows_written],
            owner[written],
            nodes,
            places,
        )
    seen = np.append(hosts.seen, -1)[owner]  # a root is visited before all nodes of its thread
    return Attached(rows, thread, owner).taken(np.lexsort((columns.event_id[rows], ~end, start, seen, thread)))


def _work(columns: Columns, calls: Attached, kind: I64) -> tuple[Attached, int]:
    """Return the device work with the owners of its calls, and how many rows have no call."""
    rows = np.flatnonzero((kind > CALL) & columns.timed)
    number, known = columns.numbers("correlation")
    pid, has_pid = columns.numbers("pid")
    # Paddle keeps the last call of an id: `link` the first, so the calls go in backwards.
    backwards = np.lexsort((columns.event_id[calls.rows], columns.start[calls.rows]))[::-1]
    launches = calls.rows[backwards]
    same_process = has_pid[rows].all()
    process = pid if same_process else np.zeros_like(pid)
    found = link(
        np.stack((columns.source[launches], process[launches], number[launches]), axis=1),
        np.stack((columns.source[rows], process[rows], number[rows]), axis=1),
        launch_known=known[launches],
        device_known=known[rows],
    )
    call = np.append(backwards, -1)[found.launch]
    # In Paddle's files device work follows its call, whatever other calls have its id.
    in_order = columns.in_order_of_file()
    own = np.flatnonzero(in_order[calls.rows])
    places = _order.Places(own, columns.source[calls.rows[own]], columns.event_id[calls.rows[own]])
    before = _order.written_before(columns.source[rows], columns.event_id[rows], places)
    follows_call = in_order[rows] & (before >= 0) & (call >= 0)
    follows_call[follows_call] = number[calls.rows[before[follows_call]]] == number[rows[follows_call]]
    call[follows_call] = before[follows_call]
    linked = call >= 0
    call, rows = call[linked], rows[linked]
    order = np.lexsort((columns.event_id[rows], call))
    return Attached(rows, calls.thread[call], calls.owner[call]).taken(order), found.orphans
