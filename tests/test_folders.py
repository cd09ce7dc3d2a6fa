"""A folder of a run: its profiles are read, a broken one fails by name, and what is no profile is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support import run_command, sample

import tracekit
from tracekit.errors import TracekitError

CSV = sample("nvprof-csv/gpu-and-api-trace.csv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two ranks, one of them empty, and three files that are no profiles."""
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(CSV, run / "rank0.csv")
    (run / "rank1.csv").touch()
    for name in ("README.md", "train.py", ".hidden"):
        (run / name).write_text("nothing of a profiler\n")
    return run


def test_an_empty_file_that_is_named_like_the_others_is_an_error(folder: Path) -> None:
    shown = run_command("summary", folder, code=1)
    assert "rank1.csv: not a known profile format (the file is empty)" in shown.stderr
    with pytest.raises(TracekitError, match="the file is empty"):
        tracekit.read(folder)


def test_files_of_no_known_format_are_named(folder: Path) -> None:
    (folder / "rank1.csv").unlink()
    text = "not read: 2 files of no known format ("
    for words in (
        ["summary", folder],
        ["summary", folder, "--all"],
        ["convert", folder, "-o", folder.parent / "t.json"],
    ):
        shown = run_command(*words, width=500)
        assert text in shown.stdout + shown.stderr, words
    assert "not-profiles" in tracekit.read(folder, strict=True).ledgers[0].notes, "it is no fault"


def test_a_folder_of_profiles_alone_needs_no_note(tmp_path: Path) -> None:
    shutil.copy(CSV, tmp_path / "run.csv")
    assert not tracekit.read(tmp_path).ledgers[0].notes
