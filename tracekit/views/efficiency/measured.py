"""Tables `measured` and `measured_flops` of the view `efficiency`: bytes and FLOPs as hardware counters have them.

Counters are the best source of what a kernel did, where a file has them (`analysis.efficiency.counters`). They are no
minima, so there are rates and shares of the peak, and no floor. Rates need the duration of the launches, which nvprof
and rocprof do not write beside their counters. Folders of rocprof-compute have it, and the roofs that were measured on
their machine, which then count as peaks.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.analysis.efficiency.counters import CountedFlops, counted_bytes, counted_flops, counted_time
from tracekit.analysis.efficiency.devices import RatedDevice, roof
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Cell, Column, ReportTable
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import ViewColumn, ViewOptions
from tracekit.views.tables.measured_roofs import measured_roofs
from tracekit.views.tables.metrics import measured_kernels
from tracekit.views.tables.roofline import MeasuredKernel

__all__ = ["MEASURED_NOTE", "MEASURED_SHOWS", "measured_tables", "roof_notes"]

MEASURED_NOTE = (
    "measured: counted by the hardware, a mean of the launches. What a kernel moved is not the least that it had to "
    "move, so there is no floor"
)
MEASURED_SHOWS = (
    ViewColumn("kernel", "Kernel", Unit.TEXT, "The full name of the kernel."),
    ViewColumn("launches", "Launches", Unit.COUNT, "The number of launches that were counted."),
    ViewColumn("launch_time", "Time", Unit.NS, "The duration of a launch that was counted."),
    ViewColumn("read", "Measured read", Unit.BYTES, "The bytes that a launch read from the device memory."),
    ViewColumn("written", "Measured written", Unit.BYTES, "The bytes that a launch wrote to the device memory."),
    ViewColumn("moved", "Measured bytes", Unit.BYTES, "Both together."),
    ViewColumn("moved_rate", "Measured bytes/s", Unit.BYTES_PER_S, "The measured bytes over the duration."),
    ViewColumn("of_bandwidth", "Of bandwidth", Unit.RATIO, "The same, as a share of the peak of the memory."),
    ViewColumn("units", "Precision", Unit.TEXT, "The precision, and the units where these are tensor cores."),
    ViewColumn("measured_flops", "Measured FLOPs", Unit.NUMBER, "The floating-point operations of a launch."),
    ViewColumn("flops_rate", "Measured FLOP/s", Unit.NUMBER, "The measured FLOPs over the duration."),
    ViewColumn("of_flops", "Of peak", Unit.RATIO, "The same, as a share of the peak of this precision."),
)
_SHOWN = specs.by_key(MEASURED_SHOWS)


def roof_notes(index: TraceIndex) -> list[str]:
    """Return where the peaks come from, where they were measured."""
    return sorted(f"{device.name}: {device.note}" for device in measured_roofs(index).values())


def measured_tables(index: TraceIndex, options: ViewOptions) -> list[ReportTable]:
    """Return the tables of what was counted; none where the file has no such counters."""
    kernels = measured_kernels(index)
    tables = []
    moving = [each for each in kernels if _any_bytes(each)]
    if moving:
        tables.append(_bytes_table(moving, options))
    computing = [(each, flops) for each in kernels for flops in counted_flops(each.metrics)]
    if computing:
        tables.append(_flops_table(computing, options))
    return tables


def _any_bytes(kernel: MeasuredKernel) -> bool:
    found = counted_bytes(kernel.metrics)
    return found.read is not None or found.written is not None or found.moved is not None


def _bytes_table(kernels: Sequence[MeasuredKernel], options: ViewOptions) -> ReportTable:
    found = [counted_bytes(each.metrics) for each in kernels]
    times = [counted_time(each.metrics) for each in kernels]
    rates = [_rate(each.moved, time) for each, time in zip(found, times, strict=True)]
    peaks = [each.device.peaks.memory_gbps * 1e9 if each.device.peaks is not None else None for each in kernels]
    columns = [
        *_places(kernels, times),
        *_known("read", [_whole(each.read) for each in found], 3),
        *_known("written", [_whole(each.written) for each in found], 3),
        *_known("moved", [_whole(each.moved) for each in found], 0),
        *_known("moved_rate", list(rates), 1),
        *_known("of_bandwidth", _shares(rates, peaks), 0),
    ]
    return _table("measured", "Measured bytes of device memory", columns, options)


def _flops_table(rows: Sequence[tuple[MeasuredKernel, CountedFlops]], options: ViewOptions) -> ReportTable:
    kernels = [kernel for kernel, _ in rows]
    times = [counted_time(each.metrics) for each in kernels]
    rates = [_rate(flops.flops, time) for (_, flops), time in zip(rows, times, strict=True)]
    columns = [
        *_places(kernels, times),
        _SHOWN["units"].column([flops.units for _, flops in rows]),
        _SHOWN["measured_flops"].column([flops.flops for _, flops in rows]),
        *_known("flops_rate", list(rates), 1),
        *_known("of_flops", _shares(rates, [_peak(kernel.device, flops) for kernel, flops in rows]), 0),
    ]
    return _table("measured_flops", "Measured FLOPs", columns, options)


def _peak(device: RatedDevice, flops: CountedFlops) -> float | None:
    if not flops.rate or device.peaks is None:
        return None
    top = roof(device, flops.rate, factor=device.peaks.fp16_short if flops.shorter else 1.0)
    return top.flops_per_s if top is not None else None


def _places(kernels: Sequence[MeasuredKernel], times: Sequence[float | None]) -> list[Column]:
    return [
        _SHOWN["kernel"].column([each.name for each in kernels]),
        _SHOWN["launches"].column([each.calls for each in kernels], 3),
        *_known("launch_time", [_whole(time) for time in times], 2),
    ]


def _table(name: str, title: str, columns: list[Column], options: ViewOptions) -> ReportTable:
    # Kernels stay in the order of the file.
    blocks: list[tuple[Cell, ...]] = [(place,) for place in range(len(columns[0].values))]
    return tabulate.finish(name, title, columns, options, own_order="", blocks=blocks, top_each=False)


def _known(key: str, values: list[Cell], priority: int) -> list[Column]:
    return [_SHOWN[key].column(values, priority)] if any(value is not None for value in values) else []


def _whole(value: float | None) -> Cell:
    return None if value is None else round(value)


def _rate(amount: float | None, ns: float | None) -> float | None:
    return amount / ns * 1e9 if amount is not None and ns else None


def _shares(rates: Sequence[float | None], peaks: Sequence[float | None]) -> list[Cell]:
    return [rate / peak if rate is not None and peak else None for rate, peak in zip(rates, peaks, strict=True)]
