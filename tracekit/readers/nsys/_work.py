"""Work of the device in Nsight Systems' SQLite exports: kernels, graphs, copies, memsets, waits, memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrow import Column, DictColumn, pc
from tracekit.readers.nsys._codes import COPY_KINDS, MEMORY, UNIFIED, copy_name
from tracekit.readers.nsys._facts import ContextDevices, machine_numbers
from tracekit.readers.nsys._strings import pid_of, strings
from tracekit.readers.sqlite import cupti as cuda
from tracekit.readers.sqlite.cupti import Columns, Context, Extra, args_of, as_is, coded
from tracekit.readers.sqlite.database import Block
from tracekit.schema import Kind

MIGRATION = {1: "User prefetch", 2: "Page fault", 3: "Speculative prefetch", 4: "Eviction", 5: "Access counters"}
"""ENUM_CUDA_UNIF_MEM_MIGRATION."""
LAUNCH = {2: "cooperative, one device", 3: "cooperative, several devices"}
KERNEL = (
    *("cacheConfig", "localMemoryPerThread", "localMemoryTotal", "sharedMemoryExecuted", "sharedMemoryLimitConfig"),
    *("graphId", "clusterX", "clusterY", "clusterZ", "clusterSchedulingPolicy", "maxPotentialClusterSize"),
    "maxActiveClusters",
)
"""Columns of kernels that go into args."""


def _placed(ctx: Context, block: Block, extras: list[Extra]) -> Columns:
    """Return the columns that all device work has."""
    extras += [Extra(key, block.columns.get(key)) for key in ("graphNodeId", "greenContextId")]
    columns = cuda.place(ctx, block)
    columns["pid"] = pid_of(ctx, block.columns.get("globalPid"))
    columns["args"] = args_of(block.count, extras)
    return columns


def kernels(ctx: Context, block: Block, contexts: ContextDevices) -> Columns:
    """Return the columns of kernels. Each node of a CUDA graph is one."""
    contexts.learn(block)
    extras = [Extra("launchType", block.columns.get("launchType"), LAUNCH.get)]
    extras += [Extra(key, block.columns.get(key)) for key in KERNEL]
    mangled = block.columns.get("mangledName")
    ids = [cuda.above_zero(block.columns.get(name)) for name in ("demangledName", "shortName", "mangledName")]
    known_ids = [column for column in ids if column is not None]
    columns = _placed(ctx, block, extras) | cuda.shape(ctx, block) | {"kind": Kind.KERNEL}
    if known_ids:
        shown = strings(ctx, pc.coalesce(*known_ids))
        name, raw_name = ctx.names.columns(shown)
        if mangled is not None and raw_name is None:
            raw_name = _differing(strings(ctx, mangled), shown)
        columns |= {"name": name, "raw_name": raw_name}
    return columns


def _differing(raw: DictColumn, shown: DictColumn) -> DictColumn | None:
    """Return the raw names, null where they equal the shown ones."""
    if raw.null_count == len(raw):
        return None
    same: Column = pc.fill_null(pc.equal(raw.cast(pa.string()), shown.cast(pa.string())), False)
    if not pc.any(same).as_py():
        return raw
    return pa.DictionaryArray.from_arrays(pc.if_else(same, None, raw.indices), raw.dictionary)


def graphs(ctx: Context, block: Block) -> Columns:
    """Return the columns of kernels: one for each launch of a graph that was traced as a whole."""
    keys = ("graphExecId", "originalGraphId")
    columns = _placed(ctx, block, [Extra(key, block.columns.get(key)) for key in keys])
    ids = block.columns.get("graphId")
    name = "[CUDA graph]" if ids is None else coded(ids, lambda number: f"[CUDA graph {number}]")
    text = "CUDA graphs were traced as a whole: each launch is one event of kind kernel, its kernels are unknown"
    ctx.ledger.note("whole-graphs", text, block.count)
    return columns | {"kind": Kind.KERNEL, "name": name}


def copies(ctx: Context, block: Block, devices: dict[tuple[int, int], int], contexts: ContextDevices) -> Columns:
    """Return the columns of copies, also in unified memory. devices: numbers of the machine for both ends of a copy."""
    contexts.learn(block)
    if devices and (pid := pid_of(ctx, block.columns.get("globalPid"))) is not None:
        for name in {"srcDeviceId", "dstDeviceId"} & block.columns.keys():
            block.columns[name] = machine_numbers(pid, block.columns[name], devices)
    kinds = block.columns.get("copyKind")
    extras = [
        Extra("src_mem_type", block.columns.get("srcKind"), MEMORY.get),
        Extra("dst_mem_type", block.columns.get("dstKind"), MEMORY.get),
        Extra("unified_memory", kinds, lambda kind: True if kind in UNIFIED else None),
        Extra("migration_cause", block.columns.get("migrationCause"), MIGRATION.get),
        Extra("virtual_address", block.columns.get("virtualAddress")),
        *(Extra(key, block.columns.get(name), as_is) for name, key in cuda.PEERS.items()),
    ]
    return _placed(ctx, block, extras) | {
        "kind": Kind.MEMCPY,
        "name": "[CUDA memcpy]" if kinds is None else coded(kinds, copy_name),
        "copy_kind": coded(kinds, COPY_KINDS.get),
        "bytes": block.columns.get("bytes"),
    }


def memsets(ctx: Context, block: Block, contexts: ContextDevices) -> Columns:
    """Return the columns of memsets. args has their value, also 0."""
    contexts.learn(block)
    extras = [
        Extra("value", block.columns.get("value"), as_is),
        Extra("mem_type", block.columns.get("memKind"), MEMORY.get),
    ]
    return _placed(ctx, block, extras) | {
        "kind": Kind.MEMSET,
        "name": "[CUDA memset]",
        "bytes": block.columns.get("bytes"),
    }


def synchronization(ctx: Context, block: Block, contexts: ContextDevices) -> Columns:
    """Return the columns of waits. Each is on the device of its context: the rows name device 0 for all.

    The numbers of syncType changed from version to version: 2 is cudaEventSynchronize, cudaStreamSynchronize or
    cudaStreamWaitEvent in three real files. In all of them the type follows from what the row waits for.
    """
    contexts.correct(block)
    event = cuda.below(block.columns.get("eventId"), cuda.NO_ID)
    stream = cuda.below(block.columns.get("streamId"), cuda.NO_ID)
    has_event, has_stream = (
        np.zeros(block.count, np.int64) if ids is None else arrow.valid(ids).astype(np.int64) for ids in (event, stream)
    )
    extras = [Extra("syncType", block.columns.get("syncType"), as_is)]
    extras.append(Extra("eventId", event, as_is))
    extras.append(Extra("eventSyncId", cuda.below(block.columns.get("eventSyncId"), cuda.NO_ID)))
    return _placed(ctx, block, extras) | {
        "kind": Kind.SYNC,
        "stream": stream,
        "name": coded(arrow.array(2 * has_event + has_stream), _SYNC.__getitem__),
    }


_SYNC = {0: cuda.SYNC_NAMES[4], 1: cuda.SYNC_NAMES[3], 2: cuda.SYNC_NAMES[1], 3: cuda.SYNC_NAMES[2]}
"""By 2 x (the row has an event) + (it has a stream): only stream waits and stream syncs have a stream."""


def memory(ctx: Context, block: Block) -> Columns:
    """Return the columns of allocations (memoryOperationType 0) and deallocations (1), whose bytes are negative.

    The numbers are those of ENUM_CUDA_DEV_MEM_EVENT_OPER.
    """
    freed = block.integers("memoryOperationType") == 1
    size = np.where(freed, -block.integers("bytes"), block.integers("bytes"))
    extras = [
        Extra("address", block.columns.get("address")),
        Extra("mem_type", block.columns.get("memKind"), MEMORY.get),
        Extra("name", block.columns.get("name")),
    ]
    return _placed(ctx, block, extras) | {
        "kind": Kind.MEMORY,
        "bytes": arrow.array(size, mask=~block.valid("bytes")),
        "name": coded(arrow.array(freed), lambda gone: "CUDA memory freed" if gone else "CUDA memory allocated"),
    }
