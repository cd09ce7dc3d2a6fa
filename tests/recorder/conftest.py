"""A recording into the test's own folder, stopped whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from recorder.programs import forget_launcher
from recorder.reading import Log, read_log

from tracekit import recorder


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Log]]:
    """Record from here on, without NVTX; calling the fixture stops and reads the log."""
    forget_launcher(monkeypatch)
    path = recorder.start(tmp_path / "run.jsonl", nvtx=False)
    assert path is not None

    def finish() -> Log:
        assert recorder.stop() == path
        return read_log(path)

    yield finish
    recorder.stop()
