"""Run a program of the user's as if this process were not there: its streams, its signals, its exit code.

A key of the terminal (Ctrl-C, Ctrl-\\) reaches the program by itself, as it is in the terminal's group of processes. A
signal that somebody sends to this process is handed on. A program that a signal ended ends this process by the same
signal, so that a shell sees what it would have seen.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

__all__ = ["end_as", "run_program"]

_HANDED_ON = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGWINCH")
_OF_TERMINAL = ("SIGINT", "SIGQUIT", "SIGHUP", "SIGWINCH")
_OF_PYTHON = ("SIGPIPE", "SIGXFSZ")
"""Signals that Python ignores as it starts; a program of ours finds them as this one did."""


def run_program(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a program and return its exit code, or the negative number of the signal that ended it.

    Raises: OSError when it cannot be started.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    if not hasattr(os, "posix_spawnp") or not hasattr(signal, "pthread_sigmask"):
        return subprocess.run(list(words), env=dict(environ), check=False).returncode
    numbers = {number for name in _HANDED_ON if (number := getattr(signal, name, None)) is not None}
    # Ignored ones stay as they are, here and in the program (nohup).
    numbers -= {number for number in numbers if signal.getsignal(number) == signal.SIG_IGN}
    waited = numbers | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        reset = [number for name in _OF_PYTHON if (number := getattr(signal, name, None)) is not None]
        pid = os.posix_spawnp(words[0], list(words), dict(environ), setsigmask=before, setsigdef=reset)
        return os.waitstatus_to_exitcode(_wait(pid, waited))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait(pid: int, waited: set[signal.Signals]) -> int:
    """Return the wait status of the program; signals that come meanwhile are handed on."""
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        number, is_key = _next_signal(waited)
        if number != signal.SIGCHLD and not is_key:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _next_signal(waited: set[signal.Signals]) -> tuple[int, bool]:
    """Return the next signal, and whether the terminal has sent it to the whole group."""
    of_terminal = {getattr(signal, name, None) for name in _OF_TERMINAL}
    if hasattr(signal, "sigwaitinfo"):
        info = signal.sigwaitinfo(waited)
        return info.si_signo, info.si_signo in of_terminal and info.si_pid == 0
    number = signal.sigwait(waited)
    return number, number in of_terminal


def end_as(code: int) -> None:
    """End this process as the program ended: with its exit code, or by its signal. Does not return."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    if code < 0:
        with suppress(ImportError, OSError, ValueError):
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program has left its core file; ours says nothing
        with suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        code = 128 - code  # a signal that does not end a process
    sys.exit(code)
