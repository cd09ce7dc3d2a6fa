"""Events as packets of a Perfetto trace, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tracekit.model.arrow import I64, Mask
from tracekit.writers.base import RowStream, WriteOptions, Written
from tracekit.writers.gzipped import Sink
from tracekit.writers.json_text import facts_json
from tracekit.writers.perfetto._events import InputArrows, Points
from tracekit.writers.perfetto._packets import PacketMaker, facts_packet, unix_clock
from tracekit.writers.tracks.arrows import PENDING_LAUNCHES, LaunchArrows
from tracekit.writers.tracks.batch import BOUND_END, Batch, Loader, event_tables, launch_columns
from tracekit.writers.tracks.output import file_facts, viewer_file

# Arrows as ids of flows: one id for each arrow, on the slice where it begins and on the slice where it ends.
#
# Perfetto draws one arrow for an id. A second kernel with the id of its launch has no arrow at all, so each kernel has
# an
# id of its own, and a launch has as many. They must be known when the launch is written: a batch is kept back until the
# next one has been read. A launch that has no kernel by then gets one id, for a kernel that comes later.


_LAUNCH, _LATE, _BOUND = 1 << 32, 1 << 44, 1 << 52
"""First ids of three kinds of arrows. Perfetto numbers the arrows of legacy events from 0 in the same space."""
_RING = 2 * PENDING_LAUNCHES


class FlowArrows:
    """Gives each arrow its id. `points` is called for each batch in order, `release` when it is written."""

    def __init__(self) -> None:
        self.launches = LaunchArrows()
        self.undrawn = 0
        """Arrows to a second kernel that comes long after its launch."""
        self._held: list[Points] = []
        self._input = InputArrows()
        self._free = np.full(_RING, -1, np.int64)

    def points(self, batch: Batch, threads: Mask, ends: I64) -> Points:
        """Return the points of a batch, complete when it is released.

        threads: whether each track is a thread. ends: the last end of a slice on each track before the batch.
        """
        rows, calls, work, keys = launch_columns(batch)
        points = Points(batch, self.launches.launches, rows[calls], ends.copy())
        self._held.append(points)
        if len(calls) or (len(work) and self.launches.waiting()):
            found = self.launches.match(calls, work, keys, batch.ts[rows], batch.track[rows])
            ids, drawn = self._connect(found.launch, found.identity + _LAUNCH)
            points.add(rows[found.row[drawn]], ids[drawn], end=True)
        else:
            self.launches.without += len(work)
        if batch.points:
            self._input.move(points, self._held[0] if len(self._held) > 1 else None, threads)
        for row, (phase, identity) in batch.bound.items():
            points.add_one(row, _BOUND + identity, end=phase == BOUND_END)
        return points

    def _connect(self, launches: I64, ids: I64) -> tuple[I64, Mask]:
        """Put ids on launches that are not written yet, or take the id that a written launch has. Shape (n,) both."""
        drawn = np.zeros(len(launches), np.bool_)
        for held in self._held:
            own = (launches >= held.first) & (launches < held.first + len(held.calls))
            held.add(held.calls[launches[own] - held.first], ids[own], end=False)
            drawn |= own
        late = np.flatnonzero(~drawn)
        if len(late):
            numbers, first = np.unique(launches[late], return_index=True)
            free = self._free[numbers % _RING] == numbers
            chosen = late[first[free]]
            self._free[numbers[free] % _RING] = -1
            ids = ids.copy()
            ids[chosen] = launches[chosen] + _LATE
            drawn[chosen] = True
            self.undrawn += int(np.count_nonzero(~drawn))
        return ids, drawn

    def release(self, points: Points) -> None:
        """Finish the oldest batch: launches without a kernel so far get an id for a later one."""
        self._held.remove(points)
        self._input.forget(points)
        unused = np.ones(points.batch.count, np.bool_)
        for rows in points.used():
            unused[rows] = False
        waiting = np.flatnonzero(unused[points.calls])
        numbers = points.first + waiting
        self._free[numbers % _RING] = numbers
        points.add(points.calls[waiting], numbers + _LATE, end=False)


BATCH_ROWS = 64 << 10
"""Small batches are joined up to this many rows, because each batch has a fixed cost."""
_UNDRAWN = "arrow-points-that-perfetto-does-not-draw"


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write a stream as a Perfetto trace, gzipped where the name ends with .gz.

    Raises: OutputExistsError, OutputError.
    """
    written = Written(target)
    refused = "Perfetto does not read"
    with viewer_file(target, force=options.force, viewer=refused, suffix=".pftrace") as out:
        _write(stream, out, options, written)
    return written


def _write(stream: RowStream, file: Sink, options: WriteOptions, written: Written) -> None:
    loader, arrows = Loader(stream.run, written, asynchronous=False), FlowArrows()
    maker = PacketMaker(loader.lanes)
    for points in _held_back(stream, loader, arrows, written):
        for chunk in maker.chunks(points.batch, points):
            file.write(chunk)
    for chunk in maker.rest():
        file.write(chunk)
    for named in maker.timelines.renamed():
        file.write(named)
    written.events = maker.events
    written.leave_out(_UNDRAWN, maker.undrawn)
    _add_notes(loader, arrows, written)
    base = (stream.run.origin_ns or 0) + (loader.first_ns or 0)
    if stream.run.origin_ns is not None and 0 <= base < 1 << 63:
        file.write(unix_clock(base))
    drawn = {"written": arrows.launches.made - arrows.undrawn, "without_launch": arrows.launches.without}
    facts = file_facts(stream, options, loader.lanes, written, base_ns=base, arrows=drawn)
    file.write(facts_packet(facts_json(facts)))


def _held_back(stream: RowStream, loader: Loader, arrows: FlowArrows, written: Written) -> Iterator[Points]:
    """Yield the batches, each when the next one has been read: then the arrows of its launches are known."""
    held: Points | None = None
    for table in event_tables(stream.batches, written, BATCH_ROWS):
        batch = loader.load(table)
        if batch is None:
            continue
        points = arrows.points(batch, loader.lanes.threads(), loader.ends)
        loader.carry(batch)
        if held is not None:
            arrows.release(held)
            yield held
        held = points
    if held is not None:
        arrows.release(held)
        yield held


def _add_notes(loader: Loader, arrows: FlowArrows, written: Written) -> None:
    written.explain(_UNDRAWN, "flow events without a partner were skipped")
    launches = arrows.launches
    notes = [
        (loader.moved, "slices overlap others of their lane: they are in extra rows of its track"),
        (loader.clamped, "slices have a negative duration: written as 0, with the value in the argument dur_ns"),
        (
            launches.without if launches.launches else 0,
            f"device rows have no arrow: no launch with their correlation id among the {PENDING_LAUNCHES:,} before them"
            if launches.forgotten
            else "device rows have no arrow: no launch before them has their correlation id",
        ),
        (arrows.undrawn, "device rows have no arrow: their launch has others, and is too far before them"),
    ]
    written.notes += [f"{count:,} {text}" for count, text in notes if count]
    written.explain("counter-not-finite", "counter values were not written: they are not finite")
    written.explain(
        "beyond-what-viewers-hold", "rows were not written: they end more than 146 years after the first event"
    )
