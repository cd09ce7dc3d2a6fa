"""Lanes: the process and thread of the viewer that a row belongs to, with their names and their order.

Each (source, rank, pid) is a host process, each (source, rank, pid, device) a device process. Each tid, or each
(context, stream), is a thread. Numbers are small and unique in the file, for processes and threads together: viewers
cut ids to 32 bits, and treat a thread as the main one where tid equals pid. The names show the real ids, and the list
of lanes at the end of the file has them as numbers.
"""

from __future__ import annotations

from dataclasses import field
from pathlib import PurePath
from typing import TypeAlias

import numpy as np

from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import Mask
from tracekit.model.trace import Run

__all__ = ["Heading", "LaneKey", "Track", "TrackLane", "TrackLanes", "TrackProcess"]

LaneKey: TypeAlias = tuple[bool, int, int | None, int | None, int | None, int | None, int | None, int | None]
"""(on a device, source, rank, pid, device, context, stream, tid); those of the other side are None."""
ProcessKey: TypeAlias = tuple[bool, int, int | None, int | None, int | None]
"""(on a device, source, rank, pid, device)."""
Heading: TypeAlias = tuple[str, int]
"""Name and place in the order of a process or thread."""


@dataclass(slots=True)
class TrackProcess:
    """One process of the viewer. A host process has on_device false and no device.

    introduced: the heading that is in the file so far.
    """

    number: int
    on_device: bool
    source: int
    rank: int | None
    pid: int | None
    device: int | None
    order: int
    introduced: Heading | None = None
    contexts: set[int] = field(default_factory=set)


@dataclass(slots=True)
class TrackLane:
    """One stream or thread. Slices that overlap need several tracks, each a thread of the viewer."""

    process: TrackProcess
    context: int | None
    stream: int | None
    tid: int | None
    order: int
    api: bool
    tracks: dict[int, int] = field(default_factory=dict)

    @property
    def is_thread(self) -> bool:
        """Return whether the lane is a thread of the host that the input names."""
        return not self.process.on_device and self.tid is not None


@dataclass(slots=True)
class Track:
    """One thread of the viewer: the track of a lane with number `extra`, from 0."""

    lane: TrackLane
    extra: int
    number: int
    introduced: Heading | None = None


class TrackLanes:
    """All lanes of a file, in order of appearance; lanes and tracks are numbered from 0."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.lanes: list[TrackLane] = []
        self.tracks: list[Track] = []
        self._processes: dict[ProcessKey, TrackProcess] = {}
        self._known: dict[LaneKey, int] = {}
        self._seen = {False: 0, True: 0}
        self._next = 1

    def number(self) -> int:
        """Return a number that nothing else in the file has."""
        self._next += 1
        return self._next - 1

    def lane(self, key: LaneKey, *, api: bool) -> int:
        """Return the number of the lane with that key. api: its first row is an API call."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = len(self.lanes)
            on_device, source, rank, pid, device, context, stream, tid = key
            process_key = (on_device, source, rank, pid, device)
            process = self._processes.get(process_key)
            if process is None:
                process = TrackProcess(self.number(), on_device, source, rank, pid, device, self._seen[on_device])
                self._seen[on_device] += 1
                self._processes[process_key] = process
            if context is not None:
                process.contexts.add(context)
            self.lanes.append(TrackLane(process, context, stream, tid, len(self.lanes), api))
        return known

    def track(self, lane: int, extra: int) -> int:
        """Return the number of the n-th track of a lane."""
        parent = self.lanes[lane]
        known = parent.tracks.get(extra)
        if known is None:
            known = parent.tracks[extra] = len(self.tracks)
            self.tracks.append(Track(parent, extra, self.number()))
        return known

    def threads(self) -> Mask:
        """Return for each track whether it is one of a thread of the host."""
        return np.array([track.lane.is_thread for track in self.tracks], np.bool_)

    def process_heading(self, process: TrackProcess) -> Heading:
        """Return the name of a process as it is known now, and its place in the order."""
        return self.process_name(process), _order(process)

    def track_heading(self, track: Track) -> Heading:
        """Return the name of a track as it is known now, and its place in the order of its process."""
        return self.track_name(track), _track_order(track)

    def place(self, track: Track) -> tuple[int, int, int, int]:
        """Return the place of a track among all tracks, to sort them by."""
        return *self.place_of(track.lane.process), _track_order(track), track.number

    def place_of(self, process: TrackProcess) -> tuple[int, int]:
        """Return the place of a process among all processes, to sort them by."""
        return _order(process), process.number

    def process_name(self, process: TrackProcess) -> str:
        """Return the name of a process: its rank, its input where there are several, its device or own name."""
        run, source = self._run, process.source
        words = []
        if process.rank is not None:
            words.append(f"rank {process.rank}")
        if len(run.sources) > 1:
            facts = run.sources[source] if 0 <= source < len(run.sources) else None
            words.append((facts.label or PurePath(facts.path).name) if facts else f"input {source}")
        pid = None if process.pid is None else run.ids.get(("pid", source, process.pid), str(process.pid))
        name = run.processes.get((source, process.pid), "")
        if process.on_device:
            number = "" if process.device is None else self._id("device", source, process.device)
            model = run.devices.get((source, process.device), "")
            device = " ".join(filter(None, ("GPU", number if number != model else "", model)))
            words.append(device + (f" (process {pid})" if pid is not None else ""))
        elif pid is None:
            words.append(name or "host, no process stated")
        else:
            words.append(f"{name} (process {pid})" if name else f"process {pid}")
        return " · ".join(words)

    def track_name(self, track: Track) -> str:
        """Return the name of a track: that of its lane; extra tracks are numbered from 2."""
        text = self.lane_name(track.lane)
        return f"{text} ({track.extra + 1})" if track.extra else text

    def lane_name(self, lane: TrackLane) -> str:
        """Return the name of a stream or thread."""
        process = lane.process
        if process.on_device:
            text = "no stream stated" if lane.stream is None else ""
            if lane.stream is not None:
                name = self._run.streams.get((process.source, process.device, lane.stream), "")
                text = f"stream {self._id('stream', process.source, lane.stream)}" + (f" {name}" if name else "")
            if len(process.contexts) > 1 and lane.context is not None:
                text += f", context {self._id('context', process.source, lane.context)}"
        elif lane.tid is None:
            text = "API calls" if lane.api else "no thread stated"
        else:
            number = self._id("tid", process.source, lane.tid)
            name = self._run.threads.get((process.source, process.pid, lane.tid), "")
            text = f"{name} (thread {number})" if name else f"thread {number}"
        return text

    def _id(self, column: str, source: int, number: int) -> str:
        return self._run.ids.get((column, source, number), str(number))

    def facts(self) -> list[dict[str, object]]:
        """Return for each track its lane and process, as JSON values."""
        return [_track_facts(track, track.lane, track.lane.process) for track in self.tracks]


def _track_facts(track: Track, lane: TrackLane, process: TrackProcess) -> dict[str, object]:
    return {
        "pid": process.number,
        "tid": track.number,
        "source": process.source,
        "rank": process.rank,
        "process": process.pid,
        "side": "device" if process.on_device else "host",
        "device": process.device,
        "context": lane.context,
        "stream": lane.stream,
        "thread": lane.tid,
        "extra": track.extra,
    }


def _order(process: TrackProcess) -> int:
    """Return the sort index of a process: by rank (by input without ranks), host processes first, then GPU 0, 1, ..."""
    block = process.source if process.rank is None else process.rank
    within = 500 + min(max(process.device or 0, 0), 399) if process.on_device else 0
    return min(max(block, 0), 20_000) * 100_000 + within * 100 + min(process.order, 99 if process.on_device else 49_999)


def _track_order(track: Track) -> int:
    lane = track.lane
    known = lane.stream if lane.process.on_device else lane.order
    return min(max(known or 0, 0), 1_000_000) * 1000 + min(track.extra, 999)
