"""Clocks from meetings, compared with slow definitions: dictionaries of meetings, and figures made by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tracekit.analysis.clocks import matched_collectives
from tracekit.analysis.clocks.line import ClockLine, fit
from tracekit.analysis.clocks.matched_collectives import HABIT, ClockRelation, MatchedPart, align, relate
from tracekit.model.arrow import I64

BASE = 1_790_000_000_000_000_000
ENDS = st.dictionaries(st.tuples(st.integers(0, 14), st.integers(0, 2)), st.integers(0, 10**6), max_size=45)


def column(values: list[int] | list[tuple[int, ...]]) -> I64:
    return np.array(values, np.int64)


def line_of(ahead: dict[int, int], at: dict[int, int], resolution: int = 1) -> ClockLine | None:
    """The line through the differences of two clocks, over meetings in order of time."""
    shared = sorted(ahead.keys() & at.keys(), key=lambda meeting: (at[meeting], meeting))
    return fit(column([at[m] for m in shared]), column([ahead[m] - at[m] for m in shared]), resolution)


@settings(max_examples=150, deadline=None)
@given(ENDS)
@example({(m, c): m * 1_000_000_000 + c * m * (m % 7 + 70_000) for m in range(100) for c in range(3) if m >= 40 * c})
def test_each_clock_is_compared_with_the_one_of_most_meetings(ends: dict[tuple[int, int], int]) -> None:
    rows = sorted(ends, key=lambda row: (ends[row], row))
    found = align(column([m for m, _ in rows]), column([c for _, c in rows]), column([ends[row] for row in rows]), 3)
    clocks = [{m: end for (m, c), end in ends.items() if c == clock} for clock in range(3)]
    assert found.reference == max(range(3), key=lambda clock: (len(clocks[clock]), -clock))
    left = clocks[found.reference]
    assert found.middle == ((min(left.values()) + max(left.values())) // 2 if left else 0)
    assert found.meetings.tolist() == [len(left.keys() & each.keys()) for each in clocks]
    assert found.known.tolist() == [
        len(left.keys() & each.keys()) >= (1 if clock == found.reference else 3) for clock, each in enumerate(clocks)
    ]
    for clock, each in enumerate(clocks):
        got = found.offset[clock], found.drift[clock], found.uncertainty[clock]
        line = line_of(each, left)
        if clock == found.reference or line is None:
            assert got == (0, 0, 0)
            continue
        shared = [m for m in left if m in each]
        off = sorted(abs(each[m] - left[m] - int(line.ahead(column([left[m]]))[0])) for m in shared)
        most = off[math.ceil(0.95 * len(off)) - 1] * math.sqrt(len(off) / (len(off) - 2))
        offset = line.offset + round(line.drift * (found.middle - line.middle))
        assert got == (offset, line.drift, math.ceil(most))


def rows_of(seed: int, pairs: list[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Meeting, clock, start and end of one to three processes for each pair; clock c is ahead by c * 7 ms + c * 1 ppm.

    They come up to 1 ms before the meeting is over, and leave within 2 us.
    """
    rng, rows = np.random.default_rng(seed), []
    for meeting, clock in pairs:
        over = meeting * 1_000_000_000
        for _ in range(rng.integers(1, 4)):
            ahead = BASE + clock * (7_000_000 + over // 1_000_000)
            start, end = over - int(rng.integers(5_000, 1_000_000)), over + int(rng.integers(0, 2_000))
            rows.append((meeting, clock, start + ahead, end + ahead))
    return rows


def related(rows: list[tuple[int, int, int, int]], n_clocks: int) -> tuple[int, list[ClockRelation | None]]:
    return relate(*column(list(zip(*rows, strict=True))), n_clocks)  # type: ignore[call-arg]


@pytest.mark.parametrize("seed", range(6))
def test_a_relation_is_that_of_the_last_to_come_and_the_first_to_leave(seed: int) -> None:
    rows = rows_of(seed, [(m, c) for m in range(40) for c in (0, 1) if (m * 7 + seed) % 11 or c == 0])
    reference, (_, found) = related(rows, 2)
    assert reference == 0
    assert found is not None
    came, left, mean = ({}, {}, {})  # type: tuple[dict[tuple[int, int], int], ...]
    for key in {row[:2] for row in rows}:
        mine = [row[2:] for row in rows if row[:2] == key]
        came[key], left[key] = max(start for start, _ in mine), min(end for _, end in mine)
        mean[key] = sum(end for _, end in mine) // len(mine)
    shared = [m for m, c in came if c == 1]
    line = line_of({m: mean[m, 1] for m in shared}, {m: mean[m, 0] for m in shared})
    assert line is not None
    assert found.line == line
    # The clocks can distinguish 1 ns each.
    assert found.bounds.steady_low == max(came[m, 1] - left[m, 0] for m in shared) - 2
    assert found.bounds.steady_high == min(left[m, 1] - came[m, 0] for m in shared) + 2
    assert found.bounds.count == len(shared)
    off = sorted(abs(mean[m, 1] - mean[m, 0] - int(line.ahead(column([mean[m, 0]]))[0])) for m in shared)
    scatter = max(off[math.ceil(0.5 * len(off)) - 1], off[math.ceil(0.75 * len(off)) - 1] // 2)
    assert found.uncertainty == line.uncertainty + math.ceil(HABIT * scatter)
    assert found.in_drift == pytest.approx(line.in_drift + HABIT * scatter / (line.last - line.first))
    assert (found.over, found.wrong, found.apart, found.breaks) == (0, 0, True, ())


def test_what_a_clock_can_distinguish_counts_for_that_clock_alone() -> None:
    """Clock 1 has steps of 1 us. Half of the steps of two clocks is within the limits of their line."""
    rows = [(m, c, start, end) for m, c, start, end in rows_of(7, [(m, c) for m in range(30) for c in range(3)])]
    coarse = [(m, c, *(t // 1_000 * 1_000 if c == 1 else t for t in times)) for m, c, *times in rows]
    (_, one, two), (_, as_before, same) = related(coarse, 3)[1], related(rows, 3)[1]
    assert one is not None
    assert as_before is not None
    assert two == same
    assert one.line.at_middle - as_before.line.at_middle >= 400


def test_over_another_clock_all_uncertainties_add_up() -> None:
    """Clock 2 never meets clock 0. Corrected by hand, clock 1 is a second reference, and nothing else differs."""
    with_1 = [(m, c) for m in range(30) for c in (0, 1)] + [(m, 0) for m in range(100, 140)]
    rows = rows_of(1, with_1) + rows_of(2, [(m, c) for m in range(40, 80) for c in (1, 2)])
    reference, (_, one, two) = related(rows, 3)
    assert reference == 0
    assert one is not None
    assert two is not None
    assert (one.over, two.over) == (0, 1)
    shared = [row for row in rows if 40 <= row[0] < 80]
    by_hand = []
    for m, c, start, end in shared:
        times = one.line.corrected(column([start, end])).tolist() if c == 1 else (start, end)
        by_hand.append((m, c - 1, *times))
    _, (_, alone) = related(by_hand, 2)
    assert alone is not None
    assert abs(two.line.offset - alone.line.offset) <= 1
    assert two.line.drift == pytest.approx(alone.line.drift, abs=1e-12)
    assert (two.line.first, two.line.last, two.line.count) == (alone.line.first, alone.line.last, 40)
    assert two.uncertainty == pytest.approx(alone.uncertainty + one.uncertainty, abs=2)
    assert two.in_drift == pytest.approx(alone.in_drift + one.in_drift, rel=1e-3)
    assert two.bounds.steady_low == alone.bounds.steady_low - one.uncertainty
    assert two.bounds.steady_high == alone.bounds.steady_high + one.uncertainty


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_has_no_meaning(random: st.DataObject) -> None:
    rows = rows_of(3, [(m, c) for m in range(12) for c in (0, 1)] + [(m, c) for m in range(12, 24) for c in (1, 2)])
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert related(shuffled, 3) == related(rows, 3)


def test_ranks_of_one_host_show_their_habits_on_one_clock_or_on_several() -> None:
    """Ranks 0 and 1 leave 300 us apart, 2 and 3 on the other host 100 us; its clock is ahead by 5 ms."""
    meeting, rank = (each.ravel() for each in np.indices((30, 4)))
    late, ahead = column([0, 300_000, 0, 100_000])[rank], 5_000_000 * (rank > 1)
    start = BASE + meeting * 1_000_000_000 + ahead
    end = start + 700_000 + late
    between = 5_000_000 + 50_000 - 150_000
    reference, found = relate(meeting, rank, start, end, 4, hosts=column([0, 0, 1, 1]))
    assert reference == 0
    assert [each and each.line.offset for each in found] == [None, 0, between, between]
    reference, found = relate(meeting, rank // 2, start, end, 2, members=rank)
    assert [each and each.line.offset for each in found] == [None, between]
    # As clocks of their own, nothing shows that they are late.
    _, found = relate(meeting, rank, start, end, 4)
    assert [each and each.line.offset for each in found] == [None, 300_000, 5_000_000, 5_100_000]
    # Two habits show little: 2.6 deviations of the distance between two middles of two.
    deviation = math.sqrt((150_000**2 * 2 + 50_000**2 * 2) / 2)
    [_, *others] = relate(meeting, rank, start, end, 4, hosts=column([0, 0, 1, 1]))[1]
    assert [each and each.uncertainty - each.line.uncertainty for each in others] == [math.ceil(2.6 * deviation)] * 3


def test_three_meetings_make_a_relation_and_two_do_not() -> None:
    for count, known in ((3, True), (2, False)):
        rows = rows_of(4, [(m, c) for m in range(count) for c in (0, 1)])
        assert (related(rows, 2)[1][1] is not None) == known
        # Nor do two that lead over another clock.
        rows += rows_of(5, [(m, 0) for m in range(60, 99)] + [(m, c) for m in range(40, 50) for c in (1, 2)])
        assert (related(rows, 3)[1][2] is not None) == known


def test_a_clock_that_was_set_leads_on_from_the_part_that_holds_only() -> None:
    """Clock 1 is set by 50 ms before meeting 30 of 100. Clock 2 meets it in the same seconds, and never clock 0."""
    rows = []
    for meeting in range(100):
        over = BASE + meeting * 1_000_000_000
        set_by = 50_000_000 * (meeting >= 30)
        for clock, ahead, of in ((0, 0, 0), (1, set_by, 0), (1, set_by, 1_000), (2, 9_000_000, 1_000)):
            rows.append((meeting + of, clock, over + ahead - 400_000, over + ahead))
    rows += [(meeting, 0, BASE + meeting * 1_000_000_000, BASE + meeting * 1_000_000_000 + 7) for meeting in (200, 201)]
    rows += [(meeting, 0, *row[2:]) for meeting, row in zip(range(300, 400), rows, strict=False)]
    reference, (_, one, two) = related(rows, 3)
    assert reference == 0
    assert one is not None
    assert two is not None
    [(at, by)] = one.breaks
    assert (at, by) == (BASE + 30_000_000_000, 50_000_000)
    # The two meetings beside a break are left out, too.
    assert (one.line.first, one.line.last) == (BASE + 32_000_000_000, BASE + 99_000_000_000)
    assert (one.line.offset, one.line.count) == (50_000_000, 68)
    assert (two.line.offset, two.line.count, two.wrong, two.breaks) == (9_000_000, 68, 0, ())
    assert (two.line.first, two.line.last) == (one.line.first, one.line.last)


def relation(
    apart: I64, low: I64, high: I64, resolution: int = 2, unsure: int = 0, loose: float = 0.0
) -> tuple[ClockRelation | None, list[float]]:
    """The relation of differences 1 s from each other, and what is assumed of habits; they look like 10 ns."""
    assumed: list[float] = []

    def allowance(habit: float) -> float:
        assumed.append(habit)
        return 10.0

    times = BASE + np.arange(apart.size) * 1_000_000_000
    return matched_collectives._relation(times, apart, low, high, resolution, allowance, 0, unsure, loose), assumed


@pytest.mark.parametrize(("resolution", "unsure"), [(2, 0), (2, 500), (64, 0)])
def test_meetings_that_contradict_the_line_are_counted_up_to_a_twentieth(resolution: int, unsure: int) -> None:
    """20 differences of 250 ns, whose line is certain to half the resolution; habits add 10 ns, the clocks the rest."""
    room = resolution // 2 + 10 + resolution + unsure
    for far, wrong in ((room, 0), (room + 1, 1)):
        for side in (1, -1):
            apart, low, high = np.full(20, 250), np.full(20, 250 - 9_000), np.full(20, 250 + 9_000)
            (low if side > 0 else high)[7] += side * (9_000 + far)
            found, _ = relation(apart, low, high, resolution, unsure)
            assert found is not None
            assert found.wrong == wrong
            assert found.bounds.count == 20 - wrong
            (high if side > 0 else low)[3] -= side * (9_000 + far)
            second, _ = relation(apart, low, high, resolution, unsure)
            assert (second is None) == bool(wrong)  # two of 20 are too many


def test_what_is_stated_of_a_line_has_room_for_habits_and_for_the_clocks_in_between() -> None:
    """Half of the differences are on the line, the others 400 ns away: the usual distance is half of that."""
    apart = np.array([400, 0, -400, 0, 0, -400, 0, 400, 0, 400, 0, -400, -400, 0, 400, 0, 0, 400, -400, 0])
    for values, scatter in ((apart, 200), (np.where(np.arange(20) % 4 // 2, 100, -100), 100)):
        found, assumed = relation(values, values - 9_000, values + 9_000, 2, 500, 0.25)
        line = fit(BASE + np.arange(20) * 1_000_000_000, values)
        assert found is not None
        assert line is not None
        assert abs(line.offset) <= 5
        assert assumed == [pytest.approx(HABIT * scatter, abs=HABIT * 5)]
        assert found.uncertainty == line.uncertainty + 10 + 500
        assert found.in_drift == pytest.approx(line.in_drift + 10 / 19_000_000_000 + 0.25)


@pytest.mark.parametrize("jump", [0, 1_500])
def test_a_jump_that_is_no_break_makes_time_and_drift_less_certain(jump: int) -> None:
    """A bend counts once for times, and four times over the whole run for the drift."""
    apart = np.where(np.arange(200) < 100, 0, jump) + np.arange(200) % 3
    found, _ = relation(apart, apart - 9_000, apart + 9_000)
    line = fit(BASE + np.arange(200) * 1_000_000_000, apart)
    assert found is not None
    assert line is not None
    bend = matched_collectives._straight(BASE + np.arange(200) * 1_000_000_000, apart, 1)[2]
    assert (bend > 200) == bool(jump)
    assert (found.breaks, found.line) == ((), line)
    assert found.uncertainty == line.uncertainty + math.ceil(10 + bend)
    assert found.in_drift == pytest.approx(line.in_drift + (10 + 4 * bend) / 199e9)


@pytest.mark.parametrize("side", [1, -1])
def test_three_meetings_that_contradict_one_clock_take_it_apart(side: int) -> None:
    for against, beyond, apart in ((3, 1, True), (2, 1, False), (3, 0, False)):
        low, high = np.full(20, -9_000), np.full(20, 9_000)
        (low if side > 0 else high)[:against] = side * (2 + beyond)
        found, _ = relation(np.zeros(20, np.int64), low, high)
        assert found is not None
        assert found.apart == apart
    both, _ = relation(np.zeros(20, np.int64), column([3, 3, *[-9_000] * 18]), column([9_000] * 19 + [-3]), 2)
    assert both is not None
    assert both.apart


@settings(max_examples=100, deadline=None)
@example([0, 1, 3], 3_000_000)
@given(st.lists(st.integers(0, 400), max_size=7), st.sampled_from([1, 6, 250_000, 3_000_000]))
def test_the_resolution_is_the_largest_step_of_all_times_up_to_a_millisecond(steps: list[int], step: int) -> None:
    found = matched_collectives._resolution(BASE + column(steps) * step + 5)
    if len(steps) < 3:
        assert found == 1
        return
    want = math.gcd(*((each - steps[0]) * step for each in steps))
    assert found == min(want or 1, 1_000_000)


def parted(
    monkeypatch: pytest.MonkeyPatch, y: I64, *found: MatchedPart
) -> tuple[slice, tuple[tuple[int, int], ...], float]:
    """The longest part of differences 1 s from each other, of which these parts were found."""
    shifted = [replace(part, shift=part.shift - int(np.median(y))) for part in found]
    monkeypatch.setattr(matched_collectives, "parts", lambda *_: shifted)
    return matched_collectives._straight(BASE + np.arange(y.size) * 1_000_000_000, y, 1)


def test_a_jump_is_stated_for_the_middle_between_two_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 differences, then 10 that go up by 2 us a second; times of parts are from the 20th difference."""
    seconds = np.arange(40) - 20
    y = np.where(seconds < 10, 0, 100_000 + 2_000 * seconds)
    parts = MatchedPart(0, 30, 0.0, 0.0), MatchedPart(30, 40, 100_000.0, 2e-6)
    inside, breaks, bend = parted(monkeypatch, y, *parts)
    assert breaks == ((BASE + 30_000_000_000, 100_000 + 2_000 * 19 // 2),)
    assert (inside, bend) == (slice(0, 28), 0.0)
    # Of the longer second part the first two differences are left out, and no others.
    parts = MatchedPart(0, 12, 0.0, 0.0), MatchedPart(12, 40, 7e6, 0.0)
    y = np.where(np.arange(40) < 12, 0, 7_000_000)
    inside, breaks, _ = parted(monkeypatch, y, *parts)
    assert (inside, breaks) == (slice(14, 40), ((BASE + 12_000_000_000, 7_000_000),))
    # One that is further away than three times the usual distance, or what the clocks can show, does not count.
    for far, first in ((3, 14), (4, 15)):
        y[12] = 7_000_000 + far
        assert parted(monkeypatch, y, *parts)[0] == slice(first, 40)
    # In the middle it is two on each side, and differences of a slew, too few for a part.
    parts = MatchedPart(0, 8, 0.0, 0.0), MatchedPart(8, 32, 7e6, 1e-4), MatchedPart(32, 40, 9e6, 0.0)
    y = np.repeat([0, 7_000_000, 9_000_000], [8, 24, 8])
    y[8:32] += seconds[8:32] * 100_000
    y[[8, 30, 31]] += [-90_000, 40_000, 90_000]
    inside, breaks, _ = parted(monkeypatch, y, *parts)
    assert inside == slice(11, 28)
    assert breaks == ((BASE + 8_000_000_000, 5_750_000), (BASE + 32_000_000_000, 850_000))


@pytest.mark.parametrize(
    ("jump", "noise", "is_break"),
    [(2_000, 0, False), (2_001, 0, True), (12_000, 3_000, False), (12_001, 3_000, True), (-2_001, 0, True)],
)
def test_a_small_jump_is_no_break_but_part_of_the_uncertainty(
    monkeypatch: pytest.MonkeyPatch, jump: int, noise: int, is_break: bool
) -> None:
    """Up to 2 us, or twice the usual distance of two neighbours."""
    y = np.where(np.arange(40) < 20, 0, jump) + np.where(np.arange(40) % 2, noise, -noise)
    _, breaks, bend = parted(monkeypatch, y, MatchedPart(0, 20, 0.0, 0.0), MatchedPart(20, 40, float(jump), 0.0))
    assert breaks == (((BASE + 20_000_000_000, jump),) if is_break else ())
    assert is_break == (bend == 0)


def test_a_bend_is_what_parts_leave_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bend of 50 us is the most that is no break; the one line here is 0."""
    monkeypatch.setattr(matched_collectives, "robust", lambda *_: (0.0, 0.0))
    y = np.zeros(40, np.int64)
    for far, is_break in ((50_000, False), (50_001, True)):
        inside, breaks, bend = parted(monkeypatch, y, MatchedPart(0, 20, far, 0.0), MatchedPart(20, 40, far, 0.0))
        assert bool(breaks) == is_break
        assert is_break or (inside, bend) == (slice(0, 40), far)
    monkeypatch.setattr(matched_collectives, "robust", lambda *_: (-300.0, -1e-6))
    _, _, bend = parted(monkeypatch, y, MatchedPart(0, 20, 100.0, -1e-6), MatchedPart(20, 40, 200.0, -1e-6))
    assert bend == pytest.approx(500)
