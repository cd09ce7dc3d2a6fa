"""Work that a file states itself: FLOPs and bytes of device events, in one of three ways.

A TPU states both for each op, as XLA counts them: the bytes of each operand, whether an op needs all of it or not, so
these figures are no minima. Of its memories only HBM has a peak here: bytes on the chip do not count.

Of a GPU the file has the compiled program, from which the reader takes the least work of each op (`xla_op`). The
kernels of one execution of an op share its work: a library takes several for one convolution.

Of an Ascend NPU each kernel is an operator, and the file has the shapes of its inputs and outputs
(`analysis.efficiency.npu_operators`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from tracekit.analysis.efficiency.formulas import CONVOLUTION, NO_FORMULA, NO_SHAPES, ODD_SHAPES, PRODUCT, Work
from tracekit.analysis.efficiency.npu_operators import NpuOperator, npu_work, tensors_of
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import args, arrow
from tracekit.model.arrow import I64, Mask, Rows, Values
from tracekit.model.schema import DEVICE_WORK, Kind

__all__ = ["KERNELS_NOT_APART", "STATING", "StatedWork", "has_shapes_of_kernels", "stated_work"]

KERNELS_NOT_APART = "it is not known which kernels are one execution of the op"
_STATING = frozenset({"xplane"})
"""Formats whose device rows state their work."""
_WITH_SHAPES = frozenset({"ascend-csv", "ascend-db"})
"""Formats whose kernels have the shapes of their inputs and outputs."""
STATING = _STATING | _WITH_SHAPES
"""Formats whose device rows say what their work is, in one way or the other."""
_SHAPES = ("Input Shapes", "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats")
_COPIES = ("copy-start", "copy-done", "async-start", "async-done")
"""XLA's categories of ops that only start a copy or wait for it: their bytes are those of the copy."""
_COLLECTIVES = (
    "all-gather", "all-reduce", "all-to-all", "collective-broadcast", "collective-permute", "ragged-all-to-all",
    "reduce-scatter", "recv", "send",
)  # fmt: skip
_FAMILIES = (("convolution", CONVOLUTION), ("dot", PRODUCT), ("gemm", PRODUCT), ("matmul", PRODUCT))
_OF_OPCODE: Mapping[str, str] = MappingProxyType(
    {
        "concatenate": "copy", "copy": "copy", "dynamic-slice": "index", "dynamic-update-slice": "index",
        "gather": "index", "pad": "copy", "reduce": "reduction", "reduce-window": "pooling", "scatter": "index",
        "select-and-scatter": "pooling", "slice": "copy", "sort": "index", "transpose": "copy",
    }
)  # fmt: skip
_DATATYPES: Mapping[str, str] = MappingProxyType(
    {
        "bf16": "c10::BFloat16", "f16": "c10::Half", "f32": "float", "f64": "double", "s8": "signed char",
        "u8": "unsigned char", "s32": "int", "s64": "long int", "pred": "bool", "c64": "c10::complex<float>",
        "c128": "c10::complex<double>", "f8e4m3fn": "c10::Float8_e4m3fn", "f8e5m2": "c10::Float8_e5m2",
        "f8e4m3fnuz": "c10::Float8_e4m3fnuz", "f8e5m2fnuz": "c10::Float8_e5m2fnuz",
    }
)  # fmt: skip
"""XLA's datatypes by torch's names, which rates are known by."""
_AGAIN = 2
"""An op of a computation that seems to run this many times as often as the others has several kernels alike."""


@dataclass(frozen=True, slots=True, eq=False)
class StatedWork:
    """Device rows that state their work, r of them, in u units.

    rows: of EVENTS. unit: shape (r,), the unit of each. works, names: the distinct ones; codes: shape (u,), the work of
    each unit. unknown: rows of ops whose work is not known, by the reason.
    """

    rows: I64
    unit: I64
    works: list[Work]
    names: list[str]
    codes: I64
    unknown: dict[str, I64]


@dataclass(frozen=True, slots=True)
class _Op:
    """An op of a compiled program, as `xla_op` has it."""

    module: str
    program: str
    computation: str
    name: str
    title: str
    work: Work


def stated_work(index: TraceIndex) -> StatedWork | None:
    """Return the work that device rows state, None where no row does."""
    if "args" not in index.events.schema.names:
        return None
    shaped, rows = _rows_of(index, _WITH_SHAPES), _rows_of(index, _STATING)
    parts = [_by_shapes(index, shaped)] if shaped.size else []
    if rows.size:
        parts += _of_programs(index, rows)
    return _joined([part for part in parts if part is not None])


def has_shapes_of_kernels(index: TraceIndex) -> bool:
    """Return whether kernels have shapes of their own: they say more than those of the operator that launched them."""
    return bool(_sources_of(index, _WITH_SHAPES))


def _sources_of(index: TraceIndex, formats: frozenset[str]) -> list[int]:
    return sorted(number for number, facts in facts_by_source(index).items() if facts.format in formats)


def _rows_of(index: TraceIndex, formats: frozenset[str]) -> Rows:
    """Return the device events with a duration of sources of these formats."""
    sources = _sources_of(index, formats)
    if not sources:
        return np.zeros(0, np.int64)
    of_format = index.of_sources(sources)
    return np.flatnonzero(index.kind_mask(DEVICE_WORK) & index.has("dur_ns") & of_format)


def _of_programs(index: TraceIndex, rows: Rows) -> list[StatedWork | None]:
    """Return the work of the ops that XLA compiled."""
    column = arrow.take(index.events.column("args"), rows)
    of_text, members = args.values(column, "xla_op")
    number: dict[_Op, int] = {}
    of_member = [-1 if (op := _op(member)) is None else number.setdefault(op, len(number)) for member in members]
    codes, ops = np.array([*of_member, -1], np.int64)[of_text], list(number)
    return [_by_event(index, rows, column, codes, ops), _by_execution(index, rows, codes, ops)]


def _joined(parts: Sequence[StatedWork]) -> StatedWork | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    first, second, *others = parts
    unknown = dict(first.unknown)
    for reason, rows in second.unknown.items():
        unknown[reason] = np.concatenate((unknown[reason], rows)) if reason in unknown else rows
    both = StatedWork(
        np.concatenate((first.rows, second.rows)),
        np.concatenate((first.unit, second.unit + first.codes.size)),
        [*first.works, *second.works],
        [*first.names, *second.names],
        np.concatenate((first.codes, second.codes + len(first.works))),
        unknown,
    )
    return _joined([both, *others])


def _by_shapes(index: TraceIndex, rows: Rows) -> StatedWork | None:
    """Return the work of operators that are one kernel each, by the shapes of their inputs and outputs."""
    column = arrow.take(index.events.column("args"), rows)
    types, names = args.texts(column, "Type", "OP Type")
    members = [args.texts(column, key) for key in _SHAPES]
    # Rows without a datatype are no operators of tensors: communication, and tasks of level 0.
    mine = (types >= 0) & (members[1][0] >= 0)
    if not mine.any():
        return None
    keys, place = _distinct_rows(types[mine], *(codes[mine] for codes, _ in members))
    # An empty cell is missing: the one tensor there has no dimensions.
    texts = [[*found, ""] for _, found in members]
    works, titles = [], []
    for kind, *cells in keys.tolist():
        inputs, outputs = (
            tensors_of(*(texts[at][cells[at]] for at in places)) if cells[places[1]] >= 0 else ()
            for places in ((0, 1, 2), (3, 4, 5))
        )
        if inputs is None or outputs is None:
            works.append(Work(unknown=ODD_SHAPES))
        else:
            works.append(npu_work(NpuOperator(names[kind], inputs, outputs)))
        titles.append(names[kind])
    known = np.array([each.bytes is not None for each in works], np.bool_)
    shaped = rows[mine]
    unknown: dict[str, list[Rows]] = {NO_SHAPES: [rows[(types >= 0) & ~mine]]}
    for reason in dict.fromkeys(each.unknown for each in works if each.bytes is None):
        such = np.array([each.bytes is None and each.unknown == reason for each in works], np.bool_)
        unknown.setdefault(reason, []).append(shaped[such[place]])
    together = {reason: np.concatenate(parts) for reason, parts in unknown.items()}
    kept = known[place]
    return StatedWork(
        shaped[kept], np.arange(int(kept.sum())), works, titles, place[kept],
        {reason: which for reason, which in together.items() if which.size},
    )  # fmt: skip


def _by_event(index: TraceIndex, rows: I64, column: Values, codes: I64, ops: Sequence[_Op | None]) -> StatedWork | None:
    """Return the work of events that state their FLOPs and bytes, each a unit of its own."""
    flops, has_flops = args.integers(column, "model_flops", "flops")
    moved, has_bytes = args.integers(column, "bytes_accessed")
    in_memory, has_parts = _memory_bytes(column)
    moved = np.where(has_parts, in_memory, moved)
    category, names = args.texts(column, "hlo_category")
    # Copies are known by the copy that they wait for, and collectives are limited by a link.
    others = np.array([*(name in _COPIES or name.startswith(_COLLECTIVES) for name in names), False], np.bool_)[
        category
    ]
    said = has_flops & has_bytes & ~others & (flops >= 0) & (moved >= 0)
    said &= index.kind_mask({Kind.KERNEL})[rows]
    if not said.any():
        return None
    # Of its op a TPU's event knows the sizes and the datatype by the compiled program.
    keys, place = _distinct_rows(flops[said], moved[said], category[said], codes[said])
    works, titles = [], []
    for ops_done, size, kind, code in keys.tolist():
        op = ops[code] if code >= 0 else None
        family = _family(names[kind] if kind >= 0 else "")
        # XLA multiplies in bf16 unless asked otherwise, which the file does not show without the program.
        datatype = op.work.datatype if op is not None and op.work.datatype else "c10::BFloat16"
        shape = op.work.shape if op is not None else ""
        works.append(Work(ops_done, size, family, datatype, is_bound=False, shape=shape))
        titles.append(op.title if op is not None else "")
    return StatedWork(rows[said], np.arange(int(said.sum())), works, titles, place, {})


def _memory_bytes(column: Values) -> tuple[I64, Mask]:
    """Return the bytes that each event moves in HBM, and which events say so."""
    codes, members = args.values(column, "memory_access_breakdown")
    sizes = [_sum_in_memory(member) for member in members]
    numbers = np.array([*(size or 0 for size in sizes), 0], np.int64)[codes]
    return numbers, np.array([*(size is not None for size in sizes), False], np.bool_)[codes]


def _sum_in_memory(member: object) -> int | None:
    if not isinstance(member, list) or not member:
        return None
    total = 0
    for part in member:
        size = part.get("bytes") if isinstance(part, dict) else None
        if not isinstance(size, int) or not 0 <= size < 1 << 60:
            return None
        total += size if part.get("memory") == "HBM" else 0
    return total


def _by_execution(index: TraceIndex, rows: I64, codes: I64, ops: Sequence[_Op]) -> StatedWork | None:
    """Return the work of the ops of compiled programs on GPUs, a unit for each execution."""
    _, stated = args.integers(arrow.take(index.events.column("args"), rows), "model_flops", "flops")
    at = np.flatnonzero((codes >= 0) & ~stated)
    if not at.size:
        return None
    op, mine = codes[at], rows[at]
    groups, group = _distinct_rows(index.ints("source")[mine], index.ints("device")[mine], op)
    order = np.lexsort((index.starts[mine], group))
    mine, group = mine[order], group[order]
    begins = _begins(group, index.texts("name")[0][mine], index.ints("dur_ns")[mine])
    unit = np.cumsum(begins) - 1
    of_unit = group[begins]
    apart = _apart(groups[:, :2][of_unit], groups[:, 2][of_unit], ops)
    known = np.array([each.work.is_known for each in ops], np.bool_)[groups[:, 2][of_unit]]
    why = {KERNELS_NOT_APART: mine[(known & ~apart)[unit]]}
    for reason in dict.fromkeys(each.work.unknown for each in ops if each.work.unknown):
        such = np.array([each.work.unknown == reason for each in ops], np.bool_)[groups[:, 2][group]]
        why[reason] = mine[such]
    kept = known & apart
    number = np.cumsum(kept) - 1
    inside = kept[unit]
    # Ops of one framework operator with the same sizes are one row of a table.
    alike: dict[tuple[str, Work], int] = {}
    of_op = np.array([alike.setdefault((each.title, each.work), len(alike)) for each in ops], np.int64)
    return StatedWork(
        mine[inside], number[unit[inside]], [work for _, work in alike], [title for title, _ in alike],
        of_op[groups[:, 2][of_unit][kept]], {reason: which for reason, which in why.items() if which.size},
    )  # fmt: skip


def _begins(group: I64, name: Rows, ns: I64) -> Mask:
    """Return which kernels begin an execution of their op. group: of source, device and op; sorted by it and by time.

    The kernel that takes most of the time runs once in an execution. Where the first one runs as often, it begins each.
    """
    pairs, of_pair, counts = np.unique(np.column_stack((group, name)), axis=0, return_inverse=True, return_counts=True)
    of_pair = of_pair.reshape(-1)
    total = np.bincount(of_pair, ns, len(pairs))
    order = np.lexsort((total, pairs[:, 0]))
    first_row = np.flatnonzero(np.diff(group, prepend=-1))
    count = first_row.size
    main, first = np.zeros(count, np.int64), of_pair[first_row]
    main[pairs[order, 0]] = order  # the last one of each group stays
    anchor = np.where(counts[first] == counts[main], first, main)
    begins: Mask = of_pair == anchor[group]
    # Kernels in front of the first such one are of its execution.
    leading = np.flatnonzero(begins)
    begins[leading[np.flatnonzero(np.diff(group[leading], prepend=-1))]] = False
    begins[first_row] = True
    return begins


def _apart(devices: I64, of_unit: I64, ops: Sequence[_Op]) -> Mask:
    """Return which executions are likely to be one: ops of one computation run equally often.

    devices: source and device of each execution. An op with several kernels of one name, and no other, seems to run
    more often than the others do.
    """
    groups: dict[tuple[str, str, str], int] = {}
    of_op = np.array([groups.setdefault((each.module, each.program, each.computation), len(groups)) for each in ops])
    pairs, of_pair = _distinct_rows(devices[:, 0], devices[:, 1], of_op[of_unit], of_unit)
    counts = np.bincount(of_pair)
    _, of_computation = _distinct_rows(*pairs[:, :3].T)
    usual = np.zeros(int(of_computation.max()) + 1, np.int64)
    order = np.lexsort((counts, of_computation))
    sizes = np.bincount(of_computation)
    first = np.cumsum(sizes) - sizes
    # The lower median: of two ops the rarer one.
    usual[:] = counts[order][first + (sizes - 1) // 2]
    good: Mask = counts < _AGAIN * usual[of_computation]
    return good[of_pair]


def _distinct_rows(*columns: I64 | Rows) -> tuple[I64, I64]:
    """Return the distinct rows of some columns, sorted, and the number of that of each row."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, code = np.unique(column, return_inverse=True)
        # Numbered anew each time: a product of all sizes may be too large.
        _, number = np.unique(number * max(len(values), 1) + code.reshape(-1), return_inverse=True)
    _, first = np.unique(number, return_index=True)
    return np.column_stack([column[first] for column in columns]).astype(np.int64), number.astype(np.int64)


def _op(member: object) -> _Op | None:
    """Return the op that a member of `args` describes, None for anything else."""
    if not isinstance(member, dict):
        return None

    def text(key: str) -> str:
        value = member.get(key)
        return value if isinstance(value, str) else ""

    def count(key: str) -> int | None:
        value = member.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 60 else None

    flops, moved, opcode = count("flops"), count("bytes"), text("opcode")
    family = text("family") or _OF_OPCODE.get(opcode) or _OF_OPCODE.get(_root(text("op"))) or "elementwise"
    datatype = _DATATYPES.get(text("datatype"), "")
    unknown = "" if moved is not None else NO_FORMULA
    work = Work(flops, moved, family, datatype, unknown, shape=text("shape"))
    title = text("op_name").rpartition("/")[2] or text("target") or opcode
    return _Op(text("module"), text("program"), text("computation"), text("op"), title, work)


def _root(name: str) -> str:
    """Return what the name of a fused op says that it does: `input_reduce_fusion.3` reduces."""
    words = name.partition(".")[0].removesuffix("_fusion").split("_")
    return next((word for word in ("reduce", "transpose", "scatter", "gather") if word in words), "")


def _family(category: str) -> str:
    return next((family for word, family in _FAMILIES if word in category), "elementwise")
