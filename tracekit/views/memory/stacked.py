"""Memory over time by category: stacked areas that add up to the total of the file at each moment.

Each block counts for its category from its allocation to its free. What the total has beyond the blocks was held before
the first row: it is "parameter or older". A place whose blocks hold more than its own total (frees are missing) has no
curve, and a note says so.
"""

from __future__ import annotations

import numpy as np

from tracekit.index.memory_blocks import CATEGORIES, HELD_BEFORE, RULES, MemoryBlocks
from tracekit.model import sets
from tracekit.model.arrow import I64
from tracekit.model.report import StackedCurve
from tracekit.model.units import Unit
from tracekit.views.memory.columns import edges_of, top_places

__all__ = ["LAYERS", "category_curves"]

_BEFORE = RULES[HELD_BEFORE][0]
LAYERS = (
    CATEGORIES[_BEFORE],
    "optimizer state",
    "gradient",
    "backward intermediate",
    "activation",
    "temporary",
    "not known",
)
"""Categories from the lowest area up: the longer blocks are held, the lower they are."""


def category_curves(
    blocks: MemoryBlocks, rows: I64, times: I64, places: I64, totals: I64, labels: list[str]
) -> tuple[list[StackedCurve], list[str]]:
    """Return the curve of each place with blocks, and notes on places without one.

    Arrays of shape (n,): rows of EVENTS that allocate and free; times: ns after time 0; places: numbers in `labels`;
    totals: what the place holds after each row.
    """
    curves, notes = [], []
    for place in sets.unique(places).tolist():
        at = np.flatnonzero(places == place)
        at = at[np.argsort(times[at], kind="stable")]
        held = _held(blocks, rows[at])
        if not held.any() or times[at[0]] == times[at[-1]]:
            continue
        older = totals[at] - held.sum(axis=0)
        if (older < 0).any():
            notes.append(
                f"{labels[place]}: categories are not drawn over time: blocks of these rows hold more than the total "
                "that the file gives, so frees are missing"
            )
            continue
        held[_BEFORE] += older
        edges = edges_of(int(times[at[0]]), int(times[at[-1]]))
        tops = top_places(times[at], totals[at], edges)
        layers = [CATEGORIES.index(word) for word in LAYERS]
        layers = [layer for layer in layers if held[layer].any()]
        values = [[None if top < 0 else int(held[layer, top]) for top in tops] for layer in layers]
        title = f"Memory by category, {labels[place]}"
        curves.append(StackedCurve(title, Unit.BYTES, edges, [CATEGORIES[layer] for layer in layers], values))
    return curves, notes


def _held(blocks: MemoryBlocks, rows: I64) -> I64:
    """Return the bytes of the blocks of each category after each of these rows; shape (categories, rows)."""
    order = np.argsort(rows, kind="stable")
    in_order = rows[order]
    change = np.zeros((len(CATEGORIES), rows.size), np.int64)
    for mine, sizes in ((blocks.rows, blocks.sizes), (blocks.end_rows, -blocks.sizes)):
        found = np.minimum(np.searchsorted(in_order, mine), rows.size - 1)
        ours = in_order[found] == mine
        np.add.at(change, (blocks.categories[ours], order[found[ours]]), sizes[ours])
    held: I64 = np.cumsum(change, axis=1)
    return held
