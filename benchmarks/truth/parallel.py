"""Simulated programs of several ranks: sharded data parallel (FSDP), experts (MoE), pipelines of one forward, one
backward (1F1B), and data parallel whose host reads a value back in each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.truth.kernels import ADD, ATTENTION, COMM, COMPUTE, MULTI, NORM, RELU, SEND_RECV, gemm
from benchmarks.truth.machine import US, Event, Host, Meeting, Rank, Running, World

ALL_GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
REDUCE_SCATTER = "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@dataclass
class Ranks:
    """The ranks of a program, and the collectives in which they meet."""

    world: World
    size: int
    meetings: dict[str, Meeting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ranks = [Rank(self.world, number, ranks=self.size) for number in range(self.size)]

    def meeting(self, key: str, size: int, us: float) -> Meeting:
        if key not in self.meetings:
            transfer = self.world.draw(f"transfer/{key}", us * US, 0.05)
            self.meetings[key] = Meeting(size, transfer, lambda i: round(2_000 * self.world.uniform(f"s/{key}/{i}")))
        return self.meetings[key]

    def collective(self, host: Host, name: str, kernel: str, key: str, us: float, after: Event | None) -> Running[None]:
        """Run a collective of all ranks on the stream of communication, after the work of an event."""
        with host.range("user", f"nccl:{name}"), host.range("op", f"c10d::{name}_"):
            yield from host.cpu(10 * US)
            if after is not None:
                yield from host.record(after, COMPUTE)
                yield from host.stream_wait(COMM, after)
            yield from host.launch(
                kernel,
                0,
                COMM,
                grid=(24, 1, 1),
                block=(512, 1, 1),
                meeting=self.meeting(key, self.size, us),
                collective="allreduce",
                elements=round(us * 100_000),
                call="cudaLaunchKernelExC",
            )

    def run(self, programs: Sequence[Running[None]]) -> list[Rank]:
        for program in programs:
            self.world.start(program)
        self.world.run()
        return self.ranks


def operator(host: Host, name: str, kernel: str, us: float, op_us: float = 7) -> Running[None]:
    """Run an operator with one kernel."""
    with host.range("op", name):
        yield from host.cpu(op_us * US)
        yield from host.launch(kernel, us * US, COMPUTE, grid=(1056, 1, 1))


def read_back(host: Host, *, pinned: bool = False, size: int = 4) -> Running[None]:
    """Read a value of the device: with pageable memory the copy waits, with pinned memory the synchronize does."""
    with host.range("op", "aten::item"), host.range("op", "aten::_local_scalar_dense"):
        yield from host.cpu(4 * US)
        yield from host.copy("Device", "Pinned" if pinned else "Pageable", size, COMPUTE)
        yield from host.stream_sync(COMPUTE)


def data_parallel(
    world: World,
    *,
    ranks: int = 2,
    steps: int = 8,
    layers: int = 8,
    kernel_us: float = 150,
    transfer_us: float = 50,
    read: str = "pageable",
) -> list[Rank]:
    """Run data parallel with gradients in one bucket at the end of a step, and a loss that is read back.

    read: "pageable", "pinned", or "" for none: then the host runs ahead.
    """
    group = Ranks(world, ranks)

    def program(rank: Rank) -> Running[None]:
        host, ready, reduced = Host(rank), rank.event(), rank.event()
        for step in range(steps):
            with host.range("step", f"ProfilerStep#{step}"):
                for layer in range(layers):
                    host.scope(f"{step}.{layer}")
                    yield from operator(host, "aten::addmm", gemm(layer), kernel_us)
                    yield from operator(host, "aten::relu", RELU, kernel_us / 5)
                host.scope(f"{step}.reduce")
                yield from group.collective(host, "allreduce", REDUCE, f"{step}", transfer_us * layers, ready)
                yield from host.record(reduced, COMM)
                yield from host.stream_wait(COMPUTE, reduced)
                host.scope(f"{step}.optimizer")
                yield from operator(host, "aten::_foreach_add_", MULTI, kernel_us / 2)
                if read:
                    yield from read_back(host, pinned=read == "pinned")
        host.scope("end")
        yield from host.device_sync()

    return group.run([program(rank) for rank in group.ranks])


def sharded(
    world: World,
    *,
    ranks: int = 4,
    steps: int = 6,
    layers: int = 8,
    kernel_us: float = 200,
    gather_us: float = 120,
    prefetch: bool = True,
) -> list[Rank]:
    """Run FSDP: parameters of a layer are gathered before it, gradients are scattered after it.

    prefetch: the parameters of the next layer are gathered while this one computes.
    """  # fmt: skip
    group = Ranks(world, ranks)

    def program(rank: Rank) -> Running[None]:
        host, ready = Host(rank), rank.event()
        gathered = [rank.event() for _ in range(layers)]

        def gather(step: int, order: str, layer: int, after: Event | None) -> Running[None]:
            host.scope(f"{step}.{order}.{layer}.gather")
            key = f"{step}.{order}.{layer}"
            yield from group.collective(host, "_allgather_base", ALL_GATHER, key, gather_us, after)
            yield from host.record(gathered[layer], COMM)

        for step in range(steps):
            with host.range("step", f"ProfilerStep#{step}"):
                for order, scale in (("forward", 1.0), ("backward", 2.0)):
                    own = list(range(layers)) if order == "forward" else list(reversed(range(layers)))
                    if prefetch:
                        yield from gather(step, order, own[0], None)
                    for place, layer in enumerate(own):
                        if not prefetch:
                            yield from gather(step, order, layer, ready)
                        elif place + 1 < layers:
                            yield from gather(step, order, own[place + 1], None)
                        host.scope(f"{step}.{order}.{layer}")
                        yield from host.stream_wait(COMPUTE, gathered[layer])
                        yield from operator(host, "aten::addmm", gemm(layer), kernel_us * scale)
                        yield from operator(host, "aten::add", ADD, kernel_us * scale / 5)
                        if order == "backward":
                            host.scope(f"{step}.scatter.{layer}")
                            key = f"{step}.scatter.{layer}"
                            yield from group.collective(
                                host, "_reduce_scatter_base", REDUCE_SCATTER, key, gather_us, ready
                            )
                host.scope(f"{step}.optimizer")
                yield from host.record(ready, COMM)
                yield from host.stream_wait(COMPUTE, ready)
                yield from operator(host, "aten::_foreach_add_", MULTI, kernel_us / 2)
                yield from host.stream_sync(COMPUTE)
        host.scope("end")
        yield from host.device_sync()

    return group.run([program(rank) for rank in group.ranks])


def experts(
    world: World,
    *,
    ranks: int = 4,
    steps: int = 6,
    layers: int = 6,
    kernel_us: float = 200,
    exchange_us: float = 30,
    busy: float = 1.0,
) -> list[Rank]:
    """Run layers of experts: tokens go to the ranks of their experts and come back, by all-to-all.

    busy: how much longer the experts of one rank compute.
    """  # fmt: skip
    group = Ranks(world, ranks)

    def program(rank: Rank) -> Running[None]:
        host, ready, back = Host(rank), rank.event(), rank.event()
        scale = busy if rank.number == ranks // 2 else 1.0

        def exchange(step: int, layer: int, way: str) -> Running[None]:
            host.scope(f"{step}.{layer}.{way}")
            key = f"{step}.{layer}.{way}"
            yield from group.collective(host, "alltoall_base", SEND_RECV, key, exchange_us, ready)
            yield from host.record(back, COMM)
            yield from host.stream_wait(COMPUTE, back)

        for step in range(steps):
            with host.range("step", f"ProfilerStep#{step}"):
                for layer in range(layers):
                    host.scope(f"{step}.{layer}")
                    yield from operator(host, "aten::_flash_attention_forward", ATTENTION, kernel_us)
                    yield from exchange(step, layer, "dispatch")
                    host.scope(f"{step}.{layer}.experts")
                    yield from operator(host, "aten::bmm", gemm(layer), kernel_us * scale)
                    yield from exchange(step, layer, "combine")
                    host.scope(f"{step}.{layer}.norm")
                    yield from operator(host, "aten::layer_norm", NORM, kernel_us / 6)
                yield from host.stream_sync(COMPUTE)
        host.scope("end")
        yield from host.device_sync()

    return group.run([program(rank) for rank in group.ranks])


def one_forward_one_backward(
    world: World, layers: Sequence[int], *, steps: int = 5, batches: int = 8, kernel_us: float = 100
) -> list[Rank]:
    """Run a pipeline whose ranks fill it with forwards, then do a forward and a backward by turns, then drain it."""
    group, count = Ranks(world, len(layers)), len(layers)

    def exchange(host: Host, event: Event, key: str, receive: bool) -> Running[None]:
        # Each direction has a stream of its own, as each pair of ranks has a communicator.
        stream = COMM + (1 if key.endswith("b") else 0) + (2 if receive else 0)
        name = "c10d::recv_" if receive else "c10d::send"
        with host.range("user", f"nccl:{'recv' if receive else 'send'}"), host.range("op", name):
            yield from host.cpu(8 * US)
            yield from host.record(event, COMPUTE)
            yield from host.stream_wait(stream, event)
            yield from host.launch(
                SEND_RECV, 0, stream, grid=(2, 1, 1), block=(544, 1, 1), meeting=group.meeting(key, 2, 25),
                collective="recv" if receive else "send", elements=1 << 20, call="cudaLaunchKernelExC",
            )  # fmt: skip
            if receive:
                yield from host.record(event, stream)
                yield from host.stream_wait(COMPUTE, event)

    def stage(rank: Rank) -> Running[None]:
        host, event, number = Host(rank), rank.event(), rank.number
        own = range(sum(layers[:number]), sum(layers[: number + 1]))

        def part(step: int, batch: int, way: str) -> Running[None]:
            before, after = (number - 1, number + 1) if way == "f" else (number + 1, number - 1)
            if 0 <= before < count:
                host.scope(f"{step}.{way}.{batch}.receive")
                yield from exchange(host, event, f"{step}.{batch}.{min(before, number)}.{way}", True)
            for layer in own:
                host.scope(f"{step}.{way}.{batch}.{layer}")
                scale = 1.0 if way == "f" else 2.0
                yield from operator(host, "aten::addmm", gemm(layer), kernel_us * scale)
                yield from operator(host, "aten::relu", RELU, kernel_us * scale / 5)
            if 0 <= after < count:
                host.scope(f"{step}.{way}.{batch}.send")
                yield from exchange(host, event, f"{step}.{batch}.{min(after, number)}.{way}", False)

        for step in range(steps):
            with host.range("step", f"ProfilerStep#{step}"):
                warm = min(count - 1 - number, batches)
                for batch in range(warm):
                    yield from part(step, batch, "f")
                for batch in range(batches - warm):
                    yield from part(step, warm + batch, "f")
                    yield from part(step, batch, "b")
                for batch in range(batches - warm, batches):
                    yield from part(step, batch, "b")
                host.scope(f"{step}.optimizer")
                yield from operator(host, "aten::_foreach_add_", MULTI, 60)
                yield from host.stream_sync(COMPUTE)
        host.scope("end")
        yield from host.device_sync()

    return group.run([stage(rank) for rank in group.ranks])
