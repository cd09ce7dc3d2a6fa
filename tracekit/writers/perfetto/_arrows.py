"""Arrows as ids of flows: one id for each arrow, on the slice where it begins and on the slice where it ends.

Perfetto draws one arrow for an id. A second kernel with the id of its launch has no arrow at all, so each kernel has an
id of its own, and a launch has as many. They must be known when the launch is written: a batch is kept back until the
next one has been read. A launch that has no kernel by then gets one id, for a kernel that comes later.
"""

from __future__ import annotations

import numpy as np

from tracekit.columns.arrays import I64, Mask
from tracekit.writers.perfetto._points import InputArrows, Points
from tracekit.writers.tracks.arrows import PENDING_LAUNCHES, Launches
from tracekit.writers.tracks.batch import BOUND_END, Batch, launch_columns

_LAUNCH, _LATE, _BOUND = 1 << 32, 1 << 44, 1 << 52
"""First ids of three kinds of arrows. Perfetto numbers the arrows of legacy events from 0 in the same space."""
_RING = 2 * PENDING_LAUNCHES


class Arrows:
    """Gives each arrow its id. `points` is called for each batch in order, `release` when it is written."""

    def __init__(self) -> None:
        self.launches = Launches()
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
            found = self.launches.match(calls, work, keys, batch.ts[rows], batch.track[rows])
            ids, drawn = self._connect(found.launch, found.identity + _LAUNCH)
            points.add(rows[found.row[drawn]], ids[drawn], end=True)
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
            own = (launches >= held.first) & (launches < held.first + len(held.calls))
            held.add(held.calls[launches[own] - held.first], ids[own], end=False)
            drawn |= own
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
        unused = np.ones(points.batch.count, np.bool_)
        for rows in points.used():
            unused[rows] = False
        waiting = np.flatnonzero(unused[points.calls])
        numbers = points.first + waiting
        self._free[numbers % _RING] = numbers
        points.add(points.calls[waiting], numbers + _LATE, end=False)
