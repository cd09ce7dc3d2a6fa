"""Timed cases of the views, and their baselines. One case a process; run.py starts them.

    python benchmarks/_view_cases.py CASE [ARGUMENT]...     prints one line of JSON, as _baselines.py does

`hta` runs under the Python of --hta-python, which has no tracekit: all imports are inside the cases.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = 200
Timed = Callable[[], dict[str, Any]]


def kineto(target: str, events: str) -> Timed:
    """Make the input; not timed for anything. Adds truth.json, as generate.py does."""
    from kineto_read import generate

    def run() -> dict[str, Any]:
        path = Path(target)
        truth = path.with_name(path.name + ".truth.json")
        if not truth.exists():
            generate(path, int(events))
            truth.write_text(json.dumps({"rows": int(events) // 5 * 5}), encoding="utf-8")
        return {}

    return run


def hta(path: str) -> Timed:
    """HolisticTraceAnalysis: load, and its kernel breakdown with all names."""
    import logging

    from hta.trace_analysis import TraceAnalysis

    logging.disable(logging.CRITICAL)

    def run() -> dict[str, Any]:
        analysis = TraceAnalysis(trace_files={0: path}, trace_dir=str(Path(path).parent))
        found = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1 << 20, duration_ratio=1.0)[1]
        return {"names": len(found), "sum_us": float(found["sum (us)"].sum())}

    import os

    # Its default rounds each time to whole microseconds; then its sums are not those of the file.
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
    return run


def kernels(path: str, columns: str = "all") -> Timed:
    """tracekit: load with all columns, or "own" ones of the view as `tracekit summary` does, and the kernel view."""
    import pyarrow as pa

    import tracekit
    from tracekit.pipeline import columns_of, view

    pa.set_cpu_count(1)
    wanted = columns_of(["kernel"]) if columns == "own" else None

    def run() -> dict[str, Any]:
        table = view(tracekit.read(path, columns=wanted), "kernel").tables[0]
        total = sum(value for value in table.column("total").values if isinstance(value, int))
        return {"names": len(table), "sum_us": total / 1000}

    return run


def load(path: str) -> Timed:
    """tracekit: load with all columns."""
    import pyarrow as pa

    import tracekit

    pa.set_cpu_count(1)

    def run() -> dict[str, Any]:
        return {"rows": tracekit.read(path).events.num_rows}

    return run


def all_views(path: str) -> Timed:
    """Every view of a trace that is in memory."""
    import pyarrow as pa

    import tracekit
    from tracekit.index.trace_index import TraceIndex
    from tracekit.views import VIEWS
    from tracekit.views.base import ViewOptions

    pa.set_cpu_count(1)
    trace = tracekit.read(path)

    def run() -> dict[str, Any]:
        took = {}
        for name, view in VIEWS.items():
            started = time.process_time()
            view.compute(TraceIndex(trace), ViewOptions())
            took[name] = time.process_time() - started
        return {"rows": trace.events.num_rows, "views": took}

    return run


def _model(rows: str) -> tuple[Any, Any]:
    """Names by a Zipf law and lognormal durations: codes and ns, the same each time."""
    import numpy as np

    made = np.random.default_rng(1)
    codes = ((made.zipf(1.3, int(rows)) - 1) % NAMES).astype(np.int32)
    return codes, made.lognormal(8.3, 1.1, int(rows)).astype(np.int64) + 700


def sort_by_code(rows: str) -> Timed:
    """numpy: order by name's code, then count, sum, min, max and three exact percentiles of each segment."""
    import numpy as np

    codes, durations = _model(rows)

    def run() -> dict[str, Any]:
        order = np.argsort(codes.astype(np.int16), kind="stable")
        ordered = durations[order]
        count = np.bincount(codes, minlength=NAMES)
        bounds = np.concatenate(([0], np.cumsum(count)))
        found = []
        for i in range(NAMES):
            some = ordered[bounds[i] : bounds[i + 1]]
            if some.size:
                ranks = [-(-some.size * percent // 100) - 1 for percent in (50, 95, 99)]
                placed = np.partition(some, ranks)
                each = [int(placed[rank]) for rank in ranks]
                found.append((int(some.sum()), int(some.min()), int(some.max()), *each))
        return {"names": len(found), "total": sum(f[0] for f in found), "p99": sum(f[5] for f in found)}

    return run


def kernel_view(rows: str) -> Timed:
    """tracekit's kernel view of the same rows: these figures, the mean and the deviation, in order, as a table."""
    import numpy as np
    import pyarrow as pa

    from tracekit.index.trace_index import TraceIndex
    from tracekit.model import schema
    from tracekit.model.trace import Trace
    from tracekit.views import VIEWS
    from tracekit.views.base import ViewOptions

    codes, durations = _model(rows)
    kind = pa.DictionaryArray.from_arrays(pa.array(np.zeros(codes.size, np.int32)), pa.array(["kernel"]))
    name = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array([f"kernel_{n}" for n in range(NAMES)]))
    columns = {"ts_ns": np.arange(codes.size) * 5000, "dur_ns": durations, "kind": kind, "name": name}
    fields = pa.schema([schema.EVENTS.field(column) for column in columns])
    trace = Trace(pa.table(list(columns.values()), schema=fields))

    def run() -> dict[str, Any]:
        table = VIEWS["kernel"].compute(TraceIndex(trace), ViewOptions()).tables[0]
        return {"names": len(table)} | {name: sum(table.column(name).values) for name in ("total", "p99")}  # type: ignore[arg-type]

    return run


CASES: dict[str, Callable[..., Timed]] = {
    case.__name__: case for case in (kineto, hta, kernels, load, all_views, sort_by_code, kernel_view)
}


def main(arguments: list[str]) -> None:
    run = CASES[arguments[0]](*arguments[1:])
    cpu, wall = time.process_time(), time.perf_counter()
    checks = run()
    seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    print(json.dumps(seconds | checks))


if __name__ == "__main__":
    main(sys.argv[1:])
