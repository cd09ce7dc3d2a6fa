"""Steps of a watched training loop, and the data loaders whose batches make them.

A loop does not say where its steps begin, and it may be left anywhere. So a step is an overlapping range: it crosses
nothing, and it may begin in the past, when the batch is there whose fetching is its first part.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from tracekit.recorder import _clock, _overlap, _ranges
from tracekit.recorder._api import WatchedIterator, WatchedLoader
from tracekit.recorder._attributes import Attributes
from tracekit.recorder._jsonl import StepItem
from tracekit.recorder._session import SESSION
from tracekit.recorder.log_format import NO_STEP

NAME: Final = "dataloader"


class Steps:
    """The steps of one watched loop, one at a time."""

    def __init__(self, *, wanted: bool) -> None:
        self.wanted = wanted
        self._opened: _overlap.OpenRange | None = None

    def begin(self, t: int) -> None:
        """Begin the next step at `t`, unless one is open."""
        opened = self._opened
        if not self.wanted or _ranges.is_off() or (opened is not None and opened.generation == SESSION.generation):
            return
        SESSION.last_step += 1
        made = _ranges.range_("step", "step")
        if SESSION.logging:
            SESSION.events.append(StepItem(SESSION.last_step, t, made.state.index))
        self._opened = _overlap.begin_async(made, SESSION.last_step, t=t)

    def end(self, t: int) -> None:
        """End the open step."""
        opened, self._opened = self._opened, None
        if opened is None or opened.generation != SESSION.generation:
            return
        index = _ranges.thread_state().index
        _overlap.end_async(opened, t, index)
        if SESSION.logging:
            SESSION.events.append(StepItem(NO_STEP, t, index))


class StepIterator(Iterator[Any]):
    """An iterator over batches: a step is from the fetching of a batch to that of the next one."""

    def __init__(self, inner: WatchedIterator[Any], steps: Steps) -> None:
        self._inner, self._steps = inner, steps

    def __iter__(self) -> StepIterator:
        return self

    def __next__(self) -> Any:
        begun = _clock.now()
        self._tell(self._steps.end, begun)
        item = next(self._inner)
        self._tell(self._steps.begin, begun)
        return item

    @staticmethod
    def _tell(function: Callable[[int], None], t: int) -> None:
        try:
            function(t)
        except Exception:  # noqa: BLE001 - a guest does not raise
            SESSION.count("watch_failed")

    def __len__(self) -> int:
        return len(self._inner)

    def __getattr__(self, attribute: str) -> Any:
        if attribute in ("_inner", "_steps"):
            raise AttributeError(attribute)
        return getattr(self._inner, attribute)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # a loop that was left; or half of the interpreter is gone
            self._steps.end(_clock.now())


class _Loader(NamedTuple):
    found: Callable[[], object]
    owner: type
    steps: Steps


class Loaders:
    """The data loaders that are watched where they stand: their class's `__iter__` is replaced meanwhile."""

    def __init__(self, attributes: Attributes) -> None:
        self._attributes = attributes
        self._loaders: dict[int, _Loader] = {}

    def add(self, loader: object, steps: Steps) -> Callable[[], None] | None:
        """Watch a loader; return what ends it, None where its class cannot be changed (a list, a generator).

        Raises: ValueError when it is watched.
        """
        owner = next((each for each in type(loader).__mro__ if "__iter__" in vars(each)), None)
        found = self._loaders.get(id(loader))
        if found is not None and found.found() is loader:
            raise ValueError("this dataloader is watched already")
        if owner is None:
            return None
        try:
            end = self._attributes.replace(owner, "__iter__", functools.partial(self._iter, owner))
        except TypeError:
            return None
        key = id(loader)
        self._loaders[key] = made = _Loader(_reference(loader), owner, steps)

        def remove() -> None:
            if self._loaders.get(key) is made:
                del self._loaders[key]
            end()

        return remove

    def _iter(
        self, owner: type, function: Callable[[Any], Iterator[Any]], wanted: Callable[[], bool]
    ) -> Callable[[Any], Iterator[Any]]:
        @functools.wraps(function)
        def __iter__(loader: Any) -> Iterator[Any]:
            found = self._loaders.get(id(loader)) if wanted() else None
            # A class below may have an `__iter__` of its own, which calls this one: it is the one that is watched.
            if found is None or found.found() is not loader or found.owner is not owner:
                return function(loader)
            if isinstance(loader, WatchedLoader):
                return StepIterator(function(loader), found.steps)  # type: ignore[arg-type]
            with _ranges.range_(f"{NAME} (start)", "dataloader"):
                inner = function(loader)
            return StepIterator(WatchedIterator(inner, loader, NAME), found.steps)

        return __iter__


class Batches:
    """A loader that is watched through this object, since its own class cannot be changed."""

    def __init__(self, loader: Any, steps: Steps) -> None:
        self._loader, self._steps = loader, steps

    def __iter__(self) -> Iterator[Any]:
        return StepIterator(iter(WatchedLoader(self._loader, NAME)), self._steps)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, attribute: str) -> Any:
        if attribute in ("_loader", "_steps"):
            raise AttributeError(attribute)
        return getattr(self._loader, attribute)


def _reference(loader: object) -> Callable[[], object]:
    try:
        return weakref.ref(loader)
    except TypeError:
        return lambda: loader
