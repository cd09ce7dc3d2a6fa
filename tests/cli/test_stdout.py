"""Stdout that cannot be written is named as such, in one sentence, by results and by --help."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import LONG_S, sample

RUN = sample("nvprof-csv/gpu-and-api-trace.csv")
FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [f"summary {RUN}", f"convert {RUN} -o - --to jsonl", "--help"])
def test_a_full_disk_behind_stdout_is_named(words: str) -> None:
    with FULL.open("w") as out:
        command = [sys.executable, "-m", "tracekit", *words.split()]
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, timeout=LONG_S, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: stdout: cannot be written (the disk is full)\n")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
