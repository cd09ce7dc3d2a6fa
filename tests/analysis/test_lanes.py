from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_limits import Limit, small

from tracekit.analysis.lanes import LaneAssigner

Rows: TypeAlias = list[tuple[int, int, int]]  # lane, start, dur

BASES = st.sampled_from([0, -30, 1_700_000_000_000_000_000, 1 << 62, -(1 << 62)])
LANES = st.sampled_from([0, 1, 2, -7, 1 << 40])


@st.composite
def rows_in_order(draw: st.DrawFn) -> Rows:
    base, longest = draw(BASES), draw(st.sampled_from([3, 12, 60]))
    rows = draw(st.lists(st.tuples(LANES, st.integers(0, 60), st.integers(-1, longest)), max_size=60))
    return sorted(((lane, base + start, dur) for lane, start, dur in rows), key=lambda row: (row[1], -row[2]))


def assign(assigner: LaneAssigner, rows: Rows) -> list[int]:
    lanes, starts, durs = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    return assigner.assign(lanes, starts, durs).tolist()


def slow_assign(rows: Rows) -> list[int]:
    """First fit, read aloud: tracks are tried in turn, each is a list of all its slices."""
    tracks: dict[int, list[Rows]] = defaultdict(list)
    placed = []
    for lane, start, dur in rows:
        end = start + max(dur, 0)
        for extra in range(len(tracks[lane]) + 1):
            if extra == len(tracks[lane]):
                tracks[lane].append([])
            open_ends = [last for _, first, last in tracks[lane][extra] if first <= start < last]
            if all(end <= last for last in open_ends):
                tracks[lane][extra].append((lane, start, end))
                placed.append(extra)
                break
    return placed


@settings(max_examples=400)
@given(rows_in_order(), st.lists(st.integers(0, 60), max_size=6))
def test_any_cut_into_batches_gives_the_first_fit(rows: Rows, cuts: list[int]) -> None:
    assigner = LaneAssigner()
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    found = [extra for low, high in pairwise(bounds) for extra in assign(assigner, rows[low:high])]
    assert found == slow_assign(rows)


@pytest.mark.parametrize("seed", range(10))
def test_many_slices_at_once_give_the_first_fit_too(seed: int) -> None:
    """Waves of slices of which each crosses most others, and many begin where another one ends."""
    chance = random.Random(seed)
    rows = []
    for wave in range(4):
        for n in range(40):
            start, end = 160 * wave + 4 * n, 160 * (wave + 1) + 4 * chance.randrange(40)
            rows.append((0, start, end - start))
    found = assign(LaneAssigner(), rows)
    assert found == slow_assign(rows)
    assert max(found) > 16


@pytest.mark.parametrize("few", [0, 1, 16])
def test_the_first_fit_is_found_in_the_tree_of_tracks_too(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices in any order of their lengths, on tracks of which all, or all but one, are in the tree."""
    small(monkeypatch, Limit.FEW_LANES, few)
    for seed in range(60):
        chance = random.Random(seed)
        span, longest = chance.choice([(6, 6), (20, 12), (60, 40)])
        rows = [
            (chance.choice((0, 0, 0, 5)), chance.randrange(-span, span), chance.randrange(-1, longest))
            for _ in range(chance.choice((12, 50)))
        ]
        rows.sort(key=lambda row: row[1])
        cut, assigner = chance.randrange(len(rows)), LaneAssigner()
        assert assign(assigner, rows[:cut]) + assign(assigner, rows[cut:]) == slow_assign(rows), seed


def test_a_track_beyond_the_first_ones_is_free_again_where_its_slice_ends() -> None:
    crowd = [*((n, 100 + n) for n in range(17)), (50, 140), (51, 150), *((120 + n, 300 + n) for n in range(17))]
    rows = [(0, start, end - start) for start, end in (*crowd, (140, 400))]
    rows.sort(key=lambda row: row[1])
    assert assign(LaneAssigner(), rows) == slow_assign(rows)
    assert slow_assign(rows)[-1] == 17


def test_a_track_beyond_the_first_ones_whose_inner_slice_ended_may_still_be_crossed() -> None:
    """Track 17 holds [50, 140) and in it [60, 130), which is over at 137: what is left has no room for [137, 400)."""
    crowd = [*((n, 100 + n) for n in range(17)), (50, 140), (60, 130), *((120 + n, 300 + n) for n in range(17))]
    rows = [(0, start, end - start) for start, end in (*crowd, (137, 400), (138, 139))]
    assert assign(LaneAssigner(), rows) == slow_assign(rows)
    assert slow_assign(rows)[-2] == 18


@settings(max_examples=200)
@given(rows_in_order())
def test_slices_of_one_track_are_nested_or_disjoint(rows: Rows) -> None:
    tracks = defaultdict(list)
    for (lane, start, dur), extra in zip(rows, assign(LaneAssigner(), rows), strict=True):
        tracks[lane, extra].append((start, start + max(dur, 0)))
    assert not any(a < c < b < d for ranges in tracks.values() for a, b in ranges for c, d in ranges)


@settings(max_examples=100)
@given(rows_in_order())
def test_a_lane_that_is_properly_nested_keeps_its_one_track(rows: Rows) -> None:
    extras = assign(LaneAssigner(), rows)
    for lane in {row[0] for row in rows}:
        ranges = [(start, start + max(dur, 0)) for code, start, dur in rows if code == lane]
        partial = any(a < c < b < d for a, b in ranges for c, d in ranges)
        assert partial == any(extra for row, extra in zip(rows, extras, strict=True) if row[0] == lane)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 400), min_size=30, max_size=120))
def test_crowds_of_overlapping_slices_get_the_first_fit(durs: list[int]) -> None:
    rows = [(0, 3 * at, dur) for at, dur in enumerate(durs)]
    assert assign(LaneAssigner(), rows) == slow_assign(rows)


def test_slices_that_follow_each_other_stay_on_their_lane_over_batches() -> None:
    assigner = LaneAssigner()
    assert assign(assigner, [(0, 0, 10), (1, 5, 10), (0, 10, 5)]) == [0, 0, 0]
    assert assign(assigner, [(0, 15, 5), (1, 15, 1)]) == [0, 0]


def test_a_slice_that_is_open_from_an_earlier_batch_holds_or_crosses_later_ones() -> None:
    assigner = LaneAssigner()
    assert assign(assigner, [(0, 0, 100)]) == [0]
    assert assign(assigner, [(0, 10, 20), (0, 15, 5)]) == [0, 0]
    assert assign(assigner, [(0, 90, 20)]) == [1]
    assert assign(assigner, [(0, 95, 5), (0, 99, 30)]) == [0, 2]
    assert assign(assigner, [(0, 110, 10)]) == [0]


def test_what_an_earlier_batch_left_open_is_crossed_also_where_later_slices_are_alone() -> None:
    assigner = LaneAssigner()
    assert assign(assigner, [(0, 0, 10), (0, 2, 3), (0, 12, 100)]) == [0, 0, 0]
    assert assign(assigner, [(0, 50, 100), (0, 200, 1), (0, 300, 1)]) == [1, 0, 0]


def test_an_instant_ends_nothing_that_an_earlier_batch_left_open() -> None:
    assigner = LaneAssigner()
    assert assign(assigner, [(0, 0, 100)]) == [0]
    rows = [(0, 10, 5), (0, 12, 8), (0, 20, 0), (0, 30, 100), (0, 200, 0), (0, 210, 5)]
    assert assign(assigner, rows) == [0, 1, 0, 1, 0, 0] == slow_assign([(0, 0, 100), *rows])[1:]


def test_an_instant_between_crossing_slices_changes_nothing() -> None:
    rows = [(0, 0, 10), (0, 5, 10), (0, 20, 0), (0, 21, 50), (0, 30, 60)]
    assert assign(LaneAssigner(), rows) == slow_assign(rows) == [0, 1, 0, 0, 1]


def test_a_slice_may_cross_an_outer_open_slice_after_the_inner_one_has_ended() -> None:
    assigner = LaneAssigner()
    assert assign(assigner, [(0, 0, 100), (0, 10, 10)]) == [0, 0]
    assert assign(assigner, [(0, 15, 3), (0, 50, 100)]) == [0, 1]


def test_of_equal_starts_the_longer_first_nests_and_the_shorter_first_is_not_lost() -> None:
    assert assign(LaneAssigner(), [(0, 0, 9), (0, 0, 5)]) == [0, 0]
    assert assign(LaneAssigner(), [(0, 0, 5), (0, 0, 9)]) == [0, 1]


def test_instants_fit_anywhere() -> None:
    rows = [(0, 0, 10), (0, 5, 10), (0, 7, 0), (0, 10, 0), (0, 10, -4), (0, 12, 0)]
    assert assign(LaneAssigner(), rows) == [0, 1, 0, 0, 0, 0]


def test_tracks_are_used_again() -> None:
    rows = [(0, 0, 10), (0, 5, 10), (0, 8, 10), (0, 10, 3), (0, 15, 2), (0, 16, 20), (0, 17, 4)]
    assert assign(LaneAssigner(), rows) == [0, 1, 2, 0, 0, 1, 0]


def test_a_track_that_has_room_below_a_slice_that_ended_is_found_again() -> None:
    # Track 1 holds [4, 30) and in it [5, 8): at 9 the inner one is over, and what is left has no room for [9, 40).
    rows = [(0, 0, 6), (0, 4, 26), (0, 5, 3), (0, 8, 30), (0, 9, 31), (0, 10, 20)]
    assert assign(LaneAssigner(), rows) == slow_assign(rows)


def test_a_thousand_slices_that_all_cross_get_a_track_each() -> None:
    n = 1000
    assert assign(LaneAssigner(), [(0, at, n) for at in range(n)]) == list(range(n))


def test_crowds_around_time_zero_get_the_first_fit() -> None:
    rows = [(0, start, 9) for start in range(-12, 12, 2)]
    assert assign(LaneAssigner(), rows) == slow_assign(rows)


def test_no_rows_are_no_error() -> None:
    assert assign(LaneAssigner(), []) == []


def test_starts_that_descend_are_refused_within_a_batch_and_between_two() -> None:
    with pytest.raises(ValueError, match="in order of start"):
        assign(LaneAssigner(), [(0, 5, 1), (0, 4, 1)])
    assigner = LaneAssigner()
    assign(assigner, [(0, 5, 1)])
    with pytest.raises(ValueError, match="in order of start"):
        assign(assigner, [(1, 4, 1)])


def test_a_slice_that_ends_beyond_int64_is_an_error_and_changes_nothing() -> None:
    assigner = LaneAssigner()
    with pytest.raises(OverflowError, match="beyond int64"):
        assign(assigner, [(0, 0, 50), (0, 1 << 62, 1 << 62)])
    assert assign(assigner, [(0, -5, 10), (0, 0, 9)]) == [0, 1]


def test_columns_are_checked() -> None:
    one, two = np.array([1]), np.array([1, 2])
    with pytest.raises(ValueError, match="lane_codes has 1, starts has 2, durs has 2"):
        LaneAssigner().assign(one, two, two)
    with pytest.raises(TypeError, match="durs"):
        LaneAssigner().assign(one, one, np.array([0.5]))
