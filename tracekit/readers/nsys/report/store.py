"""Rows of tables that come in any order: in memory while they are few, else on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrow import Column
from tracekit.readers.builder import BATCH_ROWS
from tracekit.safety.scratch import scratch_directory, scratch_file
from tracekit.safety.spill import PackedBatches
from tracekit.safety.unfinished import Unfinished

MEMORY_BYTES = 16 << 20
"""Rows that stay in memory; more go into a temporary file, compressed."""

Columns = dict[str, Column]


@dataclass(slots=True)
class _StoredTable:
    """Rows of one table: its batches, and the chunks of the next one. columns: all that any row had.

    packed: batches in memory, or place and size of those in the file.
    """

    packed: list[pa.RecordBatch | tuple[int, int]] = field(default_factory=list)
    waiting: list[tuple[int, Columns]] = field(default_factory=list)
    columns: dict[str, pa.DataType] = field(default_factory=dict)
    rows: int = 0
    waiting_rows: int = 0


class TableStore:
    """Tables of a file. Close it: it may have a temporary file."""

    def __init__(self) -> None:
        self._tables: dict[str, _StoredTable] = {}
        self._bytes = 0
        self._folder: Unfinished | None = None
        self._file: BinaryIO | None = None
        self._on_disk: PackedBatches | None = None

    def close(self) -> None:
        """Remove the temporary file, if there is one."""
        self._tables = {}
        if self._file is not None:
            self._file.close()
            self._file = self._on_disk = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def tables(self) -> dict[str, tuple[str, ...]]:
        """Return the columns of each table."""
        return {name: tuple(table.columns) for name, table in self._tables.items()}

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return self._tables[table].rows if table in self._tables else 0

    def add(self, name: str, count: int, columns: Columns) -> None:
        """Add rows to a table. A column that they lack is null. Raises: ScratchError."""
        if not count:
            return
        table = self._tables.setdefault(name, _StoredTable())
        for column, values in columns.items():
            table.columns.setdefault(column, values.type)
        table.waiting.append((count, columns))
        table.rows += count
        table.waiting_rows += count
        if table.waiting_rows >= BATCH_ROWS // 2:
            self._pack(table)

    def _pack(self, table: _StoredTable) -> None:
        parts = {
            name: [columns[name] if name in columns else arrow.nulls(count, kind) for count, columns in table.waiting]
            for name, kind in table.columns.items()
        }
        batch = pa.RecordBatch.from_arrays([pa.concat_arrays(chunks) for chunks in parts.values()], list(parts))
        table.waiting, table.waiting_rows = [], 0
        if self._bytes + batch.nbytes <= MEMORY_BYTES:
            self._bytes += batch.nbytes
            table.packed.append(batch)
            return
        if self._on_disk is None:
            self._folder = scratch_directory()
            self._file = scratch_file(self._folder.path / "rows")
            self._on_disk = PackedBatches(self._file)
        table.packed.append(self._on_disk.add(batch))

    def batches(self, name: str, size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in the order in which they came, `size` at a time, with all of its columns."""
        table = self._tables.get(name)
        if table is None:
            return
        if table.waiting:
            self._pack(table)
        parts: list[pa.RecordBatch] = []
        for packed in table.packed:
            parts.append(_with_columns(self._content(packed), table.columns))
            rows = sum(part.num_rows for part in parts)
            if rows < size:
                continue
            whole = _joined(parts)
            full = rows - rows % size
            for start in range(0, full, size):
                yield whole.slice(start, size)
            parts = [whole.slice(full)]
        if parts and (rest := _joined(parts)).num_rows:
            yield rest

    def _content(self, packed: pa.RecordBatch | tuple[int, int]) -> pa.RecordBatch:
        """Return a batch from memory or from the file."""
        if isinstance(packed, pa.RecordBatch):
            return packed
        if self._on_disk is None:
            raise ValueError("the store is closed")
        return self._on_disk.read(packed)


def _with_columns(batch: pa.RecordBatch, columns: dict[str, pa.DataType]) -> pa.RecordBatch:
    """Return a batch with all columns of its table: a column that its rows lack is null."""
    have = set(batch.schema.names)
    if len(have) == len(columns):
        return batch
    arrays = [batch.column(n) if n in have else arrow.nulls(batch.num_rows, kind) for n, kind in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches of the same columns as one."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches)
    columns = [arrow.in_one(table.column(number)) for number in range(table.num_columns)]
    return pa.RecordBatch.from_arrays(columns, table.schema.names)
