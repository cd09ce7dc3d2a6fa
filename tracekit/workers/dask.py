"""The workers of a Dask cluster. The files of the tasks must be on shared file systems.

When a worker dies, Dask gives its tasks to other workers. It gives up on a task that killed `allowed-failures` workers
(Dask's own setting; 3 by default).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, Self

from tracekit.errors import InputError, MissingExtraError, Option, OutputError, sentence
from tracekit.workers.local import DIED, Answer, Task

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["CONNECT_S", "DaskWorkers"]

TASKS_PER_THREAD = 2
"""Tasks sent for each thread of the cluster: one runs, one waits beside it."""
CONNECT_S = 20


class DaskWorkers(Generic[Task, Answer]):
    """The cluster whose scheduler has this address, such as tcp://10.0.0.1:8786.

    work: does one task. key: a name for a task, no two alike. mismatch: a function and its arguments that return why a
    worker cannot do a task, None if it can. needs: what all workers need. kept: the hint when the scheduler is gone.
    """

    def __init__(
        self,
        address: str,
        work: Callable[[Task], Answer],
        *,
        key: Callable[[Task], str],
        mismatch: Callable[[Task], tuple[Callable[..., str | None], tuple[object, ...]]],
        needs: str,
        kept: str,
        noun: str = "task",
    ) -> None:
        try:
            import distributed
        except ImportError as err:
            raise MissingExtraError(Option("dask", address), "dask") from err
        self._distributed = distributed
        self._address = address
        self._work, self._key, self._mismatch = work, key, mismatch
        self._needs, self._kept, self._noun = needs, kept, noun
        self._client: Client | None = None

    def __enter__(self) -> Self:
        try:
            self._client = self._distributed.Client(self._address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TypeError) as err:
            raise InputError(
                sentence(Option("dask", self._address), f": no scheduler answers ({_first_line(err)})"),
                hint="`dask scheduler` prints its address, such as tcp://10.0.0.1:8786",
            ) from err
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def run(self, tasks: Iterator[Task], lost: Callable[[Task, str], Answer]) -> Iterator[Answer]:
        """Do all tasks; see `local.Workers`. Raises: OutputError for unusable workers or a lost scheduler."""
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
                name = f"tracekit-{self._key(task)}"
                running[client.submit(self._work, task, key=name, pure=False)] = task
            if not running:
                return
            with client.as_current():  # not as the default: the caller may have a client of its own
                done, _ = self._distributed.wait(list(running), return_when="FIRST_COMPLETED")
            for future in done:
                task = running.pop(future)
                yield self._answer(future, task, lost)
                future.release()

    def _capacity(self, client: Client) -> int:
        threads: int = sum(client.nthreads().values())
        return max(TASKS_PER_THREAD * threads, 2)

    def _check_workers(self, client: Client, task: Task) -> None:
        """Raise OutputError if a present worker cannot do the task. Workers that come later check it themselves."""
        function, arguments = self._mismatch(task)
        answers = client.run(function, *arguments, on_error="return")
        for answer in answers.values():
            if answer is not None:
                raise OutputError(sentence(Option("dask", self._address), f": {answer}"), hint=self._needs)

    def _answer(self, future: Future, task: Task, lost: Callable[[Task, str], Answer]) -> Answer:
        if future.status == "finished":
            answer: Answer = future.result()
            return answer
        if future.status == "error":
            error = future.exception()
            if isinstance(error, self._distributed.KilledWorker):
                return lost(task, DIED.format(task=self._noun))
            return lost(task, f"the cluster failed on this {self._noun}: {type(error).__name__}: {_first_line(error)}")
        raise OutputError(sentence(Option("dask", self._address), ": the scheduler is gone"), hint=self._kept)


def _first_line(err: BaseException) -> str:
    return (str(err).strip().splitlines() or [type(err).__name__])[0][:200]
