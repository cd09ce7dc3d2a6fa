"""SINGA's layout: the lines that Device.PrintTimeProfiling() prints, of a report made with compat "singa".

Times have six significant digits, as C++ prints a float. A profile of tracekit's own face keeps its line of the
divisor. Source: Graph::PrintTimeProfiling in src/core/scheduler/scheduler.cc of Apache SINGA 3.1.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.render.base import Renderer, RenderOptions
from tracekit.report import Report, ReportTable
from tracekit.text.display import visible


def render(report: Report, options: RenderOptions) -> str:  # noqa: ARG001 - SINGA prints seconds, and no others
    """Return the lines of all profiles of the report."""
    lines = [visible(line) for section in report.sections for table in section.tables for line in _lines(table)]
    return "\n".join(lines) + "\n" if lines else ""


def _lines(table: ReportTable) -> Iterator[str]:
    if not len(table) or table.column("below_blank").values[0]:
        yield ""
    yield "Time Profiling:"
    named = {column.name: column.values for column in table.columns}
    if len(table) and "divisor" in named:
        measured, iterations, divisor = (named[key][0] for key in ("measured", "iterations", "divisor"))
        what = "phases" if named["op_id"][0] is None else "operators"
        yield f"tracekit: {measured} of {iterations} iterations measured, {what} divided by {divisor}"
    cells = (table.column(name).values for name in ("op_id", "name", "s", "text"))
    for op_id, name, seconds, text in zip(*cells, strict=True):
        time = f"{seconds:g}" if isinstance(seconds, (int, float)) else text or "-"
        yield f"{name} Time : {time} sec" if op_id is None else f"OP_ID{op_id}. {name} : {time} sec"


LAYOUT = Renderer("singa", (), render)
