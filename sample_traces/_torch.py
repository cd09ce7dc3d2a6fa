"""Write the samples of PyTorch's printed tables. Nothing in them was measured.

    python sample_traces/_torch.py [FOLDER]

The figures come from a seeded generator; widths, units and roundings are PyTorch's. What a correct reader finds in each
file, in ns before rounding, is in expected_torch.json.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
SEED = 17
STACK = (
    "torch/nn/modules/conv.py(439): _conv_forward",
    "torch/nn/modules/module.py(1051): _call_impl",
    "/home/user/a/very/long/path/to/the/models/of/a/program/models/resnet.py(63): forward",
)


@dataclass
class Row:
    """One row. self_ns, total_ns: on the host. work_ns, work_total_ns: of the device."""

    name: str
    calls: int
    self_ns: int = 0
    total_ns: int = 0
    work_ns: int = 0
    work_total_ns: int = 0
    memory: int = 0
    device_memory: int = 0
    shapes: str = "[]"
    flops: int = 0
    overload: str = ""
    stack: list[str] = field(default_factory=list)


def training(seed: random.Random) -> list[Row]:
    """Return the rows of a training step on one GPU: ranges, operators, calls, kernels, copies."""

    def ns(most: int) -> int:
        return seed.randrange(1000, most)

    mm, conv = ns(9_000_000), ns(40_000_000)
    rows = [
        Row("aten::mm", 6, ns(300_000), 0, 0, mm, 0, 786_432, "[[64, 1024], [1024, 512]]", 402_653_184, "out"),
        Row(
            "aten::cudnn_convolution",
            4,
            ns(900_000),
            0,
            0,
            conv,
            0,
            25_600_000,
            "[[64, 3, 32, 32], [64, 3, 3, 3], [], ..., []]",
            9_437_184,
        ),
        Row("aten::add_", 40, ns(800_000), 0, ns(70_000), 0, 0, 0, "[[512], [512], []]", 20_480, "Tensor"),
        Row("aten::empty", 33, ns(90_000), 0, 0, 0, 48, 1_811_939_328, "[[], [], [], [], [], []]", 0, "memory_format"),
        Row("autograd::engine::evaluate_function: MmBackward0", 6, ns(90_000), 900_000, 0, mm // 2, 0, -786_432),
        Row("ProfilerStep*", 3, -ns(90_000), 60_000_000, 0, mm + conv, 0, -40_960_000),
        Row("model_inference", 3, ns(900_000), 30_000_000, 0, conv),
        Row("Optimizer.step#SGD.step", 3, ns(500_000), 4_000_000, 0, 70_000),
        Row("nccl:all_reduce", 3, ns(90_000), 90_000, 0, 0),
        Row("cudaLaunchKernel", 56, ns(900_000)),
        Row("cudaDeviceSynchronize", 3, ns(90_000_000)),
        Row("void cutlass::Kernel<cutlass_80_wmma_tensorop_s161616gemm>(Params)", 6, work_ns=mm),
        Row("ampere_scudnn_128x64_relu_xregs_large_nn_v1", 4, work_ns=conv),
        Row("Memcpy HtoD (Pinned -> Device)", 3, work_ns=ns(2_000_000)),
        Row("Memset (Device)", 12, work_ns=ns(20_000)),
        Row("ProfilerStep*", 3, work_ns=mm + conv),
    ]
    for row in rows:
        row.total_ns = row.total_ns or row.self_ns
        row.work_total_ns = row.work_total_ns or row.work_ns
    return rows


def time(ns: float, unit: str = "") -> str:
    us = ns / 1000
    if unit:
        return f"{us / {'s': 1e6, 'ms': 1e3, 'us': 1}[unit]:.3f}{unit}"
    return f"{us / 1e6:.3f}s" if us >= 1e6 else f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def size(count: int) -> str:
    for step, word in ((30, "GB"), (20, "MB"), (10, "KB")):
        if abs(count) >= 1 << step:
            return f"{count / (1 << step):.2f} {word}"
    return f"{count} B"


def share(ns: int, whole: int) -> str:
    return f"{ns * 100 / whole:.2f}%" if whole else "NaN"


def table(
    rows: list[Row], device: str = "", *, memory: bool = False, shapes: bool = False, flops: bool = False,
    overload: bool = False, node: bool = False, stacks: bool = False, unit: str = "", limit: int = 100,
    whole: list[Row] | None = None,
) -> str:  # fmt: skip
    """Return a table as PyTorch 2 prints it. whole: the rows that the totals are of."""
    whole = whole or rows
    host, work = sum(row.self_ns for row in whole), sum(row.work_ns for row in whole if not row.self_ns)
    scale = 10 ** (3 * ((len(str(min(row.flops for row in rows if row.flops))) - 1) // 3)) if flops else 1
    heads = [
        "Name",
        *["Overload Name"] * overload,
        "Self CPU %",
        "Self CPU",
        "CPU total %",
        "CPU total",
        "CPU time avg",
    ]
    if device:
        heads += [f"Self {device}", f"Self {device} %", f"{device} total", f"{device} time avg"]
    if memory:
        heads += ["CPU Mem", "Self CPU Mem", *([f"{device} Mem", f"Self {device} Mem"] if device else [])]
    heads += ["# of Calls", *["Node ID"] * node]
    name_width = min(max(len(row.name) for row in rows) + 4, 55)
    widths = [name_width] * (1 + overload) + [12] * (len(heads) - 1 - overload)
    sides = [">"] * len(heads)
    for wanted, head, width, side in (
        (shapes, "Input Shapes", min(max(len(row.shapes) for row in rows) + 4, 80), ">"),
        (stacks, "Source Location", 75, "<"),
        (flops, f"Total {' KMGTP'[len(str(scale)) // 3].strip()}FLOPs", 12, ">"),
    ):
        if wanted:
            heads, widths, sides = [*heads, head], [*widths, width], [*sides, side]

    def line(cells: list[str]) -> str:
        return "".join(f"{c:{s}{w}}  " for c, s, w in zip(cells, sides, widths, strict=True))

    rule = line(["-" * width for width in widths])
    lines = [rule, line(heads), rule]
    for row in rows[:limit]:
        name = row.name[:52] + "..." if len(row.name) >= 52 else row.name
        cells = [name, *[row.overload] * overload]
        cells += [
            share(row.self_ns, host),
            time(row.self_ns, unit),
            share(row.total_ns, host),
            time(row.total_ns, unit),
        ]
        cells += [time(row.total_ns / row.calls, unit)]
        if device:
            cells += [time(row.work_ns, unit), share(row.work_ns, work), time(row.work_total_ns, unit)]
            cells += [time(row.work_total_ns / row.calls, unit)]
        if memory:
            cells += [size(row.memory)] * 2 + [size(row.device_memory)] * (2 if device else 0)
        cells += [str(row.calls), *["-1"] * node, *[row.shapes[:80]] * shapes]
        # The row has FLOPs before the stack, the head has them behind it.
        cells += [f"{row.flops / scale:8.3f}" if row.flops else "--"] * flops
        stack = [frame if len(frame) <= 75 else "..." + frame[-72:] for frame in row.stack]
        lines.append(line([*cells, *[stack[0] if stack else ""] * stacks]))
        if stacks:
            lines += [line([*[""] * (len(heads) - 1), frame]) for frame in [*stack[1:], ""]]
    lines += [rule, f"Self CPU time total: {time(host, unit)}"]
    if device:
        lines.append(f"Self {device} time total: {time(work, unit)}")
    return "".join(f"{each}\n" for each in lines)


def old_table(rows: list[Row], *, oldest: bool = False) -> str:
    """Return a table of PyTorch 1.1 to 1.5, or of 1.0: columns 15 wide, names without a namespace."""
    width = max(len(row.name) for row in rows) + 4
    if oldest:
        heads = ["CPU time", "CUDA time", "Calls", "CPU total", "CUDA total"]
        sides = ["<", *[">"] * len(heads)]
    else:
        heads = ["Self CPU total %", "Self CPU total", "CPU total %", "CPU total", "CPU time avg", "CUDA total %"]
        heads += ["CUDA total", "CUDA time avg", "Number of Calls"]
        sides = ["<"] * (len(heads) + 1)
    widths = [width, *[15] * len(heads)]
    end = "" if oldest else "  "

    def line(cells: list[str]) -> str:
        return "  ".join(f"{c:{s}{w}}" for c, s, w in zip(cells, sides, widths, strict=True)) + end

    host, work = sum(row.self_ns for row in rows), sum(row.work_total_ns for row in rows)
    rule = line(["-" * each for each in widths])
    lines = [rule, line(["Name", *heads]), rule]
    for row in rows:
        mean, work_mean = time(row.total_ns / row.calls), time(row.work_total_ns / row.calls)
        if oldest:
            cells = [mean, work_mean, str(row.calls), time(row.total_ns), time(row.work_total_ns)]
        else:
            cells = [share(row.self_ns, host), time(row.self_ns), share(row.total_ns, host), time(row.total_ns), mean]
            cells += [share(row.work_total_ns, work), time(row.work_total_ns), work_mean, str(row.calls)]
        lines.append(line([row.name, *cells]))
    if not oldest:
        lines += [rule, f"Self CPU time total: {time(host)}", f"CUDA time total: {time(work)}"]
    return "".join(f"{each}\n" for each in lines)


def old_rows(rows: list[Row]) -> list[Row]:
    return [Row(r.name[6:], r.calls, r.self_ns, r.total_ns, 0, r.work_total_ns) for r in rows if r.name[:6] == "aten::"]


def bottleneck(rows: list[Row]) -> str:
    """Return the output of `python -m torch.utils.bottleneck`."""
    rule = "-" * 80
    parts = [
        rule,
        "  Environment Summary",
        rule,
        "PyTorch 2.1.0 compiled w/ CUDA 12.1",
        "Running with Python 3.10 and ",
        "",
    ]
    parts += [rule, "  cProfile output", rule, "         5342 function calls in 0.102 seconds", ""]
    parts += ["   ncalls  tottime  percall  cumtime  percall filename:lineno(function)"]
    parts += ["        1    0.090    0.090    0.102    0.102 train.py:1(<module>)", "", ""]
    events = [Row(row.name, 1, row.self_ns // row.calls, row.total_ns // row.calls) for row in rows if row.self_ns > 0]
    for mode in ("CPU", "CUDA"):
        parts += [
            rule,
            f"  autograd profiler output ({mode} mode)",
            rule,
            "        top 15 events sorted by cpu_time_total",
        ]
        parts += ["", table(sorted(events, key=lambda row: -row.total_ns)[:15], whole=events)]
        events = [Row(row.name, 1, row.self_ns + 1000, row.total_ns + 1000) for row in events]
    return "\n".join(parts)


def facts(rows: list[Row], tables: int = 1) -> dict[str, int]:
    return {
        "tables": tables,
        "rows": len(rows) * tables,
        "calls": sum(row.calls for row in rows) * tables,
        "self_ns": sum(row.self_ns for row in rows) * tables,
    }


def main(target: Path) -> None:
    """Write the files."""
    rows = training(random.Random(SEED))
    host = [row for row in rows if row.self_ns]
    for row in host[:3]:
        row.stack = [*STACK]
    operators = [row for row in host if row.name.startswith("aten::")]
    several = table(host, unit="ms") + "\n" + table(rows, "XPU")
    commented = "".join(f"#    {line}".rstrip() + "\n" for line in several.splitlines())
    old = old_rows(rows)
    made = {
        "cuda.txt": (table(rows, "CUDA", memory=True, shapes=True, flops=True, overload=True, node=True), facts(rows)),
        "cpu-stacks-and-flops.txt": (table(operators, memory=True, flops=True, stacks=True), facts(operators)),
        "cpu-row-limit.txt": ("loading ...\n" + table(host, limit=5) + "done\n", facts(host[:5])),
        "comments-of-a-program.txt": (commented, facts(host) | {"tables": 2, "rows": len(host) + len(rows)}),
        "pytorch-1.4.txt": (old_table(old), facts(old)),
        "pytorch-1.0.txt": (old_table(old, oldest=True), facts(old) | {"self_ns": 0}),
        "bottleneck.txt": (bottleneck(rows), {"tables": 2}),
    }
    folder = target / "torch-table"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (text, _) in made.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    found = json.dumps({f"torch-table/{name}": known for name, (_, known) in made.items()}, indent=1)
    (target / "expected_torch.json").write_text(found + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
