"""Phases of a training step that nobody named: forward, backward and recompute, from the operators of PyTorch.

Backward: the nodes of autograd (`index.autograd`) with all that is in them, and operators beside nodes on a thread that
does nothing else. Recompute: forward operators that run again within a node, for activation checkpointing. They are in
the Python frame `recompute_fn` of torch/utils/checkpoint.py, or directly in a `CheckpointFunctionBackward` before the
nested backward pass, or, without frames, they have sequence numbers of their own while later operators of their node
have none (autograd switches recording off in a backward pass, and a checkpoint switches it on). Forward: the other
operators of threads that take steps or record operators for autograd. Ranges that name a phase themselves
(`Optimizer.step#...`) stay as they are and count first.

A phase is a range of time on a thread: from the first operator of a phase to its last one, as long as no other phase of
the process begins between two of them. Device work belongs to the phase in which its launch began.
"""

from __future__ import annotations

import re

import numpy as np

from tracekit.analysis.nesting import innermost
from tracekit.analysis.segments import rows_by
from tracekit.index import grouping
from tracekit.index import host_tree as _host
from tracekit.index.autograd import ARGS_OF, AutogradNodes, autograd_nodes
from tracekit.index.autograd import COLUMNS as _AUTOGRAD
from tracekit.index.host_tree import HostTree
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Mask
from tracekit.model.schema import Kind

__all__ = [
    "ARGS_OF",
    "BACKWARD",
    "COLUMNS",
    "FORWARD",
    "NAMED",
    "OPTIMIZER",
    "OTHER_NAMED",
    "RECOMPUTE",
    "TrainingPhases",
    "training_phases",
]

COLUMNS = _AUTOGRAD
FORWARD, BACKWARD, RECOMPUTE, OPTIMIZER, OTHER_NAMED = range(5)
NAMED = frozenset({Kind.DATALOADER, Kind.FORWARD, Kind.BACKWARD, Kind.OPTIMIZER})
"""Kinds of ranges that name a phase themselves."""
_FRAME = re.compile(r"(?:.*[/\\])?torch[/\\]utils[/\\]checkpoint\.py\(\d+\): recompute_fn")
_CHECKPOINT = "CheckpointFunctionBackward"


@dataclass(frozen=True, slots=True, eq=False)
class TrainingPhases:
    """Ranges of phases that were found from operators, r of them. No two of a thread overlap.

    nodes: the nodes of autograd. phase: FORWARD, BACKWARD or RECOMPUTE of each; lanes: its thread, as in the host tree;
    rows: the row of EVENTS that it begins with; starts, ends: ns. of_work: shape (m,), the phase of each device
    event of the host tree, OPTIMIZER where a range names it, OTHER_NAMED for other phases that ranges name, -1
    for work that was launched outside of phases or whose launch is not known. at: the range, -1 where there is none.
    """

    nodes: AutogradNodes
    phase: I64
    lanes: I64
    rows: I64
    starts: I64
    ends: I64
    of_work: I64
    at: I64

    def of_places(self, places: I64) -> I64:
        """Return the phase in which each of these places of the host tree began, as `of_work` has it."""
        return _of_places(self.nodes.host, (self.phase, self.lanes, self.rows, self.starts, self.ends), places)[0]


@join
def training_phases(index: TraceIndex) -> TrainingPhases | None:
    """Return the phases that operators show; None for a trace without nodes of autograd."""
    nodes = autograd_nodes(index)
    if nodes is None:
        return None
    host = nodes.host
    process = grouping.numbered(index.key(name, host.rows) for name in ("source", "pid"))
    named = index.kind_mask(NAMED)[host.rows]
    outer_node = nodes.node & ~_inside(host, nodes.node) & ~_inside(host, named)
    top = nodes.operator & ~nodes.node & ~_inside(host, nodes.operator | named)
    phase_of_top = _of_top(index, host, nodes, outer_node, top)
    again = _recomputed(index, nodes, outer_node)
    place = np.concatenate((np.flatnonzero(outer_node), np.flatnonzero(top & (phase_of_top >= 0))))
    phase = np.concatenate((np.full(int(outer_node.sum()), BACKWARD), phase_of_top[place[int(outer_node.sum()) :]]))
    begins, ends = host.starts[place], host.ends[place]
    walls = np.flatnonzero(index.kind_mask({*NAMED, Kind.STEP})[host.rows])
    runs = _runs(process, (place, phase, begins, ends), host, walls)
    ranges = _without(runs, again)
    return _with_work(nodes, ranges)


Ranges5 = tuple[I64, I64, I64, I64, I64]
"""Phase, lane, row, start and end of some ranges."""


def _inside(host: HostTree, mask: Mask) -> Mask:
    """Return whether one of these is around each place."""
    inside: Mask = np.append(host.nearest(mask), -1)[host.tree.parent] >= 0
    return inside


def _of_top(index: TraceIndex, host: HostTree, nodes: AutogradNodes, outer_node: Mask, top: Mask) -> I64:
    """Return the phase of the outermost operators that are no nodes, -1 for none."""
    count = int(host.lanes.max()) + 1
    steps = index.kind_mask({Kind.STEP, *NAMED})[host.rows]
    forward = np.bincount(host.lanes[(nodes.own & ~_inside(host, nodes.node)) | steps], minlength=count) > 0
    linked = nodes.forward[nodes.forward >= 0]
    forward |= np.bincount(host.lanes[linked[~_inside(host, nodes.node)[linked]]], minlength=count) > 0
    backward = np.bincount(host.lanes[outer_node], minlength=count) > 0
    if not forward.any():
        # Neither numbers, steps nor arrows: what has no thread of the backward pass is forward.
        plain = np.bincount(host.lanes[top], minlength=count) > 0
        forward = plain & ~backward if (plain & ~backward).any() else plain
    lane_phase = np.where(forward, FORWARD, np.where(backward, BACKWARD, -1))
    return np.where(top, lane_phase[host.lanes], -1)


def _recomputed(index: TraceIndex, nodes: AutogradNodes, outer_node: Mask) -> Ranges5:
    """Return the ranges within nodes in which the forward pass runs again."""
    host = nodes.host
    by_number = _by_number(index, nodes)
    frames = _frames(index, nodes, outer_node)
    if frames[0].size:
        # A range that frames show as well is one.
        lane, starts, ends = frames[1], frames[3], frames[4]
        shown = innermost(lane, starts, ends, host.lanes[by_number], host.starts[by_number]) >= 0
        by_number = by_number[~shown]
    near = np.append(host.nearest(nodes.node), -1)[by_number]
    order = np.lexsort((host.starts[by_number], near))
    by_number, near = by_number[order], near[order]
    first = np.flatnonzero(np.append(True, near[1:] != near[:-1])) if near.size else np.zeros(0, np.int64)
    last = np.append(first[1:], near.size) - 1 if near.size else first
    begin = by_number[first]
    ends = np.maximum.reduceat(host.ends[by_number], first) if near.size else host.ends[by_number[last]]
    found = (np.full(first.size, RECOMPUTE), host.lanes[begin], host.rows[begin], host.starts[begin], ends)
    return _joined(frames, found)


def _by_number(index: TraceIndex, nodes: AutogradNodes) -> I64:
    """Return the places of operators in nodes that are of the forward pass, as their numbers show."""
    host = nodes.host
    above = np.append(host.nearest(nodes.operator), -1)[host.tree.parent]
    # A node within a node is another pass, or the node itself that the function around it evaluates.
    direct = np.flatnonzero(nodes.operator & ~nodes.node & (above >= 0) & np.append(nodes.node, False)[above])
    if not direct.size:
        return direct
    codes, names = index.texts("name")
    is_checkpoint = np.array([*(name.endswith(_CHECKPOINT) for name in names), False], np.bool_)
    around = above[direct]
    checkpoint = is_checkpoint[codes[host.rows[around]]]
    latest = np.full(host.rows.size, -1, np.int64)
    plain = ~nodes.own[direct]
    np.maximum.at(latest, around[plain], host.starts[direct[plain]])
    # Where recording is on in the whole pass (create_graph), all operators of a node have numbers.
    recorded = nodes.own[direct] & (host.starts[direct] < latest[around])
    return _filled(host, direct, around, (recorded & ~checkpoint) | (checkpoint & _before_pass(nodes, direct, around)))


def _before_pass(nodes: AutogradNodes, direct: I64, around: I64) -> Mask:
    """Return which of the operators in checkpoints begin before the nested backward pass of their checkpoint."""
    host = nodes.host
    far = np.iinfo(np.int64).max
    begin = np.full(host.rows.size, far, np.int64)
    nested = np.flatnonzero(nodes.node & (host.tree.parent >= 0))
    np.minimum.at(begin, host.tree.parent[nested], host.starts[nested])
    before: Mask = host.starts[direct] < begin[around]
    return before


def _filled(host: HostTree, direct: I64, around: I64, found: Mask) -> I64:
    """Return the operators that were found, and those between the first and the last one of their node."""
    far = np.iinfo(np.int64).max
    first, last = np.full(host.rows.size, far, np.int64), np.full(host.rows.size, -1, np.int64)
    np.minimum.at(first, around[found], host.starts[direct[found]])
    np.maximum.at(last, around[found], host.starts[direct[found]])
    starts = host.starts[direct]
    return direct[(starts >= first[around]) & (starts <= last[around])]


def _frames(index: TraceIndex, nodes: AutogradNodes, outer_node: Mask) -> Ranges5:
    """Return the frames of Python within nodes that run the forward pass again."""
    codes, names = index.texts("name")
    fits = np.array([*(_FRAME.fullmatch(name) is not None for name in names), False], np.bool_)
    nothing = np.zeros(0, np.int64)
    if not fits.any():
        return nothing, nothing, nothing, nothing, nothing
    host = nodes.host
    rows = np.flatnonzero(fits[codes] & index.kind_mask({Kind.PYTHON_OP}) & index.has("dur_ns") & index.has("tid"))
    lanes = _host.lanes_in(index, host, rows)
    starts = index.starts[rows]
    ends = _host.ends_of(starts, index.lengths[rows])
    at = np.flatnonzero(outer_node)
    node = innermost(host.lanes[at], host.starts[at], host.ends[at], np.maximum(lanes, -1), starts)
    kept = np.flatnonzero((node >= 0) & (lanes >= 0))
    ends = np.minimum(ends, host.ends[at][node])
    return np.full(kept.size, RECOMPUTE), lanes[kept], rows[kept], starts[kept], ends[kept]


def _joined(*parts: Ranges5) -> Ranges5:
    phase, lane, row, starts, ends = (np.concatenate(column) for column in zip(*parts, strict=True))
    return phase, lane, row, starts, ends


def _runs(process: I64, items: tuple[I64, I64, I64, I64], host: HostTree, walls: I64) -> Ranges5:
    """Return the operators of a phase that follow each other on a thread as one range.

    items: places, phases, starts and ends. walls: places of ranges at whose start a run of any thread ends.
    """
    place, phase, starts, ends = items
    order = np.lexsort((starts, phase, host.lanes[place]))
    place, phase, starts, ends = place[order], phase[order], starts[order], ends[order]
    lane = host.lanes[place]
    between = np.zeros(place.size, np.int64)
    of_place = process[place]
    of_wall = process[walls]
    for number, rows in rows_by(of_place):
        wall = np.sort(host.starts[walls[of_wall == number]])
        for own in (FORWARD, BACKWARD):
            mine = rows[phase[rows] == own]
            other = np.sort(np.concatenate((starts[rows[phase[rows] != own]], wall)))
            # What begins at the same time as an operator is around it: a wall, and it is before it.
            between[mine] = np.searchsorted(other, starts[mine], side="right")
    joined = (lane[1:] == lane[:-1]) & (phase[1:] == phase[:-1]) & (between[1:] == between[:-1])
    first = np.flatnonzero(np.append(True, ~joined)) if place.size else np.zeros(0, np.int64)
    last = np.append(first[1:], place.size) - 1 if place.size else first
    return phase[first], lane[first], host.rows[place[first]], starts[first], ends[last]


def _without(runs: Ranges5, again: Ranges5) -> Ranges5:
    """Return the ranges with those of recomputing cut out of the backward passes around them."""
    if not again[0].size:
        return runs
    phase, lane, row, starts, ends = runs
    around = innermost(lane, starts, ends, again[1], again[3])
    kept = np.flatnonzero(around >= 0)
    phase2, lane2, row2, starts2, ends2 = (column[kept] for column in again)
    around = around[kept]
    order = np.lexsort((starts2, around))
    phase2, lane2, row2, starts2, ends2, around = (
        column[order] for column in (phase2, lane2, row2, starts2, ends2, around)
    )
    ends2 = np.minimum(ends2, ends[around])
    # A range of recomputing ends where the next one begins, if not before: checkpoints may be nested.
    later = np.append(starts2[1:], np.iinfo(np.int64).max)
    ends2 = np.where(np.append(around[1:] == around[:-1], False), np.minimum(ends2, later), ends2)
    cut = np.zeros(phase.size, np.bool_)
    cut[around] = True
    # The pieces of a pass: before the first range, and behind each one.
    first = np.append(True, around[1:] != around[:-1])
    last = np.append(first[1:], True)
    heads = (phase[around[first]], lane[around[first]], row[around[first]], starts[around[first]], starts2[first])
    behind_end = np.where(last, ends[around], later)
    tails = (phase[around], lane2, row[around], ends2, behind_end)
    whole = tuple(column[~cut] for column in runs)
    found = _joined(
        (whole[0], whole[1], whole[2], whole[3], whole[4]), heads, (phase2, lane2, row2, starts2, ends2), tails
    )
    some = found[4] > found[3]
    return found[0][some], found[1][some], found[2][some], found[3][some], found[4][some]


def _with_work(nodes: AutogradNodes, ranges: Ranges5) -> TrainingPhases:
    host = nodes.host
    of_work = np.full(host.work.size, -1, np.int64)
    at = np.full(host.work.size, -1, np.int64)
    places = host.places()
    linked = np.flatnonzero(host.launch >= 0)
    place = places[host.launch[linked]]
    linked, place = linked[place >= 0], place[place >= 0]
    of_work[linked], at[linked] = _of_places(host, ranges, place)
    return TrainingPhases(nodes, *ranges, of_work, at)


def _of_places(host: HostTree, ranges: Ranges5, place: I64) -> tuple[I64, I64]:
    """Return the phase of each place, and its range; -1 for none."""
    phase, lane, _, starts, ends = ranges
    at = innermost(lane, starts, ends, host.lanes[place], host.starts[place])
    found = np.append(phase, -1)[at]
    near = np.append(host.nearest(host.index.kind_mask(NAMED)[host.rows]), -1)[place]
    optimizer = host.index.kind_mask({Kind.OPTIMIZER})[host.rows]
    says = near >= 0
    found[says] = np.where(optimizer[near[says]], OPTIMIZER, OTHER_NAMED)
    at[says] = -1
    return found, at
