"""nvprof's output after mixed logs, spreadsheets and odd programs: no wrong number, each dropped row is counted."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest
from doors.readers import NvprofHeader, NvprofSession, OpenTable, ProfiledRun, RowError, Table, plain_number
from doors.readers import nvprof_cells as cells
from nvprof_cases import API_3, GPU_20, PREAMBLE, UNITS_20, Got, copy, kernel, read
from support import sample

from tracekit.errors import ParseError

TWO = (
    "==1== NVPROF is profiling process 1, command: ./a\n==2== NVPROF is profiling process 2, command: ./a\n"
    "==1== Profiling result:\n==2== Profiling result:\n"
)
SUMMARY = '"Time(%)","Time","Calls","Avg","Min","Max","Name"\n'
TYPED = '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,us,,us,us,us,\n'
TEXT_SUMMARY = " Time(%)      Time   Calls       Avg       Min       Max  Name\n"
SHEET = "Start;Duration;Grid X;Grid Y;Grid Z;Device;Stream;Name\nms;us;;;;;;\n"
SHEET_ROW = "1,5;2,5;1;1;1;T (0);7;good\n"
WIDE = '"Start","Duration","Grid X","Grid Y","Grid Z","Device","Stream","Name"\nms,us,,,,,,\n'
WIDE_ROW = '1.500000,2.500000,1,1,1,"T (0)","7","good"\n'


def both_ways(folder: Path, text: str) -> Got:
    """Read by columns and by rows: both must give the same."""
    fast = read(folder, text)
    with mock.patch.object(NvprofSession, "block", return_value=None):
        slow = read(folder, text)
    assert fast.events == slow.events
    assert fast.ledger.dropped == slow.ledger.dropped
    assert fast.run.ids == slow.run.ids
    return fast


@pytest.mark.parametrize("count", [1, 30])
def test_two_headers_then_two_unlike_rows_of_units_refuse_what_cannot_be_told_apart(count: int, tmp_path: Path) -> None:
    rows = kernel("10.0") + kernel("10.5")
    got = read(tmp_path, TWO + GPU_20 * 2 + UNITS_20 + UNITS_20.replace("ms,us", "s,us") + rows * count)
    assert not got.events
    assert got.ledger.dropped == {"mixed-rows": 2 * count}
    assert got.ledger.ignored["unit-row"] == 2


@pytest.mark.parametrize("count", [1, 30])
def test_two_headers_then_two_like_rows_of_units_leave_the_pid_out(count: int, tmp_path: Path) -> None:
    got = read(tmp_path, TWO + GPU_20 * 2 + UNITS_20 * 2 + kernel("10.0") * count)
    assert {(r["pid"], r["ts_ns"]) for r in got.events} == {(None, 10**7)}
    assert len(got.events) == got.ledger.notes["rows-mixed"].count == count


def test_two_headers_and_one_row_of_units_leave_the_pid_out_until_both_are_known(tmp_path: Path) -> None:
    got = read(
        tmp_path, TWO + GPU_20 * 2 + UNITS_20 + kernel("10.0") * 3 + UNITS_20.replace("ms,us", "s,us") + kernel("0.5")
    )
    assert [(r["pid"], r["ts_ns"]) for r in got.events] == [(None, 10**7)] * 3
    assert got.ledger.dropped == {"mixed-rows": 1}


def test_summaries_with_two_unlike_rows_of_units_are_refused_too(tmp_path: Path) -> None:
    row = '100.0,2.5,1,2.5,2.5,2.5,"k(int)"\n'
    got = read(tmp_path, TWO + SUMMARY * 2 + "%,ms,,us,us,us,\n%,us,,us,us,us,\n" + row * 2)
    assert not got.totals
    assert got.ledger.dropped == {"mixed-rows": 2}


@pytest.mark.parametrize(
    ("total", "kept"),
    [
        ("18446744073709551615", "18446744073709551615"),
        ("9223372036854775807", 9223372036854775807),
        ("9007199254740993", 9007199254740993),
        ("12.5", 12.5),
        ("26", 26),
    ],
)
def test_a_count_keeps_all_its_digits(total: str, kept: float | str, tmp_path: Path) -> None:
    head = '==1== Event result:\n"Device","Kernel","Invocations","Event Name","Min","Max","Avg","Total"\n'
    row = read(tmp_path, head + f'"T (0)","k",1,"warps_launched",1,2,1.5,{total}\n').totals[0]
    assert json.loads(row["args"])["total"] == kept


def test_a_large_value_stands_as_printed_beside_its_rounded_number(tmp_path: Path) -> None:
    head = '==1== Event result:\n"Device","Kernel","Invocations","Event Name","Min","Max","Avg"\n'
    row = read(tmp_path, head + '"T (0)","k",1,"cycles",9007199254740993,9007199254740993,9007199254740993\n').totals[0]
    assert json.loads(row["args"])["printed"]["max"] == "9007199254740993"


@pytest.mark.parametrize("percent", ["nan", "-nan", "", "<0.01", "inf", "-nan(ind)"])
def test_a_summary_row_of_an_odd_percentage_is_kept(percent: str, tmp_path: Path) -> None:
    rows = f'{percent},2.5,1,2.5,2.5,2.5,"k(int)"\n'
    got = read(tmp_path, PREAMBLE + SUMMARY + "%,us,,us,us,us,\n" + rows)
    assert [(r["total_ns"], json.loads(r["args"])["percent"]) for r in got.totals] == [(2500, percent)]
    got = read(tmp_path, PREAMBLE + TYPED + '"GPU activities",' + rows)
    assert [r["total_ns"] for r in got.totals] == [2500]


@pytest.mark.parametrize(
    ("table", "good", "bad", "reason", "says"),
    [
        (SHEET, SHEET_ROW, "391,8;443,07;1;1\n", "short-row", "fewer cells"),
        (WIDE, WIDE_ROW, "391.8,443.07,1,1\n", "short-row", "fewer cells"),
        (WIDE, WIDE_ROW, '391.800000,443.070000,1,1,1,"T (0)","7",k(int, char)\n', "long-row", "more cells"),
        (WIDE, WIDE_ROW, '5,6,1,1,1,"T (0)","7",k(int, char)\n', "long-row", "more cells"),
        (TYPED, '"GPU activities",9.5,2.5,1,2.5,2.5,2.5,"k"\n', '"GPU activities",9.5,2.5,1\n', "short-row", "fewer"),
        (TYPED, '"GPU activities",9.5,2.5,1,2.5,2.5,2.5,"k"\n', '"API calls",9.5,2.5,1,2.5,2.5,2.5,k(a,b)\n',
         "long-row", "more cells"),
        ('"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n',
         '"T (0)","k",1,"ipc","IPC",1,1,1\n', '"T (0)","k",1,"ipc"\n', "short-row", "fewer cells"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 40])
def test_a_row_of_another_width_is_dropped_with_its_reason(
    table: str, good: str, bad: str, reason: str, says: str, count: int, tmp_path: Path
) -> None:
    got = read(tmp_path, PREAMBLE + table + good * count + bad + good * count)
    assert len(got.events) + len(got.totals) == 2 * count
    assert got.ledger.dropped == {reason: 1}
    assert says in got.ledger.notes[reason].text


@pytest.mark.parametrize("name", ["gpu-trace", "gpu-and-api-trace", "summary", "metrics"])
def test_every_cut_of_a_text_tables_last_row_is_counted(name: str, tmp_path: Path) -> None:
    data = sample(f"nvprof-text/{name}.txt").read_bytes()
    lines = data.split(b"\n")
    kept = read(tmp_path, data)
    first = lines.index(next(t for t in lines if t.rstrip().endswith((b"Name", b"Avg")))) + 1
    row = next(i for i in range(first + 2, len(lines)) if lines[i].strip()[:1].isdigit())
    start = sum(len(t) + 1 for t in lines[:row])
    outcomes = set()
    for at in range(start + len(lines[row]) - len(lines[row].lstrip()) + 1, start + len(lines[row]), 3):
        got = read(tmp_path, data[:at], reader="nvprof-text")
        assert "application-output" not in got.ledger.ignored or (
            got.ledger.ignored["application-output"] == kept.ledger.ignored.get("application-output")
        ), data[start:at]
        outcomes |= set(got.ledger.dropped)
    assert outcomes == {"torn-row"}


def test_a_broken_row_in_a_text_table_is_dropped_and_output_of_the_program_is_not(tmp_path: Path) -> None:
    table = "     Start    Duration  Name\n" + "     1.5ms       2.5us  cuInit\n" * 2
    got = read(tmp_path, PREAMBLE + table + "     1.5ms       2.5us\n3.2s  done\nepoch 3  loss 2.5\n 12  of  13\n")
    assert len(got.events) == 2
    assert got.ledger.dropped == {"short-row": 1}
    assert got.ledger.ignored["application-output"] == 3


@pytest.mark.parametrize(
    ("cell", "decimal", "number"),
    [
        ("1,234.500000", ".", "1234.500000"),
        ("1,234.5", "", "1234.5"),
        ("1.234,5", ",", "1234.5"),
        ("1,234,567", ".", "1234567"),
        ("1\u202f234,5", ",", "1234.5"),
        ("1\u00a0234.5us", ".", "1234.5us"),
        ("12'345.25", "", "12345.25"),
        ("1\u2019234.5", ".", "1234.5"),
        ("1234.5KB", ".", "1234.5KB"),
        ("12,5", ",", "12.5"),
    ],
)
def test_separators_of_thousands_that_are_proven_are_left_out(cell: str, decimal: str, number: str) -> None:
    assert plain_number(cell, decimal) == number


@pytest.mark.parametrize(
    ("cell", "decimal"),
    [
        ("1,234", "."),
        ("1,234", ""),
        ("1.234", ","),
        ("1.234,5", "."),
        ("1,23.5", "."),
        ("1\u00a023.5", "."),
        ("'", ","),
    ],
)
def test_separators_that_may_be_either_are_refused(cell: str, decimal: str) -> None:
    with pytest.raises(RowError, match="the number"):
        plain_number(cell, decimal)


def test_quoted_thousands_are_read_in_a_trace(tmp_path: Path) -> None:
    got = both_ways(tmp_path, PREAMBLE + WIDE + WIDE_ROW * 20 + WIDE_ROW.replace("1.500000", '"1,000.500000"') * 2)
    assert [r["ts_ns"] for r in got.events] == [1500000] * 20 + [1000500000] * 2


def test_decimal_commas_in_quotes_are_read_where_the_column_agrees(tmp_path: Path) -> None:
    row = WIDE_ROW.replace("1.500000", '"104,285657"').replace("2.500000", '"2,500000"')
    got = both_ways(tmp_path, PREAMBLE + WIDE + row * 40)
    assert {(r["ts_ns"], r["dur_ns"]) for r in got.events} == {(104285657, 2500)}
    for first, second in ((row, WIDE_ROW), (WIDE_ROW, row)):
        got = both_ways(tmp_path, PREAMBLE + WIDE + first * 20 + second)
        assert len(got.events) == 20
        assert got.ledger.dropped == {"ambiguous-number": 1}


@pytest.mark.parametrize(
    "table",
    [
        '"Start"|"Duration"|"Name"\nms|us|\n1.5|2.5|"k"\n',
        "Beginn,Dauer,Bezeichnung\nms,us,\n1.5,2.5,k\n",
    ],
)
def test_a_table_that_is_not_understood_is_an_error(table: str, tmp_path: Path) -> None:
    with pytest.raises(ParseError, match=r"line 4.*a table with unknown columns follows") as caught:
        read(tmp_path, PREAMBLE + table)
    assert caught.value.hint


def test_output_of_the_program_around_no_kernels_is_no_table(tmp_path: Path) -> None:
    got = read(tmp_path, "a,b\n" + PREAMBLE + "No kernels were profiled.\ndone\n")
    assert "no-rows" in got.ledger.notes
    assert "no-rows" in read(tmp_path, "hello\n" + PREAMBLE).ledger.notes


@pytest.mark.parametrize("count", [1, 40])
def test_numbers_that_are_not_decimal_are_text_on_both_paths(count: int, tmp_path: Path) -> None:
    rows = [
        kernel().replace('"1","7"', '"1","0x7f00"'), kernel().replace('"1","7"', '"1","-1"'),
        kernel().replace(",7\n", ",0xff\n"), kernel().replace(",7\n", ",18446744073709551615\n"),
        kernel().replace(",7\n", ",-7\n"), kernel().replace('"1","7"', '"0X1","7"'),
    ]  # fmt: skip
    got = both_ways(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + kernel() * count + "".join(rows) * count)
    ids = {(column, number): text for (column, _, number), text in got.run.ids.items()}
    found = {(r["context"], r["stream"], r["correlation"]) for r in got.events}
    texts = {tuple(ids.get(k, k[1]) for k in zip(("context", "stream", "correlation"), t, strict=True)) for t in found}
    assert texts == {
        (1, 7, 7), (1, "0x7f00", 7), (1, -1, 7), (1, 7, "0xff"), (1, 7, "18446744073709551615"), (1, 7, -7),
        ("0X1", 7, 7),
    }  # fmt: skip
    assert not got.ledger.dropped


def test_a_hexadecimal_grid_costs_its_cell_on_both_paths(tmp_path: Path) -> None:
    got = both_ways(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + (kernel() * 20 + kernel().replace(",4,2,1,", ",0x4,2,1,")))
    assert [row["grid_x"] for row in got.events] == [4] * 20 + [None]
    assert got.ledger.dropped == {}
    assert "odd-cell" in got.ledger.notes


def test_addresses_in_names_and_cells_leave_the_columnar_path(tmp_path: Path) -> None:
    rows = (kernel(name="f<0x12>(int)") + copy()) * 40
    with mock.patch.object(NvprofSession, "line", autospec=True, side_effect=NvprofSession.line) as by_line:
        got = read(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + rows)
    assert by_line.call_count == 5
    assert [(r["grid_x"], r["registers"], r["correlation"]) for r in got.events[:2]] == [(4, 16, 7), (None, None, 9)]


@pytest.mark.parametrize("name", ["a\rb(int)", "==13== Warning: foo", "f ==13== Warning: foo(int)"])
def test_a_name_in_quotes_is_a_name_whatever_stands_in_it(name: str, tmp_path: Path) -> None:
    got = both_ways(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + kernel(name=name) * 40)
    assert set(got.column("name")) == {name}
    assert not got.ledger.dropped
    assert "nvprof-warning" not in got.ledger.notes


def test_a_progress_bar_before_a_row_on_one_line_is_left_out(tmp_path: Path) -> None:
    got = read(tmp_path, PREAMBLE + API_3 + ' 50%|##  |\r1.5,2.5,"cudaFree"\n')
    assert [(r["ts_ns"], r["name"]) for r in got.events] == [(1500, "cudaFree")]


@pytest.mark.parametrize("mark", ["  ", "% "])
def test_the_summary_of_cuda_5_is_read(mark: str, tmp_path: Path) -> None:
    text = (
        "======== NVPROF is profiling matrixMul...\n======== Command: matrixMul\n======== Profiling result:\n"
        + TEXT_SUMMARY
        + f"   99.94{mark}   1.11s     301    3.69ms    3.67ms    3.79ms  matrixMulCUDA(float*, int)\n"
        + f"    0.04{mark}406.30us       2  203.15us  136.13us  270.18us  [CUDA memcpy HtoD]\n"
    )
    got = read(tmp_path, text, "log.txt")
    assert [(r["name"], r["total_ns"], r["calls"], json.loads(r["args"])["percent"]) for r in got.totals] == [
        ("matrixMulCUDA(float*, int)", 1110000000, 301, "99.94"),
        ("[CUDA memcpy HtoD]", 406300, 2, "0.04"),
    ]
    assert not got.ledger.dropped


def test_rows_whose_first_delimiters_are_damaged_are_dropped_rows(tmp_path: Path) -> None:
    damaged = WIDE_ROW.replace(",", ";", 3)
    got = both_ways(
        tmp_path, WIDE + WIDE_ROW * 20 + damaged * 2 + WIDE_ROW + "1.500000, a loss that the program printed\n"
    )
    assert len(got.events) == 21
    assert got.ledger.dropped == {"short-row": 2}
    assert got.ledger.ignored["application-output"] == 1


# --- cells of one line ---


@pytest.mark.parametrize(("text", "width", "found"), [
    ("1,5;x", 0, (",", "")), ("1.5;x", 0, (".", "")), ("7;x\n 2,5us ;7\n1.5;7", 0, (",", "")),
    ("1,234;7", 0, ("", "1,234")), ("1.234;5.678", 0, ("", "1.234")), ("1.234;1,234us;2,345", 0, ("", "1,234us")),
    ("1,234;1.234", 0, ("", "1,234")), ("1,234;0,123", 0, (",", "")), ("1.234.567,8", 0, (",", "")),
    ("1'234.5GB/s", 0, (".", "")), ("1,5e-05", 0, (",", "")), ("7;x;-", 0, ("", "")), ("", 0, ("", "")),
    ("1,5\n7;1.5", 2, (".", "")), ("1,5;1;2\n7;1.5", 2, (".", "")), ("12,34%;7", 2, (",", "")),
    ('"1,5";7', 2, (",", "")),
])  # fmt: skip
def test_the_first_clear_fraction_says_the_decimal_separator(text: str, width: int, found: tuple[str, str]) -> None:
    assert cells.decimal_of(text, ";", width) == found


@pytest.mark.parametrize(("columns", "quoted", "values", "found"), [
    ("Start Duration Name", False, "1 2 k", "1 2 k"), ("Start Duration Name", False, "1 2", None),
    ("Start Duration Name", False, "1 2 k(a b)", "1 2 k(a,b)"),
    ("Start Name Duration", False, "1 a b c 2", "1 a,b,c 2"),
    ("Start Duration Name", True, "1 2 a b", None), ("Start Duration Name", True, "1 2 a", "1 2 a"),
    ("Start Duration", False, "1 2 3", None), ("Device Kernel Min", False, "T a b 2", "T a,b 2"),
])  # fmt: skip
def test_a_name_without_quotes_is_joined_again(columns: str, quoted: bool, values: str, found: str | None) -> None:
    header = NvprofHeader(Table.TRACE, tuple(columns.split()), ",", quoted=quoted)
    wanted = None if found is None else found.split()
    assert cells.with_rejoined_name(values.split(), header) == wanted


NARROW_TRACE = NvprofHeader(Table.TRACE, ("Start", "Duration", "Name"), ",")
WIDE_TRACE = NvprofHeader(Table.TRACE, ("Start", "Duration", "A", "B", "C", "D", "E", "Name"), ",", quoted=True)
SHEETS_TRACE = NvprofHeader(Table.TRACE, ("Start", "Duration", "A", "B", "Name"), ";")
QUOTED_TRACE = NvprofHeader(Table.TRACE, ("Start", "Duration", "A", "B", "Name"), ",", quoted=True)
SUMS = NvprofHeader(Table.SUMMARY, ("Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"), ",", quoted=True)
COUNTS = NvprofHeader(Table.COUNTERS, ("Device", "Kernel", "Invocations", "Event Name"), ",", quoted=True)
UNIFIED = NvprofHeader(Table.UNIFIED, ("Device", "Count", "Avg Size", "Total Size", "Name"), ",")


@pytest.mark.parametrize(("header", "text", "torn", "code"), [
    (NARROW_TRACE, "1.5", True, "torn-row"), (NARROW_TRACE, "loss 1.5", True, ""),
    (NARROW_TRACE, '  "Te', True, "torn-row"),
    (NARROW_TRACE, "1.5", False, ""), (NARROW_TRACE, "1.500000,2.500000", False, "short-row"),
    (NARROW_TRACE, "1.500000,2.500000,k", False, "short-row"),
    (NARROW_TRACE, "1.500000,2.500000,k,x", False, "long-row"),
    (NARROW_TRACE, "1.500000,loss", False, "short-row"), (NARROW_TRACE, "1.5,2.5", False, ""),
    (NARROW_TRACE, "1.5,2.5,k,x", False, "long-row"), (NARROW_TRACE, "a,2.5,k,x", False, ""),
    (NARROW_TRACE, "1.5,b,k,x", False, ""), (NARROW_TRACE, "1.5,2.5,k", False, ""),
    (WIDE_TRACE, "1.5,2.5,1,2", False, "short-row"), (WIDE_TRACE, "1.5,2.5,1", False, ""),
    (WIDE_TRACE, "1,2.5,1,2", False, ""), (WIDE_TRACE, "1.5,2,1,2", False, ""),
    (WIDE_TRACE, "1.500000,x,1", False, ""),
    (WIDE_TRACE, "1.500000,x,1,2", False, "short-row"), (WIDE_TRACE, "1.500000;x,1,2,3,4,5,6,7", False, ""),
    (SHEETS_TRACE, "1;2", False, "short-row"), (SHEETS_TRACE, "1;x", False, ""),
    (QUOTED_TRACE, "1.5,2.5,1,2", False, ""), (QUOTED_TRACE, '1.5,2.5,1,"T"', False, "short-row"),
    (QUOTED_TRACE, "1.5,2.5,1,2,a,b", False, ""), (QUOTED_TRACE, '1.5,2.5,1,2,"a",b', False, "long-row"),
    (SUMS, "1.5,2.5,1,2", False, ""), (SUMS, '1.5,2.5,1,"2"', False, "short-row"),
    (SUMS, "9.500000,2.500000", False, "short-row"),
    (COUNTS, '"T (0)","k",1', False, "short-row"), (COUNTS, '"T","k",1', False, ""), (COUNTS, "T (0),k,1", False, ""),
    (COUNTS, '"T (0)"', False, ""), (UNIFIED, "T (0),1.500000,2.500000", False, "short-row"),
    (UNIFIED, "T (0),1.500000", False, ""),
    (NvprofHeader(Table.TRACE, ("Start", "Name"), ","), "1.500000,2.500000,3", False, ""),
])  # fmt: skip
def test_a_line_is_a_damaged_row_only_where_it_begins_like_one(
    header: NvprofHeader, text: str, torn: bool, code: str
) -> None:
    found = cells.drop_reason(text, header, torn=torn)
    assert ("" if found is None else found[0]) == code
    if code and not torn:
        extra = len(text.split(header.delimiter)) - len(header.columns)
        says = {"long-row": "more cells", "short-row": "fewer cells" if extra else "does not look like the rows"}[code]
        assert found is not None
        assert says in found[1]


TEXT_TRACE = NvprofHeader(Table.TRACE, ("Start", "Duration", "Name"), ends=(8, 18, 24))
TEXT_SUMS = NvprofHeader(Table.SUMMARY, ("Time(%)", "Time", "Name"), ends=(8, 18, 24))
TYPED_SUMS = NvprofHeader(Table.SUMMARY, ("Type", "Time(%)", "Time", "Name"), ends=(16, 24, 34, 40))
TEXT_COUNTS = NvprofHeader(Table.COUNTERS, ("Invocations", "Event Name"), ends=(12, 30))


@pytest.mark.parametrize(("header", "text", "torn", "begins"), [
    (TEXT_TRACE, "  1.5ms  2.5us", False, True), (TEXT_TRACE, "1.5ms  -", False, True),
    (TEXT_TRACE, "1.5ms", False, False),
    (TEXT_TRACE, "1.5ms  x", False, False), (TEXT_TRACE, "x  2.5us", False, False),
    (TEXT_TRACE, "1.5ms 2.5us", False, False),
    (TEXT_SUMS, " 9.5%  2.5us", False, True), (TEXT_SUMS, " 9.5%  2.5", False, False),
    (TEXT_SUMS, "loss 2.5", False, False),
    (TEXT_COUNTS, "   12  inst", False, True), (TEXT_COUNTS, "12  inst", False, False),
    (TEXT_COUNTS, "   x  inst", False, False),
    (TEXT_TRACE, "  1.5", True, True), (TEXT_TRACE, "GPU act", True, False), (TYPED_SUMS, "GPU act", True, True),
    (TYPED_SUMS, "OpenACC (main):  9", True, True), (TEXT_SUMS, "OpenACC (main):  9", True, False),
    (TYPED_SUMS, " API calls:  9", True, True), (TYPED_SUMS, "loss: 9", True, False), (TYPED_SUMS, "  9", True, True),
])  # fmt: skip
def test_a_line_of_text_is_a_damaged_row_only_where_it_begins_like_one(
    header: NvprofHeader, text: str, torn: bool, begins: bool
) -> None:
    found = cells.drop_reason(text, header, torn=torn)
    assert (found is not None) == begins
    assert found is None or found[0] == ("torn-row" if torn else "short-row")


@pytest.mark.parametrize(("header", "text", "found"), [
    (NARROW_TRACE, "1.500000,x", True), (NARROW_TRACE, "1.500000", False), (NARROW_TRACE, "1.5,x", False),
    (NARROW_TRACE, ' 1.500000 ,"k', True), (NARROW_TRACE, '"k', True), (TEXT_TRACE, " 1.5ms  x", True),
    (TEXT_TRACE, " x  1.5ms", False), (TEXT_TRACE, "1.5ms x", False), (TEXT_SUMS, " 9.5%  1us", True),
    (TEXT_SUMS, "9.5%", False), (TYPED_SUMS, "API calls:  9.5%", True), (TEXT_COUNTS, " 12  inst", True),
    (TEXT_COUNTS, "12 inst", False), (TEXT_COUNTS, "x  inst", False),
])  # fmt: skip
def test_a_piece_of_a_line_begins_a_row(header: NvprofHeader, text: str, found: bool) -> None:
    assert cells.begins_row(text, header) == found


def opened(header: NvprofHeader, *concurrent: OpenTable, units: tuple[str, ...] | None = None) -> OpenTable:
    return OpenTable(header, ProfiledRun(1, None, {}), "", 1, pid=7, units=units, concurrent=concurrent)


def after_units(text: str, *tables: OpenTable, torn: bool = False) -> tuple[bool, list[tuple[str, int | None]]]:
    """Return whether a line is a row of units of the last table, and the unit of Start and the pid of all tables."""
    found = cells.read_units(text, tables[-1], torn=torn)
    return found, [(table.unit("Start"), table.pid) for table in tables]


def test_the_oldest_table_without_units_takes_them() -> None:
    older = opened(NARROW_TRACE)
    newer = opened(NARROW_TRACE, older)
    # Rows may now belong to either.
    assert after_units("ms,us,", older, newer) == (True, [("ms", None), ("", None)])
    assert after_units("s,us,", older, newer) == (True, [("ms", None), ("s", None)])


def test_units_of_the_only_table_without_them_leave_it_to_its_process() -> None:
    older = opened(NARROW_TRACE, units=("ms", "us", ""))
    assert after_units("s,us,", older, opened(NARROW_TRACE, older)) == (True, [("ms", 7), ("s", 7)])


def test_units_belong_to_the_table_of_their_width() -> None:
    wider = NvprofHeader(Table.TRACE, ("Start", "Duration", "Name", "Stream"), ",")
    older = opened(NARROW_TRACE)
    assert after_units("s,us,,", older, opened(wider, older)) == (True, [("", 7), ("s", 7)])
    assert after_units("s,us,,", opened(NARROW_TRACE)) == (True, [("s", 7)])
    for text, torn, found in (("1,2,k", False, False), ("s,u", False, False), ("s,us,", True, True)):
        assert after_units(text, opened(NARROW_TRACE), torn=torn) == (found, [("", 7)])


SHORT_SUMS = NvprofHeader(Table.SUMMARY, ("Time(%)", "Time", "Calls", "Name"), ",")
EACH_CALL = NvprofHeader(Table.PER_CALL, ("Device", "Kernel", "Min"), ",")
QUOTED_NARROW = NvprofHeader(Table.TRACE, ("Start", "Duration", "Name"), ",", quoted=True)


@pytest.mark.parametrize(("header", "text", "row"), [
    (SHORT_SUMS, "9.5,1.5,3,k", True), (SHORT_SUMS, "-,1.5,3,k", False), (SHORT_SUMS, ",1.5,3,k", True),
    (SHORT_SUMS, "nan,1.5,3,k", True), (SHORT_SUMS, "x,1.5,3,k", False), (SHORT_SUMS, ",x,3,k", False),
    (SHORT_SUMS, ",1.5,x,k", False), (SHORT_SUMS, ",1.5,3,", False), (NARROW_TRACE, "1,2,k", True),
    (NARROW_TRACE, "1,,k", True), (NARROW_TRACE, ",2,k", False), (NARROW_TRACE, "1,-inf,k", True),
    (NARROW_TRACE, "1,x,k", False), (QUOTED_NARROW, "1,2,k", False), (QUOTED_NARROW, '1,2,"k"', True),
    (UNIFIED, "T (0),,,1.5,k", True), (UNIFIED, "T,,,1.5,k", False), (UNIFIED, "T (0),,,x,k", False),
    (UNIFIED, "T,3,,x,k", True), (UNIFIED, "T (0),x,,1.5,k", False), (EACH_CALL, "T,k,x", True),
    (EACH_CALL, ",k,1", False), (COUNTS, '"T","k",1,i', True), (COUNTS, '"T","k",x,i', False),
])  # fmt: skip
def test_a_line_of_cells_is_a_row_where_its_first_cells_say_so(header: NvprofHeader, text: str, row: bool) -> None:
    values = text.replace('"', "").split(",")
    found = cells.csv_cells(values, text, opened(header))
    assert found == (dict(zip(header.columns, values, strict=True)) if row else None)


def test_cells_of_padding_are_left_out_and_a_quoted_number_shows_the_decimal_separator() -> None:
    padded = NvprofHeader(Table.SUMMARY, ("Time(%)", "Time", "Calls (host)", "", "Name"), ",")
    assert cells.csv_cells(["", " 1.5", "3", "zz", "k "], "", opened(padded)) == {
        "Time(%)": "", "Time": "1.5", "Calls (host)": "3", "Name": "k",
    }  # fmt: skip
    for start, decimal in (("1,5", ","), ("1.5", "."), ("1,234", ""), ("7", "")):
        table = opened(NARROW_TRACE)
        assert cells.csv_cells([start, "2", "k"], "", table) is not None
        assert table.decimal == decimal


LAUNCHES = NvprofHeader(Table.TRACE, ("Start", "Duration", "Grid Size", "Regs*", "Name"), ends=(8, 18, 30, 36, 44))
EACH_TEXT = NvprofHeader(Table.PER_CALL, ("Device", "Context", "Stream", "Name"), ends=(12, 20, 28, 34))


@pytest.mark.parametrize(("header", "text", "found"), [
    (LAUNCHES, "1.5ms  2.5us  (1 2 3)  16  k(int)", "1.5ms 2.5us 1 2 3 16 k(int)"),
    (LAUNCHES, "1.5ms  -  -  -  memset", "1.5ms      memset"), (LAUNCHES, "1.5ms  2.5us  (1 2)  16  k", None),
    (LAUNCHES, "x  2.5us  -  -  k", None), (TEXT_SUMS, " 9.50%  2.5us  k", "9.50% 2.5us k"),
    (TEXT_SUMS, " 9.50  0  k", "9.50 0 k"), (TEXT_SUMS, "<0.01  2.5us  k", "<0.01 2.5us k"),
    (TEXT_SUMS, " 9.50  x  k", None), (TEXT_SUMS, " 12  2.5us  k", None), (TEXT_SUMS, " 12  0  k", None),
    (TEXT_SUMS, "100.00% 2.5us  k", "100.00% 2.5us k"),
    (TYPED_SUMS, " API:   9.50%     2.5us  k", " 9.50% 2.5us k"),
    (TYPED_SUMS, " Range:   9.50%     2.5us  k", "Range: 9.50% 2.5us k"),
    (TYPED_SUMS, "                 9.50%     2.5us  k", " 9.50% 2.5us k"),
    (TEXT_COUNTS, " 12  inst", "12 inst"), (TEXT_COUNTS, " x  inst", None), (TEXT_COUNTS, " 12", None),
    (EACH_TEXT, "T  1  7  k", "T 1 7 k"), (EACH_TEXT, "3  x  7  k", None),
])  # fmt: skip
def test_a_line_of_a_text_table_is_a_row_where_its_cells_have_their_forms(
    header: NvprofHeader, text: str, found: str | None
) -> None:
    row = cells.text_cells(text, header)
    assert (None if row is None else list(row.values())) == (None if found is None else found.split(" "))
    if header is LAUNCHES and row is not None:
        assert list(row) == ["Start", "Duration", "Grid X", "Grid Y", "Grid Z", "Registers Per Thread", "Name"]


def test_a_carriage_return_hides_what_is_before_it_but_not_in_a_name() -> None:
    table = OpenTable(NARROW_TRACE, ProfiledRun(1, None, {}), "", 1)
    text = OpenTable(TEXT_TRACE, ProfiledRun(1, None, {}), "", 1)
    for one in (None, table, text):
        assert cells.after_carriage_returns("1.0,2.0,k", one) == "1.0,2.0,k"
        assert cells.after_carriage_returns("5%\r9%\r1.0,2.0,k", one) == "1.0,2.0,k"
        assert cells.after_carriage_returns("\r1.0,2.0,k", one) == "1.0,2.0,k"
    named = '1.0,2.0,"a\rb"'
    assert cells.after_carriage_returns(named, table) == named
    assert cells.after_carriage_returns(named.replace("1.0", '"1.0"'), table) == named.replace("1.0", '"1.0"')
    assert cells.after_carriage_returns(named, None) == cells.after_carriage_returns(named, text) == 'b"'
    assert cells.after_carriage_returns(f"9,{named}", table) == 'b"'
    assert cells.after_carriage_returns('"9\r1",2.0,"a\rb"', table) == 'b"'
    assert cells.after_carriage_returns('1.0,"k"\r2.0,k', table) == "2.0,k"


@pytest.mark.parametrize(("header", "text", "found"), [
    (NARROW_TRACE, '1,2,"a== b"', True), (NARROW_TRACE, '"1","2","a== b"', True),
    (NARROW_TRACE, '1,2,"a== b', False), (NARROW_TRACE, '1,"2"== b,"c"', False),
    (NARROW_TRACE, "1,2,a== b", False), (NARROW_TRACE, 'x,2,"a== b"', False), (NARROW_TRACE, '1,x,"a== b"', False),
    (NARROW_TRACE, '1,2,3,"a== b"', False), (SUMS, '1,2,3,4,5,6,"a== b"', False), (TEXT_TRACE, '1,2,"a== b"', False),
    (NvprofHeader(Table.TRACE, ("Start", "Duration"), ","), '1,"2== b"', False),
])  # fmt: skip
def test_a_row_may_hold_a_text_like_a_line_of_nvprof(header: NvprofHeader, text: str, found: bool) -> None:
    assert cells.is_row_with_prefix(text, header) == found


@pytest.mark.parametrize(("name", "place", "found"), [
    ("[CUDA memcpy HtoD]", {}, True), ("[CUDA memcpy", {}, False), ("k(int) [12]", {"Device": "T (0)"}, True),
    ("k(int) [12", {"Device": "T (0)"}, False), ("k(int) [12]", {"Grid X": "1"}, True),
    ("k(int)", {"Grid X": "1"}, False),
    ("cudaLaunch (k [12])", {}, True), ("cudaLaunch (k [12]", {}, False), ("cudaMalloc", {}, False),
])  # fmt: skip
def test_a_name_is_complete_where_its_last_part_is_there(name: str, place: dict[str, str], found: bool) -> None:
    assert cells.is_complete({"Name": name, "Device": "", "Grid X": "", **place}) == found
