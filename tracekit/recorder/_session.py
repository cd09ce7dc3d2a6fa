"""What the threads of a recorded process share, and what each has for itself."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final

from tracekit.recorder import log_format
from tracekit.recorder._jsonl import Event, Extra
from tracekit.recorder._nvtx import NvtxDomain

if TYPE_CHECKING:
    from tracekit.recorder._ranges import Range

MAX_NAMES: Final = 65_536
"""Names that a thread, or the process, remembers. Past it all are forgotten, and get new ids when they come again."""


class ThreadState:
    """What one thread has recorded and not yet handed to the flusher."""

    __slots__ = ("buffer", "dead", "extras", "ident", "index", "name", "pushed", "ranges", "shown", "thread", "tid")

    def __init__(self, index: int) -> None:
        self.index = index
        self.ident = threading.get_ident()
        self.tid = threading.get_native_id()
        thread = threading.current_thread()
        self.thread = weakref.ref(thread)
        self.name = thread.name  # a thread may be over before the first flush
        self.shown: str | None = None
        self.buffer: list[int] = []
        self.extras: list[Extra] = []
        self.ranges: dict[Hashable, Range] = {}
        self.pushed: list[Range] = []
        self.dead = False

    def line(self) -> log_format.Line | None:
        """Return the thread's line for the log, if its name is new or has changed."""
        thread = self.thread()
        if thread is not None:
            self.name = thread.name
        if self.name == self.shown:
            return None
        self.shown = self.name
        return log_format.thread_line(index=self.index, tid=self.tid, name=log_format.clean_text(self.name))


class ThreadEnd:
    """Kept in a thread's local data, so it is deleted when the thread is over."""

    __slots__ = ("state",)

    def __init__(self, state: ThreadState) -> None:
        self.state = state

    def __del__(self) -> None:
        self.state.dead = True


class Session:
    """What the threads share. There is one: recording is a property of the process, as its log is."""

    def __init__(self) -> None:
        self.generation = 0
        self.logging = False
        self.nvtx: NvtxDomain | None = None
        self.before_first: Callable[[], None] | None = None
        self.batch_watchers: tuple[Callable[[object, int, int], object], ...] = ()
        self.reset()

    def reset(self) -> None:
        """Forget threads, names and what they recorded."""
        self.generation += 1
        self.states: list[ThreadState] = []
        self.events: list[Event] = []
        self.new_names: list[log_format.Line] = []
        self.notes: Counter[str] = Counter()
        self.ids: dict[Hashable, int] = {}
        self.next_id = itertools.count(1)
        self.next_thread = itertools.count()
        self.handles = itertools.count(1)
        self.task_stacks: weakref.WeakKeyDictionary[Any, list[Range]] = weakref.WeakKeyDictionary()
        self.last_step = log_format.NO_STEP

    def count(self, code: str) -> None:
        """Note one case of a code of log_format.NOTE_CODES."""
        self.notes[code] += 1

    def new_thread(self) -> ThreadState:
        """Return a state for the thread that calls, known to the flusher."""
        if self.before_first is not None:
            self.before_first()
        state = ThreadState(next(self.next_thread))
        if self.logging:
            self.states.append(state)
        return state

    def id_of(self, key: Hashable, name: str, kind: str | None, category: str | None, color: int | None) -> int:
        """Return the id of a name, and see that the log defines it first."""
        found = self.ids.get(key)
        if found is not None:
            return found
        if len(self.ids) >= MAX_NAMES:
            self.ids = {}
        new = next(self.next_id)
        shown = None if color is None else f"#{color:06X}"
        # The line is queued before the id can be seen, so that no flush can hold the id without its line.
        line = log_format.name_line(name_id=new, name=name, kind=kind, category=category, color=shown)
        if self.logging:
            self.new_names.append(line)
        return self.ids.setdefault(key, new)


SESSION = Session()
