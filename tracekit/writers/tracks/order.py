"""The order of packets: nested slices become a begin and an end each, in order of time on each track.

Perfetto closes the innermost open slice at an end, whatever slice the end was written for, and reports nothing. So
slices that cross, or ends in the wrong order at one instant, become wrong durations silently. Here the order follows
from the starts alone, and is refused where it is not that of properly nested slices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.columns.arrays import I64, Mask

_WIDE = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Items:
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


def order_packets(items: Items, until: int) -> Order:
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


def _keys(items: Items, until: int) -> tuple[I64, I64]:
    """Return start and end of each item as numbers that ascend over all tracks."""
    new = items.start[~items.carried]
    base = int(new.min()) if len(new) else until
    starts = np.where(items.carried, 0, items.start - base + 1)
    ends = np.where(items.end > until, until - base + 2, np.maximum(items.end - base + 1, starts))
    ends = np.where(items.carried, np.maximum(ends, 1), ends)
    span = until - base + 3
    tracks = int(items.track[-1]) + 1 if len(items.track) else 0
    if tracks * span >= _WIDE:
        distinct = np.unique(np.concatenate((starts, ends)))
        starts, ends = np.searchsorted(distinct, starts), np.searchsorted(distinct, ends)
        span = len(distinct)
    shift = items.track * span
    return starts + shift, ends + shift
