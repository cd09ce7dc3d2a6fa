"""A command on a terminal of its own."""

from __future__ import annotations

import os
import pty
import select
import sys
import time

from support import LONG_S


def at_a_terminal(
    *words: str, rows: int = 60, name: str = "summary", errors: bool = True, **environment: str
) -> tuple[str, int]:
    """Run a command of tracekit on a terminal of 80 columns; return what it shows and the exit code.

    errors: show stderr too, on which a busy machine sees a progress bar.
    """
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover - another process
        own = {"TERM": "xterm", "COLUMNS": "", **environment}
        command = 'stty rows $ROWS cols 80; unset COLUMNS LINES; exec "$0" -m tracekit $NAME "$@"'
        command += "" if errors else " 2>/dev/null"
        os.execve(
            "/bin/sh",
            ["sh", "-c", command, sys.executable, *words],
            os.environ | own | {"ROWS": str(rows), "NAME": name},
        )
    found = b""
    end = time.monotonic() + LONG_S
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # the end, on Linux
            break
        if not data:
            break
        found += data
    os.close(terminal)
    return found.decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
