"""nsys export --type sqlite: the database of Nsight Systems, every schema from 2020 to 3.25 (nsys 2026).

    StringIds(id, value): (911, 'cudaFree_v3020')
    CUPTI_ACTIVITY_KIND_RUNTIME(start, end, eventClass, globalTid, ..., nameId): (68078778, 257222655, 0, 28..., 911)
    NVTX_EVENTS(start, end, eventType, ..., text, globalTid): (155357596302, 155357609579, 59, ..., 'aten::view', 28...)

A record is a row of a table; `event_id` counts the rows of the tables in the order in which they are read. No version
is asked: a table that is not there has no rows, a column that is not there has no values. Of NVTX_EVENTS and its newer
versions (NVTX_EVENTS_V2 ...) the newest that has rows is read. Tables with names and other facts count as facts, all
others as ignored under their own names (ENUM_ tables together).

Times are ns from the start of the session; `Run.origin_ns` is its Unix time where the export says it, less
`--ts-shift`, or 0 after `--ts-normalize`. globalTid and globalPid hold machine, process and thread (8+8, 24, 24 bits);
pids of several machines are told apart. `device`, and src_device and dst_device of peer copies, are ids of
TARGET_INFO_GPU: put right by TARGET_INFO_CUDA_DEVICE where a process numbers its devices otherwise.

- CUPTI_ACTIVITY_KIND_KERNEL: `kernel`, each node of a CUDA graph too (graphNodeId in args, the launch's correlation).
- CUPTI_ACTIVITY_KIND_GRAPH_TRACE: `kernel`, a CUDA graph that was traced as a whole: "[CUDA graph 109]".
- CUPTI_ACTIVITY_KIND_MEMCPY, _MEMSET: copies (copyKind 11 to 13: of unified memory) and memsets.
- CUPTI_ACTIVITY_KIND_RUNTIME, _DRIVER: `runtime` or `driver` by eventClass, else by name; the version that stands
  behind a name (cudaFree_v3020) is cut off, `raw_name` has it.
- CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: `sync`. CUPTI_ACTIVITY_KIND_OVERHEAD, PROFILER_OVERHEAD: `overhead`.
- CUDA_GPU_MEMORY_USAGE_EVENTS: `memory`, freed bytes are negative.
- NVTX_EVENTS: push/pop ranges are `user_range`; start/end ranges too, without tid since they may overlap (`id` and
  `tid` in args); marks are `mark`. Domains, categories, payloads and colors stand in args.
- MPI_*_EVENTS: `communication`; all that a process did has the `rank` that MPI_RANKS gives it. CUBLAS_EVENTS,
  CUDNN_EVENTS: `other`; OSRT_API with `--option osrt=yes` alone.
- GPU_METRICS: `counter`, its device is the low byte of typeId.

A range or an MPI call without an end has no duration and `"unfinished": true`. What Nsight Systems itself warns of
in DIAGNOSTIC_EVENT (events that may be missing) is told in notes. Not kept: gridId (the number of a launch). Not read:
samples and call chains, scheduling, diagnostics, ETW, graphics. Sources: five exports of 2021 to 2026 (FORMATS section
3b), the ENUM_ tables in them, NVIDIA's "SQLite Schema Reference" and the SQL of the reports of `nsys stats`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.readers.base import Confidence, Head, Opened, Reader, ReadOptions
from tracekit.readers.names import Demangler
from tracekit.readers.nsys import _work as work
from tracekit.readers.nsys._facts import (
    OSRT,
    Lookup,
    devices_of,
    facts_of,
    looked_up,
    named_threads,
    ranks_of,
    table_named,
)
from tracekit.readers.nsys._nvtx import nvtx
from tracekit.readers.nsys._strings import pid_of, strings, tid_of
from tracekit.readers.source import Source
from tracekit.readers.sqlite import cupti as cuda
from tracekit.readers.sqlite.cupti import PLACE, SHAPE, SPAN, Columns, Context, Extra, args_of, coded, integers
from tracekit.readers.sqlite.database import Block, Database
from tracekit.readers.sqlite.database import Kind as Cell
from tracekit.schema import Kind
from tracekit.trace import Ledger, Run, SourceFacts

OVERHEAD = {
    1: "Unknown",
    2: "Driver compiler",
    3: "Buffer flush",
    4: "Instrumentation",
    5: "Resource",
    6: "Runtime triggered module loading",
    7: "Lazy function loading",
    8: "Command buffer full",
}
"""ENUM_CUPTI_OVERHEAD_TYPE, in the words of the reader of nvprof's databases."""
RUNTIME_CLASS, DRIVER_CLASS = 0, 1
"""TRACE_PROCESS_EVENT_CUDA_RUNTIME and _DRIVER; 26 (CUDA_API) is either."""

PREFIX = "CUPTI_ACTIVITY_KIND_"
SIGNATURE = (
    "NVTX_EVENTS",
    "TARGET_INFO_",
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    PREFIX,
    "OSRT_API",
    "ProcessStreams",
)
Make = Callable[[Block], Columns]


def sniff(head: Head) -> Confidence:
    """Say YES to StringIds beside any table of such an export."""
    others = head.tables - {"StringIds"}
    known = "StringIds" in head.tables and any(table.startswith(SIGNATURE) for table in others)
    return Confidence.YES if known else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events. Raises: ParseError when it is damaged or no such export."""
    osrt = options.value(OSRT)
    db = Database(source, ledger)
    run = Run()
    ctx = Context(db, run, options, ledger, Demangler(ledger, enabled=options.demangle))
    try:
        if "StringIds" not in db.tables:
            raise db.error(ValueError("no table StringIds"))
        run.sources.append(SourceFacts(path=source.name, format=READER.name, facts=facts_of(ctx)))
    except BaseException:
        db.close()
        raise
    return Opened(run, _batches(ctx, osrt), False, (ledger,))


def _batches(ctx: Context, osrt: bool) -> Iterator[pa.RecordBatch]:
    with ctx.db:
        try:
            read: set[str] = set()
            lookup = Lookup(ranks_of(ctx), devices_of(ctx))
            if lookup.devices:
                text = "processes number their devices otherwise than the machine does: device is the machine's number"
                ctx.ledger.note("devices-by-machine", text)
            for name, wanted, make, zero in _plan(ctx, osrt, lookup.devices):
                table = table_named(ctx, name)
                if table is not None:
                    read.add(table)
                    start = "timestamp" if name == "GPU_METRICS" else "start"
                    end = None if name in ("GPU_METRICS", "CUDA_GPU_MEMORY_USAGE_EVENTS") else "end"
                    opened = "null" if name.startswith("MPI_") else ""
                    found = cuda.events(ctx, table, wanted, make, start=start, end=end, open_ends=opened, zero=zero)
                    yield from looked_up(found, lookup)
            table = table_named(ctx, "NVTX_EVENTS")
            if table is not None:
                read.add(table)
                yield from looked_up(nvtx(ctx, table), lookup)
            named_threads(ctx)
            facts = {t for t in ctx.db.tables if t.startswith(_FACTS)}
            cuda.ignore_others(ctx, read, facts)
        finally:
            ctx.names.close()


_FACTS = (
    "StringIds",
    "ThreadNames",
    "PROCESSES",
    "MPI_RANKS",
    "TARGET_INFO_",
    "META_DATA_",
    "EXPORT_META_DATA",
    "ANALYSIS_DETAILS",
)


def _plan(
    ctx: Context, osrt: bool, devices: dict[tuple[int, int], int]
) -> Iterator[tuple[str, dict[str, Cell], Make, str]]:
    """Give each table with the columns that are wanted, what makes events of them, and what times of 0 mean."""
    place = SPAN | PLACE | integers("globalPid", "graphNodeId", "greenContextId")
    call = SPAN | integers("eventClass", "globalTid", "correlationId", "nameId", "returnValue")
    names = integers("demangledName", "shortName", "mangledName")
    yield PREFIX + "KERNEL", place | SHAPE | names | integers(*work.KERNEL), lambda b: work.kernels(ctx, b), "both"
    graph = integers("graphId", "graphExecId", "originalGraphId")
    yield PREFIX + "GRAPH_TRACE", place | graph, lambda b: work.graphs(ctx, b), "both"
    copy = integers("bytes", "copyKind", "srcKind", "dstKind", "migrationCause", "virtualAddress", *cuda.PEERS)
    yield PREFIX + "MEMCPY", place | copy, lambda b: work.copies(ctx, b, devices), "both"
    yield PREFIX + "MEMSET", place | integers("bytes", "value", "memKind"), lambda b: work.memsets(ctx, b), "both"
    yield PREFIX + "RUNTIME", call, lambda b: _calls(ctx, b, None), "never"
    yield PREFIX + "DRIVER", call, lambda b: _calls(ctx, b, Kind.DRIVER), "never"
    sync = SPAN | PLACE | integers("globalPid", "greenContextId", "syncType", "eventId", "eventSyncId")
    yield PREFIX + "SYNCHRONIZATION", sync, lambda b: work.synchronization(ctx, b), "both"
    yield PREFIX + "OVERHEAD", call | integers("overheadType"), lambda b: _overhead(ctx, b), "never"
    yield "PROFILER_OVERHEAD", call | integers("overheadType"), lambda b: _overhead(ctx, b), "never"
    memory = PLACE | integers("start", "globalPid", "address", "bytes", "memKind", "memoryOperationType")
    memory |= {"name": Cell.TEXT}
    yield "CUDA_GPU_MEMORY_USAGE_EVENTS", memory, lambda b: work.memory(ctx, b), "never"
    for name in ("P2P", "COLLECTIVES", "START_WAIT", "OTHER"):
        mpi = SPAN | integers("globalTid", "textId", *_MPI)
        yield f"MPI_{name}_EVENTS", mpi, lambda b: _library(ctx, b, "textId", Kind.COMMUNICATION), "never"
    for name in ("CUBLAS_EVENTS", "CUDNN_EVENTS", *(("OSRT_API",) if osrt else ())):
        yield name, call, lambda b: _library(ctx, b, "nameId", Kind.OTHER), "never"
    yield "GPU_METRICS", integers("timestamp", "typeId", "metricId") | {"value": Cell.REAL}, _counters(ctx), "never"


_MPI = ("commHandle", "tag", "remoteRank", "rootRank", "kind", "size", "recvSize", "requestHandle")


def _thread(ctx: Context, block: Block) -> Columns:
    ids = block.columns.get("globalTid")
    return {"pid": pid_of(ctx, ids, threads=True), "tid": tid_of(ids)}


def _calls(ctx: Context, block: Block, kind: Kind | None) -> Columns:
    columns = _thread(ctx, block)
    columns["correlation"] = cuda.above_zero(block.columns.get("correlationId"))
    columns["args"] = args_of(block.count, [Extra("returnValue", block.columns.get("returnValue"))])
    raw = strings(ctx, block.columns.get("nameId", pa.nulls(block.count, pa.int64())))
    texts = raw.dictionary.to_pylist()
    columns["name"] = coded(raw.indices, lambda code: cuda.call_name(texts[code]))
    if any(cuda.call_name(text) != text for text in texts):
        columns["raw_name"] = coded(raw.indices, lambda code: _other(texts[code], cuda.call_name(texts[code])))
    classes = block.columns.get("eventClass")
    columns["kind"] = kind
    if kind is None and classes is not None and (found := pc.min_max(classes).as_py())["max"] == found["min"] == 0:
        columns["kind"] = Kind.RUNTIME
    elif kind is None:
        numbers = block.integers("eventClass", 26) * (len(texts) + 1) + raw.indices.fill_null(len(texts)).to_numpy(
            False
        )
        step = len(texts) + 1
        columns["kind"] = coded(pa.array(numbers), lambda n: _call_kind(n // step, n % step, texts))
    return columns


def _other(raw: str, name: str) -> str | None:
    return None if raw == name else raw


def _call_kind(event_class: int, code: int, texts: list[str]) -> Kind:
    if event_class in (RUNTIME_CLASS, DRIVER_CLASS):
        return Kind.RUNTIME if event_class == RUNTIME_CLASS else Kind.DRIVER
    return cuda.call_kind(texts[code]) if code < len(texts) else Kind.RUNTIME


def _overhead(ctx: Context, block: Block) -> Columns:
    """The name is the string where there is one: it says more than the type."""
    kinds = block.columns.get("overheadType")
    name = coded(kinds, lambda kind: OVERHEAD.get(kind, f"Overhead {kind}"))
    named = strings(ctx, block.columns.get("nameId", pa.nulls(block.count, pa.int64())))
    if name is None or not named.null_count:
        name = named
    elif named.null_count < block.count:
        name = pc.coalesce(named.cast(pa.string()), name.cast(pa.string())).dictionary_encode()
    columns = _thread(ctx, block) | {"kind": Kind.OVERHEAD, "name": name}
    columns["correlation"] = cuda.above_zero(block.columns.get("correlationId"))
    return columns


def _library(ctx: Context, block: Block, column: str, kind: Kind) -> Columns:
    keys = (*_MPI, "returnValue") if kind is Kind.COMMUNICATION else ("returnValue",)
    extras = [Extra(key, block.columns.get(key)) for key in keys]
    if kind is Kind.COMMUNICATION and not (ended := block.valid("end")).all():
        extras.append(Extra("unfinished", pa.array(ended).cast(pa.int64()), lambda whole: None if whole else True))
        text = "a call did not end before the profile did: it has no duration"
        ctx.ledger.note("open-call", text, int(block.count - ended.sum()), where=block.table)
    ids = block.columns.get(column, pa.nulls(block.count, pa.int64()))
    return _thread(ctx, block) | {"kind": kind, "name": strings(ctx, ids), "args": args_of(block.count, extras)}


def _counters(ctx: Context) -> Make:
    rows = ctx.db.small("TARGET_INFO_GPU_METRICS", "typeId", "metricId", "metricName")
    names: dict[Any, str] = {}
    for kind, metric, name in rows:
        names[(kind, metric)] = names[(None, metric)] = str(name)

    def make(block: Block) -> Columns:
        kinds, metrics = block.integers("typeId", -1), block.integers("metricId", -1)
        pairs = coded_pairs(kinds, metrics)
        found = [names.get(p) or names.get((None, p[1])) or f"metric {p[1]}" for p in pairs[1]]
        return {
            "kind": Kind.COUNTER,
            "value": block.columns.get("value"),
            "name": coded(pairs[0], lambda code: found[code]),
            "device": pa.array(kinds & 0xFF, mask=kinds < 0),
        }

    return make


def coded_pairs(first: Any, second: Any) -> tuple[pa.Array, list[tuple[int, int]]]:
    """Return a number for each distinct pair, and the pairs."""
    a, b = pa.array(first).dictionary_encode(), pa.array(second).dictionary_encode()
    both = a.indices.to_numpy().astype(np.int64) * len(b.dictionary) + b.indices.to_numpy()
    encoded = pa.array(both).dictionary_encode()
    ones, twos = a.dictionary.to_pylist(), b.dictionary.to_pylist()
    return encoded.indices, [(ones[n // len(twos)], twos[n % len(twos)]) for n in encoded.dictionary.to_pylist()]


READER = Reader(
    name="nsys-sqlite",
    title="Nsight Systems export (SQLite)",
    suffixes=(".sqlite", ".db"),
    sniff=sniff,
    read=read,
    options=(OSRT,),
)
