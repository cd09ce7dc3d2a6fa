"""The time of each packet on the clock of the trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.columns.arrays import I64
from tracekit.readers.packets.clocks import Clock, Clocks, Shown, clock_of
from tracekit.readers.packets.fields import BOOTTIME, CLOCK, SNAPSHOT, TIMESTAMP
from tracekit.readers.packets.framing import Block
from tracekit.readers.packets.message import Message
from tracekit.readers.packets.sequences import Stated
from tracekit.readers.packets.texts import distinct
from tracekit.units import MAX_NS

BAD = -1


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """The times of the packets of a block: ns, BAD for one out of range; of a clock in `Times.waiting` where `clock`
    is not -1.
    """

    ns: I64
    clock: I64


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
        return Timed(ns, waits)

    def _snapshots(self, block: Block) -> dict[int, list[tuple[list[Shown], int]]]:
        found: dict[int, list[tuple[list[Shown], int]]] = {}
        fields = block.fields.of(SNAPSHOT, 2)
        for row, at, end in zip(fields.row.tolist(), fields.at.tolist(), fields.ends.tolist(), strict=True):
            snapshot = Message(block.data[at:end].tobytes())
            clocks = [Message(each) for each in snapshot.each(1)]
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
                waits[own] = self._places.setdefault(clock, len(self.waiting))
                if len(self._places) > len(self.waiting):
                    self.waiting.append(clock)
            ns[own] = values
