"""The summary at the end of a program that TRACEKIT_LOG makes record, as Theano printed it: without code.

    TRACEKIT_LOG=run.jsonl TRACEKIT_SUMMARY=1 TRACEKIT_N_OPS=10 python train.py

Theano printed its profile when the process ended, with row limits from flags. Here a child process reads the logs of
this process and of its descendants, and prints `tracekit summary` on stdout. So the program itself loads nothing for
it. Under a launcher only rank 0 prints. TRACEKIT_N_OPS limits the rows of each table (Theano: profiling.n_ops, 20; 0
is all). TRACEKIT_N_APPLY and TRACEKIT_MIN_MEMORY_SIZE belong to Theano's tables Apply and Memory, which this version
does not have; a note on stderr says so. A process that ends without its exit handlers (kill, os._exit) prints nothing.

Source: Theano 1.0, doc/tutorial/profiling (flags profile, profiling.n_apply, n_ops, min_memory_size).
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Final, NamedTuple

from tracekit.recorder import log_format
from tracekit.recorder._process import print_note

SUMMARY: Final = "TRACEKIT_SUMMARY"
N_OPS: Final = "TRACEKIT_N_OPS"
WITHOUT_TABLE: Final = ("TRACEKIT_N_APPLY", "TRACEKIT_MIN_MEMORY_SIZE")
DEFAULT_ROWS: Final = 20
_OFF: Final = ("", "0", "false", "no", "off")
_CHILD: Final = "import sys; sys.path.append(sys.argv.pop(1)); from tracekit.cli import main; main()"


def rows_wanted(environ: MutableMapping[str, str]) -> int | None:
    """Return the rows of a table, None when no summary is wanted.

    The variable is removed, so that children print no summary of their own.


    >>> rows_wanted({"TRACEKIT_SUMMARY": "1", "TRACEKIT_N_OPS": "7"})
    7
    """
    if environ.pop(SUMMARY, "").strip().lower() in _OFF:
        return None
    for name in WITHOUT_TABLE:
        if name in environ:
            print_note(f"{name} has no effect: this version has no table that it limits")
    rows = environ.get(N_OPS, str(DEFAULT_ROWS)).strip()
    if rows.isascii() and rows.isdigit() and len(rows) < 10:
        return int(rows)
    print_note(f"{N_OPS}={rows}: not a number of rows; {DEFAULT_ROWS} are shown")
    return DEFAULT_ROWS


def print_at_exit(log: Path, rows: int, *, stop: Callable[[], object]) -> None:
    """Print the summary of a log and its descendants' logs when this process ends, after `stop`."""
    pid = os.getpid()

    def at_exit() -> None:
        if os.getpid() == pid:  # a forked child has its parent's exit handlers
            stop()
            print_summary(log, rows)

    atexit.register(at_exit)


def print_summary(log: Path, rows: int) -> None:
    """Print the summary of a log and its descendants' logs by a child process."""
    home = str(Path(__file__).resolve().parents[2])
    environ = {key: value for key, value in os.environ.items() if not key.startswith("TRACEKIT_")}
    arguments = ["summary", *map(str, logs_of_family(log)), "--top", str(rows)]
    try:
        sys.stdout.flush()
        done = subprocess.run([sys.executable, "-P", "-c", _CHILD, home, *arguments], env=environ, check=False)
        if done.returncode:
            print_note(f"no summary: the child ended with {done.returncode}")
    except Exception as error:  # noqa: BLE001 - no interpreter to start, no memory, no stdout
        print_note(f"no summary: {error}")


def logs_of_family(log: Path) -> list[Path]:
    """Return the log and the logs beside it of processes that descend from its process and started after it."""
    own = _header(log)
    if own is None:
        return [log]
    others = {
        path: header
        for path in log.parent.iterdir()
        if path.suffix == log.suffix and path != log and (header := _header(path)) and header.epoch_ns >= own.epoch_ns
    }
    family, pids = [log], {own.pid}
    while children := [path for path, header in others.items() if header.parent_pid in pids]:
        for path in children:
            pids.add(others.pop(path).pid)
        family += sorted(children)
    return family


class _Header(NamedTuple):
    pid: int
    parent_pid: int
    epoch_ns: int


def _header(path: Path) -> _Header | None:
    """Return the facts of a log's first line, None for another file."""
    try:
        with path.open("rb") as file:
            line = file.readline(1 << 20)
        if not line.startswith(log_format.HEAD_PREFIX):
            return None
        head = json.loads(line)
        return _Header(int(head["pid"]), int(head.get("parent_pid", 0)), int(head["epoch_ns"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
