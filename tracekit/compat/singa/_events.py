"""SINGA's figures from EVENTS: iterations, phases, and the operators of the graph.

An iteration is a step: a value of the column `step`, else a range of kind step, else the whole trace. An operator of
the graph is the k-th event of a name on its thread within an iteration; its number is its place by first start.
Operators are the events of kind operator, python_op and communication that are within no other of these; a trace
without them has the work of its devices in their place, or else its ranges. "Waiting" is never timed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.analysis.intervals import I64
from tracekit.analysis.nesting import nest
from tracekit.columns import arrow
from tracekit.index.grouping import group_by
from tracekit.index.trace_index import Picked, TraceIndex
from tracekit.schema import DEVICE_WORK, Kind

COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "name", "source", "rank", "pid", "tid", "device", "stream", "step"})
NEVER_TIMED = "Waiting"
_RANGES = frozenset({Kind.USER_RANGE, Kind.USER_RANGE_NATIVE, Kind.FORWARD, Kind.BACKWARD, Kind.OPTIMIZER})
_OPERATORS = frozenset({Kind.OPERATOR, Kind.PYTHON_OP, Kind.COMMUNICATION})
PHASES = (Kind.FORWARD, Kind.BACKWARD, Kind.OPTIMIZER)
KINDS = _OPERATORS | DEVICE_WORK | _RANGES | {Kind.STEP}


@dataclass(frozen=True, slots=True)
class Iterations:
    """Iterations of one process. numbers: steps, ascending. starts, ends: ns; of the events in it where no range is."""

    numbers: I64
    starts: I64
    ends: I64


@dataclass(frozen=True, slots=True)
class Graph:
    """One process. names, kinds: of each operator (g,), in order of first start. times: (g, iterations), ns.

    seen: (g, iterations): whether the operator ran then. phases: time of each phase, (iterations,).
    outside: events that belong to no iteration.
    """

    source: int
    rank: int | None
    iterations: Iterations
    names: list[str]
    kinds: list[str]
    node: I64
    iteration: I64
    durations: I64
    phases: dict[str, I64]
    outside: int


def graphs(index: TraceIndex) -> list[Graph]:
    """Return the graph of each process that has events."""
    picked = _operators(index)
    if not picked.rows.size:
        return []
    processes = group_by(picked.key("source"), picked.key("rank"))
    made = []
    for number, (source, rank) in enumerate(zip(*processes.labels, strict=True)):
        mine = np.flatnonzero(processes.codes == number)
        if isinstance(source, int):
            made.append(_graph(index, _part(picked, mine), source, rank if isinstance(rank, int) else None))
    return made


def _operators(index: TraceIndex) -> Picked:
    for kinds in (_OPERATORS, DEVICE_WORK, _RANGES):
        picked = index.pick(kinds)
        if picked.rows.size:
            return _roots(picked)
    return picked


def _roots(picked: Picked) -> Picked:
    """Return the events that are within no other, thread by thread."""
    lanes = group_by(*(picked.key(c) for c in ("source", "rank", "pid", "tid", "device", "stream")))
    tree = nest(lanes.codes, picked.starts, picked.starts + picked.durations)
    return _part(picked, np.flatnonzero(tree.depth == 0))


def _part(picked: Picked, which: npt.NDArray[np.int64]) -> Picked:
    return Picked(
        picked.index, picked.rows[which], picked.starts[which], picked.durations[which], picked.untimed, picked.negative
    )


def _of_process(index: TraceIndex, kinds: Collection[Kind], source: int, rank: int | None) -> Picked:
    picked = index.pick(kinds)
    mine = index.ints("source")[picked.rows] == source
    if rank is not None:
        mine &= arrow.ints(index.events.column("rank"), -1)[picked.rows] == rank
    return _part(picked, np.flatnonzero(mine))


def _graph(index: TraceIndex, picked: Picked, source: int, rank: int | None) -> Graph:
    steps = _of_process(index, [Kind.STEP], source, rank)
    iterations, place = _iterations(index, picked, steps)
    inside = np.flatnonzero(place >= 0)
    outside = int(place.size - inside.size)
    picked, place = _part(picked, inside), place[inside]
    ops = group_by(*(picked.key(c) for c in ("kind", "name", "pid", "tid", "device", "stream")))
    node, first_row = _nodes(picked, ops.codes, place)
    op = ops.codes[first_row].tolist()
    names = ["(no name)" if (name := ops.labels[1][o]) is None else str(name) for o in op]
    phases = {}
    for kind in PHASES:
        found = _roots(_of_process(index, [kind], source, rank))
        if found.rows.size:
            at = _place(index, found, iterations, steps)
            times = np.zeros(iterations.numbers.size, np.int64)
            np.add.at(times, at[at >= 0], found.durations[at >= 0])
            phases[str(kind)] = times
    return Graph(
        source,
        rank,
        iterations,
        names,
        [str(ops.labels[0][o]) for o in op],
        node,
        place,
        picked.durations,
        phases,
        outside,
    )


def _iterations(index: TraceIndex, picked: Picked, steps: Picked) -> tuple[Iterations, I64]:
    """Return the iterations, and of each event which one it is in, -1 for none."""
    own = _steps_of(index, picked)
    if (own >= 0).any():
        numbers = np.unique(own[own >= 0])
    elif steps.rows.size:
        numbers = np.arange(steps.rows.size)
    else:
        numbers = np.zeros(1, np.int64)
    if steps.rows.size == numbers.size:
        order = np.argsort(steps.starts, kind="stable")
        ranges = Iterations(numbers, steps.starts[order], (steps.starts + steps.durations)[order])
        return ranges, _place(index, picked, ranges, steps)
    bare = Iterations(numbers, np.zeros(0, np.int64), np.zeros(0, np.int64))
    place = _place(index, picked, bare, steps)
    inside = place >= 0
    starts, ends = np.full(numbers.size, np.iinfo(np.int64).max), np.full(numbers.size, np.iinfo(np.int64).min)
    np.minimum.at(starts, place[inside], picked.starts[inside])
    np.maximum.at(ends, place[inside], (picked.starts + picked.durations)[inside])
    return Iterations(numbers, starts, ends), place


def _steps_of(index: TraceIndex, picked: Picked) -> I64:
    return arrow.ints(index.events.column("step"), -1)[picked.rows]


def _place(index: TraceIndex, picked: Picked, iterations: Iterations, steps: Picked) -> I64:
    own = _steps_of(index, picked)
    if (own >= 0).any():
        at = np.minimum(np.searchsorted(iterations.numbers, own), iterations.numbers.size - 1)
        return np.where(iterations.numbers[at] == own, at, -1)
    if steps.rows.size and iterations.starts.size:
        at = np.searchsorted(iterations.starts, picked.starts, "right") - 1
        return np.where((at >= 0) & (picked.starts < iterations.ends[np.maximum(at, 0)]), at, -1)
    return np.zeros(picked.rows.size, np.int64)


def _nodes(picked: Picked, op: I64, place: I64) -> tuple[I64, I64]:
    """Return the operator of the graph of each event, numbered by first start, and the first event of each."""
    if not op.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.lexsort((picked.starts, place, op))
    sorted_op, sorted_place = op[order], place[order]
    begins = np.ones(order.size, np.bool_)
    begins[1:] = (sorted_op[1:] != sorted_op[:-1]) | (sorted_place[1:] != sorted_place[:-1])
    at = np.arange(order.size)
    occurrence = at - np.maximum.accumulate(np.where(begins, at, 0))
    keys = np.empty(order.size, np.int64)
    keys[order] = sorted_op * (int(occurrence.max()) + 1) + occurrence
    by_start = np.argsort(picked.starts, kind="stable")
    _, first, code = np.unique(keys[by_start], return_index=True, return_inverse=True)
    rank = np.empty(first.size, np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(first.size)
    node = np.empty(order.size, np.int64)
    node[by_start] = rank[code]
    return node, by_start[np.sort(first)]


def forward_nodes(graph: Graph, times: I64) -> int:
    """Return how many operators are of the forward pass: those before the first "Backward" that took any time."""
    for number, name in enumerate(graph.names):
        if "Backward" in name and times[number] > 0:
            return number
    return len(graph.names)
