"""Rows or columns in, record batches out; ids that are text or too large become small integers."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.model import arrow, schema
from tracekit.model.arrow import Chunked, Column, DictColumn, Mask, pc
from tracekit.model.trace import Ledger, Run

__all__ = [
    "BATCH_ROWS",
    "FIRST_TEXT_ID",
    "INT64_MAX",
    "MOST_NAME",
    "IdTable",
    "RowBuilder",
    "Values",
    "bounded",
    "bounded_names",
    "chosen",
    "constant",
    "event_batch",
    "map_texts",
    "nulls",
    "totals_batch",
]

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
        return pa.DictionaryArray.from_arrays(arrow.array(np.zeros(count, np.int32)), arrow.array([value], pa.string()))
    if pa.types.is_string(kind):
        return pa.repeat(pa.scalar(value, kind), count)
    return arrow.array(np.full(count, value, arrow.dtype_of(kind)), kind)


def _column(values: Values, kind: pa.DataType, count: int) -> Column:
    if values is None:
        return nulls(kind, count)
    if isinstance(values, (str, int, float)):
        return constant(values, kind, count)
    if isinstance(values, Sequence):
        if pa.types.is_dictionary(kind) and (encoded := _encoded(values)) is not None:
            return encoded
        return _column(arrow.array(values, pa.string() if pa.types.is_dictionary(kind) else kind), kind, count)
    if isinstance(values, np.ndarray):
        return arrow.array(values.astype(arrow.dtype_of(kind), copy=False), kind)
    column: Column = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
    if column.type == kind:
        return column
    if pa.types.is_dictionary(kind):
        if not pa.types.is_dictionary(column.type):
            return arrow.encoded(pc.cast(column, pa.string()))
        own = arrow.encoded(column)
        return pa.DictionaryArray.from_arrays(pc.cast(own.indices, pa.int32()), pc.cast(own.dictionary, pa.string()))
    return pc.cast(column, kind)


def _encoded(values: Sequence[object]) -> DictColumn | None:
    """Return texts as a dictionary column, each of them copied once; None for a list with anything else."""
    known: dict[str, int] = {}
    codes = np.empty(len(values), np.int32)
    for row, value in enumerate(values):
        if value is None:
            codes[row] = -1
        elif type(value) is str:
            codes[row] = known.setdefault(value, len(known))
        else:
            return None
    indices = arrow.array(codes, mask=codes < 0) if len(codes) and int(codes.min()) < 0 else arrow.array(codes)
    return pa.DictionaryArray.from_arrays(indices, arrow.array(list(known), pa.string()))


MOST_NAME = 1 << 15
"""Characters of a name. Names of templates (CUTLASS, Eigen, Thrust) have up to some thousands. A file of 4 MB can give
one name of 4 MB to thousands of rows, and each output would write it in each of them."""


def bounded(text: str, ledger: Ledger) -> str:
    """Return a name of at most about MOST_NAME characters; a longer one is cut, with a note and a mark of its own."""
    if len(text) <= MOST_NAME:
        return text
    what = f"a name of {len(text):,} characters"
    why = f"names longer than {MOST_NAME:,} characters are cut; each ends with its length and a checksum"
    ledger.note("name-too-long", why, where=what)
    checksum = zlib.crc32(text.encode("utf-8", "surrogatepass"))
    return f"{text[:MOST_NAME]}... [{len(text):,} characters, {checksum:08x}]"


def bounded_names(batch: pa.RecordBatch, ledger: Ledger) -> pa.RecordBatch:
    """Return the rows with names that are `bounded`."""
    for place, field in enumerate(batch.schema):
        if field.name not in ("name", "raw_name") or not isinstance(column := batch.column(place), pa.DictionaryArray):
            continue
        data = column.dictionary.buffers()[2]
        if data is None or data.size <= MOST_NAME:
            continue
        longest = pc.max(pc.utf8_length(column.dictionary)).as_py()
        if longest is not None and longest > MOST_NAME + _MARK:
            batch = batch.set_column(place, field, map_texts(column, lambda text: bounded(text, ledger)))
    return batch


_MARK = 64
"""Characters of the end of a name that was cut already."""


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


def chosen(mask: Mask, left: DictColumn, right: DictColumn | None) -> DictColumn:
    """Return the texts of `left` where `mask` is true, else those of `right` (None: null), without a copy a row."""
    texts = arrow.optional_texts(left.dictionary)
    others = np.full(len(left), -1, np.int32)
    if right is not None:
        others = arrow.codes(right)
        others = np.where(others < 0, others, others + len(texts))
        texts = [*texts, *arrow.optional_texts(right.dictionary)]
    known: dict[str, int] = {}
    numbers = [-1 if text is None else known.setdefault(text, len(known)) for text in texts]
    codes = np.array([*numbers, -1], np.int32)[np.where(mask, arrow.codes(left), others)]
    own = arrow.array(codes, mask=codes < 0).dictionary_encode()  # in order of appearance
    pool = list(known)
    used = arrow.array([pool[code] for code in arrow.ints(own.dictionary).tolist()], pa.string())
    return pa.DictionaryArray.from_arrays(own.indices.cast(pa.int32()), used)


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
            values = [row.get(name) for row in rows]
            if pa.types.is_dictionary(kind) and (encoded := _encoded(values)) is not None:
                columns[name] = encoded
                continue
            if pa.types.is_floating(kind):  # pyarrow refuses integers beyond 2^53
                values = [float(value) if isinstance(value, int) else value for value in values]
            columns[name] = arrow.array(values, plain)
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
        return arrow.encoded(pc.take(arrow.encoded(values), pc.cast(encoded.indices, pa.int32())))
    return pa.DictionaryArray.from_arrays(pc.cast(encoded.indices, pa.int32()), values)
