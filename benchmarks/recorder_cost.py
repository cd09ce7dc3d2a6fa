"""The cost of a recorded range, beside `nvtx.annotate` and others: medians of interleaved rounds, bytes an event.

    python benchmarks/recorder_cost.py [--rounds 41] [--ranges 20000] [--check]

Each variant runs in a process of its own, because recording is a property of the process. They take turns:
nvtx.annotate, a variant, nvtx.annotate, the next ..., again and again; a ratio is the median of the ratios of
neighbours, so that a slow second of the machine hits both. Figures are CPU time, because on a shared machine the wall
clock measures the neighbours too.

- "The caller": CPU time of the thread that records. A round is a tight loop, as no program has one, short enough (some
  7 ms) that the flusher is at work in a few rounds only.
- "The process": CPU time of all threads, the flusher's part included, in rounds 10 times as long: with 1, 10 and 100
  threads, each beside nvtx.annotate in as many threads.
- With gcc, what the caller pays while an NVTX tool is attached.

torch's record_function (while torch.profiler records the CPU) and viztracer's log_event are measured where these
packages are.

--check: exit code 1 if the plain range costs more than 1.2 x nvtx.annotate, a payload 2.5 x a plain range, or a name
that is used once 3 x one that comes again; or if an event takes more than 36 bytes.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import orjson

HERE = Path(__file__).resolve().parent
TOOL_SOURCE = HERE.parent / "tests" / "recorder" / "nvtx_log.c"
MAX_RATIO = 1.2
MAX_PAYLOAD_RATIO = 2.5
MAX_NEW_RATIO = 3.0
MAX_BYTES = 36
BASE = "nvtx.annotate"
PLAIN = "log and NVTX"
KNOWN = "log alone, 10 names made in the loop"
NEW = "log alone, each name once"
Loop = Callable[[int], None]


def empty() -> Loop:
    class Nothing:
        __slots__ = ()

        def __enter__(self) -> Nothing:
            return self

        def __exit__(self, *error: object) -> None:
            return None

    nothing = Nothing()

    def loop(count: int) -> None:
        for _ in [None] * count:
            with nothing:
                pass

    return loop


def annotate() -> Loop:
    import nvtx

    make = nvtx.annotate

    def loop(count: int) -> None:
        for _ in [None] * count:
            with make("forward"):
                pass

    return loop


def recorded(target: str | None, *, nvtx: bool) -> Loop:
    from tracekit import recorder

    if target is not None or nvtx:
        recorder.start(target, nvtx=nvtx)
    make = recorder.range

    def loop(count: int) -> None:
        for _ in [None] * count:
            with make("forward"):
                pass

    return loop


def payload() -> Loop:
    from tracekit import recorder

    recorder.start("log.jsonl")

    def loop(count: int) -> None:
        for number in range(count):
            with recorder.range("forward", payload={"n": number}):
                pass

    return loop


def kind() -> Loop:
    from tracekit import recorder

    recorder.start("log.jsonl")

    def loop(count: int) -> None:
        for _ in [None] * count:
            with recorder.range("forward", kind="forward"):
                pass

    return loop


def hoisted() -> Loop:
    from tracekit import recorder

    recorder.start("log.jsonl")
    kept = recorder.range("forward")

    def loop(count: int) -> None:
        for _ in [None] * count:
            with kept:
                pass

    return loop


def named(*, known: int | None) -> Loop:
    """Return a loop over names that it makes: so many that come again, or none of them ever before."""
    from tracekit import recorder

    recorder.start("log.jsonl", nvtx=False)
    make = recorder.range
    first = 0

    def loop(count: int) -> None:
        nonlocal first
        for number in range(first, first + count):
            with make(f"name {number if known is None else number % known}"):
                pass
        first += count

    return loop


def in_task() -> Loop:
    import asyncio

    from tracekit import recorder

    recorder.start("log.jsonl")

    async def work(count: int) -> None:
        for _ in [None] * count:
            with recorder.range("forward"):
                pass

    return lambda count: asyncio.run(work(count))


def record_function() -> Loop:
    import torch

    torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]).__enter__()
    make = torch.profiler.record_function

    def loop(count: int) -> None:
        for _ in [None] * count:
            with make("forward"):
                pass

    return loop


def viztracer() -> Loop:
    import viztracer

    tracer = viztracer.VizTracer(max_stack_depth=0, ignore_c_function=True, verbose=0)
    tracer.start()
    make = tracer.log_event

    def loop(count: int) -> None:
        for _ in [None] * count:
            with make("forward"):
                pass

    return loop


def threaded(make: Callable[[], Loop], threads: int) -> Callable[[], Loop]:
    """Return a maker of the same loop on threads that live as long as the process."""

    def start() -> Loop:
        loop = make()
        counts: list[int] = []
        begin, end = threading.Barrier(threads + 1), threading.Barrier(threads + 1)

        def work() -> None:
            while True:
                begin.wait()
                loop(counts[-1] // threads)
                end.wait()

        for _ in range(threads):
            threading.Thread(target=work, daemon=True).start()

        def run(count: int) -> None:
            counts.append(count)
            begin.wait()
            end.wait()

        return run

    return start


THREADS = (1, 10, 100)
PEERS: dict[str, Callable[[], Loop]] = {"torch record_function": record_function, "viztracer log_event": viztracer}
VARIANTS: dict[str, Callable[[], Loop]] = {
    BASE: annotate,
    "empty with": empty,
    "recorder off": lambda: recorded(None, nvtx=False),
    PLAIN: lambda: recorded("log.jsonl", nvtx=True),
    "log and NVTX, kept range": hoisted,
    "log and NVTX, with a kind": kind,
    "log alone": lambda: recorded("log.jsonl", nvtx=False),
    "NVTX alone": lambda: recorded(None, nvtx=True),
    KNOWN: lambda: named(known=10),
    NEW: lambda: named(known=None),
    "payload": payload,
    "in an asyncio task": in_task,
    **{name: make for name, make in PEERS.items() if importlib.util.find_spec(name.split()[0])},
}
THREADED: dict[int, dict[str, Callable[[], Loop]]] = {
    count: {
        f"{name}, {count} thread{'' if count == 1 else 's'}": threaded(VARIANTS[name], count)
        for name in (BASE, PLAIN, *PEERS)
        if name in VARIANTS
    }
    for count in THREADS
}
MAKERS = VARIANTS | {name: make for group in THREADED.values() for name, make in group.items()}


def worker(name: str, folder: str) -> None:
    """Run rounds as they are asked for on stdin; answer ns of CPU a range."""
    os.chdir(folder)
    loop = MAKERS[name]()
    now = time.thread_time_ns if name in VARIANTS else time.process_time_ns
    loop(2000)
    from tracekit import recorder

    print("ready", flush=True)
    for line in sys.stdin:
        count = int(line)
        if not count:
            break
        begun = now()
        loop(count)
        if name not in VARIANTS:
            recorder.flush()
        took = now() - begun
        recorder.flush()
        print(took / count, flush=True)
    recorder.stop()
    sys.stdout.flush()
    os._exit(0)  # a profiler would now spend minutes on its own results


class Variant:
    def __init__(self, name: str, folder: Path, environ: dict[str, str]) -> None:
        folder.mkdir()
        self.name, self.folder = name, folder
        self.rounds: list[float] = []
        self.ratios: list[float] = []
        command = [sys.executable, __file__, "--worker", name, str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True)
        assert self.answer() == "ready"

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def run(self, count: int) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return float(self.answer())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("0\n")
        self.process.stdin.flush()
        self.process.communicate(timeout=60)

    def bytes_an_event(self) -> float | None:
        """Return the log's bytes for a range, which is one event of a trace."""
        logs = list(self.folder.glob("*.jsonl"))
        if not logs:
            return None
        data = logs[0].read_bytes()
        lines = [orjson.loads(line) for line in data.splitlines() if line.startswith((b'{"k":"r"', b'{"k":"a"'))]
        ranges = sum(len(line["x"]) // (4 if line["k"] == "r" else 8) for line in lines)
        return len(data) / ranges if ranges else None


def measure(names: list[str], folder: Path, environ: dict[str, str], rounds: int, ranges: int) -> list[Variant]:
    folder.mkdir()
    variants = [Variant(name, folder / f"{number}", environ) for number, name in enumerate(names)]
    base = variants[0]
    for _ in range(rounds):
        for variant in variants[1:]:
            beside = base.run(ranges)
            took = variant.run(ranges)
            base.rounds.append(beside)
            base.ratios.append(1.0)
            variant.rounds.append(took)
            variant.ratios.append(took / beside)
    for variant in variants:
        variant.close()
    return variants


def show(title: str, variants: list[Variant]) -> None:
    print(
        f"\n{title}\n| variant | ns a range | min | max | x nvtx.annotate | bytes an event |\n|---|---|---|---|---|---|"
    )
    for variant in variants:
        middle = statistics.median(variant.rounds)
        size = variant.bytes_an_event()
        cells = [
            f"{middle:.0f}",
            f"{min(variant.rounds):.0f}",
            f"{max(variant.rounds):.0f}",
            f"{statistics.median(variant.ratios):.2f}",
        ]
        print(f"| {variant.name} | {' | '.join(cells)} | {'' if size is None else f'{size:.1f}'} |")


def tool_environment(folder: Path) -> dict[str, str] | None:
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    library = folder / "libnvtxlog.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, TOOL_SOURCE, "-lpthread"], check=True)
    return {"NVTX_INJECTION64_PATH": str(library)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--ranges", type=int, default=20_000)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--worker", nargs=2, metavar=("VARIANT", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(*options.worker)
        return 0
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("TRACEKIT_", "NVTX_"))}
    path = [str(HERE.parent), *filter(None, [environ.get("PYTHONPATH")])]
    environ["PYTHONPATH"] = os.pathsep.join(path)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        caller = measure(list(VARIANTS), folder / "caller", environ, options.rounds, options.ranges)
        show("The caller, no tool attached", caller)
        rounds = max(3, options.rounds // 3)
        for count, makers in THREADED.items():
            found = measure(list(makers), folder / f"{count}", environ, rounds, 10 * options.ranges)
            show(f"The process, {count} thread{'' if count == 1 else 's'}, no tool attached", found)
        tool = tool_environment(folder)
        if tool is None:
            print("\ngcc is missing: nothing measured with an NVTX tool attached")
        else:
            names = [BASE, PLAIN, "NVTX alone", "payload", "in an asyncio task"]
            found = measure(names, folder / "tool", environ | tool, rounds, options.ranges)
            show("The caller, an NVTX tool attached", found)
        by_name = {variant.name: variant for variant in caller}
        plain, payload = by_name[PLAIN], by_name["payload"]
        ratio = statistics.median(plain.ratios)
        beside = statistics.median(payload.ratios) / ratio
        new = statistics.median(by_name[NEW].ratios) / statistics.median(by_name[KNOWN].ratios)
        size = plain.bytes_an_event() or 0.0
        print(
            f"\nplain range: {ratio:.2f} x nvtx.annotate (<= {MAX_RATIO}), {size:.1f} bytes an event (<= {MAX_BYTES});"
            f" payload: {beside:.2f} x plain (<= {MAX_PAYLOAD_RATIO}); new name: {new:.2f} x known (<= {MAX_NEW_RATIO})"
        )
        missed = ratio > MAX_RATIO or beside > MAX_PAYLOAD_RATIO or new > MAX_NEW_RATIO or not 0 < size <= MAX_BYTES
        return int(options.check and missed)


if __name__ == "__main__":
    sys.exit(main())
