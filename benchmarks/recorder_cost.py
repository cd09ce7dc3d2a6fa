"""The cost of a recorded range, beside `nvtx.annotate`: medians of interleaved rounds, and bytes an event.

    python benchmarks/recorder_cost.py [--rounds 41] [--ranges 20000] [--check]

Each variant runs in a process of its own, because recording is a property of the process. They take turns:
nvtx.annotate, a variant, nvtx.annotate, the next ..., again and again; a ratio is the median of the ratios of
neighbours, so that a slow second of the machine hits both. A round is a tight loop, as no program has one, short
enough (some 7 ms) that the flusher is at work in a few rounds only: what the caller pays. What the whole costs the
interpreter, the flusher's part included, is under "Sustained": rounds 50 times as long.
With gcc, the same is measured with an NVTX tool attached.

--check: exit code 1 if the plain range costs more than 1.3 x nvtx.annotate, or an event takes more than 40 bytes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOOL_SOURCE = HERE.parent / "tests" / "recorder" / "nvtx_log.c"
MAX_RATIO = 1.3
MAX_BYTES = 40
now = time.perf_counter_ns
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


def in_task() -> Loop:
    import asyncio

    from tracekit import recorder

    recorder.start("log.jsonl")

    async def work(count: int) -> None:
        for _ in [None] * count:
            with recorder.range("forward"):
                pass

    return lambda count: asyncio.run(work(count))


VARIANTS: dict[str, Callable[[], Loop]] = {
    "nvtx.annotate": annotate,
    "empty with": empty,
    "recorder off": lambda: recorded(None, nvtx=False),
    "log and NVTX": lambda: recorded("log.jsonl", nvtx=True),
    "log and NVTX, kept range": hoisted,
    "log and NVTX, with a kind": kind,
    "log alone": lambda: recorded("log.jsonl", nvtx=False),
    "NVTX alone": lambda: recorded(None, nvtx=True),
    "payload": payload,
    "in an asyncio task": in_task,
}


def worker(name: str, folder: str) -> None:
    """Run rounds as they are asked for on stdin; answer ns a range."""
    os.chdir(folder)
    loop = VARIANTS[name]()
    loop(2000)
    from tracekit import recorder

    print("ready", flush=True)
    for line in sys.stdin:
        count = int(line)
        if not count:
            break
        begun = now()
        loop(count)
        took = now() - begun
        recorder.flush()
        print(took / count, flush=True)
    recorder.stop()


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
        logs = list(self.folder.glob("*.jsonl"))
        if not logs:
            return None
        data = logs[0].read_bytes()
        items = sum(line.count(b",") // 2 for line in data.splitlines() if line.startswith((b'{"k":"r"', b'{"k":"a"')))
        ends = 4 if b'"k":"a"' in data else 2
        return len(data) / (items / (ends / 2) / 2) if items else None


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
        plain = measure(list(VARIANTS), folder / "plain", environ, options.rounds, options.ranges)
        show("No tool attached", plain)
        long = ["nvtx.annotate", "log and NVTX"]
        show("Sustained, no tool attached", measure(long, folder / "long", environ, 5, 50 * options.ranges))
        tool = tool_environment(folder)
        if tool is None:
            print("\ngcc is missing: nothing measured with an NVTX tool attached")
        else:
            names = ["nvtx.annotate", "log and NVTX", "NVTX alone", "payload", "in an asyncio task"]
            rounds = max(3, options.rounds // 3)
            show("An NVTX tool attached", measure(names, folder / "tool", environ | tool, rounds, options.ranges))
        ratio = statistics.median(plain[3].ratios)
        size = plain[3].bytes_an_event() or 0.0
        print(
            f"\nplain range: {ratio:.2f} x nvtx.annotate (<= {MAX_RATIO}), {size:.1f} bytes an event (<= {MAX_BYTES})"
        )
        return int(options.check and (ratio > MAX_RATIO or not 0 < size <= MAX_BYTES))


if __name__ == "__main__":
    sys.exit(main())
