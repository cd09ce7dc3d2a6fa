"""Batches of any size become groups of a fixed number of rows, whose dictionaries hold only the texts in use."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrow import Column
from tracekit.columns.tables import compact_texts


def compact(table: pa.Table) -> pa.Table:
    """Return the same rows in one chunk, with the dictionaries that these rows need, in order of first use.

    The bytes of a file then depend on its rows alone, not on how a reader cut its batches.
    """
    if not table.num_rows:
        return table
    one = table.unify_dictionaries().combine_chunks()
    columns: list[Column] = []
    for column in one.columns:
        array: Column = column.chunks[0]
        if pa.types.is_dictionary(array.type):
            array = compact_texts(arrow.encoded(array))
        columns.append(array)
    return pa.Table.from_arrays(columns, schema=one.schema)


def row_groups(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Yield the rows in tables of exactly `rows` rows, the last one shorter."""
    pending: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        start = 0
        while count + batch.num_rows - start >= rows:
            take = rows - count
            pending.append(batch.slice(start, take))
            yield compact(pa.Table.from_batches(pending))
            pending, count, start = [], 0, start + take
        if start < batch.num_rows:
            pending.append(batch.slice(start))
            count += batch.num_rows - start
    if count:
        yield compact(pa.Table.from_batches(pending))
