"""Kineto traces with shapes, built by hand: operators, and the kernels that they launch."""

from __future__ import annotations

import json
from pathlib import Path

import tracekit
from tracekit.index.trace_index import TraceIndex
from tracekit.index.work_units import WorkUnits, work_units

BF, F32 = "c10::BFloat16", "float"
H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85018279936, "computeMajor": 9, "computeMinor": 0,
        "numSms": 132}  # fmt: skip


class ShapedTrace:
    """A Kineto trace of one thread: operators with shapes, and the kernels that they launch."""

    def __init__(self, device: dict[str, object] | None = None, *, back_to_back: bool = False) -> None:
        """back_to_back: kernels follow each other on their stream, else they are far apart."""
        self.events: list[dict[str, object]] = []
        self._free = 2000.0 if back_to_back else None
        self.now, self.number, self.device = 1000.0, 0, device or H100
        self._open: list[dict[str, object]] = []

    def begin(self, name: str, *arguments: tuple[list[int], str] | str, cat: str = "cpu_op") -> None:
        self.number += 1
        self.now += 1
        args: dict[str, object] = {"External id": self.number, "Record function id": 0, "Ev Idx": self.number}
        if arguments:
            args["Concrete Inputs"] = ["" if isinstance(a, tuple) else a for a in arguments]
            args["Input type"] = [
                a[1] if isinstance(a, tuple) else ("ScalarList" if a.startswith("[") else "Scalar") for a in arguments
            ]
            args["Input Dims"] = [a[0] if isinstance(a, tuple) else [] for a in arguments]
        event: dict[str, object] = {
            "ph": "X",
            "cat": cat,
            "name": name,
            "pid": 7,
            "tid": 7,
            "ts": self.now,
            "args": args,
        }
        self._open.append(event)
        self.events.append(event)

    def end(self) -> None:
        self.now += 1
        event = self._open.pop()
        event["dur"] = self.now - float(str(event["ts"]))

    def kernel(
        self, us: float, name: str = "kernel", *, cat: str = "kernel", launched: bool = True, number: int = 0
    ) -> None:
        self.number += 1
        self.now += 1
        us = round(us, 3)  # whole ns, so that one kernel ends where the next begins
        call = {"External id": self.number, "correlation": self.number, "cbid": 211}
        if launched:
            self.events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7,
                                "ts": self.now, "dur": 0.5, "args": call})  # fmt: skip
        work = {
            "correlation": self.number,
            "device": number,
            "stream": 7,
            "context": 1,
            "grid": [132, 1, 1],
            "block": [128, 1, 1],
        }
        start = self.now + 5000 * self.number
        if self._free is not None:
            start = max(self._free, self.now + 5)
            self._free = start + us
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": number, "tid": 7, "ts": start, "dur": us, "args": work}
        )
        self.now += 1

    def op(self, name: str, *arguments: tuple[list[int], str] | str, us: float, kernel: str = "kernel") -> None:
        self.begin(name, *arguments)
        self.kernel(us, kernel)
        self.end()

    def write(self, folder: Path) -> Path:
        path = folder / "shapes.pt.trace.json"
        devices = [self.device]
        path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": devices, "traceEvents": self.events}))
        return path

    def units(self, folder: Path) -> WorkUnits:
        found = units_of(self.write(folder))
        assert found is not None
        return found


def units_of(path: Path) -> WorkUnits | None:
    trace = tracekit.read(path)
    return work_units(TraceIndex(trace))
