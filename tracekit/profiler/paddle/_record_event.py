"""Paddle's RecordEvent: a named range of the program, of one of the types that a program may record."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from enum import Enum
from typing import Final, ParamSpec, TypeVar
from warnings import warn

from tracekit import recorder

# Types of Paddle's events, with Paddle's numbers.


class TracerEventType(Enum):
    """Type of a range, a call or the work of a device."""

    Operator = 0
    Dataloader = 1
    ProfileStep = 2
    CudaRuntime = 3
    Kernel = 4
    Memcpy = 5
    Memset = 6
    UserDefined = 7
    OperatorInner = 8
    Forward = 9
    Backward = 10
    Optimization = 11
    Communication = 12
    PythonOp = 13
    PythonUserDefined = 14
    DygraphKernelLaunch = 15
    StaticKernelLaunch = 16


class TracerMemEventType(Enum):
    """Type of a memory event."""

    Allocate = 0
    Free = 1
    ReservedAllocate = 2
    ReservedFree = 3


P = ParamSpec("P")
R = TypeVar("R")


_KINDS: Final = {
    "Dataloader": "dataloader",
    "ProfileStep": "step",
    "Forward": "forward",
    "Backward": "backward",
    "Optimization": "optimizer",
    "PythonOp": "python_op",
    "PythonUserDefined": "user_range",
}
"""The types that a program may record, by name (Paddle has an enumeration of its own), with tracekit's kinds."""

RUNNING: Final[weakref.WeakSet[object]] = weakref.WeakSet()
"""The profilers that run. Between their windows, too, a range of a wrong type causes a warning, as upstream."""


class RecordEvent:
    """A range of the program: context manager, decorator, or `begin()` and `end()`. It does nothing outside of windows.

    `end()` without `begin()` does nothing; a second `begin()` ends the range of the first.
    """

    def __init__(self, name: str, event_type: TracerEventType = TracerEventType.PythonUserDefined) -> None:
        self.name, self.event_type = name, event_type
        self._open: recorder.Range | None = None

    def begin(self) -> None:
        """Begin the range."""
        if not recorder.is_recording() and not RUNNING:
            return
        kind = _KINDS.get(self.event_type.name)
        self.end()
        if kind is None:
            allowed = ", ".join(f"TracerEventType.{name}" for name in _KINDS)
            warn(f"Only TracerEvent Type in [{allowed}] can be recorded.", stacklevel=2)
            return
        self._open = recorder.range(self.name, _recorded_kind(kind))
        self._open.__enter__()

    def end(self) -> None:
        """End the range, if one is open."""
        opened, self._open = self._open, None
        if opened is not None:
            opened.__exit__(None, None, None)

    def __enter__(self) -> RecordEvent:
        self.begin()
        return self

    def __exit__(self, error: object, value: object, traceback: object) -> None:
        self.end()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wrap a function, coroutine function or generator so that each of its runs is such a range."""
        kind = _KINDS.get(self.event_type.name)
        if kind is not None:
            return recorder.traced(function, name=self.name, kind=_recorded_kind(kind))

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            with RecordEvent(self.name, self.event_type):
                return function(*args, **kwargs)

        return run


def _recorded_kind(kind: str) -> str | None:
    """Return the kind for the recorder: None for the one that it assumes by default."""
    return None if kind == "user_range" else kind
