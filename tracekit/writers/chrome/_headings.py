"""Names and order of processes and threads, as M events."""

from __future__ import annotations

from tracekit.writers.tracks.lanes import Heading, Lanes
from tracekit.writers.tracks.texts import quoted


class Headings:
    """The M events of a file: each is written when its lane appears, and again where its name has changed."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._places: dict[int, str] = {}

    def place(self, track: int) -> str:
        """Return the pid and tid of a track as members of an event."""
        found = self._lanes.tracks[track]
        return f'"pid":{found.lane.process.number},"tid":{found.number}'

    def introduce(self, number: int, *, thread: bool) -> list[str]:
        """Return the M events that introduce the process of a track and, where asked, the track itself.

        Events that are in the file already are not repeated. thread: the track holds slices or marks, not only rows
        that belong to the process as a whole.
        """
        track = self._lanes.tracks[number]
        process = track.lane.process
        place = self._places.setdefault(process.number, self.place(number))
        heading = self._lanes.process_heading(process)
        out = _changes("process", place, process.introduced, heading)
        process.introduced = heading
        if thread:
            heading = self._lanes.track_heading(track)
            out += _changes("thread", self.place(number), track.introduced, heading)
            track.introduced = heading
        return out

    def renamed(self) -> list[str]:
        """Return the M events of processes and tracks whose name has changed since they were introduced."""
        out: list[str] = []
        for number, track in enumerate(self._lanes.tracks):
            if track.lane.process.introduced is not None:
                out += self.introduce(number, thread=track.introduced is not None)
        return out


def _changes(what: str, place: str, before: Heading | None, now: Heading) -> list[str]:
    """Return the M events of a heading, of the parts that differ from the one before."""
    out = []
    if before is None or before[0] != now[0]:
        out.append(f'{{"ph":"M","name":"{what}_name",{place},"args":{{"name":{quoted(now[0])}}}}},\n')
    if before is None or before[1] != now[1]:
        out.append(f'{{"ph":"M","name":"{what}_sort_index",{place},"args":{{"sort_index":{now[1]}}}}},\n')
    return out
