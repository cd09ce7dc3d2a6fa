"""Ranges of a lane that last over whole later ranges of the same lane, where the lane runs one range after the other.

A stream of a GPU does so: a kernel that lasts over two others of its stream has a wrong end. Lanes on which ranges nest
or run side by side show that many times, and nothing is found on them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

import numpy as np

from tracekit.analysis.packed import Packed
from tracekit.analysis.segments import INT64_MAX, order_by_lane, run_starts
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I32, I64, Codes, Mask, Rows

__all__ = ["CoverSearch", "Covers", "covers"]

LEAST = 2
"""Whole later ranges that a range lasts over: one alone may be due to rounded times or to launches that overlap."""
FEW, SHARE = 2, 0.05
"""Most ranges of a lane, and most of its share, that may last over others; with more of them the lane nests."""
HABIT = 4
"""A name whose calls all last over others, so often, is that of a frame: a graph, a step."""
_ROUNDS = 8
_WINDOW, _STRIDE = 1 << 18, 1 << 10
"""Ranges that are looked at together, about; and how many of them one stands for where time is cut into windows."""
_WINDOWS = 16
"""Most windows: each may have ranges of all parts."""
_DECIDES = 20
"""Starts of equal length that show how far times were rounded."""
_LENGTHS = 20
_FEW_RUNS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Covers:
    """Ranges that last over others. rows: shape (n,), places in the arrays, ascending; counts: whole later ranges."""

    rows: I64
    counts: I64


def covers(lanes: Rows, starts: I64, durations: Rows, names: Codes, launches: Codes) -> Covers:
    """Return the ranges that last over at least two whole later ones of their lane, which cannot be.

    All arrays have shape (n,), ns. lanes, names: a code of 0 or more each. launches: ranges of one launch (the nodes of
    a graph, a kernel and its children) may run side by side; a number below 0 is no launch. A range without length
    counts for nothing. Times that were rounded are taken as such.

    >>> one = np.zeros(4, np.int64)
    >>> found = covers(one, np.array([0, 5, 10, 20]), np.array([5, 99, 3, 3]), np.arange(4), one - 1)
    >>> found.rows.tolist(), found.counts.tolist()
    ([1], [2])
    """
    search = CoverSearch()
    search.take(lanes, starts, durations, names, launches)
    return search.covers()


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Ranges that were taken at once. columns: lanes, starts, durations, names, launches, packed.

    crossed: places that overlap others of the part. lanes: with a range that has a length, ascending; for each its
    group, first start, last end and number of such ranges.
    """

    size: int
    columns: tuple[Packed, ...]
    crossed: I32
    lanes: I64
    groups: I64
    first: I64
    last: I64
    timed: I64


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """Ranges of a part that may overlap others. rows: shape (n,), places in the part, n > 0; before: ranges before it.

    first, last: their least and greatest start. sample: every _STRIDE-th start.
    """

    part: _Part
    before: int
    rows: I32
    first: int
    last: int
    sample: I64


@dataclass(frozen=True, slots=True, eq=False)
class _Ranges:
    """Ranges with their places in all that was taken; arrays of shape (n,)."""

    places: I64
    lanes: I64
    starts: I64
    durations: I64

    def of(self, rows: Rows | Mask) -> _Ranges:
        """Return these ranges alone, in this order."""
        return _Ranges(self.places[rows], self.lanes[rows], self.starts[rows], self.durations[rows])


class CoverSearch:
    """A search for ranges that last over others, which takes them part by part, in any order.

    Ranges that overlap are looked for within each part, and again only where parts of a lane reach into one another.
    Memory: a few bytes for each range, as `Packed` has them; and some 100 for each that overlaps others, of a quarter
    of a million ranges at a time, or of a sixteenth of all: of more where more of them overlap one another.
    """

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._bounds = [0]
        self._roundings: dict[int, _Rounding] = {}
        self._calls: dict[int, I64] = {}

    def take(
        self, lanes: Rows, starts: I64, durations: Rows, names: Codes, launches: Codes, groups: I64 | None = None
    ) -> None:
        """Take ranges, as `covers` does. groups: one for each range, the same for all of a lane."""
        if not lanes.size:
            return
        if groups is None:
            groups = np.broadcast_to(np.int64(0), lanes.size)
        for group in [int(groups[0])] if (groups == groups[0]).all() else sets.unique(groups).tolist():
            mine = slice(None) if (groups == group).all() else groups == group
            self._roundings.setdefault(group, _Rounding()).take(starts[mine], durations[mine])
            none = np.zeros(0, np.int64)
            self._calls[group] = _counted(self._calls.get(group, none), names[mine][durations[mine] > 0])
        rows, begins, reached = _by_lane(lanes, starts, durations)
        at = rows[begins]
        last = np.append(begins, rows.size)[1:]
        packed = tuple(Packed(column) for column in (lanes, starts, durations, names, launches))
        crossed = np.sort(_overlapping(rows, begins, starts, reached)).astype(np.int32)
        self._parts.append(
            _Part(
                lanes.size,
                packed,
                crossed,
                lanes[at].astype(np.int64),
                groups[at],
                starts[at],
                reached[last - 1],
                last - begins,
            )
        )
        self._bounds.append(self._bounds[-1] + lanes.size)

    def covers(self, groups: Collection[int] | None = None) -> Covers:
        """Return what lasts over others; rows: places in all that was taken. groups: those to look at, None for all."""
        wanted = list(self._roundings) if groups is None else [each for each in self._roundings if each in groups]
        rounded_to = _rounding([self._roundings[each] for each in wanted])
        none = np.zeros(0, np.int64)
        found = [(none, none, none, none)]
        of_lanes, of_names = none, none
        for ranges in self._overlapping(np.array(wanted, np.int64)):
            order = np.argsort(ranges.places)
            names, launches = np.empty_like(ranges.places), np.empty_like(ranges.places)
            names[order], launches[order] = self._columns(ranges.places[order], slice(3, 5))
            counts, covering = _lasting(ranges, launches, rounded_to)
            of_lanes, of_names = _counted(of_lanes, ranges.lanes[covering]), _counted(of_names, names[covering])
            over = counts > 0
            found.append((ranges.places[over], counts[over], ranges.lanes[over], names[over]))
        places, counts, lanes, names = (np.concatenate(column) for column in zip(*found, strict=True))
        rare = self._rare(lanes, names, of_lanes, of_names, wanted)
        order = np.argsort(places[rare])
        return Covers(places[rare][order], counts[rare][order])

    def at(self, places: I64) -> list[I64]:
        """Return lanes, starts, durations, names and launches of places, which ascend."""
        return self._columns(places, slice(0, 5))

    def _columns(self, places: I64, wanted: slice) -> list[I64]:
        cuts = np.searchsorted(places, self._bounds).tolist()
        columns: list[list[I64]] = [[] for _ in range(wanted.start, wanted.stop)]
        for part, bound, (begin, end) in zip(self._parts, self._bounds, pairwise(cuts), strict=False):
            if begin < end:
                for column, packed in zip(columns, part.columns[wanted], strict=True):
                    column.append(packed.at(places[begin:end] - bound))
        return [np.concatenate(column) if column else np.zeros(0, np.int64) for column in columns]

    def _overlapping(self, groups: I64) -> Iterator[_Ranges]:
        """Yield the ranges of these groups that overlap another one of their lane, by lane and start.

        All that overlap one another, also by way of others, come together.
        """
        waiting: list[_Ranges] = []
        kept = new = 0
        for end, ranges in _windows(self._candidates(groups)):
            waiting.append(ranges)
            new += ranges.places.size
            # What goes on behind the window is sorted once more, so it is not to be the most of what is sorted.
            if end is not None and new < kept:
                continue
            every = _together(waiting)
            waiting.clear()
            rows, begins, reached = _by_lane(every.lanes, every.starts, every.durations)
            first = np.ones(rows.size, np.bool_)
            first[1:] = every.starts[rows[1:]] >= reached[:-1]
            first[begins] = True
            at = np.flatnonzero(first)
            last = np.append(at, rows.size)[1:]
            goes_on = reached[last - 1] > end if end is not None else np.zeros(at.size, np.bool_)
            done = ~goes_on & (last - at > 1)
            waiting.append(every.of(rows[np.repeat(goes_on, last - at)]))
            kept, new = waiting[0].places.size, 0
            complete = every.of(rows[np.repeat(done, last - at)])
            # The caller takes as much memory as these, so they go first.
            del every, ranges, rows, reached, first
            yield complete

    def _candidates(self, groups: I64) -> list[_Candidates]:
        """Return all ranges of these groups that overlap another one, and a few more.

        More of them change nothing: what overlaps none lies within none and lasts over none.
        """
        if not self._parts:
            return []
        lane, first, last = (
            np.concatenate([getattr(part, name) for part in self._parts]) for name in ("lanes", "first", "last")
        )
        order = np.lexsort((first, lane))
        begins = run_starts(lane[order])
        # How far the parts that begin before one reach in its lane, and where the next one begins.
        before, after = np.full(lane.size, -INT64_MAX), np.full(lane.size, INT64_MAX)
        if lane.size:
            reached = _running_max(last[order], begins)
            earlier, later = np.append(-INT64_MAX, reached[:-1]), np.append(first[order][1:], INT64_MAX)
            earlier[begins], later[begins[1:] - 1] = -INT64_MAX, INT64_MAX
            before[order], after[order] = earlier, later
        meet = (first < before) | (last > after)
        found, piece = [], 0
        for part, bound in zip(self._parts, self._bounds, strict=False):
            own = slice(piece, piece + part.lanes.size)
            piece += part.lanes.size
            places: I64 = part.crossed.astype(np.int64)
            if meet[own].any():
                lanes, starts, durations = (column.all() for column in part.columns[:3])
                at = np.minimum(np.searchsorted(part.lanes, lanes), part.lanes.size - 1)
                touched = (starts < before[own][at]) | (starts + durations > after[own][at])
                touched &= durations > 0
                touched[places] = True
                places = np.flatnonzero(touched)
            if places.size and not np.isin(part.groups, groups).all():
                known = part.lanes[np.isin(part.groups, groups)]
                places = places[np.isin(part.columns[0].at(places), known)]
            if places.size:
                begun = part.columns[1].at(places)
                low, high, some = int(begun.min()), int(begun.max()), begun[::_STRIDE].copy()
                found.append(_Candidates(part, bound, places.astype(np.int32), low, high, some))
        return found

    def _rare(self, lanes: I64, names: I64, of_lanes: I64, of_names: I64, groups: Sequence[int]) -> Mask:
        """Return for each range whether few ranges of its lane last over others, and not all those of its name.

        of_lanes, of_names: by lane, and by name, how many ranges last over others.
        """
        sizes, calls = np.zeros_like(of_lanes), np.zeros_like(of_names)
        for part in self._parts:
            there = part.lanes < sizes.size
            np.add.at(sizes, part.lanes[there], part.timed[there])
        for group in groups:
            own = self._calls.get(group, calls)[: calls.size]
            calls[: own.size] += own
        few = of_lanes <= np.maximum(FEW, (sizes * SHARE).astype(np.int64))
        habit = (of_names >= HABIT) & (of_names == calls)
        rare: Mask = few[lanes] & ~habit[names]
        return rare


def _counted(counts: I64, codes: Codes) -> I64:
    """Return counts by code with these codes counted too; the array may be the same, and grows as they need."""
    if not codes.size:
        return counts
    if (most := int(codes.max())) >= counts.size:
        counts = np.concatenate((counts, np.zeros(most + 1 + counts.size, np.int64)))
    if most < 4 * codes.size:
        counts[: most + 1] += np.bincount(codes)
    else:
        np.add.at(counts, codes, 1)
    return counts


def _together(several: Sequence[_Ranges]) -> _Ranges:
    columns = zip(*((each.places, each.lanes, each.starts, each.durations) for each in several), strict=True)
    return _Ranges(*(np.concatenate(column) for column in columns))


def _windows(candidates: Sequence[_Candidates]) -> Iterator[tuple[int | None, _Ranges]]:
    """Yield the candidates window by window, by start: where the window ends (None: nowhere), and its ranges."""
    if not candidates:
        return
    size = max(_WINDOW, sum(each.rows.size for each in candidates) // _WINDOWS) // _STRIDE
    sample = np.sort(np.concatenate([each.sample for each in candidates]))
    edges = sets.unique(sample[size::size]).tolist()
    for low, high in pairwise([None, *edges, None]):
        ranges: list[_Ranges] = []
        for each in candidates:
            if (low is None or each.last >= low) and (high is None or each.first < high):
                rows, (lanes, starts, durations, *_) = each.rows, each.part.columns
                begun = starts.at(rows)
                if (low is not None and each.first < low) or (high is not None and each.last >= high):
                    mine = begun >= low if low is not None else np.ones(begun.size, np.bool_)
                    if high is not None:
                        mine &= begun < high
                    rows, begun = rows[mine], begun[mine]
                ranges.append(_Ranges(rows + np.int64(each.before), lanes.at(rows), begun, durations.at(rows)))
        if ranges:
            yield high, _together(ranges)


def _lasting(ranges: _Ranges, launches: I64, rounded_to: I64) -> tuple[I64, Mask]:
    """Return how many whole later ones each range lasts over, 0 for fewer than LEAST, and whether it does over any.

    ranges: by lane and start. rounded_to: as `_rounding` returns it.
    """
    size = ranges.starts.size
    found, covering, rows = np.zeros(size, np.int64), np.zeros(size, np.bool_), np.arange(size)
    ends = ranges.starts + ranges.durations
    reach = ends - rounded_to[_lengths(ranges.starts)]
    for _ in range(_ROUNDS):
        # Without the ranges that were found: others may lie within them and last over others too.
        counts = _counts(ranges.lanes[rows], ranges.starts[rows], ends[rows], reach[rows], launches[rows])
        covering[rows[counts > 0]] = True
        bad = counts >= LEAST
        if not bad.any():
            break
        found[rows[bad]] = counts[bad]
        rows = rows[~bad]
    return found, covering


def _by_lane(lanes: Rows, starts: I64, durations: Rows) -> tuple[I64, I64, I64]:
    """Return the ranges with a length by lane and start, where each lane begins, and how far it reached with each."""
    rows = np.flatnonzero(durations > 0)
    if (starts[rows[1:]] < starts[rows[:-1]]).any():
        rows = rows[np.argsort(starts[rows], kind="stable")]
    if rows.size and (lanes[rows] != lanes[rows[0]]).any():
        rows = rows[order_by_lane(lanes[rows])]
    begins = run_starts(lanes[rows])
    return rows, begins, _running_max(starts[rows] + durations[rows], begins)


def _running_max(values: I64, begins: I64) -> I64:
    """Return the greatest value so far of each run; begins: where runs begin."""
    if not values.size:
        return values
    low = int(values.min())
    width = int(values.max()) - low + 1
    if begins.size > _FEW_RUNS and width * begins.size <= INT64_MAX:
        # Each run above the one before it: one pass for all of them.
        above = np.repeat(np.arange(begins.size) * width, np.diff(np.append(begins, values.size)))
        return np.maximum.accumulate(values - low + above) - above + low
    found = values.copy()
    for first, last in pairwise([*begins.tolist(), values.size]):
        np.maximum.accumulate(values[first:last], out=found[first:last])
    return found


def _overlapping(rows: I64, begins: I64, starts: I64, reached: I64) -> I64:
    """Return those of these ranges that overlap another one of their lane."""
    early = starts[rows[1:]] < reached[:-1]
    early[begins[1:] - 1] = False
    return rows[np.append(early, False) | np.append(False, early)] if early.any() else rows[:0]


def _counts(lanes: Rows, starts: I64, ends: I64, reach: I64, launches: Codes) -> I64:
    """Return for each range the later ones that lie within it; one that lies within several is of the last to end."""
    n = starts.size
    if n < 2:
        return np.zeros(n, np.int64)
    place = np.arange(n)
    begins = run_starts(lanes)
    # The range that reaches furthest so far in its lane, the earliest of equal ones.
    furthest = _running_max(reach, begins)
    further = np.ones(n, np.bool_)
    further[1:] = reach[1:] > furthest[:-1]
    further[begins] = True
    longest = np.maximum.accumulate(np.where(further, place, 0))
    before = np.concatenate((np.zeros(1, np.int64), longest[:-1]))
    before[begins] = begins
    same_launch = (launches == launches[before]) & (launches >= 0)
    inside = (before != place) & (starts > starts[before]) & (ends <= reach[before]) & ~same_launch
    return np.bincount(before[inside], minlength=n)


class _Rounding:
    """The rounding of all starts and durations of a group, as far as their digits show it."""

    def __init__(self) -> None:
        self.whole = True
        """All are whole us."""
        self.counts = np.zeros(_LENGTHS, np.int64)
        """Starts of each number of digits."""
        self.steps: dict[int, int] = {}
        """The greatest power of ten that divides all starts of a number of digits, by that number."""

    def take(self, starts: I64, durations: Rows) -> None:
        """Look at times, n > 0 of them."""
        self.whole = self.whole and not (starts % 1000).any() and not (durations % 1000).any()
        ends = _lengths(np.array([starts.min(), starts.max()]))
        if int(starts.min()) >= 0 and ends[0] == ends[1]:
            self._take(int(ends[0]), starts)
            return
        lengths = _lengths(starts)
        for length in sets.unique(lengths).tolist():
            self._take(length, starts[lengths == length])

    def _take(self, length: int, starts: I64) -> None:
        self.counts[length] += starts.size
        step = self.steps.get(length) or 10**length
        while step > 1 and (starts % step).any():
            step //= 10
        self.steps[length] = step


def _lengths(starts: I64) -> I64:
    """Return how many digits follow the first one of each start."""
    return np.floor(np.log10(np.maximum(np.abs(starts), 1).astype(np.float64))).astype(np.int64)


def _rounding(groups: Sequence[_Rounding]) -> I64:
    """Return how far starts of each number of digits (`_lengths`) may have been rounded, ns: 0 where they are whole ns.

    Printed times have so many digits that later ones are coarser, so starts of equal length are looked at together.
    """
    steps = np.full(_LENGTHS, 1000 if all(group.whole for group in groups) else 0)
    counts = sum((group.counts for group in groups), np.zeros(_LENGTHS, np.int64))
    for length in np.flatnonzero(counts >= _DECIDES).tolist():
        step = min(group.steps[length] for group in groups if length in group.steps)
        steps[length] = max(int(steps[length]), step if step > 1 else 0)  # 1 is what whole ns have
    return steps
