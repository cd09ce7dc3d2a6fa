"""Findings about steps and kernels that get slower over the run, and steps that take unequal times."""

from __future__ import annotations

import random

import pytest
from views.hosts import call, op, work
from views.tables import Row, trace
from views.test_findings import MS, US, found, one, step

from tracekit.model.trace import Trace


def run(
    factors: list[float], *, host: list[float] | None = None, jitter: float = 0.02, annotated: bool = True
) -> Trace:
    """Steps of 6 kernels of 300 us; factors: of the kernels of each step; host: ms of an operator at its end."""
    rng = random.Random(11)
    rows: list[Row] = []
    at = 0
    for number, factor in enumerate(factors):
        begin = at
        free = at
        for i in range(6):
            start = max(at + 10 * US, free)
            free = start + round(300 * US * factor * rng.lognormvariate(0, jitter))
            key = number * 10 + i
            rows += [
                op("aten::mm", at, at + 10 * US), call(key, at + 5 * US, at + 10 * US),
                work(("gemm", "norm", "relu")[i % 3], key, start, free),
            ]  # fmt: skip
            at += 10 * US
        rows.append(op("cudaDeviceSynchronize", at, free, "runtime", correlation=10_000 + number))
        at = free
        if host is not None:
            took = round(host[number] * MS)
            rows.append(op("update_history", at, at + took, "user_range"))
            at += took
        if annotated:
            rows.append(step(number, begin, at))
    return trace(*rows)


def ramp(steps: int, since: int, last: float) -> list[float]:
    return [1 + (last - 1) * max(0, i - since) / (steps - 1 - since) for i in range(steps)]


@pytest.mark.parametrize("jitter", [0.01, 0.05])
def test_clocks_that_fall_are_named_with_their_begin(jitter: float) -> None:
    finding = one(run(ramp(40, 12, 1.5), jitter=jitter), "slower and slower")
    assert "Nearly all kernels take longer" in finding.claim
    first = int(finding.claim.split("from step ")[1].split(" ")[0])
    assert 8 <= first <= 17
    true = sum(each - 1 for each in ramp(40, 12, 1.5)) * 1800 * US
    assert 0.9 * true <= finding.saving_ns <= 1.25 * true


def test_a_level_that_rises_at_once_and_stays_is_named_too() -> None:
    finding = one(run([1.0] * 10 + [1.4] * 10), "slower and slower")
    assert "from step 10 on" in finding.claim


def test_a_list_that_grows_on_the_host_is_named_by_its_range() -> None:
    finding = one(run([1.0] * 20, host=[0.1 * i for i in range(20)]), "slower and slower")
    assert "The device is idle for" in finding.claim
    assert "update_history takes" in finding.claim


def test_kernels_that_get_slower_are_found_without_steps() -> None:
    finding = one(run(ramp(120, 40, 1.5), annotated=False), "slower and slower")
    assert "times as long at the end" in finding.claim
    true = sum(each - 1 for each in ramp(120, 40, 1.5)) * 1800 * US
    assert 0.9 * true <= finding.saving_ns <= 1.25 * true


@pytest.mark.parametrize("annotated", [True, False])
@pytest.mark.parametrize("jitter", [0.02, 0.05, 0.1])
def test_noise_and_warm_up_are_no_trend(jitter: float, annotated: bool) -> None:
    for factors in ([1.0] * 30, [3.0, 1.5, *[1.0] * 28], [1.0] * 12, [1.5] * 5 + [1.0] * 25, [1.0, 1.3] * 15):
        assert not found(run(factors, jitter=jitter, annotated=annotated), "slower and slower")


def test_steps_that_jitter_say_what_is_longer_in_the_slow_ones() -> None:
    rng = random.Random(2)
    host = [rng.choice([0.1, 0.1, 1.2]) for _ in range(30)]
    finding = one(run([1.0] * 30, host=host), "uneven steps")
    assert "update_history takes" in finding.claim
    assert finding.confidence == "low"
    of_kernels = one(run([rng.choice([1.0, 1.0, 1.5]) for _ in range(30)]), "uneven steps")
    assert "kernels take longer" in of_kernels.claim


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6, 0.8])
def test_the_savings_of_uneven_steps_are_an_upper_bound_however_many_are_slow(share: float) -> None:
    rng = random.Random(5)
    factors = [1.6 if rng.random() < share else 1.0 for _ in range(40)]
    true = sum(each - 1 for each in factors) * 1800 * US
    finding = one(run(factors), "uneven steps")
    assert 0.98 * true <= finding.saving_ns <= 1.25 * true
    assert "kernels take longer" in finding.claim


@pytest.mark.parametrize("jitter", [0.02, 0.05])
def test_steps_with_small_noise_are_not_uneven(jitter: float) -> None:
    assert not found(run([1.0] * 30, jitter=jitter), "uneven steps")
