"""Call a function when the program has imported a module: nothing is imported that the program does not import."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["after_import"]


class _Watcher(MetaPathFinder):
    """Finds nothing itself: where the others find a module that is waited for, its loader calls the function, once."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name, self._then = name, then
        self._looking = False

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the others find, with our call behind it; None for any other module."""
        if fullname != self._name or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        loader: Any = None if spec is None else spec.loader
        if loader is None or not hasattr(loader, "exec_module"):
            return spec
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)  # the loader is as it was while the module runs
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            self._then(module)

        try:
            loader.exec_module = exec_module
        except AttributeError:  # a loader with slots, or a class as loader
            return spec
        return spec


def after_import(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call `then` with a module of the top level, now or as soon as the program has imported it."""
    module = sys.modules.get(name)
    if module is not None:
        then(module)
    else:
        sys.meta_path.insert(0, _Watcher(name, then))
