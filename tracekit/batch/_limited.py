"""Runs with a limit on memory or time: each is done in a process of its own, which the worker watches."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from pathlib import Path

from tracekit.batch._work import Outcome, lost_outcome
from tracekit.batch._work import work as work_here
from tracekit.batch.plan import Task
from tracekit.safety import guard
from tracekit.workers.local import DIED


def work(task: Task) -> Outcome:
    """Do one run, within the limits of the batch. A run that was ended for a limit has failed; nothing is raised."""
    limits = task.options.limits
    if not (limits.memory or limits.seconds):
        return work_here(task)
    program = guard.python_words("from tracekit.batch._limited import child; child()")
    try:
        ended = guard.watched(program, memory=limits.memory, seconds=limits.seconds, given=pickle.dumps(task))
    except OSError as err:
        return Outcome(task.key, "", "failed", f"{err.filename or 'the system'}: {err.strerror or err}")
    reason = guard.reason_of_end(ended, limits)
    if reason is None and not ended.code:
        key, made, status, error = json.loads(ended.output)
        return Outcome(key, made, status, error)
    text = DIED.format(task="run").replace(" twice", "") if reason is None else f"the run was ended: it {reason}"
    return lost_outcome(task, Path(task.work, f"lost-{task.key}"), text, again=reason is None)


def child() -> None:
    """Do the run that stdin has, and print its outcome."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    answer = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may print there
    task: Task = pickle.load(sys.stdin.buffer)  # the worker wrote it
    guard.obey(task.options.limits.memory)
    made = work_here(task)
    with os.fdopen(answer, "w", encoding="ascii") as out:
        json.dump([made.key, made.made, made.status, made.error], out)
