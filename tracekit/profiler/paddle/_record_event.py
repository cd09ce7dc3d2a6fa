"""Paddle's RecordEvent: a named range of the program, of one of the types that a program may record."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import Any, Final
from warnings import warn

from tracekit import recorder


class TracerEventType(Enum):
    """What a range is."""

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


_KINDS: Final = {
    TracerEventType.Dataloader: "dataloader",
    TracerEventType.ProfileStep: "step",
    TracerEventType.Forward: "forward",
    TracerEventType.Backward: "backward",
    TracerEventType.Optimization: "optimizer",
    TracerEventType.PythonOp: "python_op",
    TracerEventType.PythonUserDefined: "user_range",
}
"""The types that a program may record, and the kinds of tracekit that they are."""

RUNNING: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
"""The profilers that run: between their windows a range of a wrong type is warned of too, as upstream does."""


class RecordEvent:
    """A range of the program: context manager, decorator, or `begin()` and `end()`. Nothing while none is recorded.

    `end()` without `begin()` does nothing; a second `begin()` ends the range of the first.
    """

    def __init__(self, name: str, event_type: TracerEventType = TracerEventType.PythonUserDefined) -> None:
        self.name, self.event_type = name, event_type
        self._open: recorder.Range | None = None

    def begin(self) -> None:
        """Begin the range."""
        if not recorder.is_recording() and not RUNNING:
            return
        kind = _KINDS.get(self.event_type)
        self.end()
        if kind is None:
            allowed = ", ".join(f"TracerEventType.{kind.name}" for kind in _KINDS)
            warn(f"Only TracerEvent Type in [{allowed}] can be recorded.", stacklevel=2)
            return
        self._open = recorder.range(self.name, _as_told(kind))
        self._open.__enter__()

    def end(self) -> None:
        """End the range, if one is open."""
        opened, self._open = self._open, None
        if opened is not None:
            opened.__exit__(None, None, None)

    def __enter__(self) -> RecordEvent:
        self.begin()
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function, coroutine function or generator so that each of its runs is such a range."""
        kind = _KINDS.get(self.event_type)
        if kind is not None:
            wrapped: Callable[..., Any] = recorder.traced(function, name=self.name, kind=_as_told(kind))
            return wrapped

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with RecordEvent(self.name, self.event_type):
                return function(*args, **kwargs)

        return run


def _as_told(kind: str) -> str | None:
    """Return what the recorder is told of a kind: nothing where it is the one that it takes for granted."""
    return None if kind == "user_range" else kind
