"""A discrete-event simulator of host threads, streams, events and collectives. Times are integer nanoseconds.

It knows nothing of tracekit. A program is a set of generators, one a host thread. They yield a number of nanoseconds to
spend, or a `Signal` to wait for. The host thread's methods (`Host.launch`, `Host.stream_sync` ...) are generators too:
`yield from host.launch(...)`.

The rules of the machine:
- A stream runs its tasks in order, one at a time. A task starts when it has arrived on the device, its predecessor has
  ended, and the events that it waits for have been reached.
- A launch blocks while the stream holds `QUEUE_DEPTH` tasks that have not started.
- A collective starts on each rank when its stream reaches it. It ends on all ranks when the last rank has come and the
  transfer is done, with a small difference between the ranks.
- Kernels of different streams do not slow each other down.
- Each duration is a draw of a lognormal distribution that depends on the seed and on a key of the operation alone, so
  the same program with and without an ill draws the same values for all that both have in common.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import math
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

Result = TypeVar("Result")
US, MS = 1_000, 1_000_000
QUEUE_DEPTH = 1024


class Signal:
    """Something that happens once. Threads and streams wait for it."""

    __slots__ = ("at", "waiters")

    def __init__(self) -> None:
        self.at: int | None = None
        self.waiters: list[Callable[[], None]] = []

    def when_fired(self, then: Callable[[], None]) -> None:
        if self.at is None:
            self.waiters.append(then)
        else:
            then()

    def fire(self, now: int) -> None:
        self.at = now
        waiters, self.waiters = self.waiters, []
        for then in waiters:
            then()


Running = Generator["int | Signal", None, Result]
"""A part of a host thread's program."""


class World:
    """The clock, what happens next, and the draws."""

    def __init__(self, seed: int, noise: float = 1.0) -> None:
        self.now, self.seed, self.noise = 0, seed, noise
        self._next: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, time: int, then: Callable[[], None]) -> None:
        if time < self.now:
            raise ValueError(f"{time} ns is in the past of {self.now} ns")
        heapq.heappush(self._next, (time, self._count, then))
        self._count += 1

    def start(self, program: Running[None]) -> Signal:
        """Start a thread; the signal fires when it ends."""
        done = Signal()

        def step() -> None:
            try:
                wanted = next(program)
            except StopIteration:
                done.fire(self.now)
                return
            if isinstance(wanted, Signal):
                wanted.when_fired(lambda: self.at(self.now, step))
            else:
                self.at(self.now + wanted, step)

        self.at(self.now, step)
        return done

    def run(self) -> None:
        while self._next:
            self.now, _, then = heapq.heappop(self._next)
            then()

    def uniform(self, key: str) -> float:
        """Return the draw of a key, 0 < u < 1."""
        digest = hashlib.blake2b(f"{self.seed}/{key}".encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "little") + 0.5) / 2**64

    def draw(self, key: str, median: float, sigma: float) -> int:
        """Return a lognormal draw in ns."""
        radius = math.sqrt(-2 * math.log(self.uniform(key + "/r")))
        normal = radius * math.cos(2 * math.pi * self.uniform(key + "/a"))
        return max(1, round(median * math.exp(self.noise * sigma * normal)))


@dataclass(slots=True)
class Range:
    """A range of a host thread. kind: op, user (record_function), nvtx, step or python. dims: of operands, in bf16."""

    kind: str
    name: str
    tid: int
    start: int
    end: int = -1
    sequence: int = -1
    forward_tid: int = 0
    number: int = 0
    dims: tuple[tuple[int, ...], ...] = ()


@dataclass(slots=True)
class Call:
    """An API call. range: the number of the innermost operator around it, 0 for none."""

    name: str
    tid: int
    start: int
    end: int
    correlation: int
    range: int = 0


@dataclass(slots=True)
class Sync:
    """What the driver knows of a wait: kind "Stream Wait Event", "Event Sync", "Stream Sync" or "Context Sync"."""

    kind: str
    correlation: int
    start: int
    end: int
    stream: int = -1
    event: int = -1
    on_stream: int = -1
    on_record: int = -1


@dataclass(slots=True)
class Work:
    """A kernel, a copy or a memset on a device. source and target: Pinned, Pageable or Device."""

    kind: str
    name: str
    stream: int
    start: int
    end: int
    correlation: int
    range: int = 0
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (256, 1, 1)
    bytes: int = 0
    source: str = ""
    target: str = ""
    collective: str = ""
    elements: int = 0
    group: int = 0
    lost: bool = False


@dataclass(slots=True)
class Memory:
    """One allocation of a framework, or one release: negative bytes."""

    tid: int
    at: int
    address: int
    bytes: int
    allocated: int
    reserved: int


@dataclass(eq=False)
class Task:
    """A place in a stream's queue: work of a duration, an event's record, or a wait."""

    arrives: int
    duration: int = 0
    work: Work | None = None
    done: Signal = field(default_factory=Signal)
    waits: Signal | None = None
    meeting: Meeting | None = None
    gap: int = 900


class Meeting:
    """A collective: the ranks come, and leave together after the transfer."""

    def __init__(self, size: int, transfer: int, spread: Callable[[int], int]) -> None:
        self.size, self.transfer, self.spread = size, transfer, spread
        self.there: list[Callable[[int], None]] = []

    def come(self, now: int, leave: Callable[[int], None]) -> None:
        self.there.append(leave)
        if len(self.there) == self.size:
            for i, each in enumerate(self.there):
                each(now + self.transfer + self.spread(i))


class Stream:
    """A queue of tasks on a device. id: as a profiler numbers it."""

    def __init__(self, world: World, rank: Rank, id: int) -> None:
        self.world, self.rank, self.id = world, rank, id
        self.queue: deque[Task] = deque()
        self.busy = False
        self.free_at = 0
        self.pending = 0
        self.room: Signal | None = None
        self.last = Signal()
        self.last.at = 0

    def push(self, task: Task) -> None:
        self.queue.append(task)
        self.last = task.done
        if task.work is not None:
            self.pending += 1
        self._advance()

    def _advance(self) -> None:
        if self.busy or not self.queue:
            return
        self.busy = True
        task = self.queue[0]
        if task.waits is not None and task.waits.at is None:
            task.waits.when_fired(lambda: self.world.at(self.world.now + 1_200, lambda: self._start(task)))
            return
        gap = task.gap if task.work is not None else 0
        self.world.at(max(task.arrives, self.free_at + gap, self.world.now), lambda: self._start(task))

    def _start(self, task: Task) -> None:
        now = self.world.now
        self.queue.popleft()
        if task.work is None:
            self._end(task)
            return
        self.pending -= 1
        if self.room is not None and self.pending < QUEUE_DEPTH:
            room, self.room = self.room, None
            room.fire(now)
        task.work.start = now
        if task.meeting is None:
            self.world.at(now + task.duration, lambda: self._end(task))
        else:
            task.meeting.come(now, lambda end: self.world.at(end, lambda: self._end(task)))

    def _end(self, task: Task) -> None:
        now = self.world.now
        if task.work is not None:
            task.work.end = now
            self.free_at = now
            self.rank.works.append(task.work)
        self.busy = False
        task.done.fire(now)
        self._advance()


class Event:
    """A CUDA event: the place in a stream where it was recorded last."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.reached: Signal | None = None
        self.stream = self.record = -1


class Rank:
    """A process with a device, and everything that a profiler could see of it."""

    def __init__(self, world: World, number: int = 0, *, ranks: int = 1, device: int | None = None) -> None:
        self.world, self.number, self.ranks = world, number, ranks
        self.device = number if device is None else device
        self.pid = 41_000 + 7 * number
        self.streams: dict[int, Stream] = {}
        self.calls: list[Call] = []
        self.ranges: list[Range] = []
        self.works: list[Work] = []
        self.syncs: list[Sync] = []
        self.memory: list[Memory] = []
        self.threads: dict[int, str] = {}
        self.allocated = self.reserved = 0
        self._correlation = 100
        self._event = 0
        self._number = 0
        self._address = 0x7F0000000000

    def stream(self, id: int) -> Stream:
        return self.streams.setdefault(id, Stream(self.world, self, id))

    def event(self) -> Event:
        self._event += 1
        return Event(self._event)

    def correlation(self) -> int:
        self._correlation += 1
        return self._correlation

    def range_number(self) -> int:
        self._number += 1
        return self._number

    def begin(self) -> int:
        """Return the start of the first row."""
        return min(*(row.start for row in self.calls), *(row.start for row in self.ranges))

    def end(self) -> int:
        """Return the end of the last row."""
        ends = [row.end for row in self.calls] + [row.end for row in self.ranges] + [row.end for row in self.works]
        return max(ends)

    def address(self) -> int:
        self._address += 512
        return self._address


class Host:
    """A host thread of a rank. Its methods are generators that take the time of what they do.

    `scope` is the part of the keys of its draws that the program sets, such as the step and the layer.
    """

    def __init__(self, rank: Rank, tid: int = 0, name: str = "python", speed: float = 1.0) -> None:
        self.world, self.rank, self.tid = rank.world, rank, tid or rank.pid
        self.speed = speed
        rank.threads[self.tid] = name
        self._scope = ""
        self._counts: dict[str, int] = {}
        self._open: list[int] = []

    def scope(self, name: str) -> None:
        self._scope, self._counts = name, {}

    @contextlib.contextmanager
    def aside(self, name: str) -> Iterator[None]:
        """Draw under keys of its own: what follows belongs to an ill and shifts no draw of the others."""
        kept = self._scope, self._counts
        self.scope(f"{self._scope}/{name}")
        yield
        self._scope, self._counts = kept

    def draw(self, what: str, median: float, sigma: float = 0.1) -> int:
        count = self._counts[what] = self._counts.get(what, 0) + 1
        return self.world.draw(
            f"{self.rank.number}/{self.tid - self.rank.pid}/{self._scope}/{what}/{count}", median, sigma
        )

    def cpu(self, median: float, sigma: float = 0.12, what: str = "cpu") -> Running[None]:
        """Compute on the host."""
        yield round(self.draw(what, median, sigma) * self.speed)

    @contextlib.contextmanager
    def range(
        self,
        kind: str,
        name: str,
        *,
        sequence: int = -1,
        forward_tid: int = 0,
        dims: tuple[tuple[int, ...], ...] = (),
    ) -> Iterator[None]:
        found = Range(kind, name, self.tid, self.world.now, -1, sequence, forward_tid, self.rank.range_number(), dims)
        self.rank.ranges.append(found)
        self._open.append(found.number)
        yield
        self._open.pop()
        found.end = self.world.now

    def _call(self, name: str, start: int, correlation: int) -> None:
        within = self._open[-1] if self._open else 0
        self.rank.calls.append(Call(name, self.tid, start, self.world.now, correlation, within))

    def call(self, name: str, median: float) -> Running[None]:
        """Call something that only takes time."""
        start, correlation = self.world.now, self.rank.correlation()
        yield self.draw(name, median)
        self._call(name, start, correlation)

    def _push(self, stream: Stream, task: Task) -> Running[None]:
        while stream.pending >= QUEUE_DEPTH:
            if stream.room is None:
                stream.room = Signal()
            yield stream.room
        task.arrives += self.world.now
        stream.push(task)

    def launch(
        self,
        name: str,
        ns: float,
        stream: int = 7,
        *,
        grid: tuple[int, int, int] = (512, 1, 1),
        block: tuple[int, int, int] = (256, 1, 1),
        sigma: float = 0.05,
        meeting: Meeting | None = None,
        collective: str = "",
        elements: int = 0,
        call: str = "cudaLaunchKernel",
        call_ns: float = 4_500,
        fixed: bool = False,
    ) -> Running[Task]:
        """Launch a kernel. ns: its median duration. fixed: exactly that, without a draw."""
        start, correlation = self.world.now, self.rank.correlation()
        cost = round(self.draw("launch", call_ns, 0.15) * self.speed)
        yield cost * 6 // 10
        within = self._open[-1] if self._open else 0
        work = Work("kernel", name, stream, -1, -1, correlation, within, grid, block)
        work.collective, work.elements = collective, elements
        duration = round(ns) if fixed else self.draw("kernel", ns, sigma)
        task = Task(self.draw("latency", 2_600, 0.1), duration, work, meeting=meeting, gap=self.draw("gap", 900, 0.1))
        yield from self._push(self.rank.stream(stream), task)
        yield cost - cost * 6 // 10
        self._call(call, start, correlation)
        return task

    def graph_launch(self, kernels: list[tuple[str, float]], stream: int = 7) -> Running[None]:
        """Launch a CUDA graph: one call, many kernels."""
        start, correlation = self.world.now, self.rank.correlation()
        yield self.draw("graph", 14_000)
        latency = self.draw("latency", 6_000)
        for name, ns in kernels:
            work = Work("kernel", name, stream, -1, -1, correlation, 0, (512, 1, 1), (256, 1, 1))
            work.group = 1
            task = Task(self.world.now + latency, self.draw("kernel", ns, 0.05), work, gap=450)
            self.rank.stream(stream).push(task)
        self._call("cudaGraphLaunch", start, correlation)

    def copy(self, source: str, target: str, size: int, stream: int = 7, *, gbps: float = 0) -> Running[None]:
        """Copy asynchronously; a copy with pageable memory keeps the host until it is done.

        Only a small copy to the device is staged at once, and the call returns ("API synchronization behavior" in the
        reference of the CUDA runtime).
        """
        start, correlation = self.world.now, self.rank.correlation()
        pageable = "Pageable" in (source, target)
        gbps = gbps or (6.0 if pageable else 1_300.0 if source == target else 24.0)
        duration = self.draw("copy", 1_300 + size / gbps, 0.03)
        yield round(self.draw("copy call", 5_500, 0.15) * self.speed)
        within = self._open[-1] if self._open else 0
        names = {"Device": "D", "Pinned": "H", "Pageable": "H"}
        name = f"Memcpy {names[source]}to{names[target]} ({source} -> {target})"
        work = Work("memcpy", name, stream, -1, -1, correlation, within, bytes=size, source=source, target=target)
        task = Task(self.draw("latency", 2_200, 0.1), duration, work)
        yield from self._push(self.rank.stream(stream), task)
        if pageable and (target == "Pageable" or size > 64 * 1024):
            yield task.done
            yield self.draw("staged", 2_000)
        self._call("cudaMemcpyAsync", start, correlation)

    def memset(self, size: int, stream: int = 7) -> Running[None]:
        start, correlation = self.world.now, self.rank.correlation()
        yield self.draw("memset call", 4_500, 0.15)
        within = self._open[-1] if self._open else 0
        work = Work("memset", "Memset (Device)", stream, -1, -1, correlation, within, bytes=size, target="Device")
        yield from self._push(self.rank.stream(stream), Task(2_200, 1_000 + size // 900, work))
        self._call("cudaMemsetAsync", start, correlation)

    def record(self, event: Event, stream: int) -> Running[None]:
        start, correlation = self.world.now, self.rank.correlation()
        yield self.draw("record", 1_100)
        task = Task(self.world.now)
        event.reached, event.stream, event.record = task.done, stream, correlation
        self.rank.stream(stream).push(task)
        self._call("cudaEventRecord", start, correlation)

    def stream_wait(self, stream: int, event: Event) -> Running[None]:
        """Let a stream wait for an event."""
        start, correlation = self.world.now, self.rank.correlation()
        yield self.draw("wait event", 900)
        self.rank.stream(stream).push(Task(self.world.now, waits=event.reached))
        self._call("cudaStreamWaitEvent", start, correlation)
        self._synced("Stream Wait Event", correlation, start, stream, event)

    def event_sync(self, event: Event) -> Running[None]:
        yield from self._wait("cudaEventSynchronize", "Event Sync", [event.reached] if event.reached else [], -1, event)

    def stream_sync(self, stream: int) -> Running[None]:
        yield from self._wait("cudaStreamSynchronize", "Stream Sync", [self.rank.stream(stream).last], stream)

    def device_sync(self) -> Running[None]:
        last = [each.last for each in self.rank.streams.values()]
        yield from self._wait("cudaDeviceSynchronize", "Context Sync", last)

    def _wait(
        self, name: str, kind: str, signals: list[Signal], stream: int = -1, event: Event | None = None
    ) -> Running[None]:
        start, correlation = self.world.now, self.rank.correlation()
        yield self.draw("sync", 1_500)
        waited = False
        for signal in signals:
            if signal.at is None:
                waited = True
                yield signal
        if waited:
            yield self.draw("wake", 3_500)
        self._call(name, start, correlation)
        self._synced(kind, correlation, start, stream, event)

    def _synced(self, kind: str, correlation: int, start: int, stream: int, event: Event | None) -> None:
        found = Sync(kind, correlation, start, self.world.now, stream)
        if event is not None:
            found.event, found.on_stream, found.on_record = event.id, event.stream, event.record
        self.rank.syncs.append(found)

    def malloc(self, median: float = 180_000) -> Running[None]:
        yield from self.call("cudaMalloc", median)

    def free(self, median: float = 60_000) -> Running[None]:
        """Release device memory: the device must have finished first."""
        start, correlation = self.world.now, self.rank.correlation()
        for signal in [each.last for each in self.rank.streams.values()]:
            if signal.at is None:
                yield signal
        yield self.draw("free", median)
        self._call("cudaFree", start, correlation)

    def allocate(self, size: int) -> int:
        """Note an allocation of the framework; it takes no time. Return its address."""
        address = self.rank.address()
        self._memory(address, size)
        return address

    def release(self, address: int, size: int) -> None:
        self._memory(address, -size)

    def _memory(self, address: int, size: int) -> None:
        self.rank.allocated += size
        self.rank.reserved = max(self.rank.reserved, -(-self.rank.allocated // (20 << 20)) * (20 << 20))
        found = Memory(self.tid, self.world.now, address, size, self.rank.allocated, self.rank.reserved)
        self.rank.memory.append(found)

    def wait(self, signal: Signal) -> Running[None]:
        """Wait for another host thread, which no profiler shows."""
        if signal.at is None:
            yield signal
            yield self.draw("woken", 8_000)


def window(rank: Rank) -> int:
    """Return the length of a rank's window: its steps and the work that was launched in them, else everything."""
    steps = [each for each in rank.ranges if each.kind == "step"]
    if not steps:
        return rank.end() - rank.begin()
    begin, end = min(each.start for each in steps), max(each.end for each in steps)
    launched = {each.correlation for each in rank.calls if begin <= each.start < end}
    return max(end, *(each.end for each in rank.works if each.correlation in launched), begin) - begin
