"""The critical path as data of the page: its pieces by time, decoded when a reader asks for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.columns.arrays import I64
from tracekit.render.page import pack
from tracekit.report.timeline import CriticalPath, LaneEvents, Timeline
from tracekit.text.display import visible

MOST_PIECES = 300_000
"""Pieces of all paths of a page, one or two bytes each. Of more the longest are drawn, and the others counted."""


def add_paths(
    parts: list[pack.DataPart], figure: Timeline, paths: Sequence[CriticalPath], unit: int
) -> list[dict[str, object]]:
    """Add the pieces of each path to the parts of a page, and return the head of each.

    ns: of the pieces, span: of the path; left: pieces that are not in the page, since their events are not, or since
    they are too many.
    """
    heads: list[dict[str, object]] = []
    most = MOST_PIECES // max(len(paths), 1)
    for path in paths:
        places = figure.events.places_of(path.rows)
        lengths = path.ends - path.starts
        at = np.flatnonzero(places >= 0)
        at = np.sort(at[np.argsort(-lengths[at], kind="stable")[:most]])
        if not at.size:
            continue
        events = figure.events
        shift = events.shift[events.clocks[path.rows[at]]] if events.shift.size > 1 else events.shift[0]
        starts, ends = (path.starts[at] - shift) // unit, (path.ends[at] - shift) // unit
        text = _packed(places[at], starts, ends, events.starts_at(places[at]) // unit, events, unit)
        parts.append(pack.DataPart("tl-path", text, (("key", len(heads)), ("n", at.size))))
        heads.append(
            {
                "label": visible(path.label),
                "n": int(at.size),
                "left": int(path.rows.size - at.size),
                "ns": int(lengths.sum()),
                "span": path.span_ns,
            }
        )
    return heads


def _packed(places: I64, starts: I64, ends: I64, own_starts: I64, events: LaneEvents, unit: int) -> str:
    """Return places, and how each piece begins and ends: most times are those of events, which the page has.

    A piece begins 0: where the one before ended, 1: with its event, 2: so much later than the former. It ends 0: with
    its event, 1: as the event of the next piece begins, 2: after so much.
    """
    own_ends = own_starts + events.lengths_at(places) // unit
    before = np.append(0, ends[:-1])
    next_ = np.append(own_starts[1:], -1)
    begin = np.select([starts == before, starts == own_starts], [0, 1], 2)
    end = np.select([ends == own_ends, ends == next_], [0, 1], 2)
    stated = np.column_stack((starts - before, ends - starts)).ravel()[np.column_stack((begin, end)).ravel() == 2]
    steps = pack.zigzag(pack.steps(places))
    return pack.packed(pack.planes(steps), pack.planes(begin * 3 + end), pack.planes(stated))
