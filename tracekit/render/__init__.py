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
