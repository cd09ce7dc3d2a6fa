"""Options of every command that reads inputs: the most that this may cost, and a process that holds it to that."""

from __future__ import annotations

import inspect
import math
import os
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Literal, TypeAlias

import typer

from tracekit.errors import TracekitError, UsageError
from tracekit.model.units import split_quantity
from tracekit.safety import guard
from tracekit.safety.guard import reason_of_end
from tracekit.safety.limits import Limits, applied, size_of

__all__ = ["LIMITS", "LimitedWork", "limit_parameters", "limits_in_force", "watch_if_asked"]

LIMITS = "Limits, for untrusted files"
"""Their group in help."""

MaxReadBytes = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="Read the first SIZE of each input: 2GiB.",
        rich_help_panel=LIMITS,
    ),
]
MaxReadEvents = Annotated[
    int, typer.Option(metavar="N", min=0, help="Read the first N events of each input.", rich_help_panel=LIMITS)
]
MaxMemory = Annotated[
    str, typer.Option(metavar="SIZE", help="End the command above this much memory.", rich_help_panel=LIMITS)
]
MaxTime = Annotated[
    str,
    typer.Option(metavar="D", help="End the command after this time, such as 30s.", rich_help_panel=LIMITS),
]
RunMemory = Annotated[
    str, typer.Option(metavar="SIZE", help="Fail a run that holds more memory.", rich_help_panel=LIMITS)
]
RunTime = Annotated[
    str, typer.Option(metavar="D", help="Fail a run that takes longer, such as 30s.", rich_help_panel=LIMITS)
]
QuestionMemory = Annotated[
    str, typer.Option(metavar="SIZE", help="End a question above this much memory.", rich_help_panel=LIMITS)
]
QuestionTime = Annotated[
    str, typer.Option(metavar="D", help="End a question after this time; 120s by default.", rich_help_panel=LIMITS)
]
_OPTIONS: dict[str, tuple[object, object]] = {
    "max_read_bytes": (MaxReadBytes, ""),
    "max_read_events": (MaxReadEvents, 0),
    "max_memory": (MaxMemory, ""),
    "max_time": (MaxTime, ""),
}
_OF_RUNS = _OPTIONS | {"max_memory": (RunMemory, ""), "max_time": (RunTime, "")}
_OF_QUESTIONS = _OPTIONS | {"max_memory": (QuestionMemory, ""), "max_time": (QuestionTime, "")}
LimitedWork: TypeAlias = Literal["command", "run", "question"]
"""What the limits on memory and time are for."""
_LIMITED: dict[LimitedWork, dict[str, tuple[object, object]]] = {
    "command": _OPTIONS,
    "run": _OF_RUNS,
    "question": _OF_QUESTIONS,
}
_SECONDS = {"s": 1.0, "ms": 1e-3, "m": 60.0, "min": 60.0, "h": 3600.0}


def limit_parameters(of: LimitedWork = "command") -> list[inspect.Parameter]:
    """Return the options of limits for all that a command reads. of: what the memory and the time are limited for."""
    options = _LIMITED[of]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]


def limits_in_force(words: Mapping[str, typing.Any]) -> AbstractContextManager[None]:
    """Return the context in which the limits among the words of a command hold. Raises: UsageError."""
    limits = _limits(*(words[name] for name in _OPTIONS))
    if _is_watched():
        guard.obey(limits.memory)
    return applied(limits)


def _limits(read_bytes: str, read_events: int, memory: str, seconds: str) -> Limits:
    """Return the limits. Raises: UsageError."""
    most = _size("--max-memory", memory)
    if most and not guard.knows_memory():
        raise UsageError("--max-memory: not on this system", hint="--max-read-bytes and --max-read-events bound it")
    return Limits(_size("--max-read-bytes", read_bytes), read_events, seconds_of(seconds), memory=most)


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
        limits = _limits("", 0, memory, time)
    except UsageError:
        return  # the command says so
    command = next((word for word in words if not word.startswith("-")), "")
    if (not limits.memory and not limits.seconds) or command in ("batch", "mcp"):
        return  # a batch holds each of its runs to the limits, and the server for agents each question
    program = guard.python_words("from tracekit.cli import main; main()")
    ended = guard.watched([*program, *words], memory=limits.memory, seconds=limits.seconds)
    if (reason := reason_of_end(ended, limits)) is not None:
        option = "--max-time" if ended.over == "time" else "--max-memory"
        hint = f"a larger {option}, --max-read-events N, or a filter such as --kind kernel"
        say(TracekitError(f"the command was ended: it {reason}", hint=hint))
        sys.exit(1)
    sys.exit(ended.code if ended.code >= 0 else 128 - ended.code)


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
