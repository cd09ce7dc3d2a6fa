"""A writer of the SQLite files that `nsys export` makes, with the tables and columns of Nsight Systems 2025.

Operators are the NVTX ranges of `torch.autograd.profiler.emit_nvtx` ("aten::mm, op_id = 12"), steps are NVTX ranges of
the user ("step 3"), collectives are in NCCL's domain. events: with CUPTI_ACTIVITY_KIND_CUDA_EVENT and the numbers that
link a wait to the record of its event, as newer versions write them; older ones have the event's id alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.truth.machine import Range, Rank

SMS = 132
START = 500_000_000
"""The program starts after the session."""
_NO_EVENT = 4_294_967_295
_SYNC_TYPES = {"Event Sync": 1, "Stream Wait Event": 2, "Stream Sync": 3, "Context Sync": 4}
_MEMORY = {"Pageable": 0, "Pinned": 1, "Device": 2}
_NCCL_CALLS = {"allreduce": "ncclAllReduce", "send": "ncclSend", "recv": "ncclRecv"}
_VERSIONS = {
    "cudaLaunchKernel": "_v7000",
    "cudaLaunchKernelExC": "_v11060",
    "cudaGraphLaunch": "_v10000",
    "cudaEventRecord": "_v3020",
}
_TABLES = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid? correlationId? nameId returnValue callchainId?",
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start end deviceId contextId greenContextId? streamId correlationId? globalPid? demangledName shortName "
        "mangledName? launchType? cacheConfig? registersPerThread gridX gridY gridZ blockX blockY blockZ "
        "staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted? "
        "graphNodeId? sharedMemoryLimitConfig? graphId?"
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start end deviceId contextId greenContextId? streamId correlationId? globalPid? bytes copyKind "
        "deprecatedSrcId? srcKind? dstKind? srcDeviceId? srcContextId? dstDeviceId? dstContextId? migrationCause? "
        "graphNodeId? virtualAddress? copyCount?"
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        "start end deviceId contextId greenContextId? streamId correlationId? globalPid? value bytes graphNodeId? "
        "memKind?"
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        "start end deviceId contextId greenContextId? streamId correlationId? globalPid? syncType eventId eventSyncId?"
    ),
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": (
        "timestamp? deviceId contextId greenContextId? streamId correlationId? globalPid? eventId eventSyncId?"
    ),
    "NVTX_EVENTS": (
        "start end? eventType rangeId? category? color? text? globalTid? endGlobalTid? textId? domainId? uint64Value? "
        "int64Value? doubleValue? uint32Value? int32Value? floatValue? jsonTextId? jsonText? binaryData?"
    ),
    "PROCESSES": "globalPid? pid? name?",
    "ThreadNames": "nameId priority? globalTid?",
    "TARGET_INFO_GPU": "vmId id name? smCount? totalMemory? chipName? cuDevice? computeMajor? computeMinor?",
    "TARGET_INFO_CUDA_DEVICE": "gpuId? cudaId pid",
    "TARGET_INFO_CUDA_CONTEXT_INFO": (
        "nullStreamId hwId vmId processId deviceId contextId parentContextId? isGreenContext?"
    ),
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs? utcTime? localTime?",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": (
        "start globalPid deviceId contextId address pc bytes memKind memoryOperationType name? correlationId? streamId?"
    ),
    "ANALYSIS_DETAILS": "globalVid duration startTime stopTime",
    "META_DATA_EXPORT": "name value?",
    "META_DATA_CAPTURE": "name value?",
}
_TEXTS = frozenset({"text", "name", "value", "utcTime", "localTime", "jsonText", "chipName", "binaryData"})


def write(
    ranks: Sequence[Rank], path: Path, *, events: bool = True, clock: Callable[[int], int] = lambda ns: ns
) -> None:
    """Write the file of a session with one process or several. clock: from the simulation's time to the session's."""
    texts: dict[str, int] = {}
    rows: dict[str, list[Sequence[object]]] = {name: [] for name in _TABLES}
    for rank in ranks:
        _of_process(rank, rows, lambda value: texts.setdefault(value, len(texts) + 1), events, clock)
    for number in sorted({rank.device for rank in ranks}):
        gpu = ("NVIDIA H100 80GB HBM3", SMS, 85_017_493_504, "GH100", number, 9, 0)
        rows["TARGET_INFO_GPU"].append((0x1000000000000, number, *gpu))
    end = START + clock(max(rank.end() for rank in ranks))
    rows["TARGET_INFO_SESSION_START_TIME"].append((1_767_225_600_000_000_000, "2026-01-01T00:00:00", ""))
    rows["ANALYSIS_DETAILS"].append((0x1000000000000, end + START, 0, end + START))
    rows["META_DATA_EXPORT"] += [
        ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
        ("EXPORT_PRODUCT_VERSION", "2025.5.1.121" if events else "2023.2.1.122"),
        ("EXPORT_SCHEMA_VERSION", "3.22.0" if events else "3.4.0"),
    ]
    rows["META_DATA_CAPTURE"] += [("PROCESS_0:COMMAND", "python"), ("PROCESS_0:ARGUMENT_0", "train.py")]
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(id, value) for value, id in texts.items()])
        for table, columns in _TABLES.items():
            if rows[table]:
                names = columns.split()
                database.execute(f"CREATE TABLE {table} ({', '.join(map(_column, names))})")
                places = ", ".join("?" * len(names))
                database.executemany(f"INSERT INTO {table} VALUES ({places})", rows[table])
    database.close()


def _of_process(
    rank: Rank,
    rows: dict[str, list[Sequence[object]]],
    text: Callable[[str], int],
    events: bool,
    clock: Callable[[int], int],
) -> None:
    """Add the rows of one process."""
    pid = 0x1000000000000 | rank.pid << 24
    on_device = (rank.device, 1, 0)

    def times(start: int, end: int) -> tuple[int, int]:
        return START + clock(start), START + clock(end)

    for call in rank.calls:
        name = text(call.name + _VERSIONS.get(call.name, "_v3020"))
        row = (*times(call.start, call.end), 0, pid | call.tid, call.correlation, name, 0, None)
        rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append(row)
    for number, work in enumerate(rank.works):
        if work.lost:
            continue
        common = (*times(work.start, work.end), *on_device, work.stream, work.correlation, pid)
        if work.kind == "kernel":
            short = text(work.name.split("(")[0].split("<")[0].split("::")[-1].split(" ")[-1])
            node = (number + 1, 0, 11) if work.group else (None, 0, None)
            shape = (64, *work.grid, *work.block, 16_384, 0, 0, 0, number, 32_768)
            kernel = (*common, text(work.name), short, text(work.name), 1, 0, *shape, *node)
            rows["CUPTI_ACTIVITY_KIND_KERNEL"].append(kernel)
        elif work.kind == "memcpy":
            kind = 8 if work.source == work.target else 1 if work.target == "Device" else 2
            memory = (kind, None, _MEMORY[work.source], _MEMORY[work.target])
            rows["CUPTI_ACTIVITY_KIND_MEMCPY"].append((*common, work.bytes, *memory, *[None] * 7, 1))
        else:
            rows["CUPTI_ACTIVITY_KIND_MEMSET"].append((*common, 0, work.bytes, None, 2))
    recorded: dict[int, tuple[int, int]] = {}
    for wait in rank.syncs:
        event = wait.event if wait.event >= 0 else _NO_EVENT
        record = wait.on_record if events and wait.on_record >= 0 else None
        on_stream = wait.stream if wait.stream >= 0 else _NO_EVENT
        common = (*times(wait.start, wait.end), *on_device, on_stream, wait.correlation, pid)
        rows["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"].append((*common, _SYNC_TYPES[wait.kind], event, record))
        if wait.on_record >= 0:
            recorded[wait.on_record] = (wait.on_stream, wait.event)
    if events:
        for record_call, (stream, event) in recorded.items():
            row_of_event = (0, *on_device, stream, record_call, pid, event, record_call)
            rows["CUPTI_ACTIVITY_KIND_CUDA_EVENT"].append(row_of_event)

    def nvtx(start: int, end: int | None, type: int, label: str, tid: int, domain: int) -> None:
        both = (START + clock(start), None if end is None else START + clock(end))
        rows["NVTX_EVENTS"].append((*both, type, None, None, None, label, pid | tid, None, None, domain, *[None] * 9))

    for each in sorted(rank.ranges, key=lambda each: (each.start, -each.end)):
        if each.kind != "python":
            nvtx(each.start, each.end, 59, _label(each), each.tid, 0)
    collectives = [work for work in rank.works if work.collective and not work.lost]
    if collectives:
        nvtx(0, None, 75, "NCCL", rank.pid, 1)
        calls = {call.correlation: call for call in rank.calls}
        for work in collectives:
            if work.correlation in calls:
                call = calls[work.correlation]
                nvtx(call.start - 2_000, call.end + 500, 59, _NCCL_CALLS[work.collective], call.tid, 1)
    for each_memory in rank.memory:
        operation = 0 if each_memory.bytes > 0 else 1
        at = START + clock(each_memory.at)
        row_of_memory = (at, pid, rank.device, 1, each_memory.address, 0, abs(each_memory.bytes), 2, operation)
        rows["CUDA_GPU_MEMORY_USAGE_EVENTS"].append((*row_of_memory, None, None, None))
    rows["PROCESSES"].append((pid, rank.pid, "python"))
    rows["ThreadNames"] += [(text(name), 20, pid | tid) for tid, name in rank.threads.items()]
    rows["TARGET_INFO_CUDA_DEVICE"].append((rank.device, rank.device, rank.pid))
    rows["TARGET_INFO_CUDA_CONTEXT_INFO"].append((7, 0, 1, rank.pid, rank.device, 1, 0, 0))


def _label(each: Range) -> str:
    """Return the text of a range: of emit_nvtx for what PyTorch records, else as the user wrote it."""
    if each.kind == "step":
        return "step " + each.name.split("#")[-1]
    if each.kind == "nvtx":
        return each.name
    return f"{each.name}, {f'seq = {each.sequence}, ' if each.sequence >= 0 else ''}op_id = {each.number}"


def _column(name: str) -> str:
    plain = name.rstrip("?")
    return f"{plain} {'TEXT' if plain in _TEXTS else 'INTEGER'}{'' if name.endswith('?') else ' NOT NULL'}"
