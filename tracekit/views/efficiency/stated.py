"""Table `stated` of the view `efficiency`: FLOPs and bytes that a program stated for its kernels and scopes (Proton).

They are as right as the program: a hook of a Triton kernel, or the author of a scope, computes them from the shapes.
The floor is that of the stated work at the peak of the device. The width in bits is all that is known of a datatype:
where the peaks of the datatypes of one width differ (tf32 and fp32), there is none. A scope has the time of all
kernels below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tracekit.analysis.efficiency.devices import RatedDevice
from tracekit.index.device_peaks import device_of, device_peaks
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model.report import Cell, Column, ReportTable
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import ViewColumn, ViewOptions
from tracekit.views.totals import fields, totals_rows

__all__ = ["STATED_NOTE", "STATED_SHOWS", "device_notes", "stated_tables"]

STATED_NOTE = (
    "stated: FLOPs and bytes are those that the program states, and a floor is as right as they are. A scope has the "
    "time of all kernels below it"
)
STATED_SHOWS = (
    ViewColumn("stated_for", "Stated for", Unit.TEXT, "The kernel or scope that the program states its work for."),
    ViewColumn("part", "Part", Unit.TEXT, "Kernel or scope."),
    ViewColumn("stated_calls", "Calls", Unit.COUNT, "The number of launches; scopes are not counted."),
    ViewColumn("stated_time", "Time", Unit.NS, "The time of the kernel, or of all kernels below the scope."),
    ViewColumn("stated_bytes", "Stated bytes", Unit.BYTES, "The bytes that the program states."),
    ViewColumn("stated_rate", "Stated bytes/s", Unit.BYTES_PER_S, "The stated bytes over the time."),
    ViewColumn("stated_of_bandwidth", "Of bandwidth", Unit.RATIO, "The same, as a share of the peak of the memory."),
    ViewColumn("stated_precision", "Precision", Unit.TEXT, "The width of the numbers in bits, where it is stated."),
    ViewColumn("stated_flops", "Stated FLOPs", Unit.NUMBER, "The floating-point operations that the program states."),
    ViewColumn("stated_tflops", "Stated TFLOP/s", Unit.NUMBER, "The stated FLOPs over the time, in 10^12 a second."),
    ViewColumn("stated_of_peak", "Of peak", Unit.RATIO, "The time that the FLOPs need at the peak, of the time taken."),
    ViewColumn("stated_floor", "Stated floor", Unit.NS, "The least time of the stated work on this device."),
    ViewColumn("stated_bound", "Stated bound", Unit.TEXT, "The limit that the floor is of: compute or memory."),
)
_SHOWN = specs.by_key(STATED_SHOWS)
_KERNEL = ("source", "rank", "run", "device", "kind", "name")
_RATES = {
    "flops4": ("fp4",),
    "flops8": ("fp8", "int8"),
    "flops16": ("bf16", "fp16"),
    "flops32": ("tf32", "fp32"),
    "flops64": ("fp64_matrix", "fp64"),
}
"""The rates of `devices.tsv` that numbers of each width may have run at."""
_FLOPS = ("flops", *_RATES)


@dataclass(slots=True)
class _StatedRow:
    """A kernel or scope. flops: by width as stated."""

    name: Cell
    part: str
    device: RatedDevice
    calls: int | None = 0
    time_ns: int = 0
    moved: float | None = None
    flops: dict[str, float] = field(default_factory=dict)


def stated_tables(index: TraceIndex, options: ViewOptions) -> list[ReportTable]:
    """Return the table of stated work; none where the file states none."""
    rows = _rows(index)
    if not rows:
        return []
    bandwidths = [row.device.peaks.memory_gbps * 1e9 if row.device.peaks is not None else None for row in rows]
    needed = [_compute_ns(row) for row in rows]
    memory = [
        row.moved / bandwidth * 1e9 if row.moved is not None and bandwidth else None
        for row, bandwidth in zip(rows, bandwidths, strict=True)
    ]
    floors = [_floor(row, one, other) for row, one, other in zip(rows, needed, memory, strict=True)]
    columns = [
        _SHOWN["stated_for"].column([row.name for row in rows]),
        *_differing("part", [row.part for row in rows], 3),
        *_known("stated_calls", [row.calls for row in rows], 4),
        _SHOWN["stated_time"].column([row.time_ns for row in rows], 1),
        *_known("stated_bytes", [_whole(row.moved) for row in rows], 5),
        *_known("stated_rate", [_rate(row.moved, row.time_ns) for row in rows], 2),
        *_known("stated_of_bandwidth", [_part(ns, row.time_ns) for ns, row in zip(memory, rows, strict=True)], 1),
        *_known("stated_precision", [_precision(row.flops) for row in rows], 4),
        *_known("stated_flops", [sum(row.flops.values()) if row.flops else None for row in rows], 5),
        *_known("stated_tflops", [_tflops(row) for row in rows], 2),
        *_known("stated_of_peak", [_part(ns, row.time_ns) for ns, row in zip(needed, rows, strict=True)], 1),
        *_known("stated_floor", [_whole(floor) for floor, _ in floors], 3),
        *_known("stated_bound", [bound for _, bound in floors], 3),
    ]
    blocks: list[tuple[Cell, ...]] = [(place,) for place in range(len(rows))]
    title = "Work that the program states"
    return [tabulate.finish("stated", title, columns, options, own_order="", blocks=blocks, top_each=False)]


def device_notes(index: TraceIndex) -> list[str]:
    """Return how the peaks of the devices were found."""
    return sorted({f"{device.name}: {device.note}" for device in device_peaks(index).values() if device.note})


def _rows(index: TraceIndex) -> list[_StatedRow]:
    """Return kernels and scopes with stated work, each name once, the longest first."""
    found: dict[tuple[Cell, ...], _StatedRow] = {}
    for row in totals_rows(index, {Kind.KERNEL, Kind.USER_RANGE}):
        args: Mapping[str, object] = row["args"]
        flops = {key: float(value) for key in _FLOPS if _is_work(value := args.get(key))}  # type: ignore[arg-type]
        moved = args.get("bytes")
        if row["total_ns"] is None or not (flops or _is_work(moved)):
            continue
        key = fields(row, _KERNEL)
        if key not in found:
            part = "kernel" if row["kind"] == Kind.KERNEL else "scope"
            found[key] = _StatedRow(row["name"], part, device_of(index, row["source"], row["device"]))
        one = found[key]
        one.time_ns += row["total_ns"]
        one.calls = one.calls + row["calls"] if one.calls is not None and row["calls"] is not None else None
        if _is_work(moved):
            one.moved = (one.moved or 0.0) + float(moved)  # type: ignore[arg-type]
        for width, value in flops.items():
            one.flops[width] = one.flops.get(width, 0.0) + value
    return sorted(found.values(), key=lambda row: -row.time_ns)


def _is_work(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _compute_ns(row: _StatedRow) -> float | None:
    """Return the least time of the FLOPs, None where a peak of one of their widths is not known."""
    peaks = row.device.peaks
    if peaks is None or not row.flops or "flops" in row.flops:
        return None
    needed = 0.0
    for width, flops in row.flops.items():
        rates = {peaks.rates[key] for key in _RATES[width] if key in peaks.rates}
        if len(rates) != 1:
            return None
        needed += flops / rates.pop() / 1e3
    return needed


def _floor(row: _StatedRow, compute: float | None, memory: float | None) -> tuple[float | None, str | None]:
    """Return the floor and its limit. Where FLOPs have no known peak, no floor: they may need more than the bytes."""
    if row.flops and compute is None:
        return None, None
    if compute is None or (memory is not None and memory > compute):
        return memory, "memory" if memory is not None else None
    return compute, "compute"


def _precision(flops: Mapping[str, float]) -> str | None:
    widths = [f"{each.removeprefix('flops')} bit" if each != "flops" else "not stated" for each in flops]
    return " and ".join(widths) or None


def _whole(value: float | None) -> Cell:
    return round(value) if value is not None and abs(value) < 1 << 62 else None


def _rate(amount: float | None, ns: int) -> Cell:
    return amount / ns * 1e9 if amount is not None and ns else None


def _tflops(row: _StatedRow) -> Cell:
    return sum(row.flops.values()) / row.time_ns / 1e3 if row.flops and row.time_ns else None


def _part(needed: float | None, ns: int) -> Cell:
    return needed / ns if needed is not None and ns else None


def _known(key: str, values: list[Cell], priority: int) -> list[Column]:
    return [_SHOWN[key].column(values, priority)] if any(value is not None for value in values) else []


def _differing(key: str, values: list[Cell], priority: int) -> list[Column]:
    return [_SHOWN[key].column(values, priority)] if len(set(values)) > 1 else []
