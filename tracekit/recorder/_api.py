"""Calls of a program between start and stop: marks, counters, steps, pushed and overlapping ranges, the decorator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar, overload

from tracekit.recorder import _process, _ranges, _values, log_format
from tracekit.recorder._jsonl import CounterItem, MarkItem, StepItem
from tracekit.recorder._overlap import OpenRange
from tracekit.recorder._session import SESSION, PushedRange

P = ParamSpec("P")
R = TypeVar("R")


class CrossedRangeError(RuntimeError):
    """A scope was closed while another one, opened after it, was still open. Raised on request only."""


def start_range(
    name: str,
    *,
    kind: str | None = None,
    category: str | None = None,
    color: str | int | None = None,
    payload: object = None,
) -> OpenRange | None:
    """Begin a range that may overlap others and may end on another thread or task; give the result to `end_range`.

    Returns None when nothing is recorded, which `end_range` takes too.
    """
    if _ranges.is_off():
        return None
    return _ranges.get_range(name, kind, category, color).begin_apart(payload)


def mark(
    name: str,
    *,
    kind: str | None = None,
    category: str | None = None,
    color: str | int | None = None,
    payload: object = None,
) -> None:
    """Record that something happened now."""
    if _ranges.is_off():
        return
    now = _process.now()
    range_ = _ranges.get_range(name, kind, category, color)
    if range_ is _ranges.NO_RANGE:
        return
    json = None if payload is None else _values.payload_json(payload, SESSION.count)
    if SESSION.logging:
        SESSION.events.append(MarkItem(range_.begin_id, now, range_.state.index, json))
    if SESSION.nvtx is not None:
        SESSION.nvtx.mark(range_.attributes_with(payload, json))


def counter(name: str, value: object, *, category: str | None = None) -> None:
    """Record a counter's value, an integer or float; NumPy and torch scalars are taken too."""
    if _ranges.is_off():
        return
    now = _process.now()
    number = _values.number_of(value, SESSION.count)
    if number is None:
        return
    range_ = _ranges.get_range(name, None, category)
    if range_ is _ranges.NO_RANGE:
        return
    if SESSION.logging:
        SESSION.events.append(CounterItem(range_.begin_id, now, range_.state.index, number))
    if SESSION.nvtx is not None:
        SESSION.nvtx.sample(range_.name, number)


def _stack() -> list[PushedRange]:
    """Return the ranges that are pushed and not popped: on this thread, or in this asyncio task."""
    task = _ranges.current_task()
    if task is None:
        return _ranges.thread_state().pushed
    return SESSION.task_stacks.setdefault(task, [])


def push(
    name: str,
    *,
    kind: str | None = None,
    category: str | None = None,
    color: str | int | None = None,
    payload: object = None,
) -> None:
    """Begin a range that the next `pop` ends."""
    if _ranges.is_off():
        return
    range_ = _ranges.get_range(name, kind, category, color)
    if payload is None:
        range_.__enter__()
    else:
        _ranges.enter_aside(range_, payload)
    _stack().append(range_)


def pop(name: str | None = None, *, strict: bool = False) -> None:
    """End the range of the last `push`; with a name, the innermost pushed range of that name.

    Ranges pushed after it are cut: they end now, marked unfinished, and are counted. A call with nothing to end is
    counted too.
    Raises: CrossedRangeError, with strict, instead of either.
    """
    if _ranges.is_off():
        return
    stack = _stack()
    wanted = None if name is None else _values.text_of(name, SESSION.count)
    if not stack or (wanted is not None and all(pushed.name != wanted for pushed in stack)):
        if strict:
            raise CrossedRangeError(f"no open range {wanted!r}" if wanted else "no open range")
        SESSION.count("end_without_begin")
        return
    while wanted is not None and stack[-1].name != wanted:
        if strict:
            raise CrossedRangeError(f"range {wanted!r} is closed while {stack[-1].name!r} inside it is open")
        SESSION.count("range_crossed")
        stack.pop().cut(_process.now())
    stack.pop().__exit__(None, None, None)


class Step:
    """One step of a training loop, as context manager; see `step`."""

    __slots__ = ("_name", "_number", "_opened", "_range", "_samples")

    def __init__(self, number: int | None, name: str, samples: int | None = None) -> None:
        self._number, self._name, self._samples = number, name, samples
        self._range: _ranges.Range | None = None
        self._opened: OpenRange | None = None

    def __reduce__(self) -> tuple[type[Step], tuple[int | None, str, int | None]]:
        return Step, (self._number, self._name, self._samples)  # a copy of an open step is not open

    def __enter__(self) -> Step:
        if _ranges.is_off():
            return self
        number = _step_number(self._number)
        range_ = _ranges.get_range(self._name, "step")
        now = set_step(number)
        samples = None if self._samples is None else _values.integer_of(self._samples)
        counted = None if samples is None else {"num_samples": samples}
        if self._samples is not None and samples is None:
            SESSION.count("value_refused")
        if _ranges.current_task() is None:
            json = None if counted is None else f'{{"num_samples":{samples}}}'
            range_.begin_here(now, json, range_.attributes_with(number, str(number)))
            self._range = range_
        else:
            self._opened = range_.begin_apart(counted, t=now)
        return self

    def __exit__(self, error: object, value: object, traceback: object) -> None:
        now = _process.now()
        range_, self._range = self._range, None
        if range_ is not None and range_.generation == SESSION.generation:
            range_.end_here(now)
        _ranges.end_range(self._opened)
        self._opened = None
        if SESSION.logging:
            SESSION.events.append(StepItem(log_format.NO_STEP, now, _ranges.thread_state().index))


def step(number: int | None = None, *, name: str = "step", samples: int | None = None) -> Step:
    """Return a step of the program, for `with`: a range of kind `step`, whose number goes to all that starts in it.

    number: None takes the number after the last one, from 0. samples: how many samples the step handles.
    """
    return Step(number, name, samples)


def set_step(number: int) -> int:
    """Set the step that the process is in from now on (-1: in none); return now."""
    number = _step_number(number)
    now = _process.now()
    SESSION.last_step = number
    if SESSION.logging:
        SESSION.events.append(StepItem(number, now, _ranges.thread_state().index))
    return now


def _step_number(number: object) -> int:
    if number is not None:
        index = _values.integer_of(number)
        if index is not None and -1 <= index < 1 << 31:
            return index
        SESSION.count("value_refused")
    return SESSION.last_step + 1


@overload
def traced(
    function: Callable[P, R],
    *,
    name: str | None = None,
    kind: str | None = None,
    category: str | None = None,
    color: str | int | None = None,
    payload: object = None,
) -> Callable[P, R]: ...
@overload
def traced(
    *,
    name: str | None = None,
    kind: str | None = None,
    category: str | None = None,
    color: str | int | None = None,
    payload: object = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def traced(
    function: Callable[P, R] | None = None,
    *,
    name: str | None = None,
    kind: str | None = None,
    category: str | None = None,
    color: str | int | None = None,
    payload: object = None,
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function, coroutine function or generator: each run is a range, by default of its name."""
    if function is None:
        return functools.partial(traced, name=name, kind=kind, category=category, color=color, payload=payload)
    count = SESSION.count
    shown = getattr(function, "__qualname__", None) if name is None else name
    return _ranges.timed(
        function,
        _values.repr_of(function) if shown is None else _values.text_of(shown, count),
        None if kind is None else _values.text_of(kind, count),
        None if category is None else _values.text_of(category, count),
        _values.color_of(color, count),
        payload,
    )
