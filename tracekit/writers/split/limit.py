"""A writer in another shape: several pieces in place of one file, or the longest events alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from tracekit.errors import Option, OutputExistsError, UsageError, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64
from tracekit.model.schema import Kind
from tracekit.model.units import format_span
from tracekit.writers.base import OutputSubset, RowStream, WriteOptions, Writer, Written
from tracekit.writers.split.pieces import pieces
from tracekit.writers.split.plan import StoredPieces, folder_beside, megabytes, parse_split

__all__ = ["shaped"]

# A trace with fewer events, for viewers that take no more: the longest are kept.
#
# Events without a duration (marks, counter values, flow events) go first, then the shortest ranges; of equal ones
# the later go first. Steps go last of all. A note says how many events went, and how much of the summed time they had.


REASON = "over-the-limit"
_AIM = 0.97
_STEP = 1 << 62


def limited(writer: Writer, *, most_events: int = 0, most_bytes: int = 0) -> Writer:
    """Return a writer that writes at most so many events, and a file of at most so many bytes; 0: any number."""

    def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
        if target.exists() and not options.force:
            raise OutputExistsError(str(target))
        with folder_beside(target) as folder, StoredPieces(target) as stored:
            for batch in stream.batches:
                stored.add(batch)
            part = folder / target.name
            written = _write(writer, stream, stored, part, options, (most_events, most_bytes))
            part.replace(target)
        written.path = target
        return written

    return replace(writer, write=write)


def _write(
    writer: Writer, stream: RowStream, stored: StoredPieces, part: Path, options: WriteOptions, most: tuple[int, int]
) -> Written:
    """Write into `part`. most: events and bytes, 0 for any number."""
    count = min(most[0], stored.rows) if most[0] else stored.rows
    while True:
        kept = _Kept(stored, count)
        if len(stream.ledgers) == 1 and count < stored.rows:
            stream.ledgers[0].left_out = {REASON: stored.rows - count}  # for the facts in the file
        again = RowStream(stream.run, chain(stored.totals(), kept.batches()), stream.ledgers)
        written = writer.write(again, part, replace(options, force=True))
        size = part.stat().st_size
        if not most[1] or size <= most[1] or count == 0:
            break
        count = max(min(int(count * most[1] / size * _AIM), count - 1), 0)
    kept.tell(written)
    return written


@dataclass(slots=True)
class _Kept:
    """The events that stay. The others are counted while the rows are read."""

    stored: StoredPieces
    count: int
    gone: int = 0
    without_duration: int = 0
    gone_ns: int = 0
    all_ns: int = 0
    longest_ns: int = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that stay, in order."""
        self.gone = self.without_duration = self.gone_ns = self.all_ns = self.longest_ns = 0
        least, ties = self._threshold()
        for batch in self.stored.events():
            rank = _rank(batch)
            keep = rank > least
            equal = np.flatnonzero(rank == least)[:ties]
            keep[equal] = True
            ties -= len(equal)
            self._count(batch, keep)
            yield batch if keep.all() else batch.filter(arrow.array(keep))

    def _threshold(self) -> tuple[int, int]:
        """Return the least rank of the events that stay, and how many events of that rank do."""
        if self.count >= self.stored.rows:
            return -1, 0
        if self.count == 0:
            return np.iinfo(np.int64).max, 0
        top = np.empty(0, np.int64)
        for batch in self.stored.events():
            top = np.concatenate((top, _rank(batch)))
            if len(top) > 2 * self.count:
                top = np.partition(top, len(top) - self.count)[-self.count :]
        top = np.partition(top, len(top) - self.count)[-self.count :]
        least = int(top.min())
        return least, int(np.count_nonzero(top == least))

    def _count(self, batch: pa.RecordBatch, keep: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        duration = np.maximum(arrow.ints(batch.column("dur_ns")), 0)
        self.all_ns += int(duration.sum())
        if keep.all():
            return
        gone = ~keep
        timed = gone & arrow.valid(batch.column("dur_ns"))
        self.gone += int(np.count_nonzero(gone))
        self.without_duration += int(np.count_nonzero(gone & ~timed))
        self.gone_ns += int(duration[gone].sum())
        self.longest_ns = max(self.longest_ns, int(duration[gone].max()))

    def tell(self, written: Written) -> None:
        """Add to the result what did not stay."""
        if not self.gone:
            return
        written.leave_out(REASON, self.gone)
        written.explained.add(REASON)
        ranges = self.gone - self.without_duration
        share = _share(self.gone_ns, self.all_ns)
        parts = []
        if self.without_duration:
            parts.append(f"{self.without_duration:,} without a duration (marks, counter values)")
        if ranges:
            parts.append(
                f"{ranges:,} ranges of at most {format_span(self.longest_ns)}, {share} of the summed time of all ranges"
            )
        written.notes.append(f"only the longest events are in the file; skipped: {'; '.join(parts)}")


def _share(part: int, whole: int) -> str:
    """Return a share in percent; a small one is not written as nothing.

    >>> _share(1, 1_000_000)
    'less than 0.01 %'
    """
    if not whole:
        return "none"
    return "less than 0.01 %" if 0 < part * 10_000 < whole else f"{100 * part / whole:.2f} %"


def _rank(batch: pa.RecordBatch) -> I64:
    """Return the rank of each event, shape (n,): 0 without a duration, else its ns and 1; steps are above all."""
    duration = batch.column("dur_ns")
    rank = np.where(arrow.valid(duration), np.clip(arrow.ints(duration), 0, _STEP - 2) + 1, 0)
    kinds = batch.column("kind")
    texts = arrow.texts(arrow.encoded(kinds).dictionary)
    if Kind.STEP in texts:
        rank[arrow.codes(kinds) == texts.index(Kind.STEP)] = _STEP
    return rank


def shaped(writer: Writer, shape: OutputSubset) -> Writer:
    """Return a writer that writes in that shape. Raises: UsageError."""
    if writer.folder:
        raise UsageError(
            sentence(
                Option("split"),
                ", ",
                Option("max-events"),
                ", ",
                Option("max-mb"),
                f": not for {writer.name}, which is a folder",
            ),
            hint=sentence(
                Option("to", "perfetto"),
                " makes a file; ",
                Option("time"),
                " and ",
                Option("step"),
                " choose a part of the trace",
            ),
        )
    if shape.split and (shape.max_events or shape.max_mb):
        split, most = Option("split"), sentence(Option("max-events"), " or ", Option("max-mb"))
        raise UsageError(
            sentence(split, " with ", most, ": only one of them"), hint=sentence(split, " leaves nothing out")
        )
    if shape.split:
        return pieces(writer, parse_split(shape.split))
    if shape.max_events < 0:
        raise UsageError(sentence(Option("max-events", str(shape.max_events)), ": must be above 0"))
    try:
        most_bytes = megabytes(shape.max_mb) if shape.max_mb else 0
    except ValueError as err:
        raise UsageError(sentence(Option("max-mb", shape.max_mb), f": {err}"), hint=Option("max-mb", "100")) from err
    return limited(writer, most_events=shape.max_events, most_bytes=most_bytes)
