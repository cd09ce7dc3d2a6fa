"""`cuda_profiler`: the kernels and copies of a region, as the log of CUDA's old command-line profiler.

    with cuda_profiler("cuda_profiler.txt", "csv"):
        for batch in loader:
            step(batch)

    $ tracekit convert cuda_profiler.txt -o trace.json

CUDA no longer has that profiler; this one collects through CUPTI where a driver and the package cupti-python are
(`pip install 'tracekit-gpu[cupti]'`). Where the package is missing but the program has loaded the CUDA runtime (looked
up on Linux), it brackets the region with cudaProfilerStart and cudaProfilerStop. Then
`nsys profile --capture-range=cudaProfilerApi` records just the region. Without CUDA it only records the region as a
range of the recorder. When it does not collect through CUPTI, a note on stderr says once what it did instead.

Source: fluid/profiler.py of Paddle 1.x (defaults, errors).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from tracekit import recorder
from tracekit.profiler import _cupti
from tracekit.profiler._cupti import Collected, CuptiWork
from tracekit.profiler._window import NoteOnce

__all__ = [
    "BEFORE_TIMES",
    "DEFAULT_CONFIG",
    "OPTIONS",
    "WITHOUT_COLUMN",
    "Cell",
    "LogLayout",
    "Region",
    "cuda_profiler",
    "layout_of",
    "microseconds",
    "write_log",
]

# The log of CUDA's command-line profiler, version 2.0, written from the records of CUPTI.
#
#     # CUDA_PROFILE_LOG_VERSION 2.0
#     # CUDA_DEVICE 0 NVIDIA H200
#     # CUDA_CONTEXT 1
#     # CUDA_PROFILE_CSV 1
#     method,gpustarttimestamp,gpuendtimestamp,gputime,cputime,gridsizeX,gridsizeY,gridsizeZ,...
#     memcpyHtoD,13e224f5a60f82e0,13e224f5a6148ae0,328.192,739.000,,,...
#
# Time stamps are hexadecimal ns since the Unix epoch, gputime and cputime us; key-value rows are `key=[ value ] ` and
# leave out what they do not have. The format holds one context a file: several contexts are blocks with headers of
# their
# own. `cputime` is the duration of the call that launched the work; `occupancy` and hardware counters are not
# collected.
#
# Source: the Compute Command Line Profiler User Guide (options and columns), and real logs of version 1 and 2.


Cell = Callable[[CuptiWork, int], object]
"""Makes a cell from a row's work and the start of the first work; None: the row has no such cell."""


def _axis(shape_name: str, axis: int) -> Cell:
    def cell(work: CuptiWork, _: int) -> object:
        shape = work.grid if shape_name == "grid" else work.block
        return None if shape is None else shape[axis]

    return cell


def _direction(work: CuptiWork, _: int) -> object:
    return {"HtoD": 0, "DtoH": 1}.get(work.copy_kind)


def _host_memory(work: CuptiWork, _: int) -> object:
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
class LogLayout:
    """Columns of a log. unknown: options that cannot be collected here (hardware counters among them)."""

    columns: tuple[tuple[str, Cell], ...]
    unknown: tuple[str, ...]


def layout_of(config: Sequence[str]) -> LogLayout:
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
    return LogLayout(columns, unknown)


def write_log(collected: Collected, path: Path, *, mode: str, layout: LogLayout) -> set[str]:
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


def _lines(collected: Collected, mode: str, layout: LogLayout, renamed: set[str]) -> Iterator[str]:
    calls = {call.correlation: call.end_ns - call.start_ns for call in collected.calls}
    first_ns = min((work.start_ns for work in collected.work), default=0)
    before = [column for column in layout.columns if column[0] in BEFORE_TIMES]
    after = [column for column in layout.columns if column[0] not in BEFORE_TIMES]
    names = ["method", *(name for name, _ in before), "gputime", "cputime", *(name for name, _ in after)]

    def place(work: CuptiWork) -> tuple[int, int]:
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


def _method(work: CuptiWork, mode: str, renamed: set[str]) -> str:
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


DEFAULT_CONFIG: Final = (
    "gpustarttimestamp",
    "gpuendtimestamp",
    "gridsize3d",
    "threadblocksize",
    "streamid",
    "enableonstart 0",
    "conckerneltrace",
)
"""The default options; the published documentation repeats gpustarttimestamp in place of gpuendtimestamp."""

_note_once: Final = NoteOnce()


@dataclass(slots=True)
class Region:
    """The outcome of a region. how: "cupti", "bracket" or "host". log: the file, None where none was written.

    kernels, copies (memsets too): how many the log holds, once the region is over.
    """

    how: str
    log: Path | None = None
    kernels: int = 0
    copies: int = 0


@contextmanager
def cuda_profiler(
    output_file: str | os.PathLike[str], output_mode: str | None = None, config: Sequence[str] | None = None
) -> Iterator[Region]:
    """Profile the block on the GPUs; write `output_file` as key-value pairs ("kvp") or "csv" (the default).

    config: options of the command-line profiler, which name the columns. Options that CUPTI's activity records cannot
    fill (hardware counters) are named on stderr. A log that cannot be written is lost; the program goes on.
    Raises: ValueError for another mode, on entry.
    """
    mode = "csv" if output_mode is None else output_mode
    if mode not in ("kvp", "csv"):
        raise ValueError("The output mode must be 'kvp' or 'csv'.")
    options = DEFAULT_CONFIG if config is None else tuple(config)
    try:
        collector = _cupti.Collector(_cupti.load(), api=True)
        collector.start()
    except _cupti.CuptiUnavailableError as error:
        with _without_cupti(Path(output_file), str(error)) as region:
            yield region
        return
    region = Region("cupti")
    try:
        with recorder.range("cuda_profiler"):
            yield region
    finally:
        _finish(region, collector.stop(), Path(output_file), mode, options)


def _finish(region: Region, collected: _cupti.Collected, path: Path, mode: str, options: Sequence[str]) -> None:
    layout = layout_of(options)
    if layout.unknown:
        _note_once(f"cuda_profiler: not collected: {', '.join(layout.unknown)}")
    for what, count in collected.lost.items():
        _note_once(f"cuda_profiler: {count:,} {what} are lost")
    region.kernels = sum(work.kind == "kernel" for work in collected.work)
    region.copies = len(collected.work) - region.kernels
    try:
        renamed = write_log(collected, path, mode=mode, layout=layout)
    except OSError as error:
        _note_once(f"cuda_profiler: {path} is not written: {error}")
        return
    region.log = path
    if renamed:
        _note_once(f"cuda_profiler: {len(renamed)} kernel names hold what {mode} cannot, and are written otherwise")


def _runtime() -> ctypes.CDLL | None:
    """Return the CUDA runtime that the program has loaded, if it has these two functions."""
    path = _cupti.loaded_runtime()
    try:
        runtime = ctypes.CDLL(path) if path is not None else None
    except OSError:
        return None
    return runtime if hasattr(runtime, "cudaProfilerStart") and hasattr(runtime, "cudaProfilerStop") else None


@contextmanager
def _without_cupti(path: Path, reason: str) -> Iterator[Region]:
    runtime = _runtime()
    if runtime is not None:
        _note_once(
            f"cuda_profiler: {reason}: the region is bracketed with cudaProfilerStart and Stop, no log is written"
        )
        runtime.cudaProfilerStart()
        try:
            with recorder.range("cuda_profiler"):
                yield Region("bracket")
        finally:
            runtime.cudaProfilerStop()
        return
    log = None
    if not recorder.is_recording():
        try:
            log = recorder.start(path.with_name(f"{path.name}.host.jsonl"))
        except OSError as error:
            _note_once(f"cuda_profiler: {error}")
    where = log or recorder.log_path()
    _note_once(f"cuda_profiler: {reason}: the host's range alone is recorded{f', in {where}' if where else ''}")
    try:
        with recorder.range("cuda_profiler"):
            yield Region("host", log)
    finally:
        if log is not None:
            recorder.stop()
