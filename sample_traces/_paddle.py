"""Paddle's two protobuf files of the training run on a GPU, encoded here by hand, and the tables printed of it.

    python sample_traces/_paddle.py [FOLDER]        (default: the folder this file is in)

Times of the run are moved to a Unix time, so that both files have the clock of a real one. The tables are laid out as
paddle.profiler and fluid.profiler print them; what they sum is summed here from the run's events.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from _model import API, DEVICE, KERNEL, MEMCPY, MEMSET, PID, Event, training_run

EPOCH_NS = 1_767_225_600_000_000_000
TID = 21604
Value = int | float | str | bytes


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def message(*fields: tuple[int, Value | None]) -> bytes:
    """Encode fields by number: int as varint, float as 32 bits, text and messages with their length."""
    out = b""
    for number, value in fields:
        if value is None:
            continue
        if isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        elif isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def _copy(event: Event) -> str:
    return "MEMCPY_" + event.name.removeprefix("[CUDA memcpy ").removesuffix("]")


def _device_node(event: Event) -> bytes:
    kernel, copy, fill = None, None, None
    name = event.name
    if event.kind == KERNEL and event.kernel is not None and event.grid is not None:
        block = event.kernel.block
        kernel = message(
            *enumerate((*block, *event.grid), 1), (7, event.kernel.dynamic_smem), (8, event.kernel.static_smem),
            (9, event.kernel.registers), (10, 0), (11, 8192), (12, 0), (13, 0), (14, 0), (15, 3.5), (16, 28.0),
            (17, event.kernel.occupancy),
        )  # fmt: skip
    elif event.kind == MEMCPY:
        name = _copy(event)
        copy = message((1, event.bytes), (2, name), (3, event.source_memory), (4, event.target_memory))
    else:
        name = "MEMSET"
        fill = message((1, event.bytes), (2, "Device"), (3, 0))
    kind = {KERNEL: 4, MEMCPY: 5, MEMSET: 6}[event.kind]
    start = EPOCH_NS + event.start
    return message((1, message(
        (1, name), (2, kind), (3, start), (4, start + (event.dur or 0)), (5, event.device or 0),
        (6, event.context or 0), (7, event.stream or 0), (8, event.correlation or 0), (9, kernel), (10, copy),
        (11, fill),
    )))  # fmt: skip


def _call_node(call: Event, work: list[Event]) -> bytes:
    start = EPOCH_NS + call.start
    event = message(
        (1, call.name),
        (2, start),
        (3, start + (call.dur or 0)),
        (4, PID),
        (5, TID),
        (6, call.correlation or 0),
        (7, 211),
    )
    return message((1, event), *((2, _device_node(each)) for each in work))


def _host_node(
    number: int, parent: int, name: str, kind: int, start: int, end: int, *inner: tuple[int, bytes]
) -> bytes:
    pid = 0 if number == 0 else PID
    event = message((1, name), (2, kind), (3, start), (4, end), (5, pid), (6, pid))
    return message((1, number), (2, parent), (3, event), *inner)


def _allocation(at: int, kind: int, address: int, size: int, allocated: int) -> bytes:
    return message((1, message(
        (1, at), (2, kind), (3, address), (4, PID), (5, TID), (6, size), (7, "Place(gpu:0)"), (8, allocated),
        (9, 1 << 20), (10, 1 << 19), (11, 1 << 20),
    )))  # fmt: skip


def _supplement(at: int) -> bytes:
    shapes = message((1, "X"), (2, message((1, message((1, 4), (1, 3), (1, -1))))))
    types = message((1, "X"), (2, message((1, "float32"))))
    return message(
        (1, message((1, at), (2, "conv2d"), (3, PID), (4, TID), (5, shapes), (6, types), (7, "train.py:12"), (8, 7)))
    )


def tree_file() -> bytes:
    """One step around the run, an operator in it; calls in the innermost range that holds them; one outside all."""
    run = training_run()
    calls = [event for event in run if event.kind == API]
    work: dict[int, list[Event]] = {}
    for event in run:
        if event.kind in (KERNEL, MEMCPY, MEMSET) and event.correlation is not None:
            work.setdefault(event.correlation, []).append(event)
    middle = len(calls) // 2
    first, last = EPOCH_NS + calls[0].start, EPOCH_NS + calls[-2].end
    op_start, op_end = EPOCH_NS + calls[10].start, EPOCH_NS + calls[middle].end
    nodes = [(4, _call_node(call, work.get(call.correlation or -1, []))) for call in calls]
    in_op = [node for call, node in zip(calls, nodes, strict=True)
             if op_start <= EPOCH_NS + call.start and EPOCH_NS + call.end <= op_end]  # fmt: skip
    in_step = [node for node in nodes[:-1] if node not in in_op]
    tree = message(
        (1, TID),
        (2, _host_node(0, -1, "root node", 7, 0, (1 << 64) - 1, nodes[-1])),
        (2, _host_node(1, 0, "ProfileStep#3", 2, first, last, *in_step)),
        (2, _host_node(2, 1, "conv2d", 0, op_start, op_end, *in_op,
                       (5, _allocation(op_start + 5, 0, 1 << 47, 4096, 4096)),
                       (5, _allocation(op_end - 5, 1, 1 << 47, -4096, 0)), (6, _supplement(op_start)))),
    )  # fmt: skip
    device = message(
        (1, 0), (2, DEVICE), (3, 17_071_734_784), (4, 6), (5, 0), (6, 1024), (7, 2048), (8, 65536), (9, 65536),
        (10, 32), (11, 49152), (12, 65536), (13, 56), (14, 0),
    )  # fmt: skip
    pairs = {str(TID): "MainThread", "Process Cpu Utilization": "1.062500", "System Cpu Utilization": "0.250000"}
    info = [(4, message((1, key), (2, value))) for key, value in pairs.items()]
    return message((1, "1.0.2"), (2, 0), (3, tree), *info, (5, device))


def profile_file() -> bytes:
    """The same run as the older profiler tells it: API calls on device -1, operators, kernels, an allocation."""
    events = []
    run = training_run()
    for event in run:
        start = EPOCH_NS + event.start
        times = ((2, start), (3, start + (event.dur or 0)))
        if event.kind == API:
            events.append(message((1, event.name), *times, (5, -1), (6, 3), (8, 0)))
        else:
            name = {MEMCPY: _copy(event), MEMSET: "MEMSET"}.get(event.kind, event.name)
            size = None if event.kind == KERNEL else message((1, event.bytes))
            # Paddle gives a kernel the name of the operator that launched it, where it knows that; its own is a detail.
            name, detail = ("conv2d", name) if event.kind == KERNEL else (name, None)
            events.append(message(
                (1, name), *times, (5, event.device or 0), (6, event.stream or 0), (7, size), (8, 1), (9, detail),
            ))  # fmt: skip
    first, last = EPOCH_NS + run[0].start, EPOCH_NS + max(event.end for event in run)
    for number, (name, block) in enumerate(
        (("conv2d", 0), ("conv2d/compute", 0), ("block_0", 1), ("\u00e9 pooling", 2))
    ):
        events.append(message((1, name), (2, first + number), (3, last - number), (5, block), (6, 3), (8, 0)))
    memory = message((1, first), (2, last), (3, 4096), (4, 0), (5, 3), (6, 0), (7, "conv2d"), (8, "fetch"))
    return message(*((1, event) for event in events), (2, first), (3, last), (4, memory))


def _compound(durs: list[int], whole: int, unit: int = 10**6) -> str:
    if not durs:
        return "0.00 / 0.00 / 0.00 / 0.00 / 0.00"
    values = (sum(durs), sum(durs) / len(durs), max(durs), min(durs))
    return " / ".join([*(f"{value / unit:.2f}" for value in values), f"{100 * sum(durs) / whole:.2f}"])


def _table(title: str, heads: list[str], widths: list[int], rows: list[list[str] | str]) -> list[str]:
    """One table of summary(): a row that is a text is in a line of dashes of its own, as threads do."""

    def line(cells: list[str]) -> str:
        return "".join(cell.ljust(width) + "  " for cell, width in zip(cells, widths, strict=True))

    length = sum(widths) + 2 * len(widths)
    rule = line(["-" * width for width in widths])
    out = [title.center(length, "-"), *([] if heads[0] == "Device" else ["Time unit: ms"]), rule, line(heads), rule]
    for row in rows:
        out.append(row.center(length, "-") if isinstance(row, str) else line(row))
    return [*out, rule, "", ""]


def summary_file() -> str:
    """Tables that only a run on a GPU has, with the same run twice: in ms, and benchmark lines of a later one."""
    run = training_run()
    calls = [event for event in run if event.kind == API]
    gpu = {kind: [e for e in run if e.kind == kind] for kind in (KERNEL, MEMCPY, MEMSET)}
    step = calls[-2].end - calls[0].start
    both = "CPU Total / Avg / Max / Min / Ratio(%)", "GPU Total / Avg / Max / Min / Ratio(%)"
    kernels: dict[str, list[int]] = {}
    for event in gpu[KERNEL]:
        kernels.setdefault(event.name, []).append(event.dur or 0)
    busy = sum(e.dur or 0 for e in gpu[KERNEL])
    order = sorted(kernels.items(), key=lambda item: -sum(item[1]))
    lines = [
        *_table("Device Summary", ["Device", "Utilization (%)"], [30, 20],
                [["CPU(Process)", "106.25"], ["CPU(System)", "25.00"], ["GPU0", f"{100 * busy / step:.2f}"]]),
        *_table("Overview Summary", ["Event Type", "Calls", "CPU Time", "Ratio (%)"], [25] * 4, [
            ["ProfileStep", "1", f"{step / 1e6:.2f}", "100.00"],
            ["  CudaRuntime", str(len(calls)), f"{sum(c.dur or 0 for c in calls) / 1e6:.2f}", "99.00"],
        ])[:-2],
        *_table("", ["", "Calls", "GPU Time", "Ratio (%)"], [25] * 4, [
            [f"  {kind}", str(len(events)), f"{sum(e.dur or 0 for e in events) / 1e6:.2f}", "0.50"]
            for kind, events in (("Kernel", gpu[KERNEL]), ("Memcpy", gpu[MEMCPY]), ("Memset", gpu[MEMSET]))
        ])[3:],
        *_table("Distribution Summary", ["Name", "Total Time", "Ratio (%)"], [25] * 3, [
            ["ProfileStep", f"{step / 1e6:.2f}", "100.00"], ["  Communication", "0.00", "0.00"],
            ["  Computation", f"{busy / 1e6:.2f}", "0.77"], ["  Overlap", "0.00", "0.00"],
        ]),
        *_table("Operator Summary", ["Name", "Calls", *both, "FLOPs"], [52, 6, 40, 40, 10], [
            "Thread: All threads merged",
            ["conv2d dygraph", "3", _compound([900_000, 800_000, 700_000], 2_400_000),
             _compound([e.dur or 0 for e in gpu[KERNEL]], busy), "118013952"],
            ["  conv2d compute", "3", _compound([500_000, 400_000, 300_000], 2_400_000),
             _compound([e.dur or 0 for e in gpu[KERNEL]], busy), "-"],
            *([f"    {name[:45] + '...' if len(name) > 48 else name}", str(len(durs)), "- / - / - / - / -",
               _compound(durs, busy), "-"] for name, durs in order),
        ]),
        *_table("Kernel Summary", ["Name", "Calls", both[1]], [90, 6, 40], [
            [name[:87] + "..." if len(name) > 90 else name, str(len(durs)), _compound(durs, busy)]
            for name, durs in order
        ]),
        *_table("Memory Manipulation Summary", ["Name", "Calls", *both], [33, 6, 40, 40], [
            ["GpuMemcpyAsync:CPU->GPU", "4", _compound([9000, 8000], step),
             _compound([e.dur or 0 for e in gpu[MEMCPY]], busy)],
            ["BufferedReader:MemoryCopy", "4", _compound([5000, 6000], step), _compound([], step)],
        ]),
    ]  # fmt: skip
    lines += [
        " reader_cost: 0.00010 s batch_cost: 0.00986 s ips: 101.415 steps/s",
        "Perf Summary".center(100, "="), "Reader Ratio: 0.989%", "Time Unit: s, IPS Unit: steps/s",
        "|                 |       avg       |       max       |       min       |",
        "|   reader_cost   |     0.00010     |     0.00011     |       inf       |",
        "|    batch_cost   |     0.00986     |     0.00798     |     0.00786     |",
        "|       ips       |    101.41524    |    127.25977    |    125.29320    |",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def report_file() -> str:
    """A report of state All: one of all threads, one of each, and the memory report."""
    run = training_run()
    gpu_ns = sum(event.dur or 0 for event in run if event.kind == KERNEL)
    heads = ["Event", "Calls", "Total", "CPU Time (Ratio)", "GPU Time (Ratio)", "Min.", "Max.", "Ave.", "Ratio."]
    widths = [36, 12, 12, 24, 24, 12, 12, 12, 12]

    def row(name: str, calls: int, cpu: float, gpu: float, ratio: float) -> str:
        whole = cpu + gpu
        cells = [
            name, str(calls), f"{whole:.6g}", f"{cpu:.6f} ({cpu / whole:.6f})", f"{gpu:.6f} ({gpu / whole:.6f})",
            f"{whole / calls / 2:.6g}", f"{whole / calls * 2:.6g}", f"{whole / calls:.6g}", f"{ratio:.6g}",
        ]  # fmt: skip
        return "".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))

    def part(title: str) -> str:
        return "-" * 25 + title.center(27) + "-" * 25

    out: list[str] = []
    for merged, prefix in ((True, ""), (False, "thread0::")):
        out += ["", "-" * 25 + ">     Profiling Report     <" + "-" * 25, ""]
        out += ["Note! This Report merge all thread info into one."] if merged else []
        out += ["Place: All", "Time unit: ms", "Sorted by total time in descending order in the same thread", ""]
        if merged:
            out += [
                part("Overhead Summary"), "", "Total time: 5.61451",
                "  Computation time       Total: 4.2         Ratio: 74.8062%",
                "  Framework overhead     Total: 1.41451     Ratio: 25.1938%", "", part("GpuMemCpy Summary"), "",
                "GpuMemcpy                Calls: 10          Total: 0.618944    Ratio: 11.024%",
                "  GpuMemcpyAsync         Calls: 9           Total: 0.6         Ratio: 10.6866%",
                "  GpuMemcpySync          Calls: 1           Total: 0.018944    Ratio: 0.337412%", "",
            ]  # fmt: skip
        out += [part("Event Summary"), "", "".join(h.ljust(w) for h, w in zip(heads, widths, strict=True))]
        out += [
            row(f"{prefix}conv2d", 6, 1.25, gpu_ns / 1e6, 0.9),
            row(f"  {prefix}conv2d/compute", 6, 0.75, gpu_ns / 1e6, 0.8),
            row(f"{prefix}fetch", 3, 0.001234, 0.0, 0.1),
        ]  # fmt: skip
    out += ["", "-" * 25 + ">    Memory Profiling Report     <" + "-" * 25, ""]
    for cells in (
        ["Event", "Alloc Calls", "Size(MB)", "Free Calls", "Size(MB)"],
        ["Place(gpu:0):conv2d", "6", "12.5", "4", "8.25"],
        ["Place(cpu):Unknown", "1", "0.015625", "0", "0"],
    ):
        out.append("".join(cell.ljust(width) for cell, width in zip(cells, [55, 18, 18, 18, 18], strict=True)))
    return "\n".join([*out, "", ""])


def write_all(root: Path) -> None:
    for name, data in (
        ("paddle-pb/gpu.paddle_trace.pb", tree_file()),
        ("fluid-pb/gpu.prof", profile_file()),
        ("paddle-summary/gpu.txt", summary_file().encode()),
        ("fluid-report/all.txt", report_file().encode()),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


if __name__ == "__main__":
    write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
