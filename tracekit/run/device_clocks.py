"""Inputs with device work on the clock of the inputs that have its launch calls.

Launches and waits leave an interval of offsets. Where it has 0, the files' own times fit, and stay. Two wall clocks
that contradict it are brought together by the smallest shift that repairs it. Else the middle of the interval is taken,
or its end, where only one side has a limit. All of the interval remains possible, and the facts say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tracekit.analysis.clocks.bounds import OPEN, Bounds
from tracekit.analysis.clocks.launches import DeviceClock
from tracekit.analysis.clocks.line import Line
from tracekit.run.alignment import AUTO, LAUNCHES, OFFSET, OWN, REFERENCE, Clocked, Placed
from tracekit.run.launches import Between, LaunchLook, between


@dataclass(frozen=True, slots=True)
class Launched:
    """An input with device work, and the input with its launch calls, by their numbers."""

    host: int
    device: int
    clock: DeviceClock


def pairs(looks: Mapping[int, LaunchLook], inputs: Mapping[int, Clocked]) -> list[Launched]:
    """Return which inputs have the launch calls of which others' work.

    Where the user names the method for an input with device work, or for all, it need not be proved that both are of
    one program; several inputs that could have its calls are none.
    """
    found = []
    for device, work in looks.items():
        named = inputs[device].choice == LAUNCHES
        every: list[tuple[int, Between]] = []
        for host, calls in looks.items():
            if host == device or not {inputs[host].choice, inputs[device].choice} <= {AUTO, LAUNCHES}:
                continue
            met = between(calls, work, inputs[host].origin_ns or 0, inputs[device].origin_ns or 0)
            if met is not None and met.clock.bounds is not None:
                every.append((host, met))
        same = [each for each in every if each[1].same] or (every if named else [])
        if len(same) == 1:
            found.append(Launched(same[0][0], device, same[0][1].clock))
    return found


def place(
    launched: Sequence[Launched], inputs: Mapping[int, Clocked], placed: Mapping[int, Placed]
) -> dict[int, Placed]:
    """Return all inputs on their clocks: an input that launches relate to another one is on the clock of that one."""
    out = dict(placed)
    for each in launched:
        bounds = each.clock.bounds
        host, device = out[each.host], out[each.device]
        if bounds is None or OFFSET in (host.method, device.method):
            continue
        line = _line(each, bounds, inputs)
        low = None if bounds.low <= -OPEN // 2 else -bounds.low
        high = None if bounds.high >= OPEN // 2 else -bounds.high
        mover, stays, possible = each.device, host, (high, low)
        if inputs[each.host].origin_ns is None and inputs[each.device].origin_ns is not None and host.method == OWN:
            low, high = (None if limit is None else -limit for limit in (low, high))
            mover, stays, possible, line = each.host, device, (low, high), line.reversed()
        total = line if stays.line is None else line.over(stays.line)
        uncertainty = None if None in possible else line.uncertainty
        if uncertainty is not None and stays.line is not None:
            uncertainty = None if stays.uncertainty_ns is None else uncertainty + stays.uncertainty_ns
        moved_by = stays.then_ns - (total.offset - line.offset)
        out[mover] = Placed(
            mover,
            stays.group,
            LAUNCHES,
            inputs[stays.number].name,
            total if total.offset or total.drift else None,
            stays.then_ns,
            uncertainty,
            line.in_drift,
            (_plus(possible[0], moved_by), _plus(possible[1], moved_by)),
            each.clock.pairs,
        )
        if stays.method == OWN:
            out[stays.number] = Placed(stays.number, stays.group, REFERENCE, uncertainty_ns=0)
        elif stays.refused:
            out[stays.number] = replace(stays, refused=False)
    return out


def _plus(limit: int | None, by_ns: int) -> int | None:
    return None if limit is None else limit + by_ns


def _line(each: Launched, bounds: Bounds, inputs: Mapping[int, Clocked]) -> Line:
    """Return the device's clock against the host's: the line that is applied."""
    clock = each.clock
    open_low, open_high = bounds.low <= -OPEN // 2, bounds.high >= OPEN // 2
    drift = 0.0
    if clock.least_shift == 0:
        ahead = 0
    elif clock.least_shift is not None and all(inputs[n].origin_ns is not None for n in (each.host, each.device)):
        ahead = -clock.least_shift
    elif open_low or open_high:
        ahead = bounds.steady_high if open_low else bounds.steady_low
    elif bounds.steady:
        ahead = (bounds.steady_low + bounds.steady_high) // 2
    else:
        ahead, drift = bounds.inside, (bounds.slowest + bounds.fastest) / 2
    in_drift = max(bounds.fastest - drift, drift - bounds.slowest)
    at_middle = max(bounds.high - ahead, ahead - bounds.low)
    uncertainty = at_middle + math.ceil(in_drift * (bounds.last - bounds.first) / 2)
    return Line(ahead, drift, bounds.middle, at_middle, in_drift, uncertainty, bounds.first, bounds.last, clock.pairs)
