"""The recorder: NVTX ranges and a JSONL log from inside the user's program.

    from tracekit import recorder

    with recorder.record("run.jsonl"):              # this process writes run.rank0.pid4242.jsonl
        for batch in recorder.watch_loader(loader):
            with recorder.step():
                with recorder.range("forward", kind="forward"):
                    loss = model(batch)
                recorder.counter("loss", loss)

`start` and `stop` are for programs that begin and end in different places. `tracekit record -- python train.py` records
a program that has none of these lines. `TRACEKIT_LOG=run.jsonl` starts the recorder in any program that imports it.
With `TRACEKIT_SUMMARY=1` a child process prints the summary when the program ends (`TRACEKIT_N_OPS`: rows of a table).
`tracekit.recorder.torch.watch` and `tracekit.recorder.paddle.watch` record a training loop of torch or Paddle by hooks.

One call records the log's event and emits the NVTX range (domain `tracekit`). Without an NVTX tool, or with
`nvtx=False`, only the log is written; with `start(None)` only NVTX ranges are emitted. The recorder is a guest: after
`start` it never raises into the program. When it cannot go on (the disk is full, no thread can be started, the program
has closed the log's descriptor), it prints one line to stderr and stops, and the log says how it ended where it can.

Limits:

- `kill -9` and `os._exit` lose what was recorded since the last flush. A thread flushes every 20 ms, and later where it
  does not get the interpreter in time: while C code holds the interpreter lock, while several threads saturate it, and
  on a host without a free processor. The log has the time of the last flush and the longest wait of an event.
- `with` in a generator that is left half-way may cross other ranges of its thread. Decorate the generator instead, or
  use `start_range`.
- Ranges of asyncio tasks are kept apart by task. Those of other event loops (trio, curio) need `start_range`.
- A range that is open when recording stops is unfinished in the log.
- A subinterpreter is not recorded: it cannot end while a thread runs in it.
- The recorder's thread is not in `threading.enumerate()`, and takes no signals.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType

from tracekit.recorder import _exit_summary, _process, _recorder
from tracekit.recorder._api import (
    CrossedRangeError,
    counter,
    mark,
    pop,
    push,
    set_step,
    start_range,
    step,
    traced,
)
from tracekit.recorder._block import Recording
from tracekit.recorder._overlap import OpenRange
from tracekit.recorder._ranges import Range, end_range
from tracekit.recorder._ranges import get_range as range
from tracekit.recorder._recorder import AlreadyRecordingError
from tracekit.recorder.hooks.loader import on_batch, watch_loader

__all__ = [
    "AlreadyRecordingError",
    "CrossedRangeError",
    "OpenRange",
    "Range",
    "Recording",
    "counter",
    "end_range",
    "flush",
    "is_recording",
    "log_path",
    "mark",
    "on_batch",
    "pop",
    "push",
    "range",
    "record",
    "set_step",
    "start",
    "start_range",
    "step",
    "stop",
    "traced",
    "watch_loader",
]


def start(
    target: str | os.PathLike[str] | None = "tracekit.jsonl",
    *,
    nvtx: bool = True,
    process: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    children: bool = True,
) -> Path | None:
    """Start recording; return the log of this process.

    target: the log's name, to which rank and pid are added, or a folder; None: no log, only NVTX. process: a name for
    people. rank, world_size: by default from RANK/WORLD_SIZE, PADDLE_TRAINER_ID/PADDLE_TRAINERS_NUM,
    SLURM_PROCID/SLURM_NTASKS, OMPI_COMM_WORLD_RANK/_SIZE.
    children: programs that this one starts (spawned workers) record too, through TRACEKIT_LOG; forked ones always do.
    A running recording is stopped first. Returns None, after a line on stderr, where no thread can be started.
    Raises: OSError when the log cannot be created; AlreadyRecordingError in a block of `record`.
    """
    options = _recorder.StartOptions(target, nvtx, process, rank, world_size, children)
    return _recorder.RECORDER.start(options)


def record(
    target: str | os.PathLike[str] | None = "tracekit.jsonl",
    *,
    nvtx: bool = True,
    process: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    children: bool = True,
) -> Recording:
    """Record a block, or the calls of a function: `with record("run.jsonl"):` or `@record("run.jsonl")`.

    The arguments are those of `start`. The log is complete when the block ends, whatever ends it; `path` of the result
    names it. Where `tracekit record` or TRACEKIT_LOG records the program already, the block has its own log, and that
    recording continues behind it in another one.
    Raises, as the block begins: AlreadyRecordingError in another such block or after `start`; OSError when the log
    cannot be created.
    """
    return Recording(_recorder.StartOptions(target, nvtx, process, rank, world_size, children))


def stop() -> Path | None:
    """Stop recording; return the complete log. Without a recording this does nothing."""
    return _recorder.RECORDER.stop()


def flush() -> None:
    """Write all that is recorded so far to the log."""
    _recorder.RECORDER.flush()


def is_recording() -> bool:
    """Return whether ranges go to a log or to NVTX."""
    return _recorder.RECORDER.recording


def log_path() -> Path | None:
    """Return the log of this process, or None while there is none."""
    return _recorder.RECORDER.path


def __dir__() -> list[str]:
    return sorted([*__all__, "paddle", "torch"])


def __getattr__(name: str) -> ModuleType:
    if name in ("torch", "paddle"):  # tracekit.recorder.torch, which few programs need
        return importlib.import_module(f"tracekit.recorder.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _start_from_environment() -> None:
    target = os.environ.get(_recorder.LOG_VARIABLE)
    if not target:
        return
    rows = _exit_summary.rows_wanted(os.environ)
    try:
        log = start(target)
        _recorder.RECORDER.mark_background(target)
    except Exception as error:  # noqa: BLE001 - a program that did not ask for it must not fail
        _process.print_note(f"not recording: {error}")
        return
    if log is not None and rows is not None and _process.rank_of(os.environ)[0] in (None, 0):
        _exit_summary.print_at_exit(log, rows, stop=_recorder.RECORDER.stop_at_exit)


_start_from_environment()
