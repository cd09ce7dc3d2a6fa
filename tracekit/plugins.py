"""Readers, views, writers and compats of other packages, by entry points.

    [project.entry-points."tracekit.readers"]
    toy = "tracekit_toy.reader:READER"

The groups are `tracekit.readers`, `tracekit.views`, `tracekit.writers` and `tracekit.compat`; each entry point names a
declaration (a Reader, View, Writer or Compat). `docs/plugin/` has a complete package. A plugin that cannot be loaded is
named in a PluginWarning and skipped, and so is one whose name is taken.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, TypeVar

GROUPS = ("tracekit.readers", "tracekit.views", "tracekit.writers", "tracekit.compat")
"""The groups of entry points."""


class PluginWarning(UserWarning):
    """A plugin that was skipped, with the reason."""


class Declared(Protocol):
    """A declaration with a name: a Reader, View, Writer or Compat."""

    @property
    def name(self) -> str:
        """The name that users write."""


D = TypeVar("D", bound=Declared)


def plugins(group: str, kind: type[D], taken: Collection[str]) -> dict[str, D]:
    """Return the declarations that other packages offer in a group, by name, in the order of their names.

    kind: the class of the declaration. taken: names that a plugin may not have. Warns: PluginWarning for each one that
    is skipped.
    """
    found: dict[str, D] = {}
    for entry in sorted(_entries(group), key=lambda entry: entry.name):
        try:
            declared = _loader(entry)()
        except Exception as err:  # noqa: BLE001 - a foreign module may raise anything
            _skip(entry, f"{type(err).__name__}: {err}")
            continue
        if not isinstance(declared, kind):
            _skip(entry, f"{entry.value} is not a {kind.__name__}")
        elif declared.name in taken or declared.name in found:
            _skip(entry, f"the name {declared.name} is taken")
        else:
            found[declared.name] = declared
    return found


def _loader(entry: EntryPoint) -> Callable[[], object]:
    return entry.load


def _entries(group: str) -> Iterator[EntryPoint]:
    """Return the entry points of a group, once each: a package may be found twice on the path."""
    seen = set()
    for entry in _installed()[group]:
        if (entry.name, entry.value) not in seen:
            seen.add((entry.name, entry.value))
            yield entry


@cache
def _installed() -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points of each group. They are read once: that opens a file of every installed package."""
    found = entry_points()
    return {group: tuple(found.select(group=group)) for group in GROUPS}


def _skip(entry: EntryPoint, reason: str) -> None:
    package = f" of {entry.dist.name}" if entry.dist is not None else ""
    warnings.warn(f"plugin {entry.name}{package} skipped ({reason})", PluginWarning, stacklevel=4)
