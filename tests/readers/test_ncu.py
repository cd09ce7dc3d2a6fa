"""Nsight Compute's output: real files, ours, units and styles of numbers, other output around it, damage, the view."""

from __future__ import annotations

import csv
import json
import runpy
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from doors.readers import NcuLines
from hypothesis import event, given, settings
from hypothesis import strategies as st
from small_limits import Limit, small
from support import SAMPLES, corpus_next, run_command, sample, sure_readers

import tracekit
from tracekit.doctor.note_classes import class_of_note
from tracekit.errors import ParseError
from tracekit.model.trace import Trace

Row = dict[str, Any]
OURS = ("details.csv", "raw.csv", "summary.csv", "excel.csv", "details.txt")
MADE = runpy.run_path(str(SAMPLES / "_ncu.py"))


def rows_of(trace: Trace, section: str) -> list[Row]:
    rows = [row for row in trace.totals.to_pylist() if row["section"] == section]
    for row in rows:
        row["args"] = json.loads(row["args"])
    return rows


def values(trace: Trace, metric: str) -> list[float]:
    return [row["value_avg"] for row in rows_of(trace, "metrics") if row["args"]["metric"] == metric]


def read_text(folder: Path, text: str, **options: Any) -> Trace:
    path = folder / "x.csv"
    path.write_text(text, encoding="utf-8")
    return tracekit.read(path, **options)


# Real files


REAL = {
    "metrics_csv_windows_bom.csv": (1, 9_589_248, 12, 12),
    "metrics_csv_windows_saxpy.csv": (1, 292_928, 12, 12),
    "raw_page_b200.csv.gz": (16, 833_472, 16 * 297, 16),
    "text_details_2023.txt": (17, 164_690, 17 * 28, 17 + 17 * 28),
    "text_details_triton.txt": (2, 5_920 + 11_550, 2 * 28, 2 + 2 * 28),
}
"""Launches and the sum of their durations (counted apart: SOURCES.md of the corpus), metrics, and records kept."""


@pytest.mark.corpus
@pytest.mark.parametrize("name", REAL)
def test_real_files_have_the_figures_that_were_counted_apart(name: str) -> None:
    path = corpus_next(f"ncu/{name}")
    trace = tracekit.read(path)
    launches = rows_of(trace, "launches")
    ledger = trace.ledgers[0]
    found = (len(launches), sum(row["total_ns"] for row in launches), len(rows_of(trace, "metrics")), ledger.kept)
    assert sure_readers(path) == ["ncu"]
    assert found == REAL[name]
    assert ledger.dropped == {}


@pytest.mark.corpus
def test_a_real_launch_has_its_shape_and_place() -> None:
    (launch,) = rows_of(tracekit.read(corpus_next("ncu/metrics_csv_windows_bom.csv")), "launches")
    assert launch["name"].startswith("unnamed>::gemm_naive_kernel(")
    assert launch["device"] == 0
    assert launch["args"] == {
        "id": 0, "pid": 52060, "process": "roofline_profiler.exe", "host": "127.0.0.1", "context": 1, "stream": 7,
        "block": [32, 32, 1], "grid": [64, 64, 1], "cc": "12.0",
    }  # fmt: skip


@pytest.mark.corpus
def test_the_attributes_of_a_real_device_are_facts() -> None:
    facts = tracekit.read(corpus_next("ncu/raw_page_b200.csv.gz")).run.sources[0].facts
    attributes: Any = facts["device_attributes"]
    assert attributes["0"]["display_name"] == "NVIDIA B200"
    assert attributes["0"]["compute_capability_major"] == "10"


@pytest.mark.corpus
def test_real_text_has_the_passes_of_its_messages() -> None:
    assert tracekit.read(corpus_next("ncu/text_details_2023.txt")).run.sources[0].facts["passes"] == 10


@pytest.mark.corpus
def test_a_run_without_kernels_is_refused_with_what_ncu_says() -> None:
    path = corpus_next("ncu/no_kernels_error.csv")
    assert sure_readers(path) == ["ncu"]
    with pytest.raises(ParseError, match=r"no kernel was profiled; ncu says: The application returned an error"):
        tracekit.read(path)


# Ours


def test_the_generator_writes_the_committed_files_again(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-B", str(SAMPLES / "_ncu.py"), str(tmp_path)], check=True)
    changed = [name for name in OURS if (tmp_path / "ncu" / name).read_bytes() != sample(f"ncu/{name}").read_bytes()]
    assert changed == []


@pytest.mark.parametrize("name", OURS)
def test_ours_have_the_launches_of_their_generator(name: str) -> None:
    trace = tracekit.read(sample(f"ncu/{name}"))
    found: dict[str, list[int]] = {}
    for row in rows_of(trace, "launches"):
        one = found.setdefault(row["name"], [0, 0])
        one[0] += row["calls"]
        one[1] += row["total_ns"]
    want: dict[str, list[int]] = {}
    for launch in MADE["LAUNCHES"]:
        one = want.setdefault(launch.name, [0, 0])
        one[0] += 1
        one[1] += launch.duration_ns if "details" not in name else rounded(launch.duration_ns)
    assert found == want
    assert trace.ledgers[0].dropped == {}
    assert all(row["args"]["grid"] in ([64, 64, 1], [1823, 1, 1]) for row in rows_of(trace, "launches"))


def rounded(ns: int) -> int:
    """A time as it is printed with two digits of its unit."""
    step = 10_000 if ns >= 1_000_000 else 10
    return (ns + step // 2) // step * step


@pytest.mark.parametrize("name", OURS)
def test_the_view_has_the_share_of_the_peak(name: str) -> None:
    section = tracekit.view(sample(f"ncu/{name}"), "metrics")
    peak = {column.name: column.values for column in section.tables[0].columns}
    assert section.tables[0].name == "peak"
    assert peak["name"] == [MADE["GEMM"], "softmax(float *, int)"]
    assert peak["calls"] == [2, 1]
    assert peak["occupancy"] == pytest.approx([0.6660, 0.5878])
    if name in ("details.csv", "details.txt"):
        assert peak["compute"] == pytest.approx([0.9725, 0.1024])
        assert peak["memory"] == pytest.approx([0.4148, 0.3472]), "not the rate in Gbyte/s of the same name"


def test_the_rows_of_a_summary_have_minimum_maximum_and_mean() -> None:
    trace = tracekit.read(sample("ncu/summary.csv"))
    first = rows_of(trace, "launches")[0]
    assert (first["calls"], first["min_ns"], first["max_ns"], first["avg_ns"]) == (2, 9_589_248, 9_601_024, 9_595_136)
    assert first["total_ns"] == 9_589_248 + 9_601_024
    assert "total-of-mean" in trace.ledgers[0].notes


def test_the_command_prints_kernels_and_metrics() -> None:
    out = run_command("summary", sample("ncu/raw.csv"), "--view", "kernel", "--view", "metrics", width=200).stdout
    assert "19.19" in out  # ms
    assert "gpu__time_duration.sum" in out
    assert "Against the peak" in out


# Units and numbers


@pytest.mark.parametrize(
    ("unit", "base"),
    [
        ("usecond", ("ns", 3)), ("ms", ("ns", 6)), ("second", ("ns", 9)), ("ns", ("ns", 0)), ("Kbyte", ("B", 3)),
        ("Mbyte", ("B", 6)), ("Gbyte/s", ("B/s", 9)), ("Tbyte/second", ("B/s", 12)), ("byte/usecond", ("B/s", 6)),
        ("cycle/nsecond", ("Hz", 9)), ("Ghz", ("Hz", 9)), ("MHz", ("Hz", 6)), ("Kbyte/block", ("B/block", 3)),
        ("register/thread", ("register/thread", 0)), ("%", ("%", 0)), ("", ("", 0)),
        ("inst/cycle", ("inst/cycle", 0)),
    ],
)  # fmt: skip
def test_units_lose_their_prefix(unit: str, base: tuple[str, int], tmp_path: Path) -> None:
    (row,) = rows_of(read_text(tmp_path, long_form(("x", unit, "1.5"))), "metrics")
    assert (row["unit"] or "", row["value_avg"]) == (base[0], 1.5 * 10 ** base[1])
    assert row["args"].get("printed") == (f"1.5 {unit}" if base[1] else None)


HEAD = "ID,Process ID,Process Name,Kernel Name,Block Size,Grid Size,Metric Name,Metric Unit,Metric Value"


def long_form(*rows: tuple[str, str, str], grid: str = "(1, 1, 1)", name: str = "k") -> str:
    lines = [f'0,7,a,{name},"(32, 1, 1)","{grid}",{metric},{unit},"{value}"' for metric, unit, value in rows]
    return "\n".join([HEAD, *lines, ""])


@pytest.mark.parametrize(
    ("rows", "grid", "want"),
    [
        ([("Grid Size", "", "1.823"), ("x", "", "2.500")], "(1823, 1, 1)", 2500),
        ([("Grid Size", "", "1,823"), ("x", "", "2,500")], "(1823, 1, 1)", 2500),
        ([("y", "", "1.234,5"), ("x", "", "2.500")], "(1, 1, 1)", 2500),
        ([("y", "", "1,234.5"), ("x", "", "2.500")], "(1, 1, 1)", 2.5),
        ([("y", "", "1 234,5".replace(" ", "\u202f")), ("x", "", "2,5")], "(1, 1, 1)", 2.5),
        ([("x", "", "2.500")], "(1, 1, 1)", 2.5),
    ],
)  # fmt: skip
def test_the_file_shows_which_sign_is_the_decimal_one(
    rows: list[tuple[str, str, str]], grid: str, want: float, tmp_path: Path
) -> None:
    assert values(read_text(tmp_path, long_form(*rows, grid=grid)), "x") == [want]


def test_a_number_that_may_be_either_of_two_stays_a_text(tmp_path: Path) -> None:
    text = long_form(("Duration", "us", "1,234"))
    trace = read_text(tmp_path, text)
    (metric,) = rows_of(trace, "metrics")
    assert (metric["value_avg"], metric["value_text"], metric["unit"]) == (None, "1,234", "us")
    assert rows_of(trace, "launches")[0]["total_ns"] is None
    assert "ambiguous-number" in trace.ledgers[0].notes
    for decimal, want in ((",", 1234), (".", 1_234_000)):
        told = read_text(tmp_path, text, options={"decimal": decimal})
        assert rows_of(told, "launches")[0]["total_ns"] == want


def test_integers_beyond_a_double_are_kept_as_printed(tmp_path: Path) -> None:
    trace = read_text(tmp_path, long_form(("inst.sum", "inst", "9,007,199,254,740,993")))
    assert rows_of(trace, "metrics")[0]["args"]["printed"] == "9,007,199,254,740,993 inst"


def test_text_and_absurd_numbers_are_texts(tmp_path: Path) -> None:
    rows = (("a", "", "CachePreferNone"), ("b", "", "1e999"), ("c", "", "5" * 100), ("d", "", "nan"))
    texts = [row["value_text"] for row in rows_of(read_text(tmp_path, long_form(*rows)), "metrics")]
    assert texts == ["CachePreferNone", "1e999", "5" * 100, "nan"]


# Other output, other ways to write


def test_a_metric_that_two_sections_show_counts_once(tmp_path: Path) -> None:
    trace = read_text(tmp_path, long_form(("x", "%", "5"), ("x", "%", "5"), ("x", "", "7")))
    assert values(trace, "x") == [5, 7]
    assert trace.ledgers[0].merged == 1


def test_lines_of_two_processes_may_be_mixed(tmp_path: Path) -> None:
    lines = [
        f'{HEAD}\n0,7,a,k,"(1, 1, 1)","(1, 1, 1)",x,,1', '0,8,a,k,"(1, 1, 1)","(1, 1, 1)",x,,2',
        '0,7,a,k,"(1, 1, 1)","(1, 1, 1)",y,,3', '0,8,a,k,"(1, 1, 1)","(1, 1, 1)",y,,4\n',
    ]  # fmt: skip
    trace = read_text(tmp_path, "\n".join(lines))
    assert [row["args"]["pid"] for row in rows_of(trace, "launches")] == [7, 8]


def test_ranks_of_mpirun_keep_their_launches(tmp_path: Path) -> None:
    text = "".join(
        f"[1,{rank}]<stdout>:{line}\n" for line in long_form(("x", "", "1")).split("\n")[:-1] for rank in (0, 1)
    )
    assert [row["rank"] for row in rows_of(read_text(tmp_path, text), "launches")] == [0, 1]


def test_a_quoted_text_with_line_ends_is_one_row(tmp_path: Path) -> None:
    trace = read_text(tmp_path, long_form(("x", "", "1"), name='"k<\na, b>"'))
    assert rows_of(trace, "launches")[0]["name"] == "k< a, b>"
    assert trace.ledgers[0].merged == 1


def test_a_missing_quotation_mark_costs_its_row_alone(tmp_path: Path) -> None:
    text = long_form(("x", "", "1"), ("y", "", "2"), ("z", "", "3")).replace('y,,"2"', 'y,,"2')
    trace = read_text(tmp_path, text)
    assert (values(trace, "x"), values(trace, "y"), values(trace, "z")) == ([1], [], [3])
    assert trace.ledgers[0].dropped == {"bad-row": 1}


def test_a_table_far_down_a_log_is_found(tmp_path: Path) -> None:
    text = "".join(f"step {number}: loss 0.25\n" for number in range(30_000)) + sample("ncu/details.txt").read_text()
    assert len(rows_of(read_text(tmp_path, text), "launches")) == 3


def test_two_tables_of_a_file_are_two_runs(tmp_path: Path) -> None:
    trace = read_text(tmp_path, long_form(("x", "", "1")) * 2)
    assert [row["run"] for row in rows_of(trace, "launches")] == [0, 1]


OLD_TEXT = """\
==PROF== Connected to process 5
  gemm(float*), 2020-Mar-02 10:11:12, Context 1, Stream 7
    Section: GPU Speed Of Light
    -------------------------------------------------------------------- --------------- ------------------------------
    Memory Frequency                                                       cycle/usecond                         799.09
    SM [%]                                                                             %                           8.10
    Duration                                                                     usecond                          12.35
    -------------------------------------------------------------------- --------------- ------------------------------
    WRN   This kernel grid is too small.

"""


def test_text_of_2020_has_neither_heads_nor_shapes(tmp_path: Path) -> None:
    trace = read_text(tmp_path, OLD_TEXT)
    (launch,) = rows_of(trace, "launches")
    assert (launch["name"], launch["total_ns"], launch["args"]["profiled_at"]) == (
        "gemm(float*)", 12_350, "2020-Mar-02 10:11:12"
    )  # fmt: skip
    assert values(trace, "SM [%]") == [8.1]


def test_the_raw_page_as_text_has_no_sections(tmp_path: Path) -> None:
    rule = f"    {'-' * 30} {'-' * 8} {'-' * 12}\n"
    row = f"    {'gpu__time_duration.sum':<30} {'usecond':>8} {'5.25':>12}\n"
    head = "  k (1, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 1, CC 9.0\n"
    (launch,) = rows_of(read_text(tmp_path, head + rule + row + rule), "launches")
    assert (launch["total_ns"], launch["device"]) == (5_250, 1)


def test_text_about_ncu_is_none_of_its_output(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text("| ncu.txt | `==PROF==` lines, a Kernel Name, Context 1, Stream 7 |\n==PROF== is printed first\n")
    assert sure_readers(path) == []


SUMMARY_OF_2024 = """[42] app@127.0.0.1
  axpy(float *, float *) (4, 1, 1)x(256, 1, 1), Device 0, CC 8.9, Invocations 2
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- -------- -------- --------
    Metric Name             Metric Unit  Minimum  Maximum  Average
    ----------------------- ----------- -------- -------- --------
    Elapsed Cycles                cycle 3,805.00 4,478.00 3,939.50
    Duration                         us     1.70     1.98     1.84
    ----------------------- ----------- -------- -------- --------
"""
SUMMARY_OF_2021 = """[42] app@127.0.0.1
  axpy(float *, float *), Block Size 256, Grid Size 4, Device 0, {}
    Section: GPU Speed Of Light Throughput
    Metric Name             Metric Unit   Minimum     Maximum     Average
    ----------------------- ------------- ----------- ----------- -----------
    gpc__cycles_elapsed.max cycle         4478.000000 4478.000000 4478.000000
    gpu__time_duration.sum  usecond       1.700000    1.980000    1.840000

loss 0.25 after 3 steps
loss 0.20 after 4 steps
"""


@pytest.mark.parametrize(
    ("text", "calls", "args"),
    [
        (SUMMARY_OF_2024, 2, {"grid": [4, 1, 1], "block": [256, 1, 1], "cc": "8.9"}),
        (SUMMARY_OF_2024.replace(" (4, 1, 1)x(256, 1, 1)", ""), 2, {"cc": "8.9"}),
        (SUMMARY_OF_2021.format("2 invocations "), 2, {"grid_size": 4, "block_size": 256}),
        (SUMMARY_OF_2021.format("1 invocations "), 1, {"grid_size": 4, "block_size": 256}),
    ],
)
def test_a_printed_summary_needs_neither_context_nor_stream(text: str, calls: int, args: Row, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text)
    assert sure_readers(path) == ["ncu"]
    trace = tracekit.read(path)
    (launch,) = rows_of(trace, "launches")
    assert (launch["name"], launch["calls"], launch["total_ns"]) == ("axpy(float *, float *)", calls, 1840 * calls)
    assert (launch["device"], launch["min_ns"], launch["max_ns"]) == (0, 1700, 1980)
    assert launch["args"] == {"pid": 42, "process": "app", "host": "127.0.0.1", **args}
    assert trace.ledgers[0].dropped == {}
    assert trace.ledgers[0].kept == 3


# Rows that are shorter than the head (2025)


_RULES = ',"Rule Name","Rule Type","Rule Description","Estimated Speedup Type","Estimated Speedup"'
_SHORT_HEAD = '"ID","Process ID","Process Name","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"'


def short_rows(launches: int, end: str, titles: str = _RULES) -> str:
    lines = [_SHORT_HEAD + titles]
    for n in range(launches):
        lines.append(f'"{n}","42","app","axpy","Speed","Duration","us","{n + 1}.50"{end}')
        lines.append(f'"{n}","42","app","axpy","Speed","Elapsed Cycles","cycle","17,000"{end}')
        lines.append(
            f'"{n}","42","app","axpy","Speed","","","","Bound","OPT","Use ""fewer"", wider loads","global","9"'
        )
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("end", ["", ",", ",,,,,", ",,,,,,"])
@pytest.mark.parametrize("titles", [_RULES, _RULES + ',"New Column"'])
def test_a_metric_row_may_end_behind_its_value(end: str, titles: str, tmp_path: Path) -> None:
    text = short_rows(2, end, titles)
    trace = read_text(tmp_path, text if "New" not in titles else text.replace('"9"\n', '"9",""\n'))
    assert [row["total_ns"] for row in rows_of(trace, "launches")] == [1500, 2500]
    assert values(trace, "Elapsed Cycles") == [17_000, 17_000]
    assert (trace.ledgers[0].kept, trace.ledgers[0].dropped) == (4, {})


@pytest.mark.parametrize("cut", ['"cycle"', '"cycle",', '"cycle","17', '"cycle","17,0'])
def test_a_row_that_ends_before_its_value_is_no_short_row(cut: str, tmp_path: Path) -> None:
    text = short_rows(2, ",")
    trace = read_text(tmp_path, text[: text.rindex('"cycle"')] + cut)
    assert (trace.ledgers[0].kept, trace.ledgers[0].dropped) == (3, {"torn-row": 1})


@pytest.mark.parametrize("end", ["", ","])
def test_short_rows_are_read_by_blocks_as_by_lines(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.csv"
    path.write_text(short_rows(400, end))
    taken = []
    of_lines = NcuLines.block
    small(monkeypatch, Limit.NCU_HELD_LAUNCHES, 20)
    small(monkeypatch, Limit.PASTED_BLOCK_BYTES, 5_000)
    monkeypatch.setattr(NcuLines, "block", lambda *args: taken.append(of_lines(*args)) or taken[-1])
    fast = tracekit.read(path)
    assert sum(taken) > 600
    monkeypatch.setattr(NcuLines, "block", lambda *_: 0)
    slow = tracekit.read(path)
    assert repr(fast.totals.to_pylist()) == repr(slow.totals.to_pylist())
    assert fast.ledgers[0] == slow.ledgers[0]
    assert fast.ledgers[0].kept == 800


# What ncu was not allowed to do, and what nobody measured


_REFUSED = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0. For instructions on enabling permissions see https://developer.nvidia.com/ERR_NVGPUCTRPERM\n"
)


def test_a_run_without_permission_says_so_and_what_to_do(tmp_path: Path) -> None:
    text = f"==PROF== Connected to process 42 (/x/app)\n{_REFUSED}==WARNING== No kernels were profiled.\n"
    with pytest.raises(ParseError, match="had no permission to read the GPU's counters") as caught:
        read_text(tmp_path, text)
    assert "sudo" in caught.value.hint
    assert "NVreg_RestrictProfilingToAdminUsers=0" in caught.value.hint


def test_a_process_without_permission_beside_others_is_noted(tmp_path: Path) -> None:
    trace = read_text(tmp_path, _REFUSED + long_form(("Duration", "us", "1.5")))
    assert rows_of(trace, "launches")[0]["total_ns"] == 1500
    note = trace.ledgers[0].notes["profiler-no-permission"]
    defect = class_of_note(note.code, note.text)
    assert defect is not None
    assert defect.code == "events-lost"


@pytest.mark.parametrize("parts", [("0.1", "0.2"), ("8.1",) * 10, ("0.7", "0.1", "0.1")])
def test_a_mean_shows_no_digits_that_nobody_measured(parts: tuple[str, ...], tmp_path: Path) -> None:
    rows = [f'{n},7,a,k,"(32, 1, 1)","(1, 1, 1)",x,%,{part}' for n, part in enumerate(parts)]
    section = tracekit.view(read_text(tmp_path, "\n".join([HEAD, *rows, ""])), "metrics")
    (mean,) = next(column for column in section.tables[0].columns if column.name == "avg").values
    assert mean == float(sum(map(Decimal, parts)) / len(parts))


# Blocks of rows at once


TABLES = {
    name: [line for line in sample(f"ncu/{name}.csv").read_text(encoding="utf-8").splitlines() if line[:1] == '"']
    for name in ("details", "raw")
}
ODD_LINES = (
    '==PROF== Profiling "k" - 9: 0%....50%....100% - 12 passes',
    '"7","42',
    '"8","4242","train","host","k"',
    "loss 0.25",
    "",
)
ODD_VALUES = (
    "n/a",
    " 7",
    "9007199254740992",
    "9007199254740993",
    "1,5",
    "1e3",
    "0",
    "-0.00",
    "12,34",
    "+4",
    "1.234.567",
    "µ",
)


@pytest.mark.parametrize("kind", TABLES)
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_blocks_give_what_their_lines_give(
    kind: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    table = TABLES[kind]
    first = 1 if kind == "details" else 2
    draw = data.draw
    lines = table[:first]
    for launch in range(draw(st.integers(4, 30))):
        own = [line for line in table[first:] if line.startswith(f'"{launch % 3}"')]
        for line in own:
            line = f'"{launch}"' + line[line.index('"', 1) + 1 :]
            odd = draw(st.integers(0, 60))
            if odd < 8:
                cells = line.split('","')
                at = draw(st.integers(1, len(cells) - 1)) if odd < 2 else 14 if kind == "details" else len(cells) - 3
                cells[at] = draw(st.sampled_from(ODD_VALUES)) + ('"' if at == len(cells) - 1 else "")
                line = '","'.join(cells)
            lines += [line] * (2 if odd == 9 else 1)
            if odd == 10:
                lines.append(draw(st.sampled_from(ODD_LINES)))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    path = tmp_path_factory.mktemp("blocks") / "x.csv"
    path.write_text(end.join(lines) + draw(st.sampled_from(["", end])), encoding="utf-8", newline="")
    taken = []
    of_lines = NcuLines.block

    def watched(reading: NcuLines, block: bytes) -> int:
        taken.append(of_lines(reading, block))
        return taken[-1]

    with pytest.MonkeyPatch.context() as patch:
        small(patch, Limit.NCU_HELD_LAUNCHES, 20)
        small(patch, Limit.PASTED_BLOCK_BYTES, draw(st.sampled_from([3000, 20_000, 60_000])))
        patch.setattr(NcuLines, "block", watched)
        fast = tracekit.read(path, format="ncu")
        event(f"blocks at once: {any(taken)}")
        patch.setattr(NcuLines, "block", lambda *_: 0)
        slow = tracekit.read(path, format="ncu")
    assert repr(fast.totals.to_pylist()) == repr(slow.totals.to_pylist())
    assert fast.ledgers[0] == slow.ledgers[0]
    assert fast.run.sources[0].facts == slow.run.sources[0].facts


@pytest.mark.parametrize("block_bytes", [20_000, 1 << 24], ids=["many", "one"])
@pytest.mark.parametrize("kind", TABLES)
def test_most_of_a_long_table_is_read_by_blocks(
    kind: str, block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one block too, of which the first lines show the style of the numbers."""
    table, first = TABLES[kind], 1 if kind == "details" else 2
    body = [
        f'"{n * 3 + at // (len(table[first:]) // 3)}"{line[3:]}'
        for n in range(300)
        for at, line in enumerate(table[first:])
    ]
    path = tmp_path / "x.csv"
    path.write_text("\n".join([*table[:first], *body]) + "\n", encoding="utf-8")
    taken = []
    of_lines = NcuLines.block
    monkeypatch.setattr(NcuLines, "block", lambda *args: taken.append(of_lines(*args)) or taken[-1])
    small(monkeypatch, Limit.NCU_HELD_LAUNCHES, 20)
    small(monkeypatch, Limit.PASTED_BLOCK_BYTES, block_bytes)
    trace = tracekit.read(path)
    assert sum(taken) > len(body) / 2
    assert len(rows_of(trace, "launches")) == 900


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_without_one_of_its_columns_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    rows = list(csv.reader(TABLES[kind]))
    for place, title in enumerate(rows[0]):
        path = tmp_path / "x.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            cut = ([cell for at, cell in enumerate(row) if at != place] for row in rows)
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(cut)
        if title in ("Process ID", "Process Name", "Kernel Name", "Metric Name", "Metric Value"):
            with pytest.raises(ParseError):
                tracekit.read(path, format="ncu")
        else:
            tracekit.read(path, format="ncu").ledgers[0].check()
