"""The files whose traces are opened in viewers."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from support import SAMPLES, corpus_root, sample, without_corpus

import tracekit
from tracekit.formats import READERS
from tracekit.model.trace import Trace

WITH_EVENTS = sorted(
    f"{folder.name}/{path.name}"
    for folder in SAMPLES.iterdir()
    if folder.name in READERS and READERS[folder.name].gives != "totals"
    for path in folder.iterdir()
    if not path.name.startswith(("_", ".")) and not path.name.endswith(".json.figures.json")
)
REAL = sorted(
    str(path.relative_to(corpus_root()))
    for folder in ("nvprof_gputrace_csv", "cuda_cmdline_profiler", "tensorflow", "kineto")
    for path in (corpus_root() / folder).glob("*")
    if path.stat().st_size < 100_000
)
_REAL = "corpus:"
EVERY_FILE = pytest.mark.parametrize(
    "name",
    [*WITH_EVENTS, *(pytest.param(_REAL + name, marks=pytest.mark.corpus) for name in REAL or ["nothing"])],
)
"""Each sample with events, and the small real files; `file_named` has the path of each."""


def file_named(name: str) -> Path:
    """Return the path of one of EVERY_FILE. Skips the test where the real files are not here."""
    if not name.startswith(_REAL):
        return sample(name)
    if not REAL:
        without_corpus("the corpus of real files is not here (TRACEKIT_CORPUS names the folder)")
    return corpus_root() / name.removeprefix(_REAL)


@functools.cache
def read_once(path: Path) -> Trace:
    """Return one of these files as a Trace, read once in a run of the tests: a Trace is never changed."""
    return tracekit.read(path)
