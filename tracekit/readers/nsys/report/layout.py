"""The meaning of the field numbers of a report: tables and columns of the SQLite export, which has the same integers.

An event is {1: type, N: body}; N says the family, and so the message that the body is. A number that is not listed here
is counted by name and told: nothing is skipped in silence. Found by comparing reports with the exports beside them. The
page of the format (reader.py) says which columns no export could prove.
"""

from __future__ import annotations

from dataclasses import field

from tracekit.lazy_dataclass import dataclass

__all__ = [
    "COMPOSITE",
    "COMPOSITE_CHAIN",
    "COMPOSITE_CYCLES",
    "COMPOSITE_PART",
    "COUNTED",
    "CUDA",
    "CUDA_CLASS",
    "CUDA_COLUMNS",
    "CUDA_PARTS",
    "DIAGNOSTIC",
    "DIAGNOSTIC_PART",
    "DIAGNOSTIC_TEXT",
    "DIAGNOSTIC_TIME",
    "EVENT_RECORD",
    "FRAME_COLUMNS",
    "GPU_METRICS",
    "INFO_SILENT",
    "INFO_TABLES",
    "MARKS",
    "MEMORY_POOL",
    "MEMORY_POOL_PART",
    "MEMORY_POOL_SIZES",
    "MEMORY_POOL_SIZES_FIELD",
    "MEMORY_USAGE",
    "MEMORY_USAGE_NAME",
    "MEMORY_USAGE_PART",
    "MEMORY_USAGE_POOL",
    "MEMORY_USAGE_SIZES",
    "NVTX",
    "NVTX_CLOCK",
    "NVTX_COLUMNS",
    "NVTX_PAYLOAD",
    "NVTX_TEXT",
    "NVTX_TYPES",
    "OPENACC_COLUMNS",
    "OPENACC_PARTS",
    "OVERHEAD_CLASSES",
    "PAYLOAD_BINARY",
    "PAYLOAD_INTEGERS",
    "PAYLOAD_JSON",
    "PAYLOAD_REALS",
    "PROCESS",
    "PROCESS_ID",
    "PROCESS_NAME",
    "PROCESS_PATH",
    "PROCESS_SILENT",
    "SCHEDULING",
    "SCHEDULING_PART",
    "SYSTEM",
    "TRACE",
    "TRACE_CHAIN",
    "TRACE_CLASS",
    "TRACE_COLUMNS",
    "TRACE_GRAPH",
    "TRACE_GRAPH_LAUNCH",
    "TRACE_GRAPH_NODE",
    "TRACE_GRAPH_NODE_COLUMNS",
    "TRACE_OPENACC",
    "TRACE_SILENT",
    "TRACE_TABLES",
    "WITH_CHAINS",
    "MessageLayout",
]

PREFIX = "CUPTI_ACTIVITY_KIND_"

NVTX, COMPOSITE, SCHEDULING, CUDA, TRACE, MAPPING = 102, 104, 106, 107, 108, 109
DIAGNOSTIC, PROCESS, MEMORY_USAGE, PERF_COUNT, MEMORY_POOL = 110, 113, 123, 128, 129
"""Numbers of the field that holds the body of an event."""

COUNTED = {
    COMPOSITE: "COMPOSITE_EVENTS",
    SCHEDULING: "SCHED_EVENTS",
    MAPPING: "mapped modules",
    PERF_COUNT: "perf event counts",
}
"""Families of which only the number of events is taken, under these names: CPU samples are the bulk of many reports."""


@dataclass(frozen=True, slots=True)
class MessageLayout:
    """A message within the body of an event.

    columns: field number -> column. silent: numbers that are known and have no column. table: of the part of a CUDA
    event. event_class: the number that such an event has in its field 7.
    """

    columns: dict[int, str]
    silent: frozenset[int] = frozenset()
    table: str = ""
    event_class: int = 0


CUDA_COLUMNS = {
    1: "start",
    2: "end",
    3: "correlationId",
    4: "deviceId",
    5: "contextId",
    6: "streamId",
    8: "globalPid",
    9: "greenContextId",
}
CUDA_CLASS = 7
CUDA_PARTS = {
    101: MessageLayout(
        {
            1: "demangledName",
            2: "shortName",
            3: "mangledName",
            10: "gridX",
            11: "gridY",
            12: "gridZ",
            13: "blockX",
            14: "blockY",
            15: "blockZ",
            16: "staticSharedMemory",
            17: "dynamicSharedMemory",
            18: "localMemoryPerThread",
            19: "localMemoryTotal",
            20: "gridId",
            21: "registersPerThread",
            22: "sharedMemoryExecuted",
            23: "cacheConfig",
            24: "launchType",
            27: "graphNodeId",
            28: "sharedMemoryLimitConfig",
            29: "graphId",
            31: "clusterX",
            32: "clusterY",
            33: "clusterZ",
            34: "clusterSchedulingPolicy",
            35: "maxPotentialClusterSize",
            36: "maxActiveClusters",
        },
        frozenset({8, 25, 26}),
        PREFIX + "KERNEL",
        3,
    ),
    102: MessageLayout(
        {
            1: "bytes",
            2: "copyKind",
            4: "srcKind",
            5: "dstKind",
            6: "srcDeviceId",
            7: "srcContextId",
            8: "dstDeviceId",
            9: "dstContextId",
            10: "migrationCause",
            11: "graphNodeId",
            12: "virtualAddress",
            16: "copyCount",
        },
        frozenset({17}),
        PREFIX + "MEMCPY",
        1,
    ),
    # 5: the graph of the node, which no export has.
    103: MessageLayout(
        {1: "bytes", 2: "value", 3: "graphNodeId", 4: "memKind"}, frozenset({5, 8}), PREFIX + "MEMSET", 2
    ),
    # syncType moved from 2 to 4 in 2025.1.
    105: MessageLayout(
        {1: "eventId", 2: "syncType", 3: "eventSyncId", 4: "syncType"}, frozenset(), PREFIX + "SYNCHRONIZATION", 5
    ),
    106: MessageLayout({1: "eventId", 2: "eventSyncId"}, frozenset(), PREFIX + "CUDA_EVENT", 6),
    107: MessageLayout({1: "graphId", 2: "graphExecId"}, frozenset(), PREFIX + "GRAPH_TRACE", 7),
}
EVENT_RECORD = 106
"""The part whose event has one time, the column `timestamp`, and no end."""

TRACE_COLUMNS = {
    1: "start",
    2: "end",
    3: "correlationId",
    6: "eventClass",
    7: "nameId",
    8: "returnValue",
    13: "globalTid",
    20: "nestingLevel",
}
TRACE_CLASS, TRACE_CHAIN, TRACE_OPENACC, TRACE_GRAPH_NODE, TRACE_GRAPH_LAUNCH, TRACE_GRAPH = 6, 15, 25, 33, 37, 38
TRACE_SILENT = frozenset({4, 5, 40, 42, TRACE_CHAIN, TRACE_OPENACC, TRACE_GRAPH_NODE, TRACE_GRAPH_LAUNCH, TRACE_GRAPH})
"""40: compilation at run time. It holds the path of the user's cache, so it is not read."""
TRACE_GRAPH_NODE_COLUMNS = {1: "graphNodeId", 2: "originalGraphNodeId"}
"""Of the creation of a node; the second is there where the node is a copy."""
OVERHEAD_CLASSES = (3, 103)
"""Their field 8 is the column overheadType."""
TRACE_TABLES = {
    0: PREFIX + "RUNTIME",
    1: PREFIX + "RUNTIME",
    3: "PROFILER_OVERHEAD",
    27: "OSRT_API",
    28: "CUDNN_EVENTS",
    29: "CUBLAS_EVENTS",
    31: "OSRT_API",
    32: "OSRT_API",
    48: "OPENACC",
    67: "CUDA_BACKTRACE",
    77: "CUDA_GRAPH_NODE_EVENTS",
    94: "CUDA_GRAPH_EVENTS",
    95: "CUDA_GRAPH_EVENTS",
    96: "CUDA_GRAPH_EVENTS",
    102: "CUDA_JIT",
    103: PREFIX + "OVERHEAD",
}
"""Tables by class (ENUM_NSYS_EVENT_CLASS). CUDA_JIT, CUDA_BACKTRACE and OPENACC are names of ours: no export has the
first, and exports have the other two as CUDA_CALLCHAINS and OPENACC_*."""
WITH_CHAINS = frozenset({"OSRT_API", "CUDA_BACKTRACE"})
MARKS = "start and finish marks of the profiler"
_MARK_CLASSES = (*range(6, 13), *range(33, 37), 39, 40, 43, 44, 45, 46, 55, 56, 63, 64, 68, 69, 79, 80, 99, 100)
TRACE_TABLES |= dict.fromkeys(_MARK_CLASSES, MARKS)

OPENACC_COLUMNS = {
    1: "eventKind",
    2: "parentConstruct",
    3: "version",
    4: "implicit",
    5: "deviceType",
    6: "deviceNumber",
    7: "threadId",
    8: "async",
    9: "asyncMap",
    10: "externalId",
    11: "lineNo",
    12: "endLineNo",
    13: "funcLineNo",
    14: "funcEndLineNo",
    15: "cuDeviceId",
    16: "cuContextId",
    17: "cuStreamId",
    20: "srcFile",
    21: "funcName",
}
OPENACC_PARTS = {
    101: {1: "numGangs", 2: "numWorkers", 3: "vectorLength", 4: "kernelName"},
    102: {1: "bytes", 2: "hostPtr", 3: "devicePtr", 4: "varName"},
}
FRAME_COLUMNS = {
    1: "symbol",
    2: "module",
    4: "kernelMode",
    5: "thumbCode",
    6: "unresolved",
    8: "originalIP",
    9: "unwindMethod",
}

NVTX_COLUMNS = {
    1: "eventType",
    2: "start",
    4: "rangeId",
    5: "category",
    6: "color",
    9: "globalTid",
    10: "end",
    11: "endGlobalTid",
    12: "textId",
    13: "domainId",
}
NVTX_TEXT, NVTX_PAYLOAD, NVTX_CLOCK = 7, 8, 14
NVTX_TYPES = frozenset({33, 34, 39, 59, 60, 75, 76, 97, 98, 99})
PAYLOAD_INTEGERS = {1: "uint64Value", 2: "int64Value", 4: "uint32Value", 5: "int32Value", 7: "jsonTextId"}
PAYLOAD_REALS = {3: "doubleValue", 6: "floatValue"}
PAYLOAD_JSON, PAYLOAD_BINARY = 8, 9

MEMORY_USAGE_PART = MessageLayout(
    {
        1: "start",
        3: "deviceId",
        4: "contextId",
        5: "globalPid",
        6: "address",
        7: "pc",
        8: "bytes",
        9: "memKind",
        10: "memoryOperationType",
        12: "correlationId",
        15: "streamId",
    },
    frozenset({2}),
)
MEMORY_USAGE_NAME, MEMORY_USAGE_POOL = 11, 13
MEMORY_USAGE_SIZES = {
    1: "localMemoryPoolAddress",
    2: "localMemoryPoolReleaseThreshold",
    3: "localMemoryPoolSize",
    4: "localMemoryPoolUtilizedSize",
}
MEMORY_POOL_PART = MessageLayout(
    {
        1: "start",
        2: "operationType",
        3: "poolType",
        4: "correlationId",
        5: "globalPid",
        6: "deviceId",
        7: "address",
        8: "minBytesToKeep",
    }
)
MEMORY_POOL_SIZES_FIELD = 9
MEMORY_POOL_SIZES = {
    9: "localMemoryPoolSize",
    10: "localMemoryPoolReleaseThreshold",
    11: "localMemoryPoolUtilizedSize",
}
SCHEDULING_PART = MessageLayout(
    {1: "start", 3: "cpu", 4: "isSchedIn", 5: "threadState", 6: "globalTid"}, frozenset({7})
)
COMPOSITE_PART = MessageLayout({1: "start", 3: "cpu", 6: "threadState", 11: "globalTid"}, frozenset({8, 10, 12, 14}))
COMPOSITE_CHAIN, COMPOSITE_CYCLES = 4, 5
DIAGNOSTIC_PART = MessageLayout({2: "source", 3: "severity", 5: "globalPid"})
DIAGNOSTIC_TIME, DIAGNOSTIC_TEXT = 1, 4
PROCESS_ID, PROCESS_PATH, PROCESS_NAME = 2, 5, 6
PROCESS_SILENT = frozenset({1, 4, 7, 8, 9, 11, 12, 13, 14})
"""7 to 9: program, working directory, arguments of every process of the machine. They are not read."""

GPU_METRICS = "GpuMetrics"
"""The source of self-describing events that are samples of a GPU."""

TEXTS = frozenset({"text", "jsonText", "binaryData", "name"})
REALS = frozenset({"doubleValue", "floatValue", "value"})


@dataclass(frozen=True, slots=True)
class InfoTable:
    """A table of facts in the target information: the path of field numbers to its rows, and its columns."""

    table: str
    path: tuple[int, ...]
    columns: dict[int, str] = field(default_factory=dict)


_GPU = (
    *("id", "name", "busLocation", "isDiscrete", "uuid", "luid", "chipName", "", "pwGpuId", "l2CacheSize"),
    *("totalMemory", "memoryBandwidth", "clockRate", "smCount", "cuDevice", "ctxswDevPath", "ctrlDevPath", "", "", ""),
    *("revision", "nodeMask", "constantMemory", "maxIPC", "maxRegistersPerBlock", "maxShmemPerBlock"),
    *("maxShmemPerBlockOptin", "maxShmemPerSm", "maxRegistersPerSm", "threadsPerWarp", "asyncEngines"),
    *("maxWarpsPerSm", "maxBlocksPerSm", "maxThreadsPerBlock", "maxBlockDimX", "maxBlockDimY", "maxBlockDimZ"),
    *("maxGridDimX", "maxGridDimY", "maxGridDimZ", "computeMajor", "computeMinor", "smMajor", "smMinor"),
)
_CUDA_GPU = (
    *("name", "globalMemoryBandwidth", "globalMemorySize", "constantMemorySize", "l2CacheSize", "numThreadsPerWarp"),
    *("coreClockRate", "numMemcpyEngines", "numMultiprocessors", "maxIPC", "maxWarpsPerMultiprocessor"),
    *("maxBlocksPerMultiprocessor", "maxRegistersPerBlock", "maxSharedMemoryPerBlock", "maxThreadsPerBlock"),
    *("maxBlockDimX", "maxBlockDimY", "maxBlockDimZ", "maxGridDimX", "maxGridDimY", "maxGridDimZ"),
    *("computeCapabilityMajor", "computeCapabilityMinor", "deviceId", "pid", "pciBusId"),
    *("maxSharedMemoryPerMultiprocessor", "maxRegistersPerMultiprocessor"),
)


def _numbered(names: tuple[str, ...]) -> dict[int, str]:
    return {number: name for number, name in enumerate(names, 1) if name}


_PLACE = {2: "hwId", 3: "vmId", 4: "processId"}
INFO_TABLES = (
    InfoTable("TARGET_INFO_CUDA_GPU", (1, 2, 1), _numbered(_CUDA_GPU)),
    InfoTable("TARGET_INFO_GPU", (1, 2, 7), _numbered(_GPU)),
    InfoTable(
        "TARGET_INFO_CUDA_DEVICE", (1, 2, 9), {1: "gpuId", 2: "cudaId", 3: "pid", 5: "uuid", 6: "numMultiprocessors"}
    ),
    InfoTable("TARGET_INFO_NVTX_CUDA_DEVICE", (11,), {1: "name", **_PLACE, 5: "deviceId"}),
    InfoTable(
        "TARGET_INFO_NVTX_CUDA_STREAM", (13,), {1: "name", **_PLACE, 5: "deviceId", 6: "contextId", 7: "streamId"}
    ),
    InfoTable(
        "TARGET_INFO_CUDA_CONTEXT_INFO",
        (14,),
        {
            1: "nullStreamId",
            **_PLACE,
            5: "deviceId",
            6: "contextId",
            7: "parentContextId",
            8: "isGreenContext",
            9: "numMultiprocessors",
            10: "numTpcs",
            12: "workqueueResourceId",
            13: "workqueueConcurrencyLimit",
            14: "workqueueSharingScope",
        },
    ),
    InfoTable("TARGET_INFO_CUDA_STREAM", (15,), {1: "streamId", **_PLACE, 5: "contextId", 6: "priority", 7: "flag"}),
)
INFO_SILENT = frozenset({(10,), (2,), (19,), (22,), (23,), (24,), (1, 1), (1, 2, 11)})
SYSTEM = {13: "CpuDescription", 205: "NvDriverVersion", 605: "OsDescription", 619: "Hostname"}
"""The values of the session's system information that are taken, by nameEnum. 610 is the environment of the program."""
