"""Firefox profile: the processed profile format of profiler.firefox.com, whose marker chart shows a trace.

| a row | is written as |
|---|---|
| with a duration | an interval marker; below 0: as 0, the value in the field dur_ns |
| of kind counter, with a value | a value of a counter of its process |
| any other (marks, memory, flow events) | an instant marker |

Each thread and stream is a thread, each process and each device a process. Slices that overlap in part are on threads
of their own, numbered (2), (3) ... The kind is the category and the type of a marker, with a schema of its own. Columns
of numbers are fields; so are the members of args, as texts. Device, context and stream of device work are those of its
thread.

Times are ms after the first event, with exactly six decimals. A double holds every ns for 99 days; from then on viewers
round. Where the input states its clock, the profile starts at the Unix time of the first event. A counter is the sum of
the differences of its values: exact for integers up to 2^53. Its args are not written. Points of arrows are markers:
the viewer draws no arrows. There are no samples, so the call tree is empty.

The object `tracekit` at the top level has version, clock, sources, lanes, ledgers and the number of rows that were not
written: counters whose value is not finite, rows that end 146 years after the first event, totals.

Version 75 of the format; tested with the importer of @firefox-devtools/profiler-cli 0.10. The format is
docs-developer/CHANGELOG-formats.md and src/types/profile.ts in github.com/firefox-devtools/profiler.
"""

from __future__ import annotations

from pathlib import Path

from tracekit.writers.base import RowStream, WriteOptions, Written
from tracekit.writers.firefox._document import Document, FirefoxCounters, MarkerMaker
from tracekit.writers.tracks.batch import Loader, event_tables, explain_missing_rows
from tracekit.writers.tracks.lanes import Track, TrackLanes
from tracekit.writers.tracks.output import Spool, file_facts, viewer_file

__all__ = ["write"]

BATCH_ROWS = 64 << 10
"""Small batches are joined up to this many rows, because each batch has a fixed cost."""
EXACT_NS = 1_000_000 << 33
"""A double of ms holds every ns up to this time after the first event."""


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write a stream as a Firefox profile, gzipped where the name ends with .gz.

    Raises: OutputExistsError, OutputError.
    """
    written = Written(target)
    refused = "profiler.firefox.com does not read"
    with viewer_file(target, force=options.force, viewer=refused, suffix=".json") as out, Spool(target) as spool:
        loader = Loader(stream.run, written, asynchronous=False)
        document = _spooled(stream, loader, spool, written)
        _add_notes(loader, document, written)
        base = (stream.run.origin_ns or 0) + (loader.first_ns or 0)
        document.write(out, stream.run, base, file_facts(stream, options, loader.lanes, written, base_ns=base))
    return written


def _spooled(stream: RowStream, loader: Loader, spool: Spool, written: Written) -> Document:
    markers, counters = MarkerMaker(spool), FirefoxCounters(spool, loader.lanes)
    for table in event_tables(stream.batches, written, BATCH_ROWS):
        batch = loader.load(table)
        if batch is None:
            continue
        written.events += markers.add(batch) + counters.add(batch)
        loader.carry(batch)
    spool.finish()
    threads = _threads(loader.lanes, markers, counters)
    return Document(spool, loader.lanes, markers, counters, threads)


def _threads(lanes: TrackLanes, markers: MarkerMaker, counters: FirefoxCounters) -> list[tuple[int, Track]]:
    """Return the tracks with markers in order of display; a process that has counters alone keeps a track for them."""
    tracks = list(enumerate(lanes.tracks))
    processes = {track.lane.process.number for number, track in tracks if number in markers.counts}
    alone = {process for process, _ in counters.known} - processes
    chosen = []
    for number, track in tracks:
        process = track.lane.process
        if number in markers.counts or process.number in alone:
            alone.discard(process.number)
            _, place = lanes.process_heading(process)
            chosen.append(((place, process.number, lanes.track_heading(track)[1], number), (number, track)))
    return [each for _, each in sorted(chosen, key=lambda pair: pair[0])]


def _add_notes(loader: Loader, document: Document, written: Written) -> None:
    markers = document.markers
    notes = [
        (loader.moved, "slices overlap others of their lane: they are on extra threads, numbered (2), (3) ..."),
        (loader.clamped, "slices have a negative duration: written as 0, with the value in the field dur_ns"),
        (markers.rounded, "rows have a number above 2^53: the file has it exactly, the viewer shows it rounded"),
        (
            markers.fields.together,
            "distinct args are one field each, because the trace has too many different keys of args",
        ),
        (document.counters.with_more, "counter values have args, which are not written: a counter has none"),
    ]
    written.notes += [f"{count:,} {text}" for count, text in notes if count]
    explain_missing_rows(written)
    if loader.last_ns > EXACT_NS:
        written.notes.append(
            "the trace is longer than 99 days: the file has every ns, but viewers round its later times"
        )
