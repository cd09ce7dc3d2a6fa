"""Tracks of Perfetto: their descriptors, their packet sequences, and the texts that each sequence has defined.

Each track is a packet sequence of its own, whose defaults name the track and a clock that counts from packet to packet.
So a packet has neither a track nor an absolute time. pid, tid and uuid are small numbers of our own: Perfetto loses
the name of a process or thread 0, and cuts ids to 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tracekit.columns.arrays import I64
from tracekit.writers.perfetto._interned import Interned, Text
from tracekit.writers.perfetto._wire import message, number, packet, text
from tracekit.writers.tracks.lanes import Heading, Lanes, Process, Track

TRACE_CLOCK, UNIX_CLOCK, STEP_CLOCK = 6, 1, 64
"""BOOTTIME, which the trace's time is; REALTIME; a clock that is private to a sequence."""
_EXPLICIT = 3
_ABOVE = -1
_COMMON = number(10, 1)
"""Sequence 1 has everything that is on no track."""


@dataclass(slots=True)
class Timeline:
    """A track of the file with its packet sequence. track: None for a counter."""

    number: int
    process: Process
    track: Track | None
    name: str
    introduced: Heading | None = None
    defined: set[Text] = field(default_factory=set)

    @property
    def on_device(self) -> bool:
        return self.process.on_device

    @property
    def is_thread(self) -> bool:
        """Return whether Perfetto knows the track as a thread, or as part of one."""
        return self.track is not None and self.track.lane.is_thread


class Timelines:
    """All tracks of a file, numbered from 0 in order of appearance."""

    def __init__(self, lanes: Lanes, interned: Interned) -> None:
        self.all: list[Timeline] = []
        self._lanes = lanes
        self._interned = interned
        self._of_track = np.full(16, -1, np.int64)
        self._counters: dict[tuple[int, str], int] = {}
        self.sequence = np.zeros(16, np.int64)
        """Number of the packet sequence of each track."""
        self.last = np.zeros(16, np.int64)
        """Time of the last packet on each track."""
        self.rank = np.zeros(16, np.int64)
        """Order in the file: at equal times an arrow must begin before it ends, so calls come before device work."""

    def of_tracks(self, tracks: I64) -> I64:
        """Return the number of each row's timeline. tracks: shape (n,), numbers of tracks of the lanes."""
        if len(self._of_track) < len(self._lanes.tracks):
            self._of_track = _grown(self._of_track, 2 * len(self._lanes.tracks), -1)
        used = np.zeros(len(self._of_track), np.bool_)
        used[tracks] = True
        for new in np.flatnonzero(used & (self._of_track < 0)).tolist():
            track = self._lanes.tracks[new]
            self._of_track[new] = self._add(Timeline(track.number, track.lane.process, track, ""))
        return self._of_track[tracks]

    def counter(self, track: int, name: str) -> int:
        """Return the number of the timeline of a counter of the process that a track belongs to."""
        process = self._lanes.tracks[track].lane.process
        key = process.number, name
        if key not in self._counters:
            self._counters[key] = self._add(Timeline(self._lanes.number(), process, None, name))
        return self._counters[key]

    def _add(self, timeline: Timeline) -> int:
        at = len(self.all)
        self.all.append(timeline)
        if at == len(self.last):
            self.sequence, self.last, self.rank = (_grown(x, 2 * at, 0) for x in (self.sequence, self.last, self.rank))
        self.sequence[at] = timeline.number + 1
        self.rank[at] = at + (1 << 40 if timeline.on_device else 0)
        return at

    def introductions(self, numbers: I64) -> Iterator[bytes]:
        """Yield the packets that introduce tracks which are not in the file yet, and the clocks of their sequences."""
        for at in numbers.tolist():
            timeline = self.all[at]
            if timeline.introduced is None:
                yield from self._described(timeline)
                yield _sequence_start(timeline)

    def renamed(self) -> Iterator[bytes]:
        """Yield the descriptors of tracks whose name has changed since they were introduced."""
        for timeline in self.all:
            if timeline.introduced is not None:
                yield from self._described(timeline)

    def definitions(self, timeline: int, texts: list[Text]) -> bytes:
        """Return the packet that defines texts on a track."""
        one = self.all[timeline]
        one.defined.update(texts)
        head = number(8, 0) + number(10, one.number + 1) + number(13, 2)
        return packet(head, message(12, self._interned.definitions(texts)))

    def _described(self, timeline: Timeline) -> Iterator[bytes]:
        process = timeline.process
        heading = self._lanes.process_heading(process)
        if process.introduced != heading:
            process.introduced = heading
            named = message(3, number(1, process.number), text(6, heading[0]))
            yield _descriptor(number(1, process.number), named, number(11, _EXPLICIT))
        track = timeline.track
        if track is None:
            if timeline.introduced is None:
                timeline.introduced = timeline.name, _ABOVE
                parts = number(5, process.number), text(2, timeline.name), message(8), number(12, _ABOVE)
                yield _descriptor(number(1, timeline.number), *parts)
            return
        _, place = self._lanes.track_heading(track)
        heading = self._lanes.lane_name(track.lane), place - min(track.extra, 999)
        if timeline.introduced == heading:
            return
        timeline.introduced = heading
        name, rank = heading
        if timeline.is_thread and track.extra == 0:
            thread = message(4, number(1, process.number), number(2, timeline.number), text(5, name))
            yield _descriptor(number(1, timeline.number), number(5, process.number), thread, number(12, rank))
        else:
            # Tracks of one name below one parent are shown as one track of several rows.
            parent = track.lane.tracks[0] if timeline.is_thread else -1
            above = self._lanes.tracks[parent].number if parent >= 0 else process.number
            yield _descriptor(number(1, timeline.number), number(5, above), text(2, name), number(12, rank))


def _descriptor(*parts: bytes) -> bytes:
    return packet(message(60, *parts), _COMMON)


def _sequence_start(timeline: Timeline) -> bytes:
    """Return the first packet of a sequence: its clock counts on from packet to packet, its events are on the track."""
    clocks = (
        message(1, number(1, TRACE_CLOCK), number(2, 0)),
        message(1, number(1, STEP_CLOCK), number(2, 0), number(3, 1)),
    )
    defaults = message(59, number(58, STEP_CLOCK), message(11, number(11, timeline.number)))
    return packet(number(10, timeline.number + 1), number(13, 1), message(6, *clocks), defaults)


def unix_clock(base_ns: int) -> bytes:
    """Return the packet that says the Unix time of the trace's time 0, in ns."""
    clocks = message(1, number(1, TRACE_CLOCK), number(2, 0)), message(1, number(1, UNIX_CLOCK), number(2, base_ns))
    return packet(message(6, *clocks), _COMMON)


def facts_packet(facts: str) -> bytes:
    """Return the packet with the facts of the file, which Perfetto lists under "Info and stats" as cr-tracekit."""
    return packet(message(5, message(2, text(1, "tracekit"), text(2, facts))), _COMMON)


def _grown(values: I64, size: int, fill: int) -> I64:
    out = np.full(size, fill, np.int64)
    out[: len(values)] = values
    return out
