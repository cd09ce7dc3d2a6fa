"""A recording that made no range says so at its end, and so do the commands that read its log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import run_command

BLOCK = """
from tracekit import recorder
with recorder.record("two.jsonl"):
    sum(range(1000))
"""
CALLS = """
from tracekit import recorder
@recorder.record("two.jsonl")
def work():
    return 1
work(), work()
"""


def program(text: str, folder: Path) -> str:
    """Run a program and return what it prints to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stderr


@pytest.mark.parametrize("text", [BLOCK, CALLS])
def test_a_recording_without_a_range_warns_once_at_its_end_and_the_commands_say_so(text: str, tmp_path: Path) -> None:
    said = program(text, tmp_path)
    assert "no range was recorded in two." in said
    assert "watch_program()" in said
    assert said.count("\n") == 1
    log = sorted(tmp_path.glob("two.*.jsonl"))[0]
    for command in ("summary", "inspect", "doctor"):
        read = run_command(command, log, code=1).stderr
        assert f"{log.name}: no range was recorded in it" in read
        assert "watch_program()" in read
        assert "did the profiler stop" not in read


@pytest.mark.parametrize(
    "work",
    [
        "with recorder.range('a'): pass",
        "recorder.mark('a')",
        "recorder.counter('a', 1)",
        "recorder.end_range(recorder.start_range('a'))",
        "for _ in recorder.watch_loader(range(2)): pass",
    ],
)
def test_a_recording_with_anything_in_it_gets_no_warning(work: str, tmp_path: Path) -> None:
    text = f"from tracekit import recorder\nwith recorder.record('two.jsonl'):\n    {work}\n    recorder.flush()\n"
    assert program(text, tmp_path) == ""


def test_a_log_that_cannot_be_kept_gets_no_second_warning(tmp_path: Path) -> None:
    text = (
        "import os\nfrom tracekit import recorder\nwith recorder.record('two.jsonl') as made:\n"
        "    os.unlink(made.path)\n"
        "    with recorder.range('a'): pass\n"
    )
    assert "no range was recorded" not in program(text, tmp_path)
