"""VIEWS: one line a view, in the order in which a report shows them. A new view is one file and one line here."""

from __future__ import annotations

from importlib import import_module

from tracekit.trace import Trace
from tracekit.views._clocks import by_clock
from tracekit.views.base import View

_MODULES: tuple[str, ...] = (
    "timeline",
    "findings",
    "overview",
    "steps",
    "critical_path",
    "ranks",
    "device",
    "benchmark",
    "model",
    "distributed",
    "operator",
    "user_defined",
    "breakdown",
    "idle",
    "launch",
    "kernel",
    "memory",
    "memory_manipulation",
    "api",
    "other",
    "metrics",
    "fluid",
    "mxnet",
    "theano",
    "singa",
)

VIEWS: dict[str, View] = {
    view.name: view for view in (import_module(f"tracekit.views.{name}").VIEW for name in _MODULES)
}

UPSTREAMS: dict[str, frozenset[str]] = {
    "fluid": frozenset({"fluid-pb", "fluid-report"}),
    "mxnet": frozenset({"mxnet", "mxnet-table"}),
    "theano": frozenset({"theano"}),
    "singa": frozenset({"singa"}),
}
"""Views that are the tables of one upstream, and its formats: only these are shown so without being asked."""

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
    *UPSTREAMS,
)
"""What a summary shows when no view is named: what most people ask first. `--view all` has every table."""

COMPATS: dict[str, tuple[str, ...]] = {
    "paddle": (
        "device",
        "overview",
        "model",
        "distributed",
        "operator",
        "kernel",
        "memory_manipulation",
        "user_defined",
        "memory",
        "benchmark",
    ),
    "fluid": ("fluid",),
    "mxnet": ("mxnet",),
    "theano": ("theano",),
    "singa": ("singa",),
}
"""For each upstream whose figures `ViewOptions.compat` gives: the views that it prints, in its order."""


def clocks_of(trace: Trace) -> int:
    """Return on how many clocks its events stand: times of different ones cannot be held against each other."""
    return by_clock(trace).count
