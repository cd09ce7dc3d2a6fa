"""Work of the device in Nsight Systems' SQLite exports: kernels, graphs, copies, memsets, waits, memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.readers.nsys._facts import machine_numbers
from tracekit.readers.nsys._strings import pid_of, strings
from tracekit.readers.sqlite import cupti as cuda
from tracekit.readers.sqlite.cupti import Columns, Context, Extra, args_of, coded
from tracekit.readers.sqlite.database import Block
from tracekit.schema import Kind

MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static"}
"""ENUM_CUDA_MEM_KIND: one less than CUPTI's and nvprof's numbers."""
COPY_KINDS = cuda.COPY_KINDS | {11: "HtoD", 12: "DtoH", 13: "DtoD"}
UNIFIED = (11, 12, 13)
MIGRATION = {1: "User prefetch", 2: "Page fault", 3: "Speculative prefetch", 4: "Eviction", 5: "Access counters"}
"""ENUM_CUDA_UNIF_MEM_MIGRATION."""
LAUNCH = {2: "cooperative, one device", 3: "cooperative, several devices"}
KERNEL = (
    "launchType",
    "cacheConfig",
    "localMemoryPerThread",
    "localMemoryTotal",
    "sharedMemoryExecuted",
    "sharedMemoryLimitConfig",
    "graphId",
    "clusterX",
    "clusterY",
    "clusterZ",
    "clusterSchedulingPolicy",
    "maxPotentialClusterSize",
    "maxActiveClusters",
)


def _placed(ctx: Context, block: Block, extras: list[Extra]) -> Columns:
    """Return what all device work has."""
    extras += [Extra(key, block.columns.get(key)) for key in ("graphNodeId", "greenContextId")]
    columns = cuda.place(ctx, block)
    columns["pid"] = pid_of(ctx, block.columns.get("globalPid"))
    columns["args"] = args_of(block.count, extras)
    return columns


def kernels(ctx: Context, block: Block) -> Columns:
    """Make kernels: each node of a CUDA graph is one."""
    extras = [Extra("launchType", block.columns.get("launchType"), LAUNCH.get)]
    extras += [Extra(key, block.columns.get(key)) for key in KERNEL[1:]]
    ids = [block.columns[n] for n in ("demangledName", "shortName", "mangledName") if n in block]
    columns = _placed(ctx, block, extras) | cuda.shape(ctx, block) | {"kind": Kind.KERNEL}
    if ids:
        shown = strings(ctx, pc.coalesce(*(cuda.above_zero(i) for i in ids)))
        columns["name"], columns["raw_name"] = ctx.names.columns(shown)
        if "mangledName" in block and columns["raw_name"] is None:
            columns["raw_name"] = _unlike(strings(ctx, block.columns["mangledName"]), shown)
    return columns


def _unlike(raw: pa.DictionaryArray, shown: pa.DictionaryArray) -> pa.DictionaryArray | None:
    """Return the raw names, null where they are the shown ones."""
    if raw.null_count == len(raw):
        return None
    same = pc.equal(raw.cast(pa.string()), shown.cast(pa.string())).fill_null(False)
    if not pc.any(same).as_py():
        return raw
    return pa.DictionaryArray.from_arrays(pc.if_else(same, None, raw.indices), raw.dictionary)


def graphs(ctx: Context, block: Block) -> Columns:
    """Make a kernel of each launch of a graph that was traced as a whole."""
    keys = ("graphExecId", "originalGraphId")
    columns = _placed(ctx, block, [Extra(key, block.columns.get(key)) for key in keys])
    ids = block.columns.get("graphId")
    name = "[CUDA graph]" if ids is None else coded(ids, lambda number: f"[CUDA graph {number}]")
    text = "CUDA graphs were traced as a whole: each launch is one event of kind kernel, its kernels are not known"
    ctx.ledger.note("whole-graphs", text, block.count)
    return columns | {"kind": Kind.KERNEL, "name": name}


def copies(ctx: Context, block: Block, devices: dict[tuple[int, int], int]) -> Columns:
    """Make copies, those of unified memory too. devices: the machine's numbers, for both ends of a copy."""
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
        *(Extra(key, block.columns.get(name), lambda number: number) for name, key in cuda.PEERS.items()),
    ]
    return _placed(ctx, block, extras) | {
        "kind": Kind.MEMCPY,
        "name": "[CUDA memcpy]" if kinds is None else coded(kinds, copy_name),
        "copy_kind": coded(kinds, COPY_KINDS.get),
        "bytes": block.columns.get("bytes"),
    }


def copy_name(kind: int) -> str:
    """Return the name of a copy, as nvprof and the older nsys print it."""
    which = "CUDA Unified Memory" if kind in UNIFIED else "CUDA"
    return f"[{which} memcpy {COPY_KINDS[kind]}]" if kind in COPY_KINDS else "[CUDA memcpy]"


def memsets(ctx: Context, block: Block) -> Columns:
    """Make memsets; their value stands in args, 0 too."""
    extras = [
        Extra("value", block.columns.get("value"), lambda value: value),
        Extra("mem_type", block.columns.get("memKind"), MEMORY.get),
    ]
    return _placed(ctx, block, extras) | {
        "kind": Kind.MEMSET,
        "name": "[CUDA memset]",
        "bytes": block.columns.get("bytes"),
    }


def synchronization(ctx: Context, block: Block) -> Columns:
    """Make waits.

    The numbers of syncType changed from version to version (2 is cudaEventSynchronize, cudaStreamSynchronize or
    cudaStreamWaitEvent in three of our files); what a row waits for tells its type in all of them.
    """
    event = cuda.below(block.columns.get("eventId"), cuda.NO_ID)
    stream = cuda.below(block.columns.get("streamId"), cuda.NO_ID)
    has_event, has_stream = (
        np.zeros(block.count, np.int64) if ids is None else ids.is_valid().to_numpy(zero_copy_only=False).astype(int)
        for ids in (event, stream)
    )
    extras = [Extra("syncType", block.columns.get("syncType"), lambda number: number)]
    extras.append(Extra("eventId", event, lambda number: number))
    extras.append(Extra("eventSyncId", cuda.below(block.columns.get("eventSyncId"), cuda.NO_ID)))
    return _placed(ctx, block, extras) | {
        "kind": Kind.SYNC,
        "stream": stream,
        "name": coded(pa.array(2 * has_event + has_stream), _SYNC.__getitem__),
    }


_SYNC = {0: cuda.SYNC_NAMES[4], 1: cuda.SYNC_NAMES[3], 2: cuda.SYNC_NAMES[1], 3: cuda.SYNC_NAMES[2]}
"""By 2 x (an event is named) + (a stream is named): CUPTI names a stream for stream waits and stream syncs alone."""


def memory(ctx: Context, block: Block) -> Columns:
    """Make allocations (memoryOperationType 0) and deallocations (1; ENUM_CUDA_DEV_MEM_EVENT_OPER), whose bytes are
    negative.
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
        "bytes": pa.array(size, mask=~block.valid("bytes")),
        "name": coded(pa.array(freed), lambda gone: "CUDA memory freed" if gone else "CUDA memory allocated"),
    }
