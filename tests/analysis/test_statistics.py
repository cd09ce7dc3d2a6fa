from __future__ import annotations

import doctest
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_limits import Limit, small

from tracekit.analysis import statistics
from tracekit.analysis.segments import group_bounds, sort_within
from tracekit.analysis.statistics import DEFAULT_PERCENTILES, Grouped, between, grouped, median, moments, nearest_rank
from tracekit.index import grouping

SMALL = st.integers(-6, 6)
TIMES = st.one_of(SMALL, SMALL.map(lambda x: x + 1_700_000_000_000_000_000), st.integers(-(1 << 62), 1 << 62))
PERCENTS = st.one_of(st.integers(0, 100), st.sampled_from([0.1, 33.3, 55.0, 99.9, 99.99, 1e-9, 100.0]))


def of(rows: list[tuple[int, int]], n_groups: int, percentiles: tuple[float, ...] = DEFAULT_PERCENTILES) -> Grouped:
    codes = np.array([group for group, _ in rows], np.int64)
    return grouped(codes, n_groups, np.array([value for _, value in rows], np.int64), percentiles)


def slow_rank(values: list[int], percent: float) -> int:
    """The definition read aloud: the smallest value that at least percent of all values do not exceed."""
    share = Fraction(str(percent)) / 100
    return next(v for i, v in enumerate(sorted(values), 1) if Fraction(i, len(values)) >= share)


def rounded_root(value: Fraction) -> int:
    """The root, rounded to the nearest integer, a half to the even one; without any root but that of an integer."""
    below = math.isqrt(math.floor(value))
    half = (below + Fraction(1, 2)) ** 2
    return below + 1 if value > half or (value == half and below % 2 == 1) else below


def test_examples_of_the_documentation() -> None:
    outcome = doctest.testmod(statistics)
    assert outcome.attempted >= 3
    assert outcome.failed == 0


@settings(max_examples=300)
@given(st.lists(TIMES, min_size=1, max_size=40), PERCENTS)
def test_the_percentile_is_the_smallest_value_that_so_many_do_not_exceed(values: list[int], percent: float) -> None:
    found = nearest_rank(np.array(sorted(values)), percent)
    assert found == slow_rank(values, percent)
    assert found in values


@pytest.mark.parametrize(
    ("n", "percent", "rank"),
    [(20, 55, 11), (1000, 99.9, 999), (1001, 99.9, 1000), (4, 50, 2), (5, 50, 3), (3, 0, 1), (3, 100, 3), (1, 99, 1)],
)
def test_the_rank_is_the_ceiling_in_decimals_not_in_binary(n: int, percent: float, rank: int) -> None:
    assert nearest_rank(np.arange(1, n + 1), percent) == rank
    assert of([(0, value) for value in range(1, n + 1)], 1, (percent,)).percentile(percent).tolist() == [rank]


@pytest.mark.parametrize("percent", [-1, 100.1, math.nan, math.inf])
def test_percents_outside_are_refused(percent: float) -> None:
    with pytest.raises(ValueError, match=r"percent|Fraction"):
        nearest_rank(np.array([1]), percent)
    with pytest.raises(ValueError, match=r"percent|Fraction"):
        of([(0, 1)], 1, (percent,))


def test_no_values_and_descending_values_have_no_rank() -> None:
    with pytest.raises(ValueError, match="no values"):
        nearest_rank(np.array([], np.int64), 50)
    with pytest.raises(ValueError, match="ascend"):
        nearest_rank(np.array([1, 3, 2]), 50)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 3), TIMES), max_size=40), st.lists(PERCENTS, max_size=3, unique=True))
def test_each_group_has_the_statistics_of_its_values(rows: list[tuple[int, int]], percents: list[float]) -> None:
    by_group = [[value for code, value in rows if code == group] for group in range(5)]
    if any(not -(1 << 63) <= sum(values) < 1 << 63 for values in by_group):
        with pytest.raises(OverflowError, match="a total exceeds int64"):
            of(rows, 5, tuple(percents))
        return
    found = of(rows, 5, tuple(percents))
    for group, values in enumerate(by_group):
        assert found.calls[group] == len(values)
        assert found.present[group] == bool(values)
        assert found.total[group] == sum(values)
        assert found.min[group] == min(values, default=0)
        assert found.max[group] == max(values, default=0)
        assert found.mean[group] == (round(Fraction(sum(values), len(values))) if values else 0)
        assert found.percentiles[group].tolist() == [slow_rank(values, p) if values else 0 for p in percents]
        if len(values) < 2:
            assert math.isnan(found.std[group])
            assert found.pstd[group] == 0
        else:
            mean = Fraction(sum(values), len(values))
            variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
            assert found.std[group] == pytest.approx(math.sqrt(variance), rel=1e-12, abs=0)
            assert found.pstd[group] == rounded_root(variance * (len(values) - 1) / len(values))


def test_integers_come_out_as_int64() -> None:
    found = of([(0, 5), (0, 6), (1, 7)], 3)
    for column in (found.calls, found.total, found.min, found.max, found.mean, found.percentiles, found.pstd):
        assert column.dtype == np.int64
    assert found.percentiles.shape == (3, 3)


@pytest.mark.parametrize(("values", "mean"), [([0, 1], 0), ([1, 2], 2), ([-1, 0], 0), ([-2, -1], -2), ([0, 0, 2], 1)])
def test_the_mean_rounds_a_half_to_the_even_integer(values: list[int], mean: int) -> None:
    assert of([(0, value) for value in values], 1).mean.tolist() == [mean]


@pytest.mark.parametrize(("values", "deviation"), [([0, 1], 0), ([0, 3], 2), ([0, 5], 2), ([7], 0), ([0, 0, 0, 4], 2)])
def test_the_deviation_of_the_population_rounds_a_half_to_the_even_integer(values: list[int], deviation: int) -> None:
    assert of([(0, value) for value in values], 1).pstd.tolist() == [deviation]


@pytest.mark.parametrize("far", [3_037_000_499, 3_037_000_500, (1 << 32) - 1, 1 << 32, (1 << 62) - 1])
def test_the_deviation_is_exact_wherever_squares_pass_64_bits(far: int) -> None:
    values = [0, far, far, 3, far // 2]
    middle = Fraction(sum(values), len(values))
    variance = sum((value - middle) ** 2 for value in values) / len(values)
    if sum(values) < 1 << 63:
        assert of([(0, value) for value in values], 1).pstd.tolist() == [rounded_root(variance)]
    spread = [-far, far] * 3
    assert of([(0, value) for value in spread], 1).pstd.tolist() == [far]


def test_the_deviation_of_groups_that_are_longer_than_a_block_is_that_of_all_their_rows() -> None:
    pairs = {0: (0, 2), 1: (100, 300), 2: (7, 9), 3: (10_000, 50_000)}
    counts = {0: 50_000, 1: 90_000, 2: 2, 3: 200_000}
    codes = np.repeat(list(counts), list(counts.values()))
    values = np.concatenate([np.tile(pairs[group], counts[group] // 2) for group in pairs])
    found = grouped(codes, 4, values)
    assert found.mean.tolist() == [1, 200, 8, 30_000]
    assert found.pstd.tolist() == [1, 100, 1, 20_000]


@given(st.lists(st.tuples(st.integers(0, 3), TIMES), max_size=40), st.integers(1, 9))
def test_the_deviation_is_the_same_however_long_a_block_is(rows: list[tuple[int, int]], block: int) -> None:
    rows = [(group, value >> 7) for group, value in rows]  # sums below 2^63
    whole = of(rows, 5)
    with pytest.MonkeyPatch.context() as patch:
        small(patch, Limit.STATISTICS_BLOCK, block)
        cut = of(rows, 5)
    assert cut.pstd.tolist() == whole.pstd.tolist()
    assert np.array_equal(cut.std, whole.std, equal_nan=True)


def test_moments_of_sums_are_those_of_the_values() -> None:
    groups = [[], [7], [-3], [0, 1], [1, 2], [-1, 0], [-2, -1], [0, 3], [0, 5], [0, 0, 2], [0, 0, 0, 4], [1 << 40, 1]]
    sums = [(len(values), sum(values), sum(value * value for value in values)) for values in groups]
    found = moments(*zip(*sums, strict=True))
    assert [column.dtype for column in found] == [np.int64, np.float64, np.int64]
    for values, mean, sample, population in zip(groups, *(column.tolist() for column in found), strict=True):
        exact = Fraction(sum(values), max(len(values), 1))
        squares = sum((value - exact) ** 2 for value in values)
        assert mean == round(exact)
        assert population == rounded_root(Fraction(squares) / max(len(values), 1))
        if len(values) < 2:
            assert math.isnan(sample)
        else:
            assert sample == pytest.approx(math.sqrt(squares / (len(values) - 1)), rel=1e-12)


def test_median_p95_and_p99_are_taken_unless_others_are_asked_for() -> None:
    assert grouped(np.zeros(1000, np.int64), 1, np.arange(1, 1001)).percentiles.tolist() == [[500, 950, 990]]


def test_a_small_spread_of_large_times_keeps_its_deviation() -> None:
    base = 1_700_000_000_000_000_000
    assert of([(0, base + x) for x in (2, 4, 4, 4)], 1).std[0] == 1.0
    assert of([(0, base)] * 5, 1).std[0] == 0.0


def test_totals_are_exact_up_to_the_edge_of_int64() -> None:
    high = (1 << 63) - 1
    found = of([(0, high), (1, -high - 1), (2, high), (2, -high - 1), (2, 5), (3, high - 9), (3, 9)], 4)
    assert found.total.tolist() == [high, -high - 1, 4, high]
    assert found.mean.tolist() == [high, -high - 1, 1, 1 << 62]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_total_beyond_int64_is_an_error(sign: int) -> None:
    for least in (1, 2, 1 << 40):
        with pytest.raises(OverflowError, match="a total exceeds int64"):
            of([(0, 5), (0, 6), (1, sign << 62), (1, sign * ((1 << 62) - 1)), (1, sign * least), (1, sign)], 2)
        with pytest.raises(OverflowError, match="a total exceeds int64"):
            of([(0, 5), (0, 6), (1, sign * ((1 << 63) - 1)), (1, sign * least), (1, sign)], 2)


def test_no_rows_give_empty_groups() -> None:
    found = of([], 2)
    assert found.calls.tolist() == [0, 0]
    assert not found.present.any()
    assert np.isnan(found.std).all()
    assert of([], 0).percentiles.shape == (0, 3)


def test_a_percentile_that_was_not_asked_for_is_an_error() -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        of([(0, 1)], 1, (50,)).percentile(95)


def test_codes_and_values_are_checked() -> None:
    with pytest.raises(ValueError, match="codes must be in"):
        of([(3, 1)], 2)
    with pytest.raises(ValueError, match="codes has 1, values has 2"):
        grouped(np.array([0]), 1, np.array([1, 2]))
    with pytest.raises(TypeError, match="values"):
        grouped(np.array([0]), 1, np.array([1.5]))


@given(
    st.lists(st.tuples(st.integers(0, 6), st.one_of(st.integers(-9, 9), st.integers(0, 1 << 40))), max_size=60),
    st.sampled_from([np.int8, np.int16, np.int32]),
)
def test_narrow_codes_and_labels_that_no_row_has_make_no_difference(rows: list[tuple[int, int]], width: type) -> None:
    codes, values = np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.int64)
    labels = [None, *"abcdefg"]
    groups = grouping.group_by(grouping.Key(codes, labels))
    expected = grouping.statistics(groups, values, (50, 95))
    names, found = grouping.statistics_by(codes.astype(width), labels, values, (50, 95))
    assert names == groups.labels[0]
    for field in ("calls", "present", "total", "min", "max", "mean", "std", "pstd", "percentiles"):
        np.testing.assert_array_equal(getattr(found, field), getattr(expected, field))


@pytest.mark.parametrize("width", [np.int8, np.int16, np.int64])
def test_columns_of_several_blocks_are_sorted_and_counted(width: type) -> None:
    random = np.random.default_rng(3)
    codes, values = random.integers(0, 100, 100_000), random.integers(-(1 << 40), 1 << 40, 100_000)
    order = np.lexsort((values, codes))
    assert (sort_within(codes.astype(width), 100, values) == values[order]).all()
    assert np.diff(group_bounds(codes.astype(width), 100)).tolist() == np.bincount(codes, minlength=100).tolist()


@given(
    values=st.lists(st.integers(0, 1 << 50), min_size=1, max_size=30) | st.lists(st.integers(0, 5), min_size=1),
    share=st.sampled_from((0.0, 0.1, 0.25, 0.5, 0.75, 1.0)) | st.floats(0, 1),
)
def test_a_value_between_two_is_the_one_of_numpy(values: list[int], share: float) -> None:
    numbers = np.array(values, np.int64)
    assert between(numbers, share) == np.quantile(numbers, share)
    assert between(numbers / 3, share) == np.quantile(numbers / 3, share)
    assert median(numbers) == np.median(numbers)
    assert median(numbers / 3) == np.median(numbers / 3)
    assert numbers.tolist() == values
