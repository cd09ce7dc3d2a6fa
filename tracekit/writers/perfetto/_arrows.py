"""Arrows, as ids of flows or as legacy events.

Perfetto draws one arrow for an id. A second kernel with the id of its launch has no arrow at all, so each kernel has an
id of its own, and a launch has as many. They must be known when the launch is written: a batch is kept back until the
next one has been read. A launch that has no kernel by then gets one id, for a kernel that comes later.

A point of an arrow of the input is a legacy event, which Perfetto binds to the slice around it, but only on threads. An
arrow with a point on another track is written as ids on the slices themselves, like the arrow of a launch. Which of
both an arrow is must be known when its first point is written, that is one batch after it was read.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import field

import numpy as np

from tracekit.analysis.segments import previous_greater
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Column, Mask
from tracekit.writers.perfetto._wire import WireCells, binary, words
from tracekit.writers.tracks.arrows import ENDED_FLOWS, OPEN_FLOWS, PENDING_LAUNCHES, LaunchArrows, keep_newest
from tracekit.writers.tracks.batch import (
    BOUND_END,
    END,
    NOT_WRITTEN,
    SLICE,
    START,
    STEP,
    UNDRAWN,
    Batch,
    launch_columns,
)

POINTS = {START: b"s", STEP: b"t", END: b"f", BOUND_END: b"f"}
_FLOW = 1 << 48
"""First id of these arrows."""
_BEGINS, _ENDS = b"\xf9\x02", b"\x81\x03"
"""Keys of the fields flow_ids and terminating_flow_ids."""
_KEYS = tuple(np.uint64(int.from_bytes(key, "little")) for key in (_ENDS, _BEGINS))


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
    _rows: list[I64] = field(default_factory=list)
    _ids: list[I64] = field(default_factory=list)
    _ends: list[Mask] = field(default_factory=list)
    _single: list[tuple[int, int, bool]] = field(default_factory=list)
    _slices: dict[int, I64] = field(default_factory=dict)
    _found: dict[bool, dict[int, tuple[Points, int]]] = field(default_factory=dict)

    def slices(self, track: int) -> I64:
        """Return the rows of the slices of a track."""
        if track not in self._slices:
            self._slices[track] = np.flatnonzero((self.batch.track == track) & (self.batch.phase == SLICE))
        return self._slices[track]

    def add(self, rows: I64, ids: I64, *, end: bool) -> None:
        """Add points. rows, ids: shape (n,)."""
        if len(rows):
            self._collect()
            self._rows.append(rows)
            self._ids.append(ids)
            self._ends.append(np.full(len(rows), end))

    def add_one(self, row: int, identity: int, *, end: bool) -> None:
        """Add one point."""
        self._single.append((row, identity, end))

    def _collect(self) -> None:
        if self._single:
            rows, ids, ends = zip(*self._single, strict=True)
            self._rows.append(np.array(rows, np.int64))
            self._ids.append(np.array(ids, np.int64))
            self._ends.append(np.array(ends, np.bool_))
            self._single = []

    def used(self) -> list[I64]:
        """Return the rows that have points, in parts."""
        self._collect()
        return self._rows

    def slice_of(self, row: int, before: Points | None) -> tuple[Points, int] | None:
        """Return the batch and the row of the slice that a point belongs to. before: the batch before, if not written.

        It is the innermost one around the point, else the last before it; for a point of phase END the next one.
        """
        known = self._found.get(before is not None)
        if known is None:
            known = self._found[before is not None] = _slices_of(self, before)
        return known.get(row)

    def forget_slices(self) -> None:
        """Forget the slices of points: they refer to the batch itself, and such a circle is freed late."""
        self._found.clear()

    def put(self, cells: WireCells, place: I64) -> Column | None:
        """Add the fields of each item to its cells; return them instead where an item has several points.

        place: the item of each row of the batch.
        """
        if not self.used():
            return None
        items, ids, ends = place[np.concatenate(self._rows)], np.concatenate(self._ids), np.concatenate(self._ends)
        counts = np.bincount(items, minlength=cells.rows)
        if int(counts.max()) == 1:
            keys, identities = np.zeros(cells.rows, np.uint64), np.zeros(cells.rows, np.int64)
            keys[items], identities[items] = np.where(ends, *_KEYS), ids
            cells.pair(keys, words(identities), counts.astype(np.bool_))
            return None
        order = np.argsort(items, kind="stable")
        ids, ends = ids[order], ends[order]
        data = np.empty((len(items), 10), np.uint8)
        data[:, :2] = np.where(ends[:, None], np.frombuffer(_ENDS, np.uint8), np.frombuffer(_BEGINS, np.uint8))
        data[:, 2:] = np.ascontiguousarray(ids).view(np.uint8).reshape(-1, 8)
        return binary(10 * counts, data.reshape(-1))


class InputArrows:
    """Moves the flow events that touch a track which is not a thread to the slices that they belong to."""

    def __init__(self) -> None:
        # The first points that are not written yet, and the start of the slice that each moved arrow begins on.
        self._starts: dict[int, tuple[Points, int]] = {}
        self._moved: OrderedDict[int, int] = OrderedDict()
        self._ended: OrderedDict[int, None] = OrderedDict()

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
                    keep_newest(self._ended, identity, None, ENDED_FLOWS)
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
        slice_found = owner.slice_of(row, before if before is not owner else None)
        if slice_found is None:
            owner.batch.phase[row] = UNDRAWN
            return
        holder, at = slice_found
        holder.add_one(at, _FLOW + identity, end=False)
        owner.batch.phase[row] = NOT_WRITTEN
        owner.absorbed += 1
        keep_newest(self._moved, identity, int(holder.batch.ts[at]), OPEN_FLOWS)

    def _continue(self, identity: int, points: Points, row: int, before: Points | None) -> None:
        """Move a later point of an arrow to its slice; the arrow cannot go back in time."""
        batch = points.batch
        end = int(batch.phase[row]) != STEP
        slice_found = points.slice_of(row, before)
        if slice_found is None or int(slice_found[0].batch.ts[slice_found[1]]) < self._moved[identity]:
            batch.phase[row] = UNDRAWN
            return
        slice_found[0].add_one(slice_found[1], _FLOW + identity, end=end)
        batch.phase[row] = NOT_WRITTEN
        points.absorbed += 1


def _inside(points: Points, rows: I64) -> Mask:
    """Return whether the last slice before each point on its track, or one that began before the batch, is open."""
    batch = points.batch
    out = np.zeros(len(rows), np.bool_)
    tracks = batch.track[rows]
    for track in np.unique(tracks).tolist():
        on_track = np.flatnonzero(tracks == track)
        slices = points.slices(track)
        before = np.searchsorted(slices, rows[on_track]) - 1
        ends = np.concatenate((batch.ts[slices] + batch.dur[slices], points.ends_before[track : track + 1]))
        times = batch.ts[rows[on_track]]
        lasts = np.concatenate((batch.ts[slices], ends[-1:]))[before]
        empty = (lasts == times) & (ends[before] == times)  # a slice of 0 ns at this instant
        out[on_track] = ((ends[before] > times) | (ends[-1] > times)) & ~empty
    return out


def _slices_of(points: Points, before: Points | None) -> dict[int, tuple[Points, int]]:
    """Return for each point of a batch the batch and the row of its slice; without the points that have none."""
    batch = points.batch
    rows = np.array(list(batch.points), np.int64)
    rows = rows[np.isin(batch.phase[rows], list(POINTS))]
    slices_of_points: dict[int, tuple[Points, int]] = {}
    tracks = batch.track[rows]
    for track in np.unique(tracks).tolist():
        on_track = rows[tracks == track]
        slices, times = points.slices(track), batch.ts[on_track]
        place = np.searchsorted(slices, on_track)
        latest = slices[place - 1] if len(slices) else place
        slice_rows = np.where(place > 0, _around(batch, slices, on_track), -1)
        empty = (place > 0) & (batch.ts[latest] == times) & (batch.dur[latest] == 0)  # a slice of 0 ns at this instant
        slice_rows[empty] = latest[empty]
        if before is not None and len(before.slices(track)):
            earlier, is_open = _open_at(before, track, times)
            slices_of_points |= {row: (before, at) for row, at in zip(on_track.tolist(), earlier.tolist(), strict=True)}
            # Of this batch where a slice is around the point, or none of the batch before is.
            has_slice = (slice_rows >= 0) | (~is_open & (place > 0))
        else:
            has_slice = place > 0
        # Like the importers of Chrome traces: else the slice that has just ended.
        slice_rows = np.where(slice_rows >= 0, slice_rows, latest)
        ends = batch.phase[on_track] == END
        following = np.append(slices, -1)[place]
        slice_rows, has_slice = np.where(ends, following, slice_rows), np.where(ends, following >= 0, has_slice)
        slices_of_points |= {
            row: (points, at)
            for row, at in zip(on_track[has_slice].tolist(), slice_rows[has_slice].tolist(), strict=True)
        }
        for row in on_track[ends & ~has_slice].tolist():
            slices_of_points.pop(row, None)
    return slices_of_points


def _around(batch: Batch, slices: I64, rows: I64) -> I64:
    """Return for each point the last slice before it that ends after it, -1 without one. slices, rows: of one track."""
    both = np.concatenate((slices, rows))
    order = np.argsort(both, kind="stable")
    is_slice = order < len(slices)
    both = both[order]
    ends = np.where(is_slice, batch.ts[both] + batch.dur[both], np.iinfo(np.int64).min)
    times = np.where(is_slice, np.iinfo(np.int64).max, batch.ts[both])
    around = previous_greater(ends, times, np.zeros(1, np.int64))[~is_slice]
    out = np.full(len(rows), -1, np.int64)
    out[order[~is_slice] - len(slices)] = np.where(around >= 0, both[around], -1)
    return out


def _open_at(points: Points, track: int, times: I64) -> tuple[I64, Mask]:
    """Return for each time the last slice of a track that ends after it, else the last one; and whether it does."""
    slices, batch = points.slices(track), points.batch
    latest = np.maximum.accumulate((batch.ts[slices] + batch.dur[slices])[::-1])  # from the last slice on
    back = np.searchsorted(latest, times, "right")
    is_open = back < len(slices)
    return slices[np.where(is_open, len(slices) - 1 - back, len(slices) - 1)], is_open


_LAUNCH, _LATE, _BOUND = 1 << 32, 1 << 44, 1 << 52
"""First ids of three kinds of arrows. Perfetto numbers the arrows of legacy events from 0 in the same space."""
_RING = 2 * PENDING_LAUNCHES


class FlowArrows:
    """Gives each arrow its id. `points` is called for each batch in order, `release` when it is written."""

    def __init__(self) -> None:
        self.launches = LaunchArrows()
        self.undrawn = 0
        """Arrows to a second kernel that comes long after its launch."""
        self._held: list[Points] = []
        self._input = InputArrows()
        self._free = np.full(_RING, -1, np.int64)

    def points(self, batch: Batch, threads: Mask, ends: I64) -> Points:
        """Return the points of a batch, complete when it is released.

        threads: whether each track is a thread. ends: the last end of a slice on each track before the batch.
        """
        rows, calls, work, keys = launch_columns(batch)
        points = Points(batch, self.launches.launches, rows[calls], ends.copy())
        self._held.append(points)
        if len(calls) or (len(work) and self.launches.waiting()):
            matched = self.launches.match(calls, work, keys, batch.ts[rows], batch.track[rows])
            ids, drawn = self._connect(matched.launch, matched.identity + _LAUNCH)
            points.add(rows[matched.row[drawn]], ids[drawn], end=True)
        else:
            self.launches.without += len(work)
        if batch.points:
            self._input.move(points, self._held[0] if len(self._held) > 1 else None, threads)
        for row, (phase, identity) in batch.bound.items():
            points.add_one(row, _BOUND + identity, end=phase == BOUND_END)
        return points

    def _connect(self, launches: I64, ids: I64) -> tuple[I64, Mask]:
        """Put ids on launches that are not written yet, or take the id that a written launch has. Shape (n,) both."""
        drawn = np.zeros(len(launches), np.bool_)
        for held in self._held:
            held_here = (launches >= held.first) & (launches < held.first + len(held.calls))
            held.add(held.calls[launches[held_here] - held.first], ids[held_here], end=False)
            drawn |= held_here
        late = np.flatnonzero(~drawn)
        if len(late):
            numbers, first = np.unique(launches[late], return_index=True)
            free = self._free[numbers % _RING] == numbers
            chosen = late[first[free]]
            self._free[numbers[free] % _RING] = -1
            ids = ids.copy()
            ids[chosen] = launches[chosen] + _LATE
            drawn[chosen] = True
            self.undrawn += int(np.count_nonzero(~drawn))
        return ids, drawn

    def release(self, points: Points) -> None:
        """Finish the oldest batch: launches without a kernel so far get an id for a later one."""
        self._held.remove(points)
        self._input.forget(points)
        points.forget_slices()
        unused = np.ones(points.batch.count, np.bool_)
        for rows in points.used():
            unused[rows] = False
        waiting = np.flatnonzero(unused[points.calls])
        numbers = points.first + waiting
        self._free[numbers % _RING] = numbers
        points.add(points.calls[waiting], numbers + _LATE, end=False)
