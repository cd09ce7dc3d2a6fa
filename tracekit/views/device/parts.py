"""The time of each device in parts: compute, exposed communication, exposed copies, idle; of its span and of steps.

The view `breakdown` says what the parts are. Devices may be many: their whole spans are found in one go, and the
ranges of a device are merged only where windows of it are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracekit.analysis.intervals import Ranges, coverage, length, merge, union, union_length_by
from tracekit.columns.arrays import I64, Mask
from tracekit.index import devices as _devices
from tracekit.index import launches, step_windows
from tracekit.index.devices import Device, Devices
from tracekit.index.kernel_classes import communicates
from tracekit.index.trace_index import TraceIndex, join
from tracekit.schema import Kind


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of some windows, each of shape (windows,), ns: the first four after the span add up to the window."""

    span: I64
    compute: I64
    exposed_comm: I64
    exposed_copies: I64
    idle: I64
    communication: I64

    def values(self, name: str) -> list[int]:
        """Return one part, an integer a window."""
        found: list[int] = getattr(self, name).tolist()
        return found

    def together(self) -> Parts:
        """Return the parts of all windows added up, as one window."""
        every = (self.span, self.compute, self.exposed_comm, self.exposed_copies, self.idle, self.communication)
        return Parts(*(part.sum(keepdims=True) for part in every))

    def overlap(self) -> list[int]:
        """Return the communication that compute hides."""
        found: list[int] = (self.communication - self.exposed_comm).tolist()
        return found


@dataclass(frozen=True, slots=True)
class Work:
    """Merged ranges of one device: compute; with communication; with copies too; communication alone."""

    compute: Ranges
    kernels: Ranges
    busy: Ranges
    communication: Ranges

    def parts(self, begins: I64, ends: I64) -> Parts:
        """Return the parts of each window [begins[i], ends[i]); windows ascend and do not overlap."""
        edges = np.column_stack((begins, ends)).ravel()
        compute, kernels, busy, communication = (
            coverage(*ranges, edges)[::2] for ranges in (self.compute, self.kernels, self.busy, self.communication)
        )
        span = ends - begins
        return Parts(span, compute, kernels - compute, busy - kernels, span - busy, communication)


@dataclass(frozen=True, slots=True)
class DeviceParts:
    """The parts of a device's span, and of all its steps together: None where no step is known on the device.

    active: first start to last end of its work; busy: time with any of it.
    """

    device: Device
    span: Parts
    steps: Parts | None
    active: int
    busy: int


@join
def device_parts(index: TraceIndex) -> tuple[DeviceParts, ...]:
    """Return the parts of each device: of its span in one window, and of its steps in one.

    Steps of several processes on one device may overlap: their union is one window here.
    """
    devices = _devices.find(index)
    work = all_work(index)
    steps = step_windows.host_steps(index, devices.places)
    launched = launches.launches_of(index, devices.rows)
    found = []
    for number, (device, whole, active) in enumerate(_whole(work)):
        windows = step_windows.windows_on(devices, device, steps, launched)
        together = None
        if windows:
            edges = merge(np.concatenate([w.begins for w in windows]), np.concatenate([w.ends for w in windows]))
            together = work.of(number).parts(*edges).together() if length(edges) else None
        found.append(DeviceParts(device, whole, together, active, int(whole.span[0] - whole.idle[0])))
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class AllWork:
    """The work of all devices: which rows of it compute, which communicate. merged: that of devices with steps."""

    devices: Devices
    computes: Mask
    talks: Mask
    merged: dict[int, Work]

    def of(self, number: int) -> Work:
        """Return the work of one device, merged."""
        if number not in self.merged:
            rows = self.devices.devices[number].positions
            starts, ends = self.devices.starts[rows], self.devices.ends[rows]
            computes, talks = self.computes[rows], self.talks[rows]
            done, talk = _merged(starts, ends, computes), _merged(starts, ends, talks)
            kernels = union(done, talk) if talks.any() else done
            self.merged[number] = Work(done, kernels, merge(starts, ends), talk)
        return self.merged[number]


@join
def all_work(index: TraceIndex) -> AllWork:
    """Return the work of all devices."""
    devices = _devices.find(index)
    kernel = devices.index.kind_mask({Kind.KERNEL})[devices.rows]
    collective = np.zeros(kernel.size, np.bool_)
    collective[kernel] = communicates(devices.index, devices.rows[kernel])
    return AllWork(devices, kernel & ~collective, collective, {})


def _whole(work: AllWork) -> Iterator[tuple[Device, Parts, int]]:
    """Yield each device, the parts of its span, and first start to last end of its work."""
    devices = work.devices
    count = len(devices.devices)
    if not count:
        return
    sizes = [device.positions.size for device in devices.devices]
    rows = np.concatenate([device.positions for device in devices.devices])
    of, starts, ends = np.repeat(np.arange(count), sizes), devices.starts[rows], devices.ends[rows]
    computes, talks = work.computes[rows], work.talks[rows]

    def union_of(chosen: Mask) -> I64:
        return union_length_by(of[chosen], count, starts[chosen], ends[chosen])

    compute, kernels, talk = union_of(computes), union_of(computes | talks), union_of(talks)
    busy = union_length_by(of, count, starts, ends)
    span = np.array([device.end - device.begin for device in devices.devices], np.int64)
    firsts = np.append(0, np.cumsum(sizes)[:-1]).astype(np.int64)
    active = np.maximum.reduceat(ends, firsts) - np.minimum.reduceat(starts, firsts)
    parts = (span, compute, kernels - compute, busy - kernels, span - busy, talk)
    for at, device in enumerate(devices.devices):
        yield device, Parts(*(part[at : at + 1] for part in parts)), int(active[at])


def _merged(starts: I64, ends: I64, chosen: Mask) -> Ranges:
    return merge(starts[chosen], ends[chosen])
