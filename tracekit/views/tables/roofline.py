"""Roofline of kernels, from metrics of Nsight Compute: FLOPs, bytes of device memory and time, beside the peaks.

FLOPs: of each precision additions + multiplications + 2 * fused ones, as the threads executed them
(`sass_thread_inst_executed_op_fadd_pred_on` and so on), so without those of tensor cores. bytes: what the device memory
read and wrote. Both are means over the launches of a kernel. Peaks, as ncu's own roofline chart has them: twice the
fused operations a cycle, or the bytes a cycle, that the device can sustain (`peak_sustained`), at the clock of that
kernel's launches; where ncu did not record them those of the device's data sheet, if its name is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from tracekit.analysis.efficiency.counters import counted_bytes, counted_time
from tracekit.analysis.efficiency.devices import RatedDevice
from tracekit.lazy_dataclass import dataclass
from tracekit.model.report import Cell, Column
from tracekit.model.units import Unit

__all__ = ["MeasuredKernel", "RooflineKernel", "columns_of", "kernels_of", "roofs_from", "why_not"]

_MEASURED = "as ncu gives them, at the clock of the launches"
_UNITS = ("smsp__", "sm__")
_OPERATIONS = {"FP32": "f", "FP64": "d", "FP16": "h"}

Metrics = Mapping[str, float]
"""The mean of each metric of a kernel."""


@dataclass(frozen=True, slots=True)
class MeasuredKernel:
    """A kernel with the means of its metrics. device: where it ran."""

    name: str
    calls: int
    metrics: dict[str, float]
    device: RatedDevice


@dataclass(frozen=True, slots=True)
class RooflineKernel:
    """A kernel of a roofline. time_ns, flops, moved: of a launch. peaks: FLOP/s and bytes/s, None where not known.

    peaks_from: the source of both, "" where one is not known.
    """

    name: str
    precision: str
    calls: int
    time_ns: float
    flops: float
    moved: float
    peak_flops: float | None
    peak_bytes: float | None
    peaks_from: str


def kernels_of(measured: Sequence[MeasuredKernel]) -> list[RooflineKernel]:
    """Return each kernel and precision of which FLOPs, bytes and time are known."""
    found = []
    for each in measured:
        time, moved = counted_time(each.metrics), counted_bytes(each.metrics).moved
        for precision, letter in _OPERATIONS.items():
            flops = _flops(each.metrics, letter, time)
            if flops and moved and time:
                peaks = _peaks(each, precision, letter)
                found.append(RooflineKernel(each.name, precision, each.calls, time, flops, moved, *peaks))
    return found


def roofs_from(kernels: Sequence[RooflineKernel]) -> str:
    """Return the source of the roofs: of the kernel with the most time, whose roofs are drawn."""
    longest = max(kernels, key=lambda each: each.time_ns * each.calls)
    return f"roofs {longest.peaks_from}" if longest.peaks_from else ""


def _peaks(kernel: MeasuredKernel, precision: str, letter: str) -> tuple[float | None, float | None, str]:
    """Return the peaks of a kernel and their source: both of one source, or what is known of either."""
    measured = _peak_flops(kernel.metrics, letter), _peak_bytes(kernel.metrics)
    if all(measured):
        return *measured, _MEASURED
    rated = kernel.device.peaks
    # The other rates of the data sheets are those of matrix units, whose FLOPs are not in these metrics.
    rate = rated.rates.get(precision.lower()) if rated is not None and precision != "FP16" else None
    if rated is not None and rate:
        return _scaled(rate, 12), _scaled(rated.memory_gbps, 9), f"of the data sheet of {rated.name}"
    return *measured, ""


def _scaled(value: float, exponent: int) -> float:
    """Return a value times a power of ten, with the digits that the data sheet has."""
    return float(Decimal(repr(value)).scaleb(exponent))


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


def why_not(measured: Sequence[MeasuredKernel]) -> str:
    """Return what a roofline lacks, where no kernel has all of it."""
    lacks = [
        word
        for word, known in (
            ("FLOPs", any(_flops(kernel.metrics, each, 1.0) for kernel in measured for each in _OPERATIONS.values())),
            ("bytes of device memory", any(counted_bytes(kernel.metrics).moved for kernel in measured)),
            ("durations", any(counted_time(kernel.metrics) for kernel in measured)),
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
