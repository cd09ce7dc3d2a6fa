"""The tables of timemory: the printed share of each label against our own, cells, logs, damage."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import SAMPLES, run_command, sample, sure_readers

import tracekit
from tracekit.errors import ParseError

ONE = "timemory/wall_clock.txt"
LOG = "timemory/two-ranks.log"


def totals(path: Path) -> list[dict[str, Any]]:
    trace = tracekit.read(path)
    trace.ledgers[0].check()
    rows: list[dict[str, Any]] = trace.totals.to_pylist()
    return [row | {"args": json.loads(row["args"])} for row in rows]


def test_the_share_that_was_printed_follows_from_times_and_paths() -> None:
    rows = totals(sample(ONE))
    assert sure_readers(sample(ONE)) == ["timemory"]
    assert len(rows) == 13
    for row in rows:
        path = [*row["args"].get("path", ()), row["name"]]
        below = [r for r in rows if r["args"].get("path") == path and r["args"]["thread"] == row["args"]["thread"]]
        own = 100 * (row["total_ns"] - sum(r["total_ns"] for r in below)) / row["total_ns"]
        assert f"{own:.1f}" == row["args"]["self_percent"]
        assert len(path) - 1 + row["args"]["thread"] == row["args"]["depth"]


def test_times_are_exact_and_calls_have_their_kind() -> None:
    rows = totals(sample(ONE))
    texts = [line.split(" | ") for line in sample(ONE).read_text("utf-8").splitlines() if ">>>" in line]
    assert [row["total_ns"] for row in rows] == [int(cells[-7].replace(".", "")) * 1000 for cells in texts]
    assert [row["calls"] for row in rows] == [int(cells[-11]) for cells in texts]
    kinds = {row["name"]: row["kind"] for row in rows}
    assert kinds["hipMemcpyAsync"] == "runtime"
    assert kinds["hsa_signal_wait_scacquire"] == "driver"
    assert kinds["reduce<float, add|mul> [clone .omp_fn.0]"] == "user_range"
    assert {row["section"] for row in rows} == {"wall_clock"}


def test_tables_of_a_log_are_runs_with_ranks_and_units() -> None:
    rows = totals(sample(LOG))
    assert [(row["run"], row["rank"]) for row in rows] == [(run, rank) for run in (0, 1) for rank in (0, 0, 0, 1, 1, 1)]
    assert [(row["unit"], row["value_max"]) for row in rows[:2]] == [("MB", 177.1), ("MB", 465.8)]
    assert rows[6]["total_ns"] == 763_200_000
    assert rows[7]["args"]["path"] == ["main"]
    assert rows[1]["name"] == "solve|2d"
    assert {row["args"]["table"] for row in rows} == {"MEASURES PEAK RSS", "CPU-CLOCK TIMER"}
    assert run_command("summary", sample(LOG), "--view", "metrics").output.count("peak_rss") >= 1


def test_a_table_at_the_end_of_a_long_log_is_found(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    lines = [f"I: epoch {number} | loss 0.5 |" for number in range(20_000)]
    path.write_text("\n".join(lines) + "\n" + sample(ONE).read_text("utf-8"), encoding="utf-8")
    assert sure_readers(path) in ([], ["timemory"])
    assert len(totals(path)) == 13


def test_bad_rows_cost_themselves_alone(tmp_path: Path) -> None:
    lines = sample(ONE).read_text("utf-8").splitlines()
    at = next(number for number, line in enumerate(lines) if ">>>" in line)
    odd = ["| |00>>> x | 1 |", lines[at].replace(" sec ", " sec ").replace("1.876886", "soon", 1), "|00>>> y|"]
    path = tmp_path / "x.txt"
    path.write_text("\n".join([*lines[: at + 1], *odd, *lines[at + 1 :]]) + "\n", encoding="utf-8")
    trace = tracekit.read(path)
    trace.ledgers[0].check()
    assert trace.ledgers[0].dropped == {"bad-row": 3}
    assert len(trace.totals) == 13


def test_text_without_a_table_gets_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("| LABEL | COUNT |\n| >>> main | 1 |\n", encoding="utf-8")
    with pytest.raises(ParseError, match="no table of timemory"):
        tracekit.read(path, format="timemory")


def test_the_generator_writes_the_committed_files_again(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-B", str(SAMPLES / "_timemory.py"), str(tmp_path)], check=True)
    for path in (tmp_path / "timemory").iterdir():
        assert path.read_bytes() == sample(f"timemory/{path.name}").read_bytes()
