"""Traces for the tests of Paddle's tables: one at random with all that they count, and a published case study."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tracekit.model import schema
from tracekit.model.trace import Run, SourceFacts, Trace, concat
from tracekit.readers.builder import RowBuilder

MS = 1_000_000
_BASE = 1_700_000_000_000_000_000
_NAMES = {
    "operator": ("matmul dygraph", "c_allreduce_sum", "conv2d dygraph", "x" * 60, "relu", "Broadcast_op"),
    "user_range_native": ("memcpy_h2d", "native"),
    "user_range": ("my", "MemSet thing", "other range"),
    "operator_inner": ("infer_meta", "compute", "y" * 55),
    "communication": ("AllReduce",),
    "python_op": ("pyop",),
}
_HOST = (*_NAMES, "dataloader", "forward", "backward", "optimizer")
_KERNELS = (
    "void gemm<float, 128>(float*, int)", "void gemm<float, 128>(double*)", "ncclKernel_AllReduce_RING(int)",
    "elementwise_kernel", "k" * 100, "void very<" + "T," * 60 + ">(int)",
)  # fmt: skip
_MEMORY = ("Allocate", "Free", "ReservedAllocate", "ReservedFree")


class _Random:
    """Rows of a trace with nested ranges on several threads, calls, work on two devices, copies and allocations."""

    def __init__(self, seed: int, most: int) -> None:
        self.random, self.most = random.Random(seed), most
        self.rows: list[dict[str, Any]] = []
        self.correlation = 100
        for tid in (500, 90, 7000)[: self.random.choice([2, 3])]:
            start = _BASE + self.random.randint(0, 1000)
            self.ranges(start, start + self.random.choice([20_000, 3_000_000]), tid, 0)
            self.call(start + 5_000_000, start + 5_001_000, tid)  # outside of all ranges

    def add(self, **cells: Any) -> None:
        self.rows.append({"event_id": len(self.rows), "source": 0, "pid": 77, **cells})

    def ranges(self, low: int, high: int, tid: int, depth: int) -> None:
        at = low
        while at < high - 3 and len(self.rows) < self.most:
            begin = at + self.random.randint(0, max(1, (high - low) // 6))
            end = begin + self.random.randint(1, max(2, (high - low) // 2))
            if end > high:
                break
            kind = "step" if depth == 0 and tid == 500 else self.random.choice(_HOST)
            name = f"ProfileStep#{len(self.rows)}" if kind == "step" else self.random.choice(_NAMES.get(kind, (kind,)))
            self.add(ts_ns=begin, dur_ns=end - begin, kind=kind, name=name, tid=tid)
            if depth < 5:
                self.ranges(begin, end, tid, depth + 1)
            if end - begin > 20:
                for _ in range(self.random.choice([0, 0, 1, 2])):
                    self.call(begin, end, tid)
                for _ in range(self.random.choice([0, 0, 1])):
                    self.memory(begin, end, tid)
            at = end

    def call(self, low: int, high: int, tid: int) -> None:
        begin = self.random.randint(low, high)
        end = self.random.randint(begin, high)
        self.correlation += 1
        self.add(
            ts_ns=begin, dur_ns=end - begin, kind="runtime", name="cudaLaunchKernel", tid=tid,
            correlation=self.correlation,
        )  # fmt: skip
        for _ in range(self.random.choice([0, 1, 1, 1, 2])):
            kind = self.random.choice(["kernel", "kernel", "kernel", "memcpy", "memset"])
            name = {"memcpy": "MEMCPY_HtoD", "memset": "MEMSET"}.get(kind) or self.random.choice(_KERNELS)
            self.add(
                ts_ns=end + self.random.randint(0, 4000), dur_ns=self.random.randint(0, 9000), kind=kind, name=name,
                device=self.random.randrange(2), context=1, stream=self.random.choice([7, 13]),
                correlation=self.correlation,
            )  # fmt: skip

    def memory(self, low: int, high: int, tid: int) -> None:
        name = self.random.choice(_MEMORY)
        size = self.random.randint(1, 5000) * (1 if "Alloc" in name else -1)
        args = {
            "addr": 5, "place": self.random.choice(["Place(gpu:0)", "Place(cpu)"]), "current_allocated": 7,
            "current_reserved": 4, "peak_allocated": self.random.randint(1, 10**6),
            "peak_reserved": self.random.randint(1, 10**6),
        }  # fmt: skip
        text = json.dumps(args, separators=(",", ":"))
        self.add(ts_ns=self.random.randint(low, high), kind="memory", name=name, tid=tid, bytes=size, args=text)


def random_trace(seed: int, most: int = 400) -> Trace:
    """A trace that Paddle's protobuf can hold, the same for each seed."""
    builder = RowBuilder("events")
    for row in _Random(seed, most).rows:
        builder.add(**row)
    info = {"Process Cpu Utilization": "1.25", "System Cpu Utilization": "0.5"}
    source = SourceFacts("random", "paddle-pb", facts={"extra_info": info})
    return Trace(concat([builder.take()], schema.EVENTS), run=Run(origin_ns=0, sources=[source]))


PHASES = ("Dataloader", "Forward", "Backward", "Optimization")
BEFORE = {
    "ProfileStep": (293.390, 30.42, 25.42), "Dataloader": (144.088, 15.09, 12.05), "Forward": (50.263, 5.34, 4.22),
    "Backward": (20.494, 2.26, 1.55), "Optimization": (34.518, 3.32, 2.52),
}  # fmt: skip
"""CPU total, max and min in ms over 11 steps, as published for loading in the loop (Paddle's performance guide)."""
AFTER = {
    "ProfileStep": (93.450, 12.00, 7.78), "Dataloader": (1.700, 0.55, 0.11), "Forward": (32.250, 5.56, 2.52),
    "Backward": (15.430, 2.09, 1.32), "Optimization": (17.550, 1.95, 1.55),
}  # fmt: skip
"""The same with num_workers=4."""
GPU_MS = {"Forward": 3.96, "Backward": 8.13, "Optimization": 0.67, "": 0.52}
"""Kernels launched in each phase, and in none, over 11 steps."""
STEPS = 11


def spread(total: float, most: float, least: float, count: int = STEPS) -> list[int]:
    """So many ns values with this sum, maximum and minimum in ms, the extremes first."""
    whole, high, low = (round(ms * MS) for ms in (total, most, least))
    rest = whole - high - low
    share = rest // (count - 2)
    return [high, low, *[share] * (count - 3), rest - share * (count - 3)]


def write_case_study(path: Path, figures: dict[str, tuple[float, float, float]] = BEFORE) -> Path:
    """Write Paddle's JSON of 11 training steps with these figures, and with the kernels of GPU_MS."""
    spans = {name: spread(*of) for name, of in figures.items()}
    events: list[dict[str, Any]] = []
    base, at, correlation = 1_650_000_000_000_000, 0, 0

    def put(name: str, cat: str, start: int, ns: int, pid: int, tid: object, **args: Any) -> None:
        glued = f"{name}[{ns / 1000:.3f} us]"
        events.append({
            "name": glued, "pid": pid, "tid": tid, "ts": base + start // 1000, "dur": ns / 1000, "ph": "X", "cat": cat,
            "args": {"start_time": f"{start / 1000:.3f} us", "end_time": f"{(start + ns) / 1000:.3f} us", **args},
        })  # fmt: skip

    def launch(start: int, ns: int) -> None:
        nonlocal correlation
        correlation += 1
        put("cudaLaunchKernel", "CudaRuntime", start, 5000, 9, "9(C++)", **{"correlation id": correlation})
        put("gemm", "Kernel", start + 20_000, ns, 0, 7, **{"correlation id": correlation, "device": 0, "stream": 7})

    # Extremes of the phases stand in the middle of the longest step and of others, so that each step holds its own.
    order = sorted(range(STEPS), key=lambda i: spans["ProfileStep"][i])
    of_step = {order[-1 - i]: [sorted(spans[p], reverse=True)[i] for p in PHASES] for i in range(STEPS)}
    begins = []
    for step in range(STEPS):
        length = spans["ProfileStep"][step]
        begins.append(at)
        put(f"ProfileStep#{step + 3}", "ProfileStep", at, length, 9, "9(Python)")
        at += length
    for step, begin in enumerate(begins):
        now = begin
        for phase, ns in zip(PHASES, of_step[step], strict=True):
            put(phase, phase, now, ns, 9, "9(Python)")
            if GPU_MS.get(phase):
                launch(now + 1000, round(GPU_MS[phase] * MS / STEPS))
            now += ns
        launch(now + 1000, round(GPU_MS[""] * MS / STEPS))
    info = {"9": "MainThread", "Process Cpu Utilization": "1.0", "System Cpu Utilization": "0.5"}
    made = {
        "displayTimeUnit": "ms", "schemaVersion": "1.0.2", "span_indx": "0", "traceEvents": [*events, {}],
        "ExtraInfo": info,
    }  # fmt: skip
    path.write_text(json.dumps(made, indent=1), encoding="utf-8")
    return path
