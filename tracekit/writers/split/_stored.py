"""A stream in a temporary file, so that it can be read more than once; its facts are complete then."""

from __future__ import annotations

import contextlib
import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from tracekit import schema
from tracekit.columns import arrow
from tracekit.errors import OutputError, sentence
from tracekit.safety.spill import PackedBatches
from tracekit.safety.unfinished import unfinished_folder
from tracekit.writers._row_groups import compact
from tracekit.writers.base import WITH_O

ROWS = 1 << 16
"""Most rows that are stored, and read back, at once."""


@contextlib.contextmanager
def folder_beside(target: Path) -> Iterator[Path]:
    """Yield a folder beside the target, which goes with all that is in it; errors name the target's own folder.

    Raises: OutputError.
    """
    try:
        part = unfinished_folder(target)
    except OSError as err:
        raise OutputError(
            f"{err.strerror or err}",
            path=target.parent,
            hint=sentence("choose another folder", WITH_O),
        ) from err
    folder = part.path
    try:
        with part:
            yield folder
    except OutputError as err:
        inside = err.path.startswith(f"{folder}/")
        final = str(target.parent / Path(err.path).relative_to(folder)) if inside else err.path
        raise OutputError(err.sentence.about(final), hint=err.advice) from err
    except OSError as err:
        raise OutputError(
            f"{err.strerror or err}", path=target, hint="files that were there before are unchanged"
        ) from err


class Stored:
    """EVENTS in order of start, and TOTALS, in a file without a name beside the target."""

    def __init__(self, target: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=target.resolve().parent)  # noqa: SIM115 - closed in __exit__
        self._batches = PackedBatches(self._file)
        self._places: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
        self._first_rows = [0]
        self._first_times: list[int] = []
        self.rows = 0
        """Number of events."""
        self.last_ns = 0
        """Latest end of an event."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    @property
    def first_ns(self) -> int:
        """The start of the first event, 0 without any."""
        return self._first_times[0] if self._first_times else 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Store a batch."""
        totals = schema.is_totals(batch)
        for start in range(0, batch.num_rows, ROWS):
            piece = batch.slice(start, ROWS)
            self._places[totals].append(self._batches.add(compact(pa.Table.from_batches([piece]))))
            if not totals:
                ts = arrow.ints(piece.column("ts_ns"))
                self.rows += piece.num_rows
                self._first_rows.append(self.rows)
                self._first_times.append(int(ts[0]))
                ends = ts + np.maximum(arrow.ints(piece.column("dur_ns")), 0)
                self.last_ns = max(self.last_ns, int(ends.max())) if self.rows > piece.num_rows else int(ends.max())

    def totals(self) -> Iterator[pa.RecordBatch]:
        """Yield the TOTALS."""
        for place in self._places[True]:
            yield self._batches.read(place)

    def events(self, first: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the events from a row on."""
        at = bisect_right(self._first_rows, first) - 1
        for number, place in enumerate(self._places[False][at:], at):
            batch = self._batches.read(place)
            yield batch.slice(max(first - self._first_rows[number], 0))

    def time_after(self, row: int) -> int | None:
        """Return the start of the first event from that row on that starts later than the one before, None at the end.

        row: above 0.
        """
        before: int | None = None
        for batch in self.events(row - 1):
            ts = arrow.ints(batch.column("ts_ns"))
            before = int(ts[0]) if before is None else before
            later = np.flatnonzero(ts > before)
            if len(later):
                return int(ts[later[0]])
        return None
