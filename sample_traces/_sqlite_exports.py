"""Databases of nvprof and Nsight Systems of the training run, what `nsys stats` prints of it, and its JSON lines.

    python sample_traces/_sqlite_exports.py [FOLDER]        (default: the folder this file is in)

Tables and columns are those of real files; another release of SQLite writes other bytes of the same rows. Ids of calls
are asked of the table of names that the package ships, as nvprof's database has nothing else.
"""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import struct
import sys
from pathlib import Path

from _model import API, COMMAND, DEVICE, KERNEL, MEMCPY, MEMSET, PID, Event, api_calls, device_work, training_run

EPOCH_NS = 1_767_225_600_000_000_000
NAMES = json.loads(
    (Path(__file__).parents[1] / "tracekit" / "readers" / "_cupti_names.json").read_text(encoding="utf-8")
)
COPIES = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "PtoP": 10}
THREAD = -41_998_592
MEMORY = {"": 0, "Pageable": 1, "Pinned": 2, "Device": 3}


def _cbid(interface: str, name: str) -> int:
    return next(i for i, known in enumerate(NAMES[interface]) if known == name or known.rpartition("_v")[0] == name)


def _copy_kind(event: Event) -> int:
    return COPIES[event.name.removesuffix("]").split()[-1]]


class Database:
    """A database in the making; texts get numbers as they come."""

    def __init__(self, path: Path, table: str, first: int) -> None:
        path.unlink(missing_ok=True)
        self.db = sqlite3.connect(path)
        self.db.executescript("pragma page_size = 1024; pragma journal_mode = off;")
        self.table, self.first = table, first
        self.texts: dict[str, int] = {}

    def create(self, name: str, columns: str) -> None:
        self.db.execute(f"create table {name} ({columns})")

    def add(self, name: str, /, **cells: object) -> None:
        columns = ", ".join(f'"{c}"' for c in cells)
        self.db.execute(f"insert into {name} ({columns}) values ({', '.join('?' * len(cells))})", tuple(cells.values()))

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, self.first + len(self.texts))

    def close(self) -> None:
        self.db.executemany(f"insert into {self.table} values (?, ?)", [(n, t) for t, n in self.texts.items()])
        self.db.commit()
        self.db.execute("vacuum")
        self.db.close()


WORK = "deviceId INT NOT NULL, contextId INT NOT NULL, streamId INT NOT NULL, correlationId INT NOT NULL"
KEY = "_id_ INTEGER PRIMARY KEY AUTOINCREMENT"
SPAN = "start INT NOT NULL, end INT NOT NULL"
GRID = "gridX INT, gridY INT, gridZ INT, blockX INT, blockY INT, blockZ INT"


def _kernel_cells(event: Event) -> dict[str, object]:
    kernel, grid = event.kernel, event.grid
    if kernel is None or grid is None:
        raise ValueError(event)
    cells = dict(zip(("gridX", "gridY", "gridZ"), grid, strict=True))
    cells |= dict(zip(("blockX", "blockY", "blockZ"), kernel.block, strict=True))
    return cells | {
        "registersPerThread": kernel.registers, "staticSharedMemory": kernel.static_smem,
        "dynamicSharedMemory": kernel.dynamic_smem,
    }  # fmt: skip


def nvprof(path: Path, events: list[Event], version: int, *, rich: bool) -> None:
    """version 8 has no queued and submitted; rich: markers, synchronization, overhead and unified memory too."""
    out = Database(path, "StringTable", 0)
    out.text("-- null --")
    prefix = "CUPTI_ACTIVITY_KIND_"
    out.create("StringTable", f"{KEY}, value TEXT NOT NULL UNIQUE")
    out.create("Version", "version INTEGER")
    out.add("Version", version=version)
    more = ", queued INT NOT NULL, submitted INT NOT NULL" if version >= 11 else ""
    kernel = (
        f"{KEY}, cacheConfig BLOB NOT NULL, registersPerThread INT NOT NULL, {SPAN}, completed INT NOT NULL, {WORK}, "
        f"{GRID}, staticSharedMemory INT NOT NULL, dynamicSharedMemory INT NOT NULL, localMemoryPerThread INT, "
        f"localMemoryTotal INT NOT NULL, gridId INT NOT NULL, name INT NOT NULL{more}"
    )
    copy = f"{KEY}, copyKind INT NOT NULL, srcKind INT NOT NULL, dstKind INT NOT NULL, flags INT, bytes INT NOT NULL"
    call = f"{KEY}, cbid INT NOT NULL, {SPAN}, processId INT, threadId INT, correlationId INT, returnValue INT"
    for name, columns in (
        ("KERNEL", kernel), ("CONCURRENT_KERNEL", kernel),
        ("MEMCPY", f"{copy}, {SPAN}, {WORK}, runtimeCorrelationId INT NOT NULL"),
        ("MEMCPY2", f"{copy}, {SPAN}, {WORK}, srcDeviceId INT, srcContextId INT, dstDeviceId INT, dstContextId INT"),
        ("MEMSET", f"{KEY}, value INT NOT NULL, bytes INT NOT NULL, {SPAN}, {WORK}, runtimeCorrelationId INT NOT NULL"),
        ("RUNTIME", call), ("DRIVER", call),
        ("DEVICE", f"{KEY}, id INT, name INT, globalMemorySize INT"),
        ("CONTEXT", f"{KEY}, contextId INT, deviceId INT, computeApiKind INT, nullStreamId INT"),
        ("NAME", f"{KEY}, objectKind INT NOT NULL, objectId BLOB NOT NULL, name INT NOT NULL"),
        ("MARKER", f"{KEY}, flags INT, timestamp INT, id INT, objectKind INT, objectId BLOB, name INT, domain INT"),
        ("MARKER_DATA", f"{KEY}, flags INT, id INT, payloadKind INT, payload BLOB, color INT, category INT"),
        ("OVERHEAD", f"{KEY}, overheadKind INT, objectKind INT, objectId BLOB, {SPAN}"),
        ("SYNCHRONIZATION", f"{KEY}, type INT, {SPAN}, correlationId INT,contextId INT, streamId INT, cudaEventId INT"),
        ("UNIFIED_MEMORY_COUNTER",
         f"{KEY}, counterKind INT, value INT, {SPAN}, address INT, srcId INT, dstId INT, streamId INT, processId INT"),
        ("DEVICE_ATTRIBUTE", f"{KEY}, flags INT, deviceId INT, attribute BLOB, value BLOB"),
    ):  # fmt: skip
        out.create(prefix + name, columns)
    process = struct.pack("<3I", PID, 0, 0)
    thread = struct.pack("<iiI", PID, THREAD, 0)
    out.add(prefix + "NAME", objectKind=1, objectId=process, name=out.text(COMMAND))
    for device in sorted({e.device for e in events if e.device is not None}):
        out.add(prefix + "DEVICE", id=device, name=out.text(DEVICE), globalMemorySize=17_066_885_120)
        out.add(prefix + "CONTEXT", contextId=device + 1, deviceId=device, computeApiKind=1, nullStreamId=7)
    out.add(prefix + "DEVICE_ATTRIBUTE", flags=0, deviceId=0, attribute=b"\0" * 8, value=b"\0" * 8)
    for event in events:
        _nvprof_event(out, prefix, event, version)
    if rich:
        _nvprof_more(out, prefix, events, thread, process)
    out.close()


def _nvprof_event(out: Database, prefix: str, event: Event, version: int) -> None:
    start = EPOCH_NS + event.start
    span = {"start": start, "end": start + (event.dur or 0)}
    work = {
        "deviceId": event.device, "contextId": event.context, "streamId": event.stream,
        "correlationId": event.correlation,
    }  # fmt: skip
    if event.kind == API:
        interface = "runtime" if event.name.startswith("cuda") else "driver"
        out.add(
            prefix + interface.upper(), cbid=_cbid(interface, event.name), **span, processId=PID, threadId=THREAD,
            correlationId=event.correlation, returnValue=0,
        )  # fmt: skip
    elif event.kind == KERNEL and event.kernel is not None:
        table = prefix + ("CONCURRENT_KERNEL" if version >= 8 else "KERNEL")
        later = {"queued": 0, "submitted": 0} if version >= 11 else {}
        out.add(
            table, cacheConfig=b"\1", **_kernel_cells(event), **span, completed=span["end"], **work, gridId=1,
            localMemoryPerThread=0, localMemoryTotal=62_914_560, name=out.text(event.kernel.mangled or event.name),
            **later,
        )  # fmt: skip
    elif event.kind == MEMCPY:
        cells = {
            "copyKind": _copy_kind(event), "srcKind": MEMORY[event.source_memory], "flags": 1, "bytes": event.bytes,
            "dstKind": MEMORY[event.target_memory], **span, **work,
        }  # fmt: skip
        if event.peer:
            sides = ("srcDeviceId", "srcContextId", "dstDeviceId", "dstContextId")
            out.add(prefix + "MEMCPY2", **cells, **dict(zip(sides, event.peer, strict=True)))
        else:
            out.add(prefix + "MEMCPY", **cells, runtimeCorrelationId=0)
    elif event.kind == MEMSET:
        out.add(prefix + "MEMSET", value=0, bytes=event.bytes, **span, **work, runtimeCorrelationId=0)


def _nvprof_more(out: Database, prefix: str, events: list[Event], thread: bytes, process: bytes) -> None:
    calls = api_calls(events)
    first, last = EPOCH_NS + calls[0].start, EPOCH_NS + calls[-1].end
    domain, third = out.text("trainer"), (last - first) // 3
    marks = [(2, first + 50, 1, "epoch", 0)]
    for step in range(3):
        begin = first + step * third + 100
        marks += [
            (2, begin, 10 + step, f"step {step}", domain), (1, begin + 10, 90 + step, "batch ready", 0),
            (4, begin + third - 200, 10 + step, "", domain),
        ]  # fmt: skip
    marks.append((4, last, 1, "", 0))
    marks.append((2, last + 5, 99, "never ended", 0))
    for flags, at, ident, name, where in marks:
        out.add(
            prefix + "MARKER", flags=flags, timestamp=at, id=ident, objectKind=2, objectId=thread,
            name=out.text(name) if name else 0, domain=where,
        )  # fmt: skip
    for step in range(3):
        out.add(
            prefix + "MARKER_DATA", flags=0, id=10 + step, payloadKind=4, payload=struct.pack("<q", step), category=2,
            color=-16_711_936,
        )  # fmt: skip
    for at, kind, who, whom in ((1000, 1 << 16, 1, process), (9000, 2 << 16, 2, thread), (20_000, 1, 3, b"\0" * 12)):
        out.add(
            prefix + "OVERHEAD",
            overheadKind=kind,
            objectKind=who,
            objectId=whom,
            start=first + at,
            end=first + at + 439,
        )
    for number, call in enumerate(c for c in calls if "Synchronize" in c.name):
        out.add(
            prefix + "SYNCHRONIZATION", type=4 if number else 3, start=EPOCH_NS + call.start + 20,
            end=EPOCH_NS + call.end - 20, correlationId=call.correlation, contextId=1, cudaEventId=0xFFFFFFFF,
            streamId=0xFFFFFFFF if number else 7,
        )  # fmt: skip
    unified = ((1, 65536, 900), (2, 4096, 500), (3, 1, 0), (4, 3, 7000), (6, 1, 0))
    for number, (kind, value, dur) in enumerate(unified):
        start = first + 2000 * number
        out.add(
            prefix + "UNIFIED_MEMORY_COUNTER", counterKind=kind, value=value, start=start,
            end=start + dur if dur else 0,
            address=0x7F2000000000, srcId=0 if kind == 2 else 0xFFFF_FFFF, dstId=0, streamId=0, processId=PID,
        )  # fmt: skip


VERSIONS = {"cudaLaunchKernel": 7000, "cudaStreamCreate": 3020}
STRINGS = "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL"
PLACE = "deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER"
N_SPAN = "start INTEGER NOT NULL, end INTEGER NOT NULL"


class Nsys(Database):
    """An export of Nsight Systems. A table is created with its first row, as the exporter does it."""

    def __init__(self, path: Path, tables: dict[str, str]) -> None:
        super().__init__(path, "StringIds", 1)
        self.tables = tables
        self.made: set[str] = set()
        self.create("StringIds", STRINGS)

    def add(self, name: str, /, **cells: object) -> None:
        if name not in self.made:
            self.made.add(name)
            self.create(name, self.tables[name])
        super().add(name, **cells)


CUPTI = "CUPTI_ACTIVITY_KIND_"
CALL = f"{N_SPAN}, eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER"
OLD = {
    CUPTI + "KERNEL":
        f"{N_SPAN}, {PLACE}, globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, "
        f"registersPerThread INTEGER NOT NULL, {GRID}, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, "
        "localMemoryTotal INTEGER, gridId INTEGER, graphNodeId INTEGER",
    CUPTI + "MEMCPY": f"{N_SPAN}, {PLACE}, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, "
                      "srcKind INTEGER, dstKind INTEGER",
    CUPTI + "MEMSET": f"{N_SPAN}, {PLACE}, globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL",
    CUPTI + "RUNTIME": f"{CALL}, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL",
    CUPTI + "SYNCHRONIZATION": f"{N_SPAN}, {PLACE}, globalPid INTEGER, syncType INTEGER, eventId INTEGER NOT NULL",
    "PROFILER_OVERHEAD": f"{N_SPAN}, globalTid INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL",
    "OSRT_API": f"{CALL}, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL",
    "ThreadNames": "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER",
    "TARGET_INFO_GPU": "vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT",
    "TARGET_INFO_CUDA_NULL_STREAM": "streamId INTEGER, hwId INTEGER, vmId INTEGER, processId INTEGER, deviceId INT, "
                                    "contextId INTEGER",
}  # fmt: skip
_NVTX = (
    "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INT, "
    "text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER, "
    "int64Value INTEGER, doubleValue REAL, jsonTextId INTEGER, jsonText TEXT"
)
NEW = OLD | {
    CUPTI + "KERNEL": f"{OLD[CUPTI + 'KERNEL']}, mangledName INTEGER, launchType INTEGER, graphId INTEGER",
    CUPTI + "MEMCPY": f"{OLD[CUPTI + 'MEMCPY']}, srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, "
                      "dstContextId INTEGER, migrationCause INTEGER, graphNodeId INTEGER",
    CUPTI + "GRAPH_TRACE": f"{N_SPAN}, {PLACE}, globalPid INTEGER, graphId INTEGER, graphExecId INTEGER",
    CUPTI + "OVERHEAD": f"{CALL}, nameId INTEGER, overheadType INTEGER NOT NULL",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "start INTEGER NOT NULL, globalPid INTEGER, deviceId INTEGER, contextId INTEGER, "
                                    "address INTEGER, bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER, "
                                    "correlationId INTEGER, streamId INTEGER",
    "NVTX_EVENTS": _NVTX, "NVTX_EVENTS_V2": _NVTX,
    "GPU_METRICS": "timestamp INTEGER NOT NULL, typeId INTEGER NOT NULL, metricId INTEGER, value REAL NOT NULL",
    "TARGET_INFO_GPU_METRICS": "typeId INTEGER, sourceId INTEGER, typeName TEXT, metricId INTEGER, metricName TEXT",
    "MPI_COLLECTIVES_EVENTS": f"{N_SPAN}, globalTid INTEGER, textId INTEGER, size INTEGER, rootRank INTEGER",
    "PROCESSES": "globalPid INTEGER, pid INTEGER, name TEXT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT",
    "TARGET_INFO_CUDA_CONTEXT_INFO": "nullStreamId INTEGER, processId INTEGER, deviceId INTEGER, contextId INTEGER",
    "TARGET_INFO_SYSTEM_ENV": "globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT",
    "META_DATA_EXPORT": "name TEXT NOT NULL, value TEXT", "META_DATA_CAPTURE": "name TEXT NOT NULL, value TEXT",
    "ENUM_CUDA_MEM_KIND": "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT",
    "DIAGNOSTIC_EVENT": "timestamp INTEGER NOT NULL, severity INTEGER NOT NULL, text TEXT NOT NULL",
}  # fmt: skip
VM = 1 << 48


def _global(pid: int, tid: int = 0) -> int:
    return VM | pid << 24 | tid


def _nsys_event(out: Nsys, event: Event, *, pid: int, mangled: bool) -> None:
    span = {"start": event.start, "end": event.start + (event.dur or 0)}
    if event.kind == API:
        driver = not event.name.startswith("cuda")
        name = event.name if driver else f"{event.name}_v{VERSIONS.get(event.name, 3020)}"
        out.add(
            CUPTI + "RUNTIME", **span, eventClass=int(driver), globalTid=_global(pid, pid),
            correlationId=event.correlation, nameId=out.text(name), returnValue=0,
        )  # fmt: skip
        return
    work = {
        **span, "deviceId": event.device, "contextId": event.context, "streamId": event.stream,
        "correlationId": event.correlation, "globalPid": _global(pid),
    }  # fmt: skip
    if event.kind == KERNEL and event.kernel is not None:
        short = event.name.removeprefix("void ").split("<")[0].split("(")[0].split("::")[-1]
        more: dict[str, object] = {}
        if mangled:
            more = {"mangledName": out.text(event.kernel.mangled or event.name), "launchType": 1}
        out.add(
            CUPTI + "KERNEL", **work, **_kernel_cells(event), demangledName=out.text(event.name),
            shortName=out.text(short), gridId=event.correlation, localMemoryTotal=95_813_632, **more,
        )  # fmt: skip
    elif event.kind == MEMCPY:
        more = {}
        if event.peer and mangled:
            sides = ("srcDeviceId", "srcContextId", "dstDeviceId", "dstContextId")
            more = dict(zip(sides, event.peer, strict=True))
        out.add(
            CUPTI + "MEMCPY", **work, bytes=event.bytes, copyKind=_copy_kind(event),
            srcKind=MEMORY[event.source_memory] - 1, dstKind=MEMORY[event.target_memory] - 1, **more,
        )  # fmt: skip
    elif event.kind == MEMSET:
        out.add(CUPTI + "MEMSET", **work, value=0, bytes=event.bytes)


def nsys_old(path: Path, events: list[Event]) -> None:
    """An export of 2021: no version, no process list, only tables that have rows."""
    out = Nsys(path, OLD)
    for event in events:
        _nsys_event(out, event, pid=PID, mangled=False)
    last = events[-1].end
    for text, at in (("CUDA profiling initialization", 10), ("CUPTI: Instrumentation", 5000)):
        out.add(
            "PROFILER_OVERHEAD",
            start=at,
            end=at + 3000,
            globalTid=_global(PID, PID),
            nameId=out.text(text),
            returnValue=0,
        )
    out.add(
        CUPTI + "SYNCHRONIZATION", start=last + 100, end=last + 900, deviceId=0, contextId=1, streamId=0xFFFFFFFF,
        correlationId=9001, globalPid=_global(PID), syncType=1, eventId=0xFFFFFFFF,
    )  # fmt: skip
    for number in range(20):
        out.add(
            "OSRT_API", start=number * 1000, end=number * 1000 + 700, eventClass=27, globalTid=_global(PID, PID + 1),
            correlationId=0, nameId=out.text("poll"), returnValue=0,
        )  # fmt: skip
    out.add("ThreadNames", nameId=out.text("python"), priority=20, globalTid=_global(PID, PID))
    out.add("TARGET_INFO_GPU", vmId=VM, id=0, name=DEVICE)
    out.add("TARGET_INFO_CUDA_NULL_STREAM", streamId=7, hwId=0, vmId=1, processId=PID, deviceId=0, contextId=1)
    out.close()


def nsys_new(path: Path, ranks: list[list[Event]], nvtx: str = "NVTX_EVENTS") -> None:
    """An export of 2025 of two processes on two devices, with NVTX, a CUDA graph, metrics and memory."""
    out = Nsys(path, NEW)
    for rank, events in enumerate(ranks):
        pid = PID + rank
        for event in events:
            _nsys_event(out, event, pid=pid, mangled=True)
        _ranges(out, nvtx, pid, events[0].start, events[-1].end)
        _graph(out, pid, rank, events[-1].end)
        for table, process in (("PROCESSES", pid), ("PROCESSES", pid + 1000)):
            out.add(table, globalPid=_global(process), pid=process, name="python" if process == pid else "sshd")
        out.add("ThreadNames", nameId=out.text(f"rank {rank}"), priority=20, globalTid=_global(pid, pid))
        out.add("TARGET_INFO_GPU", vmId=VM, id=rank, name=DEVICE)
        out.add("TARGET_INFO_CUDA_CONTEXT_INFO", nullStreamId=7, processId=pid, deviceId=rank, contextId=1)
    for number in range(30):
        for metric, name in ((1, "SMs Active [Throughput %]"), (2, "DRAM Read Bandwidth [Throughput %]")):
            out.add(
                "GPU_METRICS", timestamp=number * 100_000, typeId=0x3F00_0001, metricId=metric, value=number * metric
            )
            if not number:
                out.add(
                    "TARGET_INFO_GPU_METRICS", typeId=0x3F00_0001, sourceId=17, typeName="GPU Metrics [0]",
                    metricId=metric, metricName=name,
                )  # fmt: skip
    out.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=EPOCH_NS, utcTime="2026-01-01T00:00:00", localTime="")
    out.add("TARGET_INFO_SYSTEM_ENV", globalVid=VM, devStateName="Local", name="Hostname", nameEnum=1, value="node7")
    for name, value in (
        ("EXPORT_PRODUCT_VERSION", "2025.1.3.140"), ("EXPORT_SCHEMA_VERSION", "3.17.2"),
        ("EXPORT_PARAM_TIME_NORMALIZE", "false"), ("EXPORT_PARAM_TIME_SHIFT", "0"),
    ):  # fmt: skip
        out.add("META_DATA_EXPORT", name=name, value=value)
    for number, word in enumerate(COMMAND.split()):
        key = "PROCESS_0:COMMAND" if not number else f"PROCESS_0:ARGUMENT_{number - 1}"
        out.add("META_DATA_CAPTURE", name=key, value=word)
    out.add("ENUM_CUDA_MEM_KIND", id=0, name="CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", label="Pageable")
    out.add("DIAGNOSTIC_EVENT", timestamp=0, severity=1, text="Profiling has started.")
    out.close()


def _ranges(out: Nsys, table: str, pid: int, first: int, last: int) -> None:
    thread, other = _global(pid, pid), _global(pid, pid + 7)
    step = (last - first) // 3
    out.add(table, start=1, eventType=75, domainId=1, text="NCCL", globalTid=thread)
    out.add(table, start=2, eventType=33, domainId=1, category=4, text="collective", globalTid=thread)
    out.add(table, start=3, eventType=39, text="loader", globalTid=other)
    for number in range(3):
        begin = first + number * step
        out.add(
            table, start=begin, end=begin + step - 50, eventType=59, globalTid=thread, domainId=0, int64Value=number,
            textId=out.text(f"step {number}"),
        )  # fmt: skip
        out.add(
            table, start=begin + 10, end=begin + 900, eventType=59, globalTid=thread, domainId=1, category=4,
            text="ncclAllReduce", color=0xFF00FF00 - (1 << 32), jsonText='{"message size": 4096}',
        )  # fmt: skip
        out.add(
            table, start=begin + 20, end=begin + 2000 + number, eventType=60, globalTid=thread, endGlobalTid=other,
            rangeId=number + 1, domainId=0, text="prefetch", doubleValue=0.5,
        )  # fmt: skip
        out.add(table, start=begin + 30, eventType=34, globalTid=thread, domainId=0, text="loss is finite")
    out.add(table, start=last - 5, eventType=59, globalTid=thread, domainId=0, text="never ended")


def _graph(out: Nsys, pid: int, device: int, at: int) -> None:
    """One launch of a CUDA graph of three kernels, and one of a graph that was traced as a whole."""
    name = out.text("cudaGraphLaunch_v10000")
    for number, correlation in enumerate((9100, 9101)):
        begin = at + 1000 + 5000 * number
        out.add(
            CUPTI + "RUNTIME", start=begin, end=begin + 900, eventClass=0, globalTid=_global(pid, pid),
            correlationId=correlation, nameId=name, returnValue=0,
        )  # fmt: skip
    work = {"deviceId": device, "contextId": 1, "streamId": 7, "globalPid": _global(pid)}
    shape = dict.fromkeys(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), 2)
    for node in range(3):
        out.add(
            CUPTI + "KERNEL", start=at + 2000 + 300 * node, end=at + 2250 + 300 * node, **work, correlationId=9100,
            demangledName=out.text(f"node_{node}(float*)"), shortName=out.text(f"node_{node}"), registersPerThread=16,
            **shape, staticSharedMemory=0, dynamicSharedMemory=0, localMemoryTotal=0, gridId=0, graphId=11,
            graphNodeId=(11 << 32) + node,
        )  # fmt: skip
    out.add(
        CUPTI + "GRAPH_TRACE", start=at + 7000, end=at + 7777, **work, correlationId=9101, graphId=12, graphExecId=13
    )
    out.add(
        CUPTI + "OVERHEAD", start=at + 8000, end=at + 8100, eventClass=103, globalTid=_global(pid, pid),
        correlationId=9101, overheadType=7,
    )  # fmt: skip
    for freed in (0, 1):
        out.add(
            "CUDA_GPU_MEMORY_USAGE_EVENTS", start=at + 10 * freed, globalPid=_global(pid), deviceId=device, contextId=1,
            address=0x7F0000000000, bytes=1 << 20, memKind=2, memoryOperationType=freed, correlationId=0, streamId=0,
        )  # fmt: skip
    out.add(
        "MPI_COLLECTIVES_EVENTS", start=at + 100, end=at + 400, globalTid=_global(pid, pid),
        textId=out.text("MPI_Allreduce"), size=4096, rootRank=0,
    )  # fmt: skip


GPU_COLUMNS = (
    "Start (ns)", "Duration (ns)", "CorrId", "GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ", "Reg/Trd", "StcSMem (MB)",
    "DymSMem (MB)", "Bytes (MB)", "Throughput (MB/s)", "SrcMemKd", "DstMemKd", "Device", "Ctx", "GreenCtx", "Strm",
    "Name",
)  # fmt: skip
WORDS = {"HtoD": "Host-to-Device", "DtoH": "Device-to-Host", "DtoD": "Device-to-Device"}


def _mb(size: int) -> str:
    return f"{size / 10**6:.3f}"


def _csv(rows: list[list[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _gpu_row(event: Event) -> list[object]:
    kernel, cells = event.kernel, [""] * 8
    name, size, rate = event.name, "", ""
    if kernel is not None and event.grid is not None:
        cells = [*map(str, event.grid), *map(str, kernel.block), str(kernel.registers), _mb(kernel.static_smem)]
    else:
        size, rate = _mb(event.bytes or 0), f"{(event.bytes or 0) * 1000 / max(event.dur or 1, 1):.3f}"
        kind = name.removesuffix("]").split()[-1]
        name = name.replace(kind, WORDS.get(kind, kind))
    dynamic = _mb(kernel.dynamic_smem) if kernel is not None else ""
    return [
        event.start, event.dur, event.correlation, *cells, dynamic, size, rate, event.source_memory,
        event.target_memory,
        f"{DEVICE} ({event.device})", event.context, "", event.stream, name,
    ]  # fmt: skip


def stats(folder: Path, events: list[Event]) -> None:
    gpu, calls = device_work(events), api_calls(events)
    where = "/opt/nvidia/nsight-systems/2024.5.1/host-linux-x64/reports"
    trace = _csv([list(GPU_COLUMNS), *(_gpu_row(e) for e in gpu)])
    _write(folder / "cuda_gpu_trace.csv", f"Processing [run.sqlite] with [{where}/cuda_gpu_trace.py]... \n{trace}")
    head = ["Start (ns)", "Duration (ns)", "Name", "Result", "CorrID", "Pid", "Tid", "T-Pri", "Thread Name"]
    rows = [[c.start, c.dur, c.name, 0, c.correlation, PID, PID, 20, "python"] for c in calls]
    _write(folder / "cuda_api_trace.csv", _csv([head, *rows]))
    head = [
        "Time (%)",
        "Total Time (ns)",
        "Num Calls",
        "Avg (ns)",
        "Med (ns)",
        "Min (ns)",
        "Max (ns)",
        "StdDev (ns)",
        "Name",
    ]
    text = (
        "Generating SQLite file run.sqlite from run.nsys-rep\n"
        f"Processing [run.sqlite] with [{where}/cuda_api_sum.py]... \n\n ** CUDA API Summary (cuda_api_sum):\n"
    )
    text += _csv([head, *_sums(calls)])
    head[2] = "Instances"
    text += f"\nProcessing [run.sqlite] with [{where}/cuda_gpu_kern_sum.py]... \n\n"
    text += " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n"
    text += _csv([head, *_sums([e for e in gpu if e.kind == KERNEL])])
    copies = [e for e in gpu if e.kind != KERNEL]
    text += f"\nProcessing [run.sqlite] with [{where}/cuda_gpu_mem_size_sum.py]... \n\n"
    text += " ** CUDA GPU MemOps Summary (by Size) (cuda_gpu_mem_size_sum):\n"
    sizes = [["Total (MB)", "Count", "Avg (MB)", "Med (MB)", "Min (MB)", "Max (MB)", "StdDev (MB)", "Operation"]]
    for name in sorted({e.name for e in copies}):
        mine = sorted(e.bytes or 0 for e in copies if e.name == name)
        cells = [_mb(v) for v in (sum(mine) // len(mine), mine[len(mine) // 2], mine[0], mine[-1], 0)]
        sizes.append([_mb(sum(mine)), str(len(mine)), *cells, name])
    text += _csv(sizes)
    text += f"\nProcessing [run.sqlite] with [{where}/openmp_sum.py]... \n"
    text += "SKIPPED: run.sqlite does not contain OpenMP event data.\n"
    _write(folder / "sums.csv", text)
    rows = [[str(c) for c in row] for row in _sums([e for e in gpu if e.kind == KERNEL])]
    _write(folder / "columns.txt", "[3/8] Executing 'cuda_gpu_kern_sum' stats report\n\n" + _columns(head, rows))
    old = [
        c.replace(" (", "(").replace("(ns)", "(nsec)")
        for c in GPU_COLUMNS
        if c not in ("GreenCtx", "Throughput (MB/s)")
    ]
    cut = [
        [v for c, v in zip(GPU_COLUMNS, _gpu_row(e), strict=True) if c not in ("GreenCtx", "Throughput (MB/s)")]
        for e in gpu
    ]
    _write(folder / "gputrace-2020.csv", _csv([list(old), *cut]))


def _sums(events: list[Event]) -> list[list[object]]:
    names = sorted({e.name for e in events}, key=lambda n: -sum(e.dur or 0 for e in events if e.name == n))
    whole = sum(e.dur or 0 for e in events)
    rows: list[list[object]] = []
    for name in names:
        mine = sorted(e.dur or 0 for e in events if e.name == name)
        middle = (mine[(len(mine) - 1) // 2] + mine[len(mine) // 2]) / 2
        mean = sum(mine) / len(mine)
        spread = (sum((d - mean) ** 2 for d in mine) / max(len(mine) - 1, 1)) ** 0.5
        cells = [
            f"{sum(mine):,}",
            len(mine),
            f"{mean:,.1f}",
            f"{middle:,.1f}",
            f"{mine[0]:,}",
            f"{mine[-1]:,}",
            f"{spread:,.1f}",
        ]
        rows.append([f"{100 * sum(mine) / whole:.1f}", *cells, name])
    return rows


def _columns(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(c.center(w) for c, w in zip(head, widths, strict=True)), "  ".join("-" * w for w in widths)]
    for row in rows:
        cells = [c.rjust(w) for c, w in zip(row[:-1], widths, strict=False)]
        lines.append("  ".join([*cells, row[-1].ljust(widths[-1])]))
    return "".join(f" {line}\n" for line in lines) + "\n"


def json_lines(path: Path, events: list[Event], *, first: bool) -> None:
    texts: dict[str, int] = {"[Unknown]": 0}

    def place(text: str) -> str:
        return str(texts.setdefault(text, len(texts)))

    thread = str(_global(PID, PID))
    lines: list[dict[str, object]] = []
    for event in events:
        span: dict[str, object] = {"startNs": str(event.start), "endNs": str(event.end)}
        span["correlationId"] = event.correlation
        if event.kind == API:
            kind = 0 if event.name.startswith("cuda") else 1
            name = f"{event.name}_v{VERSIONS.get(event.name, 3020)}" if not kind else event.name
            call = {**span, "globalTid": thread, "name": place(name), "returnValue": 0, "eventClass": kind}
            lines.append({"Type": 48, "TraceProcessEvent": call})
            continue
        span |= {"globalPid": str(_global(PID)), "deviceId": event.device, "contextId": str(event.context)}
        span["streamId"] = str(event.stream)
        if event.kernel is not None:
            part = {"demangledName": place(event.name), "shortName": place(event.name.split("(")[0]), "gridId": "5"}
            lines.append({"Type": 79, "CudaEvent": {**span, "eventClass": 3, "kernel": part | _kernel_cells(event)}})
        elif event.kind == MEMCPY:
            copy = {
                "sizebytes": str(event.bytes),
                "copyKind": _copy_kind(event),
                "srcKind": MEMORY[event.source_memory] - 1,
            }
            copy["dstKind"] = MEMORY[event.target_memory] - 1
            lines.append({"Type": 80, "CudaEvent": {**span, "eventClass": 1, "memcpy": copy}})
        else:
            memset = {"sizebytes": str(event.bytes), "value": 0, "memKind": 2}
            lines.append({"Type": 80, "CudaEvent": {**span, "eventClass": 2, "memset": memset}})
    nvtx = {"Timestamp": str(events[0].start), "EndTimestamp": str(events[-1].end), "GlobalTid": thread}
    lines.append({"Type": 59, "NvtxEvent": {"Type": 59, **nvtx, "Text": "epoch", "DomainId": "1", "NsTime": True}})
    lines.append(
        {"Type": 60, "NvtxEvent": {"Type": 60, **nvtx, "TextId": place("prefetch"), "RangeId": "4", "DomainId": "0"}}
    )
    lines.append(
        {
            "Type": 75,
            "NvtxEvent": {"Type": 75, "Timestamp": "1", "GlobalTid": thread, "Text": "trainer", "DomainId": "1"},
        }
    )
    lines.append({"Type": 49, "DiagnosticEvent": {"timestamp": "0", "text": "Profiling has started."}})
    data: list[dict[str, object]] = [{"data": list(texts)}]
    every = [*data, *lines] if first else [*lines, *data]
    _write(path, "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in every))


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode())


def write_all(root: Path) -> None:
    """Write the four folders under root."""
    for folder in ("nvprof-sqlite", "nsys-sqlite", "nsys-stats-csv", "nsys-jsonl"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    run, peers = training_run(), training_run(peers=True)
    nvprof(root / "nvprof-sqlite" / "version-8.nvvp", training_run(launch="cudaLaunch"), 8, rich=False)
    nvprof(root / "nvprof-sqlite" / "version-11-markers.nvprof", peers, 11, rich=True)
    nsys_old(root / "nsys-sqlite" / "schema-of-2021.sqlite", run)
    nsys_new(root / "nsys-sqlite" / "two-processes.sqlite", [run, training_run(seed=23)])
    nsys_new(root / "nsys-sqlite" / "nvtx-v2.sqlite", [peers], nvtx="NVTX_EVENTS_V2")
    stats(root / "nsys-stats-csv", run)
    json_lines(root / "nsys-jsonl" / "texts-first.jsonl", run, first=True)
    json_lines(root / "nsys-jsonl" / "texts-last.jsonl", training_run(seed=23), first=False)


if __name__ == "__main__":
    write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
