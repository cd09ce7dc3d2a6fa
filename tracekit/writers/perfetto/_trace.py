"""Events as packets of a Perfetto trace, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tracekit.writers.base import Stream, WriteOptions, Written
from tracekit.writers.gzipped import Sink
from tracekit.writers.json_text import facts_json
from tracekit.writers.perfetto._arrows import Arrows
from tracekit.writers.perfetto._packets import PacketMaker
from tracekit.writers.perfetto._points import Points
from tracekit.writers.perfetto._tracks import facts_packet, unix_clock
from tracekit.writers.tracks.arrows import PENDING_LAUNCHES
from tracekit.writers.tracks.batch import Loader, event_tables
from tracekit.writers.tracks.output import file_facts, viewer_file

BATCH_ROWS = 64 << 10
"""Small batches are joined up to this many rows, because each batch has a fixed cost."""
_UNDRAWN = "arrow-points-that-perfetto-does-not-draw"


def write(stream: Stream, target: Path, options: WriteOptions) -> Written:
    """Write a stream as a Perfetto trace, gzipped where the name ends with .gz.

    Raises: OutputExistsError, OutputError.
    """
    written = Written(target)
    refused = "Perfetto does not read"
    with viewer_file(target, force=options.force, viewer=refused, suffix=".pftrace") as out:
        _write(stream, out, options, written)
    return written


def _write(stream: Stream, file: Sink, options: WriteOptions, written: Written) -> None:
    loader, arrows = Loader(stream.run, written, asynchronous=False), Arrows()
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


def _held_back(stream: Stream, loader: Loader, arrows: Arrows, written: Written) -> Iterator[Points]:
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


def _add_notes(loader: Loader, arrows: Arrows, written: Written) -> None:
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
