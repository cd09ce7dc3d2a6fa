"""Ranges that may overlap on a thread and end on another: of asyncio tasks, generators, `start_range`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracekit.recorder import _clock, _values
from tracekit.recorder._jsonl import AsyncItem
from tracekit.recorder._session import SESSION

if TYPE_CHECKING:
    from tracekit.recorder._ranges import Range


class OpenRange:
    """A range that may end on another thread or task; give it to `tracekit.recorder.end_range`."""

    __slots__ = ("done", "generation", "handle", "name_id", "nvtx_id")

    def __init__(self, name_id: int, handle: int, nvtx_id: int | None) -> None:
        self.name_id, self.handle, self.nvtx_id = name_id, handle, nvtx_id
        self.generation = SESSION.generation
        self.done = False


def begin_async(made: Range, payload: object = None, *, t: int | None = None) -> OpenRange:
    """Begin a range that may overlap others. made: the calling thread's object of it."""
    nvtx_id = None
    json = None if payload is None else _values.payload_json(payload, SESSION.count)
    if SESSION.nvtx is not None:
        nvtx_id = SESSION.nvtx.start(attributes_of(made, payload, json))
    opened = OpenRange(made.i, next(SESSION.handles), nvtx_id)
    if SESSION.logging:
        start = _clock.now() if t is None else t
        SESSION.events.append(AsyncItem(made.i, start, opened.handle, made.state.index, json))
    return opened


def end_async(opened: OpenRange, t: int, thread: int, *, forced: bool = False) -> None:
    """End it, once. thread: index of the thread that does; forced: not by the program."""
    if opened.generation != SESSION.generation:
        return
    if opened.done:
        SESSION.count("end_without_begin")
        return
    opened.done = True
    if SESSION.logging:
        SESSION.events.append(AsyncItem(-opened.name_id, t, opened.handle, thread, None, forced))
    if SESSION.nvtx is not None:
        SESSION.nvtx.end(opened.nvtx_id)


def attributes_of(made: Range, payload: object, json: bytes | None) -> Any:
    """Return the NVTX attributes of a range, with its payload if it has one."""
    if SESSION.nvtx is None:
        return None
    if json is None:
        return made.a
    return SESSION.nvtx.with_payload(made.name, made.category or made.kind, made.color, payload, json)
