"""Ranges with more than a name: a payload, a time given from outside, an end that the program left out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tracekit.recorder import _clock, _values
from tracekit.recorder._jsonl import Extra
from tracekit.recorder._overlap import OpenRange, attributes_of, begin_async, end_async
from tracekit.recorder._ranges import Range, current_task, find_range, is_off, thread_state
from tracekit.recorder._session import SESSION


class PayloadRange(Range):
    """A range with a payload: made for one call, for whatever thread or task enters it."""

    __slots__ = ("base", "opened", "payload")

    def __init__(self, base: Range, payload: object) -> None:
        self.base, self.name, self.payload = base, base.name, payload
        self.opened: list[tuple[Range, Callable[[int], None]] | OpenRange | None] = []

    def __enter__(self) -> Range:
        if is_off():
            self.opened.append(None)
            return self
        made = self.base
        if made.g != SESSION.generation or made.t != threading.get_ident():
            made = find_range(made.name, made.kind, made.category, made.color)
        if current_task() is not None:
            self.opened.append(begin_async(made, self.payload))
            return self
        json = _values.payload_json(self.payload, SESSION.count)
        begin_at(made, None, json, attributes_of(made, self.payload, json))
        self.opened.append((made, made.end_here))  # of the class that began it: recording may stop meanwhile
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        t = _clock.now()
        opened = self.opened.pop() if self.opened else None
        if isinstance(opened, OpenRange):
            end_async(opened, t, thread_state().index)
        elif opened is not None and opened[0].g == SESSION.generation:
            opened[1](t)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        from tracekit.recorder._decorate import wrap

        base = self.base
        return wrap(function, base.name, base.kind, base.category, base.color, self.payload)


def begin_at(made: Range, t: int | None, json: bytes | None, attributes: Any) -> None:
    """Begin this thread's range with what it may have beside its name: a time given, a payload."""
    if SESSION.nvtx is not None:
        SESSION.nvtx.push(attributes)
    if SESSION.logging:
        start = _clock.now() if t is None else t
        if json is not None:
            made.state.extras.append(Extra(made.i, start, json))
        made.b.extend((made.i, start))


def cut(made: Range, t: int) -> None:
    """End a range that the program left open: its true end is unknown, and the log says so."""
    task = current_task()
    if task is not None and made.r.get(task):
        opened = made.r[task].pop()
        if isinstance(opened, OpenRange):
            end_async(opened, t, thread_state().index, forced=True)
    elif isinstance(made, PayloadRange):
        inner = made.opened.pop() if made.opened else None
        if isinstance(inner, OpenRange):
            end_async(inner, t, thread_state().index, forced=True)
        elif inner is not None:
            cut(inner[0], t)
    elif SESSION.logging:
        made.state.extras.append(Extra(made.j, t, None))
        if made.t == threading.get_ident():
            made.end_here(t)
        else:  # NVTX pops on the calling thread alone
            made.b.extend((made.j, t))
    elif made.t == threading.get_ident():
        made.end_here(t)
