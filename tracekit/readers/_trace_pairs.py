"""Begins and ends become rows: B and E by thread, b and e (and MXNet's frames) by their id.

Files are not sorted: what belongs together may stand anywhere, so begins and ends wait for the end of the file (some
hundred bytes each, names shared). On a thread, in this order:
1. events sorted by time in the file: a stack;
2. each E directly behind its own B (Mini-Caffe, MXNet): pairs as they stand;
3. else sorted by time, at one time ends before begins.
An end closes the innermost open begin of its name (an end without a name: the innermost of all), as Perfetto does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tracekit import schema
from tracekit.readers._json_scan import I64
from tracekit.readers._trace_rows import Rows
from tracekit.readers.builder import event_batch
from tracekit.trace import Ledger, concat

BATCH_ROWS = 1 << 16
Key = tuple[Any, ...]


@dataclass(slots=True)
class Pairs:
    """Takes the begins and ends of one file, gives their rows at the end."""

    ledger: Ledger
    _batches: list[pa.RecordBatch] = field(default_factory=list)
    _begins: list[Any] = field(default_factory=list)
    _keys: list[list[Key]] = field(default_factory=list)

    def add(self, rows: Rows, source: int, begins: Any, keys: list[Key]) -> None:
        """Take rows. begins: shape (count,). keys: what a begin and its end have in common, but for the name."""
        self._batches.append(event_batch(rows.count, rows.columns | {"source": source}))
        self._begins.append(begins)
        self._keys.append(keys)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Give the rows; counts kept, merged, dropped and events_out."""
        if not self._batches:
            return
        table = concat(self._batches, schema.EVENTS).combine_chunks()
        self._batches = []
        begin, end = self._matched(table)
        self.ledger.kept += len(begin)
        self.ledger.events_out += len(begin)
        rows = table.take(pa.array(begin))
        ts = table.column("ts_ns").to_numpy()
        known = end >= 0
        dur = np.where(known, ts[end] - ts[begin], 0)
        place = rows.schema.get_field_index
        rows = rows.set_column(place("dur_ns"), schema.EVENTS.field("dur_ns"), pa.array(dur, mask=~known))
        args = _joined_args(table.column("args").to_pylist(), begin, end)
        rows = rows.set_column(place("args"), schema.EVENTS.field("args"), pa.array(args, pa.string()))
        yield from rows.to_batches(max_chunksize=BATCH_ROWS)

    def _matched(self, table: pa.Table) -> tuple[I64, I64]:
        """Return the rows that begin something, and the row of the end of each, -1 where it has none."""
        begins = np.concatenate(self._begins)
        ts = table.column("ts_ns").to_numpy()
        keys: dict[Key, int] = {}
        lanes = np.array([keys.setdefault(k, len(keys)) for part in self._keys for k in part], np.int64)
        names = table.column("name").combine_chunks()
        name = names.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        order = np.argsort(lanes, kind="stable")
        bounds = np.flatnonzero(np.diff(lanes[order])) + 1
        partner = np.full(len(ts), -1, np.int64)
        lost: list[int] = []
        for rows in np.split(order, bounds):
            self._match_lane(_in_order(rows, ts, begins, name), begins, name, partner, lost)
        if lost:
            first = int(table.column("event_id").to_numpy()[min(lost)])
            self.ledger.drop(
                "end-without-begin",
                len(lost),
                where=f"event {first}",
                text="dropped: ends of ranges that did not begin",
            )
        starts = np.flatnonzero(begins)
        open_ = int((partner[starts] < 0).sum())
        if open_:
            self.ledger.note("open-range", "ranges have no end: their duration is not known", open_)
        matched = partner[starts]
        backwards = (matched >= 0) & (ts[matched] < ts[starts])
        if backwards.any():
            self.ledger.note(
                "negative-duration", "ranges end before they begin: kept as they stand", int(backwards.sum())
            )
        self.ledger.merged += len(starts) - open_
        return starts, matched

    def _match_lane(self, rows: I64, begins: Any, name: I64, partner: I64, lost: list[int]) -> None:
        stack: list[int] = []
        for row in rows.tolist():
            if begins[row]:
                stack.append(row)
                continue
            at = len(stack) - 1
            if name[row] >= 0:
                while at >= 0 and name[stack[at]] != name[row]:
                    at -= 1
            if at < 0:
                lost.append(row)
            else:
                partner[stack.pop(at)] = row


def _in_order(rows: I64, ts: I64, begins: Any, name: I64) -> I64:
    """Return the rows of a lane as a stack must see them."""
    times = ts[rows]
    if bool((times[1:] >= times[:-1]).all()):
        return rows
    pairs = rows[: len(rows) // 2 * 2]  # a cut file may end with a begin
    opens, closes = pairs[0::2], pairs[1::2]
    beside = begins[opens].all() and not begins[closes].any() and (name[opens] == name[closes]).all()
    if beside and (len(pairs) == len(rows) or begins[rows[-1]]):
        return rows
    return rows[np.lexsort((begins[rows], times))]


def _joined_args(args: list[str | None], begin: I64, end: I64) -> list[str | None]:
    """Return the args of begins, with what their ends add; where both say different things of one key, both stay."""
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
