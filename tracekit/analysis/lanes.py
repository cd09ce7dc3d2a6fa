"""Slices that overlap in part, spread over extra lanes as the viewers of Chrome traces need it, batch by batch.

On one track of a viewer two slices must be nested or disjoint: catapult draws others wrongly and gives no warning,
Perfetto once dropped the later one (perfetto issues 432, 6277) and now moves it away with an error (4280). So each
slice goes to the first of the tracks (lane, 0), (lane, 1), ... where it fits: where nothing is open when it starts, or
where it ends no later than the innermost open slice does. Nothing is ever lost, and a lane that is properly nested
keeps its one track.
"""

from __future__ import annotations

import operator
from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from tracekit.analysis.segments import as_int64, check_same_length, order_by_lane, previous_greater, run_starts
from tracekit.model.arrow import I64, Numbers

__all__ = ["LaneAssigner"]

_LEAST = -(1 << 63)
"""No int64 is less."""
_IDLE = 1 << 64
"""Room on a track where nothing is open; more than any int64."""


class LaneAssigner:
    """Gives each slice its track, for batches that come in order of start; open slices are kept between calls.

    How the rows are cut into batches changes nothing. Memory: the ends of the slices that are open, and a few words
    for each track.
    """

    __slots__ = ("_last_start", "_open", "_tracks")

    def __init__(self) -> None:
        # Ends of the open slices on track 0 of each lane, outermost first; some may have passed.
        self._open: dict[int, list[int]] = {}
        # Only lanes that needed a second track.
        self._tracks: dict[int, _Tracks] = {}
        self._last_start = _LEAST

    def assign(self, lane_codes: Numbers, starts: Numbers, durs: Numbers) -> I64:
        """Return shape (n,): 0 for the lane's own track, k for its k-th extra one.

        lane_codes: shape (n,), any int64; those below 2^16 are fastest. starts, durs: shape (n,), ns; a negative
        duration counts as 0. Rows ascend by start, over all calls; of equal starts the longer should come first, else
        it needs an extra track.
        Raises: ValueError where starts descend or lengths differ, OverflowError where a slice ends beyond int64,
        TypeError for values that are no integers. After an error the state is as before the call.
        """
        lanes, first, durations = as_int64(lane_codes, "lane_codes"), as_int64(starts, "starts"), as_int64(durs, "durs")
        check_same_length(lane_codes=lanes, starts=first, durs=durations)
        extras = np.zeros(first.size, np.int64)
        if first.size == 0:
            return extras
        if int(first[0]) < self._last_start or (first[1:] < first[:-1]).any():
            raise ValueError("slices must come in order of start")
        last = first + np.maximum(durations, 0)
        if (last < first).any():
            raise OverflowError("a slice ends beyond int64")
        self._last_start = int(first[-1])

        order = order_by_lane(lanes)
        lanes, first, last = lanes[order], first[order], last[order]
        begins = run_starts(lanes)
        codes = lanes[begins].tolist()
        bounds = [*begins.tolist(), lanes.size]
        stacks = [self._open.setdefault(code, []) for code in codes]

        follows = np.empty(first.size, np.bool_)
        np.greater_equal(first[1:], last[:-1], out=follows[1:])
        follows[begins] = first[begins] >= np.array([stack[0] if stack else _LEAST for stack in stacks], np.int64)
        sequential = np.logical_and.reduceat(follows, begins).tolist()
        ends = last[np.append(begins[1:], last.size) - 1].tolist()
        busy = []
        for lane, stack in enumerate(stacks):
            if sequential[lane]:
                stack[:] = ends[lane : lane + 1]
            else:
                busy.append(lane)
        if busy:
            self._assign_busy(busy, codes, bounds, first, last, order, extras)
        return extras

    def _assign_busy(
        self,
        busy: list[int],
        codes: list[int],
        bounds: list[int],
        first: I64,
        last: I64,
        order: npt.NDArray[np.intp],
        extras: I64,
    ) -> None:
        """Place the rows of lanes where slices do not simply follow each other: at once where they are nested."""
        stacks = [self._open[codes[lane]] for lane in busy]
        rows = [slice(bounds[lane], bounds[lane + 1]) for lane in busy]
        for nested, lane, of_lane, stack in zip(_nested(stacks, rows, first, last), busy, rows, stacks, strict=True):
            if nested:
                now = int(first[of_lane.stop - 1])
                _close(stack, now)
                ends = last[of_lane]
                stack.extend(ends[ends > now].tolist())
            else:
                tracks = self._tracks.setdefault(codes[lane], _Tracks())
                extras[order[of_lane]] = _place(stack, tracks, first[of_lane], last[of_lane])


def _nested(stacks: list[list[int]], rows: list[slice], first: I64, last: I64) -> list[bool]:
    """Return for each lane whether its new rows are nested in each other and in what is open.

    They are if, for each row, the nearest open slice before it ends no earlier than the row does, and only then: all
    rows before the first that fails are nested, so the nearest open slice is the one that ends first.
    """
    values, than, begins, size = [], [], [], 0
    for stack, of_lane in zip(stacks, rows, strict=True):
        _close(stack, int(first[of_lane.start]))
        # The open slices that end before the last end of the batch, and one more that holds all of it.
        holding = bisect_right(stack, -int(last[of_lane].max()), key=operator.neg)
        carried = np.array(stack[max(holding - 1, 0) :], np.int64)
        values += [carried, last[of_lane]]
        than += [np.full(carried.size, np.iinfo(np.int64).max), first[of_lane]]  # carried rows need no track
        begins.append(size)
        size += carried.size + of_lane.stop - of_lane.start
    ends = np.concatenate(values)
    starts = np.array(begins, np.intp)
    around = previous_greater(ends, np.concatenate(than), starts)
    fits = (around < 0) | (ends[around] >= ends)
    nested: list[bool] = np.logical_and.reduceat(fits, starts).tolist()
    return nested


def _close(stack: list[int], now: int) -> None:
    while stack and stack[-1] <= now:
        stack.pop()


def _place(stack: list[int], tracks: _Tracks, starts: I64, ends: I64) -> I64:
    """Return the track of each row of one lane; stack is track 0.

    Rows come in clusters: one begins where all before it have ended. Where no row of a cluster has two others open
    around its start, the tracks follow from the order of the ends. Only other clusters are looked at row by row.
    """
    begins = starts >= np.maximum.accumulate(np.append(max(stack[0] if stack else _LEAST, tracks.latest), ends[:-1]))
    cluster = np.cumsum(begins)
    slow = np.zeros(int(cluster[-1]) + 1, np.bool_)
    slow[0] = slow[-1] = True  # an earlier batch may have left the first one open, and this one leaves the last
    alone = begins.copy()
    alone[:-1] &= begins[1:]
    together = np.flatnonzero(~alone & (ends > starts))  # a slice of 0 ns fits on track 0, and is never open
    placed = np.zeros(starts.size, np.int64)
    first, last, of_row = starts[together], ends[together], cluster[together]
    open_before = np.arange(together.size) - np.searchsorted(np.sort(last), first, "right")
    slow[of_row[open_before > 1]] = True
    # Where two slices overlap, the one that ends later goes to the track that the other one is not on.
    latest = np.maximum.accumulate(np.append(_LEAST, last))[:-1]
    later = np.cumsum(last > latest)
    new = open_before == 0
    since = later - later[new][np.cumsum(new) - 1]
    placed[together] = np.where(last > latest, since & 1, 0)
    place = tracks.place
    rows = np.flatnonzero(slow[cluster])
    tracks_of = []
    for start, end in zip(starts[rows].tolist(), ends[rows].tolist(), strict=True):
        while stack and stack[-1] <= start:
            stack.pop()
        if stack and end > stack[-1]:
            tracks_of.append(place(start, end))
            continue
        if end > start:
            stack.append(end)
        tracks_of.append(0)
    placed[rows] = tracks_of
    return placed


_FEW = 16
"""Tracks that are looked at one after the other: for so few that is faster than a tree."""


class _Tracks:
    """The extra tracks 1, 2, ... of one lane; finds the first that fits in O(log tracks), however many there are.

    The first few are looked at one after the other. A binary tree over the others holds the largest and the smallest
    room below each node. The room of a track is the end of its innermost open slice, or _IDLE. A slice fits where the
    room is at least its end; a room that has passed (its slice has ended) is looked at again. Both are found from the
    root: no crowd of overlapping slices makes the search for one of them linear.
    """

    __slots__ = ("_few", "_largest", "_leaves", "_smallest", "_stacks", "_tops", "latest")

    def __init__(self) -> None:
        self.latest = _LEAST
        """Last end on any of the tracks."""
        self._few: list[list[int]] = []
        # The last end on each of the few; it may have passed.
        self._tops: list[int] = []
        self._stacks: list[list[int]] = [[]]
        self._leaves = 1
        self._largest = [_IDLE, _IDLE]
        self._smallest = [_IDLE, _IDLE]

    def place(self, start: int, end: int) -> int:
        """Return the number of the first track where the slice fits, and put it there; end > start."""
        if end > self.latest:
            self.latest = end
        tops = self._tops
        for number, top in enumerate(tops):
            if start < top < end:
                continue
            stack = self._few[number]
            _close(stack, start)
            if not stack or end <= stack[-1]:
                stack.append(end)
                tops[number] = end
                return number + 1
            tops[number] = stack[-1]
        if len(tops) < _FEW:
            tops.append(end)
            self._few.append([end])
            return len(tops)
        return _FEW + self._place_beyond(start, end)

    def _place_beyond(self, start: int, end: int) -> int:
        while True:
            leaf = self._first(start, end)
            stack = self._stacks[leaf - self._leaves]
            _close(stack, start)
            fits = not stack or end <= stack[-1]
            if fits:
                stack.append(end)
            self._set_room(leaf, stack[-1])
            if fits:
                return leaf - self._leaves + 1

    def _first(self, start: int, end: int) -> int:
        largest, smallest = self._largest, self._smallest
        if largest[1] < end and smallest[1] > start:
            self._double()
            largest, smallest = self._largest, self._smallest
        node = 1
        while node < self._leaves:
            node *= 2
            if largest[node] < end and smallest[node] > start:
                node += 1
        return node

    def _set_room(self, node: int, room: int) -> None:
        largest, smallest = self._largest, self._smallest
        largest[node] = smallest[node] = room
        while node > 1:
            node >>= 1
            left = node + node
            high, other = largest[left], largest[left + 1]
            if other > high:
                high = other
            low, other = smallest[left], smallest[left + 1]
            if other < low:
                low = other
            if largest[node] == high and smallest[node] == low:
                break
            largest[node], smallest[node] = high, low

    def _double(self) -> None:
        leaves = self._leaves
        rooms = self._largest[leaves:] + [_IDLE] * leaves
        self._stacks += [[] for _ in range(leaves)]
        self._leaves = 2 * leaves
        self._largest = [_IDLE] * (2 * leaves) + rooms
        self._smallest = list(self._largest)
        for node in range(2 * leaves - 1, 0, -1):
            self._largest[node] = max(self._largest[2 * node], self._largest[2 * node + 1])
            self._smallest[node] = min(self._smallest[2 * node], self._smallest[2 * node + 1])
