"""The process that records: its rank, names and command for the log's header, the name of its log, stderr, a thread."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tracekit.recorder import descriptors, log_format
from tracekit.recorder.clock_pairs import read_together

__all__ = ["orjson"]

# The two clocks of a log: the monotonic one stamps events, the wall clock gives the time of day.


now = _perf_counter_ns = time.perf_counter_ns
_time_ns = time.time_ns
ANCHOR_PERIOD_NS = 5_000_000_000


class Anchor(NamedTuple):
    """At `perf_ns` +- `uncertainty_ns` of the monotonic clock the wall clock showed `epoch_ns`."""

    perf_ns: int
    epoch_ns: int
    uncertainty_ns: int


def read_anchor() -> Anchor:
    """Read both clocks together."""
    pair = read_together(_perf_counter_ns, _wall_clock, 3)
    return Anchor(pair.outer, pair.inner, abs(pair.apart) // 2 + 1)


def _wall_clock() -> int:
    try:
        epoch = time.time_ns()
    except Exception:  # noqa: BLE001 - a program may put its own clock in its place
        epoch = _time_ns()
    return epoch if type(epoch) is int else _time_ns()


# The package orjson; None where Python cannot load it, as in subinterpreters since Python 3.12.


try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]

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
    anchor: Anchor, *, process: str | None, rank: int | None, world_size: int | None, forked: bool
) -> log_format.Line:
    """Return the log's header for this process."""
    command = [part for part in getattr(sys, "argv", []) if isinstance(part, str)]
    package = sys.modules.get("tracekit")
    version = ".".join(str(part) for part in sys.version_info[:3])
    return log_format.head_line(
        tracekit=str(getattr(package, "__version__", "unknown")),
        pid=os.getpid(),
        parent_pid=os.getppid(),
        rank=rank,
        world_size=world_size,
        host=_host(),
        process=process or _process_name(command),
        python=f"{sys.executable or 'python'} {version}",
        command=command,
        perf_ns=anchor.perf_ns,
        epoch_ns=anchor.epoch_ns,
        forked=forked,
    )


def _host() -> str | None:
    try:
        return str(socket.gethostname())
    except Exception:  # noqa: BLE001 - a program may put anything in its place
        return None


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
    descriptors.print_line(f"tracekit.recorder: {text}")


class GuestThread(threading.Thread):
    """A daemon thread of the recorder's own in a program that may count, join or signal its threads.

    A program that waits until no other thread is left would wait for this one for ever. So `threading.enumerate` does
    not have it. And it takes no signal: one that the program blocks, to wait for it, would end the process here.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(name="tracekit-recorder", daemon=True)
        self._work = work
        self._is_hidden = threading.Event()

    def begin(self) -> None:
        """Start the thread. Raises: RuntimeError, MemoryError where the system has no thread left."""
        with _no_signals():
            self.start()
        self._is_hidden.wait(1)

    def run(self) -> None:
        """Do the work, without a place in the list of threads."""
        ident = threading.get_ident()
        with _threads() as threads:
            threads.pop(ident, None)
        self._is_hidden.set()
        try:
            self._work()
        finally:
            with _threads() as threads:  # Python removes it when it ends
                threads[ident] = self


@contextlib.contextmanager
def _threads() -> Iterator[dict[int, threading.Thread]]:
    """Give the threads of `threading.enumerate` by their ident, locked; an empty table in a Python without one."""
    with getattr(threading, "_active_limbo_lock", threading.Lock()):
        yield getattr(threading, "_active", {})


def known_thread() -> threading.Thread | None:
    """Return the calling thread's object if there is one; `threading.current_thread` would make one and list it."""
    threads = getattr(threading, "_active", None)
    return threading.current_thread() if threads is None else threads.get(threading.get_ident())


@contextlib.contextmanager
def _no_signals() -> Iterator[None]:
    """Block signals in a thread that is started meanwhile: all but those of faults, which end the process anyway."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - faults)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def why_not_here() -> str:
    """Return why this interpreter cannot write a log, "" where it can."""
    if in_subinterpreter():
        return "a subinterpreter cannot end while a thread of the recorder runs"
    return "the package orjson cannot be imported" if orjson is None else ""


def in_subinterpreter() -> bool:
    """Return whether this is a Python inside of the process's Python."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # since Python 3.13, and before
        with contextlib.suppress(ImportError, AttributeError):
            interpreters = importlib.import_module(name)
            return bool(interpreters.get_current() != interpreters.get_main())
    return False
