"""Ranges that last over whole later ones of their lane, against a plain loop over all pairs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from analysis.plain_covers import plain_covers
from hypothesis import given
from hypothesis import strategies as st
from small_limits import Limit, small

from tracekit.analysis.covered import Covers, CoverSearch, covers


def found(rows: list[tuple[int, int]], lanes: object = None, names: object = None, launches: object = None) -> Covers:
    """The result for rows of (start, duration), which are of one lane if none is named."""
    starts, durations = np.array(rows, np.int64).reshape(-1, 2).T
    zeros = np.zeros(starts.size, np.int64)
    given = [zeros if each is None else np.array(each, np.int64) for each in (lanes, names)]
    return covers(given[0], starts, durations, given[1], zeros - 1 if launches is None else np.array(launches))


def in_order(count: int, length: int = 7, pause: int = 3) -> list[tuple[int, int]]:
    return [(101 + n * (length + pause), length) for n in range(count)]


@pytest.mark.parametrize("last", [False, True])
def test_one_range_over_many_is_found_wherever_it_stands_in_the_arrays(last: bool) -> None:
    rows = in_order(60)
    place, long = (60, 60) if last else (0, 0)
    rows.insert(place, (rows[20][0] + 8, 10**9))
    got = found(rows)
    assert (got.rows.tolist(), got.counts.tolist()) == ([long], [39])


def test_two_within_are_needed() -> None:
    assert found([(101, 7), (111, 12), (113, 7), (130, 7)]).rows.tolist() == []
    assert found([(101, 7), (111, 22), (113, 7), (122, 7), (140, 7)]).rows.tolist() == [1]


def test_work_that_begins_a_little_early_is_none() -> None:
    """Programmatic dependent launch: each kernel begins before the one before has ended."""
    assert found(in_order(500, length=10, pause=-3)).rows.size == 0


def test_what_begins_with_it_or_takes_no_time_does_not_count() -> None:
    assert found([(101, 50), (101, 7), (101, 9)]).rows.size == 0
    assert found([(101, 50), (110, 0), (120, 0), (130, 0)]).rows.size == 0


def test_each_of_several_is_found_one_inside_the_other_too() -> None:
    rows = in_order(100)
    rows += [(rows[10][0] + 8, 10**8), (rows[50][0] + 8, 10**6), (rows[97][0] + 8, 50)]
    assert found(rows).rows.tolist() == [100, 101, 102]


def test_a_lane_on_which_ranges_nest_has_none() -> None:
    rows = [(101 + 100 * n, 90) for n in range(30)] + [(105 + 100 * n + 20 * k, 7) for n in range(30) for k in range(4)]
    assert found(rows).rows.size == 0


def test_a_lane_that_nests_changes_other_lanes_by_the_habits_of_names_alone() -> None:
    nested = [(101 + 100 * n, 90) for n in range(30)] + [
        (105 + 100 * n + 20 * k, 7) for n in range(30) for k in range(4)
    ]
    plain = [*in_order(60), (105, 10**9)]
    lanes = [3] * len(nested) + [70_000] * len(plain)
    long = len(nested) + len(plain) - 1
    others = [1] * (len(plain) - 1)
    assert found(nested + plain, lanes, [9] * 30 + [2] * 120 + [*others, 500]).rows.tolist() == [long]
    # The frames have the name of the long range, too, and all calls of it last over others.
    assert found(nested + plain, lanes, [9] * 30 + [2] * 120 + [*others, 9]).rows.tolist() == []


def test_a_name_that_frames_others_in_all_its_calls_is_none() -> None:
    frames = [(101 + 1000 * n, 990) for n in range(5)]
    rows = frames + [(103 + 1000 * n + 9 * k, 7) for n in range(5) for k in range(100)]
    assert found(rows, names=[1] * 5 + [0] * 500).rows.size == 0
    assert found(rows, names=[1, 2, 3, 4, 5] + [0] * 500).rows.tolist() == [0, 1, 2, 3, 4]


def test_ranges_of_one_launch_may_run_side_by_side() -> None:
    rows = [(101, 900), *((103 + 10 * n, 7) for n in range(20))]
    assert found(rows, launches=[5] * 21).rows.size == 0
    assert found(rows, launches=range(1, 22)).rows.tolist() == [0]


def test_rounded_starts_prove_nothing() -> None:
    """In a table with starts in whole ms, several short kernels seem to lie in the one before."""
    rows = [(1_000_000 * n, 1_900_001) for n in range(1000, 1100)]
    short = [(1_000_000 * n + 1_000_000, 3_001) for n in range(1000, 1100, 50) for _ in range(3)]
    assert found(rows + short).rows.size == 0


def test_it_is_the_same_as_a_loop_over_all_pairs() -> None:
    """One long range in lanes that are in order otherwise."""
    random = np.random.default_rng(7)
    for _ in range(200):
        lanes = int(random.integers(1, 4))
        rows, lane = [], []
        for each in range(lanes):
            ends = np.cumsum(random.integers(3, 30, size=2 * int(random.integers(2, 60))))
            rows += [(int(a), int(b - a)) for a, b in zip(ends[::2], ends[1::2], strict=True)]
            lane += [each] * (ends.size // 2)
        long = int(random.integers(len(rows)))
        rows[long] = rows[long][0], int(random.integers(1, 2000))
        order = random.permutation(len(rows))
        rows, lane = [rows[n] for n in order], [lane[n] for n in order]
        start, length = rows[order.tolist().index(long)]
        own = lane[order.tolist().index(long)]
        within = sum(
            one == own and first > start and first + size <= start + length
            for (first, size), one in zip(rows, lane, strict=True)
        )
        got = found(rows, lanes=lane)
        assert got.rows.tolist() == ([order.tolist().index(long)] if within >= 2 else [])
        assert got.counts.tolist() == ([within] if within >= 2 else [])


@pytest.fixture(params=["one window", "small windows"])
def windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "small windows":
        for limit, value in {
            Limit.COVERED_STRIDE: 1,
            Limit.COVERED_WINDOW_RANGES: 5,
            Limit.COVERED_WINDOWS: 99,
        }.items():
            small(monkeypatch, limit, value)
    return str(request.param)


@pytest.mark.usefixtures("windows")
@given(st.data())
def test_wherever_parts_are_cut_the_same_is_found_as_in_whole_columns(data: st.DataObject) -> None:
    """Lanes that are in order but for some long ranges and rows out of place; times that were rounded or not."""
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    lanes, size = int(random.choice([1, 2, 12])), int(random.integers(1, 400))
    unit = int(random.choice([1, 1, 10, 1000, 100_000]))
    lane = random.integers(lanes, size=size)
    gaps = random.integers(1, 30, size=size)
    starts = (np.cumsum(gaps) + int(random.choice([0, 101, -300, 10**15]))) * unit
    lengths = random.integers(0, 1 + np.int64(data.draw(st.sampled_from([2, 10, 40]))), size=size) * unit
    for row in random.integers(size, size=int(random.integers(0, 6))).tolist():
        lengths[row] = int(random.integers(1, 4000)) * unit
    for row in random.integers(size, size=int(random.integers(0, 5))).tolist():
        starts[row] -= int(random.integers(1, 500)) * unit
    if data.draw(st.booleans()):
        order = random.permutation(size)
        lane, starts, lengths = lane[order], starts[order], lengths[order]
    names = random.integers(int(random.choice([1, 5, 300])), size=size)
    launches = np.where(random.random(size) < 0.5, -1, random.integers(size, size=size))
    groups = lane % 3
    wanted = data.draw(st.sets(st.integers(0, 2)))
    cuts = [0, *sorted(random.integers(size, size=int(random.integers(0, 8))).tolist()), size]
    search = CoverSearch()
    for begin, end in pairwise(cuts):
        columns = (column[begin:end] for column in (lane, starts, lengths, names, launches, groups))
        search.take(*columns)
    got = search.covers(wanted)
    known = np.flatnonzero(np.isin(groups, list(wanted)))
    expected = plain_covers(*(column[known] for column in (lane, starts, lengths, names, launches)))
    assert (got.rows.tolist(), got.counts.tolist()) == (known[expected.rows].tolist(), expected.counts.tolist())
    assert [each.tolist() for each in search.at(got.rows)[:3]] == [
        column[got.rows].tolist() for column in (lane, starts, lengths)
    ]


def test_nothing_is_found_in_nothing() -> None:
    assert found([]).rows.size == 0
    assert found([(5, 5)]).rows.size == 0


def test_a_million_ranges_of_thousands_of_lanes_take_no_loop() -> None:
    count = 1_000_000
    starts = np.arange(count, dtype=np.int64) * 11 + 1
    lanes = np.arange(count, dtype=np.int64) % 4000
    durations = np.full(count, 7, np.int64)
    durations[5000] = 10**12
    got = covers(lanes, starts, durations, lanes * 0, lanes * 0 - 1)
    assert (got.rows.tolist(), got.counts.tolist()) == ([5000], [248])
