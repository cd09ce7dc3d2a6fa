"""Pictures of a view's tables, as the view declares them, with what only views know: classes of kernels, late ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tracekit.analysis.behind import behind
from tracekit.analysis.kernel_class import classify
from tracekit.index.kernel_classes import classes_of, rules
from tracekit.index.trace_index import TraceIndex
from tracekit.model.arrow import F64
from tracekit.model.picture import matched
from tracekit.model.report import Cell, Picture, ReportTable, Section

__all__ = ["DEVICE_NAMES", "KERNEL_CLASS", "LATE", "SLOW", "pictured"]

KERNEL_CLASS = "kernel class"
"""`by` of a picture whose rows are grouped by the class of their kernel."""
DEVICE_NAMES = ("name", "rank", "device", "pid", "source")
"""Columns that name a device, the most telling first."""
LATE = "late"
"""`by` of a picture whose rows are marked where they are behind the others."""
SLOW = "slow"
"""The same, where a row takes longer but waits for nobody."""
_MOST_ROWS = 128


def pictured(section: Section, pictures: Sequence[Picture], index: TraceIndex | None = None) -> Section:
    """Return a section with the pictures whose tables it has; those of other views' tables may be drawn later.

    index: of the trace, which may know classes of kernels already.
    """
    if not section.tables or not pictures:
        return section
    own = {f"{section.view}.{table.name}": table for table in section.tables}
    made = []
    for picture in pictures:
        table = own.get(picture.table)
        if table is not None:
            made.append(_completed(picture, table, index))
        elif not picture.table.startswith(f"{section.view}."):
            made.append(picture)
    figures = [each for each in section.figures if not isinstance(each, Picture)]
    own_pictures = [each for each in section.figures if isinstance(each, Picture)]
    return replace(section, figures=(*figures, *made, *own_pictures))


def _completed(picture: Picture, table: ReportTable, index: TraceIndex | None) -> Picture:
    columns = {column.name: column.values for column in table.columns}
    if picture.by == KERNEL_CLASS and picture.names[0] in columns:
        names = [None if cell is None else str(cell) for cell in columns[picture.names[0]]]
        found = classes_of(index, names) if index is not None else classify(names, rules())
        return replace(picture, groups=tuple(map(str, found)))
    named = next((column for column in table.columns if column.name in picture.names[:1]), None)
    if picture.by in (LATE, SLOW) and named and columns.keys() >= {picture.along, picture.values[0]}:
        # Named as the picture names its rows: a number has its title before it.
        names = [cell if isinstance(cell, str) else f"{named.title.lower()} {cell}" for cell in named.values]
        return replace(picture, marks=_late(picture.by, names, columns[picture.along], columns[picture.values[0]]))
    return picture


def _late(
    word: str, names: Sequence[Cell], along: Sequence[Cell], values: Sequence[Cell]
) -> tuple[tuple[str, str], ...]:
    """Return the names that are behind the others, and by how much."""
    rows: dict[Cell, int] = {}
    for name in names:
        rows.setdefault(name, len(rows))
    if not 2 <= len(rows) <= _MOST_ROWS:
        return ()
    places, steps = matched(names, along)
    times: F64 = np.full((len(rows), len(steps)), np.nan)
    for name, place, value in zip(names, places, values, strict=True):
        if isinstance(value, (int, float)):
            times[rows[name], place] = value
    labels = list(rows)
    return tuple((str(labels[row]), f"{word}, +{100 * excess:.0f} %") for row, excess in behind(times))
