"""What tests share: where real files and samples are, running the command, waiting."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "sample_traces"
GOLDENS = Path(__file__).resolve().parent / "goldens"
LONG_S = 300
"""How long a test waits for what must happen: no test fails because the machine is busy."""


def corpus_root() -> Path:
    """The folder of real profiler files: TRACEKIT_CORPUS, else ../shared/corpus beside the checkout."""
    return Path(os.environ.get("TRACEKIT_CORPUS") or ROOT.parent / "shared" / "corpus")


def corpus(name: str) -> Path:
    """A real file, read in place; the test is skipped by name where it is missing, and fails in CI."""
    path = corpus_root() / name
    if not path.exists():
        missing(f"the corpus file {name} is not here (TRACEKIT_CORPUS names the folder)")
    return path


def sample(name: str) -> Path:
    """A file of our own making in sample_traces/."""
    return SAMPLES / name


def missing(what: str) -> None:
    """Skip by name on a developer's machine; in CI nothing may be skipped."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI nothing may be skipped: {what}")
    pytest.skip(what)


def wait_until(condition: Callable[[], bool]) -> None:
    """Return as soon as the condition holds."""
    end = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < end, f"it did not happen within {LONG_S} s"
        time.sleep(0.01)


@contextlib.contextmanager
def files_limited(size: int) -> Iterator[None]:
    """Make writes of this process fail beyond `size` bytes of a file, as on a full disk."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a running process has used, its own part alone."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
