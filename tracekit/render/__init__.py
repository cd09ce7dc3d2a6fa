"""RENDERERS: one line for each form of a report. Only here numbers become text, and figures become pictures."""

from __future__ import annotations

from tracekit.model.report import Report, show_with
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


def _shown(report: Report, width: int) -> str:
    return RENDERERS["text"].render(report, RenderOptions(width=width))


show_with(_shown)
