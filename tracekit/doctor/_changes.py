"""The repairs of rows: which rows change, how, and a line in the list of changes for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tracekit import schema
from tracekit.columns import arrow
from tracekit.columns.args import with_member
from tracekit.columns.arrays import I64, Mask
from tracekit.columns.arrow import Column
from tracekit.doctor._rows import Group
from tracekit.schema import Kind

_GAP_NS = 10**6
"""Between groups of events that were moved next to each other."""
_BY_THE_WRITER = {
    "overlapping-slices": "moved to an extra track",
    "coarse-times": "written from the first event on",
    "wide-id": "written with a small id",
    "negative-duration": "written with the duration 0",
    "bad-escape": "written as valid JSON",
}
"""Changes that the reader and the writer make, by class."""
_OPEN = frozenset({"no-duration", "null-time", "bad-time", "unmatched-begin"})
_MOMENTS = frozenset({Kind.MARK, Kind.COUNTER, Kind.FLOW, Kind.MEMORY})
_WITHOUT_DURATION = ("zero-duration", "covered-work")
_WITHOUT_LAUNCH = ("orphan-work", "orphan-launch", "clock-skew", "duplicate-id", "missing-table")

Line = Callable[[dict[str, object]], None]
"""Takes one change for the list."""


@dataclass(slots=True)
class Changes:
    """Repairs rows batch by batch.

    codes: all classes of defects that the input has. rows: class -> numbers of the records with that defect. points:
    numbers of the ends of bad arrows. groups: events that lie far from each other. word: what the format calls a
    record.
    """

    codes: set[str]
    rows: dict[str, I64]
    points: I64
    groups: Sequence[Group]
    word: str
    line: Line
    counts: dict[str, int] = field(default_factory=dict)
    dropped: int = 0
    _changed: list[I64] = field(default_factory=list)

    def changed(self) -> int:
        """Return the number of records of which a row was changed."""
        return len(np.unique(np.concatenate(self._changed))) if self._changed else 0

    def apply(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the repaired rows, in the same order of start."""
        shifts = _shifts(self.groups)
        for batch in batches:
            if schema.is_totals(batch) or not batch.num_rows:
                yield batch
                continue
            kept = self._without_points(batch)
            yield self._repaired(kept, shifts) if kept.num_rows else kept

    def _without_points(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        kinds = arrow.encoded(batch.column("kind"))
        flow = np.array([text == Kind.FLOW for text in arrow.texts(kinds.dictionary)] or [False])[arrow.codes(kinds)]
        bad = self._those(batch, self.points) & flow
        if not bad.any():
            return batch
        self._list("arrow", batch, bad, "skipped")
        self.dropped += int(bad.sum())
        return batch.filter(pa.array(~bad))

    def _repaired(self, batch: pa.RecordBatch, shifts: tuple[I64, I64] | None) -> pa.RecordBatch:
        for code, text in _BY_THE_WRITER.items():
            if code in self.rows and (mask := self._those(batch, self.rows[code])).any():
                self._list(code, batch, mask, text)
        if self.codes & _OPEN and (mask := self._open(batch)).any():
            self._list("no-duration", batch, mask, "written as a moment: its duration is unknown")
        if "bad-encoding" in self.codes and (mask := _with_replaced(batch)).any():
            self._list("bad-encoding", batch, mask, "bytes that are not UTF-8 became U+FFFD")
        for code in _WITHOUT_DURATION:
            if code in self.rows and (mask := self._those(batch, self.rows[code])).any():
                batch = self._emptied(batch, code, "dur_ns", "measured_dur_ns", mask)
        for code in _WITHOUT_LAUNCH:
            if code in self.rows and (mask := self._those(batch, self.rows[code])).any():
                batch = self._emptied(batch, code, "correlation", "launch_correlation", mask)
        return batch if shifts is None else self._moved(batch, *shifts)

    def _those(self, batch: pa.RecordBatch, numbers: I64) -> Mask:
        found: Mask = np.isin(arrow.ints(batch.column("event_id")), numbers)
        return found

    def _open(self, batch: pa.RecordBatch) -> Mask:
        """Return the ranges without a duration."""
        kinds = arrow.encoded(batch.column("kind"))
        ranges = np.array([text not in _MOMENTS for text in arrow.texts(kinds.dictionary)] or [False])
        found: Mask = ranges[arrow.codes(kinds)] & ~arrow.valid(batch.column("dur_ns"))
        return found

    def _emptied(self, batch: pa.RecordBatch, code: str, column: str, key: str, mask: Mask) -> pa.RecordBatch:
        """Move the values of a column into args, where nothing looks for them."""
        mask = mask & arrow.valid(batch.column(column))
        if not mask.any():
            return batch
        self._list(code, batch, mask, f"{column} moved to args.{key}", column)
        batch = _with_args(batch, mask, key, arrow.ints(batch.column(column)))
        values = batch.column(column)
        return _with(batch, column, arrow.array(arrow.ints(values), mask=mask | ~arrow.valid(values)))

    def _moved(self, batch: pa.RecordBatch, begins: I64, shift: I64) -> pa.RecordBatch:
        ts = arrow.ints(batch.column("ts_ns"))
        by = shift[np.maximum(np.searchsorted(begins, ts, "right") - 1, 0)]
        mask = by != 0
        if not mask.any():
            return batch
        self._list("clock-reset", batch, mask, "moved next to the other events", "ts_ns")
        return _with(_with_args(batch, mask, "measured_ts_ns", ts), "ts_ns", arrow.array(ts + by))

    def _list(self, code: str, batch: pa.RecordBatch, mask: Mask, change: str, column: str = "") -> None:
        rows = np.flatnonzero(mask)
        numbers = arrow.ints(batch.column("event_id"))[rows]
        if code != "arrow":
            self._changed.append(np.unique(numbers))
        self.counts[code] = self.counts.get(code, 0) + len(rows)
        names = arrow.take(batch, rows).column("name").to_pylist()
        before = arrow.ints(batch.column(column))[rows].tolist() if column else [None] * len(rows)
        for number, name, value in zip(numbers.tolist(), names, before, strict=True):
            line: dict[str, object] = {
                "record": f"{self.word} {number}",
                "name": name,
                "defect": code,
                "change": change,
            }
            self.line(line | ({"before": value} if column else {}))


def _shifts(groups: Sequence[Group]) -> tuple[I64, I64] | None:
    """Return the first start of each group and the ns by which it is moved, None for a single group.

    The largest group stays; those before and behind it are moved next to it, in their order.
    """
    if len(groups) < 2:
        return None
    main = max(range(len(groups)), key=lambda at: groups[at].count)
    shift = [0] * len(groups)
    for at in range(main + 1, len(groups)):
        shift[at] = groups[at - 1].last_ns + shift[at - 1] + _GAP_NS - groups[at].first_ns
    for at in range(main - 1, -1, -1):
        shift[at] = groups[at + 1].first_ns + shift[at + 1] - _GAP_NS - groups[at].last_ns
    return np.array([group.first_ns for group in groups], np.int64), np.array(shift, np.int64)


def _with_replaced(batch: pa.RecordBatch) -> Mask:
    found = np.zeros(batch.num_rows, np.bool_)
    for name in ("name", "args"):
        column = arrow.encoded(batch.column(name))
        bad = np.array([text is not None and "\ufffd" in text for text in arrow.optional_texts(column.dictionary)])
        if bad.any():
            found |= bad[arrow.codes(column)] & arrow.valid(batch.column(name))
    return found


def _with(batch: pa.RecordBatch, name: str, column: Column) -> pa.RecordBatch:
    place = batch.schema.get_field_index(name)
    return batch.set_column(place, batch.schema.field(place), column.cast(batch.schema.field(place).type))


def _with_args(batch: pa.RecordBatch, mask: Mask, key: str, values: I64) -> pa.RecordBatch:
    """Return the batch with a member in the args of some rows."""
    args = batch.column("args").to_pylist()
    for row in np.flatnonzero(mask).tolist():
        args[row] = with_member(args[row], key, int(values[row]))
    return _with(batch, "args", arrow.array(args, pa.string()))
