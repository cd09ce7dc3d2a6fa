"""modules: the device time of each module of the program, forward, backward and recomputed.

Modules are those of PyTorch's stacks (recorded with with_stack or with_modules), else the ranges that the program names
itself: see `index.modules`. Rows are in the order of a tree: a module, then the modules that it calls. device_total
counts the modules inside; device_self does not, so that it adds up over all rows to all device work. Work that belongs
to no module has rows of its own that say why.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracekit.analysis.efficiency.formulas import DEFINED
from tracekit.index import grouping
from tracekit.index.host_tree import lanes_in
from tracekit.index.modules import (
    ARGS_OF,
    BACKWARD_COLLECTIVE,
    BACKWARD_GRADIENT,
    BACKWARD_OUTSIDE,
    COLUMNS,
    NO_LAUNCH,
    NO_PHASE,
    RANGES,
    ModuleTree,
    module_tree,
)
from tracekit.index.trace_index import TraceIndex
from tracekit.index.training_phases import BACKWARD, FORWARD, OPTIMIZER, OTHER_NAMED, RECOMPUTE
from tracekit.index.work_units import ARGS_OF as _WORK_ARGS
from tracekit.index.work_units import COLUMNS as _WORK_COLUMNS
from tracekit.index.work_units import work_units
from tracekit.model.arrow import I64
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, Flame, ReportTable, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.advice import for_part
from tracekit.views.base import View, ViewColumn, ViewOptions

__all__ = ["VIEW"]

_TITLE = "Modules"
_COLUMNS = COLUMNS | _WORK_COLUMNS | {"bytes"}
_PHASES = ((FORWARD, "device_forward"), (BACKWARD, "device_backward"), (RECOMPUTE, "device_recompute"))
_UNATTRIBUTED = (
    (FORWARD, "(forward, in no module)"),
    (BACKWARD_OUTSIDE, "(backward, in no module)"),
    (BACKWARD_COLLECTIVE, "(collectives of the backward pass, module not known)"),
    (BACKWARD_GRADIENT, "(gradients, module not known)"),
    (BACKWARD, "(backward, module not known)"),
    (RECOMPUTE, "(recompute, module not known)"),
    (OPTIMIZER, "(optimizer)"),
    (OTHER_NAMED, "(other phase, in no module)"),
    (NO_PHASE, "(in no module)"),
    (NO_LAUNCH, "(launch not known)"),
)
MOST_PATHS = 20_000
"""Modules of the flame graph, those with the most device time."""


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the table of modules, and their device time as a flame graph. Raises: UsageError for a missing column."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    tree = module_tree(index)
    if tree is None:
        needs = "needs modules of PyTorch's stacks, or ranges of the program's own; this trace has none"
        return Section(VIEW.name, _TITLE, notes=(needs, *tabulate.option_notes(options)))
    order = _tree_order(tree)
    names: list[Cell] = [tree.names[place] for place in order.tolist()]
    loose = _loose(tree) if tree.host.work.size else []
    blank: list[Cell] = [None] * len(loose)
    columns = [
        specs.NAME.column([*names, *(name for name, _ in loose)]),
        _SHOWN["level"].column([*tree.depth[order].tolist(), *(0 for _ in loose)], 1),
        specs.CALLS.column([*tree.calls[order].tolist(), *blank], 2),
        _SHOWN["total"].column([*(ns if ns >= 0 else None for ns in tree.host_ns[order].tolist()), *blank], 2),
        *(_device(tree, order, [ns for _, ns in loose]) if tree.host.work.size else []),
        *_efficiency(index, tree, order, blank),
        *_memory(index, tree, order, blank),
    ]
    if len(set(names)) < len(names):
        columns.append(_SHOWN["path"].column([*_full_paths(tree, order), *blank], 3))
    table = _table(tree, order, columns, options)
    flames = (_flame(tree),) if tree.host.work.size and (tree.of_work >= 0).any() else ()
    return Section(VIEW.name, _TITLE, (table,), flames, (*_notes(tree), *tabulate.option_notes(options, table)))


def _table(tree: ModuleTree, order: I64, columns: list[Column], options: ViewOptions) -> ReportTable:
    """Return the table in the order of the tree, or by the column of --sort; with --top the rows with the most time."""
    count = len(columns[0].values)
    asked = tabulate.sort_key(options, [column.name for column in columns])[0] in {column.name for column in columns}
    kept = list(range(count))
    if 0 < options.top < count and not asked:
        # A module has at least the time of each one in it, so no row is without those around it.
        time = next((column for column in columns if column.name == "device_total"), None)
        weight = np.array([ns or 0 for ns in time.values], np.int64) if time is not None else _host_weight(tree, order)
        kept = sorted(np.argsort(-weight, kind="stable")[: options.top].tolist())
    columns = [replace(column, values=[column.values[row] for row in kept]) for column in columns]
    # The order of the tree is the table's own.
    places: list[tuple[Cell, ...]] = [(number,) for number in range(len(kept))]
    how = options if asked else replace(options, top=0)
    table = tabulate.finish("modules", _TITLE, columns, how, own_order="", blocks=places, top_each=False)
    return replace(table, omitted=table.omitted + count - len(kept))


def _host_weight(tree: ModuleTree, order: I64) -> I64:
    """Return the host time of each module, or of the one in it that has most: a checkpoint calls them apart."""
    weight = tree.host_ns.copy()
    for depth in range(int(tree.depth.max(initial=0)), 0, -1):
        level = np.flatnonzero(tree.depth == depth)
        np.maximum.at(weight, tree.parents[level], weight[level])
    return weight[order]


def _tree_order(tree: ModuleTree) -> I64:
    """Return the modules in the order of a tree: a module before what it calls, in order of first calls."""
    count = len(tree.names)
    below = tree.with_children(np.ones(count, np.int64))
    place = np.zeros(count, np.int64)
    # Within each parent, a module comes behind all of its earlier sisters.
    order = np.lexsort((tree.first, tree.parents))
    parent = tree.parents[order]
    before = np.cumsum(below[order]) - below[order]
    first = np.flatnonzero(np.append(True, parent[1:] != parent[:-1]))
    of_parent = np.repeat(before[first], np.diff(np.append(first, count)))
    place[order] = before - of_parent
    for depth in range(1, int(tree.depth.max(initial=0)) + 1):
        level = np.flatnonzero(tree.depth == depth)
        place[level] += place[tree.parents[level]] + 1
    return np.argsort(place, kind="stable")


def _full_paths(tree: ModuleTree, order: I64) -> list[Cell]:
    paths: list[str] = []
    for name, parent in zip(tree.names, tree.parents.tolist(), strict=True):
        paths.append(f"{paths[parent]}/{name}" if parent >= 0 else name)
    return [paths[place] for place in order.tolist()]


def _own_work(tree: ModuleTree, phase: int | None = None) -> I64:
    """Return the device ns of each module itself, of one phase or of all."""
    own = np.zeros(len(tree.names), np.int64)
    at = tree.of_work >= 0
    if phase is not None:
        at &= tree.phase == phase
    np.add.at(own, tree.of_work[at], tree.host.work_ns[at])
    return own


def _device(tree: ModuleTree, order: I64, loose: list[int]) -> list[Column]:
    own = _own_work(tree)
    whole = int(tree.host.work_ns.sum())
    total = [*tree.with_children(own)[order].tolist(), *loose]
    share: list[Cell] = [ns / whole if whole else None for ns in total]
    columns = [
        _SHOWN["device_total"].column(total),
        _SHOWN["device_self"].column([*own[order].tolist(), *loose], 1),
    ]
    parts = [(key, tree.with_children(_own_work(tree, phase))) for phase, key in _PHASES]
    # Without a backward pass all of it is forward.
    if any(ns.any() for key, ns in parts[1:]):
        blank: list[Cell] = [None] * len(loose)
        columns += [_SHOWN[key].column([*ns[order].tolist(), *blank], 1) for key, ns in parts if ns.any()]
    return [*columns, _SHOWN["device_ratio"].column(share)]


def _efficiency(index: TraceIndex, tree: ModuleTree, order: I64, blank: list[Cell]) -> list[Column]:
    """Return FLOPs and least time of the modules, and the time whose floor is known; none without shapes."""
    units = work_units(index)
    if units is None:
        return []
    # A call with work belongs to the module of its device events; those of several modules are nobody's.
    module = np.full(len(units), -1, np.int64)
    at = np.flatnonzero((units.of_work >= 0) & (tree.of_work >= 0))
    module[units.of_work[at]] = tree.of_work[at]
    low, high = np.full(len(units), len(tree.names), np.int64), np.full(len(units), -1, np.int64)
    inside = np.flatnonzero(units.of_work >= 0)
    np.minimum.at(low, units.of_work[inside], tree.of_work[inside])
    np.maximum.at(high, units.of_work[inside], tree.of_work[inside])
    module[low != high] = -1
    computing = (module >= 0) & units.known
    bounded = computing & np.isfinite(units.floor_ns)
    if not computing.any():
        return []
    columns = []
    # FLOPs by convention (of a norm, a sum) are no work that a device is measured by.
    by_definition = np.array([each.work.family in DEFINED for each in units.groups], np.bool_)[units.group]
    counted = computing & by_definition
    if counted.any() and float(units.flops[counted].astype(np.float64).sum()) < float(grouping.INT64_MAX):
        exact = np.zeros(len(tree.names), np.int64)
        np.add.at(exact, module[counted], units.flops[counted])
        columns.append(_SHOWN["flops"].column([*tree.with_children(exact)[order].tolist(), *blank], 2))
    if bounded.any():
        floor = np.zeros(len(tree.names), np.int64)
        np.add.at(floor, module[bounded], np.rint(units.floor_ns[bounded]).astype(np.int64))
        spent = np.zeros(len(tree.names), np.int64)
        np.add.at(spent, module[bounded], units.ns[bounded])
        total = tree.with_children(spent)[order].tolist()
        least = tree.with_children(floor)[order].tolist()
        columns.append(
            _SHOWN["floor"].column([*(ns if of else None for ns, of in zip(least, total, strict=True)), *blank], 1)
        )
        columns.append(_SHOWN["floor_of"].column([*total, *blank], 2))
    return columns


def _loose(tree: ModuleTree) -> list[tuple[str, int]]:
    """Return the device ns that belong to no module, by reason."""
    none = tree.of_work < 0
    found = [(name, none & (tree.phase == phase)) for phase, name in _UNATTRIBUTED]
    return [(name, int(tree.host.work_ns[at].sum())) for name, at in found if at.any()]


def _memory(index: TraceIndex, tree: ModuleTree, order: I64, blank: list[Cell]) -> list[Column]:
    """Return the column of bytes that were allocated while a module was open; none where that is known of no row."""
    rows = np.flatnonzero(index.kind_mask({Kind.MEMORY}) & index.has("bytes") & index.has("tid"))
    codes, names = index.texts("name")
    reserved = np.array([*(name.lower().startswith("reserved") for name in names), False], np.bool_)
    sizes = index.ints("bytes")
    rows = rows[(sizes[rows] > 0) & ~reserved[codes[rows]]]
    lanes = lanes_in(index, tree.host, rows)
    rows, lanes = rows[lanes >= 0], lanes[lanes >= 0]
    at = tree.around(lanes, index.starts[rows])
    known = at >= 0
    if not known.any():
        return []
    grouping.sums(at[known], len(tree.names), sizes[rows[known]], "sizes")  # raises where a total exceeds int64
    own = np.zeros(len(tree.names), np.int64)
    np.add.at(own, at[known], sizes[rows[known]])
    return [_SHOWN["allocated"].column([*tree.with_children(own)[order].tolist(), *blank], 2)]


def _flame(tree: ModuleTree) -> Flame:
    """Return the device time as a flame graph: each module with its own time, below the module that calls it."""
    own = _own_work(tree)
    total = tree.with_children(own)
    kept = np.flatnonzero(total > 0)
    if kept.size > MOST_PATHS:
        kept = np.sort(kept[np.argsort(-total[kept], kind="stable")][:MOST_PATHS])
    left_out = int(np.count_nonzero(total > 0)) - kept.size
    # What a module has, those around it have too: of equal totals the outer one comes first, so no parent is missing.
    number = np.full(len(tree.names) + 1, -1, np.int64)
    number[kept] = np.arange(kept.size)
    return Flame(
        "Device time by module",
        [tree.names[place] for place in kept.tolist()],
        number[tree.parents[kept]].tolist(),
        [],
        own[kept].tolist(),
        f"{plural(left_out, 'module')} with less time are not drawn" if left_out else "",
        "ns",
    )


def _notes(tree: ModuleTree) -> list[str]:
    what = "module" if tree.stacks else "range"
    notes = [f"rows are a tree: each {what}, then those in it; totals count what is inside, self times add up"]
    if not tree.stacks:
        text = "this trace has no modules (record with_stack=True): these are the ranges that the program names"
        notes.append(for_part(tree.host.index, text))
    if (tree.phase == BACKWARD).any():
        notes.append(
            "backward work belongs to the module of its forward operator, and adding up a gradient to the module that "
            "it is of; what DistributedDataParallel launches is its own"
        )
    return notes


_SHOWS = (
    specs.NAME,
    ViewColumn("level", "Level", Unit.COUNT, "The depth in the tree: 0 for the outermost modules."),
    specs.CALLS,
    ViewColumn("total", "CPU total", Unit.NS, "The sum of the durations on the host, recomputing included."),
    ViewColumn("device_total", "Device total", Unit.NS, "The device work of the module and of all modules in it."),
    ViewColumn("device_self", "Device self", Unit.NS, "The device work of the module without the modules in it."),
    ViewColumn("device_forward", "Forward", Unit.NS, "The part of the device total in the forward pass."),
    ViewColumn("device_backward", "Backward", Unit.NS, "The part of the device total in the backward pass."),
    ViewColumn(
        "device_recompute", "Recompute", Unit.NS, "The part of the device total that a checkpoint computed again."
    ),
    ViewColumn("device_ratio", "Device ratio", Unit.RATIO, "The device total, as a share of all device work."),
    ViewColumn(
        "flops",
        "FLOPs",
        Unit.COUNT,
        "The floating-point operations of matrix products, convolutions and attention.",
    ),
    ViewColumn(
        "floor",
        "Floor",
        Unit.NS,
        "The least time that the device needs for the operators whose work is known, at their shapes and datatypes.",
    ),
    ViewColumn("floor_of", "Floor known of", Unit.NS, "The device time of the operators whose floor is known."),
    ViewColumn("allocated", "Allocated", Unit.BYTES, "The bytes that were allocated while the module was open."),
    ViewColumn("path", "Path", Unit.TEXT, "The module with all that are around it, where several have one name."),
)
_SHOWN = specs.by_key(_SHOWS)

VIEW = View(
    name="modules",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=RANGES | {Kind.PYTHON_OP},
    args_of=ARGS_OF | _WORK_ARGS,
    compute=compute,
    shows=_SHOWS,
)
