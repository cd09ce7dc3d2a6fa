"""Reports of nsys stats: quoted output of several versions, our samples, exact numbers, and what can be wrong."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import sample

import tracekit
from tracekit.errors import TracekitError
from tracekit.pipeline import inspect
from tracekit.trace import Trace

TRACE = (
    b"Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
    b"Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n"
    b'100,50,7,1,2,3,4,5,6,16,0.001,0.000,,,,,NVIDIA A100 (1),1,7,"void f<int, 4>(int)"\n'
    b"200,20,8,,,,,,,,,,402.653,1.5,Pageable,Device,NVIDIA A100 (1),1,13,[CUDA memcpy Host-to-Device]\n"
    b"300,9,,,,,,,,,,,0.004,,Managed,,NVIDIA A100 (1),1,13,[CUDA memset]\n"
)
SUM = (
    b" Time (%)  Total Time (ns)  Instances   Avg (ns)   Med (ns)   Min (ns)   Max (ns)  StdDev (ns)   Style   Range \n"
    b" --------  ---------------  ---------  ---------  ---------  ---------  ---------  -----------  -------  ------\n"
    b"     95.0        3,481,709          1  3,481,709  3,481,709  3,481,709  3,481,709          0.0  PushPop  A Loop\n"
    b"      5.0          182,472          2   91,236.0   91,236.5     90,000     92,472      1,748.0  PushPop  Warmup\n"
)


def report(tmp_path: Path, text: bytes) -> Trace:
    path = tmp_path / "report.csv"
    path.write_bytes(text)
    return tracekit.read(path)


def events(trace: Trace) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if v is not None} for row in trace.events.to_pylist()]


def totals(trace: Trace) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if v is not None} for row in trace.totals.to_pylist()]


def test_a_gpu_trace_gives_kernels_copies_and_memsets(tmp_path: Path) -> None:
    trace = report(tmp_path, TRACE)
    kernel, copy, memset = events(trace)
    assert kernel == {
        "ts_ns": 100, "dur_ns": 50, "event_id": 2, "name": "void f<int, 4>(int)", "kind": "kernel", "source": 0,
        "device": 1, "context": 1, "stream": 7, "correlation": 7, "grid_x": 1, "grid_y": 2, "grid_z": 3, "block_x": 4,
        "block_y": 5, "block_z": 6, "registers": 16, "static_smem_bytes": 1000, "dynamic_smem_bytes": 0,
    }  # fmt: skip
    assert (copy["kind"], copy["copy_kind"], copy["bytes"], copy["stream"]) == ("memcpy", "HtoD", 402_653_000, 13)
    assert json.loads(copy["args"]) == {
        "Throughput (MB/s)": "1.5", "src_mem_type": "Pageable", "dst_mem_type": "Device"
    }  # fmt: skip
    assert (memset["kind"], memset["bytes"]) == ("memset", 4000)
    assert "correlation" not in memset
    assert trace.run.devices == {(0, 1): "NVIDIA A100"}
    assert trace.run.origin_ns is None
    assert "sizes-rounded" in trace.ledgers[0].notes


@pytest.mark.parametrize(
    ("unit", "start", "ns"), [("ns", "12", 12), ("nsec", "12", 12), ("us", "1.5", 1500), ("s", "0.000000007", 7)]
)
def test_units_stand_in_the_header_in_all_versions(tmp_path: Path, unit: str, start: str, ns: int) -> None:
    text = f"Start({unit}),Duration (us),Name,CorrID,Pid,Tid\n{start},2.5,cudaMalloc_v3020,3,10,11\n"
    (row,) = events(report(tmp_path, text.encode()))
    assert (row["ts_ns"], row["dur_ns"], row["pid"], row["tid"]) == (ns, 2500, 10, 11)
    assert (row["name"], row["raw_name"], row["kind"]) == ("cudaMalloc", "cudaMalloc_v3020", "runtime")


def test_columns_under_dashes_are_read_by_place(tmp_path: Path) -> None:
    trace = report(tmp_path, b"[3/8] Executing 'nvtx_sum' stats report\n\n" + SUM)
    first, second = totals(trace)
    assert (first["name"], first["section"], first["kind"]) == ("A Loop", "nvtx_sum", "user_range")
    assert (first["total_ns"], first["calls"], first["avg_ns"]) == (3_481_709, 1, 3_481_709.0)
    assert (second["min_ns"], second["max_ns"], second["std_ns"]) == (90_000, 92_472, 1748.0)
    assert json.loads(second["args"]) == {"Time (%)": "5.0", "Style": "PushPop", "Med (ns)": "91,236.5"}


def test_thousands_are_quoted_and_messages_stand_between_reports(tmp_path: Path) -> None:
    text = (
        b"NOTICE: Existing SQLite export found: x.sqlite\n"
        b"Processing [x.sqlite] with [/opt/nvidia/reports/cuda_api_sum.py]... \n\n"
        b" ** CUDA API Summary (cuda_api_sum):\n"
        b"Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        b'67.3,"335,987,431",2,"167,993,715.5","167,993,715.5","2,971,823","333,015,608","233,376,198.5",cudaMalloc\n'
        b"\nProcessing [x.sqlite] with [/opt/nvidia/reports/um_sum.py]... \n"
        b"SKIPPED: x.sqlite does not contain CUDA Unified Memory CPU page faults data.\n"
    )
    trace = report(tmp_path, text)
    (row,) = totals(trace)
    assert (row["section"], row["kind"], row["total_ns"]) == ("cuda_api_sum", "runtime", 335_987_431)
    assert row["avg_ns"] == 167_993_715.5
    assert trace.ledgers[0].ignored == {"blank": 2, "header": 1, "message": 5}


def test_the_old_sum_without_median(tmp_path: Path) -> None:
    text = b"Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n100.0,900,3,300.0,100,500,k(int)\n"
    (row,) = totals(report(tmp_path, text))
    assert (row["min_ns"], row["max_ns"], row["avg_ns"], row["kind"]) == (100, 500, 300.0, "kernel")


def test_a_report_that_is_not_read_is_ignored_aloud(tmp_path: Path) -> None:
    text = (
        TRACE
        + b"\nProcessing [x] with [reports/cuda_kern_exec_trace.py]... \nAPI Start (ns),API Dur (ns),KName\n1,2,k\n"
    )
    ledger = report(tmp_path, text).ledgers[0]
    assert ledger.ignored["table cuda_kern_exec_trace"] == 2
    assert ledger.notes["unread-cuda-kern-exec-trace"].count == 1


@pytest.mark.parametrize(
    "row",
    [
        b"x,1,,,,,,,,,,,,,,,,,,k",
        b"1,-5,,,,,,,,,,,,,,,,,,k",
        b"1,2,3",
        b"1,,,,,,,,,,,,,,,,,,,k",
        b"1,2,1.5,,,,,,,,,,,,,,,,,k",
    ],
)
def test_a_bad_row_costs_that_row_and_names_its_line(tmp_path: Path, row: bytes) -> None:
    trace = report(tmp_path, TRACE + row + b"\n400,1,,,,,,,,,,,,,,,,,,k\n")
    assert trace.ledgers[0].dropped == {"bad-row": 1}
    assert trace.ledgers[0].notes["bad-row"].places == ["line 5"]
    assert len(trace.events) == 4


def test_a_cut_last_line_costs_that_line(tmp_path: Path) -> None:
    assert report(tmp_path, TRACE + b"400,1").ledgers[0].dropped == {"torn-row": 1}
    whole = report(tmp_path, TRACE[:-1])
    assert len(whole.events) == 3
    assert "no-line-end" in whole.ledgers[0].notes


def test_the_samples_tell_the_same_run_as_each_other() -> None:
    gpu = {n: inspect(sample(f"nsys-stats-csv/{n}"))["inputs"][0] for n in ("cuda_gpu_trace.csv", "gputrace-2020.csv")}
    database = inspect(sample("nsys-sqlite/schema-of-2021.sqlite"))["inputs"][0]["by_kind"]
    for found in gpu.values():
        assert found["by_kind"] == {k: database[k] for k in ("kernel", "memcpy", "memset")}
    calls = inspect(sample("nsys-stats-csv/cuda_api_trace.csv"))["inputs"][0]["by_kind"]
    assert calls == {k: database[k] for k in ("driver", "runtime")}
    sums = tracekit.read(sample("nsys-stats-csv/sums.csv")).totals.to_pylist()
    for section, kinds in (("cuda_api_sum", ("driver", "runtime")), ("cuda_gpu_kern_sum", ("kernel",))):
        mine = [r for r in sums if r["section"] == section]
        assert sum(r["total_ns"] for r in mine) == sum(database[k]["dur_ns"] for k in kinds)
        assert sum(r["calls"] for r in mine) == sum(database[k]["events"] for k in kinds)
    assert tracekit.read(sample("nsys-stats-csv/columns.txt")).totals.num_rows == 13
    sizes = [r for r in sums if r["section"] == "cuda_gpu_mem_size_sum"]
    assert {r["kind"] for r in sizes} == {"memcpy", "memset"}
    assert all(r["value_min"] <= r["value_avg"] <= r["value_max"] <= r["bytes"] for r in sizes)


@given(
    st.lists(st.tuples(st.integers(0, 10**15), st.integers(0, 10**12), st.text("abc,<>\" '", max_size=20)), max_size=20)
)
def test_any_rows_come_back_exactly(rows: list[tuple[int, int, str]]) -> None:
    import csv
    import io
    import tempfile

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["Start (us)", "Duration (us)", "CorrId", "Strm", "Name"])
    for start, dur, name in rows:
        writer.writerow([str(Decimal(start) / 1000), f"{Decimal(dur) / 1000:,}", 1, 7, f"k{name}"])
    with tempfile.TemporaryDirectory() as folder:
        trace = report(Path(folder), text.getvalue().encode())
    found = sorted((r["ts_ns"], r["dur_ns"], r["name"]) for r in trace.events.to_pylist())
    assert found == sorted((start, dur, f"k{name}".strip()) for start, dur, name in rows)


@given(st.integers(0, len(TRACE)), st.binary(max_size=30), st.sampled_from([TRACE, SUM]))
def test_junk_anywhere_gives_rows_or_our_errors(at: int, junk: bytes, text: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.csv"
        path.write_bytes(text[:at] + junk + text[at:])
        hint = "read"
        try:
            tracekit.read(path, format="nsys-stats-csv")
        except TracekitError as err:
            hint = err.hint
        assert hint
