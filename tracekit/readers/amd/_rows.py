"""Rows of rocpd's tables as columns of EVENTS."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import F64, I64, Mask
from tracekit.columns.arrow import Column, DictColumn, pc
from tracekit.readers import rocm
from tracekit.readers.amd._joins import Group, Kernel, Numbers, numbers_of
from tracekit.readers.sqlite import cupti as cuda
from tracekit.readers.sqlite.cupti import Columns, Extra, args_of, as_is, coded, integers
from tracekit.readers.sqlite.database import Block, CellType
from tracekit.schema import Kind

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


def _joined(group: Group, block: Block) -> tuple[Columns, list[Extra]]:
    """Return the columns and args that all rows with an event have."""
    event = block.columns.get("event_id")
    columns: Columns = {
        "pid": group.pids.of(block.columns.get("pid")),
        "correlation": group.events.correlation.find(event),
    }
    return columns, [Extra("external_correlation", group.events.external.find(event))]


def _work(group: Group, block: Block) -> tuple[Columns, list[Extra]]:
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


def kernels(group: Group, block: Block) -> Columns:
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


def _axis(group: Group, block: Block, axis: str) -> Columns:
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


def copies(group: Group, block: Block) -> Columns:
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


def sizes_of(group: Group, table: str) -> Numbers:
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


def _freed(block: Block) -> I64:
    kinds = block.columns.get("type")
    if kinds is None:
        return np.zeros(block.count, np.int64)
    return arrow.bools(pc.fill_null(pc.equal(kinds, "FREE"), False)).astype(np.int64)


def allocations(group: Group, block: Block, sizes: Numbers) -> Columns:
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


def regions(group: Group, block: Block) -> Columns:
    """Return the columns of calls and ranges. A roctx range has its message as its name, and the call in args."""
    columns, extras = _joined(group, block)
    event, names = block.columns.get("event_id"), block.columns.get("name_id")
    category, message = group.events.category.find(event), group.events.message.find(event)
    shown = _names(group, names, message, block.count)
    if message is not None and names is not None:
        extras.append(Extra("call", pc.if_else(arrow.array(arrow.valid(message)), names, None), group.text))
    keys = [block.integers("name_id", -1), arrow.ints(_or_nulls(category, block.count), -1)]
    keys.append(arrow.valid(_or_nulls(message, block.count)).astype(np.int64))
    triples, place = np.unique(np.column_stack(keys), axis=0, return_inverse=True)
    kinds = [region_kind(group.text(c), group.text(n), message=bool(m)) for n, c, m in triples.tolist()]
    return columns | {
        "kind": coded(arrow.array(place.reshape(-1)), kinds.__getitem__),
        "tid": group.tids.of(block.columns.get("tid")),
        "name": shown,
        "args": args_of(block.count, extras),
    }


def _or_nulls(column: Column | None, count: int) -> Column:
    return arrow.nulls(count, pa.int64()) if column is None else column


def _names(group: Group, names: Column | None, message: Column | None, count: int) -> DictColumn | None:
    """Return the messages, and the names of rows without one."""
    plain = group.named(names)
    if message is None:
        return plain
    said = coded(message, group.events.messages.__getitem__)
    shown = arrow.nulls(count, pa.string()) if plain is None else plain.cast(pa.string())
    return plain if said is None else arrow.encoded(pc.coalesce(said.cast(pa.string()), shown))


SAMPLE = integers("timestamp", "track_id", "event_id")


@dataclass(frozen=True, slots=True)
class Samples:
    """Names and numbers of samples. process, thread, name: by track. value: place in `values` and `names` by event."""

    process: Numbers
    thread: Numbers
    name: Numbers
    value: Numbers
    values: F64
    names: list[str | None]


def samples(group: Group, block: Block, known: Samples) -> Columns:
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
