"""Printed starts without resolution hold no order: only durations and counts are used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_limits import Limit, small
from support import run_command

import tracekit
from tracekit.model.trace import Trace

NSYS = "Start ({unit}),Duration (ns),CorrId,Bytes (MB),Device,Ctx,Strm,Name\n"
NVPROF = (
    "==42== NVPROF is profiling process 42, command: ./a\n==42== Profiling result:\n"
    "   Start  Duration  Grid Size  Block Size     Regs*    SSMem*    DSMem*         Device   Context    Stream  Name\n"
)
API = "Start (s),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name\n"


def nsys(starts: list[str], durations: list[int], *, unit: str = "s", streams: int = 1) -> str:
    rows = zip(starts, durations, strict=True)
    return NSYS.format(unit=unit) + "".join(
        f"{start},{duration},{n + 1},,NVIDIA X (0),1,{7 + n % streams},k{n % 3}\n"
        for n, (start, duration) in enumerate(rows)
    )


def nvprof(starts: list[str], durations: list[str]) -> str:
    row = "{:>8}  {:>8}    (1 1 1)    (32 1 1)       8      0B      0B  Tesla T4 (0)         1         7  k [{}]\n"
    rows = zip(starts, durations, strict=True)
    return NVPROF + "".join(row.format(start, time, n) for n, (start, time) in enumerate(rows, 1))


def read(folder: Path, text: str) -> Trace:
    path = folder / "x.csv"
    path.write_text(text, encoding="utf-8")
    return tracekit.read(path)


def is_unordered(trace: Trace) -> bool:
    noted = "order-not-known" in trace.ledgers[0].notes
    assert trace.run.sources[0].synthetic_time is noted
    return noted


UNORDERED = {
    "all are printed 0": nsys(["0.000000"] * 4, [1_632_000, 3_072_000, 2_656_000, 2_656_000]),
    "two rows at 0": nsys(["0.000"] * 2, [100, 200]),
    "all are one other time": nsys(["5.123457"] * 3, [2_000_000, 3_000_000, 4_000_000]),
    "ms for kernels of 100 us": nsys([f"0.{n // 8:03}" for n in range(64)], [100_000 + n for n in range(64)]),
    "whole ms": nsys([str(n // 8) for n in range(64)], [100_000 + n for n in range(64)], unit="ms"),
    "two streams": nsys(["0.000000"] * 6, [1_000_000 + n for n in range(6)], streams=2),
    "nvprof, two decimals": nvprof([f"1.{n // 6:02}s" for n in range(48)], [f"{n}us" for n in range(1000, 1048)]),
    "calls of one thread": API + "".join(f"0.000000,{900 + n},cudaMalloc,0,{n},4,4,20,a\n" for n in range(4)),
}  # fmt: skip

ORDERED = {
    "ns": nsys([str(n * 1_000) for n in range(20)], [999 + n % 2 for n in range(20)], unit="ns"),
    "coarse, but far apart": nsys([f"0.{n:03}" for n in range(64)], [100_000 + n for n in range(64)]),
    "one row a stream": nsys(["0.000000"] * 3, [100, 200, 300], streams=3),
    "one row": nsys(["0.000000"], [100]),
    "copies of one row": nsys(["1.5"], [100]) + nsys(["1.5"] * 3, [100] * 3).split("\n")[1] + "\n",
    "nvprof, five digits": nvprof([f"{100 + n}.50ms" for n in range(30)], [f"{n}.5us" for n in range(1, 31)]),
    "a kernel that runs beside another one": nsys(["0.000001", "0.000002"], [5_003, 4_001], streams=2),
}


@pytest.mark.parametrize("name", UNORDERED)
def test_work_that_would_overlap_in_its_stream_has_no_order(name: str, tmp_path: Path) -> None:
    trace = read(tmp_path, UNORDERED[name])
    assert is_unordered(trace)
    assert trace.ledgers[0].dropped == {}
    path = tmp_path / "x.csv"
    out = run_command("summary", path).stdout
    assert "order not known" in out
    assert "The run took" not in out
    assert "idle" not in out.replace("\n", " ").replace("GPU was idle is not known", "")
    entry = json.loads(run_command("inspect", path, "--format", "json").stdout)["inputs"][0]
    assert (entry["first_ns"], entry["last_ns"]) == (None, None)
    assert sum(kind["dur_ns"] for kind in entry["by_kind"].values()) == sum(trace.events["dur_ns"].to_pylist())


@pytest.mark.parametrize("name", ORDERED)
def test_starts_that_tell_the_order_are_used(name: str, tmp_path: Path) -> None:
    assert not is_unordered(read(tmp_path, ORDERED[name]))


def test_a_header_that_is_shifted_against_its_dashes_has_its_columns(tmp_path: Path) -> None:
    text = (
        "CUDA Kernel & Memory Operations Trace:\n\n"
        " Start(sec)  Duration(nsec)  CorrId     Device       Ctx  Strm   Name   \n"
        " ----------  --------------  ------  ----------------  ---  ----  --------\n"
        "   0.000000         1632000      19  NVIDIA X (0)        1    13  fill_gpu\n"
        "   0.000000         3072000      23  NVIDIA X (0)        1    14  fill_gpu\n"
    )
    trace = read(tmp_path, text)
    assert (trace.events["stream"].to_pylist(), trace.events["context"].to_pylist()) == ([14, 13], [1, 1])
    assert not is_unordered(trace)


def test_one_report_without_resolution_is_enough(tmp_path: Path) -> None:
    calls = API + "".join(f"{n}.000001,{900 + n},cudaMalloc,0,{n},4,4,20,a\n" for n in range(4))
    assert is_unordered(read(tmp_path, f"{calls}\n{UNORDERED['all are printed 0']}"))


def test_rows_in_several_batches_are_held_against_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.NSYS_STATS_ROWS_AT_ONCE, 1)
    small(monkeypatch, Limit.NSYS_STATS_BATCH_ROWS, 1)
    assert is_unordered(read(tmp_path, UNORDERED["all are printed 0"]))
    assert is_unordered(read(tmp_path, UNORDERED["ms for kernels of 100 us"]))
    assert not is_unordered(read(tmp_path, ORDERED["ns"]))


# Cells that cannot be read


@pytest.mark.parametrize("cell", ["552.9…", "552.9...", "x", "1.2.3,4".replace(",", ";"), "1e99"])
def test_an_optional_cell_of_a_trace_that_cannot_be_read_costs_that_cell(cell: str, tmp_path: Path) -> None:
    text = nsys(["1.000000", "2.000000"], [100, 200])
    trace = read(tmp_path, text.replace("2,,NVIDIA", f"2,{cell},NVIDIA"))
    assert trace.events["dur_ns"].to_pylist() == [100, 200]
    assert trace.events["bytes"].to_pylist() == [None, None]
    assert trace.events["correlation"].to_pylist() == [1, 2]
    assert trace.ledgers[0].dropped == {}
    note = trace.ledgers[0].notes["odd-cell"]
    assert "Bytes" in note.text
    assert note.places == ["line 3"]


@pytest.mark.parametrize("column", ["Num Calls", "Avg (ns)", "Med (ns)", "Time (%)", "StdDev (ns)"])
def test_an_optional_cell_of_a_sum_that_cannot_be_read_costs_that_cell(column: str, tmp_path: Path) -> None:
    columns = ["Time (%)", "Total Time (ns)", "Num Calls", "Avg (ns)", "Med (ns)", "StdDev (ns)", "Name"]
    cells = dict(zip(columns, ["60.0", "600", "3", "200.0", "200.0", "1.0", "cudaMalloc"], strict=True))
    other = dict(zip(columns, ["40.0", "400", "2", "200.0", "200.0", "1.0", "cudaFree"], strict=True))
    cells[column] = "12…"
    rows = [",".join(columns), ",".join(cells.values()), ",".join(other.values())]
    trace = read(tmp_path, "\n".join([*rows, ""]))
    assert trace.totals["total_ns"].to_pylist() == [600, 400]
    assert trace.totals["calls"].to_pylist() == [None if column == "Num Calls" else 3, 2]
    assert trace.ledgers[0].dropped == {}


def test_a_start_or_a_total_that_cannot_be_read_costs_its_row(tmp_path: Path) -> None:
    trace = read(tmp_path, nsys(["1.000000", "2.0…"], [100, 200]))
    assert trace.ledgers[0].dropped == {"bad-row": 1}
