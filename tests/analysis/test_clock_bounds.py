from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tracekit.analysis.clocks import bounds
from tracekit.analysis.clocks.bounds import OPEN, solve

BASE = 1_790_000_000_000_000_000
LIMITS = st.lists(st.tuples(st.integers(0, 40), st.integers(-60, 60), st.integers(0, 50)), min_size=2, max_size=9)


def by_force(rows: list[tuple[int, int, int]], steepest: float) -> tuple[float, float, float, float] | None:
    """Least and greatest height at the middle and slope, from all lines through two corners, of all limits."""
    times = [t for t, _, _ in rows]
    middle = min(times) + (max(times) - min(times)) // 2
    corners = [(t - middle, y) for t, low, width in rows for y in (low, low + width)]
    slopes = {(b - a) / (s - t) for (t, a), (s, b) in combinations(corners, 2) if s != t}
    slopes = {each for each in slopes if abs(each) <= steepest} | {-steepest, steepest, 0.0}
    fits = []
    for slope in slopes:
        low = max(low - slope * (t - middle) for t, low, _ in rows)
        high = min(low + width - slope * (t - middle) for t, low, width in rows)
        if low <= high + 1e-9:
            fits.append((low, high, slope))
    if not fits:
        return None
    return min(f[0] for f in fits), max(f[1] for f in fits), min(f[2] for f in fits), max(f[2] for f in fits)


@settings(max_examples=300, deadline=None)
@given(LIMITS, st.sampled_from([0.0, 0.5, 3.0]))
@example([(0, 0, 0), (40, 4, 96)], 3.0)
def test_the_answer_is_that_of_all_corners(rows: list[tuple[int, int, int]], steepest: float) -> None:
    times, low, width = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    found = solve(BASE + times, low, low + width, steepest=steepest)
    want = by_force(rows, steepest)
    if want is None:
        assert found is None
        return
    assert found is not None
    assert found.steady == (found.steady_low <= found.steady_high)
    assert (found.steady_low, found.steady_high) == (int(low.max()), int((low + width).min()))
    assert (found.first, found.last, found.count) == (BASE + times.min(), BASE + times.max(), times.size)
    inside = found.inside + (found.slowest + found.fastest) / 2 * (BASE + times - found.middle)
    assert (inside >= low - 0.51).all()
    assert (inside <= low + width + 0.51).all()
    if times.min() == times.max():
        assert (found.low, found.high) == (int(low.max()), int((low + width).min()))
        return
    assert found.middle == BASE + times.min() + (times.max() - times.min()) // 2
    assert found.low == pytest.approx(want[0], abs=1.01)
    assert found.high == pytest.approx(want[1], abs=1.01)
    assert found.low <= want[0] + 1e-6
    assert found.high >= want[1] - 1e-6
    assert (found.slowest, found.fastest) == pytest.approx(want[2:], abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1_000_000), st.integers(2, 3_000))
def test_the_truth_is_never_outside_however_many_limits_there_are(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    times = BASE + rng.integers(0, 60_000_000_000, count)
    drift = rng.uniform(-50e-6, 50e-6)
    ahead = rng.integers(-(10**10), 10**10) + np.rint(drift * (times - BASE)).astype(np.int64)
    low, high = (ahead + sign * rng.integers(1, 100_000, count) for sign in (-1, 1))
    found = solve(times, low, high)
    assert found is not None
    at_middle = int(ahead[0] + np.rint(drift * (found.middle - int(times[0]))))
    assert found.low <= at_middle <= found.high
    assert found.slowest <= drift <= found.fastest
    assert found.count == count


def test_of_many_limits_the_strictest_of_each_part_of_the_time_are_left() -> None:
    times = BASE + np.arange(12_800) * 1_000
    limits = np.arange(12_800) * 7 % 12_800
    for begin in (0, -6_400_000, 10**12):
        x, y = bounds._strictest(times - BASE + begin, limits, np.ones(12_800, np.bool_))
        assert y.tolist() == limits.reshape(128, 100).max(axis=1).tolist()
        assert ((x - begin) // 100_000).tolist() == list(range(128))


def test_of_few_limits_none_is_left_out() -> None:
    """The first two are within a 128th of the time. The steepest lines touch the first, not the second."""
    found = solve(BASE + np.array([0, 15, 2000]), np.zeros(3, np.int64), np.full(3, 5000), steepest=10.0)
    assert found is not None
    assert (found.slowest, found.fastest) == pytest.approx((-2.5, 2.5), abs=1e-9)
    assert (found.low, found.high) == (0, 5000)


def test_of_exactly_as_many_limits_as_parts_none_is_left_out() -> None:
    """Two of them are in one part of the time: the less strict one still counts, as it is at another time."""
    times = np.append(np.arange(127) * 1_000, 10)
    low = np.append(np.zeros(127, np.int64), -1)
    low[0] = -3
    x, y = bounds._strictest(times, low, np.ones(128, np.bool_))
    assert (x[:2].tolist(), y[:2].tolist(), x.size) == ([0, 10], [-3, -1], 128)


@pytest.mark.parametrize("ahead", [-BASE, BASE])
def test_a_clock_that_begins_at_the_boot_is_found_as_exactly_as_one_of_unix_time(ahead: int) -> None:
    """Floats of such an offset have steps of 256 ns."""
    times, low, high = np.array([0, 40, 1_000_000]), np.array([0, 1, 40]), np.array([9, 90, 49])
    near, far = solve(times, low, high), solve(times, ahead + low, ahead + high)
    assert near is not None
    assert far is not None
    assert (far.low - ahead, far.high - ahead, far.inside - ahead) == (near.low, near.high, near.inside)
    assert (far.slowest, far.fastest) == (near.slowest, near.fastest)


def test_contradictions_have_no_answer_but_for_the_slack() -> None:
    times, low, high = np.array([0, 5, 10]), np.array([0, 30, 0]), np.array([1, 40, 1])
    assert solve(times, low, high, steepest=10.0) is None
    assert solve(times, low, high, 15, steepest=10.0) is not None
    assert solve(np.array([7, 7]), np.array([5, 0]), np.array([9, 4])) is None
    assert solve(*[np.zeros(0, np.int64)] * 3) is None


def test_limits_of_one_side_leave_the_other_open() -> None:
    found = solve(np.array([0, 10]), np.array([3, 5]), np.array([OPEN, OPEN]))
    assert found is not None
    # In the 5 ns to the middle a clock may have gained one.
    assert (found.low, found.high, found.steady) == (4, OPEN, True)
    assert (found.steady_low, found.steady_high) == (5, OPEN)


@pytest.mark.parametrize("slack", [0, 3])
def test_a_side_without_limits_stays_open_whatever_the_slack(slack: int) -> None:
    times, known, unknown = BASE + np.array([0, 10, 20]), np.array([3, 4, 5]), np.full(3, OPEN)
    below, above = solve(times, known, unknown, slack), solve(times, -unknown, -known, slack)
    assert below is not None
    assert above is not None
    # In the 10 ns to the middle a clock may have gained one.
    assert (below.low, below.high, below.steady_low, below.steady_high) == (4 - slack, OPEN, 5 - slack, OPEN)
    assert (above.low, above.high, above.steady_low, above.steady_high) == (-OPEN, slack - 4, -OPEN, slack - 5)
    assert (below.inside, above.inside) == (0, 0)
    assert (below.slowest, below.fastest) == (-2e-4, 2e-4)
    assert (below.first, below.last, below.count) == (BASE, BASE + 20, 3)


def test_where_one_side_is_known_at_some_times_only_the_others_leave_it_open() -> None:
    """Launches limit the clock of a device from one side, waits from the other."""
    times = np.array([0, 10, 20, 30])
    low, high = np.array([-OPEN, 2, -OPEN, 4]), np.array([9, OPEN, 7, OPEN])
    known = [solve(times[sides], low[sides], high[sides], 1, steepest=1.0) for sides in ([0, 1, 2, 3], [1, 0, 3, 2])]
    for found in known:
        assert found is not None
        assert (found.steady_low, found.steady_high, found.steady) == (3, 8, True)
        assert found == known[0]
    assert known[0] is not None
    # At 15 the line through the lower limits is at 1.5, that through the upper ones at 8.5.
    assert (known[0].low, known[0].high) == (1, 9)
    assert (known[0].slowest, known[0].fastest) == pytest.approx((-7 / 30, 0.7))


def test_a_drift_is_needed_where_no_offset_alone_does() -> None:
    found = solve(np.array([0, 1_000_000]), np.array([0, 40]), np.array([9, 49]))
    assert found is not None
    assert not found.steady
    assert (found.low, found.high) == (20, 29)
    assert found.slowest == pytest.approx(31e-6)
    assert found.fastest == pytest.approx(49e-6)
