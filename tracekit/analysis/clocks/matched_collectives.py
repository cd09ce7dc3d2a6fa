"""Offsets between the clocks of several processes, from the work that they did together.

No rank leaves a collective (all-reduce, all-gather, reduce-scatter, all-to-all, barrier) before the last one has come,
and all leave at about the same time. So the differences of their *ends* are the differences of their clocks, and the
scatter of these differences is the uncertainty. Starts do not help to find them: a rank that comes early waits. But
starts and ends together are inequalities, which hold for sure (`bounds`).

A clock that is set on the way is not one line: the part with most meetings counts, and breaks are stated (`breaks`).

`align` is for tables: each clock is compared with the one that has most meetings, and its uncertainty is that of one
end, the limit that 95 % of the differences stay within, widened by sqrt(m / (m - 2)) for the two numbers that were
fitted. `relate` is for applying: its uncertainty is that of the clock, the line through all differences, and it also
reaches clocks that never met the reference, over clocks that did. A rank that always leaves a little later than the
others looks like a clock that is a little ahead. How much later, ranks on one clock say (`habits`). Without such ranks
nothing in the files does but the inequalities; so the uncertainty has room for a habit as large as `HABIT` times the
median distance of single ends from the line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from tracekit.analysis.clocks.bounds import Bounds, solve
from tracekit.analysis.clocks.line import LEAST, LEAST_FOR_DRIFT, ClockLine, fit, limit, robust
from tracekit.analysis.segments import as_groups, as_int64, check_same_length
from tracekit.analysis.statistics import nearest_rank
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import F64, I64, Mask, Numbers

__all__ = [
    "LEAST_IN_PART",
    "LEAST_MEETINGS",
    "ClockRelation",
    "ExitBias",
    "MatchedPart",
    "RankClocks",
    "align",
    "find",
    "parts",
    "relate",
]

# Clocks that are set on the way: the parts of differences of two clocks between which a line does not go on.
#
# A clock that is set (NTP's step), or slewed for a while, is several lines. One line through all of them would be wrong
# everywhere, so the parts are found first. The noise is measured from neighbouring differences, which a break touches
# once. Then the sums of what a line leaves over are looked at: without a break they wander by about the root of their
# number (the CUSUM test: Page, Continuous Inspection Schemes, 1954; Brown, Durbin and Evans, Techniques for Testing the
# Constancy of Regression Relationships over Time, 1975). Where they go further, the differences are cut in two where
# two
# lines fit best, and each part is looked at again.


LEAST_IN_PART = 8
"""With fewer differences there is no part."""
MOST_PARTS = 12
_CLIP = 3.0
"""What a line leaves over counts up to this many deviations: single late ends are no break."""
FAR_FROM_BEFORE = 1.4
"""Sums that go further than this, in deviations of the root of their number, are no chance: 1 in 10,000 trials do."""
_TRIED = 24
"""Cuts that are tried, evenly over the differences, before the best is looked for around the best of them."""

Fit = Callable[[F64, F64], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class MatchedPart:
    """Differences from place `first` to before `last`, in order of time, that are about one line."""

    first: int
    last: int
    shift: float
    slope: float

    def at(self, x: F64) -> F64:
        """Return the line at these times."""
        line: F64 = self.shift + self.slope * x
        return line


def parts(x: F64, y: F64, fit: Fit, least_noise: float) -> list[MatchedPart]:
    """Return the parts. x: times in order; y: differences; fit: returns shift and slope of the line through some.

    least_noise: the smallest deviation that the clocks can show. One part where nothing speaks for more.
    """
    whole = [MatchedPart(0, x.size, *fit(x, y))]
    if x.size < 2 * LEAST_IN_PART:
        return whole
    noise = max(_noise(x, y), least_noise)
    straight: list[MatchedPart] = []
    waiting = whole
    while waiting:
        part = waiting.pop()
        cut = _cut(x, y, part, noise, fit) if len(straight) + len(waiting) + 2 <= MOST_PARTS else None
        if cut is None:
            straight.append(part)
        else:
            waiting += cut
    straight.sort(key=lambda each: each.first)
    return straight


def _noise(x: F64, y: F64) -> float:
    """Return the deviation of single differences, from neighbouring ones."""
    steps, times = np.diff(y), np.diff(x)
    apart = times > 0
    slope = float(np.median(steps[apart] / times[apart])) if apart.any() else 0.0
    return float(1.4826 / np.sqrt(2) * np.median(np.abs(steps - slope * times)))


def _left(x: F64, y: F64, part: MatchedPart, noise: float) -> F64:
    inside = slice(part.first, part.last)
    clipped: F64 = np.clip((y[inside] - part.at(x[inside])) / noise, -_CLIP, _CLIP)
    return clipped


def _cut(x: F64, y: F64, part: MatchedPart, noise: float, fit: Fit) -> list[MatchedPart] | None:
    """Return the two parts of a part that is not one line, None where it is."""
    left = _left(x, y, part, noise)
    left = left - left.mean()
    spread = max(float(np.sqrt((np.diff(left) ** 2).mean() / 2)), 0.3)
    if np.abs(np.cumsum(left)).max() <= FAR_FROM_BEFORE * spread * np.sqrt(left.size):
        return None
    best, cost = None, float((_left(x, y, part, noise) ** 2).sum())
    limit = cost - 12.0 * spread**2
    low, high = part.first + LEAST_IN_PART, part.last - LEAST_IN_PART
    step = max((high - low) // _TRIED, 1)
    tried = list(range(low, high + 1, step))
    while True:
        for at in tried:
            two = [MatchedPart(a, b, *fit(x[a:b], y[a:b])) for a, b in ((part.first, at), (at, part.last))]
            of_two = sum(float((_left(x, y, each, noise) ** 2).sum()) for each in two)
            if of_two < limit:
                best, limit = two, of_two
        if step == 1 or best is None:
            break
        middle, step = best[0].last, max(step // 6, 1)
        tried = [at for at in range(middle - 6 * step, middle + 6 * step + 1, step) if low <= at <= high]
    return best


# Habits: how much later than others a rank usually leaves a collective, as far as ranks on one clock show it.
#
# A rank that always leaves a little late looks like a clock that is a little ahead. Ranks on one clock tell the two
# apart: their ends are compared without any clock in between. So each rank's own habit is taken out, against the middle
# one of its clock, and the scatter of all habits says how far the middle ones of two clocks may be from each other.


ENOUGH = 4
"""With fewer differences between habits their scatter is known too badly to count alone."""
FAR_NS = 1_000_000
"""Ranks whose ends are further apart than this are not on one clock, whatever their host is called."""
_PLAIN = 2.6


@dataclass(frozen=True, slots=True)
class ExitBias:
    """The habits of ranks. late: shape (n,), ns that each row's rank is later than the middle one on its clock.

    members: of each clock, the ranks on it whose habit is known, 1 or more. apart: of each clock with two, the ns
    between them, else 0. deviation: of a habit, ns; freedom: differences that it comes from.
    """

    late: I64
    members: I64
    apart: I64
    deviation: float
    freedom: int

    def allowance(self, clock: int, other: int, assumed: float) -> float:
        """Return the ns by which habits may look like a difference of two clocks.

        assumed: what is assumed where no two ranks are on one clock.
        """
        if not self.freedom:
            return assumed
        shares = [1 / n if n < 3 else 1.57 / n for n in self.members[[clock, other]].tolist()]  # of a median
        one = self.deviation * math.sqrt(sum(shares))
        wide = limit(self.freedom) * one
        if self.freedom < ENOUGH:
            wide = max(min(wide, assumed), _PLAIN * one)
        # Two ranks do not show which of them is the late one: their middle is off by half.
        return max(wide, float(self.apart[clock] + self.apart[other]) / 2)


def find(meeting: I64, clock: I64, member: I64, end: I64, n_clocks: int, hosts: I64) -> ExitBias:
    """Return the habits. meeting, clock, member, end: shape (n,): a rank on a clock left a meeting at this time.

    hosts: shape (n_clocks,): clocks of one number are one clock, if their ends agree.
    """
    late = np.zeros(end.size, np.int64)
    members, apart = np.ones(n_clocks, np.int64), np.zeros(n_clocks, np.int64)
    squares, freedom = 0.0, 0
    group = hosts[clock]
    for number in sets.unique(group).tolist():
        rows = np.flatnonzero(group == number)
        names, place, counts = np.unique(member[rows], return_inverse=True, return_counts=True)
        if names.size < 2:
            continue
        first = int(counts.argmax())
        base = rows[place == first]
        base = base[np.argsort(meeting[base], kind="stable")]
        habit = np.full(names.size, np.iinfo(np.int64).min)
        habit[first] = 0
        for each in range(names.size):
            of_member = rows[place == each]
            at = np.minimum(np.searchsorted(meeting[base], meeting[of_member]), base.size - 1)
            both = meeting[base][at] == meeting[of_member]
            if each != first and np.count_nonzero(both) >= LEAST_FOR_DRIFT:
                usual = int(np.median(end[of_member[both]] - end[base[at[both]]]))
                habit[each] = usual if abs(usual) <= FAR_NS else habit[each]
        known = habit > np.iinfo(np.int64).min
        count = int(np.count_nonzero(known))
        if count < 2:
            continue
        middle = int(np.median(habit[known]))
        late[rows] = np.where(known, habit - middle, 0)[place]
        squares += float(((habit[known] - habit[known].mean()) ** 2).sum())
        freedom += count - 1
        clocks = sets.unique(clock[rows])
        members[clocks] = count
        apart[clocks] = int(np.ptp(habit[known])) if count == 2 else 0
    return ExitBias(late, members, apart, math.sqrt(squares / freedom) if freedom else 0.0, freedom)


LEAST_MEETINGS = LEAST
"""With fewer meetings there is no result: two points are always on a line."""
MOST_WRONG = 0.05
"""Share of the meetings that may contradict the others: rows that were taken for one collective and are two."""
LEAST_BREAK_NS = 2_000
"""A smaller jump is no break: it is part of the uncertainty, as is a bend that leaves less than NOISE_NS."""
NOISE_NS = 50_000
"""Times of device work are put onto the host's clock with errors of some us, so limits may contradict by this."""
_FAR = 3.0
"""Differences at the ends of a part that are further from its line than this many median distances are not of it."""
_BESIDE = 2
"""So many differences next to a break are left out, too: a slew begins slowly."""
HABIT = 1.5
"""A rank that always leaves later than another does so by less than this, in median distances of single ends."""


@dataclass(frozen=True, slots=True, eq=False)
class RankClocks:
    """Clocks against clock number `reference`; arrays of shape (c,).

    known: whether there were enough meetings. offset: ns that a clock is ahead at the time `middle` of the reference;
    drift: ns by which it gains in each ns; uncertainty: ns, 0 for the reference; meetings: those with the reference.
    """

    reference: int
    known: Mask
    offset: I64
    drift: F64
    uncertainty: I64
    meetings: I64
    middle: int

    def corrected(self, clocks: Numbers, times: Numbers) -> I64:
        """Return times of these clocks, shapes (n,), as times of the reference; unknown clocks stay as they are."""
        at = as_int64(times, "times")
        moved: I64 = at - self.offset[clocks]
        # The time that a clock has gained since the middle: microseconds in days, so floats hold it to the ns.
        rate = self.drift[clocks] / (1 + self.drift[clocks])
        gained: I64 = np.rint(rate * (moved - self.middle)).astype(np.int64)
        return moved - gained


def align(meetings: Numbers, clocks: Numbers, ends: Numbers, n_clocks: int) -> RankClocks:
    """Return the offset and the drift of each clock.

    meetings, clocks, ends: shape (n,): a process left this meeting at this time of its clock (ns). A clock is in a
    meeting once. n_clocks: 1 or more.
    Raises: ValueError for a clock outside 0 .. n_clocks - 1, different lengths; TypeError for no integers.

    >>> of = align(np.array([1, 1, 2, 2, 3, 3]), np.array([0, 1] * 3), np.array([10, 510, 20, 520, 30, 530]), 2)
    >>> of.offset, of.corrected(np.array([1]), np.array([520]))
    (array([  0, 500]), array([20]))
    """
    meeting, clock, end = as_int64(meetings, "meetings"), as_groups(clocks, n_clocks), as_int64(ends, "ends")
    check_same_length(meetings=meeting, clocks=clock, ends=end)
    reference = int(np.bincount(clock, minlength=n_clocks).argmax())
    known = np.zeros(n_clocks, np.bool_)
    offset, uncertainty = np.zeros(n_clocks, np.int64), np.zeros(n_clocks, np.int64)
    count, drift = np.zeros(n_clocks, np.int64), np.zeros(n_clocks)
    of_reference = clock == reference
    order = np.argsort(meeting[of_reference], kind="stable")
    met, left = meeting[of_reference][order], end[of_reference][order]
    middle = (int(left.min()) + int(left.max())) // 2 if left.size else 0
    for other in range(n_clocks):
        of_other = np.flatnonzero(clock == other)
        at = np.minimum(np.searchsorted(met, meeting[of_other]), max(met.size - 1, 0))
        both = met[at] == meeting[of_other] if met.size else np.zeros(of_other.size, np.bool_)
        of_other, at = of_other[both], at[both]
        count[other] = of_other.size
        if other == reference:
            known[other] = bool(of_other.size)
            continue
        if of_other.size < LEAST_MEETINGS:
            continue
        known[other] = True
        offset[other], drift[other], uncertainty[other] = _fit(left[at], end[of_other] - left[at], middle)
    return RankClocks(reference, known, offset, drift, uncertainty, count, middle)


def _fit(times: I64, apart: I64, middle: int) -> tuple[int, float, int]:
    """Return offset, drift and uncertainty of differences `apart` at these times."""
    line = fit(times, apart)
    if line is None:  # pragma: no cover - there are LEAST_MEETINGS
        raise ValueError("too few meetings")
    left = apart - line.ahead(times)
    offset = line.offset + round(line.drift * (middle - line.middle))
    scatter = nearest_rank(np.sort(np.abs(left)), 95)
    return offset, line.drift, math.ceil(scatter * math.sqrt(times.size / (times.size - 2)))


@dataclass(frozen=True, slots=True)
class ClockRelation:
    """One clock against the reference. line: times of the reference; bounds: what the inequalities leave open.

    uncertainty: ns, of a corrected time within the line's span, over all clocks in between; in_drift: of the drift.
    over: the clocks in between that the meetings lead over, 0 where the clock met the reference itself. wrong: meetings
    that contradict the line. apart: the clock's own times contradict that it and the reference are one clock.
    breaks: where one of the two clocks was set, or slewed: time of the reference and ns of the jump; the line is that
    of the part with most meetings, and holds within its own span alone.
    """

    line: ClockLine
    bounds: Bounds
    uncertainty: int
    in_drift: float
    over: int
    wrong: int
    apart: bool
    breaks: tuple[tuple[int, int], ...] = ()


def relate(
    meetings: Numbers,
    clocks: Numbers,
    starts: Numbers,
    ends: Numbers,
    n_clocks: int,
    *,
    members: Numbers | None = None,
    hosts: Numbers | None = None,
) -> tuple[int, list[ClockRelation | None]]:
    """Return the reference, and for each clock its relation to that, None for the reference and where none is known.

    meetings, clocks, starts, ends: shape (n,): somebody on this clock came to this meeting and left it (ns of the
    clock). Several may be on one clock. n_clocks: 1 or more. members: who it was, shape (n,). hosts: shape (n_clocks,):
    clocks of one number are read from one clock.
    """
    meeting, clock = as_int64(meetings, "meetings"), as_groups(clocks, n_clocks)
    start, end = as_int64(starts, "starts"), as_int64(ends, "ends")
    check_same_length(meetings=meeting, clocks=clock, starts=start, ends=end)
    member = clock if members is None else as_int64(members, "members")
    host = np.arange(n_clocks) if hosts is None else as_int64(hosts, "hosts")
    usual = find(meeting, clock, member, end, n_clocks, host)
    meeting, clock, start, end, leave = _one_of_each_clock(meeting, clock, start, end, end - usual.late)
    reference = int(np.bincount(clock, minlength=n_clocks).argmax())
    relations: list[ClockRelation | None] = [None] * n_clocks
    resolutions = [_resolution(end[clock == number]) for number in range(n_clocks)]
    # Per meeting, on the reference's clock: the last to come, the first to leave, and where all leave.
    names, of = np.unique(meeting, return_inverse=True)
    count = names.size
    of_reference = np.flatnonzero(clock == reference)
    came, left, middle_left = (np.zeros(count, np.int64) for _ in range(3))
    known = np.zeros(count, np.bool_)
    hops, unsure, loose = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count)
    came[of[of_reference]], left[of[of_reference]], middle_left[of[of_reference]], known[of[of_reference]] = (
        start[of_reference],
        end[of_reference],
        leave[of_reference],
        True,
    )
    waiting = [number for number in range(n_clocks) if number != reference]
    # From the reference outwards, a round at a time: a clock that shares too few meetings with the reference may share
    # enough with a clock that was related in an earlier round.
    while waiting:
        shared = [int(np.count_nonzero(known[of[clock == number]])) for number in waiting]
        reached = [number for number, many in zip(waiting, shared, strict=True) if many >= LEAST_MEETINGS]
        if not reached:
            break
        fresh: list[tuple[int, ClockRelation]] = []
        for number in reached:
            of_clock = np.flatnonzero(clock == number)
            of_clock = of_clock[known[of[of_clock]]]
            at = of[of_clock]
            relation = _relation(
                middle_left[at],
                leave[of_clock] - middle_left[at],
                start[of_clock] - left[at],
                end[of_clock] - came[at],
                resolutions[number] + resolutions[reference],
                partial(usual.allowance, number, reference),
                int(hops[at].max()),
                int(unsure[at].max()),
                float(loose[at].max()),
            )
            waiting.remove(number)
            if relation is not None:
                relations[number] = relation
                fresh.append((number, relation))
        for number, new in fresh:  # after the round: the order of clocks has no meaning
            of_clock = np.flatnonzero(clock == number)
            of_clock = of_clock[~known[of[of_clock]]]
            # Beyond the ends of its line nothing is known of a clock that jumped, so these meetings relate no other
            # clock.
            if new.breaks:
                inside = new.line.corrected(leave[of_clock])
                of_clock = of_clock[(inside >= new.line.first) & (inside <= new.line.last)]
            at = of[of_clock]
            came[at], left[at], middle_left[at] = (new.line.corrected(times[of_clock]) for times in (start, end, leave))
            hops[at], unsure[at], loose[at] = new.over + 1, new.uncertainty, new.in_drift
            known[at] = True
    return reference, relations


def _one_of_each_clock(meeting: I64, clock: I64, start: I64, end: I64, leave: I64) -> tuple[I64, I64, I64, I64, I64]:
    """Return a row for each meeting and clock: the last start, the first end and the mean of `leave` of those on it."""
    order = np.lexsort((clock, meeting))
    meeting, clock, start, end, leave = meeting[order], clock[order], start[order], end[order], leave[order]
    begins = np.append(True, (np.diff(meeting) != 0) | (np.diff(clock) != 0))[: meeting.size]
    first = np.flatnonzero(begins)
    if first.size == meeting.size:
        return meeting, clock, start, end, leave
    sizes = np.diff(np.append(first, meeting.size))
    first_end, base = np.minimum.reduceat(end, first), leave[first]
    mean = base + np.add.reduceat(leave - np.repeat(base, sizes), first) // sizes
    return meeting[first], clock[first], np.maximum.reduceat(start, first), first_end, mean


def _resolution(ends: I64) -> int:
    """Return the ns between two times that a clock can distinguish: all its times are multiples of it."""
    if ends.size < LEAST_MEETINGS:
        return 1
    step = int(np.gcd.reduce(ends - ends[0]))
    return min(max(step, 1), 1_000_000)


def _relation(
    times: I64,
    apart: I64,
    low: I64,
    high: I64,
    resolution: int,
    allowance: Callable[[float], float],
    over: int,
    unsure: int,
    loose: float,
) -> ClockRelation | None:
    """Return the relation that differences of ends and the limits of each meeting show, None where they disagree.

    resolution: ns, the sum of those of both clocks. allowance: what habits may look like, from what is assumed of them
    where nothing is known.
    """
    order = np.argsort(times, kind="stable")
    times, apart, low, high = times[order], apart[order], low[order], high[order]
    straight, breaks, bend = _straight(times, apart, resolution)
    times, apart, low, high = times[straight], apart[straight], low[straight], high[straight]
    line = fit(times, apart, resolution // 2)
    if line is None:  # pragma: no cover - there are LEAST_MEETINGS
        return None
    ahead = line.ahead(times)
    far = np.sort(np.abs(apart - ahead))
    # Of ends with two usual delays most may be equal: half the upper quartile is the median of a bell curve's tails.
    scatter = max(nearest_rank(far, 50), nearest_rank(far, 75) // 2)
    habit = allowance(HABIT * scatter)
    uncertainty = line.uncertainty + math.ceil(habit + bend)
    apart_by = resolution + unsure
    wrong = (ahead < low - uncertainty - apart_by) | (ahead > high + uncertainty + apart_by)
    bad = int(np.count_nonzero(wrong))
    if bad > MOST_WRONG * times.size:
        return None  # they are not the same collectives
    right = ~wrong
    bounds = solve(times[right], low[right], high[right], apart_by)
    bounds = bounds or solve(times[right], low[right], high[right], apart_by + NOISE_NS)
    if bounds is None:
        return None
    against = np.count_nonzero((low[right] > apart_by) | (high[right] < -apart_by))
    # A habit may change on the way, or a clock jump by less than its noise.
    in_drift = line.in_drift + (habit + 4 * bend) / max(line.last - line.first, 1)
    sure = uncertainty + unsure, in_drift + loose
    return ClockRelation(line, bounds, *sure, over, bad, bool(against >= LEAST_MEETINGS), breaks)


def _straight(times: I64, apart: I64, resolution: int) -> tuple[slice, tuple[tuple[int, int], ...], float]:
    """Return the longest part of the differences that is one line, the breaks, and what bends leave of that line.

    times: in order.
    """
    middle, base = int(times[times.size // 2]), int(np.median(apart))
    x, y = (times - middle).astype(np.float64), (apart - base).astype(np.float64)
    straight = parts(x, y, robust, resolution)
    whole = slice(0, times.size)
    if len(straight) == 1:
        return whole, (), 0.0
    ends = np.array([(each.first, each.last - 1) for each in straight])
    jumps = [
        float(after.at(at) - before.at(at))
        for before, after, at in zip(straight[:-1], straight[1:], (x[ends[:-1, 1]] + x[ends[1:, 0]]) / 2, strict=True)
    ]
    shift, slope = robust(x, y)
    bend = max(
        float(np.abs(each.at(x[end]) - shift - slope * x[end]).max()) for each, end in zip(straight, ends, strict=True)
    )
    noise = float(np.median(np.abs(np.diff(y))))
    if bend <= NOISE_NS and max(map(abs, jumps)) <= max(LEAST_BREAK_NS, 2 * noise):
        return whole, (), bend
    longest = max(straight, key=lambda each: each.last - each.first)
    # A short slew beside the part can be too short for a part of its own: its differences are at the end of this one.
    left = np.abs(y[longest.first : longest.last] - longest.at(x[longest.first : longest.last]))
    near = np.flatnonzero(left <= _FAR * max(float(np.median(left)), resolution))
    first = int(near[_BESIDE]) if longest.first else 0
    last = int(near[-1 - _BESIDE]) if longest.last < times.size else left.size - 1
    inside = slice(longest.first + first, longest.first + last + 1)
    breaks = tuple((int(times[after.first]), round(jump)) for after, jump in zip(straight[1:], jumps, strict=True))
    return inside, breaks, 0.0
