"""A simulated training run with a gradient scaler: the host reads, before the optimizer, whether a value overflowed."""

from __future__ import annotations

from benchmarks.truth.kernels import COMPUTE, MULTI, RELU, gemm
from benchmarks.truth.machine import US, Host, Rank, Running, World


def scaled(
    world: World, *, read: bool = True, steps: int = 10, layers: int = 10, kernel_us: float = 90, updates: int = 60
) -> list[Rank]:
    """Run steps whose optimizer launches many short kernels. read: the host reads the overflow before the optimizer."""
    rank = Rank(world)
    host = Host(rank)

    def operator(name: str, kernel: str, us: float) -> Running[None]:
        with host.range("op", name):
            yield from host.cpu(9 * US)
            yield from host.launch(kernel, us * US, COMPUTE, grid=(1056, 1, 1))

    def program() -> Running[None]:
        for step in range(steps):
            with host.range("step", f"ProfilerStep#{step}"):
                for layer in range(layers):
                    host.scope(f"{step}.{layer}")
                    yield from operator("aten::addmm", gemm(layer), kernel_us)
                    yield from operator("aten::relu", RELU, kernel_us / 3)
                if read:
                    with (
                        host.aside("ill"),
                        host.range("op", "aten::item"),
                        host.range("op", "aten::_local_scalar_dense"),
                    ):
                        yield from host.cpu(4 * US)
                        yield from host.copy("Device", "Pageable", 4, COMPUTE)
                        yield from host.stream_sync(COMPUTE)
                host.scope(f"{step}.optimizer")
                with host.range("user", "Optimizer.step#AdamW.step"):
                    for _ in range(updates):
                        yield from operator("aten::_foreach_add_", MULTI, 5)
        host.scope("end")
        yield from host.device_sync()

    world.start(program())
    world.run()
    return [rank]
