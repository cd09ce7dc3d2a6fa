"""Devices whose clock is not that of the host in the same input: how far off, and moving their rows.

Without `--align launches` nothing is moved: that work starts before its launch shows that the clocks differ by so much
or more, not by how much. Durations and sums on one device are right as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tracekit import schema
from tracekit.analysis.clocks.bounds import OPEN
from tracekit.analysis.clocks.launches import DeviceClock
from tracekit.analysis.clocks.line import Line
from tracekit.analysis.links import one_key
from tracekit.analysis.segments import rows_by
from tracekit.columns import arrow
from tracekit.columns.arrays import I64
from tracekit.run.launches import UNKNOWN, WAITER, LaunchLook, clock_of, step_of, with_null


def within(found: LaunchLook) -> dict[tuple[int, int], DeviceClock]:
    """Return what an input with calls and device work says of the clock of each device, by process and device.

    UNKNOWN stands for a process or device that the rows do not state.
    """
    calls, work = found.calls, found.work
    out: dict[tuple[int, int], DeviceClock] = {}
    of_process = dict(rows_by(calls.pid))
    for pid, places in rows_by(work.pid):
        if pid not in of_process:
            continue
        mine, theirs = calls.take(of_process[pid]), work.take(places)
        devices = list(rows_by(theirs.device))
        step = step_of(mine.starts)
        if len(devices) > 1:  # a synchronization waits for one of them, and a device has to do with its own calls alone
            mine = replace(mine, marks=mine.marks & ~WAITER)
            mine = mine.take(np.argsort(mine.correlation, kind="stable"))
        for device, own in devices:
            rows = theirs.take(own)
            its = mine if len(devices) == 1 else mine.take(_rows_of(mine.correlation, rows.correlation))
            clock = clock_of(its, rows, (its.correlation, rows.correlation), step=step)
            if clock is not None:
                out[pid, device] = clock
    return out


def _rows_of(ascending: I64, wanted: I64) -> I64:
    """Return the rows that hold one of the wanted values."""
    wanted = np.unique(wanted)
    first, last = np.searchsorted(ascending, wanted), np.searchsorted(ascending, wanted, "right")
    count = last - first
    found: I64 = np.arange(count.sum()) + np.repeat(first - np.cumsum(count) + count, count)
    return found


def contradictions(clocks: Mapping[tuple[int, int], DeviceClock], *, cut: bool = False) -> str:
    """Return a sentence on work that starts before its launch, or ends after the call that waited for it; "" for none.

    cut: there are more rows than were looked at.
    """
    wrong = [each for each in clocks.values() if each.early or each.late]
    if not wrong:
        return ""
    early, late = sum(each.early for each in wrong), sum(each.late for each in wrong)
    parts = [f"{early:,} of {sum(each.pairs for each in wrong):,} start before their launch"] if early else []
    parts += [f"{late:,} end after the call that waited for them returned"] if late else []
    head = f"rows of device work: {' and '.join(parts)}{', of the first rows' if cut else ''}"
    shifts = [each.least_shift for each in wrong]
    if None in shifts:
        return f"{head}: the clocks of host and device differ, and no single shift of the device's times repairs it"
    least = [each for each in shifts if each]
    low, high = min(least), max(least)
    text = f"{low:+,} ns" if low == high else f"{low:+,} to {high:+,} ns by device"
    return f"{head}: the clocks of host and device differ by {text} at least; --align launches moves the device's rows"


COLUMNS = frozenset({"dur_ns", "pid", "device", "stream"})
"""Columns of EVENTS that moving needs, besides starts."""
DEVICE_CLOCKS = "device_clocks"
"""The fact of a source that says how the rows of its devices were moved."""


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """The rows of one device of one process, which are moved along a line. pid, device: as in `within`."""

    pid: int
    device: int
    line: Line
    clock: DeviceClock

    def facts(self) -> dict[str, object]:
        """Return what the facts of the source say, in JSON types. possible_ns: None for a side without a limit."""
        bounds = self.clock.bounds
        low, high = (-bounds.high, -bounds.low) if bounds is not None else (-OPEN, OPEN)
        return {
            "pid": None if self.pid == UNKNOWN else self.pid,
            "device": None if self.device == UNKNOWN else self.device,
            "method": "launches",
            "offset_ns": -self.line.offset,
            "drift_ppm": round(self.line.drift * 1e6, 6),
            "possible_ns": [None if low <= -OPEN // 2 else low, None if high >= OPEN // 2 else high],
            "launches": self.clock.pairs,
            "early": self.clock.early,
            "late": self.clock.late,
        }


def repairs(clocks: Mapping[tuple[int, int], DeviceClock]) -> list[DeviceLine]:
    """Return how the rows of each device are moved: by the smallest shift that repairs it, else along a line.

    Devices whose launches contradict each other whatever the clock are left out.
    """
    out = []
    for (pid, device), clock in clocks.items():
        if clock.bounds is None:
            continue
        ahead, drift = -(clock.least_shift or 0), 0.0
        if clock.least_shift is None:
            ahead, drift = clock.bounds.inside, (clock.bounds.slowest + clock.bounds.fastest) / 2
        middle, first, last = clock.bounds.middle, clock.bounds.first, clock.bounds.last
        out.append(DeviceLine(pid, device, Line(ahead, drift, middle, 0, 0.0, 0, first, last, clock.pairs), clock))
    return out


def moved(batches: Iterator[pa.RecordBatch], lines: Sequence[DeviceLine]) -> Iterator[pa.RecordBatch]:
    """Move the rows of devices, start and end alike."""
    at, of_dur = (schema.EVENTS.get_field_index(name) for name in ("ts_ns", "dur_ns"))
    line_of = {(each.pid, each.device): each for each in lines}
    for batch in batches:
        if not schema.is_totals(batch) and batch.num_rows:
            pid, device = (with_null(batch.column(name)) for name in ("pid", "device"))
            on_device = arrow.valid(batch.column("device")) | arrow.valid(batch.column("stream"))
            starts, lengths = arrow.ints(batch.column("ts_ns")), arrow.ints(batch.column("dur_ns"))
            begins, ends = starts.copy(), starts + lengths
            rows = np.flatnonzero(on_device)
            for _, places in rows_by(one_key([pid[rows], device[rows]], rows.size)):
                mine = rows[places]
                each = line_of.get((int(pid[mine[0]]), int(device[mine[0]])))
                if each is not None:
                    begins[mine], ends[mine] = each.line.corrected(starts[mine]), each.line.corrected(ends[mine])
            if (begins != starts).any():
                known = arrow.valid(batch.column("dur_ns"))
                batch = batch.set_column(at, schema.EVENTS.field(at), arrow.array(begins))
                lasting = arrow.array(ends - begins, mask=~known)
                batch = batch.set_column(of_dur, schema.EVENTS.field(of_dur), lasting)
        yield batch


def repair_text(lines: Sequence[DeviceLine]) -> str:
    """Return the sentence of a note on rows that were moved, "" where none are."""
    mine = [each for each in lines if each.line.offset or each.line.drift]
    if not mine:
        return ""
    parts = []
    for each in mine[:3]:
        name = "device" if each.device == UNKNOWN else f"device {each.device}"
        drift = f" and {-each.line.drift * 1e6:+.3f} ppm" if each.line.drift else ""
        parts.append(f"{name} by {-each.line.offset:+,} ns{drift}")
    more = ", ..." if len(mine) > 3 else ""
    how = "the smallest shift with which no work starts before its launch; the true one may be larger"
    return f"rows of devices are moved: {', '.join(parts)}{more}: {how}"
