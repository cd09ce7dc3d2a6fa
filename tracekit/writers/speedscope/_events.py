"""The begins and ends of slices, as events of an evented profile."""

from __future__ import annotations

from tracekit.columns.arrays import I64
from tracekit.columns.arrow import Column
from tracekit.writers.tracks.digits import Piece, fixed_rows


def event_texts(frame: I64, start: I64 | None, end: I64 | None) -> Column:
    """Return the events of each slice, a comma after each: its begin, its end, or both where nothing is between."""
    pieces: list[Piece] = []
    if start is not None:
        pieces += [b'{"type":"O","frame":', frame, b',"at":', start, b"},"]
    if end is not None:
        pieces += [b'{"type":"C","frame":', frame, b',"at":', end, b"},"]
    return fixed_rows([(len(frame), pieces)])
