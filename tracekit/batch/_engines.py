"""The workers of a batch: processes of this machine, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tracekit.batch._limited import work
from tracekit.batch._work import Outcome, worker_mismatch
from tracekit.batch.plan import Task
from tracekit.workers.dask import DaskWorkers
from tracekit.workers.local import LocalWorkers


class LocalEngine(LocalWorkers[Task, Outcome]):
    """Workers that are processes of this machine."""

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs, work, "run")


class DaskEngine(DaskWorkers[Task, Outcome]):
    """The workers of a Dask cluster. OUT and the roots must be on shared file systems."""

    def __init__(self, address: str) -> None:
        super().__init__(
            address,
            work,
            key=lambda task: f"{Path(task.work).name}-{task.key}",
            mismatch=_mismatch,
            needs="all workers need this tracekit, and OUT at the same path",
            kept="finished runs are kept; start the scheduler and this batch again",
            noun="run",
        )


def _mismatch(task: Task) -> tuple[Callable[..., str | None], tuple[object, ...]]:
    return worker_mismatch, (task.work, task.version, task.tool)
