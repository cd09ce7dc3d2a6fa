"""Limits where other processes read: each run of a batch, ranks that are read apart; and archives of what was cut."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from batch_trees import Here, put
from support import LONG_S, sample
from support import run_command as run

import tracekit
from tracekit import archive, batch
from tracekit.safety import guard
from tracekit.safety.guard import ProcessEnded, reason_of_end
from tracekit.safety.limits import Limits

CSV = sample("nvprof-csv/gpu-and-api-trace.csv")
KINETO = sample("kineto/gpu.pt.trace.json")
SAID = "has more than 50 events (--max-read-events): the rest was not read"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs: one of 137 events, and one of fewer than 50."""
    root = tmp_path / "tree"
    put(root / "large" / "a.csv", CSV.read_bytes())
    lines = CSV.read_bytes().splitlines(keepends=True)
    put(root / "small" / "b.csv", b"".join(lines[:25]))
    return root


def test_a_run_beyond_a_limit_is_partial_and_the_others_are_whole(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "LocalEngine", Here)
    out = tmp_path / "out"
    done = run("batch", runs, "-o", out, "--max-read-events", 50, code=1)
    assert f"INCOMPLETE: a.csv {SAID}, so shares are unknown (large)" in done.stderr
    assert "0 failed, 1 partial" in done.stderr
    index = json.loads((out / "index.json").read_text())
    assert {each["run"]: (each["status"], each["events"]) for each in index["runs"]} == {
        "large": ("partial", 50),
        "small": ("ok", 20),
    }
    assert SAID in (out / "index.html").read_text()
    again = run("batch", runs, "-o", out, "--max-read-events", 50, code=1)
    assert "2 runs: 0 done, 2 unchanged" in again.stderr
    whole = run("batch", runs, "-o", out)
    assert "2 done (2 options)" in whole.stderr
    index = json.loads((out / "index.json").read_text())
    assert {each["run"]: each["status"] for each in index["runs"]} == {"large": "ok", "small": "ok"}
    assert archive.verify(out / "archive").problems == ()


def test_a_run_that_holds_too_much_memory_fails_alone(runs: Path, tmp_path: Path) -> None:
    if not guard.knows_memory():
        pytest.skip("no limit of memory here")
    event = '{"ph":"X","name":"k","ts":1,"dur":1,"pid":1,"tid":1},\n'
    put(runs / "hungry" / "a.json", ('{"traceEvents":[\n' + event * 400_000).encode())
    out = tmp_path / "out"
    words = [sys.executable, "-m", "tracekit", "batch", str(runs), "-o", str(out), "--jobs", "1", "--no-archive"]
    words += ["--max-memory", "180MiB"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert done.returncode == 3, done.stderr
    said = " ".join(done.stderr.split())  # whatever the width of lines
    assert "error: hungry: the run was ended: it held more memory than 180 MiB (--max-memory)" in said
    assert "3 runs: 3 done (3 new)" in done.stderr
    assert "1 failed, 0 partial" in done.stderr
    assert not (out / ".work").exists()
    results = [json.loads(path.read_text()) for path in out.glob("runs/*/result.json")]
    assert {each["run"]: each["status"] for each in results} == {"hungry": "failed", "large": "ok", "small": "ok"}
    assert all(each["options"]["max_memory"] == 180 << 20 for each in results)
    again = subprocess.run(words, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert "3 runs: 0 done, 3 unchanged" in again.stderr


def test_ranks_that_are_read_apart_have_the_limits(tmp_path: Path) -> None:
    for rank in range(2):
        log = sample(f"recorder-log/rank{rank}.jsonl") if rank == 0 else sample("recorder-log/rank0.jsonl")
        put(tmp_path / f"rank{rank}.jsonl", log.read_bytes().replace(b'"rank":0', f'"rank":{rank}'.encode()))
    done = run("summary", tmp_path / "rank0.jsonl", "--jobs", 1, "--max-read-events", 3, code=1)
    assert "rank0.jsonl has more than 3 events (--max-read-events): the rest was not read" in done.stdout + done.stderr


def test_limits_are_sent_to_another_process() -> None:
    limits = Limits(5, 6, 10.0, began=0.0, memory=7)
    assert limits.late() is not None
    assert limits.sent().received().late() is not None
    fresh = Limits(5, 6, 1e6).sent().received()
    assert fresh.late() is None
    assert (fresh.read_bytes, fresh.read_events, fresh.seconds) == (5, 6, 1e6)


def test_an_entry_that_was_cut_by_a_limit_is_read_again(tmp_path: Path) -> None:
    counts = []
    for events in (50, 50, 0, 50):
        with tracekit.limits(read_events=events):
            added = archive.add(tmp_path / "runs", CSV)
        counts.append((added.events, added.new, added.changed))
    # The second add makes the same file, the third replaces it by the whole, which the fourth finds.
    assert counts == [(50, True, False), (50, False, False), (137, False, True), (137, False, False)]
    assert len(archive.listing(tmp_path / "runs").entries) == 1
    assert archive.verify(tmp_path / "runs").problems == ()


def test_an_entry_that_was_cut_says_so_wherever_it_is_read(tmp_path: Path) -> None:
    added = run("archive", "add", tmp_path / "runs", CSV, "--max-read-events", 50, code=1)
    assert SAID in added.stderr
    path = next((tmp_path / "runs").rglob("*.parquet"))
    assert SAID in run("inspect", path, code=1).stdout
    assert "already archived" in run("archive", "add", tmp_path / "runs", CSV, "--max-read-events", 50, code=1).stderr


def test_memory_counts_the_processes_that_the_command_started() -> None:
    if sys.platform != "linux":
        pytest.skip("only there")
    hungry = "import sys; held = bytearray(b'x') * (150 << 20); sys.stdin.read()"
    # It reads until its parent is gone.
    parent = f"import subprocess as s, sys; s.Popen([sys.executable, '-c', {hungry!r}], stdin=s.PIPE).wait()"
    ended = guard.watched(guard.python_words(parent), memory=120 << 20, seconds=LONG_S)
    assert ended.over == "memory"


def test_the_time_of_a_command_ends_with_its_costly_part() -> None:
    served = "costs_end(); time.sleep(1.5); print('served to the end')"
    code = f"import time; from tracekit.safety.guard import costs_end; {served}"
    ended = guard.watched(guard.python_words(code), seconds=1.0, given=b"")
    # A machine that needs a second for the start of Python ends it before.
    assert (ended.code, ended.output) == (0, b"served to the end\n") or ended.over == "time"


def test_a_library_that_stops_the_process_for_want_of_memory_is_named() -> None:
    limits = Limits(memory=1 << 30)
    assert reason_of_end(ProcessEnded(-6), limits) == (
        "was stopped by SIGABRT: a library needed more memory than 1 GiB (--max-memory)"
    )
    assert reason_of_end(ProcessEnded(-6), Limits()) is None
    assert reason_of_end(ProcessEnded(1), limits) is None


@pytest.mark.parametrize("words", [["summary", "a.csv", "--max-memory", "4GiB"], ["batch", "t", "-o", "o", "--jobs=1"]])
def test_no_module_of_the_present_folder_is_run(words: list[str], tmp_path: Path) -> None:
    put(tmp_path / "t" / "a.csv", CSV.read_bytes())
    put(tmp_path / "a.csv", CSV.read_bytes())
    for name in ("pickle", "typer", "multiprocessing", "numpy", "json", "tracekit"):
        put(tmp_path / f"{name}.py", b"open('run', 'w').close()")
    path = [each for each in sys.path if each] + [str(Path(tracekit.__file__).parents[1])]
    start = f"import sys; sys.path[:] = {path!r}; from tracekit.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", start, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "run").exists()
