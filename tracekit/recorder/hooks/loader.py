"""A watched training loop: what ends it, and its data loader. Shared by the watches of the frameworks."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sized
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from tracekit.recorder import _process, _ranges, _values
from tracekit.recorder._jsonl import StepItem
from tracekit.recorder._overlap import OpenRange
from tracekit.recorder._process import print_note
from tracekit.recorder._session import SESSION, BatchWatcher
from tracekit.recorder.hooks.batch_sizes import BatchSizes
from tracekit.recorder.log_format import NO_STEP

__all__ = [
    "NAME",
    "TIMED",
    "Attributes",
    "Function",
    "LoaderSteps",
    "Loaders",
    "Make",
    "Watch",
    "check_verbosity",
    "ignore_warning",
    "on_batch",
    "optimizers_of",
    "timed_loader",
    "watch_loader",
]

# Changes to what belongs to others, undone when nobody needs them any more: functions, filters of warnings.


Function = Callable[..., object]
Make = Callable[[Function, Callable[[], bool]], Function]
"""Makes the replacement from (the original, a function that says whether it is still needed)."""


class _Replacement:
    """One attribute of one object. users: how many need it; at 0 the replacement hands everything on."""

    def __init__(self, owner: object, name: str, make: Make) -> None:
        self.owner, self.name, self.users = owner, name, 0
        self.own = name in vars(owner)
        self.original: Function = getattr(owner, name)
        self.function = make(self.original, lambda: self.users > 0)
        setattr(owner, name, self.function)

    def undo(self) -> bool:
        """Restore the attribute; False where somebody else has put something around ours meanwhile."""
        if vars(self.owner).get(self.name) is not self.function:
            return False
        if self.own:
            setattr(self.owner, self.name, self.original)
        else:
            delattr(self.owner, self.name)
        return True


class Attributes:
    """The attributes that are replaced now."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._replaced: dict[tuple[int, str], _Replacement] = {}

    def replace(self, owner: object, name: str, make: Make) -> Callable[[], None]:
        """Replace `owner.name` by `make(original, is_wanted)`, once for all callers; return a function that ends it.

        The last one that ends it restores the attribute. Where somebody has replaced ours by then, ours stays
        below it and only calls the original, since `is_wanted()` is False. Raises: AttributeError, TypeError where
        the attribute cannot be set.
        """
        with self._lock:
            key = (id(owner), name)
            if key not in self._replaced:
                self._replaced[key] = _Replacement(owner, name, make)  # keeps the owner alive, and so its id its own
            replacement = self._replaced[key]
            replacement.users += 1
        ended = False

        def end() -> None:
            nonlocal ended
            with self._lock:
                if ended:
                    return
                ended = True
                replacement.users -= 1
                if not replacement.users and replacement.undo():
                    del self._replaced[key]

        return end


def ignore_warning(message: str) -> Callable[[], None]:
    """Ignore warnings that start with this text; return a function that ends it."""
    pattern = re.escape(message)
    warnings.filterwarnings("ignore", message=pattern)

    def end() -> None:
        filters = cast(MutableSequence[object], warnings.filters)  # declared as a Sequence; it is a list
        for entry in [entry for entry in warnings.filters if getattr(entry[1], "pattern", None) == pattern]:
            with contextlib.suppress(ValueError):
                filters.remove(entry)

    return end


# Data loaders with a range around the fetching of each batch.


T = TypeVar("T")


class _LoadersEntered(threading.local):
    """The number of watched loaders that the thread is in: what they read inside belongs to their ranges."""

    depth = 0


TIMED: Final = _LoadersEntered()


@contextlib.contextmanager
def timed_loader(name: str) -> Iterator[None]:
    """Make a range of kind `dataloader` around what a loader does; what it reads inside makes none."""
    TIMED.depth += 1
    try:
        with _ranges.get_range(name, "dataloader"):
            yield
    finally:
        TIMED.depth -= 1


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
        begin = _process.now() if watchers else 0
        TIMED.depth += 1
        try:
            with _ranges.get_range(self._name, "dataloader"):
                item = next(self._inner)
        finally:
            TIMED.depth -= 1
        if watchers:
            end = _process.now()
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
        with timed_loader(f"{self._name} (start)"):
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


# Steps of a watched training loop, and the data loaders whose batches make them.
#
# A loop does not show where its steps begin, and the program may leave it anywhere. So a step is an overlapping range:
# it
# crosses nothing, and it may begin in the past, since the fetching of its batch is its first part.


NAME: Final = "dataloader"


class LoaderSteps:
    """The steps of one watched loop, one at a time."""

    def __init__(self, *, wanted: bool) -> None:
        self.wanted = wanted
        self._opened: OpenRange | None = None

    def __reduce__(self) -> tuple[Callable[[], LoaderSteps], tuple[()]]:
        return functools.partial(LoaderSteps, wanted=self.wanted), ()  # the open step is the original's alone

    def begin(self, t: int, samples: int | None = None) -> None:
        """Begin the next step at `t`, unless one is open. samples: of its batch, where they are known."""
        opened = self._opened
        if not self.wanted or _ranges.is_off() or (opened is not None and opened.generation == SESSION.generation):
            return
        SESSION.last_step += 1
        range_ = _ranges.get_range("step", "step")
        if SESSION.logging:
            SESSION.events.append(StepItem(SESSION.last_step, t, range_.state.index))
        number = SESSION.last_step
        self._opened = range_.begin_apart(
            number if samples is None else {"payload": number, "num_samples": samples}, t=t
        )

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

    def __init__(self, inner: Iterator[object], steps: LoaderSteps, sizes: BatchSizes) -> None:
        self._inner, self._steps, self._sizes = inner, steps, sizes

    def __reduce__(self) -> tuple[type[StepIterator], tuple[Iterator[object], LoaderSteps, BatchSizes]]:
        return type(self), (self._inner, self._steps, self._sizes)

    def __iter__(self) -> StepIterator:
        return self

    def __next__(self) -> object:
        begun = _process.now()
        self._call(self._steps.end, begun)
        item = next(self._inner)
        self._call(self._begin, begun, item)
        return item

    def _begin(self, t: int, item: object) -> None:
        self._steps.begin(t, self._sizes.next(item))

    @staticmethod
    def _call(function: Callable[..., None], *args: object) -> None:
        try:
            function(*args)
        except Exception:  # noqa: BLE001 - a guest does not raise
            SESSION.count("watch_failed")

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # a loop that was left; or half of the interpreter is gone
            self._steps.end(_process.now())


class _Loader(NamedTuple):
    """A watched loader. reference: returns it while it lives; owner: the class whose `__iter__` is replaced."""

    reference: Callable[[], object]
    owner: type
    steps: LoaderSteps


class Loaders:
    """The data loaders that are watched in their place: their class's `__iter__` is replaced meanwhile."""

    def __init__(self, attributes: Attributes) -> None:
        self._attributes = attributes
        self._loaders: dict[int, _Loader] = {}

    def add(self, loader: object, steps: LoaderSteps) -> Callable[[], None] | None:
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

    def has(self, loader: object) -> bool:
        """Return whether the loader is watched in its place."""
        watched = self._loaders.get(id(loader))
        return watched is not None and watched.reference() is loader

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
                return StepIterator(function(loader), watched.steps, BatchSizes(loader))
            with _ranges.get_range(f"{NAME} (start)", "dataloader"):
                inner = function(loader)
            return StepIterator(WatchedIterator(inner, loader, NAME), watched.steps, BatchSizes(loader))

        return __iter__


class Batches(Wrapper):
    """A loader that is watched through this object, since its own class cannot be changed."""

    _inner: Iterable[object]

    def __init__(self, loader: Iterable[object], steps: LoaderSteps) -> None:
        self._inner, self._steps = loader, steps

    def __reduce__(self) -> tuple[type[Batches], tuple[Iterable[object], LoaderSteps]]:
        return type(self), (self._inner, self._steps)

    def __iter__(self) -> Iterator[object]:
        return StepIterator(iter(WatchedLoader(self._inner, NAME)), self._steps, BatchSizes(self._inner))


def _reference(loader: object) -> Callable[[], object]:
    try:
        return weakref.ref(loader)
    except TypeError:
        return lambda: loader


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

    def watch_loader(self, loader: Iterable[object], loaders: Loaders, steps: LoaderSteps) -> None:
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
