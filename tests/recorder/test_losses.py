"""A log that ends in any way says how it ended and what is missing. The programs know the truth.

`python benchmarks/recorder_losses.py` does the same with hundreds of kills, and judges the times too.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from recorder.kills import kill
from recorder.programs import environment, program, run
from recorder.reading import Log, read_log
from support import LONG_S, run_command

import tracekit
from tracekit import recorder
from tracekit.model.trace import Trace
from tracekit.recorder import log_format

KILLS = 4
NO_END = (
    "the log has no end: its process was killed, crashed, was left by os._exit, could write no more, or still runs. "
)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@dataclass
class Found:
    """A log as two readers see it: the plain one of the tests, and tracekit's."""

    path: Path
    log: Log
    trace: Trace

    @property
    def ended(self) -> str:
        return str(self.trace.run.sources[0].facts["ended"])

    @property
    def counted(self) -> list[object]:
        """The values of the counter "n", in the order of the log."""
        return [value for name, _, _, value in self.log.counters if name == "n"]

    def note(self, code: str) -> str:
        note = self.trace.ledgers[0].notes.get(code)
        return "" if note is None else note.text


def found(path: Path) -> Found:
    read = Found(path, read_log(path, clean=False), tracekit.read(path))
    assert read.trace.events.num_rows == sum(read.log.calls().values()) + len(read.log.counters) + len(read.log.marks)
    return read


def by_process(folder: Path) -> dict[str, Found]:
    """The logs of a folder by the name of their process."""
    return {(read := found(path)).log.head["process"]: read for path in sorted(folder.glob("*.jsonl"))}


def assert_whole(read: Found, ended: str) -> None:
    assert read.ended == ended
    assert read.log.ended is not None
    assert read.log.ended["items"] == read.log.items
    assert not read.trace.incomplete
    assert not {"log-cut", "ended-early", "items-missing"} & set(read.trace.ledgers[0].notes)


def assert_cut(read: Found) -> None:
    assert read.log.ended is None
    assert read.ended == "not known: the log has no end"
    assert read.note("log-cut").startswith(NO_END)
    assert read.log.dropped == read.log.torn <= 1
    assert not read.trace.incomplete


def assert_early(read: Found, cause: str, *, recorded: int) -> None:
    """The log ended before its program, which recorded so many events."""
    kept, end = read.trace.events.num_rows, read.log.ended
    assert end is not None
    assert (end["items"], read.log.torn, read.log.dropped) == (read.log.items, 0, 0)
    assert 0 < end["lost"] <= recorded - kept
    said = f"ended by {cause} after {kept:,} of at least {kept + end['lost']:,} events; what came later is missing"
    assert read.note("ended-early") == said
    assert read.trace.incomplete == (f"INCOMPLETE: {read.path.name} {said}, so shares are unknown",)
    assert read.counted == list(range(len(read.counted))), "what is kept has no hole"


@pytest.mark.parametrize("trial", range(KILLS))
def test_a_kill_loses_nothing_before_the_last_sign_of_life(tmp_path: Path, trial: int) -> None:
    done = kill(tmp_path, threads=1 + trial % 3, after_s=0.02 + 0.1 * trial)
    read = found(done.path)
    assert_cut(read)
    assert done.lost_early == 0
    assert done.log.ranges
    assert sum(seen.unfinished for seen in read.log.ranges) <= 1 + trial % 3, "one a thread is open"
    facts = read.trace.run.sources[0].facts
    beat = read.log.beat
    assert beat is not None
    assert facts["whole_for_ns"] == beat["t"] - read.log.head["perf_ns"]
    assert (facts["flushes"], facts["longest_wait_ns"]) == (beat["flushes"], beat["wait"])
    assert ("usually at most" in read.note("log-cut")) == (beat["flushes"] >= 10)


# --- a disk that is full, or takes no more

REAL_DISK = """
import os
room = os.statvfs("disk")
total = room.f_bavail * room.f_frsize
def leave(free):
    with open("disk/ballast", "wb") as ballast:
        ballast.write(bytes(total - free))
"""
PRETENDED_DISK = """
import errno, os
total, left, write = 400_000, 0, os.write
def leave(free):
    global left
    left = free
def write_what_fits(fd, data):
    global left
    if not left:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    written = write(fd, bytes(data[:left]))
    left -= written
    return written
os.write = write_what_fits
"""
FILLS = """
import json, random, shutil
from tracekit import recorder as r

rng = random.Random(%d)
for moment in range(20):
    leave(rng.choice([rng.randrange(2_000, 40_000), rng.randrange(40_000, total)]))
    n = 0
    try:
        path = r.start("disk/run.jsonl", nvtx=False, process=str(moment))
    except OSError:
        assert not [name for name in os.listdir("disk") if name != "ballast"], "half a log was left"
        path = None
    while r.is_recording():
        with r.range("x"):
            r.counter("n", n)
        n += 1
    for late in range(100):
        with r.range("x"):
            r.counter("n", n + late)
    r.stop()
    if path is not None:
        shutil.copy(path, f"moment{moment}.jsonl")
        path.unlink()
    print(json.dumps(n))
"""


def mounted(folder: Path, options: str) -> list[str]:
    """The words before a command that runs with a small disk at `disk`; none where nobody may mount one."""
    (folder / "disk").mkdir()
    words = ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o {options} tmpfs disk && exec "$@"', "sh"]
    if shutil.which("unshare") is None:
        return []
    done = subprocess.run([*words, "true"], cwd=folder, capture_output=True, timeout=LONG_S)
    return [] if done.returncode else words


@pytest.mark.parametrize("disk", ["real", "pretended"])
def test_a_disk_that_is_full_at_any_moment(tmp_path: Path, disk: str) -> None:
    words = mounted(tmp_path, "size=400k") if disk == "real" else []
    if disk == "real" and not words:
        pytest.skip("no disk can be mounted here; the pretended one is tested")
    text = (REAL_DISK if disk == "real" else PRETENDED_DISK) + FILLS % random.Random().randrange(1 << 30)
    command = [*words, *program(tmp_path, text)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=LONG_S)
    assert done.returncode == 0, done.stderr
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rounds) == 20
    logs = sorted(tmp_path.glob("moment*.jsonl"))
    assert len(logs) >= 10
    assert done.stderr.count("No space left on device") == done.stderr.count("\n") == len(logs)
    for path in logs:
        read = found(path)
        assert_early(read, "a full disk", recorded=2 * rounds[int(read.log.head["process"])])
        assert read.log.ended is not None
        assert read.log.ended["how"] == log_format.DISK_FULL


def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    text = """
        from tracekit import recorder as r
        r.start("run.jsonl", nvtx=False)
        n = 0
        while r.is_recording():
            with r.range("x"):
                r.counter("n", n)
            n += 1
        print(n)
        """
    command = ["sh", "-c", 'ulimit -f 200; exec "$@"', "sh", *program(tmp_path, text)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=LONG_S)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.jsonl")
    reason = f"[Errno {errno.EFBIG}] {os.strerror(errno.EFBIG)}"
    assert_early(found(path), f"a write error ({reason})", recorded=2 * int(done.stdout))
    summary = run_command("summary", path, code=1)
    assert f"ended by a write error ({reason}) after" in " ".join(summary.stdout.splitlines()[:3])


def test_a_disk_that_cannot_be_written_to_at_all(tmp_path: Path) -> None:
    words = mounted(tmp_path, "ro")
    if not words:
        pytest.skip("no disk can be mounted here")
    text = """
        import errno, os
        from tracekit import recorder as r
        try:
            r.start("disk/run.jsonl", nvtx=False)
        except OSError as error:
            assert error.errno == errno.EROFS
        assert not r.is_recording()
        assert not os.listdir("disk")
        """
    command = [*words, *program(tmp_path, text)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=LONG_S)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_disk_that_goes_away_while_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorder.start(tmp_path / "run.jsonl", nvtx=False)
    assert path is not None
    recorder.counter("n", 0)
    recorder.flush()

    def gone(*_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("write", "pwrite", "ftruncate"):
        monkeypatch.setattr(os, name, gone)
    recorder.counter("n", 1)
    recorder.stop()
    monkeypatch.undo()
    read = found(path)
    assert_cut(read)
    assert read.counted == [0]


def test_a_recorder_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorder.start(tmp_path / "run.jsonl", nvtx=False)
    assert path is not None
    with recorder.range("x"):
        recorder.counter("n", 0)
    recorder.flush()
    monkeypatch.setattr("tracekit.recorder._recorder.event_lines", lambda _: 1 / 0)
    with recorder.range("x"):
        recorder.counter("n", 1)
    recorder.stop()
    read = found(path)
    assert read.note("ended-early").startswith(
        "ended by an error of the recorder (division by zero) after 2 of at least"
    )
    assert read.trace.incomplete


def test_an_interrupt_within_a_flush_loses_nothing_silently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorder.start(tmp_path / "run.jsonl", nvtx=False)
    assert path is not None

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    recorder.counter("n", 0)
    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recorder.stop()
    monkeypatch.undo()
    recorder.stop()
    read = found(path)
    assert read.ended == "ended by an error of the recorder"
    assert read.trace.incomplete


def test_an_error_too_long_for_the_reserved_line_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorder.start(tmp_path / "run.jsonl", nvtx=False)
    assert path is not None

    def long(*_: object) -> int:
        raise OSError(errno.EIO, 300 * "é")

    recorder.counter("n", 0)
    monkeypatch.setattr(os, "write", long)
    recorder.stop()
    monkeypatch.undo()
    assert "ééé" in found(path).ended


# --- processes that end

ENDS = {
    "return": "pass",
    "sys.exit": "sys.exit(3)",
    "exception": "raise ValueError",
    "stop": "r.stop(); os._exit(0)",
    "os._exit": "os._exit(0)",
    "exec": 'os.execv(sys.executable, [sys.executable, "-c", ""])',
    "kill": "os.kill(os.getpid(), signal.SIGKILL)",
    "terminate": "os.kill(os.getpid(), signal.SIGTERM)",
    "crash": "faulthandler.disable(); ctypes.string_at(0)",
}
CLEAN = {
    "return": "stopped when its process ended",
    "sys.exit": "stopped when its process ended",
    "exception": "stopped when its process ended",
    "stop": "stopped by the program",
}
IMPORTS = "import ctypes, faulthandler, multiprocessing, os, signal, sys\nfrom tracekit import recorder as r\n"
RECORD = """
def record(flushed, more):
    for n in range(flushed):
        r.counter("n", n)
    r.flush()
    for n in range(flushed, flushed + more):
        r.counter("n", n)
"""


def assert_ended(read: Found, how: str, *, flushed: int, recorded: int) -> None:
    """The log of a process that ended so is whole, or it has what was flushed and says that more may be missing."""
    if how in CLEAN:
        assert_whole(read, CLEAN[how])
        assert read.counted == list(range(recorded))
    else:
        assert_cut(read)
        assert flushed <= len(read.counted) <= recorded
        assert read.counted == list(range(len(read.counted)))


@pytest.mark.parametrize("how", ENDS)
def test_a_process_that_ends(tmp_path: Path, how: str) -> None:
    done = run(
        tmp_path,
        f"{IMPORTS}{RECORD}\nr.start('run.jsonl', nvtx=False, process='main')\nrecord(1000, 2000)\n{ENDS[how]}\n",
    )
    assert "tracekit" not in done.stderr.replace("tracekit/", "")
    assert_ended(by_process(tmp_path)["main"], how, flushed=1000, recorded=3000)


@needs_fork
@pytest.mark.parametrize("how", ["sys.exit", "stop", "os._exit", "kill", "terminate"])
def test_a_forked_child_that_ends(tmp_path: Path, how: str) -> None:
    done = run(
        tmp_path,
        f"""{IMPORTS}{RECORD}
r.start('run.jsonl', nvtx=False)
record(10, 20)
child = os.fork()
if not child:
    record(1000, 2000)
    {ENDS[how]}
os.waitpid(child, 0)
for n in range(30, 90):
    r.counter("n", n)
""",
    )
    assert done.stderr == ""
    logs = {bool(read.log.head.get("forked")): read for read in map(found, tmp_path.glob("*.jsonl"))}
    assert_ended(logs[True], how, flushed=1000, recorded=3000)
    assert_ended(logs[False], "return", flushed=90, recorded=90)


@needs_fork
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_multiprocessing_that_end(tmp_path: Path, method: str) -> None:
    ends = {how: end for how, end in ENDS.items() if how not in ("crash", "exec")}
    done = run(
        tmp_path,
        f"""{IMPORTS}{RECORD}
def work(end):
    record(1000, 2000)
    exec(end)

if __name__ == "__main__":
    r.start("run.jsonl", nvtx=False)
    make = multiprocessing.get_context({method!r}).Process
    workers = [make(target=work, args=(end,), name=how) for how, end in {ends!r}.items()]
    [worker.start() for worker in workers]
    record(30, 60)
    [worker.join() for worker in workers]
""",
    )
    assert done.returncode == 0, done.stderr
    logs = by_process(tmp_path)
    assert set(logs) >= {"program.py", *ends}
    for how in ends:
        assert_ended(logs[how], how, flushed=1000, recorded=3000)
    assert_ended(logs["program.py"], "return", flushed=90, recorded=90)
    whole = tracekit.read([str(read.path) for read in logs.values()])
    cut = sum(how not in CLEAN for how in ends)
    assert Counter("log-cut" in ledger.notes for ledger in whole.ledgers)[True] == cut
