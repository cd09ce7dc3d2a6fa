"""RENDERERS: one line for each form of a report. Only here numbers become text, and figures become pictures."""

from __future__ import annotations

from importlib import import_module

from tracekit.render.base import Renderer, RenderOptions
from tracekit.report import Report, show_with

_MODULES: tuple[str, ...] = (
    "csv",
    "json",
    "markdown",
    "page.html",
    "text",
)

RENDERERS: dict[str, Renderer] = {
    renderer.name: renderer for renderer in (import_module(f"tracekit.render.{name}").RENDERER for name in _MODULES)
}


def _shown(report: Report, width: int) -> str:
    return RENDERERS["text"].render(report, RenderOptions(width=width))


show_with(_shown)
