"""What the tests of writers share: a child process whose files may not grow, or whose memory is measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_CHILD = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from tracekit.errors import OutputError
from tracekit.readers.builder import event_batch
from tracekit.trace import Run
from tracekit.writers import WRITERS
from tracekit.writers.base import Stream, WriteOptions

target, to, count, limit = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
rng = np.random.default_rng(1)

def batches():
    for i in range(count):
        ids = np.arange(i * 50_000, (i + 1) * 50_000)
        yield event_batch(50_000, {"ts_ns": ids * 1000, "dur_ns": rng.integers(0, 1 << 40, 50_000), "event_id": ids,
                                   "kind": "kernel", "source": 0, "name": f"kernel {i}", "stream": ids % 4})
try:
    WRITERS[to].write(Stream(Run(), batches()), target, WriteOptions(force=True))
except OutputError as err:
    print(err)
    sys.exit(5)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def _child(target: Path, to: str, batches: int, limit: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", _CHILD, str(target), to, str(batches), str(limit)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=ROOT, check=False)


def check_full_disk(target: Path, to: str) -> None:
    """A write that fails in the middle says so in one sentence; the old output survives, nothing else is left."""
    target.write_bytes(b"the old output")
    for limit in (0x100, 0x8000):
        done = _child(target, to, 4, limit)
        assert (done.returncode, done.stderr) == (5, ""), done.stderr
        assert done.stdout.startswith(str(target))
        assert target.read_bytes() == b"the old output"
        assert list(target.parent.iterdir()) == [target]


def peak_kilobytes(target: Path, to: str, *, batches: int) -> int:
    """Peak memory of a process that writes that many batches of 50,000 events."""
    done = _child(target, to, batches, 0)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
