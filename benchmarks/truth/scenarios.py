"""The planted ills and the healthy programs of the bench.

`rules` are the names under which a finding is right; `consequences` are what the ill truly brings about, and are
therefore no false alarm. `hidden` gives the reason why a variant cannot show the ill, even to an expert who reads all
its rows: such cases are printed and not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from benchmarks.truth import everyday
from benchmarks.truth.causes import Cause, caused
from benchmarks.truth.host_gaps import Rounds, loop
from benchmarks.truth.inference import branches, infer, serve
from benchmarks.truth.machine import Rank, World
from benchmarks.truth.parallel import data_parallel, experts, one_forward_one_backward, sharded
from benchmarks.truth.pipeline import pipeline
from benchmarks.truth.scaler import scaled
from benchmarks.truth.training import Plan, train

VARIANTS = ("kineto-sync", "kineto-api", "kineto-bare", "nsys", "nsys-2023", "nvprof")
Run = Callable[[World], list[Rank]]

_SYNC = "needless synchronization"
_NO_RANGES = {"nvprof": "a table of device work and API calls has no ranges: a pause of the host has no name"}
_EXPOSED = ("exposed copies",)
"""Where the host comes late, the copy of the batch is no longer hidden."""
_NO_STEPS = {
    "nvprof": "a table without steps does not show which trials belong to the first step, and which to a set-up"
}
_NO_EXCHANGE = dict.fromkeys(
    ("nsys", "nsys-2023", "nvprof"),
    "an all-to-all is made of sends and receives, and no row says which of them are one exchange",
)
_NO_SIZES = {
    "nvprof": "a table of nvprof does not say how many multiprocessors the device has, nor how many blocks fit on one"
}
_NO_SHAPES = dict.fromkeys(("nsys", "nsys-2023", "nvprof"), "ranges and tables here have no shapes of operands")
_NO_DIRECTIONS = {"nvprof": "a send, a receive and an all-to-all are kernels of one name, and the table has no ranges"}
_NO_MEMORY = {"nvprof": "nvprof records no memory in use"}
_ONE_FILE_EACH = dict.fromkeys(
    ("kineto-sync", "kineto-api", "kineto-bare", "nvprof"),
    "each process writes a file of its own, in which its device is number 0 and has no other identity",
)


@dataclass(frozen=True)
class Ill:
    """A program with an ill, and the same program without it.

    gains: False where the ill costs no time, so only its name counts. noted: words in a note that name it too. noise:
    of the machine.
    """

    name: str
    run: Run
    cured: Run
    rules: tuple[str, ...]
    consequences: tuple[str, ...] = ()
    hidden: Mapping[str, str] = field(default_factory=dict)
    gains: bool = True
    noted: str = ""
    noise: float = 1.0


@dataclass(frozen=True)
class Healthy:
    """A program in which nothing is to be found."""

    name: str
    run: Run
    noise: float = 1.0


def _training(plan: Plan) -> Run:
    return partial(train, plan=plan)


def _trained(
    name: str,
    plan: Plan,
    *rules: str,
    cured: Plan | None = None,
    consequences: tuple[str, ...] = (),
    hidden: Mapping[str, str] | None = None,
    gains: bool = True,
    noted: str = "",
) -> Ill:
    cured = cured or replace(plan, ill="", size=0)
    return Ill(name, _training(plan), _training(cured), rules, consequences, hidden or {}, gains, noted)


def _of_the_host() -> list[Ill]:
    out = []
    for backward in ("paused", "tight", "compiled"):
        for size in (4, 12):
            plan = Plan(ill="data loading", size=size, backward=backward)
            out.append(
                _trained(
                    f"data loading {size} ms, {backward} backward",
                    plan,
                    "data loading",
                    hidden=_NO_RANGES,
                    consequences=_EXPOSED,
                )
            )
        for kernel, op in ((4, 14), (9, 25)):
            plan = Plan(kernel_us=kernel, op_us=op, layers=16, steps=9, backward=backward, batch_mib=0.25)
            cured = replace(plan, op_us=0.2, launch_us=0.4)
            name = f"launch-bound, kernels of {kernel} us, {backward} backward"
            out.append(_trained(name, plan, "launch-bound", cured=cured))
    plan = Plan(ill="data loading", size=6, backward="tight", stacks=True)
    name = "data loading 6 ms, with Python functions"
    out.append(_trained(name, plan, "data loading", hidden=_NO_RANGES, consequences=_EXPOSED))
    plan = Plan(kernel_us=6, op_us=20, layers=16, steps=9, batch_mib=0.25, stacks=True)
    cured = replace(plan, op_us=0.2, launch_us=0.4)
    out.append(_trained("launch-bound, with Python functions", plan, "launch-bound", cured=cured))
    names = (
        "DALIGenericIterator.__next__",
        "tf.data.Iterator.get_next",
        "webdataset.WebLoader.next",
        "ffcv.Loader.next",
    )
    for loader in names:
        plan = Plan(ill="data loading", size=8, loader=loader)
        out.append(
            _trained(f"data loading in {loader}", plan, "data loading", hidden=_NO_RANGES, consequences=_EXPOSED)
        )
    plan = Plan(ill="starved workers", size=9)
    out.append(_trained("starved workers 9 ms", plan, "data loading", hidden=_NO_RANGES, consequences=_EXPOSED))
    for what in ("device sync", "stream sync", "event sync", "item"):
        for layers, kernel in ((6, 90), (14, 40)):
            plan = Plan(ill=f"{what} each layer", layers=layers, kernel_us=kernel, op_us=6)
            out.append(_trained(f"{what} in each of {layers} layers", plan, _SYNC))
    plan = Plan(ill="loss each step", kernel_us=60, layers=3, op_us=8, batch_mib=0.25, take_us=30)
    out.append(_trained("loss.item() in each short step", plan, _SYNC))
    for size in (60, 250):
        plan = Plan(ill="cudaMalloc each layer", size=size, op_us=6)
        out.append(_trained(f"cudaMalloc of {size} us and cudaFree in each layer", plan, _SYNC, "device allocation"))
    for size in (15, 40):
        plan = Plan(ill="garbage collection", size=size)
        out.append(_trained(f"garbage collection 2 x {size} ms", plan, "host pauses"))
    for size in (60, 300):
        plan = Plan(ill="warm-up", size=size)
        out.append(_trained(f"warm-up: libraries load in {size} ms", plan, "warm-up", "start-up", "long host calls"))
        plan = Plan(ill="autotuning", size=size / 2)
        out.append(
            _trained(
                f"warm-up: autotuning of {size / 2:.0f} ms", plan, "warm-up", consequences=(_SYNC,), hidden=_NO_STEPS
            )
        )
    for start_up in (80.0, 400.0):
        run = partial(infer, start_up_ms=start_up)
        out.append(Ill(f"start-up of {start_up:.0f} ms", run, infer, ("start-up",)))
    launching, at_once = partial(infer, kernel_us=5, op_us=16), partial(infer, kernel_us=5, op_us=0.2, launch_us=0.4)
    out.append(Ill("launch-bound inference", launching, at_once, ("launch-bound",)))
    waiting = partial(infer, one_buffer=True, kernel_us=40)
    out.append(Ill("inference that waits for each batch", waiting, partial(infer, kernel_us=40), (_SYNC,), _EXPOSED))
    return out


_IDLE = "idle, cause not in the trace"


def _looped(name: str, plan: Rounds, cured: Rounds, *rules: str, hidden: Mapping[str, str] | None = None) -> Ill:
    # The host waits for a result before the gap, so the device has no work left that could hide it.
    consequences = (_SYNC,) if plan.read_back else ()
    return Ill(name, partial(loop, plan=plan), partial(loop, plan=cured), rules, consequences, hidden or {})


def _of_gaps() -> list[Ill]:
    """What the host does between rounds: most of it has no row, so the answer is that it is not in the trace."""
    plain, bare = Rounds(), Rounds(operators=False, read_back=False, batch_mib=2, kernel_us=250)
    out = [
        _looped(f"scheduler of {ms} ms between tokens", replace(shape, gap_ms=ms), shape, _IDLE)
        for ms, shape in ((2.5, Rounds(graph=True)), (1.2, plain), (4, Rounds(kernels=6)))
    ]
    for ms in (8, 30):
        out.append(_looped(f"loader of {ms} ms without a range", replace(bare, gap_ms=ms), bare, _IDLE, "host pauses"))
    short = replace(bare, kernels=60, kernel_us=20, op_us=2)
    out.append(_looped("loader of 6 ms without a range, short kernels", replace(short, gap_ms=6), short, _IDLE))
    for name, plan in (("steps", Rounds(steps=True)), ("no steps", plain)):
        log = replace(plan, gap_ms=3)
        out.append(_looped(f"logging of 3 ms after each step, {name}", log, plan, _IDLE, "host pauses"))
    for name in ("save_checkpoint", "evaluate"):
        ahead = Rounds(steps=True, read_back=False)
        plan = replace(ahead, gap_ms=60, every=8, gap_range=name)
        out.append(_looped(f"{name} in a range", plan, ahead, "host pauses", _IDLE))
    for name in ("Torch-Compiled Region: 0/1", "_compile.compile_inner (dynamo_timed)", "CachingAutotuner.autotune"):
        plan = replace(Rounds(steps=True), gap_ms=40, every=9, gap_range=name)
        hidden = {"nvprof": "a table without ranges does not show a compiler"}
        out.append(_looped(f"recompilation: {name}", plan, Rounds(steps=True), "compilation", hidden=hidden))
    for call, us, calls, every in (
        ("cudaHostAlloc", 900, 3, 1),
        ("cuModuleLoadData", 9_000, 2, 6),
        ("cudaFuncGetAttributes", 60, 20, 1),
    ):
        plan = replace(plain, call=call, call_us=us, calls=calls, every=every)
        out.append(_looped(f"{call} of {us} us in the loop", plan, plain, "long host calls"))
    plan = replace(plain, first_ms=12)
    out.append(_looped("first launches of 12 ms, no steps", plan, plain, "long host calls", "warm-up", "start-up"))
    for ms, name in ((120, "compile_model"), (300, "load_weights")):
        plan = replace(plain, start_ms=ms, start_range=name)
        hidden = {"nvprof": "a table without ranges names nothing before the first work"}
        out.append(_looped(f"long start in {name}", plan, plain, "start-up", hidden=hidden))
    out.append(_looped("long start without a range", replace(plain, start_ms=200), plain, _IDLE, "start-up"))
    few, at_once = (
        Rounds(rounds=1, kernels=60, kernel_us=4, op_us=20),
        Rounds(rounds=1, kernels=60, kernel_us=4, op_us=0.2),
    )
    out.append(_looped("few kernels, launch-bound", few, at_once, "launch-bound"))
    return out


def _of_the_device() -> list[Ill]:
    out = []
    for blocks in (4, 12):
        plan = Plan(ill="few blocks", size=blocks, layers=4)
        cured = replace(plan, ill="few blocks, cured")
        out.append(_trained(f"kernels of {blocks} blocks", plan, "little parallelism", cured=cured, hidden=_NO_SIZES))
    for waves in (2, 3):
        plan = Plan(ill="tail effect", size=waves, layers=4, kernel_us=50)
        cured = replace(plan, ill="tail effect, cured")
        out.append(
            _trained(f"a last wave of 3 blocks, {waves} waves", plan, "tail effect", cured=cured, hidden=_NO_SIZES)
        )
    for size in (250, 600):
        plan = Plan(ill="expensive kernel", size=size, layers=4)
        out.append(_trained(f"an expensive kernel of {size} us", plan, "expensive kernel"))
    for share in (0.2, 0.4):
        plan = Plan(ill="slow kernel", size=share, layers=4)
        name = f"a product at {share:.0%} of the peak"
        out.append(_trained(name, plan, "slow kernel", cured=replace(plan, size=1.0), hidden=_NO_SHAPES))
    for share in (0.95, 0.7):
        plan = Plan(ill="unfused", size=share, layers=4)
        name = f"unfused elementwise kernels at {share:.0%} of the bandwidth"
        cured = replace(plan, ill="fused")
        rule = "unfused elementwise kernels"
        out.append(_trained(name, plan, rule, cured=cured, consequences=("expensive kernel",), hidden=_NO_SHAPES))
    plan = Plan(ill="fp32", size=8)
    out.append(_trained("fp32 products", plan, "fp32 arithmetic", consequences=("expensive kernel",)))
    for backward in ("paused", "tight", "compiled"):
        plan = Plan(ill="pageable copies", batch_mib=24, backward=backward)
        out.append(_trained(f"pageable copies, {backward} backward", plan, "pageable copies"))
    results, in_pinned = partial(infer, results_mib=8, pageable=True), partial(infer, results_mib=8)
    out.append(Ill("pageable copies of results", results, in_pinned, ("pageable copies",), (_SYNC,)))
    for size in (20, 32):
        plan = Plan(ill="exposed copies", batch_mib=size)
        out.append(_trained(f"exposed copies of {size} MiB to the device", plan, "exposed copies"))
    plan = Plan(ill="copies of results", size=24)
    out.append(_trained("exposed copies of 24 MiB of results", plan, "exposed copies"))
    for count in (150, 500):
        plan = Plan(ill="tiny copies", size=count)
        out.append(_trained(f"{count} tiny copies a step", plan, "tiny copies"))
    plan = Plan(ill="memory growth")
    out.append(_trained("memory that grows", plan, "memory growth", hidden=_NO_MEMORY, gains=False))
    for lost in (0.03, 0.3):
        plan = Plan(ill="lost kernels", size=lost)
        words = "lost|missing|without (its|their|a) (kernel|work)|no (kernel|work)"
        out.append(_trained(f"lost rows: {lost:.0%} of the kernels", plan, "lost rows", gains=False, noted=words))
        plan = Plan(ill="lost launches", size=lost)
        words = "lost|missing|without (its|their|a) (launch|call)|no (launch|call)"
        out.append(_trained(f"lost rows: {lost:.0%} of the launches", plan, "lost rows", gains=False, noted=words))
    return out


def _of_several_ranks() -> list[Ill]:
    out = []
    late = ("exposed communication",)
    for ranks in (2, 4):
        for bucket in (60, 120):
            plan = Plan(ill="exposed all-reduce", ranks=ranks, bucket_us=bucket, steps=8, layers=12)
            name = f"exposed all-reduce of {bucket * plan.layers / 1000:.1f} ms, {ranks} ranks"
            out.append(_trained(name, plan, "exposed communication"))
    for slow in (1.2, 1.5):
        plan = Plan(ill="slow kernels of a rank", size=slow, ranks=4, bucket_us=80, steps=8)
        out.append(_trained(f"a rank with kernels slower by {slow - 1:.0%}", plan, "straggler", consequences=late))
    for size in (2, 6):
        plan = Plan(ill="slow loading of a rank", size=size, ranks=4, bucket_us=80, steps=8)
        name = f"a rank that loads data for {size} ms"
        out.append(_trained(name, plan, "straggler", "data loading", consequences=(*late, *_EXPOSED, "host pauses")))
    for slow in (2.0, 3.0):
        shape = Plan(ranks=4, bucket_us=20, kernel_us=30, op_us=5, steps=8, layers=8, take_us=20)
        plan = replace(shape, ill="slow host of a rank", size=slow)
        name = f"a rank whose host is {slow:.0f} times slower"
        out.append(_trained(name, plan, "straggler", "launch-bound", consequences=(*late, *_EXPOSED)))
    plan = Plan(ill="garbage collection of a rank", size=30, ranks=4, bucket_us=80)
    out.append(
        _trained("garbage collection of a rank", plan, "host pauses", "straggler", consequences=(*late, *_EXPOSED))
    )
    plan = Plan(ill="shared device", ranks=2, steps=8)
    out.append(_trained("two processes on one device", plan, "shared device", hidden=_ONE_FILE_EACH))
    for layers in ((3, 3, 7, 3), (8, 4, 4, 4)):
        equal = (sum(layers) // len(layers),) * len(layers)
        run, cured = partial(pipeline, layers=layers), partial(pipeline, layers=equal)
        late = ("straggler", "exposed communication")
        name = f"pipeline stages of {', '.join(map(str, layers))} layers"
        out.append(Ill(name, run, cured, ("unequal stages",), late, _NO_DIRECTIONS))
    return out


_COMPILED = Rounds(read_back=False, kernel_us=150, gap_ms=0.02, gap_range="Torch-Compiled Region: 0/0")
_BEHIND = Rounds(read_back=False, kernel_us=900, call="cudaHostAlloc", call_us=400, calls=2)
"""The device has work for longer than the host takes."""


_IN_A_RANGE = Cause(forward_in="get_data_parallel_group")
_NO_OPERATORS = {"nvprof": "a table of device work and API calls has no operators and no ranges"}
_STEPS_ONLY = {"nvprof": "a table of device work has no steps"}


def _caused(
    name: str,
    plan: Plan,
    cause: Cause,
    *rules: str,
    cured: Plan | None = None,
    cure: Cause | None = None,
    consequences: tuple[str, ...] = (),
    hidden: Mapping[str, str] | None = None,
) -> Ill:
    run = partial(caused, plan=plan, cause=cause)
    healthy = partial(caused, plan=cured or plan, cause=cure or Cause())
    return Ill(name, run, healthy, rules, consequences, hidden or {})


def _of_causes() -> list[Ill]:
    """Return ills that are one cause with a name: none of them is an average."""
    out = []
    for slow in (0.15, 0.4):
        plan = Plan(ranks=8, bucket_us=60, steps=8, layers=4)
        late = ("exposed communication",)
        name = f"a node of 4 ranks with kernels slower by {slow:.0%}"
        out.append(_caused(name, plan, Cause(slow_node=slow), "straggler", consequences=late))
    for heat in (0.35, 0.7):
        plan = Plan(steps=24, layers=4, kernel_us=150)
        out.append(
            _caused(f"clocks that fall: {heat:.0%} slower at the end", plan, Cause(heat=heat), "slower and slower")
        )
    plan = Plan(steps=20, layers=4)
    cause = Cause(grows_ms=0.4)
    rules = ("slower and slower", "host pauses")
    late = (_SYNC, *_EXPOSED)
    empty = Cause(grows_ms=0.0005)
    out.append(_caused("a list that grows", plan, cause, *rules, cure=empty, consequences=late, hidden=_NO_RANGES))
    for size in (4, 15):
        cause = Cause(sort_ms=size)
        out.append(
            _caused(
                f"one operator of {size} ms on the host a step",
                Plan(layers=4),
                cause,
                "long operator",
                consequences=(_SYNC, *_EXPOSED),
                hidden=_NO_OPERATORS,
            )
        )
    cause = Cause(gil_ms=6)
    name, quick = "another thread holds the interpreter", Cause(gil_ms=0.001)
    out.append(_caused(name, Plan(), cause, "host pauses", cure=quick, consequences=late, hidden=_NO_RANGES))
    plan = Plan(steps=24, layers=4, kernel_us=150)
    cause = Cause(jitter=0.6)
    out.append(_caused("steps that jitter", plan, cause, "uneven steps", hidden=_STEPS_ONLY))
    plan = Plan(ill="shared device", ranks=2, steps=8, kernel_us=40, op_us=18)
    out.append(_trained("two processes under MPS on one device", plan, "shared device", hidden=_ONE_FILE_EACH))
    for loader in ("collate_fn", "tokenize", "prefetcher.next", "read_shard"):
        plan = Plan(ill="data loading", size=8, loader=loader)
        out.append(
            _trained(f"data loading in {loader}", plan, "data loading", hidden=_NO_RANGES, consequences=_EXPOSED)
        )
    for name in ("get_image_features", "get_input_embeddings"):
        plan = Plan(kernel_us=4, op_us=14, layers=16, steps=9, batch_mib=0.25)
        cause = Cause(forward_in=name)
        cured = replace(plan, op_us=0.2, launch_us=0.4)
        out.append(_caused(f"launch-bound in {name}", plan, cause, "launch-bound", cured=cured, cure=cause))
    return out


def _of_parallel_programs() -> list[Ill]:
    """Reads of values in each step, a host that runs ahead, FSDP, MoE, and 1F1B pipelines."""
    out = []
    for read, name in (("pageable", "behind an .item()"), ("pinned", "behind a pinned read"), ("", "host ahead")):
        slow, quick = (
            partial(data_parallel, read=read, transfer_us=250),
            partial(data_parallel, read=read, transfer_us=1),
        )
        out.append(Ill(f"slow network {name}", slow, quick, ("exposed communication",)))
    exposed = partial(sharded, prefetch=False)
    out.append(Ill("FSDP without prefetch", exposed, sharded, ("exposed communication",)))
    for size in (1.5, 2.5):
        busy = partial(experts, busy=size)
        late = ("exposed communication",)
        out.append(Ill(f"MoE, busy experts x {size}", busy, experts, ("straggler",), late, _NO_EXCHANGE))
    for layers in ((3, 3, 7, 3), (8, 4, 4, 4)):
        equal = (sum(layers) // len(layers),) * len(layers)
        late = ("straggler", "exposed communication")
        name = f"1F1B pipeline of {', '.join(map(str, layers))} layers"
        run, cured = partial(one_forward_one_backward, layers=layers), partial(one_forward_one_backward, layers=equal)
        out.append(Ill(name, run, cured, ("unequal stages",), late, _NO_DIRECTIONS))
    # The optimizer's kernels are short, so once the device has nothing to do, it waits for each launch.
    after = ("launch-bound",)
    out.append(Ill("overflow read before the optimizer", scaled, partial(scaled, read=False), (_SYNC,), after))
    plan = Plan(kernel_us=20, op_us=120, layers=10, steps=6, batch_mib=0.25)
    cured = replace(plan, op_us=0.2, launch_us=0.4)
    out.append(_trained("launch-bound, operators of 120 us", plan, "launch-bound", cured=cured))
    plan = Plan(ill="expensive kernel", size=1_200, layers=4, kernel_us=400)
    out.append(_trained("an expensive kernel, host ahead", plan, "expensive kernel"))
    return out


def _everyday(
    name: str,
    program: Callable[..., list[Rank]],
    ill: Mapping[str, object],
    *rules: str,
    also: Mapping[str, object] | None = None,
    cure: Mapping[str, object] | None = None,
    consequences: tuple[str, ...] = (),
    hidden: Mapping[str, str] | None = None,
) -> Ill:
    """Return a program with an ill. also: the arguments that the ill and the healthy program share."""
    shared = also or {}
    run, cured = partial(program, **shared, **ill), partial(program, **shared, **(cure or {}))
    return Ill(name, run, cured, rules, consequences, hidden or {})


def _of_everyday_programs() -> list[Ill]:
    new = _everyday
    pauses = ("host pauses", _IDLE)
    return [
        new("decode, .tolist() of each token", everyday.decode, {"read_every": 1}, _SYNC),
        new("decode of short kernels, .tolist() of each token", everyday.decode, {"read_every": 1}, _SYNC,
            also={"us": 24, "layers": 5}, consequences=("launch-bound",)),
        new("accumulation, device sync each batch", everyday.accumulate, {"wait": "device"}, _SYNC),
        new("accumulation, stream sync each batch", everyday.accumulate, {"wait": "stream"}, _SYNC),
        new("3 metrics by .cpu() each step", everyday.metrics, {"reads": 3}, _SYNC),
        new("loss by .item() and a log line each step", everyday.logged, {"read": True}, _SYNC, consequences=pauses),
        new("torch.save within every fifth step", everyday.saved, {"every": 5}, *pauses,
            cure={"every": 5, "write_ms": 0}, consequences=("pageable copies", _SYNC, "uneven steps")),
        new("torch.save in a range every fifth step", everyday.saved, {"every": 5, "name": "save_checkpoint"}, *pauses,
            consequences=("pageable copies", _SYNC, "uneven steps"), hidden=_NO_RANGES),
        new("a loader that starves every 4th batch", everyday.loaded, {"starve_ms": 14}, "data loading",
            consequences=(*_EXPOSED, "uneven steps"), hidden=_NO_RANGES),
        new("a loader without a range starves every 4th batch", everyday.loaded, {"starve_ms": 14}, *pauses,
            also={"ranges": False}, consequences=(*_EXPOSED, "uneven steps")),
        new("weights from pageable memory", everyday.offloaded_weights, {"mib": 32}, "pageable copies"),
        new("weights from pageable memory, small blocks", everyday.offloaded_weights, {"mib": 6}, "pageable copies",
            also={"us": 60, "blocks": 12}),
        new("optimizer on the host, copies", everyday.offloaded_optimizer, {"mib": 96}, "exposed copies",
            consequences=(_SYNC,)),
        new("optimizer on the host, Adam in a range", everyday.offloaded_optimizer,
            {"adam_ms": 8, "name": "DeepSpeedCPUAdam.step"}, *pauses, consequences=(_SYNC,)),
        new("optimizer on the host, Adam without a range", everyday.offloaded_optimizer, {"adam_ms": 8}, *pauses,
            consequences=(_SYNC,)),
        new("graph replays, 0.9 ms of Python between", everyday.replayed, {"gap_ms": 0.9}, _IDLE, "launch-bound"),
        new("graph replays, a read and 0.6 ms between", everyday.replayed, {"gap_ms": 0.6}, _IDLE,
            also={"read": True}, consequences=(_SYNC,)),
        new("graph replays in steps, a read and 0.8 ms between", everyday.replayed, {"gap_ms": 0.8}, _IDLE,
            also={"read": True, "steps": True}, consequences=(_SYNC,)),
        new("autotune in the first step", everyday.tuned, {"trials": 8}, "warm-up", "compilation",
            consequences=(_SYNC, _IDLE), hidden=_NO_STEPS),
        new("autotune without a range in the first step", everyday.tuned, {"trials": 8, "named": False}, "warm-up",
            consequences=(_SYNC, _IDLE), hidden=_NO_STEPS),
        new("garbage collection without a row", everyday.collected, {"pause_ms": 14}, *pauses,
            consequences=("uneven steps",)),
        new("garbage collection without a row, no steps", everyday.collected, {"pause_ms": 14}, *pauses,
            also={"with_steps": False}),
        new("adapters of tiny kernels", everyday.adapted, {"slow": True}, "launch-bound"),
        new("evaluation that reads each batch", everyday.evaluated, {"read": True}, _SYNC,
            also={"us": 40, "batches": 20}),
        new("empty_cache each step", everyday.allocated, {"blocks": 2, "release": True}, "device allocation", _SYNC),
        new("cudaMalloc in each step", everyday.allocated, {"blocks": 3, "malloc_us": 900}, "device allocation",
            "long host calls"),
        new("a rank whose loader is slow", everyday.one_slow_loader, {"slow_ms": 3}, "straggler", *pauses,
            consequences=("exposed communication", _SYNC)),
        new("a rank whose loader is slow, in a range", everyday.one_slow_loader, {"slow_ms": 3, "name": "get_batch"},
            "straggler", "data loading", "host pauses", consequences=("exposed communication", _SYNC)),
        new("an index by a mask in each layer", everyday.masked, {"nonzero": True}, _SYNC),
        new("an index by a mask in each layer, short kernels", everyday.masked, {"nonzero": True}, _SYNC,
            also={"us": 18, "op_us": 5}, consequences=("launch-bound",)),
        new("the norm of gradients read before they are clipped", everyday.clipped, {"read": True}, _SYNC,
            also={"layers": 1, "params": 10}, consequences=("launch-bound",)),
        new("an optimizer of many tiny kernels", everyday.updated_one_by_one, {"tensors": 60}, "launch-bound",
            cure={"tensors": 60, "us": 4, "op_us": 0.1}, consequences=(_SYNC,)),
        new("beams chosen on the host", everyday.searched, {"choose_ms": 0.4}, _IDLE, consequences=(_SYNC,)),
        new("beams chosen on the host for 1.5 ms", everyday.searched, {"choose_ms": 1.5}, *pauses,
            consequences=(_SYNC,)),
        new("beams chosen on the host, in a range", everyday.searched, {"choose_ms": 0.5, "name": "beam_search"},
            *pauses, "long operator", consequences=(_SYNC,)),
        new("each token awaited before the next", everyday.one_behind, {"wait_for_own": True}, _SYNC,
            consequences=(_IDLE,)),
        new("three slow first steps", everyday.warmed, {"first_ms": 40}, "warm-up", "long operator", hidden=_NO_STEPS),
        new("gradients reduced in 30 pieces", everyday.reduced, {"pieces": 30}, "exposed communication",
            cure={"transfer_us": 1}, consequences=(_SYNC,)),
        new("the host waits for each reduction", everyday.reduced, {"block": True}, _SYNC,
            also={"kernel_us": 30, "early": True}, consequences=("exposed communication",)),
        new("rank 0 saves while the others wait", everyday.reduced, {"save_ms": 12}, "straggler", *pauses,
            also={"ranks": 4, "read": True}, consequences=("exposed communication", "uneven steps", _SYNC)),
    ]  # fmt: skip


def _healthy_everyday() -> list[Healthy]:
    return [
        Healthy("decode, tokens stay on the device", everyday.decode),
        Healthy("decode, a read each 16 tokens", partial(everyday.decode, read_every=16, us=120)),
        Healthy("accumulation", everyday.accumulate),
        Healthy("accumulation, big kernels, stream sync each batch",
                partial(everyday.accumulate, wait="stream", us=900)),
        Healthy("metrics on the device", everyday.metrics),
        Healthy("a log line each step", everyday.logged),
        Healthy("workers ahead", everyday.loaded),
        Healthy("workers ahead, a fetch of 1 ms", partial(everyday.loaded, fetch_us=1_000)),
        Healthy("weights in pinned memory, one block ahead", partial(everyday.offloaded_weights, mib=24, pinned=True)),
        Healthy("graph replays back to back", everyday.replayed),
        Healthy("graph replays with a read each", partial(everyday.replayed, read=True, us=250)),
        Healthy("adapters in a graph", partial(everyday.adapted, graph=True)),
        Healthy("evaluation between epochs", everyday.evaluated),
        Healthy("two streams by turns", everyday.chained),
        Healthy("blocks taken in the first step", partial(everyday.allocated, warm=3)),
        Healthy("2 ranks, loaders alike", everyday.one_slow_loader),
        Healthy("Triton kernels that are tuned", everyday.tuned),
        Healthy("masks without a count", everyday.masked),
        Healthy("gradients clipped on the device", everyday.clipped),
        Healthy("each token read one behind", partial(everyday.one_behind, us=40)),
        Healthy("data parallel in everyday steps", partial(everyday.reduced, kernel_us=400)),
        Healthy("checkpoints from another thread", everyday.saved_beside),
        Healthy("steps without slow first ones", everyday.warmed),
    ]  # fmt: skip


def _healthy() -> list[Healthy]:
    big = Plan(kernel_us=1500, layers=8, steps=8, loss_every=1)
    return [
        Healthy("training", _training(Plan())),
        Healthy("training, tight backward", _training(Plan(backward="tight"))),
        Healthy("training, a product at 88 % of the best measured", _training(Plan(ill="slow kernel", size=0.7))),
        Healthy("training, elementwise kernels in one", _training(Plan(ill="fused", size=0.9, layers=4))),
        Healthy("training, products between elementwise kernels", _training(Plan(ill="apart", size=0.9, layers=4))),
        Healthy("training, compiled backward", _training(Plan(backward="compiled"))),
        Healthy("training, with Python functions", _training(Plan(stacks=True))),
        Healthy("training, loss each 4 steps", _training(Plan(kernel_us=300, loss_every=4))),
        Healthy("training, big kernels, loss each step", _training(big)),
        Healthy("training, loading hides behind the device", _training(Plan(kernel_us=250, load_ms=2))),
        Healthy("training on a noisy machine", _training(Plan(kernel_us=150)), 2.5),
        Healthy("2 ranks, overlapped all-reduce", _training(Plan(ranks=2, bucket_us=120, steps=8))),
        Healthy("4 ranks, overlapped all-reduce", _training(Plan(ranks=4, bucket_us=120, steps=8))),
        Healthy("4 ranks on noisy machines", _training(Plan(ranks=4, bucket_us=90, steps=8)), 2.0),
        Healthy("training with CUDA graphs", _training(Plan(graph=True, kernel_us=150))),
        Healthy("two branches on two streams", branches),
        Healthy("training, pageable loss each step", _training(replace(big, kernel_us=2500))),
        Healthy("data parallel, host ahead", partial(data_parallel, read="", kernel_us=600, transfer_us=10)),
        Healthy("data parallel, loss each step", partial(data_parallel, kernel_us=1200, transfer_us=10)),
        Healthy("FSDP with prefetch", partial(sharded, kernel_us=400)),
        Healthy("MoE", partial(experts, kernel_us=1200, exchange_us=20)),
        Healthy("inference", infer),
        Healthy("inference on 2 streams", partial(infer, streams=2)),
        Healthy("inference with CUDA graphs", partial(infer, graph=True)),
        Healthy("inference on a noisy machine", infer, 2.5),
        Healthy("a server that waits for requests", serve),
        Healthy("a server that waits with events", partial(serve, event=True)),
        Healthy("a busy server", partial(serve, requests=60, pause_ms=1.5)),
        Healthy("rounds that keep the device fed", partial(loop, plan=Rounds(read_back=False, kernel_us=200))),
        Healthy("few kernels back to back", partial(loop, plan=Rounds(rounds=2, kernels=20, kernel_us=800))),
        Healthy("compiled rounds", partial(loop, plan=_COMPILED)),
        Healthy("a long call behind a busy device", partial(loop, plan=_BEHIND)),
        Healthy("8 ranks on noisy machines", _training(Plan(ranks=8, bucket_us=90, steps=8, layers=4)), 2.0),
        Healthy("a long training run on a noisy machine", _training(Plan(steps=40, layers=3, kernel_us=150)), 2.5),
        Healthy("training in get_data_parallel_group", partial(caused, plan=Plan(), cause=_IN_A_RANGE)),
        Healthy("a server with rare requests", partial(serve, requests=20, pause_ms=60)),
    ]


ILLS: tuple[Ill, ...] = (
    *_of_the_host(),
    *_of_gaps(),
    *_of_the_device(),
    *_of_several_ranks(),
    *_of_causes(),
    *_of_parallel_programs(),
    *_of_everyday_programs(),
)
HEALTHY: tuple[Healthy, ...] = (*_healthy(), *_healthy_everyday())
