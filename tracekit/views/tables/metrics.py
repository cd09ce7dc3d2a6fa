"""metrics: what a profiler counted for each kernel: hardware metrics and events, from TOTALS (nvprof, ncu).

min, max, avg are over the calls of the kernel, as the file has them; rows of single calls (nvprof with both
--print-gpu-trace and --metrics) are merged, the mean weighted by calls. A value that is not a number is in `text`, and
so is the word of a level ("Mid (5)"). Units are the file's own.

Where Nsight Compute has them, a table before it has for each kernel the achieved occupancy and the throughput against
the peak of the device, as means over its launches.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from math import isfinite

import numpy as np

from tracekit.analysis.efficiency.devices import RatedDevice, find_device
from tracekit.index.device_peaks import device_of
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import TraceIndex, join
from tracekit.model.report import Cell, Column, Picture, ReportTable, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.tables import roofline
from tracekit.views.tables.measured_roofs import measured_roofs
from tracekit.views.totals import TotalsRow, fields, in_file_order, totals_rows, with_all

__all__ = ["OF_THE_RUN", "VIEW", "measured_kernels"]

_TITLE = "Metrics"
_SECTIONS = frozenset({"metrics", "events"})
_KERNEL = ("source", "rank", "run", "device", "name")
OF_THE_RUN = "Part"
"""The title of the names where metrics are of the run as a whole."""
_APART = ("source", "rank", "run", "section", "device", "name", "metric", "unit")


class MetricRow(TotalsRow):
    """A row of TOTALS with the name of what was counted."""

    metric: str


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the table of metrics, in the order of the file. Raises: UsageError for an unknown key of --sort."""
    rows = _counted(index)
    if not rows:
        needs = "needs metrics, as nvprof --metrics and ncu write them; this trace has none"
        return Section(VIEW.name, _TITLE, notes=(needs, *tabulate.option_notes(options)))
    labels = source_labels(index)
    optional = [
        _SHOWN["text"].column([row["value_text"] for row in rows], 1),
        Column("section", "Section", Unit.TEXT, [row["section"] for row in rows], 5),
        *_places(rows, labels),
    ]
    columns = [
        _named(rows),
        _SHOWN["metric"].column([row["metric"] for row in rows]),
        Column("calls", "Calls", Unit.COUNT, [row["calls"] for row in rows], 3),
        _SHOWN["min"].column([row["value_min"] for row in rows], 2),
        _SHOWN["max"].column([row["value_max"] for row in rows], 2),
        _SHOWN["avg"].column([row["value_avg"] for row in rows]),
        _SHOWN["unit"].column([row["unit"] for row in rows], 1),
        *(c for c in optional if len(set(c.values)) > 1 or (c.name == "text" and c.values[0] is not None)),
    ]
    # The place in the file is a block of its own for each row: ties by name must not tear a kernel's metrics apart.
    places: list[tuple[Cell, ...]] = [(place,) for place in range(len(rows))]
    table = tabulate.finish("metrics", _TITLE, columns, options, own_order="", blocks=places, top_each=False)
    peaks = _against_peak(rows, labels, options)
    measured = _measured(index, rows)
    kernels = roofline.kernels_of(measured)
    roofs = [_kernel_table("roofline", "Roofline", roofline.columns_of(kernels), options)] if kernels else []
    tables = (*peaks, *roofs, table)
    notes = tuple(tabulate.option_notes(options, table))
    return Section(VIEW.name, _TITLE, tables, (_roofline(kernels, measured),) if peaks else (), notes)


def _named(rows: list[MetricRow]) -> Column:
    """Return the names of what was measured: kernels, unless a table has the parts of steps, or of the whole run."""
    column = _SHOWN["name"].column([row["name"] for row in rows])
    if all(row["kind"] == Kind.STEP for row in rows):
        return replace(column, title="Step")
    return replace(column, title=OF_THE_RUN) if {row["name"] for row in rows} == {"the run"} else column


def measured_kernels(index: TraceIndex) -> list[roofline.MeasuredKernel]:
    """Return the kernels that the profiler counted metrics of, in the order of the file."""
    return _measured(index, _counted(index))


def _measured(index: TraceIndex, rows: list[MetricRow]) -> list[roofline.MeasuredKernel]:
    """Return each kernel with its calls, its device, and the means of its metrics."""
    kernels: dict[tuple[Cell, ...], roofline.MeasuredKernel] = {}
    for row in rows:
        value = row["value_avg"]
        if value is not None and isfinite(value):
            kernel = fields(row, _KERNEL)
            if kernel not in kernels:
                name, calls, device = str(row["name"]), row["calls"] or 1, _device(index, row)
                kernels[kernel] = roofline.MeasuredKernel(name, calls, {}, device)
                if (mean_ns := _launch_time(index, row)) is not None:
                    kernels[kernel].metrics["Duration"] = mean_ns
            kernels[kernel].metrics.setdefault(row["metric"], value)
    return list(kernels.values())


def _launch_time(index: TraceIndex, row: MetricRow) -> float | None:
    """Return the mean duration of the launches that were counted, where the same table has their times."""
    if index.run.sources[row["source"]].facts.get("tool") != "rocprof-compute":
        return None
    return _launch_times(index).get((row["source"], row["device"], str(row["name"])))


@join
def _launch_times(index: TraceIndex) -> dict[tuple[int, int | None, str], float]:
    """Return the mean duration of kernels by input, device and name; none for a view that does not read events."""
    if not set(index.events.schema.names) >= {"source", "kind", "device", "name", "dur_ns"}:
        return {}
    rows = np.flatnonzero(index.kind_mask({Kind.KERNEL}) & index.has("dur_ns"))
    codes, texts = index.texts("name")
    device = np.where(index.has("device")[rows], index.ints("device")[rows], -1)
    keys = np.column_stack((index.ints("source")[rows], device, codes[rows]))
    distinct, place, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    total = np.bincount(place.reshape(-1), index.ints("dur_ns")[rows], len(distinct))
    return {
        (source, number if number >= 0 else None, texts[code]): ns / calls
        for (source, number, code), ns, calls in zip(distinct.tolist(), total.tolist(), count.tolist(), strict=True)
        if code >= 0
    }


def _device(index: TraceIndex, row: MetricRow) -> RatedDevice:
    """Return the device of a row: by the attributes that the file has of it, else by its name."""
    source, number = row["source"], row["device"]
    if source in (measured := measured_roofs(index)):
        return measured[source]
    attributes = index.run.sources[source].facts.get("device_attributes")
    found = attributes.get(str(number), attributes.get(number)) if isinstance(attributes, dict) else None
    if not isinstance(found, dict):
        return device_of(index, source, number)
    units = found.get("multiprocessor_count")
    major, minor = (found.get(f"compute_capability_{each}") for each in ("major", "minor"))
    return find_device(
        str(found.get("display_name", "")),
        units=int(units) if isinstance(units, (int, str)) and str(units).isdecimal() else 0,
        arch=f"{major}.{minor}" if major is not None and minor is not None else "",
    )


def _roofline(kernels: list[roofline.RooflineKernel], measured: list[roofline.MeasuredKernel]) -> Picture:
    """Return the picture of a roofline, or why there is none."""
    if not kernels:
        return Picture("roofline", "Roofline", "", (), remark=roofline.why_not(measured))
    values, names = ("time", "intensity", "rate", "peak_flops", "peak_bytes"), ("name", "precision")
    return Picture("roofline", "Roofline", "metrics.roofline", values, names, remark=roofline.roofs_from(kernels))


def _places(rows: list[MetricRow], labels: dict[int, str]) -> list[Column]:
    """Return the columns of where a row is from, which are shown where rows differ in them."""
    return [
        Column("device", "Device", Unit.ID, [row["device"] for row in rows], 5, "place"),
        Column("rank", "Rank", Unit.ID, [row["rank"] for row in rows], 2, "place"),
        Column("run", "Run", Unit.ID, [row["run"] for row in rows], 0, "place"),
        Column("source", "Source", Unit.TEXT, [source_label(labels, row["source"]) for row in rows], 2, "place"),
    ]


def _against_peak(rows: list[MetricRow], labels: dict[int, str], options: ViewOptions) -> list[ReportTable]:
    """Return the table of kernels with their shares of the peak; none where no kernel has one."""
    firsts: dict[tuple[Cell, ...], MetricRow] = {}
    shares: dict[tuple[Cell, ...], dict[str, float]] = {}
    for row in rows:
        key = _SHARES.get(row["metric"])
        if key is not None and row["unit"] == "%" and row["value_avg"] is not None:
            kernel = fields(row, _KERNEL)
            firsts.setdefault(kernel, row)
            shares.setdefault(kernel, {}).setdefault(key, _part(row["value_avg"]))
    if not firsts:
        return []
    columns = [
        _SHOWN["name"].column([row["name"] for row in firsts.values()]),
        Column("calls", "Calls", Unit.COUNT, [row["calls"] for row in firsts.values()], 3),
        *(_SHOWN[key].column([found.get(key) for found in shares.values()]) for key in dict.fromkeys(_SHARES.values())),
        *(column for column in _places(list(firsts.values()), labels) if len(set(column.values)) > 1),
    ]
    return [_kernel_table("peak", "Against the peak of the device", columns, options)]


def _kernel_table(name: str, title: str, columns: list[Column], options: ViewOptions) -> ReportTable:
    """Return a table with a row for each kernel, in the order of the file."""
    blocks: list[tuple[Cell, ...]] = [(place,) for place in range(len(columns[0].values))]
    return tabulate.finish(name, title, columns, options, own_order="", blocks=blocks, top_each=False)


def _counted(index: TraceIndex) -> list[MetricRow]:
    """Return the counted rows in the order of the file; rows with the same names are merged."""
    merged: dict[tuple[Cell, ...], list[MetricRow]] = {}
    for row in in_file_order(totals_rows(index)):
        metric = _metric(row)
        if row["total_ns"] is None and metric is not None:
            counted: MetricRow = {**row, "metric": metric}
            merged.setdefault(fields(counted, _APART), []).append(counted)
    return [rows[0] if len(rows) == 1 else _merged(rows) for rows in merged.values()]


def _merged(rows: list[MetricRow]) -> MetricRow:
    out = rows[0].copy()
    out["value_min"] = with_all(min, [row["value_min"] for row in rows])
    out["value_max"] = with_all(max, [row["value_max"] for row in rows])
    out["calls"] = with_all(sum, [row["calls"] for row in rows])
    out["value_avg"] = _mean([(row["calls"], row["value_avg"]) for row in rows])
    texts = {row["value_text"] for row in rows}
    out["value_text"] = texts.pop() if len(texts) == 1 else None
    return out


def _mean(parts: list[tuple[int | None, float | None]]) -> float | None:
    """Return the mean of means, each of so many calls; None where one is unknown.

    The sum is of the decimals that were printed: a sum of doubles would show digits that nobody measured.

    >>> _mean([(1, 0.1), (1, 0.2)])
    0.15
    """
    known = [(calls, mean) for calls, mean in parts if calls is not None and mean is not None]
    count = sum(calls for calls, _ in known)
    if len(known) < len(parts) or not count:
        return None
    if not all(isfinite(mean) for _, mean in known):
        return sum(calls * mean for calls, mean in known) / count
    return float(sum(calls * Decimal(repr(mean)) for calls, mean in known) / count)


def _part(percent: float) -> float:
    """Return a percentage as a part of 1, with the digits that were printed."""
    return float(Decimal(repr(percent)).scaleb(-2))


def _metric(row: TotalsRow) -> str | None:
    """Return what was counted: its name in `args`, else the section's of a table of metrics; None for other rows."""
    for key in ("metric", "event"):
        found = row["args"].get(key)
        if isinstance(found, str):
            return found
    return row["section"] if row["section"] in _SECTIONS else None


_SHARES = {
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy",
    "Achieved Occupancy": "occupancy",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "compute",
    "Compute (SM) Throughput": "compute",
    "SM [%]": "compute",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "memory",
    "Memory Throughput": "memory",
    "Memory [%]": "memory",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "dram",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram",
    "DRAM Throughput": "dram",
}
"""Metrics of Nsight Compute in percent of what the device can do, and the columns for them."""

_SHOWS = (
    specs.CALLS,
    *specs.PLACED,
    ViewColumn("name", "Kernel", Unit.TEXT, "The full name of the kernel."),
    ViewColumn("metric", "Metric", Unit.TEXT, "The name of the metric or event."),
    ViewColumn("min", "Min", Unit.NUMBER, "The smallest value of a call."),
    ViewColumn("max", "Max", Unit.NUMBER, "The largest value of a call."),
    ViewColumn("avg", "Avg", Unit.NUMBER, "The mean over the calls."),
    ViewColumn("unit", "Unit", Unit.TEXT, "The unit of the file."),
    ViewColumn("occupancy", "Occupancy", Unit.RATIO, "The achieved occupancy: active warps of the most that fit."),
    ViewColumn("compute", "Compute", Unit.RATIO, "The throughput of the SMs, of the peak."),
    ViewColumn("memory", "Memory", Unit.RATIO, "The throughput of caches and memory, of the peak."),
    ViewColumn("dram", "DRAM", Unit.RATIO, "The throughput of the device memory, of the peak."),
    ViewColumn("precision", "Precision", Unit.TEXT, "The precision of the operations."),
    ViewColumn("time", "Time", Unit.NS, "The time of all launches, one by one as ncu runs them."),
    ViewColumn("flops", "FLOPs", Unit.NUMBER, "The floating-point operations of a launch, without tensor cores."),
    ViewColumn("moved", "DRAM bytes", Unit.BYTES, "The bytes that a launch moved from and to the device memory."),
    ViewColumn("intensity", "FLOP/byte", Unit.NUMBER, "FLOPs for each byte that was moved."),
    ViewColumn("rate", "FLOP/s", Unit.NUMBER, "FLOPs of a launch, divided by its time."),
    ViewColumn("peak_flops", "Peak FLOP/s", Unit.NUMBER, "The FLOP/s that the device can sustain at this clock."),
    ViewColumn("peak_bytes", "Peak DRAM", Unit.BYTES_PER_S, "The bytes/s that the device memory can sustain."),
    ViewColumn("text", "As printed", Unit.TEXT, "The value as printed, where it is not a number."),
)
_SHOWN = specs.by_key(_SHOWS)

_UNITS = {
    "compute": "compute",
    "memory": "memory",
    "l1": "L1",
    "l2": "L2",
    "dram": "DRAM",
}
_SPEED_OF_LIGHT = (
    *((metric, _UNITS[key]) for metric, key in _SHARES.items() if key in _UNITS),
    ("l1tex__throughput.avg.pct_of_peak_sustained_active", "L1"),
    ("L1/TEX Cache Throughput", "L1"),
    ("lts__throughput.avg.pct_of_peak_sustained_elapsed", "L2"),
    ("L2 Cache Throughput", "L2"),
)
"""Metrics in percent of the peak, and the unit of the device that each is of."""

VIEW = View(
    name="metrics",
    title=_TITLE,
    columns=frozenset(),
    kinds=frozenset(),
    compute=compute,
    shows=_SHOWS,
    pictures=(
        Picture(
            "grouped",
            "Speed of light: throughput against the peak of the device",
            "metrics.metrics",
            ("avg",),
            ("name", "rank", "run", "source"),
            by="metric",
            only=_SPEED_OF_LIGHT,
        ),
    ),
)
