"""FLOPs of operators, from the shapes of their inputs, by Paddle's formulas.

Paddle counts for a few operators of its static graphs; all others count 0, and so does one without shapes. Shapes are
in the files; the attributes that some formulas need too (padding, transposition, epsilon) are in none, so that these
counts are not known. An operator's count holds those of the operators below it.
Source: python/paddle/utils/flops.py of Paddle 2.6 and 3.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Final

import numpy as np
import orjson

from tracekit.compat.paddle import tree
from tracekit.compat.paddle.tree import PADDLE_FORMATS, TREE_COLUMNS, TYPES, Forest, forest, matching
from tracekit.errors import Option, UsageError, sentence
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Mask
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.units import Unit
from tracekit.views.base import ViewOptions
from tracekit.views.tabulate import require

__all__ = [
    "OPERATOR_COLUMNS",
    "PHASES",
    "group",
    "kernel",
    "memory_manipulation",
    "model",
    "operator",
    "phase_items",
    "user_defined",
]

# Items of Paddle's tables: rows grouped by name as Paddle first sees them, sorted as it sorts.


@dataclass(frozen=True, slots=True)
class ItemGroup:
    """Rows in groups, numbered as they are first seen. codes: the group of each row. first: a row of each group."""

    codes: I64
    first: I64

    @property
    def count(self) -> int:
        """The number of groups."""
        return self.first.size


def group(seen: I64, *keys: I64) -> ItemGroup:
    """Return the groups of rows that agree in all keys (none below -1); seen: when each row is seen."""
    codes = np.zeros(seen.size, np.int64)
    for key in keys:
        _, codes = np.unique(codes * (int(key.max(initial=0)) + 2) + key, return_inverse=True)
        codes = codes.astype(np.int64, copy=False)
    order = np.argsort(seen, kind="stable")
    _, at = np.unique(codes[order], return_index=True)
    first = order[np.sort(at)]
    number = np.empty(at.size, np.int64)
    number[codes[first]] = np.arange(first.size)
    return ItemGroup(number[codes] if codes.size else codes, first)


@dataclass(frozen=True, slots=True)
class ItemTimes:
    """Calls and the sum, longest and shortest of durations in ns, of one item; ratio: None where it has no whole."""

    calls: int
    total: int
    max: int
    min: int
    ratio: float | None = None

    def over(self, whole: int | None) -> ItemTimes:
        """Return it with its ratio to a whole; 0 where the whole is 0, None where it is None."""
        ratio = None if whole is None else self.total / whole if whole else 0.0
        return ItemTimes(self.calls, self.total, self.max, self.min, ratio)

    @property
    def avg(self) -> float:
        """The mean."""
        return self.total / self.calls


def times(groups: ItemGroup, values: I64) -> list[ItemTimes]:
    """Return the times of each group. Paddle's maximum begins at 0."""
    total, most = np.zeros(groups.count, np.int64), np.zeros(groups.count, np.int64)
    least = np.full(groups.count, np.iinfo(np.int64).max)
    np.add.at(total, groups.codes, values)
    np.maximum.at(most, groups.codes, values)
    np.minimum.at(least, groups.codes, values)
    calls = np.bincount(groups.codes, minlength=groups.count)
    columns = (calls.tolist(), total.tolist(), most.tolist(), least.tolist())
    return [ItemTimes(*row) for row in zip(*columns, strict=True)]


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """One line of a table of times. level: its indent. cpu, gpu: None where Paddle prints dashes."""

    name: str
    calls: int | None
    cpu: ItemTimes | None
    gpu: ItemTimes | None
    level: int = 0
    thread: str = ""
    flops: int | None = None


def line_columns(lines: Sequence[SummaryLine], *sides: str) -> list[Column]:
    """Return the columns of times of these sides ("cpu", "gpu"): total, avg, max, min, ratio of each."""
    columns = []
    for side in sides:
        sides_of_lines: list[ItemTimes | None] = [getattr(line, side) for line in lines]
        title = side.upper()
        # A maximum below its minimum is of no occurrence: Others has only totals.
        single = [t if t is not None and t.calls else None for t in sides_of_lines]
        cells: dict[str, list[Cell]] = {
            "total": [None if t is None else t.total for t in sides_of_lines],
            "avg": [None if t is None else round(t.total / t.calls) for t in single],
            "max": [None if t is None else t.max for t in single],
            "min": [None if t is None else t.min for t in single],
        }
        columns += [Column(f"{side}_{key}", f"{title} {key}", Unit.NS, cells[key], 1) for key in cells]
        ratio: list[Cell] = [None if t is None else t.ratio for t in sides_of_lines]
        columns.append(Column(f"{side}_ratio", f"{title} ratio", Unit.RATIO, ratio, 2))
    return columns


Sides = tuple[ItemTimes, ItemTimes]
"""CPU and GPU times of an item."""
_KEYS: Mapping[str, tuple[Callable[[Sides], float], bool]] = MappingProxyType(
    {
        "CPUTotal": (lambda item: item[0].total, True),
        "CPUAvg": (lambda item: item[0].avg, True),
        "CPUMax": (lambda item: item[0].max, True),
        "CPUMin": (lambda item: item[0].min, False),
        "GPUTotal": (lambda item: item[1].total, True),
        "GPUAvg": (lambda item: item[1].avg, True),
        "GPUMax": (lambda item: item[1].max, True),
        "GPUMin": (lambda item: item[1].min, False),
    }
)
"""Paddle's SortedKeys, and whether the largest comes first."""


def sort_key(options: ViewOptions) -> str:
    """Return the name of a SortedKeys: Paddle's own, or one of our columns. Raises: UsageError."""
    wanted = options.sorted_by
    spellings = {key.lower(): key for key in _KEYS} | {"": "CPUTotal"}
    spellings |= {f"{key[:3]}_{key[3:]}".lower(): key for key in _KEYS}
    spellings |= {key[3:].lower(): key for key in _KEYS if key.startswith("CPU")}
    if wanted.lower() not in spellings:
        raise UsageError(sentence(Option("sort", wanted), ": Paddle sorts by no such key"), choices=_KEYS)
    return spellings[wanted.lower()]


def ranked(items: Sequence[Sides], key: str) -> list[int]:
    """Return the order of items by a SortedKeys; equal ones stay as they were seen."""
    figure_of, largest_first = _KEYS[key]
    return sorted(range(len(items)), key=lambda i: figure_of(items[i]), reverse=largest_first)


Shapes = Mapping[str, Sequence[Sequence[int]]]
_SUFFIXES: Final = (" compute", " dygraph", " pybind_imperative_func")
_UNKNOWN: Final = -1


def _size(shapes: Shapes) -> int:
    return prod(shapes["X"][0])


def _broadcast(shapes: Shapes) -> int:
    x, y = shapes["X"][0], shapes["Y"][0]
    longest = max(len(x), len(y))
    padded = ([1] * (longest - len(shape)) + list(shape) for shape in (x, y))
    return prod(max(pair) for pair in zip(*padded, strict=True))


_FORMULAS: Mapping[str, Callable[[Shapes], int]] = MappingProxyType(
    dict.fromkeys(("elementwise_add", "elementwise_mul", "elementwise_div"), _broadcast)
    | dict.fromkeys(("elu", "leaky_relu", "prelu", "relu", "relu6", "silu", "pool"), _size)
    | {"gelu": lambda shapes: 5 * _size(shapes), "softmax": lambda shapes: 3 * _size(shapes)}
)
_INPUTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "conv2d": ("Bias", "Input", "Filter"),
        "layer_norm": ("X",),
        "matmul_v2": ("X", "Y"),
    }
)
"""Those whose count depends on attributes, where these inputs have shapes."""


def flops(trees: Forest, ops: I64, items: ItemGroup) -> tuple[list[int | None], list[str]]:
    """Return the FLOPs of each item of operators, None where they are not known, and a note on these.

    ops: host events; items: their groups.
    """
    hosts, columns = trees.hosts, trees.columns
    from_paddle = columns.of_format(*PADDLE_FORMATS)[hosts.rows[ops]]
    operations = np.zeros(hosts.rows.size, np.int64)
    unknown = np.zeros(hosts.rows.size, np.int64)
    args = columns.args(hosts.rows[ops])
    shaped = matching(args, '"input_shapes":\\{"')
    counted: dict[tuple[str, str], int] = {}
    for node, text in zip(ops[shaped].tolist(), arrow.texts(args.filter(arrow.array(shaped))), strict=True):
        name = trees.names[hosts.name[node]]
        count = counted.setdefault((name, text), _count(name, text))
        operations[node], unknown[node] = max(count, 0), int(count == _UNKNOWN)
    everyone = np.arange(hosts.rows.size)
    operations, unknown = hosts.sum_up(everyone, operations)[ops], hosts.sum_up(everyone, unknown)[ops]
    unknown[~from_paddle] += 1
    total, unsure = np.zeros(items.count, np.int64), np.zeros(items.count, np.int64)
    np.add.at(total, items.codes, operations)
    np.add.at(unsure, items.codes, unknown)
    sums: list[int | None] = [None if u else t for t, u in zip(total.tolist(), unsure.tolist(), strict=True)]
    notes = []
    if (~from_paddle).any():
        notes.append("FLOPs are unknown but for Paddle's own files, which have the shapes of inputs")
    elif lacking := sums.count(None):
        notes.append(f"FLOPs of {plural(lacking, 'operator')} depend on attributes that no file has")
    return sums, notes


def _count(name: str, args: str) -> int:
    """Return the FLOPs of one call, _UNKNOWN where attributes decide; Paddle counts 0 where its formula fails."""
    for suffix in _SUFFIXES:
        name = name.replace(suffix, "")
    try:
        shapes = orjson.loads(args)["input_shapes"]
        if name == "matmul":
            pair = [shapes.get(key, shapes.get(key.lower(), [[0]]))[0] for key in ("X", "Y")]
            return _UNKNOWN if min(map(len, pair)) > 1 else 0
        if name in _INPUTS:
            return _UNKNOWN if all(shapes[key] and shapes[key][0] for key in _INPUTS[name] if key != "Bias") else 0
        return int(_FORMULAS[name](shapes)) if name in _FORMULAS else 0
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return 0


# Paddle's Model, Operator, Kernel, Memory Manipulation and UserDefined Summary: sums over occurrences, by name.
#
# GPU time is that of the work launched below an event, wherever and whenever it ran: kernels alone in the Model
# Summary, copies and memsets too in the others. Ratios are to T (CPU of the Model, Memory Manipulation and UserDefined
# Summary), to the GPU time of all ProfileStep (their GPU), to the sum over all operators of a block, to the operator or
# the child above, to the sum over all kernels.


OPERATOR_COLUMNS = TREE_COLUMNS | {"args"}
STEP: Final = "ProfileStep"
PHASES: Final = ("Dataloader", "Forward", "Backward", "Optimization")
MERGED: Final = "All threads merged"
NO_STEP: Final = "no ProfileStep: ratios to it are unknown, where Paddle stops with an error"
_MOVES: Final = ("memcpy", "memorycopy", "memset")


def phase_items(trees: Forest) -> dict[str, Sides]:
    """Return the items of the Model Summary: steps, and phases that lie in no other phase."""
    hosts = trees.hosts
    phases = hosts.is_kind(*PHASES)
    outermost = ~tree.rows_below(hosts.parent, hosts.depth, phases)
    rows = np.flatnonzero(outermost & (phases | hosts.is_kind(STEP)))
    by_type = group(hosts.seen[rows], hosts.kind[rows])
    kernel = trees.work_is("Kernel")
    gpu = hosts.sum_up(trees.work.owner[kernel], trees.work_ns[kernel])
    names = [TYPES[code] for code in hosts.kind[rows[by_type.first]].tolist()]
    sides = zip(times(by_type, _cpu(trees)[rows]), times(by_type, gpu[rows]), strict=True)
    return dict(zip(names, sides, strict=True))


def _cpu(trees: Forest) -> I64:
    return trees.hosts.end - trees.hosts.start


def _all_gpu(trees: Forest) -> I64:
    """Return for each host event the time of all device work below it."""
    return trees.hosts.sum_up(trees.work.owner, trees.work_ns)


def _step_gpu(trees: Forest, gpu: I64) -> int | None:
    """Return the device time below the steps of the Model Summary, None without any."""
    hosts = trees.hosts
    outermost = ~tree.rows_below(hosts.parent, hosts.depth, hosts.is_kind(*PHASES))
    steps = hosts.is_kind(STEP) & outermost
    return int(gpu[steps].sum()) if steps.any() else None


def model(index: TraceIndex, options: ViewOptions) -> Section:  # noqa: ARG001 - as all views
    """Return the Model Summary; no table where there are not two sorts of rows."""
    require(index, "model", TREE_COLUMNS)
    trees = forest(index)
    items = phase_items(trees)
    if len(items) < 2:
        needs = "no Model Summary: it needs steps, and forward, backward, dataloader or optimizer in them"
        return Section("model", "Model Summary", notes=(*trees.notes, needs))
    total = trees.step_ns
    whole = items[STEP][1].total if STEP in items else None
    lines = []
    for name in (STEP, *PHASES):
        if name in items:
            cpu, gpu = items[name]
            lines.append(SummaryLine(name, cpu.calls, _of_steps(cpu, total), gpu.over(whole), int(name != STEP)))
    rest = [total - sum(items[name][0].total for name in PHASES if name in items)]
    rest.append((whole or 0) - sum(items[name][1].total for name in PHASES if name in items))
    cpu, gpu = (ItemTimes(0, ns, 0, 0) for ns in rest)
    lines.append(SummaryLine("Others", None, _of_steps(cpu, total), gpu.over(whole), 1))
    notes = list(trees.notes)
    if whole is None:
        notes.append(NO_STEP)
    if min(rest) < 0:
        notes.append("Others is below zero: phases run outside of steps, or side by side on several threads")
    return Section("model", "Model Summary", (_table("model", "Model Summary", lines),), notes=tuple(notes))


def _of_steps(times_of_item: ItemTimes, total: int) -> ItemTimes:
    return times_of_item.over(total if total else None)


def _table(
    name: str, title: str, lines: Sequence[SummaryLine], *, sides: Sequence[str] = ("cpu", "gpu")
) -> ReportTable:
    columns = [
        Column("name", "Name", Unit.TEXT, [line.name for line in lines]),
        Column("level", "Level", Unit.COUNT, [line.level for line in lines], 3),
        Column("calls", "Calls", Unit.COUNT, [line.calls for line in lines]),
        *line_columns(lines, *sides),
    ]
    if any(line.thread for line in lines):
        columns.insert(0, Column("thread", "Thread", Unit.TEXT, [line.thread for line in lines], 1))
    return ReportTable(name, title, tuple(columns))


def _thread_names(trees: Forest, wanted: bool) -> list[str]:
    return [str(tid) for _, _, tid in trees.threads] if wanted else [MERGED]


def _top(order: list[int], options: ViewOptions) -> list[int]:
    return order[: options.top] if options.top > 0 else order


def operator(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the Operator Summary. Raises: UsageError for an unknown key of --sort."""
    require(index, "operator", OPERATOR_COLUMNS)
    key = sort_key(options)
    trees = forest(index)
    hosts = trees.hosts
    is_op = hosts.is_kind("Operator")
    ops = np.flatnonzero(is_op)
    if not ops.size:
        return Section(
            "operator", "Operator Summary", notes=(*trees.notes, "no Operator Summary: it needs operator events")
        )
    gpu = _all_gpu(trees)
    block = hosts.thread[ops] if options.thread_sep else np.zeros(ops.size, np.int64)
    items = group(hosts.seen[ops], block, hosts.name[ops])
    cpu_times, gpu_times = times(items, _cpu(trees)[ops]), times(items, gpu[ops])
    known, unsure = flops(trees, ops, items)
    details = _Details(trees, ops, items, gpu) if options.op_detail else None
    threads = _thread_names(trees, options.thread_sep)
    blocks: dict[int, list[int]] = {}
    for item, thread in enumerate(block[items.first].tolist()):
        blocks.setdefault(thread, []).append(item)
    lines: list[SummaryLine] = []
    omitted = 0
    names = [trees.names[code] for code in hosts.name[ops[items.first]].tolist()]
    for thread, members in blocks.items():
        order = ranked([(cpu_times[i], gpu_times[i]) for i in members], key)
        cpu_whole, gpu_whole = (sum(of[i].total for i in members) for of in (cpu_times, gpu_times))
        shown = _top(order, options)
        omitted += len(order) - len(shown)
        for place in shown:
            item = members[place]
            cpu, on_gpu = cpu_times[item].over(cpu_whole), gpu_times[item].over(gpu_whole)
            lines.append(SummaryLine(names[item], cpu.calls, cpu, on_gpu, 0, threads[thread], known[item]))
            if details is not None:
                lines += details.below(item, cpu, on_gpu, threads[thread])
    table = _table("operators", "Operator Summary", lines)
    columns = (*table.columns, Column("flops", "FLOPs", Unit.COUNT, [line.flops for line in lines], 3))
    notes = [*trees.notes, *unsure]
    return Section(
        "operator", "Operator Summary", (ReportTable(table.name, table.title, columns, omitted),), notes=tuple(notes)
    )


class _Details:
    """The rows below an operator: its children by name, the work that each launched, the work that it launched."""

    def __init__(self, trees: Forest, ops: I64, items: ItemGroup, gpu: I64) -> None:
        hosts, work = trees.hosts, trees.work
        self._names = trees.names
        is_op = hosts.is_kind("Operator")
        item_of = np.full(hosts.rows.size + 1, -1, np.int64)
        item_of[ops] = items.codes
        # Children of operators, in the order in which Paddle visits the operators, each one's by start.
        child = np.flatnonzero((hosts.parent >= 0) & ~is_op & (item_of[hosts.parent] >= 0))
        child = child[np.lexsort((child, hosts.seen[hosts.parent[child]]))]
        inner = group(np.arange(child.size), item_of[hosts.parent[child]], hosts.name[child])
        self._inner = self._lines(trees, inner, hosts.name[child], item_of[hosts.parent[child]], count=items.count)
        self._cpu, self._gpu = times(inner, _cpu(trees)[child]), times(inner, gpu[child])

        inner_of = np.full(hosts.rows.size + 1, -1, np.int64)
        inner_of[child] = inner.codes
        rank = np.full(hosts.rows.size + 1, -1, np.int64)
        rank[child] = np.arange(child.size)
        launched = np.flatnonzero(inner_of[work.owner] >= 0)
        launched = launched[np.lexsort((launched, rank[work.owner[launched]]))]
        self._below_inner = self._work(trees, launched, inner_of[work.owner[launched]], inner.count)
        direct = np.flatnonzero(item_of[work.owner] >= 0)
        self._below_item = self._work(trees, direct, item_of[work.owner[direct]], items.count)

    @staticmethod
    def _lines(trees: Forest, groups: ItemGroup, name: I64, above: I64, *, count: int) -> list[list[tuple[int, str]]]:
        """Return for each of `count` rows above the groups below it, as they are seen, with their names."""
        lines: list[list[tuple[int, str]]] = [[] for _ in range(count)]
        for number, row in enumerate(groups.first.tolist()):
            lines[above[row]].append((number, trees.names[name[row]]))
        return lines

    def _work(self, trees: Forest, rows: I64, above: I64, count: int) -> list[list[tuple[ItemTimes, str]]]:
        """Return for each of `count` rows above the device work that it launched, by name."""
        name = trees.name[trees.work.rows[rows]]
        of = group(np.arange(rows.size), above, name)
        spent = times(of, trees.work_ns[rows])
        listed = self._lines(trees, of, name, above, count=count)
        return [[(spent[number], text) for number, text in below] for below in listed]

    def below(self, item: int, cpu: ItemTimes, gpu: ItemTimes, thread: str) -> list[SummaryLine]:
        """Return the lines below an operator."""
        lines = []
        for inner, name in self._inner[item]:
            own_cpu, own_gpu = self._cpu[inner], self._gpu[inner]
            lines.append(SummaryLine(name, own_cpu.calls, own_cpu.over(cpu.total), own_gpu.over(gpu.total), 1, thread))
            for spent, text in self._below_inner[inner]:
                lines.append(SummaryLine(text, spent.calls, None, spent.over(own_gpu.total), 2, thread))
        for spent, text in self._below_item[item]:
            lines.append(SummaryLine(text, spent.calls, None, spent.over(gpu.total), 1, thread))
        return lines


def kernel(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the Kernel Summary, of work outside of all host events too. Raises: UsageError."""
    require(index, "kernel", TREE_COLUMNS)
    key = sort_key(options)
    trees = forest(index)
    rows = np.flatnonzero(trees.work_is("Kernel"))
    if not rows.size:
        return Section(
            "kernel", "Kernel Summary", notes=(*trees.notes, "no Kernel Summary: it needs kernels with their launches")
        )
    name = trees.name[trees.work.rows[rows]]
    items = group(np.arange(rows.size), name)
    spent = times(items, trees.work_ns[rows])
    whole = sum(of.total for of in spent)
    order = ranked([(of, of) for of in spent], key if key in ("GPUAvg", "GPUMax", "GPUMin") else "GPUTotal")
    shown = _top(order, options)
    names = [trees.names[code] for code in name[items.first].tolist()]
    lines = [SummaryLine(names[i], spent[i].calls, None, spent[i].over(whole)) for i in shown]
    table = _table("kernels", "Kernel Summary", lines, sides=("gpu",))
    table = ReportTable(table.name, table.title, table.columns, len(order) - len(shown))
    return Section("kernel", "Kernel Summary", (table,), notes=trees.notes)


def _moves(trees: Forest) -> Mask:
    """Return which host events are named as copies or memsets."""
    named = [any(part in name.lower() for part in _MOVES) for name in trees.names]
    moves: Mask = np.array([*named, False], np.bool_)[trees.hosts.name]
    return moves


def memory_manipulation(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the Memory Manipulation Summary: user ranges named as copies or memsets, as they are seen."""
    require(index, "memory_manipulation", TREE_COLUMNS)
    trees = forest(index)
    hosts = trees.hosts
    rows = np.flatnonzero(hosts.is_kind("UserDefined", "PythonUserDefined") & _moves(trees))
    if not rows.size:
        needs = "no Memory Manipulation Summary: it needs ranges named memcpy, memorycopy or memset"
        return Section("memory_manipulation", "Memory Manipulation Summary", notes=(*trees.notes, needs))
    lines, notes = _ranges(trees, rows, np.zeros(rows.size, np.int64))
    shown = _top(list(range(len(lines))), options)
    table = _table("ranges", "Memory Manipulation Summary", [lines[i] for i in shown])
    table = ReportTable(table.name, table.title, table.columns, len(lines) - len(shown))
    return Section("memory_manipulation", "Memory Manipulation Summary", (table,), notes=(*trees.notes, *notes))


def _ranges(trees: Forest, rows: I64, block: I64) -> tuple[list[SummaryLine], list[str]]:
    """Return a line for each name of ranges in each block, as they are seen; level: the block."""
    hosts = trees.hosts
    gpu = _all_gpu(trees)
    total, whole = trees.step_ns, _step_gpu(trees, gpu)
    items = group(hosts.seen[rows], block, hosts.name[rows])
    cpu_times, gpu_times = times(items, _cpu(trees)[rows]), times(items, gpu[rows])
    lines = []
    for item, row in enumerate(items.first.tolist()):
        cpu = cpu_times[item]
        name = trees.names[hosts.name[rows[row]]]
        lines.append(SummaryLine(name, cpu.calls, _of_steps(cpu, total), gpu_times[item].over(whole), int(block[row])))
    return lines, [NO_STEP] if whole is None else []


def user_defined(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the UserDefined Summary: ranges that Python opened, but for copies. Raises: UsageError."""
    require(index, "user_defined", TREE_COLUMNS)
    key = sort_key(options)
    trees = forest(index)
    hosts = trees.hosts
    rows = np.flatnonzero(hosts.is_kind("PythonUserDefined") & ~_moves(trees))
    if not rows.size:
        return Section(
            "user_defined",
            "UserDefined Summary",
            notes=(*trees.notes, "no UserDefined Summary: it needs ranges opened by Python"),
        )
    block = hosts.thread[rows] if options.thread_sep else np.zeros(rows.size, np.int64)
    found, notes = _ranges(trees, rows, block)
    threads = _thread_names(trees, options.thread_sep)
    blocks: dict[int, list[SummaryLine]] = {}
    for line in found:
        blocks.setdefault(line.level, []).append(line)
    lines: list[SummaryLine] = []
    omitted = 0
    for thread, members in blocks.items():
        order = ranked([(line.cpu, line.gpu) for line in members if line.cpu and line.gpu], key)
        shown = _top(order, options)
        omitted += len(order) - len(shown)
        lines += [
            SummaryLine(members[i].name, members[i].calls, members[i].cpu, members[i].gpu, 0, threads[thread])
            for i in shown
        ]
    table = _table("ranges", "UserDefined Summary", lines)
    table = ReportTable(table.name, table.title, table.columns, omitted)
    return Section("user_defined", "UserDefined Summary", (table,), notes=(*trees.notes, *notes))
