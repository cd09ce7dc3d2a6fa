"""Record the NVTX ranges that a program makes in Python: with the package nvtx, or with torch.cuda.nvtx.

The functions are called first, so that they return, and raise, what they always do. The ranges go to the log also where
no NVTX tool is attached. Not seen: ranges that C and C++ code makes itself (NCCL, cuDNN, DALI, torch's `emit_nvtx`),
and those of a `Domain` object of nvtx, whose class is compiled. `nsys profile` records all of them.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tracekit.recorder import _api, _process, _ranges
from tracekit.recorder._overlap import OpenRange
from tracekit.recorder._session import SESSION

__all__ = ["record_nvtx", "record_torch_nvtx"]

_DEFAULT: object = None


@dataclass(slots=True)
class _OpenNvtx:
    """A range that was pushed. range_: None once it was cut."""

    domain: object
    range_: _ranges.Range | None
    generation: int


class _OpenNvtxRanges(threading.local):
    """The open ranges of the calling thread, of all domains in their order."""

    def __init__(self) -> None:
        self.ranges: list[_OpenNvtx] = []


_OPEN = _OpenNvtxRanges()
_started: dict[object, OpenRange] = {}
"""Open ranges of torch.cuda.nvtx by their numbers, which are those of NVTX."""


def _push(domain: object, message: object, category: object = None, payload: object = None) -> None:
    if _ranges.is_off():
        return
    range_ = _ranges.get_range(_text(message), None, _group(category), None, payload)
    range_.__enter__()
    _OPEN.ranges.append(_OpenNvtx(domain, range_, SESSION.generation))


def _pop(domain: object) -> None:
    """End the last range of a domain. Each domain has a stack: ranges of others that began in it are cut there."""
    opened = _OPEN.ranges
    place = next((n for n in reversed(range(len(opened))) if opened[n].domain == domain), None)
    if place is None:
        return
    for inner in opened[place + 1 :]:
        range_, inner.range_ = inner.range_, None
        if range_ is not None and inner.generation == SESSION.generation:
            SESSION.count("range_crossed")
            getattr(range_, "base", range_).cut(_process.now())
    last = opened.pop(place)
    if last.range_ is not None and last.generation == SESSION.generation:
        last.range_.__exit__(None, None, None)


def _text(message: object) -> str:
    return "" if message is None else str(message)


def _group(category: object) -> str | None:
    return None if category is None else str(category)


def _aside(function: Callable[..., None], *args: object) -> None:
    """Call a part of the recorder: its faults are counted and do not reach the program."""
    try:
        function(*args)
    except Exception:  # noqa: BLE001 - a guest does not raise
        SESSION.count("watch_failed")


def _start_torch(number: object, message: str) -> None:
    opened = _api.start_range(_text(message))
    if opened is not None:
        _started[number] = opened


def record_torch_nvtx(torch: Any) -> None:
    """Record the calls of torch.cuda.nvtx from now on; `range` of that module calls the functions by their names."""
    module = torch.cuda.nvtx
    push, pop, start, end, mark = (
        getattr(module, name) for name in ("range_push", "range_pop", "range_start", "range_end", "mark")
    )

    @functools.wraps(push)
    def range_push(msg: str) -> object:
        depth = push(msg)
        _aside(_push, _DEFAULT, msg)
        return depth

    @functools.wraps(pop)
    def range_pop() -> object:
        _aside(_pop, _DEFAULT)
        return pop()

    @functools.wraps(start)
    def range_start(msg: str) -> object:
        number = start(msg)
        _aside(_start_torch, number, msg)
        return number

    @functools.wraps(end)
    def range_end(range_id: object) -> object:
        _aside(lambda: _ranges.end_range(_started.pop(range_id, None)))
        return end(range_id)

    @functools.wraps(mark)
    def mark_(msg: str) -> object:
        result = mark(msg)
        _aside(_api.mark, msg)
        return result

    module.range_push, module.range_pop, module.mark = range_push, range_pop, mark_
    module.range_start, module.range_end = range_start, range_end


def record_nvtx(nvtx: Any) -> None:
    """Record the calls of the package nvtx from now on."""
    _record_annotate(nvtx.annotate)
    for module in (nvtx, nvtx.nvtx):
        for name, make in (
            ("push_range", _push_range),
            ("pop_range", _pop_range),
            ("start_range", _start_range),
            ("end_range", _end_range),
            ("mark", _mark),
        ):
            function = getattr(module, name, None)
            if function is not None and not hasattr(function, "__wrapped__"):
                setattr(module, name, make(function))


def _record_annotate(annotate: Any) -> None:
    enter, leave, call = annotate.__enter__, annotate.__exit__, annotate.__call__

    def facts(this: Any) -> tuple[object, object, object, object]:
        return _of_range(getattr(this, "init_args", ()), {})

    @functools.wraps(enter)
    def __enter__(this: Any) -> object:
        result = enter(this)
        _aside(lambda: _push(*facts(this)))
        return result

    @functools.wraps(leave)
    def __exit__(this: Any, *error: object) -> object:
        _aside(lambda: _pop(facts(this)[0]))
        return leave(this, *error)

    @functools.wraps(call)
    def __call__(this: Any, function: Any) -> Any:
        inner = call(this, function)
        domain, message, category, payload = facts(this)
        name = getattr(function, "__name__", None) if message is None else message

        @functools.wraps(function)
        def run(*args: object, **kwargs: object) -> object:
            _aside(_push, domain, name, category, payload)
            try:
                return inner(*args, **kwargs)
            finally:
                _aside(_pop, domain)

        return run

    annotate.__enter__, annotate.__exit__, annotate.__call__ = __enter__, __exit__, __call__


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], place: int, name: str) -> Any:
    return args[place] if len(args) > place else kwargs.get(name)


def _of_range(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[object, object, object, object]:
    """Return domain, message, category and payload of a call; `(message, color, domain, category, payload)`."""
    message, domain, category, payload = (
        _argument(args, kwargs, place, name)
        for place, name in ((0, "message"), (2, "domain"), (3, "category"), (4, "payload"))
    )
    return domain, message, category, payload


def _push_range(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def push_range(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        _aside(_push, *_of_range(args, kwargs))
        return result

    return push_range


def _pop_range(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def pop_range(*args: Any, **kwargs: Any) -> Any:
        _aside(_pop, _argument(args, kwargs, 0, "domain"))
        return function(*args, **kwargs)

    return pop_range


def _start_range(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def start_range(*args: Any, **kwargs: Any) -> Any:
        number = function(*args, **kwargs)
        _, message, category, payload = _of_range(args, kwargs)
        started = _Started(number or ())
        started.number = number
        _aside(_start, started, message, category, payload)
        return started

    return start_range


class _Started(tuple[Any, ...]):
    """The result of nvtx's `start_range`. Without a tool that is None, by which an end would not find its begin."""

    number: Any
    opened: OpenRange | None = None


def _start(started: _Started, message: object, category: object, payload: object) -> None:
    started.opened = _api.start_range(_text(message), category=_group(category), payload=payload)


def _end_range(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def end_range(range_id: Any) -> Any:
        if not isinstance(range_id, _Started):
            return function(range_id)
        _aside(_ranges.end_range, range_id.opened)
        range_id.opened = None
        return function(range_id.number)

    return end_range


def _mark(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def mark(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        _, message, category, payload = _of_range(args, kwargs)
        _aside(lambda: _api.mark(_text(message), category=_group(category), payload=payload))
        return result

    return mark
