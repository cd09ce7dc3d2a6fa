"""The statistics of the verdict: how often it is wrong, how often it sees what is there. Seeds are fixed."""

from __future__ import annotations

import numpy as np
import pytest
from doors.compare import FASTER, SAME, SLOWER, UNKNOWN, VerdictLimits, changed, parse_metric

from tracekit.comparison import LEVEL, MIN_VALUES

STEP = parse_metric("step.mean")
TRIALS = 200


def verdicts(effect: float, *, runs: int = 10, noise: float = 0.02, seed: int = 1) -> list[str]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(TRIALS):
        base = 1e6 * (1 + noise * rng.standard_normal(runs))
        new = 1e6 * (1 + effect) * (1 + noise * rng.standard_normal(runs))
        found.append(changed(STEP, "runs", base, new, "mean", VerdictLimits()).verdict)
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_equal_sides_seldom_differ(seed: int) -> None:
    told = [verdict for verdict in verdicts(0.0, seed=seed) if verdict in (SLOWER, FASTER)]
    assert len(told) <= 0.05 * TRIALS


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_three_percent_is_found_with_ten_repeats(seed: int) -> None:
    found = verdicts(0.03, seed=seed)
    assert found.count(SLOWER) >= 0.80 * TRIALS
    assert FASTER not in found


def test_ten_percent_is_always_found_and_one_percent_never_mistaken_for_an_improvement() -> None:
    assert set(verdicts(0.10)) == {SLOWER}
    assert set(verdicts(-0.10)) == {FASTER}
    assert verdicts(0.01).count(FASTER) <= 0.01 * TRIALS


def test_many_quiet_runs_are_the_same_and_few_noisy_ones_are_not_known() -> None:
    assert verdicts(0.0, runs=30, noise=0.01).count(SAME) >= 0.95 * TRIALS
    noisy = verdicts(0.0, runs=5, noise=0.10)
    assert noisy.count(UNKNOWN) >= 0.9 * TRIALS
    assert SAME not in noisy


def test_a_change_below_the_minimum_effect_is_no_change() -> None:
    base, new = np.full(8, 1000.0), np.full(8, 1005.0)
    assert changed(STEP, "runs", base, new, "mean", VerdictLimits()).verdict == SAME
    assert changed(STEP, "runs", base, new, "mean", VerdictLimits(least=0.004)).verdict == SLOWER


def test_fewer_than_five_values_give_no_interval() -> None:
    found = changed(STEP, "steps", np.full(4, 1000.0), np.full(9, 2000.0), "mean", VerdictLimits())
    assert (found.verdict, found.low, found.ratio) == (UNKNOWN, None, 1.0)
    assert "4 steps of base and 9 of new" in found.why


@pytest.mark.parametrize(("base", "new"), [(1, 2), (2, 1), (2, 2), (3, 3), (4, 4), (10, 1), (1, 10), (4, 20)])
def test_few_runs_seldom_differ_by_chance(base: int, new: int) -> None:
    rng = np.random.default_rng(base * 100 + new)
    told = 0
    for _ in range(1000):
        sides = [1e6 * (1 + 0.02 * rng.standard_normal(n)) for n in (base, new)]
        told += changed(STEP, "runs", *sides, "mean", VerdictLimits()).verdict in (SLOWER, FASTER)
    assert told <= 50


def test_one_new_run_against_ten_shows_a_large_change() -> None:
    rng = np.random.default_rng(4)
    found = [
        changed(
            STEP, "runs", 1e6 * (1 + 0.01 * rng.standard_normal(10)), np.array([1.1e6]), "mean", VerdictLimits()
        ).verdict
        for _ in range(100)
    ]
    assert found.count(SLOWER) >= 95


def test_a_percentile_needs_values_beyond_it() -> None:
    values = np.arange(1.0, 100.0)
    assert changed(STEP, "steps", values[:99], values, "p95", VerdictLimits()).low is None
    many = np.arange(1.0, 101.0)
    assert changed(STEP, "steps", many, many, "p95", VerdictLimits()).low is not None


@pytest.mark.parametrize(("base", "new"), [(0.0, 0.0), (0.0, 5.0), (5.0, 0.0)])
def test_zeros_divide_nothing(base: float, new: float) -> None:
    found = changed(STEP, "runs", np.full(6, base), np.full(6, new), "mean", VerdictLimits())
    if base == 0 and new > 0:
        assert (found.ratio, found.verdict, found.why) == (None, UNKNOWN, "the base is zero")
    else:
        assert found.ratio == (0.0 if base == new else -1.0)


def test_the_level_is_the_documented_one() -> None:
    assert LEVEL == 0.965
    assert MIN_VALUES == 5
