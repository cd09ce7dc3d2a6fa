"""RENDERERS: one line for each form of a report. Only here numbers become text, and figures become pictures."""

from __future__ import annotations

from importlib import import_module

from tracekit.render.base import Renderer, RenderOptions
from tracekit.report import Report, show_with

_MODULES: tuple[str, ...] = (
    "csv",
    "html",
    "json",
    "markdown",
    "text",
)

RENDERERS: dict[str, Renderer] = {
    renderer.name: renderer for renderer in (import_module(f"tracekit.render.{name}").RENDERER for name in _MODULES)
}

_LAYOUTS: tuple[str, ...] = (
    "paddle",
    "fluid",
    "mxnet",
    "theano",
    "singa",
)

LAYOUTS: dict[str, Renderer] = {
    layout.name: layout for layout in (import_module(f"tracekit.render.{name}").LAYOUT for name in _LAYOUTS)
}
"""For each upstream whose summary can be printed as it prints it: the text form of a report made with that compat."""


def _shown(report: Report, width: int) -> str:
    return RENDERERS["text"].render(report, RenderOptions(width=width))


show_with(_shown)
