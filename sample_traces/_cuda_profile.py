"""The CUDA and OpenCL command line profiler (COMPUTE_PROFILE=1): one log for each context, mangled names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from _kernels import KERNELS
from _model import KERNEL, MEMCPY, MEMSET, Event
from _sheet import Sheet

EPOCH_NS = 0x13E224F5_A60F_82E0  # the device clock of the gpu timestamps counts ns since 1970
FACTOR = "13d97a5aea505c75"
DEFAULT = ["method", "gputime", "cputime", "occupancy"]
STAMPS = ["gpustarttimestamp", "gpuendtimestamp"]
GRID = ["gridsizeX", "gridsizeY", "gridsizeZ", "threadblocksizeX", "threadblocksizeY", "threadblocksizeZ"]
RESOURCES = ["dynsmemperblock", "stasmemperblock", "regperthread"]
TRANSFER = ["memtransfersize", "memtransferdir", "memtransferhostmemtype"]
PADDLE = [*STAMPS, "method", "gputime", "cputime", *GRID, "occupancy", "streamid"]
MANY = ["method", "gputime", "cputime", *GRID, *RESOURCES, "occupancy", "streamid", *TRANSFER]


def _micros(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _method(event: Event) -> str:
    if event.kernel is not None:
        return event.kernel.mangled
    if event.kind == MEMSET:
        return "memset128"
    direction = event.name[len("[CUDA memcpy ") : -1]
    return f"memcpy{direction}async"


def _cells(event: Event) -> dict[str, str]:
    """The cells by column; what does not apply to the event is not there."""
    dur = event.dur or 0
    cells = {
        "method": _method(event),
        "gputime": _micros(dur),
        "cputime": _micros(event.call_ns),
        "gpustarttimestamp": f"{EPOCH_NS + event.start:x}",
        "gpuendtimestamp": f"{EPOCH_NS + event.end:x}",
        "timestamp": _micros(event.call_start),
        "streamid": str(event.stream),
    }
    if event.kernel is not None and event.grid is not None:
        cells |= dict(zip(GRID, map(str, (*event.grid, *event.kernel.block)), strict=True))
        numbers = (event.kernel.dynamic_smem, event.kernel.static_smem, event.kernel.registers)
        cells |= dict(zip(RESOURCES, map(str, numbers), strict=True))
        cells["occupancy"] = f"{event.kernel.occupancy:.3f}"
    if event.kind == MEMCPY:
        cells["memtransfersize"] = str(event.bytes)
        cells["memtransferdir"] = "1" if event.source_memory == "Device" else "0"
        cells["memtransferhostmemtype"] = "1" if "Pinned" in (event.source_memory, event.target_memory) else "0"
    return cells


def log(
    events: Sequence[Event],
    columns: Sequence[str] = DEFAULT,
    *,
    as_csv: bool = False,
    short: bool = False,
    version: str = "2.0",
    language: str = "CUDA",
    context: int = 1,
    device: str = "0 Tesla P100-PCIE-16GB",
    factor: str | None = FACTOR,
    trailing: str = " ",
) -> Sheet:
    """A log. short: a CSV row ends with its last cell that is there; else the absent cells are empty.

    The column line is in key-value logs too. `trailing` is what ends a key-value row.
    """
    sheet = Sheet("cuda-profile")
    sheet.add("comment", f"# {language}_PROFILE_LOG_VERSION {version}", f"# {language}_DEVICE {device}")
    sheet.add("comment", f"# {language}_CONTEXT {context}")
    if as_csv:
        sheet.add("comment", f"# {language}_PROFILE_CSV 1")
    if factor is not None:
        sheet.add("comment", f"# TIMESTAMPFACTOR {factor}")
    sheet.add("header", ",".join(columns))
    for event in events:
        if event.kind not in (KERNEL, MEMCPY, MEMSET):
            continue
        cells = _cells(event)
        if as_csv:
            row = [cells.get(column, "") for column in columns]
            while short and not row[-1]:
                row.pop()
            text = ",".join(row)
        else:
            text = " ".join(f"{column}=[ {cells[column]} ]" for column in columns if column in cells) + trailing
        start = None
        if "gpustarttimestamp" in columns:
            start = EPOCH_NS + event.start
        elif "timestamp" in columns:
            start = event.call_start
        sheet.event(event.kind, text, start, event.dur)
    return sheet


def opencl(events: Sequence[Event]) -> list[Event]:
    """The run as an OpenCL program: its kernels have plain names, and nothing is set or copied within the device."""
    plain = {kernel.nvprof: key for key, kernel in KERNELS.items()}
    out = []
    for event in events:
        if event.kernel is not None:
            out.append(replace(event, kernel=replace(event.kernel, mangled=plain[event.name])))
        elif event.kind == MEMCPY and event.name != "[CUDA memcpy DtoD]":
            out.append(event)
    return out
