"""RENDERERS: one line for each form of a report. Only here numbers become text, and figures become pictures."""

from __future__ import annotations

from tracekit.model.report import Report, TextForms, show_with
from tracekit.plugins import Registry
from tracekit.render.base import Renderer, RenderOptions

_MODULES = {
    "csv": "csv",
    "json": "json",
    "markdown": "markdown",
    "html": "page.html",
    "spreadsheet": "spreadsheet",
    "text": "text",
}
RENDERERS = Registry("tracekit.render", Renderer, "RENDERER", _MODULES)


def _whole(report: Report, width: int, unit: str) -> str:
    return RENDERERS["text"].render(report, RenderOptions(width=width, time_unit=unit))


def _first(report: Report, width: int, bars: bool) -> str:
    from tracekit.render import first_screen

    return first_screen.text(report, RenderOptions(width=width, bars=bars))


show_with(TextForms(_whole, _first))
