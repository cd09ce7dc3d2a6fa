"""Starts commands quickly, each in a process of its own: forks of one process that has the libraries.

Each line of stdin is a job in JSON, each line of stdout its end. `shim.c` is loaded before. A child is a command line
from `main()` to the end of the interpreter, so what happens when streams are flushed and files are closed counts too.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import resource
import select
import signal
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from leaving import keep_libraries
from small_limits import Limit, small

RULE = struct.Struct("10i256s256s256s")
"""places, calls, number, action, argument, sticky, after, pid, count, fired; root, source, log: as in shim.c."""
_ANSWER_S = 0.3
_PID = struct.calcsize("7i")
_NOT_BEFORE_A_FORK = {"duckdb", "_duckdb", "__main__"}
_SMALL_BLOCK = 1 << 13
"""Bytes of a block of input, so that a small file has a first, a middle and a last one."""


def serve() -> dict[str, object] | None:
    """Return the job of a child; None in the first process, at the end of stdin."""
    # A shell lets jobs in the background ignore the one, nohup the other.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for line in sys.stdin:
        job = json.loads(line)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            return job
        code = _wait(child, job)
        _learn(Path(str(job["cell"]), "modules"))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(json.dumps({"code": code, "cpu": cpu}), flush=True)
    return None


def _wait(child: int, job: dict[str, object]) -> int | None:
    """Return the exit code, -N for signal N, None where it had to be ended."""
    until, handle = time.monotonic() + float(job["seconds"]), os.pidfd_open(child)
    stop = job.get("stop")
    while True:
        ended, _, _ = select.select([handle], [], [], 0.05 if stop else 1.0)
        late = time.monotonic() > until
        if ended or late:
            if not ended:
                os.kill(child, signal.SIGKILL)
            os.close(handle)
            status = os.waitpid(child, 0)[1]
            return None if late and not ended else os.waitstatus_to_exitcode(status)
        said = Path(str(job["cell"]), "stderr")
        if stop and said.exists() and str(stop) in said.read_text(errors="replace"):
            time.sleep(_ANSWER_S)  # the command has said that it waits, and goes to wait now
            os.kill(child, signal.SIGINT)
            stop = None


def prepare() -> None:
    """Make blocks of input small."""
    for limit in (Limit.BLOCK_OF_FILE_BYTES, Limit.BUFFER_OF_FILE_BYTES):
        small(pytest.MonkeyPatch(), limit, _SMALL_BLOCK)


def _learn(modules: Path) -> None:
    """Import what a command has imported, so that the next ones need not."""
    if not modules.exists():
        return
    for name in modules.read_text().split():
        if name not in sys.modules:
            with suppress(Exception):  # a part of a library that cannot be imported by its name
                importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _tell_modules() -> None:
    names = [name for name in list(sys.modules) if name.partition(".")[0] not in _NOT_BEFORE_A_FORK]
    Path("modules").write_text("\n".join(names))


def become(job: dict[str, object]) -> None:
    """Give the process the folder, the streams, the environment and the faults of the job."""
    cell = Path(str(job["cell"]))
    os.chdir(cell)
    os.environ.update(job["env"])  # type: ignore[arg-type]
    for number, name in ((0, os.devnull), (1, "stdout"), (2, "stderr")):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        handle = os.open(name, flags, 0o644)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdin, sys.stdout, sys.stderr = (
        open(n, "rw"[n > 0], buffering=1 if n == 2 else -1, encoding="utf-8", closefd=False)  # noqa: SIM115
        for n in range(3)
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    rule = str(job["rule"])
    with open(rule, "r+b") as file:
        file.seek(_PID)
        file.write(struct.pack("i", os.getpid()))
    sys.argv = ["tracekit", *job["words"]]  # type: ignore[misc]
    shim = ctypes.CDLL(None)
    shim.faults_use(os.fsencode(rule))
    shim.faults_on_stdout()


if __name__ == "__main__":
    keep_libraries()
    prepare()
    print("ready", flush=True)
    if (job := serve()) is not None:
        become(job)
        if job.get("learn"):
            atexit.register(_tell_modules)
        if job.get("script"):
            exec(compile(str(job["script"]), "script", "exec"), {"__name__": "__main__"})
        else:
            from tracekit.cli import main

            main()
