"""Write big inputs for the benchmarks: the same model of a GPU at work, in three formats, in bounded memory.

    python benchmarks/generate.py CACHE [--rows N] [--kind nvprof-csv|nvprof-overlaps|cuda-kvp|cuda-csv]...

Rows are made in chunks of 100,000, each from its own seed, so 20 million rows need no more memory than one chunk.
Beside each file stands NAME.truth.json: its rows, kernels, copies and the exact sum of durations, for the checks.
A file is renamed into place when it is whole; one that is there already is kept.

The model: 200 kernel names drawn by a Zipf law, 8 % copies, four streams on each device, starts strictly increasing,
launch shapes nearly all distinct (harder on dictionaries than any real file seen), registers and shared memory a fact
of the kernel. Durations are ticks of 32 ns, 6 % one ns off, as the clocks of many GPUs tick (files differ). A stream
does one thing at a time, but one row in a thousand ends 37 ns after the next one's start, as converted device clocks
do: such rows need a lane of their own.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

CHUNK = 100_000
SEED = 7
EPOCH_NS = 1_600_000_000_000_000_000  # start of the clock in the logs of the command line profiler
FIRST_NS = 412_000_000  # nvprof counts from the first profiled moment; creating the context takes its time
PID = 4242
DEVICE = "Tesla V100-SXM2-16GB"
VERSION = 2  # part of the file names: raise it when the bytes change

Columns = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class Names:
    """A kernel's name as nvprof prints it and as the linker knows it."""

    printed: list[str]
    mangled: list[str]


def kernel_names() -> Names:
    """200 names: half plain assembly kernels and C++ functions, half templates with commas and nested brackets."""
    printed, mangled = [], []
    for n in range(200):
        if n % 4 == 0:
            word = f"elementwise_{n}"
            printed.append(f"void {word}<int={n}, float, at::Array<char*, int=3>>(int, float const *, float*)")
            mangled.append(f"_Z{len(word)}{word}ILi{n}EfN2at5ArrayIPcLi3EEEEviPKT0_PS4_")
        elif n % 4 == 1:
            word = f"cutlass_{n}_tensorop_s1688gemm_128x{32 * (n % 7 + 1)}_tn"
            printed.append(f"void cutlass::Kernel<{word}>(cutlass::Params)")
            mangled.append(f"_ZN7cutlass6KernelI{len(word)}{word}EEvNS_6ParamsE")
        elif n % 4 == 2:
            printed.append(f"volta_sgemm_{32 * (n % 5 + 1)}x{64 * (n % 3 + 1)}_nn_{n}")
            mangled.append(printed[-1])
        else:
            word = f"batch_norm_{n}"
            printed.append(f"void {word}<float, float, int=512, bool=1>(float const *, float*, float, float)")
            mangled.append(f"_Z{len(word)}{word}IffLi512ELb1EEvPKT_PT0_S3_S3_")
    return Names(printed, mangled)


def model(rows: int, devices: int, overlapping: float = 0.001) -> Iterator[Columns]:
    """Chunks of device work in order of start. Times are ns, sizes bytes; `lane` is device * 4 + stream number.

    overlapping: the share of rows that end after the next one of their stream has started.
    """
    clock = FIRST_NS
    for number, first in enumerate(range(0, rows, CHUNK)):
        count = min(CHUNK, rows - first)
        draw = np.random.default_rng([SEED, number])
        start = clock + np.cumsum(draw.integers(200, 9000, count))
        clock = int(start[-1]) + 1_000_000
        dur = 32 * (22 + (draw.lognormal(8.3, 1.1, count) / 32).astype(np.int64)) + (draw.random(count) < 0.06)
        lane = draw.integers(0, 4 * devices, count)
        overlaps = draw.random(count) < overlapping
        for one in range(4 * devices):
            of_lane = np.flatnonzero(lane == one)
            after = np.append(start[of_lane[1:]], clock - 100_000)
            room = after - start[of_lane]
            clipped = np.minimum(dur[of_lane], np.maximum(room - 300, 1))
            dur[of_lane] = np.where(overlaps[of_lane], room + 37, clipped)
        columns: Columns = {
            "start": start,
            "dur": dur,
            "device": lane // 4,
            "stream": 7 + lane % 4,
            "name": (draw.zipf(1.3, count) - 1) % 200,
            "is_copy": draw.random(count) < 0.08,
            "to_device": draw.random(count) < 0.5,
            "bytes": 4 * draw.integers(1, 1 << 22, count),
            "correlation": np.arange(first + 100, first + 100 + count),
            "call_ns": draw.integers(1500, 9000, count),
        }
        # what the compiler fixes is the same in each launch of a kernel; most kernels use no shared memory
        columns["registers"] = 16 + columns["name"] * 37 % 112
        columns["static_smem"] = np.where(columns["name"] % 4 == 1, 1024 + columns["name"] * 64, 0)
        columns["dynamic_smem"] = np.where(columns["name"] % 5 == 2, columns["name"] * 128, 0)
        for axis, most in (("grid_x", 4000), ("grid_y", 8), ("grid_z", 2)):
            columns[axis] = draw.integers(1, most + 1, count)
        columns["block_x"] = 32 << draw.integers(0, 5, count)
        columns["block_y"] = 1 << draw.integers(0, 2, count)
        columns["block_z"] = np.ones(count, np.int64)
        yield columns


# ---- text of whole columns


def _text(values: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(values).cast(pa.string())


def _decimal(values: np.ndarray[Any, Any], places: int) -> pa.Array:
    """An integer count of 10**-places, written with that many decimals."""
    whole, rest = np.divmod(values, 10**places)
    return pc.binary_join_element_wise(_text(whole), pc.utf8_lpad(_text(rest), places, "0"), ".")


def _kilobytes(values: np.ndarray[Any, Any]) -> pa.Array:
    return _decimal((values * 10**6 + 512) // 1024, 6)


def _hexadecimal(values: np.ndarray[Any, Any]) -> pa.Array:
    pairs = np.array([b"%02x" % n for n in range(256)])
    digits = pairs[values.astype(">u8").view(np.uint8)]
    return pa.array(digits.view("S16").reshape(-1)).cast(pa.string())


def _choose(values: list[str], indices: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(values).take(pa.array(indices))


def _only(mask: np.ndarray[Any, Any], values: pa.Array) -> pa.Array:
    """The values where the mask is true, else empty cells."""
    return pc.if_else(pa.array(mask), values, "")


def _lines(cells: list[pa.Array], separator: str) -> memoryview:
    """The bytes of all rows: an Arrow string array keeps its strings one after another."""
    rows = pc.binary_join_element_wise(*cells[:-1], pc.binary_join_element_wise(cells[-1], "\n", ""), separator)
    offsets = np.frombuffer(rows.buffers()[1], np.int32)
    return memoryview(rows.buffers()[2])[offsets[rows.offset] : offsets[rows.offset + len(rows)]]


# ---- the formats

NVPROF_COLUMNS = [
    "Start",
    "Duration",
    "Grid X",
    "Grid Y",
    "Grid Z",
    "Block X",
    "Block Y",
    "Block Z",
    "Registers Per Thread",
    "Static SMem",
    "Dynamic SMem",
    "Size",
    "Throughput",
    "SrcMemType",
    "DstMemType",
    "Device",
    "Context",
    "Stream",
    "Name",
    "Correlation_ID",
]
SHAPE = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]
COMMAND = "python train.py --lr 0.1, --steps 3"


def nvprof_csv(rows: int, overlapping: float = 0.001) -> Iterator[tuple[Columns, list[bytes | memoryview]]]:
    """`--print-gpu-trace --csv` of CUDA 9 and later: Start in ms, Duration in us, and a warning now and then."""
    names = [f'"{name}"' for name in kernel_names().printed] + ['"[CUDA memcpy HtoD]"', '"[CUDA memcpy DtoH]"']
    head = (
        f"=={PID}== NVPROF is profiling process {PID}, command: {COMMAND}\n"
        f"=={PID}== Profiling application: {COMMAND}\n"
        f"=={PID}== Profiling result:\n"
        + ",".join(f'"{name}"' for name in NVPROF_COLUMNS)
        + "\nms,us,,,,,,,,KB,KB,KB,GB/s,,,,,,,\n"
    )
    warning = f"=={PID}== Warning: 3 records have invalid timestamps due to insufficient device buffer space.\n"
    for number, c in enumerate(model(rows, 2, overlapping)):
        copy, kernel = c["is_copy"], ~c["is_copy"]
        rate = np.rint(c["bytes"] / c["dur"] * (1e15 / 2**30)).astype(np.int64)
        cells = [
            _decimal(c["start"], 6),
            _decimal(c["dur"] * 1000, 6),
            *(_only(kernel, _text(c[axis])) for axis in SHAPE),
            _only(kernel, _text(c["registers"])),
            *(_only(kernel, _kilobytes(c[column])) for column in ("static_smem", "dynamic_smem")),
            _only(copy, _kilobytes(c["bytes"])),
            _only(copy, _decimal(rate, 6)),
            _only(copy, _choose(['"Device"', '"Pageable"'], c["to_device"].astype(int))),
            _only(copy, _choose(['"Pageable"', '"Device"'], c["to_device"].astype(int))),
            _choose([f'"{DEVICE} ({n})"' for n in range(2)], c["device"]),
            pa.array(['"1"'] * len(copy)),
            _choose([f'"{n}"' for n in range(11)], c["stream"]),
            _choose(names, np.where(copy, 201 - c["to_device"], c["name"])),
            _text(c["correlation"]),
        ]
        before = head if number == 0 else warning if number % 3 == 2 else ""
        yield c, [before.encode(), _lines(cells, ",")]


LOG_COLUMNS = [
    "gpustarttimestamp",
    "gpuendtimestamp",
    "method",
    "gputime",
    "cputime",
    "gridsizeX",
    "gridsizeY",
    "gridsizeZ",
    "threadblocksizeX",
    "threadblocksizeY",
    "threadblocksizeZ",
    "streamid",
]


def _log(rows: int, *, as_csv: bool) -> Iterator[tuple[Columns, list[bytes | memoryview]]]:
    names = [*kernel_names().mangled, "memcpyHtoDasync", "memcpyDtoHasync"]
    head = f"# CUDA_PROFILE_LOG_VERSION 2.0\n# CUDA_DEVICE 0 {DEVICE}\n# CUDA_CONTEXT 1\n"
    head += ("# CUDA_PROFILE_CSV 1\n" if as_csv else "") + "# TIMESTAMPFACTOR 13d97a5aea505c75\n"
    head += ",".join(LOG_COLUMNS) + "\n"
    for number, c in enumerate(model(rows, devices=1)):
        kernel = ~c["is_copy"]
        values = [
            _hexadecimal(c["start"] + EPOCH_NS),
            _hexadecimal(c["start"] + c["dur"] + EPOCH_NS),
            _choose(names, np.where(kernel, c["name"], 201 - c["to_device"])),
            _decimal(c["dur"], 3),
            _decimal(c["call_ns"], 3),
            *(_text(c[axis]) for axis in SHAPE),
            _text(c["stream"]),
        ]
        if not as_csv:
            values = [
                pc.binary_join_element_wise(f"{key}=[ ", value, " ] ", "")
                for key, value in zip(LOG_COLUMNS, values, strict=True)
            ]
        values[5:11] = [_only(kernel, value) for value in values[5:11]]
        yield c, [head.encode() if number == 0 else b"", _lines(values, "," if as_csv else "")]


def cuda_kvp(rows: int) -> Iterator[tuple[Columns, list[bytes | memoryview]]]:
    """The command line profiler's key-value log with the columns that Paddle asks for; a copy has no launch shape."""
    return _log(rows, as_csv=False)


def cuda_csv(rows: int) -> Iterator[tuple[Columns, list[bytes | memoryview]]]:
    """The same log as CSV: a copy has empty cells."""
    return _log(rows, as_csv=True)


KINDS: dict[str, tuple[str, Callable[[int], Iterator[tuple[Columns, list[bytes | memoryview]]]]]] = {
    "nvprof-csv": (".csv", nvprof_csv),
    "nvprof-overlaps": (".csv", partial(nvprof_csv, overlapping=0.07)),
    "cuda-kvp": (".log", cuda_kvp),
    "cuda-csv": (".log", cuda_csv),
}


def generate(cache: Path, kind: str, rows: int) -> Path:
    """Write the file unless it is there; return its path."""
    suffix, chunks = KINDS[kind]
    path = cache / f"{kind}-{rows}-v{VERSION}{suffix}"
    if path.exists():
        return path
    cache.mkdir(parents=True, exist_ok=True)
    truth = dict.fromkeys(("rows", "kernels", "copies", "sum_dur_ns"), 0)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        for columns, texts in chunks(rows):
            for text in texts:
                file.write(text)
            truth["rows"] += len(columns["dur"])
            truth["copies"] += int(columns["is_copy"].sum())
            truth["sum_dur_ns"] += int(columns["dur"].sum())
    truth["kernels"] = truth["rows"] - truth["copies"]
    path.with_name(path.name + ".truth.json").write_text(json.dumps(truth) + "\n", encoding="utf-8")
    part.replace(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path, help="folder of the files")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="may be given several times; default: all")
    given = parser.parse_args()
    for kind in given.kind or KINDS:
        print(generate(given.cache, kind, given.rows))


if __name__ == "__main__":
    main()
