"""Steps of a watched training loop, and the data loaders whose batches make them.

A loop does not show where its steps begin, and the program may leave it anywhere. So a step is an overlapping range: it
crosses nothing, and it may begin in the past, since the fetching of its batch is its first part.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from tracekit.recorder import _clock, _ranges
from tracekit.recorder._jsonl import StepItem
from tracekit.recorder._overlap import OpenRange
from tracekit.recorder._session import SESSION
from tracekit.recorder.hooks.attributes import Attributes
from tracekit.recorder.hooks.loader import WatchedIterator, WatchedLoader, Wrapper
from tracekit.recorder.log_format import NO_STEP

NAME: Final = "dataloader"


class Steps:
    """The steps of one watched loop, one at a time."""

    def __init__(self, *, wanted: bool) -> None:
        self.wanted = wanted
        self._opened: OpenRange | None = None

    def __reduce__(self) -> tuple[Callable[[], Steps], tuple[()]]:
        return functools.partial(Steps, wanted=self.wanted), ()  # the open step is the original's alone

    def begin(self, t: int) -> None:
        """Begin the next step at `t`, unless one is open."""
        opened = self._opened
        if not self.wanted or _ranges.is_off() or (opened is not None and opened.generation == SESSION.generation):
            return
        SESSION.last_step += 1
        range_ = _ranges.get_range("step", "step")
        if SESSION.logging:
            SESSION.events.append(StepItem(SESSION.last_step, t, range_.state.index))
        self._opened = range_.begin_apart(SESSION.last_step, t=t)

    def end(self, t: int) -> None:
        """End the open step."""
        opened, self._opened = self._opened, None
        if opened is None or opened.generation != SESSION.generation:
            return
        index = _ranges.thread_state().index
        opened.finish(t, index)
        if SESSION.logging:
            SESSION.events.append(StepItem(NO_STEP, t, index))


class StepIterator(Wrapper, Iterator[object]):
    """An iterator over batches: a step is from the fetching of a batch to that of the next one."""

    _inner: Iterator[object]

    def __init__(self, inner: Iterator[object], steps: Steps) -> None:
        self._inner, self._steps = inner, steps

    def __reduce__(self) -> tuple[type[StepIterator], tuple[Iterator[object], Steps]]:
        return type(self), (self._inner, self._steps)

    def __iter__(self) -> StepIterator:
        return self

    def __next__(self) -> object:
        begun = _clock.now()
        self._call(self._steps.end, begun)
        item = next(self._inner)
        self._call(self._steps.begin, begun)
        return item

    @staticmethod
    def _call(function: Callable[[int], None], t: int) -> None:
        try:
            function(t)
        except Exception:  # noqa: BLE001 - a guest does not raise
            SESSION.count("watch_failed")

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # a loop that was left; or half of the interpreter is gone
            self._steps.end(_clock.now())


class _Loader(NamedTuple):
    """A watched loader. reference: returns it while it lives; owner: the class whose `__iter__` is replaced."""

    reference: Callable[[], object]
    owner: type
    steps: Steps


class Loaders:
    """The data loaders that are watched in their place: their class's `__iter__` is replaced meanwhile."""

    def __init__(self, attributes: Attributes) -> None:
        self._attributes = attributes
        self._loaders: dict[int, _Loader] = {}

    def add(self, loader: object, steps: Steps) -> Callable[[], None] | None:
        """Watch a loader; return a function that ends it, None where its class cannot be changed (list, generator).

        Raises: ValueError when it is watched already.
        """
        owner = next((cls for cls in type(loader).__mro__ if "__iter__" in vars(cls)), None)
        watched = self._loaders.get(id(loader))
        if watched is not None and watched.reference() is loader:
            raise ValueError("this dataloader is watched already")
        if owner is None:
            return None
        try:
            end = self._attributes.replace(owner, "__iter__", functools.partial(self._iter, owner))
        except TypeError:
            return None
        key = id(loader)
        self._loaders[key] = added = _Loader(_reference(loader), owner, steps)

        def remove() -> None:
            if self._loaders.get(key) is added:
                del self._loaders[key]
            end()

        return remove

    def _iter(
        self, owner: type, function: Callable[[object], Iterator[object]], is_wanted: Callable[[], bool]
    ) -> Callable[[object], Iterator[object]]:
        @functools.wraps(function)
        def __iter__(loader: object) -> Iterator[object]:
            watched = self._loaders.get(id(loader)) if is_wanted() else None
            # A class below may have an `__iter__` of its own, which calls this one: it is the one that is watched.
            if watched is None or watched.reference() is not loader or watched.owner is not owner:
                return function(loader)
            if isinstance(loader, WatchedLoader):
                return StepIterator(function(loader), watched.steps)
            with _ranges.get_range(f"{NAME} (start)", "dataloader"):
                inner = function(loader)
            return StepIterator(WatchedIterator(inner, loader, NAME), watched.steps)

        return __iter__


class Batches(Wrapper):
    """A loader that is watched through this object, since its own class cannot be changed."""

    _inner: Iterable[object]

    def __init__(self, loader: Iterable[object], steps: Steps) -> None:
        self._inner, self._steps = loader, steps

    def __reduce__(self) -> tuple[type[Batches], tuple[Iterable[object], Steps]]:
        return type(self), (self._inner, self._steps)

    def __iter__(self) -> Iterator[object]:
        return StepIterator(iter(WatchedLoader(self._inner, NAME)), self._steps)


def _reference(loader: object) -> Callable[[], object]:
    try:
        return weakref.ref(loader)
    except TypeError:
        return lambda: loader
