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
from tracekit.query import query

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


def device_work(trace: tracekit.Trace) -> Any:
    frame = trace.to_pandas()
    return frame[frame["kind"].isin(["kernel", "memcpy", "memset"]) & frame["dur_ns"].notna()]


def test_ten_queries_are_documented() -> None:
    assert sorted(QUERIES) == list(range(1, 11))


@pytest.mark.parametrize("number", range(1, 11))
@pytest.mark.parametrize("path", [GPU, STEPS, KINETO, SUMMED], ids=lambda p: p.parent.name)
def test_every_query_runs_on_every_trace(number: int, path: Path) -> None:
    names = query(path, QUERIES[number]).schema.names
    assert len(names) == len(set(names)) >= 4


def test_1_is_the_kernel_table() -> None:
    rows = asked(1, GPU)
    table = tracekit.view(tracekit.read(GPU), "kernel").to_pandas()
    assert [r["total_ns"] for r in rows] == table["total"].tolist()[:10]
    assert {r["name"]: r["calls"] for r in rows}.items() <= dict(
        zip(table["name"], table["calls"], strict=True)
    ).items()


def test_2_shares_are_of_the_whole() -> None:
    rows = asked(2, GPU)
    frame = tracekit.read(GPU).to_pandas()
    assert {r["kind"]: r["total_ns"] for r in rows} == frame.groupby("kind", observed=True)["dur_ns"].sum().to_dict()
    assert sum(r["time_ratio"] for r in rows) == pytest.approx(1)


def test_3_percentiles_are_by_nearest_rank() -> None:
    frame = tracekit.read(GPU).to_pandas()
    rows = asked(3, GPU)
    assert rows
    for row in rows:
        mine = np.sort(frame[(frame["kind"] == "kernel") & (frame["name"] == row["name"])]["dur_ns"].to_numpy(np.int64))
        ranks = [int(np.ceil(q * len(mine))) - 1 for q in (0.5, 0.95)]
        assert (row["p50_ns"], row["p95_ns"], row["max_ns"]) == (mine[ranks[0]], mine[ranks[1]], mine[-1])


@pytest.mark.parametrize("path", [GPU, KINETO], ids=lambda p: p.parent.name)
def test_4_busy_is_the_union(path: Path) -> None:
    frame = device_work(tracekit.read(path))
    for row in asked(4, path):
        mine = frame[frame["device"] == row["device"]]
        starts = mine["ts_ns"].to_numpy(np.int64)
        ends = starts + mine["dur_ns"].to_numpy(np.int64)
        assert (row["busy_ns"], row["span_ns"]) == (union_length(starts, ends), ends.max() - starts.min())


def test_5_the_idle_times_are_what_busy_leaves() -> None:
    busy = asked(4, GPU)[0]
    everything = QUERIES[5].replace("LIMIT 10", "")
    gaps = query(GPU, everything).to_pylist()
    assert sum(g["idle_ns"] for g in gaps) == busy["span_ns"] - busy["busy_ns"]
    assert all(g["after"] and g["before"] for g in gaps)
    assert asked(5, GPU) == gaps[:10]


def test_6_copies_by_direction() -> None:
    frame = tracekit.read(GPU).to_pandas()
    frame = frame[frame["kind"] == "memcpy"]
    for row in asked(6, GPU):
        mine = frame[frame["copy_kind"] == row["copy_kind"]]
        assert (row["copies"], row["total_bytes"], row["total_ns"]) == (
            len(mine),
            mine["bytes"].sum(),
            mine["dur_ns"].sum(),
        )


def test_7_every_launched_kernel_has_its_wait() -> None:
    rows = query(KINETO, QUERIES[7].replace("LIMIT 10", "")).to_pylist()
    frame = tracekit.read(KINETO).to_pandas()
    kernels = frame[frame["kind"] == "kernel"]
    calls = frame[frame["kind"].isin(["runtime", "driver"])]
    joined = kernels.merge(calls, on="correlation")
    assert sum(r["launches"] for r in rows) == len(joined) > 0
    assert max(r["max_wait_ns"] for r in rows) == (joined["ts_ns_x"] - joined["ts_ns_y"]).max()


def test_8_steps_contain_the_events_that_started_in_them() -> None:
    rows = asked(8, STEPS)
    frame = tracekit.read(STEPS).to_pandas()
    steps = frame[frame["kind"] == "step"]
    assert sorted({r["step_ns"] for r in rows}) == sorted(steps["dur_ns"].tolist())
    for row in rows:
        step = steps[steps["step"] == row["step"]].iloc[0]
        inside = frame[
            (frame["kind"] == row["kind"]) & frame["ts_ns"].between(step["ts_ns"], step["ts_ns"] + step["dur_ns"] - 1)
        ]
        assert (row["n"], row["total_ns"]) == (inside["dur_ns"].count(), inside["dur_ns"].sum())


def test_9_one_row_an_entry_by_day(tmp_path: Path) -> None:
    ids = [archive.add(tmp_path, GPU, run=f"r{n}", date=f"2026-01-0{n}").id for n in (3, 1, 2)]
    rows = asked(9, tmp_path)
    assert [(r["run_name"], r["date"].day) for r in rows] == [("r1", 1), ("r2", 2), ("r3", 3)]
    assert {r["entry"] for r in rows} == set(ids)
    frame = tracekit.read(GPU).to_pandas()
    mine = frame[(frame["kind"] == "kernel") & frame["name"].str.contains("gemm")]
    assert {r["total_ns"] for r in rows} == {mine["dur_ns"].sum()}


def test_10_totals_in_their_own_order() -> None:
    totals = tracekit.read(SUMMED).totals.to_pylist()
    wanted = [(t["section"], t["name"], t["total_ns"]) for t in totals if t["total_ns"] is not None]
    got = [
        (r["section"], r["name"], r["total_ns"]) for r in query(SUMMED, QUERIES[10].replace("LIMIT 20", "")).to_pylist()
    ]
    assert sorted(got, key=str) == sorted(wanted, key=str)
    assert got
