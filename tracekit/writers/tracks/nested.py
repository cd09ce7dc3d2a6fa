"""Slices become begins and ends, in the order in which they nest, for formats that have all of a track in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64
from tracekit.columns.arrow import Column
from tracekit.writers.tracks.batch import Batch
from tracekit.writers.tracks.codes import classes, value_codes
from tracekit.writers.tracks.order import Items, Order, order_packets
from tracekit.writers.tracks.spool import Spool

EVENTS = 0
"""The part of the spool that holds the events."""
EventTexts: TypeAlias = Callable[[I64, I64 | None, I64 | None], Column]
"""Returns for each slice what its frame, start and end are in the file; None: that event is elsewhere."""


class NestedEvents:
    """Writes the begins and ends of slices to a spool, by track. Keeps open slices from batch to batch."""

    def __init__(self, spool: Spool, texts: EventTexts) -> None:
        self.frames: dict[tuple[str, str], int] = {}
        """Name and kind -> number of the frame."""
        self.slices = self.empty = 0
        """Slices, and those of 0 ns among them."""
        self.last_ns = 0
        """Latest end of a slice."""
        self._spool = spool
        self._texts = texts
        # Track, end and frame of slices that are open; outermost first on each track.
        self._open = np.empty((3, 0), np.int64)

    def add(self, batch: Batch) -> None:
        """Write the slices of a batch; what has not ended when the next batch begins stays open."""
        rows = batch.slices()
        if not len(rows):
            return
        self.slices += len(rows)
        self.empty += int(np.count_nonzero(batch.dur[rows] == 0))
        self.last_ns = max(self.last_ns, int((batch.ts[rows] + batch.dur[rows]).max()))
        new = np.stack((batch.track[rows], batch.ts[rows] + batch.dur[rows], self._frames(batch, rows)))
        count = self._open.shape[1]
        together = np.concatenate((self._open, new), axis=1)
        order = np.argsort(together[0], kind="stable")
        start = np.concatenate((np.zeros(count, np.int64), batch.ts[rows]))[order]
        self._write(together[:, order], start, order < count, int(batch.ts[-1]))

    def finish(self) -> None:
        """Write the ends of the slices that are open after the last batch."""
        count = self._open.shape[1]
        if count:
            latest = int(self._open[1].max())
            self._write(self._open, np.zeros(count, np.int64), np.ones(count, np.bool_), latest)

    def _write(self, items: I64, start: I64, carried: np.ndarray[tuple[int], np.dtype[np.bool_]], until: int) -> None:
        """Write slices that are sorted by track. items: shape (3, n), as in `_open`."""
        track, end, frame = items
        dense = np.append(0, np.cumsum(track[1:] != track[:-1]))
        order = order_packets(Items(dense, start, end, np.zeros(len(track), np.bool_), carried), until)
        self._open = items[:, order.open]
        texts, rows = [], []
        for chosen, where, closed in _groups(order):
            if len(chosen):
                begins, ends = start[chosen], end[chosen]
                texts.append(
                    self._texts(frame[chosen], None if closed is None else begins, None if closed is False else ends)
                )
                rows.append(where)
        if not rows:
            return
        place = np.empty(order.rows, np.int64)
        place[np.concatenate(rows)] = np.arange(order.rows)
        tracks = np.empty(order.rows, np.int64)
        tracks[order.starter_row], tracks[order.ender_row] = track[order.starters], track[order.enders]
        self._spool.add(EVENTS, tracks, arrow.take(pa.concat_arrays(texts), place))

    def _frames(self, batch: Batch, rows: I64) -> I64:
        codes, first = classes([value_codes(batch.columns[name]) for name in ("name", "kind")], batch.count)
        used, place = np.unique(codes[rows], return_inverse=True)
        numbers = []
        for row in first[used].tolist():
            key = batch.text("name", row) or "", batch.text("kind", row) or ""
            numbers.append(self.frames.setdefault(key, len(self.frames)))
        return np.array(numbers, np.int64)[place]


def _groups(order: Order) -> list[tuple[I64, I64, bool | None]]:
    """Return items with their rows: begin and end side by side (True), begins alone (False), ends alone (None)."""
    whole = order.closed
    return [
        (order.starters[whole], order.starter_row[whole], True),
        (order.starters[~whole], order.starter_row[~whole], False),
        (order.enders, order.ender_row, None),
    ]
