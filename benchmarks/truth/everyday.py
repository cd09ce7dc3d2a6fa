"""Simulated programs as people write them: a decode loop, gradient accumulation, checkpoints, offload, adapters.

Each function is one program. Its first arguments are its ill; with their defaults the program is healthy, and draws the
same durations in all that it shares with the ill one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from benchmarks.truth.kernels import ADD, ATTENTION, COMM, COMPUTE, COPIES, MULTI, NORM, REDUCE, RELU, gemm
from benchmarks.truth.machine import MS, US, Host, Meeting, Rank, Running, World
from benchmarks.truth.parallel import operator, read_back

_LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
Program = Callable[[Host], Running[None]]


def _run(world: World, program: Program) -> list[Rank]:
    rank = Rank(world)
    host = Host(rank)

    def whole() -> Running[None]:
        host.scope("before")
        yield from host.cpu(30 * US)
        yield from program(host)
        host.scope("end")
        yield from host.device_sync()

    world.start(whole())
    world.run()
    return [rank]


@contextlib.contextmanager
def _step(host: Host, number: int) -> Iterator[None]:
    with host.range("step", f"ProfilerStep#{number}"):
        yield


def _layers(host: Host, key: str, count: int, us: float, op_us: float = 7) -> Running[None]:
    """Run layers: a product, a norm and an activation each."""
    for layer in range(count):
        host.scope(f"{key}.{layer}")
        yield from operator(host, "aten::addmm", gemm(layer), us, op_us)
        yield from operator(host, "aten::layer_norm", NORM, us / 5, op_us)
        yield from operator(host, "aten::relu", RELU, us / 5, op_us)


def _train(host: Host, key: str, layers: int, us: float) -> Running[None]:
    yield from _layers(host, f"{key}.forward", layers, us)
    yield from _layers(host, f"{key}.backward", layers, us * 2)


def _update(host: Host, key: str, kernels: int = 4, us: float = 60) -> Running[None]:
    host.scope(f"{key}.optimizer")
    with host.range("user", "Optimizer.step#AdamW.step"):
        for _ in range(kernels):
            yield from operator(host, "aten::_foreach_add_", MULTI, us)


def decode(
    world: World, *, read_every: int = 0, tokens: int = 48, layers: int = 8, us: float = 45, think_us: float = 70
) -> list[Rank]:
    """Generate tokens. read_every: so many tokens between two `.tolist()` of the sampled ones; 0: only at the end."""

    def program(host: Host) -> Running[None]:
        for token in range(tokens):
            yield from _layers(host, f"{token}", layers, us)
            host.scope(f"{token}.sample")
            yield from operator(host, "aten::argmax", REDUCE, 12)
            if read_every and not (token + 1) % read_every:
                with host.aside("ill"):
                    yield from read_back(host, size=64)
            host.scope(f"{token}.stop")
            yield from host.cpu(think_us * US)

    return _run(world, program)


def accumulate(
    world: World, *, wait: str = "", steps: int = 8, batches: int = 8, layers: int = 1, us: float = 40
) -> list[Rank]:
    """Accumulate the gradients of several batches a step. wait: after each of them, "device" or "stream"."""

    def program(host: Host) -> Running[None]:
        for step in range(steps):
            with _step(host, step):
                for batch in range(batches):
                    yield from _train(host, f"{step}.{batch}", layers, us)
                    with host.aside("ill"):
                        if wait == "device":
                            yield from host.device_sync()
                        if wait == "stream":
                            yield from host.stream_sync(COMPUTE)
                yield from _update(host, f"{step}")

    return _run(world, program)


def metrics(
    world: World, *, reads: int = 0, log_us: float = 30, steps: int = 12, layers: int = 5, us: float = 70
) -> list[Rank]:
    """Train with metrics: reads of them with `.cpu()` between forward and backward; then the host logs a line."""

    def program(host: Host) -> Running[None]:
        for step in range(steps):
            with _step(host, step):
                yield from _layers(host, f"{step}.forward", layers, us)
                for number in range(3):
                    host.scope(f"{step}.metric.{number}")
                    yield from operator(host, "aten::mean", REDUCE, 6)
                    if number < reads:
                        with host.aside("ill"):
                            yield from read_back(host, size=4096)
                yield from _layers(host, f"{step}.backward", layers, us * 2)
                yield from _update(host, f"{step}")
                host.scope(f"{step}.log")
                yield from host.cpu(log_us * US)

    return _run(world, program)


def logged(
    world: World, *, read: bool = False, log_ms: float = 0.6, steps: int = 12, layers: int = 5, us: float = 90
) -> list[Rank]:
    """Train and log a line each step. read: the line has the loss, by `.item()`."""

    def program(host: Host) -> Running[None]:
        for step in range(steps):
            with _step(host, step):
                yield from _train(host, f"{step}", layers, us)
                yield from _update(host, f"{step}")
                if read:
                    with host.aside("ill"):
                        yield from read_back(host)
                host.scope(f"{step}.log")
                yield from host.cpu(log_ms * MS)

    return _run(world, program)


def saved(
    world: World, *, every: int = 0, name: str = "", write_ms: float = 3, steps: int = 16, mib: float = 8
) -> list[Rank]:
    """Train and save: `torch.save` copies each tensor to pageable memory and writes it, within a step."""

    def save(host: Host) -> Running[None]:
        with host.range("user", name) if name else contextlib.nullcontext():
            for _ in range(6):
                with host.range("op", "aten::to"), host.range("op", "aten::copy_"):
                    yield from host.copy("Device", "Pageable", round(mib * (1 << 20)), COMPUTE)
                    yield from host.stream_sync(COMPUTE)
                if write_ms:
                    yield host.draw("write", write_ms * MS, 0.1)

    def program(host: Host) -> Running[None]:
        for step in range(steps):
            with _step(host, step):
                yield from _train(host, f"{step}", 5, 90)
                yield from _update(host, f"{step}")
                host.scope(f"{step}.save")
                if every and not (step + 1) % every:
                    with host.aside("ill"):
                        yield from save(host)

    return _run(world, program)


def loaded(
    world: World, *, starve_ms: float = 0, every: int = 4, ranges: bool = True, steps: int = 20, fetch_us: float = 60
) -> list[Rank]:
    """Train on batches of workers. starve_ms: the host waits so long for every fourth one."""

    def program(host: Host) -> Running[None]:
        copied = host.rank.event()
        for step in range(steps):
            with _step(host, step):
                host.scope(f"{step}.load")
                with host.range("user", _LOADER) if ranges else contextlib.nullcontext():
                    yield from host.cpu(fetch_us * US)
                    if starve_ms and not (step + 1) % every:
                        with host.aside("ill"):
                            yield host.draw("starve", starve_ms * MS, 0.1)
                with host.range("op", "aten::to"), host.range("op", "aten::copy_"):
                    yield from host.copy("Pinned", "Device", 4 << 20, COPIES)
                yield from host.record(copied, COPIES)
                yield from host.stream_wait(COMPUTE, copied)
                yield from _train(host, f"{step}", 5, 90)
                yield from _update(host, f"{step}")

    return _run(world, program)


def offloaded_weights(
    world: World, *, mib: float = 0, pinned: bool = False, images: int = 3, blocks: int = 6, us: float = 300
) -> list[Rank]:
    """Make images with blocks whose weights are copied to the device before each use.

    pinned: on a stream of their own, one block ahead.
    """

    def program(host: Host) -> Running[None]:
        there = [host.rank.event() for _ in range(blocks)]

        def fetch(block: int) -> Running[None]:
            with host.aside("ill"), host.range("op", "aten::to"), host.range("op", "aten::copy_"):
                yield from host.cpu(6 * US)
                source, stream = ("Pinned", COPIES) if pinned else ("Pageable", COMPUTE)
                yield from host.copy(source, "Device", round(mib * (1 << 20)), stream)
                if pinned:
                    yield from host.record(there[block], stream)
                else:
                    yield from host.stream_sync(stream)

        for image in range(images):
            for block in range(blocks):
                host.scope(f"{image}.{block}.fetch")
                if mib and not pinned:
                    yield from fetch(block)
                if mib and pinned:
                    if not block:
                        yield from fetch(block)
                    if block + 1 < blocks:
                        yield from fetch(block + 1)
                    yield from host.stream_wait(COMPUTE, there[block])
                yield from _layers(host, f"{image}.{block}", 8, us)
                host.scope(f"{image}.{block}.attention")
                yield from operator(host, "aten::_flash_attention_forward", ATTENTION, us)

    return _run(world, program)


def offloaded_optimizer(
    world: World, *, mib: float = 0, adam_ms: float = 0, steps: int = 8, name: str = "", layers: int = 6
) -> list[Rank]:
    """Train with the optimizer on the host: gradients to pinned memory, Adam on the host, parameters back.

    name: of the range around Adam.
    """

    def program(host: Host) -> Running[None]:
        for step in range(steps):
            with _step(host, step):
                yield from _train(host, f"{step}", layers, 150)
                host.scope(f"{step}.out")
                with host.aside("ill"):
                    if mib:
                        with host.range("op", "aten::copy_"):
                            yield from host.copy("Device", "Pinned", round(mib * (1 << 20)), COMPUTE)
                    if mib or adam_ms:
                        yield from host.stream_sync(COMPUTE)
                    if adam_ms:
                        with host.range("user", name) if name else contextlib.nullcontext():
                            yield host.draw("adam", adam_ms * MS, 0.05)
                    if mib:
                        with host.range("op", "aten::copy_"):
                            yield from host.copy("Pinned", "Device", round(mib * (1 << 20)), COMPUTE)

    return _run(world, program)


def replayed(
    world: World, *, gap_ms: float = 0, read: bool = False, steps: bool = False, replays: int = 40, us: float = 30
) -> list[Rank]:
    """Replay a CUDA graph. gap_ms: of Python between two of them. read: a result is read before the gap."""

    def program(host: Host) -> Running[None]:
        for number in range(replays):
            with _step(host, number) if steps else contextlib.nullcontext():
                host.scope(f"{number}")
                yield from host.graph_launch([(gemm(i), us * US) for i in range(16)], COMPUTE)
                if read:
                    yield from read_back(host, pinned=True, size=64)
                if gap_ms:
                    with host.aside("ill"):
                        yield host.draw("gap", gap_ms * MS, 0.05)

    return _run(world, program)


def tuned(world: World, *, trials: int = 0, steps: int = 10, named: bool = True) -> list[Rank]:
    """Train with Triton kernels. trials: of configurations of each one, timed in the first step."""

    def tune(host: Host, layer: int) -> Running[None]:
        name = "CachingAutotuner.benchmark_all_configs (dynamo_timed)"
        with host.range("user", name) if named else contextlib.nullcontext():
            for _ in range(trials):
                yield from host.cpu(400 * US)
                for _ in range(5):
                    yield from host.launch(f"triton_red_fused_{layer}", 40 * US, COMPUTE, call="cuLaunchKernel")
                yield from host.device_sync()

    def program(host: Host) -> Running[None]:
        for step in range(steps):
            with _step(host, step):
                for layer in range(4):
                    host.scope(f"{step}.tune.{layer}")
                    if trials and not step:
                        with host.aside("ill"):
                            yield from tune(host, layer)
                yield from _train(host, f"{step}", 5, 90)
                yield from _update(host, f"{step}")

    return _run(world, program)


def collected(world: World, *, pause_ms: float = 0, steps: int = 24, with_steps: bool = True) -> list[Rank]:
    """Train while Python collects garbage: pauses without a row, at irregular places, of unequal length."""

    def program(host: Host) -> Running[None]:
        for step in range(steps):
            with _step(host, step) if with_steps else contextlib.nullcontext():
                for part in range(3):
                    yield from _train(host, f"{step}.{part}", 2, 70)
                    if pause_ms and world.uniform(f"collect/{step}/{part}") < 0.08:
                        with host.aside("ill"):
                            yield host.draw("collect", pause_ms * MS, 0.4)
                yield from _update(host, f"{step}")

    return _run(world, program)


def adapted(world: World, *, slow: bool = False, graph: bool = False, steps: int = 8, layers: int = 14) -> list[Rank]:
    """Train adapters (LoRA) of low rank: two tiny products and an add beside each small one. slow: the host."""

    op_us, launch_us = (15, 4.5) if slow else (0.2, 0.4)

    def program(host: Host) -> Running[None]:
        def piece(name: str, kernel: str, us: float) -> Running[None]:
            with host.range("op", name):
                yield from host.cpu(op_us * US)
                yield from host.launch(kernel, us * US, COMPUTE, call_ns=launch_us * US)

        for step in range(steps):
            with _step(host, step):
                if graph:
                    host.scope(f"{step}")
                    small = [(gemm(i), 3.0 * US) for i in range(3 * layers)]
                    yield from host.graph_launch(small, COMPUTE)
                for layer in range(0 if graph else 3 * layers):
                    host.scope(f"{step}.{layer}")
                    yield from piece("aten::mm", gemm(layer), 16)
                    yield from piece("aten::mm", gemm(layer + 1), 4)
                    yield from piece("aten::mm", gemm(layer + 2), 4)
                    yield from piece("aten::add", ADD, 3)

    return _run(world, program)


def evaluated(
    world: World, *, read: bool = False, epochs: int = 3, steps: int = 6, batches: int = 10, us: float = 60
) -> list[Rank]:
    """Train epochs with an evaluation between them. read: each batch's count of right answers, by `.item()`."""

    def program(host: Host) -> Running[None]:
        for epoch in range(epochs):
            for step in range(steps):
                yield from _train(host, f"{epoch}.{step}", 4, us)
                yield from _update(host, f"{epoch}.{step}")
            with host.range("user", "evaluate"):
                for batch in range(batches):
                    yield from _layers(host, f"{epoch}.evaluate.{batch}", 4, us)
                    host.scope(f"{epoch}.right.{batch}")
                    yield from operator(host, "aten::sum", REDUCE, 8)
                    if read:
                        with host.aside("ill"):
                            yield from read_back(host)

    return _run(world, program)


def chained(world: World, *, steps: int = 10, pieces: int = 6, us: float = 120) -> list[Rank]:
    """Alternate between two streams that wait for each other by events: each piece needs the one before it."""

    def program(host: Host) -> Running[None]:
        done = [host.rank.event(), host.rank.event()]
        for step in range(steps):
            with _step(host, step):
                for piece in range(pieces):
                    here, other = piece % 2, (piece + 1) % 2
                    host.scope(f"{step}.{piece}")
                    yield from host.stream_wait((COMPUTE, COMM)[here], done[other])
                    with host.range("op", "aten::mm"):
                        yield from host.cpu(8 * US)
                        yield from host.launch(gemm(piece), us * US, (COMPUTE, COMM)[here])
                    yield from host.record(done[here], (COMPUTE, COMM)[here])

    return _run(world, program)


def allocated(
    world: World, *, blocks: int = 0, malloc_us: float = 300, release: bool = False, steps: int = 10, warm: int = 0
) -> list[Rank]:
    """Train with an allocator. blocks: that it takes from the device in each step; release: it gives them back.

    warm: blocks of the first step alone, as every program has them.
    """

    def program(host: Host) -> Running[None]:
        for step in range(steps):
            with _step(host, step):
                host.scope(f"{step}.allocate")
                for _ in range(warm if not step else 0):
                    yield from host.malloc(malloc_us * US)
                for part in range(3):
                    with host.aside("ill"):
                        for _ in range(blocks):
                            yield from host.malloc(malloc_us * US)
                    yield from _train(host, f"{step}.{part}", 2, 70)
                yield from _update(host, f"{step}")
                if release:
                    host.scope(f"{step}.empty")
                    with host.aside("ill"):
                        for _ in range(3 * blocks):
                            yield from host.free()

    return _run(world, program)


def one_slow_loader(world: World, *, slow_ms: float = 0, name: str = "", steps: int = 10, ranks: int = 2) -> list[Rank]:
    """Train data parallel. slow_ms: the last rank takes so long for a batch, in a range of this name if any."""
    every = [Rank(world, number, ranks=ranks) for number in range(ranks)]
    meetings: dict[str, Meeting] = {}

    def reduce(host: Host, key: str) -> Running[None]:
        if key not in meetings:
            transfer = world.draw(f"transfer/{key}", 150 * US, 0.05)
            meetings[key] = Meeting(ranks, transfer, lambda i: round(2_000 * world.uniform(f"s/{key}/{i}")))
        ready = host.rank.event()
        with host.range("user", "nccl:all_reduce"), host.range("op", "c10d::allreduce_"):
            yield from host.cpu(10 * US)
            yield from host.record(ready, COMPUTE)
            yield from host.stream_wait(COMM, ready)
            yield from host.launch(
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 0, COMM,
                grid=(24, 1, 1), block=(512, 1, 1), meeting=meetings[key], collective="allreduce", elements=1 << 22,
                call="cudaLaunchKernelExC",
            )  # fmt: skip
            yield from host.record(ready, COMM)
            yield from host.stream_wait(COMPUTE, ready)

    def program(rank: Rank) -> Running[None]:
        host = Host(rank)
        for step in range(steps):
            with _step(host, step):
                host.scope(f"{step}.load")
                yield from host.cpu(40 * US)
                if slow_ms and rank.number == ranks - 1:
                    with host.aside("ill"), host.range("user", name) if name else contextlib.nullcontext():
                        yield host.draw("load", slow_ms * MS, 0.1)
                yield from _train(host, f"{step}", 4, 250)
                host.scope(f"{step}.reduce")
                yield from reduce(host, f"{step}")
                yield from _update(host, f"{step}")
                host.scope(f"{step}.wait")
                yield from host.stream_sync(COMPUTE)
        host.scope("end")
        yield from host.device_sync()

    for rank in every:
        world.start(program(rank))
    world.run()
    return every


def masked(
    world: World, *, nonzero: bool = False, steps: int = 8, layers: int = 8, us: float = 60, op_us: float = 7
) -> list[Rank]:
    """Train with masks. nonzero: each layer indexes by a mask, so the host reads how many values it has."""

    def program(host: Host) -> Running[None]:
        for step in range(steps):
            with _step(host, step):
                for layer in range(layers):
                    yield from _layers(host, f"{step}.{layer}", 1, us, op_us)
                    if nonzero:
                        with host.aside("ill"), host.range("op", "aten::nonzero"):
                            yield from host.cpu(5 * US)
                            yield from host.copy("Device", "Pinned", 8, COMPUTE)
                            yield from host.stream_sync(COMPUTE)
                    host.scope(f"{step}.{layer}.index")
                    yield from operator(host, "aten::index", ADD, us, op_us)
                yield from _update(host, f"{step}")

    return _run(world, program)


def clipped(world: World, *, read: bool = False, params: int = 40, steps: int = 8, layers: int = 6) -> list[Rank]:
    """Train and clip the gradients. read: the host compares the norm itself, before many small kernels."""

    def program(host: Host) -> Running[None]:
        for step in range(steps):
            with _step(host, step):
                yield from _train(host, f"{step}", layers, 80)
                host.scope(f"{step}.norm")
                yield from operator(host, "aten::linalg_vector_norm", REDUCE, 20)
                if read:
                    with host.aside("ill"), host.range("user", "clip_grad_norm_"):
                        yield from read_back(host)
                host.scope(f"{step}.scale")
                for _ in range(params):
                    yield from operator(host, "aten::mul_", ADD, 14)
                yield from _update(host, f"{step}")

    return _run(world, program)


def updated_one_by_one(
    world: World, *, tensors: int = 0, us: float = 4, op_us: float = 9, steps: int = 8
) -> list[Rank]:
    """Train; the optimizer updates each of the tensors by three tiny kernels, and not all of them by one."""

    def program(host: Host) -> Running[None]:
        for step in range(steps):
            with _step(host, step):
                yield from _train(host, f"{step}", 4, 60)
                with host.range("user", "Optimizer.step#Adam.step"):
                    for tensor in range(tensors):
                        with host.aside(f"{tensor}"):
                            yield from operator(host, "aten::mul_", MULTI, us, op_us)
                            yield from operator(host, "aten::addcmul_", MULTI, us, op_us)
                            yield from operator(host, "aten::addcdiv_", MULTI, us, op_us)
                yield from _update(host, f"{step}", 2, 40)
                host.scope(f"{step}.loss")
                yield from read_back(host)

    return _run(world, program)


def searched(
    world: World, *, choose_ms: float = 0, name: str = "", tokens: int = 40, layers: int = 6, us: float = 40
) -> list[Rank]:
    """Search with beams. choose_ms: the host chooses them, from scores that it reads and to indices that it sends."""

    def program(host: Host) -> Running[None]:
        for token in range(tokens):
            yield from _layers(host, f"{token}", layers, us)
            host.scope(f"{token}.read")
            yield from read_back(host, size=2048)
            if choose_ms:
                with host.aside("ill"), host.range("user", name) if name else contextlib.nullcontext():
                    yield host.draw("choose", choose_ms * MS, 0.1)
            host.scope(f"{token}.send")
            with host.range("op", "aten::to"), host.range("op", "aten::copy_"):
                yield from host.copy("Pageable", "Device", 2048, COMPUTE)

    return _run(world, program)


def one_behind(world: World, *, wait_for_own: bool = False, tokens: int = 40, us: float = 30) -> list[Rank]:
    """Decode with graphs and read each token when the next one is launched. wait_for_own: before it is launched."""

    def program(host: Host) -> Running[None]:
        before = None
        for token in range(tokens):
            host.scope(f"{token}")
            yield from host.graph_launch([(gemm(i), us * US) for i in range(12)], COMPUTE)
            yield from host.copy("Device", "Pinned", 64, COMPUTE)
            done = host.rank.event()
            yield from host.record(done, COMPUTE)
            if wait_for_own:
                yield from host.event_sync(done)
            elif before is not None:
                yield from host.event_sync(before)
            before = done
            yield from host.cpu(120 * US)

    return _run(world, program)


def warmed(world: World, *, first_ms: float = 0, slow_steps: int = 3, steps: int = 14) -> list[Rank]:
    """Train. first_ms: what the first step takes longer, in an operator; the next ones half of the one before."""

    def program(host: Host) -> Running[None]:
        for step in range(steps):
            with _step(host, step):
                host.scope(f"{step}.first")
                if first_ms and step < slow_steps:
                    with host.aside("ill"), host.range("op", "aten::cudnn_convolution"):
                        yield host.draw("first", first_ms * MS / 2**step, 0.05)
                yield from _train(host, f"{step}", 5, 90)
                yield from _update(host, f"{step}")

    return _run(world, program)


def reduced(
    world: World,
    *,
    pieces: int = 1,
    early: bool = False,
    block: bool = False,
    read: bool = False,
    ranks: int = 2,
    steps: int = 8,
    save_ms: float = 0,
    transfer_us: float = 240,
    kernel_us: float = 120,
) -> list[Rank]:
    """Train data parallel with the gradients in some pieces at the end. early: there are also three beside backward.

    block: the host waits for each of them. read: a loss each step. save_ms: rank 0 writes a checkpoint for so long in
    each fourth step, and the others wait for it.
    """  # fmt: skip
    every = [Rank(world, number, ranks=ranks) for number in range(ranks)]
    meetings: dict[str, Meeting] = {}

    def reduce(host: Host, key: str) -> Running[None]:
        if key not in meetings:
            transfer = world.draw(f"transfer/{key}", 20 * US + transfer_us * US / pieces, 0.05)
            meetings[key] = Meeting(ranks, transfer, lambda i: round(2_000 * world.uniform(f"s/{key}/{i}")))
        ready = host.rank.event()
        with host.range("user", "nccl:all_reduce"), host.range("op", "c10d::allreduce_"):
            yield from host.cpu(10 * US)
            yield from host.record(ready, COMPUTE)
            yield from host.stream_wait(COMM, ready)
            yield from host.launch(
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 0, COMM,
                grid=(24, 1, 1), block=(512, 1, 1), meeting=meetings[key], collective="allreduce",
                elements=(1 << 22) // pieces, call="cudaLaunchKernelExC",
            )  # fmt: skip
            yield from host.record(ready, COMM)
            yield from host.stream_wait(COMPUTE, ready)
            if block:
                with host.aside("ill"):
                    yield from host.stream_sync(COMM)

    def program(rank: Rank) -> Running[None]:
        host = Host(rank)
        for step in range(steps):
            with _step(host, step):
                for piece in range(4):
                    yield from _train(host, f"{step}.{piece}", 2, kernel_us)
                    if piece < 3 and early:
                        host.scope(f"{step}.reduce.{piece}")
                        yield from reduce(host, f"{step}.early.{piece}")
                for piece in range(pieces):
                    host.scope(f"{step}.reduce.late.{piece}")
                    yield from reduce(host, f"{step}.{piece}")
                yield from _update(host, f"{step}")
                if read:
                    host.scope(f"{step}.read")
                    yield from read_back(host)
                host.scope(f"{step}.save")
                if save_ms and not rank.number and step % 4 == 3:
                    with host.aside("ill"), host.range("user", "save_checkpoint"):
                        yield host.draw("save", save_ms * MS, 0.05)
        host.scope("end")
        yield from host.device_sync()

    for rank in every:
        world.start(program(rank))
    world.run()
    return every


def saved_beside(world: World, *, steps: int = 12, every: int = 4) -> list[Rank]:
    """Train and save from another thread: copies to pinned memory on a stream of their own, then a write."""
    rank = Rank(world)
    host, writer = Host(rank), Host(rank, rank.pid + 80, "saver")

    def program() -> Running[None]:
        for step in range(steps):
            with _step(host, step):
                yield from _train(host, f"{step}", 5, 90)
                yield from _update(host, f"{step}")
        host.scope("end")
        yield from host.device_sync()

    def save() -> Running[None]:
        for number in range(steps // every):
            writer.scope(f"save.{number}")
            yield from writer.cpu(4 * MS)
            with writer.range("user", "save_checkpoint"):
                with writer.range("op", "aten::copy_"):
                    yield from writer.copy("Device", "Pinned", 8 << 20, COPIES)
                yield from writer.stream_sync(COPIES)
                yield from writer.cpu(3 * MS)

    world.start(program())
    world.start(save())
    world.run()
    return [rank]
