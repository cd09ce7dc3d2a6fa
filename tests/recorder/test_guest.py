"""A program does under the recorder what it does without it: its output, its exit code, its files, its threads.

The programs do odd things on purpose. What they print is what they print without the recorder.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from recorder.programs import logs, run

import tracekit

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="descriptors, signals and forks as POSIX has them")
START = """
import glob, os, signal, sys, threading, time
from tracekit import recorder as r

def record(count=50, name="x"):
    for _ in range(count):
        with r.range(name): pass

def flushed():
    time.sleep(0.05)

def descriptor():
    (fd,) = [int(fd) for fd in os.listdir("/proc/self/fd") if is_log(fd)]
    return fd

def is_log(fd):
    try: return os.readlink(f"/proc/self/fd/{fd}").endswith(".jsonl")
    except OSError: return False

"""
BEGUN = START + "r.start('run.jsonl', nvtx=False)\nrecord(1, 'first')\nr.flush()\n"


@dataclass(frozen=True, slots=True)
class Odd:
    """A program, what it prints, its exit code; and whether the recorder ends with a line on stderr, of which words."""

    text: str
    out: str = "done\n"
    code: int = 0
    note: str = ""


def check(folder: Path, odd: Odd, *, begun: str = BEGUN, dropped: frozenset[str] = frozenset()) -> None:
    done = run(folder, begun + odd.text, PYTHONWARNINGS="error,ignore::ResourceWarning")  # programs leave files open
    assert (done.stdout, done.returncode) == (odd.out, odd.code), done.stderr
    if odd.note:
        assert done.stderr.startswith("tracekit.recorder: ")
        assert done.stderr.count("\n") == 1
        assert odd.note in done.stderr
    else:
        assert done.stderr == ""
    for path in folder.rglob("*.jsonl"):
        assert tracekit.read(path).ledgers[0].dropped.keys() <= dropped
        assert b"\0" not in path.read_bytes()


# --- descriptors that are not the log's any more

FILE_TAKES_IT = """
fd = descriptor()
os.closerange(3, 50)
victim = -1
while victim < fd: victim = os.open("victim", os.O_RDWR | os.O_CREAT)
os.write(victim, b"precious\\n" * 50)
record(200)
flushed()
"""
DESCRIPTORS = {
    "a file takes the number": Odd(
        FILE_TAKES_IT + "r.stop()\nprint(open('victim','rb').read() == b'precious\\n' * 50, os.fstat(victim).st_size)",
        "True 450\n", note="belongs to another file now",
    ),
    "a file takes it and recording only ends at exit": Odd(
        FILE_TAKES_IT + "import atexit\n"
        "atexit._run_exitfuncs()\nprint(open('victim','rb').read() == b'precious\\n' * 50, os.fstat(victim).st_size)",
        "True 450\n", note="belongs to another file now",
    ),
    "it is closed": Odd("os.close(descriptor())\nrecord()\nflushed()\nprint('done')", note="was closed by the program"),
    "it is closed at the end": Odd("os.close(descriptor())\nprint('done')", note="was closed by the program"),
    "dup2 over it": Odd(
        """
fd = descriptor()
victim = open("victim", "wb", buffering=0)
os.dup2(victim.fileno(), fd)
record()
flushed()
r.stop()
os.write(fd, b"mine")
print(open("victim", "rb").read())
""", "b'mine'\n", note="belongs to another file now",
    ),
    "a folder takes it": Odd(
        "fd = descriptor()\nos.dup2(os.open('.', os.O_RDONLY), fd)\nrecord()\nflushed()\nr.stop()\n"
        "os.fstat(fd)\nprint('done')",
        note="belongs to another file now",
    ),
    "a pipe takes it": Odd(
        """
end, begin = os.pipe()
fd = descriptor()
os.dup2(begin, fd)
record()
flushed()
r.stop()
os.write(fd, b"mine")
print(os.read(end, 100))
""", "b'mine'\n", note="belongs to another file now",
    ),
    "a socket takes it": Odd(
        """
import socket
ours, theirs = socket.socketpair()
ours.setblocking(False)
fd = descriptor()
os.dup2(ours.fileno(), fd)
record()
flushed()
r.stop()
os.write(fd, b"mine")
print(theirs.recv(100))
""", "b'mine'\n", note="belongs to another file now",
    ),
    "all but standard streams are closed": Odd(
        """
os.closerange(3, 1000)
victim = os.open("victim", os.O_RDWR | os.O_CREAT)
record()
flushed()
r.stop()
print(os.fstat(victim).st_size)
""", "0\n", note="was closed by the program",
    ),
    "a copy of an old log takes it": Odd(
        """
import shutil
(path,) = glob.glob("run.*")
shutil.copy(path, "victim")
size = os.path.getsize("victim")
os.dup2(os.open("victim", os.O_RDWR), descriptor())
record()
flushed()
r.stop()
print(os.path.getsize("victim") == size)
""", "True\n", note="belongs to another file now",
    ),
    "it was lost before a fork": Odd(
        FILE_TAKES_IT + """
pid = os.fork()
if not pid:
    os.write(victim, b"child")
    os._exit(0)
os.waitpid(pid, 0)
print(os.fstat(victim).st_size)
""", "455\n", note="belongs to another file now",
    ),
    "a daemon": Odd(
        """
sys.stdout.flush()
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
    while not os.path.exists("ready"): time.sleep(0.01)
    print([open(f"victim{n}").read() for n in range(6)])
else:
    os.setsid()
    if os.fork(): os._exit(0)
    record()
    os.closerange(0, 64)
    for n in range(6): os.write(os.open(f"victim{n}", os.O_RDWR | os.O_CREAT), b"mine")
    record()
    flushed()
    r.stop()
    os.open("ready", os.O_CREAT)
    os._exit(0)
""", f"{['mine'] * 6}\n",
    ),
    "a fork that Python does not know of": Odd(
        """
import ctypes
pid = ctypes.PyDLL(None).fork()
if not pid:
    record()
    r.stop()
    os._exit(0)
os.waitpid(pid, 0)
record()
print('done')
""", note="forked without Python's hooks",
    ),
    "stderr is closed too": Odd("os.closerange(2, 50)\nrecord()\nflushed()\nr.stop()\nprint('done')"),
    "files have the numbers of stdout and stderr": Odd(
        """
out = os.dup(1)
os.closerange(1, out)
os.closerange(out + 1, 50)
files = [os.open(f"victim{n}", os.O_RDWR | os.O_CREAT) for n in range(4)]
record()
flushed()
r.stop()
os.dup2(out, 1)
print([os.fstat(file).st_size for file in files[1:]])
""", "[0, 0, 0]\n",
    ),
    "nobody reads stderr": Odd(
        "end, begin = os.pipe()\nos.dup2(begin, 2)\nos.closerange(3, 50)\nrecord()\nflushed()\nr.stop()\nprint('done')"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_a_descriptor_that_is_not_the_logs_any_more_is_not_used(name: str, tmp_path: Path) -> None:
    if not Path("/proc/self/fd").exists() and "descriptor()" in DESCRIPTORS[name].text:
        pytest.skip("this system does not list descriptors")
    check(tmp_path, DESCRIPTORS[name])


def test_a_file_that_takes_the_number_at_any_moment_is_not_written(tmp_path: Path) -> None:
    """The program runs while the recorder looks at its descriptor, and before it writes."""
    odd = Odd(
        """
r.stop()
sys.stderr = None
damaged = 0
for turn in range(40):
    r.start("run.jsonl", nvtx=False)
    until = time.perf_counter() + 0.02 + turn / 2000
    while time.perf_counter() < until:
        with r.range("busy"): pass
    os.closerange(3, 50)
    victims = [os.open(f"victim{n}", os.O_RDWR | os.O_CREAT) for n in range(3)]
    record(20_000)
    damaged += sum(os.fstat(victim).st_size for victim in victims)
    r.stop()
    for victim in victims: os.close(victim)
print(damaged)
""",
        "0\n",
    )
    check(tmp_path, odd)


def test_a_log_never_has_the_number_of_a_standard_stream(tmp_path: Path) -> None:
    text = (
        START
        + """
os.closerange(0, 2)
r.start("run.jsonl", nvtx=False)
os.write(2, b"%d" % (descriptor() > 2))
os._exit(0)
"""
    )
    done = run(tmp_path, text)
    assert (done.returncode, done.stderr) == (0, "1")


# --- no thread


NO_THREAD = """
def refuse(thread): raise {error}
threading.Thread.start = refuse
"""


@pytest.mark.parametrize("error", ['RuntimeError("can\'t start new thread")', "MemoryError()"])
@pytest.mark.parametrize("how", ["start", "variable", "fork", "child"])
def test_without_a_thread_the_program_goes_on_with_one_line(how: str, error: str, tmp_path: Path) -> None:
    refuse = NO_THREAD.format(error=error)
    if how == "variable":
        begun = START.replace("from tracekit", f"{refuse}os.environ['TRACEKIT_LOG'] = 'run.jsonl'\nfrom tracekit")
        text = "record()\nprint('done')\nsys.exit(7)"
    elif how == "start":
        begun, text = START, refuse + "r.start('run.jsonl', nvtx=False)\nrecord()\nprint('done')\nsys.exit(7)"
    elif how == "fork":
        begun = BEGUN
        text = (
            refuse
            + "pid = os.fork()\nif not pid: os._exit(0)\nos.waitpid(pid, 0)\nrecord()\nprint('done')\nsys.exit(7)"
        )
    else:
        begun = BEGUN
        text = (
            "start = threading.Thread.start\npid = os.fork()\nif not pid:"
            f"\n    def refuse(thread): raise {error}\n    threading.Thread.start = refuse"
            "\n    record()\n    os._exit(0)\nos.waitpid(pid, 0)\nrecord()\nprint('done')\nsys.exit(7)"
        )
    check(tmp_path, Odd(text, "done\n", 7, error.split("(")[0]), begun=begun)
    assert (sum(log.calls()["first"] for log in logs(tmp_path, clean=False).values()) == 1) == (begun == BEGUN)


def test_a_subinterpreter_is_not_recorded_and_can_end(tmp_path: Path) -> None:
    text = """
import _xxsubinterpreters
inside = '''
from tracekit import recorder as r
r.start("inside.jsonl", nvtx=False)
with r.range("x"): pass
print(r.is_recording(), flush=True)
'''
for isolated in (True, False):
    number = _xxsubinterpreters.create(isolated=isolated)
    _xxsubinterpreters.run_string(number, inside)
    _xxsubinterpreters.destroy(number)
print("done")
"""
    if sys.version_info >= (3, 12):
        pytest.skip("orjson cannot be loaded there")
    done = run(tmp_path, text)
    assert (done.returncode, done.stdout) == (0, "False\nFalse\ndone\n")
    assert done.stderr.count("\n") == done.stderr.count("tracekit.recorder: not recording: a subinterpreter") == 2


def test_without_orjson_the_program_goes_on_with_one_line(tmp_path: Path) -> None:
    begun = "import sys\nsys.modules['orjson'] = None\n" + START
    odd = Odd("r.start('run.jsonl', nvtx=False)\nr.start('run.jsonl')\nrecord()\nprint('done')", note="orjson")
    check(tmp_path, odd, begun=begun)


# --- logs that are rotated

ROTATED = {
    "copied and truncated": "for path in glob.glob('run.*'): os.truncate(path, 0)",
    "truncated in a line": "for path in glob.glob('run.*'): os.truncate(path, 1 + os.path.getsize(path) // 512 * 512)",
    "renamed": "for path in glob.glob('run.*'): os.rename(path, f'old.{path}')",
}  # fmt: skip


@pytest.mark.parametrize("how", ROTATED)
def test_a_rotated_log_goes_on_without_a_hole(how: str, tmp_path: Path) -> None:
    text = f"""
kept = r.range("kept")
r.range("kept")
for turn in range(4):
    record(300, f"turn {{turn}}")
    with kept, r.range("attributes", kind="forward", category="c", color="red"): r.mark("m")
    r.flush()
    {ROTATED[how]}
    flushed()
record(2, "turn 0")
with kept, r.range("attributes", kind="forward", category="c", color="red"): pass
threading.Thread(target=record, name="second").start()
print("done")
"""
    done = run(tmp_path, BEGUN + text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    (path,) = tmp_path.glob("*.jsonl")
    assert b"\0" not in path.read_bytes()
    trace = tracekit.read(path)
    names = trace.events.column("name").to_pylist()
    assert not any("lost" in name for name in names)
    assert {"turn 0", "kept", "attributes", "x"} <= set(names)
    assert names.count("x") == 50
    assert "second" in trace.run.threads.values()
    ledger = trace.ledgers[0]
    assert sum(ledger.dropped.values()) <= (4 if "in a line" in how else 0)


def test_a_log_that_is_truncated_at_any_moment_has_no_hole(tmp_path: Path) -> None:
    text = """
stop = []
def work():
    while not stop: record(50, "work")
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
until = time.perf_counter() + 0.8
while time.perf_counter() < until:
    for path in glob.glob("run.*"): os.truncate(path, 0)
    time.sleep(0.003)
stop.append(1)
for thread in threads: thread.join()
record(7, "last")
print("done")
"""
    # A range that is open when the log is truncated has its end in the new log alone.
    check(tmp_path, Odd(text), dropped=frozenset({"end-without-begin"}))
    (path,) = tmp_path.glob("*.jsonl")
    assert tracekit.read(path).events.column("name").to_pylist().count("last") == 7


# --- names


HOSTILE = """
class Hashless(str):
    def __eq__(self, other): raise RuntimeError("eq")
    def __hash__(self): raise RuntimeError("hash")
    def __str__(self): raise RuntimeError("str")
    def encode(self, *args): raise RuntimeError("encode")
class Unequal(str):
    def __eq__(self, other): raise RuntimeError("eq")
    def __ne__(self, other): raise RuntimeError("ne")
    __hash__ = str.__hash__
class Liar:
    @property
    def __class__(self): raise RuntimeError("class")
    def __eq__(self, other): raise RuntimeError("eq")
    def __hash__(self): return hash("plain")
    def __repr__(self): raise RuntimeError("repr")
class Number(int):
    def __ge__(self, other): raise RuntimeError("ge")
    def __and__(self, other): raise RuntimeError("and")
    def __hash__(self): raise RuntimeError("hash")
class Table(dict):
    def items(self): raise RuntimeError("items")
class Type(type):
    def __getattribute__(cls, name): raise RuntimeError("type")
class Typed(metaclass=Type): pass

with r.range("plain"), r.range("plain"): pass
for name in (
    Hashless("plain"), Unequal("plain"), Hashless("other"), Liar(), Number(5), Table(a=1), Typed(),
    "a\\ud800b", "nul\\0", "quote\\",\\"quote", "x" * 4_000_000, b"\\xff", ("plain", None, None, None), [1], None,
):
    for _ in range(3):
        with r.range(name), r.range(name, kind=name, category=name, color=name): pass
        with r.range("payload", payload=name): r.mark(name, payload=name)
        r.counter(name, name)
        r.push(name)
        r.pop(name)
        r.end_range(r.start_range(name, kind=name))
        with r.step(name, name=name): pass
        r.traced(lambda: 1, name=name)()
        for _ in r.watch_loader([1], name=name): pass
print("done")
"""


def test_no_method_of_a_name_reaches_the_program(tmp_path: Path) -> None:
    check(tmp_path, Odd(HOSTILE))
    (log,) = logs(tmp_path).values()
    assert log.calls()["plain"] >= 2 + 2 * 3 * 8
    assert log.calls()['quote","quote'] == log.calls()["nul\0"] == log.calls()[r"a\ud800b"] == 3 * 8
    assert not any(seen.unfinished for seen in log.ranges)


# --- anything else

PROGRAMS = {
    "waits until no other thread is left": Odd(
        """
thread = threading.Thread(target=record)
thread.start()
while threading.active_count() > 1: time.sleep(0.01)
for thread in threading.enumerate():
    if thread is not threading.current_thread(): thread.join()
pid = os.fork()
if not pid: os._exit(threading.active_count())
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), threading.active_count())
r.stop()
print(threading.active_count())
""", "1 1\n1\n",
    ),
    "records on a thread that Python does not list": Odd(
        """
import _thread
over = _thread.allocate_lock()
over.acquire()
def work():
    record()
    print(len(threading.enumerate()), flush=True)
    over.release()
_thread.start_new_thread(work, ())
over.acquire()
print(threading.active_count())
""", "1\n1\n",
    ),
    "waits for a signal that it blocks": Odd(
        """
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.kill(os.getpid(), signal.SIGUSR1)
flushed()
print(int(signal.sigwait({signal.SIGUSR1})) == signal.SIGUSR1)
""", "True\n",
    ),
    "would be ended by a signal for large files": Odd(
        """
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
record(20_000)
flushed()
r.stop()
print("done")
""", note="File too large",
    ),
    "may write no file at all": Odd(
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nrecord()\nflushed()\nr.stop()\n"
        "print('done')",
        note="File too large",
    ),
    "has no descriptor for its child": Odd(
        """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
pid = os.fork()
if not pid:
    record()
    os._exit(2)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""", "2\n", note="Too many open files",
    ),
    "is killed by os._exit": Odd("record()\nprint('done', flush=True)\nos._exit(3)", code=3),
    "becomes another program": Odd(
        "print('done', flush=True)\nos.execv(sys.executable, [sys.executable, '-c', 'raise SystemExit(6)'])", code=6
    ),
    "leaves a thread by sys.exit": Odd(
        "thread = threading.Thread(target=lambda: (record(), sys.exit(4)))\nthread.start()\nthread.join()\n"
        "print('done')\nsys.exit(5)",
        code=5,
    ),
    "starts a thread at exit": Odd(
        """
import atexit
def late():
    thread = threading.Thread(target=record)
    thread.start()
    thread.join()
    print("done")
atexit.register(late)
""",
    ),
    "is interrupted": Odd(
        """
try:
    with r.range("long"):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
except KeyboardInterrupt: print("done")
sys.exit(130)
""", code=130,
    ),
    "runs in a folder that is gone": Odd(
        """
os.mkdir("gone")
os.chdir("gone")
os.rmdir("../gone")
record()
pid = os.fork()
if not pid:
    record()
    r.stop()
    os._exit(0)
print(os.waitpid(pid, 0)[1])
""", "0\n",
    ),
    "forbids everything by its umask": Odd("r.stop()\nos.umask(0o777)\nr.start('run.jsonl', nvtx=False)\n"
        "record()\nprint('done')"),
    "removes the log": Odd(
        "for path in glob.glob('run.*'): os.unlink(path)\nrecord()\nflushed()\nr.stop()\n"
        "print('done')", note="was removed"
    ),
    "recurses without end": Odd(
        """
def deeper(n):
    with r.range(f"depth {n % 7}"): return deeper(n + 1)
def named(n):
    r.range(f"new {n}")
    return named(n + 1)
def called(n):
    for call in (r.mark, lambda name: r.counter(name, 1), lambda name: r.end_range(r.start_range(name)), r.push):
        try: call(f"call {n}")
        except RecursionError: pass
    try: r.pop()
    except RecursionError: pass
    return called(n + 1)
for function in (deeper, named, called):
    try: function(0)
    except RecursionError: print("caught")
record()
""", "caught\ncaught\ncaught\n",
    ),
    "removes modules": Odd(
        """
for name in list(sys.modules):
    if name.partition(".")[0] in ("tracekit", "asyncio", "orjson", "signal", "resource"): del sys.modules[name]
record()
flushed()
print("done")
""",
    ),
    "puts functions of its own in the place of the system's": Odd(
        """
import socket
sleep = time.sleep
def fail(*args): raise RuntimeError("not now")
for name in "time time_ns perf_counter perf_counter_ns monotonic sleep".split(): setattr(time, name, fail)
for name in "getpid getppid fstat close".split(): setattr(os, name, fail)
socket.gethostname = fail
record()
sleep(0.05)
r.stop()
print("done")
""",
    ),
    "stops the clocks": Odd(
        """
from unittest import mock
time.time = time.perf_counter = time.monotonic = lambda: 5.0
time.perf_counter_ns = time.time_ns = mock.MagicMock()
record()
r.stop()
print("done")
""",
    ),
    "has no arguments and no host": Odd(
        "import socket\nr.stop()\ndel sys.argv\ndel socket.gethostname\nr.start('run.jsonl', nvtx=False)\n"
        "record()\nprint('done')"
    ),
    "has a file with the name of a module": Odd(
        "open('asyncio.py', 'w').write('x = 1')\nsys.path.insert(0, '.')\nr.start('run.jsonl', nvtx=False)\n"
        "record()\nprint('done')",
    ),
    "has threads whose name fails": Odd(
        """
class Worker(threading.Thread):
    shown = True
    @property
    def name(self):
        if not self.shown: raise RuntimeError("name")
        return "worker"
    @name.setter
    def name(self, value): pass
    def run(self):
        self.shown = False
        record()
        flushed()
thread = Worker()
thread.start()
thread.join()
print("done")
""",
    ),
    "raises": Odd("try:\n    with r.range('x'): raise ValueError('mine')\n"
        "except ValueError as error: print(error)", "mine\n"),
    "waits for any child": Odd(
        """
pid = os.fork()
if not pid: os._exit(1)
print(os.waitpid(-1, 0)[0] == pid)
try: os.waitpid(-1, 0)
except ChildProcessError: print("none")
""", "True\nnone\n",
    ),
}  # fmt: skip
SHADOWS = ("has a file with the name of a module",)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_odd_program_does_what_it_does_without_the_recorder(name: str, tmp_path: Path) -> None:
    check(tmp_path, PROGRAMS[name], begun=START if name in SHADOWS else BEGUN)


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_workers_of_multiprocessing_give_their_results(method: str, tmp_path: Path) -> None:
    text = f"""
import multiprocessing
def square(x):
    with r.range("job"): return x * x
if __name__ == "__main__":
    r.start("run.jsonl", nvtx=False)
    context = multiprocessing.get_context("{method}")
    with context.Pool(1) as pool: print(pool.map(square, range(4)))
    worker = context.Process(target=square, args=(1,))
    worker.start()
    worker.join()
    print(worker.exitcode)
"""
    check(tmp_path, Odd(text, "[0, 1, 4, 9]\n0\n"), begun=START)
