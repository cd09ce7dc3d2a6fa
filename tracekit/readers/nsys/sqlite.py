"""nsys export --type sqlite: the database of Nsight Systems, every schema from 2020 to 3.25 (nsys 2026).

    StringIds(id, value): (911, 'cudaFree_v3020')
    CUPTI_ACTIVITY_KIND_RUNTIME(start, end, eventClass, globalTid, ..., nameId): (68078778, 257222655, 0, 28..., 911)
    NVTX_EVENTS(start, end, eventType, ..., text, globalTid): (155357596302, 155357609579, 59, ..., 'aten::view', 28...)

A record is a row of a table. `event_id` counts the rows of the tables in the order in which they are read. The version
does not matter: a missing table has no rows, and a missing column has no values. Of NVTX_EVENTS and its newer versions
(NVTX_EVENTS_V2 ...) the newest with rows is read. Tables with names and other facts count as facts, all others as
ignored under their own names (ENUM_ tables together).

Times are ns from the start of the session. `Run.origin_ns` is its Unix time if the export has it, less `--ts-shift`, or
0 after `--ts-normalize`. globalTid and globalPid hold machine, process and thread (8+8, 24, 24 bits). Equal pids of
several machines become different numbers. `device`, and src_device and dst_device of peer copies, are ids of
TARGET_INFO_GPU. TARGET_INFO_CUDA_DEVICE corrects them if a process numbers its devices in another way.

- CUPTI_ACTIVITY_KIND_KERNEL: `kernel`, each node of a CUDA graph too (graphNodeId in args, the launch's correlation).
- CUPTI_ACTIVITY_KIND_GRAPH_TRACE: `kernel`, a CUDA graph that was traced as a whole: "[CUDA graph 109]".
- CUPTI_ACTIVITY_KIND_MEMCPY, _MEMSET: copies (copyKind 11 to 13: of unified memory) and memsets.
- CUPTI_ACTIVITY_KIND_RUNTIME, _DRIVER: `runtime` or `driver` by eventClass, else by name. The version behind a name
  (cudaFree_v3020) is removed, `raw_name` keeps it.
- CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: `sync`. CUPTI_ACTIVITY_KIND_OVERHEAD, PROFILER_OVERHEAD: `overhead`.
- CUDA_GPU_MEMORY_USAGE_EVENTS: `memory`, freed bytes are negative.
- NVTX_EVENTS: push/pop ranges are `user_range`; start/end ranges too, without tid since they may overlap (args has `id`
  and `tid`); marks are `mark`. args has domains, categories, payloads and colors. Ranges that PyTorch records
  ("aten::mm, op_id = 12") have the kinds of Kineto's, and names without the numbers: `raw_name` keeps the whole text.
  "step 3" is a `step`.
- MPI_*_EVENTS: `communication`. All events of a process have the `rank` that MPI_RANKS gives it. CUBLAS_EVENTS,
  CUDNN_EVENTS: `other`. OSRT_API is read with `--option osrt=yes` only.
- CUDA_GRAPH_NODE_EVENTS: `mark`, the creation of a node of a CUDA graph. args has its number, and for a node that is a
  copy (in an executable graph) the number of its original.
- GPU_METRICS: `counter`, its device is the low byte of typeId.

A range or an MPI call without an end has no duration and `"unfinished": true`. Warnings of Nsight Systems itself in
DIAGNOSTIC_EVENT (about missing events) become notes. Not kept: gridId (the number of a launch). Not supported: samples
and call chains, scheduling, other diagnostics, ETW, graphics. Sources: five exports of 2021 to 2026, the
ENUM_ tables in them, NVIDIA's "SQLite Schema Reference" and the SQL of the reports of `nsys stats`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.model import arrow
from tracekit.model.arrow import Column, DictColumn, pc
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.base import ReadOptions, ReadResult
from tracekit.readers.names import Demangler
from tracekit.readers.nsys._facts import (
    COPY_KINDS,
    MEMORY,
    UNIFIED,
    ContextDevices,
    ProcessFacts,
    context_devices,
    copy_name,
    devices_of,
    facts_of,
    machine_numbers,
    named_threads,
    pid_of,
    ranks_of,
    strings,
    table_named,
    tid_of,
    with_process_facts,
)
from tracekit.readers.nsys._nvtx import nvtx
from tracekit.readers.options import OSRT
from tracekit.readers.source import Source
from tracekit.readers.sqlite import cupti as cuda
from tracekit.readers.sqlite.cupti import (
    PLACE,
    SHAPE,
    SPAN,
    Columns,
    Context,
    Extra,
    args_of,
    as_is,
    coded,
    distinct_rows,
    integers,
    with_lost_work,
)
from tracekit.readers.sqlite.database import CellType, Database, RowBlock, TableSource

__all__ = ["read", "read_tables", "refuse_without_texts"]

# Work of the device in Nsight Systems' SQLite exports: kernels, graphs, copies, memsets, waits, memory.


MIGRATION = {1: "User prefetch", 2: "Page fault", 3: "Speculative prefetch", 4: "Eviction", 5: "Access counters"}
"""ENUM_CUDA_UNIF_MEM_MIGRATION."""
LAUNCH = {2: "cooperative, one device", 3: "cooperative, several devices"}
KERNEL = (
    *("cacheConfig", "localMemoryPerThread", "localMemoryTotal", "sharedMemoryExecuted", "sharedMemoryLimitConfig"),
    *("graphId", "clusterX", "clusterY", "clusterZ", "clusterSchedulingPolicy", "maxPotentialClusterSize"),
    "maxActiveClusters",
)
"""Columns of kernels that go into args."""


_OF_WORK = ("graphNodeId", "greenContextId")
"""Columns of all device work that go into args."""
_IN_ARGS = {
    "KERNEL": ("launchType", *KERNEL, *_OF_WORK),
    "MEMCPY": ("srcKind", "dstKind", "migrationCause", "virtualAddress", *cuda.PEERS, *_OF_WORK),
    "MEMSET": ("value", "memKind", *_OF_WORK),
    "RUNTIME": ("returnValue",),
    "DRIVER": ("returnValue",),
}
"""Columns of long tables that go nowhere else."""
_KINDS = {
    "KERNEL": (Kind.KERNEL,),
    "MEMCPY": (Kind.MEMCPY,),
    "MEMSET": (Kind.MEMSET,),
    "RUNTIME": (Kind.RUNTIME, Kind.DRIVER),
    "DRIVER": (Kind.RUNTIME, Kind.DRIVER),
}


def _unread(ctx: Context, name: str) -> frozenset[str]:
    """Return the columns of a table that nobody will look at. name: without the version."""
    short = name.removeprefix(PREFIX)
    if not name.startswith(PREFIX) or short not in _KINDS:
        return frozenset()
    of_args = frozenset() if cuda.reads_args(ctx, *_KINDS[short]) else frozenset(_IN_ARGS[short])
    return of_args | (cuda.unread_shapes(ctx) if short == "KERNEL" else frozenset())


def _placed(ctx: Context, block: RowBlock, extras: list[Extra], kind: Kind) -> Columns:
    """Return the columns that all device work has."""
    columns = cuda.place(ctx, block)
    columns["pid"] = pid_of(ctx, block.columns.get("globalPid"))
    if cuda.reads_args(ctx, kind):
        extras += [Extra(key, block.columns.get(key)) for key in _OF_WORK]
        columns["args"] = args_of(block.count, extras)
    return columns | {"kind": kind}


def kernels(ctx: Context, block: RowBlock, contexts: ContextDevices) -> Columns:
    """Return the columns of kernels. Each node of a CUDA graph is one."""
    contexts.learn(block)
    extras = [Extra("launchType", block.columns.get("launchType"), LAUNCH.get)]
    extras += [Extra(key, block.columns.get(key)) for key in KERNEL]
    mangled = block.columns.get("mangledName")
    ids = [cuda.above_zero(block.columns.get(name)) for name in ("demangledName", "shortName", "mangledName")]
    known_ids = [column for column in ids if column is not None]
    columns = _placed(ctx, block, extras, Kind.KERNEL) | cuda.shape(ctx, block)
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


def graphs(ctx: Context, block: RowBlock) -> Columns:
    """Return the columns of kernels: one for each launch of a graph that was traced as a whole."""
    keys = ("graphExecId", "originalGraphId")
    columns = _placed(ctx, block, [Extra(key, block.columns.get(key)) for key in keys], Kind.KERNEL)
    ids = block.columns.get("graphId")
    name = "[CUDA graph]" if ids is None else coded(ids, lambda number: f"[CUDA graph {number}]")
    text = "CUDA graphs were traced as a whole: each launch is one event of kind kernel, its kernels are unknown"
    ctx.ledger.note("whole-graphs", text, block.count)
    return columns | {"name": name}


def copies(ctx: Context, block: RowBlock, devices: dict[tuple[int, int], int], contexts: ContextDevices) -> Columns:
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
    return _placed(ctx, block, extras, Kind.MEMCPY) | {
        "name": "[CUDA memcpy]" if kinds is None else coded(kinds, copy_name),
        "copy_kind": coded(kinds, COPY_KINDS.get),
        "bytes": block.columns.get("bytes"),
    }


def memsets(ctx: Context, block: RowBlock, contexts: ContextDevices) -> Columns:
    """Return the columns of memsets. args has their value, also 0."""
    contexts.learn(block)
    extras = [
        Extra("value", block.columns.get("value"), as_is),
        Extra("mem_type", block.columns.get("memKind"), MEMORY.get),
    ]
    return _placed(ctx, block, extras, Kind.MEMSET) | {
        "name": "[CUDA memset]",
        "bytes": block.columns.get("bytes"),
    }


def synchronization(ctx: Context, block: RowBlock, contexts: ContextDevices) -> Columns:
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
    return _placed(ctx, block, extras, Kind.SYNC) | {
        "stream": stream,
        "name": coded(arrow.array(2 * has_event + has_stream), _SYNC.__getitem__),
    }


_SYNC = {0: cuda.SYNC_NAMES[4], 1: cuda.SYNC_NAMES[3], 2: cuda.SYNC_NAMES[1], 3: cuda.SYNC_NAMES[2]}
"""By 2 x (the row has an event) + (it has a stream): only stream waits and stream syncs have a stream."""


def memory_usage(ctx: Context, block: RowBlock) -> Columns:
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
    return _placed(ctx, block, extras, Kind.MEMORY) | {
        "bytes": arrow.array(size, mask=~block.valid("bytes")),
        "name": coded(arrow.array(freed), lambda gone: "CUDA memory freed" if gone else "CUDA memory allocated"),
    }


_OVERHEADS = (
    *("Unknown", "Driver compiler", "Buffer flush", "Instrumentation", "Resource", "Runtime triggered module loading"),
    *("Lazy function loading", "Command buffer full"),
)
OVERHEAD = dict(enumerate(_OVERHEADS, 1))
"""ENUM_CUPTI_OVERHEAD_TYPE, in the words of the reader for databases of nvprof."""
RUNTIME_CLASS, DRIVER_CLASS = 0, 1
"""TRACE_PROCESS_EVENT_CUDA_RUNTIME and _DRIVER; 26 (CUDA_API) is either."""

PREFIX = "CUPTI_ACTIVITY_KIND_"
Make = Callable[[RowBlock], Columns]


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events. Raises: ParseError for a damaged database, or one that is not such an export."""
    osrt = options.value(OSRT)
    db = Database(source, ledger)
    refuse_without_texts(db, source)
    return read_tables(db, "nsys-sqlite", source, options, ledger, osrt=osrt)


def refuse_without_texts(db: TableSource, source: Source) -> None:
    """Raise ParseError for tables without the one that has all names. Closes them then."""
    if "StringIds" not in db.tables:
        db.close()
        why = "an Nsight Systems export without its table StringIds, which has the names of all kernels and calls"
        hint = "give the report (.nsys-rep) that it was made from, or export it again"
        raise ParseError(source.name, "", why, hint=hint)


def read_tables(
    db: TableSource,
    name: str,
    source: Source,
    options: ReadOptions,
    ledger: Ledger,
    *,
    osrt: bool,
    known: Mapping[str, str] = MappingProxyType({}),
) -> ReadResult:
    """Return the events of the tables of an export, wherever they are. Closes them in the end.

    name: of the format. known: see `facts_of`.
    """
    run = Run()
    ctx = Context(db, run, options, ledger, Demangler(ledger, enabled=options.demangle))
    try:
        run.sources.append(SourceFacts(path=source.name, format=name, facts=facts_of(ctx, known)))
    except BaseException:
        ctx.names.close()
        db.close()
        raise
    return ReadResult(run, with_lost_work(_batches(ctx, osrt), source, ledger), False, (ledger,))


def _batches(ctx: Context, osrt: bool) -> Iterator[pa.RecordBatch]:
    with ctx.db:
        try:
            read: set[str] = set()
            known = ProcessFacts(ranks_of(ctx), devices_of(ctx))
            if known.devices:
                text = "processes and machine number the devices in different ways: device is the machine's number"
                ctx.ledger.note("devices-by-machine", text)
            for name, wanted, make, zero in _plan(ctx, osrt, known.devices, context_devices(ctx)):
                table = table_named(ctx, name)
                if table is not None:
                    read.add(table)
                    start = "timestamp" if name == "GPU_METRICS" else "start"
                    end = None if name in _MOMENTS else "end"
                    opened = "null" if name.startswith("MPI_") else ""
                    batches = cuda.events(
                        ctx,
                        table,
                        wanted,
                        make,
                        start=start,
                        end=end,
                        open_ends=opened,
                        zero=zero,
                        unread=_unread(ctx, name),
                    )
                    yield from with_process_facts(batches, known)
            table = table_named(ctx, "NVTX_EVENTS")
            if table is not None:
                read.add(table)
                yield from with_process_facts(nvtx(ctx, table), known)
            named_threads(ctx)
            facts = {t for t in ctx.db.tables if t.startswith(_FACTS)}
            cuda.ignore_others(ctx, read, facts)
        finally:
            ctx.names.close()


_MOMENTS = ("GPU_METRICS", "CUDA_GPU_MEMORY_USAGE_EVENTS", "CUDA_GRAPH_NODE_EVENTS")
"""Tables whose rows have no duration."""
_FACTS = (
    *("StringIds", "ThreadNames", "PROCESSES", "MPI_RANKS", "TARGET_INFO_", "META_DATA_", "EXPORT_META_DATA"),
    "ANALYSIS_DETAILS",
)


def _plan(
    ctx: Context, osrt: bool, devices: dict[tuple[int, int], int], contexts: ContextDevices
) -> Iterator[tuple[str, dict[str, CellType], Make, str]]:
    """Yield each table with the columns to read, the maker of its events, and the meaning of times of 0."""
    place = SPAN | PLACE | integers("globalPid", "graphNodeId", "greenContextId")
    call = SPAN | integers("eventClass", "globalTid", "correlationId", "nameId", "returnValue")
    names = integers("demangledName", "shortName", "mangledName")
    yield (
        PREFIX + "KERNEL",
        place | SHAPE | names | integers("launchType", *KERNEL),
        lambda b: kernels(ctx, b, contexts),
        "both",
    )
    graph = integers("graphId", "graphExecId", "originalGraphId")
    yield PREFIX + "GRAPH_TRACE", place | graph, lambda b: graphs(ctx, b), "both"
    copy = integers("bytes", "copyKind", "srcKind", "dstKind", "migrationCause", "virtualAddress", *cuda.PEERS)
    yield PREFIX + "MEMCPY", place | copy, lambda b: copies(ctx, b, devices, contexts), "both"
    yield (
        PREFIX + "MEMSET",
        place | integers("bytes", "value", "memKind"),
        lambda b: memsets(ctx, b, contexts),
        "both",
    )
    yield PREFIX + "RUNTIME", call, lambda b: _calls(ctx, b, None), "never"
    yield PREFIX + "DRIVER", call, lambda b: _calls(ctx, b, Kind.DRIVER), "never"
    sync = SPAN | PLACE | integers("globalPid", "greenContextId", "syncType", "eventId", "eventSyncId")
    yield PREFIX + "SYNCHRONIZATION", sync, lambda b: synchronization(ctx, b, contexts), "both"
    yield PREFIX + "OVERHEAD", call | integers("overheadType"), lambda b: _overhead(ctx, b), "never"
    # No export has the call that an overhead of the profiler belongs to; a report has a number there.
    own = {name: kind for name, kind in call.items() if name != "correlationId"}
    yield "PROFILER_OVERHEAD", own | integers("overheadType"), lambda b: _overhead(ctx, b), "never"
    memory = PLACE | integers("start", "globalPid", "address", "bytes", "memKind", "memoryOperationType")
    memory |= {"name": CellType.TEXT}
    yield "CUDA_GPU_MEMORY_USAGE_EVENTS", memory, lambda b: memory_usage(ctx, b), "never"
    node = integers("start", "globalTid", "nameId", *_NODES)
    yield "CUDA_GRAPH_NODE_EVENTS", node, lambda b: _graph_nodes(ctx, b), "never"
    for name in ("P2P", "COLLECTIVES", "START_WAIT", "OTHER"):
        mpi = SPAN | integers("globalTid", "textId", *_MPI)
        yield f"MPI_{name}_EVENTS", mpi, lambda b: _library(ctx, b, "textId", Kind.COMMUNICATION), "never"
    for name in ("CUBLAS_EVENTS", "CUDNN_EVENTS", *(("OSRT_API",) if osrt else ())):
        yield name, call, lambda b: _library(ctx, b, "nameId", Kind.OTHER), "never"
    yield "GPU_METRICS", integers("timestamp", "typeId", "metricId") | {"value": CellType.REAL}, _counters(ctx), "never"


_NODES = ("graphNodeId", "originalGraphNodeId")
_MPI = ("commHandle", "tag", "remoteRank", "rootRank", "kind", "size", "recvSize", "requestHandle")


def _thread(ctx: Context, block: RowBlock) -> Columns:
    ids = block.columns.get("globalTid")
    return {"pid": pid_of(ctx, ids, threads=True), "tid": tid_of(ids)}


def _ids(block: RowBlock, name: str) -> Column:
    """Return a column of string ids, nulls if the table has none."""
    ids = block.columns.get(name)
    return arrow.nulls(block.count, pa.int64()) if ids is None else ids


def _calls(ctx: Context, block: RowBlock, kind: Kind | None) -> Columns:
    columns = _thread(ctx, block)
    columns["correlation"] = cuda.above_zero(block.columns.get("correlationId"))
    if cuda.reads_args(ctx, Kind.RUNTIME, Kind.DRIVER):
        columns["args"] = args_of(block.count, [Extra("returnValue", block.columns.get("returnValue"))])
    raw = strings(ctx, _ids(block, "nameId"))
    texts = arrow.texts(raw.dictionary)
    names = [cuda.call_name(text) for text in texts]
    columns["name"] = coded(raw.indices, names.__getitem__)
    if names != texts:
        raw_names = [text if text != name else None for text, name in zip(texts, names, strict=True)]
        columns["raw_name"] = coded(raw.indices, raw_names.__getitem__)
    classes = block.columns.get("eventClass")
    columns["kind"] = kind
    if kind is None and classes is not None and arrow.bounds(classes) == (0, 0):
        columns["kind"] = Kind.RUNTIME
    elif kind is None:
        step = len(texts) + 1
        numbers = block.integers("eventClass", 26) * step + arrow.ints(raw.indices, len(texts))
        columns["kind"] = coded(arrow.array(numbers), lambda n: _call_kind(n // step, n % step, texts))
    return columns


def _call_kind(event_class: int, code: int, texts: list[str]) -> Kind:
    if event_class in (RUNTIME_CLASS, DRIVER_CLASS):
        return Kind.RUNTIME if event_class == RUNTIME_CLASS else Kind.DRIVER
    return cuda.call_kind(texts[code]) if code < len(texts) else Kind.RUNTIME


def _overhead(ctx: Context, block: RowBlock) -> Columns:
    """Return the columns of overhead. The name is the text if there is one: it says more than the type."""
    by_type = coded(block.columns.get("overheadType"), lambda kind: OVERHEAD.get(kind, f"Overhead {kind}"))
    name = strings(ctx, _ids(block, "nameId"))
    if by_type is not None and name.null_count == block.count:
        name = by_type
    elif by_type is not None and name.null_count:
        name = arrow.encoded(pc.coalesce(name.cast(pa.string()), by_type.cast(pa.string())))
    columns = _thread(ctx, block) | {"kind": Kind.OVERHEAD, "name": name}
    columns["correlation"] = cuda.above_zero(block.columns.get("correlationId"))
    return columns


def _graph_nodes(ctx: Context, block: RowBlock) -> Columns:
    """Return the columns of marks: the creation of each node of a CUDA graph."""
    extras = [Extra(key, cuda.above_zero(block.columns.get(key))) for key in _NODES]
    names = strings(ctx, _ids(block, "nameId"))
    return _thread(ctx, block) | {"kind": Kind.MARK, "name": names, "args": args_of(block.count, extras)}


def _library(ctx: Context, block: RowBlock, column: str, kind: Kind) -> Columns:
    keys = (*_MPI, "returnValue") if kind is Kind.COMMUNICATION else ("returnValue",)
    extras = [Extra(key, block.columns.get(key)) for key in keys]
    if kind is Kind.COMMUNICATION and not (ended := block.valid("end")).all():
        extras.append(Extra("unfinished", arrow.array(ended), lambda has_end: None if has_end else True))
        text = "a call did not end before the profile did: it has no duration"
        ctx.ledger.note("open-call", text, int(block.count - ended.sum()), where=block.table)
    names = strings(ctx, _ids(block, column))
    return _thread(ctx, block) | {"kind": kind, "name": names, "args": args_of(block.count, extras)}


def _counters(ctx: Context) -> Make:
    names: dict[tuple[object, object], str] = {}
    for kind, metric, name in ctx.db.small("TARGET_INFO_GPU_METRICS", "typeId", "metricId", "metricName"):
        names[(kind, metric)] = names[(None, metric)] = str(name)

    def make(block: RowBlock) -> Columns:
        kinds = block.integers("typeId", -1)
        codes, pairs = distinct_rows(kinds, block.integers("metricId", -1))
        texts = [names.get((k, m)) or names.get((None, m)) or f"metric {m}" for k, m in pairs]
        return {
            "kind": Kind.COUNTER,
            "value": block.columns.get("value"),
            "name": coded(codes, texts.__getitem__),
            "device": arrow.array(kinds & 0xFF, mask=kinds < 0),
        }

    return make
