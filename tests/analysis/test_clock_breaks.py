"""Clocks that are set on the way, and habits of ranks on one clock."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.clocks import UNSEEN, trial
from benchmarks.truth.cluster import NOISES, simulate
from tracekit.analysis.clocks import meetings
from tracekit.analysis.clocks.breaks import parts
from tracekit.analysis.clocks.habits import Habits, find
from tracekit.analysis.clocks.line import limit, robust
from tracekit.analysis.clocks.meetings import relate

CLUSTERS = 15


@pytest.mark.parametrize("setting", UNSEEN)
def test_what_is_stated_holds_where_the_estimator_was_not_made_for_it(setting: str) -> None:
    rows = np.array([row for seed in range(CLUSTERS) for row in trial(setting, seed)])
    error, drift, _, stated, in_drift, inside, fewest, breaks = rows.T
    assert inside.all()
    wrong = (error > stated) | (drift > in_drift)
    if setting == "late rank":
        wrong = wrong[fewest > 2]  # of two, or one alone, nobody knows that it is the late one
    assert np.count_nonzero(wrong) <= (4 if setting == "small step" else 1)
    assert not (breaks == 3).any()  # no break is seen where there is none
    if setting in ("step", "slew"):
        assert (breaks == 1).any()
        assert not (breaks == 0).any()


@pytest.mark.parametrize("noise", NOISES)
def test_noise_of_any_kind_is_no_break(noise: str) -> None:
    rng = np.random.default_rng(3)
    for count in (20, 60, 400):
        x = np.sort(rng.uniform(-30e9, 30e9, count))
        one, other = (NOISES[noise](rng, (count, 1))[:, 0] for _ in range(2))
        y = (one - other) * 5_000 + x * 3e-5
        assert len(parts(x, y, robust, 1.0)) == 1


@pytest.mark.parametrize("jump", [30_000.0, -4e6, 2e9])
def test_a_jump_is_found_where_it_is(jump: float) -> None:
    rng = np.random.default_rng(4)
    x = np.sort(rng.uniform(-30e9, 30e9, 300))
    y = rng.normal(0, 2_000, 300) + x * -2e-5 + jump * (x > 4e9)
    first, second = parts(x, y, robust, 1.0)
    assert abs(first.last - int(np.searchsorted(x, 4e9))) <= 2
    assert second.first == first.last
    assert (second.at(np.array([4e9])) - first.at(np.array([4e9])))[0] == pytest.approx(jump, abs=2_000)


def test_a_jump_ends_the_part_in_which_the_line_holds() -> None:
    cluster = simulate(12, hosts=2, ranks_per_host=1, collectives=300, lose=False, step_us=5_000.0)
    [broken] = cluster.breaks
    reference, found = relate(cluster.meeting, cluster.clock, cluster.start, cluster.end, 2)
    [relation] = [each for each in found if each is not None]
    [(at, by)] = relation.breaks
    sign = 1 if broken.host != reference else -1
    assert by == pytest.approx(sign * 5e6, rel=0.02)
    [true] = cluster.shown(reference, np.array([broken.at_ns])).tolist()
    assert abs(at - true) < 2_000_000_000
    assert relation.line.last <= at or relation.line.first >= at


def test_a_tenth_of_other_collectives_is_no_break() -> None:
    cluster = simulate(7, hosts=2, ranks_per_host=1, collectives=400, lose=False)
    off = np.where((cluster.clock == 1) & (cluster.meeting % 10 == 0), 3_000_000_000, 0)
    assert relate(cluster.meeting, cluster.clock, cluster.start + off, cluster.end + off, 2)[1] == [None, None]


def test_habits_of_ranks_on_one_clock_are_taken_out() -> None:
    """Four ranks on two hosts of which one is 400 us late: its host's clock is not taken for 200 us ahead."""
    cluster = simulate(9, hosts=2, ranks_per_host=3, collectives=300, jitter_us=2.0, lose=False)
    end = cluster.end + np.where(cluster.rank == 4, 400_000, 0)
    reference, found = relate(cluster.meeting, cluster.clock, cluster.start, end, 2, members=cluster.rank)
    [relation] = [each for each in found if each is not None]
    other = 1 - reference
    middle = cluster.shown_from(reference, np.array([relation.line.middle]))
    truth = int((cluster.shown(other, middle) - cluster.shown(reference, middle))[0])
    assert abs(relation.line.offset - truth) < 5_000
    assert abs(relation.line.offset - truth) <= relation.uncertainty


def test_habits() -> None:
    meeting = np.repeat(np.arange(20), 3)
    member = np.tile([0, 1, 2], 20)
    end = meeting * 1_000_000 + np.array([0, 50, 4_000])[member]
    usual = find(meeting, np.zeros(60, np.int64), member, end, 1, np.zeros(1, np.int64))
    assert usual.late[:3].tolist() == [-50, 0, 3_950]
    assert (usual.members.tolist(), usual.freedom) == ([3], 2)
    assert usual.deviation == pytest.approx(np.std([0, 50, 4_000], ddof=1))
    alone = find(meeting, member, member, end, 3, np.arange(3))
    assert (alone.freedom, alone.late.any()) == (0, False)
    assert alone.allowance(0, 1, 77.0) == 77.0
    # Clocks of one host are one clock, unless they are seconds apart.
    assert find(meeting, member, member, end, 3, np.array([0, 0, 0])).freedom == 2
    apart = end + member * 10**9
    assert find(meeting, member, member, apart, 3, np.array([0, 0, 0])).freedom == 0


@pytest.mark.parametrize(("apart", "freedom"), [(1_000_000, 1), (-1_000_000, 1), (1_000_001, 0), (-1_000_001, 0)])
def test_ranks_of_a_host_are_on_one_clock_up_to_a_millisecond_apart(apart: int, freedom: int) -> None:
    meeting, member = np.repeat(np.arange(20), 2), np.tile([0, 1], 20)
    usual = find(meeting, member, member, meeting * 10_000_000 + member * apart, 2, np.zeros(2, np.int64))
    assert usual.freedom == freedom
    assert usual.apart.tolist() == [abs(apart) * freedom] * 2


def test_the_allowance_for_habits() -> None:
    """The scatter of the middle of two ranks is that of one over the root of two; of more, of their median."""

    def habits(freedom: int, members: tuple[int, int], apart: int = 0) -> Habits:
        return Habits(np.zeros(0, np.int64), np.array(members), np.array([apart, 0]), 100.0, freedom)

    enough = 100 * math.sqrt(1.57 / 4 + 1.57 / 3)
    assert habits(4, (4, 3)).allowance(0, 1, 1e9) == pytest.approx(limit(4) * enough)
    assert habits(4, (4, 3), apart=5_000).allowance(0, 1, 0.0) == 2_500
    few = 100 * math.sqrt(1 / 2 + 1)
    assert habits(3, (2, 1)).allowance(0, 1, 1e9) == pytest.approx(limit(3) * few)
    assert habits(3, (2, 1)).allowance(0, 1, 400.0) == 400
    assert habits(3, (2, 1)).allowance(0, 1, 1.0) == pytest.approx(2.6 * few)
    assert habits(3, (2, 1)).allowance(1, 1, 1.0) == pytest.approx(2.6 * 100 * math.sqrt(2))


def test_a_clock_that_is_set_often_has_twelve_parts_at_most() -> None:
    noise = np.random.default_rng(4).normal(0, 100, 400)
    x = np.arange(400) * 1e8
    found = parts(x, noise + 1e6 * (np.arange(400) // 20 % 3), robust, 1.0)
    assert len(found) == 12
    assert [each.first for each in found[1:]] == [each.last for each in found[:-1]]
    assert (found[0].first, found[-1].last) == (0, 400)


@pytest.mark.parametrize(("off", "noise", "agree"), [(20_000, 30_000, True), (150_000, 300_000, False)])
def test_limits_may_contradict_by_the_noise_of_device_times(off: int, noise: int, agree: bool) -> None:
    """The clock is ahead at the begin and the end, and behind in the middle: no line does both."""
    times = 1_790_000_000_000_000_000 + np.arange(200) * 100_000_000
    apart = np.rint(np.random.default_rng(5).normal(0, noise, 200)).astype(np.int64)
    low, high = np.full(200, -10 * noise), np.full(200, 10 * noise)
    low[[10, 190]], high[100] = off, -off
    found = meetings._relation(times, apart, low, high, 1, lambda assumed: assumed, 0, 0, 0.0)
    assert (found is not None) == agree
    if found is not None:
        assert found.wrong == 0
        assert found.bounds.low <= 0 <= found.bounds.high
