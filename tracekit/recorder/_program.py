"""The begin of `tracekit record` in each Python process of a program, before the program's own first line.

The recorder waits in the background: the log begins with the first event, so that processes without one leave none. The
hooks on torch, Paddle and NVTX are set when the program has imported these. Each process, and each log, is a line in a
file that the command reads in the end.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from tracekit.recorder import _process
from tracekit.recorder._recorder import RECORDER, StartOptions
from tracekit.recorder._session import SESSION
from tracekit.recorder.hooks.imports import after_import
from tracekit.recorder.launch import LOG, PROCESS

__all__ = ["begin"]


def begin(settings: Mapping[str, Any], before: set[str]) -> None:
    """Record this process. settings: as `tracekit record` wrote them. before: modules that were there already."""
    listed = str(settings["list"])
    _note(listed, PROCESS, str(os.getpid()))
    if reason := _process.why_not_here():
        _process.print_note(f"not recording: {reason}")
        return
    RECORDER.at_open = lambda path: _note(listed, LOG, str(path))
    RECORDER.start_in_background(StartOptions(str(settings["log"]), nvtx=False, children=False))
    hooks = settings["hooks"]
    if "nvtx" in hooks:
        after_import("nvtx", _guarded(_nvtx))
    if "torch" in hooks or "nvtx" in hooks:
        after_import("torch", _guarded(functools.partial(_torch, hooks)))
    if "paddle" in hooks:
        after_import("paddle", _guarded(functools.partial(_paddle, hooks)))
    _give_way(set(sys.modules) - before)


def _nvtx(module: ModuleType) -> None:
    from tracekit.recorder.hooks.nvtx_calls import record_nvtx

    record_nvtx(module)


def _torch(hooks: list[str], module: ModuleType) -> None:
    if "nvtx" in hooks:
        from tracekit.recorder.hooks.nvtx_calls import record_torch_nvtx

        record_torch_nvtx(module)
    if "torch" in hooks:
        from tracekit.recorder.torch import watch_program

        watch_program(verbosity=2 if "modules" in hooks else 1)


def _paddle(hooks: list[str], _: ModuleType) -> None:
    from tracekit.recorder.paddle import watch_program

    watch_program(verbosity=2 if "modules" in hooks else 1)


def _guarded(function: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    """Return the function as one that does not raise into the program's import."""

    def run(module: ModuleType) -> None:
        try:
            function(module)
        except Exception as error:  # noqa: BLE001 - another version of the library may lack anything
            SESSION.count("watch_failed")
            _process.print_note(f"{module.__name__} is not recorded: {type(error).__name__}: {error}")

    return run


def _give_way(imported: set[str]) -> None:
    """Let the program's own modules come first: it may have files of the names that the recorder has imported."""
    argument = sys.argv[0] if sys.argv else ""
    with contextlib.suppress(OSError):
        folder = Path.cwd() if argument in ("", "-", "-c", "-m") else Path(os.path.realpath(argument)).parent
        own = {name.partition(".")[0] for name in os.listdir(folder)}  # noqa: PTH208 - names alone
        for name in {name.partition(".")[0] for name in imported} & own - {"tracekit"}:
            for module in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
                del sys.modules[module]


def _note(listed: str, word: str, text: str) -> None:
    """Add a line to the list; with one write, since several processes share it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(listed, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, f"{word} {text}\n".encode())
        finally:
            os.close(descriptor)
