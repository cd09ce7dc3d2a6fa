"""Slices out of begins and ends, and all other rows, track after track."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask
from tracekit.readers.packets.pairs import MOST_OPEN, match
from tracekit.readers.packets.rows import BEGIN, END, SCHEMA, WHOLE
from tracekit.readers.perfetto._blocks import Blocks
from tracekit.readers.perfetto._lanes import Lanes, merged_args
from tracekit.readers.trace_event.spill import Sorter, order_of
from tracekit.trace import Ledger, concat

_PIECE_ROWS = 1 << 16


class Slices:
    """Takes rows by track and time; counts what became of their packets."""

    def __init__(self, lanes: Lanes, ledger: Ledger) -> None:
        self._lanes, self._ledger = lanes, ledger

    def matched(self, blocks: Blocks, others: Sorter) -> Iterator[pa.RecordBatch]:
        """Yield the rows of blocks; `others` takes those that have their begin or end in another block."""
        self._lanes.add(blocks.tracks())
        for table, partner, apart in blocks.tables():
            if apart.any():
                others.add(table.filter(arrow.array(apart)))
            what = arrow.ints(table.column("what"))
            self._account(table, what, partner, apart)
            shown = np.flatnonzero((what != END) & ~apart)
            keys = [arrow.ints(table.column(key))[shown] for key in ("track", "ts")]
            order = order_of(keys)
            yield from self._rows(table, what, partner, shown if order is None else shown[order])

    def batches(self, tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield the rows. Begins that are open go on to the next piece of their track."""
        open_: pa.Table | None = None
        pieces = _pieces(tables)
        table = next(pieces, None)
        while table is not None:
            following = next(pieces, None)
            whole = table if open_ is None else concat([open_, table], SCHEMA)
            open_ = yield from self._piece(whole.combine_chunks(), last=following is None)
            table = following

    def _piece(self, table: pa.Table, *, last: bool) -> Generator[pa.RecordBatch, None, pa.Table | None]:
        what = arrow.ints(table.column("what"))
        track = arrow.ints(table.column("track"))
        paired = np.flatnonzero((what == BEGIN) | (what == END))
        names = [arrow.ints(table.column(name))[paired].astype(np.int32) for name in ("name", "category")]
        partner = np.full(len(what), -1, np.int64)
        for each in names:
            each[each == self._lanes.empty] = -1  # an empty name is none, as in Perfetto's engine
        found = match(track[paired], what[paired] == BEGIN, *names)
        partner[paired] = np.where(found >= 0, paired[found], -1)
        waits = np.zeros(len(what), np.bool_)
        if not last and len(what):
            waits = (what == BEGIN) & (partner < 0) & (track == track[-1])
            open_ = np.flatnonzero(waits)
            if len(open_) > MOST_OPEN:
                text = f"more than {MOST_OPEN} slices of one track are open: the outermost have no end"
                self._ledger.note("too-many-open", text, len(open_) - MOST_OPEN)
                waits[open_[:-MOST_OPEN]] = False
        self._account(table, what, partner, waits)
        yield from self._rows(table, what, partner, np.flatnonzero((what != END) & ~waits))
        return table.filter(arrow.array(waits)) if waits.any() else None

    def _account(self, table: pa.Table, what: I64, partner: I64, waits: Mask) -> None:
        ledger = self._ledger
        packet = arrow.ints(table.column("packet"))
        primary = arrow.bools(table.column("primary"))
        ends = what == END
        ledger.kept += int(np.count_nonzero(primary & ~ends & ~waits))
        ledger.merged += int(np.count_nonzero(ends & (partner >= 0) & ~waits))
        lost = np.flatnonzero(ends & (partner < 0) & ~waits)
        if len(lost):
            text = "dropped: ends of slices that did not begin"
            ledger.drop("end-without-begin", len(lost), where=f"packet {int(packet[lost].min())}", text=text)
        unended = np.flatnonzero((what == BEGIN) & (partner < 0) & ~waits)
        if len(unended):
            text = "slices have no end: their duration is not known"
            ledger.note("open-range", text, len(unended), where=f"packet {int(packet[unended].min())}")

    def _rows(self, table: pa.Table, what: I64, partner: I64, rows: I64) -> Iterator[pa.RecordBatch]:
        ended = np.flatnonzero((what == END) & arrow.valid(table.column("args")))
        for first in range(0, len(rows), _PIECE_ROWS):
            mine = rows[first : first + _PIECE_ROWS]
            other = partner[mine]
            ts, number = arrow.ints(table.column("ts")), arrow.ints(table.column("number"))
            closed = (what[mine] == BEGIN) & (other >= 0)
            whole = what[mine] == WHOLE
            dur = np.where(closed, ts[other] - ts[mine], np.where(whole, number[mine], -1))
            piece = arrow.take(table, mine)
            if len(ended) and np.isin(other[closed], ended).any():
                piece = self._lanes.spelled(piece)
            args = merged_args(piece.column("args"), table.column("args"), np.where(closed, other, -1))
            yield self._lanes.batch(piece, dur, args)


def _pieces(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows in tables that are not small."""
    parts: list[pa.Table] = []
    for table in tables:
        parts.append(table)
        if sum(part.num_rows for part in parts) >= _PIECE_ROWS:
            yield concat(parts, SCHEMA)
            parts = []
    if parts:
        yield concat(parts, SCHEMA)
