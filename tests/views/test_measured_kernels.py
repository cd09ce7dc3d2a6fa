"""Counters that are an input beside a trace: what the kernels of the trace moved, by the name of the kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from views.tables import dicts

import tracekit
from tracekit import pipeline

TRACE = """\
==1== NVPROF is profiling process 1, command: ./a.out
==1== Profiling result:
"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem",\
"Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name","Correlation_ID"
us,us,,,,,,,,KB,B,MB,GB/s,,,,,,,
"""
METRICS = """\
==1== NVPROF is profiling process 1, command: ./a.out
==1== Metric result:
"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"
"""
P100 = '"Tesla P100-PCIE-16GB (0)"'


def kernels(folder: Path, times: list[tuple[str, int]], counted: dict[str, tuple[int, str, int]]) -> dict[str, Any]:
    """Return the kernel table by name. times: kernels and their us. counted: by name launches, metric and its mean."""
    at, lines = 0, []
    for number, (name, us) in enumerate(times):
        lines.append(f'{at}.0,{us}.0,1,1,1,128,1,1,32,0,0,,,,,{P100},"1","7","{name}(float*) [{number}]",{number}\n')
        at += us + 5
    (folder / "trace.csv").write_text(TRACE + "".join(lines))
    rows = [f'{P100},"{name}(float*)",{n},"{metric}","",{v},{v},{v}\n' for name, (n, metric, v) in counted.items()]
    (folder / "metrics.csv").write_text(METRICS + "".join(rows))
    trace = tracekit.read([folder / "trace.csv", folder / "metrics.csv"])
    return {row["name"].partition("(")[0]: row for row in dicts(pipeline.view(trace, "kernel").tables[0])}


def test_bytes_of_counted_launches_count_for_all_calls_of_the_trace(tmp_path: Path) -> None:
    counted = {"scale": (1, "dram__bytes.sum", 20_000_000)}
    found = kernels(tmp_path, [("scale", 100), ("scale", 300), ("other", 50)], counted)
    assert found["scale"]["measured_bytes"] == 40_000_000
    assert found["scale"]["measured_rate"] == 100e9  # of the 400 us of the trace, not of the counted launch
    assert found["scale"]["of_bandwidth"] == pytest.approx(100 / 732)
    assert found["other"]["measured_bytes"] is None


def test_counters_of_kernels_that_the_trace_has_none_of_add_no_columns(tmp_path: Path) -> None:
    found = kernels(tmp_path, [("scale", 100)], {"another": (1, "dram__bytes.sum", 20_000_000)})
    assert "measured_bytes" not in found["scale"]


def test_counters_without_bytes_add_no_columns(tmp_path: Path) -> None:
    found = kernels(tmp_path, [("scale", 100)], {"scale": (3, "ipc", 2)})
    assert "measured_bytes" not in found["scale"]
