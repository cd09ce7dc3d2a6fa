"""Columns of the tables of this folder."""

from __future__ import annotations

import re

from tracekit.units import Unit
from tracekit.views import specs
from tracekit.views.base import ColumnSpec

_PRINTED = (
    ("name", "Name"),
    ("overload", "Overload Name"),
    ("self_percent", "Self CPU %"),
    ("self_cpu", "Self CPU"),
    ("percent", "CPU total %"),
    ("cpu_total", "CPU total"),
    ("cpu_avg", "CPU time avg"),
    ("self_device", "Self CUDA"),
    ("self_device_percent", "Self CUDA %"),
    ("device_percent", "CUDA total %"),
    ("cuda_total", "CUDA total"),
    ("cuda_avg", "CUDA time avg"),
    ("cpu_mem", "CPU Mem"),
    ("self_cpu_mem", "Self CPU Mem"),
    ("device_mem", "CUDA Mem"),
    ("self_device_mem", "Self CUDA Mem"),
    ("number_of_calls", "# of Calls"),
    ("node", "Node ID"),
    ("shapes", "Input Shapes"),
    ("location", "Source Location"),
    ("total_flops", "Total FLOPs"),
)
_TITLES = {title: key for key, title in _PRINTED} | {
    "Self CPU total %": "self_percent",
    "Self CPU total": "self_cpu",
    "CPU time": "cpu_avg",
    "CUDA time": "cuda_avg",
    "Number of Calls": "number_of_calls",
    "Calls": "number_of_calls",
}
_CPU_OR_FLOPS = re.compile(r"CPU|FLOP")
_DEVICE = re.compile(r"(?<=Self )\w+(?= |$)|^\w+(?= (?:total|time|Mem))")


def key_of(title: str) -> str:
    """Return the key of a printed column, whatever the device is called.

    >>> key_of("Self XPU %")
    'self_device_percent'
    """
    if "FLOP" in title:
        return "total_flops"
    return _TITLES.get(title) or _TITLES.get(_DEVICE.sub("CUDA", title, count=1), "other")


SHOWS = (
    specs.NAME,
    specs.CALLS,
    specs.RUN,
    specs.SOURCE,
    specs.DEVICE_ID,
    specs.BYTES,
    specs.RATIO,
    ColumnSpec("requested", "Requested", Unit.BYTES, "The part of the bytes that the program asked for."),
    ColumnSpec("self", "CPU self", Unit.NS, "The host time that no range or call inside took."),
    ColumnSpec("total", "CPU total", Unit.NS, "The sum of the durations on the host."),
    ColumnSpec("avg", "CPU avg", Unit.NS, "The mean duration on the host, as printed."),
    ColumnSpec("self_ratio", "CPU self ratio", Unit.RATIO, "The share of the sum of the self times of the table."),
    ColumnSpec("device_self", "Device self", Unit.NS, "The device time that PyTorch gives to the row alone."),
    ColumnSpec("device_total", "Device total", Unit.NS, "The device time of the row and of all rows within it."),
    ColumnSpec("memory", "CPU memory", Unit.BYTES, "What the row itself allocated on the host, less what it freed."),
    ColumnSpec("device_memory", "Device memory", Unit.BYTES, "What the row itself allocated on the device."),
    ColumnSpec("flops", "FLOPs", Unit.COUNT, "The number of floating-point operations, where the table has it."),
    ColumnSpec("flop_rate", "FLOPs per s", Unit.COUNT, "The same divided by the time of the row: PyTorch 1.8 and 1.9."),
    *(
        ColumnSpec(key, title, Unit.TEXT, f"The column {title}, as printed.")
        for key, title in _PRINTED
        if key != "name"
    ),
    ColumnSpec("stack", "Stack", Unit.TEXT, "The frames that were printed below the row."),
    ColumnSpec("column", "Column", Unit.TEXT, "The head of a column of the printed table."),
    ColumnSpec("width", "Width", Unit.COUNT, "The number of characters of the column."),
    ColumnSpec("side", "Side", Unit.TEXT, "The alignment of the column."),
    ColumnSpec(
        "place", "Place", Unit.TEXT, "The place of a line outside of the rows: above, totals, or the ends of lines."
    ),
    ColumnSpec("line", "Line", Unit.TEXT, "A line as printed."),
)
