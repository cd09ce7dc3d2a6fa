from __future__ import annotations

import doctest
import math
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_limits import Limit, small

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


def test_a_statistic_is_one_of_the_values_or_their_mean() -> None:
    values = np.array([40, 10, 30, 26])
    wanted = {"p0": 10, "p25": 10, "p25.1": 26, "median": 26, "p50": 26, "p75.01": 40, "p100": 40, "mean": 26.5}
    assert {which: statistic(values, which) for which in wanted} == wanted


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
@given(VALUES, WHICH, METHODS)
def test_values_that_do_not_differ_give_a_point(values: list[int], which: str, method: resample.Method) -> None:
    same = np.full(len(values), values[0])
    of = bootstrap_difference(same, same + 7, which, resamples=100, method=method)
    assert (of.estimate, of.low, of.high) == (7, 7, 7)
    assert of.excludes_zero


def test_the_difference_is_absolute_unless_a_relative_one_is_asked_for() -> None:
    base, new = np.full(2, 0.25), np.full(2, 0.75)
    assert bootstrap_difference(base, new, "mean").high == 0.5
    assert bootstrap_difference(base, new, "mean", relative=True).high == 2
    assert bootstrap(base, "mean", level=0.5, resamples=100).level == 0.5


@pytest.mark.parametrize(("low", "high", "excluded"), [
    (0.25, 0.5, True), (-0.5, -0.25, True), (0, 0.5, False), (-0.5, 0, False), (-0.5, 0.5, False),
])  # fmt: skip
def test_an_interval_that_begins_or_ends_at_zero_contains_it(low: float, high: float, excluded: bool) -> None:
    assert resample.Interval((low + high) / 2, low, high, 0.95).excludes_zero == excluded


@settings(max_examples=40, deadline=None)
@given(VALUES, st.integers(1, 1 << 40), WHICH)
def test_a_shift_of_all_values_shifts_the_interval(values: list[int], by: int, which: str) -> None:
    at, moved = (
        bootstrap(np.array(values), which, resamples=200),
        bootstrap(np.array(values) + by, which, resamples=200),
    )
    assert moved.low - at.low == pytest.approx(by, rel=1e-9)
    assert moved.high - at.high == pytest.approx(by, rel=1e-9)


@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)])
def test_the_draws_of_a_percentile_have_the_distribution_of_real_resamples(share: Fraction) -> None:
    values = np.arange(9.0)
    quick = np.bincount(resample._draws(values, share, 200_000, np.random.default_rng(1)).astype(int), minlength=9)
    at = max(math.ceil(share * 9) - 1, 0)
    rows = np.sort(np.random.default_rng(2).integers(0, 9, (200_000, 9)), axis=1)[:, at]
    assert np.abs(quick - np.bincount(rows, minlength=9)).max() / 200_000 < 0.005


def test_the_draws_of_a_mean_have_the_distribution_of_all_resamples() -> None:
    """Three values have 27 resamples, each as likely as any other."""
    values = np.array([0.0, 1.0, 10.0])
    draws = resample._draws(values, None, 100_000, np.random.default_rng(1))
    every = [sum(drawn) / 3 for drawn in product(values.tolist(), repeat=3)]
    for mean in set(every):
        assert np.isclose(draws, mean).mean() == pytest.approx(every.count(mean) / 27, abs=0.005)


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_how_many_resamples_are_drawn_at_once_changes_nothing(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(7.0)
    at_once = resample._draws(values, None, 100, np.random.default_rng(1))
    small(monkeypatch, Limit.RESAMPLE_CHUNK, chunk)
    assert resample._draws(values, None, 100, np.random.default_rng(1)).tolist() == at_once.tolist()


def test_a_uniform_number_that_is_rounded_to_one_draws_the_last_value() -> None:
    class AlwaysOne(np.random.Generator):
        def beta(self, a: object, b: object, size: object = None) -> np.ndarray:  # type: ignore[override,type-arg]
            assert isinstance(size, int)
            return np.ones(size)

    draws = resample._draws(np.array([1.0, 2.0]), Fraction(1), 3, AlwaysOne(np.random.PCG64(1)))
    assert draws.tolist() == [2, 2, 2]


def exact_share(which: str) -> Fraction | None:
    return {"mean": None, "median": Fraction(1, 2), "p0": Fraction(0), "p90": Fraction(9, 10)}[which]


@given(VALUES, st.sampled_from(["mean", "median", "p0", "p90"]))
def test_the_jackknife_is_the_statistic_without_each_value_in_turn(values: list[int], which: str) -> None:
    ordered = np.sort(np.array(values, np.float64))
    slow = [statistic(np.delete(ordered, at), which) for at in range(ordered.size)]
    assert resample._jackknife(ordered, exact_share(which)) == pytest.approx(slow, rel=1e-12)


def slow_bca(draws: np.ndarray, estimate: float, influence: np.ndarray, level: float) -> tuple[float, float]:  # type: ignore[type-arg]
    """Efron and Tibshirani, formulas 14.9, 14.10 and 14.14; draws that equal the estimate count half."""
    normal, ordered, equal = NormalDist(), np.sort(draws), np.isclose(draws, estimate, rtol=1e-12, atol=0)
    bias = normal.inv_cdf(float(np.mean(np.where(equal, 0.5, draws < estimate))))
    leaning = float((influence**3).sum() / (6 * (influence**2).sum() ** 1.5))
    shares = []
    for tail in ((1 - level) / 2, (1 + level) / 2):
        z = bias + normal.inv_cdf(tail)
        shares.append(normal.cdf(bias + z / (1 - leaning * z)) * (draws.size - 1))
    return float(ordered[math.floor(shares[0])]), float(ordered[math.ceil(shares[1])])


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("which", ["mean", "median", "p90"])
def test_bca_of_a_difference_is_that_of_the_book(which: str, relative: bool) -> None:
    rng = np.random.default_rng(12)
    base, new = np.sort(1 + rng.exponential(0.02, 12)), np.sort(1.01 + rng.exponential(0.03, 9))

    def compared(a: np.ndarray, b: np.ndarray) -> float:  # type: ignore[type-arg]
        left, right = statistic(a, which), statistic(b, which)
        return right / left - 1 if relative else right - left

    estimate = compared(base, new)
    without_base = np.array([compared(np.delete(base, at), new) for at in range(12)])
    without_new = np.array([compared(base, np.delete(new, at)) for at in range(9)])
    sides = [(side.size - 1) / side.size * (side.mean() - side) for side in (without_base, without_new)]
    rng = np.random.default_rng(5)
    left, right = (resample._draws(side, exact_share(which), 4000, rng) for side in (base, new))
    draws = (right - left) / left if relative else right - left
    low, high = slow_bca(draws, estimate, np.concatenate(sides), 0.9)
    found = bootstrap_difference(base, new, which, relative=relative, level=0.9, method="bca", resamples=4000, seed=5)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-12)
    assert (found.estimate, found.level) == (pytest.approx(estimate), 0.9)


@pytest.mark.parametrize("which", ["mean", "median"])
def test_bca_of_one_statistic_is_that_of_the_book(which: str) -> None:
    values = np.sort(np.random.default_rng(13).exponential(0.1, 15))
    without = np.array([statistic(np.delete(values, at), which) for at in range(15)])
    draws = resample._draws(values, exact_share(which), 4000, np.random.default_rng(6))
    wanted = slow_bca(draws, statistic(values, which), without.mean() - without, 0.95)
    found = bootstrap(values, which, method="bca", resamples=4000, seed=6)
    assert (found.low, found.high) == pytest.approx(wanted, rel=1e-12)


def test_bca_of_draws_that_all_lie_on_one_side_takes_the_half_of_a_draw_for_none() -> None:
    normal, even, draws = NormalDist(), np.array([-1.0, 1.0]), np.zeros(100)
    bias, z = normal.inv_cdf(0.995), normal.inv_cdf(0.1)
    for estimate, side in ((1.0, 1), (-1.0, -1)):
        wanted = [normal.cdf(side * 2 * bias + z), normal.cdf(side * 2 * bias - z)]
        assert list(resample._tails("bca", 0.8, draws, estimate, [even], [2])) == pytest.approx(wanted)


def test_bca_whose_correction_has_no_bound_takes_the_last_draw() -> None:
    """One value that outweighs all others has an acceleration of 1/6: 6 deviations away the correction is infinite."""
    normal, jackknife = NormalDist(), np.array([-1e4, *[0.0] * 99_999])
    bias, z = normal.inv_cdf(1 - 0.5 / 4000), normal.inv_cdf(0.00005)
    assert bias - z > 6
    low, high = resample._tails("bca", 0.9999, np.zeros(4000), 1.0, [jackknife], [100_000])
    assert low == pytest.approx(normal.cdf(bias + (bias + z) / (1 - (bias + z) / 6)), rel=1e-6)
    assert high == pytest.approx(1, abs=1e-12)


def test_the_expanded_interval_of_hesterberg_by_hand() -> None:
    """Of 10 values: t(0.975, 9) is 2.2622, times sqrt(10 / 9) is 2.3846. Of 10 and 25: t(0.975, 33) is 2.0345."""
    normal = NormalDist()
    for sizes, t in (([10], 2.2622), ([10, 25], 2.0345), ([2], 12.7062)):
        wanted = normal.cdf(-math.sqrt(sizes[0] / (sizes[0] - 1)) * t)
        low, high = resample._tails("expanded", 0.95, np.zeros(1), 0.0, [], sizes)
        assert (low, 1 - high) == pytest.approx((wanted, wanted), rel=1e-3)
    assert resample._tails("percentile", 0.9, np.zeros(1), 0.0, [], []) == pytest.approx((0.05, 0.95))


def test_between_two_draws_the_interval_ends_at_the_outer_one() -> None:
    draws = np.arange(11.0)[::-1]
    assert resample._quantiles(draws, 0.25, 0.75) == (2, 8)
    assert resample._quantiles(draws, 0.5, 0.5) == (5, 5)
    assert resample._quantiles(draws, 0, 1) == (0, 10)


@pytest.mark.parametrize("freedom", [*range(1, 9), 30, 31])
def test_students_t_is_the_integral_of_its_density(freedom: int) -> None:
    for t in (0.3, 1.0, 2.5, 12.0):
        at = np.linspace(0, t, 20_001)
        density = (1 + at**2 / freedom) ** (-(freedom + 1) / 2)
        area = (density[0] + density[-1] + 4 * density[1::2].sum() + 2 * density[2:-1:2].sum()) * t / 60_000
        factor = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
        share = resample._student_cdf(t, freedom)
        assert share == pytest.approx(0.5 + factor * area, abs=1e-9)
        if t < 3:  # beyond, the shares of different t are alike
            assert resample._student_quantile(share, freedom) == pytest.approx(t, rel=1e-9)


@pytest.mark.parametrize(("share", "freedom", "t"), [
    (0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 9, 2.262), (0.975, 18, 2.101), (0.95, 5, 2.015), (0.995, 30, 2.750),
    (0.975, 1000, 1.9623), (0.975, 1001, 1.95996),
])  # fmt: skip
def test_students_t_is_that_of_the_printed_tables(share: float, freedom: int, t: float) -> None:
    assert resample._student_quantile(share, freedom) == pytest.approx(t, abs=6e-4 if freedom < 1000 else 6e-5)


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
    ([1, 2], {"which": "x50"}), ([1, 2], {"level": 1.0}), ([1, 2], {"level": 0.49}), ([1, 2], {"resamples": 99}),
    ([1, 2], {"method": "magic"}), ([[1, 2], [3, 4]], {}),
])  # fmt: skip
def test_what_cannot_be_answered_is_refused(values: list[object], options: dict[str, object]) -> None:
    words = r"values in one dimension|must be finite|a statistic is|a level is|resamples are needed|a method is"
    with pytest.raises(ValueError, match=words):
        bootstrap(np.array(values), **{"which": "mean", **options})  # type: ignore[arg-type]
    if "method" not in options:
        with pytest.raises(ValueError, match=words):
            bootstrap_difference(np.array([1, 2]), np.array(values), **{"which": "mean", **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(("base", "new"), [([0, 1], [1, 2]), ([1, 2], [0, 1]), ([-1, 1], [1, 2]), ([1, 2], [-1, 1])])
def test_a_relative_difference_needs_values_above_zero(base: list[int], new: list[int]) -> None:
    with pytest.raises(ValueError, match="above zero"):
        bootstrap_difference(np.array(base), np.array(new), "mean", relative=True)
    assert bootstrap_difference(np.array(base), np.array(new), "mean").low <= 1


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


def test_a_level_outside_is_refused_for_few_values_too() -> None:
    for level in (0.49, 1.0):
        with pytest.raises(ValueError, match="a level is"):
            relative_difference_of_few(np.array([1, 2]), np.array([1]), level=level)


def test_a_value_of_zero_is_one_of_few() -> None:
    assert relative_difference_of_few(np.array([0, 2]), np.array([1])).estimate == 0
    assert relative_difference_of_few(np.array([0.25]), np.array([0, 1])).estimate == 1
