"""Exports off the program's path: a child process writes the file of a window while the program goes on.

Loading the writers takes a second and more, and a thread would take that time from the program's own threads. So a
thread of this module only waits for the child. A process has one child at a time: exports that come meanwhile are the
next one's. The end of the program waits for them, because the thread is no daemon.

Where no child can be started (a frozen program, a Python inside of another program, no memory) the thread itself writes
the file. An export that fails is a note on stderr, whatever went wrong. Then the window's logs are kept beside the
target, so that `tracekit convert` can make the file later.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tracekit.profiler._window import PREFIX, Window, error_text, print_note, save_logs

_CHILD: Final = """
import json, sys
folder = sys.argv[1]
sys.stdout = open(folder + "/problems", "w", encoding="utf-8")
sys.stderr = open(folder + "/notes", "w", encoding="utf-8", errors="backslashreplace", buffering=1)
with open(folder + "/job", encoding="utf-8") as file:
    job = json.load(file)
sys.path[:] = job["path"]
from tracekit.profiler._export import main
main(job["exports"])
"""
_NOT_FOR_THE_CHILD: Final = ("TRACEKIT_", "NVTX_", "CUDA_INJECTION")
"""Variables that would make the child record, or a tool record it, begin with these."""
LOGS_SUFFIX: Final = ".logs"


class _Export(NamedTuple):
    """One file to write. The window keeps its logs while this lives."""

    window: Window
    target: Path
    format: str


class Exports:
    """The exports of the process that are not done yet."""

    def __init__(self) -> None:
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Begin with none, as a forked child does: its parent writes the files."""
        self._changing = threading.Lock()
        self._waiting: deque[_Export] = deque()
        self._thread: threading.Thread | None = None

    def add(self, window: Window, target: Path, format: str) -> None:
        """Write a window into a file, in a while: "json" or "pb". It does not raise."""
        export = _Export(window, target.absolute(), format)
        with self._changing:
            self._waiting.append(export)
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._work, name="tracekit-export", daemon=False)
            try:
                self._thread.start()
                return
            except (RuntimeError, MemoryError):  # the interpreter ends, or the system has no more threads
                self._thread = None
        self._work()

    def wait(self) -> None:
        """Return when all files are written."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        while True:
            with self._changing:
                exports = list(self._waiting)
                self._waiting.clear()
                if not exports:
                    self._thread = None
                    return
            _carry_out(exports)


def _carry_out(exports: list[_Export]) -> None:
    try:
        problems = _in_child(exports)
    except Exception:  # noqa: BLE001 - no child, for whatever reason
        problems = [_save(export.window.logs, export.target, export.format) for export in exports]
    for export, problem in zip(exports, problems, strict=True):
        if problem:
            print_note(f"nothing is exported to {export.target}: {problem}{_kept(export)}")


def _in_child(exports: list[_Export]) -> list[str]:
    """Write files in one child process; return what went wrong with each, "" for nothing. Raises: OSError."""
    if getattr(sys, "frozen", False) or "py" not in Path(sys.executable or "").name.lower():
        raise FileNotFoundError("no Python to start")
    jobs = [([str(log) for log in export.window.logs], str(export.target), export.format) for export in exports]
    # The program may close any descriptor meanwhile and open files of its own in its place. So there is no pipe to the
    # child, and no file is open while it runs.
    folder = Path(tempfile.mkdtemp(prefix="tracekit-export-"))
    try:
        (folder / "job").write_text(json.dumps({"path": sys.path, "exports": jobs}), encoding="utf-8")
        with _no_interrupt():
            done = subprocess.run(
                [sys.executable, "-I", "-c", _CHILD, str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if not name.startswith(_NOT_FOR_THE_CHILD)},
                start_new_session=True,  # Ctrl-C ends the program, not the file
                check=False,
            )
        said, problems_said = _lines(folder / "notes"), _lines(folder / "problems")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for note in said:
        if note.startswith(PREFIX):
            print_note(note.removeprefix(PREFIX))
    problems = [str(json.loads(line)) for line in problems_said]
    last = said[-1] if said and done.returncode > 0 else f"the process that writes it ended with {done.returncode}"
    return problems + [last] * (len(exports) - len(problems))


def _lines(file: Path) -> list[str]:
    """Return the lines of a file that the child has written, if it came that far."""
    if not file.exists():
        return []
    return [line for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if line]


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """Block SIGINT in this thread, and so in a child from its first instruction on.

    A child is in its program's session, and Ctrl-C would end it, until it has a session of its own.
    """
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is threading.main_thread():
        yield  # Windows, or an export with no thread: there Ctrl-C ends the wait
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def main(jobs: list[tuple[list[str], str, str]]) -> None:
    """Do the jobs of `_in_child`, in the child: a line of stdout, in JSON, is what went wrong with the next one."""
    for logs, target, format in jobs:
        problem = _save([Path(log) for log in logs], Path(target), format)
        sys.stdout.write(json.dumps(problem) + "\n")
        sys.stdout.flush()


def _save(logs: list[Path] | tuple[Path, ...], target: Path, format: str) -> str:
    """Write the file; return what went wrong, "" for nothing."""
    try:
        save_logs(logs, target, format)
    except Exception as error:  # noqa: BLE001 - the program goes on, whatever it is
        return error_text(error) or type(error).__name__
    return ""


def _kept(export: _Export) -> str:
    """Keep the logs of a window that is not exported; return where, in words, "" where that fails too."""
    folder = export.target.with_name(export.target.name + LOGS_SUFFIX)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for log in export.window.logs:
            shutil.copy2(log, folder)
    except OSError:
        return ""
    return f" (its logs are in {folder}: tracekit convert {folder} -o FILE writes it)"


EXPORTS: Final = Exports()
