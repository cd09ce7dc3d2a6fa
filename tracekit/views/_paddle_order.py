"""Who holds whom in Paddle's trees, by time; in its JSON by the order of the file, where times leave it open.

Paddle's JSON cuts the times of allocations to whole us, and starts after the first 16 ms to what a 32-bit float of us
holds. But it writes the nodes of a thread level by level, and what belongs to a node right after it
(chrometracing_logger.cc), so the file says what its times do not.
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
"""How far times of the JSON are off at most: they stand within their us."""


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Host nodes, shape (n,) each, by thread, start, longest first."""

    thread: I64
    start: I64
    end: I64
    parent: I64


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where nodes stand in their files. node: which ones; source, record: shape of it."""

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
    # Stable: nodes stand before rows of the same time.
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
    order = np.lexsort((np.concatenate((places.record, record)), np.concatenate((places.source, source))))
    in_file = places.node[np.lexsort((places.record, places.source))]
    last = np.empty(order.size, np.int64)
    last[order] = np.cumsum(order < places.node.size) - 1
    at = last[places.node.size :]
    node = np.append(in_file, -1)[at]
    mine = node >= 0
    mine[mine] = nodes.thread[node[mine]] == thread[mine]
    node[~mine] = -1
    # What the file says may be off by the blur, and no more.
    wrong = _far(node, start, end, nodes, _BLUR_NS, missing=False)
    wrong |= ~mine & ~_far(by_time, start, end, nodes, -_BLUR_NS, missing=True)
    return np.where(wrong, by_time, node)


def _far(node: I64, start: I64, end: I64, nodes: Nodes, slack: int, *, missing: bool) -> Mask:
    """Return whether a row sticks out of its node by more than `slack`; `missing` where there is no node."""
    far = np.full(node.size, missing, np.bool_)
    has = np.flatnonzero(node >= 0)
    of = node[has]
    far[has] = (nodes.start[of] > start[has] + slack) | (nodes.end[of] + slack < end[has])
    return far


def mended(
    thread: I64, start: I64, end: I64, record: I64, parent: I64, crosses: Mask, written: Mask
) -> tuple[npt.NDArray[np.intp], I64, I64, Mask] | None:
    """Return the trees with those threads rebuilt from the order of their file whose times do not agree with it.

    All of shape (n,), by thread, start, longest first; written: which rows are of a JSON file. Returned: the new order
    of rows (a node, then all below it), parents and depths in that order, and which rows still cross another. None:
    all times agree.
    """
    file_order = np.lexsort((record, thread))
    place = np.empty(file_order.size, np.int64)
    place[file_order] = np.arange(file_order.size)
    parents = np.append(place, -1)[parent][file_order]
    lanes = thread[file_order]
    back = np.zeros(file_order.size, np.bool_)
    back[1:] = (parents[1:] < parents[:-1]) & (lanes[1:] == lanes[:-1])
    torn = np.unique(thread[(crosses & written) | (back[place] & written)]).tolist()
    if not torn:
        return None
    order = np.arange(thread.size)
    parent, crosses = parent.copy(), crosses.copy()
    for lane in torn:
        low, high = (int(np.searchsorted(thread, lane, side)) for side in ("left", "right"))
        rows = file_order[low:high]  # a lane is as long in one order as in the other
        found = _by_levels(start[rows].tolist(), end[rows].tolist(), int(start[low]))
        within, above = _depth_first(found)
        order[low:high] = rows[within]
        parent[low:high] = np.where(above >= 0, above + low, -1)
        crosses[low:high] = False
    return order, parent, _depths(parent), crosses[order]


def _by_levels(start: list[int], end: list[int], zero: int) -> list[int]:
    """Return the parent of each node, -1 for the root, of nodes written level by level, children by start.

    The children of a node stand together and one after the other in time, so that the first node which does not
    begin after the one before, or lies outside of the parent, is a child of a later parent.
    """
    parents: list[int] = []
    parent, last = -1, -(1 << 62)
    for node, (first, until) in enumerate(zip(start, end, strict=True)):
        slack = min(int(np.spacing(np.float32((first - zero) / 1000)) * 1000) + 1, _BLUR_NS)
        while parent < node - 1:
            inside = parent < 0 or (start[parent] <= first + slack and until <= end[parent] + slack)
            if inside and first >= last - slack:
                break
            parent, last = parent + 1, -(1 << 62)
        parents.append(parent)
        last = until
    return parents


def _depth_first(parents: list[int]) -> tuple[I64, I64]:
    """Return the nodes in the order a node, then all below it; and their parents' places in that order."""
    children: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    for node, parent in enumerate(parents):
        children[parent].append(node)
    order: list[int] = []
    stack = children[-1][::-1]
    while stack:
        node = stack.pop()
        order.append(node)
        stack += reversed(children[node])
    place = np.empty(len(order) + 1, np.int64)
    place[order], place[-1] = np.arange(len(order)), -1
    found = np.array(order, np.int64)
    return found, place[np.array(parents, np.int64)[found]] if order else found


def _depths(parent: I64) -> I64:
    """Return how many nodes are above each."""
    depth = np.zeros(parent.size, np.int64)
    above = parent.copy()
    climbing = np.flatnonzero(above >= 0)
    while climbing.size:
        depth[climbing] += 1
        above[climbing] = parent[above[climbing]]
        climbing = climbing[above[climbing] >= 0]
    return depth
