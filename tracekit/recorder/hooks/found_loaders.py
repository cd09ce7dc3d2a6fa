"""The data loaders of a program, which nobody named: found as the program makes an iterator of one.

Functions of the framework's classes are replaced, and the loaders and their iterators stay what they are. In torch they
are `_get_iterator` of DataLoader, which starts the workers, and `_reset` and `__next__` of its iterators; in Paddle the
iterators' `__init__`, `_reset` and `__next__`. They are private, and have been the same for years. Where one is
missing, only loaders that are named are recorded.

A loader that `watch` was given, or that is read through `watch_loader`, has its ranges already.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from tracekit.recorder import _process, _ranges
from tracekit.recorder._session import SESSION
from tracekit.recorder.hooks.batch_sizes import BatchSizes
from tracekit.recorder.hooks.found_steps import FOUND
from tracekit.recorder.hooks.loader import NAME, TIMED, Attributes, Function, Make, timed_loader

__all__ = ["FoundLoaders"]


class _Pass:
    """One pass over a loader. It refers to neither, so that it sees when the program drops the iterator."""

    def __init__(self, iterator: Any, loader: Any) -> None:
        self.sizes = BatchSizes(loader)
        self.loader = weakref.ref(loader)
        self._ended = weakref.ref(iterator, lambda _: _aside(FOUND.leave, self, _process.now()))


class FoundLoaders:
    """The iterators of a framework's loaders that are read now. is_named: returns whether the loader is watched."""

    def __init__(self, attributes: Attributes, is_named: Callable[[object], bool]) -> None:
        self._attributes, self._is_named = attributes, is_named
        self._passes: weakref.WeakKeyDictionary[Any, _Pass] = weakref.WeakKeyDictionary()

    def find_in_torch(self, torch: Any) -> Callable[[], None]:
        """Find torch's loaders from now on; return a function that ends it."""
        module = torch.utils.data.dataloader
        iterator = getattr(module, "_BaseDataLoaderIter", None)
        return self._replace(
            (module.DataLoader, "_get_iterator", self._get_iterator),
            (iterator, "_reset", self._reset),
            (iterator, "__next__", self._next),
        )

    def find_in_paddle(self, iterators: Any) -> Callable[[], None]:
        """Find Paddle's loaders from now on; return a function that ends it. iterators: the module of their classes."""
        single, several = (getattr(iterators, f"_DataLoaderIter{kind}Process", None) for kind in ("Single", "Multi"))
        return self._replace(
            (single, "__init__", self._init),
            (single, "__next__", self._next),
            (several, "__init__", self._init),
            (several, "_reset", self._reset),
            (several, "__next__", self._next),
        )

    def _replace(self, *wanted: tuple[object, str, Make]) -> Callable[[], None]:
        ends: list[Callable[[], None]] = []
        if all(hasattr(owner, name) for owner, name, _ in wanted):
            ends = [self._attributes.replace(owner, name, make) for owner, name, make in wanted]

        def end() -> None:
            for each in ends:
                each()

        return end

    def _init(self, function: Function, is_wanted: Callable[[], bool]) -> Function:
        @functools.wraps(function)
        def __init__(iterator: Any, loader: Any, *args: object, **kwargs: object) -> None:
            if not is_wanted() or _ranges.is_off() or TIMED.depth or self._is_named(loader):
                function(iterator, loader, *args, **kwargs)
                return
            with timed_loader(f"{NAME} (start)"):
                function(iterator, loader, *args, **kwargs)
            _aside(self._begin, iterator, loader)

        return __init__

    def _get_iterator(self, function: Function, is_wanted: Callable[[], bool]) -> Function:
        @functools.wraps(function)
        def _get_iterator(loader: Any) -> object:
            if not is_wanted() or _ranges.is_off() or TIMED.depth or self._is_named(loader):
                return function(loader)
            with timed_loader(f"{NAME} (start)"):
                iterator = function(loader)
            _aside(self._begin, iterator, loader)
            return iterator

        return _get_iterator

    def _reset(self, function: Function, is_wanted: Callable[[], bool]) -> Function:
        @functools.wraps(function)
        def _reset(iterator: Any, *args: object, **kwargs: object) -> object:
            # The first time it is a part of making the iterator; then workers that persist begin another pass.
            current = self._passes.get(iterator) if is_wanted() else None
            if current is not None:
                _aside(FOUND.leave, current, _process.now())
                _aside(self._begin, iterator, current.loader())
            return function(iterator, *args, **kwargs)

        return _reset

    def _next(self, function: Function, is_wanted: Callable[[], bool]) -> Function:
        @functools.wraps(function)
        def __next__(iterator: Any) -> object:
            current = self._passes.get(iterator) if is_wanted() and not _ranges.is_off() else None
            if current is None:
                return function(iterator)
            begin = _process.now()
            _aside(FOUND.fetch, current, begin)
            TIMED.depth += 1
            try:
                with _ranges.get_range(NAME, "dataloader"):
                    batch = function(iterator)
            finally:
                TIMED.depth -= 1
            _aside(_arrived, current, begin, batch)
            return batch

        return __next__

    def _begin(self, iterator: Any, loader: Any) -> None:
        self._passes[iterator] = _Pass(iterator, loader)


def _arrived(current: _Pass, begin: int, batch: object) -> None:
    FOUND.arrive(current, begin, current.sizes.next(batch))


def _aside(function: Callable[..., None], *args: object) -> None:
    """Call a part of the watch: its faults are counted and do not reach the program."""
    try:
        function(*args)
    except Exception:  # noqa: BLE001 - a guest does not raise
        SESSION.count("watch_failed")
