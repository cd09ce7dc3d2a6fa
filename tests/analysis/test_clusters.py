"""Clocks of simulated clusters: what is stated holds. `benchmarks/clocks.py` prints the figures of 1,000 clusters."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.clocks import SETTINGS, trial
from benchmarks.truth.cluster import simulate
from tracekit.analysis.clocks.matched_collectives import relate

CLUSTERS = 60


@pytest.mark.parametrize("setting", SETTINGS)
def test_offset_and_drift_are_within_what_is_stated(setting: str) -> None:
    rows = np.array([row for seed in range(CLUSTERS) for row in trial(setting, seed)])
    error, drift, _, stated, in_drift, inside, _, breaks = rows.T
    right = (error <= stated) & (drift <= in_drift)
    # At most one in a hundred is wrong: of so many, seeds fixed, no more than three.
    assert np.count_nonzero(~right) <= 3
    assert inside.all()
    assert 1 / np.quantile(error / stated, 0.95) <= 3
    assert (breaks == 2).all()


def test_every_rank_that_wrote_enough_is_reached() -> None:
    cluster = simulate(5, hosts=6, ranks_per_host=2, collectives=300, groups=3, lose=False)
    reference, found = relate(cluster.meeting, cluster.clock, cluster.start, cluster.end, 6)
    assert [each is None for each in found] == [number == reference for number in range(6)]
    assert max(each.over for each in found if each is not None) > 0


def test_a_clock_that_met_nobody_is_not_known() -> None:
    cluster = simulate(5, hosts=3, lose=False)
    alone = cluster.clock == 2
    meeting = np.where(alone, cluster.meeting + 1_000_000, cluster.meeting)
    _, found = relate(meeting, cluster.clock, cluster.start, cluster.end, 3)
    assert found[2] is None
    assert sum(each is not None for each in found) == 1
    nothing = np.zeros(0, np.int64)
    assert relate(nothing, nothing, nothing, nothing, 2) == (0, [None, None])


def test_collectives_that_are_not_the_same_contradict_each_other() -> None:
    cluster = simulate(7, hosts=2, ranks_per_host=1, lose=False)
    other = cluster.clock == 1
    rng = np.random.default_rng(1)
    end = cluster.end + np.where(other, rng.integers(-(10**9), 10**9, cluster.end.size), 0)
    start = np.where(other, end - 50_000, cluster.start)
    assert relate(cluster.meeting, cluster.clock, start, end, 2)[1] == [None, None]


def test_collectives_of_which_a_tenth_are_others_contradict_each_other_and_a_few_do_not() -> None:
    cluster = simulate(7, hosts=2, ranks_per_host=1, collectives=400, lose=False)
    for every, known in ((10, False), (100, True)):
        off = np.where((cluster.clock == 1) & (cluster.meeting % every == 0), 3_000_000_000, 0)
        found = relate(cluster.meeting, cluster.clock, cluster.start + off, cluster.end + off, 2)[1]
        assert (found[1] is not None) == known
        assert found[1] is None or found[1].wrong == 4


def test_one_clock_is_not_taken_apart() -> None:
    """Ranks of one clock that leave up to their habits apart do not contradict that it is one."""
    cluster = simulate(8, hosts=1, ranks_per_host=2, lag_us=15.0, lose=False)
    _, found = relate(cluster.meeting, cluster.rank, cluster.start, cluster.end, 2)
    [relation] = [each for each in found if each is not None]
    assert not relation.apart
    assert relation.bounds.low <= 0 <= relation.bounds.high


def test_a_habit_larger_than_the_jitter_is_still_within_what_the_inequalities_leave_open() -> None:
    """A rank that always leaves 300 us late looks like a clock that is 300 us ahead. The inequalities say: or not."""
    cluster = simulate(9, hosts=2, ranks_per_host=1, jitter_us=1.0, lose=False)
    end = cluster.end + np.where(cluster.clock == 1, 300_000, 0)
    reference, found = relate(cluster.meeting, cluster.clock, cluster.start, end, 2)
    [relation] = [each for each in found if each is not None]
    middle = cluster.shown_from(reference, np.array([relation.bounds.middle]))
    truth = int((cluster.shown(1 - reference, middle) - cluster.shown(reference, middle))[0])
    assert relation.bounds.low <= truth <= relation.bounds.high
    assert abs(relation.line.offset - truth) > relation.uncertainty
