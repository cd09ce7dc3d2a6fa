"""Perfetto trace: native TrackEvent protobuf for ui.perfetto.dev. Every ns is kept, at a fifth of the bytes of JSON.

| a row | is written as |
|---|---|
| with a duration | a slice; below 0: as 0, the value in the argument dur_ns |
| of kind counter, with a value | a value of a counter track of its process |
| of kind flow that Perfetto draws | a point of an arrow |
| any other (marks, memory) | an instant |

Each process and each device is a process of the viewer, each thread a thread, each stream a track. Slices that overlap
in part are on sibling tracks of one name, which Perfetto shows as one track of several rows. Work without a thread is
on a track of its process. An arrow leads from each launch to each of its device rows.

Category is the kind; arguments are those of the Chrome trace, but device, context and stream of device work are those
of its track. Time 0 is the first event; where the input states its clock, a clock snapshot has the Unix time of it.
Facts of the file (version, sources, lanes, ledgers) are a JSON text in its metadata: `cr-tracekit` under "Info and
stats".

Not written: flow events that Perfetto does not draw, counters whose value is not finite, rows that end 146 years
after the first event, totals.

Tested with Perfetto v52. The format is protos/perfetto/trace in github.com/google/perfetto.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tracekit.writers.base import RowStream, WriteOptions, Written
from tracekit.writers.gzipped import Sink
from tracekit.writers.json_text import facts_json
from tracekit.writers.perfetto._arrows import FlowArrows, Points
from tracekit.writers.perfetto._packets import PacketMaker, facts_packet, unix_clock
from tracekit.writers.tracks.arrows import PENDING_LAUNCHES
from tracekit.writers.tracks.batch import Loader, event_tables, explain_missing_rows
from tracekit.writers.tracks.output import file_facts, viewer_file

__all__ = ["BATCH_ROWS", "write"]

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
        del points  # before the next batch is read
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
        del table
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
    explain_missing_rows(written)
