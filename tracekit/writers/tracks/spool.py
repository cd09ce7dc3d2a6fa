"""A temporary file for formats that have all rows of a track in one place, while rows come in order of time.

Each part of a track (a column of its table, say) is written in pieces as the rows come, and read back as a whole.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from tracekit.columns import arrow
from tracekit.columns.arrays import I64
from tracekit.columns.arrow import Column
from tracekit.writers.gzipped import Sink


class Spool:
    """Texts by part and key, in a file without a name beside the target: nothing is left of it, whatever happens."""

    def __init__(self, target: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=target.resolve().parent)  # noqa: SIM115 - closed in __exit__
        self._size = 0
        self._pieces: dict[int, list[I64]] = {}
        self._sorted: dict[int, I64] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def add(self, part: int, keys: I64, texts: Column) -> None:
        """Append the text of each row to that part of its key. keys: shape (n,), ascending."""
        if not len(keys):
            return
        offsets, data = arrow.text_parts(texts)
        first = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(keys[1:] != keys[:-1]) + 1))
        starts = offsets[first]
        ends = np.append(starts[1:], offsets[-1])
        place = self._size - int(offsets[0])
        self._pieces.setdefault(part, []).append(np.stack((keys[first], starts + place, ends + place)))
        self._file.write(data[int(offsets[0]) : int(offsets[-1])].data)
        self._size += int(offsets[-1] - offsets[0])

    def finish(self) -> None:
        """End writing: from now on the texts can be read."""
        self._file.flush()
        for part, pieces in self._pieces.items():
            together = np.concatenate(pieces, axis=1)
            self._sorted[part] = together[:, np.argsort(together[0], kind="stable")]
        self._pieces.clear()

    def keys(self, part: int) -> list[int]:
        """Return the keys that have texts of a part, ascending."""
        found: list[int] = np.unique(self._sorted[part][0]).tolist() if part in self._sorted else []
        return found

    def copy(self, part: int, key: int, out: Sink) -> None:
        """Write the texts of a part of a key without their last byte, a comma."""
        pieces = self._sorted.get(part)
        if pieces is None:
            return
        low, high = np.searchsorted(pieces[0], (key, key + 1)).tolist()
        for at in range(low, high):
            start, end = int(pieces[1, at]), int(pieces[2, at])
            self._file.seek(start)
            out.write(self._file.read(end - start - (at == high - 1)))
