"""The ways to split a trace: how they are written on the command line, and where each piece ends."""

from __future__ import annotations

import contextlib
import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from tracekit.errors import Option, OutputError, Text, UsageError, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema, sets
from tracekit.model.schema import Kind
from tracekit.model.units import split_quantity, to_ns
from tracekit.safety.spill import PackedBatches
from tracekit.safety.unfinished import unfinished_folder
from tracekit.writers.base import WITH_O
from tracekit.writers.parquet import compact

__all__ = [
    "MOST_PIECES",
    "ROWS",
    "Split",
    "StoredPieces",
    "cuts_by_time",
    "folder_beside",
    "megabytes",
    "parse_split",
    "ranks",
    "refuse_many",
    "starts_of_steps",
]

# A stream in a temporary file, so that it can be read more than once; its facts are complete then.


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


class StoredPieces:
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


MOST_PIECES = 9_999
"""More pieces are refused: their numbers have four digits."""
WAYS = "step, rank, time=1s, events=200000 or mb=100"
_TAKES = sentence(Option("split"), f" takes {WAYS}")
_NEED_NONE = sentence(Option("split", "time=1s"), " and ", Option("split", "events=200000"), " need none")


@dataclass(frozen=True, slots=True)
class Split:
    """A way to split. by: "step", "rank", "time" (amount in ns), "events" or "mb" (amount in bytes). text: as given."""

    by: str
    amount: int = 0
    text: str = ""


def parse_split(text: str) -> Split:
    """Return the way that a text names. Raises: UsageError.

    >>> parse_split("time=10ms")
    Split(by='time', amount=10000000, text='time=10ms')
    """
    by, equals, amount = text.strip().partition("=")
    if by in ("step", "rank") and not equals:
        return Split(by, text=text)
    try:
        if by == "time":
            number, unit = split_quantity(amount)
            return Split(by, _positive(to_ns(number, unit)), text)
        if by == "events":
            return Split(by, _positive(int(amount)), text)
        if by == "mb":
            return Split(by, megabytes(amount), text)
    except ValueError as err:
        raise UsageError(sentence(Option("split", text), f": {err}"), hint=_TAKES) from err
    raise UsageError(sentence(Option("split", text), ": not a way to split"), hint=_TAKES)


def megabytes(text: str) -> int:
    """Return the bytes of a number of MB (a million bytes each). Raises: ValueError."""
    number, unit = split_quantity(text)
    if unit.lower() not in ("", "mb"):
        raise ValueError(f"not a number of MB: {text!r}")
    return _positive(int(number * Decimal(1_000_000)))


def _positive(number: int) -> int:
    if number <= 0:
        raise ValueError("must be above 0")
    return number


def cuts_by_time(stored: StoredPieces, window_ns: int) -> list[int]:
    """Return the starts of the windows in which events start, without the first. Raises: UsageError."""
    windows = np.empty(0, np.int64)
    for batch in stored.events():
        own = (arrow.ints(batch.column("ts_ns")).view(np.uint64) - np.uint64(stored.first_ns % (1 << 64))) // np.uint64(
            window_ns
        )
        windows = sets.union(windows, own.astype(np.int64))
        said = sentence(Option("split", "time"), f": events start in {len(windows):,} windows")
        refuse_many(len(windows), said, "name a longer time")
    return [stored.first_ns + window * window_ns for window in windows[1:].tolist()]


def starts_of_steps(stored: StoredPieces) -> dict[int, str]:
    """Return the first start of each step, ascending, with its number; "" where it has none. Raises: UsageError."""
    numbered: dict[int, int] = {}
    starts: dict[int, str] = {}
    for batch in stored.events():
        kinds = batch.column("kind")
        texts = arrow.texts(arrow.encoded(kinds).dictionary)
        if Kind.STEP not in texts:
            continue
        rows = np.flatnonzero(arrow.codes(kinds) == texts.index(Kind.STEP))
        ts = arrow.ints(batch.column("ts_ns"))[rows].tolist()
        known = arrow.valid(batch.column("step"))[rows].tolist()
        for start, has, number in zip(ts, known, arrow.ints(batch.column("step"))[rows].tolist(), strict=True):
            if has:
                numbered.setdefault(number, start)
            else:
                starts.setdefault(start, "")
        said = sentence(Option("split", "step"), ": more than 9,999 steps")
        refuse_many(len(numbered) + len(starts), said, sentence(Option("split", "time=..."), " has fewer"))
    for number, start in numbered.items():
        starts[start] = str(number)
    if not starts:
        raise UsageError(sentence(Option("split", "step"), ": the trace has no steps"), hint=_NEED_NONE)
    return dict(sorted(starts.items()))


def ranks(stored: StoredPieces) -> list[int | None]:
    """Return the ranks of the events, ascending; None, for events without one, comes last. Raises: UsageError."""
    found: set[int] = set()
    without = False
    for batch in stored.events():
        rank = batch.column("rank")
        without |= rank.null_count > 0
        found.update(sets.unique(arrow.ints(rank.drop_null())).tolist())
        said = sentence(Option("split", "rank"), ": more than 9,999 ranks")
        refuse_many(len(found), said, "convert fewer inputs at a time")
    if not found:
        raise UsageError(sentence(Option("split", "rank"), ": the trace has no ranks"), hint=_NEED_NONE)
    return [*sorted(found), *([None] if without else [])]


def refuse_many(count: int, what: Text, hint: Text) -> None:
    """Refuse more pieces than there are numbers for."""
    if count > MOST_PIECES:
        raise UsageError(sentence(what, f": more than {MOST_PIECES:,} pieces"), hint=hint)
