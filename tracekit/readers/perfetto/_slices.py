"""Slices of tracks: begins with their ends, values and moments as they are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64
from tracekit.columns.arrow import Column
from tracekit.readers.engine.pairing import MOST_OPEN, SLICES, drop_lost_ends, match, note_without_end
from tracekit.readers.packets.rows import BEGIN, END, ENDED, LOOSE, WHOLE
from tracekit.readers.perfetto._blocks import Blocks, Matched
from tracekit.readers.perfetto._lanes import Lanes, merged_args
from tracekit.safety.spill import Sorter, order_of
from tracekit.trace import Ledger, concat

_PIECE_ROWS = 1 << 16


class Slices:
    """Matches begins and ends; counts what became of their packets."""

    def __init__(self, lanes: Lanes, ledger: Ledger) -> None:
        self._lanes, self._ledger = lanes, ledger

    def ended(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the ends of begins, as ENDED. tables: LOOSE, by track and time.

        Begins that are open go on to the next piece of their track.
        """
        open_ = LOOSE.empty_table()
        pieces = _pieces(tables)
        table = next(pieces, None)
        while table is not None:
            following = next(pieces, None)
            whole = concat([open_, table], LOOSE).combine_chunks()
            found, open_ = self._piece(whole, last=following is None)
            yield found
            table = following

    def _piece(self, table: pa.Table, *, last: bool) -> tuple[pa.Table, pa.Table]:
        begins = arrow.ints(table.column("what")) == BEGIN
        track, packet = arrow.ints(table.column("track")), arrow.ints(table.column("packet"))
        names = [arrow.ints(table.column(name)).astype(np.int32) for name in ("name", "category")]
        for each in names:
            each[each == self._lanes.empty] = -1  # an empty name is none, as in Perfetto's engine
        partner = match(begins, track, SLICES, *names)
        alone = begins & (partner < 0)
        waits = np.zeros(len(track), np.bool_)
        if not last and len(track):
            waits = alone & (track == track[-1])
            open_ = np.flatnonzero(waits)
            if len(open_) > MOST_OPEN:
                text = f"more than {MOST_OPEN} slices of one track are open: the outermost have no end"
                self._ledger.note("too-many-open", text, len(open_) - MOST_OPEN)
                waits[open_[:-MOST_OPEN]] = False
        lost = np.flatnonzero(~begins & (partner < 0))
        self._ledger.merged += int(np.count_nonzero(~begins)) - len(lost)
        drop_lost_ends(self._ledger, "slices", "packet", packet[lost])
        note_without_end(self._ledger, "slices", "packet", packet[alone & ~waits])
        closed = np.flatnonzero(begins & (partner >= 0))
        ends = arrow.take(table.select(["ts", "args"]), partner[closed])
        place = arrow.array(arrow.ints(table.column("place"))[closed])
        columns = [place, *(arrow.in_one(ends.column(name)) for name in ("ts", "args"))]
        found = pa.Table.from_arrays(columns, schema=ENDED)
        return found, table.filter(arrow.array(waits))

    def batches(self, blocks: Blocks, ends: Sorter) -> Iterator[pa.RecordBatch]:
        """Yield the rows. ends: of the begins that have none in their block, by `place`."""
        self._lanes.add(blocks.tracks())
        others = _Ends(ends.tables())
        for block in blocks.blocks(last=True):
            yield from self._block(block, others.before(block.place + block.table.num_rows))

    def _block(self, block: Matched, others: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a block. others: the ends that stand elsewhere."""
        table, count = block.table, block.table.num_rows
        what, ts = arrow.ints(table.column("what")), arrow.ints(table.column("ts"))
        ends = what == END
        self._ledger.kept += int(np.count_nonzero(arrow.bools(table.column("primary")) & ~ends))
        self._ledger.merged += int(np.count_nonzero(ends & (block.partner >= 0)))
        closing = np.where(what == BEGIN, block.partner, -1)
        closing[arrow.ints(others.column("place")) - block.place] = count + np.arange(others.num_rows)
        end_ts = np.append(ts, arrow.ints(others.column("ts")))
        dur = np.where(what == WHOLE, arrow.ints(table.column("number")), -1)
        dur = np.where(closing >= 0, end_ts[closing] - ts, dur)
        end_args: Column = pa.concat_arrays([arrow.in_one(table.column("args")), arrow.in_one(others.column("args"))])
        with_args = arrow.valid(end_args) & (np.append(ends, np.ones(others.num_rows, np.bool_)))
        rows = np.flatnonzero(~ends)
        order = order_of([arrow.ints(table.column("track"))[rows], ts[rows]])
        rows = rows if order is None else rows[order]
        for first in range(0, len(rows), _PIECE_ROWS):
            mine = rows[first : first + _PIECE_ROWS]
            piece, args_of = arrow.take(table, mine), closing[mine]
            args_of = np.where((args_of >= 0) & with_args[args_of], args_of, -1)
            if (args_of >= 0).any():
                piece = self._lanes.spelled(piece)
            args = merged_args(arrow.in_one(piece.column("args")), end_args, args_of)
            yield self._lanes.batch(piece, dur[mine], args)


class _Ends:
    """Ends in order of the rows that they close."""

    def __init__(self, tables: Iterator[pa.Table]) -> None:
        self._tables = tables
        self._rest = ENDED.empty_table()

    def before(self, place: int) -> pa.Table:
        """Return those of the rows before a place that were not returned yet."""
        parts = []
        while True:
            known: I64 = arrow.ints(self._rest.column("place"))
            count = int(np.searchsorted(known, place))
            parts.append(self._rest.slice(0, count))
            self._rest = self._rest.slice(count)
            if self._rest.num_rows or (more := next(self._tables, None)) is None:
                return concat(parts, ENDED)
            self._rest = more


def _pieces(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows in tables that are not small."""
    parts: list[pa.Table] = []
    for table in tables:
        parts.append(table)
        if sum(part.num_rows for part in parts) >= _PIECE_ROWS:
            yield concat(parts, LOOSE)
            parts = []
    if parts:
        yield concat(parts, LOOSE)
