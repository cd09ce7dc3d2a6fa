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
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WATCHED = "TRACEKIT_WATCHED_BY"
"""The variable that a watched process finds the process in that watches it."""
_SYSTEM = str(sys.platform)
_LOOK_S = 0.02
_SLOW_LOOK_S = 0.25
"""Between two looks where each one starts a program (macOS)."""
_MERCY_S = 3.0
_SPARE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a watched process. code: its exit code. over: "memory" or "time" where it was ended for that."""

    code: int
    over: str = ""


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


def watched(words: Sequence[str], *, memory: int = 0, seconds: float = 0) -> Ended:
    """Run a program until it ends or costs too much; 0 for no limit. It has the streams and the terminal of this one.

    Its temporary files are in a folder of their own, which is gone afterwards, even if it was killed.
    """
    until = time.monotonic() + seconds if seconds else None
    with tempfile.TemporaryDirectory(prefix="tracekit-watched-", ignore_cleanup_errors=True) as folder:
        own: Mapping[str, str] = {**os.environ, WATCHED: str(os.getpid()), "TMPDIR": folder}
        process = subprocess.Popen(list(words), env=own)
        with _signals_passed_on(process):
            return _watch(process, memory, until)


def _watch(process: subprocess.Popen[bytes], memory: int, until: float | None) -> Ended:
    pause = _LOOK_S if _SYSTEM != "darwin" or not memory else _SLOW_LOOK_S
    over = ""
    killed_at = 0.0
    while True:
        try:
            return Ended(process.wait(pause), over)
        except subprocess.TimeoutExpired:
            pass
        now = time.monotonic()
        held = memory_of(process.pid) if memory else 0
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
