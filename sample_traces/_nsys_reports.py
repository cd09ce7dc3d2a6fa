"""Reports of Nsight Systems (.nsys-rep) with the rows of the SQLite samples, in the layout of 2022 and of 2026.

The field numbers are written down here a second time, so that a reader that errs is not tested against itself. LZ4
blocks hold literals alone, which is valid LZ4. Whether Nsight Systems opens such a file is not known.

    python sample_traces/_nsys_reports.py [FOLDER]        (default: the folder this file is in)
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from _model import COMMAND, PID
from _protobuf import message, varint

Row = dict[str, Any]
Rows = dict[str, list[Row]]

CUPTI = "CUPTI_ACTIVITY_KIND_"
CUDA = ("start", "end", "correlationId", "deviceId", "contextId", "streamId", "", "globalPid")
PARTS: dict[str, tuple[int, int, int, dict[int, str]]] = {
    # table: type, class, number of the part, its columns by number
    CUPTI + "KERNEL": (
        79, 3, 101,
        {
            1: "demangledName", 2: "shortName", 3: "mangledName", 10: "gridX", 11: "gridY", 12: "gridZ",
            13: "blockX", 14: "blockY", 15: "blockZ", 16: "staticSharedMemory", 17: "dynamicSharedMemory",
            19: "localMemoryTotal", 20: "gridId", 21: "registersPerThread", 24: "launchType",
        },
    ),
    CUPTI + "MEMCPY": (
        80, 1, 102,
        {
            1: "bytes", 2: "copyKind", 4: "srcKind", 5: "dstKind", 6: "srcDeviceId", 7: "srcContextId",
            8: "dstDeviceId", 9: "dstContextId", 10: "migrationCause",
        },
    ),
    CUPTI + "MEMSET": (80, 2, 103, {1: "bytes", 2: "value", 4: "memKind"}),
    CUPTI + "SYNCHRONIZATION": (106, 5, 105, {1: "eventId", 2: "syncType"}),
    CUPTI + "GRAPH_TRACE": (130, 7, 107, {1: "graphId", 2: "graphExecId"}),
}  # fmt: skip
TRACE = {1: "start", 2: "end", 3: "correlationId", 6: "eventClass", 7: "nameId", 8: "returnValue", 13: "globalTid"}
TRACE_TABLES = (CUPTI + "RUNTIME", CUPTI + "OVERHEAD", "PROFILER_OVERHEAD", "OSRT_API")
NVTX = {
    1: "eventType", 2: "start", 4: "rangeId", 5: "category", 6: "color", 7: "text", 9: "globalTid", 10: "end",
    11: "endGlobalTid", 12: "textId", 13: "domainId",
}  # fmt: skip
PAYLOAD = {1: "uint64Value", 2: "int64Value", 3: "doubleValue", 7: "jsonTextId", 8: "jsonText"}
MEMORY = {
    1: "start", 3: "deviceId", 4: "contextId", 5: "globalPid", 6: "address", 8: "bytes", 9: "memKind",
    10: "memoryOperationType", 12: "correlationId", 15: "streamId",
}  # fmt: skip
MPI_DOMAIN = 9
GPU_METRICS = 6 << 32 | 1 << 48
"""Number of the source of GPU metrics; the low byte of a type is the GPU."""
UTC_NS = 1_767_225_600_000_000_000


def report_of(database: Path, style: str, version: str, secret: str = "example", **more: list[Row]) -> bytes:
    """Return a report with the rows of a database. style: "2022" or "2026".

    secret: stands wherever a real report has what must not be shown: the environment, command lines of other
    processes, what the program printed. more: further rows by table.
    """
    rows, strings = _rows_of(database)
    for table, extra in more.items():
        rows.setdefault(table, []).extend(extra)
    events = list(_events(rows, strings, secret, style))
    generic, types = _metrics(rows, strings)
    streams = [message((1, 1 << 48 | PID << 24), (2, _string(strings, "out.log")), (3, _string(strings, secret)))]
    threads = [
        message((1, message((2, row["nameId"]), (3, row["priority"]), (4, row["globalTid"]))))
        for row in rows.get("ThreadNames", ())
    ]
    head = [(1, len(events)), (3, len(strings)), (5, len(threads)), (9, "lz4")]
    if types:
        head.append((13, message((1, GPU_METRICS), (2, 3), (3, _string(strings, "GpuMetrics")))))
    head = [(n, len(strings) if n == 3 else value) for n, value in head]
    first = delimited(_session(style, secret)) + delimited(message(*head, *types, (15, len(generic))))
    blocks = [block(part) for part in _blocks(events, generic)]
    texts = message(*((1, text) for text in strings), *((2, stream) for stream in streams))
    last = (delimited(b"".join(threads)) if threads else b"") + delimited(_target(rows))
    return container(style, version, first, blocks, texts, last, secret)


def _rows_of(database: Path) -> tuple[Rows, list[bytes]]:
    with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        names = [row[0] for row in db.execute("select name from sqlite_master where type = 'table' order by rowid")]
        rows = {name: [dict(row) for row in db.execute(f'select * from "{name}"')] for name in names}
    texts = {row["id"]: row["value"].encode() for row in rows.pop("StringIds")}
    return rows, [texts.get(number, b"") for number in range(max(texts, default=-1) + 1)]


def _string(strings: list[bytes], text: str) -> int:
    data = text.encode()
    if data not in strings:
        strings.append(data)
    return strings.index(data)


def _present(row: Row, names: dict[int, str]) -> list[tuple[int, Any]]:
    return [(number, row[name]) for number, name in names.items() if row.get(name) is not None]


def _event(kind: int, family: int, *fields: tuple[int, Any]) -> bytes:
    return message((1, kind), (family, message(*fields)))


def _events(rows: Rows, strings: list[bytes], secret: str, style: str) -> Iterator[bytes]:
    for row in rows.get("PROCESSES", ()):
        own = [(2, row["globalPid"]), (5, f"/opt/{row['name']}"), (6, row["name"])]
        yield _event(27, 113, (1, -5), *own, (7, secret), (8, f"/home/{secret}"), (9, f"--key={secret}"), (12, 1))
    yield _event(27, 113, (1, -4), (2, 1 << 48 | 7 << 24), (12, 1))  # without a name: no export has it
    for row in rows.get("DIAGNOSTIC_EVENT", ()):
        when = message((1, row["timestamp"]), (2, 1))
        yield _event(49, 110, (1, when), (2, 2), (3, row["severity"]), (4, row["text"]), (5, 1 << 48))
    for table in TRACE_TABLES:
        for row in rows.get(table, ()):
            yield call_event(row | {"eventClass": 3, "correlationId": 0} if table == "PROFILER_OVERHEAD" else row)
    for table in PARTS:
        for row in rows.get(table, ()):
            yield work_event(table, row, style)
    for row in (*rows.get("NVTX_EVENTS", ()), *_mpi_ranges(rows)):
        fields = [(n, v & 0xFFFFFFFF if n == 6 else v) for n, v in _present(row, NVTX)]
        if payload := _present(row, PAYLOAD):
            fields.append((8, message(*payload)))
        yield _event(row["eventType"], 102, *sorted(fields, key=lambda field: field[0]), (14, 1))
    for row in rows.get("CUDA_GPU_MEMORY_USAGE_EVENTS", ()):
        yield _event(117, 123, *_present(row, MEMORY))
    yield _event(41, 106, (1, 999), (3, 2), (4, 1), (5, 0), (6, 1 << 48 | PID << 24), (7, 1))
    mark = _string(strings, "injection started")
    yield _event(47, 108, (1, 5), (2, 5), (3, 0), (6, 10), (7, mark), (8, 0))  # an export leaves it out
    jit = message((1, 3), (6, f"/home/{secret}/.nv/ComputeCache"))
    yield _event(48, 108, (1, 6), (2, 8), (3, 0), (6, 102), (7, mark), (13, 1 << 48 | PID << 24), (40, jit))
    yield _event(200, 150, (1, 5))  # a kind of the future


def call_event(row: Row) -> bytes:
    """Return a call of an API or of the system, or an overhead."""
    fields = _present(row, TRACE)
    if row.get("overheadType") is not None:
        fields.append((8, row["overheadType"]))
    return _event(48, 108, *sorted(fields, key=lambda field: field[0]))


def work_event(table: str, row: Row, style: str = "2022") -> bytes:
    """Return work of a device, by its table (without CUPTI's prefix too)."""
    kind, number, part, columns = PARTS.get(table) or PARTS[CUPTI + table]
    if style == "2026" and part == 105:
        columns = {1: "eventId", 3: "eventSyncId", 4: "syncType"}
    place = _present(row, dict(enumerate(CUDA, 1)))
    inner = message(*_present(row, columns), *([(8, row["demangledName"])] if part == 101 else []))
    return _event(kind, 107, *place[:6], (7, number), *place[6:], (part, inner))


def _mpi_ranges(rows: Rows) -> Iterator[Row]:
    """Yield MPI calls as a report has them: ranges of the domain MPI."""
    calls = rows.get("MPI_COLLECTIVES_EVENTS", ())
    for thread in dict.fromkeys(row["globalTid"] for row in calls):
        yield {"eventType": 75, "start": 1, "text": "MPI", "globalTid": thread, "domainId": MPI_DOMAIN}
    for row in calls:
        yield {key: row[key] for key in ("start", "end", "globalTid", "textId")} | {
            "eventType": 59,
            "domainId": MPI_DOMAIN,
        }


def _metrics(rows: Rows, strings: list[bytes]) -> tuple[list[bytes], list[tuple[int, Any]]]:
    """Return the samples of GPU metrics, all metrics of one time in one event, and the types that describe them."""
    samples: dict[tuple[int, int], dict[int, int]] = {}
    for row in rows.get("GPU_METRICS", ()):
        samples.setdefault((row["typeId"], row["timestamp"]), {})[row["metricId"]] = int(row["value"])
    generic, types = [], []
    for kind in dict.fromkeys(kind for kind, _ in samples):
        named = [row for row in rows["TARGET_INFO_GPU_METRICS"] if row["typeId"] == kind]
        columns = [
            (3, message((1, _string(strings, row["metricName"])), (2, 2 * place), (3, 2)))
            for place, row in enumerate(named)
        ]
        types.append((14, message((1, GPU_METRICS | kind & 0xFF), *columns)))
        for (of, when), values in samples.items():
            if of == kind:
                data = b"".join(values[row["metricId"]].to_bytes(2, "little") for row in named)
                generic.append(message((1, GPU_METRICS | kind & 0xFF), (2, when), (3, data)))
    return generic, types


def _session(style: str, secret: str) -> bytes:
    system = [message((1, 619), (2, "node7")), message((1, 610), (2, f"TOKEN={secret}"))]
    fields: list[tuple[int, Any]] = [
        (1, message((1, "Local (CLI)"), (2, b"".join(message((1, pair)) for pair in system)))),
        (2, message((26, message((12, f"TOKEN={secret}"))))),
        (15, 0),
    ]
    if style == "2022":
        offsets = ((1, 3, -5_000_000_000), (3, 9, 5_000_000_000 - UTC_NS), (9, 10, -3_600_000_000_000))
        clocks = (message((1, a), (2, b), (5, str(offset & (1 << 64) - 1)), (6, "Offset")) for a, b, offset in offsets)
        fields.append((16, b"".join(message((1, clock)) for clock in clocks)))
    return message(*fields, (17, 0), (18, 10**9), (19, 10**9))


def _target(rows: Rows) -> bytes:
    gpus = [
        message((7, message((1, row["id"]), (2, row["name"]), (10, 1 << 22), (14, 80), (15, row["id"]), (41, 7))))
        for row in rows.get("TARGET_INFO_GPU", ())
    ]
    fields: list[tuple[int, Any]] = [(1, message((1, 1 << 48), (2, b"".join(gpus))))]
    contexts = [
        *rows.get("TARGET_INFO_CUDA_CONTEXT_INFO", ()),
        *(row | {"nullStreamId": row["streamId"]} for row in rows.get("TARGET_INFO_CUDA_NULL_STREAM", ())),
    ]
    for row in contexts:
        place = ((1, row["nullStreamId"]), (2, 0), (3, 1), (4, row["processId"]), (5, row["deviceId"]))
        fields.append((14, message(*place, (6, row["contextId"]))))
        fields.append((15, message((1, row["nullStreamId"]), (2, 0), (3, 1), (4, row["processId"]), (5, 1), (7, 3))))
    return message(*fields)


def container(
    style: str, version: str, first: bytes, blocks: list[bytes], texts: bytes, last: bytes, secret: str = ""
) -> bytes:
    """Return a report of these parts: session and head, blocks of events, strings, thread names and target."""
    raw = b"".join((b"QDTEXT00", first, *blocks))
    strings_at = len(raw) - 8
    raw += block(texts) + last
    program, *arguments = COMMAND.split()
    words = [(10, program), *((11, word) for word in arguments)]
    options = message((26, message(*words, (12, f"TOKEN={secret}"))))
    parts = [
        ("Analysis Options Data", options),
        ("Raw Sampling Data", raw),
        ("Sampling Data Offsets", message((1, "lz4"), (2, strings_at))),
    ]
    if style == "2026":
        clocks = {kind: bytes([kind]) * 16 for kind in (11, 7, 12)}
        kinds = b"".join(message((1, message((1, guid), (2, kind)))) for kind, guid in clocks.items())
        pairs = ((11, 7, UTC_NS, 0), (12, 11, UTC_NS + 3_600_000_000_000, UTC_NS))
        relations = b"".join(
            message((1, message((1, clocks[a]), (2, clocks[b]), (3, message((1, message((1, x), (2, y))))))))
            for a, b, x, y in pairs
        )
        parts.append(("Time Conversion Data", message((1, kinds), (2, relations))))
        parts.append(("Agent activity list", message((1, f"TOKEN={secret}"))))
    ui = [(4, "2026-01-01T01:00:00"), (5, "node7"), (6, version), (7, version)]
    ui.append((25, f"nsys profile --key={secret} {COMMAND}"))
    parts.append(("UI Data", message(*ui)))
    shown = "1" if style == "2022" else version.replace(".", "@")
    out = f"NVIDIA Tegra Profiler Report {shown}.".encode()
    entries = []
    for name, data in parts:
        entries.append((1, message((1, name), (2, len(out)), (3, len(data)))))
        out += data
    return out + message(*entries) + len(out).to_bytes(8, "little") + b"U3w[END]"


def _blocks(events: list[bytes], generic: list[bytes], size: int = 100) -> Iterator[bytes]:
    for start in range(0, len(events), size):
        yield message(*((1, event) for event in events[start : start + size]))
    if generic:
        yield message(*((2, each) for each in generic))


def delimited(data: bytes) -> bytes:
    """Return a message after its length."""
    return varint(len(data)) + data


def block(data: bytes, pack: Callable[[bytes], bytes] | None = None) -> bytes:
    """Return a compressed block with one message. pack: compresses; without it there are literals alone."""
    data = delimited(data)
    packed = (pack or lz4_literals)(data)
    return varint(len(packed)) + varint(len(data)) + packed


def lz4_literals(data: bytes) -> bytes:
    """Return a raw block of LZ4 without a match: one token, the length, the bytes."""
    more = len(data) - 15
    if more < 0:
        return bytes([len(data) << 4]) + data
    return b"\xf0" + b"\xff" * (more // 255) + bytes([more % 255]) + data


def waits(pid: int, context: int, times: Iterable[int]) -> list[Row]:
    """Return waits for the whole context: their rows name device 0, whatever the device of the context is."""
    return [
        {
            "start": at, "end": at + 400, "correlationId": 0, "deviceId": 0, "contextId": context,
            "streamId": 0xFFFFFFFF, "globalPid": 1 << 48 | pid << 24, "eventId": 0xFFFFFFFF, "eventSyncId": 0,
            "syncType": 4,
        }
        for at in times
    ]  # fmt: skip


def write_all(root: Path) -> None:
    """Write the folder nsys-report under root, from the databases beside it."""
    (root / "nsys-report").mkdir(parents=True, exist_ok=True)
    old, new = (root / "nsys-sqlite" / name for name in ("schema-of-2021.sqlite", "two-processes.sqlite"))
    (root / "nsys-report" / "layout-of-2022.nsys-rep").write_bytes(report_of(old, "2022", "2022.1.3.3-1c7b5f7"))
    sync = {CUPTI + "SYNCHRONIZATION": waits(PID, 1, (100, 900)) + waits(PID + 1, 1, (200, 1900))}
    version = "2026.1.3.425-261338342291v0"
    (root / "nsys-report" / "two-processes.nsys-rep").write_bytes(report_of(new, "2026", version, **sync))


if __name__ == "__main__":
    write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
