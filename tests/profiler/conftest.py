"""A recorder that is off before and after each test, no launcher's variables, a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from doors.profiler import NoteOnce
from recorder.programs import forget_launcher

from tracekit import recorder

FACES = ("cuda", "singa", "paddle._profiler", "paddle._tracer", "_window")


@pytest.fixture(autouse=True)
def nothing_noted_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test see the notes that a process prints once."""
    for face in FACES:
        monkeypatch.setattr(f"tracekit.profiler.{face}._note_once", NoteOnce())


@pytest.fixture(autouse=True)
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    forget_launcher(monkeypatch)
    monkeypatch.chdir(tmp_path)
    recorder.stop()
    yield
    recorder.stop()
