"""The queries of docs/queries.md run, and say what the tables of tracekit and plain arithmetic say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ROOT, sample

import tracekit
from tracekit import archive
from tracekit.analysis.intervals import union_length
from tracekit.queries import query

TEXT = (ROOT / "docs" / "queries.md").read_text(encoding="utf-8")
QUERIES = {
    int(number): sql for number, sql in re.findall(r"^## (\d+)\. .*?^```sql\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
}
GPU = sample("nvprof-csv/gpu-and-api-trace.csv")
STEPS = sample("recorder-log/rank0.jsonl")
KINETO = sample("kineto/gpu.pt.trace.json")
SUMMED = sample("paddle-summary/gpu.txt")


def asked(number: int, *inputs: Path) -> list[dict[str, Any]]:
    return query(list(inputs), QUERIES[number]).to_pylist()


def whole(number: int, *inputs: Path) -> list[dict[str, Any]]:
    """Return the answer without its limit."""
    return query(list(inputs), re.sub(r"LIMIT \d+", "", QUERIES[number])).to_pylist()


def rows_of(path: Path, view: str, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table of a view, which the answer to a query must equal."""
    (found,) = [t for t in tracekit.view(tracekit.read(path), view).tables if t.name == table]
    return [dict(zip([c.name for c in found.columns], row, strict=True)) for row in found.rows()]


def picked(rows: list[dict[str, Any]], **columns: str) -> list[tuple[Any, ...]]:
    """Return these columns of rows, in an order of their own. columns: the name in the row of each."""
    return sorted((tuple(row.get(name) for name in columns.values()) for row in rows), key=repr)


def test_ten_queries_are_documented() -> None:
    assert sorted(QUERIES) == list(range(1, 11))


@pytest.mark.parametrize("number", range(1, 11))
@pytest.mark.parametrize("path", [GPU, STEPS, KINETO, SUMMED], ids=lambda p: p.parent.name)
def test_every_query_runs_on_every_trace(number: int, path: Path) -> None:
    names = query(path, QUERIES[number]).schema.names
    assert len(names) == len(set(names)) >= 4


def test_1_is_the_kernel_table() -> None:
    table = rows_of(GPU, "kernel", "kernels")
    assert picked(whole(1, GPU), a="name", b="calls", c="total_ns", d="longest_ns") == picked(
        table, a="name", b="calls", c="total", d="max"
    )
    assert asked(1, GPU) == whole(1, GPU)[:10]


@pytest.mark.parametrize("path", [GPU, STEPS, KINETO], ids=lambda p: p.parent.name)
def test_2_is_the_overview(path: Path) -> None:
    table = [row for row in rows_of(path, "overview", "kinds") if row["total"] is not None]
    answer = asked(2, path)
    assert picked(answer, a="kind", b="n", c="total_ns", d="covered_ns") == picked(
        table, a="kind", b="calls", c="total", d="union"
    )
    shares = {row["kind"]: row["share"] for row in table}
    assert {row["kind"]: row["share_ratio"] for row in answer} == pytest.approx(shares)


def test_3_has_the_percentiles_of_the_kernel_table() -> None:
    table = [row for row in rows_of(GPU, "kernel", "kernels") if row["calls"] >= 3]
    answer = asked(3, GPU)
    assert picked(answer, a="name", b="calls", c="p50_ns", d="p95_ns", e="max_ns") == picked(
        table, a="name", b="calls", c="p50", d="p95", e="max"
    )
    assert answer[0]["worst_to_median"] == max(row["max"] / row["p50"] for row in table)


@pytest.mark.parametrize("path", [GPU, KINETO], ids=lambda p: p.parent.name)
def test_4_is_the_table_of_devices(path: Path) -> None:
    table, answer = rows_of(path, "device", "devices"), asked(4, path)
    assert picked(answer, a="device", b="busy_ns", c="span_ns") == picked(table, a="device", b="busy_time", c="span")
    assert [row["busy_ratio"] for row in answer] == pytest.approx([row["busy"] for row in table])


@pytest.mark.parametrize("path", [GPU, KINETO], ids=lambda p: p.parent.name)
def test_5_has_the_gaps_of_the_view_idle(path: Path) -> None:
    gaps = whole(5, path)
    (busy,) = asked(4, path)
    assert sum(row["idle_ns"] for row in gaps) == busy["span_ns"] - busy["busy_ns"]
    assert sum(row["idle_ns"] for row in gaps) == sum(row["total"] for row in rows_of(path, "idle", "causes"))
    first = int(tracekit.read(path).to_pandas()["ts_ns"].min())
    mine = [(row["idle_ns"], row["idle_from_ns"] - first, row["device"], row["before"]) for row in asked(5, path)]
    largest = rows_of(path, "idle", "gaps")
    assert mine == [(row["gap"], row["at"], row["device"], row["next"]) for row in largest[:10]]
    names = tracekit.read(path).to_pandas().set_index("event_id")["name"]
    after = [None if row["before_event"] is None else names[row["before_event"]] for row in largest[:10]]
    assert [row["after"] for row in asked(5, path)] == after


def test_6_adds_up_the_table_of_copies_by_direction() -> None:
    table = [row for row in rows_of(GPU, "memory_manipulation", "copies") if row["kind"] == "memcpy"]
    answer = asked(6, GPU)
    assert {row["copy_kind"] for row in answer} == {row["copy_kind"] for row in table}
    for row in answer:
        mine = [copy for copy in table if copy["copy_kind"] == row["copy_kind"]]
        sums = [sum(copy[name] for copy in mine) for name in ("calls", "bytes", "total")]
        assert [row["copies"], row["total_bytes"], row["total_ns"]] == sums
        assert row["gb_per_s"] == sums[1] / sums[2]


@pytest.mark.parametrize("path", [GPU, KINETO], ids=lambda p: p.parent.name)
def test_7_has_the_queue_times_of_the_view_launch(path: Path) -> None:
    table = [row for row in rows_of(path, "launch", "launches") if row["kind"] == "kernel"]
    assert table
    assert picked(whole(7, path), a="name", b="launches", c="queue_ns", d="p50_queue_ns", e="p95_queue_ns") == picked(
        table, a="name", b="launches", c="queue_total", d="queue_p50", e="queue_p95"
    )


@pytest.mark.parametrize("path", [STEPS, KINETO], ids=lambda p: p.parent.name)
def test_8_is_within_the_steps_and_has_the_busy_time_of_the_view_steps(path: Path) -> None:
    answer = asked(8, path)
    steps = rows_of(path, "steps", "steps")
    assert {(row["step"], row["step_ns"]) for row in answer} == {(row["step"], row["time"]) for row in steps}
    busy = {row["step"]: row["covered_ns"] for row in answer if row["kind"] == "device"}
    assert busy == {row["step"]: row["busy_time"] for row in steps if row.get("busy_time")}
    frame = tracekit.read(path).to_pandas()
    frame = frame[frame["dur_ns"].notna()]
    for row in answer:
        assert 0 <= row["covered_ns"] <= row["step_ns"]
        assert row["step_ratio"] == row["covered_ns"] / row["step_ns"]
        step = frame[(frame["kind"] == "step") & (frame["step"] == row["step"])].iloc[0]
        kinds = ["kernel", "memcpy", "memset"] if row["kind"] == "device" else [row["kind"]]
        mine = frame[frame["kind"].isin(kinds)]
        starts = mine["ts_ns"].to_numpy(np.int64)
        ends = starts + mine["dur_ns"].to_numpy(np.int64)
        low, high = int(step["ts_ns"]), int(step["ts_ns"] + step["dur_ns"])
        assert row["covered_ns"] == union_length(np.clip(starts, low, high), np.clip(ends, low, high))


def test_9_one_row_an_entry_by_day(tmp_path: Path) -> None:
    ids = [archive.add(tmp_path, GPU, run=f"r{n}", date=f"2026-01-0{n}").id for n in (3, 1, 2)]
    rows = asked(9, tmp_path)
    assert [(r["run_name"], r["date"].day) for r in rows] == [("r1", 1), ("r2", 2), ("r3", 3)]
    assert {r["entry"] for r in rows} == set(ids)
    mine = [row for row in rows_of(GPU, "kernel", "kernels") if "gemm" in row["name"]]
    assert {(r["calls"], r["total_ns"]) for r in rows} == {
        (sum(k["calls"] for k in mine), sum(k["total"] for k in mine))
    }


def test_10_totals_in_their_own_order() -> None:
    totals = tracekit.read(SUMMED).totals.to_pylist()
    wanted = [(t["section"], t["name"], t["total_ns"]) for t in totals if t["total_ns"] is not None]
    got = [
        (r["section"], r["name"], r["total_ns"]) for r in query(SUMMED, QUERIES[10].replace("LIMIT 20", "")).to_pylist()
    ]
    assert sorted(got, key=str) == sorted(wanted, key=str)
    assert got
