"""The simulator of the truth bench keeps the rules of the machine."""

from __future__ import annotations

import itertools
from collections import defaultdict

import pytest

from benchmarks.truth.inference import infer
from benchmarks.truth.kernels import COMM
from benchmarks.truth.machine import QUEUE_DEPTH, US, Host, Rank, Running, World, window
from benchmarks.truth.scenarios import HEALTHY, ILLS, Healthy, Ill
from benchmarks.truth.training import Plan, train

SOME = ("data loading 4 ms, paused backward", "item in each of 6 layers", "exposed all-reduce of 0.7 ms, 4 ranks")


def test_a_stream_runs_its_work_in_the_order_of_the_launches_and_one_at_a_time() -> None:
    (rank,) = infer(World(1), batches=10, streams=2)
    started = {call.correlation: call.start for call in rank.calls}
    by_stream = defaultdict(list)
    for work in rank.works:
        by_stream[work.stream].append(work)
    assert len(by_stream) == 3
    for works in by_stream.values():
        in_order = sorted(works, key=lambda work: work.start)
        launched = [started[work.correlation] for work in in_order]
        assert launched == sorted(launched)
        assert all(a.end <= b.start for a, b in itertools.pairwise(in_order))
        assert all(work.start >= launch for work, launch in zip(in_order, launched))


def test_the_launch_queue_is_bounded() -> None:
    world = World(1)
    rank = Rank(world)
    host = Host(rank)

    def program() -> Running[None]:
        for _ in range(QUEUE_DEPTH + 50):
            yield from host.launch("k", 10_000 * US)

    world.start(program())
    world.run()
    lengths = [call.end - call.start for call in rank.calls]
    assert max(lengths[:QUEUE_DEPTH]) < 20 * US
    assert min(lengths[QUEUE_DEPTH + 20 :]) > 5_000 * US
    for number, call in enumerate(rank.calls):
        waiting = number - sum(1 for work in rank.works if work.start <= call.end)
        assert waiting <= QUEUE_DEPTH


def test_a_wait_for_an_event_holds_a_stream_until_the_recorded_work_is_done() -> None:
    world = World(1)
    rank = Rank(world)
    host, event = Host(rank), rank.event()

    def program() -> Running[None]:
        yield from host.launch("slow", 5_000 * US, 7)
        yield from host.record(event, 7)
        yield from host.launch("after the record", 900 * US, 7)
        yield from host.stream_wait(8, event)
        yield from host.launch("waits", 10 * US, 8)
        yield from host.event_sync(event)

    world.start(program())
    world.run()
    ends = {work.name: work.end for work in rank.works}
    starts = {work.name: work.start for work in rank.works}
    assert ends["slow"] < starts["waits"] < ends["after the record"]
    assert ends["slow"] < rank.calls[-1].end < ends["after the record"]


def test_a_collective_starts_when_each_rank_comes_and_ends_together() -> None:
    ranks = train(World(3), Plan(steps=2, layers=3, ranks=4, bucket_us=100, ill="slow kernels of a rank", size=1.5))
    rounds = list(zip(*([work for work in rank.works if work.stream == COMM] for rank in ranks)))
    assert len(rounds) == 6
    for works in rounds:
        ends = [work.end for work in works]
        assert max(ends) - min(ends) <= 2 * US
        assert min(ends) - max(work.start for work in works) > 80 * US
        assert len({work.start for work in works}) == 4


@pytest.mark.parametrize("ill", [each for each in ILLS if each.name in SOME], ids=lambda ill: ill.name)
def test_without_the_ill_the_same_program_draws_the_same_durations_and_is_faster(ill: Ill) -> None:
    with_ill, without = ill.run(World(5)), ill.cured(World(5))
    assert max(map(window, with_ill)) > max(map(window, without))

    def kernels(ranks: list[Rank]) -> list[tuple[str, int]]:
        return sorted((work.name, work.end - work.start) for work in ranks[0].works if not work.collective)

    assert [each for each in kernels(with_ill) if "sm90" in each[0]] == [
        each for each in kernels(without) if "sm90" in each[0]
    ]


@pytest.mark.parametrize(
    "program", [each for each in HEALTHY if "loss" in each.name or "inference" in each.name], ids=lambda each: each.name
)
def test_a_healthy_program_would_gain_next_to_nothing_without_its_waits(
    program: Healthy, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = max(map(window, program.run(World(1, program.noise))))

    def at_once(host: Host, *_: object) -> Running[None]:
        yield from host.call("cudaEventQuery", 1_500)

    monkeypatch.setattr(Host, "event_sync", at_once)
    monkeypatch.setattr(Host, "stream_sync", at_once)
    after = max(map(window, program.run(World(1, program.noise))))
    assert before - after <= 0.0125 * before
