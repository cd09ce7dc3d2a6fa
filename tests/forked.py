"""Commands in processes of their own that start quickly: forks of one process that has the libraries.

    done = forks().run("summary", path)             # as subprocess.run([python, "-m", "tracekit", "summary", path])
    with forks().start("query", path, sql) as job:  # as subprocess.Popen
        job.send_signal(signal.SIGINT)

Most of the CPU time of a small command is the start of Python and of pyarrow. A fork has both. Everything else is
that of a command line: its own process, session, streams, folder and environment, from `main()` to the end of the
interpreter. What only a true start shows (time of imports, variables that Python reads when it starts) is given to
`Forks(environment)`, a process of its own, or is tested with `subprocess`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from leaving import keep_libraries

LONG_S = 300
ROOT = Path(__file__).resolve().parent.parent
_FDS = 4
"""stdin, stdout, stderr, and the pipe of the status."""
_HEAD = struct.Struct("I")
_HAVE_THREADS = {
    "duckdb",
    "_duckdb",
    "dask",
    "distributed",
    "torch",
    "paddle",
    "fsspec",
    "s3fs",
    "aiobotocore",
    "cupti",
}
"""Libraries that start threads when they are imported: no process with threads is forked."""


class Job:
    """A command that was started. Its streams are files, so that it never waits for a reader."""

    def __init__(self, pid: int, status: int, files: list[IO[bytes]]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status, self._files = status, files

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.poll() is None:
            self.kill()
            self.wait()
        for file in self._files:
            file.close()

    def poll(self) -> int | None:
        """Return the exit code, -N for signal N, None while the command runs."""
        return self._ended(0)

    def wait(self, timeout: float = LONG_S) -> int:
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(["tracekit"], timeout)
        assert self.returncode is not None
        return self.returncode

    def _ended(self, seconds: float) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], seconds)[0]:
            data = os.read(self._status, 4)
            os.close(self._status)
            if len(data) != 4:
                raise RuntimeError("the process that starts commands is gone")
            self.returncode = struct.unpack("i", data)[0]
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = LONG_S) -> tuple[bytes, bytes]:
        """Wait for the end; return stdout and stderr."""
        self.wait(timeout)
        out, err = (_whole(file) for file in self._files)
        return out, err


def _bytes(word: object) -> str:
    """Return a text for JSON with a character for each byte: the command decodes them as its locale says."""
    return os.fsencode(str(word)).decode("latin-1")


def _whole(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


class Forks:
    """A process that starts commands, with what Python reads from `environment` when it starts."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = dict(os.environ if environment is None else environment)
        path = [str(ROOT), str(ROOT / "tests"), *filter(None, [environment.get("PYTHONPATH")])]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment | {"PYTHONPATH": os.pathsep.join(path)},
                stdin=subprocess.DEVNULL,
            )
        self._socket, self._environment = ours, environment

    def start(
        self,
        *words: object,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        stdout: int | None = None,
        stderr: int | None = None,
        terminal: int | None = None,
    ) -> Job:
        """Start `tracekit` with these words.

        env: the whole environment of the command; that of this process if it is not given.
        stdout, stderr: file descriptors; each is a file if it is not given.
        terminal: a descriptor of the terminal that is to be the command's, all its streams included.
        """
        files: list[IO[bytes]] = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115 - the job closes them
        end, status = os.pipe()
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            fds = [given.fileno(), stdout, stderr]
            fds = [fd if fd is not None else file.fileno() for fd, file in zip(fds, [given, *files], strict=True)]
            if terminal is not None:
                fds = [terminal, terminal, terminal if stderr is None else stderr]
            job = {
                "words": list(map(_bytes, words)),
                "cwd": _bytes(cwd or Path.cwd()),
                "env": {_bytes(k): _bytes(v) for k, v in (self._environment if env is None else env).items()},
                "terminal": terminal is not None,
            }
            # What a job is goes through a file: a message of a socket has a limit.
            with tempfile.TemporaryFile() as text:
                text.write(json.dumps(job).encode())
                text.seek(0)
                socket.send_fds(self._socket, [b"."], [*fds, status, text.fileno()])
            os.close(status)
        (pid,) = _HEAD.unpack(self._socket.recv(_HEAD.size))
        return Job(pid, end, files)

    def run(
        self, *words: object, timeout: float = LONG_S, check: bool = False, **given: Any
    ) -> subprocess.CompletedProcess[bytes]:
        """Run `tracekit` with these words to its end."""
        with self.start(*words, **given) as job:
            out, err = job.communicate(timeout)
        done = subprocess.CompletedProcess(["tracekit", *map(str, words)], job.wait(), out, err)
        if check:
            done.check_returncode()
        return done

    def close(self) -> None:
        self._socket.close()
        self._process.wait(LONG_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.close()


@functools.cache
def forks() -> Forks:
    """Return the process that starts commands with the environment of the tests; the session ends it."""
    return Forks()


def end_forks() -> None:
    """End the process of `forks`, if a test asked for it."""
    if forks.cache_info().currsize:
        forks().close()
        forks.cache_clear()


def _serve(own: socket.socket) -> dict[str, Any] | None:
    """Return the job of a child; None in the first process, when the tests have ended."""
    ends: dict[int, tuple[int, int]] = {}
    """The process and the pipe of its status, by the handle of the process."""
    modules: set[int] = set()
    """Pipes through which commands say what they imported."""
    while True:
        ready, _, _ = select.select([own, *ends, *modules], [], [])
        for handle in ready:
            if handle in ends:
                pid, status = ends.pop(handle)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with contextlib.suppress(BrokenPipeError):  # a test that failed does not wait
                    os.write(status, struct.pack("i", code))
                os.close(status)
                os.close(handle)
            elif handle in modules:
                modules.remove(handle)
                with open(handle, "rb") as names:
                    _learn(names.read().decode().split())
        if own not in ready:
            continue
        word, fds, _, _ = socket.recv_fds(own, 1, _FDS + 1)
        if not word:
            return None
        *streams, status, text = fds
        with open(text, "rb") as given:
            job: dict[str, Any] = json.load(given)
        imported, tell = os.pipe()
        if (child := os.fork()) == 0:
            own.close()
            for fd in (status, imported, *modules, *ends, *(status for _, status in ends.values())):
                os.close(fd)
            return job | {"streams": streams, "tell": tell}
        for fd in (tell, *streams):
            os.close(fd)
        modules.add(imported)
        ends[os.pidfd_open(child)] = child, status
        own.send(_HEAD.pack(child))


def _learn(names: list[str]) -> None:
    """Import what a command has imported, so that the next ones need not."""
    for name in names:
        if name not in sys.modules:
            with contextlib.suppress(Exception):  # a part of a library that cannot be imported by its name
                importlib.import_module(name)
    if names:
        gc.collect()
        gc.freeze()


def _tell(pipe: int, known: set[str]) -> None:
    names = [name for name in sys.modules if name not in known and name.partition(".")[0] not in _HAVE_THREADS]
    with contextlib.suppress(OSError), open(pipe, "wb") as out:
        out.write("\n".join(names).encode()[: 1 << 15].rpartition(b"\n")[0])


def _become(job: dict[str, Any]) -> None:
    """Give the process the session, the streams, the folder and the environment of the job."""
    os.setsid()
    if job["terminal"]:
        fcntl.ioctl(job["streams"][0], termios.TIOCSCTTY, 0)
    os.chdir(job["cwd"].encode("latin-1"))
    os.environb.clear()
    os.environb.update({key.encode("latin-1"): value.encode("latin-1") for key, value in job["env"].items()})
    time.tzset()
    for number, fd in enumerate(job["streams"]):
        os.dup2(fd, number)
        os.close(fd)
    # As Python makes them when it starts: the encoding is that of this process, a line at a time goes to a terminal.
    before = sys.stdin, sys.stdout, sys.stderr
    streams = [
        open(n, "rw"[n > 0], buffering=1 if n == 2 or os.isatty(n) else -1, encoding=old.encoding,  # noqa: SIM115
             errors=old.errors, newline=None if n == 0 else "\n", closefd=False)
        for n, old in enumerate(before)
    ]  # fmt: skip
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = streams  # type: ignore[misc]
    sys.argv = ["tracekit", *(os.fsdecode(word.encode("latin-1")) for word in job["words"])]
    atexit.register(_tell, job["tell"], set(sys.modules))


if __name__ == "__main__":
    keep_libraries()
    # A shell lets jobs in the background ignore the one, nohup the other.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    from tracekit.cli import main

    if (job := _serve(socket.socket(fileno=int(sys.argv[1])))) is not None:
        _become(job)
        main()
