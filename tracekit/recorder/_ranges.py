"""Ranges: what a recorded program touches.

The cost of a range is the point of this file. So: a thread has one object for each name, found by one look-up; entering
and leaving append two integers each to the thread's own list, without a lock; what is rare (another thread's
object, an asyncio task, a payload) goes the long way; and what recording means (log, NVTX, both, nothing) is the
class of the objects, changed when recording starts and stops, not a question asked at every call.

The time is taken before the two appends: nothing that could let a signal handler in happens between these. The
flusher takes an even number of integers.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Any

from tracekit.recorder import _values
from tracekit.recorder._overlap import OpenRange, begin_async, end_async
from tracekit.recorder._session import MAX_NAMES, SESSION, ThreadEnd, ThreadState

_now = time.perf_counter_ns
_ident = threading.get_ident


def _nothing() -> object | None:
    return None


_running_loop: Callable[[], object | None] = _nothing


_local: Any = threading.local()  # state, ranges and end of each thread; a subclass with types would cost 15 ns a range
_made: weakref.WeakSet[Range] = weakref.WeakSet()


class Range:
    """A range of the program, as context manager and decorator; with recording off it does nothing.

    Get one from `tracekit.recorder.range`. It may be kept, used again, nested in itself, used by any thread or task.
    """

    __slots__ = (
        "__weakref__", "a", "b", "category", "color", "g", "i", "j", "kind", "name", "pop", "push", "r", "state", "t",
    )  # fmt: skip
    # i, j: the id and its negative; b: the thread's list; t: the thread; a, push, pop: NVTX; r: what was begun through
    # this object for another thread or a task; g: generation

    i: int
    j: int
    b: list[int]
    t: int
    a: Any
    push: Callable[[Any], object]
    pop: Callable[[], object]
    state: ThreadState

    def __init__(self, name: str, kind: str | None, category: str | None, color: int | None) -> None:
        self.name, self.kind, self.category, self.color = name, kind, category, color
        self.r: dict[Hashable, list[Range | OpenRange]] = {}
        self.g = 0

    def __enter__(self) -> Range:
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function, coroutine function or generator so that each of its runs is such a range."""
        from tracekit.recorder._decorate import wrap

        return wrap(function, self.name, self.kind, self.category, self.color, None)

    def begin_here(self) -> None:
        """Begin on the thread that this object belongs to."""

    def end_here(self, t: int) -> None:
        """End what `begin_here` began."""


class LogRange(Range):
    """A range that goes to the log."""

    __slots__ = ()

    def __enter__(self) -> Range:
        if _ident() != self.t or _running_loop() is not None:
            enter_aside(self)
            return self
        t = _now()
        b = self.b
        b.append(self.i)
        b.append(t)
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        t = _now()
        if self.r:
            exit_aside(self, t)
            return
        b = self.b
        b.append(self.j)
        b.append(t)

    def begin_here(self) -> None:
        self.b.extend((self.i, _now()))

    def end_here(self, t: int) -> None:
        self.b.extend((self.j, t))


class BothRange(Range):
    """A range that goes to the log and to NVTX."""

    __slots__ = ()

    def __enter__(self) -> Range:
        if _ident() != self.t or _running_loop() is not None:
            enter_aside(self)
            return self
        self.push(self.a)
        t = _now()
        b = self.b
        b.append(self.i)
        b.append(t)
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        t = _now()
        if self.r:
            exit_aside(self, t)
            return
        b = self.b
        b.append(self.j)
        b.append(t)
        self.pop()

    def begin_here(self) -> None:
        self.push(self.a)
        self.b.extend((self.i, _now()))

    def end_here(self, t: int) -> None:
        self.b.extend((self.j, t))
        self.pop()


class NvtxRange(Range):
    """A range that goes to NVTX alone."""

    __slots__ = ()

    def __enter__(self) -> Range:
        if _ident() != self.t or _running_loop() is not None:
            enter_aside(self)
        else:
            self.push(self.a)
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.r:
            exit_aside(self, 0)
        else:
            self.pop()

    def begin_here(self) -> None:
        self.push(self.a)

    def end_here(self, t: int) -> None:  # noqa: ARG002 - as the others
        self.pop()


class StaleRange(Range):
    """A range made before recording started, or forked away, or forgotten: its next use finds its place."""

    __slots__ = ()

    def __enter__(self) -> Range:
        if self.g == SESSION.generation:
            enter_aside(self)
        else:
            equip(self, thread_state())
            self.__enter__()
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        t = _now()
        if self.r:
            exit_aside(self, t)
        elif self.g == SESSION.generation:
            self.end_here(t)
        # else: what is left here was begun in an earlier recording, or in the process that forked this one

    def begin_here(self) -> None:
        _active_class.begin_here(self)

    def end_here(self, t: int) -> None:
        _active_class.end_here(self, t)


class ForkedRange(StaleRange):
    """A range that came into this process by a fork, and may be open: its end there must not be an end here."""

    __slots__ = ()

    def __enter__(self) -> Range:
        enter_aside(self)
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.r:
            exit_aside(self, _now())


_active_class: type[Range] = Range


def is_off() -> bool:
    """Return whether nothing is recorded."""
    return _active_class is Range


def range_(
    name: str, kind: str | None = None, category: str | None = None, color: str | int | None = None,
    payload: object = None,
) -> Range:  # fmt: skip
    """Return this thread's range of that name (see `tracekit.recorder.range`)."""
    try:
        if kind is None and category is None and color is None and payload is None:
            return _local.ranges[name]  # type: ignore[no-any-return]
        if payload is None:
            return _local.ranges[name, kind, category, color]  # type: ignore[no-any-return]
    except (AttributeError, KeyError, TypeError):
        pass
    return _make(name, kind, category, color, payload)


def _make(name: object, kind: object, category: object, color: object, payload: object) -> Range:
    if payload is not None:
        from tracekit.recorder._payload import PayloadRange

        return PayloadRange(range_(name, kind, category, color), payload)  # type: ignore[arg-type]
    count = SESSION.count
    clean_kind = None if kind is None else _values.text_of(kind, count)
    clean_category = None if category is None else _values.text_of(category, count)
    clean_color = _values.color_of(color, count)
    clean_name = _values.text_of(name, count)
    found = find_range(clean_name, clean_kind, clean_category, clean_color)
    if all(isinstance(value, str | int | None) for value in (name, kind, category, color)):
        thread_state().ranges[name, kind, category, color] = found  # the spelling that range_ looks up
    return found


def find_range(name: str, kind: str | None, category: str | None, color: int | None) -> Range:
    """Return this thread's object for a name and its attributes, all of them clean."""
    state = thread_state()
    key: Hashable = name if kind is None and category is None and color is None else (name, kind, category, color)
    found = state.ranges.get(key)
    if found is not None:
        return found
    if len(state.ranges) >= MAX_NAMES:
        for old in state.ranges.values():
            old.__class__ = StaleRange
        state.ranges.clear()
    made = Range(name, kind, category, color)
    equip(made, state)
    _made.add(made)
    state.ranges[key] = made
    return made


def equip(made: Range, state: ThreadState) -> None:
    """Give a range what it needs to be recorded on a thread."""
    key: Hashable = (made.name, made.kind, made.category, made.color)
    made.i = SESSION.id_of(key, made.name, made.kind, made.category, made.color)
    made.j = -made.i
    made.b, made.t, made.state, made.g = state.buffer, state.ident, state, SESSION.generation
    made.r = {}
    made.a = None
    nvtx = SESSION.nvtx
    if nvtx is not None:
        made.a = nvtx.attributes(made.name, made.category or made.kind, made.color)
        made.push, made.pop = nvtx.push, nvtx.pop
    made.__class__ = _active_class


def thread_state() -> ThreadState:
    """Return the calling thread's state."""
    try:
        return _local.state  # type: ignore[no-any-return]
    except AttributeError:
        state = SESSION.new_thread()
        _local.state, _local.ranges, _local.end = state, state.ranges, ThreadEnd(state)
        return state


def current_task() -> Any | None:
    """Return the asyncio task that runs now, if one does."""
    return sys.modules["asyncio"].current_task() if _running_loop() is not None else None


def enter_aside(made: Range) -> None:
    """Begin a range whose object is another thread's, or that an asyncio task may leave open while others run."""
    own = find_range(made.name, made.kind, made.category, made.color)
    task = current_task()
    if task is None and own is made:
        made.begin_here()
    elif task is None:
        own.begin_here()
        made.r.setdefault(_ident(), []).append(own)
    else:
        made.r.setdefault(task, []).append(begin_async(own))


def exit_aside(made: Range, t: int) -> None:
    """End a range of an object that was entered aside somewhere, here or elsewhere."""
    task = current_task()
    key: Hashable = _ident() if task is None else task
    opened = made.r.get(key)
    if opened:
        last = opened.pop()
        if not opened:
            made.r.pop(key, None)
        if isinstance(last, OpenRange):
            end_async(last, t, thread_state().index)
        elif last.g == SESSION.generation:
            last.end_here(t)
    elif task is None and _ident() == made.t:
        made.end_here(t)
    else:
        SESSION.count("end_without_begin")


def set_mode(*, fresh: bool, forked: bool = False) -> None:
    """Make all ranges do what the session says from now on.

    fresh: the threads and names that they were bound to are gone. forked: what is open now is the parent's to end. (A
    `with` that is open looked up its `__exit__` when it was entered; it does not see the new class.)
    """
    global _active_class, _local, _running_loop
    recording = {(True, True): BothRange, (True, False): LogRange, (False, True): NvtxRange}
    _active_class = recording.get((SESSION.logging, SESSION.nvtx is not None), Range)
    if _active_class is not Range and _running_loop is _nothing:
        import asyncio  # not with the module: it takes 40 ms

        _running_loop = asyncio._get_running_loop
    if fresh:
        _local = threading.local()
    for made in _known_ranges():
        if forked:
            made.pop = _nothing
            made.r = {}
        if fresh or made.g != SESSION.generation:
            made.__class__ = Range if _active_class is Range else ForkedRange if forked else StaleRange
        elif not isinstance(made, StaleRange) or _active_class is Range:
            made.__class__ = _active_class


def _known_ranges() -> list[Range]:
    while True:
        try:
            return list(_made)
        except RuntimeError:  # another thread made a range meanwhile
            continue
