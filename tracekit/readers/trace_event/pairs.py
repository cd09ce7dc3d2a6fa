"""Begins and ends become rows: B and E by thread, b and e (and MXNet's frames) by their id.

Files are not sorted: begin and end may be anywhere, and which rule holds for a lane (a thread, an id) is
known only when all of it was seen. So begins and ends wait for the end of the file, on disk where they are more than
65,536, by lane. Then each lane, in this order:
1. events sorted by time in the file: a stack;
2. each E directly behind its own B (Mini-Caffe, MXNet): pairs in the order of the file;
3. else sorted by time, at one time ends before begins.
An end closes the innermost open begin of its name (an end without a name: the innermost of all), as Perfetto does.
Memory: one chunk of rows, and the begins of one lane that are open, at most `pairing.MOST_OPEN`.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator

import numpy as np
import pyarrow as pa

from tracekit.model import arrow, schema, sets
from tracekit.model.arrow import I64, Column, Mask
from tracekit.model.trace import Ledger, concat
from tracekit.readers.builder import event_batch
from tracekit.readers.engine import pairing
from tracekit.readers.trace_event.plan import EventRows
from tracekit.safety.spill import Sorter, Spill, by_columns

__all__ = ["LONG_ROWS", "Pairs"]

BATCH_ROWS = 1 << 16
LONG_ROWS = 1 << 16
"""A lane with more rows than this is matched piece by piece."""
LANES = ("lane_0", "lane_1", "lane_2")
WAITING = pa.schema(
    [
        *schema.EVENTS,
        *(pa.field(name, pa.int64()) for name in LANES),
        pa.field("begins", pa.int64()),
        pa.field("seq", pa.int64()),
    ]
)

Lanes = tuple[I64, I64, I64]
"""Columns in which a begin and its end agree, besides the name: three numbers a row."""


class Pairs:
    """Takes the begins and ends of one file, yields their rows at the end. `close` removes the temporary files."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._spill = Spill(WAITING)
        self._sorter = Sorter(self._spill, by_columns(*LANES, "seq"))
        self._count = 0

    def close(self) -> None:
        """Remove the temporary files."""
        self._spill.close()

    def add(self, rows: EventRows, source: int | Column, begins: Mask, lanes: Lanes) -> None:
        """Take rows. source: one number or an array. begins: shape (count,), whether a row begins something."""
        batch = event_batch(rows.count, {**rows.columns, "source": source})
        own = (*lanes, begins.astype(np.int64), np.arange(self._count, self._count + rows.count))
        self._count += rows.count
        arrays = [*batch.columns, *(arrow.array(values) for values in own)]
        self._sorter.add(pa.Table.from_arrays(arrays, schema=WAITING))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; counts kept, merged, dropped and events_out."""
        tables = self._sorter.tables()
        left: pa.Table | None = None
        while (table := next(tables, None)) is not None:
            left = table if left is None else _together([left, table])
            last = _last_lane(left)
            if last:
                yield from self._whole_lanes(left.slice(0, last))
                left = left.slice(last)
            if left.num_rows >= LONG_ROWS:
                left = yield from self._long_lane(left, tables)
        if left is not None:
            yield from self._whole_lanes(left)

    def _whole_lanes(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the rows of lanes that are all there."""
        match = _Match(table)
        columns = [table.column(name).to_numpy() for name in LANES]
        changes = np.any([column[1:] != column[:-1] for column in columns], axis=0)
        match.run(_in_order(match, changes), np.append(0, np.cumsum(changes)))
        yield from self._rows(match, match.all_begins())

    def _long_lane(
        self, first: pa.Table, tables: Iterator[pa.Table]
    ) -> Generator[pa.RecordBatch, None, pa.Table | None]:
        """Yield the rows of a lane that begins with `first`; return the rows behind it that were taken."""
        rule = _Rule()
        behind: list[pa.Table | None] = [None]

        def lane() -> Iterator[pa.Table]:
            rule.see(first)
            yield first
            own = [first.column(name)[0].as_py() for name in LANES]
            for table in tables:
                end = _up_to_lane(table, own)
                if end:
                    rule.see(table.slice(0, end))
                    yield table.slice(0, end)
                if end < table.num_rows:
                    behind[0] = table.slice(end)
                    return

        file = self._spill.write(lane())
        rows: Iterator[pa.Table] = self._spill.read(file)
        if rule.by_time():
            sorter = Sorter(self._spill, by_columns("ts_ns", "begins", "seq"))
            for table in rows:
                sorter.add(table)
            rows = sorter.tables()
        open_: pa.Table | None = None
        for table in rows:
            match = _Match(table if open_ is None else _together([open_, table]))
            match.run(np.arange(len(match.ts)))
            done = match.all_begins()
            without_end = done[match.partner[done] < 0]
            forgotten, waiting = np.split(without_end, [max(0, len(without_end) - pairing.MOST_OPEN)])
            if len(forgotten):
                most = pairing.MOST_OPEN
                text = f"more than {most} ranges of one lane are open: the outermost were given without an end"
                self.ledger.note("too-many-open", text, len(forgotten))
            yield from self._rows(match, sets.without(done, waiting))
            open_ = arrow.take(match.table, waiting) if len(waiting) else None
        if open_ is not None:
            match = _Match(open_)
            yield from self._rows(match, match.all_begins())
        return behind[0]

    def _rows(self, match: _Match, begin: I64) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some begins, in order of the file."""
        self._account(match, begin)
        if not len(begin):
            return
        begin = begin[np.argsort(match.seq[begin])]
        end = match.partner[begin]
        known = end >= 0
        rows = match.table.select(schema.EVENTS.names)
        rows = arrow.take(rows, begin)
        dur = np.where(known, match.ts[end] - match.ts[begin], 0)
        rows = arrow.with_column(rows, "dur_ns", arrow.array(dur, mask=~known))
        args = _joined_args(match.table.column("args").to_pylist(), begin, end)
        rows = arrow.with_column(rows, "args", arrow.array(args, pa.string()))
        yield from rows.replace_schema_metadata(schema.EVENTS.metadata).to_batches(max_chunksize=BATCH_ROWS)

    def _account(self, match: _Match, begin: I64) -> None:
        ledger, numbers = self.ledger, match.table.column("event_id").to_numpy()
        pairing.drop_lost_ends(ledger, "ranges", "event", numbers[match.lost])
        end = match.partner[begin]
        unended = begin[end < 0]
        pairing.note_without_end(ledger, "ranges", "event", numbers[unended])
        backwards = (end >= 0) & (match.ts[end] < match.ts[begin])
        if backwards.any():
            ledger.note("negative-duration", "ranges end before they begin: kept as they are", int(backwards.sum()))
        ledger.kept += len(begin)
        ledger.events_out += len(begin)
        ledger.merged += len(begin) - len(unended)


class _Match:
    """Rows of WAITING and who ends whom among them. partner: row of the end of each begin, -1 where there is none."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()
        self.ts: I64 = self.table.column("ts_ns").to_numpy()
        self.seq: I64 = self.table.column("seq").to_numpy()
        self.begins: Mask = self.table.column("begins").to_numpy() != 0
        self.name = arrow.codes(self.table.column("name").chunks[0]).astype(np.int64)
        self.partner: I64 = np.full(len(self.ts), -1, np.int64)
        self.lost = np.empty(0, np.int64)

    def all_begins(self) -> I64:
        """Return the rows that begin something."""
        return np.flatnonzero(self.begins)

    def run(self, rows: I64, lane: I64 | None = None) -> None:
        """Match rows in this order. lane: of each row, ascending; None for rows of one lane."""
        begins = self.begins[rows]
        partner = pairing.match(begins, lane, pairing.TRACE_EVENT, self.name[rows])
        ended = np.flatnonzero(begins & (partner >= 0))
        self.partner[rows[ended]] = rows[partner[ended]]
        self.lost = rows[~begins & (partner < 0)]


class _Rule:
    """The rule for a lane that is seen piece by piece: sort it by time or not."""

    def __init__(self) -> None:
        self._sorted = self._beside = True
        self._last: int | None = None
        self._odd: pa.Table | None = None

    def see(self, table: pa.Table) -> None:
        """Look at the next rows of the lane."""
        ts = table.column("ts_ns").to_numpy()
        self._sorted &= bool((ts[1:] >= ts[:-1]).all()) and (self._last is None or int(ts[0]) >= self._last)
        self._last = int(ts[-1])
        if self._beside:
            match = _Match(table if self._odd is None else _together([self._odd, table]))
            even = len(match.ts) // 2 * 2
            self._beside = _are_beside(np.arange(even), match)
            self._odd = match.table.slice(even) if even < len(match.ts) else None

    def by_time(self) -> bool:
        """Return whether neither rule 1 nor rule 2 holds."""
        rest = self._odd is None or bool(self._odd.column("begins")[0].as_py())  # a cut file may end with a begin
        return not self._sorted and not (self._beside and rest)


def _together(tables: list[pa.Table]) -> pa.Table:
    return concat(tables, WAITING).combine_chunks()


def _last_lane(table: pa.Table) -> int:
    """Return the row at which the last lane begins."""
    columns = [table.column(name).to_numpy() for name in LANES]
    other = np.flatnonzero(np.any([column != column[-1] for column in columns], axis=0))
    return int(other[-1]) + 1 if len(other) else 0


def _up_to_lane(table: pa.Table, lane: list[int]) -> int:
    """Return how many rows at the begin are of this lane."""
    columns = [table.column(name).to_numpy() for name in LANES]
    other = np.flatnonzero(np.any([c != value for c, value in zip(columns, lane, strict=True)], axis=0))
    return int(other[0]) if len(other) else table.num_rows


def _in_order(match: _Match, changes: Mask) -> I64:
    """Return the rows as a stack must see them, lane by lane. changes: shape (n - 1,), where a lane ends."""
    rows = np.arange(len(match.ts))
    later = np.flatnonzero(~changes & (match.ts[1:] < match.ts[:-1]))
    if not len(later):
        return rows
    heads = np.append(0, np.flatnonzero(changes) + 1)
    stops = np.append(heads[1:], len(rows))
    for at in sets.unique(np.searchsorted(heads, later, "right") - 1).tolist():
        lane = rows[heads[at] : stops[at]]
        even = len(lane) // 2 * 2  # a cut file may end with a begin
        if not _are_beside(lane[:even], match) or (even < len(lane) and not match.begins[lane[-1]]):
            lane[:] = lane[np.lexsort((match.begins[lane], match.ts[lane]))]
    return rows


def _are_beside(rows: I64, match: _Match) -> bool:
    opens, closes = rows[0::2], rows[1::2]
    begins, name = match.begins, match.name
    return bool(begins[opens].all() and not begins[closes].any() and (name[opens] == name[closes]).all())


def _joined_args(args: list[str | None], begin: I64, end: I64) -> list[str | None]:
    """Return the args of begins, with what their ends add; where they differ in a key, both stay."""
    out: list[str | None] = []
    for first, last in zip(begin.tolist(), end.tolist(), strict=True):
        one, two = args[first], args[last] if last >= 0 else None
        if two is None or one == two:
            out.append(one)
        elif one is None:
            out.append(two)
        else:
            out.append(_two(one, two))
    return out


def _two(one: str, two: str) -> str:
    try:
        mine, more = json.loads(one), json.loads(two)
    except (ValueError, RecursionError):
        mine, more = {"": None}, {"": None}
    if mine.keys() & more.keys() or "end_args" in mine:
        same = {k for k in mine.keys() & more.keys() if mine[k] == more[k]}
        if same == more.keys():
            return one
        return f'{one[:-1]}{"," if len(one) > 2 else ""}"end_args":{two}}}'
    return f"{one[:-1]}{',' if mine and more else ''}{two[1:]}"
