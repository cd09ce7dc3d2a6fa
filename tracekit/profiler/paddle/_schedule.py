"""The steps that are recorded: the states of Paddle's profiler, and the functions from a step's number to its state.

Source: python/paddle/profiler/profiler.py, Paddle 2.3 to 3.0.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from warnings import warn


class ProfilerState(Enum):
    """State of a step: closed, getting ready, recording, or recording as the last step of its window."""

    CLOSED = 0
    READY = 1
    RECORD = 2
    RECORD_AND_RETURN = 3


Scheduler = Callable[[int], ProfilerState]


def make_scheduler(*, closed: int, ready: int, record: int, repeat: int = 0, skip_first: int = 0) -> Scheduler:
    """Return the state of a step: skip_first closed ones, then rounds of `closed`, `ready` and `record` steps.

    repeat: rounds, 0 for ever. The last recorded step of a round is RECORD_AND_RETURN; with record=1 it is the only
    one. Warns when ready is 0. Raises: AssertionError for a negative number, or no step to record.

    >>> state = make_scheduler(closed=1, ready=1, record=2, repeat=1)
    >>> [state(step).name for step in range(5)]
    ['CLOSED', 'READY', 'RECORD', 'RECORD_AND_RETURN', 'CLOSED']
    """
    if not (closed >= 0 and ready >= 0 and record > 0 and repeat >= 0 and skip_first >= 0):
        raise AssertionError("Invalid profiler scheduler arguments")
    if ready == 0:
        warn(
            "Profiler will record data after enabling profiler immediately, "
            "some data collected at the beginning of profiling may be 'noisy' because of overhead.",
            stacklevel=2,
        )
    period = closed + ready + record

    def state_of(step: int) -> ProfilerState:
        if step < 0:
            raise AssertionError("step must be >= 0")
        if step < skip_first:
            return ProfilerState.CLOSED
        rounds, place = divmod(step - skip_first, period)
        if (repeat > 0 and rounds >= repeat) or place < closed:
            return ProfilerState.CLOSED
        if place < closed + ready:
            return ProfilerState.READY
        return ProfilerState.RECORD_AND_RETURN if place == period - 1 else ProfilerState.RECORD

    return state_of


def always(step: int) -> ProfilerState:  # noqa: ARG001 - as every scheduler
    """Return RECORD: the default scheduler."""
    return ProfilerState.RECORD


def scheduler_of(given: object) -> Scheduler:
    """Return the scheduler for a function, a half-open range (first, end) of steps, or None.

    Raises: AssertionError for a range that is not a pair, is empty, or ends before step 1.
    """
    if callable(given):
        return given
    if not isinstance(given, tuple | list):
        return always
    if len(given) != 2 or not given[1] > given[0]:
        raise AssertionError("scheduler as a range needs two numbers, the second larger than the first")
    first, end = max(given[0], 0), given[1]
    if first >= 1:
        return make_scheduler(closed=first - 1, ready=1, record=end - first, repeat=1)
    return make_scheduler(closed=0, ready=0, record=end - first, repeat=1)
