"""A tree of many runs made from real profiles, and what a batch over it costs, survives and scales to.

    python benchmarks/batch_tree.py make TREE --runs 200        runs from the corpus, names and times new, some broken
    python benchmarks/batch_tree.py time TREE OUT [--jobs 2]    first batch, second batch, one run changed
    python benchmarks/batch_tree.py kill TREE OUT [--times 20]  killed at random moments, then held against undisturbed
    python benchmarks/batch_tree.py scale TREE OUT              one worker and two, processes and Dask

The corpus is ../shared/corpus beside the checkout, or TRACEKIT_CORPUS. Nothing of it is kept but in TREE.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPUS = Path(os.environ.get("TRACEKIT_CORPUS") or ROOT.parent / "shared" / "corpus")
MOST_BYTES = 3_000_000
BEGUN_S = 1_767_225_600
NUMBER = re.compile(rb"(\d\.\d*)(\d)(?=\D)")
NAME = re.compile(
    rb"(gemm|conv|relu|pool|softmax|elementwise|Memcpy|memcpy|forward|backward)(?=\w*[\s\"(<_])", re.IGNORECASE
)


def sources() -> list[Path]:
    """Real profiles that tracekit knows, small enough that two hundred are no matter of hours."""
    from tracekit.errors import TracekitError
    from tracekit.inputs import reader_for
    from tracekit.readers.source import open_source

    found = []
    for path in sorted(p for p in CORPUS.rglob("*") if p.is_file() and p.stat().st_size <= MOST_BYTES):
        try:
            with open_source(str(path)) as source:
                reader_for(source)
        except TracekitError:
            continue
        found.append(path)
    return found


def varied(data: bytes, number: int) -> bytes:
    """A text with the last decimal of its numbers turned, and a name in a hundred spelt otherwise."""
    if b"\0" in data[:4096] or data[:2] == b"\x1f\x8b":
        return data
    turned = NUMBER.sub(lambda m: m[1] + b"%d" % ((int(m[2]) + number) % 10), data)
    seen = iter(range(1 << 30))
    return NAME.sub(lambda m: m[0] + (b"%d" % number if next(seen) % 100 == 0 else b""), turned)


def vary_database(path: Path, number: int) -> None:
    """Move every time of an SQLite export, and rename what it names."""
    with closing(sqlite3.connect(path)) as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            columns = {row[1] for row in database.execute(f'PRAGMA table_info("{table}")')}
            if {"start", "end"} <= columns:
                database.execute(f'UPDATE "{table}" SET start = start + {number}, "end" = "end" + {number * 2}')
            elif table in ("StringIds", "StringTable") and "value" in columns:
                database.execute(f"UPDATE \"{table}\" SET value = value || '_{number}' WHERE value LIKE '%gemm%'")
        database.commit()


def make(tree: Path, runs: int) -> None:
    """Fill a folder with runs; every twentieth is cut in half, every fiftieth is empty."""
    real = sources()
    broken = 0
    for number in range(runs):
        source = real[number % len(real)]
        day = number // len(real)
        inside = source.parent.relative_to(CORPUS).as_posix()
        target = tree / inside / f"{source.name}-{day + 1:03}" / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        data = source.read_bytes()
        target.write_bytes(varied(data, number))
        if data.startswith(b"SQLite format 3\0"):
            vary_database(target, number)
        if number % 20 == 19:
            target.write_bytes(target.read_bytes()[: target.stat().st_size // 2])
            broken += 1
        if number % 50 == 49:
            target.with_suffix(".nvprof").write_bytes(b"")
        os.utime(target, (BEGUN_S + number * 3600, BEGUN_S + number * 3600))
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    print(f"{runs} runs of {len(real)} real files, {broken} cut, {size / 1e6:.1f} MB in {tree}")


def command(tree: Path, out: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "tracekit", "batch", str(tree), "-o", str(out), *words]


def batch(tree: Path, out: Path, *words: str) -> float:
    """Run a batch and return the seconds it took."""
    begun = time.perf_counter()
    ran = subprocess.run(command(tree, out, *words), capture_output=True, text=True, cwd=ROOT, check=False)
    took = time.perf_counter() - begun
    told = [line for line in ran.stderr.splitlines() if not line.startswith("error: ")]
    print(f"  {took:7.1f} s, exit code {ran.returncode}: {'; '.join(told[:-1])}", flush=True)
    return took


def content(out: Path) -> dict[str, str]:
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(out.rglob("*"))
    }


def measure(tree: Path, out: Path, jobs: int) -> None:
    first = batch(tree, out, "--jobs", str(jobs))
    before = content(out)
    second = batch(tree, out, "--jobs", str(jobs))
    print(f"second / first = {100 * second / first:.1f} %; nothing changed: {content(out) == before}")
    target = next(path for path in sorted(tree.rglob("*.csv")) if path.stat().st_size > 1000)
    target.write_bytes(target.read_bytes() + b"\n")
    batch(tree, out, "--jobs", str(jobs))
    differing = {
        name.split("/")[1] for name, value in content(out).items() if before.get(name) != value and "/" in name
    }
    print(f"one run changed: {sorted(differing)}")
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"OUT: {len(before):,} files and folders, {size / 1e6:.1f} MB")


def results(out: Path) -> list[Path]:
    return list(out.glob("runs/*/result.json"))


def kill(tree: Path, out: Path, times: int, seed: int) -> None:
    """Kill a batch with SIGKILL at random moments, let it end, and hold what is there against an undisturbed one."""
    moments = random.Random(seed)
    whole = out / "whole"
    batch(tree, whole, "--jobs", "2")
    runs = len(list(whole.glob("runs/*")))
    torn = out / "torn"
    killed = 0
    stages: list[int] = []
    for number in range(times):
        process = subprocess.Popen(command(tree, torn, "--jobs", "2"), stderr=subprocess.DEVNULL, cwd=ROOT)
        if number % 4:  # in the middle of work, wherever that is by then
            until = len(results(torn)) + moments.randint(1, max(2 * runs // times - 2, 1))
            while process.poll() is None and len(results(torn)) < until:
                time.sleep(0.01)
            pause = moments.uniform(0, 0.5)
        else:  # while it starts, looks and plans
            pause = moments.uniform(0.3, 6.0)
        try:
            process.wait(pause)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += 1
        stages.append(len(results(torn)))
    batch(tree, torn, "--jobs", "2")
    same = content(torn) == content(whole)
    print(f"runs done after each: {stages}")
    print(f"killed {killed} of {times} times; the same byte for byte, nothing left: {same}")
    if not same:
        a, b = content(torn), content(whole)
        print([name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)][:10])
        sys.exit(1)


def scale(tree: Path, out: Path) -> None:
    """One worker and two: processes of our own, then Dask's."""
    from distributed import LocalCluster

    for workers in (1, 2):
        print(f"--jobs {workers}")
        batch(tree, out / f"jobs{workers}", "--jobs", str(workers))
    for workers in (1, 2):
        with LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
            print(f"Dask, {workers} workers")
            batch(tree, out / f"dask{workers}", "--dask", cluster.scheduler_address)
    same = all(content(out / name) == content(out / "jobs1") for name in ("jobs2", "dask1", "dask2"))
    print(f"all four the same byte for byte: {same}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "time", "kill", "scale"])
    parser.add_argument("tree", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args()
    if words.what == "make":
        shutil.rmtree(words.tree, ignore_errors=True)
        make(words.tree, words.runs)
        return
    if words.out is None:
        parser.error("name OUT")
    if words.what == "time":
        measure(words.tree, words.out, words.jobs)
    elif words.what == "kill":
        kill(words.tree, words.out, words.times, words.seed)
    else:
        scale(words.tree, words.out)


if __name__ == "__main__":
    main()
