"""Several inputs as one stream in order of start; a stream out of order is sorted on disk on the way.

`safety.spill` sorts and merges, in bounded memory: a merge holds one batch of each source, a sort one chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from tracekit.errors import OutOfOrderError
from tracekit.model import arrow, schema
from tracekit.model.arrow import I64
from tracekit.safety import spill

__all__ = ["FAN_IN", "SORT_ROWS", "OrderCheck", "checked", "in_order", "merged"]

SORT_ROWS = 1 << 18
"""Rows sorted at once in memory; each such chunk becomes one temporary file."""
FAN_IN = 64
"""Temporary files merged at once; more are merged in rounds."""
_PIECE_ROWS = 1 << 14
"""Rows of each temporary file that are in memory while files are merged."""


def _keys(rows: pa.RecordBatch | pa.Table) -> tuple[I64, I64]:
    """Return ts and -dur: the order of a trace, a missing duration last."""
    return arrow.ints(rows.column("ts_ns")), -arrow.ints(rows.column("dur_ns"), -1)


class OrderCheck:
    """The check that a stream is in order as its format promises; rows within one batch are sorted."""

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch in order; TOTALS have none.

        Raises: OutOfOrderError where it begins before rows of an earlier one.
        """
        if schema.is_totals(batch) or not batch.num_rows:
            return batch
        ts, neg = _keys(batch)
        if (order := spill.order_of((ts, neg))) is not None:
            batch, ts, neg = arrow.take(batch, order), ts[order], neg[order]
        if self._last is not None and (int(ts[0]), int(neg[0])) < self._last:
            raise OutOfOrderError
        self._last = int(ts[-1]), int(neg[-1])
        return batch


def checked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the batches of a stream in order. Raises: OutOfOrderError, as `OrderCheck`."""
    return map(OrderCheck().take, batches)


def in_order(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows by (ts_ns, -dur_ns): chunks are sorted into temporary files, then merged.

    TOTALS come first, as they are. A stream that fits into one chunk touches no disk.
    """
    with spill.Spill(schema.EVENTS, "tracekit-sort-") as files:
        sorter = spill.Sorter(files, _keys, SORT_ROWS, piece_rows=_PIECE_ROWS, fan_in=FAN_IN)
        for batch in batches:
            if schema.is_totals(batch):
                yield batch
            else:
                sorter.add(batch)
        for table in sorter.tables():
            yield from table.to_batches()


def merged(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Merge streams that are each in order into one. TOTALS, which have no order, are yielded when they come."""
    for rows in spill.merged(streams, _keys, schema.EVENTS, schema.is_totals):
        if isinstance(rows, pa.RecordBatch):
            yield rows
        else:
            yield from rows.to_batches()
