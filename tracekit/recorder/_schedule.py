"""When to record: the states of a profiler by step, as Paddle's `make_scheduler` defines them.

Source: Paddle 2.x, python/paddle/profiler/profiler.py (ProfilerState, make_scheduler, _default_state_scheduler).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final


class ProfilerState(Enum):
    """What a profiler does in a step."""

    CLOSED = 0
    READY = 1
    RECORD = 2
    RECORD_AND_RETURN = 3


Scheduler = Callable[[int], ProfilerState]
"""Gives the state of a step (>= 0)."""

INVALID: Final = "Invalid profiler scheduler arguments"


def make_scheduler(*, closed: int, ready: int, record: int, repeat: int = 0, skip_first: int = 0) -> Scheduler:
    """Return the schedule: after `skip_first` steps, `closed`, `ready` and `record` steps again and again.

    repeat: how many times; 0: for ever. The last step of each `record` is RECORD_AND_RETURN, so with record=1 there is
    no RECORD. With ready=0 it warns: the first samples of a profiler are noisy.
    Raises: AssertionError, as upstream, for counts below 0 or record below 1; the schedule, for a step below 0.

    >>> [make_scheduler(closed=1, ready=1, record=2, repeat=1)(step).name for step in range(5)]
    ['CLOSED', 'READY', 'RECORD', 'RECORD_AND_RETURN', 'CLOSED']
    """
    if min(closed, ready, repeat, skip_first) < 0 or record <= 0:
        raise AssertionError(INVALID)
    if ready == 0:
        warnings.warn("Profiler will record data after enabling profiler immediately, some data collected at the "
                      "beginning of profiling may be 'noisy' because of overhead.", stacklevel=2)  # fmt: skip
    period = closed + ready + record

    def state_of(step: int) -> ProfilerState:
        if step < 0:
            raise AssertionError("a step is at least 0")
        since = step - skip_first
        if since < 0 or (repeat > 0 and since // period >= repeat):
            return ProfilerState.CLOSED
        place = since % period
        if place < closed:
            return ProfilerState.CLOSED
        if place < closed + ready:
            return ProfilerState.READY
        return ProfilerState.RECORD if place < period - 1 else ProfilerState.RECORD_AND_RETURN

    return state_of


def always_record(_: int) -> ProfilerState:
    """Record in every step: the schedule of a profiler that was given none."""
    return ProfilerState.RECORD


def scheduler_of(given: Scheduler | Sequence[int] | None) -> Scheduler:
    """Return the schedule that a profiler's `scheduler` argument means.

    given: a schedule; (start, end): record the steps start <= step < end, once; None: always.
    Raises: AssertionError unless a sequence has two numbers, the second above the first and above 0; TypeError.

    >>> [scheduler_of((2, 4))(step).value for step in range(6)]
    [0, 1, 2, 3, 0, 0]
    """
    if given is None:
        return always_record
    if isinstance(given, tuple | list):
        if len(given) != 2 or given[1] <= given[0]:
            raise AssertionError(f"scheduler {given!r} is not (start, end) with start < end")
        start, end = max(given[0], 0), given[1]
        ready = 1 if start >= 1 else 0
        return make_scheduler(closed=max(start - 1, 0), ready=ready, record=end - start, repeat=1)
    if callable(given):
        return given
    raise TypeError(f"scheduler is a function, (start, end) or None, not {type(given).__name__}")
