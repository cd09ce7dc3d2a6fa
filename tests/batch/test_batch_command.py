"""`tracekit batch` as a user runs it: what it says, and its exit code."""

from __future__ import annotations

import functools
import gzip
import json
import os
import shutil
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


def test_a_quiet_batch_still_says_why_it_fails(tmp_path: Path) -> None:
    lines = sample("recorder-log/rank0.jsonl").read_bytes().splitlines(keepends=True)
    damaged = [b"{no JSON}\n" if 8 < number < 20 else line for number, line in enumerate(lines)]
    put(tmp_path / "tree" / "run42" / "rank0.jsonl", b"".join(damaged))
    said = run("-q", tmp_path / "tree", "-o", tmp_path / "out", code=1).stderr
    assert said.startswith("INCOMPLETE")
    assert said.count("\n") == 1
    put(tmp_path / "cut" / "run42" / "rank0.jsonl", b"".join(lines)[:-40])
    assert "error: run42 was cut: " in run("-q", tmp_path / "cut", "-o", tmp_path / "out2", code=3).stderr
    job(tmp_path / "good")
    assert run("-q", tmp_path / "good", "-o", tmp_path / "out3").stderr == ""
    over = run("-q", tmp_path / "good", "-o", tmp_path / "out3", "--budget", "span <= 1ns", code=3).stderr
    assert over.startswith("over budget: run42: ")


def test_skipped_files_are_named_and_those_that_may_be_profiles_come_first(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    job(root)
    assert "skipped (" not in run(root, "-o", tmp_path / "out").stderr
    put(root / "run42" / "rank1.json.gz", gzip.compress(os.urandom(90_000))[:-900])
    said = run(root, "-o", tmp_path / "out").stderr
    assert "1 file was skipped" in said
    assert "): run42/rank1.json.gz\n" in said
    put(root / "run42" / "a.txt", b"words")
    put(root / "run42" / "b.txt", b"words")
    put(root / "run42" / "rank2.dat", b"")
    put(root / "empty" / "rank3.json", b"")
    said = run(root, "-o", tmp_path / "out").stderr
    assert "): empty/rank3.json, run42/rank1.json.gz, run42/rank2.dat and 2 more\n" in said


def test_new_changed_and_gone_runs_are_named(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    for number in range(5):
        job(root, f"run{number}")
    said = run(root, "-o", tmp_path / "out").stderr
    assert "\nnew: run0, run1, run2 and 2 more\n" in said
    assert "changed: " not in said
    shutil.rmtree(root / "run3")
    log = root / "run1" / "rank0.jsonl"
    log.write_bytes(log.read_bytes() + b"\n")
    job(root, "run9")
    said = run(root, "-o", tmp_path / "out").stderr
    assert "\nnew: run9\nchanged: run1\nfiles gone: run3\n" in said


@pytest.mark.parametrize("damage", ["cut", "line"])
def test_strict_fails_a_run_that_the_archive_has_already(damage: str, tmp_path: Path) -> None:
    lines = sample("recorder-log/rank0.jsonl").read_bytes().splitlines(keepends=True)
    lines[-1 if damage == "cut" else len(lines) // 2] = b"{no JSON" if damage == "cut" else b"{no JSON}\n"
    put(tmp_path / "tree" / "run42" / "rank0.jsonl", b"".join(lines))
    words = (tmp_path / "tree", "-o", tmp_path / "out")
    assert "1 failed" not in run(*words, code=None).stderr
    for _ in range(2):
        said = run(*words, "--strict", code=3).stderr
        assert "error: run42: " in said
        assert "1 failed, 0 partial" in said
    run_command("archive", "add", tmp_path / "kept", tmp_path / "tree" / "run42" / "rank0.jsonl", code=None)
    again = ("archive", "add", tmp_path / "kept", tmp_path / "tree" / "run42" / "rank0.jsonl", "--strict")
    assert "--strict makes the first note an error" in run_command(*again, code=1).stderr


def test_a_file_that_cannot_be_read_beside_an_archived_one_fails_its_run(tmp_path: Path) -> None:
    job(tmp_path / "tree")
    run(tmp_path / "tree", "-o", tmp_path / "out")
    put(tmp_path / "tree" / "run42" / "rank1.json.gz", b"\x1f\x8b\x08\x00damaged")
    said = run(tmp_path / "tree", "-o", tmp_path / "out", code=3).stderr
    assert "rank1.json.gz: the compressed data is damaged" in said
