"""Rows or columns in, record batches out; ids that are text or too large become small integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit import schema
from tracekit.columns import arrow
from tracekit.columns.arrow import Chunked, Column, DictColumn
from tracekit.trace import Run

Values: TypeAlias = (
    "Column | Chunked | npt.NDArray[np.generic] | Sequence[str | int | float | None] | str | int | float | None"
)
"""pyarrow array, numpy array, list, one value for all rows (str, int, float), or None for nulls."""

BATCH_ROWS = 1 << 16
INT64_MAX = (1 << 63) - 1


@lru_cache(maxsize=16)
def _nulls(kind: pa.DataType, capacity: int) -> Column:
    return arrow.nulls(capacity, kind)


def nulls(kind: pa.DataType, count: int) -> Column:
    """Return `count` nulls of the type; a slice of one shared array, since most columns of most batches are empty."""
    capacity = max(BATCH_ROWS, 1 << max(count - 1, 0).bit_length())
    return _nulls(kind, capacity).slice(0, count)


def constant(value: str | int | float, kind: pa.DataType, count: int) -> Column:
    """Return `count` times the same value, as a dictionary of one entry where the type is text."""
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), arrow.array([value], pa.string()))
    if pa.types.is_string(kind):
        return pa.repeat(pa.scalar(value, kind), count)
    return arrow.array(np.full(count, value, arrow.dtype_of(kind)), kind)


def _column(values: Values, kind: pa.DataType, count: int) -> Column:
    if values is None:
        return nulls(kind, count)
    if isinstance(values, (str, int, float)):
        return constant(values, kind, count)
    if isinstance(values, Sequence):
        return _column(arrow.array(values, pa.string() if pa.types.is_dictionary(kind) else kind), kind, count)
    if isinstance(values, np.ndarray):
        return arrow.array(values.astype(arrow.dtype_of(kind), copy=False), kind)
    column: Column = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
    if column.type == kind:
        return column
    if pa.types.is_dictionary(kind):
        if not pa.types.is_dictionary(column.type):
            return arrow.encoded(column.cast(pa.string()))
        own = arrow.encoded(column)
        return pa.DictionaryArray.from_arrays(own.indices.cast(pa.int32()), own.dictionary.cast(pa.string()))
    converted: Column = column.cast(kind)
    return converted


def event_batch(count: int, columns: Mapping[str, Values]) -> pa.RecordBatch:
    """Return a batch of schema.EVENTS with `count` rows.

    columns: array, numpy array, list, one value for all rows, or None for nulls; a column that is not named is null.
    """
    return _batch(schema.EVENTS, count, columns)


def totals_batch(count: int, columns: Mapping[str, Values]) -> pa.RecordBatch:
    """Return a batch of schema.TOTALS with `count` rows; columns as `event_batch`."""
    return _batch(schema.TOTALS, count, columns)


def _batch(want: pa.Schema, count: int, columns: Mapping[str, Values]) -> pa.RecordBatch:
    strange = columns.keys() - set(want.names)
    if strange:
        raise KeyError(sorted(strange)[0])
    arrays = [_column(columns.get(field.name), field.type, count) for field in want]
    return pa.RecordBatch.from_arrays(arrays, schema=want)


class RowBuilder:
    """Rows one by one, for small tables and odd rows; `take()` returns them as a batch and starts anew."""

    def __init__(self, table: str = "events") -> None:
        self._schema = schema.EVENTS if table == "events" else schema.TOTALS
        self._rows: list[Mapping[str, object]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, **row: object) -> None:
        """Add a row; columns that are not named are null."""
        self._rows.append(row)

    def take(self) -> pa.RecordBatch:
        """Return the rows so far in the order they came."""
        rows, self._rows = self._rows, []
        columns: dict[str, Values] = {}
        for name in {name for row in rows for name in row}:
            kind = self._schema.field(name).type
            plain = pa.string() if pa.types.is_dictionary(kind) else kind
            columns[name] = arrow.array([row.get(name) for row in rows], plain)
        return _batch(self._schema, len(rows), columns)


FIRST_TEXT_ID = 1 << 40
"""Integers from here on represent ids that are text."""


class IdTable:
    """Ids that are text, or integers beyond int64, become small integers; `Run.ids` keeps the id's own text.

    One table serves one column of one source. Small integers are taken as they are, so made-up ones start at `first`,
    above what real ids use.
    """

    def __init__(self, run: Run, column: str, source: int, *, first: int = FIRST_TEXT_ID) -> None:
        self._ids = run.ids
        self._column, self._source, self._next = column, source, first
        self._known: dict[str, int] = {}

    def number(self, text: str | int) -> int:
        """Return the integer of an id."""
        if isinstance(text, int):
            if -INT64_MAX <= text <= INT64_MAX:
                return text
            text = str(text)
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._next
            self._ids[(self._column, self._source, known)] = text
            self._next += 1
        return known


def map_texts(column: Column, change: Callable[[str], str | None]) -> DictColumn:
    """Return a dictionary array with each distinct text changed once; a change to None makes null."""
    encoded = arrow.encoded(column)
    texts = [None if t is None else change(t) for t in arrow.optional_texts(encoded.dictionary)]
    values = arrow.array(texts, pa.string())
    if values.null_count or len(set(texts)) < len(texts):
        # A dictionary may hold neither nulls nor the same text twice: encode anew, through the distinct values only.
        return arrow.encoded(arrow.encoded(values).take(encoded.indices.cast(pa.int32())))
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(pa.int32()), values)
