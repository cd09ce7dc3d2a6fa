"""Tracks: what the descriptors say about them, and the lane that each has in our columns.

A track is known by its uuid; a descriptor may come after the events of its track. Threads are lanes by pid and tid. Any
other track (of a process, of a GPU, of the program's own) is a lane with a number of its own in the column `tid`, or,
for device work, `stream`.
"""

from __future__ import annotations

import re
from dataclasses import field

from tracekit.lazy_dataclass import dataclass
from tracekit.model.trace import Run
from tracekit.readers.builder import FIRST_TEXT_ID, IdTable
from tracekit.readers.engine.protobuf import INT32_MAX
from tracekit.readers.engine.wire import WireMessage

Key = tuple[str, int, int, str]
"""Kind of a track, and what identifies it: uuid; thread (pid, tid); process (pid); async (pid, id, scope)."""
_MOST_PARENTS = 64
_MOST_SEEN = 1 << 14
_UNITS = {1: "ns", 2: "count", 3: "bytes"}
_STREAM = re.compile(r"STREAM \[[\" ]*([0-9]{1,9})[\" ]*\]|.*\bQUEUE \[([0-9]{1,9})\]", re.ASCII)


@dataclass(slots=True)
class Described:
    """Facts of descriptors about a track. counter: it has values; scale: one of them is so many units."""

    name: str = ""
    parent: int | None = None
    pid: int | None = None
    tid: int | None = None
    process: str = ""
    counter: bool = False
    scale: int = 1
    steps: bool = False
    unit: str = ""
    rank: int | None = None
    total: float = 0.0
    """Sum so far of a counter that counts in steps."""


@dataclass(frozen=True, slots=True)
class PerfettoLane:
    """Lane of the rows of a track. thread: whether tid is a thread of the system."""

    pid: int | None = None
    tid: int | None = None
    thread: bool = False
    name: str = ""
    stream: int | None = None
    device: int | None = None
    work: bool = False
    """Whether all slices are work of the device."""


@dataclass(slots=True)
class Tracks:
    """All tracks of a file, numbered from 0 in order of appearance."""

    run: Run
    source: int
    described: dict[int, Described] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)
    async_process: dict[Key, int] = field(default_factory=dict)
    """The process in which the first event of an asynchronous id was."""
    queues: dict[Key, tuple[int, str]] = field(default_factory=dict)
    """Process and name of hardware queues."""
    _seen: set[bytes] = field(default_factory=set)
    _last: dict[int, bytes] = field(default_factory=dict)
    _known: dict[Key, int] = field(default_factory=dict)
    _tids: IdTable = field(init=False)
    _streams: IdTable = field(init=False)

    def __post_init__(self) -> None:
        self._tids = IdTable(self.run, "tid", self.source)
        self._streams = IdTable(self.run, "stream", self.source)

    def code(self, key: Key) -> int:
        """Return the number of a track."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = len(self.keys)
            self.keys.append(key)
        return known

    def of_uuid(self, uuid: int) -> int:
        """Return the number of the track of a uuid, as int64."""
        return self.code(("uuid", uuid, 0, ""))

    def describe(self, data: bytes) -> None:
        """Take a TrackDescriptor: what it does not state stays as it was."""
        if data in self._seen:
            return
        descriptor = WireMessage(data)
        self._seen.discard(self._last.get(descriptor.number(1), b""))
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
            self._last.clear()
        self._seen.add(data)
        self._last[descriptor.number(1)] = data
        track = self.described.setdefault(descriptor.number(1), Described())
        for number in (13, 10, 2):
            if number in descriptor:
                track.name = descriptor.text(number)
        if 5 in descriptor:
            track.parent = descriptor.number(5)
        if 12 in descriptor:
            track.rank = descriptor.number(12)
        if 3 in descriptor:
            process = WireMessage(descriptor.bytes(3))
            track.pid = process.number(1)
            track.process = self.name_process(process) or track.name
        if 4 in descriptor:
            thread = WireMessage(descriptor.bytes(4))
            track.pid, track.tid = thread.number(1), thread.number(2)
            self.name_thread(thread)
        if 8 in descriptor:
            counter = WireMessage(descriptor.bytes(8))
            track.counter = True
            track.scale = counter.optional(4) or 1
            track.steps = counter.number(5) != 0
            track.unit = counter.text(6) or _UNITS.get(counter.number(3), "")

    def name_process(self, process: WireMessage) -> str:
        """Take a ProcessDescriptor; return its name."""
        command = b" ".join(process.each(2)).decode("utf-8", "replace")
        name = process.text(6) or command
        if name:
            self.processes[process.number(1)] = name
        return name

    def name_thread(self, thread: WireMessage) -> None:
        """Take a ThreadDescriptor."""
        if name := thread.text(5):
            self.threads[thread.number(1), thread.number(2)] = name

    def name_tree(self, data: bytes) -> None:
        """Take a ProcessTree of the system."""
        tree = WireMessage(data)
        for each in map(WireMessage, tree.each(1)):
            if name := b" ".join(each.each(3)).decode("utf-8", "replace"):
                self.processes.setdefault(each.number(1), name)
        for each in map(WireMessage, tree.each(2)):
            if name := each.text(2):
                self.threads.setdefault((each.number(3), each.number(1)), name)

    def process_of(self, track: int) -> int:
        """Return the process of a track as far as it is known now, -1 where it is not."""
        key = self.keys[track]
        if key[0] != "uuid":
            return key[1]
        process = self._process_of(key[1])
        return -1 if process is None else process

    def asynchronous(self, process: int, *, local: bool, identity: int, scope: str) -> int:
        """Return the number of the track of an asynchronous id. local: to its process."""
        key = "async", process if local else -1, identity, scope
        self.async_process.setdefault(key, process)
        return self.code(key)

    def gpu(self, gpu: int, queue: int, name: str, process: int) -> int:
        """Return the number of the track of a hardware queue. process: -1 for not known."""
        key = "gpu", gpu, queue, f"{process} {name}"
        self.queues.setdefault(key, (process, name))
        return self.code(key)

    def gpu_counter(self, gpu: int, name: str) -> int:
        """Return the number of the track of a GPU's counter."""
        return self.code(("gpu counter", gpu, 0, name))

    def counter(self, track: int) -> Described:
        """Return what is known about the counter of a track."""
        key = self.keys[track]
        return self.described.get(key[1], Described()) if key[0] == "uuid" else Described()

    def counter_name(self, track: int) -> str:
        """Return the name of a counter, with its unit where the name does not have it."""
        key = self.keys[track]
        counter = self.counter(track)
        return counter.name or key[3] or f"counter {key[1] & (1 << 64) - 1}"

    def lane(self, track: int) -> PerfettoLane:
        """Return the lane of a track. Ask when all descriptors were read."""
        kind, one, two, name = self.keys[track]
        if kind == "gpu":
            process, shown = self.queues[self.keys[track]]
            own_stream = two if 0 <= two < FIRST_TEXT_ID else self._streams.number(f"queue {two & (1 << 64) - 1}")
            device = one if 0 <= one <= INT32_MAX else None
            return PerfettoLane(
                process if process >= 0 else None, name=shown, stream=own_stream, device=device, work=True
            )
        if kind == "gpu counter":
            return PerfettoLane(device=one if 0 <= one <= INT32_MAX else None)
        if kind == "thread":
            return PerfettoLane(one, two, True, self.threads.get((one, two), ""))
        if kind == "async":
            one = self.async_process[self.keys[track]]
        if kind in ("process", "async"):
            return PerfettoLane(one if one >= 0 else None)
        if kind == "named":
            return PerfettoLane(one if one >= 0 else None, self._tids.number(f"{name} {two}"), False, name)
        own = self.described.get(one)
        if own is not None and own.tid is not None:
            return PerfettoLane(own.pid, own.tid, True, self.threads.get((own.pid or 0, own.tid), ""))
        pid = self._process_of(one)
        if one == 0 and own is None:
            return PerfettoLane()
        shown = own.name if own is not None else ""
        if own is not None and own.pid is not None:
            shown = shown or own.process
        match = _STREAM.match(shown)
        stream = int(match[1] or match[2]) if match else None
        number = self._tids.number(f"track {one & (1 << 64) - 1}")
        return PerfettoLane(pid, number, False, shown, stream if stream is not None else number)

    def _process_of(self, uuid: int) -> int | None:
        at: int | None = uuid
        for _ in range(_MOST_PARENTS):
            own = self.described.get(at) if at is not None else None
            if own is None:
                return None
            if own.pid is not None:
                return own.pid
            at = own.parent
        return None

    def name_run(self, lanes: list[PerfettoLane]) -> None:
        """Give the run the names of processes, threads and tracks."""
        for pid, name in self.processes.items():
            self.run.processes[self.source, pid] = name
        for (pid, tid), name in self.threads.items():
            self.run.threads[self.source, pid, tid] = name
        for lane in lanes:
            if lane.work:
                if lane.name:
                    self.run.streams[self.source, lane.device, lane.stream] = lane.name
            elif lane.name and lane.tid is not None and not lane.thread:
                self.run.threads[self.source, lane.pid, lane.tid] = lane.name
