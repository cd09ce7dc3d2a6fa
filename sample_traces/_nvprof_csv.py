"""nvprof's tables with --csv, laid out as in real files; see README.md."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from _model import API, COMMAND, DEVICE, KERNEL, MEMCPY, MEMSET, PID, UNIFIED, Event, api_calls, launched
from _sheet import Sheet, fixed

_BYTES = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
LAUNCH = [
    "Grid X",
    "Grid Y",
    "Grid Z",
    "Block X",
    "Block Y",
    "Block Z",
    "Registers Per Thread",
    "Static SMem",
    "Dynamic SMem",
]
MEMORY = ["SrcMemType", "DstMemType"]
PLACE = ["Device", "Context", "Stream"]
MANAGED = ["Unified Memory", "Virtual Address"]
PEERS = ["Src Dev", "Src Ctx", "Dst Dev", "Dst Ctx"]
_BASE = ["Start", "Duration", *LAUNCH, "Size", "Throughput"]
COLUMNS_17 = [*_BASE, *PLACE, "Name"]
COLUMNS_20 = [*_BASE, *MEMORY, *PLACE, "Name", "Correlation_ID"]
COLUMNS_22 = [*_BASE, *MEMORY, *PLACE, *MANAGED, "Name", "Correlation_ID"]
COLUMNS_PEERS = [*_BASE, *MEMORY, *PLACE, *PEERS, "Name", "Correlation_ID"]


@dataclass(frozen=True, slots=True)
class Units:
    """The unit row: nvprof chooses each for itself."""

    start: str = "ms"
    duration: str = "us"
    static: str = "KB"
    dynamic: str = "B"
    size: str = "KB"
    throughput: str = "GB/s"

    def row(self, columns: Sequence[str]) -> str:
        known = {
            "Start": self.start,
            "Duration": self.duration,
            "Static SMem": self.static,
            "Dynamic SMem": self.dynamic,
            "Size": self.size,
            "Throughput": self.throughput,
            "Virtual Address": "B",
        }
        return ",".join(known.get(column, "") for column in columns)


def header(columns: Sequence[str]) -> str:
    return ",".join(f'"{column}"' for column in columns)


def preamble(sheet: Sheet, *, pid: int = PID, before: Sequence[str] = (), after: Sequence[str] = ()) -> None:
    """The lines above a table; before: what the program and nvprof say while it runs; after: then."""
    sheet.add("preamble", f"=={pid}== NVPROF is profiling process {pid}, command: {COMMAND}")
    for line in before:
        sheet.add("preamble" if line.startswith("==") else "output", line)
    sheet.add("preamble", f"=={pid}== Profiling application: {COMMAND}")
    for line in after:
        sheet.add("preamble" if line.startswith("==") else "output", line)
    sheet.add("preamble", f"=={pid}== Profiling result:")


def _plain(value: float) -> str:
    return f"{value:.6f}"


def _scientific(value: float) -> str:
    """Some releases of nvprof write what is below a hundredth with an exponent."""
    return f"{value:.6e}" if 0 < value < 0.01 else f"{value:.6f}"


def _amount(size: int, unit: str, number: Callable[[float], str]) -> str:
    return str(size) if unit == "B" else number(size / _BYTES[unit])


def _quoted(value: object) -> str:
    return "" if value in (None, "") else f'"{value}"'


def _cells(event: Event, units: Units, suffix: bool, number: Callable[[float], str]) -> dict[str, str]:
    """The cells of an event by column; a column that is not here is empty."""
    name = event.name
    if suffix and event.kind == KERNEL:
        name = f"{name} [{event.correlation}]"
    cells = {"Name": _quoted(name), "Correlation_ID": "" if event.correlation is None else str(event.correlation)}
    if event.kernel is not None and event.grid is not None:
        numbers = (*event.grid, *event.kernel.block, event.kernel.registers)
        cells |= dict(zip(LAUNCH, map(str, numbers), strict=False))
        cells["Static SMem"] = _amount(event.kernel.static_smem, units.static, number)
        cells["Dynamic SMem"] = _amount(event.kernel.dynamic_smem, units.dynamic, number)
    if event.bytes is not None and event.dur:
        cells["Size"] = _amount(event.bytes, units.size, number)
        cells["Throughput"] = number(event.bytes * 1e9 / event.dur / _BYTES[units.throughput.removesuffix("/s")])
    cells |= {"SrcMemType": _quoted(event.source_memory), "DstMemType": _quoted(event.target_memory)}
    if event.device is not None:
        cells["Device"] = f'"{DEVICE} ({event.device})"'
    cells |= {"Context": _quoted(event.context), "Stream": _quoted(event.stream)}
    if event.kind == UNIFIED:
        cells |= {"Unified Memory": _quoted(event.unified), "Virtual Address": f'"0x{event.address:x}"'}
    if event.peer is not None:
        values = (f"{DEVICE} ({event.peer[0]})", event.peer[1], f"{DEVICE} ({event.peer[2]})", event.peer[3])
        cells |= dict(zip(PEERS, map(_quoted, values), strict=True))
    return cells


def table(
    sheet: Sheet,
    events: Sequence[Event],
    columns: Sequence[str],
    units: Units,
    *,
    suffix: bool | None = None,
    number: Callable[[float], str] = _plain,
) -> None:
    """Header, unit row and one row an event.

    suffix: kernel names end in ` [correlation]`; None: where there is no column for it.
    """
    with_suffix = "Correlation_ID" not in columns if suffix is None else suffix
    sheet.add("header", header(columns))
    sheet.add("units", units.row(columns))
    for event in events:
        cells = _cells(event, units, with_suffix, number)
        cells["Start"], start = fixed(event.start, units.start)
        dur: int | None = None
        if event.dur is not None:
            cells["Duration"], dur = fixed(event.dur, units.duration)
            if number is _scientific and units.duration == "ms":
                cells["Duration"] = _scientific(event.dur / 1e6)
        sheet.event(event.kind, ",".join(cells.get(column, "") for column in columns), start, dur)


def gpu_trace(events: Sequence[Event], columns: Sequence[str], units: Units, *, scientific: bool = False) -> Sheet:
    sheet = Sheet("nvprof-csv")
    preamble(sheet)
    table(sheet, events, columns, units, number=_scientific if scientific else _plain)
    return sheet


def api_trace(events: Sequence[Event], *, correlation: bool) -> Sheet:
    """Older releases name the kernel of a launch, `cudaLaunch (NAME [55])`; newer ones have a column instead."""
    sheet = Sheet("nvprof-csv")
    preamble(sheet)
    kernels = launched(events)
    columns = ["Start", "Duration", "Name", *(["Correlation_ID"] if correlation else [])]
    sheet.add("header", header(columns))
    sheet.add("units", "us,us," + ("," if correlation else ""))
    for event in api_calls(events):
        name = event.name
        if not correlation and event.correlation in kernels:
            name = f"{name} ({kernels[event.correlation].name} [{event.correlation}])"
        start, stated_start = fixed(event.start, "us")
        dur, stated_dur = fixed(event.dur or 0, "us")
        cells = [start, dur, f'"{name}"', *([str(event.correlation)] if correlation else [])]
        sheet.event(API, ",".join(cells), stated_start, stated_dur)
    return sheet


def groups(events: Sequence[Event], kinds: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Durations by name, the longest total first: the order of a summary."""
    found: dict[str, list[int]] = {}
    for event in events:
        if event.kind in kinds and event.dur is not None:
            found.setdefault(event.name, []).append(event.dur)
    return sorted(found.items(), key=lambda item: (-sum(item[1]), item[0]))


ACTIVITIES = (KERNEL, MEMCPY, MEMSET)


def _summary_rows(sheet: Sheet, section: str, found: list[tuple[str, list[int]]], units: str, kind: str) -> None:
    """units: those of Time, Avg, Min and Max; kind: the cell `Type`, with its comma, or nothing."""
    of_time, of_avg, of_min, of_max = units.split()
    whole = sum(sum(durs) for _, durs in found)
    for name, durs in found:
        time, stated = fixed(sum(durs), of_time)
        avg = f"{sum(durs) / len(durs) / {'us': 1e3, 'ms': 1e6}[of_avg]:.6f}"
        low, high = fixed(min(durs), of_min)[0], fixed(max(durs), of_max)[0]
        text = f'{kind}{100 * sum(durs) / whole:.6f},{time},{len(durs)},{avg},{low},{high},"{name}"'
        sheet.total(text, section, calls=len(durs), total_ns=stated)


def summary_old(events: Sequence[Event]) -> Sheet:
    sheet = Sheet("nvprof-csv")
    preamble(sheet)
    columns = ["Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"]
    sheet.add("header", header(columns))
    sheet.add("units", "%,ms,,us,us,us,")
    _summary_rows(sheet, "gpu_activities", groups(events, ACTIVITIES), "ms us us us", "")
    sheet.add("blank", "")
    sheet.add("preamble", f"=={PID}== API calls:")
    sheet.add("header", header(columns))
    sheet.add("units", "%,ms,,ms,us,ms,")
    _summary_rows(sheet, "api_calls", groups(events, (API,)), "ms ms us ms", "")
    return sheet


def summary_new(events: Sequence[Event], *, managed: bool = False) -> Sheet:
    sheet = Sheet("nvprof-csv")
    preamble(sheet)
    sheet.add("header", header(["Type", "Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"]))
    sheet.add("units", ",%,ms,,us,us,ms,")
    _summary_rows(sheet, "gpu_activities", groups(events, ACTIVITIES), "ms us us ms", '"GPU activities",')
    _summary_rows(sheet, "api_calls", groups(events, (API,)), "ms us us ms", '"API calls",')
    if managed:
        _managed_summary(sheet, events)
    return sheet


def managed_totals(events: Sequence[Event]) -> list[tuple[str, list[int], int]]:
    """Return the sums of the block on unified memory: its name of the direction, the sizes in bytes, the time in ns."""
    out = []
    for name, label in (
        ("[Unified Memory Memcpy HtoD]", "Host To Device"),
        ("[Unified Memory Memcpy DtoH]", "Device To Host"),
    ):
        rows = [event for event in events if event.name == name]
        sizes = [int(event.unified.split(".")[0]) * 1024 for event in rows]
        out.append((label, sizes, sum(event.dur or 0 for event in rows)))
    faults = [event for event in events if event.name == "[Unified Memory GPU page faults]"]
    out.append(("Gpu page fault groups", [0] * len(faults), sum(event.dur or 0 for event in faults)))
    return out


def _managed_summary(sheet: Sheet, events: Sequence[Event]) -> None:
    sheet.add("blank", "")
    sheet.add("preamble", f"=={PID}== Unified Memory profiling result:")
    sheet.add("header", header(["Device", "Count", "Avg Size", "Min Size", "Max Size", "Total Size", "Total Time", ""]))
    for label, sizes, ns in managed_totals(events):
        amounts = [sum(sizes) / len(sizes), min(sizes), max(sizes), sum(sizes)]
        cells = [f"{amount / 1024:.6f}KB" if sum(sizes) else "" for amount in amounts]
        time = f"{fixed(ns, 'us')[0]}us"
        text = f'"{DEVICE} (0)",{len(sizes)},{",".join(cells)},{time},"{label}"'
        sheet.total(text, "unified_memory", calls=len(sizes), total_ns=ns)
    faults = sum(1 for event in events if event.name == "[Unified Memory CPU page faults]")
    sheet.add("facts", f"Total CPU Page faults: {faults}")


def appended_runs(first: Sequence[Event], second: Sequence[Event]) -> Sheet:
    """`nvprof ... >> log 2>&1`, twice; the second run took longer, so nvprof chose other units for it."""
    sheet = Sheet("nvprof-csv")
    preamble(sheet, before=["N,100000000", "step,loss", "1,2.302585", "2,2.287741", "3,2.251020"])
    table(sheet, first, COLUMNS_17, Units("ms", "us", "KB", "B", "KB", "GB/s"))
    sheet.add("output", "checkpoint written to model.pt, 42.1 MB", "")
    warnings = [
        f"=={PID + 77}== Warning: 2 API trace records have same start and end timestamps.",
        (
            "This can happen because of short execution duration of CUDA APIs and low timer resolution on "
            "the underlying operating system."
        ),
    ]
    preamble(sheet, pid=PID + 77, before=["N,100000000", "step,loss"], after=warnings)
    table(sheet, second, COLUMNS_17, Units("s", "ms", "B", "KB", "MB", "MB/s"))
    return sheet


def progress_bar(events: Sequence[Event]) -> Sheet:
    """A bar is redrawn with carriage returns and has no newline, so nvprof's next line starts in its middle."""
    sheet = Sheet("nvprof-csv")
    sheet.add("preamble", f"=={PID}== NVPROF is profiling process {PID}, command: {COMMAND}")
    bar = "".join(f"\rEpoch 1: {100 * n // 3:3d}%|{'#' * (3 * n):<9}| {n}/3" for n in range(4))
    sheet.add("output", f"{bar}=={PID}== Profiling application: {COMMAND}")
    sheet.add("preamble", f"=={PID}== Profiling result:")
    table(sheet, events, COLUMNS_20, Units())
    return sheet


def interleaved(runs: Sequence[Sequence[Event]], seed: int, *, tags: bool) -> Sheet:
    """Return what `mpirun -np 2 nvprof ...` sends to one terminal.

    Whole lines of the ranks alternate as they come. Without tags both tables have the same units, else nothing could
    tell them apart; with tags (Open MPI's --tag-output) each line says whose it is, and the units may differ.
    """
    draw = random.Random(seed)
    sheets = []
    for rank, events in enumerate(runs):
        one = Sheet("nvprof-csv")
        preamble(one, pid=PID + rank, before=[f"rank {rank} of {len(runs)}: loss 2.251020"])
        table(one, events, COLUMNS_20, Units("ms", "us") if not (tags and rank) else Units("s", "ms", size="MB"))
        sheets.append(one)
    whole, queues = Sheet("nvprof-csv"), [list(one.lines) for one in sheets]
    mixed = []
    while any(queues):
        rank = int(draw.random() * len(queues))
        if queues[rank]:
            name, text = queues[rank].pop(0)
            mixed.append((name, f"[1,{rank}]<stderr>:{text}" if tags else text))
    whole.absorb(sheets[0], mixed)
    for one in sheets[1:]:
        whole.absorb(one, [])
    return whole


def imported(events: Sequence[Event]) -> Sheet:
    """`nvprof -i FILE`: no process id, so eight equal signs, and only the last line of the preamble."""
    sheet = Sheet("nvprof-csv")
    sheet.add(
        "preamble", "======== Warning: 12 records have invalid timestamps due to insufficient device buffer space."
    )
    sheet.add("preamble", "======== Profiling result:")
    table(sheet, events, COLUMNS_20, Units("us", "us", "KB", "KB", "KB", "GB/s"))
    return sheet


def truncated(events: Sequence[Event]) -> tuple[Sheet, str]:
    """A file whose last line was cut: the rows before it are whole, the cut one has no time to trust."""
    sheet = gpu_trace(events, COLUMNS_17, Units("s", "ms", "B", "KB", "MB", "GB/s"))
    cut = "0.402113,0.027458,64"
    text = sheet.text() + cut
    sheet.add("truncated", cut)
    return sheet, text


def excel(sheet: Sheet) -> str:
    """The same cells as a spreadsheet with a German locale saves them: `;`, decimal commas, no zeros at the end, CRLF.

    Each line is padded to the width of the sheet, the preamble too, which the commas of the command line had split.
    """
    rows = list(csv.reader(text for _, text in sheet.lines))
    width = max(map(len, rows))
    lines = []
    for row in rows:
        cells = [_german(cell) for cell in row] + [""] * (width - len(row))
        lines.append(";".join(f'"{cell}"' if ";" in cell else cell for cell in cells) + "\r\n")
    return "\ufeff" + "".join(lines)


def _german(cell: str) -> str:
    whole, point, rest = cell.partition(".")
    if not (point and whole.isdigit() and rest.isdigit()):
        return cell
    rest = rest.rstrip("0")
    return f"{whole},{rest}" if rest else whole
