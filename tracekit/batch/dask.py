"""A Dask cluster as the engine of a batch. OUT and the roots must be on shared file systems.

When a worker dies, Dask gives its runs to other workers. It gives up on a run that killed `allowed-failures` workers
(Dask's own setting; 3 by default).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tracekit.batch._work import Outcome, work, worker_mismatch
from tracekit.batch.local import DIED, LostTask
from tracekit.batch.plan import Task
from tracekit.errors import InputError, MissingExtraError, OutputError

if TYPE_CHECKING:
    from distributed import Client, Future

TASKS_PER_THREAD = 2
"""Tasks sent for each thread of the cluster: one runs, one waits beside it."""
CONNECT_S = 20


class DaskEngine:
    """The cluster whose scheduler has this address, such as tcp://10.0.0.1:8786."""

    def __init__(self, address: str) -> None:
        try:
            import distributed
        except ImportError as err:
            raise MissingExtraError(f"--dask {address}", "dask") from err
        self._distributed = distributed
        self._address = address
        self._client: Client | None = None

    def __enter__(self) -> Self:
        try:
            self._client = self._distributed.Client(self._address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TypeError) as err:
            raise InputError(
                f"--dask {self._address}: no scheduler answers ({_first_line(err)})",
                hint="`dask scheduler` prints its address, such as tcp://10.0.0.1:8786",
            ) from err
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def run(self, tasks: Iterator[Task], lost: LostTask) -> Iterator[Outcome]:
        """Do all tasks; see `local.Engine`. Raises: OutputError for unusable workers or a lost scheduler."""
        client = self._client
        if client is None:
            raise OutputError("the cluster is not open")
        running: dict[Future, Task] = {}
        is_checked = False
        while True:
            while len(running) < self._capacity(client) and (task := next(tasks, None)) is not None:
                if not is_checked:
                    self._check_workers(client, task)
                    is_checked = True
                name = f"tracekit-{Path(task.work).name}-{task.key}"
                running[client.submit(work, task, key=name, pure=False)] = task
            if not running:
                return
            with client.as_current():  # not as the default: the caller may have a client of its own
                done, _ = self._distributed.wait(list(running), return_when="FIRST_COMPLETED")
            for future in done:
                task = running.pop(future)
                yield self._outcome(future, task, lost)
                future.release()

    def _capacity(self, client: Client) -> int:
        threads: int = sum(client.nthreads().values())
        return max(TASKS_PER_THREAD * threads, 2)

    def _check_workers(self, client: Client, task: Task) -> None:
        """Raise OutputError if a present worker cannot do the task. Workers that come later check it themselves."""
        answers = client.run(worker_mismatch, task.work, task.version, task.tool, on_error="return")
        for answer in answers.values():
            if answer is not None:
                raise OutputError(
                    f"--dask {self._address}: {answer}", hint="all workers need this tracekit, and OUT at the same path"
                )

    def _outcome(self, future: Future, task: Task, lost: LostTask) -> Outcome:
        if future.status == "finished":
            outcome: Outcome = future.result()
            return outcome
        if future.status == "error":
            error = future.exception()
            if isinstance(error, self._distributed.KilledWorker):
                return lost(task, DIED)
            return lost(task, f"the cluster failed on this run: {type(error).__name__}: {_first_line(error)}")
        raise OutputError(
            f"--dask {self._address}: the scheduler is gone",
            hint="finished runs are kept; start the scheduler and this batch again",
        )


def _first_line(err: BaseException) -> str:
    return (str(err).strip().splitlines() or [type(err).__name__])[0][:200]
