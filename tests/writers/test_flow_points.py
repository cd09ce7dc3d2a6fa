"""The points of arrows of the input, chosen and moved for a whole batch at once: the same as one after the other."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from doors.writers import POINTS, InputArrows, Points, WireCells
from hypothesis import given
from hypothesis import strategies as st
from lanes import rows
from small_limits import Limit, small

from tracekit.model.trace import Run
from tracekit.writers.base import Written
from tracekit.writers.tracks.arrows import FlowKey, FlowPoints, Flows
from tracekit.writers.tracks.batch import END, NOT_WRITTEN, START, STEP, UNDRAWN, Loader

KEYS: list[FlowKey] = [(0, 1, "a", None), (0, 2, "a", None), (1, 1, "a", "c"), (0, "x", None, "bind_id")]

flow = st.tuples(st.sampled_from(range(len(KEYS))), st.sampled_from("sstf"), st.booleans(), st.booleans())


@given(
    st.lists(st.lists(flow, max_size=12), min_size=1, max_size=5),
    st.sampled_from([1, 2, 3, 100]),
    st.sampled_from([1, 2, 100]),
)
def test_points_are_accepted_as_one_after_the_other(
    batches: list[list[tuple[int, str, bool, bool]]], ended: int, open_: int
) -> None:
    together, in_turn = Flows(), Flows()
    with pytest.MonkeyPatch.context() as patch:
        small(patch, Limit.FLOWS_ENDED, ended)
        small(patch, Limit.FLOWS_OPEN, open_)
        for batch in batches:
            key, phase, after, enclosing = (np.array(column) for column in zip(*batch, strict=True)) if batch else [
                np.empty(0, kind) for kind in (np.int64, np.str_, np.bool_, np.bool_)
            ]  # fmt: skip
            found = together.accept_all(FlowPoints(KEYS, key, phase == "s", phase == "f", after, enclosing))
            expected = [
                in_turn.accept(letter, KEYS[at], after_slice=is_after, enclosing=is_enclosing) or 0
                for at, letter, is_after, is_enclosing in batch
            ]
            assert found.tolist() == expected
    assert together.made == in_turn.made


@dataclass
class OneByOne:
    """The rules of moved arrows, point by point. added: batch, row, id and whether it is an end, in order."""

    starts: dict[int, tuple[Points, int]] = field(default_factory=dict)
    moved: dict[int, int] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    added: list[tuple[Points, int, int, bool]] = field(default_factory=list)

    def move(self, points: Points, before: Points | None, threads: list[bool]) -> None:
        batch = points.batch
        # All batches up to `before` are written: the points in them stay where they are.
        self.starts = {each: start for each, start in self.starts.items() if start[0] is before}
        for row in batch.points.row.tolist():
            if int(batch.phase[row]) not in POINTS:
                continue
            phase, identity = int(batch.phase[row]), int(batch.identity[row])
            off = not (threads[int(batch.track[row])] and (phase == END or self._is_inside(points, row)))
            if phase == START:
                self.starts[identity] = points, row
                if off:
                    self._begin(identity, before)
                continue
            if identity in self.ended:
                batch.phase[row] = UNDRAWN
                continue
            if off and identity not in self.moved:
                self._begin(identity, before)
            if identity in self.moved:
                self._continue(points, row, before)
                if phase != STEP:
                    del self.moved[identity]
                    self.ended.add(identity)
            elif off:
                batch.phase[row] = UNDRAWN

    def _begin(self, identity: int, before: Points | None) -> None:
        owner, row = self.starts.pop(identity, (None, -1))
        if owner is None:
            return
        found = slice_of(owner, row, before if before is not owner else None)
        owner.batch.phase[row] = UNDRAWN if found is None else NOT_WRITTEN
        if found is not None:
            owner.absorbed += 1
            self.moved[identity] = int(found[0].batch.ts[found[1]])
            self.added.append((*found, identity, False))

    def _continue(self, points: Points, row: int, before: Points | None) -> None:
        identity, end = int(points.batch.identity[row]), int(points.batch.phase[row]) != STEP
        found = slice_of(points, row, before)
        good = found is not None and int(found[0].batch.ts[found[1]]) >= self.moved[identity]
        points.batch.phase[row] = NOT_WRITTEN if good else UNDRAWN
        if found is not None and good:
            points.absorbed += 1
            self.added.append((*found, identity, end))

    def fields_of(self, points: Points) -> list[bytes]:
        """Return the fields that the points of arrows add to each row of a batch."""
        found = [b""] * points.batch.count
        for holder, row, identity, end in self.added:
            if holder is points:
                found[row] += (b"\x81\x03" if end else b"\xf9\x02") + struct.pack("<q", (1 << 48) + identity)
        return found

    def _is_inside(self, points: Points, row: int) -> bool:
        """Return whether the last slice before a point, or one that began before the batch, is open around it."""
        batch = points.batch
        track, time = int(batch.track[row]), int(batch.ts[row])
        slices = points.slices(track)
        slices = slices[slices < row]
        carried = int(points.ends_before[track])
        end = int(batch.ts[slices[-1]] + batch.dur[slices[-1]]) if slices.size else carried
        begin = int(batch.ts[slices[-1]]) if slices.size else carried
        return (end > time or carried > time) and not (begin == time == end)


def slice_of(points: Points, row: int, before: Points | None) -> tuple[Points, int] | None:
    """Return the slice of one point: `test_perfetto_points` has an oracle for these."""
    found = points.slices_of(before)
    at = int(np.searchsorted(points.batch.points.row, row))
    holder = before if found.in_before[at] else points
    return (holder, int(found.row[at])) if found.row[at] >= 0 and holder is not None else None


POINT_ARGS = ('{"ph":"s"}', '{"ph":"t"}', '{"ph":"f"}', '{"ph":"f","bp":"e"}')
event = st.tuples(
    st.sampled_from([None, None, *POINT_ARGS, POINT_ARGS[0], POINT_ARGS[3]]),  # None: a slice
    st.integers(0, 4),  # time since the event before
    st.integers(0, 15),  # duration of a slice, or three times the number of a point's arrow
    st.sampled_from([1, 2, None]),  # thread; None: a stream of the device
)


@given(st.lists(event, min_size=1, max_size=40), st.integers(1, 40))
def test_arrows_are_moved_to_slices_as_one_after_the_other(
    events: list[tuple[str | None, int, int, int | None]], most: int
) -> None:
    table = table_of(events)
    together, in_turn = InputArrows(), OneByOne()
    known: list[tuple[Points, Points]] = []
    for (points, threads), (reference, _) in zip(loaded(table, most), loaded(table, most), strict=True):
        before, before_reference = known[-1] if known else (None, None)
        together.move(points, before, np.array(threads))
        in_turn.move(reference, before_reference, threads)
        known.append((points, reference))
    for points, reference in known:
        assert points.batch.phase.tolist() == reference.batch.phase.tolist()
        assert points.absorbed == reference.absorbed
        assert fields_of(points) == in_turn.fields_of(reference)


def table_of(events: list[tuple[str | None, int, int, int | None]]) -> pa.RecordBatch:
    args, steps, numbers, tids = (list(column) for column in zip(*events, strict=True))
    is_slice = [each is None for each in args]
    return rows(
        len(events),
        ts_ns=np.cumsum(steps),
        dur_ns=pa.array([n if is_s else None for n, is_s in zip(numbers, is_slice, strict=True)], pa.int64()),
        kind=pa.array(["operator" if is_s else "flow" for is_s in is_slice]),
        name="x",
        pid=1,
        tid=pa.array(tids, pa.int64()),
        stream=pa.array([7 if tid is None else None for tid in tids], pa.int64()),
        correlation=pa.array([None if is_s else n // 3 for n, is_s in zip(numbers, is_slice, strict=True)], pa.int64()),
        args=pa.array(args, pa.string()),
    )


def loaded(table: pa.RecordBatch, most: int) -> Iterator[tuple[Points, list[bool]]]:
    """Yield the points of batches of at most so many rows, and whether each track is a thread."""
    loader = Loader(Run(), Written(Path("x")), asynchronous=False)
    for at in range(0, table.num_rows, most):
        piece = pa.Table.from_batches([table.slice(at, most)])
        batch = loader.load(piece.combine_chunks())
        assert batch is not None
        yield Points(batch, 0, np.empty(0, np.int64), loader.ends.copy()), loader.lanes.threads().tolist()
        loader.carry(batch)


def fields_of(points: Points) -> list[bytes]:
    """Return the fields that the points of arrows add to each row of a batch."""
    count = points.batch.count
    if not points.used():
        return [b""] * count
    cells = WireCells(count)
    several = points.put(cells, np.arange(count))
    column = cells.column() if several is None else several
    found: list[bytes] = column.to_pylist()
    return found
