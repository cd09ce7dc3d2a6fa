"""Reports of nsys stats: quoted output of several versions, our samples, exact numbers, and damage."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import run_command, sample, sure_readers

import tracekit
from tracekit.api import inspect
from tracekit.errors import ParseError, TracekitError
from tracekit.model.trace import Trace

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


@pytest.mark.parametrize("last", [b"", b"\nGenerated\n", b"[4/8] Executing 'nvtx_sum' stats report\n\n"])
def test_a_rule_below_the_last_row_costs_no_row(tmp_path: Path, last: bytes) -> None:
    """As the tables of other tools have one, by which somebody printed the report again."""
    head, rule, *rows = SUM.splitlines(keepends=True)
    text = b"[3/8] Executing 'nvtx_sum' stats report\n\n" + head + rule + b"".join(rows) + rule + last
    trace = report(tmp_path, text)
    assert totals(trace) == totals(report(tmp_path, b"[3/8] Executing 'nvtx_sum' stats report\n\n" + SUM))
    assert trace.ledgers[0].ignored["rule"] == 2
    assert not trace.ledgers[0].notes
    twice = totals(report(tmp_path, text + SUM))
    assert [row["name"] for row in twice] == ["A Loop", "Warmup"] * 2


@pytest.mark.parametrize("first", [b"[INFO] start", b"[0] start", b"[1,0]<stdout>:start", b"[3/8] Executing x"])
def test_a_tag_that_begins_the_text_is_no_json(tmp_path: Path, first: bytes) -> None:
    assert totals(report(tmp_path, first + b"\n\n" + SUM)) == totals(report(tmp_path, SUM))


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
    gpu = {n: inspect(sample(f"nsys-stats-csv/{n}")).inputs[0] for n in ("cuda_gpu_trace.csv", "gputrace-2020.csv")}
    database = inspect(sample("nsys-sqlite/schema-of-2021.sqlite")).inputs[0]["by_kind"]
    for found in gpu.values():
        assert found["by_kind"] == {k: database[k] for k in ("kernel", "memcpy", "memset")}
    calls = inspect(sample("nsys-stats-csv/cuda_api_trace.csv")).inputs[0]["by_kind"]
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
        writer.writerow([str(Decimal(start) / 1000), f"{Decimal(dur) / 1000:,.3f}", 1, 7, f"k{name}"])
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


OLD = (
    b"Exported successfully to\n/data/run.sqlite\n\nGenerating CUDA API Statistics...\n"
    b"CUDA API Statistics (nanoseconds)\n\n"
    b"Time(%)      Total Time       Calls         Average         Minimum         Maximum  Name                \n"
    b"-------  --------------  ----------  --------------  --------------  --------------  --------------------\n"
    b"   75.0            3000           2          1500.0            1000            2000  cudaMalloc          \n"
    b"   25.0            1000           1          1000.0            1000            1000  cudaLaunchKernel    \n"
    b"Generating CUDA Kernel Statistics...\n\n"
    b"CUDA Memory Operation Statistics (KiB)\n\n"
    b"            Total      Operations            Average            Minimum            Maximum  Name\n"
    b"-----------------  --------------  -----------------  -----------------  -----------------  ------------------\n"
    b"            1.500               2              0.750              0.500              1.000  [CUDA memcpy DtoH]\n"
    b"\n\nGenerating NVTX Push-Pop Range Statistics...\nNVTX Push-Pop Range Statistics (nanoseconds)\n```\n"
)
"""What --stats=true printed in 2019 and 2020: units in titles."""


def test_titles_say_the_unit_and_the_report_in_the_oldest_versions(tmp_path: Path) -> None:
    trace = report(tmp_path, b"```\n$ nsys profile --stats=true ./a.out\n" + OLD)
    malloc, launch, copy = totals(trace)
    assert (malloc["name"], malloc["section"], malloc["total_ns"], malloc["calls"]) == (
        "cudaMalloc", "cudaapisum", 3000, 2
    )  # fmt: skip
    assert (launch["min_ns"], launch["avg_ns"], launch["kind"]) == (1000, 1000.0, "runtime")
    assert (copy["section"], copy["kind"], copy["bytes"], copy["value_max"]) == ("gpumemsizesum", "memcpy", 1536, 1024)
    ledger = trace.ledgers[0]
    assert not ledger.dropped
    assert set(ledger.notes) == {"sizes-rounded"}


@pytest.mark.parametrize("before", [b"    ", b"# ", b"[1,0]<stdout>:", b"> ", b"2024-05-06 07:08:09 | "])
def test_what_a_paste_or_a_log_puts_before_each_line_moves_no_column(tmp_path: Path, before: bytes) -> None:
    text = b"[6/8] Executing 'nvtx_sum' stats report\n\n" + SUM + b"\nGenerated:\n    /data/run.nsys-rep\n"
    trace = report(tmp_path, b"".join(before + line + b"\n" for line in text.splitlines()))
    plain = report(tmp_path, text)
    assert totals(trace) == totals(plain)
    assert trace.totals.column("section").to_pylist() == ["nvtx_sum"] * 2
    assert not trace.ledgers[0].dropped


def test_a_moved_row_is_read_by_its_blanks_or_not_at_all_never_cut(tmp_path: Path) -> None:
    moved = (
        b"  100.0          1,234,567,890        12  102,880,657.5  102,880,657.5  1  2,345,678,901   0.5   "
        b"k(int, float)\n"
    )
    head = SUM.replace(b"Style   Range ", b"Name").replace(b"  -------  ------", b"  ------").splitlines(keepends=True)
    (row,) = totals(report(tmp_path, head[0] + head[1] + moved))
    assert (row["total_ns"], row["calls"], row["max_ns"], row["name"]) == (
        1_234_567_890, 12, 2_345_678_901, "k(int, float)"
    )  # fmt: skip
    trace = report(
        tmp_path, SUM + b"  100.0          1,234,567,890        12  1.0  1.0  1  2,345,678,901   0.5  PushPop  A B\n"
    )
    assert len(trace.totals) == 2
    assert trace.ledgers[0].dropped == {"bad-row": 1}


def test_rows_without_their_header_are_told(tmp_path: Path) -> None:
    trace = report(tmp_path, SUM.splitlines(keepends=True)[3] + b"\n" + SUM)
    assert len(trace.totals) == 2
    assert trace.ledgers[0].ignored["row without a header"] == 1
    assert "cut" in trace.ledgers[0].notes["no-header"].text


def test_ranges_projected_to_the_device_are_ranges_at_their_projected_times(tmp_path: Path) -> None:
    text = (
        b"Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Orig Duration (ns),Style,PID,TID,NumGPUOps,"
        b"Lvl,NumChild,RangeId,ParentId,RangeStack\n,10,90,,,,7,8,3,,0,,,\nUsing x,20,30,5,50,PushPop,7,8,2,0,0,2,,:2\n"
        b"idle,,,1,2,PushPop,7,8,0,0,0,3,,:3\n"
    )
    trace = report(tmp_path, text)
    root, ranged = events(trace)
    assert (root["ts_ns"], root["dur_ns"], root["kind"]) == (10, 90, "user_range")
    assert (ranged["name"], ranged["ts_ns"], ranged["dur_ns"], ranged["tid"]) == ("Using x", 20, 30, 8)
    assert json.loads(ranged["args"])["Orig Start (ns)"] == "5"
    assert trace.ledgers[0].ignored["range without work of a device"] == 1


def test_sums_of_projected_ranges_and_of_kernels_in_ranges(tmp_path: Path) -> None:
    text = (
        b"Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns),Proj Med (ns),"
        b"Proj Min (ns),Proj Max (ns),Proj StdDev (ns),Total GPU Ops,Avg GPU Ops,Avg Range Lvl,Avg Num Child\n"
        b":a: b,PushPop,600,200,2,300.0,300.0,100,500,282.8,12,6.0,3.0,3.0\n\n"
        b"NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),"
        b'Kernel Name\n:a,PushPop,1,1,2,4,800,200.0,200.0,100,300,81.6,"k(int, int)"\n'
    )
    ranged, kernel = totals(report(tmp_path, text))
    assert (ranged["section"], ranged["name"], ranged["kind"], ranged["total_ns"], ranged["calls"]) == (
        "nvtx_gpu_proj_sum", ":a: b", "user_range", 600, 2
    )  # fmt: skip
    assert (ranged["min_ns"], ranged["max_ns"], ranged["avg_ns"], ranged["std_ns"]) == (100, 500, 300.0, 282.8)
    assert (kernel["section"], kernel["name"], kernel["kind"], kernel["calls"]) == (
        "nvtx_kern_sum", "k(int, int)", "kernel", 4
    )  # fmt: skip
    assert json.loads(kernel["args"])["NVTX Range"] == ":a"


def test_a_trace_of_executions_gives_the_kernels(tmp_path: Path) -> None:
    text = (
        b"API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),Total Dur (ns),"
        b"PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name\n"
        b'10,5,15,4,19,7,16,40,41,1,cuLaunchKernelEx, 148    2    1, 256    1    1,"k(int, int)"\n'
    )
    (row,) = events(report(tmp_path, text))
    assert (row["name"], row["kind"], row["ts_ns"], row["dur_ns"], row["device"], row["pid"]) == (
        "k(int, int)", "kernel", 19, 7, 1, 40
    )  # fmt: skip
    assert (row["grid_x"], row["grid_y"], row["block_x"]) == (148, 2, 256)
    args = json.loads(row["args"])
    assert (args["API Start (ns)"], args["API Function"], args["TID"]) == ("10", "cuLaunchKernelEx", "41")
    assert "tid" not in row


def test_names_with_line_ends_are_one_row(tmp_path: Path) -> None:
    text = (
        b"Start (ns),End (ns),Duration (ns),Name,PID,TID,Lvl,RangeId\n"
        b'10,30,20,"one ""1""\ntwo, 2",5,6,0,1\n40,50,10,three,5,6,0,2\n60,70,10,"open\n'
    )
    trace = report(tmp_path, text)
    first, second = events(trace)
    assert (first["name"], first["tid"], second["name"]) == ('one "1"\ntwo, 2', 6, "three")
    ledger = trace.ledgers[0]
    assert (ledger.kept, ledger.merged, ledger.dropped) == (2, 1, {"bad-row": 1})


@pytest.mark.parametrize("device", [b"", b"A100"])
def test_device_work_stays_such_where_the_device_has_no_number(tmp_path: Path, device: bytes) -> None:
    kernel, copy, memset = events(report(tmp_path, TRACE.replace(b"NVIDIA A100 (1)", device)))
    assert [row["kind"] for row in (kernel, copy, memset)] == ["kernel", "memcpy", "memset"]
    assert "device" not in kernel
    assert ("Device" in json.loads(copy["args"])) == bool(device)


def test_bytes_are_not_said_to_be_rounded(tmp_path: Path) -> None:
    text = (
        TRACE.replace(b"(MB)", b"(B)")
        .replace(b"0.001,0.000", b"1,0")
        .replace(b"402.653", b"12")
        .replace(b"0.004", b"4")
    )
    assert not report(tmp_path, text).ledgers[0].notes


def test_a_report_that_is_not_read_is_named_by_its_columns(tmp_path: Path) -> None:
    text = b"PID,TID,DevId,Count,QCount,TAvg (ns),TMed (ns),KAvg (ns),API Name,Kernel Name\n1,1,0,2,1,9.0,9.0,8.0,a,k\n"
    trace = report(tmp_path, text)
    assert trace.ledgers[0].notes["unread-cuda-kern-exec-sum"].count == 1
    skipped = b"[3/8] Executing 'nvtx_sum' stats report\nSKIPPED: x.sqlite does not contain NVTX data.\n"
    assert report(tmp_path, skipped).ledgers[0].notes["skipped"].count == 1


@pytest.mark.parametrize("text", [OLD, b"[1/1] Executing 'nvtx_sum' stats report\n\n" + SUM, TRACE])
def test_a_paste_with_a_blank_line_after_each_line_has_the_same_rows(tmp_path: Path, text: bytes) -> None:
    plain, parted = report(tmp_path, text), report(tmp_path, text.replace(b"\n", b"\n\n"))
    assert totals(parted) == totals(plain)
    want = [{k: v for k, v in row.items() if k != "event_id"} for row in events(plain)]
    assert [{k: v for k, v in row.items() if k != "event_id"} for row in events(parted)] == want
    assert not parted.ledgers[0].dropped


@pytest.mark.parametrize("text", [TRACE, SUM])
def test_rows_behind_other_output_between_blank_lines_are_told(tmp_path: Path, text: bytes) -> None:
    *before, last = text.splitlines(keepends=True)
    for other in (b"\nepoch 3\n\n", b"\nepoch 3\n"):
        ledger = report(tmp_path, b"".join(before) + other + last).ledgers[0]
        assert ledger.notes["no-header"].count == 1
        assert ledger.ignored["row without a header"] == 1
    assert "no-header" not in report(tmp_path, text + b"\nepoch 3\n\n1,2\n").ledgers[0].notes


def test_what_stands_behind_a_table_and_a_blank_line_is_no_bad_row(tmp_path: Path) -> None:
    behind = b"\nGenerated:\n    /data/2024/run 1.sqlite\n 12.5  is, in all, what it took\n1,2,3,4,5,6,7,8,9,x\n"
    for text in (SUM, TRACE):
        ledger = report(tmp_path, text + behind).ledgers[0]
        assert not ledger.dropped
        assert ledger.kept == len(text.splitlines()) - (2 if text is SUM else 1)


def barred(text: bytes, rule: bytes) -> bytes:
    cells = [line.split(b",", 8) for line in text.splitlines()]
    lines = [b"| " + b" | ".join(row).replace(b'"', b"") + b" |\n" for row in cells]
    return b"".join([lines[0], rule, *lines[1:]])


@pytest.mark.parametrize("form", ["box", "markdown", "tabs"])
def test_tables_with_bars_or_tabs_have_the_same_rows(tmp_path: Path, form: str) -> None:
    text = (
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        '60.0,600,2,300.0,300.0,100,500,282.8,"operator|(int, int)"\n40.0,400,1,400.0,400.0,400,400,0.0,void cut<in…\n'
    ).encode()
    other = {
        "box": b"+----+----+\n" + barred(text, b"+----------+-----+----+\n") + b"+----------+-----+----+\n",
        "markdown": barred(text, b"|---|---:|:---|\n"),
        "tabs": b"".join(b"\t".join(line.split(b",", 8)) + b"\n" for line in text.splitlines()),
    }[form]
    plain, trace = report(tmp_path, text), report(tmp_path, other)
    assert totals(trace) == totals(plain)
    assert [row["name"] for row in totals(trace)] == ["operator|(int, int)", "void cut<in…"]
    ledger = trace.ledgers[0]
    assert not ledger.dropped
    assert set(ledger.notes) == {"names-cut"}


@pytest.mark.parametrize("row", [b'1,2,"a"b\n",3,4\n', b'1,2,"a\n"b"c,3,4\n', b'"\n'])
def test_quotes_that_close_nowhere_cost_their_lines(tmp_path: Path, row: bytes) -> None:
    head = b"Start (ns),Duration (ns),Name,PID,TID\n"
    trace = report(tmp_path, head + b"1,2,first,3,4\n" + row)
    assert [r["name"] for r in events(trace)] == ["first"]
    assert sum(trace.ledgers[0].dropped.values()) == row.count(b"\n")


def test_a_quote_that_is_not_closed_costs_its_row_and_no_good_one_behind_it(tmp_path: Path) -> None:
    head = b"Start (ns),Duration (ns),Name,PID,TID\n"
    good = b"".join(b'%d,2,"k(int, int)",3,4\n' % n for n in range(50))
    text = head + b'1,2,"cut\n' + good + b'\nIt is 5" wide, 4" high.\nA 3" one.\n'
    trace = report(tmp_path, text)
    assert len(trace.events) == 50
    assert trace.ledgers[0].dropped == {"bad-row": 1}
    assert trace.ledgers[0].notes["bad-row"].places == ["line 2"]


def test_kernels_of_two_reports_are_said_to_count_twice(tmp_path: Path) -> None:
    other = (
        b"\nKernel Start (ns),Kernel Dur (ns),PID,TID,DevId,API Function,Kernel Name\n100,50,1,1,1,cuLaunchKernel,f\n"
    )
    assert "told-twice" in report(tmp_path, TRACE + other).ledgers[0].notes
    assert "told-twice" not in report(tmp_path, TRACE + b"\n" + TRACE).ledgers[0].notes


KERNELS = "Time(%)\tTotal Time (ns)\tInstances\tAvg (ns)\tMin (ns)\tMax (ns)\tName\n"
SIZES = "Total (KiB)\tCount\tAvg (KiB)\tMin (KiB)\tMax (KiB)\tOperation\n"
STARTS = "Start (ns)\tDuration (ns)\tBytes (KiB)\tDevice\tName\n"


def table(header: str, *rows: tuple[str, ...]) -> bytes:
    return (header + "".join("\t".join(row) + "\n" for row in rows) + "\n").encode()


@pytest.mark.parametrize(
    ("share", "total", "average"),
    [
        ("27.0", "25,369,833", "12,684,916.5"), ("27,0", "25.369.833", "12.684.916,5"),
        ("27,0", "25\u202f369\u202f833", "12\u202f684\u202f916,5"), ("27.0", "25\u2019369\u2019833", "12684916.5"),
        ("27,0", "25369833", "12684916,5"),
    ],
)  # fmt: skip
def test_numbers_of_every_locale_are_read(share: str, total: str, average: str, tmp_path: Path) -> None:
    text = table(KERNELS, (share, total, "2", average, "9", total, "f(int, int)"), ("1", "5", "1", "5", "5", "5", "g"))
    trace = report(tmp_path, text)
    first, _ = totals(trace)
    assert (first["total_ns"], first["calls"], first["avg_ns"]) == (25_369_833, 2, 12_684_916.5)
    assert not trace.ledgers[0].dropped


@pytest.mark.parametrize("tables", [0, 1, 2])
def test_a_size_with_a_decimal_comma_is_not_taken_for_thousands(tables: int, tmp_path: Path) -> None:
    """Another table of the file, before or behind, shows what the comma is."""
    size = table(SIZES, ("540,000", "2", "270,000", "135,000", "405,000", "[CUDA memcpy Host-to-Device]"))
    kernels = table(KERNELS, ("100,0", "900", "3", "300,0", "100", "500", "k(int)"))
    if tables:
        trace = report(tmp_path, size + kernels if tables == 1 else kernels + size)
        (copy,) = (row for row in totals(trace) if "bytes" in row)
        assert (copy["bytes"], copy["value_min"], copy["value_max"]) == (540 << 10, 135 * 1024.0, 405 * 1024.0)
        assert not trace.ledgers[0].dropped
    else:
        with pytest.raises(
            TracekitError, match=r"540,000 is 540\.000 or 540000 \(options decimal=, or decimal=\. decides\)"
        ):
            report(tmp_path, size)


@pytest.mark.parametrize(("decimal", "size"), [(",", 540 << 10), (".", 540_000 << 10)])
def test_an_option_decides_what_a_comma_is(decimal: str, size: int, tmp_path: Path) -> None:
    path = tmp_path / "sizes.txt"
    path.write_bytes(table(SIZES, ("540,000", "2", "270,000", "135,000", "405,000", "[CUDA memset]")))
    (row,) = totals(tracekit.read(path, options={"decimal": decimal}))
    assert row["bytes"] == size


def test_sums_that_must_agree_show_what_a_comma_is(tmp_path: Path) -> None:
    """One row alone may be either; 1,5 x 1,000 is 1500 only where both are thousands."""
    header = SIZES.replace("Count", "Operations")
    row = ("1,500", "1000", "1.5", "1.5", "1.5", "[CUDA memset]")
    (found,) = totals(report(tmp_path, table(header, row)))
    assert found["bytes"] == 1500 << 10


def test_a_number_in_groups_of_four_costs_its_row(tmp_path: Path) -> None:
    """No file that is known prints such numbers; the sentence quotes a number that has two readings."""
    rows = [(f"44,0087,{number:04}", f"{number + 1},000", "4,000", "GPU 0", "copy") for number in range(3)]
    with pytest.raises(ParseError) as caught:
        report(tmp_path, table(STARTS, *rows))
    assert "1,000 is 1.000 or 1000" in str(caught.value)


def test_semicolons_between_cells_come_with_decimal_commas(tmp_path: Path) -> None:
    text = table(KERNELS, ("100,0", "1.234.567", "3", "411.522,3", "100", "500", "k(int)")).replace(b"\t", b";")
    (row,) = totals(report(tmp_path, text))
    assert (row["total_ns"], row["avg_ns"]) == (1_234_567, 411_522.3)


CALL_HEAD, KERNEL_HEAD = (
    f"Time (%)  Total Time (ns)  {count}  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Name\n"
    f"--------  ---------------  {'-' * len(count)}  --------  --------  --------  --------  -----------  ----------\n"
    for count in ("Num Calls", "Instances")
)
CALL_ROW, KERNEL_ROW = (
    f"   100.0              900          3     300.0     300.0       100       500        200.0  {name}\n"
    for name in ("cudaMalloc", "void gemm<int>(int*)")
)


def named(name: str) -> str:
    return f"[5/8] Executing '{name}' stats report\n\n"


def test_tagged_ranks_that_print_at_once_keep_their_tables(tmp_path: Path) -> None:
    text = f"{named('cuda_api_sum')}{CALL_HEAD}{CALL_ROW}\n{named('cuda_gpu_kern_sum')}{KERNEL_HEAD}{KERNEL_ROW}"
    ranks = [[f"[1,{rank}]<stdout>:{line}" for line in text.splitlines()] for rank in (0, 1)]
    # Rank 1 prints some lines later than rank 0.
    late = [""] * 5
    mixed = [line for pair in zip([*ranks[0], *late], [*late, *ranks[1]], strict=True) for line in pair if line]
    trace = report(tmp_path, ("\n".join(mixed) + "\n").encode())
    assert [(r["rank"], r["section"], r["name"], r["total_ns"]) for r in totals(trace)] == [
        (rank, section, name, 900)
        for section, name in (("cuda_api_sum", "cudaMalloc"), ("cuda_gpu_kern_sum", "void gemm<int>(int*)"))
        for rank in (0, 1)
    ]
    assert not trace.ledgers[0].dropped


def test_a_table_below_the_line_of_another_process_keeps_its_own_section(tmp_path: Path) -> None:
    text = f"{named('cuda_api_sum')}{named('cuda_gpu_kern_sum')}{CALL_HEAD}{CALL_ROW}\n{KERNEL_HEAD}{KERNEL_ROW}"
    trace = report(tmp_path, text.encode())
    assert [(r["section"], r["kind"]) for r in totals(trace)] == [
        ("api_sum", "runtime"),
        ("cuda_gpu_kern_sum", "kernel"),
    ]


def test_rows_of_two_processes_go_to_the_tables_that_they_belong_to(tmp_path: Path) -> None:
    text = (
        f"{named('cuda_api_sum')}{CALL_HEAD}{KERNEL_ROW}{CALL_ROW}\n{named('cuda_gpu_kern_sum')}{KERNEL_HEAD}{CALL_ROW}"
    )
    trace = report(tmp_path, text.encode())
    assert [(r["section"], r["kind"]) for r in totals(trace)] == [
        ("cuda_gpu_kern_sum", "kernel"), ("cuda_api_sum", "runtime"), ("cuda_api_sum", "runtime"),
    ]  # fmt: skip
    assert trace.ledgers[0].notes["tables-mixed"].count == 2


NVTX, CUDA = (f"r.sqlite does not contain {what} data.\n" for what in ("NV Tools Extension (NVTX)", "CUDA kernel"))
EMPTY_LOGS = {
    "of 2026": f"SKIPPED: {NVTX}\nSKIPPED: {CUDA}",
    "with --stats": f"[3/8] Executing 'nvtx_sum' stats report\nSKIPPED: /a/{NVTX}"
    f"[4/8] Executing 'cuda_api_sum' stats report\nSKIPPED: /a/{CUDA}Generated:\n    /a/r.nsys-rep\n",
    "of 2022": f"Using r.sqlite for SQL queries.\nRunning [/x/cudaapisum.py r.sqlite]... SKIPPED: {CUDA}\n"
    f"Running [/x/nvtxsum.py r.sqlite]... SKIPPED: {NVTX}",
    "of 2020": f"Exporting [/x/cudaapisum r.sqlite] to console...\n\n{CUDA}\n"
    f"Exporting [/x/gpukernsum r.sqlite] to console...\n\n{CUDA}",
    "in quotes": f'"SKIPPED: {CUDA[:-1]}"\n"SKIPPED: {NVTX[:-1]}"\n',
}


@pytest.mark.parametrize("name", EMPTY_LOGS)
def test_a_log_in_which_all_reports_were_skipped_is_empty(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(EMPTY_LOGS[name])
    assert sure_readers(path) == ["nsys-stats-csv"]
    trace = tracekit.read(path)
    assert trace.events.num_rows == trace.totals.num_rows == 0
    assert str(trace.ledgers[0].notes["skipped"]).endswith("2 times")
    assert "the profile has no data for them" in run_command("inspect", path, width=200, code=1).stdout


def test_other_text_about_what_a_file_does_not_contain_is_no_log_of_nsys(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for text in (
        "The archive does not contain CUDA data.\n",
        "x.sqlite: SKIPPED: no\n",
        "SKIPPED: 3 tests contain data\n",
    ):
        path.write_text(text)
        assert sure_readers(path) == []


PROSE = {
    "columns in a sentence": "The table has the columns Start (ns), Duration (ns), CorrId and Name. The time of a\n"
    "kernel is in the column Total Time (ns), and Instances says how often it ran.\n",
    "a header in a page": "# Columns\n\nThe report has this header, and one row for each kernel below it:\n\n"
    "    Start (ns),Duration (ns),CorrId,Name\n\nIt is written when you ask for a trace of the device.\n",
    "reports that are not read": "For page faults look at the CPU Instruction Address, and the HtoD Migration Size.\n"
    "TAvg (ns) is the average time of a call and of what it launched on the device.\n",
    "a report and its message": "You may see: Processing [run.sqlite] with [cuda_gpu_trace.py]... and then the table.\n"
    "Nothing is printed where the file run.sqlite does not contain CUDA kernel data.\nThen look at the trace again.\n",
    "titles": "We ran it, and it printed CUDA API Statistics (nanoseconds) at the end of the run.\n",
}


@pytest.mark.parametrize("name", PROSE)
def test_a_page_that_mentions_the_words_of_a_table_is_no_report(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text(PROSE[name])
    assert sure_readers(path) == []


@pytest.mark.parametrize("name", PROSE)
def test_a_table_within_such_a_page_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text(f"{PROSE[name]}\nStart (ns),Duration (ns),CorrId,Name\n100,50,3,k\n")
    assert sure_readers(path) == ["nsys-stats-csv"]
    assert tracekit.read(path).events["dur_ns"].to_pylist() == [50]


def test_blanks_within_a_cell_cost_no_time(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"a{' ' * 200_000}b,Time (ns),Name\n1,2,x\n", encoding="utf-8")
    assert tracekit.read(path, format="nsys-stats-csv").ledgers[0].ignored == {"message": 2}
