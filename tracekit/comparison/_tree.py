"""Device work of a run by module, operator and shapes, for the change by tree.

A device event belongs to the outermost operator around its launch that has the work of the event (`index.work_units`),
else to the innermost operator, and to the module of `index.modules`. Calls are calls of the operator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tracekit.comparison._device_work import DeviceWork
from tracekit.index import host_tree, modules, work_units
from tracekit.index.graphs import graph_work, host_with_graphs
from tracekit.index.modules import ModuleTree, module_tree
from tracekit.index.trace_index import index_of
from tracekit.lazy_dataclass import dataclass
from tracekit.model import args as members
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.display import plural
from tracekit.model.schema import Kind
from tracekit.model.trace import Trace

__all__ = ["ARGS_OF", "COLUMNS", "NO_MODULE", "NO_OPERATOR", "TreeAmount", "TreeKey", "TreeWork", "tree_work"]

COLUMNS = modules.COLUMNS | work_units.COLUMNS | {"raw_name", "bytes"}
ARGS_OF = modules.ARGS_OF | work_units.ARGS_OF
NO_OPERATOR, NO_MODULE = "(no operator)", "(no module)"
_PICOSECONDS = 1_000


class TreeKey(NamedTuple):
    """A module with all that are around it, an operator in it, and its shapes, "" where they are not known."""

    module: str
    operator: str
    shapes: str


@dataclass(frozen=True, slots=True)
class TreeAmount:
    """Device work of one key. floor_ps: the least time of all calls, picoseconds; None where a floor is not known."""

    calls: int
    ns: int
    floor_ps: int | None
    kernels: frozenset[str]


@dataclass(frozen=True, slots=True)
class TreeWork:
    """Device work of a run, and of its steps after warm-up. modules: whether the run names modules."""

    whole: Mapping[TreeKey, TreeAmount]
    steady: Mapping[TreeKey, TreeAmount]
    modules: bool

    def __repr__(self) -> str:
        return f"device work of {plural(len(self.whole), 'place')} in modules and operators"


def tree_work(trace: Trace, work: DeviceWork) -> TreeWork:
    """Return the device work of a run by module, operator and shapes."""
    index = index_of(trace)
    host = host_with_graphs(index)
    if not host.work.size:
        return TreeWork({}, {}, False)
    place, caller, floor = _operators(trace, host)
    codes, names = index.texts("name")
    operator = np.where(place >= 0, codes[np.append(host.rows, 0)[place]], -1)
    # Work of no operator is compared by its own name.
    kernel = codes[host.work].astype(np.int64)
    shape, shapes = _shapes(trace, host, place)
    tree = module_tree(index)
    module = tree.of_work if tree is not None else np.full(host.work.size, -1, np.int64)
    own = np.column_stack((module, operator, np.where(place >= 0, -1, kernel), shape))
    keys, group = np.unique(own, axis=0, return_inverse=True)
    group = group.reshape(-1)
    paths = _paths(tree)
    labels = [
        TreeKey(
            paths[m] if m >= 0 else NO_MODULE,
            _name(names, o) if k < 0 and o >= 0 else f"{NO_OPERATOR} {_name(names, k)}",
            shapes[s] if s >= 0 else "",
        )
        for m, o, k, s in keys.tolist()
    ]
    everything = np.ones(host.work.size, np.bool_)
    steady = np.zeros(index.events.num_rows, np.bool_)
    steady[work.rows[work.step >= 0]] = True
    parts = [
        _amounts(host, labels, group, caller, floor, kernel, names, mask) for mask in (everything, steady[host.work])
    ]
    return TreeWork(parts[0], parts[1], tree is not None and tree.stacks)


def _name(names: list[str], code: int) -> str:
    return names[code] if code >= 0 else host_tree.NO_NAME


_WRAPPER = re.compile(r"(?:(?:Distributed|FullySharded)?DataParallel|OptimizedModule|DeepSpeedEngine)(?:_\d+)?")
"""Modules that hold a model and compute nothing: a model with one and the same model without are one."""


def _paths(tree: ModuleTree | None) -> list[str]:
    """Return the path of each module, without the wrappers around it."""
    if tree is None:
        return []
    paths: list[str] = []
    for name, parent in zip(tree.names, tree.parents.tolist(), strict=True):
        above = paths[parent] if parent >= 0 else ""
        own = "" if _WRAPPER.fullmatch(name) else name
        paths.append("/".join(filter(None, (above, own))))
    # Work of a wrapper itself, such as its copies of buffers.
    return [path or name for path, name in zip(paths, tree.names, strict=True)]


def _operators(trace: Trace, host: host_tree.HostTree) -> tuple[I64, I64, I64]:
    """Return the place of the operator of each device event, -1 for none, its call, and by call the floor in ps.

    Work of no operator is a call of its own, and each launch of a graph calls its operators anew. The floor is -1 where
    it is unknown.
    """
    index = index_of(trace)
    operator = index.kind_mask({Kind.OPERATOR})[host.rows]
    place = np.append(host.nearest(operator), -1)[host.owner]
    units = work_units.work_units(index)
    if units is not None:
        place = np.where(units.of_work >= 0, np.append(units.place, -1)[units.of_work], place)
    graphs = graph_work(index)
    launch = np.full(place.size, -1, np.int64)
    if graphs is not None:
        launch = np.where(graphs.call >= 0, host.launch, -1)
    own = np.where(place >= 0, place, host.rows.size + np.arange(place.size))
    pairs, caller = np.unique(np.column_stack((own, launch)), axis=0, return_inverse=True)
    caller = caller.reshape(-1)
    floor = np.full(pairs.shape[0], -1, np.int64)
    if units is not None:
        known = np.isfinite(units.floor_ns) & ~units.quicker
        inside = np.flatnonzero((units.of_work >= 0) & np.append(known, False)[units.of_work])
        floor[caller[inside]] = np.rint(units.floor_ns[units.of_work[inside]] * _PICOSECONDS).astype(np.int64)
    return place, caller, floor


def _shapes(trace: Trace, host: host_tree.HostTree, place: I64) -> tuple[I64, list[str]]:
    """Return the shapes and datatypes of the operator of each device event, as a number of a text; -1 for unknown."""
    column = trace.events.column("args") if "args" in trace.events.column_names else None
    called = sets.unique(place[place >= 0])
    out = np.full(host.rows.size + 1, -1, np.int64)
    if column is None or not called.size:
        return out[place], []
    args = arrow.take(column, host.rows[called])
    codes, dims = members.values(args, "Input Dims")
    type_codes, types = members.values(args, "Input type", "Input Types")
    texts: dict[str, int] = {}
    pairs, group = np.unique(np.column_stack((codes, type_codes)), axis=0, return_inverse=True)
    numbers = []
    for dim, kind in pairs.tolist():
        if dim < 0:
            numbers.append(-1)
            continue
        text = json.dumps([dims[dim], types[kind] if kind >= 0 else None])
        numbers.append(texts.setdefault(text, len(texts)))
    out[called] = np.array(numbers, np.int64)[group.reshape(-1)]
    return out[place], list(texts)


def _amounts(
    host: host_tree.HostTree,
    labels: list[TreeKey],
    group: I64,
    caller: I64,
    floor_of_call: I64,
    kernel: I64,
    names: list[str],
    mask: Mask,
) -> dict[TreeKey, TreeAmount]:
    at = np.flatnonzero(mask)
    count = len(labels)
    ns = np.zeros(count, np.int64)
    np.add.at(ns, group[at], host.work_ns[at])
    pairs = np.unique(np.column_stack((group[at], caller[at])), axis=0)
    calls = np.bincount(pairs[:, 0], minlength=count)
    # The work of an operator may be in several groups (of parts that ran in other modules): its floor has no parts.
    split = sets.unique(caller[at]).size < pairs.shape[0]
    floors = floor_of_call[pairs[:, 1]]
    if split:
        times = np.unique(pairs[:, 1], return_counts=True, return_inverse=True)
        floors = np.where(times[2][times[1].reshape(-1)] > 1, -1, floors)
    unknown = np.bincount(pairs[floors < 0, 0], minlength=count) > 0
    floor = np.zeros(count, np.int64)
    np.add.at(floor, pairs[floors >= 0, 0], floors[floors >= 0])
    used = np.unique(np.column_stack((group[at], kernel[at])), axis=0)
    kernels: dict[int, set[str]] = {}
    for number, code in used.tolist():
        kernels.setdefault(number, set()).add(_name(names, code))
    out: dict[TreeKey, TreeAmount] = {}
    for number, its_kernels in kernels.items():
        known = None if unknown[number] else int(floor[number])
        amount = TreeAmount(int(calls[number]), int(ns[number]), known, frozenset(its_kernels))
        before = out.get(labels[number])
        out[labels[number]] = amount if before is None else _sum(before, amount)
    return out


def _sum(one: TreeAmount, other: TreeAmount) -> TreeAmount:
    floor = None if one.floor_ps is None or other.floor_ps is None else one.floor_ps + other.floor_ps
    return TreeAmount(one.calls + other.calls, one.ns + other.ns, floor, one.kernels | other.kernels)
