from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.analysis.segments import (
    as_groups,
    as_int64,
    check_same_length,
    distinct,
    fitting,
    gathered,
    group_bounds,
    narrow,
    order_by_lane,
    place_type,
    previous_greater,
    rows_by,
    run_starts,
    sort_within,
)

INT64 = st.one_of(st.integers(-5, 5), st.integers(-(1 << 63), (1 << 63) - 1))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint32, np.int64])
def test_integers_of_any_width_become_int64(dtype: type) -> None:
    assert as_int64(np.array([1, 2], dtype), "x").dtype == np.int64


def test_int64_is_not_copied() -> None:
    values = np.array([1, 2])
    assert as_int64(values, "x") is values


@pytest.mark.parametrize("values", [np.array([1.0]), np.array([1], np.uint64), np.array([None]), np.array([True])])
def test_what_int64_does_not_hold_is_refused_by_name(values: np.ndarray) -> None:
    with pytest.raises(TypeError, match=r"starts: integers .* not "):
        as_int64(values, "starts")


def test_two_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match="one dimension"):
        as_int64(np.zeros((2, 2), np.int64), "starts")


def test_different_lengths_are_named() -> None:
    with pytest.raises(ValueError, match="a has 1, b has 2"):
        check_same_length(a=np.zeros(1), b=np.zeros(2))


@pytest.mark.parametrize(("codes", "n_groups"), [([0, 3], 3), ([-1, 2], 3), ([0], 0), ([], -1)])
def test_codes_outside_are_refused(codes: list[int], n_groups: int) -> None:
    with pytest.raises(ValueError, match=r"codes must be in|must not be negative"):
        as_groups(np.array(codes, np.int64), n_groups)


@given(st.lists(st.tuples(st.integers(0, 4), INT64)))
def test_values_are_sorted_inside_their_group(rows: list[tuple[int, int]]) -> None:
    groups = np.array([group for group, _ in rows], np.int64)
    values = np.array([value for _, value in rows], np.int64)
    given_values = values.copy()
    ordered, bounds = sort_within(groups, 5, values), group_bounds(groups, 5)
    for group in range(5):
        assert ordered[bounds[group] : bounds[group + 1]].tolist() == sorted(v for g, v in rows if g == group)
    assert np.array_equal(values, given_values)


def test_values_that_span_all_of_int64_are_sorted_inside_their_group() -> None:
    ends = [-(1 << 63), (1 << 63) - 1]
    assert sort_within(np.array([1, 0, 1]), 2, np.array([ends[1], 7, ends[0]])).tolist() == [7, *ends]


@pytest.mark.parametrize("values", [[0, (1 << 62) - 1, 5], [-(1 << 62), 0, 7], [0, 1 << 62, 5], [3, 3, 3]])
@pytest.mark.parametrize("n_groups", [1, 2, 3, 1 << 20])
def test_groups_and_values_need_not_fit_into_63_bits_together(values: list[int], n_groups: int) -> None:
    groups = [n_groups - 1, 0, n_groups - 1]
    want = [value for _, value in sorted(zip(groups, values, strict=True))]
    assert sort_within(np.array(groups), n_groups, np.array(values)).tolist() == want


@pytest.mark.parametrize("codes", [[3, 0, 3, 1], [-1, 5, -1], [1 << 40, 0, 1 << 40], [65_536, 0, 65_535], []])
def test_rows_of_one_lane_keep_their_order(codes: list[int]) -> None:
    expected = sorted(range(len(codes)), key=lambda row: codes[row])
    assert order_by_lane(np.array(codes, np.int64)).tolist() == expected


@given(st.lists(st.integers(0, 9)), st.none() | st.lists(st.integers(0, 9)), st.sampled_from([np.int32, np.int64]))
def test_places_that_occur_are_those_of_sets(places: list[int], but: list[int] | None, dtype: type) -> None:
    found = distinct(np.array(places, dtype), 10, but=None if but is None else np.array(but, np.int64))
    assert found.tolist() == sorted(set(places) - set(but or ()))


def test_runs_of_equal_keys_begin_where_the_key_changes() -> None:
    assert run_starts(np.array([4, 4, 7, 9, 9])).tolist() == [0, 2, 3]
    assert run_starts(np.array([], np.int64)).tolist() == []


@given(st.lists(INT64))
def test_rows_by_value_are_those_of_a_dictionary(keys: list[int]) -> None:
    expected: dict[int, list[int]] = {}
    for row, key in enumerate(keys):
        expected.setdefault(key, []).append(row)
    found = [(key, rows.tolist()) for key, rows in rows_by(np.array(keys, np.int64))]
    assert found == sorted(expected.items())


@pytest.mark.parametrize("codes", [[], [0], [65_535, 3], [65_536, 3]])
def test_codes_that_16_bits_hold_become_narrow(codes: list[int]) -> None:
    found = narrow(np.array(codes, np.int64))
    assert found.tolist() == codes
    assert found.dtype == (np.uint16 if codes and max(codes) < 65_536 else np.int64)


@settings(max_examples=300)
@given(
    st.lists(st.lists(st.tuples(INT64, INT64), min_size=1, max_size=40), max_size=4),
    st.booleans(),
)
def test_previous_greater_finds_what_a_walk_to_the_left_finds(segments: list[list[tuple[int, int]]], own: bool) -> None:
    rows = [row for segment in segments for row in segment]
    values = [value for value, _ in rows]
    than = values if own else [threshold for _, threshold in rows]
    expected, begins = [], []
    for segment in segments:
        begin = len(expected)
        begins.append(begin)
        for row in range(begin, begin + len(segment)):
            expected.append(next((j for j in range(row - 1, begin - 1, -1) if values[j] > than[row]), -1))
    found = previous_greater(np.array(values, np.int64), np.array(than, np.int64), np.array(begins, np.intp))
    assert found.tolist() == expected


@pytest.mark.parametrize("n", [2, 3, 5, 8, 1000, 1025])
def test_previous_greater_reaches_the_far_end(n: int) -> None:
    values = np.concatenate((np.array([n + 1]), np.arange(n - 1)))
    assert previous_greater(values, values, np.zeros(1, np.intp)).tolist() == [-1] + [0] * (n - 1)


@pytest.mark.parametrize(("value", "width"), [(0, 4), ((1 << 31) - 1, 4), (1 << 31, 8), (-(1 << 40), 8)])
def test_values_take_four_bytes_where_all_of_them_fit(value: int, width: int) -> None:
    found = fitting(np.array([1, value], np.int64))
    assert (found.tolist(), found.itemsize) == ([1, value], width)


def test_places_take_four_bytes_where_their_number_fits() -> None:
    assert (place_type((1 << 31) - 1), place_type(1 << 31)) == (np.int32, np.int64)


def test_values_are_gathered_in_blocks_as_at_once() -> None:
    places = np.random.default_rng(1).integers(0, 9, 100_000).astype(np.int32)
    for values in (np.arange(9) * 7, np.arange(9) > 4):
        assert gathered(values, places).tolist() == values[places].tolist()
        assert gathered(values, places[:0]).dtype == values.dtype
