"""Arrow tables in the form that a trace keeps: sorted, one chunk for each column, small dictionaries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import I64, Chunked, Column, DictColumn, Rows

__all__ = [
    "compact_texts",
    "in_one_chunk",
    "sorted_by_start",
    "sorting_order",
    "start_order",
    "unshared",
    "with_own_dictionaries",
]


def start_order(events: pa.Table) -> Rows | None:
    """Return the permutation that sorts by (ts_ns, -dur_ns), stable; None when the rows are sorted already."""
    ts = arrow.ints(events.column("ts_ns"))
    has_dur = "dur_ns" in events.schema.names
    dur = arrow.ints(events.column("dur_ns"), -1) if has_dur else np.zeros(len(ts), np.int64)
    if bool(np.all((ts[1:] > ts[:-1]) | ((ts[1:] == ts[:-1]) & (dur[1:] <= dur[:-1])))):
        return None
    order = sorting_order(ts)
    ts, dur = ts[order], dur[order]
    same = ts[1:] == ts[:-1]
    if (wrong := same & (dur[1:] > dur[:-1])).any():
        # Few rows share their start and are not in order of length: only these are ordered by both.
        group = np.concatenate(([0], np.cumsum(~same)))
        touched = np.zeros(len(ts), np.bool_)
        touched[group[1:][wrong]] = True
        rows = np.flatnonzero(touched[group])
        order[rows] = order[rows[np.lexsort((-dur[rows], ts[rows]))]]
    return order


def sorting_order(values: I64) -> Rows:
    """Return the permutation that sorts int64 values, stable; packed with its row number each value sorts faster."""
    if not len(values):
        return np.zeros(0, np.int64)
    bits = len(values).bit_length()
    low = int(values.min())
    if (int(values.max()) - low).bit_length() + bits > 63:
        return np.argsort(values, kind="stable")
    packed = ((values - low) << bits) | np.arange(len(values))
    arrow.sort(packed)
    return packed & ((1 << bits) - 1)


def in_one_chunk(table: pa.Table, order: Rows | None) -> pa.Table:
    """Return the rows in an order, with one chunk for each column."""
    if order is None and all(column.num_chunks == 1 for column in table.columns):
        return table
    return _in_one_chunk(table.columns, table.schema, order)


def unshared(batch: pa.RecordBatch, nulls: dict[pa.DataType, Column]) -> pa.RecordBatch:
    """Return the batch in memory of its own, for a batch that is kept.

    A reader's columns may be parts of larger memory: one column of a block of a database holds the whole block.
    nulls: a column for each type; columns without any value share it, for all batches.
    """
    columns = []
    for column in batch.columns:
        if column.null_count < len(column) or pa.types.is_dictionary(column.type):
            columns.append(pa.concat_arrays([column]))
            continue
        if len(column) > len(nulls.get(column.type, ())):
            nulls[column.type] = arrow.nulls(len(column), column.type)
        columns.append(nulls[column.type].slice(0, len(column)))
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def sorted_by_start(batches: list[pa.RecordBatch], empty: pa.Schema) -> pa.Table:
    """Return the rows of all batches by start, with one chunk for each column; empties the list.

    It works column by column, and the memory of one serves the next: no more than one column is there twice.
    """
    if not batches:
        return empty.empty_table()
    table = pa.Table.from_batches(batches)
    batches.clear()
    order, schema, columns = start_order(table), table.schema, table.columns
    del table
    rows = _in_one_chunk(columns, schema, order)
    arrow.release_memory()
    return rows


def _in_one_chunk(columns: list[Chunked], schema: pa.Schema, order: Rows | None) -> pa.Table:
    """Return the columns in an order, each in one chunk, and empty the list. Columns without any value share one."""
    rows = None if order is None else arrow.array(order)
    done: list[Chunked] = []
    empty: dict[pa.DataType, Column] = {}
    columns.reverse()
    while columns:
        column = columns.pop()
        if column.null_count == len(column):
            if column.type not in empty:
                empty[column.type] = arrow.nulls(len(column), column.type)
            done.append(pa.chunked_array([empty[column.type]]))
            continue
        alone = pa.Table.from_arrays([column], ["column"])
        column = alone.unify_dictionaries().combine_chunks().column(0)
        del alone
        arrow.release_memory()
        done.append(column if rows is None else arrow.pc.take(column, rows))
    return pa.Table.from_arrays(done, schema=schema)


def compact_texts(array: DictColumn) -> DictColumn:
    """Return the same texts with only the dictionary that they need, in order of first use."""
    if array.null_count == len(array):
        return arrow.encoded(arrow.nulls(len(array), array.type))
    codes = arrow.codes(array)
    size = len(array.dictionary)
    # Written from the last row to the first, so the first use of each code stays.
    first = np.full(size + 1, len(codes), np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    first[size] = len(codes)  # code -1 (null) landed here
    used = np.flatnonzero(first < len(codes))
    used = used[np.argsort(first[used])]
    new = np.full(size + 1, -1, np.int32)
    new[used] = np.arange(len(used), dtype=np.int32)
    renumbered = new[codes]
    indices = arrow.array(renumbered, mask=renumbered < 0 if array.null_count else None)
    return pa.DictionaryArray.from_arrays(indices, arrow.take(array.dictionary, used))


def with_own_dictionaries(table: pa.Table) -> pa.Table:
    """Return the table with each dictionary in order of first use."""
    for index, field_ in enumerate(table.schema):
        if pa.types.is_dictionary(field_.type) and table.num_rows:
            array = arrow.encoded(table.column(index).chunks[0])
            if not _is_in_order(array):
                table = table.set_column(index, field_, compact_texts(array))
    return table


def _is_in_order(array: DictColumn) -> bool:
    """Return whether the dictionary holds exactly the texts in use, in order of first use."""
    if array.null_count == len(array):
        return len(array.dictionary) == 0
    codes = arrow.codes(array)
    highest = np.maximum.accumulate(codes)
    steps = np.diff(highest, prepend=-1)
    return bool(steps.max(initial=0) <= 1 and highest[-1] + 1 == len(array.dictionary))
