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

from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.analysis.intervals import union_length
from tracekit.analysis.links import link
from tracekit.analysis.nesting import nest
from tracekit.index.grouping import kind_mask
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.messages import DEVICE_TYPES_BY_KIND, HOST_TYPES_BY_KIND
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Mask, pc
from tracekit.model.arrow import Column as ArrowColumn
from tracekit.model.display import plural
from tracekit.model.schema import Kind
from tracekit.model.trace import text_codes

__all__ = [
    "CALL",
    "PADDLE_FORMATS",
    "TREE_COLUMNS",
    "TYPES",
    "Forest",
    "PaddleColumns",
    "forest",
    "matching",
    "rows_below",
]

# Columns of EVENTS as Paddle's statistics take them: types by Paddle's names, names as the file spells them.


_HOST: Final = {**HOST_TYPES_BY_KIND, Kind.OTHER: "Other"}
_LAUNCHES: Mapping[str, int] = MappingProxyType({"DygraphKernelLaunch": 15, "StaticKernelLaunch": 16})
"""Types that our readers take for OperatorInner, and keep in `args` by name or by number."""
_CALL: Final = "CudaRuntime"

TYPES: Final = (*_HOST.values(), *_LAUNCHES, _CALL, *DEVICE_TYPES_BY_KIND.values())
"""Paddle's types of events that are in its trees; the codes of kinds count into it."""
HOST_TYPES: Final = len(_HOST) + len(_LAUNCHES)
CALL: Final = TYPES.index(_CALL)
JSON: Final = "paddle-json"
PADDLE_FORMATS: Final = ("paddle-pb", JSON)

TREE_COLUMNS: Final = frozenset(
    {
        "ts_ns",
        "dur_ns",
        "event_id",
        "kind",
        "name",
        "raw_name",
        "source",
        "pid",
        "tid",
        "device",
        "correlation",
    }
)
"""What the trees need."""


def code_of(*types: str) -> Mask:
    """Return which codes of kinds are of these types: shape (len(TYPES),)."""
    return np.array([name in types for name in TYPES], np.bool_)


def matching(texts: ArrowColumn, pattern: str) -> Mask:
    """Return which texts have the pattern in them; a null has none."""
    return arrow.bools(pc.match_substring_regex(texts, pattern))


class PaddleColumns:
    """Columns as arrays of shape (rows of EVENTS,)."""

    def __init__(self, index: TraceIndex) -> None:
        events = index.events
        self.index = index
        self.start: I64 = events.column("ts_ns").to_numpy()
        dur = events.column("dur_ns")
        self.timed: Mask = dur.is_valid().to_numpy()
        self.end: I64 = self.start + np.maximum(arrow.ints(dur), 0)
        self.event_id: I64 = events.column("event_id").to_numpy()
        self.source: I64 = arrow.ints(events.column("source"))
        self._facts = facts_by_source(index)

    def numbers(self, column: str) -> tuple[I64, Mask]:
        """Return a column's values, 0 for null, and where it has one."""
        values = self.index.events.column(column)
        known: Mask = values.is_valid().to_numpy()
        return arrow.ints(values), known

    def of_format(self, *formats: str) -> Mask:
        """Return which rows come from files of these formats."""
        wanted = [number for number, facts in self._facts.items() if facts.format in formats]
        of_formats: Mask = np.isin(self.source, wanted)
        return of_formats

    def in_order_of_file(self) -> Mask:
        """Return which rows come from Paddle's files, with nothing filtered away: their order tells who holds whom."""
        cut = [ledger.source for ledger in self.index.ledgers if ledger.filtered]
        whole: Mask = self.of_format(*PADDLE_FORMATS) & ~np.isin(self.source, cut)
        return whole

    def slack(self) -> I64:
        """Return by how many ns two times of Paddle's JSON may disagree: twice what each may be off."""
        off = np.full(self.start.size, 1000, np.int64)
        for number, facts in self._facts.items():
            base = facts.facts.get("base_uncertainty_ns")
            rows = np.flatnonzero(self.source == number) if isinstance(base, int) else np.zeros(0, np.intp)
            if rows.size:
                since = (self.end[rows] - self.start[rows].min()).astype(np.float64)
                # Paddle makes a 32-bit float of the ns, then one of the us.
                steps = np.spacing(since.astype(np.float32)) / 2 + np.spacing((since / 1000).astype(np.float32)) * 500
                off[rows] = np.minimum(np.ceil(steps).astype(np.int64) + base, 1000)
        return 2 * off + 1

    def names(self) -> tuple[I64, list[str]]:
        """Return the code of each row's name, and the names."""
        plain, texts = text_codes(self.index.events.column("name"))
        raw, raws = text_codes(self.index.events.column("raw_name"))
        number: dict[str, int] = {}
        of_plain = np.array([number.setdefault(text or "", len(number)) for text in (*texts, "")], np.int64)
        of_raw = np.array([number.setdefault(text or "", len(number)) for text in (*raws, "")], np.int64)
        return np.where(raw >= 0, of_raw[raw], of_plain[plain]), list(number)

    def args(self, rows: I64) -> ArrowColumn:
        """Return the column `args` of these rows."""
        return pa.concat_arrays(
            arrow.take(self.index.events.column("args"), rows).chunks or [pa.array([], pa.string())]
        )

    def kinds(self, *, launches: bool) -> I64:
        """Return the code of each row's type, -1 for what is in no tree.

        launches: tell launches of kernels from OperatorInner, which needs the column `args`.
        """
        number = {str(kind): TYPES.index(name) for kind, name in (*_HOST.items(), *DEVICE_TYPES_BY_KIND.items())}
        number |= {str(Kind.RUNTIME): CALL, str(Kind.DRIVER): CALL}
        codes, texts = text_codes(self.index.events.column("kind"))
        kind: I64 = np.array([number.get(text, -1) for text in texts] + [-1], np.int64)[codes]
        # Types that a newer Paddle adds are nodes of its trees; `other` of other tools is anything.
        kind[(kind == TYPES.index("Other")) & ~self.of_format(*PADDLE_FORMATS)] = -1
        if launches and any(facts.format in PADDLE_FORMATS for facts in self._facts.values()):
            # Of every source: our Profiler joins the rows of Paddle's tracer with those of its own log.
            inner = np.flatnonzero(kind == TYPES.index("OperatorInner"))
            args = self.args(inner)
            for name, type_number in _LAUNCHES.items():
                kind[inner[matching(args, rf'"(cat":"{name}"|type":{type_number}[,}}])')]] = TYPES.index(name)
        return kind


# The parents in Paddle's trees, by time; in its own files by the order of records, where times leave it open.
#
# Paddle's JSON cuts the times of allocations to whole us, and starts after the first 16 ms to what a 32-bit float of us
# holds. But both of its formats hold the nodes of a thread level by level, and what belongs to a node right after it
# (chrometracing_logger.cc, serialization_logger.cc), so the order gives what the times do not.


_BLUR_NS = 1000
"""How far times of the JSON are off at most: each is within its us."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeNodes:
    """Host nodes, shape (n,) each, by thread, start, longest first."""

    thread: I64
    start: I64
    end: I64
    parent: I64


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The places of nodes in their files. node: the nodes; source, record: arrays of its shape."""

    node: npt.NDArray[np.intp]
    source: I64
    record: I64


def levels(depth: I64) -> Iterable[npt.NDArray[np.intp]]:
    """Return the rows of each depth from 1 on, upper levels first."""
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(1, int(depth.max(initial=0)) + 2))
    return [order[a:b] for a, b in pairwise(bounds.tolist())]


def sum_up(parent: I64, depth: I64, values: I64) -> I64:
    """Return the sum of each node's value and those of all nodes below it."""
    total = values.copy()
    for rows in reversed(list(levels(depth))):
        np.add.at(total, parent[rows], total[rows])
    return total


def rows_below(parent: I64, depth: I64, marked: Mask) -> Mask:
    """Return which nodes have a marked one above them."""
    below = np.zeros(parent.size, np.bool_)
    for rows in levels(depth):
        below[rows] = below[parent[rows]] | marked[parent[rows]]
    return below


def around(thread: I64, start: I64, end: I64, nodes: TreeNodes) -> I64:
    """Return the innermost node around each row, its ends included; -1 for none.

    Where one node ends as another begins, an instant there belongs to the first.
    """
    owner = _climb(_last_begun(thread, start, nodes), end, nodes)
    instant = np.flatnonzero(start == end)
    before = _climb(_last_begun(thread[instant], start[instant] - 1, nodes), end[instant], nodes)
    ends_here = before >= 0
    ends_here[ends_here] = nodes.end[before[ends_here]] == end[instant[ends_here]]
    owner[instant[ends_here]] = before[ends_here]
    return owner


def _last_begun(thread: I64, at: I64, nodes: TreeNodes) -> I64:
    """Return for each row the last node of its thread that begins no later; -1 for none."""
    count = nodes.thread.size
    lanes = np.concatenate((nodes.thread, thread))
    # Stable: nodes come before rows of the same time.
    order = np.lexsort((np.concatenate((nodes.start, at)), lanes))
    last = np.empty(lanes.size, np.int64)
    last[order] = np.cumsum(order < count) - 1
    node = last[count:]
    there = np.flatnonzero(node >= 0)
    node[there[nodes.thread[node[there]] != thread[there]]] = -1
    return node


def _climb(node: I64, end: I64, nodes: TreeNodes) -> I64:
    """Go up from each node until one ends no earlier than the row."""
    short = np.flatnonzero(node >= 0)
    while short.size:
        short = short[nodes.end[node[short]] < end[short]]
        node[short] = nodes.parent[node[short]]
        short = short[node[short] >= 0]
    return node


def as_written(
    thread: I64, start: I64, end: I64, source: I64, record: I64, by_time: I64, nodes: TreeNodes, places: Places
) -> I64:
    """Return the owners that the order of the file tells: the last node before the row, or the root.

    Before the first node of its thread a row belongs to the root. Where the node is nowhere near the row, as in a file
    from which rows were filtered away, times decide.
    """
    node = written_before(source, record, places)
    same_thread = node >= 0
    same_thread[same_thread] = nodes.thread[node[same_thread]] == thread[same_thread]
    node[~same_thread] = -1
    # What the file says may be off by the blur, and no more.
    wrong = _far(node, start, end, nodes, _BLUR_NS, missing=False)
    wrong |= ~same_thread & ~_far(by_time, start, end, nodes, -_BLUR_NS, missing=True)
    return np.where(wrong, by_time, node)


def written_before(source: I64, record: I64, places: Places) -> I64:
    """Return for each record the last node before it in its file, -1 for none."""
    order = np.lexsort((np.concatenate((places.record, record)), np.concatenate((places.source, source))))
    in_file = places.node[np.lexsort((places.record, places.source))]
    last = np.empty(order.size, np.int64)
    last[order] = np.cumsum(order < places.node.size) - 1
    node: I64 = np.append(in_file, -1)[last[places.node.size :]]
    return node


def _far(node: I64, start: I64, end: I64, nodes: TreeNodes, slack: int, *, missing: bool) -> Mask:
    """Return whether a row sticks out of its node by more than `slack`; `missing` where there is no node."""
    far = np.full(node.size, missing, np.bool_)
    has = np.flatnonzero(node >= 0)
    node_of_row = node[has]
    far[has] = (nodes.start[node_of_row] > start[has] + slack) | (nodes.end[node_of_row] + slack < end[has])
    return far


def rebuilt(
    thread: I64, start: I64, end: I64, record: I64, slack: I64, tree: tuple[I64, I64, Mask], written: Mask
) -> tuple[npt.NDArray[np.intp], I64, I64, Mask]:
    """Return the trees; those of JSON files follow the order of their records.

    All of shape (n,), by thread, start, longest first. slack: by how many ns two times of a row may disagree; tree:
    parents, depths and which rows cross another, by time; written: the rows of JSON files. Returned: the new order of
    rows (a node, then all below it), and a tree in that order. Where the order of a file makes no sense, times decide.
    """
    parent, depth, crosses = tree[0].copy(), tree[1].copy(), tree[2].copy()
    order = np.arange(thread.size)
    in_file = np.lexsort((record, thread))
    for lane in sets.unique(thread[written]).tolist():
        low, high = (int(np.searchsorted(thread, lane, side)) for side in ("left", "right"))
        rows = in_file[low:high]  # a lane is as long in one order as in the other
        by_level = by_levels(start[rows], end[rows], slack[rows])
        if by_level is None:
            continue
        within, above, deep = _depth_first(*by_level)
        order[low:high] = rows[within]
        parent[low:high] = np.where(above >= 0, above + low, -1)
        depth[low:high] = deep
        crosses[low:high] = False
    return order, parent, depth, crosses


def by_levels(start: I64, end: I64, slack: I64) -> tuple[I64, I64] | None:
    """Return parents (-1: the root) and levels of nodes that are written level by level, each by time.

    The nodes of a level lie apart, so that a level ends where time goes back; a node's parent is the one of the level
    above that holds it, or lacks the least of holding it. None: more is lacking than `slack`, so the order is another.
    """
    back = start[1:] < end[:-1] - slack[1:]
    level = np.concatenate(([0], np.cumsum(back)))
    parent = np.full(start.size, -1, np.int64)
    bounds = np.searchsorted(level, np.arange(int(level.max(initial=0)) + 2))
    for upper, (low, high) in zip(bounds.tolist(), pairwise(bounds[1:].tolist()), strict=False):
        middle = start[low:high] + (end[low:high] - start[low:high]) // 2
        at = upper + np.searchsorted(np.maximum.accumulate(start[upper:low]), middle, "right") - 1
        best = np.clip(at, upper, low - 1)
        lack = _lack(best, start, end, low, high)
        for other in (np.clip(at - 1, upper, low - 1), np.clip(at + 1, upper, low - 1)):
            less = _lack(other, start, end, low, high)
            best, lack = np.where(less < lack, other, best), np.minimum(less, lack)
        best = np.maximum.accumulate(best)  # children are in the order of their parents
        if (_lack(best, start, end, low, high) > slack[low:high]).any():
            return None
        parent[low:high] = best
    return parent, level


def _lack(node: I64, start: I64, end: I64, low: int, high: int) -> I64:
    """Return by how many ns each of the rows low..high sticks out of its node."""
    lack: I64 = np.maximum(start[node] - start[low:high], 0) + np.maximum(end[low:high] - end[node], 0)
    return lack


def _depth_first(parent: I64, level: I64) -> tuple[npt.NDArray[np.intp], I64, I64]:
    """Return nodes in the order a node, then all below it; with their parents' places in that order, and levels.

    parent, level: of nodes written level by level.
    """
    # A node's place is its parent's, behind it by one and by all that its elder siblings hold.
    size = sum_up(parent, level, np.ones(parent.size, np.int64))
    place = np.zeros(parent.size, np.int64)
    for rows in [np.flatnonzero(level == 0), *levels(level)]:
        above = parent[rows]
        total = np.cumsum(size[rows]) - size[rows]
        first = np.concatenate(([True], above[1:] != above[:-1]))
        since = total - np.maximum.accumulate(np.where(first, total, 0))
        place[rows] = since + np.where(above >= 0, place[above] + 1, 0)
    order = np.argsort(place, kind="stable")
    return order, np.append(place, -1)[parent][order], level[order]


@dataclass(frozen=True, slots=True, eq=False)
class PaddleHosts:
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
        if self.blurred and sets.unique(self.thread[wanted]).size == 1:
            outermost = wanted & ~rows_below(self.parent, self.depth, wanted)
            return int((self.end - self.start)[outermost].sum())
        return union_length(self.start[wanted], self.end[wanted])

    def is_kind(self, *types: str) -> Mask:
        """Return which nodes are of these types."""
        of_types: Mask = code_of(*types)[self.kind]
        return of_types

    def sum_up(self, owner: I64, values: I64) -> I64:
        """Return for each node the sum of the values that it and all nodes below it own; owner -1: none."""
        owned = np.zeros(self.rows.size, np.int64)
        np.add.at(owned, owner[owner >= 0], values[owner >= 0])
        return sum_up(self.parent, self.depth, owned)


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

    columns: PaddleColumns
    kind: I64
    name: I64
    names: list[str]
    threads: list[tuple[int, int | None, int]]
    hosts: PaddleHosts
    calls: Attached
    work: Attached
    memory: Attached
    notes: tuple[str, ...]

    def work_is(self, *types: str) -> Mask:
        """Return which rows of `work` are of these types."""
        of_types: Mask = code_of(*types)[self.kind[self.work.rows]]
        return of_types

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
    columns = PaddleColumns(index)
    kind = columns.kinds(launches=launches)
    name, names = columns.names()
    is_host, is_call = (kind >= 0) & (kind < HOST_TYPES), kind == CALL
    is_memory = kind_mask(index.events, {Kind.MEMORY}) if memory else np.zeros(kind.size, np.bool_)
    lane, threads = _lanes(columns, ((is_host | is_call) & columns.timed) | is_memory)
    notes = []
    if lost := int(np.count_nonzero((is_host | is_call) & (lane < 0))):
        notes.append(f"{plural(lost, 'host row')} without a thread or a duration: in no tree of Paddle's")
    hosts, crossing = _hosts(columns, np.flatnonzero(is_host & (lane >= 0)), lane, kind, name)
    if hosts.blurred and (off := int(columns.slack()[hosts.rows].max()) // 2) > 1:
        notes.append(f"Paddle's JSON has times beyond 16 ms as 32-bit floats: starts are good to {off:,} ns here")
    if crossing:
        notes.append(
            f"{plural(crossing, 'range')} crossing another of the same thread: Paddle stops with an error there"
        )
    calls = attach(columns, hosts, np.flatnonzero(is_call & (lane >= 0)), lane)
    held = attach(columns, hosts, np.flatnonzero(is_memory & (lane >= 0)), lane)
    work, orphans = _work(columns, calls, kind)
    if orphans:
        notes.append(
            f"{plural(orphans, 'row')} of device work without a launch: Paddle drops these, so none is counted"
        )
    return Forest(columns, kind, name, names, threads, hosts, calls, work, held, tuple(notes))


def _lanes(columns: PaddleColumns, wanted: Mask) -> tuple[I64, list[tuple[int, int | None, int]]]:
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
    lanes = keys[:, fresh].T.tolist()
    return lane, [(source, None if pid_ == -1 else pid_, tid_) for source, tid_, pid_ in lanes]


def _hosts(columns: PaddleColumns, rows: I64, lane: I64, kind: I64, name: I64) -> tuple[PaddleHosts, int]:
    """Return the host events as trees, and how many ranges cross another."""
    order = np.lexsort((columns.event_id[rows], ~columns.end[rows], columns.start[rows], lane[rows]))
    rows = rows[order]
    thread, start, end = lane[rows], columns.start[rows], columns.end[rows]
    tree = nest(thread, start, end)
    parent, depth, crosses = tree.parent, tree.depth, tree.crosses >= 0
    blurred = columns.in_order_of_file()[rows] & columns.of_format(JSON)[rows]
    if blurred.any():
        by_time = (parent, depth, crosses)
        order, parent, depth, crosses = rebuilt(
            thread, start, end, columns.event_id[rows], columns.slack()[rows], by_time, blurred
        )
        rows, thread, start, end = rows[order], thread[order], start[order], end[order]
    # Visits, last child first, are the reverse of the order in which nodes end, children before their parents.
    below = sum_up(parent, depth, np.ones(rows.size, np.int64))
    first = np.searchsorted(thread, thread)
    beyond = np.searchsorted(thread, thread, "right")
    seen = beyond - (np.arange(rows.size) - first + below - depth)
    hosts = PaddleHosts(rows, thread, kind[rows], name[rows], start, end, parent, depth, seen, bool(blurred.any()))
    return hosts, int(np.count_nonzero(crosses))


def attach(columns: PaddleColumns, hosts: PaddleHosts, rows: I64, lane: I64) -> Attached:
    """Return rows, each with the host event that holds it, in Paddle's order. lane: thread of each row of EVENTS."""
    thread, start, end = lane[rows], columns.start[rows], columns.end[rows]
    nodes = TreeNodes(hosts.thread, hosts.start, hosts.end, hosts.parent)
    owner = around(thread, start, end, nodes)
    in_order = columns.in_order_of_file()
    written = in_order[rows]
    if written.any():
        in_file_order = np.flatnonzero(in_order[hosts.rows])
        places = Places(
            in_file_order, columns.source[hosts.rows[in_file_order]], columns.event_id[hosts.rows[in_file_order]]
        )
        rows_written = rows[written]
        owner[written] = as_written(
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


def _work(columns: PaddleColumns, calls: Attached, kind: I64) -> tuple[Attached, int]:
    """Return the device work with the owners of its calls, and how many rows have no call."""
    rows = np.flatnonzero((kind > CALL) & columns.timed)
    number, known = columns.numbers("correlation")
    pid, has_pid = columns.numbers("pid")
    # Paddle keeps the last call of an id: `link` the first, so the calls go in backwards.
    backwards = np.lexsort((columns.event_id[calls.rows], columns.start[calls.rows]))[::-1]
    launches = calls.rows[backwards]
    same_process = has_pid[rows].all()
    process = pid if same_process else np.zeros_like(pid)
    call_links = link(
        np.stack((columns.source[launches], process[launches], number[launches]), axis=1),
        np.stack((columns.source[rows], process[rows], number[rows]), axis=1),
        launch_known=known[launches],
        device_known=known[rows],
    )
    call = np.append(backwards, -1)[call_links.launch]
    # In Paddle's files device work follows its call, whatever other calls have its id.
    in_order = columns.in_order_of_file()
    in_file_order = np.flatnonzero(in_order[calls.rows])
    places = Places(
        in_file_order, columns.source[calls.rows[in_file_order]], columns.event_id[calls.rows[in_file_order]]
    )
    before = written_before(columns.source[rows], columns.event_id[rows], places)
    follows_call = in_order[rows] & (before >= 0) & (call >= 0)
    follows_call[follows_call] = number[calls.rows[before[follows_call]]] == number[rows[follows_call]]
    call[follows_call] = before[follows_call]
    linked = call >= 0
    call, rows = call[linked], rows[linked]
    order = np.lexsort((columns.event_id[rows], call))
    return Attached(rows, calls.thread[call], calls.owner[call]).taken(order), call_links.orphans
