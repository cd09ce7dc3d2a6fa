"""Device work of a run: its names, steps and launches, and the step time that each event accounts for.

Work belongs to the step in which its launch call began, where the launch is known, else in which it began itself.

`charged` splits the time of the steps: each kernel or copy is charged with the time by which it extends the busy time
of its rank. Where several overlap, the first to begin has the time. With the idle time, the charges of a step add up to
the step exactly.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tracekit.analysis.intervals import union_length_by
from tracekit.analysis.links import link
from tracekit.errors import TracekitError
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I64, Mask, codes, encoded, in_one, ints, take, valid
from tracekit.model.schema import API_CALLS, DEVICE_WORK
from tracekit.model.trace import Trace, text_codes
from tracekit.views.steps.steps import StepTimes

INT64_MAX = (1 << 63) - 1
SEQUENCE = 20_000
"""Number of kernels and copies whose order is compared, to find names that replaced others."""
NO_NAME = "(no name)"


@dataclass(frozen=True, slots=True, eq=False)
class DeviceWork:
    """Device work (kernels, copies, memsets) in order of start; arrays of shape (m,), one entry an event.

    rows: rows of EVENTS. key: index into `keys`, which holds (kind, name). durations: ns. launch: the row of EVENTS
    that launched it, -1 for unknown. step: its step after warm-up, from 0; -1 outside of steps. step_owner: the rank or
    process that ran the step, from 0. charged: ns of step time after warm-up. streams: the stream, from 0.
    steady_rows: rows of EVENTS, of all kinds, that began in steps after warm-up. busy: ns, union by device.
    """

    rows: I64
    keys: tuple[tuple[str, str], ...]
    key: I64
    durations: I64
    launch: I64
    step: I64
    step_owner: I64
    charged: I64
    streams: I64
    steady_rows: I64
    busy: int

    def sequences(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """Return the names of device work in order, stream by stream: of the first steps, else of the first rows."""
        first = np.flatnonzero(self.step >= 0) if (self.step >= 0).any() else np.arange(self.rows.size)
        first = first[:SEQUENCE]
        return tuple(
            tuple(self.keys[k] for k in self.key[first[self.streams[first] == stream]].tolist())
            for stream in sets.unique(self.streams[first]).tolist()
        )


def kind_mask(trace: Trace, kinds: Collection[str]) -> Mask:
    """Return shape (n,): true for each row of EVENTS of one of the kinds."""
    codes, names = text_codes(trace.events.column("kind"))
    mask: Mask = np.array([*(name in kinds for name in names), False], np.bool_)[codes]
    return mask


def find_work(trace: Trace, steps: StepTimes) -> DeviceWork:
    """Return the device work that has a duration."""
    events = trace.events
    timed = valid(events.column("dur_ns"))
    rows = np.flatnonzero(kind_mask(trace, DEVICE_WORK) & timed)
    starts = ints(events.column("ts_ns"))
    durations = np.maximum(ints(events.column("dur_ns")), 0)[rows]
    latest = int(starts[rows].max(initial=0)) + int(durations.max(initial=0))
    if latest >= INT64_MAX or float(durations.sum(dtype=np.float64)) >= INT64_MAX:
        raise TracekitError(
            "the durations add up to more than 292 years", hint="remove the impossible events from the trace"
        )
    keys, key = _keys(trace, rows)
    launch = _launches(trace, rows)
    begun = starts.copy()
    known = launch >= 0
    begun[rows[known]] = starts[launch[known]]
    step = np.full(events.num_rows, -1, np.int64)
    step_owner = np.zeros(events.num_rows, np.int64)
    charged = np.zeros(rows.size, np.int64)
    for number, owner in enumerate(sets.unique(steps.owner).tolist()):
        mine = steps.owner == owner
        steady = mine & ~steps.warm_up
        # Rows belong to the step that the host was in; where it runs ahead, the time of a step is that of the device.
        first, length = steps.host_starts[steady], steps.host_durations[steady]
        of_owner = np.flatnonzero(steps.owner_of_row == owner)
        at = np.searchsorted(first, begun[of_owner], side="right") - 1
        inside = at >= 0
        inside[inside] = begun[of_owner[inside]] < (first + length)[at[inside]]
        step[of_owner] = np.where(inside, at, -1)
        step_owner[of_owner] = number
        own = np.flatnonzero(steps.owner_of_row[rows] == owner)
        charged[own] = _charges(
            starts[rows[own]], starts[rows[own]] + durations[own], steps.starts[steady], steps.durations[steady]
        )
    device = codes_of(trace, rows, ("source", "rank", "pid", "device"))
    union = union_length_by(device, int(device.max(initial=-1)) + 1, starts[rows], starts[rows] + durations)
    return DeviceWork(
        rows=rows,
        keys=keys,
        key=key,
        durations=durations,
        launch=launch,
        step=step[rows],
        step_owner=step_owner[rows],
        charged=charged,
        streams=codes_of(trace, rows, ("source", "rank", "pid", "device", "context", "stream")),
        steady_rows=np.flatnonzero(step >= 0),
        busy=sum(union.tolist()),
    )


def _keys(trace: Trace, rows: I64) -> tuple[tuple[tuple[str, str], ...], I64]:
    """Return the distinct (kind, name) by first use, and the index of each row into them."""
    codes, names = text_codes(trace.events.column("name"))
    kinds, kind_names = text_codes(trace.events.column("kind"))
    width = len(names) + 1
    found, first, code = np.unique(kinds[rows] * width + codes[rows] + 1, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    number = np.empty(order.size, np.int64)
    number[order] = np.arange(order.size)
    keys = tuple(
        (kind_names[int(f) // width], names[int(f) % width - 1] if int(f) % width else NO_NAME) for f in found[order]
    )
    return keys, number[code]


def _launches(trace: Trace, rows: I64) -> I64:
    """Return the row of the launch of each row of device work, joined by source, process and correlation."""
    events = trace.events
    calls = np.flatnonzero(kind_mask(trace, API_CALLS))
    if not calls.size or not rows.size:
        return np.full(rows.size, -1, np.int64)
    correlation, pid = events.column("correlation"), events.column("pid")
    known = valid(correlation)
    keys = np.column_stack(
        (
            ints(events.column("source")),
            ints(pid),
            valid(pid).astype(np.int64),
            ints(correlation),
        )
    )
    found = link(keys[calls], keys[rows], launch_known=known[calls], device_known=known[rows])
    return np.append(calls, -1)[found.launch]


def codes_of(trace: Trace, rows: I64, columns: tuple[str, ...]) -> I64:
    """Return shape (n,): a number from 0 for each row, equal for rows with equal values in the columns."""
    code, size = np.zeros(rows.size, np.int64), 1
    for column in columns:
        own = encoded(in_one(take(trace.events.column(column), rows)))
        width = len(own.dictionary) + 1
        if width == 1 or (width == 2 and not own.null_count):
            continue
        if size * width >= 1 << 62:
            found, code = np.unique(code, return_inverse=True)
            size = found.size
        code = code * width + codes(own) + 1
        size *= width
    if size > max(4 * rows.size, 1 << 16):
        return np.unique(code, return_inverse=True)[1].astype(np.int64, copy=False)
    dense = np.cumsum(np.bincount(code, minlength=size) > 0) - 1
    return dense[code]


def _charges(starts: I64, ends: I64, first: I64, length: I64) -> I64:
    """Return by how many ns each range extends the busy time inside the steps [first, first + length).

    starts ascend. Steps of several threads may overlap: time in two steps counts twice, as it does in their sum.
    """
    if not starts.size or not first.size:
        return np.zeros(starts.size, np.int64)
    before = np.concatenate((starts[:1], np.maximum.accumulate(ends)[:-1]))
    begin = np.maximum(starts, before)
    return _time_in_steps(np.maximum(ends, begin), first, length) - _time_in_steps(begin, first, length)


def _time_in_steps(at: I64, first: I64, length: I64) -> I64:
    """Return for each time the ns of all steps before it, added up."""
    origin = int(first.min())
    opened, closed = np.sort(first - origin), np.sort(first + length - origin)
    when = np.clip(at, origin, origin + int(closed[-1])) - origin

    def up_to(edges: I64) -> I64:
        count = np.searchsorted(edges, when, side="left")
        # count * when may exceed int64; sums of a difference do not: both wrap around alike.
        return count * when - np.concatenate((np.zeros(1, np.int64), np.cumsum(edges)))[count]

    return up_to(opened) - up_to(closed)
