"""nvprof's tables as people keep them: in comments, behind time stamps, without gaps; warnings of nvprof itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from nvprof_cases import read
from support import sample

import tracekit
from tracekit.errors import UnknownFormatError

SUMMARY = (
    "==77== NVPROF is profiling process 77, command: ./heat 3\n"
    "iteration 3: residual 0.25\n"
    "==77== Profiling application: ./heat 3\n"
    "==77== Profiling result:\n"
    "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
    " GPU activities:   90.00%  9.0000ms         3  3.0000ms  2.0000ms  4.0000ms  step(float*, int, float const *)\n"
    "                   10.00%  1.0000ms         2  500.00us  499.50us  500.50us  [CUDA memcpy HtoD]\n"
    "      API calls:  100.00%  12.500ms         4  3.1250ms  1.0000us  12.000ms  cudaMalloc\n"
)
COUNTERS = (
    "==78== Profiling result:\n"
    "==78== Event result:\n"
    "Invocations                                Event Name         Min         Max         Avg       Total\n"
    'Device "Tesla T4 (0)"\n'
    "    Kernel: step$_omp_fn$0\n"
    "          1                            warps_launched          64          64          64          64\n"
)


def behind(leader: str, text: str) -> str:
    return "".join(leader + line for line in text.splitlines(keepends=True))


@pytest.mark.parametrize(
    "leader",
    ["# ", "#", " * ", "** ", "// ", "> ", "2023-04-01T10:20:30.123456789Z ", "2023-04-01 10:20:30,123 ", "gpu_1  | ",
     "\t * "],
)  # fmt: skip
def test_what_stands_before_every_line_changes_no_row(leader: str, tmp_path: Path) -> None:
    plain = read(tmp_path, SUMMARY + COUNTERS)
    got = read(tmp_path, behind(leader, SUMMARY + COUNTERS))
    assert [(r["section"], r["name"], r["total_ns"]) for r in got.totals] == [
        (r["section"], r["name"], r["total_ns"]) for r in plain.totals
    ]
    assert len(got.totals) == 4
    assert got.run.processes == plain.run.processes
    assert got.ledger.ignored == plain.ledger.ignored


def test_a_comment_around_the_report_is_output_of_the_program(tmp_path: Path) -> None:
    text = "#include <stdio.h>\n/*\n * serial: 1m9s\n" + behind(" * ", SUMMARY) + " */\nint main() { return 0; }\n"
    got = read(tmp_path, text)
    assert [r["calls"] for r in got.totals] == [3, 2, 4]
    assert not got.ledger.dropped


GATHERED = (
    "==79== Profiling result:\n"
    "Start Duration Grid Size Block Size Regs* SSMem* DSMem* Size Throughput Device Context Stream Name\n"
    "133.81ms 135.78us - - - - - 409.60KB 3.0167GB/s GeForce GTX 580 1 2 [CUDA memcpy HtoD]\n"
    "134.90ms 3.7037ms (20 10 1) (32 16 1) 29 8.1920KB 0B - - GeForce GTX 580 1 2 void f<int=32>(float*, int) [94]\n"
    "<...more output...>\n"
    "1.25089s 248.13us - - - - - 819.20KB 3.3015GB/s GeForce GTX 580 1 2 [CUDA memcpy DtoH]\n"
)


def test_a_trace_whose_gaps_were_lost_is_read_by_what_its_cells_are(tmp_path: Path) -> None:
    got = read(tmp_path, GATHERED)
    assert [(r["ts_ns"], r["dur_ns"], r["name"]) for r in got.events] == [
        (133810000, 135780, "[CUDA memcpy HtoD]"),
        (134900000, 3703700, "void f<int=32>(float*, int)"),
        (1250890000, 248130, "[CUDA memcpy DtoH]"),
    ]
    kernel = got.events[1]
    assert [kernel[k] for k in ("grid_x", "grid_y", "block_y", "registers", "context", "stream", "correlation")] == [
        20, 10, 16, 29, 1, 2, 94
    ]  # fmt: skip
    assert set(got.run.devices.values()) == {"GeForce GTX 580"}
    assert got.ledger.ignored["application-output"] == 1


@pytest.mark.parametrize("mark", ["%", ""])
@pytest.mark.parametrize(
    "header", ["Time(%) Time Calls Avg Min Max Name", "Time (%) Time Calls Avg Min Max Name",
               "Time(%) Time     Calls Avg       Min       Max      Name"],
)  # fmt: skip
def test_a_summary_whose_gaps_were_lost_is_read(header: str, mark: str, tmp_path: Path) -> None:
    rows = (
        f" 49.52{mark} 9.36ms 101 92.68us 92.31us 94.31us dct2(float*, int)\n"
        f"3.75{mark} 708.42us 1 708.42us 708.42us 708.42us [CUDA memcpy HtoD]\n"
    )
    got = read(tmp_path, f"======== Profiling result:\n{header}\n{rows}")
    assert [(r["name"], r["calls"], r["total_ns"], r["avg_ns"]) for r in got.totals] == [
        ("dct2(float*, int)", 101, 9360000, 92680.0), ("[CUDA memcpy HtoD]", 1, 708420, 708420.0)
    ]  # fmt: skip


def test_a_summary_of_several_groups_whose_gaps_were_lost_is_read(tmp_path: Path) -> None:
    text = "\n".join(" ".join(line.split()) for line in SUMMARY.splitlines()) + "\n"
    got = read(tmp_path, text)
    assert [(r["section"], r["name"], r["total_ns"]) for r in got.totals] == [
        ("GPU activities", "step(float*, int, float const *)", 9000000),
        ("GPU activities", "[CUDA memcpy HtoD]", 1000000),
        ("API calls", "cudaMalloc", 12500000),
    ]


def test_prose_with_the_words_of_a_header_is_no_trace_of_nvprof(tmp_path: Path) -> None:
    path = tmp_path / "unknown"
    path.write_text("Start Duration Name\nnothing of that kind follows\n", "utf-8")
    with pytest.raises(UnknownFormatError, match="not a known profile format"):
        tracekit.read(path)


def test_every_warning_and_error_of_nvprof_is_told(tmp_path: Path) -> None:
    text = (
        "==5== NVPROF is profiling process 5, command: ./a\n==5== Warning: first thing\n"
        "==5== Error: Internal profiling error 4075:9.\n" + SUMMARY.replace("==77==", "==5==")
        + "==5== Warning: first thing\n======== Error: Application received signal 139\n"
    )  # fmt: skip
    got = read(tmp_path, text)
    said = {note.text: note.count for code, note in got.ledger.notes.items() if code.startswith("nvprof-warning")}
    assert said == {
        "nvprof itself warns: first thing": 2,
        "nvprof itself reports an error: Internal profiling error 4075:9.": 1,
        "nvprof itself reports an error: Application received signal 139": 1,
    }


def test_output_glued_to_a_row_of_a_summary_is_no_group(tmp_path: Path) -> None:
    plain = sample("nvprof-text/summary.txt").read_text(encoding="utf-8")
    glued = plain.replace("                    0.06%", "epoch 3: 5 s        0.06%", 1)
    assert glued != plain
    assert read(tmp_path, glued).totals == read(tmp_path, plain).totals


def test_times_of_1000_s_and_more_have_two_digits_and_a_note(tmp_path: Path) -> None:
    text = (
        "==6== Profiling result:\n   Start  Duration  Name\n357.41ms  61.221ms  cudaMalloc\n"
        "420.00ms  2.4e+03s  cudaDeviceSynchronize\n"
    )
    got = read(tmp_path, text)
    assert [r["dur_ns"] for r in got.events] == [61221000, 2400 * 10**9]
    note = got.ledger.notes["coarse-times"]
    metrics = tracekit.read(sample("nvprof-text/metrics.txt"))
    assert "e+10" in sample("nvprof-text/metrics.txt").read_text(encoding="utf-8")
    assert "coarse-times" not in metrics.ledgers[0].notes
    assert (note.count, note.places) == (1, ["line 4"])


def test_a_summary_row_that_was_cut_behind_its_group_is_dropped_not_lost(tmp_path: Path) -> None:
    got = read(tmp_path, SUMMARY[: SUMMARY.rindex("%")] + "\n")
    assert got.ledger.dropped == {"short-row": 1}
    assert len(got.totals) == 2


def test_a_summary_below_the_counters_is_of_the_gpu(tmp_path: Path) -> None:
    old = (
        "Time(%)      Time     Calls       Avg       Min       Max  Name\n"
        "100.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  f(int)\n"
    )
    got = read(tmp_path, COUNTERS + "==78== Trace result:\n" + old)
    assert [(r["section"], r["kind"]) for r in got.totals] == [("events", "kernel"), ("GPU activities", "kernel")]
    assert json.loads(got.totals[0]["args"])["total"] == 64


def test_samples_of_the_cpu_alone_are_told_once(tmp_path: Path) -> None:
    text = (
        "\n======== CPU profiling result (bottom up):\nTime(%)      Time  Name\n 80.00%  8.53892s  main\n"
        " 80.00%  8.53892s  | start_thread\n\n======== Data collected at 100Hz frequency\n"
    )
    got = read(tmp_path, text)
    assert (got.events, got.totals, list(got.ledger.notes)) == ([], [], ["tables-not-read"])
    assert got.ledger.ignored["other-table"] == 3


@pytest.mark.parametrize(
    ("cell", "device", "name"),
    [("Quadro M4000 (0", 0, "Quadro M4000"), ("Quadro M4000 (1", 100, "Quadro M4000"), ("Quadro M40000 (", 100,
     "Quadro M40000"), ("GeForce GTX 107", 100, "GeForce GTX 107"), ("Tesla T4 (12)", 12, "Tesla T4")],
)  # fmt: skip
def test_a_device_cut_within_its_number_has_its_name_and_number_0(
    cell: str, device: int, name: str, tmp_path: Path
) -> None:
    row = f"{'1.0000ms':>8}  1.0000us  (4 1 1)  (8 1 1)  8  0B  0B  {cell:>15}  1  7  f(int) [3]\n"
    header = (
        "   Start  Duration  Grid Size  Block Size  Regs*  SSMem*  DSMem*           Device  Context  Stream  Name\n"
    )
    got = read(tmp_path, "==3== Profiling result:\n" + header + row)
    assert [r["device"] for r in got.events] == [device]
    assert list(got.run.devices.values()) == [name]
    assert ("device-number-missing" in got.ledger.notes) == (device == 100)


def test_a_log_of_nvprof_o_names_the_file_that_has_the_records(tmp_path: Path) -> None:
    text = (
        "==8== NVPROF is profiling process 8, command: python a.py\nepoch 1\n"
        "==8== Generated result file: /home/me/run 8.nvvp\n"
    )
    got = read(tmp_path, text)
    assert got.ledger.notes["no-rows"].text.endswith("to /home/me/run 8.nvvp; read that file")


NESTED = (
    "==9== Profiling result:\n"
    "            Type  Time(%)      Time  Calls (host)  Calls (device)       Avg       Min       Max  Name\n"
    " GPU activities:   90.00%  9.0000ms             1             299  30.000us  1.0000us  4.0000ms  f(int*, int)\n"
    "                    8.00%  800.00us             0               4  200.00us  100.00us  300.00us  g(int)\n"
    "                    2.00%  200.00us             4               -  50.000us  40.000us  60.000us  [CUDA memset]\n"
    "      API calls:  100.00%  12.500ms             4               -  3.1250ms  1.0000us  12.000ms  cudaMalloc\n"
)
NESTED_CSV = (
    "==9== Profiling result:\n"
    '"Type","Time(%)","Time","Calls (host)","Calls (device)","Avg","Min","Max","Name"\n,%,ms,,,us,us,us,\n'
    '"GPU activities",90.000000,9.000000,1,299,30.000000,1.000000,4000.000000,"f(int*, int)"\n'
    '"GPU activities",8.000000,0.800000,0,4,200.000000,100.000000,300.000000,"g(int)"\n'
    '"GPU activities",2.000000,0.200000,4,,50.000000,40.000000,60.000000,"[CUDA memset]"\n'
    '"API calls",100.000000,12.500000,4,,3125.000000,1.000000,12000.000000,"cudaMalloc"\n'
)


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("text", [NESTED, "\n".join(" ".join(x.split()) for x in NESTED.split("\n")), NESTED_CSV])
def test_kernels_that_launch_kernels_have_the_calls_of_host_and_device(text: str, typed: bool, tmp_path: Path) -> None:
    if not typed:
        text = text[: text.rindex("\n", 0, text.index("API calls")) + 1]
        text = re.sub(r"^(?: *(?:Type|GPU activities:) |\"Type\",|\"GPU activities\",) *", "", text, flags=re.M)
        text = text.replace("\n,%", "\n%")
    got = read(tmp_path, text)
    assert [(r["name"], r["calls"], r["total_ns"], r["avg_ns"]) for r in got.totals] == [
        ("f(int*, int)", 300, 9000000, 30000.0), ("g(int)", 4, 800000, 200000.0),
        ("[CUDA memset]", 4, 200000, 50000.0), ("cudaMalloc", 4, 12500000, 3125000.0)
    ][: 4 if typed else 3]  # fmt: skip
    assert [json.loads(r["args"]).get("calls_device") for r in got.totals[:3]] == [299, 4, None]
    assert [json.loads(r["args"]).get("calls_host") for r in got.totals[:3]] == [1, 0, 4]
    assert not got.ledger.dropped


def test_counters_of_each_call_are_read_without_csv_too(tmp_path: Path) -> None:
    text = (
        "==9== Profiling result:\n"
        "         Device   Context    Stream                                    Kernel  achieved_occupancy       ipc\n"
        " Tesla K40c (0)         1         7      void mul<int=32>(float*, int) [95]            0.712300     1.234\n"
        " Tesla K40c (0)         1        13                          add(int*) [99]            0.500000         -\n"
    )
    got = read(tmp_path, text)
    assert [(r["name"], json.loads(r["args"])["metric"], r["value_avg"], r["device"]) for r in got.totals] == [
        ("void mul<int=32>(float*, int)", "achieved_occupancy", 0.7123, 0),
        ("void mul<int=32>(float*, int)", "ipc", 1.234, 0),
        ("add(int*)", "achieved_occupancy", 0.5, 0),
    ]
    assert [json.loads(r["args"])["stream"] for r in got.totals] == ["7", "7", "13"]


def test_a_summary_without_its_header_is_read_and_told(tmp_path: Path) -> None:
    rows = SUMMARY[SUMMARY.index(" GPU act") :]
    for before in ("", "from a run of mine:\n\n"):
        got = read(tmp_path, before + rows, name="unknown")
        assert got.ledger.format == "nvprof-text"
        assert [(r["section"], r["name"], r["total_ns"]) for r in got.totals] == [
            ("GPU activities", "step(float*, int, float const *)", 9000000),
            ("GPU activities", "[CUDA memcpy HtoD]", 1000000),
            ("API calls", "cudaMalloc", 12500000),
        ]
        assert got.ledger.notes["no-header"].places == [f"line {1 + before.count(chr(10))}"]
    assert "no-header" not in read(tmp_path, SUMMARY).ledger.notes


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: behind("\x1b[36m", text).replace("\n", "\x1b[0m\n"),
        lambda text: text.replace(" ", "\u00a0"),
        lambda text: text.replace("  ", "\u00a0 "),
        lambda text: text.replace("        ", "\t"),
        lambda text: behind("build\tRun tests\t2023-04-01T10:20:30.1234567Z ", text),
        lambda text: behind("> > ", text),
        lambda text: behind("\x1b[36m# ", text),
    ],
    ids=["colours", "blanks of a page", "every other", "tabs", "log of a workflow", "quoted twice", "both"],
)
def test_what_terminals_pages_and_logs_do_to_a_report_changes_no_row(spoil: Any, tmp_path: Path) -> None:
    quiet = "==78== Profiling result:\nNo kernels were profiled.\nNo API activities were profiled.\n"
    plain = read(tmp_path, SUMMARY + COUNTERS + quiet)
    got = read(tmp_path, spoil(SUMMARY + COUNTERS + quiet))
    assert got.totals == plain.totals
    assert len(got.totals) == 4
    assert got.ledger.ignored == plain.ledger.ignored
