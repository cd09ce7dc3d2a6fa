"""A run of a batch that lacks a kind of rows that its siblings have is in no trend, and said at the top."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from compare_runs import steps, write
from support import run_command, sample

from tracekit import batch


def nightly(root: Path, cut: dict[int, tuple[str, ...]], count: int = 5) -> None:
    for number in range(count):
        rows = [row for row in steps(8, factor=1 + 0.001 * number) if row["kind"] not in cut.get(number, ())]
        write(root / f"nightly{number}" / "trace.parquet", rows)


@pytest.mark.parametrize(
    ("kinds", "said"), [(("kernel",), "kernels"), (("step",), "steps"), (("operator",), "operators")]
)
def test_a_cut_run_is_left_out_of_the_trends_and_said_at_the_top(
    kinds: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    nightly(tmp_path / "runs", {4: kinds})
    done = batch.run([tmp_path / "runs"], tmp_path / "out", jobs=1)
    sentence = f"no {said}, which 4 of 5 runs of its kind have; left out of the trends"
    assert done.left_out == (("nightly4", sentence),)
    assert done.is_whole
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert page.index(f"nightly4: {sentence}") < page.index("nightly3")
    listed = json.loads((tmp_path / "out" / "index.json").read_text(encoding="utf-8"))
    lacks = {run["run"]: run.get("lacks") for run in listed["runs"]}
    assert lacks == {f"nightly{n}": ([said] if n == 4 else None) for n in range(5)}
    whole = tmp_path / "whole"
    nightly(whole, {}, count=4)
    batch.run([whole], tmp_path / "out2", jobs=1)
    other = (tmp_path / "out2" / "index.html").read_text(encoding="utf-8")
    assert "4 runs" in page
    assert page.count("median before") == other.count("median before")


def test_the_command_names_the_cut_run(tmp_path: Path) -> None:
    nightly(tmp_path / "runs", {0: ("kernel",)})
    said = run_command("batch", tmp_path / "runs", "-o", tmp_path / "out", "--jobs", "1").stderr
    assert "note: nightly0: no kernels, which 4 of 5 runs of its kind have; left out of the trends" in said


KINETO, LOG = "kineto/gpu.pt.trace.json", "recorder-log/rank0.jsonl"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("trace.json.gz", gzip.compress(sample(KINETO).read_bytes(), mtime=0)),
        ("trace.json", sample(KINETO).read_bytes()),
        ("log.jsonl.gz", gzip.compress(sample(LOG).read_bytes(), mtime=0)),
        ("log.jsonl", sample(LOG).read_bytes()),
    ],
)
def test_a_cut_run_fails_the_batch_in_every_form(name: str, data: bytes, tmp_path: Path) -> None:
    for run, part in (("a", data), ("b", data[: len(data) // 2])):
        (tmp_path / "runs" / run).mkdir(parents=True)
        (tmp_path / "runs" / run / name).write_bytes(part)
    words = ("batch", tmp_path / "runs", "-o", tmp_path / "out", "--jobs", "1")
    said = run_command(*words, code=3).stderr
    assert "error: b was cut: " in said
    junit = run_command(*words, "--format", "junit", code=3).stdout
    assert 'failures="1"' in junit
    assert "was cut: " in junit
    github = run_command(*words, "--format", "github", code=3).stdout
    assert "::error" in github
    assert "was cut: " in github
    done = batch.run([tmp_path / "runs"], tmp_path / "out", jobs=1)
    assert not done.is_whole
    assert [run for run, _ in done.cut] == ["b"]


def test_runs_that_are_alike_are_all_in_the_trends(tmp_path: Path) -> None:
    nightly(tmp_path / "runs", dict.fromkeys(range(5), ("kernel",)))
    assert batch.run([tmp_path / "runs"], tmp_path / "out", jobs=1).left_out == ()


def test_two_runs_of_other_programs_are_no_siblings(tmp_path: Path) -> None:
    write(tmp_path / "runs" / "train" / "trace.parquet", steps(8))
    write(tmp_path / "runs" / "load" / "trace.parquet", [r for r in steps(8) if r["kind"] != "kernel"])
    assert batch.run([tmp_path / "runs"], tmp_path / "out", jobs=1).left_out == ()
