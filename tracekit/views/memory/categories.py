"""Tables of the view memory: what blocks hold, by the rule that decided it, and the modules that held the peak.

Categories follow from lifetimes and phases: see `index.memory_blocks`. `held` is what a category had when its place had
the most; the rest of the file's own total is older than the first row. `peak` is the most that a category had at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tracekit.index import grouping
from tracekit.index.host_tree import lanes_in
from tracekit.index.memory_blocks import CATEGORIES, HELD_BEFORE, RULES, MemoryBlocks, memory_blocks
from tracekit.index.modules import module_tree
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64
from tracekit.model.report import Cell, Column, ReportTable
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import ViewColumn, ViewOptions

__all__ = ["ARGS_OF", "OF_CATEGORIES", "SHOWS", "PlacedRows", "by_category"]

ARGS_OF = frozenset({Kind.OPERATOR, Kind.PYTHON_OP})
"""What shows the phases and the modules."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacedRows:
    """Rows of memory, the place of each as a number of `labels`, and for places the row and bytes of their peak."""

    rows: I64
    place: I64
    labels: Sequence[str]
    peaks: Mapping[int, tuple[int, int]]


def by_category(index: TraceIndex, placed: PlacedRows, options: ViewOptions) -> tuple[list[ReportTable], list[str]]:
    """Return the tables of categories and of modules at the peak, and notes; none without blocks or phases."""
    blocks = memory_blocks(index)
    if blocks is None or not blocks.rows.size:
        return [], []
    place_of = np.full(index.events.num_rows, -1, np.int64)
    place_of[placed.rows] = placed.place
    place = place_of[blocks.rows]
    tables = [_categories(blocks, place, placed, options)]
    at_peak = _peak_modules(index, blocks, place, placed, options)
    if at_peak is not None:
        tables.append(at_peak)
    note = (
        "categories follow from the lifetime of each block and the passes of the step; what was allocated before the "
        "first row is parameters and whatever else is older, undivided"
    )
    return tables, [note]


def _held(blocks: MemoryBlocks, place: I64, placed: PlacedRows) -> I64:
    """Return the bytes of each block that its place held at its peak: all or none."""
    row = np.full(len(placed.labels) + 1, -1, np.int64)
    for number, (last, _) in placed.peaks.items():
        row[number] = last
    peak = row[place]
    return np.where((blocks.rows <= peak) & (blocks.end_rows > peak), blocks.sizes, 0)


def _categories(blocks: MemoryBlocks, place: I64, placed: PlacedRows, options: ViewOptions) -> ReportTable:
    held = _held(blocks, place, placed)
    groups = grouping.group_by(
        grouping.Key(place, range(len(placed.labels))), grouping.Key(blocks.rules, range(len(RULES)))
    )
    counts, allocated = grouping.sums(groups.codes, groups.count, blocks.sizes, "sizes")
    held_of = grouping.sums(groups.codes, groups.count, held, "sizes")[1]
    rows = [
        (int(p or 0), int(rule or 0), held_of[number], _most(blocks, groups.codes == number), counts[number], size)
        for number, (p, rule, size) in enumerate(zip(*groups.labels, allocated, strict=True))
    ]
    older = {p: total - sum(row[2] for row in rows if row[0] == p) for p, (_, total) in placed.peaks.items()}
    before = [(p, HELD_BEFORE, rest, None, None, None) for p, rest in older.items() if rest > 0]
    every: list[tuple[int, int, Cell, Cell, Cell, Cell]] = [*rows, *before]
    known = [p in placed.peaks for p, *_ in every]
    columns = [
        specs.NAME.column([CATEGORIES[RULES[rule][0]] for _, rule, *_ in every]),
        *(
            [OF_CATEGORIES["place"].column([placed.labels[p] for p, *_ in every], 0)]
            if len({p for p, *_ in every}) > 1
            else []
        ),
        OF_CATEGORIES["held"].column([row[2] if k else None for row, k in zip(every, known, strict=True)]),
        OF_CATEGORIES["share"].column(
            [
                row[2] / placed.peaks[row[0]][1] if k and isinstance(row[2], int) else None
                for row, k in zip(every, known, strict=True)
            ],
            1,
        ),
        OF_CATEGORIES["peak"].column([row[3] for row in every], 1),
        OF_CATEGORIES["allocations"].column([row[4] for row in every], 1),
        OF_CATEGORIES["allocated"].column([row[5] for row in every], 2),
        OF_CATEGORIES["rule"].column([RULES[rule][1] for _, rule, *_ in every], 1),
    ]
    return tabulate.finish("categories", "Memory by category", columns, options, own_order="held")


def _most(blocks: MemoryBlocks, mine: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    """Return the most that these blocks held at once."""
    sizes = blocks.sizes[mine]
    rows = np.concatenate((blocks.rows[mine], blocks.end_rows[mine]))
    change = np.concatenate((sizes, -sizes))
    return int(np.cumsum(change[np.argsort(rows, kind="stable")]).max(initial=0))


def _peak_modules(
    index: TraceIndex, blocks: MemoryBlocks, place: I64, placed: PlacedRows, options: ViewOptions
) -> ReportTable | None:
    """Return what each module held at the greatest peak; None where no stack names modules."""
    tree = module_tree(index)
    if tree is None or not tree.stacks or not placed.peaks:
        return None
    number = max(placed.peaks, key=lambda p: (placed.peaks[p][1], -p))
    total = placed.peaks[number][1]
    at = np.flatnonzero((_held(blocks, place, placed) > 0) & (place == number))
    module = tree.origin(lanes_in(index, tree.host, blocks.rows[at]), blocks.begins[at])
    groups = grouping.group_by(
        grouping.Key(module + 1, [_NO_MODULE, *tree.names]), grouping.Key(blocks.categories[at], CATEGORIES)
    )
    counts, sizes = grouping.sums(groups.codes, groups.count, blocks.sizes[at], "sizes")
    columns: list[Column] = [
        specs.NAME.column(groups.labels[0]),
        OF_CATEGORIES["category"].column(groups.labels[1], 0),
        OF_CATEGORIES["held"].column(sizes),
        OF_CATEGORIES["share"].column([size / total for size in sizes], 1),
        OF_CATEGORIES["blocks"].column(counts, 1),
    ]
    title = f"Held at the peak by module, {placed.labels[number]}"
    return tabulate.finish("peak_modules", title, columns, options, own_order="held")


_NO_MODULE = "(in no module)"
SHOWS = (
    ViewColumn("category", "Category", Unit.TEXT, "What the blocks hold, as far as their lifetimes show it."),
    ViewColumn("rule", "Rule", Unit.TEXT, "What decided the category."),
)
OF_CATEGORIES = specs.by_key(
    (
        *SHOWS,
        ViewColumn("place", "Place", Unit.TEXT, "The device, or the host of an input or rank.", "place"),
        ViewColumn("held", "Held", Unit.BYTES, "The bytes that were held when the place held the most."),
        ViewColumn("share", "Share", Unit.RATIO, "The part of the peak."),
        ViewColumn("peak", "Peak", Unit.BYTES, "The largest number of bytes that were held at one time."),
        ViewColumn("allocations", "Allocations", Unit.COUNT, "The number of allocations."),
        ViewColumn("allocated", "Allocated", Unit.BYTES, "The sum of the allocated bytes."),
        ViewColumn("blocks", "Blocks", Unit.COUNT, "The number of allocations that were held."),
    )
)
