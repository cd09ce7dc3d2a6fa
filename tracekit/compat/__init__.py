"""COMPATS: one line an upstream. A folder is loaded when its tables are asked for, or its own formats are shown."""

from __future__ import annotations

from importlib import import_module

from tracekit.compat.base import Compat

COMPATS: dict[str, frozenset[str]] = {
    "paddle": frozenset(),
    "fluid": frozenset({"fluid-pb", "fluid-report"}),
    "mxnet": frozenset({"mxnet", "mxnet-table"}),
    "theano": frozenset({"theano"}),
    "singa": frozenset({"singa"}),
}
"""Upstreams, each with the formats whose inputs are shown as a view of the upstream's own, which has its name."""

VIEWS: tuple[str, ...] = tuple(name for name, formats in COMPATS.items() if formats)
"""Views of an upstream's own, which show any trace the way it does: loaded when named, or for its own formats."""


def load(name: str) -> Compat:
    """Return the upstream of that name. Raises: KeyError for a name that `COMPATS` lacks."""
    if name not in COMPATS:
        raise KeyError(name)
    found = import_module(f"tracekit.compat.{name}.compat").COMPAT
    if not isinstance(found, Compat):  # pragma: no cover - a folder of ours has one
        raise TypeError(f"tracekit.compat.{name}.compat.COMPAT is no Compat")
    return found
