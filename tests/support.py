"""What tests share: where real files and our samples lie, and comparing with goldens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "sample_traces"
GOLDENS = Path(__file__).resolve().parent / "goldens"


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
