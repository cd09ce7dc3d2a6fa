"""fluid: a report made with `--compat fluid`, as Paddle's fluid profiler prints it, blanks at the ends of lines too.

Six significant digits, as C++ prints a number; CPU and GPU times have six decimals. A ratio of 0 of 0 is "-nan".
Source: paddle/fluid/platform/profiler_helper.h of Paddle 1.8 and 2.x, held against the reports that they printed.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.compat.fixed_width import fixed_width, padded, rows_of, time_unit
from tracekit.model.report import Cell, Report, ReportTable
from tracekit.model.units import TIME_EXPONENT
from tracekit.render.base import Renderer, RenderOptions

__all__ = ["LAYOUT"]

_WIDTH, _MEMORY_NAME, _MEMORY_CELL, _PART = 12, 55, 18, 25
_MORE_NAME = 8
_OLD_LAYOUT = "1.8"
_DASHES = "-" * 25
_EXPLAINED = """\
The Overhead Summary divides the cost of each event into framework overhead or computation time.
The `Accumulated time of events` is higher than the `Elapsed time of events`.
Because the OP is executed asynchronously. For example,
Event                   Timeline
ParallelExecutor::Run   ---------------------------------------------------------
  thread1::OP1                 -----------------------------
  thread2::OP2                      ---------------------------------------------
OP1.time + OP2.time > ParallelExecutor::Run.time
"""


def render(report: Report, options: RenderOptions) -> str:
    """Return the text. Raises: UsageError for an unknown unit of time."""
    unit = time_unit(options)
    lines: list[str] = []
    for section in report.sections:
        if section.view == "fluid":
            lines += _section(section.tables, unit)
    return "".join(f"{line}\n" for line in lines)


def _section(tables: tuple[ReportTable, ...], unit: str) -> Iterator[str]:
    facts: dict[Cell, Cell] = {}
    for table in tables:
        kind = table.name.partition("_")[0]
        if kind == "header":
            facts = {row[0]: row[1] for row in table.rows()}
            yield from _header(facts, unit)
        elif kind == "overhead":
            yield from _overhead(table, unit, old=facts.get("Layout") == _OLD_LAYOUT)
        elif kind == "copies":
            yield from _copies(table, unit)
        elif kind == "events":
            yield from _events(table, unit, int(str(facts.get("Name width", 0))))
        elif kind == "memory":
            yield from _memory(table)


def _header(facts: dict[Cell, Cell], unit: str) -> Iterator[str]:
    yield from ("", f"{_DASHES}>     Profiling Report     <{_DASHES}", "")
    if facts.get("Threads"):
        yield "Note! This Report merge all thread info into one."
    yield f"Place: {facts['Place']}"
    yield f"Time unit: {unit}"
    yield f"Sorted by {facts['Sorted by']}"
    yield ""


def _six(value: Cell) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else "-nan"


def _in(ns: Cell, unit: str) -> float | None:
    """Return ns in the unit, as a double; null stays."""
    return None if not isinstance(ns, (int, float)) else ns / 10.0 ** TIME_EXPONENT[unit]


def _percent(ratio: Cell) -> str:
    return f"{_six(None if not isinstance(ratio, (int, float)) else ratio * 100)}%"


def _overhead(table: ReportTable, unit: str, *, old: bool) -> Iterator[str]:
    if not old:
        yield from (f"{_DASHES}     Overhead Summary      {_DASHES}", "")
        if any(part == "Accumulated time of events" for part, *_ in table.rows()):
            yield from _EXPLAINED.split("\n")
    for part, total, ratio in table.rows():
        if part in ("Computation time", "Framework overhead"):
            cell = f"Total: {_six(_in(total, unit)):<{_WIDTH}}Ratio: {_percent(ratio)}"
            yield f"{f'  {part}':<{_PART}}{cell}"
        else:
            yield f"{part}: {_six(_in(total, unit))}"


def _copies(table: ReportTable, unit: str) -> Iterator[str]:
    yield from ("", f"{_DASHES}     GpuMemCpy Summary     {_DASHES}", "")
    for number, (name, calls, total, ratio) in enumerate(table.rows()):
        shown = f"  {name}" if number else str(name)
        cells = f"Calls: {calls!s:<{_WIDTH}}Total: {_six(_in(total, unit)):<{_WIDTH}}Ratio: {_percent(ratio)}"
        yield f"{shown:<{_PART}}{cells}"


def _events(table: ReportTable, unit: str, width: int) -> Iterator[str]:
    width += _MORE_NAME
    names = [column.name for column in table.columns]
    both = "cpu_time" in names
    heads = ["Calls", "Total", *(["CPU Time (Ratio)", "GPU Time (Ratio)"] if both else []), "Min.", "Max.", "Ave."]
    if "ratio" in names:
        heads.append("Ratio.")
    yield from ("", f"{_DASHES}       Event Summary       {_DASHES}", "")
    yield padded("Event", width) + _cells(heads)
    for row in rows_of(table):
        shown = [str(row["calls"]), _six(_in(row["total"], unit))]
        if both:
            shown += [_both(row[f"{side}_time"], row[f"{side}_ratio"], unit) for side in ("cpu", "gpu")]
        shown += [_six(_in(row[name], unit)) for name in ("min", "max", "avg")]
        if "ratio" in names:
            shown.append(_six(row["ratio"]))
        yield padded("  " * int(row["level"] or 0) + str(row["name"]), width) + _cells(shown)


def _both(time: Cell, ratio: Cell, unit: str) -> str:
    shown, share = _in(time, unit), ratio if isinstance(ratio, (int, float)) else None
    return f"{'-nan' if shown is None else f'{shown:f}'} ({'-nan' if share is None else f'{share:f}'})"


def _cells(cells: list[str]) -> str:
    return fixed_width(cells, [2 * _WIDTH if "(" in cell else _WIDTH for cell in cells])


def _memory(table: ReportTable) -> Iterator[str]:
    yield from ("", f"{_DASHES}>    Memory Profiling Report     <{_DASHES}", "")
    heads = ["Alloc Calls", "Size(MB)", "Free Calls", "Size(MB)"]
    widths = [_MEMORY_CELL] * len(heads)
    yield padded("Event", _MEMORY_NAME) + fixed_width(heads, widths)
    for name, allocs, size, frees, freed in table.rows():
        cells = [str(allocs), _megabytes(size), str(frees), _megabytes(freed)]
        yield padded(str(name), _MEMORY_NAME) + fixed_width(cells, widths)
    yield ""


def _megabytes(size: Cell) -> str:
    return _six(size / (1 << 20) if isinstance(size, (int, float)) else None)


LAYOUT = Renderer(name="fluid", suffixes=(), render=render)
