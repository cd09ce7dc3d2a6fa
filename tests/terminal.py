"""A command on a terminal of its own."""

from __future__ import annotations

import os
import pty
import select
import termios
import time

from forked import forks
from support import LONG_S


def at_a_terminal(
    *words: str, rows: int = 60, name: str = "summary", errors: bool = True, **environment: str
) -> tuple[str, int]:
    """Run a command of tracekit on a terminal of 80 columns; return what it shows and the exit code.

    errors: show stderr too, on which a busy machine sees a progress bar.
    """
    own = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    leader, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (rows, 80))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    stderr = None if errors else nowhere
    with forks().start(
        name, *words, env=own | {"TERM": "xterm"} | environment, terminal=terminal, stderr=stderr
    ) as job:
        os.close(terminal)
        os.close(nowhere)
        found = b""
        end = time.monotonic() + LONG_S
        while time.monotonic() < end:
            if not select.select([leader], [], [], 1)[0]:
                continue
            try:
                data = os.read(leader, 1 << 16)
            except OSError:  # the end, on Linux
                break
            if not data:
                break
            found += data
        os.close(leader)
        return found.decode(), job.wait()
