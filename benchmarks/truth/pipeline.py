"""A simulated pipeline-parallel run: ranks pass microbatches on, forward and then back (GPipe)."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.truth.kernels import COMM, COMPUTE, MULTI, RELU, SEND_RECV, gemm
from benchmarks.truth.machine import US, Event, Host, Meeting, Rank, Running, World


def pipeline(
    world: World, layers: Sequence[int], *, steps: int = 6, batches: int = 6, kernel_us: float = 100
) -> list[Rank]:
    """Run a pipeline. layers: the number of layers of each rank."""
    meetings: dict[str, Meeting] = {}
    ranks = [Rank(world, number, ranks=len(layers)) for number in range(len(layers))]

    def meeting(key: str) -> Meeting:
        if key not in meetings:
            transfer = world.draw(f"transfer/{key}", 25 * US, 0.05)
            meetings[key] = Meeting(2, transfer, lambda i: round(2_000 * world.uniform(f"spread/{key}/{i}")))
        return meetings[key]

    def exchange(host: Host, event: Event, key: str, receive: bool) -> Running[None]:
        """Send or receive: a kernel that meets the one of the neighbour."""
        name = "c10d::recv_" if receive else "c10d::send"
        with host.range("user", f"nccl:{'recv' if receive else 'send'}"), host.range("op", name):
            yield from host.cpu(8 * US)
            if not receive:
                yield from host.record(event, COMPUTE)
                yield from host.stream_wait(COMM, event)
            yield from host.launch(
                SEND_RECV,
                0,
                COMM,
                grid=(2, 1, 1),
                block=(544, 1, 1),
                meeting=meeting(key),
                collective="recv" if receive else "send",
                elements=1 << 20,
                call="cudaLaunchKernelExC",
            )
            if receive:
                yield from host.record(event, COMM)
                yield from host.stream_wait(COMPUTE, event)

    def compute(host: Host, key: str, own: range, scale: float) -> Running[None]:
        for layer in own:
            host.scope(f"{key}.{layer}")
            works = [("aten::addmm", gemm(layer), kernel_us), ("aten::relu", RELU, kernel_us / 5)]
            for name, kernel, us in works:
                with host.range("op", name):
                    yield from host.cpu(7 * US)
                    yield from host.launch(kernel, us * scale * US, grid=(1056, 1, 1))

    def stage(rank: Rank) -> Running[None]:
        host, event, number, last = Host(rank), rank.event(), rank.number, len(layers) - 1
        first_layer = sum(layers[:number])
        own = range(first_layer, first_layer + layers[number])
        for step in range(steps):
            with host.range("step", f"ProfilerStep#{step + 3}"):
                for scale, order in ((1.0, "forward"), (2.0, "backward")):
                    before, after = (number - 1, number + 1) if order == "forward" else (number + 1, number - 1)
                    for batch in range(batches):
                        key = f"{step}.{order}.{batch}"
                        host.scope(f"{key}.receive")
                        if 0 <= before <= last:
                            yield from exchange(host, event, f"{key}/{before}-{number}", True)
                        yield from compute(host, key, own, scale)
                        host.scope(f"{key}.send")
                        if 0 <= after <= last:
                            yield from exchange(host, event, f"{key}/{number}-{after}", False)
                host.scope(f"{step}.optimizer")
                with host.range("user", "Optimizer.step#AdamW.step"), host.range("op", "aten::_foreach_add_"):
                    yield from host.cpu(10 * US)
                    yield from host.launch(MULTI, 60 * US, grid=(1056, 1, 1))
                yield from host.stream_sync(COMPUTE)
        host.scope("end")
        yield from host.device_sync()

    for rank in ranks:
        world.start(stage(rank))
    world.run()
    return ranks
