"""Tables of msprof and torch_npu: exact times, kinds, sums equal to the file's, stacks of several lines, damage."""

from __future__ import annotations

import csv
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from support import SAMPLES, read_sample, run_command, sample, sure_readers

import tracekit
from tracekit.errors import ParseError
from tracekit.index.lanes import device_title
from tracekit.model import args
from tracekit.model.trace import Trace

HEAD = (
    "Step Id,Device_id,Task ID,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Block Dim,Input Shapes"
)
ROW = '1,3,7,2,{name},MatMul,AI_CORE,"{start}",{dur},24,"""16,32;32,8"""'
START = "1736413971558972.912\t"


def table(tmp_path: Path, *rows: str, head: str = HEAD, ends: str = "\n") -> Trace:
    path = tmp_path / "kernel_details.csv"
    path.write_bytes((ends.join((head, *rows)) + ends).encode())
    assert sure_readers(path) == ["ascend-csv"]
    return tracekit.read(path)


def file_rows(name: str) -> list[dict[str, str]]:
    with sample(f"ascend-csv/{name}").open(newline="") as file:
        return list(csv.DictReader(file))


def ns(text: str) -> int:
    return int(Decimal(text.strip()) * 1000)


@pytest.mark.parametrize(
    ("name", "names", "start", "length"),
    [
        ("kernel_details.csv", "Name", "Start Time(us)", "Duration(us)"),
        ("kernel_details_level0.csv", "Name", "Start Time(us)", "Duration(us)"),
        ("op_summary_20250109171300.csv", "Op Name", "Task Start Time(us)", "Task Duration(us)"),
        ("task_time_20250109171300.csv", "kernel_name", "task_start(us)", "task_time(us)"),
    ],
)
def test_times_and_names_are_those_that_the_csv_module_reads(name: str, names: str, start: str, length: str) -> None:
    trace = tracekit.read(sample(f"ascend-csv/{name}"))
    want = Counter((ns(row[start]), ns(row[length]), row[names]) for row in file_rows(name))
    events = trace.events.to_pylist()
    found = Counter((row["ts_ns"], row["dur_ns"], row["name"]) for row in events)
    unnamed = sum(count for key, count in want.items() if key[2] == "N/A")
    assert len(events) == sum(want.values())
    assert (found & want).total() == len(events) - unnamed
    assert trace.run.origin_ns == 0
    assert not trace.ledgers[0].dropped


def test_a_time_is_exact_in_any_number_of_digits(tmp_path: Path) -> None:
    starts = {
        START: 1736413971558972912,
        "1736413971558980": 1736413971558980000,
        "1736413971559000.25": 1736413971559000250,
    }
    durations = {"185.504": 185504, "0": 0, "932.0498": 932050}
    rows = [ROW.format(name="k", start=start, dur=dur) for start, dur in zip(starts, durations, strict=True)]
    trace = table(tmp_path, *rows)
    assert trace.events["ts_ns"].to_pylist() == list(starts.values())
    assert trace.events["dur_ns"].to_pylist() == list(durations.values())


def test_every_accelerator_is_a_kernel_and_a_task_of_the_scheduler_is_not(tmp_path: Path) -> None:
    kinds = {
        "AI_CORE": "kernel", "AI_VECTOR_CORE": "kernel", "MIX_AIV": "kernel", "AI_CPU": "kernel", "DSA_SQE": "kernel",
        "HCCL": "kernel", "COMMUNICATION": "kernel", "N/A": "kernel", "MEMCPY_ASYNC": "memcpy", "SDMA_SQE": "memcpy",
        "NOTIFY_WAIT": "sync", "EVENT_RECORD": "sync", "PROFILING_ENABLE": "other", "TASK_TIMEOUT_SET": "other",
    }  # fmt: skip
    rows = [f"1,0,{at},2,op,Type,{core},{1000 + at},0.5,0,N/A" for at, core in enumerate(kinds)]
    assert table(tmp_path, *rows).events["kind"].to_pylist() == list(kinds.values())


def test_places_shapes_and_metrics_are_in_their_columns_and_args() -> None:
    trace = tracekit.read(sample("ascend-csv/kernel_details.csv"))
    events = trace.events.to_pylist()
    first = events[0]
    assert (first["device"], first["stream"], first["step"], first["grid_x"]) == (0, 2, 1, 24)
    codes, shapes = args.texts(trace.events["args"], "Input Shapes")
    assert shapes[codes[0]] == "1024,4096;4096,4096"
    collectives = [row for row in events if row["name"].startswith("hcom_")]
    assert len(collectives) == 4
    assert {row["stream"] for row in collectives} == {None}
    assert '"aic_mac_ratio":0.824' in first["args"]
    assert "aiv_time" not in first["args"], "a product on the cube has no time on the vector core"
    assert "4294967295" not in first["args"], "the number of no model"


@pytest.mark.parametrize("name", ["op_statistic.csv", "communication_statistic_20250109171300.csv"])
def test_sums_are_those_of_the_file(name: str) -> None:
    totals = tracekit.read(sample(f"ascend-csv/{name}")).totals.to_pylist()
    rows = file_rows(name)
    columns = {"calls": "Count", "total_ns": "Total Time(us)", "min_ns": "Min Time(us)", "max_ns": "Max Time(us)"}
    for ours, theirs in zip(totals, rows, strict=True):
        assert ours["name"] == theirs["OP Type"]
        for key, title in columns.items():
            assert ours[key] == (int(theirs[title]) if key == "calls" else ns(theirs[title]))
        assert ours["avg_ns"] == pytest.approx(float(theirs["Avg Time(us)"]) * 1000)


def test_sums_of_operators_are_those_of_their_calls_with_stacks_of_several_lines() -> None:
    trace = tracekit.read(sample("ascend-csv/operator_details.csv"))
    rows = file_rows("operator_details.csv")
    wanted = {name: sum(ns(row["Host Total Duration(us)"]) for row in rows if row["Name"] == name)
              for name in {row["Name"] for row in rows}}  # fmt: skip
    assert {row["name"]: row["total_ns"] for row in trace.totals.to_pylist()} == wanted
    codes, members = args.values(trace.totals["args"], "device_self_ns")
    of_linear = trace.totals["name"].to_pylist().index("aten::mm")
    device = sum(ns(row["Device Self Duration(us)"]) for row in rows if row["Name"] == "aten::mm")
    assert members[codes[of_linear]] == device
    ledger = trace.ledgers[0]
    assert (ledger.read, ledger.kept, ledger.merged) == (len(rows) + 1, 3, len(rows) - 3)


def test_the_parts_of_steps_are_metrics_with_the_figures_of_the_file() -> None:
    totals = tracekit.read(sample("ascend-csv/step_trace_time.csv")).totals.to_pylist()
    found = {(row["name"], args_of(row["args"])): row["value_avg"] for row in totals}
    for row in file_rows("step_trace_time.csv"):
        for part in row.keys() - {"Device_id", "Step"}:
            assert found.pop((f"step {row['Step']}", part)) == float(row[part])
    assert not found


def args_of(text: str) -> str:
    return text.removeprefix('{"metric":"').removesuffix('"}')


def test_files_behind_each_other_have_a_header_each(tmp_path: Path) -> None:
    row = ROW.format(name="k", start=START, dur="1.5")
    trace = table(tmp_path, row, HEAD, row)
    assert len(trace.events) == 2
    assert trace.ledgers[0].ignored == {"header": 2}


@pytest.mark.parametrize("bad", ["N/A", "", "-5", "9" * 23, "9" * 16, "1.7e400", "zwei", "0x10"])
@pytest.mark.parametrize("place", ["start", "dur"])
def test_a_row_without_its_times_is_dropped_with_its_place(bad: str, place: str, tmp_path: Path) -> None:
    row = ROW.format(**({"name": "k", "start": START, "dur": "1.5"} | {place: bad}))
    trace = table(tmp_path, ROW.format(name="k", start=START, dur="1.5"), row)
    assert len(trace.events) == 1
    assert trace.events["event_id"].to_pylist() == [1]
    assert sum(trace.ledgers[0].dropped.values()) == 1
    assert any("row 2" in note.places for note in trace.ledgers[0].notes.values())


@pytest.mark.parametrize(
    ("rows", "events"),
    [
        ('1,0,7,2,"never closed,MatMul,AI_CORE,1000,5,1,N/A\n1,0,8,2,k,MatMul,AI_CORE,1001,5,1,N/A', 1),
        ("1,0,7\n1,0,8,2,k,MatMul,AI_CORE,1001,5,1,N/A,more", 0),
        ('1,0,7,2,"two\nlines",MatMul,AI_CORE,1000,5,1,N/A', 1),
        ("1,0,7,2,,MatMul,AI_CORE,1000,5,1,N/A\n\n \n", 1),
    ],
)
def test_odd_rows_cost_themselves_alone(rows: str, events: int, tmp_path: Path) -> None:
    trace = table(tmp_path, rows, ROW.format(name="good", start=START, dur="1"))
    assert len(trace.events) >= events
    trace.ledgers[0].check()


def test_a_quotation_mark_that_never_closes_takes_no_more_than_a_part_of_the_file(tmp_path: Path) -> None:
    good = ROW.format(name="good" * 50, start=START, dur="1")
    trace = table(tmp_path, '1,0,7,2,"open,MatMul,AI_CORE,1000,5,1,N/A', *[good] * 30_000)
    assert len(trace.events) == 30_000


def test_times_of_a_column_without_a_unit_have_no_meaning(tmp_path: Path) -> None:
    path = tmp_path / "op_summary.csv"
    path.write_text("Op Name,OP Type,Task Type,Task Start Time,Task Duration\nk,MatMul,AI_CORE,1,2\n")
    assert not sure_readers(path)
    with pytest.raises(ParseError):
        tracekit.read(path, format="ascend-csv")


def test_a_second_column_of_one_name_keeps_its_place(tmp_path: Path) -> None:
    trace = table(
        tmp_path, "k,a,AI_CORE,1000,5,b,6", head="Name,Type,Accelerator Core,Start Time(us),Duration(us),Type,"
    )
    assert trace.events["args"].to_pylist() == ['{"Type":"a","Accelerator Core":"AI_CORE"}']


def test_samples_have_the_same_work_in_each_table() -> None:
    details, summary = (
        tracekit.read(SAMPLES / "ascend-csv" / name) for name in ("kernel_details.csv", "op_summary_20250109171300.csv")
    )
    assert details.events["dur_ns"].to_pylist() == summary.events["dur_ns"].to_pylist()
    by_type = {
        row["name"]: row["total_ns"] for row in tracekit.read(sample("ascend-csv/op_statistic.csv")).totals.to_pylist()
    }
    codes, types = args.texts(details.events["args"], "Type")
    sums: Counter[str] = Counter()
    for code, length in zip(codes.tolist(), details.events["dur_ns"].to_pylist(), strict=True):
        sums[types[code]] += length
    assert {name: total for name, total in sums.items() if not name.startswith("hcom")} == by_type


def test_the_device_is_called_an_npu() -> None:
    trace = read_sample("ascend-csv/kernel_details.csv")
    assert set(trace.run.devices.values()) == {"NPU"}
    assert device_title(0, "NPU") == "NPU 0"
    assert device_title(0, "Ascend910B") == "NPU 0 Ascend910B"


def test_devices_without_a_number_are_npus_too() -> None:
    """A table of level 0 has no column of devices."""
    first = run_command("summary", sample("ascend-csv/kernel_details_level0.csv")).stdout
    assert first.startswith("The NPU waits 20 % of the run")
    assert "NPU not named, of the run" in first
