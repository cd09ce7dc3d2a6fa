"""Long calls of a library that does not look at signals: Ctrl-C and SIGTERM end them all the same.

Python handles a signal in its main thread, between two instructions of its own. So a call of minutes is made in another
thread. Where a library does not stop when it is asked to, `leave_if_stuck` ends the process without it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:  # every command imports this module, and few make such a call
    from concurrent.futures import Future

__all__ = ["interruptible", "is_stuck", "leave_if_stuck"]

P = ParamSpec("P")
T = TypeVar("T")
_NAME = "tracekit-library"
_LOOK_S = 0.5
_MERCY_S = 0.5
_AGAIN_S = 0.05
"""Seconds between two requests to stop: one that comes before the library has begun is forgotten."""


_STUCK: list[Future[Any]] = []
"""Calls that were interrupted and have not come back. They are never removed: such a process is about to end."""


def interruptible(interrupt: Callable[[], object], work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `work` returns; an exception that a signal raises here stops it. interrupt: asks it to stop.

    The exception goes on half a second later, even if the work does not stop.
    """
    from concurrent.futures import Future, wait

    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(work(*args, **kwargs))
        except BaseException as err:  # noqa: BLE001 - raised again by `result`
            answer.set_exception(err)

    threading.Thread(target=run, name=_NAME, daemon=True).start()
    try:
        while not wait([answer], _LOOK_S).done:  # Windows notices Ctrl-C between two waits only
            pass
        return answer.result()
    except BaseException:
        until = time.monotonic() + _MERCY_S
        while not answer.done() and time.monotonic() < until:
            interrupt()
            wait([answer], _AGAIN_S)
        if not answer.done():
            _STUCK.append(answer)
        raise


def is_stuck() -> bool:
    """Return whether a call that was interrupted has not come back yet."""
    return any(not call.done() for call in _STUCK)


def leave_if_stuck(code: int) -> None:
    """End the process if a library does not come back: Python's own end would free what the library still uses."""
    if is_stuck():
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
