"""Trees of runs for the tests of batches, and how what a batch left is held against what another left."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest
from doors.stores import Outcome, do_run
from support import ROOT, sample

from tracekit import batch
from tracekit.batch.plan import RunTask

RUNS = (
    ("kineto", "kineto/gpu.pt.trace.json"),
    ("nvprof", "nvprof-csv/gpu-and-api-trace.csv"),
    ("recorder", "recorder-log/rank0.jsonl"),
    ("theano", "theano/theano-1.0.5.txt"),
)
BEGUN_NS = 1_767_225_600_000_000_000


def put(path: Path, data: bytes, number: int = 0) -> Path:
    """Write a file with a time of change of its own, so that a run's day never depends on when a test runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    when = BEGUN_NS + number * 86_400_000_000_000
    os.utime(path, ns=(when, when))
    return path


def tree(root: Path, count: int) -> Path:
    """Make `count` runs of different formats, each with bytes of its own; every eighth is broken."""
    for number in range(count):
        kind, name = RUNS[number % len(RUNS)]
        source = sample(name)
        folder = root / kind / f"2026-01-{number // 4 + 1:02}"
        if number % 8 == 5:
            put(folder / "session.nvprof", b"SQLite format 3\0" + bytes(50), number)
            continue
        put(folder / source.name, source.read_bytes() + b"\n" * number, number)
        if number % 4 == 1:
            put(folder / "train.py", b"print()", number)
    put(root / "notes" / "readme.txt", b"no profile")
    return root


def content(out: Path) -> dict[str, str]:
    """Every file and empty folder below OUT, with the digest of its bytes."""
    found = {}
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out).as_posix()
        if path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif not any(path.iterdir()):
            found[name] = "empty folder"
    return found


class Here:
    """Does the tasks in this process: most of a batch does not hang on who works, and processes take seconds."""

    def __init__(self, jobs: int) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, tasks: Iterator[RunTask], lost: Callable[[RunTask, str], Outcome]) -> Iterator[Outcome]:
        yield from map(do_run, tasks)


def started(*words: str | Path, program: str = "tracekit") -> subprocess.Popen[str]:
    """Start a batch as a process of its own, in a group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", program, "batch", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        start_new_session=True,
    )


def finished(process: subprocess.Popen[str], timeout: float = 240) -> tuple[int, str]:
    _, said = process.communicate(timeout=timeout)
    return process.returncode, said


def undisturbed(root: Path, out: Path) -> dict[str, str]:
    """Return what a batch in this process makes of a tree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "LocalEngine", Here)
        batch.run([root], out)
    return content(out)
