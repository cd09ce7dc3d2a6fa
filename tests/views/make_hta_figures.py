"""What HolisticTraceAnalysis says of its own sample traces: the figures in hta_figures.json, and how they were made.

    python tests/views/make_hta_figures.py FOLDER > tests/views/hta_figures.json

FOLDER has the Kineto files of the corpus; the Python that runs this has HolisticTraceAnalysis installed (and nothing of
ours). Figures only: no event and no name of the files is written. Times in µs, as HTA gives them; its rounding of ns
to whole µs is switched off by its own variable. A figure that HTA fails to give is null.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import json
import logging
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"

FILES = ("hta_alexnet", "hta_nccl_data", "hta_ns_resolution_rank0", "hta_event_sync_multi_stream", "hta_amd_mi250")


def main(folder: str) -> None:
    from hta.trace_analysis import TraceAnalysis

    logging.disable(logging.CRITICAL)
    out: dict[str, Any] = {"hta": importlib.metadata.version("HolisticTraceAnalysis"), "files": {}}
    for name in FILES:
        path = str(Path(folder, f"{name}.json.gz").resolve())
        with contextlib.redirect_stdout(io.StringIO()):
            analysis = TraceAnalysis(trace_files={0: path}, trace_dir=folder)
            out["files"][name] = {key: get(figures, analysis) for key, figures in FIGURES.items()}
    print(json.dumps(out, indent=1))


def get(figures: Callable[[Any], Any], analysis: Any) -> Any:
    try:
        return figures(analysis)
    except Exception as error:  # noqa: BLE001 - HTA's analyses fail in many ways on traces without such work
        print(f"{figures.__name__}: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def temporal(analysis: Any) -> dict[str, float]:
    row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    return {key: float(row[f"{key}_time(us)"]) for key in ("idle", "compute", "non_compute", "kernel")}


def overlap(analysis: Any) -> float | None:
    value = float(analysis.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"].iloc[0])
    return None if math.isnan(value) else value


def kernels(analysis: Any) -> list[list[Any]]:
    """Sum, longest and shortest of each name of a kernel, largest sum first; copies and memsets too."""
    found = analysis.get_gpu_kernel_breakdown(
        visualize=False, duration_ratio=1.0, num_kernels=1 << 20, include_memory_kernels=True
    )[1]
    rows = [
        [float(r["sum (us)"]), float(r["max (us)"]), float(r["min (us)"]), r["kernel_type"].lower()]
        for _, r in found.iterrows()
    ]
    return sorted(rows, reverse=True)


def idle(analysis: Any) -> list[list[Any]]:
    """Stream, category and time of HTA's gaps between neighbours on a stream."""
    found = analysis.get_idle_time_breakdown(ranks=[0], visualize=False)[0]
    return sorted([int(r.stream), str(r.idle_category), float(r.idle_time)] for r in found.itertuples())


def launches(analysis: Any) -> dict[str, float]:
    found = analysis.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]
    call, work, delay = found["cpu_duration"], found["gpu_duration"], found["launch_delay"]
    return {
        "launches": len(found), "call": float(call.sum()), "work": float(work.sum()), "queue": float(delay.sum()),
        "short": int((work < call).sum()), "slow_calls": int((call > 50).sum()), "late": int((delay > 100).sum()),
    }  # fmt: skip


def queue(analysis: Any) -> list[list[int]]:
    """Stream and longest queue."""
    found = analysis.get_queue_length_summary(ranks=[0])
    return sorted([int(stream), int(row[("queue_length", "max")])] for (_, stream), row in found.iterrows())


FIGURES = {f.__name__: f for f in (temporal, overlap, kernels, idle, launches, queue)}

if __name__ == "__main__":
    main(sys.argv[1])
