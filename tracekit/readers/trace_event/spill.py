"""Rows in order of some integer columns, on disk where they are many: begins and ends wait so for their file's end.

Chrome traces and Perfetto's use it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64
from tracekit.safety.scratch import StoredRows, scratch_directory, stored_rows
from tracekit.trace import concat

if TYPE_CHECKING:
    from tracekit.safety.unfinished import Unfinished

CHUNK_ROWS = 1 << 16
"""Rows sorted at once in memory; what is more goes to temporary files."""
FAN_IN = 32
"""Files merged at once; more are merged in rounds."""
PIECE_ROWS = 1 << 12


class Spill:
    """Temporary files of one schema; they go with `close`."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
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
            self._folder = scratch_directory("tracekit-pairs-")
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
    """Takes rows, gives them by `keys`: int64 columns without nulls, which together no two rows share."""

    def __init__(self, spill: Spill, keys: Sequence[str], chunk_rows: int | None = None) -> None:
        self._spill, self._keys = spill, tuple(keys)
        self._chunk_rows = CHUNK_ROWS if chunk_rows is None else chunk_rows
        self._pending: list[pa.Table] = []
        self._rows = 0
        self._files: list[Path] = []

    def add(self, table: pa.Table) -> None:
        """Take rows."""
        self._pending.append(table)
        self._rows += table.num_rows
        if self._rows >= self._chunk_rows:
            self._files.append(self._spill.write([self._sorted(self._pending)]))
            self._pending, self._rows = [], 0

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows in order: in one table where they never left the memory, else in pieces."""
        if not self._files:
            if self._rows:
                yield self._sorted(self._pending)
            return
        if self._rows:
            self._files.append(self._spill.write([self._sorted(self._pending)]))
            self._pending = []
        while len(self._files) > FAN_IN:
            groups = [self._files[at : at + FAN_IN] for at in range(0, len(self._files), FAN_IN)]
            self._files = [self._spill.write(self._merged(group)) for group in groups]
        yield from self._merged(self._files)

    def _matrix(self, table: pa.Table) -> list[I64]:
        return [table.column(key).to_numpy() for key in self._keys]

    def _sorted(self, tables: Sequence[pa.Table]) -> pa.Table:
        table = concat(tables, self._spill.schema).combine_chunks()
        order = order_of(self._matrix(table))
        return table if order is None else arrow.take(table, order)

    def _merged(self, files: Sequence[Path]) -> Iterator[pa.Table]:
        """Rounds: of all pieces at hand, the rows up to the smallest last key can be given, sorted together."""
        with ExitStack() as stack:
            streams = [self._spill.read(file) for file in files]
            for stream in streams:
                stack.callback(stream.close)  # so that its file is closed
            heads = {number: head for number, stream in enumerate(streams) if (head := next(stream, None)) is not None}
            while heads:
                keys = {number: self._matrix(head) for number, head in heads.items()}
                bound = min(tuple(int(column[-1]) for column in columns) for columns in keys.values())
                parts = []
                for number in sorted(heads):
                    count = _up_to(keys[number], bound)
                    parts.append(heads[number].slice(0, count))
                    rest: pa.Table | None = heads[number].slice(count)
                    if rest is not None and not rest.num_rows:
                        rest = next(streams[number], None)
                    if rest is None:
                        del heads[number]
                    else:
                        heads[number] = rest
                yield self._sorted([part for part in parts if part.num_rows])


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
    same = np.ones(max(len(keys[0]) - 1, 0), np.bool_)
    for column in keys:
        before, after = column[:-1], column[1:]
        if bool((same & (after < before)).any()):
            return False
        same &= after == before
    return True
