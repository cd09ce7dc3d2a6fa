"""The summary at exit of a program that was told to record by TRACEKIT_LOG: Theano's way, without code.

    TRACEKIT_LOG=run.jsonl TRACEKIT_SUMMARY=1 TRACEKIT_N_OPS=10 python train.py

Theano printed its profile when the process ended, with row limits from flags. Here a child process reads the logs of
this process and of its descendants and prints `tracekit summary` on stdout, so the program itself loads nothing for it.
Under a launcher rank 0 alone prints. TRACEKIT_N_OPS limits the rows of each table (Theano: profiling.n_ops, 20; 0 is
all). TRACEKIT_N_APPLY and TRACEKIT_MIN_MEMORY_SIZE belong to Theano's tables Apply and Memory, which this version does
not have: stderr says so. A process that ends without its exit handlers (kill, os._exit) prints nothing.

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
from typing import Final

from tracekit.recorder import log_format

SUMMARY: Final = "TRACEKIT_SUMMARY"
N_OPS: Final = "TRACEKIT_N_OPS"
WITHOUT_TABLE: Final = ("TRACEKIT_N_APPLY", "TRACEKIT_MIN_MEMORY_SIZE")
DEFAULT_ROWS: Final = 20
_OFF: Final = ("", "0", "false", "no", "off")
_CHILD: Final = "import sys; sys.path.append(sys.argv.pop(1)); from tracekit.cli import main; main()"

Tell = Callable[[str], None]


def rows_wanted(environ: MutableMapping[str, str], tell: Tell) -> int | None:
    """Return the rows a table, None when no summary is wanted. The wish is taken away: children do not have it too.

    >>> rows_wanted({"TRACEKIT_SUMMARY": "1", "TRACEKIT_N_OPS": "7"}, print)
    7
    """
    if environ.pop(SUMMARY, "").strip().lower() in _OFF:
        return None
    for name in WITHOUT_TABLE:
        if name in environ:
            tell(f"{name} has no effect: this version has no table that it limits")
    rows = environ.get(N_OPS, str(DEFAULT_ROWS)).strip()
    if rows.isascii() and rows.isdigit() and len(rows) < 10:
        return int(rows)
    tell(f"{N_OPS}={rows}: not a number of rows; {DEFAULT_ROWS} are shown")
    return DEFAULT_ROWS


def print_at_exit(log: Path, rows: int, *, stop: Callable[[], object], tell: Tell) -> None:
    """Print the summary of a log and its descendants' when this process ends; `stop` ends the recording before."""
    pid = os.getpid()

    def at_exit() -> None:
        if os.getpid() == pid:  # a forked child has its parent's exit handlers
            stop()
            _print(log, rows, tell)

    atexit.register(at_exit)


def _print(log: Path, rows: int, tell: Tell) -> None:
    home = str(Path(__file__).resolve().parents[2])
    environ = {key: value for key, value in os.environ.items() if not key.startswith("TRACEKIT_")}
    words = ["summary", *map(str, logs_of_family(log)), "--top", str(rows)]
    try:
        sys.stdout.flush()
        done = subprocess.run([sys.executable, "-P", "-c", _CHILD, home, *words], env=environ, check=False)
        if done.returncode:
            tell(f"no summary: the child ended with {done.returncode}")
    except (OSError, ValueError, AttributeError, TypeError) as error:  # no interpreter to start, no stdout
        tell(f"no summary: {error}")


def logs_of_family(log: Path) -> list[Path]:
    """Return the log and, of those beside it, the ones of processes that descend from its process, begun after it."""
    own = _header(log)
    if own is None:
        return [log]
    begun = {
        path: found
        for path in log.parent.iterdir()
        if path.suffix == log.suffix and path != log and (found := _header(path)) is not None and found[2] >= own[2]
    }
    family, pids = [log], {own[0]}
    while joining := [path for path, (_, parent, _) in begun.items() if parent in pids]:
        for path in joining:
            pids.add(begun.pop(path)[0])
        family += sorted(joining)
    return family


def _header(path: Path) -> tuple[int, int, int] | None:
    """Return (pid, parent's pid, epoch ns) of a log's first line, None when it is no log."""
    try:
        with path.open("rb") as file:
            line = file.readline(1 << 20)
        if not line.startswith(log_format.HEAD_PREFIX):
            return None
        head = json.loads(line)
        return int(head["pid"]), int(head.get("parent_pid", 0)), int(head["epoch_ns"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
