"""Stdout that cannot be written is named as such, in one sentence, by results and by --help."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked import forks
from support import sample

RUN = sample("nvprof-csv/gpu-and-api-trace.csv")
FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [f"summary {RUN}", f"convert {RUN} -o - --to jsonl", "--help"])
def test_a_full_disk_behind_stdout_is_named(words: str) -> None:
    with FULL.open("w") as out:
        done = forks().run(*words.split(), stdout=out.fileno())
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: stdout: cannot be written (the disk is full)\n")
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
