from __future__ import annotations

import doctest
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.analysis.clocks import bounds, line, matched_collectives
from tracekit.analysis.clocks.matched_collectives import LEAST_MEETINGS, RankClocks, align, relate

BASE = 1_700_000_000_000_000_000


def met(ends: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Meetings as rows, clocks as columns."""
    of = np.array(ends, np.int64)
    meeting, clock = np.indices(of.shape)
    return meeting.ravel(), clock.ravel(), of.ravel()


@pytest.mark.parametrize("module", [bounds, line, matched_collectives])
def test_examples_of_the_documentation(module: ModuleType) -> None:
    outcome = doctest.testmod(module)
    assert outcome.attempted >= 1
    assert outcome.failed == 0


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(1_000, 10**9), min_size=LEAST_MEETINGS, max_size=60),
    st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=4),
    st.integers(0, 500),
    st.randoms(use_true_random=False),
)
def test_offsets_are_found_to_within_what_ends_scatter_by(
    gaps: list[int], offsets: list[int], scatter: int, random: st.DataObject
) -> None:
    times = BASE + np.cumsum(np.array(gaps, np.int64))
    ends = [[int(t) + o + random.randint(-scatter, scatter) for o in [0, *offsets]] for t in times]  # type: ignore[attr-defined]
    of = align(*met(ends), len(offsets) + 1)
    assert of.known.all()
    assert of.meetings.tolist() == [len(gaps)] * (len(offsets) + 1)
    for clock, offset in enumerate(offsets, 1):
        back = of.corrected(np.full(len(gaps), clock), times + offset)
        wrong = np.abs(back - times).max()
        if of.drift[clock] == 0:
            assert wrong <= 2 * scatter
            assert of.uncertainty[clock] <= 4 * scatter * 2


@pytest.mark.parametrize("drift", [2e-5, -3e-6])
def test_a_drift_is_found_and_taken_out(drift: float) -> None:
    rng = np.random.default_rng(1)
    times = BASE + np.sort(rng.integers(0, 60_000_000_000, 200))
    since = times - times[0]
    other = times + 7_000_000 + np.rint(drift * since).astype(np.int64) + rng.integers(-500, 500, 200)
    of = align(*met(np.column_stack((times, other)).tolist()), 2)
    assert of.drift[1] == pytest.approx(drift, rel=0.05)
    assert np.abs(of.corrected(np.ones(200, np.int64), other) - times).max() <= 1500
    assert 300 <= of.uncertainty[1] <= 1500


@pytest.mark.parametrize("late", [0.0, 0.05])
def test_ends_that_scatter_by_two_us_give_a_skew_of_50_ms_and_20_ppm_exactly_enough(late: float) -> None:
    rng = np.random.default_rng(4)
    times = BASE + np.sort(rng.integers(0, 10_000_000_000, 1_000))
    ends = times[:, None] + rng.normal(0, 2_000, (1_000, 4))
    ends += (rng.random((1_000, 4)) < late) * rng.exponential(200_000, (1_000, 4))
    offsets, drifts = np.array([0, 50e6, -50e6, 20e6]), np.array([0, 20e-6, -20e-6, 3e-6])
    skewed = ends.astype(np.int64) + np.rint(offsets + drifts * (ends - BASE)).astype(np.int64)
    of = align(*met(skewed.tolist()), 4)
    middle = of.middle - BASE
    assert np.abs(of.drift - drifts).max() <= 1e-7
    assert np.abs(of.offset - (offsets + drifts * middle)).max() <= 1_000


@pytest.mark.parametrize("drift", [2e-4, -2e-4])
def test_times_of_a_clock_that_drifts_for_hours_are_corrected_to_the_ns(drift: float) -> None:
    since = np.arange(-(10**13), 10**13, 10**12)
    clock = RankClocks(
        0, np.ones(2, np.bool_), np.array([0, 70]), np.array([0, drift]), np.zeros(2), np.full(2, 9), BASE
    )
    shown = BASE + since + 70 + np.rint(drift * since).astype(np.int64)
    assert np.abs(clock.corrected(np.ones(20, np.int64), shown) - BASE - since).max() <= 1


def test_a_relation_counts_the_clocks_that_the_meetings_lead_over() -> None:
    """Clock 0 meets 1, this one 2, and this one 3; 0 has most meetings."""
    meeting = np.concatenate([np.repeat(np.arange(first, first + 20), 2) for first in (0, 20, 40)])
    clock = np.concatenate([np.tile([one, one + 1], 20) for one in range(3)])
    meeting, clock = np.append(meeting, np.arange(60, 100)), np.append(clock, np.zeros(40, np.int64))
    ends = BASE + meeting * 1_000_000_000 + clock * 7_000_000
    reference, found = relate(meeting, clock, ends - 500_000, ends, 4)
    assert reference == 0
    assert [(each.over, each.line.offset) if each else None for each in found] == [
        None, (0, 7_000_000), (1, 14_000_000), (2, 21_000_000),
    ]  # fmt: skip


def test_a_drift_that_could_be_chance_is_none() -> None:
    rng = np.random.default_rng(6)
    times = BASE + np.sort(rng.integers(0, 100_000_000, 60))
    ends = times[:, None] + rng.integers(0, 2_000, (60, 2))
    assert align(*met(ends.tolist()), 2).drift.tolist() == [0, 0]


def test_few_meetings_and_strangers_stay_unknown() -> None:
    meeting, clock = np.array([1, 1, 2, 2, 9, 8]), np.array([0, 1, 0, 1, 2, 0])
    of = align(meeting, clock, np.array([0, 5, 10, 15, 7, 20]), 4)
    assert of.reference == 0
    assert of.known.tolist() == [True, False, False, False]
    assert of.corrected(np.array([1, 2]), np.array([5, 7])).tolist() == [5, 7]
    nothing = align(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), 2)
    assert not nothing.known.any()


def test_columns_of_different_lengths_are_named() -> None:
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="meetings has 1, clocks has 1, ends has 2"):
        align(one, one, two, 1)
    with pytest.raises(ValueError, match="meetings has 1, clocks has 1, starts has 2, ends has 1"):
        relate(one, one, two, one, 1)


def test_the_clock_of_most_meetings_is_the_reference_and_single_outliers_do_no_harm() -> None:
    ends = [[1000 * i + 40, 1000 * i] for i in range(30)]
    ends[4][0] += 100_000
    meeting, clock, end = met(ends)
    of = align(meeting[1:], clock[1:], end[1:], 2)
    assert of.reference == 1
    assert (of.offset.tolist(), of.drift.tolist(), of.uncertainty.tolist()) == ([40, 0], [0.0, 0.0], [0, 0])
