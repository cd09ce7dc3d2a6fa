"""Starts that were printed without resolution: they hold no order, so only the durations of their rows count.

Work of one stream cannot overlap. Where it would, and the digits of the starts are too few to tell its order, the times
say nothing about when work ran: `0.000000` for each row, or starts in ms of work of some us.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import numpy as np
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema
from tracekit.model.arrow import I64, Rows, pc
from tracekit.model.trace import TIMES, Ledger, Run

__all__ = ["with_order"]

NO_ORDER = "order not known (the printed starts have too few digits)"
_NOTE = f"{NO_ORDER}: work of one stream would overlap, so only durations and counts are used"
_ROW = ("correlation", "dur_ns", "ts_ns")
_LANE = ("pid", "tid", "device", "context", "stream")
_MOST_OVERLAP = 0.05
"""Part of the time of streams that may overlap because starts are rounded."""
_POWERS = 10 ** np.arange(1, 16, dtype=np.int64)


@dataclass(slots=True)
class _Starts:
    """The starts of the rows so far. same: the start of all of them. ends: last end of each lane."""

    same: int | None = None
    differ: bool = False
    total: int = 0
    overlap: int = 0
    ends: dict[tuple[int, ...], int] = field(default_factory=dict)
    shared: bool = False
    """Whether a lane has two rows with a duration."""

    def see(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch."""
        ts, dur = arrow.ints(batch.column("ts_ns")), arrow.ints(batch.column("dur_ns"))
        timed = np.flatnonzero(dur > 0)
        if not timed.size:
            return
        ts, dur = ts[timed], dur[timed]
        first = int(ts[0]) if self.same is None else self.same
        self.same, self.differ = first, self.differ or bool((ts != first).any())
        if self.differ and 2 * np.count_nonzero(ts % 10) > len(ts):
            self.total += int(dur.sum())  # the starts have all their digits
            return
        for lane, rows in _lanes(batch, timed):
            self._lane(lane, ts[rows], dur[rows])

    def _lane(self, lane: tuple[int, ...], ts: I64, dur: I64) -> None:
        known = self.ends.get(lane)
        self.shared |= known is not None or len(ts) > 1
        last = int(ts[0]) if known is None else known
        ends = np.maximum(np.maximum.accumulate(ts + dur), last)
        before = np.concatenate(([last], ends[:-1]))
        self.ends[lane] = int(ends[-1])
        if lane[-1] >= 0:
            over = np.maximum(before - ts, 0)
            explained = over <= _resolution(ts)
            self.total += int(dur.sum())
            self.overlap += int(np.minimum(over, dur)[explained].sum())

    @property
    def hold_no_order(self) -> bool:
        """Return whether the starts are all equal on a lane, or so coarse that the work of streams would overlap."""
        if self.same is None or not self.shared:
            return False
        return not self.differ or self.overlap > _MOST_OVERLAP * self.total


def _resolution(ts: I64) -> I64:
    """Return the largest power of ten that divides each time: a time that was printed with few digits has a large one.

    >>> _resolution(np.array([0, 1200, 1234])).tolist()
    [1000000000000000, 100, 1]
    """
    found = np.ones(len(ts), np.int64)
    for power in _POWERS.tolist():
        divided = ts % power == 0
        if not divided.any():
            break
        found[divided] = power
    return found


def _lanes(batch: pa.RecordBatch, timed: Rows) -> Iterator[tuple[tuple[int, ...], Rows]]:
    """Yield each lane, -1 for what it lacks, and the places of its rows among the timed ones in order of start.

    A row that is a copy of another one does not count: it is no other work.
    """
    names: I64 = arrow.codes(batch.column("name"))[timed].astype(np.int64)
    columns: list[I64] = [arrow.ints(pc.cast(batch.column(key), pa.int64()), -1)[timed] for key in (*_ROW, *_LANE)]
    order = np.lexsort([names, *columns])
    is_copy = np.ones(len(order), np.bool_)
    is_new_lane = np.zeros(len(order), np.bool_)
    is_copy[0], is_new_lane[0] = False, True
    for place, column in enumerate((*columns, names)):
        differs = column[order][1:] != column[order][:-1]
        is_copy[1:] &= ~differs
        if len(_ROW) <= place < len(columns):
            is_new_lane[1:] |= differs
    lane, order = np.cumsum(is_new_lane)[~is_copy], order[~is_copy]
    for rows in np.split(order, np.flatnonzero(lane[1:] != lane[:-1]) + 1):
        yield tuple(int(column[rows[0]]) for column in columns[len(_ROW) :]), rows


def with_order(batches: Iterator[pa.RecordBatch], run: Run, ledger: Ledger) -> Iterator[pa.RecordBatch]:
    """Yield batches; at the end, note whether the starts of the first source hold no order."""
    starts = _Starts()
    for batch in batches:
        if not schema.is_totals(batch):
            starts.see(batch)
        yield batch
    if starts.hold_no_order:
        ledger.note("order-not-known", _NOTE)
        run.sources[0].synthetic_time = True
        run.sources[0].facts[TIMES] = f"not known: {NO_ORDER}"
