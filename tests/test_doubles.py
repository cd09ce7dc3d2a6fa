"""Two profiles of one process stand side by side, and every output says that their work counts twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import run_command, sample

import tracekit

KINETO = sample("kineto/gpu.pt.trace.json")
PID = 21604
CODE = "process-twice"


def changed(folder: Path, **facts: object) -> Path:
    """Return the same trace in another file, with other columns in each event."""
    out = folder / "other.jsonl"
    tracekit.convert([KINETO], out)
    head, *rows = out.read_text().splitlines()
    lines = [json.loads(line) for line in rows]
    out.write_text("\n".join([head, *(json.dumps({**line, **facts} if "ts_ns" in line else line) for line in lines)]))
    return out


def test_every_output_says_which_process_counts_twice(tmp_path: Path) -> None:
    text = f"has device work of process {PID} too, at the same time"
    both = [KINETO, changed(tmp_path)]
    for words in (
        ["summary", *both],
        ["summary", *both, "--view", "kernel"],
        ["summary", *both, "--format", "json"],
        ["convert", *both, "-o", tmp_path / "t.json"],
        ["convert", *both, "-o", tmp_path / "t.parquet"],
    ):
        shown = run_command(*words, width=400)
        assert text in shown.stdout + shown.stderr, words


@pytest.mark.parametrize(
    "facts", [{"pid": PID + 1}, {"rank": 4}, {"pid": 7}, {"ts_ns": 1}], ids=["process", "rank", "container", "time"]
)
def test_what_is_of_two_processes_is_not_said_to_count_twice(facts: dict[str, int], tmp_path: Path) -> None:
    trace = tracekit.read([KINETO, changed(tmp_path, **facts)])
    assert not [ledger for ledger in trace.ledgers if CODE in ledger.notes]


def test_a_log_of_the_process_has_no_device_work(tmp_path: Path) -> None:
    trace = tracekit.read([sample("recorder-log/rank0.jsonl"), KINETO])
    assert not [ledger for ledger in trace.ledgers if CODE in ledger.notes]
