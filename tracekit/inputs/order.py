"""Several inputs as one stream in order of start; a stream out of order is sorted on disk on the way.

Memory stays bounded: a merge holds one batch of each source, a sort one chunk; the rest is in temporary Arrow files.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pyarrow as pa

from tracekit import schema
from tracekit.columns import arrow
from tracekit.columns.arrays import I64
from tracekit.errors import OutOfOrderError
from tracekit.safety.scratch import StoredRows, scratch_folder, stored_rows
from tracekit.trace import concat

SORT_ROWS = 1 << 18
"""Rows sorted at once in memory; each such chunk becomes one temporary file."""
FAN_IN = 64
"""Temporary files merged at once; more are merged in rounds."""


def _keys(batch: pa.RecordBatch | pa.Table) -> tuple[I64, I64]:
    """Return ts and -dur: the order of a trace, a missing duration last."""
    return arrow.ints(batch.column("ts_ns")), -arrow.ints(batch.column("dur_ns"), -1)


def _is_sorted(ts: I64, neg: I64) -> bool:
    later = ts[1:] > ts[:-1]
    return bool(np.all(later | ((ts[1:] == ts[:-1]) & (neg[1:] >= neg[:-1]))))


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
        if not _is_sorted(ts, neg):
            order = np.lexsort((neg, ts))
            batch, ts, neg = arrow.take(batch, order), ts[order], neg[order]
        if self._last is not None and (int(ts[0]), int(neg[0])) < self._last:
            raise OutOfOrderError
        self._last = int(ts[-1]), int(neg[-1])
        return batch


def checked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the batches of a stream in order. Raises: OutOfOrderError, as `OrderCheck`."""
    return map(OrderCheck().take, batches)


def in_order(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows by (ts_ns, -dur_ns), stable: chunks are sorted into temporary files, then merged.

    TOTALS come first, as they are. A stream that fits into one chunk touches no disk.
    """
    with ExitStack() as stack:
        folder: Path | None = None
        files: list[Path] = []
        pending: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            if schema.is_totals(batch):
                yield batch
                continue
            pending.append(batch)
            rows += batch.num_rows
            if rows >= SORT_ROWS:
                if folder is None:
                    folder = stack.enter_context(scratch_folder("tracekit-sort-"))
                files.append(_store(_sorted(pending), folder / f"{len(files)}.arrow"))
                pending, rows = [], 0
        if folder is None:
            if rows:
                yield from _sorted(pending).to_batches()
            return
        if rows:
            files.append(_store(_sorted(pending), folder / f"{len(files)}.arrow"))
        while len(files) > FAN_IN:
            files = [_merge_files(files[i : i + FAN_IN]) for i in range(0, len(files), FAN_IN)]
        yield from merged([_load(f, stack) for f in files])


def _sorted(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    table = concat(batches, schema.EVENTS).combine_chunks()
    ts, neg = _keys(table)
    return table if _is_sorted(ts, neg) else arrow.take(table, np.lexsort((neg, ts)))


def _store(table: pa.Table, path: Path) -> Path:
    _store_batches(iter(table.to_batches(max_chunksize=1 << 14)), path)
    return path


def _store_batches(batches: Iterator[pa.RecordBatch], path: Path) -> None:
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=False)
    with StoredRows(path, schema.EVENTS, options) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _merge_files(files: list[Path]) -> Path:
    target = files[0].with_suffix(".merged.arrow")
    with ExitStack() as stack:
        _store_batches(merged([_load(f, stack) for f in files]), target)
    for file in files:
        file.unlink()
    return target


def _load(path: Path, stack: ExitStack) -> Iterator[pa.RecordBatch]:
    return stack.enter_context(closing(stored_rows(path)))


def merged(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Merge streams that are each in order into one; equal keys keep the order of the streams.

    It works in rounds: of all batches in memory, the rows up to the smallest last key are sorted together and yielded.
    """
    if len(streams) == 1:
        yield from streams[0]
        return
    heads: dict[int, pa.RecordBatch] = {}
    lasts: list[tuple[tuple[int, int], int]] = []

    def refill(index: int) -> Iterator[pa.RecordBatch]:
        for batch in streams[index]:
            if schema.is_totals(batch):
                yield batch
            elif batch.num_rows:
                ts, neg = _keys(batch)
                heads[index] = batch
                heapq.heappush(lasts, ((int(ts[-1]), int(neg[-1])), index))
                return

    for index in range(len(streams)):
        yield from refill(index)
    while lasts:
        bound, _ = lasts[0]
        parts: list[pa.RecordBatch] = []
        empty: list[int] = []
        for index in sorted(heads):
            batch = heads[index]
            ts, neg = _keys(batch)
            cut = int(np.searchsorted(ts, bound[0], "left"))
            until = int(np.searchsorted(ts, bound[0], "right"))
            cut += int(np.searchsorted(neg[cut:until], bound[1], "right"))
            if cut:
                parts.append(batch.slice(0, cut))
                heads[index] = batch.slice(cut)
            if not heads[index].num_rows:
                empty.append(index)
        yield from _sorted(parts).to_batches()
        done = set(empty)
        lasts = [item for item in lasts if item[1] not in done]
        heapq.heapify(lasts)
        for index in empty:
            del heads[index]
            yield from refill(index)
