"""A program that writes down, beside its log, when each of its ranges was recorded; it is killed at any moment.

The truth is a mapped file that survives the kill: for each thread the number of ranges it has ended, and the times at
which the recorder had taken them. So what the log must have, and what it has lost, is known for each kill.
"""

from __future__ import annotations

import mmap
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from recorder.programs import environment, program
from recorder.reading import Log, read_log
from support import wait_until

RANGES = 1 << 20
"""Ranges whose times a thread writes down, one after the other; a test does not run so long that it needs more."""

PROGRAM = f"""
import mmap, struct, sys, threading, time
from tracekit import recorder as r

def work(number, pause):
    with open(f"work{{number}}", "w+b") as file:
        file.truncate(8 * {RANGES})
        truth = mmap.mmap(file.fileno(), 0)
    name = f"work{{number}}"
    pack, now, make = struct.pack_into, time.perf_counter_ns, r.range
    for at in range(0, 8 * {RANGES}, 8):
        with make(name):
            for _ in range(pause): pass
        pack("<q", truth, at, now())
    time.sleep(600)

path = r.start("run.jsonl", nvtx=False)
print(path, flush=True)
threads = int(sys.argv[1])
for number in range(1, threads):
    threading.Thread(target=work, args=(number, 2000), daemon=True).start()
work(0, 200)
"""


@dataclass(frozen=True)
class Kill:
    """A killed program: the ranges it recorded, and the ranges its log kept.

    lost_early: ranges that were recorded before the log's last sign of life, and are not in the log. lost_ns: from the
    last sign of life to the last range. wait_ns: the longest wait of an event, as the log has it.
    """

    path: Path
    log: Log
    recorded: int
    kept: int
    lost_early: int
    lost_ns: int
    wait_ns: int


def kill(folder: Path, *, threads: int, after_s: float) -> Kill:
    """Kill such a program so long after its first flush."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [*program(folder, PROGRAM), str(threads)]
    process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.PIPE)
    assert process.stdout is not None
    path = Path(process.stdout.readline().decode().strip())
    wait_until(lambda: path.stat().st_size > 10_000)
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    log = read_log(path, clean=False)
    assert log.ended is None
    assert log.beat is not None
    calls = Counter(seen.name for seen in log.ranges if not seen.unfinished)
    truths = {path.name: truth_of(path) for path in folder.glob("work*")}
    last_ns = max(int(times[-1]) for times in truths.values() if len(times))
    return Kill(
        path,
        log,
        recorded=sum(map(len, truths.values())),
        kept=calls.total(),
        lost_early=sum(
            max(0, int(np.searchsorted(times, log.beat["t"])) - calls[name]) for name, times in truths.items()
        ),
        lost_ns=last_ns - log.beat["t"],
        wait_ns=log.beat["wait"],
    )


def truth_of(path: Path) -> np.ndarray:
    """The times at which a thread's ranges were recorded, ascending."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return np.empty(0, np.int64)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            times = np.frombuffer(data, "<i8").copy()
    return times[: int(np.argmin(times > 0))] if (times == 0).any() else times
