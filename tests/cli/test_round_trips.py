"""Outputs of `convert` given as inputs: read again, or named with what to read in their place."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import run_command as run
from support import sample

TRACE = sample("kineto/gpu.pt.trace.json")
TOTALS = sample("nvprof-csv/summary-new.csv")


def converted(source: Path, target: Path) -> Path:
    run("convert", source, "-o", target, "-q")
    return target


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "spreadsheet.csv"])
@pytest.mark.parametrize("source", [TRACE, TOTALS], ids=["events", "totals"])
def test_our_own_csv_is_named(source: Path, suffix: str, tmp_path: Path) -> None:
    said = run("summary", converted(source, tmp_path / f"x.{suffix}"), code=1).stderr
    assert "a CSV that tracekit wrote" in said
    assert "hint: read the file that it was made from" in said


@pytest.mark.parametrize("suffix", ["firefox.json", "firefox.json.gz"])
def test_our_own_firefox_profile_is_named(suffix: str, tmp_path: Path) -> None:
    said = run("summary", converted(TRACE, tmp_path / f"x.{suffix}"), code=1).stderr
    assert "a Firefox profile that tracekit wrote: it has markers and no samples" in said
    assert "hint: read the file that it was made from" in said


def test_our_own_speedscope_file_is_one_whatever_its_names_are(tmp_path: Path) -> None:
    assert "speedscope" in run("inspect", converted(TRACE, tmp_path / "x.speedscope.json")).stdout


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "pftrace", "json.gz"])
def test_what_targets_md_calls_read_again_has_every_event(suffix: str, tmp_path: Path) -> None:
    again = run("inspect", converted(TRACE, tmp_path / f"x.{suffix}")).stdout
    for line in (
        "kernel                       48 events            3,050,099 ns",
        "memcpy                       10 events",
    ):
        assert line in again
