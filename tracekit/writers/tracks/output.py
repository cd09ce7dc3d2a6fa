"""The file of a timeline: plain or gzipped, whole or not at all, with the facts that each of them ends with."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from tracekit.errors import OutputError
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Column
from tracekit.model.trace import Run
from tracekit.writers.base import RowStream, WriteOptions, Written, new_file
from tracekit.writers.gzipped import Sink, gzipped
from tracekit.writers.tracks.lanes import TrackLanes

__all__ = ["Spool", "file_facts", "title", "viewer_file"]

# A temporary file for formats that have all rows of a track in one place, while rows come in order of time.
#
# Each part of a track (a column of its table, say) is written in pieces as the rows come, and read back as a whole.


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
        found: list[int] = sets.unique(self._sorted[part][0]).tolist() if part in self._sorted else []
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


@contextlib.contextmanager
def viewer_file(target: Path, *, force: bool, viewer: str, suffix: str) -> Iterator[Sink]:
    """Yield the file that gets the target's name when all is written, gzipped where that ends with .gz.

    Raises: OutputExistsError, OutputError; for .zst too, which the viewer does not read.
    """
    if target.name.lower().endswith(".zst"):
        raise OutputError(f"{viewer} zstd", path=target, hint=f"name it {suffix} or {suffix}.gz")
    with new_file(target, force=force) as file:
        if not target.name.lower().endswith(".gz"):
            yield file
        else:
            with gzipped(file) as packed:
                yield packed


def file_facts(
    stream: RowStream,
    options: WriteOptions,
    lanes: TrackLanes,
    written: Written,
    *,
    base_ns: int | None = None,
    arrows: Mapping[str, int] | None = None,
) -> dict[str, object]:
    """Return the facts of a file. base_ns: the time of its first event, where nothing else in the file says it."""
    return {
        "version": options.version,
        "clock": "not stated" if stream.run.origin_ns is None else "unix epoch",
        "origin_ns": stream.run.origin_ns,
        **({} if base_ns is None else {"base_ns": base_ns}),
        "sources": [source.to_json() for source in stream.run.sources],
        "lanes": lanes.facts(),
        **({} if arrows is None else {"arrows": dict(arrows)}),
        "written": written.events,
        "left_out": dict(sorted(written.left_out.items())),
        "notes": list(written.notes),
        "ledger": [ledger.to_json() for ledger in stream.ledgers],
    }


def title(run: Run) -> str:
    """Return the name of the first input, and how many more there are."""
    names = [source.label or Path(source.path).name for source in run.sources]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names else "trace"
