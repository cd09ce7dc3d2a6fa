"""Data loaders with a range around the fetching of each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, Generic, TypeVar

from tracekit.recorder import _clock, _ranges, _values
from tracekit.recorder._session import SESSION, BatchWatcher

T = TypeVar("T")


class Wrapper:
    """An object around another one, whose length and other attributes are its own too."""

    __slots__ = ("_inner",)

    _inner: object

    def __len__(self) -> int:
        if isinstance(self._inner, Sized):
            return len(self._inner)
        raise TypeError(f"object of type {type(self._inner).__name__!r} has no len()")

    def __getattr__(self, attribute: str) -> Any:
        # A copy that is half made has no `_inner` yet. Python and `copy` look for special methods in the class; those
        # of the inner object (`__deepcopy__`) would give a copy of it alone.
        if attribute == "_inner" or (attribute.startswith("__") and attribute.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {attribute!r}")
        return getattr(self._inner, attribute)


class WatchedIterator(Wrapper, Generic[T]):
    """An iterator over a loader; each of its `next` is a range of kind `dataloader`."""

    __slots__ = ("_loader", "_name")

    _inner: Iterator[T]

    def __init__(self, inner: Iterator[T], loader: object, name: str) -> None:
        self._inner, self._loader, self._name = inner, loader, name

    def __reduce__(self) -> tuple[type[WatchedIterator[T]], tuple[Iterator[T], object, str]]:
        return type(self), (self._inner, self._loader, self._name)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        watchers = SESSION.batch_watchers
        begin = _clock.now() if watchers else 0
        with _ranges.get_range(self._name, "dataloader"):
            item = next(self._inner)
        if watchers:
            end = _clock.now()
            for watcher in watchers:
                try:
                    watcher(self._loader, begin, end)
                except Exception:  # noqa: BLE001 - a watcher's fault is not the training loop's
                    SESSION.count("watcher_failed")
        return item


class WatchedLoader(Wrapper, Generic[T]):
    """A loader whose batches are timed."""

    _inner: Iterable[T]

    def __init__(self, loader: Iterable[T], name: str) -> None:
        self._inner, self._name = loader, _values.text_of(name, SESSION.count)

    def __reduce__(self) -> tuple[type[WatchedLoader[T]], tuple[Iterable[T], str]]:
        return type(self), (self._inner, self._name)

    def __iter__(self) -> WatchedIterator[T]:
        with _ranges.get_range(f"{self._name} (start)", "dataloader"):
            inner = iter(self._inner)
        return WatchedIterator(inner, self._inner, self._name)


def watch_loader(iterable: Iterable[T], *, name: str = "dataloader") -> WatchedLoader[T]:
    """Return the iterable with a range of kind `dataloader` around the making of its iterator and of each item.

    The last `next`, which finds that there is no item left, is a range too: its time is spent.
    """
    return WatchedLoader(iterable, name)


def on_batch(watcher: BatchWatcher) -> Callable[[], None]:
    """Call `watcher(loader, begin_ns, end_ns)` after each item that a watched loader gives, recording or not.

    loader: the argument of `watch_loader`; times: `time.perf_counter_ns`. The same watcher is called once, on the
    thread that reads; its exceptions are counted and do not reach the program. Return a function that ends it.
    """
    if watcher not in SESSION.batch_watchers:
        SESSION.batch_watchers = (*SESSION.batch_watchers, watcher)

    def remove() -> None:
        SESSION.batch_watchers = tuple(other for other in SESSION.batch_watchers if other != watcher)

    return remove
