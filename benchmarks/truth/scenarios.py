"""The planted ills and the healthy programs of the bench.

`rules` are the names under which a finding is right, `consequences` those that the ill truly has and that are therefore
no false alarm. `hidden` gives the reason why a variant cannot show the ill, even to an expert who reads all its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from benchmarks.truth.machine import Rank, World
from benchmarks.truth.programs import Plan, infer, serve, train

VARIANTS = ("kineto-sync", "kineto-api", "kineto-bare", "nsys", "nvprof")


@dataclass(frozen=True)
class Ill:
    """A program with an ill and the same program without it.

    run: simulate it, with the ill if told so. noise: of the machine.
    """

    name: str
    run: Callable[[World, bool], list[Rank]]
    rules: tuple[str, ...]
    consequences: tuple[str, ...] = ()
    hidden: Mapping[str, str] = field(default_factory=dict)
    noise: float = 1.0


@dataclass(frozen=True)
class Healthy:
    """A program in which nothing is to be found."""

    name: str
    run: Callable[[World], list[Rank]]
    noise: float = 1.0


def _trained(plan: Plan) -> Callable[[World, bool], list[Rank]]:
    return lambda world, ill: train(world, plan if ill else replace(plan, ill="", size=0))


def _ills() -> list[Ill]:
    out: list[Ill] = []

    def add(
        name: str, plan: Plan, *rules: str, consequences: tuple[str, ...] = (), hidden: Mapping[str, str] | None = None
    ) -> None:
        out.append(Ill(name, _trained(plan), rules, consequences, hidden or {}, plan.noise))

    unseen = {"nvprof": "a table of device work and API calls has no ranges: a pause of the host has no name"}
    for backward in ("paused", "tight", "compiled"):
        for size in (8, 20):
            plan = Plan(ill="data loading", size=size, backward=backward)
            add(f"data loading {size} ms, {backward} backward", plan, "data loading", hidden=unseen)
        plan = Plan(ill="pageable copies", batch_mib=24, backward=backward)
        add(f"pageable copies, {backward} backward", plan, "pageable copies")
    add("starved workers 15 ms", Plan(ill="starved workers", size=15), "data loading", hidden=unseen)
    for layers, kernel in ((8, 90), (16, 40)):
        plan = Plan(ill="sync each layer", layers=layers, kernel_us=kernel, op_us=6)
        add(f"device sync in each of {layers} layers", plan, "needless synchronization")
        plan = Plan(ill="item each layer", layers=layers, kernel_us=kernel, op_us=6)
        add(f".item() in each of {layers} layers", plan, "needless synchronization")
    add("exposed copies", Plan(ill="exposed copies", batch_mib=40), "exposed copies")
    add("tiny copies", Plan(ill="tiny copies", size=400), "tiny copies")
    for ranks in (2, 4):
        plan = Plan(ill="exposed all-reduce", ranks=ranks, bucket_us=250)
        add(f"exposed all-reduce, {ranks} ranks", plan, "exposed communication")
    plan = Plan(ill="slow rank", size=1.4, ranks=4, bucket_us=100)
    add("a rank with slow kernels", plan, "straggler", consequences=("exposed communication",))
    add("garbage collection 2 x 40 ms", Plan(ill="garbage collection", size=40), "host pauses")
    return out


def _healthy() -> list[Healthy]:
    return [
        Healthy("training", lambda world: train(world, Plan())),
        Healthy("training, tight backward", lambda world: train(world, Plan(backward="tight"))),
        Healthy("training, compiled backward", lambda world: train(world, Plan(backward="compiled"))),
        Healthy("training, loss each 4 steps", lambda world: train(world, Plan(kernel_us=300, loss_every=4))),
        Healthy("training on a noisy machine", lambda world: train(world, Plan()), 2.5),
        Healthy("4 ranks, overlapped all-reduce", lambda world: train(world, Plan(ranks=4, bucket_us=120))),
        Healthy("inference", infer),
        Healthy("inference on 2 streams", lambda world: infer(world, streams=2)),
        Healthy("inference with CUDA graphs", lambda world: infer(world, graph=True)),
        Healthy("a server that waits for requests", serve),
    ]


ILLS: tuple[Ill, ...] = tuple(_ills())
HEALTHY: tuple[Healthy, ...] = tuple(_healthy())
