"""The parents in Paddle's trees, by time; in its own files by the order of records, where times leave it open.

Paddle's JSON cuts the times of allocations to whole us, and starts after the first 16 ms to what a 32-bit float of us
holds. But both of its formats hold the nodes of a thread level by level, and what belongs to a node right after it
(chrometracing_logger.cc, serialization_logger.cc), so the order gives what the times do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tracekit.analysis.intervals import I64

Mask = npt.NDArray[np.bool_]
_BLUR_NS = 1000
"""How far times of the JSON are off at most: each is within its us."""


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
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


def below(parent: I64, depth: I64, marked: Mask) -> Mask:
    """Return which nodes have a marked one above them."""
    found = np.zeros(parent.size, np.bool_)
    for rows in levels(depth):
        found[rows] = found[parent[rows]] | marked[parent[rows]]
    return found


def around(thread: I64, start: I64, end: I64, nodes: Nodes) -> I64:
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


def _last_begun(thread: I64, at: I64, nodes: Nodes) -> I64:
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


def _climb(node: I64, end: I64, nodes: Nodes) -> I64:
    """Go up from each node until one ends no earlier than the row."""
    short = np.flatnonzero(node >= 0)
    while short.size:
        short = short[nodes.end[node[short]] < end[short]]
        node[short] = nodes.parent[node[short]]
        short = short[node[short] >= 0]
    return node


def as_written(
    thread: I64, start: I64, end: I64, source: I64, record: I64, by_time: I64, nodes: Nodes, places: Places
) -> I64:
    """Return the owners that the order of the file tells: the last node before the row, or the root.

    Before the first node of its thread a row belongs to the root. Where the node is nowhere near the row, as in a file
    from which rows were filtered away, times decide.
    """
    node = written_before(source, record, places)
    mine = node >= 0
    mine[mine] = nodes.thread[node[mine]] == thread[mine]
    node[~mine] = -1
    # What the file says may be off by the blur, and no more.
    wrong = _far(node, start, end, nodes, _BLUR_NS, missing=False)
    wrong |= ~mine & ~_far(by_time, start, end, nodes, -_BLUR_NS, missing=True)
    return np.where(wrong, by_time, node)


def written_before(source: I64, record: I64, places: Places) -> I64:
    """Return for each record the last node before it in its file, -1 for none."""
    order = np.lexsort((np.concatenate((places.record, record)), np.concatenate((places.source, source))))
    in_file = places.node[np.lexsort((places.record, places.source))]
    last = np.empty(order.size, np.int64)
    last[order] = np.cumsum(order < places.node.size) - 1
    node: I64 = np.append(in_file, -1)[last[places.node.size :]]
    return node


def _far(node: I64, start: I64, end: I64, nodes: Nodes, slack: int, *, missing: bool) -> Mask:
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
    for lane in np.unique(thread[written]).tolist():
        low, high = (int(np.searchsorted(thread, lane, side)) for side in ("left", "right"))
        rows = in_file[low:high]  # a lane is as long in one order as in the other
        found = by_levels(start[rows], end[rows], slack[rows])
        if found is None:
            continue
        within, above, deep = _depth_first(*found)
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
