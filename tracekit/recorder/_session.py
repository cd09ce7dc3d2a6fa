"""The state of a recording: one part for the process, one part for each thread."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from tracekit.recorder import _process, log_format
from tracekit.recorder._jsonl import Event, Extra, Key
from tracekit.recorder._nvtx import NvtxDomain

MAX_NAMES: Final = 65_536
"""Names that a thread, or the process, remembers. Past it all are forgotten, and get new ids when they come again."""

MOST_SPARE: Final = 64
"""Ranges of a thread that are used again under other names, when nobody has them any more."""

BatchWatcher = Callable[[object, int, int], object]


class PushedRange(Protocol):
    """A range that `push` began: `pop` ends it, or the end of the recording cuts it."""

    name: str

    def __exit__(self, error: None, value: None, traceback: None, /) -> None: ...

    def cut(self, t: int) -> None:
        """End it at `t`, marked unfinished."""


_LARGEST_ID = 1 << 24
"""Ids count up from 1; no time of the clock is as small, but for 17 ms after the machine began."""


def whole_items(buffer: list[int]) -> int:
    """Put ids and their times in order, and return how many integers at the begin of a thread's buffer are such pairs.

    An id may be there before its time. And while a debugger or a coverage tool traces the program, Python may run a
    signal handler between the two: pairs that the handler records then stand between them. They are put behind.
    """
    count = len(buffer) & ~1
    if not count or min(buffer[1:count:2]) > _LARGEST_ID:
        return count
    mended: list[int] = []
    pairs: list[int] = []
    waiting: list[int] = []
    done = 0
    for at, value in enumerate(buffer[:], 1):
        if abs(value) <= _LARGEST_ID:
            waiting.append(len(pairs) + 1)
            pairs += (value, 0)
        elif waiting:
            pairs[waiting.pop()] = value
        if not waiting:
            mended += pairs
            pairs = []
            done = at
    buffer[:done] = mended
    return len(mended)


class ThreadState:
    """The items that one thread has recorded and the flusher has not taken yet."""

    __slots__ = (
        *("buffer", "dead", "extras", "ident", "index", "name"),
        *("next_spare", "pushed", "shown", "spare", "thread", "tid"),
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.ident = threading.get_ident()
        self.tid = threading.get_native_id()
        thread = _process.known_thread()
        self.thread = None if thread is None else weakref.ref(thread)
        self.name = f"Thread {self.tid}"
        self._read_name(thread)  # now: a thread may be over before the first flush
        self.shown: str | None = None
        self.buffer: list[int] = []
        self.extras: list[Extra] = []
        self.pushed: list[PushedRange] = []
        self.spare: list[Any] = [None] * MOST_SPARE  # of ranges, which this file does not know
        self.next_spare = 0
        self.dead = False

    def line(self) -> log_format.Line | None:
        """Return the thread's line for the log, if its name is new or has changed."""
        self._read_name(None if self.thread is None else self.thread())
        if self.name == self.shown:
            return None
        self.shown = self.name
        return log_format.thread_line(index=self.index, tid=self.tid, name=self.name, ident=self.ident)

    def _read_name(self, thread: threading.Thread | None) -> None:
        if thread is not None:
            with contextlib.suppress(Exception):  # a class of the program may have a `name` of its own
                self.name = log_format.clean_text(thread.name)


class ThreadEnd:
    """A mark in a thread's local data, which Python deletes when the thread is over."""

    __slots__ = ("state",)

    def __init__(self, state: ThreadState) -> None:
        self.state = state

    def __del__(self) -> None:
        self.state.dead = True


def asyncio_calls() -> tuple[Callable[[], object], Callable[[], object]] | None:
    """Return asyncio's functions for the running loop and the current task; None where it cannot be imported.

    It is imported when recording starts: it takes 40 ms. A program may have files of the names that it imports.
    """
    try:
        import asyncio

        return asyncio._get_running_loop, asyncio.current_task
    except Exception:  # noqa: BLE001 - without it, ranges of tasks are recorded as those of their thread
        return None


class _LockedCount:
    """`itertools.count` for a Python without the interpreter lock, where that gives a number twice."""

    __slots__ = ("_lock", "_next")

    def __init__(self, first: int) -> None:
        self._lock, self._next = threading.RLock(), first

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        with self._lock:
            number = self._next
            self._next = number + 1
            return number


def numbers_from(first: int) -> Iterator[int]:
    """Return an iterator over all integers from `first`, for many threads: none of them gets the same number."""
    is_locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    return itertools.count(first) if is_locked else _LockedCount(first)


class Session:
    """The state that all threads share. There is one: recording is a property of the process, as its log is."""

    def __init__(self) -> None:
        self.generation = 0
        self.logging = False
        self.nvtx: NvtxDomain | None = None
        self.before_first: Callable[[], None] | None = None
        self.batch_watchers: tuple[BatchWatcher, ...] = ()
        self.reset()

    def reset(self) -> None:
        """Forget threads, names and what they recorded."""
        self.generation += 1
        self.states: list[ThreadState] = []
        self.events: list[Event] = []
        self.new_names: list[int | Key] = []  # id, name, id, name ... that the log does not define yet
        self.notes: list[str] = []
        self.ids: dict[Key, int] = {}
        self.next_id = numbers_from(1)
        self.next_thread = numbers_from(0)
        self.handles = numbers_from(1)
        self.task_stacks: weakref.WeakKeyDictionary[object, list[PushedRange]] = weakref.WeakKeyDictionary()
        self.last_step = log_format.NO_STEP

    def count(self, code: str) -> None:
        """Note one case of a code of log_format.NOTE_CODES."""
        if self.logging:
            self.notes.append(code)  # adding to a number is two steps, between which another thread may run

    def new_thread(self) -> ThreadState:
        """Return a state for the calling thread, known to the flusher."""
        if self.before_first is not None:
            self.before_first()
        state = ThreadState(next(self.next_thread))
        if self.logging:
            self.states.append(state)
        return state


SESSION: Final = Session()
