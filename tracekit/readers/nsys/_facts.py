"""Facts in Nsight Systems' exports: tool, command, clock, machines, ranks, warnings of the profiler, names of devices,
processes, threads and streams.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

import numpy as np
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import arrow
from tracekit.model.arrow import Column, DictColumn, pc
from tracekit.model.trace import Ledger
from tracekit.model.units import MAX_NS
from tracekit.readers.builder import bounded
from tracekit.readers.sqlite import cupti
from tracekit.readers.sqlite.cupti import Context, distinct_rows, texts_by_number
from tracekit.readers.sqlite.database import RowBlock

# Numbers in the exports of Nsight Systems: global ids, types of NVTX events, kinds of memory and of copies.
#
# Source: the ENUM_ tables in the SQLite exports.


BITS = 0xFFFFFF
"""globalTid: machine (hardware and VM, 8 bits each), process and thread (24 bits each)."""

CATEGORY, MARK, THREAD, PUSH_POP, START_END, DOMAIN = 33, 34, 39, 59, 60, 75
"""ENUM_NSYS_EVENT_TYPE of NVTX events."""
MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static"}
"""ENUM_CUDA_MEM_KIND: one less than the numbers of CUPTI and nvprof."""
UNIFIED = (11, 12, 13)
COPY_KINDS = cupti.COPY_KINDS | dict(zip(UNIFIED, ("HtoD", "DtoH", "DtoD"), strict=True))
OPEN_RANGE = "a range did not end before the profile did: it has no duration"


def copy_name(kind: int) -> str:
    """Return the name of a copy, as nvprof and older versions of nsys print it."""
    memory = "CUDA Unified Memory" if kind in UNIFIED else "CUDA"
    return f"[{memory} memcpy {COPY_KINDS[kind]}]" if kind in COPY_KINDS else "[CUDA memcpy]"


def color(argb: int) -> str:
    """Return a color as NVTX writes it, `#FF00AA00`."""
    return f"#{argb & 0xFFFFFFFF:08X}"


# Strings and ids of Nsight Systems' exports: texts of StringIds, process and thread of a global id.


_CACHED = 1 << 20


def string(ctx: Context, number: int | None) -> str | None:
    """Return a text of StringIds, None for a missing number or an empty text."""
    if number is None:
        return None
    text = ctx.strings.get(number)
    if text is None:
        text = bounded(ctx.db.text("StringIds", number) or "", ctx.ledger)
        if len(ctx.strings) >= _CACHED:
            ctx.strings.clear()
        ctx.strings[number] = text
    return text or None


def strings(ctx: Context, numbers: Column) -> DictColumn:
    """Return the texts of a column of numbers."""
    return texts_by_number(numbers, lambda number: string(ctx, number))


def tid_of(ids: Column | None) -> Column | None:
    """Return the threads of global ids."""
    return None if ids is None else pc.bit_wise_and(ids, BITS)


def pid_of(ctx: Context, ids: Column | None, *, threads: bool = False) -> Column | None:
    """Return the processes of global ids. Adds them to `ctx.seen`, with their threads if `threads`.

    If the export has several machines, the process is a number of process and machine, and `Run.ids` has its text.
    """
    if ids is None:
        return None
    distinct = arrow.ints(pc.drop_null(pc.unique(ids))).tolist()
    ctx.seen.update(distinct if threads else [number & ~BITS for number in distinct])
    if len(ctx.machines) < 2:
        return pc.bit_wise_and(pc.shift_right(ids, 24), BITS)
    for number in distinct:
        text = f"{number >> 24 & BITS} on machine {number >> 48 & 0xFFFF}"
        ctx.run.ids[("pid", ctx.options.source, process_number(ctx, number))] = text
    return pc.bit_wise_and(pc.shift_right(ids, 24), (1 << 40) - 1)


def process_number(ctx: Context, number: int) -> int:
    """Return the value of the column pid for a global id."""
    return number >> 24 & (BITS if len(ctx.machines) < 2 else (1 << 40) - 1)


_PROPERTIES = {
    "id": "id",
    "name": "name",
    "numSms": "smCount",
    "computeMajor": "computeMajor",
    "computeMinor": "computeMinor",
    "totalGlobalMem": "totalMemory",
    "memoryBandwidth": "memoryBandwidth",
    "clockRate": "clockRate",
    "l2CacheSize": "l2CacheSize",
}
"""Properties of devices, and their columns in TARGET_INFO_GPU: bytes, bytes a second, Hz."""
_META = {
    "tool_version": "EXPORT_PRODUCT_VERSION",
    "schema_version": "EXPORT_SCHEMA_VERSION",
    "exported": "EXPORT_TIME_UTC",
}
_SYSTEM = {"host": "Hostname", "driver_version": "NvDriverVersion", "os": "OsDescription", "cpu": "CpuDescription"}


def table_named(ctx: Context, name: str) -> str | None:
    """Return the table of that name, or its newest version (NAME_V2, NAME_V3 ...) with rows; None if there is none."""
    form = re.compile(re.escape(name) + r"(?:_V(\d{1,3}))?")
    versions = sorted(((int(m[1] or 1), t) for t in ctx.db.tables if (m := form.fullmatch(t))), reverse=True)
    filled = [t for _, t in versions if len(versions) == 1 or ctx.db.count(t)]
    if len(filled) > 1:
        ctx.ledger.note(
            "several-versions", f"a table has several versions: the newest was read, {filled[0]}", where=filled[0]
        )
    return filled[0] if filled else versions[0][1] if versions else None


def facts_of(ctx: Context, known: Mapping[str, str]) -> dict[str, object]:
    """Add clock, devices and streams to the run, and return the facts of the source.

    known: values of META_DATA_CAPTURE and META_DATA_EXPORT that a file without these tables has elsewhere.
    """
    db, run, source = ctx.db, ctx.run, ctx.options.source
    meta = dict(known)
    for table in ("EXPORT_META_DATA", "META_DATA_EXPORT", "META_DATA_CAPTURE"):
        for name, value in db.small(table, "name", "value"):
            if isinstance(name, str) and isinstance(value, str):
                meta.setdefault(name, value)
    facts: dict[str, object] = {"tool": "Nsight Systems"}
    facts |= {key: meta[name] for key, name in _META.items() if meta.get(name)}
    if command := _command(meta):
        facts["command"] = command
    system = {name: value for name, value in db.small("TARGET_INFO_SYSTEM_ENV", "name", "value") if value}
    facts |= {key: str(system[name]) for key, name in _SYSTEM.items() if name in system}
    run.origin_ns = _origin(ctx, meta)
    properties = []
    for values in db.small("TARGET_INFO_GPU", *_PROPERTIES.values()):
        # Kineto's keys where it has them, so that views read one form.
        device_facts = dict(zip(_PROPERTIES, values, strict=True))
        device, name = device_facts["id"], device_facts["name"]
        if isinstance(device, int) and name:
            run.devices[(source, device)] = str(name)
        if isinstance(device, int) and isinstance(device_facts["numSms"], int):
            properties.append({key: value for key, value in device_facts.items() if isinstance(value, int | str)})
    if properties:
        facts["deviceProperties"] = properties
    for table, column in (("PROCESSES", "globalPid"), ("TARGET_INFO_SYSTEM_ENV", "globalVid")):
        ctx.machines |= {
            row[0] >> 48 & 0xFFFF for row in db.small(table, column) if isinstance(row[0], int) and row[0] > 0
        }
    _warnings(ctx)
    devices = devices_of(ctx)
    defaults = db.small("TARGET_INFO_CUDA_NULL_STREAM", "processId", "deviceId", "streamId")
    defaults += db.small("TARGET_INFO_CUDA_CONTEXT_INFO", "processId", "deviceId", "nullStreamId")
    for process, device, stream in defaults:
        if isinstance(device, int) and isinstance(stream, int):
            number = devices.get((process, device), device) if isinstance(process, int) else device
            run.streams[(source, number, stream)] = "default"
    return facts


_WARNING, _ERROR = 2, 3
"""ENUM_DIAGNOSTIC_SEVERITY_LEVEL."""
_LOSS = lazy_pattern(
    r"\b(?:not all|missing|dropp|lost|losing|overflow|incomplete|truncat|might have not)", re.IGNORECASE
)
_UNIFIED, _NVTX = lazy_pattern(r"\bUnified Memory\b", re.IGNORECASE), re.compile(r"\bNVTX\b")
_ELSEWHERE = lazy_pattern(
    r"\b(?:CPU IP|backtraces?|perf(?:ormance)?|scheduling data|ETW|ftrace|vsync|OS runtime|OSRT|GPU metrics|Vulkan|"
    r"WDDM|Open(?:ACC|GL|MP|XR|SHMEM)|DX1[12]|MPI|UCX|cu(?:DNN|BLAS|SPARSE|FFT)|Python|NICs?|InfiniBand|network|storage)\b|"
    r"\bcontext switch|\bDirect(?:X|3D)",
    re.IGNORECASE,
)
"""What Nsight Systems records beside the work of devices and its calls."""
_COUNTERS = lazy_pattern(r"\bGPU metrics\b|\bGPU performance counters?\b", re.IGNORECASE)
_DEVICE_ROWS = lazy_pattern(r"\b(?:CUDA|GPU|CUPTI)\b")
_MAX_WARNINGS = 5


def _warnings(ctx: Context) -> None:
    levels: dict[object, str] = {_WARNING: "Warning", _ERROR: "Error"}
    rows = ctx.db.small("DIAGNOSTIC_EVENT", "severity", "text")
    note_warnings(ctx.ledger, [(levels.get(level, ""), text) for level, text in rows if isinstance(text, str)])


def note_warnings(ledger: Ledger, messages: Iterable[tuple[str, str]]) -> None:
    """Note the errors of the profiler, and its warnings about missing records. Each text is noted once.

    Warnings about NVTX and unified memory are in almost every profile, so they are no sign that rows are missing. Where
    samples of the CPU, metrics of the GPU or calls of OpenGL could not be recorded, no row of the device is missing.

    messages: pairs of level ("Warning" and "Error" count) and text.
    """
    messages = [(level, text) for level, text in messages if level in ("Warning", "Error")]
    asides = [text for level, text in messages if _is_aside(level, text)]
    for number, text in enumerate(dict.fromkeys(" ".join(text.split())[:300] for text in asides), 1):
        if number <= _MAX_WARNINGS:
            ledger.note(f"nsys-warning-{number}", f"Nsight Systems itself warned: {text}")
    texts = [text for level, text in messages if text not in asides and (level == "Error" or _LOSS.search(text))]
    distinct = list(dict.fromkeys(" ".join(text.split())[:300] for text in texts))
    for number, text in enumerate(distinct[:_MAX_WARNINGS], 1):
        ledger.note(f"profiler-warning-{number}", f"Nsight Systems itself warned: {text}")
    if len(distinct) > _MAX_WARNINGS:
        more = f"Nsight Systems itself warned of {len(distinct) - _MAX_WARNINGS} more things: see its diagnostics"
        ledger.note("profiler-warnings", more)


def _is_aside(level: str, text: str) -> bool:
    """Return whether a text that is worth a note is about something else than rows of the device and of API calls."""
    tells = level == "Error" or _LOSS.search(text) is not None
    elsewhere = tells and _ELSEWHERE.search(text) is not None and not _DEVICE_ROWS.search(_COUNTERS.sub("", text))
    return elsewhere or _UNIFIED.search(text) is not None or bool(_NVTX.search(text) and _LOSS.search(text))


def ranks_of(ctx: Context) -> dict[int, int]:
    """Return the MPI rank of each process that has one."""
    ranks_by_process: dict[int, set[int]] = {}
    for number, rank in ctx.db.small("MPI_RANKS", "globalTid", "rank"):
        if isinstance(number, int) and isinstance(rank, int) and 0 <= rank < 1 << 31:
            ranks_by_process.setdefault(process_number(ctx, number), set()).add(rank)
    return {process: ranks.pop() for process, ranks in ranks_by_process.items() if len(ranks) == 1}


def devices_of(ctx: Context) -> dict[tuple[int, int], int]:
    """Return the GPU (id of TARGET_INFO_GPU) of (process, CUDA device), if the process has another number for it.

    deviceId is the number that the process has for a device. With CUDA_VISIBLE_DEVICES, GPU 0 of one process may be
    another device than GPU 0 of the next. TARGET_INFO_CUDA_DEVICE (2023 and later) has both numbers.
    """
    if len(ctx.machines) > 1:  # a pid does not name its machine
        return {}
    gpus_of: dict[tuple[int, int], set[int]] = {}
    for row in ctx.db.small("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId"):
        numbers = [n for n in row if isinstance(n, int) and 0 <= n < _MOST]
        if len(numbers) == 3:
            process, device, gpu = numbers
            gpus_of.setdefault((process, device), set()).add(gpu)
    return {pair: gpus.pop() for pair, gpus in gpus_of.items() if len(gpus) == 1 and pair[1] not in gpus}


_MOST = 1 << 30


UNCLEAR = -1
"""The device of a context whose work names several, or none."""


@dataclass(slots=True)
class ContextDevices:
    """The device of each CUDA context: rows of synchronization name device 0 whatever their context's device is.

    In 152,632 of 152,632 such rows of public captures with several GPUs deviceId is 0. of_process: device by (pid,
    context) as the capture lists them. of_work: device by (globalPid, context) of kernels, copies and memsets.
    """

    of_process: dict[tuple[int, int], int]
    of_work: dict[tuple[int, int], int] = field(default_factory=dict)

    def learn(self, block: RowBlock) -> None:
        """Take the devices of a block of kernels, copies or memsets."""
        columns = [block.columns.get(name) for name in ("globalPid", "contextId", "deviceId")]
        if any(column is None for column in columns) or arrow.bounds(block.columns["deviceId"]) == (0, 0):
            return
        _, rows = distinct_rows(*(block.integers(name, -1) for name in ("globalPid", "contextId", "deviceId")))
        for process, context, device in rows:
            if self.of_work.setdefault((process, context), device) != device:
                self.of_work[process, context] = UNCLEAR

    def correct(self, block: RowBlock) -> None:
        """Put the device of its context into each row that names device 0."""
        if not (self.of_process or self.of_work) or not {"globalPid", "contextId"} <= block.columns.keys():
            return
        codes, pairs = distinct_rows(block.integers("globalPid", -1), block.integers("contextId", -1))
        devices = [self._device(process, context) for process, context in pairs]
        if any(devices):
            own = block.integers("deviceId")
            of_context = np.array(devices, np.int64)[arrow.ints(codes)]
            block.columns["deviceId"] = arrow.array(np.where(own == 0, of_context, own))

    def _device(self, process: int, context: int) -> int:
        """Return the device of a context, 0 where nothing is known."""
        of_work = self.of_work.get((process, context), UNCLEAR)
        return of_work if of_work >= 0 else self.of_process.get((process >> 24 & BITS, context), 0)


def context_devices(ctx: Context) -> ContextDevices:
    """Return the devices that the capture lists for its contexts. With several machines a pid names none of them."""
    devices: dict[tuple[int, int], set[int]] = {}
    for table in ("TARGET_INFO_CUDA_CONTEXT_INFO", "TARGET_INFO_CUDA_NULL_STREAM"):
        for row in ctx.db.small(table, "processId", "contextId", "deviceId"):
            numbers = [n for n in row if isinstance(n, int) and n >= 0]
            if len(numbers) == 3 and len(ctx.machines) < 2:
                process, context, device = numbers
                devices.setdefault((process, context), set()).add(device)
    return ContextDevices({pair: found.pop() for pair, found in devices.items() if len(found) == 1})


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """Facts that follow from the process of an event. ranks: by process. devices: GPU by process and CUDA device."""

    ranks: dict[int, int]
    devices: dict[tuple[int, int], int]


def with_process_facts(batches: Iterator[pa.RecordBatch], known: ProcessFacts) -> Iterator[pa.RecordBatch]:
    """Yield the events with the ranks of their processes, and with the machine's numbers of the devices."""
    for batch in batches:
        if known.devices:
            gpus = machine_numbers(batch.column("pid"), batch.column("device"), known.devices)
            batch = arrow.with_column(batch, "device", gpus)
        if known.ranks:
            batch = arrow.with_column(batch, "rank", _mapped(batch.column("pid").cast(pa.int64()), known.ranks))
        yield batch


def machine_numbers(pid: Column, device: Column, devices: dict[tuple[int, int], int]) -> Column:
    """Return the numbers that the machine has for the devices of processes, int64. devices: as in `devices_of`."""
    pid, device = pid.cast(pa.int64()), device.cast(pa.int64())
    pairs = {(process << 30) + number: gpu for (process, number), gpu in devices.items()}
    return pc.coalesce(_mapped(pc.add(pc.shift_left(pid, 30), device), pairs).cast(pa.int64()), device)


def _mapped(keys: Column, values: dict[int, int]) -> Column:
    places = pc.index_in(keys, value_set=arrow.array(list(values), pa.int64()), skip_nulls=True)
    return arrow.array(list(values.values()), pa.int32()).take(places)


def _command(meta: dict[str, str]) -> str:
    if "PROCESS_0:COMMAND" not in meta:
        return ""
    words = [meta["PROCESS_0:COMMAND"]]
    while (key := f"PROCESS_0:ARGUMENT_{len(words) - 1}") in meta:
        words.append(meta[key])
    return " ".join(words)


def _origin(ctx: Context, meta: dict[str, str]) -> int | None:
    """Return the Unix time of ts 0: `--ts-normalize` makes times Unix times, `--ts-shift` moves them."""
    shift = meta.get("EXPORT_PARAM_TIME_SHIFT", "0")
    moved = int(shift) if re.fullmatch(r"-?\d{1,18}", shift) else 0
    if meta.get("EXPORT_PARAM_TIME_NORMALIZE") == "true":
        return -moved
    rows = ctx.db.small("TARGET_INFO_SESSION_START_TIME", "utcEpochNs", limit=1)
    start = rows[0][0] if rows else None
    return start - moved if isinstance(start, int) and 0 < start < MAX_NS else None


def named_threads(ctx: Context) -> None:
    """Add the names of processes and threads to the run, only of those in rows: the export lists the whole machine."""
    run, source = ctx.run, ctx.options.source
    processes = {number & ~BITS for number in ctx.seen}
    for number, name in ctx.db.small("PROCESSES", "globalPid", "name"):
        if isinstance(number, int) and number in processes and name:
            run.processes[(source, process_number(ctx, number))] = str(name)
    for name, number in ctx.db.small("ThreadNames", "nameId", "globalTid"):
        if isinstance(number, int) and isinstance(name, int) and number in ctx.seen and (text := string(ctx, name)):
            run.threads.setdefault((source, process_number(ctx, number), number & BITS), text)
