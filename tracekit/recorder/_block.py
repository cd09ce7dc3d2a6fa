"""A recording of one block of the program: `with record("run.jsonl"):`, or a decorated function."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from tracekit.recorder._recorder import RECORDER, StartOptions

__all__ = ["Recording"]

P = ParamSpec("P")
R = TypeVar("R")


class Recording:
    """A recording that begins with a `with` and ends with its block, or that runs while a function does.

    path: the log, from the begin of the block on; None before, and where only NVTX is recorded. Each block has a log of
    its own: the same object may be used again.
    """

    def __init__(self, options: StartOptions) -> None:
        self.path: Path | None = None
        self._options = options
        self._lock = threading.Lock()
        self._calls = 0

    def __enter__(self) -> Recording:
        """Start. Raises: AlreadyRecordingError while the program records, OSError when the log cannot be created."""
        self.path = RECORDER.start(self._options, block=self)
        return self

    def __exit__(self, error: object, value: object, traceback: object) -> None:
        """Stop, however the block ended. The program may have stopped, or started another recording, itself."""
        if RECORDER.block is self:
            RECORDER.stop()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function or coroutine function: each call has a log of its own.

        A call inside another one, such as a recursive one, belongs to the recording that runs.
        Raises: TypeError for a generator function, which may be left half-way.
        """
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("record() decorates functions, not generators: use it with `with` where they are consumed")
        run: Callable[..., Any]
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_coroutine(*args: P.args, **kwargs: P.kwargs) -> object:
                with self._call():
                    return await function(*args, **kwargs)

            run = run_coroutine
        else:

            @functools.wraps(function)
            def run_function(*args: P.args, **kwargs: P.kwargs) -> R:
                with self._call():
                    return function(*args, **kwargs)

            run = run_function
        return cast("Callable[P, R]", run)

    def _call(self) -> _Call:
        return _Call(self, self._count)

    def _count(self, change: int) -> int:
        """Return how many calls of decorated functions ran before the change."""
        with self._lock:
            before = self._calls
            self._calls += change
            return before


class _Call:
    """One call of a decorated function; the outermost one begins and ends the recording."""

    def __init__(self, recording: Recording, count: Callable[[int], int]) -> None:
        self._recording, self._count = recording, count

    def __enter__(self) -> None:
        if self._count(1) == 0:
            try:
                self._recording.__enter__()
            except BaseException:
                self._count(-1)
                raise

    def __exit__(self, error: object, value: object, traceback: object) -> None:
        if self._count(-1) == 1:
            self._recording.__exit__(error, value, traceback)
