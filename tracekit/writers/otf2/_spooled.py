"""Enters, leaves and values of metrics on their way through the spool, as rows of bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tracekit.model import arrow
from tracekit.model.arrow import I64, Column
from tracekit.writers.tracks.batch import (
    COUNTER,
    Batch,
)
from tracekit.writers.tracks.lanes import TrackLanes
from tracekit.writers.tracks.nested import CounterNumbers
from tracekit.writers.tracks.output import Spool

VALUES = 1
"""The part of the spool that holds the values of metrics, by process."""
# The spool takes the last byte of all rows off, so each row ends with one that says nothing.
EVENT = np.dtype([("at", "<i8"), ("what", "<i8"), ("end", "S1")])
"""what: twice the number of the region, and 1 more for a leave."""
VALUE = np.dtype([("at", "<i8"), ("metric", "<i8"), ("value", "<f8"), ("end", "S1")])

Rows: TypeAlias = npt.NDArray[np.void]


def event_texts(frame: I64, start: I64 | None, end: I64 | None) -> Column:
    """Return the enter of each slice, its leave, or both where nothing is between."""
    times = [(time, leave) for leave, time in enumerate((start, end)) if time is not None]
    rows = np.zeros((len(frame), len(times)), EVENT)
    for place, (time, leave) in enumerate(times):
        rows["at"][:, place], rows["what"][:, place] = time, 2 * frame + leave
    return _column(rows.reshape(-1), len(frame))


def _column(rows: Rows, count: int) -> Column:
    size = rows.nbytes // count
    return arrow.text_column(np.arange(0, rows.nbytes + 1, size, dtype=np.int32), rows.view(np.uint8))


class Values:
    """Writes the values of counters to a spool, by process."""

    def __init__(self, spool: Spool, lanes: TrackLanes) -> None:
        self.names = CounterNumbers(lanes)
        self.with_more = 0
        """Values with args, which a metric cannot hold."""
        self._spool = spool
        self._lanes = lanes

    def add(self, batch: Batch) -> int:
        """Write the values of a batch and return how many they are."""
        chosen = np.flatnonzero(batch.phase == COUNTER)
        if not len(chosen):
            return 0
        tracks = self._lanes.tracks
        processes = np.array([track.lane.process.number for track in tracks], np.int64)[batch.track[chosen]]
        order = np.argsort(processes, kind="stable")
        chosen, processes = chosen[order], processes[order]
        self.with_more += int(np.count_nonzero(arrow.valid(batch.args)[chosen]))
        rows = np.zeros(len(chosen), VALUE)
        rows["at"], rows["value"] = batch.ts[chosen], batch.value[chosen]
        rows["metric"] = self.names.of(batch, chosen)
        self._spool.add(VALUES, processes, _column(rows, len(rows)))
        return len(chosen)


class Replay:
    """A file for rows from the spool: each piece is handed on as an array."""

    def __init__(self, form: np.dtype[Any], play: Callable[[Rows], None]) -> None:
        self._form = form
        self._play = play

    def write(self, data: bytes | memoryview, /) -> int:
        """Play the rows and return the number of bytes."""
        missing = -len(data) % self._form.itemsize
        self._play(np.frombuffer(bytes(data) + bytes(missing), self._form))
        return len(data)
