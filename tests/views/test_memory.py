"""The view memory: places, peaks and holders."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus, sample
from views.hosts import Row, op
from views.tables import dicts, on_trace, trace

import tracekit
from tracekit.api import read
from tracekit.model.report import Section
from tracekit.model.trace import Run, SourceFacts, Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

MEMORY = on_trace(VIEWS["memory"])


def tables(section: Section) -> dict[str, list[Row]]:
    return {table.name: dicts(table) for table in section.tables}


def row(at: int, size: int, name: str = "[memory]", **args: Any) -> Row:
    return {
        "name": name, "kind": "memory", "ts_ns": at, "bytes": size, "pid": 1, "tid": 7,
        "args": json.dumps(args) if args else None,
    }  # fmt: skip


@given(sizes=st.lists(st.integers(-1000, 1000), min_size=1, max_size=20))
def test_counts_sizes_and_the_counted_peak_are_those_of_plain_python(sizes: list[int]) -> None:
    section = MEMORY(trace(*(row(i, size) for i, size in enumerate(sizes))), ViewOptions())
    (found,) = tables(section)["memory"]
    gains, losses = [s for s in sizes if s >= 0], [-s for s in sizes if s < 0]
    assert (found["allocations"], found["frees"]) == (len(gains), len(losses))
    assert (found["allocated"], found["freed"], found["increased"]) == (sum(gains), sum(losses), sum(sizes))
    assert found["peak"] == max(0, *(sum(sizes[: i + 1]) for i in range(len(sizes))))
    assert "peak: counted from the first row on, since the file gives no running values" in section.notes


def test_running_values_of_the_file_are_the_peak() -> None:
    rows = row(0, 8, **{"Total Allocated": 108, "Total Reserved": 512}), row(1, -8, **{"Total Allocated": 100})
    found = tables(MEMORY(trace(*rows), ViewOptions()))["memory"]
    assert [(r["type"], r["peak"], r["allocations"]) for r in found] == [("reserved", 512, None), ("allocated", 108, 1)]


def test_paddles_places_and_peaks() -> None:
    found = tables(MEMORY(read(sample("paddle-pb/paddle3-memory.paddle_trace.pb")), ViewOptions()))
    printed = read(sample("paddle-summary/paddle3-memory.txt")).totals.to_pylist()
    peaks = {r["name"]: r["bytes"] for r in printed if r["section"] == "header" and r["kind"] == "memory"}
    assert {f"Peak {r['type'].title()} Memory": r["peak"] for r in found["memory"]} == peaks
    assert [r["name"] for r in found["memory"]] == ["Place(cpu)"] * 2


def test_pytorchs_memory_rows_are_held_by_the_operators_that_torch_names() -> None:
    section = MEMORY(read(corpus("generated/torch/sched1.pt.trace.json")), ViewOptions())
    averages = json.loads(corpus("generated/torch/sched1.averages.json").read_text(encoding="utf-8"))
    wanted = {r["name"]: r["self_cpu_mem"] for r in averages}
    operators = [r for r in tables(section)["holders"] if r["name"].startswith("aten::")]
    assert len(operators) > 5
    assert {r["name"]: r["increased"] for r in operators} == {r["name"]: wanted[r["name"]] for r in operators}


def test_a_row_belongs_to_the_innermost_operator_else_to_the_innermost_range_else_to_none() -> None:
    rows = (
        op("step", 0, 100, "step"), op("conv", 10, 50), op("inner", 20, 30, "operator_inner"),
        row(25, 1), row(15, 2), row(60, 4), row(200, 8),
    )  # fmt: skip
    found = tables(MEMORY(trace(*rows), ViewOptions()))["holders"]
    assert {r["name"]: r["increased"] for r in found} == {"(in no range)": 8, "step": 4, "conv": 3}


def test_the_operator_that_the_file_names_is_the_holder() -> None:
    found = tables(MEMORY(read(sample("fluid-pb/paddle18-alloc.pb")), ViewOptions()))
    assert found["holders"][0]["name"].startswith("mul_grad")


def test_counters_of_memory_stand_for_themselves() -> None:
    rows = [
        {"name": "GPU memory used", "kind": "counter", "ts_ns": i, "value": v} for i, v in enumerate((1.0, 5.0, 2.0))
    ]
    (found,) = tables(MEMORY(trace(*rows), ViewOptions()))["counters"]
    assert (found["calls"], found["min"], found["max"], found["last"]) == (3, 1.0, 5.0, 2.0)
    assert not MEMORY(trace({"name": "loss", "kind": "counter", "value": 1.0}), ViewOptions()).tables


def test_rows_without_a_size_are_told() -> None:
    section = MEMORY(trace(row(0, 8), {"name": "x", "kind": "memory"}), ViewOptions())
    assert "1 row has no size and counts for nothing" in section.notes


def test_totals_alone_give_what_was_printed() -> None:
    section = MEMORY(read(sample("theano/theano-1.0.5.txt")), ViewOptions())
    assert any(r["increased"] == 1024 for r in dicts(section))
    assert "as printed" in section.notes[0]


def snapshot(*rows: tuple[int, int, int, int]) -> Trace:
    """Return the memory rows of a GPU: the time, the signed bytes, the address, the total that the file gives."""
    return trace(
        *(
            {
                "ts_ns": at,
                "dur_ns": 0,
                "kind": "memory",
                "name": "allocated",
                "bytes": size,
                "device": 0,
                "args": json.dumps({"addr": address, "current_allocated": total, "alloc_in": f"f{address}"}),
            }
            for at, size, address, total in rows
        )
    )


def held(made: Trace) -> list[list[Any]]:
    tables = {table.name: table for table in tracekit.view(made, "memory").tables}
    return [row[:2] + row[3:] for row in tables["at_peak"].rows()] if "at_peak" in tables else []


def test_what_is_held_at_the_peak_is_what_was_allocated_and_not_yet_freed() -> None:
    made = snapshot((1, 50, 1, 50), (2, 30, 2, 80), (3, -50, 1, 30), (4, 70, 1, 100), (5, -70, 1, 30), (6, 5, 3, 35))
    assert held(made) == [["f1", 70, 1], ["f2", 30, 1]]


def test_memory_from_before_the_first_row_is_part_of_the_peak() -> None:
    made = snapshot((1, 50, 1, 1050), (2, -400, 9, 650), (3, 10, 2, 660))
    assert held(made) == [["(allocated before the first row)", 1000, None], ["f1", 50, 1]]


def test_blocks_that_exceed_the_total_of_the_file_are_not_shown_as_held() -> None:
    assert held(snapshot((1, 50, 1, 50), (2, 30, 2, 30), (3, 60, 3, 60))) == []  # a free is missing


@pytest.mark.parametrize(("named", "place"), [("/device:TPU:0 (TPU v5 lite)", "TPU 0"), ("Tesla P100", "GPU 0")])
def test_a_place_has_the_word_of_its_device(named: str, place: str) -> None:
    run = Run(origin_ns=0, sources=[SourceFacts("a.json", "kineto")], devices={(0, 0): named})
    made = trace(*({**row(i, 8), "device": 0} for i in range(3)), run=run)
    assert [each["name"] for each in tables(MEMORY(made, ViewOptions()))["memory"]] == [place]
