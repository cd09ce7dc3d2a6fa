"""Programs under Paddle, in processes of their own; each runs once for all the workers of a session."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from recorder.programs import environment
from support import LONG_S

HERE = Path(__file__).resolve().parent
QUIET = {"PYTHONWARNINGS": "ignore", "GLOG_minloglevel": "1"}
"""Paddle warns as it is imported; its C++ prints a line for each file that it writes."""


def run_under_paddle(program: Path, folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, str(program), *arguments], cwd=folder, env=environment(**QUIET),
        capture_output=True, text=True, timeout=LONG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that `make` has filled, for all the workers of a session."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    made, done = base / name, base / f"{name}.done"
    with FileLock(base / f"{name}.lock"):
        if not done.exists():
            made.mkdir(exist_ok=True)
            make(made)
            done.touch()
    return made
