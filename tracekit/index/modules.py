"""The tree of a program's modules, and the device work that belongs to each.

Modules are the rows `nn.Module: ResNet_0` of PyTorch's stacks: a class and the number of its instance. They nest by
Python's ids of calls; where a row has none, by time. An input without them has the ranges that the program names itself
(record_function, NVTX, the modules of tracekit's recorder, whose `.forward` and `.backward` are one module); they nest
by time. Calls of one path are one entry of the tree.

A device event belongs to the innermost module in which its launch began. Work of a backward node belongs to the
module of the node's forward operator (`index.autograd`), and work of a CUDA or HIP graph to the module in which it was
captured (`index.graphs`), or to the part of the program that its annotation names. A forward pass that runs again for a
checkpoint is on the thread of autograd, outside of the modules around it: its instances are those of the first pass, so
it joins them.

A gradient that is added up belongs to the module of the node that made it (`index.gradients`). What the reducer of
DistributedDataParallel launches, its collectives among them, belongs to that module: a bucket has the gradients of
several. With several such modules it belongs to none.
"""

from __future__ import annotations

import numpy as np

from tracekit.analysis.nesting import depths_of, innermost, parents
from tracekit.index import host_tree as _host
from tracekit.index.autograd import ARGS_OF as _ARGS_OF
from tracekit.index.gradients import gradient_sources
from tracekit.index.graphs import ARGS_OF as _GRAPH_ARGS
from tracekit.index.graphs import GraphWork, graph_work
from tracekit.index.host_tree import HostTree
from tracekit.index.trace_index import TraceIndex, join
from tracekit.index.training_phases import (
    BACKWARD,
    FORWARD,
    OPTIMIZER,
    OTHER_NAMED,
    RECOMPUTE,
    training_phases,
)
from tracekit.index.training_phases import COLUMNS as _PHASES
from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import args as members
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.schema import Kind

__all__ = [
    "ARGS_OF",
    "BACKWARD_COLLECTIVE",
    "BACKWARD_GRADIENT",
    "BACKWARD_OUTSIDE",
    "COLUMNS",
    "NO_LAUNCH",
    "NO_PHASE",
    "RANGES",
    "ModuleTree",
    "module_tree",
]

COLUMNS = _PHASES
ARGS_OF = _ARGS_OF | _GRAPH_ARGS | {Kind.PYTHON_OP}
RANGES = frozenset({Kind.USER_RANGE, Kind.USER_RANGE_NATIVE, Kind.FORWARD})
"""Kinds of ranges that stand for modules in an input without them."""
NO_PHASE, NO_LAUNCH = 6, 7
"""Phases of work behind those of `training_phases`: launched outside of phases, and by no call that is known."""
BACKWARD_OUTSIDE, BACKWARD_GRADIENT, BACKWARD_COLLECTIVE = 8, 9, 10
"""Phases of work of the backward pass in no module: its forward operator was in none, it adds up a gradient of unknown
origin, or it is a collective that a hook launched."""
_MODULE = "nn.Module: "
_RECORDED = lazy_pattern(r"(.*)\.(forward|backward)")
_OPERATOR_RANGE = lazy_pattern(r"(?:aten|autograd|torch|c10d|prim)::|.*, (?:seq|op_id) = \d+|Optimizer\.|ProfilerStep#")
_REDUCER = lazy_pattern(r"torch(?:::|\.)distributed(?:::|\.)(?:ddp\.)?reducer::")
_REDUCES = lazy_pattern(r"DistributedDataParallel(?:_\d+)?")
_COLLECTIVE = lazy_pattern(r"c10d::|record_param_comms$|nccl:|gloo:|mpi:|ucc:|xccl:")
_SHARDED = lazy_pattern(r"FSDP::\w.* \(([^()]+)\)")
"""A range of fully_shard (FSDP2), with the name of the module whose parameters or gradients it sends."""
_SHARDED_CALL = "FSDP::pre_forward ("
_DEEPEST = 64
"""Rounds in which the module around each frame is looked for: each one doubles the distance."""


@dataclass(frozen=True, slots=True, eq=False)
class ModuleTree:
    """Modules by path, p of them, each below its parent, which has a smaller number, and the device work of each.

    parents: shape (p,), -1 for the outermost. names: of the module alone. depth: 0 for the outermost. calls, host_ns:
    calls and time on the host; of a part that only annotations of graphs name, the launches, and -1. first: the start
    of the first call, ns. of_work: shape (m,), the module of each device
    event of the host tree, -1 for none. phase: shape (m,), the phase of each one: that of `training_phases`, or
    NO_PHASE, NO_LAUNCH. stacks: whether modules are PyTorch's.

    lanes, starts, ends, module: of each call on a thread of the host tree, for whatever else happened in modules.
    """

    host: HostTree
    parents: I64
    names: list[str]
    depth: I64
    calls: I64
    host_ns: I64
    first: I64
    of_work: I64
    phase: I64
    stacks: bool
    lanes: I64
    starts: I64
    ends: I64
    module: I64

    def around(self, lanes: I64, times: I64) -> I64:
        """Return the module that is open on these threads of the host tree at these times, -1 for none."""
        at = innermost(self.lanes, self.starts, self.ends, lanes, times)
        return np.append(self.module, -1)[at]

    def origin(self, lanes: I64, times: I64) -> I64:
        """Return the module that these threads work for at these times, -1 for none.

        In a node of autograd that is the module of its forward operator, else the module that is open.
        """
        found = self.around(lanes, times)
        phases = training_phases(self.host.index)
        if phases is None:
            return found
        nodes, host = phases.nodes, self.host
        node = np.flatnonzero(nodes.node)
        at = np.append(node, -1)[innermost(host.lanes[node], host.starts[node], host.ends[node], lanes, times)]
        place = np.append(nodes.forward, -1)[at]
        there = np.flatnonzero(place >= 0)
        own = self.around(host.lanes[place[there]], host.starts[place[there]])
        # What runs again within a node has modules of its own around it.
        inside = (found[there] >= 0) & (host.lanes[place[there]] != lanes[there])
        found[there] = np.where(inside, found[there], own)
        return found

    def with_children(self, values: I64) -> I64:
        """Return the values of each module and of all modules in it added up."""
        total = values.copy()
        for level in reversed(_levels(self.depth)[1:]):
            np.add.at(total, self.parents[level], total[level])
        return total


@dataclass(frozen=True, slots=True, eq=False)
class _Calls:
    """Calls of modules: rows of EVENTS, threads of the host tree (-1: not there), the call around each, and its name.

    phase: that which the name states, -1 for none.
    """

    rows: I64
    lanes: I64
    parent: I64
    name: I64
    phase: I64


@join
def module_tree(index: TraceIndex) -> ModuleTree | None:
    """Return the tree of modules; None for a trace without modules and ranges that stand for them."""
    if "name" not in index.events.column_names:
        return None
    host = _host.host(index)
    labels: dict[str, int] = {}
    frames = _frames(index, host, labels)
    instances = len(labels)
    ranges = _ranges(index, host, labels, sets.unique(index.ints("source")[frames.rows]))
    calls = _Calls(
        np.concatenate((frames.rows, ranges.rows)),
        np.concatenate((frames.lanes, ranges.lanes)),
        np.concatenate((frames.parent, np.where(ranges.parent >= 0, ranges.parent + frames.rows.size, -1))),
        np.concatenate((frames.name, ranges.name)),
        np.concatenate((frames.phase, ranges.phase)),
    )
    graphs = graph_work(index)
    annotated = graphs is not None and bool((graphs.annotation[graphs.call < 0] >= 0).any())
    if not calls.rows.size and not annotated:
        return None
    names = list(labels)
    nothing = np.zeros(0, np.int64)
    parents, code, depth, module = nothing, nothing, nothing, nothing
    if calls.rows.size:
        parents, code, depth, module = _paths(calls, len(names))
        parents, code, depth, module = _joined_to_first_pass(parents, code, depth, module, instances)
    starts = index.starts[calls.rows]
    ends = _host.ends_of(starts, index.lengths[calls.rows])
    host_ns = np.zeros(parents.size, np.int64)
    np.add.at(host_ns, module, ends - starts)
    first = np.full(parents.size, np.iinfo(np.int64).max)
    np.minimum.at(first, module, starts)
    on = np.flatnonzero(calls.lanes >= 0)
    open_calls = calls.lanes[on], starts[on], ends[on]
    reducing = [path for path, each in enumerate(code.tolist()) if _REDUCES.fullmatch(names[each])]
    reducer = reducing[0] if len(reducing) == 1 else -1
    of_work, phase = _of_work(index, host, open_calls, module[on], calls.phase[on], reducer)
    if graphs is not None and annotated:
        parts = _annotated(index, graphs, parents.size, (of_work, phase))
        code = np.concatenate((code, np.arange(len(parts.names)) + len(names)))
        names += parts.names
        added = np.full(len(parts.names), -1)
        parents, depth = np.concatenate((parents, added)), np.concatenate((depth, added + 1))
        host_ns, first = np.concatenate((host_ns, added)), np.concatenate((first, parts.first))
        launches = parts.launches
    else:
        launches = nothing
    return ModuleTree(
        host,
        parents,
        [names[number] for number in code.tolist()],
        depth,
        np.concatenate((np.bincount(module, minlength=parents.size - launches.size), launches)),
        host_ns,
        first,
        of_work,
        phase,
        bool(frames.rows.size),
        *open_calls,
        module[on],
    )


def _frames(index: TraceIndex, host: HostTree, labels: dict[str, int]) -> _Calls:
    """Return the calls of modules in PyTorch's stacks."""
    codes, names = index.texts("name")
    is_module = np.array([*(name.startswith(_MODULE) for name in names), False], np.bool_)
    timed = index.has("dur_ns") & index.has("tid")
    module = is_module[codes] & index.kind_mask({Kind.PYTHON_OP}) & timed
    rows = np.flatnonzero(module)
    if not rows.size:
        nothing = np.zeros(0, np.int64)
        return _Calls(nothing, nothing, nothing, nothing, nothing)
    every = np.flatnonzero(index.kind_mask({Kind.PYTHON_OP}) & timed)
    parent = _module_around(index, every, module[every])
    number = np.full(len(names), -1, np.int64)
    for each in sets.unique(codes[rows]).tolist():
        number[each] = labels.setdefault(names[each].removeprefix(_MODULE), len(labels))
    lanes = _host.lanes_in(index, host, rows)
    return _Calls(rows, lanes, parent, number[codes[rows]], np.full(rows.size, -1, np.int64))


def _module_around(index: TraceIndex, every: I64, module: Mask) -> I64:
    """Return for each frame that is a module the module around it, as its place among the modules; -1 for none."""
    at = np.flatnonzero(module)
    above = _caller_by_id(index, every)
    lacking = np.flatnonzero(module & (above == -2))
    if lacking.size:
        # Frames without ids nest by time; then only modules matter.
        starts = index.starts[every[at]]
        ends = _host.ends_of(starts, index.lengths[every[at]])
        by_time = parents(_host.lanes_of(index, every[at]), starts, ends)
    # Each frame points to the innermost module around it, itself included; doubling the steps finds it.
    near = np.where(module, np.arange(every.size), np.maximum(above, -1))
    for _ in range(_DEEPEST):
        further = np.append(near, -1)[near]
        if np.array_equal(further, near):
            break
        near = further
    found = np.append(near, -1)[np.maximum(above[at], -1)]
    found = np.where(np.append(module, False)[found], found, -1)  # frames that call each other in a circle
    place = np.full(every.size + 1, -1, np.int64)
    place[at] = np.arange(at.size)
    parent = place[found]
    if lacking.size:
        parent = np.where(above[at] == -2, by_time, parent)
    # A module that is around itself, and one that begins after what it is around, is no caller.
    starts = index.starts[every[at]]
    bad = (parent >= 0) & ((starts[parent] > starts) | (parent >= np.arange(at.size)) & (starts[parent] == starts))
    return np.where(bad & (above[at] != -2), -1, parent)


def _caller_by_id(index: TraceIndex, every: I64) -> I64:
    """Return the place of the caller of each frame: -1 where it has none here, -2 where the frame states no ids."""
    if "args" not in index.events.column_names:
        return np.full(every.size, -2, np.int64)
    args = arrow.take(index.events.column("args"), every)
    own, has_own = members.integers(args, "Python id")
    caller, has_caller = members.integers(args, "Python parent id")
    out = np.where(has_own, -1, -2)
    known = np.flatnonzero(has_own)
    asked = np.flatnonzero(has_own & has_caller)
    if not known.size or not asked.size:
        return out
    process = _process(index, every)
    keys = np.concatenate(
        (np.column_stack((process[known], own[known])), np.column_stack((process[asked], caller[asked])))
    )
    code = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    place = np.full(int(code.max()) + 1, -1, np.int64)
    place[code[: known.size][::-1]] = known[::-1]
    out[asked] = place[code[known.size :]]
    out[out == np.arange(every.size)] = -1
    return out


def _process(index: TraceIndex, rows: I64) -> I64:
    source, pid = index.key("source", rows), index.key("pid", rows)
    return source.codes * len(pid.labels) + pid.codes


def _ranges(index: TraceIndex, host: HostTree, labels: dict[str, int], but: I64) -> _Calls:
    """Return the ranges of the program's own of inputs that have no modules."""
    codes, names = index.texts("name")
    fits = np.array([*(not _OPERATOR_RANGE.match(name) for name in names), False], np.bool_)
    wanted = index.kind_mask(RANGES)[host.rows] & fits[codes[host.rows]]
    wanted &= ~index.of_sources(but.tolist())[host.rows]
    place = np.flatnonzero(wanted)
    rows = host.rows[place]
    near = np.append(host.nearest(wanted), -1)[host.tree.parent[place]]
    number = np.full(host.rows.size + 1, -1, np.int64)
    number[place] = np.arange(place.size)
    label, phase = np.full(len(names), -1, np.int64), np.full(len(names), -1, np.int64)
    for each in sets.unique(codes[rows]).tolist():
        recorded = _RECORDED.fullmatch(names[each])
        name = recorded[1] if recorded else names[each]
        label[each] = labels.setdefault(name, len(labels))
        phase[each] = -1 if recorded is None else FORWARD if recorded[2] == "forward" else BACKWARD
    return _Calls(rows, host.lanes[place], number[near], label[codes[rows]], phase[codes[rows]])


def _paths(calls: _Calls, width: int) -> tuple[I64, I64, I64, I64]:
    """Return parent, name and depth of each path, and the path of each call."""
    depth = depths_of(calls.parent)
    path = np.full(calls.rows.size, -1, np.int64)
    parts: list[tuple[I64, I64, I64]] = []
    count = 0
    for number, level in enumerate(_levels(depth)):
        above = np.append(path, -1)[calls.parent[level]]
        keys, inverse = np.unique((above + 1) * width + calls.name[level], return_inverse=True)
        path[level] = count + inverse
        parts.append((keys // width - 1, keys % width, np.full(keys.size, number)))
        count += keys.size
    parents, names, depths = (np.concatenate(column) for column in zip(*parts, strict=True))
    return parents, names, depths, path


def _levels(depth: I64) -> list[I64]:
    """Return the places of each depth, outermost first."""
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.cumsum(np.bincount(depth))[:-1])


def _joined_to_first_pass(
    parents: I64, names: I64, depth: I64, module: I64, instances: int
) -> tuple[I64, I64, I64, I64]:
    """Return the tree with roots joined to the only module of their name that is within another root.

    Instances have numbers, so that the same name is the same module. A checkpoint calls it from autograd's thread.
    instances: names of smaller numbers are of PyTorch's modules; other names may mean several things.
    """
    roots = np.flatnonzero((parents < 0) & (names < instances))
    inner = np.flatnonzero((parents >= 0) & (names < instances))
    only, count = np.unique(names[inner], return_counts=True)
    only = only[count == 1]
    move = roots[np.isin(names[roots], only)]
    if not move.size:
        return parents, names, depth, module
    home = np.full(int(names.max()) + 1, -1, np.int64)
    home[names[inner]] = inner
    target = np.arange(parents.size)
    root = np.where(parents >= 0, parents, np.arange(parents.size))
    for _ in range(int(depth.max()).bit_length()):
        root = root[root]
    # A root that is around its own home stays.
    move = move[root[home[names[move]]] != move]
    moved = np.isin(root, move)
    move = move[~moved[home[names[move]]]]
    moved = np.isin(root, move)
    stay = np.flatnonzero(~moved)
    known = {(int(parents[p]), int(names[p])): int(p) for p in stay.tolist()}
    for place in np.flatnonzero(moved)[np.argsort(depth[np.flatnonzero(moved)], kind="stable")].tolist():
        if parents[place] < 0:
            target[place] = home[names[place]]
            continue
        home_of_parent = int(target[parents[place]])
        # A module that the first pass did not call becomes one of the tree, below the one that calls it.
        target[place] = known.setdefault((home_of_parent, int(names[place])), place)
    kept = sets.unique(target)
    new_parent = np.where(parents[kept] >= 0, target[np.maximum(parents[kept], 0)], -1)
    # Parents first: by depth.
    number = np.full(parents.size, -1, np.int64)
    number[kept] = np.arange(kept.size)
    above = np.where(new_parent >= 0, number[np.maximum(new_parent, 0)], -1)
    deep = depths_of(above)
    order = np.argsort(deep, kind="stable")
    rank = np.empty(kept.size, np.int64)
    rank[order] = np.arange(kept.size)
    final = np.where(above[order] >= 0, rank[np.maximum(above[order], 0)], -1)
    return final, names[kept][order], deep[order], rank[number[target[module]]]


def _of_work(
    index: TraceIndex, host: HostTree, calls: tuple[I64, I64, I64], module: I64, stated: I64, reducer: int
) -> tuple[I64, I64]:
    """Return the module of each device event, -1 for none, and its phase. reducer: of data parallelism, -1 unknown."""
    of_work = np.full(host.work.size, -1, np.int64)
    phase = np.where(host.launch >= 0, NO_PHASE, NO_LAUNCH)
    place = host.places()[host.launch]
    linked = np.flatnonzero((host.launch >= 0) & (place >= 0))
    of_work[linked], phase[linked] = _of_places(index, host, calls, module, stated, reducer, place[linked])
    graphs = graph_work(index)
    if graphs is None:
        return of_work, phase
    # Work of a graph is of where it was captured; in no module there, what launched the graph is all that is known.
    at = np.flatnonzero(graphs.call >= 0)
    inside, its_phase = _of_places(index, host, calls, module, stated, reducer, graphs.call[at])
    at, its_phase, inside = at[inside >= 0], its_phase[inside >= 0], inside[inside >= 0]
    of_work[at] = inside
    phase[at] = np.where(its_phase == NO_PHASE, FORWARD, its_phase)
    return of_work, phase


@dataclass(frozen=True, slots=True, eq=False)
class _AnnotatedParts:
    """Parts of graphs that annotations name: launches with each, and the start of the first one, ns."""

    names: list[str]
    launches: I64
    first: I64


def _annotated(index: TraceIndex, graphs: GraphWork, count: int, found: tuple[I64, I64]) -> _AnnotatedParts:
    """Give work of graphs, of which nothing else is known, to the parts that annotations name.

    count: the number of modules; parts have the numbers behind them. found: module and phase of each device event.
    """
    of_work, phase = found
    at = np.flatnonzero((graphs.call < 0) & (graphs.annotation >= 0))
    used, part = np.unique(graphs.annotation[at], return_inverse=True)
    part = part.reshape(-1)
    of_work[at] = count + part
    phase[at] = np.where(graphs.backward[at], BACKWARD, FORWARD)
    launch = graphs.host.launch[at]
    pairs = np.unique(np.column_stack((part, launch)), axis=0)
    first = np.full(used.size, np.iinfo(np.int64).max)
    np.minimum.at(first, part, index.starts[launch])
    names = [graphs.annotations[number] for number in used.tolist()]
    return _AnnotatedParts(names, np.bincount(pairs[:, 0], minlength=used.size), first)


def _of_places(
    index: TraceIndex, host: HostTree, calls: tuple[I64, I64, I64], module: I64, stated: I64, reducer: int, place: I64
) -> tuple[I64, I64]:
    """Return the module and the phase of what these places of the host tree launched; arguments as in `_of_work`."""
    lanes, starts, ends = calls
    at = innermost(lanes, starts, ends, host.lanes[place], host.starts[place])
    found = np.append(module, -1)[at]
    said = np.append(stated, -1)[at]
    phases = training_phases(index)
    if phases is None:
        optimizer = index.kind_mask({Kind.OPTIMIZER})[host.rows]
        within = np.append(host.nearest(optimizer), -1)[host.tree.parent[place]] >= 0
        return found, np.where(said >= 0, said, np.where(at >= 0, FORWARD, np.where(within, OPTIMIZER, NO_PHASE)))
    by_time = phases.of_places(place)
    phase = np.where(by_time >= 0, by_time, NO_PHASE)
    # Work that a node launched belongs to the module of its forward operator, wherever the node ran.
    nodes = phases.nodes
    known = np.append(host.nearest(nodes.node & (nodes.forward >= 0)), -1)[place]
    any_node = np.append(host.nearest(nodes.node), -1)[place]
    # Of nested nodes the innermost counts, be its forward operator known or not.
    same = (known >= 0) & ((known == any_node) | (nodes.sequence[known] == nodes.sequence[any_node]))
    adds_up = np.append(gradient_sources(index, nodes), -1)[any_node]
    origin = np.where(same, nodes.forward[known], np.where(adds_up >= 0, np.append(nodes.forward, -1)[adds_up], -1))
    has_origin = np.flatnonzero(origin >= 0)
    of_origin = np.full(place.size, -1, np.int64)
    there = origin[has_origin]
    # A node of a forward operator that ran again belongs to the module that ran again.
    of_origin[has_origin] = np.append(module, -1)[innermost(lanes, starts, ends, host.lanes[there], host.starts[there])]
    in_node = any_node >= 0
    again = by_time == RECOMPUTE
    by_node = np.where(again & (found >= 0), found, of_origin)
    found = np.where(in_node, by_node, found)
    in_module = ~in_node & (by_time < 0) & (found >= 0)
    phase = np.where(in_module, FORWARD, phase)
    found = np.where(np.isin(by_time, (OPTIMIZER, OTHER_NAMED)) & ~in_node, -1, found)
    _reduced(index, host, (in_node, adds_up != -1), reducer, place, (found, phase))
    _sharded(index, host, calls, module, place, (found, phase))
    outside = (found < 0) & (phase == BACKWARD)
    phase[outside & (adds_up == -2)] = BACKWARD_GRADIENT
    phase[outside & (origin >= 0)] = BACKWARD_OUTSIDE
    return found, phase


def _reduced(
    index: TraceIndex, host: HostTree, within: tuple[Mask, Mask], reducer: int, place: I64, of_places: tuple[I64, I64]
) -> None:
    """Give what data parallelism launched in the backward pass to its module, where it is the only one of its kind.

    within: places in nodes, and in nodes that add up gradients. of_places: module and phase of each place.
    """
    found, phase = of_places
    in_node, adds_up = within
    codes, names = index.texts("name")
    reduces = np.array([*(_REDUCER.match(name) is not None for name in names), False], np.bool_)[codes[host.rows]]
    talks = np.array([*(_COLLECTIVE.match(name) is not None for name in names), False], np.bool_)[codes[host.rows]]
    of_hook = adds_up & (np.append(host.nearest(talks), -1)[place] >= 0)
    # Its copies of buckets are outside of nodes: they follow when the last gradient is there.
    own = ~in_node & (phase != FORWARD) & (np.append(host.nearest(reduces), -1)[place] >= 0)
    found[of_hook | own] = -1
    phase[own] = BACKWARD
    if reducer >= 0 and reduces.any():
        found[of_hook | own] = reducer
        phase[of_hook] = BACKWARD
    else:
        phase[of_hook | own] = BACKWARD_COLLECTIVE


def _sharded(
    index: TraceIndex,
    host: HostTree,
    calls: tuple[I64, I64, I64],
    module: I64,
    place: I64,
    of_places: tuple[I64, I64],
) -> None:
    """Give what fully_shard (FSDP2) launched to the module that its range names, where the trace shows which that is.

    A range has the module's name in the model, "layers.0"; modules of stacks have their class and a number. The range
    before the forward pass is inside the call of the module, so it joins the two names. Ranges whose module has two
    calls of different modules, or none, change nothing. of_places: module and phase of each place, which are changed.
    """
    found, phase = of_places
    codes, names = index.texts("name")
    matches = [_SHARDED.fullmatch(name) for name in names]
    labels = sorted({match[1] for match in matches if match})
    if not labels:
        return
    number = {label: place for place, label in enumerate(labels)}
    label_of_name = np.array([*(number[match[1]] if match else -1 for match in matches), -1], np.int64)
    is_call = np.array([*(name.startswith(_SHARDED_CALL) for name in names), False], np.bool_)
    label = label_of_name[codes[host.rows]]
    lanes, starts, ends = calls
    before = np.flatnonzero(is_call[codes[host.rows]] & (label >= 0))
    inside = np.append(module, -1)[innermost(lanes, starts, ends, host.lanes[before], host.starts[before])]
    least = np.full(len(labels), np.iinfo(np.int64).max)
    most = np.full(len(labels), -1, np.int64)
    np.minimum.at(least, label[before], inside)
    np.maximum.at(most, label[before], inside)
    of_label = np.where(least == most, most, -1)
    target = np.append(of_label, -1)[np.append(label, -1)[np.append(host.nearest(label >= 0), -1)[place]]]
    at = np.flatnonzero(target >= 0)
    found[at] = target[at]
    phase[at[phase[at] == BACKWARD_COLLECTIVE]] = BACKWARD
