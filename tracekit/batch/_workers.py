"""The workers of a batch: processes of this machine, or a Dask cluster.

A run with a limit on memory or time is done in a process of its own, which the worker watches.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tracekit.batch._result import Outcome, lost_outcome
from tracekit.batch._run import do_run, worker_mismatch
from tracekit.batch.plan import RunTask
from tracekit.safety import guard
from tracekit.workers.dask import DaskWorkers
from tracekit.workers.local import DIED, LocalWorkers


def run_within_limits(task: RunTask) -> Outcome:
    """Do one run, within the limits of the batch. A run that was ended for a limit has failed; nothing is raised."""
    limits = task.options.limits
    if not (limits.memory or limits.seconds):
        return do_run(task)
    program = guard.python_words("from tracekit.batch._workers import child; child()")
    try:
        ended = guard.watched(program, memory=limits.memory, seconds=limits.seconds, given=pickle.dumps(task))
    except OSError as err:
        return Outcome(task.key, "", "failed", f"{err.filename or 'the system'}: {err.strerror or err}")
    reason = guard.reason_of_end(ended, limits)
    if reason is None and not ended.code:
        key, folder, status, error = json.loads(ended.output)
        return Outcome(key, folder, status, error)
    text = DIED.format(task="run").replace(" twice", "") if reason is None else f"the run was ended: it {reason}"
    return lost_outcome(task, Path(task.work, f"lost-{task.key}"), text, again=reason is None)


def child() -> None:
    """Do the run that stdin has, and print its outcome."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    # The worker reads the outcome from stdout: a library that prints there would make it unreadable.
    answer = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    task: RunTask = pickle.load(sys.stdin.buffer)  # the worker wrote it
    guard.obey(task.options.limits.memory)
    outcome = do_run(task)
    with os.fdopen(answer, "w", encoding="ascii") as out:
        json.dump([outcome.key, outcome.folder, outcome.status, outcome.error], out)


class LocalEngine(LocalWorkers[RunTask, Outcome]):
    """Workers that are processes of this machine."""

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs, run_within_limits, "run")


class DaskEngine(DaskWorkers[RunTask, Outcome]):
    """The workers of a Dask cluster. OUT and the roots must be on shared file systems."""

    def __init__(self, address: str) -> None:
        super().__init__(
            address,
            run_within_limits,
            key=lambda task: f"{Path(task.work).name}-{task.key}",
            mismatch=_mismatch,
            needs="all workers need this tracekit, and OUT at the same path",
            kept="finished runs are kept; start the scheduler and this batch again",
            noun="run",
        )


def _mismatch(task: RunTask) -> tuple[Callable[..., str | None], tuple[object, ...]]:
    return worker_mismatch, (task.work, task.version, task.tool)
