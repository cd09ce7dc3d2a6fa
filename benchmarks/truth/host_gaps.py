"""Simulated programs whose host keeps the device waiting: schedulers, loaders, logs, checkpoints, compilers, calls.

Each is a loop of rounds: some kernels, perhaps a result to read, and something that the host does in between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.truth.kernels import COMPUTE, COPIES, MULTI, NORM, RELU, gemm
from benchmarks.truth.machine import MS, US, Host, Rank, Running, World


@dataclass(frozen=True)
class Rounds:
    """The shape of a program, and what its host does between rounds.

    kernels: of a round, in kernel_us; with operators of op_us around them. graph: they are one CUDA graph. steps: each
    round is a step of the profiler. read_back: a small result is read before the host goes on. batch_mib: copied to the
    device at the start of a round. gap_ms: in which the host does what no row shows, in the range gap_range if there is
    one, every `every` rounds, with a spread of gap_sigma. call, call_us, calls: API calls of each of these rounds.
    start_ms: in the range start_range, before the first round. first_ms: of the first launch of each kernel.
    operator_ms: of an operator that computes on the host, in each of these rounds.
    """

    rounds: int = 24
    kernels: int = 12
    kernel_us: float = 90
    op_us: float = 8
    operators: bool = True
    graph: bool = False
    steps: bool = False
    read_back: bool = True
    batch_mib: float = 0
    gap_ms: float = 0
    gap_range: str = ""
    gap_kind: str = "user"
    gap_sigma: float = 0.03
    every: int = 1
    call: str = ""
    call_us: float = 0
    calls: int = 0
    start_ms: float = 0
    start_range: str = ""
    first_ms: float = 0
    operator_ms: float = 0


def loop(world: World, *, plan: Rounds) -> list[Rank]:
    """Run the program of a plan."""
    rank = Rank(world)
    host = Host(rank)
    copied = rank.event()

    @contextlib.contextmanager
    def within(kind: str, name: str) -> Iterator[None]:
        with host.range(kind, name) if name else contextlib.nullcontext():
            yield

    def kernels(number: int) -> Running[None]:
        if plan.graph:
            yield from host.graph_launch([(gemm(i), plan.kernel_us * US) for i in range(plan.kernels)], COMPUTE)
            return
        for i in range(plan.kernels):
            host.scope(f"{number}.{i}")
            kernel = (gemm(i), NORM, RELU)[i % 3]
            with within("op", ("aten::addmm", "aten::layer_norm", "aten::relu")[i % 3] if plan.operators else ""):
                yield from host.cpu(plan.op_us * US)
                call_ns = 4_500.0
                if plan.first_ms and not number and i < 6:
                    with host.aside("ill"):
                        call_ns = float(host.draw("first", plan.first_ms * MS))
                yield from host.launch(kernel, plan.kernel_us * US, COMPUTE, grid=(1056, 1, 1), call_ns=call_ns)

    def between(number: int) -> Running[None]:
        """Do what keeps the device waiting; the draws of the rest are the same without it."""
        if (number + 1) % plan.every:
            return
        with host.aside("ill"):
            for _ in range(plan.calls):
                yield from host.call(plan.call, plan.call_us * US)
            if plan.operator_ms:
                with host.range("op", "aten::sort"):
                    yield from host.cpu(plan.operator_ms * MS, 0.05)
            if plan.gap_ms:
                with within(plan.gap_kind, plan.gap_range):
                    yield host.draw("gap", plan.gap_ms * MS, plan.gap_sigma)

    def a_round(number: int) -> Running[None]:
        host.scope(f"{number}")
        yield from host.cpu(15 * US)
        if plan.batch_mib:
            with within("op", "aten::copy_" if plan.operators else ""):
                yield from host.copy("Pinned", "Device", round(plan.batch_mib * (1 << 20)), COPIES)
            yield from host.record(copied, COPIES)
            yield from host.stream_wait(COMPUTE, copied)
        yield from kernels(number)
        host.scope(f"{number}.end")
        if plan.read_back:
            with within("op", "aten::item" if plan.operators else ""):
                yield from host.copy("Device", "Pinned", 256, COMPUTE)
                yield from host.stream_sync(COMPUTE)
        else:
            yield from host.launch(MULTI, plan.kernel_us * US, COMPUTE, grid=(1056, 1, 1))
        yield from between(number)

    def program() -> Running[None]:
        host.scope("start")
        yield from host.call("cudaGetDeviceCount", 8 * US)
        if plan.start_ms:
            with host.aside("ill"), within("user", plan.start_range):
                yield host.draw("start", plan.start_ms * MS, 0.03)
        for number in range(plan.rounds):
            with within("step", f"ProfilerStep#{number + 2}" if plan.steps else ""):
                yield from a_round(number)
        host.scope("end")
        yield from host.device_sync()

    world.start(program())
    world.run()
    return [rank]
