"""Clocks that are set on the way, and habits of ranks on one clock."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.clocks import UNSEEN, trial
from benchmarks.truth.cluster import NOISES, simulate
from tracekit.analysis.clocks import matched_collectives
from tracekit.analysis.clocks.line import limit, robust
from tracekit.analysis.clocks.matched_collectives import ExitBias, MatchedPart, find, parts, relate
from tracekit.model.arrow import F64

CLUSTERS = 15


@pytest.mark.parametrize("setting", UNSEEN)
def test_what_is_stated_holds_where_the_estimator_was_not_made_for_it(setting: str) -> None:
    rows = np.array([row for seed in range(CLUSTERS) for row in trial(setting, seed)])
    error, drift, _, stated, in_drift, inside, fewest, matched_collectives = rows.T
    assert inside.all()
    wrong = (error > stated) | (drift > in_drift)
    if setting == "late rank":
        wrong = wrong[fewest > 2]  # of two, or one alone, nobody knows that it is the late one
    assert np.count_nonzero(wrong) <= (4 if setting == "small step" else 1)
    assert not (matched_collectives == 3).any()  # no break is seen where there is none
    if setting in ("step", "slew"):
        assert (matched_collectives == 1).any()
        assert not (matched_collectives == 0).any()


@pytest.mark.parametrize("noise", NOISES)
def test_noise_of_any_kind_is_no_break(noise: str) -> None:
    rng = np.random.default_rng(3)
    for count in (20, 60, 400):
        x = np.sort(rng.uniform(-30e9, 30e9, count))
        one, other = (NOISES[noise](rng, (count, 1))[:, 0] for _ in range(2))
        y = (one - other) * 5_000 + x * 3e-5
        assert len(parts(x, y, robust, 1.0)) == 1


def middle(x: F64, y: F64) -> tuple[float, float]:
    return float(np.median(y)), 0.0


@pytest.mark.parametrize("count", [16, 17, 18, 40, 100, 331, 1000])
def test_a_jump_beyond_what_clocks_can_show_is_found_exactly(count: int) -> None:
    """Noise of 100 ns, clocks of 1 us. With 8 differences on both sides there are two parts, each at its own place."""
    x = np.cumsum(np.random.default_rng(2).integers(1, 9, count)) * 1e7
    noise = np.random.default_rng(3).uniform(-100, 100, count)
    for at in range(8, count - 7, max(1, count // 20)):
        for jump in (7_000.0, -2e9):
            y = noise + jump * (np.arange(count) >= at)
            want = [MatchedPart(0, at, *middle(x[:at], y[:at])), MatchedPart(at, count, *middle(x[at:], y[at:]))]
            assert parts(x, y, middle, 1_000.0) == want
    assert parts(x, noise, middle, 1_000.0) == [MatchedPart(0, count, *middle(x, noise))]
    # Seven differences are no part, on either side.
    for at in (7, count - 7):
        cuts = [each.first for each in parts(x, noise + 7_000.0 * (np.arange(count) >= at), middle, 1_000.0)]
        assert at not in cuts


def slow_parts(x: F64, y: F64, noise: float, first: int, last: int) -> list[int]:
    """Where parts of fewer than 64 differences begin: by the rule of the module, with all cuts tried."""

    def left(begin: int, end: int) -> list[float]:
        shift, slope = middle(x[begin:end], y[begin:end])
        return [min(max((y[at] - shift - slope * x[at]) / noise, -3.0), 3.0) for at in range(begin, end)]

    def cost(begin: int, end: int) -> float:
        return math.fsum(each**2 for each in left(begin, end))

    rest = left(first, last)
    steps = [after - before for before, after in pairwise(rest)]
    deviation = max(math.sqrt(math.fsum(step**2 for step in steps) / len(steps) / 2), 0.3)
    sums = [abs(math.fsum(rest[:count]) - count * statistics.fmean(rest)) for count in range(1, len(rest) + 1)]
    costs = {at: cost(first, at) + cost(at, last) for at in range(first + 8, last - 7)}
    best = min(costs, key=lambda at: costs[at], default=0)
    if (
        max(sums) <= matched_collectives.FAR_FROM_BEFORE * deviation * math.sqrt(len(rest))
        or not costs
        or costs[best] >= cost(first, last) - 12 * deviation**2
    ):
        return [first]
    return slow_parts(x, y, noise, first, best) + slow_parts(x, y, noise, best, last)


@pytest.mark.parametrize("seed", range(60))
def test_parts_are_cut_where_sums_of_what_is_left_go_too_far_and_two_lines_fit_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(16, 64))
    x = np.cumsum(rng.uniform(0.5, 2, count)) * 1e8
    jump, at = rng.uniform(1, 4), rng.integers(5, count - 4)
    y = rng.normal(0, 1_000, count) + 1_000 * jump * (np.arange(count) >= at)
    y += (rng.random(count) < 0.05) * 40_000
    for least in (1.0, 2_500.0):
        noise = max(matched_collectives._noise(x, y), least)
        found = parts(x, y, middle, least)
        assert [each.first for each in found] == slow_parts(x, y, noise, 0, count)
        assert [each.last for each in found] == [*(each.first for each in found[1:]), count]


def test_several_jumps_are_all_found_in_order_of_time() -> None:
    x, cuts = np.arange(500) * 1e8, [40, 110, 240]
    for sign in (1, -1):
        y = np.random.default_rng(5).uniform(-100, 100, 500)
        for number, at in enumerate(cuts):
            y[at:] += (-1) ** number * 40_000 * (number + 1)
        cuts_seen = cuts if sign > 0 else [500 - at for at in reversed(cuts)]
        found = parts(x, y[::sign], middle, 1_000.0)
        assert [(each.first, each.last) for each in found] == list(pairwise([0, *cuts_seen, 500]))


@pytest.mark.parametrize("bend", [1e-5, -3e-4])
def test_a_line_that_bends_is_cut_where_it_bends(bend: float) -> None:
    x = np.arange(120) * 1e8
    y = np.random.default_rng(5).uniform(-100, 100, 120) + 2e-5 * x + bend * np.maximum(x - x[50], 0)
    first, second = parts(x, y, robust, 1_000.0)
    assert abs(first.last - 50) <= 1
    assert (first.slope, second.slope) == pytest.approx((2e-5, 2e-5 + bend), rel=0.01)


def test_noise_is_measured_from_neighbours_on_any_line() -> None:
    """Steps of 200 up and down around the line; the deviation of a step is that of a difference times the root of 2."""
    x = np.cumsum(np.arange(41) % 3 + 1.0) * 1e6
    y = np.where(np.arange(41) % 2, 100.0, -100.0)
    want = pytest.approx(1.4826 * 200 / math.sqrt(2), rel=1e-6)
    for slope in (0.0, 3e-5, -0.5):
        assert matched_collectives._noise(x, y + slope * x) == want
    assert matched_collectives._noise(np.zeros(41), y) == want
    assert matched_collectives._noise(np.arange(41.0), y + 1_000 * np.arange(41)) == want
    # Two at one time have a step, and no slope.
    twice = np.repeat(x, 2)
    assert matched_collectives._noise(twice, np.repeat(y, 2) + 1e-4 * twice) == 0


def test_differences_too_few_for_two_parts_are_one() -> None:
    for count in (0, 1, 15):
        x = np.arange(count) * 1.0
        assert parts(x, x * 1e9, lambda *_: (5.0, 2.0), 1.0) == [MatchedPart(0, count, 5.0, 2.0)]


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


@pytest.mark.parametrize("seed", range(40))
def test_a_habit_is_the_usual_distance_from_the_rank_of_most_meetings(seed: int) -> None:
    """Five ranks on three clocks of one or two hosts, compared with a dictionary of when each of them left."""
    rng = np.random.default_rng(seed)
    hosts, clock_of = rng.integers(0, 2, 3), rng.integers(0, 3, 5)
    usual = rng.integers(-2_000, 2_000, 5) + (rng.random(5) < 0.15) * 1_500_000
    rows = [(m, r) for m in range(14) for r in range(5) if rng.random() < 0.8]
    rows = [rows[at] for at in rng.permutation(len(rows))]
    ends = {(m, r): m * 10_000_000 + int(usual[r]) + int(rng.integers(0, 50)) for m, r in rows}
    meeting, rank = (np.array(each) for each in zip(*rows, strict=True))
    found = find(meeting, clock_of[rank], rank, np.array([ends[row] for row in rows]), 3, hosts)

    late, members, apart = dict.fromkeys(range(5), 0), [1, 1, 1], [0, 0, 0]
    squares, freedom = 0.0, 0
    for host in (0, 1):
        left = {
            r: {m: end for (m, each), end in ends.items() if each == r} for r in range(5) if hosts[clock_of[r]] == host
        }
        if len(left) < 2:
            continue
        base = max(left, key=lambda rank: (len(left[rank]), -rank))
        habits = {base: 0}
        for rank_here in left.keys() - {base}:
            differences = [end - left[base][m] for m, end in left[rank_here].items() if m in left[base]]
            if len(differences) >= 8 and abs(int(statistics.median(differences))) <= 1_000_000:
                habits[rank_here] = int(statistics.median(differences))
        if len(habits) < 2:
            continue
        middle_one = int(statistics.median(habits.values()))
        late.update({rank: habit - middle_one for rank, habit in habits.items()})
        squares += sum((habit - statistics.fmean(habits.values())) ** 2 for habit in habits.values())
        freedom += len(habits) - 1
        for clock in {int(clock_of[rank]) for rank in left}:
            members[clock] = len(habits)
            apart[clock] = max(habits.values()) - min(habits.values()) if len(habits) == 2 else 0
    assert found.late.tolist() == [late[rank] for rank in rank.tolist()]
    assert (found.members.tolist(), found.apart.tolist(), found.freedom) == (members, apart, freedom)
    assert found.deviation == pytest.approx(math.sqrt(squares / freedom) if freedom else 0.0)


@pytest.mark.parametrize(("apart", "freedom"), [(1_000_000, 1), (-1_000_000, 1), (1_000_001, 0), (-1_000_001, 0)])
def test_ranks_of_a_host_are_on_one_clock_up_to_a_millisecond_apart(apart: int, freedom: int) -> None:
    meeting, member = np.repeat(np.arange(20), 2), np.tile([0, 1], 20)
    usual = find(meeting, member, member, meeting * 10_000_000 + member * apart, 2, np.zeros(2, np.int64))
    assert usual.freedom == freedom
    assert usual.apart.tolist() == [abs(apart) * freedom] * 2


def test_the_allowance_for_habits() -> None:
    """The scatter of the middle of two ranks is that of one over the root of two; of more, of their median."""

    def habits(freedom: int, members: tuple[int, int], apart: int = 0, other: int = 0) -> ExitBias:
        return ExitBias(np.zeros(0, np.int64), np.array(members), np.array([apart, other]), 100.0, freedom)

    enough = 100 * math.sqrt(1.57 / 4 + 1.57 / 3)
    for assumed in (1e9, 1.0):
        assert habits(4, (4, 3)).allowance(0, 1, assumed) == pytest.approx(limit(4) * enough)
    assert habits(4, (4, 3), apart=5_000).allowance(0, 1, 0.0) == 2_500
    assert habits(4, (4, 3), apart=5_000, other=3_000).allowance(0, 1, 0.0) == 4_000
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
    found = matched_collectives._relation(times, apart, low, high, 2, lambda assumed: assumed, 0, 0, 0.0)
    assert (found is not None) == agree
    if found is not None:
        assert found.wrong == 0
        assert found.bounds.low <= 0 <= found.bounds.high
