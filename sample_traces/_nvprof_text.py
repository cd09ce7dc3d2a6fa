"""nvprof's tables without --csv: cells right-aligned under the end of their header, units glued on, five digits."""

from __future__ import annotations

from collections.abc import Sequence

from _model import API, DEVICE, KERNEL, PID, UNIFIED, Event, api_calls, launched
from _nvprof_csv import ACTIVITIES, groups, managed_totals, preamble
from _sheet import Sheet, short, short_size

# width and header, two blanks before each but the first
_START = [
    (8, "Start"),
    (8, "Duration"),
    (19, "Grid Size"),
    (14, "Block Size"),
    (8, "Regs*"),
    (8, "SSMem*"),
    (8, "DSMem*"),
]
_COPY = [(8, "Size"), (10, "Throughput")]
_MEMORY = [(10, "SrcMemType"), (10, "DstMemType")]
_PLACE = [(15, "Device"), (8, "Context"), (8, "Stream")]
_MANAGED = [(20, "Unified Memory"), (15, "Virtual Address")]
_REGS = (
    "Regs: Number of registers used per CUDA thread. This number includes registers used internally by the CUDA driver "
    "and/or tools and can be more than what the compiler shows."
)
_LEGEND = [
    _REGS,
    "SSMem: Static shared memory allocated per CUDA block.",
    "DSMem: Dynamic shared memory allocated per CUDA block.",
]
_LEGEND_MEMORY = [
    "SrcMemType: The type of source memory accessed by memory operation/copy",
    "DstMemType: The type of destination memory accessed by memory operation/copy",
]
_RATES = ("B/s", "KB/s", "MB/s", "GB/s")


def _line(columns: Sequence[tuple[int, str]], cells: Sequence[str], name: str) -> str:
    return "  ".join([cell.rjust(width) for (width, _), cell in zip(columns, cells, strict=True)] + [name])


def _cells(event: Event) -> dict[str, str]:
    cells = {"Start": short(event.start)[0]}
    if event.dur is not None:
        cells["Duration"] = short(event.dur)[0]
    if event.kernel is not None and event.grid is not None:
        cells["Grid Size"] = "({} {} {})".format(*event.grid)
        cells["Block Size"] = "({} {} {})".format(*event.kernel.block)
        cells["Regs*"] = str(event.kernel.registers)
        cells["SSMem*"] = short_size(event.kernel.static_smem)
        cells["DSMem*"] = short_size(event.kernel.dynamic_smem)
    if event.bytes is not None and event.dur:
        cells["Size"] = short_size(event.bytes)
        cells["Throughput"] = short_size(event.bytes * 1e9 / event.dur, _RATES)
    cells |= {"SrcMemType": event.source_memory or "-", "DstMemType": event.target_memory or "-"}
    if event.device is not None:
        cells["Device"] = f"{DEVICE} ({event.device})"[:15]
    cells |= {"Context": str(event.context or "-"), "Stream": str(event.stream or "-")}
    if event.kind == UNIFIED:
        cells |= {"Unified Memory": event.unified, "Virtual Address": f"0x{event.address:x}"}
    return cells


def gpu_trace(events: Sequence[Event], *, memory: bool = True, managed: bool = False) -> Sheet:
    """memory: the columns SrcMemType and DstMemType, of CUDA 9 and later. Copy columns stand only where copies are."""
    sheet = Sheet("nvprof-text")
    copies = any(event.bytes is not None for event in events)
    columns = [*_START, *(_COPY if copies else []), *(_MEMORY if copies and memory else []), *_PLACE]
    columns += _MANAGED if managed else []
    preamble(sheet)
    sheet.add("header", _line(columns, [title for _, title in columns], "Name"))
    kernels = launched(events)
    for event in events:
        name = f"{event.name} [{event.correlation}]" if event.kind == KERNEL else event.name
        if event.kind == API and event.correlation in kernels:
            name = f"{event.name} ({kernels[event.correlation].name} [{event.correlation}])"
        cells = _cells(event)
        dur = None if event.dur is None else short(event.dur)[1]
        text = _line(columns, [cells.get(title, "-") for _, title in columns], name)
        sheet.event(event.kind, text, short(event.start)[1], dur)
    sheet.add("blank", "")
    sheet.add("legend", *_LEGEND, *(_LEGEND_MEMORY if copies and memory else []))
    return sheet


def api_trace(events: Sequence[Event]) -> Sheet:
    sheet = Sheet("nvprof-text")
    preamble(sheet)
    columns = _START[:2]
    sheet.add("header", _line(columns, ["Start", "Duration"], "Name"))
    kernels = launched(events)
    for event in api_calls(events):
        name = event.name
        if event.correlation in kernels:
            name = f"{name} ({kernels[event.correlation].name} [{event.correlation}])"
        start, stated_start = short(event.start)
        dur, stated_dur = short(event.dur or 0)
        sheet.event(API, _line(columns, [start, dur], name), stated_start, stated_dur)
    return sheet


def _summary_rows(sheet: Sheet, section: str, found: list[tuple[str, list[int]]], group: str | None) -> None:
    """group: the words of the column Type, which are in the first row of each group only; None: no such column."""
    whole = sum(sum(durs) for _, durs in found)
    for number, (name, durs) in enumerate(found):
        time, stated = short(sum(durs))
        avg = short((2 * sum(durs) + len(durs)) // (2 * len(durs)))[0]
        cells = [time, str(len(durs)), avg, short(min(durs))[0], short(max(durs))[0]]
        share = f"{100 * sum(durs) / whole:.2f}%"
        first = share.rjust(7)
        if group is not None:
            first = f"{(group if number == 0 else ''):>16}  {share:>7}"
        text = "  ".join([first, *(cell.rjust(8) for cell in cells), name])
        sheet.total(text, section, calls=len(durs), total_ns=stated)


_SUMMARY = "      Time     Calls       Avg       Min       Max  Name"


def summary(events: Sequence[Event], *, with_type: bool, managed: bool = False) -> Sheet:
    sheet = Sheet("nvprof-text")
    preamble(sheet)
    title = ("            Type  Time(%)" if with_type else "Time(%)") + _SUMMARY
    sheet.add("header", title)
    _summary_rows(sheet, "gpu_activities", groups(events, ACTIVITIES), "GPU activities:" if with_type else None)
    if not with_type:
        sheet.add("blank", "")
        sheet.add("preamble", f"=={PID}== API calls:")
        sheet.add("header", title)
    _summary_rows(sheet, "api_calls", groups(events, (API,)), "API calls:" if with_type else None)
    if managed:
        _managed_summary(sheet, events)
    return sheet


def _wide(number: float, unit: str) -> str:
    """The totals of this one block have eight figures in ten places: `512.0000KB`, `50.11200us`."""
    return f"{number:.{7 - len(str(int(number)))}f}{unit}"


def _managed_summary(sheet: Sheet, events: Sequence[Event]) -> None:
    sheet.add("blank", "")
    sheet.add("preamble", f"=={PID}== Unified Memory profiling result:")
    sheet.add("device", f'Device "{DEVICE} (0)"')
    sheet.add("header", "   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name")
    for label, sizes, ns in managed_totals(events):
        sized = sum(sizes) > 0
        cells = [short_size(x) if sized else "-" for x in (sum(sizes) / len(sizes), min(sizes), max(sizes))]
        whole = _wide(sum(sizes) / 1024, "KB") if sized else "-"
        time = _wide(ns / 1000, "us") if ns < 10**6 else _wide(ns / 10**6, "ms")
        texts = [str(len(sizes)).rjust(8), *(cell.rjust(8) for cell in cells), whole.rjust(10), time.rjust(10), label]
        sheet.total("  ".join(texts), "unified_memory", calls=len(sizes), total_ns=ns)
    faults = sum(1 for event in events if event.name == "[Unified Memory CPU page faults]")
    sheet.add("facts", f"Total CPU Page faults: {faults}")


def no_kernels(events: Sequence[Event]) -> Sheet:
    """A run that only called the API: nvprof says so, without a prefix, and prints the table of the calls."""
    sheet = Sheet("nvprof-text")
    preamble(sheet)
    sheet.add("preamble", "No kernels were profiled.")
    sheet.add("header", "            Type  Time(%)" + _SUMMARY)
    _summary_rows(sheet, "api_calls", groups(events, (API,)), "API calls:")
    return sheet
