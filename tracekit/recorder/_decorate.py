"""Ranges around functions, coroutine functions and generators, for any kind of range."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
Item = TypeVar("Item")
Sent = TypeVar("Sent")
Opened = TypeVar("Opened")


@dataclass(frozen=True, slots=True)
class Timing(Generic[Opened]):
    """Two ways to time a run.

    nested: the run ends before anything around it does. begin, end: the run may overlap others of its thread, as those
    of coroutines and generators do.
    """

    nested: Callable[[], AbstractContextManager[object]]
    begin: Callable[[], Opened]
    end: Callable[[Opened], object]


def wrap(function: Callable[P, R], timing: Timing[Opened]) -> Callable[P, R]:
    """Return the function with a range around each of its runs; name, signature and result stay.

    A coroutine's range is from its first step to its end, a generator's from its first `next` to its end or close.
    """
    wrapped: Callable[P, object]
    if inspect.isasyncgenfunction(function):
        wrapped = _wrap_async_generator(function, timing)
    elif inspect.iscoroutinefunction(function):
        wrapped = _wrap_coroutine(function, timing)
    elif inspect.isgeneratorfunction(function):
        wrapped = _wrap_generator(function, timing)
    else:
        wrapped = _wrap_function(function, timing)
    return cast("Callable[P, R]", wrapped)


def _wrap_function(function: Callable[P, R], timing: Timing[Opened]) -> Callable[P, R]:
    nested = timing.nested

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with nested():
            return function(*args, **kwargs)

    return run


def _wrap_coroutine(function: Callable[P, Awaitable[R]], timing: Timing[Opened]) -> Callable[P, Awaitable[R]]:
    @functools.wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R:
        opened = timing.begin()
        try:
            return await function(*args, **kwargs)
        finally:
            timing.end(opened)

    return run


def _wrap_generator(
    function: Callable[P, Generator[Item, Sent, R]], timing: Timing[Opened]
) -> Callable[P, Generator[Item, Sent, R]]:
    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> Generator[Item, Sent, R]:
        opened = timing.begin()
        try:
            return (yield from function(*args, **kwargs))
        finally:
            timing.end(opened)

    return run


def _wrap_async_generator(
    function: Callable[P, AsyncGenerator[Item, Sent]], timing: Timing[Opened]
) -> Callable[P, AsyncGenerator[Item, Sent]]:
    @functools.wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[Item, Sent]:
        opened = timing.begin()
        inner = function(*args, **kwargs)
        try:
            value = await anext(inner)
            while True:
                # Async generators have no `yield from`: what comes in is handed on here.
                try:
                    sent = yield value
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001 - the inner generator handles it
                    value = await inner.athrow(error)
                else:
                    value = await inner.asend(sent)
        except StopAsyncIteration:
            return
        finally:
            await inner.aclose()
            timing.end(opened)

    return run
