"""Programs of a test's own, run in a process of their own, and the logs that they leave."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from recorder.reading import Log, read_log
from support import LONG_S, ROOT

OF_LAUNCHERS = ("RANK", "SLURM", "WORLD_SIZE", "PADDLE_TRAINER", "TRACEKIT_", "NVTX_")
"""A launcher's variables, and the recorder's own, have one of these in their names."""


def environment(**variables: str) -> dict[str, str]:
    """The variables of this process, without a launcher's, and with this checkout as the one to import."""
    clean = {name: value for name, value in os.environ.items() if not any(part in name for part in OF_LAUNCHERS)}
    return clean | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"} | variables


def forget_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a launcher's variables, and the recorder's own, from this process."""
    for name in os.environ.keys() - environment().keys() - {"TRACEKIT_CORPUS"}:  # the folder of the tests' files stays
        monkeypatch.delenv(name)


def program(folder: Path, text: str) -> list[str]:
    """The command of a program in a folder."""
    (folder / "program.py").write_text(textwrap.dedent(text), encoding="utf-8")
    return [sys.executable, "program.py"]


def run(folder: Path, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        program(folder, text),
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )


def logs(folder: Path, *, clean: bool = True) -> dict[int, Log]:
    """The logs of a folder by process id."""
    found = [read_log(path, clean=clean) for path in sorted(folder.glob("*.jsonl"))]
    return {log.head["pid"]: log for log in found}
