"""Registries of readers, views, writers and renderers: ours, and those of other packages, by entry points.

    [project.entry-points."tracekit.readers"]
    toy = "tracekit_toy.reader:READER"

A `Registry` knows the names of our own declarations, and imports the module of one when it is asked for that one.
Where declarations are data (readers, writers), their functions are a `Place` each, imported when it is called.

The groups are `tracekit.readers`, `tracekit.views`, `tracekit.writers` and `tracekit.compat`; each entry point names a
declaration (a Reader, View, Writer or Compat). `docs/plugin/` has a complete package. A plugin that cannot be loaded is
named in a PluginWarning and skipped, and so is one whose name is taken.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUPS", "Declared", "Place", "PluginWarning", "Registry", "has_plugins", "home_of", "installed", "plugins"]

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


class Place:
    """A function by its place, "module:name". Its module is imported when it is first called."""

    __slots__ = ("_function", "module", "name")

    def __init__(self, place: str) -> None:
        self.module, _, self.name = place.partition(":")
        self._function: Callable[..., Any] | None = None

    def __call__(self, *given: Any) -> Any:
        """Call the function."""
        if self._function is None:
            self._function = getattr(import_module(self.module), self.name)
        return self._function(*given)

    def __repr__(self) -> str:
        return f"{self.module}:{self.name}"


def home_of(function: Callable[..., object]) -> str:
    """Return the name of the module in which a function of a declaration is; a `Place` is not imported for it."""
    return function.module if isinstance(function, Place) else function.__module__


class Registry(MutableMapping[str, D]):
    """Declarations by name: ours, each imported when it is asked for, then those of other packages.

    group: the package of our modules, and the group of entry points. kind: the class of a declaration. modules: the
    name of each declaration of ours, and its module below the package. attribute: what the module calls it. ready:
    declarations of ours that need no import. Names are known without an import; `values` and `items` load all.
    """

    def __init__(
        self,
        group: str,
        kind: type[D],
        attribute: str = "",
        modules: Mapping[str, str] | None = None,
        *,
        ready: Iterable[D] = (),
    ) -> None:
        self._group, self._kind, self._attribute, self._modules = group, kind, attribute, dict(modules or {})
        self._loaded: dict[str, D] = {each.name: each for each in ready}
        self._ours = (*self._modules, *self._loaded)
        self._others: dict[str, D] | None = None

    def __getitem__(self, name: str) -> D:
        if name in self._loaded:
            return self._loaded[name]
        if name not in self._modules:
            return self._of_plugins()[name]
        place = f"{self._group}.{self._modules[name]}"
        declared: object = getattr(import_module(place), self._attribute)
        if not isinstance(declared, self._kind) or declared.name != name:
            raise TypeError(f"{place}.{self._attribute} is no {self._kind.__name__} with the name {name}")
        self._loaded[name] = declared
        return declared

    def __setitem__(self, name: str, declared: D) -> None:
        self._loaded[name] = declared

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys((*self._ours, *self._of_plugins(), *self._loaded))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._modules or name in self._loaded or name in self._of_plugins()

    def _of_plugins(self) -> dict[str, D]:
        if self._others is None:
            # A look for plugins reads a file of every installed package, so it waits until a name is not one of ours.
            self._others = plugins(self._group, self._kind, self._ours) if self._group in GROUPS else {}
        return self._others


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


def installed() -> list[str]:
    """Return a line for each entry point of these groups: group, name, value, and the version of its package."""
    found = ((group, entry) for group, entries in _installed().items() for entry in entries)
    return [f"{group} {e.name} {e.value} {e.dist.version if e.dist else ''}" for group, e in found]


def has_plugins(*groups: str) -> bool:
    """Return whether other packages offer a declaration in one of these groups; none is imported for it."""
    return any(_installed()[group] for group in groups)


@cache
def _installed() -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points of each group. They are read once: that opens a file of every installed package."""
    if not _may_be_there():
        return dict.fromkeys(GROUPS, ())
    from importlib.metadata import entry_points

    found = entry_points()
    return {group: tuple(found.select(group=group)) for group in GROUPS}


def _may_be_there() -> bool:
    """Return whether an installed package may have entry points of ours; importlib.metadata takes longer to say."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    for folder in map(Path, dict.fromkeys(sys.path)):
        if folder.is_file():  # an archive
            return True
        for facts in (*folder.glob("*.dist-info"), *folder.glob("*.egg-info")):
            with suppress(OSError):
                if b"[tracekit." in (facts / "entry_points.txt").read_bytes():
                    return True
    return False


def _skip(entry: EntryPoint, reason: str) -> None:
    package = f" of {entry.dist.name}" if entry.dist is not None else ""
    warnings.warn(f"plugin {entry.name}{package} skipped ({reason})", PluginWarning, stacklevel=4)
