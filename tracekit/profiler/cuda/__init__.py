"""`cuda_profiler`: the kernels and copies of a region, as the log of CUDA's old command-line profiler.

    with cuda_profiler("cuda_profiler.txt", "csv"):
        for batch in loader:
            step(batch)

    $ tracekit convert cuda_profiler.txt -o trace.json

CUDA no longer has that profiler; this one collects through CUPTI where a driver and the package cupti-python are
(`pip install 'tracekit-gpu[cupti]'`). Where the package is missing it brackets the region with cudaProfilerStart and
cudaProfilerStop, if the program has loaded the CUDA runtime (looked up on Linux), so that
`nsys profile --capture-range=cudaProfilerApi` records just the region. Without CUDA it records the region as a range
of the recorder alone. It says on stderr, once, which of the three it did when it was not the first.

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
from tracekit.profiler._say import Once
from tracekit.profiler.cuda._legacy_log import layout_of, write_log

DEFAULT_CONFIG: Final = (
    "gpustarttimestamp", "gpuendtimestamp", "gridsize3d", "threadblocksize", "streamid", "enableonstart 0",
    "conckerneltrace",
)  # fmt: skip
"""What is collected unless told; the published documentation repeats gpustarttimestamp in place of gpuendtimestamp."""

_once: Final = Once()


@dataclass(slots=True)
class Region:
    """What became of a region. how: "cupti", "bracket" or "host". log: the file, None where none was written.

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
    """Profile the block on the GPUs; write `output_file` as key-value pairs ("kvp") or "csv" (unless told).

    config: options of the command-line profiler, which name the columns. They are fulfilled as far as CUPTI's
    activity records go; the others (hardware counters) are named on stderr. A log that cannot be written costs itself.
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
        _once(f"cuda_profiler: not collected: {', '.join(layout.unknown)}")
    for what, count in collected.lost.items():
        _once(f"cuda_profiler: {count:,} {what} are lost")
    region.kernels = sum(work.kind == "kernel" for work in collected.work)
    region.copies = len(collected.work) - region.kernels
    try:
        renamed = write_log(collected, path, mode=mode, layout=layout)
    except OSError as error:
        _once(f"cuda_profiler: {path} is not written: {error}")
        return
    region.log = path
    if renamed:
        _once(f"cuda_profiler: {len(renamed)} kernel names hold what {mode} cannot, and are written otherwise")


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
        _once(f"cuda_profiler: {reason}: the region is bracketed with cudaProfilerStart and Stop, no log is written")
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
            _once(f"cuda_profiler: {error}")
    where = log or recorder.log_path()
    _once(f"cuda_profiler: {reason}: the host's range alone is recorded{f', in {where}' if where else ''}")
    try:
        with recorder.range("cuda_profiler"):
            yield Region("host", log)
    finally:
        if log is not None:
            recorder.stop()
