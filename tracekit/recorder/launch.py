"""The environment of a program that `tracekit record` starts, and the list of what it recorded."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tracekit.recorder import _process

__all__ = ["LOG", "PROCESS", "is_first_rank", "read_list", "recorded_environment"]

PROCESS = "process"
LOG = "log"
"""The first words of the lines in the list: a Python process has started, a log was opened."""
_SETTINGS = "TRACEKIT_RECORD"


def recorded_environment(environ: Mapping[str, str], log: str, hooks: Sequence[str], listed: Path) -> dict[str, str]:
    """Return the environment in which every Python process starts the recorder.

    environ: the program's without it. log: a name or a folder, as of `start`. hooks: of nvtx, torch, paddle, modules.
    listed: an existing file, to which the processes add their lines.
    """
    home = Path(__file__).resolve().parents[2]
    orjson = importlib.util.find_spec("orjson")
    libraries = Path(orjson.origin).parents[1] if orjson is not None and orjson.origin else home
    settings = {
        "log": log,
        "hooks": list(hooks),
        "list": str(listed),
        "home": str(home),
        "libraries": str(libraries),
    }
    places = [str(Path(__file__).parent / "startup")]
    if environ.get("PYTHONPATH"):
        places.append(environ["PYTHONPATH"])
    return {**environ, _SETTINGS: json.dumps(settings), "PYTHONPATH": os.pathsep.join(places)}


def read_list(listed: Path) -> tuple[int, list[Path]]:
    """Return the number of Python processes, and the logs that they wrote and that are still there."""
    processes: set[str] = set()
    logs: dict[Path, None] = {}
    for line in listed.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        word, _, rest = line.partition(" ")
        if word == PROCESS:
            processes.add(rest)
        elif word == LOG:
            logs[Path(rest)] = None
    return len(processes), [path for path in logs if path.exists()]


def is_first_rank(environ: Mapping[str, str]) -> bool:
    """Return whether a process is rank 0, or no launcher has started it."""
    return _process.rank_of(environ)[0] in (None, 0)
