"""Write the samples of summaries that tools print: TorchInductor's bandwidth, DeepSpeed's flops profiler.

    python sample_traces/_text_summaries.py [FOLDER]

The numbers come from seeded generators; nothing was measured. The layouts are those of the tools' own sources.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
NAMES = ("poi_fused_add_mul", "red_fused_sum", "per_fused__softmax", "poi_fused_gelu", "poi_fused_native_layer_norm")


def bandwidth(ms: float, gigabytes: float, suffix: str = "", prefix: str = "", *, color: bool = False) -> str:
    """Return a line as torch/_inductor/runtime/runtime_utils.py makes it."""
    rate = gigabytes / (ms / 1e3)
    text = f"{prefix}{ms:.3f}ms    \t{gigabytes:.3f} GB \t {rate:7.2f}GB/s{suffix}"
    return f"\x1b[31m{text}\x1b[39m" if color and ms > 0.012 and rate < 650 else text


def kernels(rng: random.Random, count: int) -> list[tuple[float, float, str]]:
    """Return (ms, GB, name) of some kernels."""
    return [
        (rng.uniform(0.004, 1.9), rng.choice((0.0002, rng.uniform(0.001, 0.4))), f"triton_{rng.choice(NAMES)}_{at}")
        for at in range(count)
    ]


def inductor_log(rng: random.Random) -> str:
    """Return a log of two ranks, each with a graph: one line for each kernel, and a sum."""
    lines = ["W1127 08:00:00.000000 1 torch/_inductor/utils.py:1] compiling"]
    for rank in range(2):
        head = (
            f"[rank{rank}]:I1127 08:00:0{rank}.123456 {200 + rank} torch/_inductor/runtime/triton_heuristics.py:3015]"
        )
        found = kernels(rng, 6)
        lines += [f"{head} [0/0] {bandwidth(ms, size, f' {chr(9)} {name}', color=True)}" for ms, size, name in found]
        total, moved = sum(each[0] for each in found), sum(each[1] for each in found)
        lines.append(f"{head} SUMMARY (/tmp/torchinductor_user/ab/cab{rank}.py)")
        lines.append(f"{total:.2f}ms   \t {moved:.2f} GB\t {moved / (total / 1e3):.2f}GB/s")
        lines.append(f"loss at step {rank}: {rng.random():.4f}")
    return "\n".join(lines) + "\n"


def inductor_output(rng: random.Random) -> str:
    """Return the file of TORCHINDUCTOR_PROFILE_OUTPUT: a kernel that is called twice has two lines."""
    text = ""
    for graph in range(2):
        found = kernels(rng, 5)
        found += found[:2]
        found.sort(reverse=True)
        total, moved = sum(each[0] for each in found), sum(each[1] for each in found)
        path = f"/tmp/torchinductor_user/cd/ccd{graph}.py"
        text += f"====================\nTRITON KERNELS BANDWIDTH INFO ({path})\n"
        for ms, size, name in found:
            text += bandwidth(ms, size, f" \t {ms / total * 100:.2f}% \t {name}") + "\n"
        text += f"SUMMARY ({path})\n{total:.2f}ms   \t {moved:.2f} GB\t {moved / (total / 1e3):.2f}GB/s\n\n"
    return text


def inductor_benchmark(rng: random.Random) -> str:
    """Return what `python MODULE.py -k` prints: the category and key of a kernel in front, its registers behind."""
    lines = []
    for at, (ms, size, _) in enumerate(kernels(rng, 5)):
        prefix = f"{'gpt2':20} {rng.choice(('POI', 'RED', 'PER'))} c{at}{rng.randrange(1 << 30):08x}"[:35] + " "
        details = f"  {rng.randrange(16, 128):3} regs  {0:3} spills  {rng.randrange(0, 4096):8} shared mem"
        lines.append(bandwidth(ms, size, details, prefix))
    return "\n".join(lines) + "\n"


# DeepSpeed


@dataclass
class Module:
    """A module. us: of its forward pass, with those inside."""

    name: str
    kind: str
    params: int
    macs: int
    us: float
    below: list[Module] = field(default_factory=list)
    more: str = ""


def model(rng: random.Random, layers: int) -> Module:
    """Return a model whose modules have the sums of those inside."""

    def of(name: str, kind: str, below: list[Module]) -> Module:
        own = rng.uniform(3, 40)
        sums = (sum(each.params for each in below), sum(each.macs for each in below), sum(each.us for each in below))
        return Module(name, kind, sums[0], sums[1], sums[2] + own, below)

    def linear(name: str, width: int, out: int) -> Module:
        more = f"in_features={width}, out_features={out}, bias=True"
        return Module(name, "Linear", width * out + out, 512 * width * out, rng.uniform(40, 900), [], more)

    def layer(number: int) -> Module:
        attention = of("attention", "Attention", [linear(each, 768, 768) for each in ("query", "key", "value")])
        drop = Module("dropout", "Dropout", 0, 0, rng.uniform(0.4, 9), [], "p=0.1, inplace=False")
        return of(str(number), "Layer", [attention, linear("dense", 768, 3072), drop])

    return of("", "Encoder", [of("layer", "ModuleList", [layer(at) for at in range(layers)]), linear("head", 768, 2)])


def amount(number: float, word: str = "", *, digits: int = 2) -> str:
    """Return a number as number_to_string of DeepSpeed prints it."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")):
        if number >= size:
            return f"{round(number / size, digits):g} {prefix}{word}"
    return f"{round(number, digits):g} {word}"


def latency(us: float) -> str:
    """Return a time as duration_to_string of DeepSpeed prints it."""
    size, unit = (1e6, "s") if us >= 1e6 else (1e3, "ms") if us >= 1e3 else (1, "us")
    return f"{round(us / size, 2):g} {unit}"


def tree(module: Module, whole: Module, sign: str, indent: int = 0) -> list[str]:
    """Return the lines of a module. sign: "," of older versions, " =" of newer ones."""
    share = [
        f"{100 * own / max(of, 1):.2f}%"
        for own, of in ((module.params, whole.params), (module.macs, whole.macs), (module.us, whole.us))
    ]
    rate = module.macs * 2 / (module.us / 1e6)
    numbers = (
        f"{amount(module.params).strip()}{sign} {share[0]} Params, "
        f"{amount(module.macs, 'MACs')}{sign} {share[1]} MACs, "
        f"{latency(module.us)}{sign} {share[2]} latency, {amount(rate, 'FLOPS')}"
    )
    head = " " * indent + (f"({module.name}): " if module.name else "") + f"{module.kind}("
    if not module.below:
        return [f"{head}{numbers}, {module.more})"]
    inside = [line for each in module.below for line in tree(each, whole, sign, indent + 2)]
    return [head, " " * (indent + 2) + numbers, *inside, " " * indent + ")"]


def deepspeed(rng: random.Random, sign: str, layers: int) -> str:
    """Return a profile."""
    whole = model(rng, layers)
    backward, step = whole.us * 2.1, whole.us * 0.4
    flops = whole.macs * 2
    rows = [
        ("world size", "8"), ("data parallel size", "8"), ("model parallel size", "1"), ("batch size per GPU", "4"),
        ("params per GPU", amount(whole.params)), ("params of model = params per GPU * mp_size", amount(whole.params)),
        ("fwd MACs per GPU", amount(whole.macs, "MACs")), ("fwd flops per GPU", amount(flops)),
        ("fwd latency", latency(whole.us)),
        ("fwd FLOPS per GPU = fwd flops per GPU / fwd latency", amount(flops / whole.us * 1e6, "FLOPS")),
        ("bwd latency", latency(backward)), ("step latency", latency(step)),
        ("iter latency", latency(whole.us + backward + step)), ("samples/second", "812.5"),
    ]  # fmt: skip
    lines = [
        "", "-------------------------- DeepSpeed Flops Profiler --------------------------",
        "Profile Summary at step 10:", "Notations:", "data parallel size (dp_size), model parallel size(mp_size),",
        "number of parameters (params), number of multiply-accumulate operations(MACs),", "",
        *(f"{name + ':':<70}  {value:<8}" for name, value in rows), "",
        "----------------------------- Aggregated Profile per GPU -----------------------------",
        "Top 1 modules in terms of params, MACs or fwd latency at different model depths:",
    ]  # fmt: skip
    level = [whole]
    for depth in range(3):
        top = max(level, key=lambda each: each.us)
        lines += [
            f"depth {depth}:",
            f"    params      - {{'{top.kind}': '{amount(top.params).strip()}'}}",
            f"    MACs        - {{'{top.kind}': '{amount(top.macs, 'MACs')}'}}",
            f"    fwd latency - {{'{top.kind}': '{latency(top.us)}'}}",
        ]
        level = [inside for each in level for inside in each.below]
    lines += [
        "", "------------------------------ Detailed Profile per GPU ------------------------------",
        "Each module profile is listed after its name in the following order: ",
        "params, percentage of total params, MACs, percentage of total MACs, fwd latency, ...",
        "", *tree(whole, whole, sign), "-" * 78, "",
    ]  # fmt: skip
    return "\n".join(lines)


def write_all(root: Path) -> None:
    """Write all folders under root."""
    old = "\n".join(f"[2026-11-27 08:00:00] [INFO] {line}" for line in deepspeed(random.Random(5), ",", 1).split("\n"))
    files = {
        "inductor-bandwidth/log-of-two-ranks.log": inductor_log(random.Random(1)),
        "inductor-bandwidth/profile-output.txt": inductor_output(random.Random(2)),
        "inductor-bandwidth/benchmark.txt": inductor_benchmark(random.Random(3)),
        "deepspeed-flops/one-gpu.txt": deepspeed(random.Random(4), " =", 2),
        "deepspeed-flops/older-in-a-log.log": f"Epoch 1\n{old}\nstep 11 loss 0.5\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())


if __name__ == "__main__":
    write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
