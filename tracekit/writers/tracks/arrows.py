"""Arrows from launch calls to the device work that they caused, and arrows that were in the input.

A viewer draws an arrow from the slice that holds "s" to the slice that holds "f". Name, cat and id together are its key
in the whole file. Catapult searches the slice with closed intervals: where another slice of the track ends at the start
of ours, the point is 1 ns later.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias, TypeVar

import numpy as np

from tracekit.analysis.links import link
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Rows

__all__ = [
    "BOUND",
    "ENDED_FLOWS",
    "OPEN_FLOWS",
    "PENDING_LAUNCHES",
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


class Flows:
    """Chooses the rows of kind "flow" that Perfetto accepts as points of an arrow.

    Perfetto joins each "t" and "f" with the last point of the same id; an id stays in use after its "f". It reports an
    error for a second start of an id, and for a point on a thread without any slice before it. An "f" without bp "e"
    and without a start becomes an arrow from another thread's slice. None of these is written as a point.
    """

    def __init__(self) -> None:
        self.made = 0
        self._open: OrderedDict[FlowKey, _Flow] = OrderedDict()
        self._ended: OrderedDict[FlowKey, _Flow] = OrderedDict()

    def accept(self, phase: object, key: FlowKey, *, after_slice: bool, enclosing: bool) -> int | None:
        """Return the id of a point in the file, from 1, or None for a row that cannot be a point.

        after_slice: a slice of the track has started. enclosing: an "f" that binds to the slice around it (bp "e").
        """
        known = self._open.get(key) or self._ended.get(key)
        if phase == "s" and after_slice and (known is None or known.continued):
            self.made += 1
            self._ended.pop(key, None)
            self._open.pop(key, None)
            keep_newest(self._open, key, _Flow(self.made), OPEN_FLOWS)
            return self.made
        if known is None or phase not in ("t", "f") or not (after_slice or (phase == "f" and not enclosing)):
            return None
        known.continued = True
        if phase == "f" and key in self._open:
            del self._open[key]
            keep_newest(self._ended, key, known, ENDED_FLOWS)
        return known.identity


@dataclass(slots=True)
class _Flow:
    """The start of an arrow. continued: a later point has the same id."""

    identity: int
    continued: bool = False


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
