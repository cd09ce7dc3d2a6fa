"""Events as packets of a Perfetto trace, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tracekit.errors import OutputError
from tracekit.writers.base import Stream, WriteOptions, Written, new_file
from tracekit.writers.gzipped import Sink, gzipped
from tracekit.writers.json_text import facts_json
from tracekit.writers.perfetto._arrows import Arrows
from tracekit.writers.perfetto._packets import PacketMaker
from tracekit.writers.perfetto._points import Points
from tracekit.writers.perfetto._tracks import facts_packet, unix_clock
from tracekit.writers.tracks.arrows import PENDING_LAUNCHES
from tracekit.writers.tracks.batch import Loader, event_tables

BATCH_ROWS = 64 << 10
"""Small batches are joined up to this many rows, because each batch has a fixed cost."""
_UNDRAWN = "arrow-points-that-perfetto-does-not-draw"


def write(stream: Stream, target: Path, options: WriteOptions) -> Written:
    """Write a stream as a Perfetto trace, gzipped where the name ends with .gz.

    Raises: OutputExistsError, OutputError.
    """
    if target.name.lower().endswith(".zst"):
        raise OutputError(f"{target}: Perfetto does not read zstd", hint="name it .pftrace or .pftrace.gz")
    written = Written(target)
    with new_file(target, force=options.force) as file:
        if not target.name.lower().endswith(".gz"):
            _write(stream, file, options, written)
        else:
            with gzipped(file) as packed:
                _write(stream, packed, options, written)
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
    file.write(facts_packet(facts_json(_facts(stream, options, loader, arrows, written, base))))


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
    written.explain(_UNDRAWN, "points of arrows were not written: Perfetto would not draw them")
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


def _facts(
    stream: Stream, options: WriteOptions, loader: Loader, arrows: Arrows, written: Written, base: int
) -> dict[str, object]:
    launches = arrows.launches
    return {
        "version": options.version,
        "clock": "not stated" if stream.run.origin_ns is None else "unix epoch",
        "origin_ns": stream.run.origin_ns,
        "base_ns": base,
        "sources": [source.to_json() for source in stream.run.sources],
        "lanes": loader.lanes.facts(),
        "arrows": {"written": launches.made - arrows.undrawn, "without_launch": launches.without},
        "written": written.events,
        "left_out": dict(sorted(written.left_out.items())),
        "notes": list(written.notes),
        "ledger": [ledger.to_json() for ledger in stream.ledgers],
    }
