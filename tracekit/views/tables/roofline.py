"""Roofline of kernels, from metrics of Nsight Compute: FLOPs, bytes of device memory and time, beside the peaks.

FLOPs: of each precision additions + multiplications + 2 * fused ones, as the threads executed them
(`sass_thread_inst_executed_op_fadd_pred_on` and so on), so without those of tensor cores. bytes: what the device memory
read and wrote. Both are means over the launches of a kernel. Peaks, as ncu's own roofline chart has them: twice the
fused operations a cycle, or the bytes a cycle, that the device can sustain (`peak_sustained`), at the clock of that
kernel's launches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracekit.model.report import Cell, Column
from tracekit.model.units import Unit

__all__ = ["ROOFS_FROM", "RooflineKernel", "columns_of", "kernels_of", "why_not"]

ROOFS_FROM = "peaks as ncu measured them, at the clock of the launches"
_UNITS = ("smsp__", "sm__")
_OPERATIONS = {"FP32": "f", "FP64": "d", "FP16": "h"}
_TIMES = ("gpu__time_duration.sum", "Duration")
_BYTES = (
    ("dram__bytes.sum",),
    ("dram__bytes_read.sum", "dram__bytes_write.sum"),
    ("dram__bytes_op_read.sum", "dram__bytes_op_write.sum"),
)

Metrics = Mapping[str, float]
"""The mean of each metric of a kernel."""


@dataclass(frozen=True, slots=True)
class RooflineKernel:
    """A kernel of a roofline. time_ns, flops, moved: of a launch. peaks: FLOP/s and bytes/s, None where not known."""

    name: str
    precision: str
    calls: int
    time_ns: float
    flops: float
    moved: float
    peak_flops: float | None
    peak_bytes: float | None


def kernels_of(named: Sequence[tuple[str, int, Metrics]]) -> list[RooflineKernel]:
    """Return each kernel and precision of which FLOPs, bytes and time are known. named: name, calls, metrics."""
    found = []
    for name, calls, metrics in named:
        time, moved = _time(metrics), _moved(metrics)
        for precision, letter in _OPERATIONS.items():
            flops = _flops(metrics, letter, time)
            if flops and moved and time:
                peaks = _peak_flops(metrics, letter), _peak_bytes(metrics)
                found.append(RooflineKernel(name, precision, calls, time, flops, moved, *peaks))
    return found


def _time(metrics: Metrics) -> float | None:
    return next((metrics[name] for name in _TIMES if metrics.get(name)), None)


def _moved(metrics: Metrics) -> float | None:
    return next((sum(metrics[each] for each in names) for names in _BYTES if metrics.keys() >= set(names)), None)


def _flops(metrics: Metrics, letter: str, time_ns: float | None) -> float | None:
    """Return the FLOPs of a launch: counted, or the rate by cycle times the clock and the time."""
    for unit in _UNITS:
        names = [f"{unit}sass_thread_inst_executed_op_{letter}{each}_pred_on.sum" for each in ("add", "mul", "fma")]
        if metrics.keys() >= set(names):
            add, multiply, fused = (metrics[each] for each in names)
            return add + multiply + 2 * fused
        rates = [f"{each}.per_cycle_elapsed" for each in names]
        clock = metrics.get(f"{unit}cycles_elapsed.avg.per_second")
        doubled = f"derived__{unit}sass_thread_inst_executed_op_{letter}fma_pred_on_x2"
        if metrics.keys() >= {*rates[:2], doubled} and clock and time_ns:
            return (metrics[rates[0]] + metrics[rates[1]] + metrics[doubled]) * clock * time_ns / 1e9
        if metrics.keys() >= set(rates) and clock and time_ns:
            add, multiply, fused = (metrics[each] for each in rates)
            return (add + multiply + 2 * fused) * clock * time_ns / 1e9
    return None


def _peak_flops(metrics: Metrics, letter: str) -> float | None:
    clock = metrics.get("sm__cycles_elapsed.avg.per_second")
    doubled = metrics.get(f"derived__sm__sass_thread_inst_executed_op_{letter}fma_pred_on_x2")
    single = metrics.get(f"sm__sass_thread_inst_executed_op_{letter}fma_pred_on.sum.peak_sustained")
    by_cycle = doubled or (2 * single if single else None)
    return by_cycle * clock if by_cycle and clock else None


def _peak_bytes(metrics: Metrics) -> float | None:
    by_cycle, clock = metrics.get("dram__bytes.sum.peak_sustained"), metrics.get("dram__cycles_elapsed.avg.per_second")
    return by_cycle * clock if by_cycle and clock else None


def why_not(named: Sequence[tuple[str, int, Metrics]]) -> str:
    """Return what a roofline lacks, where no kernel has all of it."""
    lacks = [
        word
        for word, known in (
            ("FLOPs", any(_flops(metrics, each, 1.0) for *_, metrics in named for each in _OPERATIONS.values())),
            ("bytes of device memory", any(_moved(metrics) for *_, metrics in named)),
            ("durations", any(_time(metrics) for *_, metrics in named)),
        )
        if not known
    ]
    of = f"the metrics have no {' and no '.join(lacks)}" if lacks else "no kernel has FLOPs, bytes and a duration"
    return f"not drawn: {of} (ncu --set roofline --page raw has them)"


def columns_of(kernels: Sequence[RooflineKernel]) -> list[Column]:
    """Return the columns of the table of a roofline."""
    several = len({each.precision for each in kernels}) > 1
    return [
        Column("name", "Kernel", Unit.TEXT, [each.name for each in kernels], 0),
        *([Column("precision", "Precision", Unit.TEXT, [e.precision for e in kernels], 1)] if several else []),
        Column("calls", "Calls", Unit.COUNT, [each.calls for each in kernels], 3),
        Column("time", "Time", Unit.NS, [round(each.time_ns * each.calls) for each in kernels], 1),
        Column("flops", "FLOPs", Unit.NUMBER, [each.flops for each in kernels], 2),
        Column("moved", "DRAM bytes", Unit.BYTES, [round(each.moved) for each in kernels], 2),
        Column("intensity", "FLOP/byte", Unit.NUMBER, [each.flops / each.moved for each in kernels], 0),
        Column("rate", "FLOP/s", Unit.NUMBER, [each.flops / each.time_ns * 1e9 for each in kernels], 0),
        *_known("peak_flops", "Peak FLOP/s", Unit.NUMBER, [each.peak_flops for each in kernels]),
        *_known("peak_bytes", "Peak DRAM", Unit.BYTES_PER_S, [each.peak_bytes for each in kernels]),
    ]


def _known(name: str, title: str, unit: Unit, values: Sequence[Cell]) -> list[Column]:
    return [Column(name, title, unit, values, 1)] if any(value is not None for value in values) else []
