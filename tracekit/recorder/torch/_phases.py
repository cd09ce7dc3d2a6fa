"""The ranges that are open on a thread of a watched training loop: one stack, so that ranges always nest.

Begin and end come from hooks, not from a `with`. An end may fail to come (KeyboardInterrupt passes hooks by), and a
backward pass shows by its order alone when a module is over. So an end also ends what is above it on the stack. A range
that is over according to the frames of the thread is cut: it ends there, unfinished in the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CodeType, FrameType

from tracekit.recorder import _clock, _ranges
from tracekit.recorder._session import SESSION
from tracekit.recorder.torch._graph import Node, Part

FORWARD = "forward"
BACKWARD = "backward"
OPTIMIZER = "optimizer"
MODULE_BACKWARD = "module backward"


class Call:
    """One call of a watched module. since: number of the first autograd node that it may have made, on its thread.

    Nodes of the graph hold it by their hooks: it must not hold a node or tensor, or neither would ever be freed.
    """

    __slots__ = ("category", "is_watched", "name", "parent", "since")

    def __init__(
        self, name: str, category: str, parent: Call | None, since: int, is_watched: Callable[[], bool]
    ) -> None:
        self.name, self.category, self.parent, self.since = name, category, parent, since
        self.is_watched = is_watched

    def inside(self, other: Call) -> bool:
        """Return whether this call is part of the other."""
        call: Call | None = self
        while call is not None:
            if call is other:
                return True
            call = call.parent
        return False


class OpenPhase:
    """A range that is open.

    key: the object by which its end finds it. code, owner: of the frame that began it and its `self`, where they show
    its end. again: how often it was begun in itself. lexical: its end cannot fail to come. inner: the graphs of the
    calls in it, by the nodes of their results.
    """

    __slots__ = ("again", "call", "code", "end", "inner", "key", "lexical", "owner", "phase", "range_", "task")

    def __init__(self, phase: str, key: object, range_: _ranges.Range, call: Call | None, task: int) -> None:
        range_.__enter__()
        self.phase, self.key, self.range_, self.call, self.task = phase, key, range_, call, task
        self.end: Callable[[None, None, None], None] = range_.__exit__  # of the class that began it, as `with` has it
        self.code: CodeType | None = None
        self.owner: object = None
        self.again = 0
        self.lexical = False
        self.inner: dict[Node, Part] = {}


class Stack(threading.local):
    """The calling thread's stack."""

    def __init__(self) -> None:
        self.items: list[OpenPhase] = []

    def begin(
        self,
        phase: str,
        key: object,
        name: str,
        kind: str | None,
        *,
        category: str | None = None,
        call: Call | None = None,
        task: int = -1,
    ) -> OpenPhase:
        """Begin a range."""
        opened = OpenPhase(phase, key, _ranges.get_range(name, kind, category), call, task)
        self.items.append(opened)
        return opened

    def find(self, phase: str, key: object) -> OpenPhase | None:
        """Return the innermost open range of that phase and key."""
        for opened in reversed(self.items):
            if opened.phase == phase and opened.key is key:
                return opened
        return None

    def end(self, opened: OpenPhase) -> None:
        """End a range and whatever is still open in it; one that is not open any more stays as it is."""
        while opened in self.items:
            last = self.items.pop()
            last.end(None, None, None)

    def cut(self) -> None:
        """End the innermost range; its true end is unknown."""
        opened = self.items.pop()
        if not _ranges.is_off() and opened.range_.generation == SESSION.generation:
            SESSION.count("range_crossed")
            opened.range_.cut(_clock.now())

    def cut_inside(self, opened: OpenPhase) -> None:
        """Cut the ranges that are still open in one that ends now."""
        while self.items[-1] is not opened:
            self.cut()

    def cut_finished(self, task: int, frame: FrameType | None) -> None:
        """Cut the ranges that an exception has ended unseen.

        task: the backward pass that runs on this thread, -1: none. frame: the frame around the range that begins now.
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
