"""A folder of an Ascend profiler is one run: each task is read from one of the files that have it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support import sample

import tracekit
from tracekit.inputs import expand, same_work
from tracekit.model.trace import Trace

DETAILS = "ascend-csv/kernel_details.csv"
DATABASE = "ascend-db/ascend_pytorch_profiler_3.db"
KERNELS = (44, 6_079_740)


def put(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(sample(name), folder)


def kernels(trace: Trace) -> tuple[int, int]:
    rows = [row for row in trace.events.to_pylist() if row["kind"] == "kernel"]
    return len(rows), sum(row["dur_ns"] for row in rows)


def notes(trace: Trace) -> str:
    return " ".join(str(note) for ledger in trace.ledgers for note in ledger.notes.values())


def test_the_richest_form_of_a_run_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    output = tmp_path / "host_1_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    put(output, DETAILS, "ascend-csv/op_statistic.csv", "ascend-csv/operator_details.csv")
    trace = tracekit.read(tmp_path)
    assert kernels(trace) == KERNELS
    assert {row["kind"] for row in trace.totals.to_pylist()} == {"operator"}, "no event of a table has these"
    assert "1 file with the same work in another form" in notes(trace)
    put(output, DATABASE)
    trace = tracekit.read(tmp_path, strict=True)  # strict: what is left out is no fault
    assert kernels(trace) == KERNELS
    assert [source.format for source in trace.run.sources] == ["ascend-db"]
    assert "3 files with the same work" in notes(trace)
    assert "kernel_details.csv" in notes(trace)


def test_the_data_of_msprof_beside_an_output_of_torch_npu_are_the_same_run(tmp_path: Path) -> None:
    run = tmp_path / "host_1_ascend_pt"
    put(run / "ASCEND_PROFILER_OUTPUT", DETAILS)
    put(run / "PROF_000001_20250109_ABC" / "mindstudio_profiler_output", "ascend-csv/op_summary_20250109171300.csv")
    put(run / "PROF_000001_20250109_ABC", "ascend-db/msprof_20250109171300.db")
    trace = tracekit.read(tmp_path)
    assert kernels(trace) == KERNELS
    assert [source.format for source in trace.run.sources] == ["ascend-db"]


@pytest.mark.parametrize("words", ["", "*/ASCEND_PROFILER_OUTPUT/*"])
def test_each_rank_is_a_run_of_its_own(words: str, tmp_path: Path) -> None:
    for rank in range(2):
        output = tmp_path / f"host_{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        put(output, DATABASE if rank else DETAILS, "ascend-csv/op_statistic.csv")
    found = expand(str(tmp_path / words) if words else str(tmp_path))
    assert [Path(each.name).name for each in found] == ["kernel_details.csv", "ascend_pytorch_profiler_3.db"]


def test_a_table_that_is_named_alone_is_read(tmp_path: Path) -> None:
    put(tmp_path, DETAILS, "ascend-csv/op_statistic.csv")
    assert len(tracekit.read(tmp_path / "op_statistic.csv").totals) == 5


def test_files_of_one_form_belong_together() -> None:
    names = ["p/op_summary_slice_0_1.csv", "p/op_summary_slice_1_1.csv", "p/task_time_1.csv", "q/op_statistic.csv"]
    assert same_work(names) == {"p/op_summary_slice_0_1.csv": ["p/task_time_1.csv"]}
    host = ["p/api_statistic_1.csv", "p/step_trace_time.csv", "p/op_summary_1.csv", "p/op_statistic.csv"]
    assert same_work(host) == {"p/op_summary_1.csv": ["p/op_statistic.csv"]}
    assert same_work([*host, "p/trace_view.json"]) == {"p/trace_view.json": host}
    sums = ["r/op_statistic.csv", "r/api_statistic_1.csv", "r/step_trace_time.csv"]
    assert same_work(sums) == {}
    others = ["r/trace.json", "r/kernel.csv", "r/gpu_trace.csv", "r/report.db"]
    assert same_work(others) == {}
