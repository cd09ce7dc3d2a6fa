"""Rows block by block, in the order of the file, with the slices that begin and end within a block.

Of the others, narrow rows alone are sorted over the whole file. A track of which a block has an event that is older
than one of a block before, or in which names of begins and ends disagree, is not matched here at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask
from tracekit.columns.arrow import pc
from tracekit.readers.engine.pairing import SLICES, match_by_depth
from tracekit.readers.packets.rows import BEGIN, END, LOOSE, SCHEMA
from tracekit.safety.spill import Spill, order_of

STORED = SCHEMA.append(pa.field("partner", pa.int32()))
"""partner: row of the begin or end in the block, -1 for none."""
_NEVER = np.iinfo(np.int64).min
_SAME = [name for name in LOOSE.names if name not in ("place", "args")]


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """The rows of a block. partner: row of the begin or end in the block, -1 for none. apart: begins and ends that
    have it elsewhere, or have none. place: number of the first row among all rows.
    """

    table: pa.Table
    partner: I64
    apart: Mask
    place: int


class Blocks:
    """Takes the rows of blocks, and gives them when all were taken. More than `most_rows` are on disk.

    empty: the number of the empty text.
    """

    def __init__(self, spill: Spill, most_rows: int, empty: int) -> None:
        self._spill, self._most, self._empty = spill, most_rows, empty
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._files: list[Path] = []
        self._latest = np.empty(0, np.int64)
        self._latest_seq = -1
        self._odd = np.empty(0, np.bool_)
        self._used = np.empty(0, np.bool_)

    def add(self, table: pa.Table) -> None:
        """Take the rows of a block, in the order of the file."""
        partner = self._matched(table)
        self._tables.append(table.append_column(STORED.field("partner"), arrow.array(partner.astype(np.int32))))
        self._rows += table.num_rows
        if self._rows >= self._most:
            self._files.append(self._spill.write(self._tables, self._rows))
            self._tables, self._rows = [], 0

    def tracks(self) -> I64:
        """Return the tracks that have rows of their own, not ends alone, in order of their numbers."""
        return np.flatnonzero(self._used)

    def loose(self) -> Iterator[pa.Table]:
        """Yield the begins and ends that have no partner in their block, as LOOSE."""
        for block in self.blocks():
            rows = np.flatnonzero(block.apart)
            if not len(rows):
                continue
            found = arrow.take(block.table.select([*_SAME, "args"]), rows)
            ends = arrow.array(arrow.ints(found.column("what")) == END)
            args = pc.if_else(ends, arrow.in_one(found.column("args")), pa.scalar(None, pa.string()))
            columns = [arrow.in_one(found.column(name)) for name in _SAME]
            yield pa.Table.from_arrays([*columns, arrow.array(block.place + rows), args], schema=LOOSE)

    def blocks(self, *, last: bool = False) -> Iterator[Matched]:
        """Yield the blocks. last: they will not be asked for again."""
        place = 0
        for path in self._files:
            for table in self._spill.read(path, keep=not last):
                yield self._known(table, place)
                place += table.num_rows
        tables = self._tables
        if last:
            self._tables = []
        for table in tables:
            yield self._known(table, place)
            place += table.num_rows

    def _known(self, table: pa.Table, place: int) -> Matched:
        partner = arrow.ints(table.column("partner"))
        apart = arrow.ints(table.column("what")) <= END
        apart &= (partner < 0) | self._odd[arrow.ints(table.column("track"))]
        return Matched(table, np.where(apart, -1, partner), apart, place)

    def _matched(self, table: pa.Table) -> I64:
        track = arrow.ints(table.column("track"))
        self._grow(int(track.max()) + 1 if len(track) else 0)
        what = arrow.ints(table.column("what"))
        self._used[track[what != END]] = True
        partner = np.full(len(what), -1, np.int64)
        rows = np.flatnonzero(what <= END)
        if not len(rows):
            return partner
        seq = arrow.ints(table.column("seq"))
        late, self._latest_seq = int(seq[0]) < self._latest_seq, max(self._latest_seq, int(seq[-1]))
        ts = arrow.ints(table.column("ts"))[rows]
        track = track[rows]
        order = order_of([track, ts])
        if order is not None:
            rows, track, ts = rows[order], track[order], ts[order]
        first = np.flatnonzero(np.append(True, track[1:] != track[:-1]))
        last = np.append(first[1:], len(track)) - 1
        own = track[first]
        # Of rows with the same time, those of blocks that had to wait for a clock may be the first of the file.
        self._odd[own] |= ts[first] < self._latest[own] + late
        self._latest[own] = np.maximum(self._latest[own], ts[last])
        texts = [arrow.ints(table.column(name))[rows].astype(np.int32) for name in ("name", "category")]
        for each in texts:
            each[each == self._empty] = -1  # an empty name is none, as in Perfetto's engine
        found, odd = match_by_depth(what[rows] == BEGIN, track, SLICES, *texts)
        self._odd[track[odd]] = True
        partner[rows] = np.where(found >= 0, rows[found], -1)
        return partner

    def _grow(self, count: int) -> None:
        if count > len(self._odd):
            more = max(count, 2 * len(self._odd)) - len(self._odd)
            self._latest = np.append(self._latest, np.full(more, _NEVER))
            self._odd = np.append(self._odd, np.zeros(more, np.bool_))
            self._used = np.append(self._used, np.zeros(more, np.bool_))
