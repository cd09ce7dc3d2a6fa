from __future__ import annotations

import doctest
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_limits import Limit, small

from tracekit.analysis import series
from tracekit.analysis.series import SeriesRule, change_points, judge

TIMES = st.lists(st.integers(0, 10_000), max_size=40)


def test_examples_of_the_documentation() -> None:
    outcome = doctest.testmod(series)
    assert outcome.attempted >= 2
    assert outcome.failed == 0


@given(TIMES)
def test_warm_up_leads_and_outliers_follow_and_lie_beyond_the_limits(values: list[int]) -> None:
    of = judge(np.array(values, np.int64))
    assert 0 <= of.warm_up <= len(values) // 2
    assert not of.outliers[: of.warm_up].any()
    for at in range(of.warm_up, len(values)):
        assert of.outliers[at] == (of.known and not of.low <= values[at] <= of.high)
    assert of.known == (len(values) >= series.RULE.least_values)


def slow_limits(values: list[int]) -> tuple[int, int, int, int]:
    median, mad = (sorted(x)[(len(x) - 1) // 2] for x in (values, [abs(v - slow_middle(values)) for v in values]))
    room = max(round(5.19 * mad), round(0.05 * abs(median)))
    return median, mad, median - room, median + room


def slow_middle(values: list[int]) -> int:
    return sorted(values)[(len(values) - 1) // 2]


@given(st.lists(st.one_of(st.integers(95, 106), st.integers(-300, 900)), min_size=5, max_size=40))
def test_warm_up_and_limits_are_those_of_the_rule_read_aloud(values: list[int]) -> None:
    of = judge(np.array(values))
    high = slow_limits(values)[3]
    leading = next(at for at, value in enumerate(values) if value <= high)
    assert of.warm_up == min(leading, len(values) // 2)
    assert (of.median, of.mad, of.low, of.high) == slow_limits(values[of.warm_up :])


def test_a_value_at_a_limit_is_within_it() -> None:
    for first, warm_up in ((105, 0), (106, 1)):
        assert judge(np.array([first, *[100] * 8])).warm_up == warm_up
    of = judge(np.array([*[100] * 8, 105, 106, 95, 94]))
    assert np.flatnonzero(of.outliers).tolist() == [9, 11]
    assert (of.median, of.low, of.high) == (100, 95, 105)


def test_of_too_few_values_only_the_median_is_known() -> None:
    for values, median in (([], 0), ([3], 3), ([9, 3, 7, 800], 7)):
        of = judge(np.array(values, np.int64))
        assert (of.warm_up, of.median, of.mad, of.low, of.high) == (0, median, 0, median, median)
        assert of.outliers.tolist() == [False] * len(values)
        assert not of.known
    assert judge(np.array([3]), SeriesRule(least_values=0)).known
    assert not judge(np.array([], np.int64), SeriesRule(least_values=0)).known


@given(st.lists(st.integers(-20, 20), min_size=5, max_size=40), st.integers(1_000_000, 1 << 40))
def test_noise_far_below_the_least_share_is_never_told(noise: list[int], base: int) -> None:
    of = judge(np.array(noise) + base)
    assert of.warm_up == 0
    assert not of.outliers.any()


@pytest.mark.parametrize(("values", "warm_up", "outliers"), [
    ([500, 300, 100, 101, 99, 100, 100, 102], 2, []),
    ([100, 101, 99, 100, 100, 102, 300], 0, [6]),
    ([500, 100, 101, 99, 40, 100, 102, 300, 100], 1, [4, 7]),
    ([100, 106, 94, 103, 97, 100], 0, []),
    ([500, 100, 100, 100], 0, []),
    ([9, 9, 9, 9, 1, 1, 1, 1, 1], 4, []),
])  # fmt: skip
def test_examples(values: list[int], warm_up: int, outliers: list[int]) -> None:
    of = judge(np.array(values))
    assert (of.warm_up, np.flatnonzero(of.outliers).tolist()) == (warm_up, outliers)


def test_the_rule_is_data() -> None:
    values = np.array([120, 100, 101, 99, 100])
    assert judge(values).warm_up == 1
    assert judge(values, SeriesRule(least_share=0.5)).warm_up == 0
    assert judge(values, SeriesRule(mads=30)).warm_up == 0
    assert judge(values[:2], SeriesRule(least_values=2)).known
    values = np.array([500, 400, 300, 100, 101, 99, 100, 100, 102, 100])
    assert [judge(values, SeriesRule(most_warm_up=share)).warm_up for share in (0, 0.1, 0.29, 0.3, 1)] == [
        0,
        1,
        2,
        3,
        3,
    ]


def test_a_change_is_found_where_it_is_and_its_size_told() -> None:
    rng = np.random.default_rng(5)
    values = np.concatenate((rng.normal(100, 2, 30), rng.normal(110, 2, 25), rng.normal(104, 2, 40)))
    values[10] = 500
    found = change_points(values)
    assert [c.at for c in found] == pytest.approx([30, 55], abs=2)
    assert (found[0].before, found[0].after) == pytest.approx((100, 110), abs=1.5)
    assert all(c.chance <= 0.01 for c in found)
    assert change_points(values) == found


def test_the_level_before_the_first_change_is_that_of_all_values_from_the_first_one_on() -> None:
    (found,) = change_points(np.array([12, 9, 10, 11, 9, 12, 20, 21, 22, 23, 24, 25]))
    assert (found.at, found.before, found.after) == (6, 10.5, 22.5)


def test_a_history_without_change_is_seldom_cut() -> None:
    rng = np.random.default_rng(6)
    cut = sum(bool(change_points(rng.normal(100, 2, 60))) for _ in range(100))
    assert cut <= 4


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 5))
def test_sides_are_as_long_as_asked_and_medians_are_theirs(values: list[int], least: int) -> None:
    found = change_points(np.array(values, np.int64), least=least, permutations=99)
    edges = [0, *(c.at for c in found), len(values)]
    assert all(b - a >= least for a, b in pairwise(edges) if found)
    for c, before, at, after in zip(found, edges, edges[1:], edges[2:], strict=False):
        assert (c.before, c.after) == (np.median(values[before:at]), np.median(values[at:after]))


def slow_splits(values: list[int], least: int) -> list[int]:
    """Binary segmentation where each split is accepted: by the sum of the ranks, those of equal values averaged."""
    n, found = len(values), (0.0, 0)
    ranks = [sum(w < v for w in values) + (sum(w == v for w in values) - 1) / 2 for v in values]
    for left in range(least, n - least + 1):
        score = abs(sum(ranks[:left]) - left * (n - 1) / 2) / math.sqrt(left * (n - left))
        if score > found[0]:
            found = score, left
    if not found[1]:
        return []
    at = found[1]
    return [*slow_splits(values[:at], least), at, *(at + later for later in slow_splits(values[at:], least))]


@given(st.lists(st.integers(0, 9), max_size=25), st.integers(1, 5))
def test_a_stretch_is_split_where_the_ranks_of_its_two_sides_differ_most(values: list[int], least: int) -> None:
    found = change_points(np.array(values, np.int64), significance=1, least=least, permutations=1)
    assert [change.at for change in found] == slow_splits(values, least)


def test_the_chance_of_a_split_is_the_share_of_orders_that_split_as_well() -> None:
    """2 of the 70 orders of 4 ones and 4 twos keep them apart; a copy that splits as well counts, and so does it."""
    (found,) = change_points(np.array([1, 1, 1, 1, 2, 2, 2, 2]), significance=0.1, permutations=9999)
    assert found.chance == pytest.approx(2 / 70, abs=0.005)
    (found,) = change_points(np.array([1, 1, 1, 2, 2, 2, 2, 2]), significance=0.1, permutations=9999, least=3)
    assert found.chance == pytest.approx(2 / 56, abs=0.005)
    values = np.array([1] * 20 + [2] * 20)
    (found,) = change_points(values, significance=0.01, permutations=99)
    assert (found.at, found.chance) == (20, 0.01)
    (found,) = change_points(np.array([1, 2]), significance=1, permutations=99, least=1)
    assert found.chance == 1


@pytest.mark.parametrize("chunk", [1, 100])
def test_how_many_copies_are_shuffled_at_once_changes_nothing(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).integers(0, 9, 30)
    at_once = change_points(values, significance=1, permutations=99)
    small(monkeypatch, Limit.SERIES_CHUNK, chunk)
    assert change_points(values, significance=1, permutations=99) == at_once


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=8, max_size=30))
def test_a_rising_scale_changes_nothing(values: list[int]) -> None:
    first = change_points(np.array(values), permutations=99)
    second = change_points(np.array(values) * 3 + 7, permutations=99)
    assert [(c.at, c.chance) for c in first] == [(c.at, c.chance) for c in second]


def test_values_all_alike_and_too_few_have_no_change() -> None:
    assert change_points(np.array([])) == []
    assert change_points(np.full(50, 3)) == []
    assert change_points(np.full(50, 3), significance=1) == []
    assert change_points(np.array([1, 1, 1, 9, 9, 9]), significance=1) == []
    assert [found.at for found in change_points(np.array([1, 1, 9, 9]), significance=1, least=2)] == [2]


def test_what_cannot_be_answered_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        change_points(np.array([1.0, np.nan]))
    with pytest.raises(ValueError, match="one dimension"):
        change_points(np.ones((2, 9)))
    for wrong in ({"permutations": 9}, {"permutations": 98}, {"significance": 0.0009}, {"least": 0}):
        with pytest.raises(ValueError, match="significance"):
            change_points(np.arange(20), **wrong)  # type: ignore[arg-type]
    assert change_points(np.arange(1), least=1, permutations=99) == []
    with pytest.raises(TypeError, match="values"):
        judge(np.array([1.5]))
