"""Traces of torch's autograd profiler before Kineto (torch 1.0 to 1.7): export_chrome_trace of an EventList."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.columns import Planner
from tracekit.readers.trace_event.events import Reading
from tracekit.readers.trace_event.look import Dialect, Look, Special
from tracekit.readers.trace_event.plan import DEVICE, MOVABLE, Build
from tracekit.readers.trace_event.rows import Rows
from tracekit.schema import Kind
from tracekit.trace import Ledger

_ON_DEVICE = "CUDA functions"
_ROUNDING_NS = 2
"""Times are binary floats of µs: start and duration of one range may each be 1 ns off."""


class Autograd(Special):
    """Two processes by name: operators, and on "CUDA functions" the ranges that they span there. tid is the device.

    The ranges nest as the operators do. The innermost ones are the work; as kernels, those around them would count the
    same time again: they are other. Which these are is known at the end of the file only, so it is read twice.
    Source: torch/autograd/profiler.py.
    """

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self._outer: I64 | None = None

    def range(self, build: Build) -> Collection[str]:
        """Separate operators from what they span on a device."""
        if (build.event.get("pid") or "").lower().startswith("cpu"):
            build.consts["kind"] = Kind.OPERATOR
            return ()
        build.consts["kind"] = Kind.KERNEL
        build.flags |= DEVICE
        if "tid" in build.runs:
            build.runs["device"] = build.runs.pop("tid")
        if "tid" in build.consts:
            build.consts["device"] = build.consts.pop("tid")
        return ()

    def rows(self, rows: Rows) -> None:
        """Set the kind of ranges around others, and the device of the ends of arrows."""
        own, count = rows.has(DEVICE), rows.count
        if own.any():
            if self._outer is None:
                self._outer = _outer(self.reading)
            around = own & np.isin(rows.ints("event_id")[0], self._outer)
            kinds = rows.columns["kind"].cast(pa.string())
            other = arrow.array([Kind.OTHER.value] * count, pa.string())
            rows.columns["kind"] = arrow.encoded(events.where(around, other, kinds))
        pid, known = rows.ints("pid")
        texts = self.reading.run.ids
        places = [
            number
            for number in np.unique(pid[known & rows.has(MOVABLE)]).tolist()
            if texts.get(("pid", self.reading.options.source, number), "").lower() == _ON_DEVICE.lower()
        ]
        if places:
            moved = rows.has(MOVABLE) & known & np.isin(pid, places)
            tid = events.filled(rows.columns.get("tid"), count, pa.int64())
            device = events.filled(rows.columns.get("device"), count, pa.int32())
            rows.columns["device"] = events.where(moved, tid.cast(pa.int32(), safe=False), device)
            rows.columns["tid"] = events.where(moved, arrow.nulls(count, pa.int64()), tid)


def _outer(reading: Reading) -> I64:
    """Return the numbers of the events on a device that have others within them."""
    again = events.begin(reading.source, reading.options, Ledger(), "", "")
    planner = Planner(Look(again, Dialect("", "", special=_Spans)), again.ledger)
    parts: list[I64] = []
    with reading.source.searched():
        for rows in events.planned(again, planner):
            at = np.flatnonzero(rows.has(DEVICE) & rows.ints("dur_ns")[1])
            columns = ("event_id", "device", "ts_ns", "dur_ns")
            parts.append(np.column_stack([rows.ints(name)[0][at] for name in columns]))
    number, device, start, duration = np.concatenate(parts or [np.empty((0, 4), np.int64)]).T
    order = np.lexsort((number, -duration, start, device))
    device, start, end = device[order], start[order], (start + duration)[order]
    within = (device[1:] == device[:-1]) & (start[1:] < end[:-1]) & (end[1:] <= end[:-1] + _ROUNDING_NS)
    outer: I64 = number[order][:-1][within]
    return outer


class _Spans(Autograd):
    """The same ranges, without their nesting."""

    def rows(self, rows: Rows) -> None:
        """Leave the rows as they are."""
