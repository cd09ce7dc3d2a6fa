"""The simulated programs: training, inference and serving, as PyTorch runs them. Some parts can be ill."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.truth.machine import MS, US, Host, Meeting, Rank, Running, Signal, World

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"
GEMM_BACK = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x256x64_warpgroupsize2x1x1_execute_segment_k_off_kernel"
)
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::launch_clamp_scalar, std::array<char*, 2ul>>"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
MULTI = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::TensorListMetadata<2>>"
REDUCE = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
COMPUTE, COPIES, COMM = 7, 13, 20


@dataclass(frozen=True)
class Plan:
    """The shape of a training run, and what is ill in it.

    kernel_us: the median of the large kernels; op_us: of an operator's host time. backward: "paused" with Python hooks
    between operators, "tight" without pauses, "compiled" as one range a step. ill: the name of the ill, "" for none.
    size: its size, in a unit that the ill has.
    """

    steps: int = 8
    layers: int = 8
    kernel_us: float = 90
    op_us: float = 14
    backward: str = "paused"
    ranks: int = 1
    batch_mib: float = 8
    bucket_us: float = 0
    loss_every: int = 0
    noise: float = 1.0
    ill: str = ""
    size: float = 0


class Trainer:
    """One rank of a training run: its main thread, its autograd thread, its streams."""

    def __init__(self, world: World, plan: Plan, number: int, meetings: dict[str, Meeting]) -> None:
        self.world, self.plan, self.meetings = world, plan, meetings
        self.rank = Rank(world, number, ranks=plan.ranks)
        self.main = Host(self.rank, name="python")
        self.engine = Host(self.rank, self.rank.pid + 60, "pt_autograd_0")
        self.copied = self.rank.event()
        self.computed = self.rank.event()
        self.reduced = self.rank.event()
        self.sequence = 0

    def ill(self, name: str) -> bool:
        return self.plan.ill == name

    def run(self) -> Running[None]:
        host = self.main
        host.scope("before")
        yield from self.before()
        for step in range(self.plan.steps):
            with host.range("step", f"ProfilerStep#{step + 3}"):
                host.scope(f"{step}")
                yield from host.cpu(20 * US)
                yield from self.load(step)
                yield from self.move(step)
                yield from self.forward(step)
                yield from self.backward(step)
                yield from self.reduce(step)
                yield from self.optimize(step)
                yield from self.after(step)
        host.scope("end")
        yield from host.device_sync()

    def before(self) -> Running[None]:
        yield from self.main.cpu(30 * US)

    @contextlib.contextmanager
    def op(self, host: Host, name: str, sequence: int = -1) -> Iterator[None]:
        with host.range("op", name, sequence=sequence):
            yield

    def load(self, step: int) -> Running[None]:
        """Take a batch that the workers have ready, or load it on this thread."""
        host = self.main
        host.scope(f"{step}.load")
        single = self.ill("data loading")
        name = "_SingleProcessDataLoaderIter" if single else "_MultiProcessingDataLoaderIter"
        with host.range("user", f"enumerate(DataLoader)#{name}.__next__"):
            yield from host.cpu(90 * US)
            if single:
                with host.aside("ill"):
                    for _ in range(4):
                        with self.op(host, "aten::stack"):
                            yield from host.cpu(self.plan.size * MS / 4, 0.2)
            if self.ill("starved workers"):
                with host.aside("ill"):
                    yield host.draw("starved", self.plan.size * MS, 0.3)

    def move(self, step: int) -> Running[None]:
        host, size = self.main, round(self.plan.batch_mib * (1 << 20))
        host.scope(f"{step}.move")
        if self.ill("pageable copies"):
            with self.op(host, "aten::to"), self.op(host, "aten::_to_copy"), self.op(host, "aten::copy_"):
                yield from host.cpu(6 * US)
                yield from host.copy("Pageable", "Device", size, COMPUTE)
                yield from host.stream_sync(COMPUTE)
            return
        exposed = self.ill("exposed copies")
        stream = COMPUTE if exposed else COPIES
        with self.op(host, "aten::to"), self.op(host, "aten::_to_copy"), self.op(host, "aten::copy_"):
            yield from host.cpu(6 * US)
            yield from host.copy("Pinned", "Device", size, stream)
        if not exposed:
            yield from host.record(self.copied, COPIES)
            yield from host.stream_wait(COMPUTE, self.copied)
        if self.ill("tiny copies"):
            with host.aside("ill"):
                for _ in range(round(self.plan.size)):
                    with self.op(host, "aten::to"), self.op(host, "aten::copy_"):
                        yield from host.cpu(6 * US)
                        yield from host.copy("Pinned", "Device", 256, COMPUTE)

    def forward(self, step: int) -> Running[None]:
        host, plan = self.main, self.plan
        for layer in range(plan.layers):
            host.scope(f"{step}.forward.{layer}")
            yield from self.kernels(host, "aten::layer_norm", NORM, plan.kernel_us / 6)
            with self.op(host, "aten::linear"):
                yield from host.cpu(plan.op_us * US / 4)
                yield from self.kernels(host, "aten::addmm", GEMM, plan.kernel_us)
            yield from self.kernels(host, "aten::relu", RELU, plan.kernel_us / 5)
            yield from self.in_layer(step, layer)
        host.scope(f"{step}.loss")
        yield from self.kernels(host, "aten::mean", REDUCE, plan.kernel_us / 10, grid=512)

    def kernels(self, host: Host, name: str, kernel: str, us: float, grid: int = 1024) -> Running[None]:
        """Run an operator with one kernel."""
        self.sequence += 1
        with self.op(host, name, self.sequence):
            yield from host.cpu(self.plan.op_us * US)
            yield from host.launch(kernel, us * US * self.slow(), COMPUTE, grid=(grid, 1, 1))
            yield from host.cpu(self.plan.op_us * US / 5)

    def slow(self) -> float:
        return self.plan.size if self.ill("slow rank") and self.rank.number == self.plan.ranks // 2 else 1.0

    def in_layer(self, step: int, layer: int) -> Running[None]:
        host = self.main
        if self.ill("sync each layer"):
            with host.aside("ill"):
                yield from host.device_sync()
        if self.ill("item each layer"):
            with host.aside("ill"):
                yield from self.item(host)

    def item(self, host: Host) -> Running[None]:
        with self.op(host, "aten::item"), self.op(host, "aten::_local_scalar_dense"):
            yield from host.cpu(4 * US)
            yield from host.copy("Device", "Pageable", 4, COMPUTE)
            yield from host.stream_sync(COMPUTE)

    def backward(self, step: int) -> Running[None]:
        done = self.world.start(self.engine_step(step))
        yield from self.main.wait(done)

    def engine_step(self, step: int) -> Running[None]:
        host, plan = self.engine, self.plan
        host.scope(f"{step}.engine")
        yield from host.cpu(10 * US)
        if plan.backward == "compiled":
            with self.op(host, "CompiledFunctionBackward"):
                yield from self.engine_layers(step)
        else:
            yield from self.engine_layers(step)

    def engine_layers(self, step: int) -> Running[None]:
        host, plan = self.engine, self.plan
        compiled = plan.backward == "compiled"
        for layer in reversed(range(plan.layers)):
            for kernel, share in (("AddmmBackward0", 2.0), ("ReluBackward0", 0.25), ("NativeLayerNormBackward0", 0.3)):
                host.scope(f"{step}.backward.{layer}.{kernel}")
                name = f"autograd::engine::evaluate_function: {kernel}"
                with contextlib.ExitStack() as ranges:
                    if not compiled:
                        ranges.enter_context(self.op(host, name, self.sequence))
                        ranges.enter_context(self.op(host, kernel, self.sequence))
                    yield from host.cpu(plan.op_us * US / 2)
                    pieces = [(GEMM_BACK, share / 2), (GEMM, share / 2)] if share > 1 else [(ADD, share)]
                    for work, part in pieces:
                        with contextlib.ExitStack() as inner:
                            if not compiled:
                                inner.enter_context(self.op(host, "aten::mm" if share > 1 else "aten::add"))
                            yield from host.cpu(plan.op_us * US / 2)
                            yield from host.launch(work, plan.kernel_us * part * US * self.slow(), grid=(1024, 1, 1))
                if plan.backward == "paused":
                    yield from host.cpu(5 * US, what="pause")
            if plan.ranks > 1 and not self.ill("exposed all-reduce"):
                host.scope(f"{step}.bucket.{layer}")
                yield from self.all_reduce(host, step, f"{layer}", plan.bucket_us)

    def all_reduce(self, host: Host, step: int, name: str, us: float) -> Running[None]:
        with host.range("user", "nccl:all_reduce"), self.op(host, "c10d::allreduce_"):
            yield from host.cpu(15 * US)
            yield from host.record(self.computed, COMPUTE)
            yield from host.stream_wait(COMM, self.computed)
            key = f"{step}/{name}"
            if key not in self.meetings:
                draw = self.world.draw(f"transfer/{key}", us * US, 0.05)
                self.meetings[key] = Meeting(
                    self.plan.ranks, draw, lambda i: round(2_000 * self.world.uniform(f"spread/{key}/{i}"))
                )
            yield from host.launch(
                NCCL,
                0,
                COMM,
                grid=(24, 1, 1),
                block=(512, 1, 1),
                meeting=self.meetings[key],
                collective="allreduce",
                elements=round(us * 100_000),
                call="cudaLaunchKernelExC",
            )

    def reduce(self, step: int) -> Running[None]:
        if self.plan.ranks == 1:
            return
        host = self.main
        host.scope(f"{step}.reduce")
        if self.ill("exposed all-reduce"):
            with host.aside("ill"):
                yield from self.all_reduce(host, step, "all", self.plan.bucket_us * self.plan.layers)
        yield from host.record(self.reduced, COMM)
        yield from host.stream_wait(COMPUTE, self.reduced)

    def optimize(self, step: int) -> Running[None]:
        host = self.main
        with host.range("user", "Optimizer.step#AdamW.step"):
            for i in range(3):
                host.scope(f"{step}.optimizer.{i}")
                yield from self.kernels(host, "aten::_foreach_add_", MULTI, self.plan.kernel_us / 2)

    def after(self, step: int) -> Running[None]:
        host, plan = self.main, self.plan
        host.scope(f"{step}.after")
        if self.ill("loss each step") or (plan.loss_every and (step + 1) % plan.loss_every == 0):
            with host.aside("loss"):
                yield from self.item(host)
        if self.ill("garbage collection") and step in (2, plan.steps - 3):
            with host.aside("ill"):
                yield host.draw("gc", plan.size * MS, 0.05)
        yield from host.cpu(10 * US)


def train(world: World, plan: Plan) -> list[Rank]:
    """Run a training program and return its ranks."""
    meetings: dict[str, Meeting] = {}
    trainers = [Trainer(world, plan, number, meetings) for number in range(plan.ranks)]
    for each in trainers:
        world.start(each.run())
    world.run()
    return [each.rank for each in trainers]


def infer(
    world: World, *, batches: int = 40, streams: int = 1, kernel_us: float = 120, graph: bool = False
) -> list[Rank]:
    """Run inference back to back, with four buffers: the host prepares batches while the device runs others."""
    rank = Rank(world)
    host = Host(rank)
    done = [rank.event() for _ in range(4)]
    streams_of = [COMPUTE + 4 * i for i in range(streams)]
    copied = rank.event()

    def program() -> Running[None]:
        for batch in range(batches):
            host.scope(f"{batch}")
            yield from host.event_sync(done[batch % 4])
            with host.range("op", "aten::copy_"):
                yield from host.cpu(5 * US)
                yield from host.copy("Pinned", "Device", 2 << 20, COPIES)
            yield from host.record(copied, COPIES)
            stream = streams_of[batch % streams]
            yield from host.stream_wait(stream, copied)
            if graph:
                yield from host.graph_launch([(GEMM, kernel_us * US), (RELU, kernel_us * US / 5)] * 12, stream)
            else:
                for layer in range(12):
                    host.scope(f"{batch}.{layer}")
                    for name, kernel, us in (("aten::addmm", GEMM, kernel_us), ("aten::relu", RELU, kernel_us / 5)):
                        with host.range("op", name):
                            yield from host.cpu(10 * US)
                            yield from host.launch(kernel, us * US, stream, grid=(1024, 1, 1))
            yield from host.copy("Device", "Pinned", 64 << 10, stream)
            yield from host.record(done[batch % 4], stream)
        host.scope("end")
        yield from host.device_sync()

    world.start(program())
    world.run()
    return [rank]


def serve(world: World, *, requests: int = 30, pause_ms: float = 12, kernel_us: float = 80) -> list[Rank]:
    """Answer requests that come at random times. The server sleeps until one is there, and returns each result."""
    rank = Rank(world)
    host = Host(rank)

    def program() -> Running[None]:
        for request in range(requests):
            host.scope(f"{request}")
            came = Signal()
            world.at(world.now + host.draw("pause", pause_ms * MS, 0.6), lambda came=came: came.fire(world.now))  # type: ignore[misc]
            yield came
            with host.range("user", "handle_request"):
                with host.range("op", "aten::copy_"):
                    yield from host.cpu(5 * US)
                    yield from host.copy("Pinned", "Device", 1 << 20, COMPUTE)
                for layer in range(16):
                    host.scope(f"{request}.{layer}")
                    for name, kernel, us in (("aten::addmm", GEMM, kernel_us), ("aten::relu", RELU, kernel_us / 5)):
                        with host.range("op", name):
                            yield from host.cpu(9 * US)
                            yield from host.launch(kernel, us * US, COMPUTE, grid=(1024, 1, 1))
                yield from host.copy("Device", "Pinned", 64 << 10, COMPUTE)
                yield from host.stream_sync(COMPUTE)

    world.start(program())
    world.run()
    return [rank]
