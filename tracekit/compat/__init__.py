"""COMPATS: other profilers whose tables tracekit prints. A folder is loaded when its tables are requested, or for its
own formats.

Other packages add theirs (`tracekit.plugins`), which are loaded when a name is not one of ours.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from tracekit.compat.base import Compat
from tracekit.errors import Option
from tracekit.options import no_such
from tracekit.plugins import plugins

GROUP = "tracekit.compat"
"""The group of entry points."""

COMPATS: dict[str, frozenset[str]] = {
    "paddle": frozenset(),
    "fluid": frozenset({"fluid-pb", "fluid-report"}),
    "mxnet": frozenset({"mxnet", "mxnet-table"}),
    "theano": frozenset({"theano"}),
    "singa": frozenset({"singa"}),
    "torch": frozenset({"torch-table", "torch-memory"}),
}
"""Profilers, each with the formats whose inputs have a view of their own, which has the profiler's name."""

VIEWS: tuple[str, ...] = tuple(name for name, formats in COMPATS.items() if formats)
"""Views of one profiler's own, which show any trace the way it does: loaded when named, or for its own formats."""


@cache
def _others() -> dict[str, Compat]:
    return plugins(GROUP, Compat, COMPATS)


def names() -> tuple[str, ...]:
    """Return the names that `--compat` takes, those of other packages too, which are loaded."""
    return (*COMPATS, *_others())


def load(name: str) -> Compat:
    """Return the profiler of that name. Raises: UsageError for an unknown name."""
    if name not in COMPATS:
        if name in _others():
            return _others()[name]
        raise no_such(Option("compat"), name, "profiler", names())
    found = import_module(f"tracekit.compat.{name}").COMPAT
    if not isinstance(found, Compat):  # pragma: no cover - a folder of ours has one
        raise TypeError(f"tracekit.compat.{name}.COMPAT is no Compat")
    return found
