"""The budget of a page: events beyond it are left out, with an exact account of what is missing where.

Neighbours on a row are left out together, as a stretch with its begin, end, count and busy time: so a zoomed view shows
where something is missing, and how much. Stretches whose longest event is the shortest go first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracekit.columns.arrays import I64
from tracekit.report.timeline import LaneEvents, Timeline

STRETCHES = 4_000
"""About how many stretches a page has, unless the rows are more."""
MOST_STRETCHES = 16_000
"""With more rows, neighbouring stretches of a layer are joined until so many are left, and one for each layer."""
SHORTEST = 16
"""Events of a stretch, fewer at the end of a row."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Stretches that are left out; shape (k,) each: begin and end (ns after the begin), count, busy ns.

    rows, untils: the first row, and the one after the last: a stretch is on one row, or on several of one layer.
    """

    rows: I64
    untils: I64
    begins: I64
    ends: I64
    counts: I64
    busy: I64


def within(figure: Timeline, most: int) -> tuple[Timeline, Missing | None]:
    """Return a timeline with at most so many events, and what is missing; None for nothing."""
    events = figure.events
    needed = len(events) - most
    if needed <= 0:
        return figure, None
    size = max(SHORTEST, needed // STRETCHES)
    sizes = np.diff(events.first)
    blocks = -(-sizes // size)
    row = np.repeat(np.arange(sizes.size), blocks)
    number = np.arange(row.size) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    begins = events.first[row] + number * size
    counts = np.minimum(size, events.first[row + 1] - begins)
    lengths = events.lengths_at(slice(None))
    longest = np.maximum.reduceat(lengths, begins)
    by_length = np.argsort(longest, kind="stable")
    left_out = by_length[: int(np.searchsorted(np.cumsum(counts[by_length]), needed)) + 1]
    left_out.sort()
    lasts = begins[left_out] + counts[left_out] - 1
    missing = Missing(
        row[left_out],
        row[left_out] + 1,
        events.starts_at(begins[left_out]),
        events.starts_at(lasts) + lengths[lasts],
        counts[left_out],
        np.add.reduceat(lengths, begins)[left_out],
    )
    gone = np.zeros(row.size, np.bool_)
    gone[left_out] = True
    kept = np.repeat(~gone, counts)
    return _taken(figure, kept), _joined(missing, figure)


def _joined(missing: Missing, figure: Timeline) -> Missing:
    """Return no more stretches than a page can hold: a lane may have a million rows, with one stretch each."""
    each = -(-missing.rows.size // MOST_STRETCHES)
    if each < 2:
        return missing
    depths = [depth for lane in figure.lanes for _, depth in lane.layers]
    layer = np.repeat(np.arange(len(depths)), depths)[missing.rows]
    number = np.arange(layer.size)
    new = np.append(True, layer[1:] != layer[:-1])
    first = np.flatnonzero(new | ((number - np.maximum.accumulate(np.where(new, number, 0))) % each == 0))
    return Missing(
        missing.rows[first],
        np.maximum.reduceat(missing.untils, first),
        np.minimum.reduceat(missing.begins, first),
        np.maximum.reduceat(missing.ends, first),
        np.add.reduceat(missing.counts, first),
        np.add.reduceat(missing.busy, first),
    )


def _taken(figure: Timeline, kept: np.typing.NDArray[np.bool_]) -> Timeline:
    events: LaneEvents = figure.events
    before = np.append(0, np.cumsum(kept))

    def linked(pairs: tuple[I64, I64]) -> tuple[I64, I64]:
        both = kept[pairs[0]] & kept[pairs[1]]
        return before[pairs[0][both]], before[pairs[1][both]]

    fewer = replace(events, order=events.order[kept], first=before[events.first])
    return replace(figure, events=fewer, launches=linked(figure.launches), flows=linked(figure.flows))
