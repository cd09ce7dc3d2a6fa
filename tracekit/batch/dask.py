"""A Dask cluster, wherever it runs: the same tasks by the same function. OUT and the roots must be shared file systems.

A worker that dies loses its runs to other workers; the cluster gives up on a run that took `allowed-failures` workers
with it (its own setting; 3 where nothing else is said).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from tracekit.batch._work import Outcome, stranger, work
from tracekit.batch.local import DIED, Lost
from tracekit.batch.plan import Task
from tracekit.errors import InputError, MissingExtraError, OutputError

if TYPE_CHECKING:
    from distributed import Client

AHEAD = 2
"""Tasks sent for each thread of the cluster: one that runs, one that waits beside it."""
CONNECT_S = 20


class Cluster:
    """The cluster whose scheduler listens at an address, such as tcp://10.0.0.1:8786."""

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

    def run(self, tasks: Iterator[Task], lost: Lost) -> Iterator[Outcome]:
        """Do all tasks; see `local.Engine`. Raises: OutputError for workers that cannot, or a lost scheduler."""
        client = self._client
        if client is None:
            raise OutputError("the cluster is not open")
        running: dict[Any, Task] = {}
        asked = False
        more = True
        while True:
            while more and len(running) < self._room(client):
                task = next(tasks, None)
                if task is None:
                    more = False
                    break
                if not asked:
                    self._ask(client, task)
                    asked = True
                name = f"tracekit-{task.work.rpartition('.')[2]}-{task.key}"
                running[client.submit(work, task, key=name, pure=False)] = task
            if not running:
                return
            with client.as_current():  # not as the default: the caller may have a client of its own
                done, _ = self._distributed.wait(list(running), return_when="FIRST_COMPLETED")
            for future in done:
                task = running.pop(future)
                yield self._outcome(future, task, lost)
                future.release()

    def _room(self, client: Client) -> int:
        threads: int = sum(client.nthreads().values())
        return max(AHEAD * threads, 2)

    def _ask(self, client: Client, task: Task) -> None:
        """Ask the workers that are there whether they can; those that come later say it run by run."""
        said = client.run(stranger, task.work, task.version, task.tool, on_error="return")
        for answer in said.values():
            if answer is not None:
                raise OutputError(
                    f"--dask {self._address}: {answer}", hint="all workers need this tracekit, and OUT at the same path"
                )

    def _outcome(self, future: Any, task: Task, lost: Lost) -> Outcome:
        if future.status == "finished":
            found: Outcome = future.result()
            return found
        if future.status == "error":
            error = future.exception()
            if isinstance(error, self._distributed.KilledWorker):
                return lost(task, DIED)
            return lost(task, f"the cluster failed on it: {type(error).__name__}: {_first_line(error)}")
        raise OutputError(
            f"--dask {self._address}: the scheduler is gone", hint="what is done stays; start it again, then this batch"
        )


def _first_line(err: BaseException) -> str:
    return (str(err).strip().splitlines() or [type(err).__name__])[0][:200]
