"""A simulated training run, as PyTorch makes it: a main thread, an autograd thread, copies, collectives, an optimizer.

The places where it can be ill are named in `Plan.ill`. Each draw belongs to an operation, so a run with an ill and one
without it have the same durations in all that they share.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.truth.kernels import (
    ADD,
    ALL_REDUCE,
    COMM,
    COMPUTE,
    COPIES,
    MASKED,
    MULTI,
    NORM,
    REDUCE,
    RELU,
    SGEMM,
    SORT,
    gemm,
)
from benchmarks.truth.machine import MS, US, Host, Meeting, Rank, Running, World

_RUN_BACKWARD = "<built-in method run_backward of torch._C._EngineBase object at 0x7f2a4c0d3b50>"
BLOCKS_PER_WAVE = 132
"""Of the kernel of the tail effect: its blocks need all registers of a multiprocessor."""

_SIDE = 4096
FLOOR_US = 2 * _SIDE**3 / 989.4e6
"""The time of a product of two such squares in bf16 at the peak of the device that the simulation names, an H100."""

_MAP = 8192
"""The side of a square in bf16 that no cache holds."""
MAP_US = 2 * _MAP**2 / 3350e3
"""The time in which that device reads or writes such a square once."""
CHAIN = (("aten::mul", 2), ("aten::sigmoid", 1), ("aten::add", 1))
"""Elementwise operators that follow each other, and how many squares each reads; one that is fused reads two."""


@dataclass(frozen=True)
class Plan:
    """The shape of a training run, and what is ill in it.

    kernel_us: the median of the large kernels; op_us: of an operator's host time; launch_us: of a launch call.
    backward: "paused" with Python hooks between operators, "tight" without pauses, "compiled" as one range a step.
    bucket_us: the transfer of one layer's gradients. loss_every: steps between two `loss.item()`. graph: forward
    and backward are one CUDA graph. stacks: Python functions are recorded too. loader: the range in
    which the main thread takes its batch, in take_us and load_ms. ill: the name of
    the ill, "" for none. size: its size, in a unit that the ill has.
    """

    steps: int = 12
    layers: int = 6
    kernel_us: float = 90
    op_us: float = 12
    launch_us: float = 4.5
    backward: str = "paused"
    ranks: int = 1
    batch_mib: float = 8
    bucket_us: float = 0
    loss_every: int = 0
    graph: bool = False
    stacks: bool = False
    loader: str = ""
    take_us: float = 90
    load_ms: float = 0
    ill: str = ""
    size: float = 0


class Trainer:
    """One rank of a training run."""

    def __init__(self, world: World, plan: Plan, number: int, meetings: dict[str, Meeting]) -> None:
        self.world, self.plan, self.meetings = world, plan, meetings
        device = 0 if self.ill("shared device") else None
        self.rank = Rank(world, number, ranks=plan.ranks, device=device)
        self.is_slow = number == plan.ranks // 2
        speed = plan.size if self.ill("slow host of a rank") and self.is_slow else 1.0
        self.main = Host(self.rank, name="python", speed=speed)
        self.engine = Host(self.rank, self.rank.pid + 60, "pt_autograd_0", speed=speed)
        self.copied = self.rank.event()
        self.computed = self.rank.event()
        self.reduced = self.rank.event()
        self.sequence = 0

    def ill(self, *names: str) -> bool:
        return self.plan.ill in names

    def run(self) -> Running[None]:
        host = self.main
        host.scope("before")
        yield from host.cpu(30 * US)
        for step in range(self.plan.steps):
            with host.range("step", f"ProfilerStep#{step + 3}"), self.python("train.py(31): train_step"):
                host.scope(f"{step}")
                yield from host.cpu(20 * US)
                with self.python("torch/utils/data/dataloader.py(721): __next__"):
                    yield from self.load(step)
                yield from self.move(step)
                with self.python("nn.Module: Transformer_0"):
                    yield from self.forward(step)
                with self.python("torch/_tensor.py(570): backward"), self.python(_RUN_BACKWARD):
                    yield from self.backward(step)
                yield from self.reduce(step)
                with self.python("torch/optim/optimizer.py(485): wrapper"):
                    yield from self.optimize(step)
                yield from self.after(step)
        host.scope("end")
        yield from host.device_sync()

    @contextlib.contextmanager
    def python(self, name: str) -> Iterator[None]:
        """Call a Python function on the main thread; only `with_stack=True` records it."""
        with self.main.range("python", name) if self.plan.stacks else contextlib.nullcontext():
            yield

    @contextlib.contextmanager
    def op(self, host: Host, name: str, sequence: int = -1, dims: tuple[tuple[int, ...], ...] = ()) -> Iterator[None]:
        with host.range("op", name, sequence=sequence, dims=dims):
            yield

    def load(self, step: int) -> Running[None]:
        """Take a batch that the workers have ready, or load it on this thread."""
        host, plan = self.main, self.plan
        host.scope(f"{step}.load")
        single = self.ill("data loading") or bool(plan.load_ms)
        name = "_SingleProcessDataLoaderIter" if single else "_MultiProcessingDataLoaderIter"
        name = plan.loader or f"enumerate(DataLoader)#{name}.__next__"
        with host.range("nvtx" if plan.loader else "user", name):
            yield from host.cpu(plan.take_us * US)
            if plan.load_ms:
                yield from host.cpu(plan.load_ms * MS, what="load")
            if self.ill("data loading"):
                with host.aside("ill"):
                    for _ in range(4):
                        with self.op(host, "aten::stack"):
                            yield from host.cpu(plan.size * MS / 4, 0.2)
            if self.ill("starved workers") or (self.ill("slow loading of a rank") and self.is_slow):
                with host.aside("ill"):
                    yield host.draw("starved", plan.size * MS, 0.2)

    def move(self, step: int) -> Running[None]:
        """Copy the batch to the device."""
        host, size = self.main, round(self.plan.batch_mib * (1 << 20))
        host.scope(f"{step}.move")
        if self.ill("pageable copies"):
            with self.op(host, "aten::to"), self.op(host, "aten::_to_copy"), self.op(host, "aten::copy_"):
                yield from host.cpu(6 * US)
                yield from host.copy("Pageable", "Device", size, COMPUTE)
                yield from host.stream_sync(COMPUTE)
            return
        exposed = self.ill("exposed copies")
        with self.op(host, "aten::to"), self.op(host, "aten::_to_copy"), self.op(host, "aten::copy_"):
            yield from host.cpu(6 * US)
            yield from host.copy("Pinned", "Device", size, COMPUTE if exposed else COPIES)
        if not exposed:
            yield from host.record(self.copied, COPIES)
            yield from host.stream_wait(COMPUTE, self.copied)
        if self.ill("tiny copies"):
            with host.aside("ill"):
                for _ in range(round(self.plan.size)):
                    with self.op(host, "aten::to"), self.op(host, "aten::_to_copy"), self.op(host, "aten::copy_"):
                        yield from host.cpu(5 * US)
                        yield from host.copy("Pinned", "Device", 256, COMPUTE)

    def forward(self, step: int) -> Running[None]:
        host, plan = self.main, self.plan
        if plan.graph:
            host.scope(f"{step}.graph")
            pieces = [(gemm(layer), plan.kernel_us * US) for layer in range(plan.layers)]
            back = [(gemm(layer, "nt"), plan.kernel_us * 2 * US) for layer in range(plan.layers)]
            yield from host.graph_launch([*pieces, (REDUCE, plan.kernel_us * US / 10), *back], COMPUTE)
            return
        for layer in range(plan.layers):
            host.scope(f"{step}.forward.{layer}")
            if step == 0 and self.ill("warm-up", "autotuning"):
                yield from self.warm_up(layer)
            yield from self.kernels(host, "aten::layer_norm", NORM, plan.kernel_us / 6)
            with self.op(host, "aten::linear"):
                yield from host.cpu(plan.op_us * US / 4)
                yield from self.kernels(host, "aten::addmm", gemm(layer), plan.kernel_us)
            yield from self.kernels(host, "aten::relu", RELU, plan.kernel_us / 5)
            yield from self.in_layer(step, layer)
        host.scope(f"{step}.loss")
        yield from self.kernels(host, "aten::mean", REDUCE, plan.kernel_us / 10)

    def warm_up(self, layer: int) -> Running[None]:
        """Load modules for the first time, or try algorithms: the first step alone pays for it."""
        host, plan = self.main, self.plan
        with host.aside("ill"), self.op(host, "aten::cudnn_convolution" if self.ill("autotuning") else "aten::addmm"):
            if self.ill("warm-up"):
                for _ in range(3):
                    yield from host.call("cuLibraryLoadData", plan.size * MS / plan.layers / 3)
                return
            for i in range(12):
                yield from host.cpu(40 * US)
                duration = plan.size * MS / plan.layers / 12
                yield from host.launch(f"cudnn_infer_ampere_scudnn_winograd_128x128_v{i}", duration, grid=(640, 1, 1))
                yield from host.stream_sync(COMPUTE)

    def kernels(self, host: Host, name: str, kernel: str, us: float) -> Running[None]:
        """Run an operator with one kernel."""
        self.sequence += 1
        with self.op(host, name, self.sequence):
            yield from host.cpu(self.plan.op_us * US)
            yield from self.launch(host, kernel, us * US)
            yield from host.cpu(self.plan.op_us * US / 5)

    def launch(self, host: Host, kernel: str, ns: float) -> Running[None]:
        slow = self.plan.size if self.ill("slow kernels of a rank") and self.is_slow else 1.0
        slow *= 2.0 if self.ill("shared device") else 1.0
        if self.ill("fp32") and "gemm" in kernel:
            kernel, slow = SGEMM, slow * self.plan.size
        call_ns = self.plan.launch_us * US
        yield from host.launch(kernel, ns * slow, COMPUTE, grid=(1056, 1, 1), call_ns=call_ns)

    def in_layer(self, step: int, layer: int) -> Running[None]:
        host, plan = self.main, self.plan
        with host.aside("ill"):
            if self.ill("device sync each layer"):
                yield from host.device_sync()
            elif self.ill("stream sync each layer"):
                yield from host.stream_sync(COMPUTE)
            elif self.ill("event sync each layer"):
                event = self.rank.event()
                yield from host.record(event, COMPUTE)
                yield from host.event_sync(event)
            elif self.ill("item each layer"):
                yield from self.item(host)
            elif self.ill("cudaMalloc each layer"):
                with self.op(host, "aten::empty"):
                    yield from host.malloc(plan.size * US)
                yield from host.free(plan.size * US / 3)
        if self.ill("few blocks", "few blocks, cured"):
            blocks, us = (round(plan.size), 300.0)
            if self.ill("few blocks, cured"):
                us, blocks = us * blocks / BLOCKS_PER_WAVE, BLOCKS_PER_WAVE
            with self.op(host, "aten::sort"):
                yield from host.cpu(plan.op_us * US)
                yield from host.launch(SORT, us * US, grid=(blocks, 1, 1), sigma=0)
        if self.ill("tail effect", "tail effect, cured"):
            waves = plan.size if self.ill("tail effect") else plan.size - 1
            blocks = round(BLOCKS_PER_WAVE * (plan.size - 1)) + (3 if self.ill("tail effect") else 0)
            with self.op(host, "aten::_softmax"):
                yield from host.cpu(plan.op_us * US)
                name = "void (anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>"
                yield from host.launch(name, waves * 120 * US, grid=(blocks, 1, 1), block=(1024, 1, 1), sigma=0)
        if self.ill("slow kernel"):
            with host.aside("ill"), self.op(host, "aten::mm", dims=((_SIDE, _SIDE), (_SIDE, _SIDE))):
                yield from host.cpu(plan.op_us * US)
                yield from host.launch(gemm(1), FLOOR_US / plan.size * US, grid=(1024, 1, 1), sigma=0)
        if self.ill("unfused", "fused", "apart"):
            yield from self.elementwise(host)
        if self.ill("expensive kernel"):
            with host.aside("ill"), self.op(host, "aten::masked_fill_"):
                yield from host.cpu(plan.op_us * US)
                yield from host.launch(MASKED, plan.size * US, grid=(8192, 1, 1))

    def elementwise(self, host: Host) -> Running[None]:
        """Compute a chain of elementwise operators at a part of the bandwidth: one by one, or as one kernel."""
        square, whole = (_MAP, _MAP), self.plan.size or 1.0
        chain = (("aten::mul", 2),) if self.ill("fused") else CHAIN
        for name, reads in chain:
            if self.ill("apart"):
                # A product between them: what it reads cannot stay in a register.
                with self.op(host, "aten::mm", dims=((_SIDE, _SIDE), (_SIDE, _SIDE))):
                    yield from host.launch(gemm(1), FLOOR_US / 0.75 * US, grid=(1024, 1, 1), sigma=0)
            with host.aside("ill"), self.op(host, name, dims=(square,) * reads):
                yield from host.cpu(self.plan.op_us * US)
                yield from host.launch(ADD, (reads + 1) * MAP_US / whole * US, grid=(8192, 1, 1), sigma=0)

    def item(self, host: Host) -> Running[None]:
        """Read a value of the device: `tensor.item()`."""
        with self.op(host, "aten::item"), self.op(host, "aten::_local_scalar_dense"):
            yield from host.cpu(4 * US)
            yield from host.copy("Device", "Pageable", 4, COMPUTE)
            yield from host.stream_sync(COMPUTE)

    def backward(self, step: int) -> Running[None]:
        if self.plan.graph:
            return
        done = self.world.start(self.engine_step(step))
        yield from self.main.wait(done)

    def engine_step(self, step: int) -> Running[None]:
        host = self.engine
        host.scope(f"{step}.engine")
        yield from host.cpu(10 * US)
        with contextlib.ExitStack() as ranges:
            if self.plan.backward == "compiled":
                ranges.enter_context(self.op(host, "CompiledFunctionBackward"))
            for layer in reversed(range(self.plan.layers)):
                yield from self.engine_layer(step, layer)

    def engine_layer(self, step: int, layer: int) -> Running[None]:
        host, plan = self.engine, self.plan
        compiled = plan.backward == "compiled"
        products = [(gemm(layer, "nt"), 1.0), (gemm(layer, "nn"), 1.0)]
        for name, works in (
            ("ReluBackward0", [(ADD, 0.25)]),
            ("AddmmBackward0", products),
            ("NativeLayerNormBackward0", [(ADD, 0.3)]),
        ):
            host.scope(f"{step}.backward.{layer}.{name}")
            with contextlib.ExitStack() as ranges:
                if not compiled:
                    outer = f"autograd::engine::evaluate_function: {name}"
                    ranges.enter_context(self.op(host, outer, self.sequence))
                    ranges.enter_context(self.op(host, name, self.sequence))
                yield from host.cpu(plan.op_us * US / 2)
                for kernel, part in works:
                    with contextlib.ExitStack() as inner:
                        if not compiled:
                            inner.enter_context(self.op(host, "aten::mm" if part == 1 else "aten::add"))
                        yield from host.cpu(plan.op_us * US / 2)
                        yield from self.launch(host, kernel, plan.kernel_us * part * US)
            if plan.backward == "paused":
                yield from host.cpu(plan.op_us * US / 3, what="pause")
        if plan.bucket_us and not self.ill("exposed all-reduce"):
            host.scope(f"{step}.bucket.{layer}")
            yield from self.all_reduce(host, step, f"{layer}", plan.bucket_us)

    def all_reduce(self, host: Host, step: int, name: str, us: float) -> Running[None]:
        with host.range("user", "nccl:all_reduce"), self.op(host, "c10d::allreduce_"):
            yield from host.cpu(15 * US)
            yield from host.record(self.computed, COMPUTE)
            yield from host.stream_wait(COMM, self.computed)
            key = f"{step}/{name}"
            if key not in self.meetings:
                transfer = self.world.draw(f"transfer/{key}", us * US, 0.05)
                self.meetings[key] = Meeting(
                    self.plan.ranks, transfer, lambda i: round(2_000 * self.world.uniform(f"spread/{key}/{i}"))
                )
            yield from host.launch(
                ALL_REDUCE,
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
        """Let the optimizer wait for the gradients of all ranks."""
        if not self.plan.bucket_us:
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
        if self.ill("copies of results"):
            with host.aside("ill"), self.op(host, "aten::copy_"):
                yield from host.cpu(6 * US)
                yield from host.copy("Device", "Pinned", round(plan.size * (1 << 20)), COMPUTE)
        collects = self.ill("garbage collection") or (self.ill("garbage collection of a rank") and self.is_slow)
        if collects and step in (3, plan.steps - 4):
            with host.aside("ill"):
                yield host.draw("gc", plan.size * MS, 0.05)
        yield from host.cpu(10 * US)
        for _ in range(4):
            size = 6 << 20
            address = host.allocate(size)
            if not self.ill("memory growth"):
                host.release(address, size)


def train(world: World, plan: Plan) -> list[Rank]:
    """Run a training program and return its ranks."""
    meetings: dict[str, Meeting] = {}
    trainers = [Trainer(world, plan, number, meetings) for number in range(plan.ranks)]
    for each in trainers:
        world.start(each.run())
    world.run()
    if plan.ill == "lost kernels":
        for each in trainers:
            for work in each.rank.works:
                work.lost = world.uniform(f"lost/{work.correlation}") < plan.size
    if plan.ill == "lost launches":
        for each in trainers:
            each.rank.calls = [
                call
                for call in each.rank.calls
                if "Launch" not in call.name or world.uniform(f"lost/{call.correlation}") >= plan.size
            ]
    return [each.rank for each in trainers]
