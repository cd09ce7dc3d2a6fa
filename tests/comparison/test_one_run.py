"""One run a side: the difference between two runs of one program is no change of the program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from compare_runs import steps, write

from tracekit.comparison import FASTER, SAME, SLOWER, TOO_FEW_RUNS, VIOLATED, Comparison, compare, report_of

NOISE = 0.02
"""Standard deviation of the speed between runs."""
PAIRS = 40


def pair(
    folder: Path, factors: tuple[float, float], *, noise: float = 0.01, seed: int = 0, count: int = 10
) -> Comparison:
    """Compare two runs of these speeds, whose steps vary by the noise."""
    sides = [
        write(
            folder / f"{side}.parquet",
            steps(count, factor=factor, noise=noise, seed=2 * seed + side, idle_ns=round(20_000 * factor)),
        )
        for side, factor in enumerate(factors)
    ]
    return compare(*sides, rules=["step.mean > 1%"])


@pytest.mark.parametrize("within", [0.0, 0.008, 0.02])
def test_equal_programs_with_noise_between_runs_are_not_called_different(within: float, tmp_path: Path) -> None:
    """Runs differ by 2 %, steps of a run by less: at most one of forty pairs is called different."""
    rng = np.random.default_rng(14)
    differing, violated = 0, 0
    for seed in range(PAIRS):
        base, new = 1 + NOISE * rng.standard_normal(2)
        found = pair(tmp_path / str(seed), (base, new), noise=within, seed=seed)
        differing += found.verdict in (SLOWER, FASTER)
        violated += found.checked[0].state == VIOLATED
    assert differing <= 1
    assert violated <= 1


def test_a_small_change_between_two_runs_needs_more_runs_whatever_their_steps_say(tmp_path: Path) -> None:
    """The steps of each run agree to a percent, so the interval within the runs excludes zero."""
    found = pair(tmp_path, (1, 1.0345))
    assert found.main is not None
    assert (found.main.low or 0) > 0
    assert (found.verdict, found.checked[0].state) == (TOO_FEW_RUNS, TOO_FEW_RUNS)
    text = dict(report_of(found).facts)["verdict"]
    assert text.startswith("not enough runs: step.mean ")
    assert text.endswith("(one run each: a change below 7.5 % may be noise; repeat the runs)")
    by_name = next(t for s in report_of(found).sections for t in s.tables if t.name == "device_parts")
    assert set(next(c for c in by_name.columns if c.name == "verdict").values) == {TOO_FEW_RUNS}


@pytest.mark.parametrize("ratio", [0.85, 0.91, 1.1, 1.15, 2.0])
def test_a_change_beyond_the_noise_between_runs_is_shown_by_one_run_each(ratio: float, tmp_path: Path) -> None:
    found = pair(tmp_path, (1, ratio))
    assert found.verdict == (SLOWER if ratio > 1 else FASTER)
    assert (found.checked[0].state == VIOLATED) == (ratio > 1)


@pytest.mark.parametrize(("within", "verdict"), [(0.002, SLOWER), (0.01, TOO_FEW_RUNS)])
def test_quiet_steps_lower_the_smallest_change_that_is_shown(within: float, verdict: str, tmp_path: Path) -> None:
    assert pair(tmp_path, (1, 1.06), noise=within).verdict == verdict


def test_steps_that_vary_more_than_the_change_show_nothing(tmp_path: Path) -> None:
    found = pair(tmp_path, (1, 1.08), noise=0.3, seed=3)
    assert found.verdict == TOO_FEW_RUNS


def test_one_run_each_with_the_same_times_is_the_same(tmp_path: Path) -> None:
    found = pair(tmp_path, (1, 1), noise=0)
    assert (found.verdict, found.checked[0].state) == (SAME, "met")


@pytest.mark.parametrize(("ratio", "state"), [(1.0, TOO_FEW_RUNS), (1.05, VIOLATED), (0.8, "met")])
def test_a_required_improvement_allows_for_the_noise_between_runs(ratio: float, state: str, tmp_path: Path) -> None:
    """No change where 5 % are required may be an improvement of 5 % and noise; 5 % slower is none."""
    base = write(tmp_path / "a.parquet", steps(10, noise=0.01))
    new = write(tmp_path / "b.parquet", steps(10, noise=0.01, seed=1, factor=ratio, idle_ns=round(20_000 * ratio)))
    (checked,) = compare(base, new, rules=["step.mean > -5%"]).checked
    assert checked.state == state


def test_counts_and_bytes_of_one_run_each_have_no_noise(tmp_path: Path) -> None:
    base = write(tmp_path / "a.parquet", steps(10, memory=1000))
    new = write(tmp_path / "b.parquet", steps(10, memory=1030))
    (checked,) = compare(base, new, rules=["memory.peak > 10B"]).checked
    assert checked.state == VIOLATED
