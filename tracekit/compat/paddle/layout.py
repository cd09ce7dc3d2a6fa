"""paddle: the text of Paddle's `Profiler.summary`, from the numbers of a report made with `--compat paddle`.

Tables, widths, notes and their order are Paddle's (2.6 to 3.x): columns are left-aligned, two blanks apart, titles amid
dashes as wide as the table; a table of which there is nothing to say is not printed at all. A name in which a terminal
would find something to obey is shown with escapes. Without ProfileStep the first table is the last one, as in Paddle.
Source: _build_table of profiler_statistic.py, Paddle 2.6 and 3.0, and what they print.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tracekit.compat.fixed_width import Row, fixed_width, rows_of, time_unit
from tracekit.model.display import escape_controls, in_pipes
from tracekit.model.report import Report, Section
from tracekit.render.base import Renderer, RenderOptions

__all__ = ["LAYOUT"]

_DIVISOR: Mapping[str, float] = MappingProxyType({"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0})
_CPU: Final = "CPU Total / Avg / Max / Min / Ratio(%)"
_GPU: Final = "GPU Total / Avg / Max / Min / Ratio(%)"
_NONE: Final = "- / - / - / - / -"
_SHORT_NAME: Final = re.compile(r"(.+?)(<.*>)(\(.*\))")
_DEVICE_NOTE: Final = (
    "Note:\n"
    "CPU(Process) Utilization = Current process CPU time over all cpu cores / elapsed time, so max utilization can be "
    "reached 100% * number of cpu cores.\n"
    "CPU(System) Utilization = All processes CPU time over all cpu cores(busy time) / (busy time + idle time).\n"
    "GPU Utilization = Current process GPU time / elapsed time."
)
_OVERVIEW_NOTE: Final = """\
Note:
In this table, We sum up all collected events in terms of event type.
The time of events collected on host are presented as CPU Time, and as GPU Time if on device.
Events with different types may overlap or inclusion, e.g. Operator includes OperatorInner, so the sum of \
ratios is not 100%.
The time of events in the same type with overlap will not calculate twice, and all time is summed after merged.
Example:
Thread 1:
  Operator: |___________|     |__________|
Thread 2:
  Operator:   |____________|     |___|
After merged:
  Result:   |______________|  |__________|
"""
_MODEL_NOTE: Final = """\
Note:
In this table, GPU time is the sum of all device(GPU) events called in the phase.
Unlike overview summary, if two device(GPU) events execute on different streams with overlap time, we sum them \
directly here.
"""
_DISTRIBUTED_NOTE: Final = """\
Note:
Communication time: Communication Event time, Communication Op time and its kernel time on gpu.
Computation time: Kernel time, except kernels belong to communication(nccl kernels).
Overlap time: Communication time intersects with computation time.
Example:
Communication:
  CPU:              |_________________|
  GPU:                                  |______________|
  Total:            |_________________| |______________|
Computation time(Kernel):
  GPU:         |________________|
Overlap time:       |___________|
"""


class _PaddleTable:
    """Lines of one table: columns of fixed widths."""

    def __init__(self, widths: Sequence[int]) -> None:
        self._widths = widths
        self.rule = "".join("-" * width + "  " for width in widths)
        self.length = sum(widths) + 2 * len(widths) - 2
        self.lines: list[str] = []

    def title(self, text: str) -> None:
        """Add a text amid dashes, the odd one at its right."""
        free = self.length - len(text)
        self.lines.append("-" * (free // 2) + text + "-" * (free - free // 2))

    def row(self, *cells: object) -> None:
        """Add cells in their columns."""
        self.lines.append(fixed_width(cells, self._widths, gap="  ") + "  ")

    def head(self, title: str, unit: str, *cells: str) -> None:
        """Add the lines above the rows."""
        self.title(title)
        if unit:
            self.lines.append(f"Time unit: {unit}")
        self.lines.append(self.rule)
        self.row(*cells)
        self.lines.append(self.rule)

    def end(self, note: str = "") -> list[str]:
        """Return the lines with the rule, and a note and a line of dashes where Paddle prints one."""
        self.lines.append(self.rule)
        if note:
            self.lines += [note, "-" * self.length]
        return [*self.lines, "", ""]


def _time(ns: float | None, unit: str) -> str:
    """Return ns in the unit, with two decimals."""
    return "-" if ns is None else f"{float(ns) / _DIVISOR[unit]:.2f}"


def _ratio(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.2f}"


def _times(row: Row, side: str, unit: str, calls: int | None) -> str:
    """Return "Total / Avg / Max / Min / Ratio(%)" of a row; dashes where it has none.

    Paddle divides when it prints: the column of averages is rounded to ns.
    """
    total = row[f"{side}_total"]
    if total is None:
        return _NONE
    average = total / calls if calls else None
    figures = (total, average, row[f"{side}_max"], row[f"{side}_min"])
    if not calls:
        figures = (total, None, None, None)
    return " / ".join([*(_time(ns, unit) for ns in figures), _ratio(row[f"{side}_ratio"])])


def _indented(row: Row, width: int = 0) -> str:
    """Return the name below its level, cut as Paddle cuts names below an operator."""
    indent = "  " * int(row["level"])
    name: str = escape_controls(str(row["name"] or ""))
    if width and row["level"] and len(name) + len(indent) > width:
        name = name[: width - 3 - len(indent)] + "..."
    return indent + name


def _wide(least: int, texts: Iterable[str]) -> int:
    return max([least, *map(len, texts)])


def _device(section: Section, unit: str) -> list[str]:  # noqa: ARG001 - as all tables
    table = _PaddleTable((30, 20))
    table.head("Device Summary", "", "Device", "Utilization (%)")
    for row in rows_of(section.tables[0]):
        table.row(row["name"], _ratio(row["utilization"]))
    return table.end(_DEVICE_NOTE)


def _overview(section: Section, unit: str) -> list[str]:
    table = _PaddleTable((25,) * 4)
    table.head("Overview Summary", unit, "Event Type", "Calls", "CPU Time", "Ratio (%)")
    host, work = section.tables
    for row in rows_of(host):
        table.row(_indented(row), row["calls"], _time(row["time"], unit), _ratio(row["ratio"]))
    table.lines.append(table.rule)
    table.row("", "Calls", "GPU Time", "Ratio (%)")
    table.lines.append(table.rule)
    for row in rows_of(work):
        table.row(_indented(row), row["calls"], _time(row["time"], unit), _ratio(row["ratio"]))
    return table.end(_OVERVIEW_NOTE)


def _lines(section: Section, unit: str, sides: Sequence[str], *, name_width: int = 0) -> list[tuple[str, list[str]]]:
    """Return the thread and the cells of each row: name, calls, times of each side."""
    out = []
    for row in rows_of(section.tables[0]):
        calls = "-" if row["calls"] is None else str(row["calls"])
        cells = [_indented(row, name_width), calls, *(_times(row, side, unit, row["calls"]) for side in sides)]
        if "flops" in row:
            cells.append("-" if row["flops"] is None else str(row["flops"]))
        out.append((str(row.get("thread") or ""), cells))
    return out


def _columns(lines: Sequence[tuple[str, list[str]]], name: int, *more: int) -> _PaddleTable:
    """Return a table as wide as its calls and times need."""
    texts = list(zip(*(cells for _, cells in lines), strict=True))
    count = len(texts) - len(more)
    calls = _wide(6, (text for text in texts[1] if text.isdigit()))
    return _PaddleTable((name, calls, *(_wide(40, texts[i]) for i in range(2, count)), *more))


def _model(section: Section, unit: str) -> list[str]:
    lines = _lines(section, unit, ("cpu", "gpu"))
    table = _columns(lines, 15)
    table.head("Model Summary", unit, "Name", "Calls", _CPU, _GPU)
    for _, cells in lines:
        table.row(*cells)
    return table.end(_MODEL_NOTE)


def _distributed(section: Section, unit: str) -> list[str]:
    table = _PaddleTable((25,) * 3)
    table.head("Distribution Summary", unit, "Name", "Total Time", "Ratio (%)")
    for row in rows_of(section.tables[0]):
        table.row(_indented(row), _time(row["total"], unit), _ratio(row["ratio"]))
    return table.end(_DISTRIBUTED_NOTE)


def _blocks(table: _PaddleTable, lines: Sequence[tuple[str, list[str]]]) -> None:
    last = None
    for thread, cells in lines:
        if thread != last:
            table.title(f"Thread: {thread}")
            last = thread
        table.row(*cells)


def _operator(section: Section, unit: str) -> list[str]:
    lines = _lines(section, unit, ("cpu", "gpu"), name_width=52)
    table = _columns(lines, 52, 10)
    table.head("Operator Summary", unit, "Name", "Calls", _CPU, _GPU, "FLOPs")
    _blocks(table, lines)
    return table.end()


def _kernel(section: Section, unit: str) -> list[str]:
    lines = _lines(section, unit, ("gpu",))
    table = _columns(lines, 90)
    table.head("Kernel Summary", unit, "Name", "Calls", _GPU)
    for _, cells in lines:
        found = _SHORT_NAME.match(cells[0])
        name: str = found[1] + found[2] if found else cells[0]
        table.row(name[:87] + "..." if len(name) > 90 else name, *cells[1:])
    return table.end()


def _moves(section: Section, unit: str) -> list[str]:
    lines = _lines(section, unit, ("cpu", "gpu"))
    table = _columns(lines, _wide(0, (cells[0] for _, cells in lines)))
    table.head("Memory Manipulation Summary", unit, "Name", "Calls", _CPU, _GPU)
    for _, cells in lines:
        table.row(*cells)
    return table.end()


def _user_defined(section: Section, unit: str) -> list[str]:
    lines = _lines(section, unit, ("cpu", "gpu"))
    table = _columns(lines, _wide(0, (cells[0] for _, cells in lines)))
    table.head("UserDefined Summary", unit, "Name", "Calls", _CPU, _GPU)
    _blocks(table, lines)
    return [*table.lines, "", ""]  # Paddle draws no rule here


def _memory(section: Section, unit: str) -> list[str]:  # noqa: ARG001 - as all tables
    out: list[str] = []
    peaks, items = section.tables
    for peak in rows_of(peaks):
        table = _PaddleTable((50, 12, 15, 15, 15, 15, 15))
        table.title(f"Memory Summary - {escape_controls(str(peak['place']))}")
        for name in ("Allocated", "Reserved"):
            most = peak[name.lower()]
            table.lines.append(f"Peak {name} Memory: {'-' if most is None else most}")
        table.lines.append(table.rule)
        table.row("Name", "Type", "Allocation Count", "Free Count", "Allocation Size", "Free Size", "Increased Size")
        table.lines.append(table.rule)
        for row in rows_of(items):
            if row["place"] == peak["place"]:
                sizes = [row[key] for key in ("allocations", "frees", "allocated", "freed", "increased")]
                table.row(escape_controls(row["name"]), row["type"], *sizes)
        out += [*table.lines, "", ""]
    return out


def _benchmark(section: Section, unit: str) -> list[str]:  # noqa: ARG001 - its own unit is s
    out: list[str] = []
    perf, facts = section.tables
    for fact in rows_of(facts):
        out.append("Perf Summary".center(100, "="))
        if fact["reader_ratio"]:
            out.append(f"Reader Ratio: {fact['reader_ratio']:.3f}%")
        out.append(f"Time Unit: s, IPS Unit: {escape_controls(str(fact['unit']))}")
        out.append(in_pipes("", "avg", "max", "min"))
        for row in rows_of(perf):
            if row["summary"] == fact["summary"]:
                cells = ("-" if row[key] is None else f"{row[key]:.5f}" for key in ("avg", "max", "min"))
                out.append(in_pipes(escape_controls(str(row["name"])), *cells))
    return out


_TABLES: Mapping[str, Callable[[Section, str], list[str]]] = MappingProxyType(
    {
        "device": _device,
        "overview": _overview,
        "model": _model,
        "distributed": _distributed,
        "operator": _operator,
        "kernel": _kernel,
        "memory_manipulation": _moves,
        "user_defined": _user_defined,
        "memory": _memory,
        "benchmark": _benchmark,
    }
)
"""In the order in which Paddle prints them."""


def render(report: Report, options: RenderOptions) -> str:
    """Return what Paddle prints; `time_unit` "" is ms. Raises: UsageError for an unknown unit."""
    unit = time_unit(options, _DIVISOR)
    sections = {section.view: section for section in report.sections}
    lines: list[str] = []
    first = sections.get("device")
    stops = first is not None and not first.tables[1].column("total").values[0]
    for name, print_table in _TABLES.items():
        section = sections.get(name)
        if section is not None and section.tables and (not stops or name in ("device", "benchmark")):
            lines += print_table(section, unit)
    return "\n".join([*lines, ""]) + "\n" if lines else "\n"


LAYOUT = Renderer("paddle", (), render)
