"""Columns of a curve over time: their edges, and the moment of each at which a total was greatest."""

from __future__ import annotations

import numpy as np

from tracekit.model.arrow import I64

__all__ = ["MOST_COLUMNS", "edges_of", "top_places"]

MOST_COLUMNS = 200


def edges_of(begin: int, end: int) -> list[int]:
    """Return the edges of the columns in whole ns; the last edge is 1 ns behind the end."""
    span = end + 1 - begin
    count = min(MOST_COLUMNS, span)
    return [begin + span * column // count for column in range(count + 1)]


def top_places(at: I64, values: I64, edges: list[int]) -> list[int]:
    """Return the place of the greatest total in each column, -1 before the first. A total is held until the next.

    at: times, in order; values: the total from each time on.
    """
    bounds = np.searchsorted(at, np.array(edges, np.int64)).tolist()
    tops: list[int] = []
    for column, edge in enumerate(edges[:-1]):
        first, last = bounds[column], bounds[column + 1]
        held = first > 0 and not (first < last and int(at[first]) == edge)
        in_column = values[first - held : last]
        tops.append(first - held + int(in_column.argmax()) if in_column.size else -1)
    return tops
