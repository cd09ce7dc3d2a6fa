"""Memory by category where the file states the category of each change, as PyTorch's memory timeline does.

`held` is what a category had when its place had the most, `peak` the most that it had at once. The curve is stacked:
at each moment the categories add up to the total of the file.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.index.memory_totals import extracted
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Chunked
from tracekit.model.report import Cell, ReportTable, StackedCurve
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import ViewOptions
from tracekit.views.memory.categories import OF_CATEGORIES, PlacedRows
from tracekit.views.memory.columns import edges_of, top_places

__all__ = ["stated_categories", "stated_curves", "stated_table"]

_ORDER = (
    "parameter",
    "optimizer state",
    "gradient",
    "autograd detail",
    "activation",
    "input",
    "temporary",
    "not known",
)
"""Categories from the lowest area up: the longer blocks are held, the lower they are."""
_RULE = "the file states it"


def stated_categories(args: Chunked) -> tuple[I64, list[str]] | None:
    """Return the category of each row as a place in a list, and the list; None unless all rows state one."""
    texts = extracted(args, r'"category":\s*"(?P<found>[^"\\]{1,40})"')
    if not len(texts) or texts.null_count:
        return None
    encoded = arrow.encoded(texts.combine_chunks())
    words = arrow.texts(encoded.dictionary)
    order = sorted(
        range(len(words)), key=lambda at: (_ORDER.index(words[at]) if words[at] in _ORDER else -1, words[at])
    )
    place = np.zeros(len(words), np.int64)
    place[order] = np.arange(len(words))
    return place[arrow.ints(encoded.indices)], [words[at] for at in order]


def _held(sizes: I64, codes: I64, count: int) -> I64:
    """Return what each category holds after each row; shape (categories, rows)."""
    change = np.zeros((count, sizes.size), np.int64)
    change[codes, np.arange(sizes.size)] = sizes
    held: I64 = np.cumsum(change, axis=1)
    return held


def stated_table(
    placed: PlacedRows, sizes: I64, categories: tuple[I64, list[str]], options: ViewOptions
) -> ReportTable:
    """Return the table of categories. sizes: signed bytes of the rows of `placed`."""
    codes, words = categories
    rows: list[tuple[int, int, int | None, int, int, int]] = []
    for number in range(len(placed.labels)):
        at = np.flatnonzero(placed.place == number)
        held = _held(sizes[at], codes[at], len(words))
        peak = placed.peaks.get(number)
        column = int(np.searchsorted(placed.rows[at], peak[0])) if peak is not None else -1
        for code in sets.unique(codes[at]).tolist():
            gained = sizes[at][(codes[at] == code) & (sizes[at] > 0)]
            now = int(held[code, column]) if peak is not None else None
            rows.append((number, code, now, int(held[code].max()), gained.size, int(gained.sum())))
    totals: list[int | None] = [placed.peaks[row[0]][1] if row[0] in placed.peaks else None for row in rows]
    places: list[Cell] = [placed.labels[row[0]] for row in rows]
    columns = [
        specs.NAME.column([words[row[1]] for row in rows]),
        *([OF_CATEGORIES["place"].column(places, 0)] if len(placed.labels) > 1 else []),
        OF_CATEGORIES["held"].column([row[2] for row in rows]),
        OF_CATEGORIES["share"].column(
            [row[2] / total if row[2] is not None and total else None for row, total in zip(rows, totals, strict=True)],
            1,
        ),
        OF_CATEGORIES["peak"].column([row[3] for row in rows], 1),
        OF_CATEGORIES["allocations"].column([row[4] for row in rows], 1),
        OF_CATEGORIES["allocated"].column([row[5] for row in rows], 2),
        OF_CATEGORIES["rule"].column([_RULE] * len(rows), 1),
    ]
    return tabulate.finish("categories", "Memory by category", columns, options, own_order="held")


def stated_curves(
    times: I64, sizes: I64, places: I64, categories: tuple[I64, list[str]], totals: I64, labels: Sequence[str]
) -> list[StackedCurve]:
    """Return the curve of each place. totals: of the place after each row, -1 where it is not whole."""
    codes, words = categories
    curves = []
    for number in sets.unique(places).tolist():
        at = np.flatnonzero(places == number)
        at = at[np.argsort(times[at], kind="stable")]
        if not at.size or times[at[0]] == times[at[-1]]:
            continue
        held = _held(sizes[at], codes[at], len(words))
        whole = np.flatnonzero(totals[at] >= 0)
        if not whole.size or (held[:, whole] < 0).any():
            continue
        edges = edges_of(int(times[at[0]]), int(times[at[-1]]))
        tops = top_places(times[at[whole]], totals[at[whole]], edges)
        used = [code for code in range(len(words)) if held[code].any()]
        values = [[None if top < 0 else int(held[code, whole[top]]) for top in tops] for code in used]
        title = f"Memory by category, {labels[number]}"
        curves.append(StackedCurve(title, Unit.BYTES, edges, [words[code] for code in used], values))
    return curves
