"""The process that reads profiles and answers, and the server's end of the pipe to it.

It is a process of its own, so that a question can be ended: one that takes too long or holds too much memory, or a file
that crashes a library. The next question starts a new one. What it read for earlier questions is then read again.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tracekit.agents.folders import ProfileFolders
from tracekit.errors import COMMAND_LINE, TOOL, AllInputsError, SchemaError, TracekitError, UsageError
from tracekit.lazy_dataclass import dataclass
from tracekit.safety import guard
from tracekit.safety.limits import Limits, applied, size_text

__all__ = ["AnsweringProcess", "Reply", "error_text"]

_ENDED = "error: the question was ended: {}\nhint: ask for less at once"
_START_S = 60.0
"""Seconds for which the start of the process does not count as time of a question."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to one question: an answer as JSON, or an error with a hint."""

    answer: dict[str, Any] | None
    error: str = ""


class AnsweringProcess:
    """The process behind the server, started for the first question and again after it was ended."""

    def __init__(self, folders: ProfileFolders, limits: Limits, scratch: Path) -> None:
        self._folders = folders
        self._scratch = scratch
        self._limits = limits
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None
        self._until = 0.0

    def ask(self, tool: str, given: dict[str, Any]) -> None:
        """Send a question. Then call `reply` until it returns something."""
        starts = self._process is None or not self._process.is_alive()
        pipe = self._started() if starts or self._pipe is None else self._pipe
        spare = _START_S if starts else 0.0
        self._until = time.monotonic() + self._limits.seconds + spare if self._limits.seconds else float("inf")
        try:
            pipe.send((tool, given))
        except OSError:  # it died while it had nothing to do
            self._started().send((tool, given))

    def reply(self) -> Reply | None:
        """Return the reply if it is there, None if the process still works on it. Ends a process beyond a limit."""
        process, pipe = self._process, self._pipe
        if process is None or pipe is None:
            return Reply(None, "the process that answers has ended; ask again")
        try:
            if pipe.poll():
                found: Reply = pipe.recv()
                return found
        except (EOFError, OSError):
            self.stop()
            return Reply(None, "error: the process that answers was killed (out of memory, or a library crashed)")
        if time.monotonic() > self._until:
            self.stop()
            seconds = f"{self._limits.seconds:g} s (--max-time of tracekit mcp)"
            return Reply(None, _ENDED.format(f"it took longer than {seconds}"))
        if self._limits.memory and guard.memory_of(process.pid or 0) > self._limits.memory:
            self.stop()
            memory = f"{size_text(self._limits.memory)} (--max-memory of tracekit mcp)"
            return Reply(None, _ENDED.format(f"it needed more than {memory}"))
        return None

    def stop(self) -> None:
        """End the process, also in the middle of a question."""
        process, pipe, self._process, self._pipe = self._process, self._pipe, None, None
        if pipe is not None:
            pipe.close()
        if process is not None:
            process.kill()
            process.join()

    def _started(self) -> Connection:
        self.stop()
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        given = (theirs, self._folders, self._limits, self._scratch)
        self._process = context.Process(target=_work, args=given, name="tracekit-answers", daemon=True)
        self._process.start()
        theirs.close()
        return self._pipe


def _work(pipe: Connection, folders: ProfileFolders, limits: Limits, scratch: Path) -> None:
    """Answer questions until the server is gone. scratch: the folder for temporary files."""
    tempfile.tempdir = str(scratch)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the server too, which ends this process
    threading.Thread(target=_end_with_server, name="tracekit-leash", daemon=True).start()
    from tracekit.agents import fence
    from tracekit.agents.questions import Answering

    # It asks other programs where the C++ library is, which the fence would refuse.
    with suppress(ImportError):
        import_module("cxxfilt")
    fence.put_up(folders.by_label.values(), scratch)
    answering = Answering(folders)
    while True:
        try:
            tool, given = pipe.recv()
        except (EOFError, OSError):
            return
        with applied(limits.begun_now()):
            pipe.send(_replied(lambda: answering.answer(tool, given), folders))  # noqa: B023 - called at once


def _end_with_server() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _replied(answer: Callable[[], dict[str, Any]], folders: ProfileFolders) -> Reply:
    """Return the reply to a question; whatever happens becomes a sentence."""
    try:
        return Reply(answer())
    except TracekitError as err:
        return Reply(None, folders.named(error_text(err)))
    except MemoryError:
        return Reply(None, "error: out of memory\nhint: ask for one profile, or start the server with --max-memory")
    except OSError as err:
        return Reply(None, folders.named(f"error: {err.filename or 'the system'}: {err.strerror or err}"))
    except Exception as err:  # noqa: BLE001 - a bug of ours must not become a traceback either
        return Reply(None, folders.named(error_text(SchemaError(f"tracekit failed: {type(err).__name__}: {err}"))))


def error_text(err: TracekitError) -> str:
    """Return an error as commands print it: one sentence and a hint, with the reasons of single inputs before it."""
    # Arguments of tools have the names of Python; limits and readers are those of the command that the user starts.
    surface = TOOL if isinstance(err, UsageError) else COMMAND_LINE
    reasons = err.failures if isinstance(err, AllInputsError) else ()
    lines = [f"error: {each.error.worded(COMMAND_LINE)}" for each in reasons[:10]]
    lines.append(f"error: {err.worded(surface)}")
    if advice := err.advised(surface):
        lines.append(f"hint: {advice}")
    return "\n".join(lines)
