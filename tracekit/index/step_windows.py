"""The window that a training step takes on a device: where the work that it launched runs, not where its host range is.

Host ranges of steps (kind `step`) run ahead of the device. So a step's window on a device begins with the first work
that was launched within the step's range (by any thread of its process) and ends where the next step's window begins.
The first window begins with its host range already, and the last one ends with its host range, or with the last work
that it launched if that is later: what the host does before the first work and after the last is time of the steps too,
and with few steps it is much of it. Windows of a process follow each other without a gap, and all work inside a window
counts, whoever launched it. A step that launched nothing on the device begins at its host range's start, or where the
step before it begins, whichever is later. Where no launch is known at all, the host ranges themselves are the windows.
A step within another step of its process is left out, and so is one whose work is behind the cut of its file.

Where `step_extents` finds that the host runs ahead of the device, its steps of the device are the windows: work that is
launched early, such as the copy of the next batch, runs at once, and would begin a window many steps too soon.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracekit.analysis.segments import rows_by
from tracekit.index import cut_steps as _cut_steps
from tracekit.index import grouping
from tracekit.index import owners as _owners
from tracekit.index.devices import Devices, IndexedDevice
from tracekit.index.launches import LaunchedWork
from tracekit.index.step_extents import COLUMNS as _EXTENTS
from tracekit.index.step_extents import step_extents
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64
from tracekit.model.report import Cell
from tracekit.model.schema import Kind

__all__ = ["COLUMNS", "host_steps", "windows_on"]

COLUMNS = frozenset({"step", "name"}) | _EXTENTS


@dataclass(frozen=True, slots=True)
class StepWindows:
    """Steps of one process in order: starts, ends: ns; numbers: that of the profiler, else the place in the order.

    order: number of the process at its place. ahead: the begins and ends of the steps on the device where the host
    runs ahead of it, else None.
    """

    order: int
    pid: Cell
    starts: I64
    ends: I64
    numbers: list[Cell]
    ahead: tuple[I64, I64] | None = None


@dataclass(frozen=True, slots=True)
class HostSteps:
    """Steps of each process, by (input, place) and pid. inside: how many lie within another and are left out."""

    of: dict[tuple[int, int], dict[Cell, StepWindows]]
    inside: int


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of steps on a device, begins[i] <= ends[i] <= begins[i + 1]. by_launch: else they are host ranges.

    ahead: they are the steps of the device, which the host runs ahead of.
    """

    steps: StepWindows
    begins: I64
    ends: I64
    by_launch: bool
    ahead: bool = False


def host_steps(index: TraceIndex, places: grouping.Groups) -> HostSteps:
    """Return the steps of each process."""
    picked = index.pick({Kind.STEP})
    if not picked.rows.size:
        return HostSteps({}, 0)
    place = grouping.Key(places.codes[picked.rows], range(places.count))
    groups = grouping.group_by(picked.key("source"), picked.key("pid"), place)
    numbers = arrow.take(index.events.column("step"), picked.rows).to_pylist()
    windows_of_places: dict[tuple[int, int], dict[Cell, StepWindows]] = {}
    on_device = _on_device(index)
    cut = _cut_steps.cut_steps(index)
    behind_cut = np.concatenate((cut.left_out, cut.on_host))
    inside = 0
    for g, of_process in rows_by(groups.codes):
        starts = picked.starts[of_process]
        ends = starts + picked.durations[of_process]
        outermost = np.ones(of_process.size, np.bool_)
        outermost[1:] = ends[1:] > np.maximum.accumulate(ends)[:-1]
        inside += int(np.count_nonzero(~outermost))
        outermost &= ~np.isin(picked.rows[of_process], behind_cut)
        if not outermost.any():
            continue
        pid = groups.labels[1][g]
        source, where = (int(groups.labels[column][g] or 0) for column in (0, 2))
        kept = of_process[outermost].tolist()
        names = [numbers[i] if numbers[i] is not None else place for place, i in enumerate(kept)]
        own_place = windows_of_places.setdefault((source, where), {})
        ahead = on_device(picked.rows[of_process[outermost]])
        own_place[pid] = StepWindows(len(own_place), pid, starts[outermost], ends[outermost], names, ahead)
    return HostSteps(windows_of_places, inside)


def _on_device(index: TraceIndex) -> Callable[[I64], tuple[I64, I64] | None]:
    """Return a function from the rows of the steps of a process to their begins and ends on the device it is behind.

    It returns None for steps that are not all known there, or not one after the other.
    """
    extents = step_extents(index, _owners.find(index))
    at = np.flatnonzero(extents.ahead)
    order = at[np.argsort(extents.host.rows[at], kind="stable")]
    known = extents.host.rows[order]

    def find(rows: I64) -> tuple[I64, I64] | None:
        place = np.searchsorted(known, rows)
        if not known.size or (place == known.size).any() or (known[place] != rows).any():
            return None
        begins = extents.steps.starts[order[place]]
        ends = begins + extents.steps.durations[order[place]]
        apart = (ends > begins).all() and (begins[1:] >= ends[:-1]).all()
        return (begins, ends) if apart else None

    return find


def windows_on(devices: Devices, device: IndexedDevice, steps: HostSteps, launched: LaunchedWork) -> list[Windows]:
    """Return the windows on the device, those of each process that launched work on it within its steps.

    Where no work of the device has a known launch: the host ranges, if one process alone has steps.
    """
    candidates = steps.of.get((device.source, device.place))
    if candidates is None:
        return []
    call = launched.launch[device.positions]
    linked = call >= 0
    if not linked.any():
        if len(candidates) != 1:
            return []
        (only,) = candidates.values()
        ends = np.minimum(only.ends, np.append(only.starts[1:], only.ends[-1:]))
        return [Windows(only, only.starts, ends, False)]
    index = devices.index
    call = call[linked]
    begun = index.starts[call]
    pid = index.key("pid", call)
    work = device.positions[linked]
    found = []
    for code, rows in rows_by(pid.codes):
        each = candidates.get(pid.labels[code])
        if each is None:
            continue
        step = np.searchsorted(each.starts, begun[rows], side="right") - 1
        within = step >= 0
        within[within] = begun[rows[within]] < each.ends[step[within]]
        launched_within = work[rows[within]]
        if launched_within.size and each.ahead is not None:
            found.append(Windows(each, *each.ahead, True, True))
        elif launched_within.size:
            found.append(_windows(each, step[within], devices.starts[launched_within], devices.ends[launched_within]))
    return sorted(found, key=lambda windows: windows.steps.order)


def _windows(steps: StepWindows, step: I64, starts: I64, ends: I64) -> Windows:
    """step, starts, ends: of the work that was launched within a step."""
    n = steps.starts.size
    present = np.bincount(step, minlength=n) > 0
    first = np.full(n, np.iinfo(np.int64).max)
    np.minimum.at(first, step, starts)
    first[0] = min(first[0], steps.starts[0])
    begins = np.maximum.accumulate(np.where(present, first, steps.starts))
    last = int(ends[step == n - 1].max(initial=steps.ends[-1]))
    edges = np.append(begins, max(last, int(begins[-1])))
    return Windows(steps, begins, edges[1:], True)
