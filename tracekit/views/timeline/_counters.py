"""Tracks over time: a counter for each name, owner, process and device, and the memory that is held on each device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracekit.columns import args, arrow
from tracekit.columns.arrays import F64, I64
from tracekit.index import grouping
from tracekit.index.clocks import by_clock
from tracekit.index.lanes import device_label, owner_labels
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Cell, integer_of
from tracekit.report.timeline import Counter
from tracekit.schema import Kind

_BYTES = frozenset({"Total Allocated", "Total Reserved"})
"""Counters of PyTorch: the running totals that its rows of kind memory have in their args."""


def tracks(index: TraceIndex, shift: I64) -> tuple[Counter, ...]:
    """Return a track for each counter. shift: shape (clocks,), ns to take off the times of each clock."""
    return (*_counters(index, shift), *_memory(index, shift))


def _counters(index: TraceIndex, shift: I64) -> Iterator[Counter]:
    rows = np.flatnonzero(index.kind_mask({Kind.COUNTER}) & index.has("value"))
    columns = ("source", "rank", "pid", "device", "name")
    groups = grouping.group_by(*(index.key(column, rows) for column in columns))
    sources, ranks, _, devices, names = groups.labels
    places = _places(index, sources, ranks, devices)
    column = index.events.column("value")
    for number, mine in enumerate(_parted(groups, rows)):
        name = str(names[number] or "")
        values = _whole(arrow.floats(arrow.take(column, mine)))
        yield Counter(name, "bytes" if name in _BYTES else "", places[number], _times(index, mine, shift), values)


def _memory(index: TraceIndex, shift: I64) -> Iterator[Counter]:
    """Return what is held at each place: the sum of all rows of kind memory so far, never below zero.

    What was allocated before the first row and is freed in the trace counts from the first row on. A file whose own
    counters have these totals (PyTorch's) has no second track.
    """
    sized = np.flatnonzero(index.kind_mask({Kind.MEMORY}) & index.has("bytes"))
    codes, names = index.texts("name")
    known = np.array([name in _BYTES for name in names] + [False], np.bool_)
    counted = np.unique(index.ints("source")[index.kind_mask({Kind.COUNTER}) & known[codes]])
    rows = sized[~np.isin(index.ints("source")[sized], counted)]
    if not rows.size:
        return
    reserved = np.array([name.lower().startswith("reserved") for name in names] + [False], np.bool_)
    place, words = args.texts(index.events.column("args").take(rows), "place")
    groups = grouping.group_by(
        *(index.key(column, rows) for column in ("source", "rank", "device")),
        grouping.Key(place + 1, [None, *words]),
        grouping.Key(reserved[codes[rows]].astype(np.int64), ("allocated", "reserved")),
    )
    sources, ranks, devices, stated, types = groups.labels
    places = _places(index, sources, ranks, devices)
    size = index.ints("bytes")
    for number, mine in enumerate(_parted(groups, rows)):
        held = np.cumsum(size[mine])
        held -= min(int(held.min()), 0)
        where = stated[number] or ("host" if devices[number] is None else "")
        label = " ".join(filter(None, (f"memory {types[number]}", str(where))))
        yield Counter(label, "bytes", places[number], _times(index, mine, shift), held)


def _places(index: TraceIndex, sources: list[Cell], ranks: list[Cell], devices: list[Cell]) -> list[str]:
    """Return owner and device of each group, as the lanes of that device are called."""
    owners = owner_labels(index, [(integer_of(source), rank) for source, rank in zip(sources, ranks, strict=True)])
    return [
        " · ".join(filter(None, (owners[integer_of(source), rank], "" if device is None else device_label(device))))
        for source, rank, device in zip(sources, ranks, devices, strict=True)
    ]


def _parted(groups: grouping.Groups, rows: I64) -> Iterator[I64]:
    """Return the rows of each group, in order of time."""
    order = np.argsort(groups.codes, kind="stable")
    bounds = np.searchsorted(groups.codes[order], np.arange(groups.count + 1)).tolist()
    for number in range(groups.count):
        yield rows[order[bounds[number] : bounds[number + 1]]]


def _times(index: TraceIndex, rows: I64, shift: I64) -> I64:
    found: I64 = index.starts[rows] - shift[by_clock(index).codes[rows]]
    return found


def _whole(values: F64) -> I64 | F64:
    """Return values as integers where all of them are whole and exact."""
    if np.isfinite(values).all() and (np.abs(values) < 1 << 53).all() and (values == np.floor(values)).all():
        return values.astype(np.int64)
    return values
