"""A run of many ranks, and what `tracekit summary` of its folder costs: time, CPU seconds, memory, and how these grow.

    python -m benchmarks.ranks make FOLDER [--ranks 64] [--events 100000]     Kineto files, .json.gz, a rank each
    python -m benchmarks.ranks time FOLDER [--jobs 2] [-- OPTIONS]            one summary of what is in the folder
    python -m benchmarks.ranks growth FOLDER [--ranks 16,64] [--jobs 2]       makes them, and times one after the other

A few ranks are simulated, each a training with kernels, operators, calls and collectives; the others repeat their
events with a rank, a host and a clock of their own (the base of a Kineto file is in its head, so a rank is a head and
the bytes of a simulated one). Hosts have 8 ranks; their clocks are up to 5 s apart. Peak memory is that of all
processes of the command together, looked at every 50 ms: the sum of RSS counts shared pages once for each process.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import orjson
from isal import igzip

SEEDS = 8
HOST = 8
BASE_NS = 1_790_000_000_000_000_000
LAYERS = 25
BUCKET = 5
"""Layers for each collective."""
OPERATORS = ("aten::linear", "aten::gelu", "aten::native_layer_norm", "aten::softmax", "aten::dropout")
INNER = ("aten::addmm", "aten::mul", "aten::copy_", "aten::empty")
KERNELS = (
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn",
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)>",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float, float const*)",
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*, float const*)",
)
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def body(seed: int, events: int, world: int) -> bytes:
    """Return the events of one simulated rank as the rest of a Kineto file, from `"traceEvents": [` on."""
    rng = np.random.default_rng(seed)
    together = np.random.default_rng(0)  # when collectives end, for all ranks alike
    steps = max(1, round(events / (LAYERS * 25 + LAYERS // BUCKET * 2 + 1)))
    out: list[dict[str, object]] = []
    correlation = 0
    pid = 4000

    def x(cat: str, name: str, ts: int, dur: int, args: dict[str, object], *, device: bool = False) -> None:
        place = {"pid": 0, "tid": 7} if device else {"pid": pid, "tid": pid}
        out.append({"ph": "X", "cat": cat, "name": name, **place, "ts": ts / 1000, "dur": dur / 1000, "args": args})

    begin = 1_000_000
    for step in range(steps):
        at, device_at = begin, begin + 40_000
        for layer in range(LAYERS):
            lengths = rng.lognormal(10, 0.4, 16).astype(np.int64)
            for number, name in enumerate(OPERATORS):
                inner = min(number, 3)
                length = int(lengths[number]) + 6_000
                sequence = {"External id": correlation + 1, "Sequence number": step * LAYERS + layer}
                x("cpu_op", name, at, length, sequence)
                if number < 4:
                    x("cpu_op", INNER[inner], at + 1_000, length - 2_000, {"External id": correlation + 2})
                    correlation += 1
                    x("cuda_runtime", "cudaLaunchKernel", at + 2_000, 3_000, {"correlation": correlation, "cbid": 211})
                    arrow = {"cat": "ac2g", "name": "ac2g", "id": correlation}
                    out.append({"ph": "s", **arrow, "pid": pid, "tid": pid, "ts": (at + 2_000) / 1000})
                    start = max(device_at, at + 8_000)
                    dur = int(lengths[8 + inner])
                    args: dict[str, object] = {"device": 0, "context": 1, "stream": 7, "correlation": correlation}
                    args |= {"grid": [128, 1, 1], "block": [256, 1, 1], "registers per thread": 64}
                    x("kernel", KERNELS[inner], start, dur, args, device=True)
                    out.append({"ph": "f", "bp": "e", **arrow, "pid": 0, "tid": 7, "ts": start / 1000})
                    device_at = start + dur + 500
                at += length + 500
            if layer % BUCKET:
                continue
            correlation += 1
            x("cuda_runtime", "cudaLaunchKernelExC", at, 3_000, {"correlation": correlation, "cbid": 430})
            args = {"device": 0, "context": 1, "stream": 20, "correlation": correlation}
            args |= {"Collective name": "allreduce", "In msg nelems": 4_194_304, "Out msg nelems": 4_194_304}
            args |= {"Group size": world, "dtype": "BFloat16", "Process Group Name": "0", "Seq": step * LAYERS + layer}
            args |= {"Process Group Description": "default_pg"}
            # All leave at the same time: the end is that of the slowest rank's arrival.
            end = begin + (layer + 1) * 600_000 + int(together.integers(20_000, 60_000)) + int(rng.exponential(2_000))
            start = min(max(device_at, at + 8_000), end - 5_000)
            x("kernel", REDUCE, start, end - start, args, device=True)
            at = max(at + 5_000, begin + (layer + 1) * 600_000 - 30_000)
            device_at = max(device_at, at)
        x("user_annotation", f"ProfilerStep#{step + 1}", begin - 1_000, at - begin + 2_000, {"External id": 1})
        begin += LAYERS * 600_000 + 400_000
    text = orjson.dumps(out)
    return b'"traceEvents": ' + text + b"\n}\n"


def make(folder: Path, ranks: int, events: int) -> list[Path]:
    """Write the files of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    offsets = rng.integers(-5_000_000_000, 5_000_000_000, ranks // HOST + 1)
    bodies = [igzip.compress(body(seed, events, ranks)) for seed in range(min(SEEDS, ranks))]
    out = []
    for rank in range(ranks):
        head = {
            "schemaVersion": 1,
            "host_name": f"node{rank // HOST}",
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks},
            "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000}],
            "baseTimeNanoseconds": BASE_NS + int(offsets[rank // HOST]),
        }
        start = orjson.dumps(head)[:-1] + b",\n"
        path = folder / f"rank{rank:05d}.json.gz"
        path.write_bytes(igzip.compress(start) + bodies[rank % len(bodies)])
        out.append(path)
    return out


def rss_of(pid: int) -> dict[int, int]:
    """Return the RSS of a process and of all below it, by pid, in bytes."""
    found: dict[int, int] = {}
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        with contextlib.suppress(OSError, ValueError, IndexError):
            found[one] = int(Path(f"/proc/{one}/statm").read_text().split()[1]) * resource.getpagesize()
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += [int(word) for word in (task / "children").read_text().split()]
    return found


def timed(folder: Path, options: list[str]) -> tuple[float, float, int, int, int, str]:
    """Return seconds, CPU seconds, peak bytes of the command, of its largest worker and of all, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    command = [sys.executable, "-m", "tracekit", "summary", str(folder), *options]
    own = worker = together = 0
    with tempfile.TemporaryFile() as printed:
        with subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT) as process:
            while process.poll() is None:
                found = rss_of(process.pid)
                own = max(own, found.pop(process.pid, 0))
                together = max(together, sum(found.values()) + own)
                worker = max([worker, *found.values()])
                time.sleep(0.05)
        took = time.perf_counter() - begun
        printed.seek(0)
        text = printed.read().decode("utf-8", "replace")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, cpu, own, worker, together, text


def show(ranks: int, figures: tuple[float, float, int, int, int, str]) -> None:
    """Print one line of the table."""
    took, cpu, own, worker, together, _ = figures
    mib = [f"{value / 2**20:,.0f}" for value in (own, worker, together)]
    print(f"{ranks:>7,}{took:>9.1f}{cpu:>9.1f}{mib[0]:>9}{mib[1]:>9}{mib[2]:>9}", flush=True)


HEAD = f"{'ranks':>7}{'s':>9}{'CPU s':>9}{'main':>9}{'worker':>9}{'MiB all':>9}"


def main() -> None:
    """Make a folder, time one summary, or show the growth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "time", "growth"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", default="16")
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--text", action="store_true", help="print what the command printed too")
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given, options = parser.parse_args(sys.argv[1:at]), sys.argv[at + 1 :]
    os.nice(5)
    counts = [int(word) for word in given.ranks.split(",")]
    if given.what == "make":
        made = make(given.folder, counts[0], given.events)
        print(f"{len(made):,} files, {sum(path.stat().st_size for path in made) / 1e6:,.0f} MB")
        return
    print(HEAD)
    if given.what == "time":
        figures = timed(given.folder, options)
        show(len(list(given.folder.glob("rank*"))), figures)
        if given.text:
            print(figures[-1])
        return
    for count in counts:
        folder = given.folder / f"ranks-{count}-{given.events}"
        if not folder.is_dir():
            make(folder, count, given.events)
        figures = timed(folder, options)
        show(count, figures)
        if given.text:
            print(figures[-1])


if __name__ == "__main__":
    main()
