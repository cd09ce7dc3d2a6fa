"""A small part of the truth bench: its files are read whole, ills are named, healthy programs have no findings."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracekit
from benchmarks.truth import kineto
from benchmarks.truth.machine import MS, World
from benchmarks.truth.scenarios import VARIANTS
from benchmarks.truth.score import healthy_case, ill_case, write
from benchmarks.truth.training import Plan, train
from tracekit.model.schema import Kind


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


@pytest.mark.parametrize("share", ["20%", "40%"])
def test_the_savings_of_a_slow_kernel_are_those_of_the_simulation(share: str) -> None:
    outcome = ill_case(f"a product at {share} of the peak", "kineto-api", 0)
    assert outcome.place == 1
    assert 0.99 <= outcome.shown / outcome.true <= 1.01


def test_a_product_near_the_best_measured_is_healthy() -> None:
    assert not healthy_case("training, a product at 88 % of the best measured", "kineto-sync", 0).alarms


@pytest.mark.parametrize("share", ["95%", "70%"])
def test_the_savings_of_a_fusion_are_those_of_the_simulation(share: str) -> None:
    outcome = ill_case(f"unfused elementwise kernels at {share} of the bandwidth", "kineto-sync", 0)
    assert outcome.place == 1
    assert 1.0 <= outcome.shown / outcome.true <= 1.25


@pytest.mark.parametrize("program", ["elementwise kernels in one", "products between elementwise kernels"])
def test_elementwise_kernels_without_a_chain_are_healthy(program: str) -> None:
    assert not healthy_case(f"training, {program}", "kineto-sync", 0).alarms


def test_a_healthy_training_run_has_no_findings() -> None:
    outcome = healthy_case("training", "kineto-sync", 0)
    assert not outcome.alarms


def test_skewed_clocks_of_ranks_are_brought_in_line(tmp_path: Path) -> None:
    ranks = train(World(7), Plan(ranks=2, steps=60, layers=4, kernel_us=6_000, bucket_us=500))
    ahead, drift = 50 * MS, 20e-6
    for rank in ranks:
        own = rank.number == 1
        kineto.write(
            rank,
            tmp_path / f"{rank.number}.json",
            "calls",
            lambda ns, own=own: ns + (ahead + round(drift * ns) if own else 0),  # type: ignore[misc]
        )
    trace = tracekit.read([str(tmp_path / "0.json"), str(tmp_path / "1.json")])
    met = [work.end for work in ranks[0].works if work.collective]
    middle = (min(met) + max(met)) / 2
    still, moved = sorted((source.facts["clock"] for source in trace.run.sources), key=lambda each: each["method"])[
        ::-1
    ]
    assert (still["method"], moved["method"]) == ("wall-clock", "collectives")
    to_zero = 1 if still is trace.run.sources[0].facts["clock"] else -1
    assert moved["drift_ppm"] == pytest.approx(to_zero * drift * 1e6, abs=moved["drift_uncertainty_ppm"])
    truth = -to_zero * (ahead + drift * middle)
    assert moved["offset_ns"] == pytest.approx(truth, abs=moved["uncertainty_ns"])
    assert moved["uncertainty_ns"] < 2_000
    assert moved["possible_ns"][0] < truth < moved["possible_ns"][1]
    section = tracekit.view(trace, "ranks")
    table = next(table for table in section.tables if table.name == "clocks")
    assert table.column("drift_ppm").values == [0, 0]
    assert max(map(abs, table.column("offset").values)) <= moved["uncertainty_ns"]
