"""Slices of tracks: begins with their ends, values and moments as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Column, Mask, pc
from tracekit.model.trace import Ledger, concat
from tracekit.readers.engine.pairing import MOST_OPEN, SLICES, drop_lost_ends, match, match_by_depth, note_without_end
from tracekit.readers.packets.rows import BEGIN, END, ENDED, LOOSE, PIECE_ROWS, SCHEMA, WHOLE, in_pieces
from tracekit.readers.perfetto._lanes import PerfettoLanes, merged_args
from tracekit.safety.spill import Sorter, Spill, order_of

# Rows block by block, in the order of the file, with the slices that begin and end within a block.
#
# Of the others, narrow rows alone are sorted over the whole file. A pair within a block holds if no other block has an
# event of its track in between: events of a track that overlap in time with another block's are matched over the whole
# file, and so is every event of a track in which names of begins and ends disagree. All within such a pair is pairs
# too, so what is open around it does not depend on it.


STORED = SCHEMA.append(pa.field("partner", pa.int32()))
"""partner: row of the begin or end in the block, -1 for none."""
_NEVER, _FOREVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_SHOWN = ["track", "ts", "what", "packet", "name", "category", "value", "args", "shape", "held"]
"""Columns that rows are made of once their ends are known."""
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


@dataclass(frozen=True, slots=True, eq=False)
class _TrackTimes:
    """The time that each track has in a block. tracks: that have begins or ends. first, last: their times.

    first: one less where another block may have had rows of the same time before. until: what a pair must have ended
    by, so that no later block has an event within it; known when all blocks are.
    """

    tracks: I64
    first: I64
    last: I64
    until: I64


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
        self._spans: dict[int, _TrackTimes] = {}
        """By the place of the first row of a block."""
        self._taken = 0
        self._complete = False

    def add(self, table: pa.Table) -> None:
        """Take the rows of a block, in the order of the file."""
        partner = self._matched(table)
        self._tables.append(table.append_column(STORED.field("partner"), arrow.array(partner.astype(np.int32))))
        self._rows += table.num_rows
        self._taken += table.num_rows
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
            loose_rows = arrow.take(block.table.select([*_SAME, "args"]), rows)
            ends = arrow.array(arrow.ints(loose_rows.column("what")) == END)
            args = pc.if_else(ends, arrow.in_one(loose_rows.column("args")), pa.scalar(None, pa.string()))
            columns = [arrow.in_one(loose_rows.column(name)) for name in _SAME]
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
        self._complete_spans()
        partner = arrow.ints(table.column("partner"))
        apart = arrow.ints(table.column("what")) <= END
        alone = partner < 0
        if self._odd.any():
            alone |= self._odd[arrow.ints(table.column("track"))]
        spans = self._spans.get(place)
        if spans is not None and (spans.last > spans.until).any():
            until = np.full(len(self._odd), _FOREVER)
            until[spans.tracks] = spans.until
            ts = arrow.ints(table.column("ts"))
            # The end of a pair is the later one of the two; without a partner the place is that of some other row.
            alone |= np.maximum(ts, ts[partner]) > until[arrow.ints(table.column("track"))]
        apart &= alone
        return Matched(table, np.where(apart, -1, partner), apart, place)

    def _complete_spans(self) -> None:
        """Set `until` of all blocks."""
        if self._complete:
            return
        self._complete = True
        following = np.full(len(self._odd), _FOREVER)
        for spans in reversed(self._spans.values()):
            spans.until[:] = following[spans.tracks]
            following[spans.tracks] = np.minimum(spans.until, spans.first)

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
        tracks = track[first]
        # Of rows with the same time, those of blocks that had to wait for a clock may be the first of the file.
        before = self._latest[tracks] + late
        self._latest[tracks] = np.maximum(self._latest[tracks], ts[last])
        self._spans[self._taken] = _TrackTimes(tracks, ts[first] - late, ts[last], np.empty(len(tracks), np.int64))
        texts = [arrow.ints(table.column(name))[rows].astype(np.int32) for name in ("name", "category")]
        for each in texts:
            each[each == self._empty] = -1  # an empty name is none, as in Perfetto's engine
        partner_place, odd = match_by_depth(what[rows] == BEGIN, track, SLICES, *texts)
        self._odd[track[odd]] = True
        pairs = partner_place >= 0
        if (ts[first] < before).any():
            # The begin of a pair is the earlier one of the two.
            begun = np.minimum(ts, ts[partner_place])
            pairs &= begun >= np.repeat(before, last - first + 1)
        partner[rows] = np.where(pairs, rows[partner_place], -1)
        return partner

    def _grow(self, count: int) -> None:
        if count > len(self._odd):
            more = max(count, 2 * len(self._odd)) - len(self._odd)
            self._latest = np.append(self._latest, np.full(more, _NEVER))
            self._odd = np.append(self._odd, np.zeros(more, np.bool_))
            self._used = np.append(self._used, np.zeros(more, np.bool_))


class Slices:
    """Matches begins and ends; counts what became of their packets."""

    def __init__(self, lanes: PerfettoLanes, ledger: Ledger) -> None:
        self._lanes, self._ledger = lanes, ledger

    def ended(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the ends of begins, as ENDED. tables: LOOSE, by track and time.

        Begins that are open go on to the next piece of their track.
        """
        open_ = LOOSE.empty_table()
        pieces = in_pieces(tables, LOOSE)
        table = next(pieces, None)
        while table is not None:
            following = next(pieces, None)
            whole = concat([open_, table], LOOSE).combine_chunks()
            ended_rows, open_ = self._piece(whole, last=following is None)
            yield ended_rows
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
        ended_rows = pa.Table.from_arrays(columns, schema=ENDED)
        return ended_rows, table.filter(arrow.array(waits))

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
        for first in range(0, len(rows), PIECE_ROWS):
            at_once = rows[first : first + PIECE_ROWS]
            piece, args_of = arrow.take(table.select(_SHOWN), at_once), closing[at_once]
            args_of = np.where((args_of >= 0) & with_args[args_of], args_of, -1)
            if (args_of >= 0).any():
                piece = self._lanes.spelled(piece)
            args = merged_args(arrow.in_one(piece.column("args")), end_args, args_of)
            yield self._lanes.batch(piece, dur[at_once], args)


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
