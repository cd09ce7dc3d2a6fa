"""The tables of rocprof, rocprofv2 and rocprofv3: their columns, and rows as columns of EVENTS."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import F64, I64, Column, DictColumn, Mask, pc
from tracekit.model.schema import Kind
from tracekit.readers import rocm
from tracekit.readers.amd._joins import Kernel, Numbers, TableGroup, numbers_of
from tracekit.readers.builder import RowBuilder, Values
from tracekit.readers.sqlite import cupti as cuda
from tracekit.readers.sqlite.cupti import Columns, Extra, args_of, as_is, coded, distinct_rows, integers
from tracekit.readers.sqlite.database import CellType, RowBlock

# Columns of texts as columns of EVENTS: numbers, agents, what goes into args; and sums of counters.


_INTEGER = r"^[0-9]{1,18}$"
_AGENT = r"^(?:Agent |GPU |CPU )?([0-9]{1,9})$"
WHOLE = re.compile(r"[0-9]{1,18}")


def number(text: str) -> float:
    """Return a text as a number, NaN for another text."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def whole(column: Column | None) -> Column | None:
    """Return a column of texts as integers, null where a text is none; None for a missing column."""
    return None if column is None else integers_of(column)


def integers_of(column: Column) -> Column:
    """Return a column of texts as integers, null where a text is none."""
    good = pc.match_substring_regex(column, pattern=_INTEGER)
    return pc.if_else(good, column, None).cast(pa.int64())


def small(column: Column | None) -> Column | None:
    """Return a column of texts as int32, null beyond that."""
    return None if column is None else _int32(column)


def _int32(column: Column) -> Column:
    values = integers_of(column)
    return pc.if_else(pc.less(values, 1 << 31), values, None).cast(pa.int32())


def agent(column: Column | None) -> Column | None:
    """Return the numbers of agents: `4` or `Agent 4`."""
    return None if column is None else _agent(column)


def _agent(column: Column) -> Column:
    return _int32(pc.replace_substring_regex(column, pattern=_AGENT, replacement=r"\1"))


def args(cells: dict[str, Column], keys: list[str]) -> Column | None:
    """Return a JSON object of these cells for each row, without cells that are empty or 0."""
    parts = []
    for key in keys:
        if (column := cells.get(key)) is None:
            continue
        encoded = arrow.encoded(column)
        members = [_member(key, text) for text in arrow.texts(encoded.dictionary)]
        if any(members):
            parts.append(arrow.take(arrow.array(members, pa.string()), arrow.ints(encoded.indices)))
    if not parts:
        return None
    joined = arrow.joined(parts, ",")
    return pc.if_else(pc.equal(joined, ""), None, pc.binary_join_element_wise("{", joined, "}", ""))


def _member(key: str, text: str) -> str | None:
    if text in ("", "0"):
        return None
    return f'"{key}":{int(text) if WHOLE.fullmatch(text) else orjson.dumps(text).decode()}'


@dataclass(slots=True)
class _CounterSum:
    calls: int
    low: float
    high: float
    total: float


@dataclass(slots=True)
class KernelCounters:
    """The counters of one input: `add` takes values, `rows` returns what they come to."""

    _sums: dict[tuple[int | None, str, str], _CounterSum] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._sums)

    def add(self, counter: Column | str, kernel: Column, device: Column | None, values: F64) -> int:
        """Take the values of launches; return how many of them are no numbers, which do not count.

        counter: name for each value, or one for all. kernel: names. device: numbers, None where none is known.
        """
        count = len(values)
        counters = arrow.array([counter], pa.string()) if isinstance(counter, str) else counter.cast(pa.string())
        if isinstance(counter, str):
            counters = arrow.take(counters, np.zeros(count, np.int64))
        table = pa.table(
            {
                "device": arrow.nulls(count, pa.int32()) if device is None else device.cast(pa.int32()),
                "counter": counters,
                "kernel": kernel.cast(pa.string()),
                "value": arrow.array(values),
            }
        ).filter(arrow.array(np.isfinite(values)))
        groups = table.group_by(["device", "counter", "kernel"], use_threads=False)
        for row in groups.aggregate(
            [("value", "count"), ("value", "min"), ("value", "max"), ("value", "sum")]
        ).to_pylist():
            key = row["device"], row["counter"] or "", row["kernel"] or ""
            calls, low, high, total = (row[f"value_{kind}"] for kind in ("count", "min", "max", "sum"))
            if (one := self._sums.get(key)) is None:
                self._sums[key] = _CounterSum(calls, low, high, total)
                continue
            one.calls, one.total = one.calls + calls, one.total + total
            one.low, one.high = min(one.low, low), max(one.high, high)
        return count - table.num_rows

    def rows(self, builder: RowBuilder, source: int) -> int:
        """Add a row of TOTALS for each device, kernel and counter; return the number of values in all."""
        for (device, counter, kernel), one in self._sums.items():
            builder.add(
                source=source,
                run=0,
                section="metrics",
                order=len(builder),
                name=kernel,
                kind=str(Kind.KERNEL),
                calls=one.calls,
                value_min=one.low,
                value_max=one.high,
                value_avg=one.total / one.calls,
                device=device,
                args=orjson.dumps({"metric": counter, "total": one.total}).decode(),
            )
        return sum(one.calls for one in self._sums.values())


# Rows of rocpd's tables as columns of EVENTS.


_COPY = re.compile(r"(HOST|DEVICE)_?TO_?(HOST|DEVICE)", re.ASCII | re.IGNORECASE)
_KINDS = (
    (re.compile(r"marker|roctx", re.IGNORECASE), Kind.USER_RANGE),
    (re.compile(r"hip", re.IGNORECASE), Kind.RUNTIME),
    (re.compile(r"hsa", re.IGNORECASE), Kind.DRIVER),
    (re.compile(r"rccl|mpi|comm", re.IGNORECASE), Kind.COMMUNICATION),
    (re.compile(r"kfd", re.IGNORECASE), Kind.OVERHEAD),
    (re.compile(r"user|host|python|kokkos", re.IGNORECASE), Kind.USER_RANGE),
)
"""Words in the category of a region, and its kind."""


def region_kind(category: str | None, name: str | None, *, message: bool) -> Kind:
    """Return the kind of a region, by its category or, without one, by its name.

    >>> region_kind("HIP_RUNTIME_API_EXT", "hipMemcpy", message=False)
    <Kind.RUNTIME: 'runtime'>
    """
    if category is None:
        return rocm.call_kind(name or "") or Kind.USER_RANGE
    kind = next((kind for word, kind in _KINDS if word.search(category)), Kind.OTHER)
    if kind is Kind.USER_RANGE and not message and (name or "").startswith("roctx"):
        return Kind.OTHER
    return kind


def copy_kind(name: str | None) -> str | None:
    """Return the direction of a copy by its name.

    >>> copy_kind("MEMORY_COPY_HOST_TO_DEVICE")
    'HtoD'
    """
    found = _COPY.search(name or "")
    return f"{found[1][0]}to{found[2][0]}".replace("h", "H").replace("d", "D") if found else None


def _joined(group: TableGroup, block: RowBlock) -> tuple[Columns, list[Extra]]:
    """Return the columns and args that all rows with an event have."""
    event = block.columns.get("event_id")
    columns: Columns = {
        "pid": group.pids.of(block.columns.get("pid")),
        "correlation": group.events.correlation.find(event),
    }
    return columns, [Extra("external_correlation", group.events.external.find(event))]


def _work(group: TableGroup, block: RowBlock) -> tuple[Columns, list[Extra]]:
    """Return the columns and args of work on a device."""
    columns, extras = _joined(group, block)
    stream, queue = block.columns.get("stream_id"), block.columns.get("queue_id")
    columns["stream"] = queue if stream is None else stream
    extras += [
        Extra("queue", None if stream is None else queue, as_is),
        Extra("tid", group.tids.of(block.columns.get("tid"))),
    ]
    extras.append(Extra("region", block.columns.get("region_name_id"), group.text))
    return columns, extras


KERNEL = integers(
    *("start", "end", "pid", "tid", "agent_id", "kernel_id", "dispatch_id", "queue_id", "stream_id"),
    *("private_segment_size", "group_segment_size", "region_name_id", "event_id"),
    *(f"{what}_size_{axis}" for what in ("workgroup", "grid") for axis in "xyz"),
)


def kernels(group: TableGroup, block: RowBlock) -> Columns:
    """Return the columns of kernels."""
    columns, extras = _work(group, block)
    known, ids = group.kernels, block.columns.get("kernel_id")
    extras += [
        Extra("dispatch_id", block.columns.get("dispatch_id")),
        Extra("scratch_bytes", block.columns.get("private_segment_size")),
        Extra("sgprs", ids, lambda n: known[n].sgprs or None if n in known else None),
        Extra("accum_vgprs", ids, lambda n: known[n].accum_vgprs or None if n in known else None),
    ]
    static = _of_kernel(known, ids, "lds")
    used = block.columns.get("group_segment_size")
    columns |= {
        "kind": Kind.KERNEL,
        "device": group.devices.find(block.columns.get("agent_id")),
        "name": coded(ids, lambda n: known[n].name if n in known else f"kernel {n}"),
        "raw_name": coded(ids, lambda n: known[n].raw_name if n in known else None),
        "registers": _of_kernel(known, ids, "registers"),
        "static_smem_bytes": static,
        "dynamic_smem_bytes": used,
        "args": args_of(block.count, extras),
    }
    if static is not None and used is not None:
        beyond = pc.subtract(used, pc.fill_null(static, 0))
        columns["dynamic_smem_bytes"] = pc.if_else(pc.greater_equal(beyond, 0), beyond, None)
    for axis in "xyz":
        columns |= _axis(group, block, axis)
    return columns


def _of_kernel(known: dict[int, Kernel], ids: Column | None, name: str) -> Column | None:
    if ids is None:
        return None
    encoded = arrow.encoded(ids)
    values = [getattr(known[n], name) if n in known else None for n in arrow.ints(encoded.dictionary).tolist()]
    return arrow.array(values, pa.int64()).take(encoded.indices)


def _axis(group: TableGroup, block: RowBlock, axis: str) -> Columns:
    """Return blocks and threads of one axis. The file counts work items; the last block may be a part."""
    threads = cuda.above_zero(cuda.int32(group.ctx, block, f"workgroup_size_{axis}"))
    items = cuda.above_zero(block.columns.get(f"grid_size_{axis}"))
    if threads is None or items is None:
        return {}
    size = pc.fill_null(threads, 1).cast(pa.int64())
    blocks = pc.add(pc.divide(pc.subtract(items, 1), size), 1)
    fits = pc.and_(pc.less(blocks, 1 << 31), arrow.array(arrow.valid(threads)))
    return {f"block_{axis}": threads, f"grid_{axis}": pc.if_else(fits, blocks, None).cast(pa.int32())}


COPY = integers(
    *("start", "end", "pid", "tid", "name_id", "dst_agent_id", "src_agent_id", "size", "queue_id", "stream_id"),
    *("region_name_id", "event_id"),
)


def copies(group: TableGroup, block: RowBlock) -> Columns:
    """Return the columns of copies. The device is the destination, or the source if only that is a GPU."""
    columns, extras = _work(group, block)
    target = group.devices.find(block.columns.get("dst_agent_id"))
    origin = group.devices.find(block.columns.get("src_agent_id"))
    names = block.columns.get("name_id")
    device = origin if target is None else target
    kind: DictColumn | None = coded(names, lambda number: copy_kind(group.text(number)))
    if target is not None and origin is not None:
        device = pc.coalesce(target, origin)
        peers = pc.fill_null(pc.not_equal(target, origin), False)
        if pc.any(peers).as_py():
            extras += [
                Extra("src_device", pc.if_else(peers, origin, None), as_is),
                Extra("dst_device", pc.if_else(peers, target, None), as_is),
            ]
            shown = arrow.nulls(block.count, pa.string()) if kind is None else kind.cast(pa.string())
            kind = arrow.encoded(pc.if_else(peers, "PtoP", shown))
    return columns | {
        "kind": Kind.MEMCPY,
        "device": device,
        "name": group.named(names),
        "copy_kind": kind,
        "bytes": block.columns.get("size"),
        "args": args_of(block.count, extras),
    }


ALLOCATION = integers(
    "id", "start", "end", "pid", "tid", "agent_id", "address", "size", "queue_id", "stream_id", "event_id"
)
ALLOCATION |= {"type": CellType.TEXT, "level": CellType.TEXT}


def sizes_of(group: TableGroup, table: str) -> Numbers:
    """Return the bytes of allocations by id: a FREE has those of the ALLOC before it at its address, negative."""
    parts = [
        [*(block.integers(name) for name in ("id", "address", "start", "size")), _freed(block)]
        for block in group.ctx.db.blocks(table, ALLOCATION)
    ]
    if not parts:
        return numbers_of(())
    ids, address, starts, sizes, freed = (np.concatenate([part[i] for part in parts]) for i in range(5))
    known, signed = signed_sizes(address, starts, sizes, freed)
    return Numbers(ids[known], signed[known])


def signed_sizes(address: I64, starts: I64, sizes: I64, freed: I64) -> tuple[Mask, I64]:
    """Return where the bytes of allocations are known, and the bytes: a free takes them from the one before it.

    freed: 1 for a free, 0 for an allocation.
    """
    order = np.lexsort((starts, address))
    place, size, free = address[order], sizes[order], freed[order]
    signed = np.where(free == 1, -size, size)
    follows = (free[1:] == 1) & (free[:-1] == 0) & (place[1:] == place[:-1]) & (size[1:] == 0)
    signed[1:] = np.where(follows, -size[:-1], signed[1:])
    known = (free == 0) | (signed != 0)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return known[back], signed[back]


def _freed(block: RowBlock) -> I64:
    kinds = block.columns.get("type")
    if kinds is None:
        return np.zeros(block.count, np.int64)
    return arrow.bools(pc.fill_null(pc.equal(kinds, "FREE"), False)).astype(np.int64)


def allocations(group: TableGroup, block: RowBlock, sizes: Numbers) -> Columns:
    """Return the columns of allocations, named by level and type: `REAL ALLOC`."""
    columns, extras = _joined(group, block)
    level, kind = (block.columns.get(name) for name in ("level", "type"))
    words = [arrow.nulls(block.count, pa.string()) if c is None else c for c in (level, kind)]
    agents = block.columns.get("agent_id")
    extras += [
        Extra("queue", block.columns.get("queue_id")),
        Extra("stream", block.columns.get("stream_id")),
        Extra("agent", agents, group.agents.get),
        Extra("address", block.columns.get("address")),
    ]
    return columns | {
        "kind": Kind.MEMORY,
        "tid": group.tids.of(block.columns.get("tid")),
        "device": group.devices.find(agents),
        "name": arrow.encoded(arrow.joined(words, " ")),
        "bytes": sizes.find(block.columns.get("id")),
        "args": args_of(block.count, extras),
    }


REGION = integers("start", "end", "pid", "tid", "name_id", "event_id")


def regions(group: TableGroup, block: RowBlock) -> Columns:
    """Return the columns of calls and ranges. A roctx range has its message as its name, and the call in args."""
    columns, extras = _joined(group, block)
    event, names = block.columns.get("event_id"), block.columns.get("name_id")
    category, message = group.events.category.find(event), group.events.message.find(event)
    shown = _names(group, names, message, block.count)
    if message is not None and names is not None:
        extras.append(Extra("call", pc.if_else(arrow.array(arrow.valid(message)), names, None), group.text))
    keys = [block.integers("name_id", -1), arrow.ints(_or_nulls(category, block.count), -1)]
    keys.append(arrow.valid(_or_nulls(message, block.count)).astype(np.int64))
    place, triples = distinct_rows(*keys)
    kinds = [region_kind(group.text(c), group.text(n), message=bool(m)) for n, c, m in triples]
    return columns | {
        "kind": coded(place, kinds.__getitem__),
        "tid": group.tids.of(block.columns.get("tid")),
        "name": shown,
        "args": args_of(block.count, extras),
    }


def _or_nulls(column: Column | None, count: int) -> Column:
    return arrow.nulls(count, pa.int64()) if column is None else column


def _names(group: TableGroup, names: Column | None, message: Column | None, count: int) -> DictColumn | None:
    """Return the messages, and the names of rows without one."""
    plain = group.named(names)
    if message is None:
        return plain
    said = coded(message, group.events.messages.__getitem__)
    shown = arrow.nulls(count, pa.string()) if plain is None else plain.cast(pa.string())
    return plain if said is None else arrow.encoded(pc.coalesce(said.cast(pa.string()), shown))


SAMPLE = integers("timestamp", "track_id", "event_id")


@dataclass(frozen=True, slots=True)
class CounterSamples:
    """Names and numbers of samples. process, thread, name: by track. value: place in `values` and `names` by event."""

    process: Numbers
    thread: Numbers
    name: Numbers
    value: Numbers
    values: F64
    names: list[str | None]


def samples(group: TableGroup, block: RowBlock, known: CounterSamples) -> Columns:
    """Return the columns of samples: counters where a counter has the sample's event, else marks."""
    columns, extras = _joined(group, block)
    track, event = block.columns.get("track_id"), block.columns.get("event_id")
    shown = _names(group, known.name.find(track), group.events.message.find(event), block.count)
    place = known.value.find(event)
    columns |= {
        "kind": Kind.MARK,
        "pid": group.pids.of(known.process.find(track)),
        "tid": group.tids.of(known.thread.find(track)),
        "name": shown,
        "args": args_of(block.count, extras),
    }
    if place is not None:
        counted = arrow.array(arrow.valid(place))
        at = arrow.ints(place, len(known.names))
        names = arrow.take(arrow.array([*known.names, None], pa.string()), at)
        columns["kind"] = arrow.encoded(pc.if_else(counted, str(Kind.COUNTER), str(Kind.MARK)))
        columns["value"] = arrow.take(arrow.array([*known.values.tolist(), None], pa.float64()), at)
        columns["name"] = names if shown is None else arrow.encoded(pc.coalesce(names, shown.cast(pa.string())))
    return columns


_TIMES = ("Start_Timestamp", "End_Timestamp")
Cells: TypeAlias = dict[str, Column]
Make: TypeAlias = Callable[[Cells, Column], dict[str, Values]]


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of table. needed: columns by which it is found. start, end: columns of times; the same for moments.

    make: returns the columns of EVENTS of cells and durations, None for a table whose rows are no events.
    """

    name: str
    tool: str
    needed: frozenset[str]
    start: str = ""
    end: str = ""
    make: Make | None = None


def _place(cells: Cells) -> dict[str, Values]:
    correlation = whole(cells.get("Correlation_Id", cells.get("Correlation_ID")))
    stream = cells.get("Stream_Id", cells.get("Queue_Id", cells.get("Queue_ID")))
    return {
        "pid": whole(cells.get("Process_Id", cells.get("PID"))),
        "device": agent(cells.get("Agent_Id", cells.get("GPU_ID"))),
        "stream": whole(stream),
        "correlation": None if correlation is None else pc.if_else(pc.greater(correlation, 0), correlation, None),
    }


def _kernels(cells: Cells, _: Column) -> dict[str, Values]:
    keys = ["Dispatch_Id", "Thread_Id", "Scratch_Size", "Private_Segment_Size", "Accum_VGPR_Count", "SGPR_Count"]
    keys += ["Queue_Id"] if "Stream_Id" in cells else []
    columns = _place(cells) | {
        "kind": Kind.KERNEL,
        "name": arrow.encoded(cells["Kernel_Name"]),
        "registers": small(cells.get("VGPR_Count")),
        "static_smem_bytes": whole(cells.get("LDS_Block_Size", cells.get("Group_Segment_Size"))),
        "args": args(cells, keys),
    }
    for axis in "XYZ":
        threads, items = small(cells.get(f"Workgroup_Size_{axis}")), whole(cells.get(f"Grid_Size_{axis}"))
        columns[f"block_{axis.lower()}"] = threads
        if threads is not None and items is not None:
            size = pc.if_else(pc.greater(threads, 0), threads.cast(pa.int64()), None)
            blocks = pc.add(pc.divide(pc.subtract(items, 1), size), 1)
            columns[f"grid_{axis.lower()}"] = pc.if_else(pc.less(blocks, 1 << 31), blocks, None).cast(pa.int32())
    return columns


def _calls(cells: Cells, durations: Column) -> dict[str, Values]:
    pairs = pc.binary_join_element_wise(cells["Domain"], cells["Function"], "\n")
    encoded = arrow.encoded(pairs)
    kinds = [region_kind(*text.split("\n", 1), message=True) for text in arrow.texts(encoded.dictionary)]
    kind = arrow.take(arrow.array([str(k) for k in kinds], pa.string()), arrow.ints(encoded.indices))
    moment = pc.and_(pc.equal(kind, str(Kind.USER_RANGE)), pc.equal(durations, 0))
    return _place(cells) | {
        "kind": arrow.encoded(pc.if_else(moment, str(Kind.MARK), kind)),
        "tid": whole(cells.get("Thread_Id")),
        "name": arrow.encoded(cells["Function"]),
    }


def _copies(cells: Cells, _: Column) -> dict[str, Values]:
    names = arrow.encoded(cells["Direction"])
    kinds = [copy_kind(text) for text in arrow.texts(names.dictionary)]
    target, origin = agent(cells.get("Destination_Agent_Id")), agent(cells.get("Source_Agent_Id"))
    direction = arrow.take(arrow.array(kinds, pa.string()), arrow.ints(names.indices))
    to_host = pc.fill_null(pc.equal(direction, "DtoH"), False)
    device = origin if target is None else target if origin is None else pc.if_else(to_host, origin, target)
    if target is not None and origin is not None:
        peers = pc.and_(pc.equal(direction, "DtoD"), pc.not_equal(target, origin))
        direction = pc.if_else(pc.fill_null(peers, False), "PtoP", direction)
    return _place(cells) | {
        "kind": Kind.MEMCPY,
        "name": names,
        "copy_kind": arrow.encoded(direction),
        "device": device,
        "args": args(cells, ["Source_Agent_Id", "Destination_Agent_Id"]),
    }


def _memory(cells: Cells, _: Column) -> dict[str, Values]:
    size = whole(cells.get("Allocation_Size"))
    return _place(cells) | {
        "kind": Kind.MEMORY,
        "tid": whole(cells.get("Thread_Id")),
        "name": arrow.encoded(cells["Operation"]),
        "bytes": None if size is None else pc.if_else(pc.greater(size, 0), size, None),
        "args": args(cells, ["Address", "Alloc_Flags"]),
    }


def kernel_names(column: Column) -> Column:
    """Return names of kernels without quotation marks and the ending of a kernel descriptor."""
    plain = pc.replace_substring_regex(column, pattern=r'^"(.*)"$', replacement=r"\1")
    names: Column = pc.replace_substring_regex(plain, pattern=rocm.DESCRIPTOR, replacement="")
    return names


def results(cells: Cells, _: Column) -> dict[str, Values]:
    """Return the columns of kernels of rocprof 1."""
    known = ("Index", "KernelName", "gpu-id", "queue-id", "pid", "BeginNs", "EndNs", "DurationNs")
    names = kernel_names(cells["KernelName"])
    encoded = arrow.encoded(names)
    found = [rocm.activity(text) for text in arrow.texts(encoded.dictionary)]
    kinds = arrow.array([str(one[0] if one else Kind.KERNEL) for one in found], pa.string())
    return {
        "kind": arrow.encoded(arrow.take(kinds, arrow.ints(encoded.indices))),
        "name": encoded,
        "raw_name": _other_spelling(names, cells["KernelName"]),
        "pid": whole(cells.get("pid")),
        "device": agent(cells.get("gpu-id")),
        "stream": whole(cells.get("queue-id")),
        "registers": small(cells.get("arch_vgpr", cells.get("vgpr"))),
        "args": args(cells, [name for name in cells if name not in known]),
    }


def _other_spelling(names: Column, given: Column) -> DictColumn:
    plain = pc.replace_substring_regex(given, pattern=r'^"(.*)"$', replacement=r"\1")
    return arrow.encoded(pc.if_else(pc.equal(names, plain), None, plain))


def _dispatches(cells: Cells, _: Column) -> dict[str, Values]:
    known = {"GPU_ID", "Queue_ID", "PID", "Kernel_Name", "Correlation_ID", "Arch_VGPR", "XCC_Index", *_TIMES}
    names = kernel_names(cells["Kernel_Name"])
    return _place(cells) | {
        "kind": Kind.KERNEL,
        "name": arrow.encoded(names),
        "raw_name": _other_spelling(names, cells["Kernel_Name"]),
        "registers": small(cells.get("Arch_VGPR")),
        "args": args(cells, [name for name in cells if name not in known]),
    }


def activities(names: Column, operations: Column) -> dict[str, DictColumn]:
    """Return name, kind and direction of commands: kernels have names, others an operation alone."""
    shown = pc.if_else(pc.equal(names, ""), operations, names)
    pairs = arrow.encoded(pc.binary_join_element_wise(operations, names, "\n"))
    found = [_command(*text.split("\n", 1)) for text in arrow.texts(pairs.dictionary)]
    codes = arrow.ints(pairs.indices)
    return {
        "name": arrow.encoded(shown),
        "kind": arrow.encoded(arrow.take(arrow.array([str(kind) for kind, _ in found], pa.string()), codes)),
        "copy_kind": arrow.encoded(arrow.take(arrow.array([way for _, way in found], pa.string()), codes)),
    }


def _command(operation: str, name: str) -> tuple[Kind, str | None]:
    """Return kind and direction of a command. A Task with a name is a kernel that a graph started."""
    if name and operation in ("Task", "KernelExecution", "KernelDispatch", ""):
        return rocm.activity(name) or (Kind.KERNEL, None)
    if (way := copy_kind(operation)) is not None and operation.startswith("MEMORY_COPY"):
        return Kind.MEMCPY, way
    return rocm.activity(operation) or (Kind.KERNEL if name else Kind.OTHER, None)


def _activities(cells: Cells, durations: Column) -> dict[str, Values]:
    names = cells.get("Kernel_Name", arrow.array([""] * len(durations), pa.string()))
    return {**_place(cells), **activities(names, cells["Operation"])}


def _ranges(cells: Cells, _: Column) -> dict[str, Values]:
    return {
        "kind": Kind.MARK,
        "dur_ns": None,
        "name": arrow.encoded(pc.if_else(pc.equal(cells["Message"], ""), None, cells["Message"])),
        "args": args(cells, ["ROCTX_ID"]),
    }


_V3 = frozenset(_TIMES)
_V2 = ("Start_Timestamp", "Stop_Timestamp")
_MOMENT = ("Timestamp", "Timestamp")
_ROCTX = frozenset({"Domain", "ROCTX_ID", "Message"})
FORMS = (
    Form("counters", "rocprofv3", frozenset({"Counter_Name", "Counter_Value", "Kernel_Name", "Dispatch_Id"})),
    Form("kernels", "rocprofv3", _V3 | {"Kind", "Kernel_Name", "Dispatch_Id"}, *_TIMES, _kernels),
    Form("calls", "rocprofv3", _V3 | {"Domain", "Function", "Process_Id", "Thread_Id"}, *_TIMES, _calls),
    Form("copies", "rocprofv3", _V3 | {"Kind", "Direction"}, *_TIMES, _copies),
    Form("memory", "rocprofv3", _V3 | {"Kind", "Operation"}, *_TIMES, _memory),
    Form("samples", "rocprofv3", frozenset({"Sample_Timestamp", "Exec_Mask", "Dispatch_Id", "Instruction"})),
    Form("results", "rocprof", frozenset({"Index", "KernelName"}), "BeginNs", "EndNs", results),
    Form("dispatches", "rocprofv2", frozenset({"Dispatch_ID", "GPU_ID", "Kernel_Name"}), *_TIMES, _dispatches),
    Form("calls", "rocprofv2", _V3 | {"Domain", "Function", "Correlation_ID"}, *_TIMES, _calls),
    Form("commands", "rocprofv2", frozenset({"Domain", "Operation", "Correlation_ID", *_V2}), *_V2, _activities),
    Form("ranges", "rocprofv2", _ROCTX, *_MOMENT, _ranges),
    Form("roofs", "rocprof-compute", frozenset({"device", "HBMBw", "HBMBwLow", "L2Bw", "LDSBw"})),
    Form("sums", "rocprof or rocprofv3", frozenset({"Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage"})),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CounterTotals:
    """A table with a column for each counter. kernel, device: columns of the launch. others: no counters."""

    kernel: str
    device: str
    others: frozenset[str]

    def is_counter(self, name: str) -> bool:
        """Return whether a column is of a counter. A file joined from several passes repeats columns (`obj_2`)."""
        return bool(name) and name not in self.others and _PASS.sub("", name) not in self.others


_PASS = re.compile(r"_\d{1,3}\Z", re.ASCII)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


COUNTED = {
    "results": CounterTotals(
        "KernelName",
        "gpu-id",
        _words(
            "Index KernelName gpu-id queue-id queue-index pid tid grd wgr lds scr vgpr arch_vgpr accum_vgpr sgpr fbar "
            "wave_size sig obj DispatchNs BeginNs EndNs CompleteNs DurationNs"
        ),
    ),
    "dispatches": CounterTotals(
        "Kernel_Name",
        "GPU_ID",
        _words(
            "Dispatch_ID GPU_ID Queue_ID PID TID Grid_Size Workgroup_Size LDS_Per_Workgroup Scratch_Per_Workitem "
            "Arch_VGPR Accum_VGPR SGPR Wave_Size Kernel_Name Start_Timestamp End_Timestamp Correlation_ID XCC_Index "
            "queue-id queue-index pid tid wave_size sig obj DispatchNs CompleteNs"
        ),
    ),
}
