from __future__ import annotations

import doctest
import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.analysis import resample
from tracekit.analysis.resample import bootstrap, bootstrap_difference, relative_difference_of_few, statistic
from tracekit.analysis.statistics import nearest_rank

VALUES = st.lists(st.integers(1, 1000), min_size=2, max_size=30)
WHICH = st.sampled_from(["mean", "median", "p95", "p99", "p50", "p0", "p99.9"])
METHODS = st.sampled_from(["expanded", "percentile", "bca"])


def test_examples_of_the_documentation() -> None:
    outcome = doctest.testmod(resample)
    assert outcome.attempted >= 1
    assert outcome.failed == 0


@given(VALUES, st.sampled_from([0, 5, 50, 95, 99.9, 100]))
def test_percentiles_are_those_of_the_package(values: list[int], percent: float) -> None:
    assert statistic(np.array(values), f"p{percent}") == nearest_rank(np.array(sorted(values)), percent)


@settings(max_examples=60, deadline=None)
@given(VALUES, VALUES, WHICH, METHODS, st.booleans())
def test_an_interval_has_its_order_lies_in_what_is_possible_and_repeats(
    base: list[int], new: list[int], which: str, method: resample.Method, relative: bool
) -> None:
    a, b = np.array(base), np.array(new)
    of = bootstrap_difference(a, b, which, method=method, relative=relative, resamples=200)
    assert of.low <= of.high
    most, least = max(new) - min(base), min(new) - max(base)
    if relative:
        assert of.estimate == pytest.approx(statistic(b, which) / statistic(a, which) - 1)
        assert min(new) / max(base) - 1 - 1e-9 <= of.low <= of.high <= max(new) / min(base) - 1 + 1e-9
    else:
        assert of.estimate == pytest.approx(statistic(b, which) - statistic(a, which))
        assert least - 1e-9 <= of.low <= of.high <= most + 1e-9
    again = bootstrap_difference(a[::-1], b[::-1], which, method=method, relative=relative, resamples=200)
    assert again == of


@settings(max_examples=40, deadline=None)
@given(VALUES, WHICH)
def test_values_that_do_not_differ_give_a_point(values: list[int], which: str) -> None:
    same = np.full(len(values), values[0])
    of = bootstrap_difference(same, same + 7, which, resamples=100)
    assert (of.estimate, of.low, of.high) == (7, 7, 7)
    assert of.excludes_zero


@settings(max_examples=40, deadline=None)
@given(VALUES, st.integers(1, 1 << 40), WHICH)
def test_a_shift_of_all_values_shifts_the_interval(values: list[int], by: int, which: str) -> None:
    at, moved = (
        bootstrap(np.array(values), which, resamples=200),
        bootstrap(np.array(values) + by, which, resamples=200),
    )
    assert moved.low - at.low == pytest.approx(by, rel=1e-9)
    assert moved.high - at.high == pytest.approx(by, rel=1e-9)


def test_the_draws_of_a_percentile_have_the_distribution_of_real_resamples() -> None:
    values = np.arange(9.0)
    quick = np.bincount(
        resample._draws(values, Fraction(1, 2), 200_000, np.random.default_rng(1)).astype(int), minlength=9
    )
    rows = np.sort(np.random.default_rng(2).integers(0, 9, (200_000, 9)), axis=1)[:, 4]
    assert np.abs(quick - np.bincount(rows, minlength=9)).max() / 200_000 < 0.005


@pytest.mark.parametrize(("share", "freedom", "t"), [
    (0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 9, 2.262), (0.975, 18, 2.101), (0.95, 5, 2.015), (0.995, 30, 2.750),
    (0.975, 5000, 1.960),
])  # fmt: skip
def test_students_t_is_that_of_the_printed_tables(share: float, freedom: int, t: float) -> None:
    assert resample._student_quantile(share, freedom) == pytest.approx(t, abs=6e-4)


@pytest.mark.parametrize("which", ["mean", "median"])
def test_equal_runs_are_seldom_called_different(which: str) -> None:
    """300 pairs of 10 repeats without any difference: 5 % of the intervals may miss zero, and no more."""
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(300):
        a, b = rng.normal(100, 2, 10), rng.normal(100, 2, 10)
        missed += bootstrap_difference(a, b, which, resamples=1000).excludes_zero
    assert missed <= 300 * 0.05 + 2 * math.sqrt(300 * 0.05 * 0.95)


def test_three_percent_are_found_in_ten_repeats_of_two_percent_noise() -> None:
    rng = np.random.default_rng(8)
    found = 0
    for _ in range(200):
        a, b = rng.normal(100, 2, 10), rng.normal(103, 2, 10)
        of = bootstrap_difference(a, b, "mean", relative=True, resamples=1000)
        found += of.low > 0
    assert found >= 160


def test_bca_leans_where_values_are_skewed() -> None:
    values = np.random.default_rng(3).exponential(10, 40)
    plain, leaning = (bootstrap(values, "mean", method=method) for method in ("percentile", "bca"))
    assert leaning.low > plain.low
    assert leaning.high > plain.high


def test_bca_weighs_each_value_by_the_size_of_its_side() -> None:
    """The influence of a value on a difference of means is its distance from its mean, divided by its side's size."""
    few, many = np.array([1.0, 2.0, 9.0]), np.arange(30.0) ** 2
    jackknives = [-(few.sum() - few) / 2, (many.sum() - many) / 29]
    influence = np.concatenate([-(few - few.mean()) / 3, (many - many.mean()) / 30])
    acceleration = (influence**3).sum() / (6 * (influence**2).sum() ** 1.5)
    normal, evenly = NormalDist(), np.array([-1.0, 1.0])
    z = normal.inv_cdf(0.05)
    found = resample._tails("bca", 0.9, evenly, 0.0, jackknives, [3, 30])
    wanted = [normal.cdf(side / (1 - acceleration * side)) for side in (z, -z)]
    assert list(found) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(("values", "options"), [
    ([1], {}), ([1, math.nan], {}), ([1, 2], {"which": "p101"}), ([1, 2], {"which": "mode"}), ([1, 2], {"which": "p"}),
    ([1, 2], {"level": 1.0}), ([1, 2], {"resamples": 5}), ([1, 2], {"method": "magic"}),
])  # fmt: skip
def test_what_cannot_be_answered_is_refused(values: list[float], options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"needed|finite|statistic|level|resamples|method"):
        bootstrap(np.array(values), **{"which": "mean", **options})  # type: ignore[arg-type]


def test_a_relative_difference_needs_values_above_zero() -> None:
    with pytest.raises(ValueError, match="above zero"):
        bootstrap_difference(np.array([0, 1]), np.array([1, 2]), "mean", relative=True)


def test_the_interval_of_few_values_by_hand() -> None:
    """90 and 110 deviate by 10 % each: 0.02 in squares, one degree of freedom, t = 12.706 (two-sided 95 %)."""
    found = relative_difference_of_few(np.array([110, 90]), np.array([150]))
    assert (found.estimate, found.level) == (pytest.approx(0.5), 0.95)
    reach = 12.706 * math.sqrt(0.02 * (1 / 2 + 1))
    assert found.low == pytest.approx(0.5 - 1.5 * reach, abs=2e-4)
    assert found.high == pytest.approx(0.5 + 1.5 * reach, abs=2e-4)
    # At 90 %, t is 6.314; two values on each side have two degrees of freedom, 2.920, and squares of 0.04.
    found = relative_difference_of_few(np.array([90, 110]), np.array([90, 110]), level=0.9)
    assert found.high == pytest.approx(2.920 * math.sqrt(0.04 / 2), abs=2e-4)
    assert (found.estimate, found.low) == (0, -found.high)


@pytest.mark.parametrize("sizes", [(1, 2), (2, 3)])
def test_intervals_of_few_values_hold_the_true_difference_as_often_as_they_say(sizes: tuple[int, int]) -> None:
    """2000 pairs whose means differ by 30 %, with 2 % of noise on each side."""
    rng = np.random.default_rng(9)
    held = 0
    for _ in range(2000):
        base, new = rng.normal(1000, 20, sizes[0]), rng.normal(1300, 26, sizes[1])
        found = relative_difference_of_few(base, new)
        held += found.low <= 0.3 <= found.high
    assert abs(held / 2000 - 0.95) <= 0.02


@pytest.mark.parametrize(("base", "new", "words"), [
    ([5], [6], "three values"), ([-1, 9], [4], "above zero"), ([4], [-1, 9], "above zero"),
    ([0, 0], [4], "above zero"), ([4], [0, 0], "above zero"), ([], [1, 2, 3], "at least 1"),
])  # fmt: skip
def test_few_values_of_which_nothing_can_be_said_are_refused(base: list[int], new: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        relative_difference_of_few(np.array(base), np.array(new))


def test_a_value_of_zero_is_one_of_few() -> None:
    assert relative_difference_of_few(np.array([0, 2]), np.array([1])).estimate == 0
