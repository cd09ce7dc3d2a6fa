"""The tables of nvprof's database, one after the other, as batches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files

import numpy as np
import pyarrow as pa

from tracekit.columns.arrow import Column, DictColumn, pc
from tracekit.readers.base import Opened, ReadOptions
from tracekit.readers.builder import bounded
from tracekit.readers.names import Demangler
from tracekit.readers.nvprof import _counters as counters
from tracekit.readers.nvprof._markers import DEVICE, PROCESS, STREAM, THREAD, markers, objects_of, place_of, places_of
from tracekit.readers.source import Source
from tracekit.readers.sqlite import cupti as cuda
from tracekit.readers.sqlite.cupti import (
    PLACE,
    SHAPE,
    SPAN,
    Columns,
    Extra,
    SqlContext,
    above_zero,
    args_of,
    as_is,
    coded,
    integers,
)
from tracekit.readers.sqlite.database import Block, CellType, Database
from tracekit.readers.sqlite.lost import with_lost_work
from tracekit.schema import Kind
from tracekit.trace import Ledger, Run, SourceFacts

PREFIX = "CUPTI_ACTIVITY_KIND_"
UNREAD = re.compile(PREFIX + "(OPENACC|OPENMP|EVENT_I|METRIC_I|INSTANTANEOUS|PC_SAMPLING$|ENVIRONMENT)")
"""Tables with data that a user may look for. They are not read, and a note names them."""
KERNELS = ("KERNEL", "CONCURRENT_KERNEL", "CDP_KERNEL")
COPIES = ("MEMCPY", "MEMCPY2")
CALLS = ("RUNTIME", "DRIVER")
FACTS = frozenset({"StringTable", "Version", *(PREFIX + name for name in ("DEVICE", "CONTEXT", "NAME"))})
MEMORY = {1: "Pageable", 2: "Pinned", 3: "Device", 4: "Array", 5: "Managed", 6: "Device Static", 7: "Managed Static"}
"""CUpti_ActivityMemoryKind: one more than the numbers of Nsight Systems."""
OVERHEAD = {
    1: "Driver compiler",
    1 << 16: "Buffer flush",
    2 << 16: "Instrumentation",
    3 << 16: "Resource",
    4 << 16: "Runtime triggered module loading",
    5 << 16: "Lazy function loading",
    6 << 16: "Command buffer full",
    7 << 16: "Activity buffer request",
    8 << 16: "UVM activity init",
}
UNIFIED = {
    1: "[Unified Memory Memcpy HtoD]",
    2: "[Unified Memory Memcpy DtoH]",
    3: "[Unified Memory CPU page faults]",
    4: "[Unified Memory GPU page faults]",
    5: "[Unified Memory thrashing]",
    6: "[Unified Memory throttling]",
    7: "[Unified Memory remote mapping]",
    8: "[Unified Memory Memcpy DtoD]",
}
UNIFIED_COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD"}
NONE = "-- null --"
"""Row 0 of StringTable."""


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events. Raises: ParseError for a damaged database, or one of another program."""
    db = Database(source, ledger)
    run = Run(origin_ns=0)
    ctx = SqlContext(db, run, options, ledger, Demangler(ledger, enabled=options.demangle))
    try:
        if "StringTable" not in db.tables:
            raise db.error(ValueError("no table StringTable"))
        run.sources.append(SourceFacts(path=source.name, format="nvprof-sqlite", facts=_facts(ctx)))
        pid = _process(ctx)
    except BaseException:
        db.close()
        raise
    return Opened(run, with_lost_work(_batches(ctx, pid), source, ledger), False, (ledger,))


def _batches(ctx: SqlContext, pid: int | None) -> Iterator[pa.RecordBatch]:
    with ctx.db:
        try:
            tables = [name for name in ctx.db.tables if name.startswith(PREFIX)]
            read: set[str] = set()
            for name in KERNELS + COPIES + CALLS + ("MEMSET", "OVERHEAD", "SYNCHRONIZATION", "UNIFIED_MEMORY_COUNTER"):
                if PREFIX + name in tables:
                    read.add(PREFIX + name)
                    yield from _table(ctx, name, pid)
            kernels = counters.kernels_of(ctx, [t for t in tables if t.removeprefix(PREFIX) in KERNELS])
            yield from counters.totals(ctx, kernels, lambda number: _kernel_name(ctx, number))
            read |= {counters.METRIC, counters.EVENT}
            yield from markers(ctx, lambda number: _string(ctx, number))
            read |= {PREFIX + "MARKER", PREFIX + "MARKER_DATA"}
            cuda.ignore_others(ctx, read, set(FACTS))
            if unread := [f"{t.removeprefix(PREFIX)} ({n})" for t, n in ctx.ledger.ignored.items() if UNREAD.match(t)]:
                ctx.ledger.note("tables-not-read", f"tables that were not read, with their rows: {', '.join(unread)}")
        finally:
            ctx.names.close()


def _table(ctx: SqlContext, name: str, pid: int | None) -> Iterator[pa.RecordBatch]:
    table = PREFIX + name
    if name in KERNELS:
        wanted = SPAN | PLACE | SHAPE | integers("name", *_KERNEL_EXTRAS)
        return cuda.events(ctx, table, wanted, lambda b: _kernels(ctx, b, pid), zero="start")
    if name in COPIES:
        wanted = SPAN | PLACE | integers("copyKind", "srcKind", "dstKind", "flags", "bytes", *cuda.PEERS)
        wanted |= integers("runtimeCorrelationId")
        return cuda.events(ctx, table, wanted, lambda b: _copies(ctx, b, pid), zero="start")
    if name == "MEMSET":
        wanted = SPAN | PLACE | integers("value", "bytes", "memoryKind", "flags", "runtimeCorrelationId")
        return cuda.events(ctx, table, wanted, lambda b: _memsets(ctx, b, pid), zero="start")
    if name in CALLS:
        wanted = SPAN | integers("cbid", "processId", "threadId", "correlationId", "returnValue")
        return cuda.events(ctx, table, wanted, lambda b: _calls(b, name), zero="start")
    if name == "OVERHEAD":
        wanted = SPAN | integers("overheadKind", "objectKind") | {"objectId": CellType.HEX}
        return cuda.events(ctx, table, wanted, _overhead, zero="start")
    if name == "SYNCHRONIZATION":
        wanted = SPAN | PLACE | integers("type", "cudaEventId")
        return cuda.events(ctx, table, wanted, lambda b: _synchronization(ctx, b, pid), zero="start")
    wanted = SPAN | integers("counterKind", "value", "address", "srcId", "dstId", "streamId", "processId")
    return cuda.events(ctx, table, wanted, _unified, zero="start", open_ends="zero")


_KERNEL_EXTRAS = (
    *("localMemoryPerThread", "localMemoryTotal", "sharedMemoryConfig", "partitionedGlobalCacheRequested"),
    *("partitionedGlobalCacheExecuted", "queued", "submitted", "launchType", "isSharedMemoryCarveoutRequested"),
    *("sharedMemoryCarveoutRequested", "sharedMemoryExecuted", "graphNodeId", "parentGridId"),
    *("parentBlockX", "parentBlockY", "parentBlockZ"),
)


def _kernels(ctx: SqlContext, block: Block, pid: int | None) -> Columns:
    name, raw = _names(ctx, block.columns.get("name"))
    extras = [Extra(key, block.columns.get(key)) for key in _KERNEL_EXTRAS]
    columns: Columns = {
        "kind": Kind.KERNEL,
        "name": name,
        "raw_name": raw,
        "pid": pid,
        "args": args_of(block.count, extras),
    }
    return columns | cuda.place(ctx, block) | cuda.shape(ctx, block)


def _copies(ctx: SqlContext, block: Block, pid: int | None) -> Columns:
    kinds = block.columns.get("copyKind")
    extras = [
        Extra("src_mem_type", block.columns.get("srcKind"), MEMORY.get),
        Extra("dst_mem_type", block.columns.get("dstKind"), MEMORY.get),
        Extra("async", block.columns.get("flags"), _true_if_async),
        *(Extra(key, block.columns.get(name), as_is) for name, key in cuda.PEERS.items()),
    ]
    columns: Columns = {
        "kind": Kind.MEMCPY,
        "pid": pid,
        "bytes": block.columns.get("bytes"),
        "args": args_of(block.count, extras),
        "name": coded(kinds, copy_name) if kinds is not None else "[CUDA memcpy]",
        "copy_kind": coded(kinds, cuda.COPY_KINDS.get),
    }
    return columns | _work(ctx, block)


def _true_if_async(flags: int) -> bool | None:
    return True if flags & 1 else None


def copy_name(kind: int) -> str:
    """Return the name of a copy, as nvprof prints it."""
    return f"[CUDA memcpy {cuda.COPY_KINDS[kind]}]" if kind in cuda.COPY_KINDS else "[CUDA memcpy]"


def _memsets(ctx: SqlContext, block: Block, pid: int | None) -> Columns:
    extras = [
        Extra("value", block.columns.get("value"), as_is),
        Extra("mem_type", block.columns.get("memoryKind"), MEMORY.get),
        Extra("async", block.columns.get("flags"), _true_if_async),
    ]
    columns: Columns = {
        "kind": Kind.MEMSET,
        "name": "[CUDA memset]",
        "pid": pid,
        "bytes": block.columns.get("bytes"),
        "args": args_of(block.count, extras),
    }
    return columns | _work(ctx, block)


def _work(ctx: SqlContext, block: Block) -> Columns:
    """Return the place of a copy or memset. Some versions have the id of the launch in runtimeCorrelationId only."""
    columns = cuda.place(ctx, block)
    runtime_id = cuda.above_zero(block.columns.get("runtimeCorrelationId"))
    if runtime_id is not None:
        own_id = cuda.above_zero(block.columns.get("correlationId"))
        columns["correlation"] = runtime_id if own_id is None else pc.coalesce(own_id, runtime_id)
    return columns


def _calls(block: Block, name: str) -> Columns:
    known = _api_names(name.lower())
    ids = block.columns.get("cbid")
    thread = block.columns.get("threadId")
    return {
        "kind": Kind.RUNTIME if name == "RUNTIME" else Kind.DRIVER,
        "name": None if ids is None else coded(ids, lambda cbid: _call_name(known, cbid)),
        "pid": block.columns.get("processId"),
        "tid": None if thread is None else pc.bit_wise_and(thread, 0xFFFFFFFF),
        "correlation": cuda.above_zero(block.columns.get("correlationId")),
        "args": args_of(block.count, [Extra("returnValue", block.columns.get("returnValue"))]),
    }


@lru_cache(maxsize=2)
def _api_names(interface: str) -> tuple[str, ...]:
    data = files("tracekit.readers.nvprof").joinpath("_cupti_names.json").read_text(encoding="utf-8")
    return tuple(json.loads(data)[interface])


def _call_name(known: tuple[str, ...], cbid: int) -> str:
    return cuda.call_name(known[cbid]) if 0 < cbid < len(known) and known[cbid] else f"cbid {cbid}"


def _overhead(block: Block) -> Columns:
    kinds = block.columns.get("overheadKind")
    return {
        "kind": Kind.OVERHEAD,
        "name": None if kinds is None else coded(kinds, lambda kind: OVERHEAD.get(kind, f"Overhead {kind}")),
        **places_of(block),
    }


def _synchronization(ctx: SqlContext, block: Block, pid: int | None) -> Columns:
    kinds = block.columns.get("type")
    event = cuda.below(block.columns.get("cudaEventId"), cuda.NO_ID)
    columns = cuda.place(ctx, block) | {
        "kind": Kind.SYNC,
        "pid": pid,
        "name": None if kinds is None else coded(kinds, lambda kind: cuda.SYNC_NAMES.get(kind, f"Sync {kind}")),
        "args": args_of(block.count, [Extra("cudaEventId", event)]),
    }
    columns["stream"] = cuda.below(block.columns.get("streamId"), cuda.NO_ID)
    return columns


def _unified(block: Block) -> Columns:
    kinds = block.integers("counterKind")
    copies = np.isin(kinds, tuple(UNIFIED_COPIES))
    # A copy to the host runs on its source device, everything else on its destination.
    place = np.where(kinds == 2, block.integers("srcId", -1), block.integers("dstId", -1))
    known = (place >= 0) & (place < 1 << 16)
    counted = pa.array(block.integers("value"), mask=copies)
    return {
        "kind": coded(pa.array(kinds), lambda kind: Kind.MEMCPY if kind in UNIFIED_COPIES else Kind.OVERHEAD),
        "name": coded(pa.array(kinds), lambda kind: UNIFIED.get(kind, f"[Unified Memory counter {kind}]")),
        "copy_kind": coded(pa.array(kinds), UNIFIED_COPIES.get),
        "bytes": pa.array(block.integers("value"), mask=~copies | ~block.valid("value")),
        "pid": block.columns.get("processId"),
        "device": pa.array(place, mask=~known),
        "stream": above_zero(cuda.below(block.columns.get("streamId"), cuda.NO_ID)),
        "args": args_of(
            block.count,
            [
                Extra("unified_memory", pa.array(copies), lambda copy: True if copy else None),
                Extra("count", counted),
                Extra("address", block.columns.get("address")),
            ],
        ),
    }


def _string(ctx: SqlContext, number: int) -> str | None:
    """Return a text of StringTable, None for no text."""
    text = ctx.strings.get(number)
    if text is None:
        rows = ctx.db.rows("select value from StringTable where _id_ = ?", (number,))
        found = str(rows[0][0]) if rows and rows[0][0] is not None else ""
        text = ctx.strings[number] = bounded(found, ctx.ledger)
    return None if text in ("", NONE) else text


def _kernel_name(ctx: SqlContext, number: int) -> tuple[str | None, str | None]:
    text = _string(ctx, number) if number >= 0 else None
    return ctx.names.one(text) if text else (None, None)


def _names(ctx: SqlContext, ids: Column | None) -> tuple[DictColumn | None, DictColumn | None]:
    names = coded(ids, lambda number: _string(ctx, number))
    return (None, None) if names is None else ctx.names.columns(names)


def _process(ctx: SqlContext) -> int | None:
    """Return the process that made the calls (or that the file names). None, with a note, when there are several."""
    pids: set[int] = set()
    for name in CALLS:
        if "processId" in ctx.db.tables.get(PREFIX + name, ()):
            bounds = ctx.db.rows(f"select min(processId), max(processId) from {PREFIX}{name}")[0]
            pids |= {pid for pid in bounds if isinstance(pid, int)}
    if not pids:
        pids = {pid for _, pid in ctx.run.processes}
    if len(pids) > 1:
        ctx.ledger.note(
            "several-processes", "the calls are of several processes; device work names none, so it has no process"
        )
    return pids.pop() if len(pids) == 1 else None


def _facts(ctx: SqlContext) -> dict[str, object]:
    """Add the names of devices, processes, threads and streams to the run, and return the facts of the source."""
    source, run, db = ctx.options.source, ctx.run, ctx.db
    facts: dict[str, object] = {"tool": "nvprof"}
    version = db.small("Version", "version", limit=1)
    if version and isinstance(version[0][0], int):
        facts["schema_version"] = version[0][0]
    for device, name in db.small(PREFIX + "DEVICE", "id", "name"):
        if isinstance(device, int) and isinstance(name, int) and (text := _string(ctx, name)):
            run.devices[(source, device)] = text
    for device, stream in db.small(PREFIX + "CONTEXT", "deviceId", "nullStreamId"):
        if isinstance(device, int) and isinstance(stream, int):
            run.streams[(source, device, stream)] = "default"
    if PREFIX + "NAME" in db.tables:
        wanted = integers("objectKind", "name") | {"objectId": CellType.HEX}
        for block in db.blocks(PREFIX + "NAME", wanted):
            for (kind, blob), name in zip(objects_of(block), block.integers("name").tolist(), strict=True):
                if text := _string(ctx, name):
                    _add_name(ctx, kind, place_of(kind, blob), text, facts)
    return facts


def _add_name(ctx: SqlContext, kind: int, place: dict[str, int], text: str, facts: dict[str, object]) -> None:
    source, run = ctx.options.source, ctx.run
    if kind == PROCESS and "pid" in place:
        run.processes[(source, place["pid"])] = text
        facts.setdefault("command", text)
    elif kind == THREAD and "tid" in place:
        run.threads[(source, place["pid"], place["tid"])] = text
    elif kind == DEVICE and "device" in place:
        run.devices.setdefault((source, place["device"]), text)
    elif kind == STREAM and "stream" in place:
        run.streams[(source, place["device"], place["stream"])] = text
