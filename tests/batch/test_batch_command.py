"""`tracekit batch` as a user runs it: what it says, and its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from batch_trees import Here, put
from support import sample
from typer.testing import CliRunner, Result

from tracekit import batch
from tracekit.cli import app


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "Local", Here)


def run(*words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["batch", *map(str, words)], prog_name="tracekit")
    assert result.exit_code == code, result.output
    return result


def job(root: Path, name: str = "run42", cut: int = 0) -> Path:
    data = sample("recorder-log/rank0.jsonl").read_bytes()
    return put(root / name / "rank0.jsonl", data[: len(data) - cut])


def test_lost_records_are_told_and_are_no_failure(tmp_path: Path) -> None:
    job(tmp_path / "tree", cut=40)
    said = run(tmp_path / "tree", "-o", tmp_path / "out").stderr
    assert "note: 1 record dropped, of 1 run; the page says how many of which\n" in said
    assert "0 failed, 0 in part" in said
