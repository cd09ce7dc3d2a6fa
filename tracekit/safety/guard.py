"""A process that watches another one: its memory and its time, whatever that is doing, also inside a library.

A Python thread cannot stop what does not return to Python, and a limit of the system on memory ends some libraries in
the middle. So a command with `--max-memory` or `--max-time` runs in a process of its own, and this one looks on. Before
it ends the process it asks it to end (SIGTERM), so that nothing half-written is left. It is quick to load.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tracekit.lazy_dataclass import dataclass
from tracekit.safety.limits import Limits, size_text
from tracekit.safety.scratch import scratch_folder

__all__ = [
    "WATCHED",
    "ProcessEnded",
    "costs_end",
    "knows_memory",
    "memory_of",
    "obey",
    "python_words",
    "reason_of_end",
    "watched",
]

WATCHED = "TRACEKIT_WATCHED_BY"
"""The variable that a watched process finds the process in that watches it."""
_SYSTEM = str(sys.platform)
_LOOK_S = 0.02
_SLOW_LOOK_S = 0.25
"""Between two looks where each one starts a program (macOS), and between two searches for processes it started."""
_MERCY_S = 3.0
_DONE = "costs-end"
_SPARE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """The end of a watched process. over: "memory" or "time" where it was ended for that. output: what it printed."""

    code: int
    over: str = ""
    output: bytes = b""


def knows_memory() -> bool:
    """Return whether the memory of another process can be read here."""
    return _SYSTEM in ("linux", "darwin")


def memory_of(pid: int) -> int:
    """Return the bytes of memory that a process holds now, 0 where that is not known."""
    try:
        if _SYSTEM == "linux":
            words = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
            return int(words[1]) * os.sysconf("SC_PAGE_SIZE")
        if _SYSTEM == "darwin":
            found = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)
            return int(found.stdout or 0) << 10
    except (OSError, ValueError, IndexError):
        pass
    return 0


class _Family:
    """The memory of a process and of its children, such as workers (on Linux; elsewhere its own alone)."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._others: list[int] = []
        self._next = 0.0

    def memory(self, now: float) -> int:
        """Return the bytes that they hold."""
        if now >= self._next:
            self._others, self._next = _descendants(self._pid), now + _SLOW_LOOK_S
        return memory_of(self._pid) + sum(map(memory_of, self._others))


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat") if _SYSTEM == "linux" else ():
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int(path.read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found = list(children.get(pid, []))
    for each in found:
        found.extend(children.get(each, []))
    return found


def python_words(code: str) -> list[str]:
    """Return a command that runs code in another Python with the modules of this one, and none of the present folder.

    `python -m` would look there first: a folder of a stranger could hold a `typer.py`.
    """
    return [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"]


def watched(words: Sequence[str], *, memory: int = 0, seconds: float = 0, given: bytes | None = None) -> ProcessEnded:
    """Run a program until it ends or costs too much; 0 for no limit. It has the streams and the terminal of this one.

    given: its stdin; what it prints is kept then. Its temporary files are in a folder of their own, which is gone
    afterwards, even if it was killed.
    """
    until = time.monotonic() + seconds if seconds else None
    with scratch_folder("tracekit-watched-") as folder:
        own: Mapping[str, str] = {**os.environ, WATCHED: str(os.getpid()), "TMPDIR": str(folder)}
        pipe = None if given is None else subprocess.PIPE
        process = subprocess.Popen(list(words), env=own, stdin=pipe, stdout=pipe)
        with _signals_passed_on(process), _talk(process, given) as said:
            ended = _watch(process, memory, until, folder / _DONE)
        return replace(ended, output=b"".join(said))


@contextlib.contextmanager
def _talk(process: subprocess.Popen[bytes], given: bytes | None) -> Iterator[list[bytes]]:
    """Write a text to a process, and yield a list that has what it printed after the block."""
    said: list[bytes] = []
    stdin, stdout = process.stdin, process.stdout
    if given is None or stdin is None or stdout is None:
        yield said
        return

    def write() -> None:
        with contextlib.suppress(OSError), stdin:
            stdin.write(given)

    threads = [threading.Thread(target=write), threading.Thread(target=lambda: said.append(stdout.read()))]
    for each in threads:
        each.start()
    try:
        yield said
    finally:
        if process.poll() is None:  # an exception in the block
            process.kill()
            process.wait()
        for each in threads:
            each.join()
        stdout.close()


def costs_end() -> None:
    """Say in a watched process that the costly part is over: what follows takes as long as the user likes."""
    if os.environ.get(WATCHED) == str(os.getppid()):
        import tempfile

        Path(tempfile.gettempdir(), _DONE).touch()


def reason_of_end(ended: ProcessEnded, limits: Limits) -> str | None:
    """Return what a watched process did that ended it, None where it ended by itself."""
    if ended.over == "memory":
        return f"held more memory than {size_text(limits.memory)} (--max-memory)"
    if ended.over:
        return f"took longer than {limits.seconds:g} s (--max-time)"
    if ended.code < 0 and limits.memory and -ended.code in (signal.SIGABRT, signal.SIGSEGV):
        name = signal.Signals(-ended.code).name
        return f"was stopped by {name}: a library needed more memory than {size_text(limits.memory)} (--max-memory)"
    return None


def _watch(process: subprocess.Popen[bytes], memory: int, until: float | None, done: Path) -> ProcessEnded:
    pause = _LOOK_S if _SYSTEM != "darwin" or not memory else _SLOW_LOOK_S
    over = ""
    killed_at = 0.0
    family = _Family(process.pid)
    while True:
        try:
            return ProcessEnded(process.wait(pause), over)
        except subprocess.TimeoutExpired:
            pass
        now = time.monotonic()
        if until is not None and now > until and not over and done.exists():
            until = None
        held = family.memory(now) if memory else 0
        if not over and (held > memory or (until is not None and now > until)):
            over, killed_at = ("memory" if held > memory else "time"), now + _MERCY_S
            process.terminate()
        elif over and (now > killed_at or held > memory + (memory >> 2)):
            process.kill()


@contextlib.contextmanager
def _signals_passed_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leave Ctrl-C, which the terminal sends to both, to the other process, and pass on a request to end."""
    restored = contextlib.ExitStack()

    def pass_on(number: int, _: object) -> None:
        if number != signal.SIGINT:
            with contextlib.suppress(OSError):
                process.send_signal(number)

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name) and threading.current_thread() is threading.main_thread():
            number = getattr(signal, name)
            restored.callback(signal.signal, number, signal.signal(number, pass_on))
    with restored:
        yield


def obey(memory: int) -> None:
    """Prepare a watched process: it ends when its watcher is gone, and one huge piece of memory is refused at once."""
    watcher = int(os.environ.get(WATCHED) or 0)
    if watcher and hasattr(os, "getppid"):
        threading.Thread(target=_end_with, args=(watcher,), name="tracekit-watcher", daemon=True).start()
    if memory and _SYSTEM == "linux":
        import resource

        with contextlib.suppress(OSError, ValueError):
            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            most = memory + _SPARE_BYTES
            resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))


def _end_with(watcher: int) -> None:
    while os.getppid() == watcher:
        time.sleep(0.5)
    os._exit(1)
