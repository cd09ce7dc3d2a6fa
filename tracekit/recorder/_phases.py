"""What is open on a thread of a watched training loop: one stack, so that ranges nest, whatever the program does.

Begin and end come from hooks, not from a `with`: an end may fail to come (KeyboardInterrupt passes hooks by), and a
backward pass tells by its order alone when a module is over. So whatever is above an end ends with it, and what the
frames of the thread show to be over is cut: it ends there, unfinished in the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from tracekit.recorder import _clock, _payload, _ranges
from tracekit.recorder._session import SESSION

FORWARD = "forward"
BACKWARD = "backward"
OPTIMIZER = "optimizer"
MODULE_BACKWARD = "module backward"


class Call:
    """One call of a watched module. since: number of the first autograd node that it may have made, on its thread.

    Nodes of the graph hold it by their hooks: it must not hold a node or tensor, or neither would ever be freed.
    """

    __slots__ = ("category", "name", "parent", "since", "watched")

    def __init__(self, name: str, category: str, parent: Call | None, since: int, watched: Callable[[], bool]) -> None:
        self.name, self.category, self.parent, self.since, self.watched = name, category, parent, since, watched

    def inside(self, other: Call) -> bool:
        """Return whether this call is part of the other."""
        call: Call | None = self
        while call is not None:
            if call is other:
                return True
            call = call.parent
        return False


class Open:
    """A range that is open.

    key: what its end will name. code, owner: of the frame that began it and its `self`, if they tell its end. again:
    how often it was begun in itself. lexical: its end cannot fail to come. inner: what was found of the graphs of the
    calls in it, see `_module_calls`.
    """

    __slots__ = ("again", "call", "code", "end", "inner", "key", "lexical", "made", "owner", "phase", "task")

    def __init__(self, phase: str, key: object, made: _ranges.Range, call: Call | None, task: int) -> None:
        made.__enter__()
        self.phase, self.key, self.made, self.call, self.task = phase, key, made, call, task
        self.end: Callable[..., object] = made.__exit__  # of the class that began it, as a `with` would have it
        self.code: CodeType | None = None
        self.owner: object = None
        self.again = 0
        self.lexical = False
        self.inner: dict[Any, tuple[Any, int, list[Any]]] = {}


class Stack(threading.local):
    """The calling thread's stack."""

    def __init__(self) -> None:
        self.items: list[Open] = []

    def begin(
        self, phase: str, key: object, name: str, kind: str | None, *,
        category: str | None = None, call: Call | None = None, task: int = -1,
    ) -> Open:  # fmt: skip
        """Begin a range."""
        opened = Open(phase, key, _ranges.range_(name, kind, category), call, task)
        self.items.append(opened)
        return opened

    def find(self, phase: str, key: object) -> Open | None:
        """Return the innermost open range of that phase and key."""
        for opened in reversed(self.items):
            if opened.phase == phase and opened.key is key:
                return opened
        return None

    def end(self, opened: Open) -> None:
        """End a range and whatever is still open in it; one that is not open any more stays as it is."""
        while opened in self.items:
            last = self.items.pop()
            last.end(None, None, None)

    def cut(self) -> None:
        """End the innermost range; its true end is unknown."""
        opened = self.items.pop()
        if not _ranges.is_off() and opened.made.g == SESSION.generation:
            SESSION.count("range_crossed")
            _payload.cut(opened.made, _clock.now())

    def cut_what_is_over(self, task: int, frame: FrameType | None) -> None:
        """Cut what an exception has ended unseen.

        task: the backward pass that runs on this thread, -1: none. frame: what runs around that which begins now.
        """
        while self.items and not self._runs(task, frame):
            self.cut()

    def _runs(self, task: int, frame: FrameType | None) -> bool:
        """Return whether the innermost range may still be open."""
        for opened in reversed(self.items):
            if opened.lexical:
                return True
            if opened.phase == MODULE_BACKWARD and task < 0:
                return False
            if opened.code is not None:
                while frame is not None:
                    if frame.f_code is opened.code and frame.f_locals.get("self") is opened.owner:
                        return True
                    frame = frame.f_back
                return False
        return True
