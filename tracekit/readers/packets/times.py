"""The time of each packet on the clock of the trace."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.units import MAX_NS
from tracekit.readers.engine.wire import WireMessage
from tracekit.readers.packets.fields import (
    BOOTTIME,
    CLOCK,
    FIRST_LOCAL_CLOCK,
    LAST_LOCAL_CLOCK,
    REALTIME,
    SNAPSHOT,
    TIMESTAMP,
)
from tracekit.readers.packets.framing import PacketBlock
from tracekit.readers.packets.sequences import Stated
from tracekit.readers.packets.texts import distinct

__all__ = ["BAD", "PacketTimes", "Timed"]

# Clocks of a file, related by its snapshots: every time becomes one of the trace's own clock.
#
# A snapshot says what several clocks showed at one moment. A time of a clock is converted by the last snapshot at which
# that clock had not passed it, else by the first, over as few clocks as possible. Both move at the same speed.
# Source: src/trace_processor/util/clock_synchronizer.h and importers/proto/proto_trace_reader.cc of Perfetto.


Clock = tuple[int, int]
"""The packet sequence that a clock belongs to, 0 for one of the whole trace, and its number."""


@dataclass(frozen=True, slots=True)
class ShownTimes:
    """A clock in a snapshot: its count, whether its times are steps, and how many ns one count is."""

    clock: int
    count: int
    steps: bool
    multiplier: int


def clock_of(sequence: int, number: int) -> Clock:
    """Return the clock of a number on a packet sequence."""
    return (sequence if FIRST_LOCAL_CLOCK <= number <= LAST_LOCAL_CLOCK else 0, number)


class PacketClocks:
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

    def add(self, sequence: int, shown: list[ShownTimes], main: int) -> bool:
        """Take a snapshot; return whether it is one. main: number of the trace's clock, 0 for not said."""
        if main:
            self.main = (0, main)
            self._paths.clear()
        shown_ns: dict[Clock, int] = {}
        for each in shown:
            clock = clock_of(sequence, each.clock)
            multiplier = each.multiplier or 1
            ns = each.count * multiplier
            if not 0 <= ns < MAX_NS:
                continue
            shown_ns[clock] = ns
            if clock[0]:
                self._multiplier[clock] = multiplier
                if each.steps:
                    self._last[clock] = ns
                else:
                    self._last.pop(clock, None)
        for one, ns in shown_ns.items():
            for other, there in shown_ns.items():
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
        return len(shown_ns) > 1

    def has_steps(self, clock: Clock) -> bool:
        """Return whether the times of a clock are steps from packet to packet."""
        return clock in self._last

    def ns(self, clock: Clock, values: I64) -> I64:
        """Return times of a clock in ns of that clock, -1 for one out of range. values: in order of the file."""
        multiplier = self._multiplier.get(clock, 1)
        least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        if clock not in self._last:
            if least >= 0 and most < MAX_NS // multiplier:
                return values * multiplier
            good = (values >= 0) & (values < MAX_NS // multiplier)
            return np.where(good, values * multiplier, -1)
        # A step that would go beyond all times stops the clock: nothing behind it is known.
        first = self._last[clock]
        room = (MAX_NS - first) // multiplier
        if len(values) and least >= 0 and most * len(values) < room:
            sums = first + np.cumsum(values) * multiplier
            self._last[clock] = int(sums[-1])
            return sums
        good = (values >= 0) & (values < room)
        total = np.cumsum(np.where(good, values, 0).astype(np.float64))
        good &= total < room
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
            from_ns, to_ns = self._snapshots(one, other)
            if len(from_ns) == 1:
                ns = ns + (to_ns[0] - from_ns[0])
            else:
                place = np.maximum(np.searchsorted(from_ns, ns, "right") - 1, 0)
                ns = to_ns[place] + (ns - from_ns[place])
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
            from_ns, to_ns = (np.array(values, np.int64) for values in self._pairs[one, other])
            order = np.argsort(from_ns, kind="stable")
            arrays = self._arrays[one, other] = from_ns[order], to_ns[order]
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


BAD = -1
_MONOTONIC = clock_of(0, 3)
_MOST_US = MAX_NS // 1000
Given = tuple[I64, Mask]
"""A number of each event, and whether it has it."""


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """The times of the packets of a block: ns, BAD for one out of range; of a clock in `PacketTimes.waiting` where
    `clock`     is not -1. given: whether the packet has a time; else it has that of the latest packet before it.
    """

    ns: I64
    clock: I64
    given: Mask


class PacketTimes:
    """Converts the times of a file, block after block."""

    def __init__(self) -> None:
        self.clocks = PacketClocks()
        self.waiting: list[Clock] = []
        """Clocks that no snapshot so far relates to the clock of the trace."""
        self.snapshots = 0
        self.from_zero = False
        """Whether a snapshot says that BOOTTIME began at 0: tracekit writes so."""
        self._places: dict[Clock, int] = {}
        self._latest = 0
        self._passed: dict[int, int] = {}
        """How far the events of older producers have counted, us, by the statement from which they count."""

    def read(self, block: PacketBlock, stated: Stated) -> Timed:
        """Return the time of each packet."""
        count = block.count
        ns, has = block.fields.last(TIMESTAMP, 0, count)
        number, given = block.fields.last(CLOCK, 0, count)
        number = np.where(given, number & 0xFFFFFFFF, stated.of(np.arange(count), "clock", 0))
        waits = np.full(count, -1, np.int64)
        ns[(ns < 0) | (ns >= MAX_NS)] = BAD
        snapshots = self._snapshots(block)
        rows = np.flatnonzero(has & (number != 0))
        sequences = np.array([state.sequence for state in stated.states], np.int64)[stated.state[rows]]
        codes, place = distinct(sequences << 32 | number[rows])
        clocks = [clock_of(code >> 32, code & 0xFFFFFFFF) for code in codes.tolist()]
        first = 0
        for row in [*sorted(snapshots), count]:
            last = int(np.searchsorted(rows, row))
            self._convert(rows[first:last], place[first:last], clocks, ns, waits)
            first = last
            if row < count:
                sequence = stated.states[stated.state[row]].sequence
                for shown, main in snapshots[row]:
                    self.snapshots += self.clocks.add(sequence, shown, main)
        known = np.where(has & (waits < 0), ns, 0)
        latest = np.maximum.accumulate(np.maximum(known, self._latest)) if count else known
        ns = np.where(has, ns, latest)
        self._latest = int(latest[-1]) if count else self._latest
        return Timed(ns, waits, has)

    def of_events(self, stated: Stated, packets: I64, timed: Timed, deltas: Given, absolute: Given) -> Timed:
        """Return the times of track events. deltas, absolute: what older producers state in events, us of MONOTONIC.

        A delta counts from the event before it, the first one from the time that the thread of the sequence states; an
        absolute time is no step of these. BAD where that time is not said or was lost, and where no time is stated.
        Source: src/trace_processor/importers/proto/track_event_tokenizer.cc of Perfetto.
        """
        ns, waits, given = timed.ns[packets], timed.clock[packets], timed.given[packets]
        rows = np.flatnonzero(deltas[1] | absolute[1])
        if len(rows):
            steps = deltas[1][rows]
            values = _from_us(absolute[0][rows])
            values[steps] = self._sums(stated, packets[rows[steps]], deltas[0][rows[steps]])
            waits[rows], given[rows] = -1, True
            if self.clocks.knows(_MONOTONIC):
                values = self.clocks.convert(_MONOTONIC, values)
            else:
                waits[rows] = self._waits(_MONOTONIC)
            ns[rows] = values
        ns[~given] = BAD
        waits[ns == BAD] = -1
        return Timed(ns, waits, given)

    def _sums(self, stated: Stated, packets: I64, deltas: I64) -> I64:
        """Return the times of events that count from each other, ns. packets: in order."""
        epoch, first = stated.of(packets, "epoch", -1), stated.of(packets, "reference_us", BAD)
        out = np.full(len(packets), BAD, np.int64)
        for one in sets.unique(epoch[first >= 0]).tolist():
            counting = np.flatnonzero((epoch == one) & (first >= 0))
            begin = self._passed.get(one, 0)
            sums = begin + np.cumsum(deltas[counting].astype(np.float64))
            good = np.logical_and.accumulate((np.abs(sums) < _MOST_US) & (np.abs(deltas[counting]) < _MOST_US))
            exact = begin + np.cumsum(np.where(good, deltas[counting], 0))
            self._passed[one] = int(exact[-1])
            out[counting] = np.where(good, _from_us(first[counting] + exact), BAD)
        return out

    def _waits(self, clock: Clock) -> int:
        """Return the number of a clock that waits for its snapshot."""
        place = self._places.setdefault(clock, len(self.waiting))
        if place == len(self.waiting):
            self.waiting.append(clock)
        return place

    def _snapshots(self, block: PacketBlock) -> dict[int, list[tuple[list[ShownTimes], int]]]:
        found: dict[int, list[tuple[list[ShownTimes], int]]] = {}
        fields = block.fields.of(SNAPSHOT, 2)
        for row, at, end in zip(fields.row.tolist(), fields.at.tolist(), fields.ends.tolist(), strict=True):
            snapshot = WireMessage(block.data[at:end].tobytes())
            clocks = [WireMessage(each) for each in snapshot.each(1)]
            self.from_zero |= any(c.number(1) == BOOTTIME and not c.number(2) for c in clocks)
            shown = [ShownTimes(c.number(1), c.number(2), c.number(3) != 0, c.number(4)) for c in clocks]
            found.setdefault(row, []).append((shown, snapshot.number(2)))
        return found

    def _convert(self, rows: I64, place: I64, clocks: list[Clock], ns: I64, waits: I64) -> None:
        """Convert the times of some packets, between which there is no snapshot."""
        if not len(rows):
            return
        order = np.argsort(place.astype(np.uint16) if len(clocks) <= 1 << 16 else place, kind="stable")
        ends = np.cumsum(np.bincount(place, minlength=len(clocks)))
        for clock, first, last in zip(clocks, np.append(0, ends[:-1]).tolist(), ends.tolist(), strict=True):
            if first == last or (clock == self.clocks.main and not self.clocks.has_steps(clock)):
                continue
            own = rows[order[first:last]]
            values = self.clocks.ns(clock, ns[own])
            if self.clocks.knows(clock):
                values = self.clocks.convert(clock, values)
            else:
                waits[own] = self._waits(clock)
            ns[own] = values


def _from_us(values: I64) -> I64:
    """Return us in ns, BAD for a time out of range."""
    good = (values >= 0) & (values < _MOST_US)
    return np.where(good, np.where(good, values, 0) * 1000, BAD)
