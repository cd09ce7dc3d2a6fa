"""Ranges, and the look-up that finds them: what a recorded program touches at every call.

The cost of a range decides how this file and `_modes` are built:

- A thread has one object for each name that comes again, found by one look-up. A name that comes once borrows one.
- What recording means now (log, NVTX, both, nothing) is the class of the objects. It changes when recording starts and
  stops, so that no call has to ask. The classes with the fast path are in `_modes`.
- What is rare (another thread's object, an asyncio task, a payload for NVTX) takes the slower path: `enter_aside`.
- No class of a range has an `__init__`: in Python it would cost a third of a range with a payload.
- A copy of a range, or one from a pickle, is this thread's range of that name: `get_range` gives it.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar, cast

from tracekit.recorder import _values
from tracekit.recorder._jsonl import Key
from tracekit.recorder._overlap import KNOWN, OpenRange, RangeState, known_states
from tracekit.recorder._session import MAX_NAMES, MOST_SPARE, SESSION, ThreadEnd, ThreadState, asyncio_calls

# Ranges around functions, coroutine functions and generators, for any kind of range.


P = ParamSpec("P")
R = TypeVar("R")
Item = TypeVar("Item")
Sent = TypeVar("Sent")
Opened = TypeVar("Opened")


@dataclass(frozen=True, slots=True)
class Timing(Generic[Opened]):
    """Two ways to time a run.

    nested: the run ends before anything around it does. begin, end: the run may overlap others of its thread, as those
    of coroutines and generators do.
    """

    nested: Callable[[], AbstractContextManager[object]]
    begin: Callable[[], Opened]
    end: Callable[[Opened], object]


def wrap(function: Callable[P, R], timing: Timing[Opened]) -> Callable[P, R]:
    """Return the function with a range around each of its runs; name, signature and result stay.

    A coroutine's range is from its first step to its end, a generator's from its first `next` to its end or close.
    """
    wrapped: Callable[P, object]
    if inspect.isasyncgenfunction(function):
        wrapped = _wrap_async_generator(function, timing)
    elif inspect.iscoroutinefunction(function):
        wrapped = _wrap_coroutine(function, timing)
    elif inspect.isgeneratorfunction(function):
        wrapped = _wrap_generator(function, timing)
    else:
        wrapped = _wrap_function(function, timing)
    return cast("Callable[P, R]", wrapped)


def _wrap_function(function: Callable[P, R], timing: Timing[Opened]) -> Callable[P, R]:
    nested = timing.nested

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with nested():
            return function(*args, **kwargs)

    return run


def _wrap_coroutine(function: Callable[P, Awaitable[R]], timing: Timing[Opened]) -> Callable[P, Awaitable[R]]:
    @functools.wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R:
        opened = timing.begin()
        try:
            return await function(*args, **kwargs)
        finally:
            timing.end(opened)

    return run


def _wrap_generator(
    function: Callable[P, Generator[Item, Sent, R]], timing: Timing[Opened]
) -> Callable[P, Generator[Item, Sent, R]]:
    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> Generator[Item, Sent, R]:
        opened = timing.begin()
        try:
            return (yield from function(*args, **kwargs))
        finally:
            timing.end(opened)

    return run


def _wrap_async_generator(
    function: Callable[P, AsyncGenerator[Item, Sent]], timing: Timing[Opened]
) -> Callable[P, AsyncGenerator[Item, Sent]]:
    @functools.wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[Item, Sent]:
        opened = timing.begin()
        inner = function(*args, **kwargs)
        try:
            value = await anext(inner)
            while True:
                # Async generators have no `yield from`: what comes in is handed on here.
                try:
                    sent = yield value
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001 - the inner generator handles it
                    value = await inner.athrow(error)
                else:
                    value = await inner.asend(sent)
        except StopAsyncIteration:
            return
        finally:
            await inner.aclose()
            timing.end(opened)

    return run


_now = time.perf_counter_ns
_ident = threading.get_ident
_PLAIN = (str, int, type(None))


def _nothing() -> None:
    return None


_running_loop: Callable[[], object] = _nothing
_running_task: Callable[[], object] = _nothing  # raises without a loop
_making_tables = threading.Lock()
_NOWHERE: dict[Hashable, list[RangeState | OpenRange]] = {}
"""The table of ranges that no other thread has begun, the same for all and always empty: making one takes time."""

if TYPE_CHECKING:

    class _ThreadRanges(threading.local):
        """The calling thread's state, its ranges by name, and the mark of its end."""

        state: ThreadState
        ranges: dict[Hashable, Range]
        end: ThreadEnd

else:
    _ThreadRanges = threading.local  # a subclass would cost 15 ns a range

_local = _ThreadRanges()


class Range(RangeState):
    """A range of the program, as context manager and decorator; with recording off it does nothing.

    Get one from `tracekit.recorder.range`. It may be kept, used again, nested in itself, used by any thread or task.
    """

    __slots__ = ()

    def __enter__(self) -> Range:
        return self

    def __exit__(self, error: object, value: object, traceback: object) -> None:
        return None

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wrap a function, coroutine function or generator so that each of its runs is such a range."""
        return timed(function, self.name, self.kind, self.category, self.color)

    def __reduce__(self) -> tuple[Callable[..., Range], tuple[object, ...]]:
        """Return how `copy` and `pickle` make it again: none of its state is of use to another object."""
        return get_range, (self.name, self.kind, self.category, self.color)

    def cut(self, t: int) -> None:
        """End a range that the program left open: its true end is unknown, and the log says so."""
        if self.generation != SESSION.generation:
            return
        task = current_task()
        opened = None if task is None else self.elsewhere.get(task)
        if opened:
            last = opened.pop()
            if isinstance(last, OpenRange):
                last.finish(t, thread_state().index, forced=True)
            return
        if SESSION.logging:
            self.state.extras.append((self.end_id, t, None))
        if self.thread == _ident():
            self.end_here(t)
        elif SESSION.logging:  # NVTX pops on the calling thread alone
            self.buffer.extend((self.end_id, t))


class StaleRange(Range):
    """A range made before recording started, or forgotten: its next use makes it a range of this recording."""

    __slots__ = ()

    def __enter__(self) -> Range:
        if self.generation == SESSION.generation:
            enter_aside(self)
        else:
            same = find_range(self.name, self.kind, self.category, self.color)
            self.begin_id, self.end_id, self.elsewhere = same.begin_id, same.end_id, _NOWHERE
            _bound(self, same.state).attributes = same.attributes
            self.__enter__()
        return self

    def __exit__(self, error: object, value: object, traceback: object) -> None:
        t = _now()
        if self.elsewhere:
            exit_aside(self, t)
        elif self.generation == SESSION.generation:
            self.end_here(t)
        # else: it was begun in an earlier recording, or in the process that forked this one


class ForkedRange(StaleRange):
    """A range from before a fork. It may be open in the parent, whose end must not be an end here."""

    __slots__ = ()

    def __enter__(self) -> Range:
        enter_aside(self)
        return self


class PayloadRange(Range):
    """A range with a payload: made by `get_range` for one call, for whatever thread or task enters it."""

    __slots__ = ("base", "begun", "exits", "payload")

    base: Range
    payload: object
    begun: int
    """How often `_modes.LogPayloadRange` has begun it and not ended it."""
    exits: list[Callable[[object, object, object], None]] | None

    def __enter__(self) -> Range:
        if self.exits is None:
            with _making_tables:  # threads that share the object need the same list
                self.exits = self.exits or []
        self.exits.append(self.base.__exit__)  # of the class that begins it: recording may stop meanwhile
        if _active_class is not Range:
            enter_aside(self.base, self.payload)
        return self

    def __exit__(self, error: object, value: object, traceback: object) -> None:
        if self.exits:
            self.exits.pop()(error, value, traceback)

    def __reduce__(self) -> tuple[Callable[..., Range], tuple[object, ...]]:
        return get_range, (*self.base.__reduce__()[1], self.payload)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        base = self.base
        return timed(function, base.name, base.kind, base.category, base.color, self.payload)


_active_class: type[Range] = Range
_payload_class: type[PayloadRange] = PayloadRange


_getrefcount: Callable[[object], int] = getattr(sys, "getrefcount", lambda _: 0)
_spare = [Range()]
_UNUSED = _getrefcount(_spare[0]) or -1  # references to an object that is in one list
NO_RANGE = Range()  # records nothing: for a program at its limit of recursion or memory
NO_RANGE.name, NO_RANGE.kind, NO_RANGE.category, NO_RANGE.color, NO_RANGE.generation = "", None, None, None, -1


def is_off() -> bool:
    """Return whether nothing is recorded."""
    return _active_class is Range


def get_range(
    name: str,
    kind: str | None = None,
    category: str | None = None,
    color: str | int | None = None,
    payload: object = None,
) -> Range:
    """Return this thread's range of that name (see `tracekit.recorder.range`)."""
    try:
        if kind is None and category is None and color is None:
            range_ = _local.ranges.get(name)
        else:
            range_ = _local.ranges.get((name, kind, category, color))
    except Exception:  # noqa: BLE001 - a new thread; and a program's own __hash__ or __eq__ may raise anything
        range_ = None
    if range_ is None:
        try:
            if kind is None and category is None and color is None and type(name) is str and name.isascii():
                range_ = _new_range(name, name, None, None, None)
            else:
                range_ = _make(name, kind, category, color)
        except (RecursionError, MemoryError):  # it takes a call or two more than the program itself
            return NO_RANGE
    if payload is None:
        return range_
    made = _payload_class()
    made.base, made.name, made.payload, made.begun, made.exits = range_, range_.name, payload, 0, None
    return made


def _make(name: object, kind: object, category: object, color: object) -> Range:
    """Return this thread's range for a name and attributes that may be any objects."""
    if (
        (type(name) is str and name.isascii() and color is None)
        and (kind is None or (type(kind) is str and kind.isascii()))
        and (category is None or (type(category) is str and category.isascii()))
    ):
        return _new_range((name, kind, category, None), name, kind, category, None)
    count = SESSION.count
    clean_kind = None if kind is None else _values.text_of(kind, count)
    clean_category = None if category is None else _values.text_of(category, count)
    clean_color = _values.color_of(color, count)
    range_ = find_range(_values.text_of(name, count), clean_kind, clean_category, clean_color)
    if all(type(value) in _PLAIN for value in (name, kind, category, color)):
        _local.ranges[name, kind, category, color] = range_  # the spelling that get_range looks up
    return range_


def _key(name: str, kind: str | None, category: str | None, color: int | None) -> Key:
    return name if kind is None and category is None and color is None else (name, kind, category, color)


def find_range(name: str, kind: str | None, category: str | None, color: int | None) -> Range:
    """Return this thread's object for a name and its attributes, all of them clean."""
    thread_state()  # a new thread has no table
    key = _key(name, kind, category, color)
    return _local.ranges.get(key) or _new_range(key, name, kind, category, color)


def _new_range(key: Key, name: str, kind: str | None, category: str | None, color: int | None) -> Range:
    """Return a range of this thread for a name that its table does not have. key: as `_key` makes it.

    Some programs use each name once. So only the second range of a name is made for it and goes into the table. The
    first one is an object that the thread has and nobody uses any more, under this name.
    """
    try:
        state = _local.state
    except AttributeError:
        state = thread_state()
    session = SESSION
    begin_id = session.ids.get(key)
    is_first = begin_id is None
    if begin_id is None:
        begin_id = next(session.next_id)
        # It is queued before another thread can see the id, so that no flush holds the id without its definition.
        if session.logging:
            session.new_names.extend((begin_id, key))  # one call, or the pair of another thread gets between
        if len(session.ids) >= MAX_NAMES:
            session.ids = {}
            _make_stale(state.spare)
            state.spare = [None] * MOST_SPARE
        session.ids[key] = begin_id
        spare = state.spare
        at = state.next_spare = (state.next_spare + 1) % MOST_SPARE
        if _getrefcount(spare[at]) == _UNUSED:
            range_: Range = spare[at]
        else:
            range_ = spare[at] = _bound(Range(), state)
    else:
        ranges = _local.ranges
        range_ = _bound(Range(), state)
        if len(ranges) >= MAX_NAMES:
            _make_stale(ranges.values())
            ranges.clear()
    range_.name, range_.kind, range_.category, range_.color = name, kind, category, color
    range_.begin_id = begin_id
    range_.end_id = -begin_id
    range_.elsewhere = _NOWHERE
    if session.nvtx is not None:
        range_.attributes = session.nvtx.attributes(name, category or kind, color)
    if not is_first:
        ranges[key] = range_
    return range_


def _make_stale(ranges: Iterable[Range | None]) -> None:
    """Give up ranges whose names are forgotten; a range that the program kept gets a new id at its next use."""
    for range_ in ranges:
        if range_ is not None:
            range_.__class__ = StaleRange


def _bound(range_: Range, state: ThreadState) -> Range:
    """Bind a range to a thread of this recording."""
    range_.buffer, range_.thread, range_.state, range_.generation = state.buffer, state.ident, state, SESSION.generation
    range_.attributes, range_.pop = None, _nothing
    nvtx = SESSION.nvtx
    if nvtx is not None:
        range_.push, range_.pop = nvtx.push, nvtx.pop
    KNOWN.add(range_)
    range_.__class__ = _active_class
    return range_


def thread_state() -> ThreadState:
    """Return the calling thread's state."""
    try:
        return _local.state
    except AttributeError:
        state = SESSION.new_thread()
        _local.state, _local.ranges, _local.end = state, {}, ThreadEnd(state)
        return state


def current_task() -> object:
    """Return the asyncio task that runs now, None without one."""
    return None if _running_loop() is None else _running_task()


def end_range(opened: OpenRange | None) -> None:
    """End a range that `start_range` began. A second end is counted, not recorded."""
    if opened is not None:
        opened.finish(_now(), thread_state().index)


def timed(
    function: Callable[P, R],
    name: str,
    kind: str | None,
    category: str | None,
    color: int | None,
    payload: object = None,
) -> Callable[P, R]:
    """Return the function with a range of that name around each of its runs."""

    def begin() -> OpenRange | None:
        return None if is_off() else find_range(name, kind, category, color).begin_apart(payload)

    nested = functools.partial(get_range, name, kind, category, color, payload)
    return wrap(function, Timing(nested, begin, end_range))


def enter_aside(range_: Range, payload: object = None) -> None:
    """Begin a range with a payload, or of another thread's object, or in a task, where others may run meanwhile."""
    own_range = find_range(range_.name, range_.kind, range_.category, range_.color)
    task = None if _running_loop() is None else _running_task()
    if task is not None:
        _elsewhere(range_, task).append(own_range.begin_apart(payload))
        return
    if payload is None:
        own_range.begin_here()
    else:
        json = _values.payload_json(payload, SESSION.count)
        own_range.begin_here(json=json, attributes=own_range.attributes_with(payload, json))
    if own_range is not range_:
        _elsewhere(range_, _ident()).append(own_range)


def _elsewhere(range_: Range, key: Hashable) -> list[RangeState | OpenRange]:
    """Return the open ranges that a thread or task began through this object."""
    if range_.elsewhere is _NOWHERE:
        with _making_tables:
            if range_.elsewhere is _NOWHERE:
                range_.elsewhere = {}
    return range_.elsewhere.setdefault(key, [])


def exit_aside(range_: Range, t: int) -> None:
    """End a range of an object through which `enter_aside` began something, here or elsewhere."""
    task = None if _running_loop() is None else _running_task()
    key: Hashable = _ident() if task is None else task
    opened = range_.elsewhere.get(key)
    if opened:
        last = opened.pop()
        if not opened:
            range_.elsewhere.pop(key, None)
        if isinstance(last, OpenRange):
            last.finish(t, thread_state().index)
        elif last.generation == SESSION.generation:
            last.end_here(t)
    elif task is None and _ident() == range_.thread:
        range_.end_here(t)
    else:
        SESSION.count("end_without_begin")


def set_class(active: type[Range], with_payload: type[PayloadRange], *, fresh: bool, forked: bool) -> None:
    """Make all ranges of this process objects of a class; see `_modes.set_mode`."""
    global _active_class, _local, _payload_class, _running_loop, _running_task
    _active_class, _payload_class = active, with_payload
    if active is not Range and _running_loop is _nothing and (calls := asyncio_calls()):
        _running_loop, _running_task = calls
    if fresh:
        _local = _ThreadRanges()
    for range_ in known_states():
        if forked:
            range_.pop = _nothing
            range_.elsewhere = _NOWHERE
        if fresh or range_.generation != SESSION.generation:
            range_.__class__ = Range if active is Range else ForkedRange if forked else StaleRange
        elif not isinstance(range_, StaleRange) or active is Range:
            range_.__class__ = active


def define_names_again() -> None:
    """Queue all names of this recording that the log may still use."""
    names = {begin_id: key for key, begin_id in list(SESSION.ids.items())}
    for range_ in known_states():  # the table forgets when it is full, and ranges live on
        if range_.generation == SESSION.generation:
            names[range_.begin_id] = _key(range_.name, range_.kind, range_.category, range_.color)
    SESSION.new_names[:0] = [part for pair in names.items() for part in pair]
