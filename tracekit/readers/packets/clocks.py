"""Clocks of a file, related by its snapshots: every time becomes one of the trace's own clock.

A snapshot says what several clocks showed at one moment. A time of a clock is converted by the last snapshot at which
that clock had not passed it, else by the first, over as few clocks as possible. Both move at the same speed.
Source: src/trace_processor/util/clock_synchronizer.h and importers/proto/proto_trace_reader.cc of Perfetto.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tracekit.columns.arrays import I64
from tracekit.readers.packets.fields import BOOTTIME, FIRST_LOCAL_CLOCK, LAST_LOCAL_CLOCK, REALTIME
from tracekit.units import MAX_NS

Clock = tuple[int, int]
"""The packet sequence that a clock belongs to, 0 for one of the whole trace, and its number."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A clock in a snapshot: its count, whether its times are steps, and how many ns one count is."""

    clock: int
    count: int
    steps: bool
    multiplier: int


def clock_of(sequence: int, number: int) -> Clock:
    """Return the clock of a number on a packet sequence."""
    return (sequence if FIRST_LOCAL_CLOCK <= number <= LAST_LOCAL_CLOCK else 0, number)


class Clocks:
    """Relations of clocks, by the snapshots so far."""

    def __init__(self) -> None:
        self.main: Clock = (0, BOOTTIME)
        """The clock of the trace."""
        self._pairs: dict[tuple[Clock, Clock], tuple[list[int], list[int]]] = {}
        self._arrays: dict[tuple[Clock, Clock], tuple[I64, I64]] = {}
        self._near: dict[Clock, dict[Clock, None]] = {}
        self._paths: dict[Clock, list[Clock] | None] = {}
        self._multiplier: dict[Clock, int] = {}
        self._last: dict[Clock, int] = {}

    def add(self, sequence: int, shown: list[Shown], main: int) -> bool:
        """Take a snapshot; return whether it is one. main: number of the trace's clock, 0 for not said."""
        if main:
            self.main = (0, main)
            self._paths.clear()
        found: dict[Clock, int] = {}
        for each in shown:
            clock = clock_of(sequence, each.clock)
            multiplier = each.multiplier or 1
            ns = each.count * multiplier
            if not 0 <= ns < MAX_NS:
                continue
            found[clock] = ns
            if clock[0]:
                self._multiplier[clock] = multiplier
                if each.steps:
                    self._last[clock] = ns
                else:
                    self._last.pop(clock, None)
        for one, ns in found.items():
            for other, there in found.items():
                if one == other:
                    continue
                pair = self._pairs.get((one, other))
                if pair is None:
                    pair = self._pairs[one, other] = [], []
                    self._near.setdefault(one, {})[other] = None
                    self._paths.clear()
                pair[0].append(ns)
                pair[1].append(there)
                self._arrays.pop((one, other), None)
        return len(found) > 1

    def has_steps(self, clock: Clock) -> bool:
        """Return whether the times of a clock are steps from packet to packet."""
        return clock in self._last

    def ns(self, clock: Clock, values: I64) -> I64:
        """Return times of a clock in ns of that clock, -1 for one out of range. values: in order of the file."""
        multiplier = self._multiplier.get(clock, 1)
        if clock not in self._last:
            good = (values >= 0) & (values < MAX_NS // multiplier)
            return np.where(good, values * multiplier, -1)
        # A step that would go beyond all times stops the clock: nothing behind it is known.
        first = self._last[clock]
        most = (MAX_NS - first) // multiplier
        good = (values >= 0) & (values < most)
        total = np.cumsum(np.where(good, values, 0).astype(np.float64))
        good &= total < most
        good = np.logical_and.accumulate(good)
        at = first + np.cumsum(np.where(good, values, 0)) * multiplier
        if len(at):
            self._last[clock] = int(at[-1])
        return np.where(good, at, -1)

    def knows(self, clock: Clock) -> bool:
        """Return whether times of a clock can be converted."""
        return self._path(clock) is not None

    def convert(self, clock: Clock, ns: I64) -> I64:
        """Return times in ns of a clock, on the clock of the trace; -1 for a time out of range."""
        path = self._path(clock) or [clock]
        good = ns >= 0
        for one, other in pairwise(path):
            here, there = self._snapshots(one, other)
            place = np.maximum(np.searchsorted(here, ns, "right") - 1, 0)
            ns = there[place] + (ns - here[place])
            good &= (ns >= 0) & (ns < MAX_NS)
            ns = np.where(good, ns, 0)
        return np.where(good, ns, -1)

    def unix_offset(self) -> int | None:
        """Return the Unix time of time 0 of the trace, in ns; None where no snapshot says it."""
        if self.main == (0, REALTIME):
            return 0
        pair = self._pairs.get((self.main, (0, REALTIME)))
        return pair[1][0] - pair[0][0] if pair else None

    def _snapshots(self, one: Clock, other: Clock) -> tuple[I64, I64]:
        arrays = self._arrays.get((one, other))
        if arrays is None:
            here, there = (np.array(values, np.int64) for values in self._pairs[one, other])
            order = np.argsort(here, kind="stable")
            arrays = self._arrays[one, other] = here[order], there[order]
        return arrays

    def _path(self, clock: Clock) -> list[Clock] | None:
        """Return the clocks on the shortest way to the clock of the trace, both included."""
        if clock not in self._paths:
            self._paths[clock] = self._searched(clock)
        return self._paths[clock]

    def _searched(self, clock: Clock) -> list[Clock] | None:
        came: dict[Clock, Clock | None] = {clock: None}
        waiting = [clock]
        for one in waiting:
            if one == self.main:
                path: list[Clock] = []
                back: Clock | None = one
                while back is not None:
                    path.append(back)
                    back = came[back]
                return path[::-1]
            for other in self._near.get(one, ()):
                if other not in came:
                    came[other] = one
                    waiting.append(other)
        return None
