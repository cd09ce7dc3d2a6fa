"""nvprof's metrics and events, with --csv and as text: sums over the launches of a kernel, no times in them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from _model import DEVICE, KERNEL, PID, Event
from _nvprof_csv import header, preamble
from _sheet import Sheet, short_size


@dataclass(frozen=True, slots=True)
class _Metric:
    name: str
    description: str
    unit: str  # "%", "B/s", "level", "count", "" for a plain ratio
    low: float
    high: float


_METRICS = [
    _Metric("branch_efficiency", "Branch Efficiency", "%", 88, 100),
    _Metric("achieved_occupancy", "Achieved Occupancy", "", 0.11, 0.97),
    _Metric("ipc", "Executed IPC", "", 0.4, 3.2),
    _Metric("gld_throughput", "Global Load Throughput", "B/s", 2e10, 4e11),
    _Metric("sysmem_write_throughput", "System Memory Write Throughput", "B/s", 5e3, 3e4),
    _Metric("local_load_throughput", "Local Memory Load Throughput", "B/s", 0, 0),
    _Metric("dram_utilization", "Device Memory Utilization", "level", 0, 10),
    _Metric("stall_memory_dependency", "Issue Stall Reasons (Data Request)", "%", 2, 60),
    _Metric("flop_count_sp", "Floating Point Operations(Single Precision)", "count", 1e6, 2e10),
]
_EVENTS = [("branch", 1e3, 9e5), ("divergent_branch", 0, 4e3), ("warps_launched", 4e3, 3e6)]


def _level(value: int) -> str:
    word = "Idle" if value == 0 else "Low" if value <= 3 else "Mid" if value <= 6 else "High" if value <= 9 else "Max"
    return f"{word} ({value})"


def _csv_value(metric: _Metric, value: float) -> str:
    if metric.unit == "level":
        return f'"{_level(round(value))}"'
    if metric.unit == "count":
        return str(round(value))
    if metric.unit == "B/s":
        power = sum(value >= 1024**n for n in (1, 2, 3))
        return f"{value / 1024**power:.6f}{('B/s', 'KB/s', 'MB/s', 'GB/s')[power]}"
    return f"{value:.6f}{metric.unit}"


def _text_value(metric: _Metric, value: float) -> str:
    if metric.unit == "level":
        return _level(round(value))
    if metric.unit == "count":
        return str(round(value)) if value < 1e10 else f"{value:.4e}"
    if metric.unit == "B/s":
        text = short_size(value, ("B/s", "KB/s", "MB/s", "GB/s"))
        return "0.00000B/s" if value == 0 else text
    return f"{value:.2f}%" if metric.unit == "%" else f"{value:.6f}"


def _launches(events: Sequence[Event]) -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    for event in events:
        if event.kind == KERNEL:
            counts[event.name] = counts.get(event.name, 0) + 1
    return sorted(counts.items())


def _spread(draw: Callable[[], float], low: float, high: float, count: int) -> tuple[float, float, float]:
    """Smallest, largest and mean of some launches; equal where there was one."""
    values = sorted(low + draw() * (high - low) for _ in range(1 if count == 1 else 3))
    return values[0], values[-1], sum(values) / len(values)


def _preamble(sheet: Sheet, names: Sequence[str], result: str) -> None:
    replay = f"=={PID}== Some kernel(s) will be replayed on device 0 in order to collect all events/metrics."
    preamble(sheet, before=["loss 2.251020", replay, *(f'Replaying kernel "{name}" (done)' for name in names)])
    sheet.add("preamble", f"=={PID}== {result} result:")


def metrics_csv(events: Sequence[Event]) -> Sheet:
    sheet, draw = Sheet("nvprof-csv"), random.Random(11).random
    _preamble(sheet, [], "Metric")
    columns = ["Device", "Kernel", "Invocations", "Metric Name", "Metric Description", "Min", "Max", "Avg"]
    sheet.add("header", header(columns))
    for name, count in _launches(events):
        for metric in _METRICS:
            values = ",".join(_csv_value(metric, x) for x in _spread(draw, metric.low, metric.high, count))
            texts = f'"{DEVICE} (0)","{name}",{count},"{metric.name}","{metric.description}",{values}'
            sheet.total(texts, "metric", calls=count)
    return sheet


def events_csv(events: Sequence[Event]) -> Sheet:
    sheet, draw = Sheet("nvprof-csv"), random.Random(12).random
    _preamble(sheet, [], "Event")
    sheet.add("header", header(["Device", "Kernel", "Invocations", "Event Name", "Min", "Max", "Avg", "Total"]))
    for name, count in _launches(events):
        for event, low, high in _EVENTS:
            values = sorted(int(low + draw() * (high - low)) for _ in range(count))
            cells = f"{values[0]},{values[-1]},{sum(values) // count},{sum(values)}"
            sheet.total(f'"{DEVICE} (0)","{name}",{count},"{event}",{cells}', "event", calls=count)
    return sheet


def metrics_text(events: Sequence[Event]) -> Sheet:
    sheet, draw = Sheet("nvprof-text"), random.Random(11).random
    launches = _launches(events)
    _preamble(sheet, [name for name, _ in launches], "Metric")
    wide = max(40, 1 + max(len(metric.description) for metric in _METRICS))
    titles = ("Min".rjust(10), "Max".rjust(10), "Avg".rjust(10))
    sheet.add("header", "  ".join(["Invocations", "Metric Name".rjust(40), "Metric Description".rjust(wide), *titles]))
    sheet.add("device", f'Device "{DEVICE} (0)"')
    for name, count in launches:
        sheet.add("kernel", f"    Kernel: {name}")
        for metric in _METRICS:
            values = [_text_value(metric, x).rjust(10) for x in _spread(draw, metric.low, metric.high, count)]
            cells = [str(count).rjust(11), metric.name.rjust(40), metric.description.rjust(wide), *values]
            sheet.total("  ".join(cells), "metric", calls=count)
    return sheet


def events_text(events: Sequence[Event]) -> Sheet:
    sheet, draw = Sheet("nvprof-text"), random.Random(12).random
    launches = _launches(events)
    _preamble(sheet, [name for name, _ in launches], "Event")
    titles = [title.rjust(10) for title in ("Min", "Max", "Avg", "Total")]
    sheet.add("header", "  ".join(["Invocations", "Event Name".rjust(40), *titles]))
    sheet.add("device", f'Device "{DEVICE} (0)"')
    for name, count in launches:
        sheet.add("kernel", f"    Kernel: {name}")
        for event, low, high in _EVENTS:
            values = sorted(int(low + draw() * (high - low)) for _ in range(count))
            numbers = [values[0], values[-1], sum(values) // count, sum(values)]
            cells = [str(count).rjust(11), event.rjust(40), *(str(x).rjust(10) for x in numbers)]
            sheet.total("  ".join(cells), "event", calls=count)
    return sheet
