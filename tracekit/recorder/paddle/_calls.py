"""Calls of watched objects: the functions of Paddle's classes are replaced, and an object is found by its identity.

So the object itself stays as it is: it is copied, pickled and saved as ever, and copies of it are not watched. The
class that is changed is the one of the object's classes that defines the function; a class below may call that of a
class above (`super().step()`), which is then not changed, or is not the one that is watched.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tracekit.recorder import _ranges
from tracekit.recorder._session import SESSION
from tracekit.recorder.hooks.attributes import Attributes, Function

FAILED: Final = "watch_failed"
_SKIP_FILES: Final = "jit.sot.opcode_translator.skip_files"
"""The files whose functions Paddle's compiler does not look into."""


class Watched(NamedTuple):
    """The range of a watched call. before, after: called beside it."""

    name: str
    kind: str | None
    category: str | None
    before: Callable[[], None]
    after: Callable[[], None]


class _Entry(NamedTuple):
    """A watched object. reference: returns it while it lives; owner: the class whose function is replaced."""

    reference: Callable[[], object]
    owner: type
    range_: Watched


class _Open(threading.local):
    """The kinds of calls of which the thread is in one: only the outermost one is a range."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()


def aside(function: Callable[[], object]) -> None:
    """Call a part of the watch: its faults are counted and do not reach the program."""
    try:
        function()
    except Exception:  # noqa: BLE001 - a guest does not raise
        SESSION.count(FAILED)


class Calls:
    """The watched objects of this process, by function and identity."""

    def __init__(self) -> None:
        self.attributes = Attributes()
        self._entries: dict[tuple[str, int], tuple[_Entry, ...]] = {}
        self._lock = threading.RLock()
        self._open = _Open()
        self._before_backward: tuple[Callable[[], None], ...] = ()
        self.in_sot: Callable[[], bool] = _no

    def keep_out_of_compiled_code(self) -> None:
        """Make Paddle's bytecode compiler (SOT) pass by the recorder's functions, where this Paddle has it."""
        base, skip = (sys.modules.get(f"paddle.{name}") for name in ("base.dygraph.base", _SKIP_FILES))
        self.in_sot = getattr(base, "in_sot_simulation_mode", _no)
        folder = str(Path(__file__).parent.parent) + os.sep
        if skip is not None and folder not in skip.skip_file_names:
            skip.skip_file_names.add(folder)
            skip.setup_skip_files()

    def watch(self, watched: object, name: str, range_: Watched) -> Callable[[], None]:
        """Record the calls of an object's function; return a function that ends it.

        An object that two watches have is recorded once, by the first's name. Raises: TypeError, AttributeError where
        the class cannot be changed.
        """
        owner = next(cls for cls in type(watched).__mro__ if name in vars(cls))
        end_replacement = self.attributes.replace(owner, name, functools.partial(self._method, owner, name))
        key = name, id(watched)
        entry = _Entry(weakref.ref(watched), owner, range_)
        with self._lock:
            self._entries[key] = (*self._alive(key, watched), entry)

        def end() -> None:
            with self._lock:
                left = tuple(other for other in self._entries.get(key, ()) if other is not entry)
                if left:
                    self._entries[key] = left
                else:
                    self._entries.pop(key, None)
            end_replacement()

        return end

    def _alive(self, key: tuple[str, int], watched: object) -> tuple[_Entry, ...]:
        """Return the entries of an object; those of a dead one with the same id are none of its."""
        return tuple(entry for entry in self._entries.get(key, ()) if entry.reference() is watched)

    def _method(self, owner: type, name: str, function: Function, is_wanted: Callable[[], bool]) -> Function:
        in_sot = self.in_sot

        @functools.wraps(function)
        def run(this: object, *args: object, **kwargs: object) -> object:
            if in_sot():  # for Paddle's compiler this is a constant, so the rest is not compiled in
                return function(this, *args, **kwargs)
            entries = self._entries.get((name, id(this)))
            if entries is None or not is_wanted() or _ranges.is_off():
                return function(this, *args, **kwargs)
            entry = entries[0]
            if entry.reference() is not this or entry.owner is not owner:
                return function(this, *args, **kwargs)
            return self._ranged(entry.range_, function, this, *args, **kwargs)

        return run

    def _ranged(self, range_: Watched, function: Function, *args: object, **kwargs: object) -> object:
        """Call a function in its range; an optimizer's or a backward pass in another one of its kind has none."""
        kind = range_.kind if range_.kind in ("optimizer", "backward") else None
        if kind is not None and kind in self._open.kinds:
            return function(*args, **kwargs)
        aside(range_.before)
        if kind is not None:
            self._open.kinds.add(kind)
        try:
            with _ranges.get_range(range_.name, range_.kind, range_.category):
                return function(*args, **kwargs)
        finally:
            if kind is not None:
                self._open.kinds.discard(kind)
            aside(range_.after)

    def watch_backward(self, owner: object, before: Callable[[], None]) -> Callable[[], None]:
        """Record the calls of `owner.backward`, of any loss; return a function that ends it."""
        end_replacement = self.attributes.replace(owner, "backward", self._backward)
        with self._lock:
            self._before_backward = (*self._before_backward, before)

        def end() -> None:
            with self._lock:
                self._before_backward = tuple(other for other in self._before_backward if other is not before)
            end_replacement()

        return end

    def _backward(self, function: Function, is_wanted: Callable[[], bool]) -> Function:
        def before() -> None:
            for begin in dict.fromkeys(self._before_backward):
                begin()

        range_ = Watched("backward", "backward", None, before, lambda: None)

        @functools.wraps(function)
        def run(*args: object, **kwargs: object) -> object:
            if not is_wanted() or _ranges.is_off():
                return function(*args, **kwargs)
            return self._ranged(range_, function, *args, **kwargs)

        return run


def _no() -> bool:
    return False


CALLS: Final = Calls()
