"""The tables of Paddle's `summary`: figures of tracekit's views under Paddle's names.

`compat="paddle"` gives Paddle's own figures in its own layout; then notes go to stderr.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from tracekit.profiler._window import CpuReading, CpuUse, Window, read_windows, use_between

if TYPE_CHECKING:
    from tracekit.model.report import Section

TIME_UNITS: Final = ("s", "ms", "us", "ns")


class SortedKeys(Enum):
    """Sort keys of a table's rows."""

    CPUTotal = 0
    CPUAvg = 1
    CPUMax = 2
    CPUMin = 3
    GPUTotal = 4
    GPUAvg = 5
    GPUMax = 6
    GPUMin = 7


class SummaryView(Enum):
    """The tables of a summary."""

    DeviceView = 0
    OverView = 1
    ModelView = 2
    DistributedView = 3
    KernelView = 4
    OperatorView = 5
    MemoryView = 6
    MemoryManipulationView = 7
    UDFView = 8


PLACES: Final[dict[SummaryView, tuple[str, str]]] = {
    SummaryView.DeviceView: ("device", "Device Summary"),
    SummaryView.OverView: ("overview", "Overview Summary"),
    SummaryView.ModelView: ("model", "Model Summary"),
    SummaryView.DistributedView: ("distributed", "Distribution Summary"),
    SummaryView.OperatorView: ("operator", "Operator Summary"),
    SummaryView.KernelView: ("kernel", "Kernel Summary"),
    SummaryView.MemoryManipulationView: ("memory_manipulation", "Memory Manipulation Summary"),
    SummaryView.UDFView: ("user_defined", "UserDefined Summary"),
    SummaryView.MemoryView: ("memory", "Memory Summary"),
}
"""View of tracekit and title of Paddle, in the order in which Paddle prints them."""

_RANKED: Final = ("operator", "user_defined")
"""Views that Paddle sorts by any key."""
_KERNEL_KEYS: Final = (SortedKeys.GPUAvg, SortedKeys.GPUMax, SortedKeys.GPUMin)
"""Paddle sorts kernels by these alone, and by their total for any other key."""


def wanted_views(views: object) -> list[SummaryView]:
    """Return the views that the argument names: None for all, one, or several. Raises: TypeError."""
    if views is None:
        return list(PLACES)
    named = list(views) if isinstance(views, (list, tuple, set, frozenset)) else [views]
    wrong = [view for view in named if not isinstance(view, SummaryView)]
    if wrong:
        raise TypeError(f"views: {wrong[0]!r} is not a SummaryView")
    return [view for view in PLACES if view in named]


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """The arguments of a summary. compat: "paddle" for Paddle's own figures and layout."""

    views: Sequence[SummaryView]
    sorted_by: SortedKeys
    op_detail: bool
    thread_sep: bool
    time_unit: str
    compat: str = ""


def summary_text(windows: Sequence[Window], request: SummaryRequest) -> tuple[str, list[str]]:
    """Return the tables of windows, together, and the notes that are not in them. Raises: TracekitError."""
    from tracekit import pipeline
    from tracekit.render.base import RenderOptions
    from tracekit.views.base import ViewOptions

    trace = read_windows(list(windows))
    key = request.sorted_by
    options = ViewOptions(key.name, thread_sep=request.thread_sep, op_detail=request.op_detail, compat=request.compat)
    report = pipeline.summary(trace, views=[PLACES[SummaryView.OverView][0]], options=replace(options, sorted_by=""))
    sections: list[Section] = []
    for view in request.views:
        name, title = PLACES[view]
        is_ranked = name in _RANKED or (name == "kernel" and key in _KERNEL_KEYS)
        section = pipeline.view(trace, name, options if is_ranked else replace(options, sorted_by=""))
        if not request.compat:
            section = _titled(section, title)
            section = _with_cpu(section, cpu_use(windows)) if view is SummaryView.DeviceView else section
        sections.append(section)
    remarks = [f"window {window.number}: {remark}" for window in windows for remark in window.remarks]
    report = replace(report, title=_title(windows), sections=tuple(sections), notes=(*report.notes, *remarks))
    text = pipeline.render(report, "text", RenderOptions(time_unit=request.time_unit), compat=request.compat)
    if not request.compat:
        return text, []
    notes = (*report.notes, *(note for section in sections for note in section.notes))
    return text, list(dict.fromkeys(notes))


def _title(windows: Sequence[Window]) -> str:
    if len(windows) > 1:
        return f"{len(windows)} windows: " + ", ".join(_steps(window) for window in windows)
    return f"window {windows[0].number}: {_steps(windows[0])}"


def _steps(window: Window) -> str:
    if window.steps is None:
        return "no step"
    first, last = window.steps
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _titled(section: Section, title: str) -> Section:
    """Return the section under Paddle's title; a table with the section's own title gets it too."""
    tables = (replace(table, title=title if table.title == section.title else table.title) for table in section.tables)
    return replace(section, title=title, tables=tuple(tables))


def cpu_use(windows: Sequence[Window]) -> CpuUse:
    """Return the load of the processors over all the windows' time together."""
    spent = [[last - first for first, last in zip(w.first_cpu, w.last_cpu, strict=True)] for w in windows]
    return use_between(CpuReading(0, 0, 0, 0), CpuReading(*map(sum, zip(*spent, strict=True))))


def _with_cpu(section: Section, use: CpuUse) -> Section:
    from tracekit.model.report import Cell, Column, ReportTable
    from tracekit.model.units import Unit

    names: list[Cell] = ["CPU(Process)", "CPU(System)"]
    columns = (
        Column("name", "Device", Unit.TEXT, names),
        Column("utilization", "Utilization", Unit.RATIO, [use.process, use.system]),
    )
    note = "CPU(Process): processor time of this process / elapsed time, all cores added; CPU(System): busy / all"
    table = ReportTable("processors", "Processors", columns)
    return replace(section, tables=(table, *section.tables), notes=(note, *section.notes))
