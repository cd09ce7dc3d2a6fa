"""A small part of the truth bench: its files are read whole, ills are named, healthy programs have no findings."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracekit
from benchmarks.truth.machine import World
from benchmarks.truth.scenarios import VARIANTS
from benchmarks.truth.score import healthy_case, ill_case, write
from benchmarks.truth.training import Plan, train
from tracekit.schema import Kind


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_file_of_the_simulator_is_read_whole(variant: str, tmp_path: Path) -> None:
    ranks = train(World(2), Plan(steps=2, layers=2, ill="item each layer"))
    trace = tracekit.read([str(path) for path in write(ranks, variant, tmp_path)])
    rows = trace.events.to_pylist()
    for kind, wanted in ((Kind.KERNEL, "kernel"), (Kind.MEMCPY, "memcpy")):
        lengths = [row["dur_ns"] for row in rows if row["kind"] == kind]
        works = [work.end - work.start for work in ranks[0].works if work.kind == wanted]
        assert sorted(lengths) == sorted(works)
    assert [(ledger.dropped, ledger.notes) for ledger in trace.ledgers] == [({}, {})]


@pytest.mark.parametrize("variant", ["kineto-sync", "kineto-api"])
def test_data_loading_is_named_and_its_savings_are_an_upper_bound(variant: str) -> None:
    outcome = ill_case("data loading 4 ms, paused backward", variant, 0)
    assert outcome.place == 1
    assert 0.98 <= outcome.shown / outcome.true <= 1.25


def test_a_healthy_training_run_has_no_findings() -> None:
    outcome = healthy_case("training", "kineto-sync", 0)
    assert not outcome.alarms
