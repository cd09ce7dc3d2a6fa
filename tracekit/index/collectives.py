"""Communication in a trace: the kernels and host ranges that communicate, and the collective of each.

A kernel communicates if its class does (`analysis.kernel_class`, which users extend). A host range communicates if its
kind is communication, or if it is an operator or user range named after a library (nccl..., c10d::) or a collective.
"broadcast" alone does not count: aten::broadcast_tensors sends nothing.
"""

from __future__ import annotations

import re

import numpy as np
import orjson

from tracekit.index import grouping, rank_groups
from tracekit.index.kernel_classes import communicates
from tracekit.index.topology import Topology
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, pc
from tracekit.model.patterns import rows_found
from tracekit.model.report import Cell
from tracekit.model.schema import Kind

__all__ = [
    "ARGS_OF",
    "Collective",
    "described",
    "group_cells",
    "host_ranges",
    "kernels",
    "key_of",
    "operation",
    "plain",
    "untimed",
]

_HOST_KINDS = frozenset({Kind.OPERATOR, Kind.USER_RANGE, Kind.USER_RANGE_NATIVE, Kind.PYTHON_OP})
ARGS_OF = _HOST_KINDS | {Kind.COMMUNICATION, Kind.KERNEL}
"""Kinds of rows that may be collectives, whose `args` describe them."""
_HOST_NAME = lazy_pattern(
    r"^(?:c10d(?:_functional)?::|_c10d|nccl|rccl|msccl|xccl|oneccl|hccl|bkcl|gloo:|mpi[:_]|ucc[:_]|nvshmem|deep_ep)"
    r"|(?<![a-z])(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all)|(?<![a-z])c_broadcast|^(?:dist::)?broadcast_?$"
    r"|(?<![a-z])rpc(?![a-z])",
    re.IGNORECASE,
)
_LONGEST_NAME = 4096
_KERNEL_NAME = lazy_pattern(
    r"(?:nccl|rccl|msccl|xccl)(?:Dev)?(?:Kernel)?_?"
    r"(AllReduce|AllGather|ReduceScatter|AllToAll|Broadcast|Reduce|SendRecv|Send|Recv|Gather|Scatter)"
)
_EXECUTION_TRACE = "execution trace"
"""The section of TOTALS whose rows are single calls."""
_PARAMETERS = "record_param_comms"
_RANKS = lazy_pattern(r"\[[0-9, ]*\]")
"""A list of ranks that is complete: Kineto shortens long ones with an ellipsis."""
_TORCH_WORDS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
}
_ITEM_BYTES = {
    "float": 4,
    "double": 8,
    "half": 2,
    "bfloat16": 2,
    "int": 4,
    "long": 8,
    "short": 2,
    "byte": 1,
    "char": 1,
    "bool": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "complexfloat": 8,
    "complexdouble": 16,
    "unsigned char": 1,
}
"""Bytes of an element of the types that Kineto names in "dtype" (c10::ScalarType)."""


@dataclass(frozen=True, slots=True)
class Collective:
    """The operation of a row, its group of processes, and the bytes that one rank put in.

    ranks: the ranks of the group, where a list is complete: "[0,1]". number: of the collective in its group, -1 for
    none. members: the number of ranks in the group, where the trace says it. dimension: the parallelism that the group
    is for ("tp"), "all ranks", or None where nothing says it.
    """

    name: str | None
    group: str | None
    size: int | None
    ranks: str | None
    number: int
    members: int | None = None
    dimension: str | None = None


@join
def host_ranges(index: TraceIndex) -> I64:
    """Return the rows of EVENTS, with a duration, that are communication on the host."""
    codes, names = index.texts("name")
    found = index.kind_mask({Kind.COMMUNICATION}).copy()
    able = np.flatnonzero(index.kind_mask(_HOST_KINDS))
    found[able] |= rows_found(_HOST_NAME, names, codes[able], _LONGEST_NAME)
    return np.flatnonzero(found & index.has("dur_ns"))


@join
def kernels(index: TraceIndex) -> tuple[I64, I64]:
    """Return the kernels with a duration, as rows of EVENTS: the ones that communicate, and the others."""
    rows = index.pick({Kind.KERNEL}).rows
    mask = communicates(index, rows) if rows.size else np.zeros(0, np.bool_)
    return rows[mask], rows[~mask]


def described(index: TraceIndex, rows: I64, topology: Topology | None = None) -> list[Collective]:
    """Return the collective of each of these rows, read from its args, else from its name.

    The ranks of a group come from its args, else from the process groups that the input names: Kineto shortens long
    lists in args.
    """
    codes, names = index.texts("name")
    sizes = index.events.column("bytes").to_numpy(zero_copy_only=False)[rows].tolist()
    args = arrow.take(index.events.column("args"), rows).to_pylist()
    known = {code: operation(names[code]) for code in sets.unique(codes[rows]).tolist() if code >= 0}
    sources = index.ints("source")[rows].tolist()
    groups = rank_groups.NamedGroups.of(index, topology)
    return [
        _described(_members(text), known.get(code), size, source, groups)
        for text, code, size, source in zip(args, codes[rows].tolist(), sizes, sources, strict=True)
    ]


def untimed(index: TraceIndex, topology: Topology | None = None) -> list[Collective]:
    """Return the collectives of execution traces that have no times, one a call."""
    table = index.totals
    if not table.num_rows:
        return []
    mine = table.filter(pc.equal(table.column("section").cast("string"), _EXECUTION_TRACE))
    groups = rank_groups.NamedGroups.of(index, topology)
    rows = mine.select(["name", "kind", "bytes", "total_ns", "source", "args"]).to_pylist() if mine.num_rows else []
    rows = [row for row in rows if row["kind"] == Kind.COMMUNICATION and row["total_ns"] is None]
    # The library's range (nccl:all_reduce) around a call of PyTorch is the same collective.
    calls = [row for row in rows if row["name"] == _PARAMETERS] or rows
    return [
        _described(_members(row["args"]), operation(row["name"] or ""), row["bytes"], row["source"], groups)
        for row in calls
    ]


def operation(name: str) -> str:
    """Return the operation of a collective by the name of its kernel, in torch's spelling; the name where it has none.

    >>> operation("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    'all_reduce'
    """
    found = _KERNEL_NAME.search(name[:_LONGEST_NAME])
    return name if found is None else plain(found[1])


def plain(name: str) -> str:
    """Return an operation in torch's spelling.

    >>> plain("ReduceScatter"), plain("_allgather_base")
    ('reduce_scatter', 'all_gather')
    """
    word = re.sub(r"[^a-z]", "", name.lower().removesuffix("base").removeprefix("_"))
    word = word.removesuffix("base").removesuffix("tensor")
    return _TORCH_WORDS.get(word, name.lower())


def _members(text: str | None) -> dict[str, object]:
    if not text or ("roup" not in text and "ytes" not in text and "ollective" not in text):
        return {}
    try:
        found = orjson.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _described(
    args: dict[str, object], name: str | None, size: float | None, source: int, groups: rank_groups.NamedGroups
) -> Collective:
    operation = args.get("Collective name")
    group = args.get("Process Group Name", args.get("group"))
    words = args.get("Process Group Description")
    ranks = _ranks(args.get("Process Group Ranks")) or groups.ranks(source, group)
    dimension = groups.dimension(source, group, words, ranks or _ranks(args.get("ranks")))
    if isinstance(words, str) and words not in ("", "undefined", group):
        group = f"{group} ({words})"
    count = None if size is None or size != size else int(size)
    if count is None:
        count = _bytes(args)
    number = args.get("Seq")
    return Collective(
        plain(operation) if isinstance(operation, str) and operation else name,
        None if group in (None, "") else str(group)[:200],
        count,
        ranks,
        number if isinstance(number, int) and 0 <= number <= grouping.INT64_MAX else -1,
        _group_size(args) or (ranks.count(",") + 1 if ranks and ranks != "[]" else None),
        dimension,
    )


def _group_size(args: dict[str, object]) -> int | None:
    """Return the number of ranks in the group: Kineto's "Group size", the recorder's "ranks", or the list's length."""
    size = args.get("Group size")
    if isinstance(size, int) and 0 < size < 1 << 31:
        return size
    listed = _ranks(args.get("Process Group Ranks", args.get("ranks")))
    return listed.count(",") + 1 if listed and listed.strip("[] ") else None


def _ranks(member: object) -> str | None:
    text = orjson.dumps(member).decode() if isinstance(member, list) else member
    return text.replace(" ", "") if isinstance(text, str) and _RANKS.fullmatch(text) else None


def _bytes(args: dict[str, object]) -> int | None:
    size = args.get("bytes")
    if isinstance(size, int) and 0 <= size <= grouping.INT64_MAX:
        return size
    items, kind = args.get("In msg nelems"), args.get("dtype")
    each = _ITEM_BYTES.get(kind.lower()) if isinstance(kind, str) else None
    return items * each if isinstance(items, int) and 0 <= items < 1 << 56 and each else None


def group_cells(found: list[Collective]) -> tuple[grouping.Key, grouping.Key]:
    """Return the operations and the groups as keys."""
    return key_of([one.name for one in found]), key_of([one.group for one in found])


def key_of(texts: list[str | None]) -> grouping.Key:
    """Return texts as a key."""
    labels: list[Cell] = [*sorted({text for text in texts if text is not None})]
    number: dict[Cell, int] = {text: i for i, text in enumerate(labels, 1)}
    return grouping.Key(np.array([number.get(text, 0) for text in texts], np.int64), [None, *labels])
