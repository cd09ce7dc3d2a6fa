"""The quantities that the cells of tables measure, for `tracekit explain`.

The rows behind a cell are found anew from the row's labels.

The tables themselves are computed in one pass over all groups; these functions look at one group, and a test holds the
two against each other, cell by cell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from tracekit.index import grouping
from tracekit.index.devices import by_clock, by_input
from tracekit.index.sources import source_label, source_labels, spans, synthetic_sources
from tracekit.index.trace_index import TraceIndex
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Mask, pc
from tracekit.model.report import Cell
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.views import specs
from tracekit.views.base import Define, Quantity, ViewOptions

__all__ = ["named", "of_devices", "of_kinds", "quantity", "ratio", "span", "where"]


def quantity(index: TraceIndex, mask: Mask, measure: str, words: str, *, lanes: I64 | None = None) -> Quantity:
    """Return the quantity of whole rows. mask: shape (events,); rows without a duration are left out.

    lanes: shape (events,), a code for each row; None: one lane a clock.
    """
    dur = index.events.column("dur_ns")
    rows = np.flatnonzero(mask & dur.is_valid().to_numpy())
    starts: I64 = index.starts[rows]
    ends = starts + np.maximum(arrow.ints(dur)[rows], 0)
    clocks = by_clock(index).codes[rows]
    of_lane = clocks if lanes is None else lanes[rows]
    return Quantity(words, measure, rows, starts, ends, of_lane, clocks)


def ratio(part: Quantity, whole: Quantity, words: str) -> Quantity:
    """Return part / whole; the part keeps its measure in `of`."""
    return Quantity(
        words, "ratio", part.rows, part.starts, part.ends, part.lanes, part.clocks, of=part.measure, whole=whole
    )


def where(index: TraceIndex, **labels: Cell) -> Mask:
    """Return shape (events,): rows whose columns have these values; None is null."""
    out = np.ones(index.events.num_rows, np.bool_)
    for column, value in labels.items():
        values = index.events.column(column)
        found = values.is_null() if value is None else pc.fill_null(pc.equal(values, value), False)
        out &= found.to_numpy(zero_copy_only=False)
    return out


def named(
    kinds: Collection[Kind],
    what: str,
    keys: Collection[str] = ("name",),
    statistics: Iterable[specs.Statistic] = specs.STATISTICS,
) -> Define:
    """Return the definitions of a table of durations by name (and other keys): calls, total, statistics, ratio."""
    measures = specs.measures(statistics)

    def define(index: TraceIndex, _: ViewOptions, row: Mapping[str, Cell], column: str) -> Quantity | None:
        every = index.kind_mask(kinds)
        if not every.any():
            return None  # the table is made of totals
        mask = every & where(index, **{key: row[key] for key in keys if key in row})
        who = f"{what}s" + (f" named {row['name']}" if row.get("name") is not None else "")
        if column == "total":
            return quantity(index, mask, "sum", f"sum of the durations of {who}: what overlaps counts twice")
        if column == "calls":
            return quantity(index, mask, "count", f"number of {who} that have a duration")
        if column == "ratio":
            part = quantity(index, mask, "sum", f"sum of the durations of {who}")
            whole = quantity(index, every, "sum", f"sum of the durations of all {what}s")
            return ratio(part, whole, f"{part.words} / {whole.words}")
        if measure := measures.get(column):
            return quantity(index, mask, measure, f"{measure} of the durations of {who}")
        return None

    return define


def span(index: TraceIndex, lanes: I64, mask: Mask, words: str) -> Quantity:
    """Return first start to last end of the rows of each lane, rows without a duration too; lanes are added."""
    rows = np.flatnonzero(mask)
    starts: I64 = index.starts[rows]
    ends = starts + index.lengths[rows]
    found, first, codes = np.unique(lanes[rows], return_index=True, return_inverse=True)
    low, high = spans(codes, found.size, starts, ends)
    none = np.full(found.size, -1, np.int64)
    return Quantity(words, "sum", none, low, high, found, by_clock(index).codes[rows[first]])


def of_kinds(index: TraceIndex, _: ViewOptions, row: Mapping[str, Cell], column: str) -> Quantity | None:
    """Define the cells of the view overview."""
    every = np.ones(index.events.num_rows, np.bool_)
    mask = every & where(index, **{key: row[key] for key in ("kind",) if key in row})
    placed = ~np.isin(index.ints("source"), synthetic_sources(index))
    who = f"rows of kind {row['kind']}" if "kind" in row else "rows"
    if column in row and row[column] is None:
        return None  # none of them has a duration
    if column == "total":
        return quantity(index, mask, "sum", f"sum of the durations of all {who}: what overlaps counts twice")
    united = quantity(index, mask & placed, "union", f"time with at least one of the {who}, on any thread or stream")
    if column == "union":
        return united
    if column == "share":
        whole = span(index, by_clock(index).codes, placed, "span of the trace, first start to last end")
        return ratio(united, whole, f"{united.words} / {whole.words}")
    return None


def of_devices(index: TraceIndex, _: ViewOptions, row: Mapping[str, Cell], column: str) -> Quantity | None:
    """Define the cells of the view device."""
    events = index.events
    work = index.kind_mask(DEVICE_WORK)
    kernel = index.kind_mask({Kind.KERNEL})
    mine = work & where(index, **{key: row[key] for key in ("device", "rank", "pid") if key in row})
    if "source" in row:
        labels = source_labels(index)
        of_row = [
            number
            for number in sets.unique(index.ints("source")).tolist()
            if source_label(labels, number) == row["source"]
        ]
        mine &= np.isin(index.ints("source"), of_row)
    inputs = by_input(index)
    all_rows = np.arange(events.num_rows)
    keys = [index.key(name, all_rows) for name in ("source", "rank", "device")]
    lanes = grouping.group_by(*keys, grouping.Key(inputs.codes, range(inputs.count))).codes
    one = "of the device" if row else "of each device"
    kernels = quantity(index, mine & kernel, "union", f"time in which at least one kernel {one} ran", lanes=lanes)
    busy = quantity(index, mine, "union", f"time in which a kernel, copy or memset {one} ran", lanes=lanes)
    if column == "kernel_time":
        return kernels
    if column == "busy_time":
        return busy
    if column == "kernels":
        return quantity(index, mine & kernel, "count", f"number of kernels {one}")
    if column == "copies":
        return quantity(index, mine & ~kernel, "count", f"number of copies and memsets {one}")
    of_inputs = np.isin(inputs.codes, sets.unique(inputs.codes[mine]))
    whole = span(index, inputs.codes, of_inputs, "first start to last end of all rows of the input, host rows too")
    if column == "span":
        return whole
    if column in ("utilization", "busy"):
        part = kernels if column == "utilization" else busy
        return ratio(part, whole, f"{part.words} / {whole.words}")
    return None
