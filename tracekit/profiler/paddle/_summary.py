"""The tables of Paddle's `summary`, from tracekit's views: theirs are the figures, Paddle's the names.

Each name of Paddle stands for a view of tracekit. `compat="paddle"` gives Paddle's own figures in its own layout, and
then what is to be said beside them goes to stderr.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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

_RANKED: Final = ("operator", "user_defined")
"""Views that Paddle ranks by any key."""
_KERNEL_KEYS: Final = (SortedKeys.GPUAvg, SortedKeys.GPUMax, SortedKeys.GPUMin)
"""It ranks kernels by these alone, by their total else."""


def wanted_views(views: object) -> list[SummaryView]:
    """Return the views that the argument names: None for all, one, or several. Raises: TypeError."""
    if views is None:
        return list(PLACES)
    named = list(views) if isinstance(views, (list, tuple, set, frozenset)) else [views]
    strange = [view for view in named if not isinstance(view, SummaryView)]
    if strange:
        raise TypeError(f"views: {strange[0]!r} is no SummaryView")
    return [view for view in PLACES if view in named]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a summary shall show; compat: "paddle" for Paddle's own figures and layout."""

    views: Sequence[SummaryView]
    sorted_by: SortedKeys
    op_detail: bool
    thread_sep: bool
    time_unit: str
    compat: str = ""


def summary_text(windows: Sequence[Window], asked: Asked) -> tuple[str, list[str]]:
    """Return the tables of windows, together, and what is to be said beside them. Raises: TracekitError."""
    from tracekit import pipeline
    from tracekit.profiler._window import read_windows
    from tracekit.render.base import RenderOptions
    from tracekit.views.base import ViewOptions

    trace = read_windows(list(windows))
    key = asked.sorted_by
    options = ViewOptions(key.name, thread_sep=asked.thread_sep, op_detail=asked.op_detail, compat=asked.compat)
    made = pipeline.summary(trace, views=[PLACES[SummaryView.OverView][0]], options=replace(options, sorted_by=""))
    sections: list[Section] = []
    for view in asked.views:
        name, title = PLACES[view]
        is_ranked = name in _RANKED or (name == "kernel" and key in _KERNEL_KEYS)
        section = pipeline.view(trace, name, options if is_ranked else replace(options, sorted_by=""))
        if not asked.compat:
            section = _titled(section, title)
            section = _with_cpu(section, cpu_use(windows)) if view is SummaryView.DeviceView else section
        sections.append(section)
    remarks = [f"window {window.number}: {remark}" for window in windows for remark in window.remarks]
    made = replace(made, title=_title(windows), sections=tuple(sections), notes=(*made.notes, *remarks))
    text = pipeline.render(made, "text", RenderOptions(time_unit=asked.time_unit), compat=asked.compat)
    if not asked.compat:
        return text, []
    notes = (*made.notes, *(note for section in sections for note in section.notes))
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
