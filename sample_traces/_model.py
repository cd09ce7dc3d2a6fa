"""The training run that every sample file tells: one list of events, in integer nanoseconds.

A small convolutional network, three steps, one GPU, two streams: kernels on stream 7, the copies of the next batch on
stream 14, so that device work overlaps. Host calls carry correlation ids, and device work carries the id of its call.
The host and device clocks are simulated, so a kernel never starts before its launch and a stream never runs two things
at once. Only `random.Random(seed).random()` is drawn from: its stream is the same in every Python version.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace

from _kernels import KERNELS, Kernel

DEVICE = "Tesla P100-PCIE-16GB"
PID = 21604
COMMAND = "python train.py --lr 0.1, --steps 3"
KERNEL, MEMCPY, MEMSET, API, UNIFIED = "kernel", "memcpy", "memset", "api", "unified_memory"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. `start` and `dur` are ns; `dur` is None for a CPU page fault, which has no end."""

    kind: str
    start: int
    dur: int | None
    name: str
    correlation: int | None = None
    kernel: Kernel | None = None
    grid: tuple[int, int, int] | None = None
    bytes: int | None = None
    source_memory: str = ""
    target_memory: str = ""
    device: int | None = None
    context: int | None = None
    stream: int | None = None
    call_ns: int = 0  # how long the host call that caused it took: `cputime` of the command line profiler
    call_start: int = 0
    peer: tuple[int, int, int, int] | None = None  # source device and context, target device and context
    unified: str = ""  # the cell `Unified Memory`
    address: int | None = None

    @property
    def end(self) -> int:
        return self.start + (self.dur or 0)


# one step: kernel, grid, typical duration in units of 32 ns, the resolution of the device's clock
FORWARD = [
    ("conv", (49, 8, 2), 5210),
    ("bn", (64, 1, 1), 874),
    ("relu", (1568, 1, 1), 131),
    ("conv", (49, 8, 1), 4077),
    ("relu", (1568, 1, 1), 128),
    ("pool", (392, 16, 1), 402),
    ("gemm", (8, 1, 5), 688),
    ("softmax", (4, 1, 1), 69),
    ("loss", (1, 1, 1), 91),
]
BACKWARD = [
    ("mse", (100, 1, 1), 52),
    ("gemm", (8, 4, 1), 801),
    ("dgrad", (14, 7, 16), 7713),
    ("wgrad", (9, 2, 16), 9950),
    ("sort", (12, 1, 1), 55),
]
OPTIMIZER = [("fill", (13, 1, 1), 40), ("sgd", (320, 1, 1), 215)]


class _Machine:
    """A host thread and the streams of its devices; it writes down each call and what the call made the device do."""

    def __init__(self, seed: int, start_ns: int) -> None:
        self._random = random.Random(seed)
        self._host = start_ns
        self._streams: dict[tuple[int, int], int] = {}
        self._calls = 0
        self.events: list[Event] = []

    def draw(self, low: int, high: int) -> int:
        return low + int(self._random.random() * (high - low))

    def call(self, name: str, dur: int) -> tuple[int, int]:
        """A host call; gives its correlation id and its start."""
        self._calls += 1
        start = self._host
        self.events.append(Event(API, start, dur, name, correlation=self._calls))
        self._host = start + dur + self.draw(180, 900)
        return self._calls, start

    def device(self, call: str, event: Event, dur: int) -> Event:
        """A call and the work it queues on the event's stream."""
        call_ns = self.draw(4100, 9800)
        correlation, called = self.call(call, call_ns)
        key = (event.device or 0, event.stream or 0)
        start = max(called + call_ns + self.draw(900, 2600), self._streams.get(key, 0) + self.draw(640, 1500))
        self._streams[key] = start + dur
        made = replace(event, start=start, dur=dur, correlation=correlation, call_ns=call_ns, call_start=called)
        self.events.append(made)
        return made

    def launch(self, key: str, grid: tuple[int, int, int], ticks: int, call: str = "cudaLaunchKernel") -> None:
        dur = 32 * (ticks + self.draw(0, 1 + ticks // 12)) + self.draw(0, 2)
        kernel = KERNELS[key]
        self.device(
            call,
            Event(KERNEL, 0, 0, kernel.nvprof, kernel=kernel, grid=grid, device=0, context=1, stream=7),
            dur,
        )

    def copy(self, kind: str, size: int, source: str, target: str, stream: int) -> None:
        rate = {"HtoD": 10.9, "DtoH": 11.6, "DtoD": 240.0}[kind]  # bytes in a ns
        dur = 32 * (30 + int(size / rate / 32) + self.draw(0, 9))
        event = Event(MEMCPY, 0, 0, f"[CUDA memcpy {kind}]", device=0, context=1, stream=stream)
        event = replace(event, bytes=size, source_memory=source, target_memory=target)
        self.device("cudaMemcpyAsync", event, dur)

    def memset(self, size: int) -> None:
        event = Event(MEMSET, 0, 0, "[CUDA memset]", device=0, context=1, stream=7, bytes=size, source_memory="Device")
        self.device("cudaMemsetAsync", event, 32 * (28 + size // 9000 + self.draw(0, 6)))

    def peer(self, size: int, source: tuple[int, int], target: tuple[int, int], stream: int) -> None:
        event = Event(
            MEMCPY,
            0,
            0,
            "[CUDA memcpy PtoP]",
            bytes=size,
            source_memory="Device",
            target_memory="Device",
            device=source[0],
            context=source[1],
            stream=stream,
            peer=(*source, *target),
        )
        self.device("cudaMemcpyPeerAsync", event, 32 * (60 + int(size / 9.9 / 32) + self.draw(0, 40)))

    def synchronize(self, name: str) -> None:
        busy = max(self._streams.values())
        self.call(name, max(busy - self._host, 0) + self.draw(2100, 5200))

    def fault(self, name: str, address: int, cell: str, dur: int | None, device: int | None) -> None:
        """A row of unified memory: nobody called it, so it has no correlation id and no stream."""
        self.events.append(Event(UNIFIED, self._host, dur, name, device=device, unified=cell, address=address))
        self._host += (dur or 0) + self.draw(24_000, 52_000)


def training_run(
    *,
    seed: int = 20,
    start_ns: int = 0,
    steps: int = 3,
    launch: str = "cudaLaunchKernel",
    peers: bool = False,
    unified: bool = False,
) -> list[Event]:
    """The events of the run, sorted by start (a call before the work that starts at the same time).

    peers: each step sends its gradients to a second GPU and back. unified: the input lies in managed memory, so the
    first touch of it migrates pages.
    """
    machine = _Machine(seed, start_ns)
    for name, dur in (
        ("cuDeviceGetCount", 1190),
        ("cuDeviceGetAttribute", 310),
        ("cuDeviceGetName", 36_109),
        ("cuDeviceTotalMem", 323_780),
        ("cudaStreamCreateWithFlags", 391_204_117),
        ("cudaMalloc", 219_402),
        ("cudaMalloc", 4472),
    ):
        machine.call(name, dur)
    for page in range(4 if unified else 0):
        machine.fault(
            "[Unified Memory CPU page faults]", 0x7F24_6E00_0000 + 0x10000 * page, "PC 0x46de3225", None, None
        )
    machine.copy("HtoD", 4_816_896, "Pageable", "Device", 14)
    for step in range(steps):
        if unified:
            base = 0x7F24_6E00_0000 + 0x20_0000 * step
            machine.fault("[Unified Memory GPU page faults]", base, str(6 + step), 32 * machine.draw(5000, 6000), 0)
            for page, size in enumerate((4, 60, 64, 128)):
                address = base + 0x10000 * page
                dur = 32 * machine.draw(60 + 2 * size, 70 + 2 * size)
                machine.fault("[Unified Memory Memcpy HtoD]", address, f"{size}.000000KB", dur, 0)
        machine.memset(1_081_344)
        for key, grid, ticks in FORWARD:
            machine.launch(key, grid, ticks, launch)
        machine.copy("HtoD", 602_112, "Pinned", "Device", 14)
        for key, grid, ticks in BACKWARD:
            machine.launch(key, grid, ticks, launch)
        machine.copy("DtoD", 65_536 + 4 * step, "Device", "Device", 7)
        if peers:
            machine.peer(1_081_344, (0, 1), (1, 2), 7)
            machine.peer(1_081_344, (1, 2), (0, 1), 22)
        for key, grid, ticks in OPTIMIZER:
            machine.launch(key, grid, ticks, launch)
        machine.copy("DtoH", 4, "Device", "Pageable", 7)
        machine.call("cudaEventRecord", machine.draw(900, 1500))
        machine.synchronize("cudaStreamSynchronize")
        if unified:
            dur = 32 * machine.draw(180, 200)
            machine.fault("[Unified Memory Memcpy DtoH]", 0x7F24_6E00_0000 + 0x20_0000 * step, "4.000000KB", dur, 0)
    machine.synchronize("cudaDeviceSynchronize")
    machine.call("cudaFree", 165_130)
    return sorted(machine.events, key=lambda event: (event.start, event.kind != API))


def device_work(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event.kind != API]


def api_calls(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event.kind == API]


def launched(events: Iterable[Event]) -> dict[int, Event]:
    """The kernel of each launch, by correlation id."""
    return {e.correlation: e for e in events if e.kind == KERNEL and e.correlation is not None}
