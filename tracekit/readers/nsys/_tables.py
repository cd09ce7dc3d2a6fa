"""Tables that `nsys stats` prints: what a header says, and rows of its cells to rows of EVENTS and TOTALS.

Units stand in the header, `Start (ns)`, in older versions `Start(nsec)`; MB are 1000000 bytes (402653184 bytes are
printed as 402.653), KiB and MiB powers of 1024. Numbers may have separators for thousands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson

from tracekit.readers.nsys._layout import boxed, split
from tracekit.readers.sqlite.cupti import call_kind, call_name
from tracekit.schema import Kind
from tracekit.units import to_ns

_UNIT = re.compile(r"^(.*?)\s*\(([A-Za-z/%µ]+)\)$")
_TIMES = {
    "ns": "ns",
    "nsec": "ns",
    "us": "us",
    "usec": "us",
    "µs": "us",
    "ms": "ms",
    "msec": "ms",
    "s": "s",
    "sec": "s",
}
_SIZES = {
    "B": 1,
    "byte": 1,
    "bytes": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}
_NUMBER = re.compile(r"-?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_COPY = re.compile(r"^\[CUDA (Unified Memory )?memcpy (?:(Unified) )?([\w-]+)\]")
_SIDE = {"Host": "H", "Device": "D", "Array": "A", "Peer": "P"}
_DEVICE = re.compile(r"^(.*?)\s*\((\d{1,9})\)$")
_HOST_CALL = re.compile(r"cu[A-Z]|cuda[A-Z]")

CALLS = ("Instances", "Num Calls", "Count", "Operations", "Calls")
NAMES = ("Name", "Operation", "Range", "Event Name", "Event")
INTEGERS = {
    "GrdX": "grid_x",
    "GrdY": "grid_y",
    "GrdZ": "grid_z",
    "BlkX": "block_x",
    "BlkY": "block_y",
    "BlkZ": "block_z",
    "Reg/Trd": "registers",
    "CorrId": "correlation",
    "CorrID": "correlation",
    "Ctx": "context",
    "Strm": "stream",
    "Pid": "pid",
    "PID": "pid",
    "Tid": "tid",
    "TID": "tid",
    "DevId": "device",
}
SIZES = {"StcSMem": "static_smem_bytes", "DymSMem": "dynamic_smem_bytes", "Bytes": "bytes"}
_SMALL = frozenset({"grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers"})
_SHAPES = {"GridXYZ": "grid", "BlockXYZ": "block"}
_DEVICE_COLUMNS = frozenset({"Device", "DevId", "Strm"})
"""Columns of traces of device work: the name of a device is empty where the export does not know it."""
_KEYS = {"SrcMemKd": "src_mem_type", "DstMemKd": "dst_mem_type", "GreenCtx": "greenContextId"}


class RowError(Exception):
    """A row that cannot be read; its text says why."""


@dataclass(frozen=True, slots=True)
class Header:
    """Columns without their units, units ("" where there is none), and what the table is: "trace", "sum" or "sizes".

    report: what the report is called whose columns these seem to be.
    """

    columns: tuple[str, ...]
    units: tuple[str, ...]
    form: str
    report: str


_SAME = {
    "Projected Start": "Start",
    "Projected Duration": "Duration",
    "Kernel Start": "Start",
    "Kernel Dur": "Duration",
    "Kernel Name": "Name",
    "Total Proj Time": "Total Time",
    "Range Instances": "Instances",
    "Proj Avg": "Avg",
    "Proj Med": "Med",
    "Proj Min": "Min",
    "Proj Max": "Max",
    "Proj StdDev": "StdDev",
    "Kern Inst": "Instances",
}
"""Columns of nvtx_gpu_proj_trace, nvtx_gpu_proj_sum, cuda_kern_exec_trace and nvtx_kern_sum under the usual names."""
_GUESS = (
    ("Total Proj Time", "nvtx_gpu_proj_sum"),
    ("Kern Inst", "nvtx_kern_sum"),
    ("Range", "nvtx_sum"),
    ("Instances", "cuda_gpu_kern_sum"),
    ("Num Calls", "api_sum"),
    ("Calls", "api_sum"),
    ("Operation", "cuda_gpu_mem_time_sum"),
)


def header_of(cells: list[str], unit: str = "") -> Header | None:
    """Return the header that these cells are, None when they are none of a table that is read.

    unit: what the title says, where times or sizes have none of their own (2019: "CUDA API Statistics (nanoseconds)").
    """
    found = [_UNIT.match(cell.strip()) for cell in cells]
    printed = tuple(m[1] if m else cell.strip() for m, cell in zip(found, cells, strict=True))
    columns = tuple(_SAME.get(name, name) for name in printed)
    if len(set(columns)) < len(columns):
        columns = printed
    units = tuple(
        m[2] if m else unit if name in ("Total Time", "Total") else "" for name, m in zip(columns, found, strict=True)
    )
    units_of = dict(zip(columns, units, strict=True))
    if len(columns) < 3 or not any(name in units_of for name in NAMES):
        return None
    report = next((name for column, name in _GUESS if column in printed), "totals")
    counts = any(name in units_of for name in CALLS)
    if units_of.get("Start") in _TIMES and units_of.get("Duration") in _TIMES:
        return Header(columns, units, "trace", report)
    if "Total Time" in units_of and units_of["Total Time"] in _TIMES and counts:
        return Header(columns, units, "sum", report)
    if units_of.get("Total") in _SIZES and not {"Name", "Operation"}.isdisjoint(columns) and counts:
        return Header(columns, units, "sizes", "cuda_gpu_mem_size_sum")
    return None


_UNREAD = (
    ("TAvg (", "cuda_kern_exec_sum"),
    ("Total HtoD Migration Size", "um_total_sum"),
    ("HtoD Migration Size", "um_sum"),
    ("CPU Instruction Address", "um_cpu_page_faults_sum"),
)


def unread(line: str) -> str:
    """Return the report whose header a line is, of those that are not read; "": it is none."""
    return next((report for column, report in _UNREAD if column in line), "") if line.count(",") < 40 else ""


def is_number(column: str) -> bool:
    """Tell whether a column of sums holds numbers."""
    return column in _STATISTICS or column in CALLS or column.replace(" ", "") == "Time(%)" or column == "Time"


def headed(line: str, unit: str = "") -> tuple[Header, str] | None:
    """Return the header that a line is, and what stands between its cells: a comma, a tab or a bar."""
    if (cells := boxed(line)) is not None:
        found = header_of(cells, unit)
        return None if found is None else (found, "|")
    for between in ",\t":
        if between in line and (found := header_of(split(line, between), unit)) is not None:
            return found, between
    return None


def work_of(header: Header) -> str:
    """Return what a trace tells of, where several reports tell of it."""
    if not _DEVICE_COLUMNS.isdisjoint(header.columns):
        return "kernels"
    return "ranges" if "RangeId" in header.columns else ""


def has_numbers(header: Header, cells: list[str]) -> bool:
    """Tell whether there are numbers where the header wants some (statistics may be empty)."""
    found = dict(zip(header.columns, (cell.strip() for cell in cells), strict=True))
    if header.form == "trace":
        return all(_NUMBER.fullmatch(found[name]) for name in ("Start", "Duration"))
    numbers = [text for name, text in found.items() if is_number(name)]
    return len(numbers) > 2 and all(_NUMBER.fullmatch(text) or not text for text in numbers) and any(numbers[1:])


def number(text: str) -> Decimal:
    """Return the number of a cell. Raises: RowError."""
    if not _NUMBER.fullmatch(text):
        raise RowError(f"{text[:30]!r} is no number")
    return Decimal(text.replace(",", ""))


def integer(text: str, limit: int = 1 << 62) -> int:
    """Return the whole number of a cell. Raises: RowError."""
    value = number(text)
    if value != value.to_integral_value() or abs(value) > limit:
        raise RowError(f"{text[:30]!r} is no whole number")
    return int(value)


def time(text: str, unit: str) -> int:
    """Return the ns of a cell. Raises: RowError."""
    try:
        return to_ns(number(text), _TIMES[unit])
    except ValueError as err:
        raise RowError(str(err)) from err


def size(text: str, unit: str) -> tuple[int, bool]:
    """Return the bytes of a cell, and whether they may be rounded. Raises: RowError."""
    value = number(text) * _SIZES.get(unit or "B", 1)
    if abs(value) >= 1 << 62:
        raise RowError("a size beyond all memories")
    return int(value.to_integral_value()), _SIZES.get(unit or "B", 1) > 1


def event(header: Header, cells: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the row of EVENTS, and facts: device name, thread name, whether sizes may be rounded. Raises: RowError."""
    units = dict(zip(header.columns, header.units, strict=True))
    row: dict[str, Any] = {"ts_ns": time(cells["Start"], units["Start"])}
    row["dur_ns"] = time(cells["Duration"], units["Duration"])
    if row["dur_ns"] < 0:
        raise RowError("it lasts less than nothing")
    facts: dict[str, Any] = {}
    args: dict[str, Any] = {}
    device = not _DEVICE_COLUMNS.isdisjoint(cells)
    for column, text in cells.items():
        if not text or column in ("Start", "Duration", "End", *NAMES):
            continue
        if column in INTEGERS and not (device and column == "TID"):
            key = INTEGERS[column]
            value = integer(text, (1 << 31) - 1 if key in _SMALL else 1 << 62)
            row[key] = None if key == "correlation" and value == 0 else value
        elif column in SIZES:
            row[SIZES[column]], rounded = size(text, units[column])
            facts["rounded"] = facts.get("rounded", False) or rounded
        elif column in _SHAPES and len(numbers := text.split()) == 3:
            shape = _SHAPES[column]
            row |= {f"{shape}_{axis}": integer(n, (1 << 31) - 1) for axis, n in zip("xyz", numbers, strict=True)}
        elif column == "Device" and (match := _DEVICE.match(text)) is not None and int(match[2]) < 1 << 31:
            row["device"], facts["device"] = int(match[2]), match[1]
        elif column == "Thread Name":
            facts["thread"] = text
        else:
            unit = f" ({units[column]})" if units[column] else ""
            args[_KEYS.get(column, column + unit)] = text
    if args.get("Result") == "0":
        del args["Result"]
    _name(row, next((cells[n] for n in NAMES if cells.get(n)), None), args, device=device)
    row["args"] = orjson.dumps(args).decode() if args else None
    return row, facts


def _name(row: dict[str, Any], name: str | None, args: dict[str, Any], *, device: bool) -> None:
    row["name"] = name
    if device:
        row["kind"], row["copy_kind"], unified = device_kind(name or "")
        if unified:
            args["unified_memory"] = True
    elif name and _HOST_CALL.match(name):
        row["kind"], row["name"] = call_kind(name), call_name(name)
        row["raw_name"] = None if row["name"] == name else name
    else:
        row["kind"] = Kind.USER_RANGE if {"Lvl", "RangeId", "Style", "NumGPUOps"} & args.keys() else Kind.OTHER


def device_kind(name: str) -> tuple[Kind, str | None, bool]:
    """Return the kind of device work of that name, which way a copy goes, and whether it is of unified memory.

    >>> device_kind("[CUDA memcpy Host-to-Device]")
    (<Kind.MEMCPY: 'memcpy'>, 'HtoD', False)
    """
    copy = _COPY.match(name)
    if copy is not None:
        sides = copy[3].split("-to-")
        kind = "to".join(_SIDE[s] for s in sides) if len(sides) == 2 and all(s in _SIDE for s in sides) else copy[3]
        return Kind.MEMCPY, kind, bool(copy[1] or copy[2])
    return (Kind.MEMSET if name.startswith("[CUDA memset") else Kind.KERNEL), None, False


def total(header: Header, cells: Mapping[str, str]) -> dict[str, Any]:
    """Return the row of TOTALS. Raises: RowError."""
    units = dict(zip(header.columns, header.units, strict=True))
    args: dict[str, Any] = {}
    name = next((cells[n] for n in NAMES if cells.get(n)), None)
    row: dict[str, Any] = {"name": name, "unit": "bytes" if header.form == "sizes" else None}
    for column, text in cells.items():
        if not text or column in NAMES:
            continue
        if column in CALLS:
            row["calls"] = integer(text)
        elif column in _STATISTICS:
            _statistic(row, args, header, column, text, units[column] or units.get("Total Time", ""))
        else:
            unit = f" ({units[column]})" if units[column] else ""
            args[_KEYS.get(column, column.removesuffix("(%)") + unit)] = text
    row["kind"] = _kind_of_total(header, name or "")
    row["args"] = orjson.dumps(args).decode() if args else None
    return row


_STATISTICS = {
    "Total Time": "total",
    "Total": "total",
    "Avg": "avg",
    "Average": "avg",
    "Med": "median",
    "Median": "median",
    "Min": "min",
    "Minimum": "min",
    "Max": "max",
    "Maximum": "max",
    "StdDev": "std",
}


def _statistic(row: dict[str, Any], args: dict[str, Any], header: Header, column: str, text: str, unit: str) -> None:
    key = _STATISTICS[column]
    if header.form == "sizes":
        factor = _SIZES.get(unit or header.units[header.columns.index("Total")], 1)
        if key == "total":
            row["bytes"] = size(text, unit)[0]
        elif key in ("min", "max", "avg"):
            row[f"value_{key}"] = float(number(text) * factor)
        else:
            args[f"{column} ({unit})" if unit else column] = text
        return
    if unit not in _TIMES:
        raise RowError(f"{unit!r} is no unit of time")
    if key in ("avg", "std"):
        row[f"{key}_ns"] = float(number(text) * 10 ** {"s": 9, "ms": 6, "us": 3, "ns": 0}[_TIMES[unit]])
        return
    row[f"{key}_ns"] = time(text, unit)
    if key == "median" and (number(text) * 10 ** {"s": 9, "ms": 6, "us": 3, "ns": 0}[_TIMES[unit]]) % 1:
        args[f"{column} ({unit})"] = text  # between two rows: half a ns has no place in the column


def _kind_of_total(header: Header, name: str) -> str | None:
    if "Range" in header.columns:
        return Kind.USER_RANGE
    if "Operation" in header.columns or name.startswith(("[CUDA mem", "[CUDA Unified")):
        return device_kind(name)[0]
    if _HOST_CALL.match(name):
        return call_kind(name)
    return Kind.KERNEL if "Instances" in header.columns else Kind.OTHER
