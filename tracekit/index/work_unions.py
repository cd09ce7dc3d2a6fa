"""Device work as unions of times, gathered batch by batch: of each device, and of each class of work on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from tracekit.analysis.range_union import RangeUnion
from tracekit.index import grouping
from tracekit.index.devices import DeviceKey, by_input
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64
from tracekit.model.report import Cell, integer_of
from tracekit.model.schema import DEVICE_WORK

__all__ = ["COLUMNS", "UnitedWork", "WorkUnions", "process_places"]

COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "source", "rank", "device", "pid"})
"""Columns of EVENTS that are looked at."""
_KEYS = ("source", "rank", "device", "pid")


@dataclass(frozen=True, slots=True, eq=False)
class UnitedWork:
    """The work of one class on a device, of each of its processes."""

    unions: tuple[RangeUnion, ...]

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return sum(union.count for union in self.unions)


class WorkUnions:
    """The unions. untimed, negative: rows of work without a duration, and with one below zero."""

    def __init__(self, classes: int) -> None:
        self.untimed = self.negative = 0
        self._classes = classes
        self._work: dict[tuple[Cell, ...], tuple[RangeUnion, ...]] = {}

    def take(self, batch: pa.RecordBatch, class_of: Callable[[I64], I64 | None]) -> bool:
        """Add the work of a batch of EVENTS; return False, and add nothing, where `class_of` returns None.

        class_of: returns the class of these rows of the batch, which have a duration, 0 .. classes - 1.
        """
        mask, timed = grouping.kind_mask(batch, DEVICE_WORK), arrow.valid(batch.column("dur_ns"))
        rows = np.flatnonzero(mask & timed)
        self.untimed += int(np.count_nonzero(mask)) - rows.size
        if not rows.size:
            return True
        classes = class_of(rows)
        if classes is None:
            return False
        durations = arrow.ints(batch.column("dur_ns"))[rows]
        self.negative += int(np.count_nonzero(durations < 0))
        starts = arrow.ints(batch.column("ts_ns"))[rows]
        ends = starts + np.maximum(durations, 0)
        keys = [grouping.used_key(batch, key, rows) for key in _KEYS]
        groups = grouping.group_by(*keys, grouping.Key(classes, range(self._classes)))
        every = np.ones(rows.size, np.bool_)
        for group, places in grouping.rows_of_groups(groups, every):
            *key, number = (labels[group] for labels in groups.labels)
            if tuple(key) not in self._work:
                self._work[tuple(key)] = tuple(RangeUnion() for _ in range(self._classes))
            self._work[tuple(key)][integer_of(number)].add(starts[places], ends[places])
        return True

    def by_device(self, index: TraceIndex) -> dict[DeviceKey, Sequence[UnitedWork]]:
        """Return the work of each device, class by class. index: of a trace with a row of each process at least."""
        place_of = process_places(index, by_input(index))
        together: dict[DeviceKey, list[tuple[RangeUnion, ...]]] = {}
        for (source, rank, device, process), work in self._work.items():
            place = integer_of(source), rank, device, place_of[source, process]
            together.setdefault(place, []).append(work)
        return {place: [UnitedWork(each) for each in zip(*works, strict=True)] for place, works in together.items()}


def process_places(index: TraceIndex, groups: grouping.Groups) -> dict[tuple[Cell, Cell], int]:
    """Return the group of each process (source, pid), where all rows of a process are in one group."""
    every = np.arange(index.events.num_rows)
    source, pid = index.key("source", every), index.key("pid", every)
    rows = zip(source.codes.tolist(), pid.codes.tolist(), groups.codes.tolist(), strict=True)
    return {(source.labels[s], pid.labels[p]): group for s, p, group in rows}
