from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.analysis.clocks import line as module
from tracekit.analysis.clocks.line import LEAST, LEAST_FOR_DRIFT, ClockLine, fit, limit, robust

BASE = 1_790_000_000_000_000_000


def line(*, offset: int = 0, drift: float = 0.0, middle: int = BASE) -> ClockLine:
    return ClockLine(offset, drift, middle, 1, 0.0, 1, BASE, BASE, 1)


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**12), 10**12), st.floats(-2e-4, 2e-4), st.lists(st.integers(0, 10**13), max_size=20))
def test_corrected_times_keep_their_order_and_are_the_references(offset: int, drift: float, since: list[int]) -> None:
    clock = line(offset=offset, drift=drift, middle=BASE + 10**12)
    times = BASE + np.sort(np.array(since, np.int64))
    shown = times + clock.ahead(times)
    back = clock.corrected(shown)
    assert np.abs(back - times).max(initial=0) <= 1
    assert (np.diff(back) >= 0).all()
    dense = BASE + np.arange(3_000)
    assert set(np.diff(clock.corrected(dense))) <= {0, 1, 2}


def test_an_exact_line_is_found_to_the_ns() -> None:
    times = BASE + np.arange(0, 60_000_000_000, 100_000_000)
    apart = 4_000_000_000 + np.rint(50e-6 * (times - BASE)).astype(np.int64)
    found = fit(times, apart)
    assert found is not None
    assert found.drift == pytest.approx(50e-6, abs=1e-12)
    assert np.abs(found.ahead(times) - apart).max() <= 1
    assert found.uncertainty <= 2
    assert found.at_middle == 1
    assert (found.first, found.last, found.count) == (times[0], times[-1], times.size)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_late_ends_do_not_move_the_line(share: float) -> None:
    rng = np.random.default_rng(3)
    times = BASE + np.sort(rng.integers(0, 60_000_000_000, 500))
    apart = np.rint(-7e9 + 20e-6 * (times - BASE) + rng.normal(0, 2_000, 500)).astype(np.int64)
    apart += (rng.random(500) < share) * rng.integers(50_000, 5_000_000, 500) * rng.choice([-1, 1], 500)
    found = fit(times, apart)
    assert found is not None
    truth = np.rint(-7e9 + 20e-6 * (times - BASE)).astype(np.int64)
    assert np.abs(found.ahead(times) - truth).max() <= found.uncertainty <= 2_000
    assert abs(found.drift - 20e-6) <= found.in_drift


def test_how_far_a_seventh_of_the_ends_is_late_does_not_move_the_line() -> None:
    """All of them at the end of the run, where they pull most."""
    times = BASE + np.arange(100) * 100_000_000
    apart = np.rint(20e-6 * (times - BASE) + np.random.default_rng(1).normal(0, 2_000, 100)).astype(np.int64)
    near, far = (fit(times, apart + late * (np.arange(100) >= 85)) for late in (5_000_000, 5_000_000_000))
    assert near is not None
    assert far is not None
    assert near.drift == pytest.approx(20e-6, rel=0.05)
    assert far.drift == pytest.approx(near.drift, rel=1e-6)
    assert far.offset == pytest.approx(near.offset, abs=2)


def test_a_line_is_as_uncertain_at_a_lonely_last_time_as_at_a_lonely_first_one() -> None:
    times = np.append(np.arange(10), 100) * 1_000_000_000
    apart = times // 30_000 + np.array([0, 900, -700, 300, -500, 1000, -200, 600, -900, 100, 0])
    found, mirrored = fit(times, apart), fit(-times, apart)
    assert found is not None
    assert mirrored is not None
    assert found.drift == pytest.approx(-mirrored.drift)
    assert found.drift != 0
    assert found.uncertainty == mirrored.uncertainty > found.at_middle


def test_a_drift_that_could_be_chance_is_none_and_makes_the_limits_wider() -> None:
    rng = np.random.default_rng(6)
    times = BASE + np.sort(rng.integers(0, 100_000_000, 60))
    found = fit(times, rng.integers(-1_000, 1_000, 60) + np.rint(1e-7 * (times - BASE)).astype(np.int64))
    assert found is not None
    assert found.drift == 0
    assert found.in_drift >= 1e-7
    assert found.uncertainty > found.at_middle


def test_too_few_differences_have_no_line_and_few_ones_no_drift() -> None:
    few = np.arange(LEAST_FOR_DRIFT - 1) * 1_000_000_000
    assert fit(few[: LEAST - 1], few[: LEAST - 1]) is None
    found = fit(few, few // 20_000)
    assert found is not None
    assert found.drift == 0
    assert found.uncertainty >= int(few[-1] // 40_000)
    once = fit(np.full(20, 5), np.arange(20))
    assert once is not None
    assert once.drift == 0


def test_the_least_numbers_of_differences() -> None:
    """Two points are always on a line; of seven the drift is not known, of eight it is."""
    times = np.arange(8) * 1_000_000_000
    assert fit(times[:2], times[:2]) is None
    assert fit(times[:3], times[:3] // 1_000) is not None
    assert [made.drift for made in (fit(times[:7], times[:7] // 1_000), fit(times, times // 1_000)) if made] == [
        0, pytest.approx(1e-3),
    ]  # fmt: skip
    assert robust(np.arange(7.0), np.arange(7.0)) == (3, 0)
    assert robust(np.arange(8.0), np.arange(8.0) + 5) == pytest.approx((5, 1))
    assert robust(np.zeros(9), np.arange(9.0)) == (4, 0)
    for sign in (1, -1):  # one time of its own is enough
        x = np.append(-5.0, np.zeros(8))[::sign]
        assert robust(sign * x, 2 * sign * x) == (0, 2)


@pytest.mark.parametrize("far", [10**10, -(3 * 10**11)])
def test_a_line_far_from_time_zero_is_the_same_line(far: int) -> None:
    """Parts of a run are: their times are from the middle of the whole run. A seventh of the ends is late."""
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(-3e9, 3e9, 70))
    y = 20e-6 * x + rng.normal(0, 2_000, 70) + 5e6 * (np.arange(70) % 7 == 6)
    shift, slope = robust(x, y)
    assert slope == pytest.approx(20e-6, rel=0.1)
    assert robust(x + far, y) == pytest.approx((shift - slope * far, slope), rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(12)), st.sampled_from([0, 10**18, -(10**18)]))
def test_neither_order_nor_a_far_offset_changes_the_line(order: list[int], far: int) -> None:
    times = BASE + np.arange(12) ** 2 * 1_000_000
    apart = np.array([7, 3, 12, -8, 5, 40, 1, -3, 9, 6, 2, 11]) + np.arange(12) ** 2 * 100
    straight, shuffled = fit(times, apart), fit(times[order], far + apart[order])
    assert straight is not None
    assert shuffled == replace(straight, offset=straight.offset + far)
    assert straight.drift == pytest.approx(1e-4, rel=0.1)


@pytest.mark.parametrize("count", [8, 9, 40])
@pytest.mark.parametrize("drift", [1e-4, 0.0])
@pytest.mark.parametrize("resolution", [1, 1_000])
def test_the_limits_of_a_line_are_those_of_least_squares(count: int, drift: float, resolution: int) -> None:
    """All differences are 3 us from the line, so none counts less. The first of the times is the lonelier one."""
    times = BASE + np.append(-9_000_000_000, np.arange(count - 1) * 1_000_000_000)
    far = np.where(np.arange(count) % 2, 3_000, -3_000)
    found = fit(times, np.rint(drift * (times - BASE)).astype(np.int64) + far, resolution)
    assert found is not None
    x = (times - found.middle).astype(np.float64)
    (slope, _), ((of_slope, both), (_, of_shift)) = np.polyfit(x, drift * (times - BASE) + far, 1, cov=True)
    wide = limit(count - 2)
    assert found.middle == (int(times[0]) + int(times[-1])) // 2
    assert found.at_middle == pytest.approx(wide * math.sqrt(of_shift) + resolution, abs=1)
    if drift:
        assert found.in_drift == pytest.approx(wide * math.sqrt(of_slope), rel=1e-3)
        most = max(of_shift + 2 * both * end + of_slope * end**2 for end in (x[0], x[-1]))
        assert found.uncertainty == pytest.approx(wide * math.sqrt(most) + resolution, abs=2)
    else:  # what the slope is by chance is in the limits
        assert found.drift == 0
        assert found.in_drift == pytest.approx(wide * math.sqrt(of_slope) + abs(slope), rel=1e-3)
        assert found.uncertainty == pytest.approx(found.at_middle + found.in_drift * max(-x[0], x[-1]), abs=2)


def test_half_of_the_ends_on_the_line_do_not_make_it_certain() -> None:
    apart = np.zeros(40, np.int64)
    apart[::3] = 30_000
    found = fit(np.arange(40) * 1_000_000, apart)
    assert found is not None
    assert found.uncertainty > 1_000


def test_limits_are_those_of_students_distribution() -> None:
    """Figures of Student's distribution at 0.25 % on each side, from tables."""
    for freedom, want in ((5, 4.773), (8, 3.833), (10, 3.581), (30, 3.030), (120, 2.860)):
        assert limit(freedom) == pytest.approx(want, rel=0.01)
    assert limit(0) == limit(1)
    assert all(limit(freedom) > limit(freedom + 1) for freedom in range(1, 200))


def within(deviations: float, freedom: int) -> float:
    """Return the share of Student's distribution within so many deviations (Abramowitz and Stegun, 26.7.3, 26.7.4)."""
    angle = math.atan(deviations / math.sqrt(freedom))
    term = math.cos(angle) if freedom % 2 else 1.0
    total = term
    for power in range(2 if freedom % 2 else 1, freedom - 2, 2):
        term *= math.cos(angle) ** 2 * power / (power + 1)
        total += term
    return (angle + math.sin(angle) * total) * 2 / math.pi if freedom % 2 else math.sin(angle) * total


@pytest.mark.parametrize("freedom", [4, 5, 6, 7, 8, 10, 15, 20, 30, 50, 100, 500])
def test_limits_are_too_small_by_no_more_than_the_terms_that_are_left_out(freedom: int) -> None:
    """The first of them is about 21 / freedom**5 at 0.25 % on each side."""
    low, high = 2.0, 10.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, freedom) < 0.995 else (low, middle)
    assert 20 / freedom**5 <= low - limit(freedom) <= 24 / freedom**5 + 5e-6


OFFSETS, DRIFTS = st.integers(-(10**12), 10**12), st.floats(-2e-4, 2e-4)
TIMES = st.lists(st.integers(0, 10**12).map(lambda since: BASE + since), min_size=1, max_size=9)


@settings(max_examples=200, deadline=None)
@given(OFFSETS, DRIFTS, OFFSETS, DRIFTS, TIMES)
def test_a_line_over_another_is_the_clock_against_the_reference_of_both(
    offset: int, drift: float, other_offset: int, other_drift: float, since: list[int]
) -> None:
    other = line(offset=other_offset, drift=other_drift, middle=BASE + 10**11)
    # This clock was compared with the other one, at times that the other one showed.
    shown_first, shown_middle = (int(t + other.ahead(np.array([t]))[0]) for t in (BASE, BASE + 7 * 10**11))
    clock = replace(line(offset=offset, drift=drift, middle=shown_middle), first=shown_first, last=shown_first + 10**12)
    both = clock.over(other)
    times = np.array(since)
    shown_by_other = times + other.ahead(times)
    shown = shown_by_other + clock.ahead(shown_by_other)
    assert np.abs(both.ahead(times) - (shown - times)).max() <= 3
    assert np.abs(both.corrected(shown) - times).max() <= 3
    assert abs(both.first - BASE) <= 1
    assert abs(both.last - other.corrected(np.array([clock.last]))[0]) <= 1
    assert (both.uncertainty, both.count) == (clock.uncertainty, clock.count)


@settings(max_examples=200, deadline=None)
@given(OFFSETS, DRIFTS, TIMES)
def test_the_reversed_line_says_how_far_the_reference_is_ahead_of_the_clock(
    offset: int, drift: float, since: list[int]
) -> None:
    clock = replace(line(offset=offset, drift=drift, middle=BASE + 10**11), last=BASE + 10**12)
    back, times = clock.reversed(), np.array(since)
    shown = times + clock.ahead(times)
    assert np.abs(shown + back.ahead(shown) - times).max() <= 2
    assert np.abs(back.corrected(times) - shown).max() <= 2
    ends = np.array([clock.first, clock.last])
    assert [back.first, back.last] == (ends + clock.ahead(ends)).tolist()


def test_the_first_guess_is_the_slope_of_most_halves() -> None:
    """Of differences between the halves more than half are on the line, so their median is its slope."""
    x = np.array([-5.0, -4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    y = 3 * x + 7
    y[[0, 9]] = 1e6, -1e6
    assert module._theil(x, y) == 3
    assert module._theil(np.zeros(4), np.arange(4.0)) == 0
    assert module._theil(np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.0, 0.0, 5.0, 7.0])) == 7


@pytest.mark.parametrize("count", [8, 9, 40])
def test_without_outliers_the_variances_are_those_of_least_squares(count: int) -> None:
    """All differences are 3 from the line: none counts less than another."""
    x = np.arange(count) * 7.0 - 11
    y = 0.5 * x + 2 + np.where(np.arange(count) % 2, 3.0, -3.0)
    shift, slope, found = module._huber(x, y, drifts=True)
    line_of_squares, covariance = np.polyfit(x, y, 1, cov=True)
    assert (slope, shift) == pytest.approx(tuple(line_of_squares), rel=1e-6)
    assert found == pytest.approx((covariance[1, 1], covariance[0, 1], covariance[0, 0]), rel=1e-6)
    flat = y - 0.5 * x
    shift, slope, found = module._huber(x, flat, drifts=False)
    assert (shift, slope) == (pytest.approx(flat.mean()), 0)
    assert found == pytest.approx((flat.var(ddof=1) / count, 0, 0))


@pytest.mark.parametrize("late", [0.0, 0.1, 0.3])
def test_variances_with_outliers_are_those_of_the_book(late: float) -> None:
    """Huber and Ronchetti, Robust Statistics, 2009, section 7.6, with their correction for few differences."""
    rng = np.random.default_rng(8)
    for count, drifts in ((9, True), (40, True), (40, False), (12, False)):
        x = np.sort(rng.uniform(-1e9, 2e9, count))
        y = drifts * 20e-6 * x + rng.normal(0, 2_000, count) + (rng.random(count) < late) * 300_000
        shift, slope, found = module._huber(x, y, drifts=drifts)
        design = np.column_stack((np.ones(count), x))[:, : 1 + drifts]
        rest = y - shift - slope * x
        bend = 1.345 * 1.4826 * float(np.median(np.abs(rest)))
        straight = float((np.abs(rest) <= bend).mean())
        correction = 1 + design.shape[1] / count * (1 - straight) / straight
        squares = float((np.clip(rest, -bend, bend) ** 2).sum()) / (count - design.shape[1])
        want = correction**2 * squares / straight**2 * np.linalg.inv(design.T @ design)
        assert found == pytest.approx(
            (want[0, 0], want[0, -1], want[-1, -1]) if drifts else (want[0, 0], 0, 0), rel=1e-3
        )
