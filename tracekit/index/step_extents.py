"""The time that a step takes: that of its host range, or that of the device where the host runs ahead of it.

A host range ends when the host has launched the step. The device may finish long after it, so where the host runs
ahead, host ranges show how fast steps are launched, and not how long they take.

**Steps of the device.** A step ends on the device when the last work has ended that was launched within its host range
on the main stream: the one with most kernel time of all on which each step has work (without such a stream: any). The
next step begins there, and the last step does not end before its host range. Work of other streams does not count,
because a batch may be copied ahead of time and a result long after its step. The first step begins with its host range,
or later if the device then still had work of steps that the trace does not have: with the end of the last work whose
launch is not in the trace, or with its own first work if that waited in the queue.

**Which one counts.** The host runs ahead where a step ends on the device later than on the host, and steps of the
device differ from host ranges in the sum or in the median, each by more than `AHEAD` of a step. Then the step is that
of the device. Else it is the host range: both say the same, and the host range has no part that is inferred. A rank is
judged as a whole. Without links from work to launch calls, or with steps on several threads at once, only the host
ranges are known.

`step_extents(index, owners).steps` has the steps to measure; `.host` has the ranges, which say what was launched in a
step.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracekit.analysis.segments import rows_by
from tracekit.index import devices as _devices
from tracekit.index import launches
from tracekit.index import owners as _owners
from tracekit.index import steps as _steps
from tracekit.index.steps import Steps
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.schema import Kind

__all__ = ["AHEAD", "COLUMNS", "StepExtents", "given_extents", "step_extents"]

COLUMNS = _steps.COLUMNS | _devices.COLUMNS | launches.COLUMNS | {"stream"}
AHEAD = 0.05
"""The least difference of the steps of host and device, as a share of a step."""
_NO_ROWS = np.zeros(0, np.int64)
_ROUNDING = 1_000
"""ns: steps that follow each other may overlap by this, since profilers round."""


@dataclass(frozen=True, slots=True, eq=False)
class StepExtents:
    """Steps in order of (owner, start), as ranges of the host and as the time to measure.

    host: the host ranges. steps: the same steps with the starts and durations of the device where the host runs ahead.
    ahead: shape (n,): the step is that of the device, so `steps` and `host` differ.
    """

    host: Steps
    steps: Steps
    ahead: Mask

    def owners_ahead(self) -> list[int]:
        """Return the owners whose steps are those of the device."""
        found: list[int] = sets.unique(self.host.owner[self.ahead]).tolist()
        return found


@join
def step_extents(index: TraceIndex, owners: _owners.Owners) -> StepExtents:
    """Return the steps of each owner, measured on the host or, where the host runs ahead, on the device."""
    host = _steps.find(index, owners)
    starts, durations = host.starts.copy(), host.durations.copy()
    ahead = np.zeros(host.rows.size, np.bool_)
    if not host.rows.size:
        return StepExtents(host, host, ahead)
    devices = _devices.find(index)
    launch = launches.launches_of(index, devices.rows).launch
    linked = np.flatnonzero(launch >= 0)
    of_owner = dict(rows_by(owners.codes[devices.rows[linked]]))
    unlinked = np.flatnonzero(launch < 0)
    earlier_of = dict(rows_by(owners.codes[devices.rows[unlinked]]))
    for owner, at in rows_by(host.owner):
        begins, ends = host.starts[at], host.starts[at] + host.durations[at]
        if owner not in of_owner or (begins[1:] < ends[:-1] - _ROUNDING).any():
            continue
        work = linked[of_owner[owner]]
        call = launch[work]
        step = np.searchsorted(begins, index.starts[call], "right") - 1
        inside = step >= 0
        inside[inside] = index.starts[call[inside]] < ends[step[inside]]
        work, call, step = work[inside], call[inside], step[inside]
        if not work.size:
            continue
        main = _main_stream(index, devices, work, step)
        bounds = _bounds(
            step[main],
            devices.starts[work[main]],
            devices.ends[work[main]],
            index.starts[call[main]] + index.lengths[call[main]],
            begins,
            ends,
            _inherited(devices, unlinked[earlier_of.get(owner, _NO_ROWS)], work[main]),
        )
        if bounds is None or not _runs_ahead(bounds, begins, ends):
            continue
        starts[at], durations[at], ahead[at] = bounds[:-1], np.diff(bounds), True
    return given_extents(host, starts, durations, ahead)


def given_extents(host: Steps, starts: I64, durations: I64, ahead: Mask) -> StepExtents:
    """Return the extents with these starts and durations, shape (n,); ahead: whether they are those of the device."""
    steps = replace(host, starts=starts, durations=durations) if ahead.any() else host
    return StepExtents(host, steps, ahead)


def _main_stream(index: TraceIndex, devices: _devices.Devices, work: I64, step: I64) -> Mask:
    """Return which of the work is on the main stream; all of it where no stream has work of each step."""
    rows = devices.rows[work]
    device, stream = index.key("device", rows), index.key("stream", rows)
    lane = device.codes.astype(np.int64) * len(stream.labels) + stream.codes
    busy = np.where(index.kind_mask({Kind.KERNEL})[rows], devices.ends[work] - devices.starts[work], 0)
    count = sets.unique(step).size
    best, found = -1, np.ones(work.size, np.bool_)
    for _, at in rows_by(lane):
        taken = int(busy[at].sum())
        if taken > best and sets.unique(step[at]).size == count:
            best, found = taken, np.zeros(work.size, np.bool_)
            found[at] = True
    return found


def _inherited(devices: _devices.Devices, unlinked: I64, work: I64) -> int:
    """Return when the last work has ended that was launched before the trace, and ran before the work of its steps."""
    first = int(devices.starts[work].min())
    place = devices.places.codes
    mine = np.isin(place[unlinked], place[work]) & (devices.starts[unlinked] < first)
    return int(min(devices.ends[unlinked[mine]].max(initial=np.iinfo(np.int64).min), first))


def _bounds(step: I64, starts: I64, stops: I64, called: I64, begins: I64, ends: I64, inherited: int) -> I64 | None:
    """Return where the first step begins on the device and each one ends, shape (number of steps + 1,).

    None if fewer than half of the steps launched any work. starts, stops, called: of the work, and when its launch call
    ended. begins, ends: of the host ranges. inherited: when the work of earlier steps has ended.
    """
    if 2 * sets.unique(step).size < begins.size:
        return None
    last = np.full(begins.size, np.iinfo(np.int64).min)
    np.maximum.at(last, step, stops)
    # What the host does behind the last launch of a step is in the next one, and behind that of the last one in none.
    last[-1] = max(last[-1], ends[-1])
    first = int(np.argmin(starts))
    queued = int(starts[first] - called[first]) > AHEAD * float(np.median(ends - begins))
    begin = starts[first] if queued and step[first] == 0 else max(int(begins[0]), inherited)
    return np.maximum.accumulate(np.append(begin, last))


def _runs_ahead(bounds: I64, begins: I64, ends: I64) -> bool:
    """Return whether the host runs ahead of the device, whose steps have these bounds."""
    host, device = ends - begins, np.diff(bounds)
    usual = _median(host)
    if not (bounds[1:] - ends > AHEAD * usual).any():
        return False
    whole = int(host.sum())
    apart = abs(int(device.sum()) - whole) > AHEAD * whole
    return apart or abs(_median(device) - usual) > AHEAD * usual


def _median(values: I64) -> int:
    """Return the median by nearest rank: the mean of a step that waits and of one that does not is the time of neither.

    Of two steps it is their mean, since neither is usual.
    """
    if values.size == 2:
        return int(values.sum()) // 2
    return int(np.partition(values, (values.size - 1) // 2)[(values.size - 1) // 2])
