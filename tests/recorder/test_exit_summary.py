"""TRACEKIT_SUMMARY=1: the summary is printed when the program ends, by a child, for the whole family of processes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from doors.recorder import recorder_exit_summary as es
from recorder import programs

PROGRAM = """
import sys
from tracekit import recorder
for _ in range(5):
    with recorder.range("forward", kind="forward"):
        pass
print("the program's own words")
"""
WITH_WORKERS = """
import multiprocessing, os, sys
from tracekit import recorder

def work(n):
    with recorder.range("work", kind="dataloader"):
        pass

if __name__ == "__main__":
    for method in ("spawn", "fork"):
        context = multiprocessing.get_context(method)
        workers = [context.Process(target=work, args=(n,)) for n in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
"""


def run(program: str, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return programs.run(tmp_path, program, TRACEKIT_LOG="run.jsonl", **variables)


def calls(said: str) -> dict[str, int]:
    table = said.partition("Overview")[2]
    return {kind: int(count) for count, kind in re.findall(r"(?m)^ *(\d+)[ \d.,<]* ([a-z_]+)$", table)}


def test_the_summary_follows_the_programs_output(tmp_path: Path) -> None:
    done = run(PROGRAM, tmp_path, TRACEKIT_SUMMARY="1")
    assert done.stdout.startswith("the program's own words\n")
    assert calls(done.stdout)["forward"] == 5
    assert "nothing dropped" in done.stdout
    assert done.stderr == ""
    assert len(list(tmp_path.glob("run*.jsonl"))) == 1, "the child records nothing"


def test_without_the_wish_nothing_is_printed(tmp_path: Path) -> None:
    assert run(PROGRAM, tmp_path).stdout == "the program's own words\n"
    assert run(PROGRAM, tmp_path, TRACEKIT_SUMMARY="0").stdout == "the program's own words\n"


def test_workers_belong_to_the_summary_and_print_none_themselves(tmp_path: Path) -> None:
    other = tmp_path / "run.pid1.jsonl"
    line = {"format": "tracekit-log", "version": 1, "tracekit": "0", "pid": 1, "parent_pid": 0, "perf_ns": 5}
    other.write_text(json.dumps(line | {"epoch_ns": 1}, separators=(",", ":")) + "\n")
    done = run(WITH_WORKERS, tmp_path, TRACEKIT_SUMMARY="1")
    assert done.stdout.count("Overview") == 1
    assert calls(done.stdout) == {"dataloader": 4}
    assert other.name not in done.stdout, "the log of an earlier run"


@pytest.mark.parametrize(("rank", "prints"), [("0", True), ("1", False)])
def test_under_a_launcher_rank_0_prints(rank: str, prints: bool, tmp_path: Path) -> None:
    done = run(PROGRAM, tmp_path, TRACEKIT_SUMMARY="1", RANK=rank, WORLD_SIZE="2")
    assert ("Overview" in done.stdout) == prints


def test_a_failing_program_fails_as_it_did_and_is_summarised(tmp_path: Path) -> None:
    done = run(PROGRAM + "\nsys.exit(7)\n", tmp_path, TRACEKIT_SUMMARY="1")
    assert done.returncode == 7
    assert calls(done.stdout)["forward"] == 5


def test_the_program_loads_nothing_for_it(tmp_path: Path) -> None:
    heavy = "{'pyarrow', 'numpy', 'pandas', 'jinja2', 'typer'} & set(sys.modules)"
    program = PROGRAM + f"\nimport atexit\natexit.register(lambda: print('heavy:', {heavy} or 'none'))\n"
    environ = {"NVTX_DISABLE": "1"}  # the package nvtx brings numpy
    without_nvtx = program.replace("import sys\n", "import sys\nsys.modules['nvtx'] = None\n", 1)
    done = run(without_nvtx, tmp_path, TRACEKIT_SUMMARY="1", **environ)
    assert "heavy: none" in done.stdout


def test_row_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert es.rows_wanted({}) is None
    environ = {"TRACEKIT_SUMMARY": "yes"}
    assert es.rows_wanted(environ) == 20
    assert environ == {}, "children do not print one too"
    assert es.rows_wanted({"TRACEKIT_SUMMARY": "1", "TRACEKIT_N_OPS": "0"}) == 0
    assert capsys.readouterr().err == ""
    assert es.rows_wanted({"TRACEKIT_SUMMARY": "1", "TRACEKIT_N_OPS": "many"}) == 20
    limits = {"TRACEKIT_SUMMARY": "1", "TRACEKIT_N_APPLY": "3", "TRACEKIT_MIN_MEMORY_SIZE": "1024"}
    assert es.rows_wanted(limits) == 20
    notes = capsys.readouterr().err.splitlines()
    named = ["TRACEKIT_N_OPS=many:", "TRACEKIT_N_APPLY", "TRACEKIT_MIN_MEMORY_SIZE"]
    assert [note.split()[1] for note in notes] == named


def test_a_lost_log_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    es.print_summary(tmp_path / "gone.jsonl", 5)
    err = capfd.readouterr().err
    assert "no summary: the child ended with 1" in err
    assert "error:" in err
