"""Several inputs as one stream in order of start; a stream out of order is sorted on disk on the way.

`safety.spill` sorts and merges, in bounded memory: a merge holds one batch of each source, a sort one chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import pyarrow as pa

from tracekit import schema
from tracekit.columns import arrow
from tracekit.columns.arrays import I64
from tracekit.columns.arrow import pc
from tracekit.errors import OutOfOrderError
from tracekit.safety import spill
from tracekit.trace import Run, SourceFacts

SORT_ROWS = 1 << 18
"""Rows sorted at once in memory; each such chunk becomes one temporary file."""
FAN_IN = 64
"""Temporary files merged at once; more are merged in rounds."""
_PIECE_ROWS = 1 << 14
"""Rows of each temporary file that are in memory while files are merged."""


def _keys(rows: pa.RecordBatch | pa.Table) -> tuple[I64, I64]:
    """Return ts and -dur: the order of a trace, a missing duration last."""
    return arrow.ints(rows.column("ts_ns")), -arrow.ints(rows.column("dur_ns"), -1)


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
        if (order := spill.order_of((ts, neg))) is not None:
            batch, ts, neg = arrow.take(batch, order), ts[order], neg[order]
        if last is not None and (int(ts[0]), int(neg[0])) < last:
            raise OutOfOrderError
        last = int(ts[-1]), int(neg[-1])
        yield batch


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
