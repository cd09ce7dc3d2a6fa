"""Commands start without the wrappers of pyarrow.compute, which takes a fifth of the start to make all 286 of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

_AT_IMPORT = ("utf8_zero_fill",)
"""Functions that the module itself names while it is imported."""


def postpone_functions() -> None:
    """Import pyarrow.compute so that each function is wrapped when it is first asked for. For a process of our own.

    The module makes its wrappers from a list of all functions, in its last step; here that list is short. If a version
    of pyarrow does this in another way, the module is imported as usual.
    """
    if "pyarrow.compute" in sys.modules:
        return
    native: Any = import_module("pyarrow._compute")
    registry = native.function_registry
    native.function_registry = lambda: _Few(registry())
    try:
        compute: Any = import_module("pyarrow.compute")
        compute.__getattr__ = _wrapping(compute, registry())
        compute.function_registry = registry
        compute.add  # noqa: B018 - one that is not there fails here, and not later
    except Exception:  # noqa: BLE001 - the parts of another version may fail in any way
        sys.modules.pop("pyarrow.compute", None)
    finally:
        native.function_registry = registry


class _Few:
    """The registry of functions while pyarrow.compute is imported: with a short list."""

    def __init__(self, registry: Any) -> None:
        self._registry = registry

    def list_functions(self) -> list[str]:
        return [name for name in self._registry.list_functions() if name in _AT_IMPORT]

    def get_function(self, name: str) -> object:
        return self._registry.get_function(name)


def _wrapping(compute: Any, registry: Any) -> Callable[[str], object]:
    def wrapped(name: str) -> object:
        """Return the wrapper of a function, as pyarrow.compute makes it, and keep it there."""
        with suppress(KeyError):
            function = registry.get_function({"and_": "and", "or_": "or"}.get(name, name))
            if function.kind != "hash_aggregate" and not (function.kind == "scalar_aggregate" and not function.arity):
                made: object = compute._wrap_function(name, function)
                setattr(compute, name, made)
                return made
        raise AttributeError(f"module 'pyarrow.compute' has no attribute {name!r}")

    return wrapped
