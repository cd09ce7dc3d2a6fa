"""Ranges around functions. Runs of coroutines and generators may overlap on a thread: theirs are overlapping ranges."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from tracekit.recorder import _clock, _overlap, _ranges


def wrap(
    function: Callable[..., Any],
    name: str,
    kind: str | None,
    category: str | None,
    color: int | None,
    payload: object,
) -> Callable[..., Any]:
    """Return the function with a range around each of its runs; name, signature and result stay.

    A coroutine's range is from its first step to its end, a generator's from its first `next` to its end or close.
    """

    def begin() -> _overlap.OpenRange | None:
        if _ranges.is_off():
            return None
        return _overlap.begin_async(_ranges.find_range(name, kind, category, color), payload)

    def end(opened: _overlap.OpenRange | None) -> None:
        if opened is not None:
            _overlap.end_async(opened, _clock.now(), _ranges.thread_state().index)

    if inspect.isasyncgenfunction(function):
        return _wrap_async_generator(function, begin, end)
    if inspect.iscoroutinefunction(function):
        return _wrap_coroutine(function, begin, end)
    if inspect.isgeneratorfunction(function):
        return _wrap_generator(function, begin, end)
    ranges = _ranges.range_

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with ranges(name, kind, category, color, payload):
            return function(*args, **kwargs)

    return run


Begin = Callable[[], "_overlap.OpenRange | None"]
End = Callable[["_overlap.OpenRange | None"], None]


def _wrap_coroutine(function: Callable[..., Any], begin: Begin, end: End) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        opened = begin()
        try:
            return await function(*args, **kwargs)
        finally:
            end(opened)

    return run


def _wrap_generator(function: Callable[..., Any], begin: Begin, end: End) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        opened = begin()
        try:
            return (yield from function(*args, **kwargs))
        finally:
            end(opened)

    return run


def _wrap_async_generator(function: Callable[..., Any], begin: Begin, end: End) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        opened = begin()
        inner = function(*args, **kwargs)
        try:
            value = await anext(inner)
            while True:
                # There is no `yield from` in async generators: what comes in is handed on by hand.
                try:
                    sent = yield value
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001 - it is the inner generator's to handle
                    value = await inner.athrow(error)
                else:
                    value = await inner.asend(sent)
        except StopAsyncIteration:
            return
        finally:
            await inner.aclose()
            end(opened)

    return run
