"""Slices become begins and ends, in the order in which they nest, for formats that have all of a track in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Column, Mask
from tracekit.writers.tracks.batch import Batch, Codes, classes, value_codes
from tracekit.writers.tracks.lanes import TrackLanes
from tracekit.writers.tracks.output import Spool

__all__ = ["EVENTS", "CounterNumbers", "NestedEvents", "Order", "TrackItems", "order_packets"]

# Counters by process and name: the viewers draw one line for each.


class CounterNumbers:
    """Numbers counters from 0, in order of appearance."""

    def __init__(self, lanes: TrackLanes) -> None:
        self.known: dict[tuple[int, str], int] = {}
        """Number of the process, and name -> number of the counter."""
        self._lanes = lanes

    def of(self, batch: Batch, rows: I64) -> I64:
        """Return the number of the counter of each row. rows: values of counters."""
        names = value_codes(batch.columns["name"])
        parts: list[Codes | None] = [(batch.track[rows], int(batch.track.max()) + 1)]
        parts.append(None if names is None else (names[0][rows], names[1]))
        codes, first = classes(parts, len(rows))
        numbers = []
        for row in rows[first].tolist():
            process = self._lanes.tracks[int(batch.track[row])].lane.process.number
            numbers.append(self.known.setdefault((process, batch.text("name", row) or ""), len(self.known)))
        return np.array(numbers, np.int64)[codes]


# The order of packets: nested slices become a begin and an end each, in order of time on each track.
#
# Perfetto closes the innermost open slice at an end, whatever slice the end was written for, and reports nothing. So
# slices that cross, or ends in the wrong order at one instant, become wrong durations silently. Here the order follows
# from the starts alone, and is refused where it is not that of properly nested slices.


_WIDE = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class TrackItems:
    """The slices and marks of a batch: sorted by track, then as the rows come; slices still open come first.

    track: shape (n,), 0, 1, 2 ... start, end: shape (n,), ns. single: not a slice, one packet without an end.
    carried: slices that a batch before has begun, outermost first.
    """

    track: I64
    start: I64
    end: I64
    single: Mask
    carried: Mask


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The order of packets. A slice without anything inside is one row: its begin and its end side by side.

    starters: items that begin here, ascending, with the row of each and whether its end is in the same row (closed).
    enders: items whose end has a row of its own, in order of these rows. open: items that have not ended.
    """

    rows: int
    starters: I64
    starter_row: I64
    closed: Mask
    enders: I64
    ender_row: I64
    open: Mask


def order_packets(items: TrackItems, until: int) -> Order:
    """Return the order of packets. Slices that end after `until`, the last start of the batch, stay open.

    Raises: ValueError where slices of one track cross.
    """
    count = len(items.track)
    at = np.arange(count)
    due = ~items.single & (items.end <= until)
    starts, ends = _keys(items, until)
    # The first item that is not inside: it starts at the end, or later, or is on the next track.
    beyond = np.maximum(np.searchsorted(starts, ends, "left"), at + 1)
    ends_before = np.bincount(beyond, minlength=count + 1)[:count].cumsum()
    begin = at + ends_before
    stop = begin + 2 * (beyond - at) - 1
    taken = np.zeros(2 * count, np.bool_)
    taken[begin] = True
    if count and int(stop.max()) < 2 * count:
        taken[stop] = True
    if not taken.all() or not _ascend(begin, stop, starts, ends):
        raise ValueError("slices cross on one track")
    begins = ~items.carried
    closed = due & begins & (beyond == at + 1)
    kept = np.zeros(2 * count, np.bool_)
    kept[begin[begins]] = True
    own_row = due & ~closed
    kept[stop[own_row]] = True
    row = kept.cumsum() - 1
    starters = np.flatnonzero(begins)
    item = np.full(2 * count, -1, np.int64)
    item[stop[own_row]] = np.flatnonzero(own_row)
    places = np.flatnonzero(item >= 0)
    return Order(
        rows=int(kept.sum()),
        starters=starters,
        starter_row=row[begin[starters]],
        closed=closed[starters],
        enders=item[places],
        ender_row=row[places],
        open=~items.single & ~due,
    )


def _ascend(begin: I64, stop: I64, starts: I64, ends: I64) -> bool:
    """Return whether the times of all packets ascend, in the order of their places."""
    times = np.empty(2 * len(begin), np.int64)
    times[begin], times[stop] = starts, ends
    return bool((times[1:] >= times[:-1]).all())


def _keys(items: TrackItems, until: int) -> tuple[I64, I64]:
    """Return start and end of each item as numbers that ascend over all tracks."""
    new = items.start[~items.carried]
    base = int(new.min()) if len(new) else until
    starts = np.where(items.carried, 0, items.start - base + 1)
    ends = np.where(items.end > until, until - base + 2, np.maximum(items.end - base + 1, starts))
    ends = np.where(items.carried, np.maximum(ends, 1), ends)
    span = until - base + 3
    tracks = int(items.track[-1]) + 1 if len(items.track) else 0
    if tracks * span >= _WIDE:
        distinct = sets.unique(np.concatenate((starts, ends)))
        starts, ends = np.searchsorted(distinct, starts), np.searchsorted(distinct, ends)
        span = len(distinct)
    shift = items.track * span
    return starts + shift, ends + shift


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
        order = order_packets(TrackItems(dense, start, end, np.zeros(len(track), np.bool_), carried), until)
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
