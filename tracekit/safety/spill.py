"""Rows on disk: sorted by integer columns in bounded memory, or kept to be read again at any place.

All that is sorted on disk is sorted here: the events of an input that is not in order, begins that wait for their ends,
the arrows of Perfetto. `Sorter` sorts a chunk of rows in memory and writes it to a temporary Arrow file; `merged` then
makes one stream of the files. It also joins several inputs that are in order already. Memory is bounded by one chunk,
and by one piece of each file that is merged.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import I64, Mask
from tracekit.model.trace import concat
from tracekit.safety.scratch import StoredRows, scratch_directory, stored_rows

if TYPE_CHECKING:
    from tracekit.safety.unfinished import Unfinished

__all__ = [
    "CHUNK_ROWS",
    "FAN_IN",
    "PIECE_ROWS",
    "KeyRange",
    "PackedBatches",
    "Sorter",
    "Spill",
    "by_columns",
    "merged",
    "order_of",
]

CHUNK_ROWS = 1 << 16
"""Rows sorted at once in memory; what is more goes to temporary files."""
FAN_IN = 32
"""Files merged at once; more are merged in rounds."""
PIECE_ROWS = 1 << 12

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
Keys: TypeAlias = Callable[[pa.Table | pa.RecordBatch], Sequence[I64]]
"""Returns the columns that rows are sorted by, the most important one first."""
KeyRange: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""The keys of the first and of the last of some sorted rows."""


def by_columns(*names: str) -> Keys:
    """Return the keys of rows that are sorted by integer columns without nulls."""
    return lambda rows: [arrow.ints(rows.column(name)) for name in names]


class Spill:
    """Temporary files of one schema; they go with `close`. prefix: of the folder that they are in."""

    def __init__(self, schema: pa.Schema, prefix: str = "tracekit-pairs-") -> None:
        self.schema = schema
        self._prefix = prefix
        self._folder: Unfinished | None = None
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def write(self, tables: Iterable[pa.Table], piece_rows: int = 0) -> Path:
        """Return a new file with these rows. piece_rows: most of them that `read` gives at once, 0 for PIECE_ROWS."""
        if self._folder is None:
            self._folder = scratch_directory(self._prefix)
        self._count += 1
        path = Path(self._folder.name) / f"{self._count}.arrow"
        with StoredRows(path, self.schema) as writer:
            for table in tables:
                for batch in table.combine_chunks().to_batches(max_chunksize=piece_rows or PIECE_ROWS):
                    writer.write_batch(batch)
        return path

    def read(self, path: Path, *, keep: bool = False) -> Generator[pa.Table, None, None]:
        """Yield the rows of a file, and remove it, if it is not to be kept."""
        for batch in stored_rows(path):
            yield pa.Table.from_batches([batch])
        if not keep:
            path.unlink()


class Sorter:
    """Takes rows, gives them by `keys`; rows with equal keys keep their order within a chunk.

    chunk_rows: sorted at once in memory. piece_rows: of each file that are in memory while files are merged. fan_in:
    files merged at once. None stands for the constants of the module.
    """

    def __init__(
        self,
        spill: Spill,
        keys: Keys,
        chunk_rows: int | None = None,
        *,
        piece_rows: int | None = None,
        fan_in: int | None = None,
    ) -> None:
        self._spill, self._keys = spill, keys
        self._chunk_rows = CHUNK_ROWS if chunk_rows is None else chunk_rows
        self._piece_rows = PIECE_ROWS if piece_rows is None else piece_rows
        self._fan_in = FAN_IN if fan_in is None else fan_in
        self._pending: list[pa.Table] = []
        self._rows = 0
        self._files: list[Path] = []
        self._ranges: dict[Path, KeyRange] = {}

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Take rows."""
        self._pending.append(rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows]))
        self._rows += rows.num_rows
        if self._rows >= self._chunk_rows:
            self._store()

    def _store(self) -> None:
        table = self._sorted(self._pending)
        path = self._spill.write([table], self._piece_rows)
        columns = self._keys(table.slice(0, self._piece_rows))
        self._ranges[path] = _row(columns, 0), _row(columns, -1)
        self._files.append(path)
        self._pending, self._rows = [], 0

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows in order: in one table where they never left the memory, else in pieces."""
        if not self._files:
            if self._rows:
                yield self._sorted(self._pending)
            return
        if self._rows:
            self._store()
        arrow.release_memory()  # a merge needs a small part of what a chunk needs
        while len(self._files) > self._fan_in:
            groups = [self._files[at : at + self._fan_in] for at in range(0, len(self._files), self._fan_in)]
            self._files = [self._spill.write(self._merged(group), self._piece_rows) for group in groups]
        yield from self._merged(self._files)

    def _sorted(self, tables: Sequence[pa.Table]) -> pa.Table:
        return sorted_rows(tables, self._keys, self._spill.schema)

    def _merged(self, files: Sequence[Path]) -> Iterator[pa.Table]:
        with ExitStack() as stack:
            streams = [self._spill.read(file) for file in files]
            for stream in streams:
                stack.callback(stream.close)  # so that its file is closed
            ranges = [self._ranges.get(file) for file in files]
            yield from merged(streams, self._keys, self._spill.schema, ranges=ranges)


def sorted_rows(parts: Sequence[pa.Table] | Sequence[pa.RecordBatch], keys: Keys, schema: pa.Schema) -> pa.Table:
    """Return the rows of all parts in one table, by their keys; equal ones keep their order."""
    table = concat(parts, schema).combine_chunks()
    order = order_of(keys(table))
    return table if order is None else arrow.take(table, order)


def merged(
    streams: Sequence[Iterator[Rows]],
    keys: Keys,
    schema: pa.Schema,
    is_aside: Callable[[Rows], bool] | None = None,
    *,
    ranges: Sequence[KeyRange | None] = (),
) -> Iterator[pa.Table | Rows]:
    """Merge streams that are each in order into one.

    It works in rounds: of all rows in memory, those up to the smallest last key are sorted together and yielded. Of
    equal keys of one round, those of the first stream come first. is_aside: rows that have no order; they are yielded
    when they come. ranges: the keys of the first and the last row that each stream yields first, where they are known.
    Such a stream is not read before a round needs its rows: the files of a long trace follow each other in time, and
    one piece of each would take most of the memory.
    """
    if len(streams) == 1:
        yield from streams[0]
        return
    heads: dict[int, tuple[Rows, Sequence[I64]]] = {}
    lasts: list[tuple[tuple[int, ...], int]] = []
    waiting: dict[int, tuple[int, ...]] = {}

    def refill(number: int) -> Iterator[Rows]:
        for rows in streams[number]:
            if is_aside is not None and is_aside(rows):
                yield rows
            elif rows.num_rows:
                columns = keys(rows)
                heads[number] = rows, columns
                heapq.heappush(lasts, (_row(columns, -1), number))
                return

    for number, known in enumerate(ranges or [None] * len(streams)):
        if known is None:
            yield from refill(number)
        else:
            waiting[number] = known[0]
            heapq.heappush(lasts, (known[1], number))
    while lasts:
        bound, _ = lasts[0]
        for number in [number for number, first in waiting.items() if first <= bound]:
            del waiting[number]
            rows = next(streams[number])
            heads[number] = rows, keys(rows)
        parts: list[Rows] = []
        for number in sorted(heads):
            rows, columns = heads[number]
            if count := _up_to(columns, bound):
                parts.append(rows.slice(0, count))
                heads[number] = rows.slice(count), [column[count:] for column in columns]
        yield sorted_rows(parts, keys, schema)
        empty = [number for number in sorted(heads) if not heads[number][0].num_rows]
        lasts = [item for item in lasts if item[1] not in empty]
        heapq.heapify(lasts)
        for number in empty:
            del heads[number]
            yield from refill(number)


def _row(keys: Sequence[I64], at: int) -> tuple[int, ...]:
    """Return the keys of a row."""
    return tuple(int(column[at]) for column in keys)


def _up_to(keys: Sequence[I64], bound: tuple[int, ...]) -> int:
    """Return how many of the sorted rows are not behind `bound`.

    >>> _up_to([np.array([1, 1, 2]), np.array([5, 6, 0])], (1, 6))
    2
    """
    low, high = 0, len(keys[0])
    for column, value in zip(keys, bound, strict=True):
        part = column[low:high]
        low, high = low + int(np.searchsorted(part, value, "left")), low + int(np.searchsorted(part, value, "right"))
    return high


def order_of(keys: Sequence[I64]) -> I64 | None:
    """Return the order of rows by some columns, None where they are in that order.

    Rows of one lane are mostly in order of time: then the lanes alone are sorted, many times as fast.

    >>> order_of([np.array([1, 0, 1]), np.array([5, 6, 7])])
    array([1, 0, 2])
    """
    if _ascending(keys):
        return None
    first = keys[0]
    if len(first) and int(first.min()) >= 0 and int(first.max()) < 1 << 16:
        order = np.argsort(first.astype(np.uint16), kind="stable")
        if _ascending([column[order] for column in keys]):
            return order
    return np.lexsort(keys[::-1])


def _ascending(keys: Sequence[I64]) -> bool:
    same: Mask | None = None  # rows that are equal in all columns so far
    for column in keys:
        before, after = column[:-1], column[1:]
        less = after < before
        if bool((less if same is None else same & less).any()):
            return False
        equal = after == before
        same = equal if same is None else same & equal
        if not same.any():
            return True
    return True


class PackedBatches:
    """Batches in an open file, compressed; each is read again by its place. The caller closes the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._end = 0

    def add(self, rows: pa.Table | pa.RecordBatch) -> tuple[int, int]:
        """Append rows, all in one batch. Return their place: where they begin, and their size."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as out:
            out.write(rows)
        data = sink.getvalue()
        self._file.seek(self._end)
        self._file.write(data)
        place = self._end, data.size
        self._end += data.size
        return place

    def read(self, place: tuple[int, int]) -> pa.RecordBatch:
        """Return the rows at a place."""
        self._file.seek(place[0])
        with pa.ipc.open_stream(self._file.read(place[1])) as stored:
            return stored.read_next_batch()
