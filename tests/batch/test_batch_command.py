"""`tracekit batch` as a user runs it: what it says, and its exit code."""

from __future__ import annotations

import functools
import json
import os
import socket
from pathlib import Path

import pytest
from batch_trees import Here, put
from support import run_command, sample

from tracekit import batch


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "LocalEngine", Here)


run = functools.partial(run_command, "batch")


def job(root: Path, name: str = "run42", cut: int = 0) -> Path:
    data = sample("recorder-log/rank0.jsonl").read_bytes()
    return put(root / name / "rank0.jsonl", data[: len(data) - cut])


def test_dropped_records_are_a_note_and_not_a_failure(tmp_path: Path) -> None:
    lines = sample("recorder-log/rank0.jsonl").read_bytes().splitlines(keepends=True)
    lines[len(lines) // 2] = b"{no JSON}\n"
    put(tmp_path / "tree" / "run42" / "rank0.jsonl", b"".join(lines))
    said = run(tmp_path / "tree", "-o", tmp_path / "out", code=None).stderr
    assert "note: 1 record dropped in 1 run, which is partial; the page says why\n" in said
    assert "0 failed, 1 partial" in said


def test_a_link_to_a_run_of_the_tree_is_a_note_and_the_run_counts_once(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    job(root)
    (root / "latest").symlink_to("run42")
    for _ in range(2):
        said = run(root, "-o", tmp_path / "out").stderr
        assert f"note: {root}/latest: a link to a folder that is read under its real name\n" in said
        assert "1 run: " in said
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "1 skipped on purpose" in page


def test_a_link_to_a_folder_of_another_root_is_a_note_too(tmp_path: Path) -> None:
    job(tmp_path / "one")
    job(tmp_path / "two", "other")
    (tmp_path / "one" / "linked").symlink_to(tmp_path / "two" / "other")
    said = run(tmp_path / "one", tmp_path / "two", "-o", tmp_path / "out").stderr
    assert "one/linked: a link to a folder that is read under its real name" in said
    assert "2 runs: " in said


@pytest.mark.parametrize("place", ["elsewhere", "tree/.hidden"])
def test_a_link_to_a_folder_that_is_not_looked_into_is_still_an_error(tmp_path: Path, place: str) -> None:
    job(tmp_path / "tree")
    job(tmp_path / place, "run43")
    (tmp_path / "tree" / "latest").symlink_to(tmp_path / place / "run43")
    said = run(tmp_path / "tree", "-o", tmp_path / "out", code=3).stderr
    assert "latest: a link to a folder was not followed" in said


def test_a_link_to_results_of_a_batch_is_a_note(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    job(root)
    run(root, "-o", root / "out")
    (root / "page").symlink_to(root / "out" / "runs")
    assert "page: a link to results of a batch" in run(root, "-o", root / "out").stderr
    assert "page: a link to results of a batch" in run(root, "-o", tmp_path / "other").stderr


@pytest.mark.parametrize("pattern", ["", "run*"])
def test_a_link_to_a_file_of_the_same_run_does_not_count_it_twice(tmp_path: Path, pattern: str) -> None:
    file = job(tmp_path / "tree")
    (file.parent / "latest.jsonl").symlink_to(file.name)
    outside = put(tmp_path / "store" / "rank1.jsonl", sample("recorder-log/rank1.jsonl").read_bytes())
    (file.parent / "rank1.jsonl").symlink_to(outside)
    said = run(tmp_path / "tree", "-o", tmp_path / "out", "--run-pattern", pattern).stderr
    assert "run42/latest.jsonl: a link to a file of the same run\n" in said
    found = json.loads((tmp_path / "out" / "index.json").read_bytes())["runs"][0]["sources"]
    assert [each["path"] for each in found] == ["rank0.jsonl", "rank1.jsonl"]


def test_a_tree_without_a_run_is_one_sentence_a_hint_and_exit_code_1(tmp_path: Path) -> None:
    put(tmp_path / "tree" / "readme.txt", b"nothing")
    done = run(tmp_path / "tree", "-o", tmp_path / "out", code=1)
    assert f"error: {tmp_path}/tree: no run (1 file of no known format)\n" in done.stderr
    assert "hint: is it the right folder?" in done.stderr
    (tmp_path / "empty").mkdir()
    assert "empty: no run (no file)\n" in run(tmp_path / "empty", "-o", tmp_path / "out", code=1).stderr
    job(tmp_path / "good")
    hint = run(tmp_path / "good", "-o", tmp_path / "out", "--run-pattern", "x*", code=1).stderr
    assert "hint: does --run-pattern match" in hint
    said = run(tmp_path / "good", tmp_path / "empty", "-o", tmp_path / "out").stderr
    assert f"note: {tmp_path}/empty: no run\n" in said


def test_forgetting_the_last_run_is_no_failure(tmp_path: Path) -> None:
    file = job(tmp_path / "tree")
    run(tmp_path / "tree", "-o", tmp_path / "out")
    file.unlink()
    run(tmp_path / "tree", "-o", tmp_path / "out", code=1)
    assert (
        "removed the results of 1 run whose files are gone"
        in run(tmp_path / "tree", "-o", tmp_path / "out", "--forget").stderr
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_and_a_socket_are_named_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = job(tmp_path / "tree").parent
    os.mkfifo(folder / "live.json")
    monkeypatch.chdir(folder)  # the whole path may be longer than a socket's name can be
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("control")
        said = run(tmp_path / "tree", "-o", tmp_path / "out").stderr
    assert f"note: {folder}/live.json: a pipe was not read\n" in said
    assert f"note: {folder}/control: a socket was not read\n" in said
