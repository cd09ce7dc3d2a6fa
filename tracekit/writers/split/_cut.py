"""Cuts: an event that is open at a cut ends there, and goes on in the next piece.

Both parts have a member `cut` in their args: start and duration of the whole event, and the number of the part from 1.
So the durations of all parts are that of the event, and each event has one part with number 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import orjson
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask
from tracekit.columns.arrow import Column, pc
from tracekit.writers.split._stored import Stored


@dataclass(frozen=True, slots=True)
class Open:
    """Events that are open at a cut: rows as they were read, and the number of the part that comes next.

    rows: None without any. part: shape (n,).
    """

    rows: pa.Table | None = None
    part: I64 = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(slots=True)
class Piece:
    """One piece: its events from a row on, up to a cut (None: to the end). The counts are complete once it is read.

    events: events that start in it. continued: parts of events that start before it. cut: parts that the end cuts.
    """

    stored: Stored
    row: int
    start_ns: int
    cut_ns: int | None
    opened: Open
    events: int = 0
    continued: int = 0
    cut: int = 0
    left_open: Open = field(default_factory=Open)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order of start."""
        self.events, self.continued, self.cut = 0, 0, 0
        left: list[tuple[pa.Table, I64]] = []
        held: list[tuple[pa.Table, I64]] = []
        if self.opened.rows is not None:
            self.continued = self.opened.rows.num_rows
            held.append((self.opened.rows, self.opened.part))
        for batch in self.stored.events(self.row):
            ts = arrow.ints(batch.column("ts_ns"))
            count = len(ts) if self.cut_ns is None else int(np.searchsorted(ts, self.cut_ns))
            self.events += count
            if count:
                held.append((pa.Table.from_batches([batch.slice(0, count)]), np.ones(count, np.int64)))
            # Events that start with the piece may last longer than events that go on in it, and then come before them.
            if count < len(ts) or (count and int(ts[count - 1]) > self.start_ns):
                yield from self._parts(held, left)
                held = []
            if count < len(ts):
                break
        yield from self._parts(held, left)
        self.cut = sum(len(part) for _, part in left)
        if left:
            rows = pa.concat_tables([rows for rows, _ in left]).unify_dictionaries()
            self.left_open = Open(rows, np.concatenate([part for _, part in left]))
        else:
            self.left_open = Open()

    def _parts(self, held: list[tuple[pa.Table, I64]], left: list[tuple[pa.Table, I64]]) -> Iterator[pa.RecordBatch]:
        """Yield the parts of rows that lie in the piece; what goes on after it is added to `left`."""
        if not held:
            return
        table = pa.concat_tables([rows for rows, _ in held]).unify_dictionaries().combine_chunks()
        part = np.concatenate([number for _, number in held])
        begin = arrow.ints(table.column("ts_ns"))
        lasting = arrow.ints(table.column("dur_ns"))
        start = np.maximum(begin, self.start_ns)
        stop = begin + lasting
        goes_on = np.zeros(len(part), np.bool_)
        if self.cut_ns is not None:
            goes_on = stop > self.cut_ns
            left.append((table.filter(arrow.array(goes_on)), part[goes_on] + 1)) if goes_on.any() else None
            stop = np.minimum(stop, self.cut_ns)
        changed = goes_on | (part > 1)
        if not changed.any():
            yield from table.to_batches()
            return
        dur = np.where(changed, stop - start, lasting)
        table = _with(table, "ts_ns", arrow.array(start))
        missing = ~arrow.valid(table.column("dur_ns"))
        table = _with(table, "dur_ns", arrow.array(dur, mask=missing))
        table = _with(table, "args", _marked(table.column("args").combine_chunks(), changed, begin, lasting, part))
        order = np.lexsort((-np.where(missing, -1, dur), start))
        yield from arrow.take(table, order).combine_chunks().to_batches()


def _with(table: pa.Table, name: str, values: Column) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), values)


def _marked(args: Column, changed: Mask, begin: I64, lasting: I64, part: I64) -> Column:
    """Return args with a member `cut` where `changed`. What is not a JSON object becomes its member args_text."""
    rows = np.flatnonzero(changed)
    out: list[str] = []
    for row, text in zip(rows.tolist(), arrow.optional_texts(arrow.take(args, rows)), strict=True):
        cut = f'"cut":{{"ts_ns":{begin[row]},"dur_ns":{lasting[row]},"part":{part[row]}}}'
        body = (text or "{}").strip()
        if not (body.startswith("{") and body.endswith("}")):
            body = f'{{"args_text":{orjson.dumps(body).decode()}}}'
        rest = body[1:-1].strip()
        out.append(f"{{{cut},{rest}}}" if rest else f"{{{cut}}}")
    place = np.full(len(changed), -1, np.int64)
    place[rows] = np.arange(len(rows))
    texts = arrow.array(out, pa.string()).take(arrow.array(place, mask=place < 0))
    return pc.if_else(arrow.array(changed), texts, args)
