"""The log of CUDA's command-line profiler, version 2.0, written from the records of CUPTI.

    # CUDA_PROFILE_LOG_VERSION 2.0
    # CUDA_DEVICE 0 NVIDIA H200
    # CUDA_CONTEXT 1
    # CUDA_PROFILE_CSV 1
    method,gpustarttimestamp,gpuendtimestamp,gputime,cputime,gridsizeX,gridsizeY,gridsizeZ,...
    memcpyHtoD,13e224f5a60f82e0,13e224f5a6148ae0,328.192,739.000,,,...

Time stamps are hexadecimal ns since the Unix epoch, gputime and cputime us; key-value rows are `key=[ value ] ` and
leave out what they do not have. The format holds one context a file: several contexts are blocks with headers of their
own. `cputime` is the duration of the call that launched the work; `occupancy` and hardware counters are not collected.

Source: the Compute Command Line Profiler User Guide (options and columns), and real logs of version 1 and 2.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from tracekit.profiler._cupti import Collected, Work

Cell = Callable[[Work, int], object]
"""Makes a cell from a row's work and the start of the first work; None: the row has no such cell."""


def _axis(shape_name: str, axis: int) -> Cell:
    def cell(work: Work, _: int) -> object:
        shape = work.grid if shape_name == "grid" else work.block
        return None if shape is None else shape[axis]

    return cell


def _direction(work: Work, _: int) -> object:
    return {"HtoD": 0, "DtoH": 1}.get(work.copy_kind)


def _host_memory(work: Work, _: int) -> object:
    memory = work.source_memory if work.copy_kind.startswith("H") else work.target_memory
    return {"pageable": 0, "pinned": 1}.get(memory) if "H" in work.copy_kind else None


OPTIONS: Final[Mapping[str, tuple[tuple[str, Cell], ...]]] = {
    "timestamp": (("timestamp", lambda work, first: microseconds(work.start_ns - first)),),
    "gpustarttimestamp": (("gpustarttimestamp", lambda work, _: f"{work.start_ns:x}"),),
    "gpuendtimestamp": (("gpuendtimestamp", lambda work, _: f"{work.end_ns:x}"),),
    "gridsize": (("gridsizeX", _axis("grid", 0)), ("gridsizeY", _axis("grid", 1))),
    "gridsize3d": tuple((f"gridsize{name}", _axis("grid", axis)) for axis, name in enumerate("XYZ")),
    "threadblocksize": tuple((f"threadblocksize{name}", _axis("block", axis)) for axis, name in enumerate("XYZ")),
    "dynsmemperblock": (("dynsmemperblock", lambda work, _: work.dynamic_smem),),
    "stasmemperblock": (("stasmemperblock", lambda work, _: work.static_smem),),
    "regperthread": (("regperthread", lambda work, _: work.registers),),
    "streamid": (("streamid", lambda work, _: work.stream),),
    "memtransfersize": (("memtransfersize", lambda work, _: work.size),),
    "memtransferdir": (("memtransferdir", _direction),),
    "memtransferhostmemtype": (("memtransferhostmemtype", _host_memory),),
}
"""Columns of each option, in the driver's order, which is not that of the request."""

BEFORE_TIMES: Final = ("timestamp", "gpustarttimestamp", "gpuendtimestamp")
WITHOUT_COLUMN: Final = ("enableonstart", "conckerneltrace", "profilelogformat", "countermodeaggregate")


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of a log. unknown: options that cannot be collected here (hardware counters among them)."""

    columns: tuple[tuple[str, Cell], ...]
    unknown: tuple[str, ...]


def layout_of(config: Sequence[str]) -> Layout:
    """Return the columns that the options name. An option is a word, or a word and a value; # begins a remark.

    >>> [name for name, _ in layout_of(["streamid", "gpustarttimestamp", "conckerneltrace"]).columns]
    ['gpustarttimestamp', 'streamid']
    """
    words = [words[0] for words in (line.partition("#")[0].split() for line in config) if words]
    asked = [word for word in words if word in OPTIONS]
    if "gridsize3d" in asked:
        asked = [word for word in asked if word != "gridsize"]
    columns = tuple(column for option, cells in OPTIONS.items() if option in asked for column in cells)
    unknown = tuple(dict.fromkeys(word for word in words if word not in OPTIONS and word not in WITHOUT_COLUMN))
    return Layout(columns, unknown)


def write_log(collected: Collected, path: Path, *, mode: str, layout: Layout) -> set[str]:
    """Write the log whole, replacing a file there; return the names that the format could not hold as they are.

    mode: "kvp" or "csv". Raises: OSError.
    """
    renamed: set[str] = set()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.writelines(_lines(collected, mode, layout, renamed))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return renamed


def _lines(collected: Collected, mode: str, layout: Layout, renamed: set[str]) -> Iterator[str]:
    calls = {call.correlation: call.end_ns - call.start_ns for call in collected.calls}
    first_ns = min((work.start_ns for work in collected.work), default=0)
    before = [column for column in layout.columns if column[0] in BEFORE_TIMES]
    after = [column for column in layout.columns if column[0] not in BEFORE_TIMES]
    names = ["method", *(name for name, _ in before), "gputime", "cputime", *(name for name, _ in after)]

    def place(work: Work) -> tuple[int, int]:
        return work.device, work.context

    blocks = {key: list(works) for key, works in groupby(sorted(collected.work, key=place), key=place)}
    # A log without rows still has its header.
    for (device, context), works in (blocks or {(min(collected.devices, default=0), 1): []}).items():
        yield from _head(device, context, collected.devices, mode)
        yield ",".join(names) + "\n"
        for work in works:
            method = _method(work, mode, renamed)
            launch = calls.get(work.correlation)
            cells = [
                method,
                *(cell(work, first_ns) for _, cell in before),
                microseconds(work.end_ns - work.start_ns),
                None if launch is None else microseconds(launch),
                *(cell(work, first_ns) for _, cell in after),
            ]
            yield _row(names, cells, mode)


def _head(device: int, context: int, devices: Mapping[int, str], mode: str) -> Iterator[str]:
    yield "# CUDA_PROFILE_LOG_VERSION 2.0\n"
    yield f"# CUDA_DEVICE {device} {' '.join(devices.get(device, '').split())}".rstrip() + "\n"
    yield f"# CUDA_CONTEXT {context}\n"
    if mode == "csv":
        yield "# CUDA_PROFILE_CSV 1\n"


def _method(work: Work, mode: str, renamed: set[str]) -> str:
    if work.kind != "kernel":
        return work.name + ("async" if work.is_async else "")
    name = " ".join(work.name.split())
    name = name.replace(",", ";") if mode == "csv" else name.replace(" ]", "]")
    if name != work.name:
        renamed.add(work.name)
    return name


def _row(names: Sequence[str], cells: Sequence[object], mode: str) -> str:
    if mode == "csv":
        return ",".join("" if cell is None else str(cell) for cell in cells) + "\n"
    pairs = zip(names, cells, strict=True)
    return "".join(f"{name}=[ {cell} ] " for name, cell in pairs if cell is not None) + "\n"


def microseconds(ns: int) -> str:
    """Return ns as us with 3 decimals, exact.

    >>> microseconds(328192)
    '328.192'
    """
    return f"{ns // 1000}.{ns % 1000:03d}"
