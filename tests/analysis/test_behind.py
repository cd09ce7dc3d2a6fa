"""Who is behind: a rank that is slower in many steps, and nobody in a healthy run."""

from __future__ import annotations

import numpy as np
import pytest

from tracekit.analysis.behind import FEWEST, behind

STEPS = 60


def healthy(ranks: int, noise: float, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(1, noise, (ranks, STEPS)).clip(0.1) * 2_800_000


@pytest.mark.parametrize("ranks", [2, 3, 8, 32])
@pytest.mark.parametrize("noise", [0, 0.01, 0.1, 0.3])
def test_noise_makes_no_rank_late(ranks: int, noise: float) -> None:
    assert behind(healthy(ranks, noise)) == []


@pytest.mark.parametrize("ranks", [2, 3, 8, 32])
@pytest.mark.parametrize("since", [0, 30])
def test_a_rank_that_is_slower_from_a_step_on_is_late(ranks: int, since: int) -> None:
    times = healthy(ranks, 0.01)
    times[1, since:] *= 1.35
    ((row, excess),) = behind(times)
    assert row == 1
    assert abs(excess - 0.35 * (STEPS - since) / STEPS) < 0.02


def test_one_slow_step_makes_no_rank_late() -> None:
    times = healthy(8, 0.01)
    times[3, 20] *= 100
    assert behind(times) == []


def test_steps_that_a_rank_lacks_do_not_count() -> None:
    times = healthy(4, 0.01)
    times[2] *= 1.5
    times[2, ::2] = np.nan
    times[0, 1::4] = np.nan
    assert [row for row, _ in behind(times)] == [2]
    times[2, FEWEST:] = np.nan
    times[2, :FEWEST] = np.nan
    assert behind(times) == []
    assert behind(np.zeros((3, 9))) == []
