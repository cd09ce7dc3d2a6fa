"""Several logs of one process are its parts, one after the other, and no ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import run_command

PROGRAM = """
import sys
from tracekit import recorder
for number in range(int(sys.argv[1])):
    with recorder.record(f"part{number}.jsonl"):
        for _ in range(3):
            with recorder.step(samples=4):
                with recorder.range("work", kind="forward"):
                    sum(range(20_000))
"""


def record(folder: Path, parts: int, **variables: str) -> int:
    """Run a program that records several blocks, and return its process id."""
    words = [sys.executable, "-c", PROGRAM, str(parts)]
    with subprocess.Popen(words, cwd=folder, env={**os.environ, **variables}) as started:
        assert started.wait(timeout=120) == 0
    return started.pid


def summary(folder: Path) -> str:
    return " ".join(run_command("summary", *sorted(folder.glob("*.jsonl"))).stdout.split())


@pytest.mark.parametrize("variables", [{}, {"RANK": "3", "WORLD_SIZE": "8"}])
def test_logs_of_one_process_are_its_parts(variables: dict[str, str], tmp_path: Path) -> None:
    pid = record(tmp_path, 3, **variables)
    text = summary(tmp_path)
    assert f"3 parts of process {pid}: medians " in text
    assert "3 ranks" not in text
    assert "samples/s a part" in text


def test_parts_of_several_processes_are_counted(tmp_path: Path) -> None:
    record(tmp_path, 2)
    record(tmp_path, 2)
    assert "4 parts of 2 processes: medians " in summary(tmp_path)


def test_processes_with_one_log_each_are_ranks_as_before(tmp_path: Path) -> None:
    for rank in range(2):
        record(tmp_path, 1, RANK=str(rank), WORLD_SIZE="2")
    assert "2 ranks: medians " in summary(tmp_path)
