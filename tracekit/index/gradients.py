"""Nodes of autograd that add a gradient to a parameter's, and the node of the backward pass that made it.

PyTorch's engine takes ready nodes of a thread by sequence number, and `AccumulateGrad` has the largest number there is:
it runs as soon as it is ready (torch/csrc/autograd/functions/accumulate_grad.cpp, engine.cpp). So the node before it on
its thread made the gradient, or the last part of it. On several threads a node of another one may have made it: one
that ended after the node before had begun. Then the node is not known.
"""

from __future__ import annotations

import numpy as np

from tracekit.index import grouping
from tracekit.index.autograd import EVALUATE, AutogradNodes
from tracekit.index.trace_index import TraceIndex, join
from tracekit.model.arrow import I64, Mask

__all__ = ["gradient_sources"]

_ADDS_UP = "AccumulateGrad"


@join
def gradient_sources(index: TraceIndex, nodes: AutogradNodes) -> I64:
    """Return by place in the host tree the node that made the gradient which is added up there.

    -1 for places that add up none, -2 where the node is not known. Places: the functions that the engine evaluates.
    """
    host = nodes.host
    found = np.full(host.rows.size, -1, np.int64)
    codes, names = index.texts("name")
    evaluates = np.array([*(name.startswith(EVALUATE) for name in names), False], np.bool_)[codes[host.rows]]
    adding = np.array([*(name.endswith(_ADDS_UP) for name in names), False], np.bool_)[codes[host.rows]]
    at = np.flatnonzero(nodes.node & evaluates)
    if not adding[at].any():
        return found
    # A pass within a node has an order of its own.
    around = np.append(host.nearest(nodes.node), -1)[host.tree.parent[at]]
    order = np.lexsort((host.starts[at], around, host.lanes[at]))
    at, around = at[order], around[order]
    same = np.append(False, (host.lanes[at][1:] == host.lanes[at][:-1]) & (around[1:] == around[:-1]))
    first = np.maximum.accumulate(np.where(same, 0, np.arange(at.size)))
    latest = np.maximum.accumulate(np.where(adding[at], -1, np.arange(at.size)))
    asked = np.flatnonzero(adding[at])
    before = latest[asked]
    known = before >= first[asked]
    asked, before = asked[known], before[known]
    found[at[adding[at]]] = -2
    alone = ~_others_end(index, nodes, at, at[before], at[asked])
    found[at[asked[alone]]] = at[before[alone]]
    return found


def _others_end(index: TraceIndex, nodes: AutogradNodes, at: I64, since: I64, until: I64) -> Mask:
    """Return whether nodes of other threads of the process end between the starts of these places."""
    host = nodes.host
    process = grouping.numbered(index.key(name, host.rows) for name in ("source", "pid"))
    several = np.zeros(since.size, np.bool_)
    lanes, lane = np.unique(host.lanes[at], return_inverse=True)
    if lanes.size == 1:
        return several
    home = np.zeros(lanes.size, np.int64)
    home[lane] = process[at]
    for number, (its_lane, its_process) in enumerate(zip(lanes.tolist(), home.tolist(), strict=True)):
        mine = np.flatnonzero((process[since] == its_process) & (host.lanes[since] != its_lane))
        if not mine.size:
            continue
        ends = np.sort(host.ends[at[lane == number]])
        low = np.searchsorted(ends, host.starts[since[mine]], "left")
        high = np.searchsorted(ends, host.starts[until[mine]], "right")
        several[mine] |= high > low
    return several
