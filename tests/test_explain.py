"""Why two numbers differ: the quantity behind each cell is the cell, and the steps from one to the other add up."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT, sample

import tracekit
from tracekit import pipeline
from tracekit.errors import UsageError
from tracekit.explanation import explain, value_of
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import ReportTable
from tracekit.model.trace import Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

GPU = sample("nvprof-csv/gpu-and-api-trace.csv")
SAMPLES = sorted(
    path
    for path in (ROOT / "sample_traces").glob("*/*")
    if path.parent.name in ("nvprof-csv", "nsys-sqlite", "nvprof-sqlite", "kineto", "paddle-json", "recorder-log")
)


@cache
def trace_of(path: Path) -> Trace:
    return tracekit.read(path)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_each_defined_cell_equals_its_quantity(path: Path) -> None:
    trace = trace_of(path)
    index = TraceIndex(trace)
    if not trace.events.num_rows:
        return  # totals alone have no ranges to explain
    for name, view in VIEWS.items():
        if view.define is None:
            continue
        tables = view.compute(index, ViewOptions()).tables
        for table in tables if name in ("steps", "model") else tables[:1]:
            for i in range(min(len(table), 12)):
                row = {c.name: c.values[i] for c in table.columns}
                for column, cell in row.items():
                    quantity = view.define(index, ViewOptions(), row, column)
                    if quantity is not None:
                        assert value_of(quantity) == cell, (name, row, column)


def steps(tables: tuple[ReportTable, ...]) -> list[ReportTable]:
    return [table for table in tables if [c.name for c in table.columns] == ["step", "time"]]


CELLS = (
    "kernel.total",
    "device.kernel_time",
    "device.busy_time",
    "device.utilization",
    "overview.kernel.total",
    "overview.kernel.union",
    "overview.kernel.share",
    "memory_manipulation.total",
    "kernel.ratio",
    "kernel.calls",
    "overview.total",
    "overview.union",
    "kernel.p50",
    "api.total",
    "device.span",
    "operator.total",
    "operator.self",
    "operator.device_total",
    "operator.device_self",
    "operator.device_ratio",
    "user_defined.self",
    "user_defined.total",
    "breakdown.compute",
    "breakdown.exposed_copies",
    "breakdown.idle",
    "breakdown.overlap_share",
    "breakdown.span",
    "steps.total",
    "steps.busy_time",
    "steps.busy",
    "steps.p95",
    "model.ProfileStep.total",
    "model.Forward.ratio",
)


@given(st.sampled_from(CELLS), st.sampled_from(CELLS), st.sampled_from(SAMPLES))
@settings(deadline=None, max_examples=150)
def test_the_steps_add_up(left: str, right: str, path: Path) -> None:
    trace = trace_of(path)
    if not trace.events.num_rows:
        return
    try:
        made = explain(trace, left, right)
    except UsageError:
        return  # a trace without such rows has no such cell
    for table in steps(made.sections[0].tables):
        times = [int(ns or 0) for ns in table.column("time").values]
        assert sum(times[:-1]) == times[-1]
    if left == right:
        assert all(len(table) == 2 for table in steps(made.sections[0].tables))


def test_a_sum_and_a_union_differ_by_the_overlaps(tmp_path: Path) -> None:
    path = tmp_path / "two.jsonl"
    rows = [(0, 100, "a", 7), (40, 100, "b", 8), (200, 50, "a", 7)]
    frame = "".join(
        f'{{"ts_ns":{ts},"dur_ns":{dur},"name":"{name}","kind":"kernel","device":0,"stream":{stream}}}\n'
        for ts, dur, name, stream in rows
    )
    source = tracekit.read(GPU)
    head = tmp_path / "head.jsonl"
    pipeline.write(source, head)
    first = head.read_text(encoding="utf-8").splitlines()[0]
    path.write_text(f"{first}\n{frame}", encoding="utf-8")
    made = explain(tracekit.read(path), "kernel.total", "device.kernel_time").sections[0]
    assert [c.values for c in steps(made.tables)[0].columns] == [
        ["kernel.total", "overlaps, counted more than once by kernel.total", "device.kernel_time"],
        [250, -60, 190],
    ]
    ranges = made.tables[2]
    assert ranges.rows() == [[40, 60, 2, "a", "b"]]


def test_the_parts_of_a_device_of_a_real_shape_are_separate() -> None:
    trace = trace_of(sample("kineto/gpu.pt.trace.json"))
    made = explain(trace, "breakdown.exposed_copies", "memory_manipulation.total").sections[0]
    (table,) = steps(made.tables)
    assert (
        table.column("time").values[0] == pipeline.view(trace, "breakdown").tables[0].column("exposed_copies").values[0]
    )
    assert (
        table.column("step").values[1:-1]
        == [
            "time that only memory_manipulation.total covers",
            "overlaps, counted more than once by memory_manipulation.total",
        ][: len(table) - 2]
    )
    assert "time in which a copy or memset ran and no kernel did" in made.notes[0]


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("kernel", "not a cell"),
        ("kernel.nothing", "no column nothing"),
        ("nowhere.total", "no such view"),
        ("kernel.no such kernel.total", "no row"),
        ("metrics.value", "no column"),
    ],
)
def test_a_cell_that_does_not_exist_is_named(cell: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        explain(trace_of(GPU), cell, "kernel.total")


def test_a_cell_defined_only_by_row_is_an_error_with_a_hint() -> None:
    with pytest.raises(UsageError) as caught:
        explain(trace_of(sample("kineto/cpu.pt.trace.json")), "model.total", "kernel.total")
    assert caught.value.hint is not None
    first, _, example = caught.value.hint.partition(", such as ")
    assert first == "name one row: model.ROW.total"
    # The example is a row of this file, as the command takes it.
    assert explain(trace_of(sample("kineto/cpu.pt.trace.json")), example.strip("'"), example.strip("'")).sections
