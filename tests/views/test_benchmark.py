"""The view benchmark: costs of iterations by their definition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import sample
from views.hosts import Row, op
from views.tables import dicts, on_trace, statistics, trace

import tracekit
from tracekit.api import read
from tracekit.model.report import Section
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

BENCHMARK = on_trace(VIEWS["benchmark"])


def tables(section: Section) -> dict[str, dict[str, Row]]:
    return {table.name: {row["name"]: row for row in dicts(table)} for table in section.tables}


def loop(costs: list[tuple[int, int]], **more: Any) -> list[Row]:
    """Steps that follow each other, each with loading at its begin: (loading, rest) of each."""
    rows, at = [], 0
    for number, (loading, rest) in enumerate(costs):
        rows.append(op("step", at, at + loading + rest, "step", step=number, **more))
        if loading:
            rows.append(op("load", at, at + loading, "dataloader"))
        at += loading + rest
    return rows


@given(costs=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 100)), min_size=1, max_size=25))
def test_costs_are_over_the_iterations_that_count(costs: list[tuple[int, int]]) -> None:
    section = BENCHMARK(trace(*loop(costs)), ViewOptions())
    counted = costs[10:] if len(costs) > 10 else costs
    batch = [sum(cost) for cost in counted]
    reads = [loading for loading, _ in counted if loading]
    found = tables(section)
    wanted = statistics(batch)
    assert {k: found["costs"]["batch_cost"][k] for k in wanted} == wanted
    assert ("reader_cost" in found["costs"]) == bool(reads)
    if reads:
        wanted = statistics(reads)
        assert {k: found["costs"]["reader_cost"][k] for k in wanted} == wanted
        assert found["costs"]["reader_cost"]["ratio"] == sum(reads) / sum(batch)
    ips = found["ips"]["ips"]
    assert ips["calls"] == len(batch)
    assert ips["avg"] == pytest.approx(len(batch) * 1e9 / sum(batch), abs=1e-6)
    assert (ips["min"], ips["max"]) == (round(1e9 / max(batch), 6), round(1e9 / min(batch), 6))
    skipped = any("the first 10 are skipped" in note for note in section.notes)
    assert skipped == (len(costs) > 10)


def test_constant_steps_cost_what_they_cost_where_paddle_prints_twice_that() -> None:
    found = tables(BENCHMARK(trace(*loop([(0, 20_000_000)] * 11)), ViewOptions()))
    assert found["costs"]["batch_cost"]["avg"] == 20_000_000
    old = tracekit.view(trace(*loop([(0, 20_000_000)] * 11)), "benchmark", ViewOptions(compat="paddle"))
    assert {row["name"]: row["avg"] for row in dicts(old)}["batch_cost"] == pytest.approx(0.04)


def test_loading_between_steps_belongs_to_the_iteration_that_it_is_for() -> None:
    rows = [op("load", 0, 10, "dataloader"), op("s", 10, 50, "step"), op("load", 50, 70, "dataloader"),
            op("s", 72, 100, "step")]  # fmt: skip
    found = tables(BENCHMARK(trace(*rows), ViewOptions()))["costs"]
    assert (found["batch_cost"]["min"], found["batch_cost"]["max"]) == (50, 50)
    assert (found["reader_cost"]["min"], found["reader_cost"]["max"]) == (10, 20)


def test_a_gap_in_the_numbers_of_steps_is_no_cost() -> None:
    rows = [op("s", 0, 10, "step", step=1), op("s", 1000, 1010, "step", step=7), op("s", 1010, 1030, "step", step=8)]
    found = tables(BENCHMARK(trace(*rows), ViewOptions()))["costs"]["batch_cost"]
    assert (found["total"], found["max"]) == (40, 20)


def test_samples_of_the_steps_make_samples_per_second() -> None:
    found = tables(BENCHMARK(trace(*loop([(0, 500)] * 2, args='{"num_samples": 4}')), ViewOptions()))["ips"]["ips"]
    assert (found["unit"], found["avg"]) == ("samples/s", 8e6)


def test_loading_on_no_thread_is_told_and_not_counted() -> None:
    rows = [op("s", 0, 10, "step"), op("prefetch", 0, 9, "dataloader", tid=None)]
    section = BENCHMARK(trace(*rows), ViewOptions())
    assert "reader_cost" not in tables(section)["costs"]
    assert "1 dataloader range without a thread: they overlap the loop and do not count" in section.notes


def test_a_printed_summary_is_shown_as_printed_with_its_defects_named() -> None:
    section = BENCHMARK(read(sample("paddle-summary/gpu.txt")), ViewOptions())
    found = tables(section) if all("name" in [c.name for c in t.columns] for t in section.tables) else {}
    costs = dicts(section.tables[0])
    assert not found
    assert {r["name"]: r["avg"] for r in costs} == {"reader_cost": 100_000, "batch_cost": 9_860_000}
    assert section.notes[0].startswith("as printed: of N steps Paddle sums the batches from the 10th on")


def test_lines_of_step_info_are_rows() -> None:
    (table,) = BENCHMARK(read(sample("paddle-summary/paddle26-benchmark.txt")), ViewOptions()).tables
    assert [r["batch_cost"] for r in dicts(table)] == [2_150_000, 610_000, 430_000, 470_000, 400_000, 390_000]
