"""Tables that `nsys stats` prints: their headers, and cells as rows of EVENTS and TOTALS.

Units are in the header: `Start (ns)`, in older versions `Start(nsec)`. A MB is 1000000 bytes (402653184 bytes are
printed as 402.653), KiB and MiB are powers of 1024. Numbers are in the style of a locale (`printed/numbers.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import orjson

from tracekit.readers.nsys._layout import boxed, split
from tracekit.readers.printed.cells import BYTES, TIMES, RowError, integer, number, size, time
from tracekit.readers.printed.numbers import ANY_NUMBER, Style
from tracekit.readers.sqlite.cupti import call_kind, call_name
from tracekit.schema import Kind
from tracekit.units import TIME_EXPONENT

_UNIT = re.compile(r"^((?:.*\S)?)\s*\(([A-Za-z/%µ]+)\)$")
_COPY = re.compile(r"^\[CUDA (Unified Memory )?memcpy (?:(Unified) )?([\w-]+)\]")
_SIDE = {"Host": "H", "Device": "D", "Array": "A", "Peer": "P"}
_DEVICE = re.compile(r"^((?:.*\S)?)\s*\((\d{1,9})\)$")
HOST_CALL = re.compile(r"cu[A-Z]|cuda[A-Z]")

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
"""Columns of traces of device work. The name of a device is empty if the export does not know it."""
_KEYS = {"SrcMemKd": "src_mem_type", "DstMemKd": "dst_mem_type", "GreenCtx": "greenContextId"}


Row: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a table.

    columns: names without units. units: "" for none. form: "trace", "sum" or "sizes". report: the name of the report
    with such columns.
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
    """Return the header that these cells form, None when they do not belong to a table that is read.

    unit: from the title, for times and sizes without a unit of their own (2019: "CUDA API Statistics (nanoseconds)").
    """
    matches = [_UNIT.match(cell.strip()) for cell in cells]
    printed = tuple(m[1] if m else cell.strip() for m, cell in zip(matches, cells, strict=True))
    columns = tuple(_SAME.get(name, name) for name in printed)
    if len(set(columns)) < len(columns):
        columns = printed
    units = tuple(
        m[2] if m else unit if name in ("Total Time", "Total") else "" for name, m in zip(columns, matches, strict=True)
    )
    units_of = dict(zip(columns, units, strict=True))
    if len(columns) < 3 or not any(name in units_of for name in NAMES):
        return None
    report = next((name for column, name in _GUESS if column in printed), "totals")
    counts = any(name in units_of for name in CALLS)
    if units_of.get("Start") in TIMES and units_of.get("Duration") in TIMES:
        return Header(columns, units, "trace", report)
    if "Total Time" in units_of and units_of["Total Time"] in TIMES and counts:
        return Header(columns, units, "sum", report)
    if units_of.get("Total") in BYTES and not {"Name", "Operation"}.isdisjoint(columns) and counts:
        return Header(columns, units, "sizes", "cuda_gpu_mem_size_sum")
    return None


_UNREAD = (
    ("TAvg (", "cuda_kern_exec_sum"),
    ("Total HtoD Migration Size", "um_total_sum"),
    ("HtoD Migration Size", "um_sum"),
    ("CPU Instruction Address", "um_cpu_page_faults_sum"),
)


def unread(line: str) -> str:
    """Return the name of the report, not read here, that begins with this header; "" for another line."""
    if line.count(",") > 40:
        return ""
    columns = max((split(line, delimiter) for delimiter in ",\t;|"), key=len)
    if len(columns) < 3:
        columns = re.split(r"\s{2,}", line)
    for column, report in _UNREAD:
        if column in line and len(columns) > 2 and any(cell.strip(' |"').startswith(column) for cell in columns):
            return report
    return ""


def is_number(column: str) -> bool:
    """Return whether a column of sums holds numbers."""
    return column in _STATISTICS or column in CALLS or column.replace(" ", "") == "Time(%)" or column == "Time"


def headed(line: str, unit: str = "") -> tuple[Header, str] | None:
    """Return the header in a line, and the delimiter of its cells: a comma, a tab, a semicolon or a bar."""
    if (cells := boxed(line)) is not None:
        header = header_of(cells, unit)
        return None if header is None else (header, "|")
    for delimiter in ",\t;":
        if delimiter in line and (header := header_of(split(line, delimiter), unit)) is not None:
            return header, delimiter
    return None


def work_of(header: Header) -> str:
    """Return the contents of a trace, "kernels" or "ranges", if several reports may have the same; else ""."""
    if not _DEVICE_COLUMNS.isdisjoint(header.columns):
        return "kernels"
    return "ranges" if "RangeId" in header.columns else ""


def has_numbers(header: Header, cells: list[str]) -> bool:
    """Return whether the cells have numbers where the header needs them. Statistics may be empty."""
    by_column = dict(zip(header.columns, (cell.strip() for cell in cells), strict=True))
    if header.form == "trace":
        return all(ANY_NUMBER.fullmatch(by_column[name]) for name in ("Start", "Duration"))
    numbers = [text for name, text in by_column.items() if is_number(name)]
    return len(numbers) > 2 and all(ANY_NUMBER.fullmatch(text) or not text for text in numbers) and any(numbers[1:])


def number_columns(header: Header) -> dict[str, bool]:
    """Return the columns of numbers, and whether theirs are whole: counts, ids, bytes, and ns but for averages."""
    found: dict[str, bool] = {}
    for column, unit in zip(header.columns, header.units, strict=True):
        whole = TIMES.get(unit) == "ns" and column not in ("Avg", "Average", "Med", "Median", "StdDev")
        if column in CALLS or column in INTEGERS:
            found[column] = True
        elif column in SIZES:
            found[column] = BYTES.get(unit or "B", 1) == 1
        elif is_number(column) or column in ("Start", "Duration"):
            found[column] = whole
    return found


def adds_up(header: Header, rows: Sequence[Mapping[str, str]], style: Style) -> bool:
    """Return whether the sums of a table agree in a style: calls x average is the total, the shares are of 100 %."""
    if header.form == "trace":
        return True
    total, average, calls, share = (_values(header, rows, of, style) for of in (_TOTALS, _AVERAGES, CALLS, _SHARES))
    agree = (
        abs(mean * count - whole) <= 0.01 * abs(whole) + count
        for whole, mean, count in zip(total, average, calls, strict=False)
        if whole is not None and mean is not None and count is not None
    )
    return all(agree) and sum(value for value in share if value is not None) <= _MOST_PERCENT


def _values(
    header: Header, rows: Sequence[Mapping[str, str]], names: Sequence[str], style: Style
) -> list[float | None]:
    """Return the numbers of the first of these columns that the table has, None for what is not one in this style."""
    column = next((name for name in names if name in header.columns), "")
    plain = [style.plain(row.get(column, "")) for row in rows]
    return [None if text is None else float(text) for text in plain]


_TOTALS, _AVERAGES, _SHARES = ("Total Time", "Total"), ("Avg", "Average"), ("Time(%)", "Time (%)", "Time")
_MOST_PERCENT = 101
"""Shares of a table add up to 100 at most, but for rounding."""


@dataclass(slots=True)
class Event:
    """A row of EVENTS. name: as printed. columns: all other columns. device_name, thread_name: facts of the run.

    rounded: a size may be rounded in print. odd: reasons for cells that could not be read.
    """

    name: str | None
    columns: Row
    device_name: str = ""
    thread_name: str = ""
    rounded: bool = False
    odd: list[str] = field(default_factory=list)

    def add_number(self, column: str, text: str, unit: str, style: Style) -> None:
        """Add a cell of a column of integers or sizes. One that cannot be read is not known."""
        try:
            if column in SIZES:
                self.columns[SIZES[column]], rounded = size(text, unit, style)
                self.rounded |= rounded
                return
            key = INTEGERS[column]
            value = integer(text, style, (1 << 31) - 1 if key in _SMALL else 1 << 62)
            self.columns[key] = None if key == "correlation" and value == 0 else value
        except RowError as err:
            self.odd.append(f"{column}: {err}")

    def add_shape(self, column: str, text: str, style: Style) -> None:
        """Add a cell with the three dimensions of a grid or block. One that cannot be read is not known."""
        shape, numbers = _SHAPES[column], text.split()
        try:
            if len(numbers) != 3:
                raise RowError(f"{text[:30]!r} is not three numbers")
            sizes = [integer(number, style, (1 << 31) - 1) for number in numbers]
            self.columns |= {f"{shape}_{axis}": size for axis, size in zip("xyz", sizes, strict=True)}
        except RowError as err:
            self.odd.append(f"{column}: {err}")


def event(header: Header, cells: Mapping[str, str], style: Style) -> Event:
    """Return the event in a row of a trace. Raises: RowError."""
    units = dict(zip(header.columns, header.units, strict=True))
    start, duration = (time(cells[column], units[column], style) for column in ("Start", "Duration"))
    if duration < 0:
        raise RowError("the duration is negative")
    row: Row = {"ts_ns": start, "dur_ns": duration}
    out = Event(next((cells[n] for n in NAMES if cells.get(n)), None), row)
    args: dict[str, object] = {}
    device = not _DEVICE_COLUMNS.isdisjoint(cells)
    for column, text in cells.items():
        if not text or column in ("Start", "Duration", "End", *NAMES):
            continue
        if column in SIZES or (column in INTEGERS and not (device and column == "TID")):
            out.add_number(column, text, units[column], style)
        elif column in _SHAPES:
            out.add_shape(column, text, style)
        elif column == "Device" and (match := _DEVICE.match(text)) is not None and int(match[2]) < 1 << 31:
            row["device"], out.device_name = int(match[2]), match[1]
        elif column == "Thread Name":
            out.thread_name = text
        else:
            unit = f" ({units[column]})" if units[column] else ""
            args[_KEYS.get(column, column + unit)] = text
    if args.get("Result") == "0":
        del args["Result"]
    _add_kind(out, args, device=device)
    row["args"] = orjson.dumps(args).decode() if args else None
    return out


def _add_kind(out: Event, args: dict[str, object], *, device: bool) -> None:
    """Add the columns that follow from the name of an event."""
    row, name = out.columns, out.name
    if device:
        row["kind"], row["copy_kind"], unified = device_kind(name or "")
        if unified:
            args["unified_memory"] = True
    elif name and HOST_CALL.match(name):
        out.name = call_name(name)
        row |= {"kind": call_kind(name), "raw_name": None if out.name == name else name}
    else:
        row["kind"] = Kind.USER_RANGE if {"Lvl", "RangeId", "Style", "NumGPUOps"} & args.keys() else Kind.OTHER


def device_kind(name: str) -> tuple[Kind, str | None, bool]:
    """Return the kind of device work with this name, the direction of a copy, and whether it is of unified memory.

    >>> device_kind("[CUDA memcpy Host-to-Device]")
    (<Kind.MEMCPY: 'memcpy'>, 'HtoD', False)
    """
    copy = _COPY.match(name)
    if copy is not None:
        sides = copy[3].split("-to-")
        kind = "to".join(_SIDE[s] for s in sides) if len(sides) == 2 and all(s in _SIDE for s in sides) else copy[3]
        return Kind.MEMCPY, kind, bool(copy[1] or copy[2])
    return (Kind.MEMSET if name.startswith("[CUDA memset") else Kind.KERNEL), None, False


def total(header: Header, cells: Mapping[str, str], style: Style) -> tuple[str | None, Row, list[str]]:
    """Return the name as printed, the other columns of a row of TOTALS, and reasons for cells that cannot be read.

    Raises: RowError where the total itself cannot be read.
    """
    units = dict(zip(header.columns, header.units, strict=True))
    args: dict[str, object] = {}
    odd: list[str] = []
    name = next((cells[n] for n in NAMES if cells.get(n)), None)
    row: Row = {"unit": "bytes" if header.form == "sizes" else None}
    for column, text in cells.items():
        if not text or column in NAMES:
            continue
        if column in CALLS or column in _STATISTICS:
            unit = units[column] or units.get("Total Time", "")
            try:
                if column in CALLS:
                    row["calls"] = integer(text, style)
                else:
                    _add_statistic(row, args, header, column, text, unit, style)
            except RowError as err:
                if column in _TOTALS:
                    raise
                odd.append(f"{column}: {err}")
        else:
            unit = f" ({units[column]})" if units[column] else ""
            args[_KEYS.get(column, column.removesuffix("(%)") + unit)] = text
    row["kind"] = _kind_of_total(header, name or "")
    row["args"] = orjson.dumps(args).decode() if args else None
    return name, row, odd


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


def _add_statistic(
    row: Row, args: dict[str, object], header: Header, column: str, text: str, unit: str, style: Style
) -> None:
    key = _STATISTICS[column]
    if header.form == "sizes":
        factor = BYTES.get(unit or header.units[header.columns.index("Total")], 1)
        if key == "total":
            row["bytes"] = size(text, unit, style)[0]
        elif key in ("min", "max", "avg"):
            row[f"value_{key}"] = float(number(text, style) * factor)
        else:
            args[f"{column} ({unit})" if unit else column] = text
        return
    if unit not in TIMES:
        raise RowError(f"{unit!r} is not a unit of time")
    if key in ("avg", "std"):
        row[f"{key}_ns"] = float(number(text, style) * 10 ** TIME_EXPONENT[TIMES[unit]])
        return
    row[f"{key}_ns"] = time(text, unit, style)
    if key == "median" and (number(text, style) * 10 ** TIME_EXPONENT[TIMES[unit]]) % 1:
        args[f"{column} ({unit})"] = text  # the mean of two rows: the column holds no half ns


def _kind_of_total(header: Header, name: str) -> str | None:
    if "Range" in header.columns:
        return Kind.USER_RANGE
    if "Operation" in header.columns or name.startswith(("[CUDA mem", "[CUDA Unified")):
        return device_kind(name)[0]
    if HOST_CALL.match(name):
        return call_kind(name)
    return Kind.KERNEL if "Instances" in header.columns else Kind.OTHER
