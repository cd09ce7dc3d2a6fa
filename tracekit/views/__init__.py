"""VIEWS: one line a view, in the order in which a report shows them; plugins add theirs at the end."""

from __future__ import annotations

from importlib import import_module

from tracekit.plugins import plugins
from tracekit.views.base import View

_MODULES: tuple[str, ...] = (
    "timeline.timeline",
    "findings.findings",
    "tables.overview",
    "steps.steps",
    "path.critical_path",
    "ranks.ranks",
    "device.device",
    "steps.benchmark",
    "tables.model",
    "ranks.distributed",
    "tables.operator",
    "tables.user_defined",
    "device.breakdown",
    "device.idle",
    "device.launch",
    "tables.kernel",
    "memory.memory",
    "memory.manipulation",
    "tables.api",
    "tables.other",
    "tables.metrics",
)

_OWN: dict[str, View] = {
    view.name: view for view in (import_module(f"tracekit.views.{name}").VIEW for name in _MODULES)
}
VIEWS: dict[str, View] = _OWN | plugins("tracekit.views", View, _OWN)

SUMMARY: tuple[str, ...] = (
    "findings",
    "overview",
    "steps",
    "device",
    "breakdown",
    "model",
    "operator",
    "user_defined",
    "kernel",
    "memory_manipulation",
    "api",
    "other",
    "metrics",
)
"""What a summary has when no view is named: what most people ask first. `--view all` has every table."""
