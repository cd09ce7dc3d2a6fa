"""Training programs whose ill is one cause with a name, and not an average: see `Cause`.

The programs are those of `training`; what differs is in the methods that a cause changes. As there, an ill and its cure
draw the same durations in all that they share.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.truth.kernels import COMPUTE
from benchmarks.truth.machine import MS, US, Host, Meeting, Rank, Running, World
from benchmarks.truth.training import Plan, Trainer


@dataclass(frozen=True)
class Cause:
    """An ill of a program; the fields that are 0 are not ill.

    slow_node: by so much the kernels of the later half of the ranks are slower. heat: by so much the kernels of the
    last step are slower; it grows from a third of the run on. sort_ms: of an operator on the host in each step, with
    its read-back. grows_ms: of a walk through a list, more in each step. gil_ms: for so long the main thread waits for
    another Python thread, once a step. jitter: by so much the kernels of some steps are slower. forward_in: the name
    of a range around forward.
    """

    slow_node: float = 0
    heat: float = 0
    sort_ms: float = 0
    grows_ms: float = 0
    gil_ms: float = 0
    jitter: float = 0
    forward_in: str = ""


class CausedTrainer(Trainer):
    """A rank of a training run with a cause."""

    def __init__(self, world: World, plan: Plan, number: int, meetings: dict[str, Meeting], cause: Cause) -> None:
        super().__init__(world, plan, number, meetings)
        self.cause, self.step, self.number = cause, 0, number

    def load(self, step: int) -> Running[None]:
        self.step = step
        yield from super().load(step)

    def forward(self, step: int) -> Running[None]:
        if not self.cause.forward_in:
            yield from super().forward(step)
            return
        with self.main.range("user", self.cause.forward_in):
            yield from super().forward(step)

    def launch(self, host: Host, kernel: str, ns: float) -> Running[None]:
        yield from super().launch(host, kernel, ns * self.slower())

    def slower(self) -> float:
        """Return the factor of the kernels of this step."""
        cause, steps = self.cause, self.plan.steps
        factor = 1 + cause.slow_node if self.number >= self.plan.ranks // 2 else 1.0
        cool = steps // 3
        factor *= 1 + cause.heat * max(0, self.step - cool) / (steps - 1 - cool)
        slow = self.world.uniform(f"jitter/{self.step}") < 0.3
        return factor * (1 + cause.jitter if slow else 1)

    def after(self, step: int) -> Running[None]:
        yield from super().after(step)
        host, cause = self.main, self.cause
        if cause.sort_ms:
            with host.aside("sort"):
                with self.op(host, "aten::to"), self.op(host, "aten::copy_"):
                    yield from host.cpu(5 * US)
                    yield from host.copy("Device", "Pinned", 1 << 20, COMPUTE)
                    yield from host.stream_sync(COMPUTE)
                with self.op(host, "aten::sort"):
                    yield host.draw("sort", cause.sort_ms * MS, 0.05)
        if cause.grows_ms:
            with host.aside("grows"):
                yield from host.stream_sync(COMPUTE)
                with host.range("user", "update_history"):
                    yield host.draw("grows", cause.grows_ms * step * MS, 0.02)
        if cause.gil_ms:
            with host.aside("gil"):
                yield from host.stream_sync(COMPUTE)
                yield host.draw("gil", cause.gil_ms * MS, 0.1)


def caused(world: World, plan: Plan, cause: Cause) -> list[Rank]:
    """Run a training program with a cause, and return its ranks."""
    meetings: dict[str, Meeting] = {}
    trainers = [CausedTrainer(world, plan, number, meetings, cause) for number in range(plan.ranks)]
    for each in trainers:
        world.start(each.run())
    world.run()
    return [each.rank for each in trainers]
