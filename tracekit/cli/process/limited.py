"""Options of every command that reads inputs: the most that this may cost, and a process that holds it to that."""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
import typing
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from tracekit.errors import TracekitError, UsageError
from tracekit.safety import guard
from tracekit.safety.limits import Limits, applied, size_of, size_text
from tracekit.units import split_quantity

PANEL = "Limits, for files of strangers"

MaxReadBytes = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="Read the first SIZE of each input, unpacked, such as 2GiB.",
        rich_help_panel=PANEL,
    ),
]
MaxReadEvents = Annotated[int, typer.Option(metavar="N", min=0, help="Read the first N events of each input.")]
MaxMemory = Annotated[str, typer.Option(metavar="SIZE", help="End the command when it holds more memory than SIZE.")]
MaxTime = Annotated[
    str, typer.Option(metavar="D", help="End the command after this time, such as 30s; reading ends before.")
]
_OPTIONS: dict[str, tuple[object, object]] = {
    "max_read_bytes": (MaxReadBytes, ""),
    "max_read_events": (MaxReadEvents, 0),
    "max_memory": (MaxMemory, ""),
    "max_time": (MaxTime, ""),
}
_SECONDS = {"s": 1.0, "ms": 1e-3, "m": 60.0, "min": 60.0, "h": 3600.0}


def limited(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of limits, which hold for all that it reads."""
    own = inspect.signature(command)
    hints = typing.get_type_hints(command, include_extras=True)
    parameters = [each.replace(annotation=hints[each.name]) for each in own.parameters.values()]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters += [
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
        for name, (annotation, default) in _OPTIONS.items()
    ]

    @functools.wraps(command)
    def wrapper(**words: typing.Any) -> None:
        limits, memory = _limits(*(words.pop(name) for name in _OPTIONS))
        if _is_watched():
            guard.obey(memory)
        with applied(limits):
            command(**words)

    setattr(wrapper, "__signature__", inspect.Signature(parameters))  # noqa: B010 - functions do not declare it
    wrapper.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
    del wrapper.__wrapped__
    return wrapper


def _limits(read_bytes: str, read_events: int, memory: str, seconds: str) -> tuple[Limits, int]:
    """Return the limits, and the most memory. Raises: UsageError."""
    most = _size("--max-memory", memory)
    if most and not guard.knows_memory():
        raise UsageError("--max-memory: not on this system", hint="--max-read-bytes and --max-read-events bound it")
    return Limits(_size("--max-read-bytes", read_bytes), read_events, seconds_of(seconds)), most


def _size(option: str, text: str) -> int:
    try:
        return size_of(text) if text else 0
    except ValueError as err:
        raise UsageError(f"{option} {text}: not a size", hint=f"such as {option} 2GiB") from err


def seconds_of(text: str) -> float:
    """Return the seconds of "30s" or "5min", 0 for "". Raises: UsageError, also without a unit."""
    if not text:
        return 0
    try:
        number, unit = split_quantity(text)
        found = float(number) * _SECONDS[unit]
    except (ValueError, KeyError) as err:
        raise UsageError(f"--max-time {text}: not a time", hint="such as --max-time 30s, 5min or 1h") from err
    if not (math.isfinite(found) and found > 0):
        raise UsageError(f"--max-time {text}: not a time", hint="such as --max-time 30s, 5min or 1h")
    return found


def watch_if_asked(words: Sequence[str], say: Callable[[TracekitError], None]) -> None:
    """Run the command in a process of its own and end with its code, where it has a limit on memory or time.

    words: of the command line. say: prints the error of a command that was ended.
    """
    if _is_watched():
        return
    memory, time = _given(words, "--max-memory"), _given(words, "--max-time")
    try:
        limits, most = _limits("", 0, memory, time)
    except UsageError:
        return  # the command says so
    if (not most and not limits.seconds) or words[:1] == ["batch"]:
        return  # a batch holds each of its runs to the limits
    ended = guard.watched([sys.executable, "-m", "tracekit", *words], memory=most, seconds=limits.seconds)
    if ended.over == "memory":
        text = f"the command was ended: it held more memory than {size_text(most)} (--max-memory)"
        hint = "a larger --max-memory, --max-read-events N, or a filter such as --kind kernel"
        say(TracekitError(text, hint=hint))
    elif ended.over:
        text = f"the command was ended: it took longer than {limits.seconds:g} s (--max-time)"
        say(TracekitError(text, hint="a larger --max-time, --max-read-events N, or a filter such as --kind kernel"))
    sys.exit(1 if ended.over else ended.code if ended.code >= 0 else 128 - ended.code)


def _is_watched() -> bool:
    return os.environ.get(guard.WATCHED) == str(os.getppid())


def _given(words: Sequence[str], option: str) -> str:
    """Return the value of an option in a command line, "" where it is not there; the last one counts."""
    found = ""
    for place, word in enumerate(words):
        if word == option and place + 1 < len(words):
            found = words[place + 1]
        elif word.startswith(f"{option}="):
            found = word.partition("=")[2]
    return found
