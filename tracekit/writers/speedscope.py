"""speedscope profile: flame graphs of each thread and stream, for speedscope.app.

| a row | is written as |
|---|---|
| with a duration | a frame that opens and closes; below 0: as 0 |
| any other (marks, memory, flow events), and counters | not written: the format has no place for it |

Each thread and stream is a profile of the list, in order of display; its name begins with the process. Slices that
overlap in part are in profiles of their own, numbered (2), (3) ... Times are integer ns after the first event. A double
holds every ns for 104 days; from then on speedscope rounds. A frame is a name, and its kind in the place of the file
name, which speedscope shows behind the name. Args are not written. Slices of 0 ns are in the file, but speedscope does
not draw them.

The object `tracekit` at the top level has version, clock, sources, lanes (each with the place of its profile in the
list), ledgers and the number of rows that were not written: marks, counters, rows that end 146 years after the first
event, totals.

Tested with speedscope 1.25. The format is https://www.speedscope.app/file-format-schema.json, evented profiles.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tracekit.model.arrow import I64, Column
from tracekit.writers.base import RowStream, WriteOptions, Written
from tracekit.writers.gzipped import Sink
from tracekit.writers.json_text import facts_json
from tracekit.writers.tracks.batch import COUNTER, NOT_WRITTEN, SLICE, Loader, event_tables, explain_missing_rows
from tracekit.writers.tracks.digits import Piece, fixed_rows
from tracekit.writers.tracks.lanes import TrackLanes
from tracekit.writers.tracks.nested import EVENTS, NestedEvents
from tracekit.writers.tracks.output import Spool, file_facts, title, viewer_file
from tracekit.writers.tracks.texts import quoted

__all__ = ["BATCH_ROWS", "write"]

# The begins and ends of slices, as events of an evented profile.


def event_texts(frame: I64, start: I64 | None, end: I64 | None) -> Column:
    """Return the events of each slice, a comma after each: its begin, its end, or both where nothing is between."""
    pieces: list[Piece] = []
    if start is not None:
        pieces += [b'{"type":"O","frame":', frame, b',"at":', start, b"},"]
    if end is not None:
        pieces += [b'{"type":"C","frame":', frame, b',"at":', end, b"},"]
    return fixed_rows([(len(frame), pieces)])


BATCH_ROWS = 64 << 10
"""Small batches are joined up to this many rows, because each batch has a fixed cost."""
EXACT_NS = 1 << 53
"""A double holds every ns up to this time after the first event."""
_MARKS, _COUNTERS = "marks-that-speedscope-cannot-hold", "counters-that-speedscope-cannot-hold"


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write a stream as a speedscope profile, gzipped where the name ends with .gz.

    Raises: OutputExistsError, OutputError.
    """
    written = Written(target)
    refused = "speedscope does not read"
    with viewer_file(target, force=options.force, viewer=refused, suffix=".json") as out, Spool(target) as spool:
        loader, maker = Loader(stream.run, written, asynchronous=False), NestedEvents(spool, event_texts)
        for table in event_tables(stream.batches, written, BATCH_ROWS):
            batch = loader.load(table)
            if batch is None:
                continue
            maker.add(batch)
            counters = int(np.count_nonzero(batch.phase == COUNTER))
            # NOT_WRITTEN are counter values that are not finite: the loader has counted them.
            drawn = int(np.count_nonzero((batch.phase == SLICE) | (batch.phase == NOT_WRITTEN)))
            written.leave_out(_COUNTERS, counters)
            written.leave_out(_MARKS, batch.count - drawn - counters)
            loader.carry(batch)
        maker.finish()
        spool.finish()
        written.events = maker.slices
        _add_notes(loader, maker, written)
        base = (stream.run.origin_ns or 0) + (loader.first_ns or 0)
        chosen = _chosen(spool, loader.lanes)
        places = {number: at for at, (number, _) in enumerate(chosen)}
        lanes = [{**lane, "profile": places.get(at)} for at, lane in enumerate(loader.lanes.facts())]
        facts = file_facts(stream, options, loader.lanes, written, base_ns=base) | {"lanes": lanes}
        _write(out, spool, chosen, maker, facts, title(stream.run))
    return written


def _write(
    out: Sink, spool: Spool, chosen: list[tuple[int, str]], maker: NestedEvents, facts: Mapping[str, object], name: str
) -> None:
    schema = "https://www.speedscope.app/file-format-schema.json"
    exporter = json.dumps(f"tracekit {facts['version']}")
    out.write(f'{{"$schema":"{schema}","exporter":{exporter},"name":{quoted(name)},"profiles":['.encode())
    for at, (number, lane) in enumerate(chosen or [(-1, "no slices")]):  # speedscope needs a profile
        values = f'"unit":"nanoseconds","startValue":0,"endValue":{maker.last_ns}'
        out.write(f'{"," if at else ""}\n{{"type":"evented","name":{quoted(lane)},{values},"events":['.encode())
        spool.copy(EVENTS, number, out)
        out.write(b"]}")
    out.write(b'],\n"shared":{"frames":[')
    for at, (name, kind) in enumerate(maker.frames):
        out.write(f'{"," if at else ""}{{"name":{quoted(name)},"file":{quoted(kind)}}}'.encode())
    out.write(f']}},\n"tracekit":{facts_json(facts)}}}\n'.encode())


def _chosen(spool: Spool, lanes: TrackLanes) -> list[tuple[int, str]]:
    """Return the tracks with slices in order of display, and the names of their profiles."""
    found = []
    for number in spool.keys(EVENTS):
        track = lanes.tracks[number]
        process = track.lane.process
        found.append((lanes.place(track), number, f"{lanes.process_name(process)} · {lanes.track_name(track)}"))
    return [(number, name) for _, number, name in sorted(found)]


def _add_notes(loader: Loader, maker: NestedEvents, written: Written) -> None:
    notes = [
        (loader.moved, "slices overlap others of their lane: they are in extra profiles, numbered (2), (3) ..."),
        (loader.clamped, "slices have a negative duration: written as 0"),
        (maker.empty, "slices have a duration of 0 ns: they are in the file, but speedscope does not draw them"),
    ]
    written.notes += [f"{count:,} {text}" for count, text in notes if count]
    written.explain(_MARKS, "marks were not written: speedscope shows slices alone")
    written.explain(_COUNTERS, "values of counters were not written: speedscope shows slices alone")
    explain_missing_rows(written)
    if loader.last_ns > EXACT_NS:
        written.notes.append(
            "the trace is longer than 104 days: the file has every ns, but speedscope rounds its later times"
        )
