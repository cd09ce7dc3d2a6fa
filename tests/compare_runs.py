"""Runs made by hand for the tests of compare: steps with operators, launches and kernels, written as Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracekit import pipeline
from tracekit.model import schema
from tracekit.model.trace import Ledger, Run, SourceFacts, Trace, concat
from tracekit.readers.builder import RowBuilder

Row = dict[str, Any]
# (operator, kernel, ns, grid)
Launch = tuple[str, str, int, int]
LAYERS: tuple[Launch, ...] = (
    ("aten::mm", "gemm_a", 400_000, 80),
    ("aten::add", "add_kernel", 50_000, 20),
    ("aten::relu", "relu_kernel", 30_000, 20),
    ("aten::mm", "gemm_b", 300_000, 64),
    ("aten::softmax", "softmax_fw", 90_000, 8),
)


def trace(rows: Sequence[Row], totals: Sequence[Row] = (), *, origin_ns: int = 0) -> Trace:
    """A trace of these rows; what every row needs has a default."""
    events, summed = RowBuilder("events"), RowBuilder("totals")
    for number, row in enumerate(rows):
        events.add(**{"ts_ns": 0, "event_id": number, "source": 0, "kind": "kernel", **row})
    for number, row in enumerate(totals):
        summed.add(**{"source": 0, "run": 0, "section": "GPU activities", "order": number, "kind": "kernel", **row})
    made = [
        concat([b.take()] if some else [], of)
        for b, some, of in ((events, rows, schema.EVENTS), (summed, totals, schema.TOTALS))
    ]
    count = len(rows) + len(totals)
    ledger = Ledger(0, "made.json", "kineto", read=count, kept=count, events_out=len(rows), totals_out=len(totals))
    return Trace(made[0], made[1], Run(origin_ns, [SourceFacts("made.json", "kineto")]), (ledger,))


def steps(
    count: int = 12,
    *,
    layers: Sequence[Launch] = LAYERS,
    factor: float = 1.0,
    noise: float = 0.0,
    seed: int = 0,
    warm_up: int = 0,
    idle_ns: int = 20_000,
    rank: int | None = None,
    named_steps: bool = True,
    memory: int = 0,
) -> list[Row]:
    """Rows of so many steps: each operator launches its kernel, one after the other on a stream."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    now, correlation = 1_000, 1
    for step in range(count):
        begun = now
        slow = 6.0 if step < warm_up else 1.0
        scale = factor * slow * (1 + noise * rng.standard_normal())
        for operator, kernel, ns, grid in layers:
            length = max(1, round(ns * scale))
            host = {"pid": 1, "tid": 1, "rank": rank}
            rows += [
                {"ts_ns": now, "dur_ns": length, "name": operator, "kind": "operator", **host},
                {
                    "ts_ns": now + 1,
                    "dur_ns": 3,
                    "name": "cudaLaunchKernel",
                    "kind": "runtime",
                    "correlation": correlation,
                    **host,
                },
                {
                    "ts_ns": now + 5,
                    "dur_ns": length - 5,
                    "name": kernel,
                    "kind": "kernel",
                    "pid": 1,
                    "rank": rank,
                    "device": rank or 0,
                    "stream": 7,
                    "correlation": correlation,
                    "grid_x": grid,
                    "grid_y": 1,
                    "grid_z": 1,
                    "block_x": 128,
                    "block_y": 1,
                    "block_z": 1,
                },
            ]
            now += length
            correlation += 1
        if memory:
            rows.append(
                {
                    "ts_ns": begun + 2,
                    "name": "[memory]",
                    "kind": "memory",
                    "bytes": memory,
                    "device": 0,
                    "pid": 1,
                    "tid": 1,
                    "rank": rank,
                }
            )
            rows.append(
                {
                    "ts_ns": now - 1,
                    "name": "[memory]",
                    "kind": "memory",
                    "bytes": -memory,
                    "device": 0,
                    "pid": 1,
                    "tid": 1,
                    "rank": rank,
                }
            )
        now += idle_ns
        if named_steps:
            rows.append(
                {
                    "ts_ns": begun,
                    "dur_ns": now - begun,
                    "name": f"step {step}",
                    "kind": "step",
                    "step": step,
                    "pid": 1,
                    "tid": 1,
                    "rank": rank,
                }
            )
    return rows


def write(path: Path, rows: Sequence[Row], totals: Sequence[Row] = ()) -> str:
    """Write a run; return its path as a word."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pipeline.write(trace(rows, totals), path)
    return str(path)


def repeats(folder: Path, runs: int, *, effect: float = 0.0, noise: float = 0.02, seed: int = 0, **words: Any) -> str:
    """Write so many repeats whose speed differs by the noise; return the folder."""
    rng = np.random.default_rng(seed)
    for number in range(runs):
        factor = (1 + effect) * (1 + noise * rng.standard_normal())
        write(folder / f"r{number:02}.parquet", steps(factor=factor, seed=seed * 1000 + number, **words))
    return str(folder)
