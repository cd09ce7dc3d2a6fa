"""The state of a range, and how it begins and ends: on its own thread, or so that it may overlap others."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Hashable
from typing import Final

from tracekit.recorder import _values
from tracekit.recorder._jsonl import AsyncItem
from tracekit.recorder._session import SESSION, ThreadState

_now = time.perf_counter_ns


class OpenRange:
    """A range that may end on another thread or task; give it to `tracekit.recorder.end_range`."""

    __slots__ = ("done", "generation", "handle", "name_id", "nvtx_id")

    def __init__(self, name_id: int, handle: int, nvtx_id: int | None) -> None:
        self.name_id, self.handle, self.nvtx_id = name_id, handle, nvtx_id
        self.generation = SESSION.generation
        self.done = False

    def __copy__(self) -> OpenRange:
        return self  # one range has one end

    def __deepcopy__(self, memo: object) -> OpenRange:
        return self

    def __reduce__(self) -> tuple[Callable[[], OpenRange], tuple[()]]:
        """Return how a pickle makes it: as one that has ended, because only the process that began it can end it."""
        return ended_range, ()

    def finish(self, t: int, thread: int, *, forced: bool = False) -> None:
        """End it, once. thread: index of the thread that ends it; forced: the recorder ends it, not the program."""
        if self.generation != SESSION.generation:
            return
        if self.done:
            SESSION.count("end_without_begin")
            return
        self.done = True
        if SESSION.logging:
            SESSION.events.append(AsyncItem(-self.name_id, t, self.handle, thread, None, forced))
        if SESSION.nvtx is not None:
            SESSION.nvtx.end(self.nvtx_id)


def ended_range() -> OpenRange:
    """Return a range that has ended, or never began."""
    ended = OpenRange(0, 0, None)
    ended.done = True
    return ended


class RangeState:
    """The attributes of a range, and the slow way to begin and end it. It has no `__init__`: `_ranges` sets them."""

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
    elsewhere: dict[Hashable, list[RangeState | OpenRange]]
    """Open ranges that another thread (its ident) or a task began through this object."""
    attributes: object
    """NVTX's attributes; `push` and `pop` are its functions."""
    push: Callable[[object], object]
    pop: Callable[[], object]

    def begin_here(self, t: int | None = None, json: str | None = None, attributes: object = None) -> None:
        """Begin on the object's own thread. json: a payload for the log; attributes: NVTX's, if not the object's."""
        if self.generation < 0:  # of no thread and no recording
            return
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
        if self.generation < 0:
            return ended_range()
        json = None if payload is None else _values.payload_json(payload, SESSION.count)
        nvtx_id = None if SESSION.nvtx is None else SESSION.nvtx.start(self.attributes_with(payload, json))
        opened = OpenRange(self.begin_id, next(SESSION.handles), nvtx_id)
        if SESSION.logging:
            start = _now() if t is None else t
            SESSION.events.append(AsyncItem(self.begin_id, start, opened.handle, self.state.index, json))
        return opened

    def attributes_with(self, payload: object, json: str | None) -> object:
        """Return the NVTX attributes of the range, with its payload if it has one."""
        if SESSION.nvtx is None or json is None:
            return self.attributes
        return SESSION.nvtx.with_payload(self.name, self.category or self.kind, self.color, payload, json)


KNOWN: Final[weakref.WeakSet[RangeState]] = weakref.WeakSet()
"""All ranges of the process."""


def known_states() -> list[RangeState]:
    """Return all ranges of the process."""
    while True:
        try:
            return list(KNOWN)
        except RuntimeError:  # another thread made a range meanwhile
            continue
