"""Simulated programs without steps: inference back to back, a server, a script with a long start."""

from __future__ import annotations

from benchmarks.truth.kernels import COMPUTE, COPIES, RELU, gemm
from benchmarks.truth.machine import MS, US, Event, Host, Rank, Running, Signal, World

BUFFERS = 4


def infer(
    world: World,
    *,
    batches: int = 40,
    streams: int = 1,
    kernel_us: float = 120,
    op_us: float = 10,
    launch_us: float = 4.5,
    graph: bool = False,
    results_mib: int = 1,
    pageable: bool = False,
    one_buffer: bool = False,
    start_up_ms: float = 0,
) -> list[Rank]:
    """Run inference back to back, with four buffers: the host prepares batches while the device runs others.

    pageable: results go to pageable memory. one_buffer: each batch waits for the one before. start_up_ms: the calls
    that create the context.
    """
    rank = Rank(world)
    host = Host(rank)
    done = [rank.event() for _ in range(BUFFERS)]
    copied = rank.event()

    def program() -> Running[None]:
        host.scope("start")
        if start_up_ms:
            with host.aside("ill"):
                yield from host.call("cudaStreamCreateWithFlags", start_up_ms * MS * 0.9)
                yield from host.call("cudaMalloc", start_up_ms * MS * 0.1)
        for batch in range(batches):
            host.scope(f"{batch}")
            yield from host.event_sync(done[batch % BUFFERS])
            with host.range("op", "aten::copy_"):
                yield from host.cpu(5 * US)
                yield from host.copy("Pinned", "Device", 2 << 20, COPIES)
            yield from host.record(copied, COPIES)
            stream = COMPUTE + 4 * (batch % streams)
            yield from host.stream_wait(stream, copied)
            yield from model(host, stream, f"{batch}", kernel_us, op_us, launch_us, graph)
            if pageable:
                with host.aside("pageable"), host.range("op", "aten::copy_"):
                    yield from host.copy("Device", "Pageable", results_mib << 20, stream)
            else:
                with host.aside("pinned"), host.range("op", "aten::copy_"):
                    yield from host.copy("Device", "Pinned", results_mib << 20, stream)
            yield from host.record(done[batch % BUFFERS], stream)
            if one_buffer:
                with host.aside("ill"):
                    yield from host.stream_sync(stream)
        host.scope("end")
        yield from host.device_sync()

    world.start(program())
    world.run()
    return [rank]


def model(
    host: Host, stream: int, batch: str, kernel_us: float, op_us: float, launch_us: float, graph: bool
) -> Running[None]:
    """Run twelve layers, as operators or as one CUDA graph."""
    if graph:
        kernels = [(gemm(layer), kernel_us * US) for layer in range(12)]
        yield from host.graph_launch([each for pair in kernels for each in (pair, (RELU, kernel_us * US / 5))], stream)
        return
    for layer in range(12):
        host.scope(f"{batch}.{layer}")
        for name, kernel, us in (("aten::addmm", gemm(layer), kernel_us), ("aten::relu", RELU, kernel_us / 5)):
            with host.range("op", name):
                yield from host.cpu(op_us * US)
                yield from host.launch(kernel, us * US, stream, grid=(1056, 1, 1), call_ns=launch_us * US)


def branches(world: World, *, batches: int = 40, kernel_us: float = 150) -> list[Rank]:
    """Run models of two branches: each batch forks onto a second stream and joins again, by events."""
    rank = Rank(world)
    host = Host(rank)
    forked, joined = rank.event(), rank.event()

    def program() -> Running[None]:
        for batch in range(batches):
            for layer in range(6):
                for stream, part in ((COMPUTE, 1.0), (COMPUTE + 4, 0.9)):
                    host.scope(f"{batch}.{layer}.{stream}")
                    if stream != COMPUTE:
                        yield from host.record(forked, COMPUTE)
                        yield from host.stream_wait(stream, forked)
                    with host.range("op", "aten::convolution"):
                        yield from host.cpu(12 * US)
                        yield from host.launch(gemm(layer), kernel_us * part * US, stream, grid=(528, 1, 1))
                yield from host.record(joined, COMPUTE + 4)
                yield from host.stream_wait(COMPUTE, joined)
                with host.range("op", "aten::cat"):
                    yield from host.cpu(9 * US)
                    yield from host.launch(RELU, kernel_us * US / 6, COMPUTE, grid=(1056, 1, 1))
        host.scope("end")
        yield from host.device_sync()

    world.start(program())
    world.run()
    return [rank]


def serve(
    world: World, *, requests: int = 30, pause_ms: float = 12, kernel_us: float = 80, event: bool = False
) -> list[Rank]:
    """Answer requests that come at random times. The server sleeps until one is there, and returns each result.

    event: wait for an event instead of the stream.
    """
    rank = Rank(world)
    host = Host(rank)

    def arrival(came: Signal, after: int) -> Signal:
        world.at(world.now + after, lambda: came.fire(world.now))
        return came

    def program() -> Running[None]:
        done: Event = rank.event()
        for request in range(requests):
            host.scope(f"{request}")
            yield arrival(Signal(), host.draw("pause", pause_ms * MS, 0.6))
            with host.range("user", "handle_request"):
                with host.range("op", "aten::copy_"):
                    yield from host.cpu(5 * US)
                    yield from host.copy("Pinned", "Device", 1 << 20, COMPUTE)
                yield from model(host, COMPUTE, f"{request}", kernel_us, 9, 4.5, False)
                yield from host.copy("Device", "Pinned", 64 << 10, COMPUTE)
                if event:
                    yield from host.record(done, COMPUTE)
                    yield from host.event_sync(done)
                else:
                    yield from host.stream_sync(COMPUTE)

    world.start(program())
    world.run()
    return [rank]
