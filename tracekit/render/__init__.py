"""RENDERERS: one line a form. Only here do numbers become text, and figures pictures."""

from __future__ import annotations

from importlib import import_module

from tracekit.render.base import Renderer

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
