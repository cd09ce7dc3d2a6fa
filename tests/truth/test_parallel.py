"""Programs of several ranks on the truth bench, and reads that block: named, with an upper bound of the true gain."""

from __future__ import annotations

import pytest

from benchmarks.truth.machine import US, Host, Rank, Running, World
from benchmarks.truth.score import healthy_case, ill_case


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("slow network behind an .item()", 1.25),
        ("slow network behind a pinned read", 1.25),
        ("slow network host ahead", 1.25),
        ("FSDP without prefetch", 1.25),
        ("MoE, busy experts x 1.5", 1.25),
        ("1F1B pipeline of 3, 3, 7, 3 layers", 1.5),
        ("overflow read before the optimizer", 1.25),
    ],
)
def test_the_cause_comes_first_and_its_saving_is_an_upper_bound(name: str, most: float) -> None:
    outcome = ill_case(name, "kineto-api", 0)
    assert outcome.place == 1
    assert 0.98 <= outcome.shown / outcome.true <= most
    assert not outcome.alarms


def test_launching_without_operators_counts_what_the_host_does_between_the_calls() -> None:
    outcome = ill_case("launch-bound, operators of 120 us", "nvprof", 0)
    assert outcome.place == 1
    assert 0.98 <= outcome.shown / outcome.true <= 1.25


@pytest.mark.parametrize("name", ["FSDP with prefetch", "MoE", "data parallel, host ahead"])
def test_healthy_programs_of_several_ranks_have_no_alarm(name: str) -> None:
    assert not healthy_case(name, "kineto-api", 0).alarms


@pytest.mark.parametrize(
    ("source", "target", "size", "waits"),
    [
        ("Device", "Pageable", 4, True),
        ("Pageable", "Device", 1 << 20, True),
        ("Pageable", "Device", 4, False),
        ("Device", "Pinned", 4, False),
    ],
)
def test_a_copy_of_the_simulator_waits_as_the_runtime_does(source: str, target: str, size: int, waits: bool) -> None:
    world = World(3)
    rank = Rank(world)
    host = Host(rank)

    def program() -> Running[None]:
        yield from host.launch("slow", 5_000 * US)
        yield from host.copy(source, target, size)

    world.start(program())
    world.run()
    (copy,) = [work for work in rank.works if work.kind == "memcpy"]
    call = next(call for call in rank.calls if call.correlation == copy.correlation)
    assert (call.end >= copy.end) == waits
    assert (call.end - call.start > 4_000 * US) == waits
