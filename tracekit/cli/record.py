"""tracekit record: a Python program runs as ever, and leaves a log of its ranges, loops and steps."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from tracekit.cli import _common
from tracekit.cli._common import example, say, warn
from tracekit.cli.process.program import end_as, run_program
from tracekit.errors import OutputExistsError, UsageError
from tracekit.model.display import plural
from tracekit.recorder.launch import is_first_rank, read_list, recorded_environment

__all__ = ["record"]

_NOT_FOUND, _NOT_RUNNABLE = 127, 126
"""Exit codes of shells, env and nohup for a program that they cannot start."""
_MOST_NAMED = 8
_DEFAULT = "tracekit.jsonl"


@example("tracekit record -- python train.py", "tracekit record -o run.jsonl -- torchrun --nproc-per-node 4 train.py")
def record(
    program: Annotated[
        list[str] | None, typer.Argument(metavar="PROGRAM...", help="The program and its arguments, as you start it.")
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="LOG",
            help="The log, such as run.jsonl; run.rank0.jsonl for a rank. Several processes have a log each.",
        ),
    ] = "",
    torch: Annotated[
        bool, typer.Option(help="Record forward, backward, optimizer, data loader and steps of torch.")
    ] = True,
    paddle: Annotated[
        bool, typer.Option(help="Record forward, backward, optimizer, data loader and steps of Paddle.")
    ] = True,
    nvtx: Annotated[bool, typer.Option(help="Record NVTX ranges that Python code makes.")] = True,
    modules: Annotated[bool, typer.Option("--modules", help="Record each module of a model, too.")] = False,
    summary: Annotated[bool, typer.Option(help="Print the summary to stderr at the end.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing log.")] = False,
    debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False,
) -> None:
    """Run a Python program and record it. The program, its output and its exit code stay as they are.

    docs/recorder.md says what is recorded, and what is not.
    """
    del debug  # `runnable` looks at it
    words = program or []
    _check(words)
    log = Path(output or _DEFAULT).absolute()
    if output and log.exists() and not force and not log.is_dir():
        raise OutputExistsError(output)
    hooks = [
        name for name, wanted in (("nvtx", nvtx), ("torch", torch), ("paddle", paddle), ("modules", modules)) if wanted
    ]
    with tempfile.TemporaryDirectory(prefix="tracekit-record-") as folder:
        listed = Path(folder) / "processes"
        listed.touch()
        try:
            target = str(log) + os.sep * log.is_dir()
            environ = recorded_environment(_common.users_environment(), target, hooks, listed)
            code = run_program(words, environ)
        except OSError as error:
            reason = "command not found" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
            warn(f"error: {words[0]}: {reason}")
            end_as(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_RUNNABLE)
        processes, logs = read_list(listed)
    if output and not log.is_dir():
        logs = _named(log, logs, force=force)
    logs.sort(key=_in_order)
    _report(words[0], processes, logs, summary=summary)
    end_as(code)


def _check(words: list[str]) -> None:
    """Refuse what cannot be started, with the command that was probably meant. Raises: UsageError."""
    if not words:
        raise UsageError("no program to record", hint="tracekit record -- python train.py")
    first = words[0]
    if first.endswith(".py") and shutil.which(first) is None and Path(first).exists():
        rest = " ".join(words)
        raise UsageError(f"{first}: a script, where a program is needed", hint=f"tracekit record -- python {rest}")


def _named(log: Path, logs: list[Path], *, force: bool) -> list[Path]:
    """Leave the process ids out of the logs' names where the names stay different; return the new names."""
    short: dict[Path, list[Path]] = {}
    stem = log.name.removesuffix(log.suffix) if log.suffix in (".jsonl", ".json", ".ndjson") else log.name
    for path in logs:
        own, suffix = path.name.removesuffix(path.suffix), path.suffix
        parts = own.removeprefix(stem).split(".")
        kept = [part for part in parts if part.startswith("rank")]
        if path.parent == log.parent and own.startswith(f"{stem}."):
            short.setdefault(path.with_name(".".join([stem, *kept]) + suffix), []).append(path)
    names = {path: path for path in logs}
    for name, paths in short.items():
        if len(paths) == 1 and (force or not name.exists()):
            with suppress(OSError):
                names[paths[0]] = paths[0].replace(name)
    return list(names.values())


def _in_order(log: Path) -> list[tuple[int, str]]:
    """Return what sorts logs by name with numbers as such: rank 2 is before rank 10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", log.name)]


def _report(program: str, processes: int, logs: list[Path], *, summary: bool) -> None:
    """Print what was recorded, and the summary, to stderr."""
    if not processes:
        say(
            f"tracekit record: nothing was recorded: {program} started no Python process. The recorder starts with "
            "Python, except with the options -I, -E and -S."
        )
        return
    if not logs:
        say(
            f"tracekit record: nothing was recorded: no range (NVTX, tracekit.recorder) and no model of torch "
            f"or Paddle ran in {_count(processes)}."
        )
        return
    shown = [os.path.relpath(path) for path in logs]
    more = f" and {len(shown) - _MOST_NAMED} more" if len(shown) > _MOST_NAMED else ""
    say(f"tracekit record: {plural(len(shown), 'log')}: {', '.join(shown[:_MOST_NAMED])}{more}")
    if summary and is_first_rank(os.environ):  # of processes that a launcher has started, one prints
        _print_summary(shown)


def _count(processes: int) -> str:
    return "the Python process" if processes == 1 else f"the {processes:,} Python processes"


def _print_summary(logs: list[str]) -> None:
    """Print the summary of the logs on stderr, by a process of its own, so that a fault of it changes no exit code."""
    from tracekit.safety.guard import python_words

    words = [*python_words("from tracekit.cli import main; main()"), "summary", *logs]
    with suppress(OSError, KeyboardInterrupt):
        subprocess.run(words, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), check=False)
