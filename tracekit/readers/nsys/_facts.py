"""Facts of Nsight Systems' exports: tool, command, clock, machines, names of devices, processes, threads, streams;
ranks of processes; what the profiler itself warned of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.options import OptionSpec
from tracekit.readers.nsys._strings import BITS, process_number, string
from tracekit.readers.sqlite.cupti import Context
from tracekit.trace import Ledger
from tracekit.units import MAX_NS

_META = {
    "tool_version": "EXPORT_PRODUCT_VERSION",
    "schema_version": "EXPORT_SCHEMA_VERSION",
    "exported": "EXPORT_TIME_UTC",
}
_SYSTEM = {"host": "Hostname", "driver_version": "NvDriverVersion", "os": "OsDescription", "cpu": "CpuDescription"}


OSRT = OptionSpec("osrt", bool, False, "Read the calls of the OS runtime too. There are many.")


def table_named(ctx: Context, name: str) -> str | None:
    """Return the table of that name, or of its newest version (NAME_V2, NAME_V3 ...) that has rows; None: not there."""
    form = re.compile(re.escape(name) + r"(?:_V(\d{1,3}))?")
    found = [(int(m[1] or 1), t) for t in ctx.db.tables if (m := form.fullmatch(t))]
    found.sort(reverse=True)
    filled = [t for _, t in found if len(found) == 1 or ctx.db.count(t)]
    if len(filled) > 1:
        ctx.ledger.note(
            "several-versions", f"of several versions of a table the newest was read: {filled[0]}", where=filled[0]
        )
    return filled[0] if filled else found[0][1] if found else None


def facts_of(ctx: Context) -> dict[str, Any]:
    """Put clock, devices and streams into the run; return the facts of the source."""
    db, run, source = ctx.db, ctx.run, ctx.options.source
    meta: dict[str, str] = {}
    for table in ("EXPORT_META_DATA", "META_DATA_EXPORT", "META_DATA_CAPTURE"):
        for name, value in db.small(table, "name", "value"):
            if isinstance(name, str) and isinstance(value, str):
                meta.setdefault(name, value)
    facts: dict[str, Any] = {"tool": "Nsight Systems"}
    facts |= {key: meta[name] for key, name in _META.items() if meta.get(name)}
    if command := _command(meta):
        facts["command"] = command
    system = {name: value for name, value in db.small("TARGET_INFO_SYSTEM_ENV", "name", "value") if value}
    facts |= {key: str(system[name]) for key, name in _SYSTEM.items() if name in system}
    run.origin_ns = _origin(ctx, meta)
    properties = []
    for device, name, count, major in db.small("TARGET_INFO_GPU", "id", "name", "smCount", "computeMajor"):
        if isinstance(device, int) and name:
            run.devices[(source, device)] = str(name)
        if isinstance(device, int) and isinstance(count, int):
            # Kineto's words, so that views ask one question of all formats.
            found = {"id": device, "name": name, "numSms": count, "computeMajor": major}
            properties.append({key: value for key, value in found.items() if isinstance(value, int | str)})
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
            run.streams[(source, devices.get((process, device), device), stream)] = "default"
    return facts


_WARNING, _ERROR = 2, 3
"""ENUM_DIAGNOSTIC_SEVERITY_LEVEL."""
_LOSS = re.compile(r"\b(?:not all|missing|dropp|lost|losing|overflow|incomplete|truncat|might have not)", re.IGNORECASE)
_TOLD = 5


def _warnings(ctx: Context) -> None:
    rows = ctx.db.small("DIAGNOSTIC_EVENT", "severity", "text")
    levels = {_WARNING: "Warning", _ERROR: "Error"}
    tell_warnings(ctx.ledger, [(levels.get(level, ""), text) for level, text in rows if isinstance(text, str)])


def tell_warnings(ledger: Ledger, said: Iterable[tuple[str, str]]) -> None:
    """Note the errors of the profiler and its warnings that records may be missing, each text once.

    said: level ("Warning" and "Error" count) and text.
    """
    texts = [text for level, text in said if level == "Error" or (level == "Warning" and _LOSS.search(text))]
    distinct = list(dict.fromkeys(" ".join(text.split())[:300] for text in texts))
    for number, text in enumerate(distinct[:_TOLD], 1):
        ledger.note(f"profiler-warning-{number}", f"Nsight Systems itself warned: {text}")
    if len(distinct) > _TOLD:
        more = f"Nsight Systems itself warned of {len(distinct) - _TOLD} more things: see its diagnostics"
        ledger.note("profiler-warnings", more)


def ranks_of(ctx: Context) -> dict[int, int]:
    """Return the MPI rank of each process, of those that have one."""
    found: dict[int, set[int]] = {}
    for number, rank in ctx.db.small("MPI_RANKS", "globalTid", "rank"):
        if isinstance(number, int) and isinstance(rank, int) and 0 <= rank < 1 << 31:
            found.setdefault(process_number(ctx, number), set()).add(rank)
    return {process: ranks.pop() for process, ranks in found.items() if len(ranks) == 1}


def devices_of(ctx: Context) -> dict[tuple[int, int], int]:
    """Return the GPU (id of TARGET_INFO_GPU) of a process's CUDA device, where the process numbers it otherwise.

    deviceId is the number that the process itself has for a device: with CUDA_VISIBLE_DEVICES each process of a job may
    call another GPU 0. TARGET_INFO_CUDA_DEVICE (2023 and later) tells which is which.
    """
    if len(ctx.machines) > 1:  # its pid does not say of which machine
        return {}
    found: dict[tuple[int, int], set[int]] = {}
    for process, device, gpu in ctx.db.small("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId"):
        if all(isinstance(n, int) and 0 <= n < _MOST for n in (process, device, gpu)):
            found.setdefault((process, device), set()).add(gpu)
    return {pair: gpus.pop() for pair, gpus in found.items() if len(gpus) == 1 and pair[1] not in gpus}


_MOST = 1 << 30


def looked_up(batches: Iterator[pa.RecordBatch], tables: Lookup) -> Iterator[pa.RecordBatch]:
    """Give the events with the ranks of their processes, and with the numbers that the machine has for devices."""
    for batch in batches:
        if tables.devices:
            gpus = machine_numbers(batch.column("pid"), batch.column("device"), tables.devices)
            batch = _with(batch, "device", gpus)
        if tables.ranks:
            batch = _with(batch, "rank", _taken(batch.column("pid").cast(pa.int64()), tables.ranks))
        yield batch


def machine_numbers(pid: pa.Array, device: pa.Array, devices: dict[tuple[int, int], int]) -> pa.Array:
    """Return the numbers that the machine has for the devices of processes, int64, as `devices_of` tells them."""
    pid, device = pid.cast(pa.int64()), device.cast(pa.int64())
    pairs = {(process << 30) + number: gpu for (process, number), gpu in devices.items()}
    return pc.coalesce(_taken(pc.add(pc.shift_left(pid, 30), device), pairs).cast(pa.int64()), device)


def _taken(keys: pa.Array, values: dict[int, int]) -> pa.Array:
    found = pc.index_in(keys, value_set=pa.array(list(values), pa.int64()), skip_nulls=True)
    return pa.array(np.array(list(values.values()), np.int32)).take(found)


def _with(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, batch.schema.field(at), column.cast(batch.schema.field(at).type))


@dataclass(frozen=True, slots=True)
class Lookup:
    """What an event's process tells: its rank, and which GPU its devices are."""

    ranks: dict[int, int]
    devices: dict[tuple[int, int], int]


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
    if not rows or not isinstance(rows[0][0], int) or not 0 < rows[0][0] < MAX_NS:
        return None
    return rows[0][0] - moved


def named_threads(ctx: Context) -> None:
    """Put the names of those processes and threads into the run that rows name: the export lists the whole machine."""
    run, source = ctx.run, ctx.options.source
    processes = {number & ~BITS for number in ctx.seen}
    for number, name in ctx.db.small("PROCESSES", "globalPid", "name"):
        if isinstance(number, int) and number in processes and name:
            run.processes[(source, process_number(ctx, number))] = str(name)
    for name, number in ctx.db.small("ThreadNames", "nameId", "globalTid"):
        if isinstance(number, int) and isinstance(name, int) and number in ctx.seen and (text := string(ctx, name)):
            run.threads.setdefault((source, process_number(ctx, number), number & BITS), text)
