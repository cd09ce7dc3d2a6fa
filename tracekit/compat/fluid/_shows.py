"""Columns of the tables of this folder."""

from __future__ import annotations

from tracekit.units import Unit
from tracekit.views import specs
from tracekit.views.base import ColumnSpec

SHOWS = (
    specs.NAME,
    *specs.STATISTICS,
    *specs.THREADS,
    specs.SOURCE,
    specs.RUN,
    specs.SECTION,
    ColumnSpec("thread", "Thread", Unit.ID, "The number of the thread."),
    ColumnSpec("gpu_time", "GPU time", Unit.NS, "The device work of the range."),
    ColumnSpec("part", "Part", Unit.TEXT, "The part of the time: computation, framework overhead or copies."),
    ColumnSpec("key", "Key", Unit.TEXT, "The name of a line of the report's head."),
    ColumnSpec("value", "Value", Unit.TEXT, "The text of that line."),
    ColumnSpec("total", "Total (ns)", Unit.NUMBER, "The sum of the durations, in ns as printed."),
    ColumnSpec("avg", "Ave (ns)", Unit.NUMBER, "The mean duration, in ns as printed."),
    ColumnSpec("level", "Level", Unit.COUNT, "The depth of the row."),
    ColumnSpec("cpu_time", "CPU Time", Unit.NS, "The time of the range on the host."),
    ColumnSpec("cpu_ratio", "CPU Ratio", Unit.RATIO, "The host time, as a share of the total."),
    ColumnSpec("gpu_ratio", "GPU Ratio", Unit.RATIO, "The device work, as a share of the total."),
    ColumnSpec("allocs", "Alloc Calls", Unit.COUNT, "The number of allocations."),
    ColumnSpec("alloc_size", "Alloc Size (bytes)", Unit.NUMBER, "The sum of the allocated bytes."),
    ColumnSpec("frees", "Free Calls", Unit.COUNT, "The number of frees."),
    ColumnSpec("free_size", "Free Size (bytes)", Unit.NUMBER, "The sum of the freed bytes."),
)
