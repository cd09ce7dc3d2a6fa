"""Device work that waits on disk for its launch: the rows in a temporary Arrow file, their keys in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Mask, Rows
from tracekit.safety.scratch import writing

Row: TypeAlias = dict[str, Any]
"""A row of EVENTS, as `to_pylist` returns it."""
_NO_PID = np.iinfo(np.int64).min
_BATCH_ROWS = 1 << 14
_EMPTY = np.empty(0, np.int64)


@dataclass(slots=True)
class DeviceRows:
    """Kernels, copies and memsets of the whole trace, found by (source, correlation) and, where both know it, pid."""

    path: Path
    _keys: list[tuple[I64, I64, I64]] = dataclass_field(default_factory=list)
    _writer: pa.RecordBatchFileWriter | None = None
    _sink: pa.OSFile | None = None
    _file: pa.RecordBatchFileReader | None = None
    _map: pa.MemoryMappedFile | None = None
    _source: I64 = dataclass_field(default_factory=lambda: _EMPTY)
    _correlation: I64 = dataclass_field(default_factory=lambda: _EMPTY)
    _pid: I64 = dataclass_field(default_factory=lambda: _EMPTY)
    _order: Rows = dataclass_field(default_factory=lambda: _EMPTY)
    _starts: Rows = dataclass_field(default_factory=lambda: _EMPTY)
    _taken: Mask = dataclass_field(default_factory=lambda: np.zeros(0, np.bool_))

    def put(self, batch: pa.RecordBatch) -> None:
        """Store rows."""
        with writing(self.path.parent):
            self._put(batch)

    def _put(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._sink = pa.OSFile(str(self.path), "wb")
            self._writer = pa.ipc.new_file(self._sink, batch.schema)
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            part = batch.slice(start, _BATCH_ROWS)
            self._writer.write_batch(part)
            source, correlation, pid = (part.column(name) for name in ("source", "correlation", "pid"))
            self._keys.append((arrow.ints(source), arrow.ints(correlation, _NO_PID), arrow.ints(pid, _NO_PID)))

    def seal(self) -> None:
        """Prepare the look-up, when all rows are stored."""
        if self._writer is None or self._sink is None:
            return
        with writing(self.path.parent):
            self._writer.close()
            self._sink.close()
            self._map = pa.memory_map(str(self.path))
        self._file = pa.ipc.open_file(self._map)
        self._starts = np.cumsum([0, *(len(k[0]) for k in self._keys)])
        self._source, self._correlation, self._pid = (np.concatenate(c) for c in zip(*self._keys, strict=True))
        self._keys = []
        # By source and correlation; equal ones stay in order of start, in which a call (of a graph, say) takes them.
        self._order = np.lexsort((np.arange(len(self._source)), self._correlation, self._source))
        self._taken = np.zeros(len(self._source), np.bool_)

    def close(self) -> None:
        """Close the file."""
        if self._map is not None:
            self._file = None
            self._map.close()

    def taken_by(self, source: int, correlation: int, pid: int | None) -> list[int]:
        """Return the rows that this launch caused and no earlier one has taken, and mark them as taken."""
        first, last = self._span(source, correlation)
        found: list[int] = []
        for row in self._order[first:last].tolist():
            own = int(self._pid[row])
            if not self._taken[row] and (pid is None or own in (pid, _NO_PID)):
                self._taken[row] = True
                found.append(row)
        return found

    def _span(self, source: int, correlation: int) -> tuple[int, int]:
        if correlation == _NO_PID or not len(self._order):
            return 0, 0
        key = (source, correlation)
        return self._bisect(key, right=False), self._bisect(key, right=True)

    def _bisect(self, key: tuple[int, int], *, right: bool) -> int:
        low, high = 0, len(self._order)
        while low < high:
            middle = (low + high) // 2
            row = self._order[middle]
            here = (int(self._source[row]), int(self._correlation[row]))
            if here < key or (right and here == key):
                low = middle + 1
            else:
                high = middle
        return low

    def rows(self, wanted: list[int]) -> dict[int, Row]:
        """Return rows by their number."""
        out: dict[int, Row] = {}
        if not wanted or self._file is None:
            return out
        # Each batch of the file is read once for all wanted rows in it: reading them one by one takes a batch each.
        numbers = sets.unique(np.array(wanted, np.int64))
        batch_of_row = np.searchsorted(self._starts, numbers, "right") - 1
        for batch in sets.unique(batch_of_row).tolist():
            in_batch = numbers[batch_of_row == batch]
            table = arrow.take(self._file.get_batch(batch), in_batch - self._starts[batch])
            out.update(zip(in_batch.tolist(), table.to_pylist(), strict=True))
        return out

    def orphans(self) -> Iterator[Row]:
        """Yield the rows that no launch has taken, in order of start."""
        left = np.flatnonzero(~self._taken)
        for start in range(0, len(left), _BATCH_ROWS):
            part = left[start : start + _BATCH_ROWS].tolist()
            found = self.rows(part)
            yield from (found[row] for row in part)
