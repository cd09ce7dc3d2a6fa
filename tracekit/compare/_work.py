"""Device work of a trace: which name, which step, which launch, and how much of the steps' time it accounts for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.analysis.intervals import I64, union_length_by
from tracekit.analysis.links import link
from tracekit.errors import TracekitError
from tracekit.schema import API_CALLS, DEVICE_WORK, Kind
from tracekit.trace import Trace, text_codes
from tracekit.views.steps.steps import StepTimes

INT64_MAX = (1 << 63) - 1
SEQUENCE = 20_000
"""Pieces of device work whose order tells which names took the place of which."""
NO_NAME = "(no name)"


@dataclass(frozen=True, slots=True, eq=False)
class DeviceWork:
    """m pieces of device work, in order of start.

    rows: rows of EVENTS. key: place in `keys` (kind, name). durations: ns. launch: row of EVENTS that launched it, -1.
    place: which step after warm-up of its rank, from 0; -1 outside of them. rank_of_step: which of the owners that took
    steps, from 0. charged: ns of steps after warm-up. lanes: its stream.
    steady_rows: rows of EVENTS of all kinds that began in steps after warm-up. busy: ns, union by device.
    """

    rows: I64
    keys: tuple[tuple[str, str], ...]
    key: I64
    durations: I64
    launch: I64
    place: I64
    rank_of_step: I64
    charged: I64
    lanes: I64
    steady_rows: I64
    busy: int

    def sequences(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """Return the names of device work in order, stream by stream: of the first steps, or of the beginning."""
        at = np.flatnonzero(self.place >= 0) if (self.place >= 0).any() else np.arange(self.rows.size)
        at = at[:SEQUENCE]
        return tuple(
            tuple(self.keys[k] for k in self.key[at[self.lanes[at] == lane]].tolist())
            for lane in np.unique(self.lanes[at]).tolist()
        )


def kind_mask(trace: Trace, kinds: Collection[str]) -> npt.NDArray[np.bool_]:
    """Return shape (n,): whether each row of EVENTS is of one of the kinds."""
    codes, names = text_codes(trace.events.column("kind"))
    mask: npt.NDArray[np.bool_] = np.array([*(name in kinds for name in names), False], np.bool_)[codes]
    return mask


def find_work(trace: Trace, steps: StepTimes) -> DeviceWork:
    """Return the device work that has a duration."""
    events = trace.events
    timed = events.column("dur_ns").is_valid().to_numpy()
    rows = np.flatnonzero(kind_mask(trace, DEVICE_WORK) & timed)
    starts: I64 = events.column("ts_ns").to_numpy()
    durations: I64 = np.maximum(events.column("dur_ns").fill_null(0).to_numpy(), 0)[rows]
    latest = int(starts[rows].max(initial=0)) + int(durations.max(initial=0))
    if latest >= INT64_MAX or float(durations.sum(dtype=np.float64)) >= INT64_MAX:
        raise TracekitError("the durations add up to more than 292 years", hint="leave out what cannot be true")
    keys, key = _keys(trace, rows)
    launch = _launches(trace, rows)
    begun = starts.copy()
    known = launch >= 0
    begun[rows[known]] = starts[launch[known]]
    place = np.full(events.num_rows, -1, np.int64)
    rank = np.zeros(events.num_rows, np.int64)
    charged = np.zeros(rows.size, np.int64)
    for number, owner in enumerate(np.unique(steps.owner).tolist()):
        mine = steps.owner == owner
        first, length = steps.starts[mine & ~steps.warm_up], steps.durations[mine & ~steps.warm_up]
        of_owner = np.flatnonzero(steps.owner_of_row == owner)
        at = np.searchsorted(first, begun[of_owner], side="right") - 1
        inside = at >= 0
        inside[inside] = begun[of_owner[inside]] < (first + length)[at[inside]]
        place[of_owner] = np.where(inside, at, -1)
        rank[of_owner] = number
        own = np.flatnonzero(steps.owner_of_row[rows] == owner)
        charged[own] = _charges(starts[rows[own]], starts[rows[own]] + durations[own], first, length)
    device = codes_of(trace, rows, ("source", "rank", "pid", "device"))
    union = union_length_by(device, int(device.max(initial=-1)) + 1, starts[rows], starts[rows] + durations)
    return DeviceWork(
        rows,
        keys,
        key,
        durations,
        launch,
        place[rows],
        rank[rows],
        charged,
        codes_of(trace, rows, ("source", "rank", "pid", "device", "context", "stream")),
        np.flatnonzero(place >= 0),
        sum(union.tolist()),
    )


def _keys(trace: Trace, rows: I64) -> tuple[tuple[tuple[str, str], ...], I64]:
    """Return (kind, name) of each piece, in order of first use."""
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
    """Return the row of the call that launched each piece, as the views join them: source, process, correlation."""
    events = trace.events
    calls = np.flatnonzero(kind_mask(trace, API_CALLS))
    if not calls.size or not rows.size:
        return np.full(rows.size, -1, np.int64)
    correlation, pid = events.column("correlation"), events.column("pid")
    known = correlation.is_valid().to_numpy()
    keys = np.column_stack(
        (
            events.column("source").to_numpy().astype(np.int64),
            pid.fill_null(0).to_numpy(),
            pid.is_valid().to_numpy().astype(np.int64),
            correlation.fill_null(0).to_numpy(),
        )
    )
    found = link(keys[calls], keys[rows], launch_known=known[calls], device_known=known[rows])
    return np.append(calls, -1)[found.launch]


def codes_of(trace: Trace, rows: I64, columns: tuple[str, ...]) -> I64:
    """Return shape (n,): a number from 0 for each row, the same for the same values of the columns."""
    code, size = np.zeros(rows.size, np.int64), 1
    for column in columns:
        own = trace.events.column(column).take(pa.array(rows)).dictionary_encode().combine_chunks()
        if isinstance(own, pa.ChunkedArray):
            own = own.chunk(0) if own.num_chunks else pa.nulls(0, pa.int64()).dictionary_encode()
        width = len(own.dictionary) + 1
        if width == 1 or (width == 2 and not own.null_count):
            continue
        if size * width >= 1 << 62:
            found, code = np.unique(code, return_inverse=True)
            size = found.size
        code = code * width + own.indices.fill_null(-1).to_numpy(zero_copy_only=False) + 1
        size *= width
    if size > max(4 * rows.size, 1 << 16):
        return np.unique(code, return_inverse=True)[1].astype(np.int64, copy=False)
    dense = np.cumsum(np.bincount(code, minlength=size) > 0) - 1
    lanes: I64 = dense[code]
    return lanes


def _charges(starts: I64, ends: I64, first: I64, length: I64) -> I64:
    """Return for each piece by how much it extends the busy time inside the steps [first, first + length).

    starts ascend. Steps may overlap (of several threads): time in two steps counts twice, as it does in their sum.
    """
    if not starts.size or not first.size:
        return np.zeros(starts.size, np.int64)
    before = np.concatenate((starts[:1], np.maximum.accumulate(ends)[:-1]))
    begin = np.maximum(starts, before)
    charged: I64 = _time_in_steps(np.maximum(ends, begin), first, length) - _time_in_steps(begin, first, length)
    return charged


def _time_in_steps(at: I64, first: I64, length: I64) -> I64:
    """Return for each time how many ns of steps lie before it, all steps added up."""
    origin = int(first.min())
    opened, closed = np.sort(first - origin), np.sort(first + length - origin)
    when = np.clip(at, origin, origin + int(closed[-1])) - origin

    def up_to(edges: I64) -> I64:
        count = np.searchsorted(edges, when, side="left")
        # count * when may exceed int64; sums of a difference do not: both wrap around alike.
        return count * when - np.concatenate((np.zeros(1, np.int64), np.cumsum(edges)))[count]

    return up_to(opened) - up_to(closed)


def host_kinds() -> frozenset[Kind]:
    """Return the kinds of ranges that say what launched a kernel."""
    return frozenset(
        {Kind.OPERATOR, Kind.USER_RANGE, Kind.USER_RANGE_NATIVE, Kind.FORWARD, Kind.BACKWARD, Kind.OPTIMIZER}
    )
