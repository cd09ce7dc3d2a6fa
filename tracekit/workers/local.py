"""Processes of this machine as workers. A process that dies fails its own task and no other.

A worker is a `ProcessPoolExecutor` of one fresh process (spawn) with one task at a time: it is certain which task
killed it. That task is tried once more in a new process. A worker whose command is gone ends at once: it waits on a
pipe.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Generic, Protocol, Self, TypeVar

__all__ = ["DIED", "Answer", "LocalWorkers", "Task", "Workers"]

Task = TypeVar("Task")
Answer = TypeVar("Answer")
DIED = "the worker process died twice on this {task} (killed, out of memory, or a crash of a library)"


class Workers(Protocol[Task, Answer]):
    """Workers. `run` takes a task when a worker is free, and yields each answer as it comes."""

    def __enter__(self) -> Self:
        """Start."""

    def __exit__(self, *_: object) -> None:
        """Stop at once, without waiting for running tasks."""

    def run(self, tasks: Iterator[Task], lost: Callable[[Task, str], Answer]) -> Iterator[Answer]:
        """Do all tasks. lost: makes the answer for a task whose worker died."""


class LocalWorkers(Generic[Task, Answer]):
    """Workers that are processes of this machine. work: does one task; noun: what a task is, for messages."""

    def __init__(self, jobs: int, work: Callable[[Task], Answer], noun: str = "task") -> None:
        self._idle: list[_Slot[Task, Answer]] = [_Slot(work) for _ in range(max(jobs, 1))]
        self._slots = list(self._idle)
        self._died = DIED.format(task=noun)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for slot in self._slots:
            slot.stop()

    def run(self, tasks: Iterator[Task], lost: Callable[[Task, str], Answer]) -> Iterator[Answer]:
        """Do all tasks; see `Workers`."""
        running: dict[Future[Answer], tuple[_Slot[Task, Answer], Task, int]] = {}
        while True:
            while self._idle and (task := next(tasks, None)) is not None:
                slot = self._idle.pop()
                running[slot.submit(task)] = (slot, task, 1)
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                slot, task, tries = running.pop(future)
                try:
                    answer = future.result()
                except BrokenProcessPool:
                    slot.stop()
                    if tries == 1:
                        running[slot.submit(task)] = (slot, task, 2)
                        continue
                    answer = lost(task, self._died)
                self._idle.append(slot)
                yield answer


class _Slot(Generic[Task, Answer]):
    """One process, started for its first task and again after it died."""

    def __init__(self, work: Callable[[Task], Answer]) -> None:
        self._work = work
        self._pool: ProcessPoolExecutor | None = None
        self._leash: tuple[Connection, Connection] | None = None

    def submit(self, task: Task) -> Future[Answer]:
        with _no_interrupt():
            try:
                return self._started().submit(self._work, task)
            except BrokenProcessPool:  # died while it was idle
                self.stop()
                return self._started().submit(self._work, task)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._leash = context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(1, context, initializer=_begin, initargs=(self._leash[0],))
        return self._pool

    def stop(self) -> None:
        """End the process, also in the middle of a task."""
        pool, leash, self._pool, self._leash = self._pool, self._leash, None, None
        if leash is not None:
            leash[1].close()
            leash[0].close()
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def _begin(leash: Connection) -> None:
    """Prepare a worker: the command handles Ctrl-C, and the worker ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def watch() -> None:
        with contextlib.suppress(EOFError, OSError):
            leash.recv_bytes()
        os._exit(1)

    threading.Thread(target=watch, name="tracekit-leash", daemon=True).start()


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """Block SIGINT while a process starts. It inherits that, and prints no traceback of its own on Ctrl-C."""
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield
        return
    resource_tracker.ensure_running()  # first, since its start unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
