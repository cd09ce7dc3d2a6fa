"""Write the samples of XPlane profiles. Nothing in them was measured.

    python sample_traces/_xplane.py [FOLDER]

gpu.xplane.pb is two steps of TensorFlow on two GPUs; tpu.xplane.pb is a JAX program on a TPU, with times in ps.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _protobuf import message as encoded
from _protobuf import varint

HERE = Path(__file__).parent
BEGAN_NS = 1_780_000_000_000_000_000
US = 1_000_000


def message(*fields: tuple[int, Any]) -> bytes:
    """Return a message; zeros are left out, as proto3 does."""
    return encoded(*(field for field in fields if isinstance(field[1], float) or field[1] != 0))


class Plane:
    """A plane with its tables of names, which stand behind the lines."""

    def __init__(self, number: int, name: str) -> None:
        self.head = [(1, number), (2, name)]
        self.lines: list[bytes] = []
        self.events: dict[str, tuple[int, bytes]] = {}
        self.keys: dict[str, int] = {}
        self.stats: list[bytes] = []

    def key(self, name: str) -> int:
        return self.keys.setdefault(name, len(self.keys) + 1)

    def stat(self, name: str, value: Any) -> bytes:
        """Return a stat; a text that begins with & is a reference to the name of a stat."""
        if isinstance(value, float):
            return message((1, self.key(name)), (2, value))
        if isinstance(value, int):
            return message((1, self.key(name))) + varint(4 << 3) + varint(value)
        if isinstance(value, bytes):
            return message((1, self.key(name)), (6, value))
        return message((1, self.key(name)), (7, self.key(value[1:])) if value.startswith("&") else (5, value))

    def name(self, name: str, short: str = "", **stats: Any) -> int:
        if name not in self.events:
            number = len(self.events) + 1
            more = [(5, self.stat(key, value)) for key, value in stats.items()]
            self.events[name] = number, message((1, number), (2, name), *([(4, short)] if short else []), *more)
        return self.events[name][0]

    def event(self, name: str, start_ps: int, length_ps: int, **stats: Any) -> tuple[int, bytes]:
        own = [(4, self.stat(key, value)) for key, value in stats.items()]
        return 4, message((1, self.name(name)), (2, start_ps), (3, length_ps), *own)

    def line(self, number: int, name: str, start_ns: int, events: Sequence[tuple[int, bytes]]) -> None:
        self.lines.append(message((1, number), (2, name), (3, start_ns), *events))

    def data(self) -> tuple[int, bytes]:
        names = [(4, message((1, number), (2, data))) for number, data in self.events.values()]
        keys = [(5, message((1, number), (2, message((1, number), (2, key))))) for key, number in self.keys.items()]
        lines = [(3, line) for line in self.lines]
        return 1, message(*self.head, *lines, *names, *keys, *[(6, stat) for stat in self.stats])


def gpu() -> bytes:
    """Return two steps on two GPUs: launches, kernels, copies, and the lines that TensorFlow derives from them."""
    host = Plane(0, "/host:CPU")
    main, pool = [], []
    gpus = [Plane(number + 1, f"/device:GPU:{number}") for number in range(2)]
    work: list[dict[str, list[Any]]] = [{"copy": [], "compute": [], "ops": [], "scope": [], "steps": []} for _ in gpus]
    for step in range(2):
        begin = (100 + step * 1000) * US
        main.append(host.event("train", begin, 900 * US, step_num=step, _r=1, group_id=step))
        main.append(host.event("$train.py:40 step", begin + US, 890 * US))
        for number, (plane, lines) in enumerate(zip(gpus, work, strict=True)):
            at, correlation = begin + (10 + 100 * number) * US, step * 10 + number * 3 + 1
            pool.append(host.event("model/dense/MatMul:MatMul", at, 60 * US, is_eager=0))
            for each in range(3):
                call = "cuMemcpyHtoDAsync_v2" if not each else "cuLaunchKernel"
                pool.append(host.event(call, at + (1 + each * 15) * US, 5 * US, correlation_id=correlation + each))
            copied = {"memcpy_details": "kind_src:pinned kind_dst:device size:4096 dest:0 async:1"}
            copy = plane.event("MemcpyH2D", at + 20 * US, 3 * US + 264_000, correlation_id=correlation, **copied)
            lines["copy"].append(copy)
            shape = "&regs:38 static_shared:1024 dynamic_shared:0 grid:160,1,1 block:256,1,1 occ_pct:50"
            for each, kernel in enumerate(("void gemm<float, 128>(float const*, float*)", "Relu_GPU_kernel")):
                start, length = at + (30 + each * 45) * US, (40 - each * 25) * US
                own = {"correlation_id": correlation + 1 + each, "kernel_details": shape, "group_id": step}
                lines["compute"].append(plane.event(kernel, start, length, **own))
                plane.name("model/dense/MatMul:MatMul", "MatMul")
                lines["ops"].append(plane.event("model/dense/MatMul:MatMul", start, length, group_id=step))
            lines["scope"].append(plane.event("model", at + 30 * US, 60 * US, group_id=step))
            lines["steps"].append(plane.event(str(step), at + 20 * US, 70 * US, group_id=step, step_name=str(step)))
    host.line(4100, "python3", 237_916, main)
    host.line(4107, "tf_Compute/4107", 237_916, pool)
    for number, (plane, lines) in enumerate(zip(gpus, work, strict=True)):
        plane.line(14 + number, f"Stream #{14 + number}(MemcpyH2D)", 237_916, lines["copy"])
        plane.line(24 + number, f"Stream #{24 + number}(Compute)", 237_916, lines["compute"])
        for at, (name, key) in enumerate({"Steps": "steps", "Name Scope": "scope", "Ops": "ops"}.items()):
            title = name if name == "Steps" else f"TensorFlow {name}"
            plane.line(-559_038_737 + at, title, 237_916, lines[key])
        plane.stats = [plane.stat("core_count", 80), plane.stat("memory_bandwidth", 898_048_000_000)]
    return message(*(plane.data() for plane in (host, *gpus)), (4, "gpubox"))


def tpu() -> bytes:
    """Return a program of JAX on a TPU: ops in ps, a loop around others, an empty op, a copy that overlaps."""
    device = Plane(2, "/device:TPU:0")
    module = [device.event("jit_train(2433868464432466958)", 5_353_251_593_250, 9_000_961_328, run_id=1)]
    device.name("%fusion.1 = f32[8,128]{1,0} fusion(f32[8,128] %p)", "fusion.1", hlo_category="fusion", flops=4096)
    device.name("%while.2 = (s32[]) while((s32[]) %t)", "while.2", hlo_category="while")
    ops, at = [], 5_353_251_600_078
    loop = device.event("%while.2 = (s32[]) while((s32[]) %t)", at, 4_000_000_511)
    for each in range(4):
        fusion, length = "%fusion.1 = f32[8,128]{1,0} fusion(f32[8,128] %p)", 900_000_125 + each
        ops.append(device.event(fusion, at + 78 + each * 1_000_000_000, length, device_duration_ps=length - 78))
    ops = [loop, *ops, device.event("%tuple.3 = () tuple()", at + 4_100_000_000, 0)]
    copy = [device.event("%copy-start = f32[8,128] copy-start(f32[8,128] %p)", at + 50, 3_000_000_777, flow=616)]
    device.line(2, "XLA Modules", 0, module)
    device.line(3, "XLA Ops", 0, ops)
    device.line(4, "Async XLA Ops", 0, copy)
    device.line(7, "Overlay", 0, [])
    device.stats = [device.stat("device_type_string", "TPU v5 lite"), device.stat("peak_teraflops_per_second", 197.5)]
    host = Plane(0, "/host:CPU")
    calls = [host.event("PjitFunction(train)", 5_353_000_000_000, 200_000_000, label="&train", size=0.5)]
    calls.append((4, message((1, host.name("MapDmaBuffer")), (3, 7_000_500), (5, 12))))
    host.line(9001, "main/9001", 212_990, calls)
    counters = Plane(7, "#Chip0 counters")
    counters.line(9001, "power", 0, [counters.event("watts", 5_353_100_000_000, 1000, raw=b"\x01\xff")])
    task = Plane(0, "Task Environment")
    task.stats = [task.stat("profile_start_time", BEGAN_NS), task.stat("profile_stop_time", BEGAN_NS + 10**10)]
    return message(*(plane.data() for plane in (device, host, counters, task)), (3, "2 events were lost"))


def main(target: Path) -> None:
    """Write the files."""
    folder = target / "xplane"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpu.xplane.pb").write_bytes(gpu())
    (folder / "tpu.xplane.pb").write_bytes(tpu())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
