from __future__ import annotations

import doctest
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.analysis import intervals
from tracekit.analysis.intervals import (
    clip,
    count_reversed,
    coverage,
    difference,
    gaps,
    intersection,
    length,
    merge,
    union,
    union_length,
    union_length_by,
)

Pairs: TypeAlias = list[tuple[int, int]]
Ranges: TypeAlias = tuple[np.ndarray, np.ndarray]

# Small distances, so that ranges often touch and coincide; the bases are where sums and differences overflow.
BASES = st.sampled_from([0, 1_700_000_000_000_000_000, (1 << 62) - 40, -(1 << 62), (1 << 63) - 41, -(1 << 63)])
RANGES = st.lists(st.tuples(st.integers(4, 30), st.integers(-4, 10)), max_size=12)


@st.composite
def two_lists(draw: st.DrawFn) -> tuple[Pairs, Pairs]:
    base = draw(BASES)
    a, b = ([(base + start, base + start + size) for start, size in draw(RANGES)] for _ in range(2))
    return a, b


LISTS = two_lists().map(lambda lists: lists[0])


def columns(pairs: Pairs) -> Ranges:
    return np.array([start for start, _ in pairs], np.int64), np.array([end for _, end in pairs], np.int64)


def pairs(ranges: Ranges) -> Pairs:
    assert ranges[0].dtype == ranges[1].dtype == np.int64
    return list(zip(ranges[0].tolist(), ranges[1].tolist(), strict=True))


def slow_merge(ranges: Pairs) -> Pairs:
    merged: list[list[int]] = []
    for start, end in sorted((start, max(start, end)) for start, end in ranges):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return [(start, end) for start, end in merged]


def slow_intersection(a: Pairs, b: Pairs) -> Pairs:
    shared = []
    for a_start, a_end in a:
        for b_start, b_end in b:
            start, end = max(a_start, b_start), min(a_end, b_end)
            if start < end or (start == end and (a_start == a_end or b_start == b_end)):
                shared.append((start, end))
    return sorted(shared)


def slow_difference(a: Pairs, b: Pairs) -> Pairs:
    left = []
    for start, end in a:
        if start == end:
            left += [(start, end)] * (not any(low <= start <= high for low, high in b))
            continue
        for low, high in b:
            if low < high and low < end and start < high:
                if start < low:
                    left.append((start, low))
                start = high
        if start < end:
            left.append((start, end))
    return left


def slow_length(ranges: Pairs) -> int:
    return sum(end - start for start, end in slow_merge(ranges))


def test_examples_of_the_documentation() -> None:
    outcome = doctest.testmod(intervals)
    assert outcome.attempted >= 8
    assert outcome.failed == 0


@settings(max_examples=300)
@given(LISTS)
def test_merge_equals_a_sweep(ranges: Pairs) -> None:
    assert pairs(merge(*columns(ranges))) == slow_merge(ranges)


@given(LISTS)
def test_merging_twice_changes_nothing(ranges: Pairs) -> None:
    once = merge(*columns(ranges))
    assert pairs(merge(*once)) == pairs(once)


@given(LISTS)
def test_union_length_equals_a_sweep(ranges: Pairs) -> None:
    assert union_length(*columns(ranges)) == slow_length(ranges) == length(merge(*columns(ranges)))


@pytest.mark.parametrize(
    ("given_ranges", "expected"),
    [
        ([(5, 9), (9, 12)], [(5, 12)]),
        ([(0, 10), (3, 4)], [(0, 10)]),
        ([(7, 7)], [(7, 7)]),
        ([(7, 7), (7, 7), (8, 8)], [(7, 7), (8, 8)]),
        ([(7, 7), (3, 7)], [(3, 7)]),
        ([(7, 7), (7, 9)], [(7, 9)]),
        ([(7, 7), (5, 9)], [(5, 9)]),
        ([(10, 4), (0, 2)], [(0, 2), (10, 10)]),
        ([], []),
    ],
    ids=["touch", "inside", "instant", "instants", "at an end", "at a start", "in one", "reversed", "none"],
)
def test_merge_of(given_ranges: Pairs, expected: Pairs) -> None:
    assert pairs(merge(*columns(given_ranges))) == expected


@pytest.mark.parametrize(
    ("a", "b", "both", "only_a"),
    [
        ([(0, 10), (20, 30)], [(5, 25)], [(5, 10), (20, 25)], [(0, 5), (25, 30)]),
        ([(0, 9)], [(3, 5)], [(3, 5)], [(0, 3), (5, 9)]),
        ([(0, 5)], [(5, 9)], [], [(0, 5)]),
        ([(0, 9)], [(4, 4)], [(4, 4)], [(0, 9)]),
        ([(4, 4), (12, 12)], [(0, 9)], [(4, 4)], [(12, 12)]),
        ([(9, 9)], [(0, 9)], [(9, 9)], []),
        ([(3, 3)], [(3, 3)], [(3, 3)], []),
        ([(3, 3)], [], [], [(3, 3)]),
        ([], [(0, 9)], [], []),
    ],
)
def test_intersection_and_difference_of(a: Pairs, b: Pairs, both: Pairs, only_a: Pairs) -> None:
    assert pairs(intersection(columns(a), columns(b))) == both
    assert pairs(difference(columns(a), columns(b))) == only_a


def test_union_takes_lists_that_are_not_merged() -> None:
    assert pairs(union(columns([(5, 9), (0, 2)]), columns([(1, 3), (9, 7)]))) == [(0, 3), (5, 9)]


def test_merge_leaves_its_input_alone() -> None:
    starts, ends = columns([(5, 1), (0, 2)])
    merge(starts, ends)
    assert (starts.tolist(), ends.tolist()) == ([5, 0], [1, 2])


def test_reversed_ranges_are_counted_and_cover_nothing() -> None:
    ranges = columns([(10, 4), (0, 2), (5, 5), (9, 8)])
    assert count_reversed(*ranges) == 2
    assert union_length(*ranges) == 2


def test_all_of_int64_is_measured_exactly() -> None:
    low, high = -(1 << 63), (1 << 63) - 1
    assert union_length(*columns([(low, 5), (0, high)])) == (1 << 64) - 1
    assert length(columns([(low, -1), (1, high)])) == (1 << 64) - 3


def test_neighbouring_ns_of_epoch_times_stay_apart() -> None:
    base = 1_700_000_000_000_000_001
    ranges = [(base, base + 1), (base + 2, base + 3)]
    assert pairs(merge(*columns(ranges))) == ranges


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20), st.integers(-3, 9)), max_size=25), BASES)
def test_union_by_group_is_the_union_of_each_group(rows: list[tuple[int, int, int]], base: int) -> None:
    ranges = [(base + start + 4, base + start + 4 + size) for _, start, size in rows]
    codes = np.array([group for group, _, _ in rows], np.int32)
    expected = [slow_length([r for r, row in zip(ranges, rows, strict=True) if row[0] == group]) for group in range(6)]
    found = union_length_by(codes, 6, *columns(ranges))
    assert found.tolist() == expected
    assert found.dtype == np.int64


def test_union_by_group_keeps_far_apart_groups_exact() -> None:
    low, high = -(1 << 62), (1 << 62) - 1
    found = union_length_by(np.array([1, 0, 1, 0]), 2, *columns([(low, -1), (high - 3, high), (-5, high), (low, low)]))
    assert found.tolist() == [3, (1 << 63) - 1]


def test_union_by_no_group_is_empty() -> None:
    none = np.array([], np.int64)
    assert union_length_by(none, 0, none, none).tolist() == []


def test_a_group_that_covers_more_than_int64_is_an_error() -> None:
    with pytest.raises(OverflowError, match="exceeds int64"):
        union_length_by(np.array([0]), 1, *columns([(-(1 << 62), 1 << 62)]))


@settings(max_examples=400)
@given(two_lists())
def test_intersection_and_difference_equal_pairwise_loops(lists: tuple[Pairs, Pairs]) -> None:
    a, b = (slow_merge(ranges) for ranges in lists)
    assert pairs(intersection(columns(a), columns(b))) == slow_intersection(a, b)
    assert pairs(difference(columns(a), columns(b))) == slow_difference(a, b)


@settings(max_examples=200)
@given(two_lists())
def test_results_are_merged_again(lists: tuple[Pairs, Pairs]) -> None:
    a, b = (merge(*columns(ranges)) for ranges in lists)
    for result in (intersection(a, b), difference(a, b), union(a, b)):
        assert slow_merge(pairs(result)) == pairs(result)


@settings(max_examples=200)
@given(two_lists())
def test_identities_of_the_interval_algebra(lists: tuple[Pairs, Pairs]) -> None:
    a, b = (merge(*columns(ranges)) for ranges in lists)
    both = intersection(a, b)
    assert length(union(a, b)) == length(a) + length(b) - length(both)
    assert length(difference(a, b)) == length(a) - length(both)
    assert pairs(both) == pairs(intersection(b, a))
    assert pairs(intersection(a, a)) == pairs(a) == pairs(union(a, a))
    assert pairs(difference(a, a)) == []
    assert pairs(difference(a, columns([]))) == pairs(a)


@settings(max_examples=200)
@given(two_lists(), RANGES, st.integers(0, 30), st.integers(0, 20))
def test_the_partition_of_a_timeline_adds_up(
    lists: tuple[Pairs, Pairs], third: Pairs, low_offset: int, width: int
) -> None:
    origin = min((start for ranges in lists for start, _ in ranges), default=0)
    low, high = (min(origin + offset, (1 << 63) - 1) for offset in (low_offset, low_offset + width))
    moved = [(min(origin + start, (1 << 63) - 20), min(origin + start + size, (1 << 63) - 1)) for start, size in third]
    comp, comm, copies = (merge(*clip(merge(*columns(ranges)), low, high)) for ranges in (*lists, moved))
    busy = union(union(comp, comm), copies)
    idle = length(gaps(busy, low, high))
    exposed_comm = length(difference(comm, comp))
    exposed_copies = length(difference(copies, union(comp, comm)))
    assert length(busy) + idle == max(high - low, 0)
    assert length(comp) + exposed_comm + exposed_copies + idle == max(high - low, 0)


@settings(max_examples=300)
@given(LISTS, st.integers(-3, 40), st.integers(-5, 40))
def test_gaps_and_clip_equal_loops(ranges: Pairs, low_offset: int, width: int) -> None:
    origin = min((start for start, _ in ranges), default=0)
    low = min(max(origin + low_offset, -(1 << 63)), (1 << 63) - 1)
    high = min(max(low + width, -(1 << 63)), (1 << 63) - 1)
    merged = slow_merge(ranges)
    expected_gaps = slow_difference([(low, high)], merged) if low < high else []
    assert pairs(gaps(columns(merged), low, high)) == expected_gaps
    expected = []
    for start, end in ranges:
        end = max(start, end)
        if max(start, low) < min(end, high) or (start == end and low <= start <= high):
            expected.append((max(start, low), min(end, high)))
    assert pairs(clip(columns(ranges), low, high)) == expected


def test_a_range_that_only_touches_a_window_is_clipped_away() -> None:
    assert pairs(clip(columns([(0, 5), (9, 12), (5, 5)]), 5, 9)) == [(5, 5)]


@settings(max_examples=200)
@given(LISTS, st.lists(st.integers(-3, 45), max_size=8))
def test_coverage_is_the_length_inside_each_bin(ranges: Pairs, offsets: list[int]) -> None:
    origin = min((start for start, _ in ranges), default=0)
    edges = sorted(min(max(origin + offset, -(1 << 63)), (1 << 63) - 1) for offset in offsets)
    merged = slow_merge(ranges)
    expected = [sum(max(0, min(end, high) - max(start, low)) for start, end in merged) for low, high in pairwise(edges)]
    assert coverage(*columns(merged), np.array(edges, np.int64)).tolist() == expected


def test_coverage_of_bins_around_everything_adds_up_to_the_length() -> None:
    ranges = columns([(-(1 << 62), -5), (3, (1 << 62) - 1)])
    edges = np.array([-(1 << 62), -7, 4, (1 << 62) - 1])
    assert coverage(*ranges, edges).tolist() == [(1 << 62) - 7, 3, (1 << 62) - 5]


def test_a_bin_that_holds_more_than_int64_is_an_error() -> None:
    low, high = -(1 << 62), 1 << 62
    with pytest.raises(OverflowError, match="exceeds int64"):
        coverage(*columns([(low, high)]), np.array([low, high]))


def test_edges_that_descend_are_refused() -> None:
    with pytest.raises(ValueError, match="edges must ascend"):
        coverage(*columns([(0, 1)]), np.array([5, 3]))


@pytest.mark.parametrize("bad", [[(5, 9), (0, 2)], [(0, 5), (5, 9)], [(0, 5), (3, 9)], [(5, 3)]])
def test_ranges_that_are_not_merged_are_refused(bad: Pairs) -> None:
    good, wrong = columns([(0, 1)]), columns(bad)
    calls = [
        lambda: intersection(good, wrong),
        lambda: intersection(wrong, good),
        lambda: difference(good, wrong),
        lambda: difference(wrong, good),
        lambda: gaps(wrong, 0, 9),
        lambda: length(wrong),
        lambda: coverage(*wrong, np.array([0, 9])),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="merged ranges are needed"):
            call()


def test_floats_and_different_lengths_are_refused() -> None:
    with pytest.raises(TypeError, match="starts"):
        merge(np.array([1.5]), np.array([2]))
    with pytest.raises(ValueError, match="starts has 1, ends has 2"):
        union_length(np.array([1]), np.array([2, 3]))
    with pytest.raises(ValueError, match="codes has 2, starts has 1"):
        union_length_by(np.array([0, 0]), 1, np.array([1]), np.array([2]))
