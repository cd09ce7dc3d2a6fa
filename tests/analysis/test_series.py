from __future__ import annotations

import doctest
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.analysis import series
from tracekit.analysis.series import Rule, change_points, judge

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
    assert judge(values, Rule(least_share=0.5)).warm_up == 0
    assert judge(values, Rule(mads=30)).warm_up == 0
    assert judge(values[:2], Rule(least_values=2)).known


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


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=8, max_size=30))
def test_a_rising_scale_changes_nothing(values: list[int]) -> None:
    first = change_points(np.array(values), permutations=99)
    second = change_points(np.array(values) * 3 + 7, permutations=99)
    assert [(c.at, c.chance) for c in first] == [(c.at, c.chance) for c in second]


def test_values_all_alike_and_too_few_have_no_change() -> None:
    assert change_points(np.array([])) == []
    assert change_points(np.full(50, 3)) == []
    assert change_points(np.array([1, 1, 1, 9, 9, 9])) == []


def test_what_cannot_be_answered_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        change_points(np.array([1.0, np.nan]))
    with pytest.raises(ValueError, match="significance"):
        change_points(np.arange(20), permutations=9)
    with pytest.raises(TypeError, match="values"):
        judge(np.array([1.5]))
