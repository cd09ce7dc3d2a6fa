"""Inputs read batch by batch into sums: what the facts of a run need of the rows, and what views add up themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa

from tracekit.index.batch_sums import BatchSums
from tracekit.inputs.stream import Inputs, LookedAt
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema
from tracekit.model.schema import Kind
from tracekit.model.trace import Trace, concat

__all__ = ["BatchSums", "SummedTrace", "add_up"]

_NONE = np.iinfo(np.int64).min
"""Stands for a process that a row does not state."""


@dataclass(frozen=True, slots=True)
class SummedTrace:
    """A trace of a few rows that begin and end where all rows do. events: how many there are."""

    trace: Trace
    events: int


def add_up(joined: Inputs, sums: Sequence[BatchSums], columns: Sequence[str]) -> SummedTrace | None:
    """Return the inputs added up, with these columns of EVENTS; None where something needs all events at once.

    Then the inputs are to be read once more. Memory does not grow with them, but for `Inputs.work`.
    Raises: TracekitError.
    """
    if not all(each.fits(joined.readers()) for each in sums):
        return None
    # Less is looked at than where all events are kept, so less is read.
    looked_at = {"pid", "source", "ts_ns", "dur_ns"}.union(*(each.columns for each in sums))
    args_of = frozenset[str]().union(*(each.args_of for each in sums))
    stream = joined.stream(order=False, looked_at=LookedAt(frozenset(looked_at), args_of))
    rows, totals = _ProcessSpans(), list[pa.RecordBatch]()
    if not all(each.fits(joined.formats) for each in sums):
        return None
    for batch in stream.batches:
        if schema.is_totals(batch):
            totals.append(batch)
        elif batch.num_rows:
            rows.take(batch)
            if not all(each.take(batch) for each in sums):
                return None
    failures = joined.bad()
    # The facts of a run are complete at its end.
    formats = {facts.format for facts in stream.run.sources}
    if not all(each.fits(formats) for each in sums):
        return None
    # A duration that cannot be was added to a sum.
    if joined.work is not None and joined.work.covers():
        return None
    trace = Trace(rows.table(columns), concat(totals, schema.TOTALS), stream.run, stream.ledgers, failures)
    return SummedTrace(trace, rows.count)


@dataclass(slots=True)
class _ProcessSpans:
    """First start and last end of the rows of each process: a file may hold several runs, each on its own clock."""

    count: int = 0
    _spans: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def take(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch."""
        self.count += batch.num_rows
        starts, lengths = arrow.ints(batch.column("ts_ns")), arrow.ints(batch.column("dur_ns"))
        ends = starts + np.maximum(lengths, 0)
        source, pid = arrow.ints(batch.column("source")), arrow.ints_or_least(batch.column("pid"))
        if (source == source[0]).all() and (pid == pid[0]).all():
            self._put((int(source[0]), int(pid[0])), int(starts.min()), int(ends.max()))
            return
        keys, code = np.unique(np.column_stack((source, pid)), axis=0, return_inverse=True)
        first, last = np.full(len(keys), np.iinfo(np.int64).max), np.full(len(keys), _NONE)
        np.minimum.at(first, code.reshape(-1), starts)
        np.maximum.at(last, code.reshape(-1), ends)
        for (number, process), begin, end in zip(keys.tolist(), first.tolist(), last.tolist(), strict=True):
            self._put((number, process), begin, end)

    def _put(self, key: tuple[int, int], begin: int, end: int) -> None:
        known = self._spans.get(key, (begin, end))
        self._spans[key] = min(known[0], begin), max(known[1], end)

    def table(self, columns: Sequence[str]) -> pa.Table:
        """Return a mark from the first start to the last end of each process, as EVENTS with these columns."""
        keys, spans = np.array([*self._spans], np.int64).reshape(-1, 2), np.array([*self._spans.values()], np.int64)
        spans = spans.reshape(-1, 2)
        known = {
            "ts_ns": arrow.array(spans[:, 0]),
            "dur_ns": arrow.array(spans[:, 1] - spans[:, 0]),
            "event_id": arrow.array(np.arange(len(keys))),
            "kind": arrow.array([str(Kind.MARK)] * len(keys), schema.EVENTS.field("kind").type),
            "source": arrow.array(keys[:, 0]),
            "pid": arrow.array(keys[:, 1], mask=keys[:, 1] == _NONE),
        }
        fields = [schema.EVENTS.field(name) for name in columns]
        return pa.table(
            [
                known[each.name].cast(each.type) if each.name in known else arrow.nulls(len(keys), each.type)
                for each in fields
            ],
            schema=pa.schema(fields).with_metadata(schema.EVENTS.metadata),
        )
