"""spreadsheet: csv for Excel, LibreOffice Calc and the like, with names of strangers in it: no cell is a formula.

As csv, but a text that begins with = + - or @ (also behind a semicolon) has an apostrophe in front, and control
characters are shown as escapes. Numbers are the same. Programs that read names back need csv.
"""

from __future__ import annotations

from tracekit.model.display import cell_text
from tracekit.model.report import Report
from tracekit.render import csv
from tracekit.render.base import Renderer, RenderOptions

__all__ = ["RENDERER"]


def render(report: Report, options: RenderOptions) -> str:  # noqa: ARG001 - numbers are exact whatever the options
    """Return the tables of the report, an empty line between them."""
    return csv.tables(report, cell_text)


RENDERER = Renderer(name="spreadsheet", suffixes=(), render=render)
