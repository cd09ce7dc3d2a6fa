"""The heat map of the steps: the time of each step on each rank, beside the median of the ranks in that step.

Steps of the same number are the same step. Where a number is missing, or repeats in a rank, steps are matched by their
place in the rank. With more than MOST_ROWS ranks or MOST_COLUMNS steps neighbours share a cell, which holds the
greatest step time among them and the median of that step.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tracekit.columns.arrays import I64
from tracekit.index.steps import Steps
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Cell, Heat
from tracekit.units import Unit

MOST_ROWS, MOST_COLUMNS = 64, 120


def heat(index: TraceIndex, steps: Steps) -> Heat | None:
    """Return the heat map of the steps; None where fewer than two owners have steps."""
    owners, row = np.unique(steps.owner, return_inverse=True)
    if owners.size < 2:
        return None
    labels, column, numbered = _matched(index, steps, row)
    medians = _medians(column, steps.durations, len(labels))[column]
    rows, row_edges = _blocks([steps.owners.labels[o] for o in owners.tolist()], MOST_ROWS)
    columns, column_edges = _blocks(labels, MOST_COLUMNS)
    cell = _block_of(row, row_edges) * len(columns) + _block_of(column, column_edges)
    order = np.lexsort((column, -steps.durations, cell))
    at = order[np.flatnonzero(np.diff(cell[order], prepend=-1))]
    values: list[Cell] = [None] * (len(rows) * len(columns))
    levels: list[Cell] = [None] * len(values)
    for place, row_of_steps in zip(cell[at].tolist(), at.tolist(), strict=True):
        values[place], levels[place] = int(steps.durations[row_of_steps]), int(medians[row_of_steps])
    who = "rank" if None not in steps.owners.ranks else "input"
    return Heat(
        f"Step time by {who}",
        Unit.NS,
        rows,
        columns,
        _whole(values),
        _whole(levels),
        "; ".join(_remarks(who, owners.size, len(labels), row_edges, column_edges, numbered)),
    )


def _matched(index: TraceIndex, steps: Steps, row: I64) -> tuple[list[str], I64, bool]:
    """Return a label for each column, the column of each step, and whether numbers decide it."""
    numbers = index.events.column("step").take(steps.rows)
    if not numbers.null_count:
        known, column = np.unique(numbers.to_numpy().astype(np.int64), return_inverse=True)
        if np.unique(row.astype(np.int64) * known.size + column).size == row.size:
            return [f"step {number}" for number in known.tolist()], column.astype(np.int64), True
    place = np.arange(row.size) - np.searchsorted(row, row)
    return [f"step at place {i}" for i in range(int(place.max()) + 1)], place.astype(np.int64), False


def _medians(column: I64, times: I64, count: int) -> I64:
    """Return the median of the times in each column by nearest rank, as the tables have it."""
    ordered = times[np.lexsort((times, column))]
    sizes = np.bincount(column, minlength=count)
    found: I64 = ordered[np.cumsum(sizes) - sizes + (sizes - 1) // 2]
    return found


def _blocks(labels: list[str], most: int) -> tuple[list[str], I64]:
    """Return the labels of at most so many blocks of neighbours, and where each begins; the last edge is the end."""
    count = min(len(labels), most)
    edges = np.arange(count + 1) * len(labels) // count
    shared = [labels[a] if b - a == 1 else f"{labels[a]} to {labels[b - 1]}" for a, b in pairwise(edges.tolist())]
    return shared, edges


def _block_of(places: I64, edges: I64) -> I64:
    found: I64 = np.searchsorted(edges, places, side="right") - 1
    return found


def _whole(cells: list[Cell]) -> list[int | None]:
    return [cell if isinstance(cell, int) else None for cell in cells]


def _remarks(who: str, owners: int, steps: int, rows: I64, columns: I64, numbered: bool) -> list[str]:
    remarks = []
    if rows.size <= owners or columns.size <= steps:
        widest = int(np.diff(rows).max()), int(np.diff(columns).max())
        shared = [f"{each:,} {word}s" for each, word in zip(widest, (who, "step"), strict=True) if each > 1]
        remarks.append(f"a cell is the greatest step time of up to {' and '.join(shared)}")
    if not numbered:
        remarks.append(f"steps are matched by their place in each {who}: numbers are missing or repeat")
    return remarks
