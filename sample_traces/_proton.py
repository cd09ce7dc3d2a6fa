"""Write trees and traces of Triton's Proton, as its TreeData.cpp, TraceWriter.cpp and ChromeTrace.cpp write them.

    python sample_traces/_proton.py [FOLDER]

Those of an H100 were recorded.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Node = dict[str, Any]
BASE_NS = 1_758_000_000_000_000_000


def node(name: str, metrics: Node | None = None, *children: Node) -> Node:
    """Return a node of a tree; members are in the order of their names, as nlohmann's JSON has them."""
    return {"children": list(children), "frame": {"name": name, "type": "function"}, "metrics": metrics or {}}


def kernel(device: str, kind: str, calls: int, ns: int, **more: float) -> Node:
    """Return the figures of a kernel."""
    found = {"count": calls, "device_id": device, "device_type": kind, "time (ns)": ns, **more}
    return {key: found[key] for key in sorted(found)}


def widths() -> list[Node]:
    """Return a tree of two devices: work of several widths, samples of the program counter, figures of the program."""
    gemm = kernel("0", "CUDA", 4, 98_948, bytes=100_663_296, flops16=68_719_476_736)
    plain = kernel("0", "CUDA", 4, 31_204, bytes=50_331_648.0)
    single = kernel("1", "CUDA", 2, 64_000, bytes=16_777_216, flops32=2_147_483_648)
    stalls = {"num_samples": 220, "num_stalled_samples": 180, "stalled_long_scoreboard": 131, "stalled_wait": 49}
    root = node(
        "ROOT",
        {"bytes": 0, "count": 0, "flops16": 0, "flops32": 0, "time (ns)": 0},
        node(
            "step",
            {"loss": 0.25, "tokens": 4096},
            node("__proton_launch_metadata", None, node("elementwise_kernel", kernel("0", "CUDA", 1, 1_664))),
            node("forward", None, node("matmul_kernel", gemm), node("_Z3addPfS_i", plain)),
            node("backward", None, node("matmul_kernel", {**gemm, "count": 2, "time (ns)": 50_100})),
        ),
        node("other device", {"cpu_time (ns)": 120_000}, node("matmul_kernel", single)),
        node("sampled", None, node("softmax.py:row@12", {**kernel("0", "CUDA", 1, 9_312), **stalls})),
        node("nothing ran here"),
    )
    devices = {
        str(number): {"arch": "90", "bus_width": 5120, "clock_rate": 1_980_000, "memory_clock_rate": 2_619_000,
                      "num_sms": 132}
        for number in range(2)
    }  # fmt: skip
    return [root, {"CUDA": devices}]


def hip() -> list[Node]:
    """Return a tree of a device of AMD, whose kernels have cycles of ranges within them."""
    cycles = {"cycles": 18_432, "device_id": "0", "device_type": "2", "normalized_cycles": 576.0}
    work = kernel("0", "HIP", 3, 30_720, bytes=62_914_560, flops8=1_610_612_736)
    root = node(
        "ROOT",
        {"count": 0, "cycles": 0, "normalized_cycles": 0, "time (ns)": 0},
        node("add_98432", None, node("add_kernel", work, node("load", cycles))),
    )
    device = {"arch": "gfx942", "bus_width": 8192, "clock_rate": 2_100_000, "memory_clock_rate": 1_300_000,
              "num_sms": 304}  # fmt: skip
    return [root, {"HIP": {"0": device}}]


def packed(value: Any) -> bytes:
    """Return a value in MessagePack, in the short forms that Proton's writer has."""
    match value:
        case str():
            text = value.encode()
            return (bytes([0xA0 | len(text)]) if len(text) < 32 else bytes([0xD9, len(text)])) + text
        case float():
            return b"\xcb" + struct.pack(">d", value)
        case int():
            return bytes([value]) if value < 128 else b"\xcf" + struct.pack(">Q", value)
        case list():
            return bytes([0x90 | len(value)]) + b"".join(map(packed, value))
        case dict():
            # The writer puts the frame first: a reader of a stream knows the name before the figures.
            keys = sorted(value, key=("frame", "metrics", "children").index) if "frame" in value else list(value)
            return bytes([0x80 | len(value)]) + b"".join(packed(key) + packed(value[key]) for key in keys)
    raise TypeError(type(value))


def event(**members: Any) -> Node:
    """Return an event with its members in the order of their names."""
    return {key: members[key] for key in sorted(members)}


def cycles() -> Node:
    """Return ranges within a kernel, in cycles that are written as if a cycle took 1 ns."""
    events = []
    for core in range(2):
        for warp in range(2):
            for place, name in enumerate(("load", "compute", "store")):
                args = {
                    "Finalization Time (ns)": 1_216, "Frequency (MHz)": 1000.0, "Init Time (ns)": BASE_NS + 64 * core,
                    "Post Final Time (ns)": BASE_NS + 9_000, "call_stack": ["ROOT", "add_kernel"],
                }  # fmt: skip
                events.append(
                    event(
                        name=name, cat="add_kernel", ph="X", cname="good", args=args, tid=f"warp {warp} (line 0)",
                        pid=f"add_kernel Core{core} CTA{core}", ts=(64 * core + 1_207 * place) / 1000,
                        dur=(1_091 - 8 * warp) / 1000,
                    )
                )  # fmt: skip
    return {"displayTimeUnit": "ns", "traceEvents": events}


def lanes() -> Node:
    """Return kernels of two streams, and the scopes of a thread that launched them, as of 2026."""
    names = {0: "CPU Thread 0", 1_000_007: "GPU Stream 7", 1_000_013: "GPU Stream 13"}
    events = [event(ph="M", pid=0, tid=0, name="process_name", args={"name": "Trace"})]
    events += [event(ph="M", pid=0, tid=tid, name="thread_name", args={"name": name}) for tid, name in names.items()]
    stack = ["ROOT", "step"]
    events.append(event(name="step", cat="scope", ph="X", pid=0, tid=0, ts=0.0, dur=310.5, args={"call_stack": stack}))
    for number in range(6):
        tid, start = (1_000_007, 1_000_013)[number % 2], 40 * number + 20.5
        launch = 40.0 * number + 2
        events.append(event(name="launch->kernel", cat="flow", ph="s", pid=0, tid=0, ts=launch, id=number + 3, bp="e"))
        events.append(event(name="launch->kernel", cat="flow", ph="f", pid=0, tid=tid, ts=start, id=number + 3, bp="e"))
        args = {"call_stack": [*stack, "_Z6matmulPf"], "metrics": {"flops16": 17_179_869_184}}
        events.append(
            event(name="_Z6matmulPf", cat="kernel", ph="X", pid=0, tid=tid, ts=start, dur=24.832 + number, args=args)
        )
    return {"baseTimeNanoseconds": BASE_NS, "displayTimeUnit": "us", "traceEvents": events}


def main(target: Path) -> None:
    """Write the files into the folders `proton` and `chrome-trace`."""
    trees, traces = target / "proton", target / "chrome-trace"
    trees.mkdir(parents=True, exist_ok=True)
    traces.mkdir(parents=True, exist_ok=True)
    for name, tree in (("two-devices", widths()), ("hip-cycles", hip())):
        # Proton begins the file with an empty line.
        (trees / f"{name}.hatchet").write_text("\n" + json.dumps(tree, indent=4) + "\n", "utf-8", newline="\n")
    (trees / "two-devices.hatchet_msgpack").write_bytes(packed(widths()))
    for name, trace in (("proton-cycles", cycles()), ("proton-lanes", lanes())):
        text = json.dumps(trace, separators=(",", ":")) + "\n"
        (traces / f"{name}.chrome_trace").write_text(text, "utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
