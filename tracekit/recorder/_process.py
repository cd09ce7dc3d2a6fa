"""The process that records: its rank, names and command for the log's header, the name of its log, its stderr."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from tracekit.recorder import _clock, log_format

RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torchrun and most other launchers
    # Paddle's launcher; before SLURM, which may have started that launcher, one for each node.
    ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
)
DEFAULT_STEM = "tracekit"


def rank_of(environ: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return (rank, world size) from the launcher's variables; (None, None) outside of a distributed run.

    >>> rank_of({"SLURM_PROCID": "3", "SLURM_NTASKS": "8"})
    (3, 8)
    >>> rank_of({"RANK": "none"})
    (None, None)
    """
    for rank_name, size_name in RANK_VARIABLES:
        rank = _count(environ.get(rank_name))
        if rank is not None:
            return rank, _count(environ.get(size_name))
    return None, None


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None


def log_path(target: str | os.PathLike[str], *, rank: int | None, pid: int, attempt: int = 0) -> Path:
    """Return the file of one process. target: a file name whose suffix is kept, or a folder.

    >>> log_path("run.jsonl", rank=2, pid=77).as_posix(), log_path("run.jsonl", rank=None, pid=77, attempt=1).as_posix()
    ('run.rank2.pid77.jsonl', 'run.pid77.2.jsonl')
    """
    path = Path(target)
    if path.is_dir() or os.fspath(target).endswith(("/", os.sep)):
        path = path / DEFAULT_STEM
    suffix = path.suffix if path.suffix in (log_format.SUFFIX, ".json", ".ndjson") else ""
    stem = path.name.removesuffix(suffix) if suffix else path.name
    parts = [stem, *([] if rank is None else [f"rank{rank}"]), f"pid{pid}", *([str(attempt + 1)] if attempt else [])]
    return path.with_name(".".join(parts) + (suffix or log_format.SUFFIX))


def head(
    anchor: _clock.Anchor, *, process: str | None, rank: int | None, world_size: int | None, forked: bool
) -> log_format.Line:
    """Return the log's header for this process."""
    command = [str(part) for part in sys.argv]
    package = sys.modules.get("tracekit")
    version = ".".join(str(part) for part in sys.version_info[:3])
    return log_format.head_line(
        tracekit=str(getattr(package, "__version__", "unknown")),
        pid=os.getpid(),
        parent_pid=os.getppid(),
        rank=rank,
        world_size=world_size,
        host=socket.gethostname(),
        process=process or _process_name(command),
        python=f"{sys.executable or 'python'} {version}",
        command=command,
        perf_ns=anchor.perf_ns,
        epoch_ns=anchor.epoch_ns,
        forked=forked,
    )


def _process_name(command: list[str]) -> str:
    """Return the name that multiprocessing gave the process ("SpawnProcess-3"), else the program's."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None:
        name = str(multiprocessing.current_process().name)
        if name != "MainProcess":
            return name
    return Path(command[0]).name if command and command[0] else "python"


def print_note(text: str) -> None:
    """Write one line to stderr, if there is a stderr."""
    with contextlib.suppress(Exception):
        sys.stderr.write("tracekit.recorder: " + " ".join(text.split()) + "\n")
        sys.stderr.flush()
