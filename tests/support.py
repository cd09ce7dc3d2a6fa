"""What tests share: where real files and samples are, running the command, waiting."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner, Result

import tracekit
from tracekit import cli
from tracekit.formats import READERS
from tracekit.model.trace import Trace
from tracekit.readers.base import Confidence
from tracekit.readers.head import Head
from tracekit.readers.sniff import votes
from tracekit.readers.source import open_source

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(tracekit.__file__).parent
"""The package under test: of the checkout, or an installed one where the checkout has none."""
TEMPLATES = next(folder for folder in (PACKAGE / "_templates", ROOT / "templates") if folder.is_dir())
SAMPLES = ROOT / "sample_traces"
SAMPLE_FILES = sorted(p for p in SAMPLES.glob("*/*") if p.is_file() and not p.parent.name.startswith((".", "_")))
"""Every sample, without what Python keeps of the generator's modules."""
GOLDENS = Path(__file__).resolve().parent / "goldens"
SHARE = int(os.environ.get("TRACEKIT_SHARE", "0")) or (2 if os.environ.get("CI") == "true" else 3)
"""What has more examples than time tries one in `SHARE` of them, others in each run; TRACEKIT_SHARE=1 tries all."""
LONG_S = 300
"""How long a test waits for what must happen: no test fails because the machine is busy."""


def corpus_root() -> Path:
    """The folder of real profiler files: TRACEKIT_CORPUS, else ../shared/corpus beside the checkout."""
    return Path(os.environ.get("TRACEKIT_CORPUS") or ROOT.parent / "shared" / "corpus")


def corpus(name: str) -> Path:
    """A real file, read in place; the test is skipped by name where it is missing, and fails in CI."""
    path = corpus_root() / name
    if not path.exists():
        without_corpus(f"the corpus file {name} is not here (TRACEKIT_CORPUS names the folder)")
    return path


def corpus_next(name: str) -> Path:
    """A real file of a format that was added later: the folder corpus-next is beside the corpus."""
    path = corpus_root().parent / "corpus-next" / name
    if not path.exists():
        without_corpus(f"the corpus file {name} is not here (the folder corpus-next beside that of TRACEKIT_CORPUS)")
    return path


def shared_efficiency(name: str) -> Path:
    """A file about FLOPs and bytes of operators, read in place; skipped by name where it is missing."""
    path = corpus_root().parent / "efficiency" / name
    if not path.is_file():
        without_corpus(f"efficiency/{name} is not here (beside the folder of TRACEKIT_CORPUS)")
    return path


def shared_reports() -> Path:
    """The folder of real Nsight Systems reports without personal detail; skipped by name where it is missing."""
    folder = corpus_root().parent / "nsysrep" / "corpus"
    if not folder.is_dir():
        without_corpus("the folder nsysrep/corpus is not here (beside that of TRACEKIT_CORPUS)")
    return folder


def sample(name: str) -> Path:
    """A file of our own making in sample_traces/."""
    return SAMPLES / name


def sure_of(head: Head) -> list[str]:
    """Return the readers that are sure of the beginning of a file."""
    return [reader.name for reader, vote in votes(head, READERS.values()) if vote is Confidence.YES]


def sure_readers(path: Path) -> list[str]:
    """Return the readers that are sure of a file, which must not depend on its name."""
    with open_source(str(path)) as source:
        head = source.head()
    named, unnamed = sure_of(head), sure_of(replace(head, name="unknown"))
    assert named == unnamed, path
    return named


def run_command(*words: object, code: int | None = 0, width: int | None = None) -> Result:
    """Run `tracekit` with these words in this process. code: the exit code it must have, None for any.

    width: of the terminal, in columns.
    """
    result = CliRunner().invoke(
        cli.app, [str(word) for word in words], prog_name="tracekit", env={"COLUMNS": str(width) if width else None}
    )
    assert code is None or result.exit_code == code, result.output
    return result


@functools.cache
def corpus_verdicts() -> dict[str, list[str]]:
    """Return for each file of the corpus the readers that are sure of it."""
    root = corpus_root()
    files = sorted(path for path in root.rglob("*") if path.is_file())
    if not files:
        without_corpus("the corpus of real files is not here (TRACEKIT_CORPUS names the folder)")
    return {path.relative_to(root).as_posix(): sure_readers(path) for path in files}


def claimed_alone(reader: str) -> set[str]:
    """Return the files of the corpus that a reader is sure of; no other reader may be."""
    found = {name: sure for name, sure in corpus_verdicts().items() if reader in sure}
    assert {name: sure for name, sure in found.items() if len(sure) > 1} == {}
    return set(found)


@functools.cache
def read_sample(name: str) -> Trace:
    """Return a sample as a Trace, read once in a run of the tests: a Trace is never changed."""
    return tracekit.read(sample(name))


def missing(what: str) -> None:
    """Skip by name on a developer's machine; in CI nothing may be skipped."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI nothing may be skipped: {what}")
    pytest.skip(what)


def without_corpus(what: str) -> None:
    """Skip by name where TRACEKIT_CORPUS is `none`, as in the public CI: the files are others'."""
    if os.environ.get("TRACEKIT_CORPUS") == "none":
        pytest.skip(what)
    missing(what)


def has_otf2() -> bool:
    """Return whether the package otf2 is installed."""
    return importlib.util.find_spec("otf2") is not None


def need_otf2() -> None:
    """Skip by name without the package otf2; in CI it is there where it has a wheel."""
    if has_otf2():
        return
    if sys.version_info >= (3, 12) or sys.platform != "linux":
        pytest.skip("otf2 3.2 has no wheel for this Python")
    missing("otf2 is not installed (pip install 'tracekit-gpu[otf2]')")


def wait_until(condition: Callable[[], bool]) -> None:
    """Return as soon as the condition holds."""
    end = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < end, f"it did not happen within {LONG_S} s"
        time.sleep(0.01)


@contextlib.contextmanager
def files_limited(size: int) -> Iterator[None]:
    """Make writes of this process fail beyond `size` bytes of a file, as on a full disk.

    Modules that are imported meanwhile leave no bytecode: Python would keep the part that fits.
    """
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = bytecode


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a running process has used, its own part alone."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
