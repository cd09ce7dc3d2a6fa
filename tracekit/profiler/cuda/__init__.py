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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tracekit import recorder
from tracekit.profiler import _cupti
from tracekit.profiler._notes import NoteOnce
from tracekit.profiler.cuda._legacy_log import layout_of, write_log

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
