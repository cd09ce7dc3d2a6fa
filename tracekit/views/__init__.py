"""VIEWS: one line a view, in the order in which a report shows them; plugins add theirs at the end.

A module is imported when its view is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tracekit.plugins import Registry
from tracekit.views.base import View

_MODULES = {
    "timeline": "timeline.timeline",
    "findings": "findings.findings",
    "overview": "tables.overview",
    "steps": "steps.steps",
    "critical_path": "path.critical_path",
    "ranks": "ranks.ranks",
    "device": "device.device",
    "benchmark": "steps.benchmark",
    "model": "tables.model",
    "modules": "tables.modules",
    "distributed": "ranks.distributed",
    "hang": "ranks.hang",
    "operator": "tables.operator",
    "graphs": "tables.graphs",
    "user_defined": "tables.user_defined",
    "breakdown": "device.breakdown",
    "idle": "device.idle",
    "launch": "device.launch",
    "kernel": "tables.kernel",
    "efficiency": "efficiency.efficiency",
    "gemm": "efficiency.gemm",
    "convolution": "efficiency.convolution",
    "attention": "efficiency.attention",
    "compiled": "efficiency.compiled",
    "samples": "tables.samples",
    "memory": "memory.memory",
    "memory_manipulation": "memory.manipulation",
    "api": "tables.api",
    "other": "tables.other",
    "metrics": "tables.metrics",
    "inference": "tables.inference",
}
VIEWS = Registry("tracekit.views", View, "VIEW", _MODULES)

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
    "samples",
    "memory_manipulation",
    "api",
    "other",
    "metrics",
    "hang",
)
"""What a summary has when no view is named: what most people ask first. `--view all` has every table."""
FIRST_VIEWS: Mapping[str, frozenset[str]] = MappingProxyType(
    {"inference": frozenset({"tensorrt-layers", "tensorrt-log", "tensorrt-profile"})}
)
"""Views that a summary of these formats has before all others."""
