"""Ranges, and the look-up that finds them: what a recorded program touches at every call.

The cost of a range decides how this file and `_modes` are built:

- A thread has one object for each name, found by one look-up.
- What recording means now (log, NVTX, both, nothing) is the class of the objects. It changes when recording starts and
  stops, so that no call has to ask. The classes with the fast path are in `_modes`.
- What is rare (another thread's object, an asyncio task, a payload for NVTX) takes the slower path: `enter_aside`.
- No class of a range has an `__init__`: in Python it would cost a third of a range with a payload.
- A copy of a range, or one from a pickle, is this thread's range of that name: `get_range` gives it.
"""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from tracekit.recorder import _values
from tracekit.recorder._decorate import Timing, wrap
from tracekit.recorder._jsonl import AsyncItem
from tracekit.recorder._overlap import OpenRange
from tracekit.recorder._session import MAX_NAMES, SESSION, ThreadEnd, ThreadState

P = ParamSpec("P")
R = TypeVar("R")

_now = time.perf_counter_ns
_ident = threading.get_ident


def _nothing() -> None:
    return None


_running_loop: Callable[[], object] = _nothing
_running_task: Callable[[], object] = _nothing  # raises without a loop
_known: weakref.WeakSet[Range] = weakref.WeakSet()
_making_exits = threading.Lock()

if TYPE_CHECKING:

    class _Local(threading.local):
        """The calling thread's state, its ranges by name, and the mark of its end."""

        state: ThreadState
        ranges: dict[Hashable, Range]
        end: ThreadEnd

else:
    _Local = threading.local  # a subclass would cost 15 ns a range

_local = _Local()


class Range:
    """A range of the program, as context manager and decorator; with recording off it does nothing.

    Get one from `tracekit.recorder.range`. It may be kept, used again, nested in itself, used by any thread or task.
    """

    __slots__ = (
        *("name", "kind", "category", "color"),
        *("begin_id", "end_id", "buffer", "state", "thread", "generation", "elsewhere"),
        *("attributes", "push", "pop", "__weakref__"),
    )

    name: str
    kind: str | None
    category: str | None
    color: int | None
    begin_id: int
    end_id: int
    """The negative of `begin_id`."""
    buffer: list[int]
    state: ThreadState
    thread: int
    """Ident of the thread that the object belongs to; `state` and `buffer` are that thread's."""
    generation: int
    elsewhere: dict[Hashable, list[Range | OpenRange]]
    """Open ranges that another thread (its ident) or a task began through this object."""
    attributes: object
    """NVTX's attributes; `push` and `pop` are its functions."""
    push: Callable[[object], object]
    pop: Callable[[], object]

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

    def begin_here(self, t: int | None = None, json: str | None = None, attributes: object = None) -> None:
        """Begin on the object's own thread. json: a payload for the log; attributes: NVTX's, if not the object's."""
        if SESSION.nvtx is not None:
            self.push(self.attributes if attributes is None else attributes)
        if SESSION.logging:
            start = _now() if t is None else t
            if json is not None:
                self.state.extras.append((self.begin_id, start, json))
            self.buffer.extend((self.begin_id, start))

    def end_here(self, t: int) -> None:
        """End the range that `begin_here` or `__enter__` began on the object's own thread."""
        if SESSION.logging:
            self.buffer.extend((self.end_id, t))
        if self.attributes is not None:
            self.pop()

    def begin_apart(self, payload: object = None, *, t: int | None = None) -> OpenRange:
        """Begin a range that may overlap others. The object must be the calling thread's."""
        json = None if payload is None else _values.payload_json(payload, SESSION.count)
        nvtx_id = None if SESSION.nvtx is None else SESSION.nvtx.start(self.attributes_with(payload, json))
        opened = OpenRange(self.begin_id, next(SESSION.handles), nvtx_id)
        if SESSION.logging:
            start = _now() if t is None else t
            SESSION.events.append(AsyncItem(self.begin_id, start, opened.handle, self.state.index, json))
        return opened

    def cut(self, t: int) -> None:
        """End a range that the program left open: its true end is unknown, and the log says so."""
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

    def attributes_with(self, payload: object, json: str | None) -> object:
        """Return the NVTX attributes of the range, with its payload if it has one."""
        if SESSION.nvtx is None or json is None:
            return self.attributes
        return SESSION.nvtx.with_payload(self.name, self.category or self.kind, self.color, payload, json)


class StaleRange(Range):
    """A range made before recording started, or forgotten: its next use makes it a range of this recording."""

    __slots__ = ()

    def __enter__(self) -> Range:
        if self.generation == SESSION.generation:
            enter_aside(self)
        else:
            _equip(self, thread_state())
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
            with _making_exits:  # threads that share the object need the same list
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
            range_ = _local.ranges[name]
        else:
            range_ = _local.ranges[name, kind, category, color]
    except (AttributeError, KeyError, TypeError):
        range_ = _make(name, kind, category, color)
    if payload is None:
        return range_
    made = _payload_class()
    made.base, made.name, made.payload, made.begun, made.exits = range_, range_.name, payload, 0, None
    return made


def _make(name: object, kind: object, category: object, color: object) -> Range:
    """Return this thread's range for a name and attributes that may be any objects."""
    count = SESSION.count
    clean_kind = None if kind is None else _values.text_of(kind, count)
    clean_category = None if category is None else _values.text_of(category, count)
    clean_color = _values.color_of(color, count)
    clean_name = _values.text_of(name, count)
    range_ = find_range(clean_name, clean_kind, clean_category, clean_color)
    if all(isinstance(value, str | int | None) for value in (name, kind, category, color)):
        _local.ranges[name, kind, category, color] = range_  # the spelling that get_range looks up
    return range_


def find_range(name: str, kind: str | None, category: str | None, color: int | None) -> Range:
    """Return this thread's object for a name and its attributes, all of them clean."""
    key: Hashable = name if kind is None and category is None and color is None else (name, kind, category, color)
    try:
        return _local.ranges[key]
    except (AttributeError, KeyError):
        state = thread_state()
    ranges = _local.ranges
    if len(ranges) >= MAX_NAMES:
        for old in ranges.values():
            old.__class__ = StaleRange
        ranges.clear()
    range_ = Range()
    range_.name, range_.kind, range_.category, range_.color = name, kind, category, color
    _equip(range_, state)
    _known.add(range_)
    ranges[key] = range_
    return range_


def _equip(range_: Range, state: ThreadState) -> None:
    """Bind a range to a thread of this recording."""
    key: Hashable = (range_.name, range_.kind, range_.category, range_.color)
    range_.begin_id = SESSION.id_of(key, range_.name, range_.kind, range_.category, range_.color)
    range_.end_id = -range_.begin_id
    range_.buffer, range_.thread, range_.state, range_.generation = state.buffer, state.ident, state, SESSION.generation
    range_.elsewhere = {}
    range_.attributes, range_.pop = None, _nothing
    nvtx = SESSION.nvtx
    if nvtx is not None:
        range_.attributes = nvtx.attributes(range_.name, range_.category or range_.kind, range_.color)
        range_.push, range_.pop = nvtx.push, nvtx.pop
    range_.__class__ = _active_class


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
        range_.elsewhere.setdefault(task, []).append(own_range.begin_apart(payload))
        return
    if payload is None:
        own_range.begin_here()
    else:
        json = _values.payload_json(payload, SESSION.count)
        own_range.begin_here(json=json, attributes=own_range.attributes_with(payload, json))
    if own_range is not range_:
        range_.elsewhere.setdefault(_ident(), []).append(own_range)


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
    if active is not Range and _running_loop is _nothing:
        import asyncio  # not with the module: it takes 40 ms

        _running_loop, _running_task = asyncio._get_running_loop, asyncio.current_task
    if fresh:
        _local = _Local()
    for range_ in _known_ranges():
        if forked:
            range_.pop = _nothing
            range_.elsewhere = {}
        if fresh or range_.generation != SESSION.generation:
            range_.__class__ = Range if active is Range else ForkedRange if forked else StaleRange
        elif not isinstance(range_, StaleRange) or active is Range:
            range_.__class__ = active


def _known_ranges() -> list[Range]:
    while True:
        try:
            return list(_known)
        except RuntimeError:  # another thread made a range meanwhile
            continue
