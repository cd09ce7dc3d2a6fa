"""Counters as tracks over time: one for each name, owner, process and device."""

from __future__ import annotations

import numpy as np

from tracekit.columns.arrays import F64, I64
from tracekit.index import grouping
from tracekit.index.clocks import by_clock
from tracekit.index.lanes import device_label, owner_labels
from tracekit.index.trace_index import TraceIndex
from tracekit.report.timeline import Counter
from tracekit.schema import Kind


def tracks(index: TraceIndex, shift: I64) -> tuple[Counter, ...]:
    """Return a track for each counter. shift: shape (clocks,), ns to take off the times of each clock."""
    rows = np.flatnonzero(index.kind_mask({Kind.COUNTER}) & index.has("value"))
    if not rows.size:
        return ()
    columns = ("source", "rank", "pid", "device", "name")
    groups = grouping.group_by(*(index.key(column, rows) for column in columns))
    sources, ranks, _, devices, names = groups.labels
    owners = owner_labels(index, [(int(source or 0), rank) for source, rank in zip(sources, ranks, strict=True)])
    order = np.argsort(groups.codes, kind="stable")
    bounds = np.searchsorted(groups.codes[order], np.arange(groups.count + 1)).tolist()
    clocks = by_clock(index).codes
    every = index.floats("value")
    found = []
    for number in range(groups.count):
        mine = rows[order[bounds[number] : bounds[number + 1]]]
        owner = owners[int(sources[number] or 0), ranks[number]]
        device = "" if devices[number] is None else device_label(devices[number])
        values = _whole(every[mine])
        times = index.starts[mine] - shift[clocks[mine]]
        found.append(Counter(str(names[number] or ""), "", " · ".join(filter(None, (owner, device))), times, values))
    return tuple(found)


def _whole(values: F64) -> I64 | F64:
    """Return values as integers where all of them are whole and exact."""
    if np.isfinite(values).all() and (np.abs(values) < 1 << 53).all() and (values == np.floor(values)).all():
        return values.astype(np.int64)
    return values
