"""Calls into a library that does not look at signals."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import Future, wait

import pytest
from small_limits import Limit, small
from support import LONG_S

from tracekit.safety.library_calls import interruptible, is_stuck

DEAF = """
import os, sys, threading, signal, time
from tracekit.safety.library_calls import interruptible, leave_if_stuck
signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGTERM]).start()
print("begun")
try:
    interruptible(lambda: None, time.sleep, 10_000)
except SystemExit as end:
    leave_if_stuck(end.code)
"""


def test_a_library_that_never_stops_does_not_hold_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", DEAF], capture_output=True, check=False, timeout=LONG_S)
    assert (done.returncode, done.stdout.split(), done.stderr) == (143, [b"begun"], b"")


def test_what_the_call_returns_or_raises_comes_through() -> None:
    assert interruptible(lambda: None, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: None, divmod, 7, 0)
    assert not is_stuck()


def test_a_request_to_stop_that_comes_too_early_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    stopped = threading.Event()

    def ask() -> None:
        asked.append(1)
        if len(asked) == 3:
            stopped.set()

    waits: list[int] = []

    def interrupted(futures: list[Future[object]], timeout: float) -> object:
        waits.append(1)
        if len(waits) == 1:
            raise KeyboardInterrupt
        return wait(futures, timeout)

    monkeypatch.setattr("concurrent.futures.wait", interrupted)
    small(monkeypatch, Limit.LIBRARY_CALL_MERCY_S, LONG_S)  # a busy machine asks late
    with pytest.raises(KeyboardInterrupt):
        interruptible(ask, stopped.wait)
    assert len(asked) == 3


def test_a_call_of_another_thread_is_not_stuck() -> None:
    """Two queries in two threads of a program: the one that ends first has nothing to do with the other."""
    begun, end = threading.Event(), threading.Event()

    def wait_for_the_end() -> None:
        begun.set()
        end.wait(LONG_S)

    other = threading.Thread(target=interruptible, args=(lambda: None, wait_for_the_end))
    other.start()
    try:
        assert begun.wait(LONG_S)
        assert interruptible(lambda: None, divmod, 7, 2) == (3, 1)
        assert not is_stuck()
    finally:
        end.set()
        other.join()
