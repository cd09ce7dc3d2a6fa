"""Tables of statistics: their columns, the order of their rows and the cut by --top."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np

from tracekit.analysis.statistics import Grouped
from tracekit.errors import UsageError
from tracekit.index.trace_index import TraceIndex
from tracekit.model.arrow import I64, Mask
from tracekit.model.cells import Cells, taken, whole_numbers
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.units import Unit
from tracekit.views import specs
from tracekit.views.base import ViewOptions

__all__ = [
    "DEFAULT",
    "NEAREST_RANK",
    "PERCENTILE_NOTE",
    "SORT_ALIASES",
    "by_number",
    "finish",
    "nothing",
    "option_notes",
    "parts_of",
    "percentile_note",
    "ratios",
    "require",
    "shares",
    "shares_by_row",
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

_EXACT = 1 << 53
"""Doubles hold all whole numbers up to it, so the quotient of two of them is the one that Python rounds to."""

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
        values = spec.values(stats)
        cells = Cells.of(values) if not spec.of_whole else ratios(values.tolist(), blocks) if blocks else shares(values)
        columns.append(spec.column(cells, spec.priority))
    return columns


def shares(totals: I64) -> Sequence[Cell]:
    """Return each total as a share of all, null where that is 0: as `ratios` does."""
    return parts_of(totals, sum(totals.tolist()))


def parts_of(parts: I64, whole: int) -> Sequence[Cell]:
    """Return each part over the whole, null where that is 0; the quotients are those of Python's integers."""
    if 0 < whole <= _EXACT and parts.size and int(parts.min()) >= -_EXACT and int(parts.max()) <= _EXACT:
        return Cells.of(parts / whole)
    return [part / whole if whole else None for part in parts.tolist()]


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
    count = len(columns[0].values) if columns else 0
    order = _order(columns, wanted if asked else own_order, count, turned=asked and backwards)
    if blocks and not asked and any(blocks):
        place = {i: [_text_last(cell) for cell in blocks[i]] for i in range(count)}
        order = np.array(sorted(order.tolist(), key=place.__getitem__), np.int64)
    kept = _top(order, blocks if top_each else (), options.top)
    shown = [replace(c, values=taken(c.values, kept)) for c in columns]
    return ReportTable(name, title, tuple(_with_distinguishing_columns(shown)), omitted=count - len(kept))


def _order(columns: Sequence[Column], chosen: str, count: int, *, turned: bool) -> I64:
    """Return the rows by the chosen column, equal ones by texts and ids."""
    labels = [c.values for c in columns if c.unit in (Unit.TEXT, Unit.ID)]
    main = [c for c in columns if c.name == chosen]
    if len(main) == 1 and main[0].unit not in (Unit.TEXT, Unit.ID) and (cells := whole_numbers(main[0].values)):
        return by_number(*cells, labels, turned=turned)
    order = list(range(count))
    for values, reverse in [
        *((v, False) for v in reversed(labels)),
        *((c.values, turned != (c.unit not in (Unit.TEXT, Unit.ID))) for c in main),
    ]:
        order = _stable(order, values, reverse=reverse)
    return np.array(order, np.int64)


def by_number(numbers: I64, known: Mask | None, labels: Sequence[Sequence[Cell]], *, turned: bool = False) -> I64:
    """Return the rows by a number, the largest first unless `turned`, unknown ones last; equal ones by their labels.

    Texts are compared for equal numbers alone: of 100,000 names few have the same total.
    """
    keys = numbers if turned else ~numbers  # the complement turns the order around, also of the least int64
    order = np.argsort(keys, kind="stable")
    if known is not None:
        order = np.concatenate((order[known[order]], np.flatnonzero(~known)))
    same = keys[order[1:]] == keys[order[:-1]]
    if known is not None:
        # Unknown ones are equal to each other, and to no number.
        same = np.where(known[order[1:]], same, ~known[order[:-1]])
    if not same.any() or not labels:
        return order
    keys_of = [_key_of(values) for values in reversed(labels)]
    begins = np.flatnonzero(same & ~np.append(False, same[:-1]))
    until = np.flatnonzero(same & ~np.append(same[1:], False)) + 2
    rows = order.tolist()
    for begin, end in zip(begins.tolist(), until.tolist(), strict=True):
        run = rows[begin:end]
        for key in keys_of:
            run.sort(key=key)
        rows[begin:end] = run
    return np.array(rows, np.int64)


def _key_of(values: Sequence[Cell]) -> Callable[[int], Any]:
    """Return the key by which rows are sorted by a column, nulls last."""
    cells = values if isinstance(values, list) else list(values)
    # Cells of one type are their own keys; a tuple for each of a million cells would cost more than the sorting.
    return cells.__getitem__ if set(map(type, cells)) in ({str}, {int}) else lambda i: _text_last(cells[i])


def _with_distinguishing_columns(columns: Sequence[Column]) -> list[Column]:
    """Return the columns; those of `_PLACES` without which rows would look alike stay in a narrow terminal too."""
    labels = [c for c in columns if c.unit in (Unit.TEXT, Unit.ID)]
    able = sorted((c for c in labels if c.priority and c.name in _PLACES), key=lambda c: c.priority)
    kept = [c for c in labels if not c.priority]

    def different(some: Sequence[Column]) -> int:
        return len(set(some[0].values if len(some) == 1 else zip(*(c.values for c in some), strict=True))) or 1

    if not able:
        return list(columns)
    now = different(kept)
    most = different([*kept, *able]) if now < len(able[0].values) else now
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


def _top(order: I64, blocks: Sequence[tuple[Cell, ...]], top: int) -> I64:
    """Return the first rows, of each block where there are any; top: 0 for all."""
    if top <= 0:
        return order
    if not blocks:
        return order[:top]
    seen: dict[tuple[Cell, ...], int] = {}
    kept = []
    for i in order.tolist():
        seen[blocks[i]] = seen.get(blocks[i], 0) + 1
        if seen[blocks[i]] <= top:
            kept.append(i)
    return np.array(kept, np.int64)


def shares_of(parts: Sequence[int], whole: Sequence[int]) -> list[Cell]:
    """Return each part's share of its whole, null where that is 0."""
    return [part / total if total else None for part, total in zip(parts, whole, strict=True)]


def shares_by_row(parts: I64, wholes: I64) -> Sequence[Cell]:
    """Return the same of arrays of shape (n,), none of whose numbers is below 0."""
    if max(parts.max(initial=0), wholes.max(initial=0)) > _EXACT:
        return shares_of(parts.tolist(), wholes.tolist())
    known = wholes > 0
    return Cells.of(parts / np.where(known, wholes, 1), known)
