"""nvprof's text tables: the exact value of what is printed, with any text between and around the tables."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from doors.readers import cut_cells
from hypothesis import given
from hypothesis import strategies as st
from nvprof_cases import PREAMBLE, read, strip_ids
from support import corpus, sample

import tracekit
from tracekit.errors import ParseError

EXPECTED: dict[str, Any] = json.loads(sample("expected.json").read_text("utf-8"))
TEXT_SAMPLES = [n for n in EXPECTED if n.startswith("nvprof-text/")]

TRACE = (
    "   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput"
    "  SrcMemType  DstMemType           Device   Context    Stream  Name\n"
)
COPY = (
    "391.80ms  443.07us                    -               -         -         -         -  4.5938MB  10.125GB/s"
    "    Pageable      Device     Tesla T4 (0)         1        14  [CUDA memcpy HtoD]\n"
)
KERNEL = (
    "1.18208s     310ns           (4097 1 2)       (128 2 1)       128  12.000KB       64B         -           -"
    "           -           -     Tesla T4 (0)         1         7  void f<int, (b)1>(int, float) [10]\n"
)
LEGEND = "\nRegs: Number of registers used per CUDA thread.\nSSMem: Static shared memory.\nDSMem: Dynamic.\n"
SUMMARY = "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"


@pytest.mark.corpus
def test_real_metrics_have_their_rows_kernels_and_values() -> None:
    trace = tracekit.read(corpus("nvprof_metrics_txt/nbody_step1_metrics.txt"))
    rows = trace.totals.to_pylist()
    ledger = trace.ledgers[0]
    names = [json.loads(r["args"])["metric"] for r in rows]
    assert ledger.format == "nvprof-text"
    assert (len(rows), len({r["name"] for r in rows}), len(set(names))) == (60, 3, 20)
    assert {(r["device"], r["calls"]) for r in rows} == {(0, 1)}
    assert trace.run.devices == {(0, 0): "Tesla K20m"}
    flops = {r["name"].split("(")[0]: r["value_avg"] for r, n in zip(rows, names, strict=True) if n == "flop_count_sp"}
    assert flops == {
        "calculate_collision_velocity_74_gpu": 1.4156e10, "calculate_gravitation_velocity_31_gpu": 2.5480e10,
        "update_particle_124_gpu": 276480.0,
    }  # fmt: skip
    assert (rows[2]["value_avg"], rows[2]["unit"], rows[2]["value_text"]) == (6.0, "level", "Mid (6)")
    assert ledger.read == 82
    assert not ledger.dropped


@pytest.mark.parametrize("name", TEXT_SAMPLES)
def test_sample_gives_what_is_expected(name: str) -> None:
    want = EXPECTED[name]
    entry = tracekit.inspect(sample(name)).inputs[0]
    ledger = entry["ledger"]
    assert entry["format"] == want["reader"]
    assert entry["events"] + entry["totals"] == want["data_rows"] == ledger["kept"]
    assert ledger["read"] == sum(want["lines"].values())
    assert not ledger["dropped"]
    assert sum(kind["dur_ns"] for kind in entry["by_kind"].values()) == want["sum_dur_ns"]
    assert (entry["first_ns"], entry["last_ns"]) == (want["first_start_ns"], want["last_end_ns"])
    assert entry["by_kind"].get("kernel", {"events": 0})["events"] == want["kernels"]
    rows = tracekit.read(sample(name)).totals.to_pylist()
    sections = {"gpu_activities": "GPU activities", "api_calls": "API calls", "unified_memory": "Unified Memory"}
    for key, value in want.get("totals", {}).items():
        for suffix, column in (("_rows", None), ("_calls", "calls"), ("_total_ns", "total_ns")):
            if key.endswith(suffix):
                part = key.removesuffix(suffix)
                mine = [r for r in rows if r["section"] == sections.get(part, part + "s")]
                assert sum(1 if column is None else r[column] or 0 for r in mine) == value


def test_text_and_csv_of_one_run_agree_but_for_the_digits() -> None:
    text = tracekit.read(sample("nvprof-text/gpu-trace.txt")).events.to_pylist()
    csv = tracekit.read(sample("nvprof-csv/gpu-trace-20-columns.csv")).events.to_pylist()
    same = ("name", "kind", "copy_kind", "grid_x", "grid_z", "block_y", "registers", "stream", "context", "args")
    text.sort(key=itemgetter("event_id"))
    csv.sort(key=itemgetter("event_id"))
    for ours, theirs in zip(text, csv, strict=True):
        assert {k: ours[k] for k in same} == {k: theirs[k] for k in same}
        assert abs(ours["dur_ns"] - theirs["dur_ns"]) <= 5
        assert (ours["bytes"] or 0) == pytest.approx(theirs["bytes"] or 0, rel=1e-4)


def test_every_cell_of_a_row_finds_its_column(tmp_path: Path) -> None:
    got = read(tmp_path, PREAMBLE + TRACE + COPY + KERNEL + LEGEND, "log.txt")
    copy, kernel = got.events
    assert {k: v for k, v in kernel.items() if v is not None} == {
        "ts_ns": 1182080000, "dur_ns": 310, "event_id": 6, "name": "void f<int, (b)1>(int, float)", "kind": "kernel",
        "source": 0, "pid": 4242, "device": 0, "context": 1, "stream": 7, "correlation": 10, "grid_x": 4097,
        "grid_y": 1, "grid_z": 2, "block_x": 128, "block_y": 2, "block_z": 1, "registers": 128,
        "static_smem_bytes": 12288, "dynamic_smem_bytes": 64,
    }  # fmt: skip
    assert (copy["ts_ns"], copy["dur_ns"], copy["bytes"]) == (391800000, 443070, 4816948)
    assert json.loads(copy["args"]) == {"src_mem_type": "Pageable", "dst_mem_type": "Device"}
    assert got.run.devices == {(0, 0): "Tesla T4"}
    assert got.ledger.notes["rounded-text"].count == 1
    assert got.ledger.ignored["legend"] == 3


def test_a_device_without_its_number_gets_one_and_a_note(tmp_path: Path) -> None:
    cut = COPY.replace("   Tesla T4 (0)", "Tesla V100-SXM2")
    got = read(tmp_path, PREAMBLE + TRACE + cut * 2)
    assert {r["device"] for r in got.events} == {100}
    assert got.run.devices == {(0, 100): "Tesla V100-SXM2"}
    assert got.run.ids == {("device", 0, 100): "Tesla V100-SXM2"}
    assert got.ledger.notes["device-number-missing"].count == 1


def test_a_cell_wider_than_its_column_moves_the_others(tmp_path: Path) -> None:
    wide = KERNEL.replace("  (4097 1 2)", "  (2147483647 65535 65535)")
    row = read(tmp_path, PREAMBLE + TRACE + wide).events[0]
    assert (row["grid_x"], row["grid_z"], row["block_x"], row["stream"]) == (2147483647, 65535, 128, 7)


def test_calls_among_device_work_have_no_device(tmp_path: Path) -> None:
    dash = "-".rjust
    call = (
        f"391.79ms  7.3650us  {dash(19)}  {dash(14)}  {dash(8)}  {dash(8)}  {dash(8)}  {dash(8)}  {dash(10)}  "
        f"{dash(10)}  {dash(10)}  {dash(15)}  {dash(8)}  {dash(8)}  cudaLaunch (k(int)  [7]) [12])\n"
    )
    row = read(tmp_path, PREAMBLE + TRACE + call).events[0]
    assert (row["name"], row["kind"], row["correlation"], row["device"]) == ("cudaLaunch", "runtime", 12, None)
    assert json.loads(row["args"]) == {"kernel": "k(int)  [7])"}


def test_the_group_of_a_summary_stands_in_its_first_row_only(tmp_path: Path) -> None:
    rows = (
        " GPU activities:   75.00%  1.5000ms         3  500.00us  1.0000us  1.2000ms  void f(int,  float)\n"
        "                   25.00%  500.00us         1  500.00us  500.00us  500.00us  [CUDA memset]\n"
        "      API calls:  100.00%  2.0000s          4  500.00ms     90ns  1.9000s  cudaFree\n"
        " OpenACC (excl):  100.00%  2.0000s          4  500.00ms     90ns  1.9000s  acc_wait@a.c:3\n"
    )
    got = read(tmp_path, PREAMBLE + SUMMARY + rows)
    assert [(r["section"], r["name"], r["kind"], r["total_ns"], r["calls"]) for r in got.totals] == [
        ("GPU activities", "void f(int,  float)", "kernel", 1500000, 3),
        ("GPU activities", "[CUDA memset]", "memset", 500000, 1),
        ("API calls", "cudaFree", "runtime", 2 * 10**9, 4),
        ("OpenACC (excl)", "acc_wait@a.c:3", "other", 2 * 10**9, 4),
    ]  # fmt: skip
    assert (got.totals[0]["avg_ns"], got.totals[2]["min_ns"]) == (500000.0, 90)


OLD_SUMMARY = "Time(%)      Time     Calls       Avg       Min       Max  Name\n"
OLD_KERNEL = "100.00%  1.5000ms         3  500.00us  1.0000us  1.2000ms  f(int)\n"
OLD_CALL = "100.00%  2.0000ms         4  500.00us     90ns  1.9000ms  cudaFree\n"


@pytest.mark.parametrize(
    "table",
    [
        f"{SUMMARY} GPU activities:  {OLD_KERNEL}      API calls:\n                  {OLD_CALL}",
        f"{SUMMARY} GPU activities:\n                  {OLD_KERNEL}      API calls:\n                  {OLD_CALL}",
        f"{OLD_SUMMARY}{OLD_KERNEL}\nAPI calls:\n{OLD_SUMMARY}{OLD_CALL}",
        f"{OLD_SUMMARY}{OLD_KERNEL}\nAPI calls:\n{OLD_CALL}",
    ],
)
def test_a_heading_on_a_line_of_its_own_begins_its_group(table: str, tmp_path: Path) -> None:
    got = read(tmp_path, PREAMBLE + table)
    assert [(r["section"], r["name"], r["kind"], r["total_ns"], r["calls"]) for r in got.totals] == [
        ("GPU activities", "f(int)", "kernel", 1_500_000, 3),
        ("API calls", "cudaFree", "runtime", 2_000_000, 4),
    ]
    assert not got.ledger.dropped
    assert "application-output" not in got.ledger.ignored


def test_a_heading_on_a_line_of_its_own_begins_its_group_in_csv(tmp_path: Path) -> None:
    header = '"Time(%)","Time","Calls","Avg","Min","Max","Name"\n%,ms,,us,us,us,\n'
    rows = '100.0,1.5,3,500.0,1.0,1200.0,"f(int)"\n', '100.0,2.0,4,500.0,0.09,1900.0,"cudaFree"\n'
    got = read(tmp_path, f"{PREAMBLE}{header}{rows[0]}API calls:,,,,,,\n{header}{rows[1]}")
    assert [(r["section"], r["total_ns"]) for r in got.totals] == [("GPU activities", 1500000), ("API calls", 2000000)]


def test_unified_memory_block_belongs_to_the_device_above_it(tmp_path: Path) -> None:
    block = (
        '\n==4242== Unified Memory profiling result:\nDevice "Tesla T4 (1)"\n'
        "   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name\n"
        "      12  64.000KB  4.0000KB  128.00KB  768.0000KB  74.36800us  Host To Device\n"
        "       3         -         -         -           -  515.9680us  Gpu page fault groups\n"
        "Total CPU Page faults: 4\n"
    )
    got = read(tmp_path, PREAMBLE + block)
    copies, faults = got.totals
    assert (copies["device"], copies["calls"], copies["bytes"], copies["total_ns"]) == (1, 12, 768 << 10, 74368)
    assert (copies["value_min"], copies["value_max"], copies["unit"], copies["kind"]) == (4096, 131072, "B", "memcpy")
    assert (faults["bytes"], faults["total_ns"], faults["kind"]) == (None, 515968, "overhead")
    assert got.run.sources[0].facts["runs"][0]["cpu_page_faults"] == 4
    assert got.ledger.facts == 1


def test_metrics_belong_to_the_device_and_kernel_above_them(tmp_path: Path) -> None:
    text = (
        "==4242== Event result:\nInvocations        Event Name         Min         Max         Avg       Total\n"
        'Device "Tesla T4 (0)"\n\tKernel: f(int) [3]\n          2            branch          12          14          13'
        "          26\n"
    )
    row = read(tmp_path, PREAMBLE + text).totals[0]
    assert (row["section"], row["name"], row["device"], row["calls"]) == ("events", "f(int)", 0, 2)
    assert (row["value_min"], row["value_max"], row["value_avg"]) == (12, 14, 13)
    assert json.loads(row["args"]) == {"event": "branch", "total": 26}


def test_device_and_kernel_on_one_line_are_both_taken(tmp_path: Path) -> None:
    text = (
        "==1== Event result:\nInvocations        Event Name         Min         Max         Avg\n"
        'Device "Tesla T4 (0)"    Kernel: mm$_omp_fn$0\n'
        "          2            branch          12          14          13\n"
    )
    row = read(tmp_path, text).totals[0]
    assert (row["name"], row["device"], row["value_avg"]) == ("mm$_omp_fn$0", 0, 13)


def test_the_command_is_taken_from_where_it_still_stands(tmp_path: Path) -> None:
    got = read(tmp_path, PREAMBLE.split("\n", 1)[1] + TRACE + COPY)
    assert got.run.sources[0].facts["command"] == "./train --lr 0.1, --steps 3"


def test_a_row_with_a_line_of_another_process_in_it_is_dropped_not_lost(tmp_path: Path) -> None:
    text = (
        "==1== Metric result:\nInvocations     Metric Name    Metric Description         Min         Max         Avg\n"
        'Device "Tesla T4 (0)"\n\tKernel: f(int)\n          1   flops_dp   FLOPS(Double)  ==2== Metric result:\n'
        "        16          16          16\n"
    )
    got = read(tmp_path, text, "log.txt")
    assert not got.totals
    assert got.ledger.dropped == {"broken-row": 1}


def test_tables_that_are_not_read_are_counted_and_named(tmp_path: Path) -> None:
    text = (
        "======== CPU profiling result (bottom up):\nTime(%)      Time  Name\n 59.09%  8.55785s  main\n"
        " 59.09%  8.55785s  | start\n======== Data collected at 100Hz frequency\n"
        "==9== Dependency Analysis:\n==9== Analysis progress: 100%\n"
        "Critical path(%)  Critical path  Waiting time  Name\n"
        "           19.27%      2.298834s           0ns  f(int)\n"
    )
    got = read(
        tmp_path, PREAMBLE + SUMMARY + "      API calls:  100.00%  2.0000s  4  500ms  90ns  1.9s  cudaFree\n" + text
    )
    assert len(got.totals) == 1
    assert got.ledger.ignored["other-table"] == 5
    assert "tables-not-read" in got.ledger.notes


def test_a_log_may_hold_tables_of_both_forms(tmp_path: Path) -> None:
    csv = '"Start","Duration","Name"\nus,us,\n1.5,2.5,"cudaFree"\n'
    got = read(tmp_path, PREAMBLE + TRACE + COPY + PREAMBLE + csv, "log.txt")
    assert [r["name"] for r in got.events] == ["[CUDA memcpy HtoD]", "cudaFree"]
    assert got.ledger.format == "nvprof-text"


@pytest.mark.parametrize(
    ("cell", "reason"), [("99999999999s", "absurd-time"), ("-443.07us", "negative-time"), ("-", "no-duration")]
)
def test_a_bad_time_costs_its_row(cell: str, reason: str, tmp_path: Path) -> None:
    got = read(tmp_path, PREAMBLE + TRACE + COPY.replace("443.07us", cell.rjust(8)) + KERNEL)
    assert len(got.events) == 1
    assert got.ledger.dropped == {reason: 1}


def test_a_trace_without_durations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="'Duration'"):
        read(tmp_path, PREAMBLE + TRACE.replace("  Duration", ""), reader="nvprof-text")


@pytest.mark.parametrize("name", TEXT_SAMPLES)
def test_a_cut_anywhere_keeps_the_rows_before_it(name: str, tmp_path: Path) -> None:
    data = sample(name).read_bytes()
    whole = read(tmp_path, data)
    draw = random.Random(name)
    for at in draw.sample(range(1, len(data)), 12):
        try:
            got = read(tmp_path, data[:at], reader="nvprof-text")
        except ParseError:  # the cut fell between a header and its first row
            continue
        for ours, theirs in zip(got.events, whole.events, strict=False):
            assert ours == theirs
        certain = got.totals[:-1] if "unfinished-line" in got.ledger.notes else got.totals
        assert certain == whole.totals[: len(certain)]
        assert sum(got.ledger.dropped.values()) <= 1


@pytest.mark.parametrize("name", TEXT_SAMPLES)
def test_line_ends_and_byte_order_mark_change_nothing(name: str, tmp_path: Path) -> None:
    data = sample(name).read_bytes()
    plain = read(tmp_path, data)
    for other in (data.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + data, data.decode().encode("utf-16")):
        got = read(tmp_path, other)
        assert (got.events, got.totals, got.ledger.ignored) == (plain.events, plain.totals, plain.ledger.ignored)


JUNK = st.sampled_from(
    ["hello world", "1,2,3", "loss 0.25  step 3", "==99999== Warning: odd", "", "   ", "100%|####| 3/3", "- - -",
     "Time 3.2s", '{"a": 1}', "Name  Value"]
)  # fmt: skip


@pytest.mark.parametrize("name", ["gpu-trace", "gpu-and-api-trace", "summary", "metrics"])
@given(data=st.data())
def test_lines_of_the_program_between_rows_change_no_row(name: str, data: st.DataObject, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("junk")
    lines = sample(f"nvprof-text/{name}.txt").read_text("utf-8").split("\n")
    plain = read(folder, "\n".join(lines))
    for at, text in data.draw(st.lists(st.tuples(st.integers(0, len(lines) - 1), JUNK), min_size=1, max_size=6)):
        lines.insert(at, text)
    got = read(folder, "\n".join(lines))
    assert strip_ids(got.events) == strip_ids(plain.events)
    assert got.totals == plain.totals
    assert not got.ledger.dropped


TIMES = st.tuples(st.decimals(0, 999, places=3), st.sampled_from(["s", "ms", "us"])).map(lambda t: f"{t[0]:f}{t[1]}")
SCALE = {"s": 9, "ms": 6, "us": 3}


@given(
    rows=st.lists(st.tuples(TIMES, TIMES, st.from_regex(r"cu[A-Z][a-z]{2,9}", fullmatch=True)), min_size=1, max_size=20)
)
def test_times_are_exactly_what_is_printed(rows: list[tuple[str, str, str]], tmp_path_factory: Any) -> None:
    text = "".join(f"{start.rjust(10)}  {dur.rjust(10)}  {name}\n" for start, dur, name in rows)
    got = read(tmp_path_factory.mktemp("exact"), PREAMBLE + "     Start    Duration  Name\n" + text)

    def ns(cell: str) -> int:
        unit = cell.lstrip("0123456789.")
        return int(Decimal(cell.removesuffix(unit)).scaleb(SCALE[unit]))

    assert [(r["ts_ns"], r["dur_ns"], r["name"]) for r in got.events] == [(ns(a), ns(b), n) for a, b, n in rows]


def test_cells_divided_by_one_blank_are_cut_under_the_header() -> None:
    assert cut_cells("1.5ms    2us name of it", (5, 12, 24)) == ["1.5ms", "2us", "name of it"]
    assert cut_cells("no row at all", (5, 12, 24)) is None
    assert cut_cells("x" * 40, (5, 12, 24)) is None


@given(st.lists(st.text(alphabet="ab(1)[", min_size=1, max_size=12), min_size=3, max_size=8), st.integers(2, 9))
def test_cells_are_cut_at_gaps_and_the_last_is_the_rest(cells: list[str], gap: int) -> None:
    line = (" " * gap).join(cells) + "  and  more"
    ends = tuple(range(10, 10 * len(cells) + 1, 10))
    assert cut_cells("   " + line, ends) == [*cells[:-1], cells[-1] + "  and  more"]
