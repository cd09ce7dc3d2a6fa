"""Runs made by hand for the change by tree: steps of operators with shapes, each in a module, as Kineto files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_017_493_504, "numSms": 132,
        "computeMajor": 9, "computeMinor": 0}  # fmt: skip
MM = ("aten::mm", [[4096, 4096], [4096, 4096]])
SMALL = ("aten::mm", [[2048, 2048], [2048, 2048]])
OTHER = ("my::op", [[7]])
Call = tuple[tuple[str, list[list[int]]], str, int, str]
# (operator and dims, kernel, ns, module)


def write(
    path: Path, calls: list[Call], steps: int = 6, device: dict[str, Any] | None = None, wrapper: str = ""
) -> str:
    """Write a trace of equal steps, each with these calls, one kernel a call. wrapper: a module around each step."""
    events: list[dict[str, Any]] = []
    clock, number = 1000, 0
    for step in range(steps):
        begin = clock
        for (name, dims), kernel, ns, module in calls:
            number += 1
            host = {"ph": "X", "pid": 1, "tid": 7}
            if module:
                told = {"Python id": number, "Python parent id": 1_000_000 + step if wrapper else None}
                events.append(
                    {
                        **host,
                        "cat": "python_function",
                        "name": f"nn.Module: {module}",
                        "ts": clock,
                        "dur": 9,
                        "args": told,
                    }
                )
            shapes = {"Input Dims": dims, "Input type": ["c10::BFloat16"] * len(dims)}
            events += [
                {**host, "cat": "cpu_op", "name": name, "ts": clock + 1, "dur": 6, "args": shapes},
                {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": clock + 2, "dur": 2,
                 "args": {"correlation": number}},
                {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 3, "ts": clock + 5, "dur": ns / 1000,
                 "args": {"device": 0, "stream": 3, "correlation": number}},
            ]  # fmt: skip
            clock += max(10, ns // 1000 + 10)
        if wrapper:
            told = {"Python id": 1_000_000 + step, "Python parent id": None}
            events.append({"ph": "X", "cat": "python_function", "name": f"nn.Module: {wrapper}", "pid": 1, "tid": 7,
                           "ts": begin, "dur": clock - begin, "args": told})  # fmt: skip
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 7,
                       "ts": begin, "dur": clock - begin, "args": {}})  # fmt: skip
        clock += 5
    made = {"schemaVersion": 1, "deviceProperties": [device or H100], "traceEvents": events}
    path.write_text(json.dumps(made))
    return str(path)
