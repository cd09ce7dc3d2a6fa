"""A file that ends in the middle: every command says so first, also of what was made from such a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import run_command as run
from support import sample

SAYS = "ends in the middle: all later events are missing."


def words(text: str) -> str:
    """Return a text in one line."""
    return " ".join(text.split())


@pytest.fixture(params=["list", "object", "kineto", "csv"])
def half(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of which the second half is missing."""
    monkeypatch.chdir(tmp_path)
    events = [{"ph": "X", "name": f"a{n}", "ts": 10 * n, "dur": 5, "pid": 1, "tid": 1} for n in range(60)]
    match request.param:
        case "list":
            text, name = json.dumps(events), "broken.json"
        case "object":
            text, name = json.dumps({"traceEvents": events}), "broken.json"
        case "kineto":
            text, name = sample("kineto/gpu.pt.trace.json").read_text(encoding="utf-8"), "broken.json"
        case _:
            text, name = sample("nvprof-csv/gpu-and-api-trace.csv").read_text(encoding="utf-8"), "broken.csv"
    path = tmp_path / name
    middle = len(text) // 2
    # Within a record: half a number of a CSV may be a whole one.
    path.write_text(text[: text.index(",", middle)] if request.param == "csv" else text[:middle], encoding="utf-8")
    return path


def test_the_summary_of_half_a_file_says_so_first(half: Path) -> None:
    lines = run("summary", half.name).stdout.splitlines()
    assert lines[0] == f"The file {SAYS}"
    assert "".join(lines).count(SAYS) == 1


@pytest.mark.parametrize("suffix", ["json", "json.gz", "pftrace"])
def test_a_repaired_trace_says_that_its_source_was_cut(half: Path, suffix: str) -> None:
    fixed = f"fixed.{suffix}"
    said = " ".join(run("doctor", half.name, "--fix", "-o", fixed).stdout.split())
    assert f"The input {SAYS}" in said
    made = f"The file was made from {half.name}, which {SAYS}"
    text = run("summary", fixed).stdout
    assert words(text).startswith(made)
    assert f"\n{fixed} (made from {half.name})\n" in text
    assert made in run("inspect", fixed).stdout


@pytest.mark.parametrize("once", ["once.json", "once.pftrace"])
def test_half_a_file_that_was_converted_twice_says_so(half: Path, once: str) -> None:
    run("convert", half.name, "-o", once)
    run("convert", once, "-o", "twice.json")
    assert (
        words(run("summary", "twice.json").stdout).partition(SAYS)[0] == f"The file was made from {half.name}, which "
    )
    assert SAYS in run("inspect", "twice.json").stdout
    run("convert", half.name, "-o", "kept.parquet")
    assert words(run("summary", "kept.parquet").stdout).startswith(f"The file was made from {half.name}, which {SAYS}")


def test_whole_files_say_nothing_of_it() -> None:
    for name in ("kineto/gpu.pt.trace.json", "nvprof-csv/gpu-and-api-trace.csv"):
        for command in ("summary", "inspect"):
            assert "ends in the middle" not in run(command, sample(name)).output


def test_of_several_files_the_half_one_is_named(half: Path) -> None:
    first = run("summary", half.name, sample("kineto/gpu.pt.trace.json"), code=None).stdout.splitlines()[0]
    assert first == f"{half.name} {SAYS}"
