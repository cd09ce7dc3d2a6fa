"""Tables of statistics: their columns, the order of their rows and the cut by --top."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

from tracekit.analysis.statistics import Grouped
from tracekit.errors import UsageError
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.units import Unit
from tracekit.views import specs
from tracekit.views.base import ViewOptions

__all__ = [
    "DEFAULT",
    "NEAREST_RANK",
    "PERCENTILE_NOTE",
    "SORT_ALIASES",
    "finish",
    "nothing",
    "option_notes",
    "percentile_note",
    "ratios",
    "require",
    "shares_of",
    "sort_key",
    "statistic_columns",
]

NEAREST_RANK = " by nearest rank: each is a duration that occurs in the trace"
"""The end of the note on percentiles."""

DEFAULT = "default"
"""The word for a table's own order."""

SORT_ALIASES: dict[str, tuple[str, ...]] = {
    "CPUTotal": ("total",),
    "CPUAvg": ("avg",),
    "CPUMax": ("max",),
    "CPUMin": ("-min",),
    "GPUTotal": ("device_total", "kernel_time", "total"),
    "GPUAvg": ("device_avg", "avg"),
    "GPUMax": ("device_max", "max"),
    "GPUMin": ("-device_min", "-min"),
    "ave": ("avg",),
    "count": ("calls",),
}
"""Words of other profilers for orders, and our columns: the first one that a table has counts."""

_PLACES = frozenset(spec.key for spec in (*specs.PLACED, *specs.THREADS, specs.KIND)) | {
    "context",
    "stream",
    "copy_kind",
}
"""Columns that name the place of a row, or which of several rows of one name it is."""


def require(index: TraceIndex, view: str, columns: Iterable[str]) -> None:
    """Raise UsageError where the trace was read without a column that the view needs."""
    lacking = sorted(set(columns) - set(index.events.schema.names))
    if lacking:
        raise UsageError(
            f"the view {view} needs the column {lacking[0]}, which this trace was read without",
            hint="read the trace with all columns, or with those of tracekit.pipeline.columns_of([view, ...])",
        )


def ratios(totals: Sequence[int], blocks: Sequence[Cell | tuple[Cell, ...]] = ()) -> list[Cell]:
    """Return each total as a share of all, or of those in the same block; null where that is 0."""
    whole: dict[object, int] = {}
    for total, block in zip(totals, blocks or [None] * len(totals), strict=True):
        whole[block] = whole.get(block, 0) + total
    return [
        total / whole[block] if whole[block] else None
        for total, block in zip(totals, blocks or [None] * len(totals), strict=True)
    ]


def statistic_columns(
    stats: Grouped,
    blocks: Sequence[Cell | tuple[Cell, ...]] = (),
    declared: Iterable[specs.Statistic] = specs.STATISTICS,
) -> list[Column]:
    """Return the declared statistics as columns, a row a group. blocks: for each row, whose whole a share is of."""
    columns = []
    for spec in declared:
        cells: list[int] = spec.values(stats).tolist()
        columns.append(spec.column(ratios(cells, blocks) if spec.of_whole else cells, spec.priority))
    return columns


def percentile_note(declared: Iterable[specs.Statistic] = specs.STATISTICS) -> str:
    """Return the note that says what the percentiles of a table are.

    >>> percentile_note()
    'p50, p95 and p99 are by nearest rank: each is a duration that occurs in the trace'
    """
    keys = [spec.key for spec in declared if spec.percent is not None]
    names = f"{', '.join(keys[:-1])} and {keys[-1]} are" if len(keys) > 1 else f"{keys[0]} is"
    return names + NEAREST_RANK


PERCENTILE_NOTE = percentile_note()
"""The note of tables with the usual statistics."""


def sort_key(options: ViewOptions, columns: Collection[str]) -> tuple[str, bool]:
    """Return the column of --sort, and whether it is turned around ("-"); upstream's words stand for our columns."""
    key = options.sorted_by
    bare = key.removeprefix("-")
    if bare == DEFAULT:
        return "", False
    if bare in SORT_ALIASES:
        meant = next((k for k in SORT_ALIASES[bare] if k.removeprefix("-") in columns), SORT_ALIASES[bare][0])
        return meant.removeprefix("-"), meant.startswith("-") != key.startswith("-")
    return bare, key.startswith("-")


def option_notes(options: ViewOptions, table: ReportTable | None = None) -> list[str]:
    """Return a note where the key of --sort is of other tables alone, and where no figures of another tool exist."""
    notes = []
    key, _ = sort_key(options, [c.name for c in table.columns] if table is not None else ())
    if table is not None and key and key not in [c.name for c in table.columns]:
        notes.append(f"no column {key} here: the table keeps its own order")
    if options.compat:
        notes.append(f"--compat {options.compat} has no effect here")
    return notes


def nothing(view: str, title: str, what: str, options: ViewOptions, notes: Sequence[str] = ()) -> Section:
    """Return a section that says what it needs; `notes` say why rows of the kind do not count, where there are any."""
    needs = f"needs {what} events{' with a duration' if notes else ''}; this trace has none"
    return Section(view, title, notes=(needs, *notes, *option_notes(options)))


def finish(
    name: str,
    title: str,
    columns: Sequence[Column],
    options: ViewOptions,
    *,
    own_order: str = "total",
    blocks: Sequence[tuple[Cell, ...]] = (),
    top_each: bool = True,
) -> ReportTable:
    """Return the table in its order, cut to --top rows; of each block, unless not `top_each`.

    Order: block by block unless the user names a column; then that column, else `own_order`: numbers largest first,
    text and ids ascending, "-" before the name turns it around, nulls last. Ties go by text and ids, so that equal rows
    have one order whatever the order of the events.
    """
    names = [c.name for c in columns]
    wanted, backwards = sort_key(options, names)
    asked = wanted in names
    chosen = wanted if asked else own_order
    turned = asked and backwards
    count = len(columns[0].values) if columns else 0
    by_blocks = blocks if blocks and not asked else [()] * count
    order = list(range(count))
    labels = [c.values for c in columns if c.unit in (Unit.TEXT, Unit.ID)]
    for values, reverse in [
        *((v, False) for v in reversed(labels)),
        *((c.values, turned != (c.unit not in (Unit.TEXT, Unit.ID))) for c in columns if c.name == chosen),
    ]:
        order = _stable(order, values, reverse=reverse)
    if any(by_blocks):
        order.sort(key=lambda i: [_text_last(cell) for cell in by_blocks[i]])
    kept = _top(order, blocks if blocks and top_each else [()] * count, options.top)
    shown = [replace(c, values=[c.values[i] for i in kept]) for c in columns]
    return ReportTable(name, title, tuple(_with_distinguishing_columns(shown)), omitted=count - len(kept))


def _with_distinguishing_columns(columns: Sequence[Column]) -> list[Column]:
    """Return the columns; those of `_PLACES` without which rows would look alike stay in a narrow terminal too."""
    labels = [c for c in columns if c.unit in (Unit.TEXT, Unit.ID)]
    able = sorted((c for c in labels if c.priority and c.name in _PLACES), key=lambda c: c.priority)
    kept = [c for c in labels if not c.priority]

    def different(some: Sequence[Column]) -> int:
        return len(set(zip(*(c.values for c in some), strict=True))) or 1

    now, most = different(kept), different([*kept, *able]) if able else 0
    for column in able:
        if now < most and (more := different([*kept, column])) > now:
            kept.append(column)
            now = more
    return [replace(c, priority=0) if c.priority and any(c is k for k in kept) else c for c in columns]


def _stable(order: list[int], values: Sequence[Cell], *, reverse: bool) -> list[int]:
    """Return the order sorted by a column, nulls last; equal cells stay as they stand, reversed or not."""
    known = [values[i] is not None for i in order]
    # Cells of one type are their own keys; a tuple for each of a million cells would cost more than the sorting.
    alike = set(map(type, values)) - {type(None)} in ({str}, {int})
    key: Callable[[int], Any] = values.__getitem__ if alike else lambda i: _text_last(values[i])
    some = sorted(compress(order, known), key=key, reverse=reverse)
    return some + [i for i in order if values[i] is None]


def _text_last(cell: Cell) -> tuple[int, float | int, str]:
    """Return a sort key under which numbers, texts and None can be compared."""
    if cell is None:
        return 2, 0, ""
    return (1, 0, cell) if isinstance(cell, str) else (0, cell, "")


def _top(order: list[int], blocks: Sequence[tuple[Cell, ...]], top: int) -> list[int]:
    if top <= 0:
        return order
    seen: dict[tuple[Cell, ...], int] = {}
    kept = []
    for i in order:
        seen[blocks[i]] = seen.get(blocks[i], 0) + 1
        if seen[blocks[i]] <= top:
            kept.append(i)
    return kept


def shares_of(parts: Sequence[int], whole: Sequence[int]) -> list[Cell]:
    """Return each part's share of its whole, null where that is 0."""
    return [part / total if total else None for part, total in zip(parts, whole, strict=True)]
