"""A stream of events as an archive: by location, in order of time, and the facts behind it."""

from __future__ import annotations

from pathlib import Path

import _otf2
import numpy as np

from tracekit.columns import arrow
from tracekit.errors import OutputError
from tracekit.writers.base import Stream, WriteOptions, Written
from tracekit.writers.json_text import facts_json
from tracekit.writers.otf2._archive import Archive
from tracekit.writers.otf2._definitions import Place, define_clock, define_metrics, define_places, define_regions
from tracekit.writers.otf2._events import EVENT, VALUE, VALUES, Replay, Values, event_texts
from tracekit.writers.otf2._folder import FACTS, new_folder
from tracekit.writers.tracks.batch import (
    COUNTER,
    INSTANT,
    LONE_INSTANT,
    NOT_WRITTEN,
    SLICE,
    Batch,
    Loader,
    event_tables,
)
from tracekit.writers.tracks.lanes import Lanes, Process, Track
from tracekit.writers.tracks.nested import EVENTS, NestedEvents
from tracekit.writers.tracks.output import file_facts
from tracekit.writers.tracks.spool import Spool

BATCH_ROWS = 64 << 10
"""Small batches are joined up to this many rows, because each batch has a fixed cost."""
_LAST = 1 << 62
_MARKS, _ARROWS = "marks-that-otf2-cannot-hold", "points-of-arrows-that-otf2-cannot-hold"


def write(stream: Stream, target: Path, options: WriteOptions) -> Written:
    """Write a stream as an archive, a folder. Raises: OutputExistsError, OutputError."""
    written = Written(target)
    with new_folder(target, force=options.force) as folder, Spool(target) as spool:
        loader, slices = Loader(stream.run, written, asynchronous=False), NestedEvents(spool, event_texts)
        values, with_args = Values(spool, loader.lanes), 0
        for table in event_tables(stream.batches, written, BATCH_ROWS):
            batch = loader.load(table)
            if batch is None:
                continue
            slices.add(batch)
            written.events += values.add(batch)
            with_args += int(np.count_nonzero(arrow.valid(batch.args)[batch.slices()]))
            _leave_out(batch, written)
            loader.carry(batch)
        slices.finish()
        spool.finish()
        written.events += slices.slices
        _add_notes(loader, values.with_more, with_args, written)
        places = _places(spool, loader.lanes)
        base = None if stream.run.origin_ns is None else stream.run.origin_ns + (loader.first_ns or 0)
        try:
            with Archive(folder, options.version) as archive:
                for place in places:
                    _write_events(archive, place, spool)
                define_clock(archive, loader.last_ns, base)
                define_places(archive, stream.run, loader.lanes, places)
                define_regions(archive, slices.frames)
                define_metrics(archive, values.names.known, places)
        except _otf2.Error as err:
            raise OutputError(
                f"the archive cannot be written: {err}", path=target, hint="is there space on the disk?"
            ) from err
        numbers = {place.track.number: place.number for place in places if place.track is not None}
        facts = file_facts(stream, options, loader.lanes, written, base_ns=base or loader.first_ns or 0)
        lanes = zip(loader.lanes.tracks, loader.lanes.facts(), strict=True)
        facts["lanes"] = [{**lane, "location": numbers.get(track.number)} for track, lane in lanes]
        (folder / FACTS).write_text(facts_json(facts) + "\n", encoding="utf-8")
    return written


def _write_events(archive: Archive, place: Place, spool: Spool) -> None:
    location = archive.location(place.number)
    if place.track is None:
        spool.copy(VALUES, place.process.number, Replay(VALUE, location.values))
    else:
        number = place.track.lane.tracks[place.track.extra]
        spool.copy(EVENTS, number, Replay(EVENT, location.slices))
    place.events = location.events
    location.close()


def _places(spool: Spool, lanes: Lanes) -> list[Place]:
    """Return the locations with events in order of display; the counters of a process follow its tracks."""
    order: list[tuple[tuple[int, ...], Process, Track | None]] = []
    for track in [lanes.tracks[number] for number in spool.keys(EVENTS)]:
        order.append((lanes.place(track), track.lane.process, track))
    processes = {track.lane.process.number: track.lane.process for track in lanes.tracks}
    for process in [processes[number] for number in spool.keys(VALUES)]:
        order.append(((*lanes.place_of(process), _LAST), process, None))
    if not order:  # readers need a location
        order.append(((), Process(0, False, 0, None, None, None, 0), None))
    order.sort(key=lambda each: each[0])
    return [Place(number, process, track) for number, (_, process, track) in enumerate(order)]


def _leave_out(batch: Batch, written: Written) -> None:
    marks = int(np.count_nonzero((batch.phase == INSTANT) | (batch.phase == LONE_INSTANT)))
    others = int(np.count_nonzero((batch.phase == SLICE) | (batch.phase == COUNTER) | (batch.phase == NOT_WRITTEN)))
    written.leave_out(_MARKS, marks)
    written.leave_out(_ARROWS, batch.count - marks - others)


def _add_notes(loader: Loader, values_with_args: int, slices_with_args: int, written: Written) -> None:
    notes = [
        (loader.moved, "slices overlap others of their lane: they are on extra locations, numbered (2), (3) ..."),
        (loader.clamped, "slices have a negative duration: written as 0"),
        (slices_with_args, "slices have args, which are not written"),
        (values_with_args, "counter values have args, which are not written"),
    ]
    written.notes += [f"{count:,} {text}" for count, text in notes if count]
    written.explain(_MARKS, "marks were skipped: OTF2 has no event for them")
    written.explain(_ARROWS, "flow events were skipped: OTF2 has no event for them")
    written.explain("counter-not-finite", "counter values were not written: they are not finite")
    written.explain(
        "beyond-what-viewers-hold", "rows were not written: they end more than 146 years after the first event"
    )
