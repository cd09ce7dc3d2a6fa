"""Arrows of the input that touch device work.

A point of an arrow is a legacy event, which Perfetto binds to the slice around it, but only on threads. An arrow with a
point on another track is written as ids on the slices themselves, like the arrow of a launch. Which of both an arrow is
must be known when its first point is written, that is one batch after it was read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from tracekit.columns.arrays import I64, Mask
from tracekit.columns.arrow import Column
from tracekit.writers.perfetto._wire import binary
from tracekit.writers.tracks.arrows import ENDED_FLOWS, OPEN_FLOWS
from tracekit.writers.tracks.batch import BOUND_END, END, NOT_WRITTEN, SLICE, START, STEP, UNDRAWN, Batch

T = TypeVar("T")

POINTS = {START: b"s", STEP: b"t", END: b"f", BOUND_END: b"f"}
_FLOW = 1 << 48
"""First id of these arrows."""
_NEAR = 64
"""The slice around a point is mostly one of this many before it."""
_BEGINS, _ENDS = b"\xf9\x02", b"\x81\x03"
"""Keys of the fields flow_ids and terminating_flow_ids."""


@dataclass(slots=True, eq=False)
class Points:
    """The ends of arrows on the slices of a batch. calls: rows of the launches, numbered from `first`.

    absorbed: rows of the batch that are points, and are written on slices.
    """

    batch: Batch
    first: int
    calls: I64
    ends_before: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    """Last end of a slice on each track before the batch."""
    absorbed: int = 0
    rows: list[I64] = field(default_factory=list)
    ids: list[I64] = field(default_factory=list)
    ends: list[Mask] = field(default_factory=list)
    _slices: dict[int, I64] = field(default_factory=dict)

    def slices(self, track: int) -> I64:
        """Return the rows of the slices of a track."""
        if track not in self._slices:
            self._slices[track] = np.flatnonzero((self.batch.track == track) & (self.batch.phase == SLICE))
        return self._slices[track]

    def add(self, rows: I64, ids: I64, *, end: bool) -> None:
        """Add points. rows, ids: shape (n,)."""
        if len(rows):
            self.rows.append(rows)
            self.ids.append(ids)
            self.ends.append(np.full(len(rows), end))

    def fields(self, place: I64, count: int) -> Column | None:
        """Return the fields of each of `count` items, None without any. place: item of each row of the batch."""
        if not self.rows:
            return None
        items, ids, ends = place[np.concatenate(self.rows)], np.concatenate(self.ids), np.concatenate(self.ends)
        order = np.argsort(items, kind="stable")
        items, ids, ends = items[order], ids[order], ends[order]
        data = np.empty((len(items), 10), np.uint8)
        data[:, :2] = np.where(ends[:, None], np.frombuffer(_ENDS, np.uint8), np.frombuffer(_BEGINS, np.uint8))
        data[:, 2:] = np.ascontiguousarray(ids).view(np.uint8).reshape(-1, 8)
        return binary(10 * np.bincount(items, minlength=count), data.reshape(-1))


class InputArrows:
    """Moves the points of arrows that touch a track which is not a thread to the slices that they belong to."""

    def __init__(self) -> None:
        # The first points that are not written yet, and the start of the slice that each moved arrow begins on.
        self._starts: dict[int, tuple[Points, int]] = {}
        self._moved: dict[int, int] = {}
        self._ended: dict[int, None] = {}

    def move(self, points: Points, before: Points | None, threads: Mask) -> None:
        """Move points of a batch. before: the batch before it, if not written. threads: whether a track is a thread."""
        batch = points.batch
        rows = np.array([row for row in batch.points if int(batch.phase[row]) in POINTS], np.int64)
        bound = threads[batch.track[rows]] & (_inside(points, rows) | (batch.phase[rows] == END))
        for row, on_thread in zip(rows.tolist(), bound.tolist(), strict=True):
            phase, identity = int(batch.phase[row]), int(batch.identity[row])
            if phase == START:
                self._starts[identity] = points, row
                self._moved.pop(identity, None)
                if not on_thread:
                    self._begin(identity, before)
                continue
            if identity in self._ended:  # an id on slices is one arrow
                batch.phase[row] = UNDRAWN
                continue
            if not on_thread and identity not in self._moved:
                self._begin(identity, before)
            if identity in self._moved:
                self._continue(identity, points, row, before)
                if phase != STEP:
                    del self._moved[identity]
                    _keep(self._ended, identity, None, ENDED_FLOWS)
            elif not on_thread:
                batch.phase[row] = UNDRAWN

    def forget(self, points: Points) -> None:
        """Forget the first points of a batch that is written now."""
        for identity in [identity for identity, (owner, _) in self._starts.items() if owner is points]:
            del self._starts[identity]

    def _begin(self, identity: int, before: Points | None) -> None:
        """Move the first point of an arrow to its slice."""
        owner, row = self._starts.pop(identity, (None, -1))
        if owner is None:
            return
        found = _slice_of(owner, row, before if before is not owner else None)
        if found is None:
            owner.batch.phase[row] = UNDRAWN
            return
        holder, at = found
        holder.add(np.array([at]), np.array([_FLOW + identity]), end=False)
        owner.batch.phase[row] = NOT_WRITTEN
        owner.absorbed += 1
        _keep(self._moved, identity, int(holder.batch.ts[at]), OPEN_FLOWS)

    def _continue(self, identity: int, points: Points, row: int, before: Points | None) -> None:
        """Move a later point of an arrow to its slice; the arrow cannot go back in time."""
        batch = points.batch
        end = int(batch.phase[row]) != STEP
        found = _slice_of(points, row, before)
        if found is None or int(found[0].batch.ts[found[1]]) < self._moved[identity]:
            batch.phase[row] = UNDRAWN
            return
        found[0].add(np.array([found[1]]), np.array([_FLOW + identity]), end=end)
        batch.phase[row] = NOT_WRITTEN
        points.absorbed += 1


def _keep(known: dict[int, T], identity: int, value: T, most: int) -> None:
    """Add an arrow; the oldest one goes where there are too many."""
    if len(known) >= most:
        del known[next(iter(known))]
    known[identity] = value


def _inside(points: Points, rows: I64) -> Mask:
    """Return whether the last slice before each point on its track, or one that began before the batch, is open."""
    batch = points.batch
    out = np.zeros(len(rows), np.bool_)
    tracks = batch.track[rows]
    for track in np.unique(tracks).tolist():
        here = np.flatnonzero(tracks == track)
        slices = points.slices(track)
        before = np.searchsorted(slices, rows[here]) - 1
        ends = np.concatenate((batch.ts[slices] + batch.dur[slices], points.ends_before[track : track + 1]))
        times = batch.ts[rows[here]]
        lasts = np.concatenate((batch.ts[slices], ends[-1:]))[before]
        empty = (lasts == times) & (ends[before] == times)  # a slice of 0 ns at this instant
        out[here] = ((ends[before] > times) | (ends[-1] > times)) & ~empty
    return out


def _slice_of(points: Points, row: int, before: Points | None) -> tuple[Points, int] | None:
    """Return the batch and the row of the slice that a point belongs to.

    It is the innermost one around the point, else the last before it; for a point of phase END the next one.
    """
    batch = points.batch
    track, time = int(batch.track[row]), int(batch.ts[row])
    slices = points.slices(track)
    place = int(np.searchsorted(slices, row))
    if int(batch.phase[row]) == END:
        return (points, int(slices[place])) if place < len(slices) else None
    if place and batch.ts[slices[place - 1]] == time == time + batch.dur[slices[place - 1]]:
        return points, int(slices[place - 1])
    for holder, candidates in ((points, slices[:place]), (before, before.slices(track) if before else slices[:0])):
        if holder is None:
            break
        for some in (candidates[-_NEAR:], candidates):
            around = np.flatnonzero(holder.batch.ts[some] + holder.batch.dur[some] > time).tolist()
            if around:
                return holder, int(some[around[-1]])
    # Like the importers of Chrome traces: the slice that has just ended.
    for holder, candidates in (points, slices[:place]), (before, before.slices(track) if before else slices[:0]):
        if holder is not None and len(candidates):
            return holder, int(candidates[-1])
    return None
