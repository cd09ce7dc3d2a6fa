"""Write outputs of TensorRT's trtexec, as sampleReporting.cpp and IEngineInspector write them.

    python sample_traces/_tensorrt.py [FOLDER]

One engine with a few layers: its profile, its layers, the times of its queries, and the log of the run that made them.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
QUERIES = 240
PROFILED = 180
NAMES = (
    "Reformatting CopyNode for Input Tensor 0 to conv1 + relu1",
    "conv1 + relu1",
    "layer1.0.conv1 + (Unnamed Layer* 4) [Shuffle] + relu",
    "layer1.0.conv2 + add",
    "{ForeignNode[attn.qkv.weight...attn.proj]}",
    "fc",
    "shape_call",
)
TYPES = ("Reformat", "CaskConvolution", "CaskConvolution", "CaskConvolution", "Myelin", "CaskGemmConvolution", "NoOp")
US = (4.7, 61.2, 38.4, 44.9, 182.5, 9.3, 0.0)
FORMATS = (
    "Row major linear FP32",
    "Thirty-two wide channel vectorized row major Int8 format",
    "Row major linear FP16 format",
)


def cout(value: float) -> str:
    """Return a float as a C++ stream prints it: six digits."""
    return f"{value:.6g}"


def layer_times() -> list[list[float]]:
    """Return the ms of each query in each layer."""
    rng = random.Random(3601)
    return [[round(us * rng.uniform(0.97, 1.06)) / 1000 if us else 0.0 for _ in range(PROFILED)] for us in US]


def profile(times: list[list[float]]) -> str:
    """Return the file of --exportProfile."""
    whole = sum(map(sum, times))
    lines = ["[", f'  {{ "count" : {PROFILED} }}']
    for name, each in zip(NAMES, times, strict=True):
        total = sum(each)
        lines.append(
            f', {{ "name" : "{name}", "timeMs" : {cout(total)}, "averageMs" : {cout(total / PROFILED)}'
            f', "medianMs" : {cout(statistics.median(each))}, "percentage" : {cout(total / whole * 100)} }}'
        )
    return "\n".join([*lines, "]", ""])


def layers() -> str:
    """Return the file of --exportLayerInfo for an engine with detailed verbosity."""
    found = []
    for place, (name, kind) in enumerate(zip(NAMES, TYPES, strict=True)):
        side = 224 >> min(place, 3)
        layer: dict[str, Any] = {
            "Name": name,
            "LayerType": kind,
            "Inputs": [{"Name": f"t{place}", "Location": "Device", "Dimensions": [8, 64, side, side],
                        "Format/Datatype": FORMATS[place % 3]}],
            "Outputs": [{"Name": f"t{place + 1}", "Location": "Device", "Dimensions": [8, 64, side, side],
                         "Format/Datatype": FORMATS[(place + 1) % 3]}],
            "ParameterType": "Convolution" if "Convolution" in kind else kind,
            "TacticName": f"sm80_xmma_fprop_implicit_gemm_{place}" if kind.startswith("Cask") else "",
            "TacticValue": f"0x{place * 0x1F3A5B:016x}",
            "Metadata": f"[ONNX Layer: {name}]",
        }  # fmt: skip
        found.append("{\n" + json.dumps(layer, indent=2)[2:-2] + "\n}")
    return '{"Layers": [' + ",".join(found) + '],\n"Bindings": ["input"\n,"output"\n]}\n'


def names_alone() -> str:
    """Return the file of --exportLayerInfo for an engine without verbosity."""
    return (
        '{"Layers": [' + "\n,".join(json.dumps(name) for name in NAMES) + '\n],\n"Bindings": ["input"\n,"output"\n]}\n'
    )


def queries() -> list[dict[str, float]]:
    """Return the times of each query in ms: copies in, compute, copies out, and the host that runs ahead."""
    rng = random.Random(3602)
    found, host, device = [], 204.11, 204.2
    for number in range(QUERIES):
        begin, end = host, host + rng.uniform(0.004, 0.02)
        h2d, compute, d2h = (round(rng.uniform(*each), 6) for each in ((0.05, 0.06), (0.33, 0.37), (0.004, 0.006)))
        start = max(device, begin)
        found.append({
            "startEnqMs": begin, "endEnqMs": end, "startH2dMs": start, "endH2dMs": start + h2d,
            "startComputeMs": start + h2d, "endComputeMs": start + h2d + compute, "startD2hMs": start + h2d + compute,
            "endD2hMs": start + h2d + compute + d2h, "h2dMs": h2d, "computeMs": compute, "d2hMs": d2h,
            "latencyMs": h2d + compute + d2h,
        })  # fmt: skip
        device = start + h2d + compute + d2h + 0.001
        # A pause beyond the first second: the digits of the later starts are fewer.
        host = device - 0.3 + (900.0 if number == QUERIES // 2 else 0.0)
    return found


def times(found: list[dict[str, float]]) -> str:
    """Return the file of --exportTimes."""
    lines = ["["]
    for place, each in enumerate(found):
        members = ", ".join(f'"{key}" : {cout(value)}' for key, value in each.items())
        lines.append(f"{', ' if place else '  '}{{ {members} }}")
    return "\n".join([*lines, "]", ""])


def log(found: list[dict[str, float]], layer_ms: list[list[float]], *, names_first: bool) -> str:
    """Return what trtexec prints. names_first: as up to 8.5."""
    stamp = "[03/14/2025-09:26:53] [I] "
    wall = found[-1]["endD2hMs"] - found[0]["startH2dMs"]

    def part(title: str, values: list[float]) -> str:
        values = sorted(values)
        shares = [f"percentile({each}%) = {cout(values[len(values) * each // 100 - 1])} ms" for each in (90, 95, 99)]
        mean = sum(values) / len(values)
        parts = (("min", values[0]), ("max", values[-1]), ("mean", mean), ("median", statistics.median(values)))
        return f"{title}: " + ", ".join([*(f"{word} = {cout(value)} ms" for word, value in parts), *shares])

    lines = [
        "=== Device Information ===", "Selected Device: NVIDIA A100-SXM4-40GB", "Compute Capability: 8.0", "SMs: 108",
        "Memory Bus Width: 5120 bits (ECC enabled)", "", "TensorRT version: 10.3.0", "Loading standard plugins",
        "Starting inference", "Warmup completed 41 queries over 200 ms",
        f"Timing trace has {QUERIES} queries over {cout(wall / 1000)} s", "", "=== Trace details ===",
        "Trace averages of 10 runs:",
        "Average on 10 runs - GPU latency: 0.349612 ms - Host latency: 0.40981 ms (enqueue 0.0121 ms)", "",
        "=== Performance summary ===", f"Throughput: {cout(QUERIES / wall * 1000)} qps",
        part("Latency", [each["latencyMs"] for each in found]),
        part("Enqueue Time", [each["endEnqMs"] - each["startEnqMs"] for each in found]),
        part("H2D Latency", [each["h2dMs"] for each in found]),
        part("GPU Compute Time", [each["computeMs"] for each in found]),
        part("D2H Latency", [each["d2hMs"] for each in found]),
        f"Total Host Walltime: {cout(wall / 1000)} s",
        f"Total GPU Compute Time: {cout(sum(each['computeMs'] for each in found) / 1000)} s",
        "Explanations of the performance metrics are printed in the verbose logs.", "",
        f"=== Profile ({PROFILED} iterations ) ===",
    ]  # fmt: skip
    rows = [(name, each) for name, each in zip(NAMES, layer_ms, strict=True) if sum(each)]
    whole = sum(map(sum, layer_ms))
    by_query = [sum(query) for query in zip(*layer_ms, strict=True)]
    table = [
        (name, f"{sum(each):.2f}", f"{sum(each) / PROFILED:.4f}", f"{statistics.median(each):.4f}",
         f"{sum(each) / whole * 100:.1f}")
        for name, each in [*rows, ("Total", by_query)]
    ]  # fmt: skip
    width = max(len(name) for name, *_ in table)
    if names_first:
        lines.append(f"{'Layer':>{width + 1}}   Time (ms)   Avg. Time (ms)   Median Time (ms)   Time %")
        lines += [f"{n:>{width + 1}}{a:>12}{b:>17}{c:>19}{d:>9}" for n, a, b, c, d in table]
    else:
        lines.append("   Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer")
        lines += [f"{a:>11}{b:>13}{c:>13}{d:>10}   {n}" for n, a, b, c, d in table]
    command = "TensorRT.trtexec [TensorRT v100300] # trtexec --loadEngine=net.plan --dumpProfile"
    return "\n".join(
        [f"&&&& RUNNING {command}", *(stamp + line for line in [*lines, ""]), f"&&&& PASSED {command}", ""]
    )


def main(target: Path) -> None:
    """Write the files."""
    ms, found = layer_times(), queries()
    for folder, name, text in (
        ("tensorrt-profile", "net.profile.json", profile(ms)),
        ("tensorrt-layers", "net.layers.json", layers()),
        ("tensorrt-layers", "names-alone.json", names_alone()),
        ("tensorrt-times", "net.times.json", times(found)),
        ("tensorrt-log", "net.log", log(found, ms, names_first=False)),
        ("tensorrt-log", "names-first.log", log(found, ms, names_first=True)),
    ):
        (target / folder).mkdir(parents=True, exist_ok=True)
        (target / folder / name).write_text(text, "utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
