"""OTF2 archive: the trace format of Score-P, which Vampir and other tools of high-performance computing open.

| in the trace | in the archive |
|---|---|
| the host of an input, where its file names it | a node of the system tree |
| a process; the part of a process on a device | a location group: PROCESS; ACCELERATOR |
| a thread; a stream | a location: CPU_THREAD; ACCELERATOR_STREAM |
| a name and its kind | a region; the kind is its description, its role and paradigm, and a group of regions |
| a row with a duration | enter and leave; below 0: at one time |
| of kind counter, with a value | a metric of a METRIC location of its process |
| any other (marks, memory, flow events) | not written: counted |

Slices that overlap in part are on locations of their own, numbered (2), (3) ... The paradigm is CUDA for device work
and its calls (HIP for calls named hip...), MPI for communication named MPI_..., USER for ranges and operators, and else
unknown. A NUL in a name is written as \\0. `args` and further columns (correlation, bytes, grid ...) are not written.

Times are whole ns after the first event, and the clock has 1,000,000,000 ticks a second. Where the input states its
clock, the archive states the Unix time of its first event. Beside the archive's own files, `tracekit.json` has version,
clock, sources, lanes, ledgers and the number of rows that were not written. The library writes the files; it takes one
call for each enter and leave.

The low-level bindings `_otf2` of the package otf2 are used: `otf2.writer` puts the time of writing into the archive as
that of its first event, and takes twice as long.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tracekit.errors import MissingExtraError, Option, OutputError
from tracekit.model import arrow
from tracekit.writers.base import RowStream, WriteOptions, Written
from tracekit.writers.json_text import facts_json
from tracekit.writers.otf2._folder import FACTS, new_folder
from tracekit.writers.otf2._locations import Otf2Place, locations
from tracekit.writers.otf2._spooled import EVENT, VALUE, VALUES, Replay, Values, event_texts
from tracekit.writers.tracks.batch import (
    COUNTER,
    INSTANT,
    LONE_INSTANT,
    NOT_WRITTEN,
    SLICE,
    Batch,
    Loader,
    event_tables,
    explain_missing_rows,
)
from tracekit.writers.tracks.nested import EVENTS, NestedEvents
from tracekit.writers.tracks.output import Spool, file_facts

if TYPE_CHECKING:
    from tracekit.writers.otf2._library import Archive

__all__ = ["write"]

BATCH_ROWS = 64 << 10
"""Small batches are joined up to this many rows, because each batch has a fixed cost."""
_MARKS, _ARROWS = "marks-that-otf2-cannot-hold", "points-of-arrows-that-otf2-cannot-hold"


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write a stream as an archive, a folder.

    Raises: MissingExtraError without the package otf2; OutputExistsError, OutputError.
    """
    # Only few installations have the package (an extra, with wheels for one Python). So it is imported here, before a
    # row is read, and nothing else about this target needs it.
    try:
        import _otf2
    except ImportError as err:
        raise MissingExtraError(Option("to", "otf2"), "otf2") from err
    from tracekit.writers.otf2._definitions import define_clock, define_metrics, define_places, define_regions
    from tracekit.writers.otf2._library import Archive

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
        places = locations(spool, loader.lanes)
        base = None if stream.run.origin_ns is None else stream.run.origin_ns + (loader.first_ns or 0)
        # The library wants all events of a location before those of the next, and definitions last: hence the spool.
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
        # OTF2 has no place for the ids of the file: `tracekit.json` beside it has the location of each lane.
        numbers = {place.track.number: place.number for place in places if place.track is not None}
        facts = file_facts(stream, options, loader.lanes, written, base_ns=base or loader.first_ns or 0)
        lanes = zip(loader.lanes.tracks, loader.lanes.facts(), strict=True)
        facts["lanes"] = [{**lane, "location": numbers.get(track.number)} for track, lane in lanes]
        (folder / FACTS).write_text(facts_json(facts) + "\n", encoding="utf-8")
    return written


def _write_events(archive: Archive, place: Otf2Place, spool: Spool) -> None:
    location = archive.location(place.number)
    if place.track is None:
        spool.copy(VALUES, place.process.number, Replay(VALUE, location.values))
    else:
        number = place.track.lane.tracks[place.track.extra]
        spool.copy(EVENTS, number, Replay(EVENT, location.slices))
    place.events = location.events
    location.close()


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
    explain_missing_rows(written)
