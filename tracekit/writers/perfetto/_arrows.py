"""Arrows, as ids of flows or as legacy events.

Perfetto draws one arrow for an id. A second kernel with the id of its launch has no arrow at all, so each kernel has an
id of its own, and a launch has as many. They must be known when the launch is written: a batch is kept back until the
next one has been read. A launch that has no kernel by then gets one id, for a kernel that comes later.

A point of an arrow of the input is a legacy event, which Perfetto binds to the slice around it, but only on threads. An
arrow with a point on another track is written as ids on the slices themselves, like the arrow of a launch. Which of
both an arrow is must be known when its first point is written, that is one batch after it was read.
"""

from __future__ import annotations

from dataclasses import field
from itertools import islice, repeat
from typing import Any

import numpy as np

from tracekit.analysis.segments import narrow, previous_greater, rows_by, run_starts
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I64, Bytes, Column, Mask
from tracekit.writers.perfetto._wire import WireCells, binary, words
from tracekit.writers.tracks.arrows import ENDED_FLOWS, OPEN_FLOWS, PENDING_LAUNCHES, LaunchArrows
from tracekit.writers.tracks.batch import (
    BOUND_END,
    END,
    NOT_WRITTEN,
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


_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class SlicesOfPoints:
    """The slice of each row of `Batch.points`, shape (n,). row: -1 for none. in_before: a row of the batch before."""

    row: I64
    in_before: Mask


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
    starts: I64 = field(default_factory=lambda: _NONE)
    """Places in `batch.points` of the first points that are not moved to a slice, ascending."""
    _rows: list[I64] = field(default_factory=list)
    _ids: list[I64] = field(default_factory=list)
    _ends: list[Mask] = field(default_factory=list)
    _single: list[tuple[int, int, bool]] = field(default_factory=list)
    _slices: dict[int, I64] | None = None
    _found: dict[bool, SlicesOfPoints] = field(default_factory=dict)

    def slices(self, track: int) -> I64:
        """Return the rows of the slices of a track, ascending."""
        if self._slices is None:
            slices = self.batch.slices()
            self._slices = {each: slices[rows] for each, rows in rows_by(narrow(self.batch.track[slices]))}
        return self._slices.get(track, _NONE)

    def add(self, rows: I64, ids: I64, *, end: bool | Mask) -> None:
        """Add points. rows, ids: shape (n,). end: for all of them, or for each."""
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

    def slices_of(self, before: Points | None) -> SlicesOfPoints:
        """Return the slice that each point belongs to. before: the batch before, if not written.

        It is the innermost one around the point, else the last before it; for a point of phase END the next one.
        """
        known = self._found.get(before is not None)
        if known is None:
            known = self._found[before is not None] = _slices_of(self, before)
        return known

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
        # Both by id, the oldest first: the start of the slice that a moved arrow begins on, and what has ended.
        self._moved: dict[int, int] = {}
        self._ended: dict[int, None] = {}

    def move(self, points: Points, before: Points | None, threads: Mask) -> None:
        """Move points of a batch. before: the batch before it, if not written. threads: whether a track is a thread."""
        arrows = _arrows_of(points, threads)
        if not arrows.row.size:
            return
        ids = arrows.identity[arrows.first].tolist()
        moved = np.fromiter(map(self._moved.get, ids, repeat(-1)), np.int64, len(ids))
        ended = np.fromiter(map(self._ended.__contains__, ids), np.bool_, len(ids))
        begun = self._begin(arrows, points, before, (moved < 0) & ~ended)
        moved = np.where(begun.start >= 0, begun.start, moved)
        # Points of moved arrows go to their slices, up to the one that ends the arrow: an id on slices is one arrow.
        count, place = arrows.row.size, np.arange(arrows.row.size)
        since = np.where(begun.start >= 0, arrows.first_off, arrows.first)[arrows.group]
        later = arrows.phase != START
        live = later & (moved >= 0)[arrows.group] & (place >= since)
        ends = np.flatnonzero(live & (arrows.phase != STEP))
        ends = ends[run_starts(arrows.group[ends])]
        end_at = np.full(len(ids), count, np.int64)
        end_at[arrows.group[ends]] = ends
        late = later & (ended[arrows.group] | (place > end_at[arrows.group]))
        live &= ~late
        # The slice of a later point: the arrow cannot go back in time.
        chosen = np.flatnonzero(live)
        slices = points.slices_of(before) if chosen.size else None
        if slices is not None:
            row, in_before = slices.row[arrows.place[chosen]], slices.in_before[arrows.place[chosen]]
            good = (row >= 0) & (_starts_of(points, before, row, in_before) >= moved[arrows.group[chosen]])
            points.batch.phase[arrows.row[chosen]] = np.where(good, NOT_WRITTEN, UNDRAWN)
            points.absorbed += int(np.count_nonzero(good))
            chosen, row, in_before = chosen[good], row[good], in_before[good]
            begun.add(2 * arrows.row[chosen] + 1, row, in_before, arrows.identity[chosen], arrows.phase[chosen] != STEP)
        points.batch.phase[arrows.row[late | (later & ~live & arrows.off)]] = UNDRAWN
        begun.put(points, before)
        for each in arrows.identity[ends].tolist():
            self._moved.pop(each, None)
        self._ended.update(dict.fromkeys(arrows.identity[ends[np.argsort(arrows.row[ends])]].tolist()))
        opened = np.flatnonzero((begun.start >= 0) & (end_at == count))
        opened = opened[np.argsort(arrows.row[arrows.first_off[opened]])]
        self._moved.update(
            zip(arrows.identity[arrows.first[opened]].tolist(), begun.start[opened].tolist(), strict=True)
        )
        _forget_oldest(self._moved, OPEN_FLOWS)
        _forget_oldest(self._ended, ENDED_FLOWS)

    def _begin(self, arrows: _ArrowsOfBatch, points: Points, before: Points | None, free: Mask) -> _Begun:
        """Move the first flow events of arrows that are not on slices yet and have a point that is not on a thread.

        free: whether an arrow may be moved, shape (number of arrows,).
        """
        begun = _Begun(np.full(len(free), -1, np.int64))
        wanted = free & (arrows.first_off < arrows.row.size)
        for owner, owner_before, mine in ((before, None, False), (points, before, True)):
            here = np.flatnonzero(wanted & (arrows.own_start == mine))
            if owner is None or not here.size or not owner.starts.size:
                continue
            rows = owner.batch.points.row[owner.starts]
            known, identity = owner.batch.identity[rows], arrows.identity[arrows.first[here]]
            at = np.minimum(np.searchsorted(known, identity), known.size - 1)
            has_start = known[at] == identity
            here, at = here[has_start], at[has_start]
            slices = owner.slices_of(owner_before)
            row, in_before = slices.row[owner.starts[at]], slices.in_before[owner.starts[at]]
            found = row >= 0
            owner.batch.phase[rows[at]] = np.where(found, NOT_WRITTEN, UNDRAWN)
            owner.absorbed += int(np.count_nonzero(found))
            owner.starts = np.delete(owner.starts, at)
            here, row, in_before = here[found], row[found], in_before[found]
            begun.start[here] = _starts_of(owner, owner_before, row, in_before)
            begun.add(
                2 * arrows.row[arrows.first_off[here]],
                row,
                in_before if mine else np.ones(here.size, np.bool_),
                arrows.identity[arrows.first[here]],
                np.zeros(here.size, np.bool_),
            )
        return begun


@dataclass(frozen=True, slots=True, eq=False)
class _ArrowsOfBatch:
    """The points of a batch sorted by arrow, shape (n,), and the arrows, shape (m,).

    row: of the batch. place: in `Batch.points`. off: not bound to a slice of a thread. group: the arrow of each.
    first, first_off: the first point of each arrow, and the first that is off (n for none). own_start: the first is
    the one where the arrow begins.
    """

    row: I64
    place: I64
    phase: Bytes
    identity: I64
    off: Mask
    group: I64
    first: I64
    first_off: I64
    own_start: Mask


def _arrows_of(points: Points, threads: Mask) -> _ArrowsOfBatch:
    """Return the arrows of a batch, and set `Points.starts`."""
    batch = points.batch
    place = np.flatnonzero(np.isin(batch.phase[batch.points.row], list(POINTS)))
    rows = batch.points.row[place]
    bound = threads[batch.track[rows]] & (_inside(points, rows) | (batch.phase[rows] == END))
    points.starts = place[batch.phase[rows] == START]
    order = np.argsort(batch.identity[rows], kind="stable")
    rows, place, off = rows[order], place[order], ~bound[order]
    identity, phase = batch.identity[rows], batch.phase[rows]
    first = run_starts(identity)
    group = np.repeat(np.arange(first.size), np.diff(np.append(first, rows.size)))
    first_off = np.full(first.size, rows.size, np.int64)
    places_off = np.flatnonzero(off)
    places_off = places_off[run_starts(group[places_off])]
    first_off[group[places_off]] = places_off
    return _ArrowsOfBatch(rows, place, phase, identity, off, group, first, first_off, phase[first] == START)


@dataclass(slots=True, eq=False)
class _Begun:
    """The arrows that were moved in a batch, and the points on slices, which `put` adds in order of the input's rows.

    start: the start of the slice that each arrow of the batch begins on, -1 where it was not moved.
    """

    start: I64
    _parts: list[tuple[I64, I64, Mask, I64, Mask]] = field(default_factory=list)

    def add(self, order: I64, row: I64, in_before: Mask, identity: I64, end: Mask) -> None:
        """Add points, as columns of shape (n,). row: of the slice."""
        self._parts.append((order, row, in_before, identity, end))

    def put(self, points: Points, before: Points | None) -> None:
        """Give the points to the batches that their slices are in."""
        if not self._parts:
            return
        order, row, in_before, identity, end = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        by_row = np.argsort(order)
        for holder, mine in ((before, True), (points, False)):
            if holder is not None:
                here = by_row[in_before[by_row] == mine]
                holder.add(row[here], _FLOW + identity[here], end=end[here])


def _starts_of(points: Points, before: Points | None, rows: I64, in_before: Mask) -> I64:
    """Return the start of each slice, any number for a row of -1. in_before: whether it is in the batch before."""
    starts = points.batch.ts[np.where(in_before, 0, rows)]
    if before is not None:
        starts[in_before] = before.batch.ts[rows[in_before]]
    return starts


def _forget_oldest(known: dict[int, Any], most: int) -> None:
    for each in list(islice(known, max(len(known) - most, 0))):
        del known[each]


def _inside(points: Points, rows: I64) -> Mask:
    """Return whether the last slice before each point on its track, or one that began before the batch, is open."""
    batch = points.batch
    out = np.zeros(len(rows), np.bool_)
    tracks = batch.track[rows]
    for track in sets.unique(tracks).tolist():
        on_track = np.flatnonzero(tracks == track)
        slices = points.slices(track)
        before = np.searchsorted(slices, rows[on_track]) - 1
        ends = np.concatenate((batch.ts[slices] + batch.dur[slices], points.ends_before[track : track + 1]))
        times = batch.ts[rows[on_track]]
        lasts = np.concatenate((batch.ts[slices], ends[-1:]))[before]
        empty = (lasts == times) & (ends[before] == times)  # a slice of 0 ns at this instant
        out[on_track] = ((ends[before] > times) | (ends[-1] > times)) & ~empty
    return out


def _slices_of(points: Points, before: Points | None) -> SlicesOfPoints:
    """Return the slice of each point of a batch."""
    batch = points.batch
    row_of, in_before = np.full(batch.points.row.size, -1, np.int64), np.zeros(batch.points.row.size, np.bool_)
    places = np.flatnonzero(np.isin(batch.phase[batch.points.row], list(POINTS)))
    for track, here in rows_by(narrow(batch.track[batch.points.row[places]])):
        here = places[here]
        on_track = batch.points.row[here]
        slices, times = points.slices(track), batch.ts[on_track]
        place = np.searchsorted(slices, on_track)
        latest = slices[place - 1] if len(slices) else place
        slice_rows = np.where(place > 0, _around(batch, slices, on_track), -1)
        empty = (place > 0) & (batch.ts[latest] == times) & (batch.dur[latest] == 0)  # a slice of 0 ns at this instant
        slice_rows[empty] = latest[empty]
        ends = batch.phase[on_track] == END
        if before is not None and len(before.slices(track)):
            earlier, is_open = _open_at(before, track, times)
            # Of this batch where a slice is around the point, or none of the batch before is.
            has_slice = (slice_rows >= 0) | (~is_open & (place > 0))
            row_of[here] = np.where(ends, -1, earlier)
            in_before[here] = ~ends & ~has_slice
        else:
            has_slice = place > 0
        # Like the importers of Chrome traces: else the slice that has just ended.
        slice_rows = np.where(slice_rows >= 0, slice_rows, latest)
        following = np.append(slices, -1)[place]
        slice_rows, has_slice = np.where(ends, following, slice_rows), np.where(ends, following >= 0, has_slice)
        row_of[here[has_slice]] = slice_rows[has_slice]
    return SlicesOfPoints(row_of, in_before)


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
        if batch.points.row.size:
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
        unused = np.ones(points.batch.count, np.bool_)
        for rows in points.used():
            unused[rows] = False
        waiting = np.flatnonzero(unused[points.calls])
        numbers = points.first + waiting
        self._free[numbers % _RING] = numbers
        points.add(points.calls[waiting], numbers + _LATE, end=False)
