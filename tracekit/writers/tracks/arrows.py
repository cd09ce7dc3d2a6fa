"""Arrows from launch calls to the device work that they caused, and arrows that were in the input.

A viewer draws an arrow from the slice that holds "s" to the slice that holds "f". Name, cat and id together are its key
in the whole file. Catapult searches the slice with closed intervals: where another slice of the track ends at the start
of ours, the point is 1 ns later.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice, repeat
from typing import TypeAlias, TypeVar

import numpy as np

from tracekit.analysis.links import link
from tracekit.analysis.segments import narrow, run_starts
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Mask, Rows

__all__ = [
    "BOUND",
    "ENDED_FLOWS",
    "OPEN_FLOWS",
    "PENDING_LAUNCHES",
    "FlowKey",
    "FlowPoints",
    "Flows",
    "LaunchArrows",
    "inside_points",
    "keep_newest",
]

K = TypeVar("K")
V = TypeVar("V")

FlowKey: TypeAlias = tuple[int, int | str, str | None, str | None]
"""Source, id, name and category of an arrow of the input."""

PENDING_LAUNCHES = 1 << 17
"""Most launches that are kept for later device work; GPUs queue about a thousand a stream."""
OPEN_FLOWS = 1 << 20
ENDED_FLOWS = 1 << 16
"""Most arrows of the input that are kept for later points: without an end so far, and with one."""

BOUND = "bind_id"
"""Category of the arrows between slices that are their own points."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrows:
    """The arrows of a batch, in order of their device rows, as columns of shape (n,).

    row: the device row. track: the track of the launch. launch: its number among the calls of the file that have a
    correlation id. start, end: ns after the first event. identity: unique in the file.
    """

    row: Rows
    track: I64
    launch: I64
    start: I64
    end: I64
    identity: I64


class LaunchArrows:
    """Joins device work with launches before it by (source, pid, correlation), from batch to batch."""

    def __init__(self) -> None:
        # Source, pid, is pid known, correlation, point, track, number: shape (7, launches).
        self._pending = np.empty((7, 0), np.int64)
        self.made = self.without = self.forgotten = self.launches = 0

    def waiting(self) -> bool:
        """Return whether there is a launch that later device work may belong to."""
        return self._pending.shape[1] > 0

    def match(self, launches: Rows, work: Rows, keys: I64, points: I64, tracks: I64) -> Arrows:
        """Return the arrows of a batch.

        launches, work: row numbers. keys: shape (n, 4), one key for each row. points: shape (n,), the time at which an
        arrow may touch the row. tracks: shape (n,). Work that starts before its launch gets no arrow and is counted in
        `without`.
        """
        numbers = np.arange(self.launches, self.launches + len(launches))
        self.launches += len(launches)
        new = np.stack((*keys.T[:, launches], points[launches], tracks[launches], numbers))
        known = np.concatenate((self._pending, new), axis=1) if len(launches) else self._pending
        count = known.shape[1]
        launch_place = link(known[:4].T, keys.T[:, work].T).launch
        begin = (
            np.where(launch_place >= 0, known[4][np.maximum(launch_place, 0)], 0)
            if count
            else np.zeros(len(work), np.int64)
        )
        # Launches of this batch are in order of their rows: one with a later row than its work started later.
        batch_place = launch_place - self._pending.shape[1]
        later = batch_place >= 0
        later[later] = launches[batch_place[later]] > work[later]
        good = np.flatnonzero((launch_place >= 0) & ~later)
        self.without += len(work) - len(good)
        end = points[work[good]]
        start = np.minimum(begin[good], end)
        identity = np.arange(self.made + 1, self.made + 1 + len(good))
        self.made += len(good)
        track, launch = known[5][launch_place[good]], known[6][launch_place[good]]
        self.forgotten += max(count - PENDING_LAUNCHES, 0)
        self._pending = known[:, -PENDING_LAUNCHES:]
        return Arrows(work[good], track, launch, start, end, identity)


@dataclass(frozen=True, slots=True, eq=False)
class FlowPoints:
    """Points of arrows in order of their rows, as columns of shape (n,).

    keys: the distinct keys; key: the index of each point's own. start, end: "s" and "f"; the others are "t".
    after_slice, enclosing: as in `Flows.accept`.
    """

    keys: list[FlowKey]
    key: I64
    start: Mask
    end: Mask
    after_slice: Mask
    enclosing: Mask


class Flows:
    """Chooses the rows of kind "flow" that Perfetto accepts as points of an arrow.

    Perfetto joins each "t" and "f" with the last point of the same id; an id stays in use after its "f". It reports an
    error for a second start of an id, and for a point on a thread without any slice before it. An "f" without bp "e"
    and without a start becomes an arrow from another thread's slice. None of these is written as a point.
    """

    def __init__(self) -> None:
        self.made = 0
        # The id of the arrow of each key: below 0 until a later point has the same key. No key is in both.
        self._open: OrderedDict[FlowKey, int] = OrderedDict()
        self._ended: OrderedDict[FlowKey, int] = OrderedDict()

    def accept(self, phase: object, key: FlowKey, *, after_slice: bool, enclosing: bool) -> int | None:
        """Return the id of a point in the file, from 1, or None for a row that cannot be a point.

        after_slice: a slice of the track has started. enclosing: an "f" that binds to the slice around it (bp "e").
        """
        known = self._open.get(key) or self._ended.get(key, 0)
        if phase == "s" and after_slice and known >= 0:
            self.made += 1
            self._ended.pop(key, None)
            self._open.pop(key, None)
            keep_newest(self._open, key, -self.made, OPEN_FLOWS)
            return self.made
        if not known or phase not in ("t", "f") or not (after_slice or (phase == "f" and not enclosing)):
            return None
        if key in self._open:
            if phase == "f":
                del self._open[key]
                keep_newest(self._ended, key, abs(known), ENDED_FLOWS)
            else:
                self._open[key] = abs(known)
        return abs(known)

    def accept_all(self, points: FlowPoints) -> I64:
        """Return what `accept` gives for each point in turn, 0 in the place of None. Shape (n,)."""
        # Points that are never accepted change nothing. Of the others, those of one key are looked at side by side.
        rows = np.flatnonzero(points.after_slice | (points.end & ~points.enclosing))
        if not rows.size:
            return np.zeros(points.key.size, np.int64)
        rows = rows[np.argsort(narrow(points.key[rows]), kind="stable")]
        starts = points.start[rows]
        open_, ended = (_values(each, points.keys) for each in (self._open, self._ended))
        segments = _segments(points.key[rows], starts, points.end[rows], open_, ended)
        if self._forgets(points.keys, segments, ended):
            return self._accept_each(points)
        begun = np.flatnonzero(segments.begins)
        in_order = begun[np.argsort(rows[begun])]
        identity = np.zeros(rows.size, np.int64)
        identity[in_order] = np.arange(self.made + 1, self.made + 1 + begun.size)
        self.made += begun.size
        known = np.abs(open_ + ended)[points.key[rows]]
        identity = np.where(segments.begins[segments.first], identity[segments.first], known)
        self._remember(points.keys, segments, identity, rows, open_, ended)
        accepted = segments.begins | (~starts & (identity > 0))
        found = np.zeros(points.key.size, np.int64)
        found[rows[accepted]] = identity[accepted]
        return found

    def _accept_each(self, points: FlowPoints) -> I64:
        columns = (points.key, points.start, points.end, points.after_slice, points.enclosing)
        found = [
            self.accept("s" if start else "f" if end else "t", points.keys[key], after_slice=after, enclosing=enclosing)
            for key, start, end, after, enclosing in zip(*(column.tolist() for column in columns), strict=True)
        ]
        return np.array([identity or 0 for identity in found], np.int64)

    def _forgets(self, keys: list[FlowKey], segments: _Segments, ended: I64) -> bool:
        """Return whether an arrow may be forgotten while these points are accepted that one of them belongs to."""
        if len(self._open) + int(np.count_nonzero(segments.begins)) > OPEN_FLOWS or segments.closes.size > ENDED_FLOWS:
            return True
        known = [keys[each] for each in np.flatnonzero(ended).tolist()]
        most = len(self._ended) + segments.closes.size - ENDED_FLOWS
        return bool(known) and most > 0 and not set(islice(self._ended, most)).isdisjoint(known)

    def _remember(
        self, keys: list[FlowKey], segments: _Segments, identity: I64, rows: Rows, open_: I64, ended: I64
    ) -> None:
        """Keep for each key how its last segment leaves it."""
        if segments.reopens.size:
            # How many of the oldest go depends on how long the list was each time that one was added.
            changed = np.concatenate((rows[segments.closes], rows[segments.reopens]))
            steps = np.repeat((1, -1), (segments.closes.size, segments.reopens.size))[np.argsort(changed)]
            longest = len(self._ended) + int(np.cumsum(steps).max())
        else:
            longest = len(self._ended) + segments.closes.size
        for _ in range(longest - ENDED_FLOWS):
            self._ended.popitem(last=False)
        last = np.flatnonzero(np.append(segments.first[1:] != segments.first[:-1], True))
        last = last[np.append(segments.key[last][1:] != segments.key[last][:-1], True)]  # the last row of each key
        first, key = segments.first[last], segments.key[last]
        closed_at = np.full(rows.size, -1, np.int64)
        closed_at[segments.first[segments.closes]] = segments.closes
        closing, begins = closed_at[first], segments.begins[first]
        changed_keys = (closing >= 0) | begins
        for kept, values in ((self._open, open_), (self._ended, ended)):
            for each in key[changed_keys & (values[key] != 0)].tolist():
                del kept[keys[each]]
        # Not ended: with its sign, which says whether a later point has come.
        continued = np.zeros(rows.size, np.bool_)
        continued[segments.first[segments.continues]] = True
        value = np.where(continued[first], identity[first], -identity[first])
        for chosen, kept, order, values in (
            ((closing < 0) & ~begins & continued[first] & (open_[key] != 0), self._open, first, value),
            ((closing < 0) & begins, self._open, first, value),
            (closing >= 0, self._ended, closing, identity[first]),
        ):
            here = np.flatnonzero(chosen)
            here = here[np.argsort(rows[order[here]])]
            kept.update(zip(map(keys.__getitem__, key[here].tolist()), values[here].tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class _Segments:
    """Points by key, and of one key in order of their rows, cut where an accepted start begins a new arrow.

    key, first, begins: shape (n,): the key, the place of the first point of the segment, whether it is such a start.
    continues: places of the points that are no starts. closes: places of the ends that end an open arrow.
    reopens: places of the starts whose key had an ended arrow.
    """

    key: I64
    first: I64
    begins: Mask
    continues: I64
    closes: I64
    reopens: I64


def _segments(key: I64, starts: Mask, ends: Mask, open_: I64, ended: I64) -> _Segments:
    """Return the segments of points that are sorted by key. open_, ended: the arrow of each key so far, 0 for none."""
    new_key = np.ones(key.size, np.bool_)
    np.not_equal(key[1:], key[:-1], out=new_key[1:])
    # A start is refused where the point before it is a start, whether that one was accepted or not.
    begins = starts.copy()
    begins[1:] &= ~starts[:-1] | new_key[1:]
    begins &= ~new_key | ((open_ + ended)[key] >= 0)
    heads = np.flatnonzero(new_key | begins)
    number = np.cumsum(new_key | begins) - 1
    is_open = begins[heads] | (open_[key[heads]] != 0)
    closes = np.flatnonzero(ends & is_open[number])
    closes = closes[run_starts(number[closes])]
    has_ended = np.zeros(heads.size, np.bool_)
    has_ended[number[closes]] = True
    has_ended |= ~begins[heads] & (ended[key[heads]] != 0)
    before = np.where(new_key[heads], ended[key[heads]] != 0, np.append(False, has_ended[:-1]))
    return _Segments(key, heads[number], begins, np.flatnonzero(~starts), closes, heads[begins[heads] & before])


def _values(known: OrderedDict[FlowKey, int], keys: list[FlowKey]) -> I64:
    return np.fromiter(map(known.get, keys, repeat(0)), np.int64, len(keys))


def keep_newest(known: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Add an item; the oldest one goes where there are too many. A plain dict looks for its oldest key ever longer."""
    if len(known) >= most:
        known.popitem(last=False)
    known[key] = value


def inside_points(starts: I64, durations: I64, tracks: I64, carried: I64) -> I64:
    """Return the time at which an arrow may touch each slice: its start, or 1 ns later where the previous slice ends.

    starts, durations, tracks: shape (n,), slices in order of start. carried: shape (number of tracks,), the last end
    on each track before these rows.
    """
    order = np.argsort(tracks.astype(np.uint16) if carried.size <= 1 << 16 else tracks, kind="stable")
    by_track, ends = tracks[order], (starts + durations)[order]
    before = np.empty(len(order), np.int64)
    before[1:] = ends[:-1]
    begins = np.ones(len(order), np.bool_)
    np.not_equal(by_track[1:], by_track[:-1], out=begins[1:])
    before[begins] = carried[by_track[begins]]
    touching = np.zeros(len(order), np.bool_)
    touching[order] = before == starts[order]
    return starts + (touching & (durations >= 2))
