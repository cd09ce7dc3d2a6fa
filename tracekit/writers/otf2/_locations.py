"""The locations of an archive: a thread, a stream, or the counters of a process."""

from __future__ import annotations

from tracekit.lazy_dataclass import dataclass
from tracekit.writers.otf2._spooled import VALUES
from tracekit.writers.tracks.lanes import Track, TrackLanes, TrackProcess
from tracekit.writers.tracks.nested import EVENTS
from tracekit.writers.tracks.output import Spool

_LAST = 1 << 62
"""The place of the counters of a process: behind all its tracks."""


@dataclass(slots=True)
class Otf2Place:
    """One location. track: None for the one that has the metrics of its process, or for that of an empty archive."""

    number: int
    process: TrackProcess
    track: Track | None
    events: int = 0


def locations(spool: Spool, lanes: TrackLanes) -> list[Otf2Place]:
    """Return the locations with events in order of display; the counters of a process follow its tracks."""
    order: list[tuple[tuple[int, ...], TrackProcess, Track | None]] = []
    for track in [lanes.tracks[number] for number in spool.keys(EVENTS)]:
        order.append((lanes.place(track), track.lane.process, track))
    processes = {track.lane.process.number: track.lane.process for track in lanes.tracks}
    for process in [processes[number] for number in spool.keys(VALUES)]:
        order.append(((*lanes.place_of(process), _LAST), process, None))
    if not order:  # readers need a location
        order.append(((), TrackProcess(0, False, 0, None, None, None, 0), None))
    order.sort(key=lambda each: each[0])
    return [Otf2Place(number, process, track) for number, (_, process, track) in enumerate(order)]
