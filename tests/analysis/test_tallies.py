from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.analysis import value_counts
from tracekit.analysis.statistics import DEFAULT_PERCENTILES, Grouped, grouped
from tracekit.analysis.value_counts import added, rounded, statistics, tally

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
    assert doctest.testmod(value_counts).failed == 0


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


def test_a_group_without_values_has_zeros() -> None:
    found = tally(np.array([2, 2]), 4, np.array([5, 3]))
    assert (found.total, found.squares) == ((0, 0, 8, 0), (0, 0, 34, 0))
    assert [column.tolist() for column in (found.calls, found.low, found.high)] == [
        [0, 0, 2, 0], [0, 0, 3, 0], [0, 0, 5, 0],
    ]  # fmt: skip


def test_percentiles_of_many_values_by_hand() -> None:
    many = tally(np.zeros(2000, np.int64), 1, np.repeat(np.arange(1, 1001), 2))
    assert statistics(many).percentiles.tolist() == [[500, 950, 990]]


def test_a_rounded_value_keeps_its_leading_bits() -> None:
    values = [0, 1, 7, 8, 9, 0b1011011, 0b1100000, (1 << 40) + (1 << 38) + 1, 1 << 50]
    found = rounded(tally(np.zeros(len(values), np.int64), 1, np.array(values)), 3)
    assert found.value.tolist() == [0, 1, 7, 8, 0b1010000, 0b1100000, (1 << 40) + (1 << 38), 1 << 50]
    assert found.count.tolist() == [1, 1, 1, 2, 1, 1, 1, 1]
    assert (found.bits, found.low.tolist(), found.high.tolist()) == (3, [0], [1 << 50])


@given(st.permutations([0, 5, 9]), st.lists(ROWS, min_size=3, max_size=3))
def test_parts_become_as_coarse_as_the_coarsest(bits: list[int], parts: list[list[tuple[int, int]]]) -> None:
    here = [tally(*_with(4, columns([(g, v >> 9) for g, v in rows]))) for rows in parts]
    groups = np.arange(4)
    found = added([(rounded(part, n) if n else part, groups) for part, n in zip(here, bits, strict=True)], 4)
    wanted = rounded(added([(part, groups) for part in here], 4), 5)
    assert found.bits == 5
    for name in ("group", "value", "count", "calls", "low", "high"):
        assert getattr(found, name).tolist() == getattr(wanted, name).tolist()
    assert (found.total, found.squares) == (wanted.total, wanted.squares)


def test_a_value_below_zero_and_columns_of_unlike_length_are_refused() -> None:
    with pytest.raises(ValueError, match="below zero"):
        tally(np.array([0]), 1, np.array([-1]))
    with pytest.raises(ValueError, match="codes has 1, values has 2"):
        tally(np.array([0]), 1, np.array([1, 2]))


def test_a_total_beyond_int64_is_an_error_and_no_wrong_figure() -> None:
    most = tally(np.zeros(3, np.int64), 1, np.full(3, (1 << 63) - 1))
    with pytest.raises(OverflowError, match="exceeds"):
        statistics(most)
    assert statistics(tally(np.array([0]), 1, np.array([(1 << 63) - 1]))).total.tolist() == [(1 << 63) - 1]


def test_values_near_the_end_of_int64_keep_their_groups_and_their_order() -> None:
    """A value and its group do not fit in one integer of 64 bits then."""
    most = (1 << 63) - 1
    parts = [(0, most - 1), (2, 5), (3, most)], [(3, 0), (1, most), (2, 4)]
    found = added([(tally(*_with(4, columns(rows))), np.arange(4)) for rows in parts], 4)
    assert list(zip(found.group.tolist(), found.value.tolist(), strict=True)) == [
        (0, most - 1), (1, most), (2, 4), (2, 5), (3, 0), (3, most),
    ]  # fmt: skip
    same(statistics(found), grouped(*_with(4, columns([*parts[0], *parts[1]]))))


@pytest.mark.parametrize("bits", range(58, 63))
def test_groups_and_values_are_in_order_however_many_bits_they_take_together(bits: int) -> None:
    rows = [(group, (1 << bits) - group) for group in range(1, 7)]
    found = added([(tally(*_with(7, columns([row]))), np.arange(7)) for row in reversed(rows)], 7)
    assert list(zip(found.group.tolist(), found.value.tolist(), strict=True)) == rows


def test_no_parts_are_no_values() -> None:
    found = statistics(added([], 2), DEFAULT_PERCENTILES)
    assert found.present.tolist() == [False, False]
    assert statistics(added([], 2), ()).percentiles.shape == (2, 0)
    assert added([], 2).value.tolist() == []
