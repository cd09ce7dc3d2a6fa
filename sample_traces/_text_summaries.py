"""Write the samples of summaries that tools print: TorchInductor's bandwidth, DeepSpeed's flops profiler,
unitrace's summaries, tables of VTune, of `nsys recipe`, and of rocprof-compute.

    python sample_traces/_text_summaries.py [FOLDER]

The numbers come from seeded generators; nothing was measured. The layouts are those of the tools' own sources.
"""

from __future__ import annotations

import random
import statistics
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


# unitrace


def right(cells: list[object], widths: list[int]) -> str:
    """Return a row with each cell at the right end of its column."""
    return ", ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def times_table(first: str, rows: list[tuple[str, list[int]]]) -> list[str]:
    """Return a table of unitrace. rows: a name and the durations of its calls."""
    widths = [max(len(name) for name, _ in rows), 12, 20, 12, 20, 20, 20]
    heads = [first, "Calls", "Time (ns)", "Time (%)", "Average (ns)", "Min (ns)", "Max (ns)"]
    whole = sum(sum(each) for _, each in rows)
    lines = [right([*heads], widths)]
    for name, each in sorted(rows, key=lambda row: -sum(row[1])):
        share = f"{100 * sum(each) / whole:f}"
        lines.append(right([name, len(each), sum(each), share, sum(each) // len(each), min(each), max(each)], widths))
    return lines


def unitrace_rows(rng: random.Random) -> tuple[list[tuple[str, list[int]]], list[tuple[str, list[int]]]]:
    """Return the durations of functions and of commands."""

    def some(least: int, most: int) -> list[int]:
        return [rng.randrange(least, most) for _ in range(rng.randrange(1, 30))]

    calls = [(name, some(400, 90_000)) for name in ("zeCommandListAppendLaunchKernel", "zeEventHostSynchronize")]
    kernels = [
        ('"gemm_kernel[SIMD16 {20; 1; 1} {64; 8; 1}]"', some(9_000, 400_000)),
        ('"gemm_kernel[SIMD16 {40; 1; 1} {64; 8; 1}]"', some(9_000, 400_000)),
        ('"main::{lambda(auto:1)#4}::operator()(sycl::_V1::item<1, true>) const[SIMD32 {8; 2; 1} {256; 1; 1}]"',
         some(900, 4_000)),
        ('"zeCommandListAppendMemoryCopy(M2D)[1572864]"', some(90_000, 400_000)),
        ('"zeCommandListAppendMemoryFill(D)[4096]"', some(900, 4_000)),
        ('"zeCommandListAppendBarrier"', some(90, 400)),
    ]  # fmt: skip
    return calls, kernels


def unitrace(rng: random.Random) -> str:
    """Return what `unitrace -h -d -s PROGRAM` prints at its end."""
    calls, commands = unitrace_rows(rng)
    lines = ["result 3.5", "", "=== API Timing Summary ===", ""]
    lines += [f"{'Total Execution Time (ns): ':>40}{10**9:>20}", "", "== L0 Backend ==", ""]
    lines += [*times_table("Function", calls), "", "", "=== Device Timing Summary ===", ""]
    lines += [f"{'Total Execution Time (ns): ':>40}{10**9:>20}", "", "== L0 Backend ==", ""]
    lines += [*times_table("Kernel", commands), "", "", "=== Kernel Properties ===", ""]
    lines.append(
        "Kernel, Compiled, SIMD, Number of Arguments, SLM Per Work Group, Private Memory Per Thread, "
        "Spill Memory Per Thread, Register File Size Per Thread"
    )
    lines += [
        f"{name},     AOT,   16,   {at},   0,   0,   {64 * at}, unknown" for at, (name, _) in enumerate(commands[:3])
    ]
    return "\n".join([*lines, "", ""]) + "\n"


# VTune


def vtune_functions(rng: random.Random) -> list[tuple[str, str, int]]:
    """Return (function, whole name, microseconds of CPU) of some functions."""
    names = (
        ("multiply", "multiply(int, int, double*)"), ("std::vector<int, std::allocator<int>>::push_back",
         "std::vector<int, std::allocator<int>>::push_back(int const&)"), ("[Loop at line 40 in step]",
         "[Loop at line 40 in step]"), ("memcpy", "memcpy"),
        ("[Outside any known module]", "[Outside any known module]"),
    )  # fmt: skip
    return [(name, full, rng.randrange(0, 90_000_000)) for name, full in names]


def vtune_hotspots(rng: random.Random) -> str:
    """Return `vtune -report hotspots -format csv -csv-delimiter comma`."""
    columns = (
        "Function", "CPU Time", "CPU Time:Effective Time", "CPU Time:Spin Time", "Instructions Retired", "CPI Rate",
        "Module", "Function (Full)", "Source File", "Start Address",
    )  # fmt: skip
    lines = [",".join(columns)]
    for name, full, time in sorted(vtune_functions(rng), key=lambda row: -row[2]):
        spin = time // 10
        times = ",".join(f"{each / 1e6:f}" for each in (time, time - spin, spin))
        cells = f'{times},{time * 2200},{rng.uniform(0.2, 3):f},app,"{full}",app.cpp,{hex(rng.randrange(1 << 24))}'
        lines.append(f'"{name}",{cells}' if "," in name else f"{name},{cells}")
    return "\n".join(lines) + "\n"


def vtune_groupings(rng: random.Random) -> str:
    """Return two reports of one result in one file: by module, and by function."""
    by_function = vtune_hotspots(rng).splitlines()
    modules = [
        f"{name},{rng.randrange(1, 90_000_000) / 1e6:f},{rng.uniform(0.2, 3):f}" for name in ("app", "libc.so.6")
    ]
    return "\n".join(["Module,CPU Time,CPI Rate", *modules, "", *by_function]) + "\n"


def vtune_top_down(rng: random.Random) -> str:
    """Return `vtune -report top-down -format csv`: cells between tabs, depth as blanks, totals as shares."""
    lines = ["war:Column filter is ON.", "Function Stack\tCPU Time:Total\tCPU Time:Self\tModule"]
    for depth, (name, _, time) in enumerate(vtune_functions(rng)):
        lines.append(f"{' ' * depth}{name}\t{100 / (depth + 1):f}\t{time / 1e6:f}\tapp")
    return "\n".join(lines) + "\n"


def vtune_tasks(rng: random.Random) -> list[tuple[str, str, list[int]]]:
    """Return (task, global size, microseconds of each instance) of some work of a GPU."""
    names = (
        ("gemm_kernel", "128 x 8"), ("main::{lambda(auto:1)#4}::operator()(sycl::_V1::item<1, true>) const", "4096"),
        ("zeCommandListAppendMemoryCopy", ""), ("zeCommandListAppendMemoryFill", ""),
        ("zeCommandListAppendBarrier", ""),
    )  # fmt: skip
    return [(name, size, [rng.randrange(8, 4000) for _ in range(rng.randrange(1, 60))]) for name, size in names]


def vtune_gpu(rng: random.Random) -> str:
    """Return `vtune -report hotspots -group-by computing-task -format csv -csv-delimiter semicolon` of a GPU."""
    columns = (
        "Computing Task", "Work Size:Global", "Work Size:Local", "Computing Task:Total Time",
        "Computing Task:Average Time", "Computing Task:Instance Count", "Computing Task:SIMD Width",
        "Computing Task:SVM Usage Type", "Computing Task:Spill Memory Size", "Transfer Size", "XVE Array:Active(%)",
    )  # fmt: skip
    lines = [";".join(columns)]
    for name, size, times in vtune_tasks(rng):
        local = ("64 x 8" if " x " in size else "256") if size else ""
        mean = sum(times) / len(times)
        cells = (
            name, size, local, f"{sum(times) / 1e6:f}", f"{mean / 1e6:f}", len(times), 16 if size else "", "",
            64 if size else "", 0 if size else 4096 * len(times), f"{rng.uniform(0, 100):.1f}",
        )  # fmt: skip
        lines.append(";".join(map(str, cells)))
    lines.append("[Outside any task];;;;;;;;;;12.5")
    return "\n".join(lines) + "\n"


def vtune_summary() -> str:
    """Return `vtune -report summary -format csv -csv-delimiter comma`."""
    rows = (
        "0,Elapsed Time,149.771137", "1,CPU Time,580.125000", "2,Spin Time,3.500000", "1,CPI Rate,0.665470",
        "1,DRAM Bound,N/A with HT on", "1,Bandwidth Utilization,",
        "1,Bandwidth Domain,Platform Maximum,Observed Maximum,Average",
        '1,"DRAM, GB/sec",118.000000,47.900000,8.352945',
        "0,Effective CPU Utilization(%),71.5", "0,Collection and Platform Info,", "1,Application Command Line,./app 40",
        "1,Computer Name,node",
    )  # fmt: skip
    return "\n".join(["Hierarchy Level,Metric Name,Metric Value", *rows]) + "\n"


# nsys recipe


def recipe_rows(rng: random.Random, names: tuple[str, ...], ranks: int = 2) -> list[tuple[str, int, int, list[int]]]:
    """Return (name, rank, device, durations or sizes) of each name, rank and device."""
    return [
        (name, rank, device, [rng.randrange(900, 900_000) for _ in range(rng.randrange(2, 30))])
        for rank in range(ranks)
        for device in range(2)
        for name in names
    ]


def of_ranks(rows: list[tuple[str, int, int, list[int]]]) -> list[tuple[str, int, list[int]]]:
    """Return (name, rank, values) with the values of all devices."""
    sums: dict[tuple[int, str], list[int]] = {}
    for name, rank, _, values in rows:
        sums.setdefault((rank, name), []).extend(values)
    return [(name, rank, values) for (rank, name), values in sums.items()]


def quoted(name: str) -> str:
    """Return a cell as pandas writes it."""
    return f'"{name}"' if "," in name or "\n" in name else name


def described(values: list[int]) -> list[object]:
    """Return the statistics of a row of a newer recipe."""
    first, median, third = statistics.quantiles(values, n=4, method="inclusive")
    spread = statistics.stdev(values)
    return [sum(values), len(values), statistics.mean(values), spread, float(min(values)), first, median, third,
            float(max(values))]  # fmt: skip


RECIPE_COLUMNS = ("Sum", "Count", "Mean", "Std", "Min", "Q1", "Median", "Q3", "Max")


def recipe_table(rows: list[tuple[str, int, int, list[int]]], index: str, *, by_device: bool = False) -> str:
    """Return rank_stats.csv, or rank_stats_by_device.csv, of a newer recipe."""
    head = (index, "Device ID") if by_device else (index,)
    lines = [",".join((*head, *RECIPE_COLUMNS, "Rank"))]
    if by_device:
        lines += [
            ",".join(map(str, [quoted(name), device, *described(values), rank])) for name, rank, device, values in rows
        ]
    else:
        lines += [",".join(map(str, [quoted(name), *described(values), rank])) for name, rank, values in of_ranks(rows)]
    return "\n".join(lines) + "\n"


def recipe_of_all(rows: list[tuple[str, int, int, list[int]]], index: str) -> str:
    """Return all_stats.csv of a newer recipe: medians and quartiles are those of the ranks."""
    lines = [f"{index},Sum,Count,Mean,Std (approx),Min,Q1 (approx),Median (approx),Q3 (approx),Max"]
    for name in dict.fromkeys(name for name, _, _, _ in rows):
        parts = [described(values) for each, _, values in of_ranks(rows) if each == name]
        values = [value for each, _, _, values in rows if each == name for value in values]
        cells = [sum(values), len(values), statistics.mean(values), statistics.stdev(values), float(min(values))]
        middle = [min(each[5] for each in parts), statistics.median([each[6] for each in parts]),
                  max(each[7] for each in parts)]  # fmt: skip
        lines.append(",".join(map(str, [quoted(name), *cells, *middle, float(max(values))])))
    return "\n".join(lines) + "\n"


def older_recipe(rows: list[tuple[str, int, int, list[int]]]) -> str:
    """Return rank_stats.csv of cuda_api_sum of 2023."""
    lines = ["Name,Time,Total Time,Num Calls,Avg,Q1,Med,Q3,Min,Max,StdDev,Rank"]
    for name, rank, values in of_ranks(rows):
        whole = sum(sum(each) for _, other, each in of_ranks(rows) if other == rank)
        first, median, third = statistics.quantiles(values, n=4, method="inclusive")
        cells = (
            name, round(100 * sum(values) / whole, 1), sum(values), len(values), round(statistics.mean(values), 1),
            first, round(median, 1), third, min(values), max(values), round(statistics.stdev(values), 1), rank,
        )  # fmt: skip
        lines.append(",".join(map(str, cells)))
    return "\n".join(lines) + "\n"


RECIPE_KERNELS = ("ampere_sgemm_128x64_nn", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "void scale<float, 4>(float*)")
RECIPE_RANGES = ("forward", "loss, and backward", "a text\nof two lines")
RECIPE_CALLS = ("cudaLaunchKernel", "cuMemAlloc", "cudaMemcpyAsync")
RECIPE_COPIES = ("CUDA_MEMCPY_KIND_HTOD", "CUDA_MEMSET")


# rocprof-compute


def counted_launches(rng: random.Random) -> str:
    """Return pmc_perf.csv: the launches of two kernels, with the counters of many passes."""
    caches = [f"TCC_EA_{what}[{at}]" for what in ("RDREQ", "WRREQ") for at in range(28)]
    sums = ["TCC_EA_RDREQ_sum", "TCC_EA_RDREQ_32B_sum", "TCC_EA_WRREQ_sum", "TCC_EA_WRREQ_64B_sum"]
    counters = [*caches, *sums, "SQ_WAVES", "SQ_INSTS_VALU", "GRBM_COUNT", "SQ_INSTS_VALU_MFMA_MOPS_F64"]
    head = "Dispatch_ID,Kernel_Name,GPU_ID,Grid_Size,Workgroup_Size,Arch_VGPR,wave_size,obj,"
    lines = [f"{head}{','.join(counters)},wave_size_1,Start_Timestamp,End_Timestamp"]
    at = 1_411_551_767_635_712
    for number in range(5):
        name = f'"{("copy", "scale")[number % 2]}(double*, double*, int) [clone .kd]"'
        values = [rng.randrange(1, 90_000) for _ in counters]
        end = at + rng.randrange(12_000, 80_000)
        lines.append(f"{number},{name},2,1048576,256,8,64,0x7f00,{','.join(map(str, values))},64,{at},{end}")
        at = end + rng.randrange(40_000, 90_000)
    return "\n".join(lines) + "\n"


def roofs(rng: random.Random) -> str:
    """Return roofline.csv: for two GPUs the mean, low and high of each rate."""
    rates = ("HBMBw", "L2Bw", "L1Bw", "LDSBw", "FP32Flops", "FP64Flops", "MFMAF16Flops", "MFMAI8Ops")
    names = [f"{name}{end}" for name in rates for end in ("", "Low", "High")]
    lines = [",".join(["device", *names])]
    for device in range(2):
        values = []
        for _ in rates:
            mean = round(rng.uniform(900, 40_000), 2)
            values += [mean, round(mean - 3.25, 2), round(mean + 3.25, 2)]
        lines.append(",".join(map(str, [device, *values])))
    return "\n".join(lines) + "\n"


def write_all(root: Path) -> None:
    """Write all folders under root."""
    old = "\n".join(f"[2026-11-27 08:00:00] [INFO] {line}" for line in deepspeed(random.Random(5), ",", 1).split("\n"))
    files = {
        "inductor-bandwidth/log-of-two-ranks.log": inductor_log(random.Random(1)),
        "inductor-bandwidth/profile-output.txt": inductor_output(random.Random(2)),
        "inductor-bandwidth/benchmark.txt": inductor_benchmark(random.Random(3)),
        "deepspeed-flops/one-gpu.txt": deepspeed(random.Random(4), " =", 2),
        "deepspeed-flops/older-in-a-log.log": f"Epoch 1\n{old}\nstep 11 loss 0.5\n",
        "unitrace/summary.txt": unitrace(random.Random(8)),
        "nsys-recipe-csv/cuda_gpu_kern_sum.rank_stats.csv": recipe_table(
            recipe_rows(random.Random(12), RECIPE_KERNELS), "Name"
        ),
        "nsys-recipe-csv/nvtx_sum.all_stats.csv": recipe_of_all(recipe_rows(random.Random(13), RECIPE_RANGES), "Text"),
        "nsys-recipe-csv/cuda_api_sum.older.rank_stats.csv": older_recipe(recipe_rows(random.Random(14), RECIPE_CALLS)),
        "nsys-recipe-csv/cuda_gpu_mem_size_sum.rank_stats_by_device.csv": recipe_table(
            recipe_rows(random.Random(15), RECIPE_COPIES), "Name", by_device=True
        ),
        "vtune-csv/hotspots.csv": vtune_hotspots(random.Random(9)),
        "vtune-csv/two-groupings.csv": vtune_groupings(random.Random(13)),
        "vtune-csv/top-down.tsv": vtune_top_down(random.Random(10)),
        "vtune-csv/gpu-hotspots.csv": vtune_gpu(random.Random(11)),
        "vtune-csv/summary.csv": vtune_summary(),
        "rocprof-csv/pmc_perf.csv": counted_launches(random.Random(6)),
        "rocprof-csv/roofline-of-two.csv": roofs(random.Random(7)),
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())


if __name__ == "__main__":
    write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
