"""The tables of Paddle's `summary`, from tracekit's views: theirs are the figures, Paddle's the names.

Each name of Paddle stands for a view of tracekit; a view that this version does not have is named as missing, not
passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from tracekit.profiler._cpu import CpuUse, use_between

if TYPE_CHECKING:
    from tracekit.profiler._window import Window
    from tracekit.report import Section

TIME_UNITS: Final = ("s", "ms", "us", "ns")


class SortedKeys(Enum):
    """What the rows of a table are ranked by."""

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

_KERNEL_KEYS: Final = {SortedKeys.GPUAvg: "avg", SortedKeys.GPUMax: "max", SortedKeys.GPUMin: "-min"}
"""Paddle ranks kernels by GPU keys alone, total else; GPUMin ascends."""


def wanted_views(views: object) -> list[SummaryView]:
    """Return the views that the argument names: None for all, one, or several. Raises: TypeError."""
    if views is None:
        return list(PLACES)
    named = list(views) if isinstance(views, (list, tuple, set, frozenset)) else [views]
    strange = [view for view in named if not isinstance(view, SummaryView)]
    if strange:
        raise TypeError(f"views: {strange[0]!r} is no SummaryView")
    return [view for view in PLACES if view in named]


def summary_text(
    windows: Sequence[Window], *, views: Sequence[SummaryView], sorted_by: SortedKeys, thread_sep: bool, time_unit: str
) -> str:
    """Return the tables of windows, together. Raises: TracekitError."""
    from tracekit import pipeline
    from tracekit.profiler._model import model_section
    from tracekit.profiler._window import read_windows
    from tracekit.render.base import RenderOptions
    from tracekit.views.base import ViewOptions

    trace = read_windows(list(windows))
    sections: list[Section] = []
    missing: list[str] = []
    for view in views:
        name, title = PLACES[view]
        if name not in pipeline.TABLE_VIEWS:
            if view is SummaryView.ModelView:
                sections.append(model_section(trace))
            else:
                missing.append(title)
            continue
        key = _KERNEL_KEYS.get(sorted_by, "") if name == "kernel" else ""
        section = pipeline.view(trace, name, ViewOptions(sorted_by=key, thread_sep=thread_sep))
        sections.append(_titled(section, title))
    if SummaryView.DeviceView in views:
        at = next(number for number, section in enumerate(sections) if section.title == "Device Summary")
        sections[at] = _with_cpu(sections[at], cpu_use(windows))
    made = replace(pipeline.summary(trace, views=[PLACES[SummaryView.OverView][0]]), sections=tuple(sections))
    remarks = [f"window {window.number}: {remark}" for window in windows for remark in window.remarks]
    if missing:
        remarks.append(f"not in this version of tracekit: {', '.join(missing)}")
    made = replace(made, title=_title(windows), notes=(*made.notes, *remarks))
    return pipeline.render(made, "text", RenderOptions(time_unit=time_unit))


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
    """Return the section under Paddle's title; a table that bore the section's own name bears it too."""
    tables = (replace(table, title=title if table.title == section.title else table.title) for table in section.tables)
    return replace(section, title=title, tables=tuple(tables))


def cpu_use(windows: Sequence[Window]) -> CpuUse:
    """Return how busy the processors were over all the windows' time together."""
    first = windows[0].first_cpu
    total = first
    for window in windows:
        gained: Any = (b - a for a, b in zip(window.first_cpu, window.last_cpu, strict=True))
        total = type(first)(*(old + more for old, more in zip(total, gained, strict=True)))
    return use_between(first, total)


def _with_cpu(section: Section, use: CpuUse) -> Section:
    from tracekit.report import Cell, Column, ReportTable
    from tracekit.units import Unit

    names: list[Cell] = ["CPU(Process)", "CPU(System)"]
    columns = (
        Column("name", "Device", Unit.TEXT, names),
        Column("utilization", "Utilization", Unit.RATIO, [use.process, use.system]),
    )
    note = "CPU(Process): processor time of this process / elapsed time, all cores added; CPU(System): busy / all"
    table = ReportTable("processors", "Processors", columns)
    return replace(section, tables=(table, *section.tables), notes=(note, *section.notes))
