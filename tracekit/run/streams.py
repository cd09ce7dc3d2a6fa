"""Several inputs as one stream in order of start; a stream out of order is sorted on disk on the way.

Memory stays bounded: a merge holds one batch of each source, a sort one chunk; the rest is in temporary Arrow files.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa

from tracekit import schema
from tracekit.columns import arrow
from tracekit.columns.arrays import I64
from tracekit.columns.arrow import pc
from tracekit.errors import OutOfOrderError
from tracekit.safety.scratch import StoredRows, scratch_folder, stored_rows
from tracekit.trace import Run, SourceFacts, concat

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


def checked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream in order; rows within one batch are sorted.

    Raises: OutOfOrderError at a batch that begins before rows of an earlier one. TOTALS have no order.
    """
    last: tuple[int, int] | None = None
    for batch in batches:
        if schema.is_totals(batch) or not batch.num_rows:
            yield batch
            continue
        ts, neg = _keys(batch)
        if not _is_sorted(ts, neg):
            order = np.lexsort((neg, ts))
            batch, ts, neg = arrow.take(batch, order), ts[order], neg[order]
        if last is not None and (int(ts[0]), int(neg[0])) < last:
            raise OutOfOrderError
        last = int(ts[-1]), int(neg[-1])
        yield batch


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


def shifted(batches: Iterator[pa.RecordBatch], by_ns: int) -> Iterator[pa.RecordBatch]:
    """Move every start by the same time."""
    index = schema.EVENTS.get_field_index("ts_ns")
    for batch in batches:
        if by_ns and not schema.is_totals(batch) and batch.num_rows:
            moved = arrow.array(arrow.ints(batch.column("ts_ns")) + by_ns)
            batch = batch.set_column(index, schema.EVENTS.field(index), moved)
        yield batch


def ranked(batches: Iterator[pa.RecordBatch], rank: int) -> Iterator[pa.RecordBatch]:
    """Give rows without a rank this one."""
    for batch in batches:
        own = schema.TOTALS if schema.is_totals(batch) else schema.EVENTS
        at = own.get_field_index("rank")
        filled = pc.fill_null(batch.column("rank"), pa.scalar(rank, pa.int32()))
        yield batch.set_column(at, own.field(at), filled)


def joined_runs(into: Run, runs: Sequence[Run]) -> None:
    """Add the facts of runs to one; no two may share a source number. `into.origin_ns` is kept."""
    for run in runs:
        for name in (f.name for f in fields(Run)):
            if name == "origin_ns":
                continue
            mine, theirs = getattr(into, name), getattr(run, name)
            if isinstance(mine, dict):
                mine.update(theirs)
            else:
                mine.extend(theirs)


def label_as_named(inputs: Sequence[tuple[str, str, list[SourceFacts], bool]]) -> None:
    """Label inputs that were converted from another file with the name that the user typed.

    inputs: name, NAME of NAME=INPUT, sources, and whether it is a Parquet file of ours. Such a file has the name of its
    source, which may be an input too. Parquet files keep the names of their sources where these differ: the file names
    of an archive say nothing.
    """
    names = [facts.label or Path(facts.path).name for *_, sources, _ in inputs for facts in sources]
    for word, label, sources, is_archive in inputs:
        for facts in sources:
            name = facts.label or Path(facts.path).name
            if label or facts.path == word or (is_archive and names.count(name) == 1):
                continue
            if len(sources) > 1:
                facts.label = f"{Path(word).name}: {name}"
            elif not facts.label:
                facts.label = Path(word).name
