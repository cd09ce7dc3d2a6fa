from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.analysis import tallies
from tracekit.analysis.statistics import DEFAULT_PERCENTILES, Grouped, grouped
from tracekit.analysis.tallies import added, rounded, statistics, tally

VALUES = st.one_of(st.integers(0, 9), st.integers(0, 1 << 20), st.integers(0, 1 << 58))
ROWS = st.lists(st.tuples(st.integers(0, 3), VALUES), max_size=30)
FIELDS = ("calls", "present", "total", "min", "max", "mean", "std", "pstd", "percentiles")


def columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    return np.array([g for g, _ in rows], np.int64), np.array([v for _, v in rows], np.int64)


def same(found: Grouped, expected: Grouped, but: tuple[str, ...] = ()) -> None:
    for name in FIELDS:
        if name not in but:
            assert np.array_equal(getattr(found, name), getattr(expected, name), equal_nan=name == "std"), name


def test_examples_of_the_documentation() -> None:
    assert doctest.testmod(tallies).failed == 0


@settings(max_examples=200)
@given(st.lists(ROWS, max_size=4), st.permutations(range(4)))
def test_tallies_of_parts_have_the_statistics_of_all_values(parts: list[list[tuple[int, int]]], to: list[int]) -> None:
    """Each part may number its groups in its own way."""
    map_ = np.array(to)
    found = added([(tally(*_with(4, columns(rows))), map_) for rows in parts], 4)
    codes, values = columns([(to[g], v) for rows in parts for g, v in rows])
    assert found.bits == 0
    same(statistics(found), grouped(codes, 4, values))


def _with(n: int, both: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, int, np.ndarray]:  # type: ignore[type-arg]
    return both[0], n, both[1]


@settings(max_examples=200)
@given(ROWS, ROWS, st.integers(3, 12))
def test_rounding_keeps_all_but_percentiles_which_are_low_by_a_known_share(
    one: list[tuple[int, int]], other: list[tuple[int, int]], bits: int
) -> None:
    same_groups = np.arange(4)
    coarse = rounded(tally(*_with(4, columns(one))), bits)
    found = statistics(added([(coarse, same_groups), (tally(*_with(4, columns(other))), same_groups)], 4))
    codes, values = columns(one + other)
    exact = grouped(codes, 4, values)
    same(found, exact, but=("percentiles",))
    low, high = found.percentiles, exact.percentiles
    assert (low <= high).all()
    for a, b in zip(low.ravel().tolist(), high.ravel().tolist(), strict=True):
        assert b - a <= b * 2.0 ** (1 - bits)


def test_rounding_bounds_the_number_of_values() -> None:
    many = tally(np.zeros(1 << 16, np.int64), 1, np.arange(1 << 16))
    assert rounded(many, 8).value.size <= 8 * 128 + 256
    assert rounded(many, 8).calls.tolist() == [1 << 16]


def test_a_value_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="below zero"):
        tally(np.array([0]), 1, np.array([-1]))


def test_a_total_beyond_int64_is_an_error_and_no_wrong_figure() -> None:
    most = tally(np.zeros(3, np.int64), 1, np.full(3, (1 << 63) - 1))
    with pytest.raises(OverflowError, match="exceeds"):
        statistics(most)


def test_values_near_the_end_of_int64_keep_their_groups_and_their_order() -> None:
    """A value and its group do not fit in one integer of 64 bits then."""
    most = (1 << 63) - 1
    parts = [(0, most - 1), (2, 5), (3, most)], [(3, 0), (1, most), (2, 4)]
    found = added([(tally(*_with(4, columns(rows))), np.arange(4)) for rows in parts], 4)
    assert list(zip(found.group.tolist(), found.value.tolist(), strict=True)) == [
        (0, most - 1), (1, most), (2, 4), (2, 5), (3, 0), (3, most),
    ]  # fmt: skip
    same(statistics(found), grouped(*_with(4, columns([*parts[0], *parts[1]]))))


def test_no_parts_are_no_values() -> None:
    found = statistics(added([], 2), DEFAULT_PERCENTILES)
    assert found.present.tolist() == [False, False]
    assert statistics(added([], 2), ()).percentiles.shape == (2, 0)
