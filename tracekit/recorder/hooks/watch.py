"""A watched training loop: what ends it, and its data loader. Shared by the watches of the frameworks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tracekit.recorder._process import print_note
from tracekit.recorder.hooks.loader_steps import Batches, Loaders, Steps

Optimizer = TypeVar("Optimizer")
Aside = Callable[[Callable[[], None]], object]
"""Calls a function whose faults must not reach the program."""


class Watch:
    """A watched training loop, until `remove` or the end of the `with`.

    dataloader: the object to loop over. It is the loader that was given, or another object where that one could not be
    watched in its place (a list, a generator); then a note on stderr says so. None without a loader.
    """

    def __init__(self, aside: Aside) -> None:
        self.dataloader: Any = None
        self._aside = aside
        self._ends: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @property
    def active(self) -> bool:
        """True until it is removed. It records while the recorder does."""
        return bool(self._ends)

    def at_end(self, end: Callable[[], None]) -> None:
        """Call this function when the watch ends; the last one added is called first."""
        self._ends.append(end)

    def remove(self) -> None:
        """Remove all hooks and end the open ranges. A second call does nothing."""
        with self._lock:
            ends, self._ends = self._ends, []
        for end in reversed(ends):
            self._aside(end)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, error: object, value: object, traceback: object) -> None:
        self.remove()

    def watch_loader(self, loader: Iterable[object], loaders: Loaders, steps: Steps) -> None:
        """Watch a data loader in its place, or through `dataloader`. Raises: TypeError, ValueError."""
        if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
            raise TypeError(f"dataloader gives batches to a loop, {type(loader).__name__} does not")
        self.dataloader = loader
        end = loaders.add(loader, steps)
        if end is None:
            self.dataloader = Batches(loader, steps)
            print_note(
                f"watch: a {type(loader).__name__} cannot be watched in its place; loop over the watch's `dataloader`"
            )
        else:
            self.at_end(end)


def check_verbosity(verbosity: int) -> None:
    """Raise ValueError for a verbosity that no watch has."""
    if verbosity not in (1, 2):
        raise ValueError(f"verbosity is 1 or 2, not {verbosity!r}")


def optimizers_of(
    given: Optimizer | Iterable[Optimizer] | None, class_name: str, methods: tuple[str, ...]
) -> list[Optimizer]:
    """Return none, one or several optimizers as a list. Raises: TypeError where one lacks one of the methods."""
    if given is None:
        return []
    several = list(given) if isinstance(given, Iterable) else [given]
    for optimizer in several:
        if not all(hasattr(optimizer, method) for method in methods):
            raise TypeError(f"optimizer is a {class_name}, not {type(optimizer).__name__}")
    return several
