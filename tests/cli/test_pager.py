"""Results on a terminal: colours, bars and a pager; plain text everywhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import run_command, sample

at_a_terminal = pytest.importorskip("terminal").at_a_terminal

GOOD = sample("nvprof-csv/gpu-and-api-trace.csv")


def a_pager(folder: Path, body: str) -> str:
    script = folder / "pager"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return str(script)


def test_a_terminal_has_colours_and_bars() -> None:
    shown, code = at_a_terminal(str(GOOD))
    assert code == 0
    assert "\x1b[1m" in shown
    assert "░" in shown


def test_no_color_leaves_the_bars() -> None:
    shown, _ = at_a_terminal(str(GOOD), NO_COLOR="1")
    assert "\x1b" not in shown
    assert "░" in shown


def test_a_file_or_a_pipe_has_neither() -> None:
    shown = run_command("summary", GOOD).stdout
    assert "\x1b" not in shown
    assert "░" not in shown


def test_what_is_longer_than_the_terminal_goes_through_the_pager(tmp_path: Path) -> None:
    pager = a_pager(tmp_path, "wc -l | sed 's/^/paged lines: /'")
    assert "paged lines:" in at_a_terminal(str(GOOD), rows=10, PAGER=pager)[0]
    assert "paged lines:" not in at_a_terminal(str(GOOD), rows=60, PAGER=pager)[0]
    assert "paged lines:" not in at_a_terminal(str(GOOD), "--no-pager", rows=10, PAGER=pager)[0]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("formats", []),
        ("inspect", [str(GOOD)]),
        ("query", [str(GOOD), "select ts_ns, name from events"]),
        ("explain", [str(GOOD), "kernel.total", "device.kernel_time"]),
        ("compare", [str(GOOD), str(GOOD)]),
    ],
)
def test_every_command_that_prints_tables_has_the_pager(name: str, words: list[str], tmp_path: Path) -> None:
    pager = a_pager(tmp_path, "wc -l | sed 's/^/paged lines: /'")
    shown, code = at_a_terminal(*words, name=name, rows=2, PAGER=pager)
    assert (shown.count("paged lines:"), code) == (1, 0), shown
    assert "paged lines:" not in at_a_terminal(*words, name=name, rows=2, PAGER="")[0]


@pytest.mark.parametrize("pager", ["", "cat", "/no/such/pager", "'unclosed"])
def test_without_a_pager_the_text_is_printed(pager: str) -> None:
    shown, code = at_a_terminal(str(GOOD), rows=10, PAGER=pager)
    assert code == 0
    assert "records" in shown


def test_a_pager_that_quits_early_leaves_no_traceback(tmp_path: Path) -> None:
    pager = a_pager(tmp_path, "head -n 1; exit 0")
    shown, code = at_a_terminal(str(sample("kineto/cpu.pt.trace.json")), "--all", "--top", "0", rows=10, PAGER=pager)
    assert code == 0
    assert "Traceback" not in shown
    assert "error" not in shown


def test_a_pipe_is_never_paged(tmp_path: Path) -> None:
    found = run_command("summary", GOOD, "--all")
    assert "Kernels" in found.stdout
