"""The reports of `nsys stats` as declared tables: columns, units, lines between tables, and what nsys does oddly.

Units are in the header: `Start (ns)`, in older versions `Start(nsec)`. A MB is 1000000 bytes (402653184 bytes are
printed as 402.653), KiB and MiB are powers of 1024.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tracekit.model.schema import Kind
from tracekit.model.trace import Run
from tracekit.model.units import TIME_EXPONENT
from tracekit.readers.engine.cells import (
    BYTES,
    COUNT,
    DURATION,
    ID,
    ID_OR_ZERO,
    INT32,
    KEEP,
    MEAN_TIME,
    PRINTED_TEXT,
    SIZE,
    SKIP,
    SMALL,
    TIME,
    TIMES,
    Cell,
    KeptValue,
    RowError,
    Spread,
    Value,
    integer,
    is_ns,
    number,
    printed_number,
    size,
    text_cell,
    time,
)
from tracekit.readers.engine.layout import BEFORE
from tracekit.readers.engine.spec import (
    DeclaredColumn,
    Heading,
    Learn,
    Named,
    Need,
    SkipRows,
    SumRow,
    Sums,
    TableHeader,
    TableSpec,
    TextSpec,
)
from tracekit.readers.printed.numbers import Style
from tracekit.readers.sqlite.cupti import call_kind, call_name

# --- columns ---

CALLS = ("Instances", "Num Calls", "Count", "Operations", "Calls")
NAMES = ("Name", "Operation", "Range", "Event Name", "Event")
_TOTAL, _MEAN, _SHARE = ("Total Time", "Total"), ("Avg", "Average"), ("Time(%)", "Time (%)", "Time")
_MEDIAN, _LEAST, _MOST = ("Med", "Median"), ("Min", "Minimum"), ("Max", "Maximum")
_DEVICE_COLUMNS = frozenset({"Device", "DevId", "Strm"})
"""Columns of traces of device work. The name of a device is empty if the export does not know it."""
_DEVICE = re.compile(r"^((?:.*\S)?)\s*\((\d{1,9})\)$")


def _device(text: str) -> Value | Spread:
    """Return the number in `NVIDIA A100 (1)`; the name is a fact of the run."""
    match = _DEVICE.match(text)
    return {"device": int(match[2])} if match and int(match[2]) <= INT32 else KEEP


def _axes(shape: str) -> Cell:
    """Return the declaration of three numbers in one cell, `16 4 1`."""

    def read(text: str, _unit: str, style: Style) -> Spread:
        numbers = text.split()
        if len(numbers) != 3:
            raise RowError(f"{text[:30]!r} is not three numbers")
        return {f"{shape}_{axis}": integer(one, style, INT32) for axis, one in zip("xyz", numbers, strict=True)}

    return Cell(read, number=False, figure=False)


def _name_device(run: Run, source: int, ids: tuple[int, ...], text: str) -> None:
    match = _DEVICE.match(text)
    if match and match[1] and int(match[2]) == ids[0]:
        run.devices.setdefault((source, ids[0]), match[1])


def _name_thread(run: Run, source: int, ids: tuple[int, ...], text: str) -> None:
    pid, tid = ids
    run.threads.setdefault((source, pid, tid), text)


_IDS = (
    *(
        DeclaredColumn((f"{words}{axis.upper()}",), SMALL, f"{shape}_{axis}")
        for words, shape in (("Grd", "grid"), ("Blk", "block"))
        for axis in "xyz"
    ),
    DeclaredColumn(("Reg/Trd",), SMALL, "registers"),
    DeclaredColumn(("CorrId", "CorrID"), ID_OR_ZERO, "correlation"),
    DeclaredColumn(("Ctx",), ID, "context"),
    DeclaredColumn(("Strm",), ID, "stream"),
    DeclaredColumn(("Pid", "PID"), ID, "pid"),
    DeclaredColumn(("Tid",), ID, "tid"),
    # On a device TID is no thread of the host.
    DeclaredColumn(("TID",), ID, "tid", unless=_DEVICE_COLUMNS),
    DeclaredColumn(("TID",), printed_number(whole=lambda _: True)),
    DeclaredColumn(("DevId",), ID, "device"),
)
_SIZES = (
    DeclaredColumn(("StcSMem",), SIZE, "static_smem_bytes"),
    DeclaredColumn(("DymSMem",), SIZE, "dynamic_smem_bytes"),
    DeclaredColumn(("Bytes",), SIZE, "bytes"),
)
_KEPT = (
    DeclaredColumn(("SrcMemKd",), PRINTED_TEXT, key="src_mem_type"),
    DeclaredColumn(("DstMemKd",), PRINTED_TEXT, key="dst_mem_type"),
    DeclaredColumn(("GreenCtx",), PRINTED_TEXT, key="greenContextId"),
)


def _also_printed(columns: tuple[DeclaredColumn, ...]) -> tuple[DeclaredColumn, ...]:
    """Return columns of traces as they are in a table of sums: numbers without a place there."""
    return tuple(DeclaredColumn(c.names, printed_number(whole=c.cell.whole, figure=False), key=c.key) for c in columns)


# --- what follows from a name ---

_COPY = re.compile(r"^\[CUDA (Unified Memory )?memcpy (?:(Unified) )?([\w-]+)\]")
_SIDE = {"Host": "H", "Device": "D", "Array": "A", "Peer": "P"}
HOST_CALL = re.compile(r"cu[A-Z]|cuda[A-Z]")


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


def _event(header: TableHeader, name: str, is_range: bool) -> Named:
    if not _DEVICE_COLUMNS.isdisjoint(header.columns):
        kind, way, unified = device_kind(name)
        return Named({"kind": kind, "copy_kind": way}, {"unified_memory": True} if unified else {})
    if HOST_CALL.match(name):
        plain = call_name(name)
        return Named({"name": plain, "kind": call_kind(name), "raw_name": None if plain == name else name})
    return Named({"kind": Kind.USER_RANGE if is_range else Kind.OTHER})


def _total(header: TableHeader, name: str, _: bool) -> Named:
    kind: str
    if "Range" in header.columns:
        kind = Kind.USER_RANGE
    elif "Operation" in header.columns or name.startswith(("[CUDA mem", "[CUDA Unified")):
        kind = device_kind(name)[0]
    elif HOST_CALL.match(name):
        kind = call_kind(name)
    else:
        kind = Kind.KERNEL if "Instances" in header.columns else Kind.OTHER
    return Named({"kind": kind, "unit": "bytes" if header.form == "sizes" else None})


# --- oddities of sums ---

_MIXED = (
    "tables of several processes are mixed line by line: their names show which rows are calls and kernels "
    "(mpirun --tag-output keeps the ranks apart)"
)
_KERNEL = re.compile(r"^void |[<(]|::")
_ROUNDED = ("sizes-rounded", "sizes are printed in large units with few decimals: they are as exact as printed")


def _other_table(header: TableHeader, section: str, name: str) -> tuple[str, Kind] | None:
    """Return section and kind of a row that is not of its table: a call among kernels, or a kernel among calls."""
    if header.form != "sum" or {"Range", "Operation"} & set(header.columns):
        return None
    is_call = bool(HOST_CALL.match(name)) and "(" not in name
    if "Instances" in header.columns and is_call:
        return "cuda_api_sum", call_kind(name)
    of_calls = not {"Num Calls", "Calls"}.isdisjoint(header.columns) and "api" in section
    return ("cuda_gpu_kern_sum", Kind.KERNEL) if of_calls and _KERNEL.search(name) else None


def _finish(row: SumRow, note: Callable[[str, str], None]) -> None:
    """Put a row of another process into its table, and note what the columns cannot hold."""
    if (other := _other_table(row.header, row.section, row.name or "")) is not None:
        row.section, row.columns["kind"] = other
        note("tables-mixed", _MIXED)
    if (row.name or "").endswith("…"):
        note("names-cut", "names that end in … were cut in print: several may look the same")
    if row.header.form == "sizes":
        note(*_ROUNDED)


def _median(text: str, unit: str, style: Style) -> Value | Spread:
    """Return the median. The mean of two rows may have half a ns, which the column cannot hold: `args` keeps it."""
    value = time(text, unit, style)
    half = (number(text, style) * 10 ** TIME_EXPONENT[TIMES[unit]]) % 1
    return KeptValue({"median_ns": value}) if half else {"median_ns": value}


def _scaled(text: str, unit: str, style: Style) -> float:
    return float(number(text, style) * BYTES.get(unit, 1))


# --- tables ---

_CALLS = DeclaredColumn(CALLS, COUNT, "calls")
_SUMS = Sums(_TOTAL, _MEAN, CALLS, _SHARE)
_PERCENT = DeclaredColumn(_SHARE, printed_number())


def _times(names: tuple[str, ...], cell: Cell, to: str = "", *, vital: bool = False) -> DeclaredColumn:
    return DeclaredColumn(names, cell, to, unit_of="Total Time", vital=vital)


def _sizes(names: tuple[str, ...], cell: Cell, to: str = "", *, vital: bool = False) -> DeclaredColumn:
    return DeclaredColumn(names, cell, to, unit_of="Total", vital=vital)


TRACE = TableSpec(
    form="trace",
    makes="events",
    needs=(Need(("Start",), frozenset(TIMES)), Need(("Duration",), frozenset(TIMES))),
    names=NAMES,
    columns=(
        DeclaredColumn(("Start",), TIME, "ts_ns", must=True),
        DeclaredColumn(("Duration",), DURATION, "dur_ns", must=True),
        DeclaredColumn(("End",), SKIP),
        *_IDS,
        *_SIZES,
        *_KEPT,
        DeclaredColumn(("GridXYZ",), _axes("grid")),
        DeclaredColumn(("BlockXYZ",), _axes("block")),
        DeclaredColumn(("Device",), text_cell(_device)),
        DeclaredColumn(("Thread Name",), SKIP),
        DeclaredColumn(("Result",), text_cell(lambda text: None if text == "0" else KEEP)),
        DeclaredColumn(CALLS, printed_number(whole=lambda _: True)),
        DeclaredColumn((*_TOTAL, *_LEAST, *_MOST), printed_number(whole=is_ns)),
        DeclaredColumn((*_MEAN, *_MEDIAN, "StdDev", *_SHARE), printed_number()),
    ),
    by_name=_event,
    looks_at=frozenset({"Lvl", "RangeId", "Style", "NumGPUOps"}),
    learns=(Learn(("device",), "Device", _name_device), Learn(("pid", "tid"), "Thread Name", _name_thread)),
    skips=SkipRows("Orig Start", "Start", "range without work of a device"),
    rounded=_ROUNDED,
)
SUM = TableSpec(
    form="sum",
    makes="totals",
    needs=(Need(NAMES), Need(("Total Time",), frozenset(TIMES)), Need(CALLS)),
    names=NAMES,
    columns=(
        _CALLS,
        _times(_TOTAL, TIME, "total_ns", vital=True),
        _times(_MEAN, MEAN_TIME, "avg_ns"),
        _times(_MEDIAN, Cell(_median)),
        _times(_LEAST, TIME, "min_ns"),
        _times(_MOST, TIME, "max_ns"),
        _times(("StdDev",), MEAN_TIME, "std_ns"),
        _PERCENT,
        *_KEPT,
        *_also_printed(_IDS + _SIZES),
    ),
    by_name=_total,
    sums=_SUMS,
    finish=_finish,
)
SIZE_SUM = TableSpec(
    form="sizes",
    makes="totals",
    needs=(Need(("Total",), frozenset(BYTES)), Need(("Name", "Operation")), Need(CALLS)),
    names=NAMES,
    columns=(
        _CALLS,
        _sizes(("Total",), Cell(size), "bytes", vital=True),
        _sizes(_MEAN, Cell(_scaled), "value_avg"),
        _sizes(_LEAST, Cell(_scaled), "value_min"),
        _sizes(_MOST, Cell(_scaled), "value_max"),
        DeclaredColumn((*_MEDIAN, "StdDev", "Total Time"), printed_number()),
        _PERCENT,
        *_KEPT,
        *_also_printed(_IDS + _SIZES),
    ),
    by_name=_total,
    sums=_SUMS,
    finish=_finish,
)

# --- lines between tables ---

REPORT = re.compile(
    BEFORE
    + r"(?:\*\* .*\((\w+)(?::[^()]*)?\):\s*$|Processing \[[^\]]*\] with \[(?:.*[/\\])?(\w+?)(?:\.py)?(?::[^\]/\\]*)?\]"
    r"|\[\d+/\d+\] Executing '(\w+)(?::[^']*)?' stats report"
    r"|(?:Running|Exporting) \[(?:[^\]]*[/\\])?(\w+?)(?:\.py)?(?: [^\]]*)?\](?:\.\.\.| to ).*)"
)
EMPTY = re.compile(BEFORE + r"\"?(?:SKIPPED: )?\S.* (?:does not|could not|doesn't) contain .*\bdata\b\.?\"?\s*$")
"""A report that has no rows: `SKIPPED: run.sqlite does not contain CUDA kernel data.`, before 2022 without the word."""
MESSAGE = re.compile(
    BEFORE
    + r"(?:Generating |Generated|NOTICE|SKIPPED|WARNING|ERROR|Exporting |Exported |Processed |Processing \[|Using "
    r"|\[\d+/\d+\] |```|\.{3,}\s*$)"
)
_TITLE = re.compile(
    BEFORE + r"((?:CUDA|NVTX|Operating System|OpenGL|OpenACC|OpenMP|Vulkan|DX1[12])\b[\w &/-]*? Statistics)"
    r"(?: \((?:by )?(?:(time|size)(?: in )?)?(nanoseconds|bytes|[KMG]i?B)?\))?:?\s*$"
)
_TITLES = {
    "CUDA API Statistics": "cudaapisum",
    "CUDA Kernel Statistics": "gpukernsum",
    "CUDA Memory Operation Statistics": "gpumemtimesum",
    "CUDA Kernel & Memory Operation Statistics": "gpusum",
    "Operating System Runtime API Statistics": "osrtsum",
    "NVTX Push-Pop Range Statistics": "nvtxppsum",
    "NVTX Start-End Range Statistics": "nvtxsesum",
    "NVTX Range Statistics": "nvtxsum",
}
_UNITS = {"nanoseconds": "ns", "bytes": "B"}
LONGEST_MESSAGE = 1000


def _is_empty(line: str) -> bool:
    return " contain " in line and len(line) < LONGEST_MESSAGE and EMPTY.match(line) is not None


def heading(line: str) -> Heading | None:
    """Return what a line says about the report below it, None for another line.

    Versions that print no names of reports print titles, which are weak headings.

    >>> heading("CUDA Memory Operation Statistics (by size in KiB):")
    Heading(name='gpumemsizesum', unit='KiB', weak=True, empty=False)
    """
    if (named := REPORT.match(line)) is not None:
        return Heading(next(group for group in named.groups() if group), empty=_is_empty(line))
    if "Statistics" not in line or (match := _TITLE.match(line)) is None:
        return None
    unit = _UNITS.get(match[3], match[3]) or ""
    name = _TITLES.get(match[1], match[1])
    if name == "gpumemtimesum" and (match[2] == "size" or unit not in ("", "ns")):
        name = "gpumemsizesum"
    return Heading(name, unit, weak=True)


_SECTIONS = (
    (("Num Calls", "Calls"), ("kern", "mem", "nvtx", "gpu")),
    (("Operation", "Operations"), ("api", "osrt", "kern", "nvtx")),
    (("Instances",), ("api", "osrt", "mem")),
)
"""Columns of tables, and words that the name of a report with such columns does not have."""
_REPORT_WITH = (
    ("Total Proj Time", "nvtx_gpu_proj_sum"),
    ("Kern Inst", "nvtx_kern_sum"),
    ("Range", "nvtx_sum"),
    ("Instances", "cuda_gpu_kern_sum"),
    ("Num Calls", "api_sum"),
    ("Calls", "api_sum"),
    ("Operation", "cuda_gpu_mem_time_sum"),
)
"""A column, and the report that has such a column."""


def _section(header: TableHeader, named: str) -> str:
    """Return the section of a table below a line that names a report; another process may have printed that line."""
    if header.form == "sizes":
        by_columns = "cuda_gpu_mem_size_sum"
    else:
        by_columns = next((report for column, report in _REPORT_WITH if column in header.printed), "totals")
    for columns, words in _SECTIONS:
        if not set(columns).isdisjoint(header.columns):
            return by_columns if any(word in named for word in words) else named or by_columns
    return named or by_columns


def _same_events(header: TableHeader) -> str:
    """Return the contents of a trace if several reports may have the same."""
    if header.form != "trace":
        return ""
    if not _DEVICE_COLUMNS.isdisjoint(header.columns):
        return "kernels"
    return "ranges" if "RangeId" in header.columns else ""


NSYS = TextSpec(
    reader="nsys-stats-csv",
    tool="nsys stats",
    tables=(TRACE, SUM, SIZE_SUM),
    # Columns of nvtx_gpu_proj_trace, nvtx_gpu_proj_sum, cuda_kern_exec_trace and nvtx_kern_sum under the usual names.
    same={
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
    },
    # 2019: "CUDA API Statistics (nanoseconds)" above columns without units.
    title_units=_TOTAL,
    delimiters=",\t;",
    header_words=("Start", "Total"),
    heading=heading,
    section=_section,
    unread=(
        ("TAvg (", "cuda_kern_exec_sum"),
        ("Total HtoD Migration Size", "um_total_sum"),
        ("HtoD Migration Size", "um_sum"),
        ("CPU Instruction Address", "um_cpu_page_faults_sum"),
    ),
    unread_columns=frozenset({"Operation"}),
    message=MESSAGE,
    empty=_is_empty,
    lost=re.compile(r"^\s*\d{1,3}[.,]\d\s+[\d,.]+\s+[\d,.]+\s+[\d,.]+\s"),
    same_events=_same_events,
    unread_why="it has neither Start and Duration nor Total Time of each name",
)
