"""The time of each packet on the clock of the trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.columns.arrays import I64, Mask
from tracekit.readers.engine.wire import WireMessage
from tracekit.readers.packets.clocks import Clock, Clocks, Shown, clock_of
from tracekit.readers.packets.fields import BOOTTIME, CLOCK, SNAPSHOT, TIMESTAMP
from tracekit.readers.packets.framing import Block
from tracekit.readers.packets.sequences import Stated
from tracekit.readers.packets.texts import distinct
from tracekit.units import MAX_NS

BAD = -1
_MONOTONIC = clock_of(0, 3)
_MOST_US = MAX_NS // 1000
Given = tuple[I64, Mask]
"""A number of each event, and whether it has it."""


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """The times of the packets of a block: ns, BAD for one out of range; of a clock in `Times.waiting` where `clock`
    is not -1. given: whether the packet has a time; else it has that of the latest packet before it.
    """

    ns: I64
    clock: I64
    given: Mask


class Times:
    """Converts the times of a file, block after block."""

    def __init__(self) -> None:
        self.clocks = Clocks()
        self.waiting: list[Clock] = []
        """Clocks that no snapshot so far relates to the clock of the trace."""
        self.snapshots = 0
        self.from_zero = False
        """Whether a snapshot says that BOOTTIME began at 0: tracekit writes so."""
        self._places: dict[Clock, int] = {}
        self._latest = 0
        self._passed: dict[int, int] = {}
        """How far the events of older producers have counted, us, by the statement from which they count."""

    def read(self, block: Block, stated: Stated) -> Timed:
        """Return the time of each packet."""
        count = block.count
        ns, has = block.fields.of(TIMESTAMP, 0).last(count)
        number, given = block.fields.of(CLOCK, 0).last(count)
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
        for one in np.unique(epoch[first >= 0]).tolist():
            own = np.flatnonzero((epoch == one) & (first >= 0))
            begin = self._passed.get(one, 0)
            sums = begin + np.cumsum(deltas[own].astype(np.float64))
            good = np.logical_and.accumulate((np.abs(sums) < _MOST_US) & (np.abs(deltas[own]) < _MOST_US))
            exact = begin + np.cumsum(np.where(good, deltas[own], 0))
            self._passed[one] = int(exact[-1])
            out[own] = np.where(good, _from_us(first[own] + exact), BAD)
        return out

    def _waits(self, clock: Clock) -> int:
        """Return the number of a clock that waits for its snapshot."""
        place = self._places.setdefault(clock, len(self.waiting))
        if place == len(self.waiting):
            self.waiting.append(clock)
        return place

    def _snapshots(self, block: Block) -> dict[int, list[tuple[list[Shown], int]]]:
        found: dict[int, list[tuple[list[Shown], int]]] = {}
        fields = block.fields.of(SNAPSHOT, 2)
        for row, at, end in zip(fields.row.tolist(), fields.at.tolist(), fields.ends.tolist(), strict=True):
            snapshot = WireMessage(block.data[at:end].tobytes())
            clocks = [WireMessage(each) for each in snapshot.each(1)]
            self.from_zero |= any(c.number(1) == BOOTTIME and not c.number(2) for c in clocks)
            shown = [Shown(c.number(1), c.number(2), c.number(3) != 0, c.number(4)) for c in clocks]
            found.setdefault(row, []).append((shown, snapshot.number(2)))
        return found

    def _convert(self, rows: I64, place: I64, clocks: list[Clock], ns: I64, waits: I64) -> None:
        """Convert the times of some packets, between which there is no snapshot."""
        if not len(rows):
            return
        for at in np.unique(place).tolist():
            clock = clocks[at]
            if clock == self.clocks.main and not self.clocks.has_steps(clock):
                continue
            own = rows[place == at]
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
