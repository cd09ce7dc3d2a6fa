"""The table of the fault matrix: commands x faults x moments. Everything else here runs it and judges.

A cell of a command has four folders: in/ (inputs), out/ (outputs and archives), tmp/ (TMPDIR) and home/ (the cache).
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, IntFlag


class Place(IntEnum):
    """A folder of a cell, or stdout; shim.c has the same order."""

    INPUT, OUTPUT, SCRATCH, CACHE, STDOUT = range(5)


class Call(IntFlag):
    """A kind of call of the system; shim.c has the same bits."""

    OPEN, MAKE, READ, WRITE, NAME, SYNC, REMOVE = (1 << n for n in range(7))


class Action(IntEnum):
    """The event at a moment; shim.c has the same order."""

    NOTHING, FAIL, SIGNAL, GROW, SHRINK, REPLACE, STEP = range(7)


SAMPLE_OF_EACH = (
    "caffe-time/cpu.log", "chrome-trace/viztracer.json", "cuda-profile/kvp.log", "firefox/gecko.json",
    "fluid-pb/gpu.prof", "fluid-report/paddle18-alloc.txt", "folded/py-spy.folded", "kineto/gpu.pt.trace.json",
    "mxnet/mxnet-1.9.1.json", "mxnet-table/mxnet19.txt", "ncu/raw.csv", "nsys-jsonl/texts-first.jsonl",
    "nsys-sqlite/two-processes.sqlite", "nsys-stats-csv/cuda_gpu_trace.csv", "nvprof-csv/utf-16-powershell.csv",
    "nvprof-sqlite/version-8.nvvp", "nvprof-text/gpu-trace.txt", "paddle-json/paddle26.paddle_trace.json",
    "paddle-pb/gpu.paddle_trace.pb", "perfetto/program.pftrace", "pprof/go-cpu.pb", "recorder-log/rank0.jsonl",
    "singa/verbosity-1.txt", "theano/theano-1.0.5.txt", "mini-caffe/three-steps.json", "paddle-summary/gpu.txt",
    "rocpd/4242_results.db", "rocprof-csv/4242_kernel_trace.csv", "rocprof-db/kernels.db",
    "rocprof-json/4242_results.json", "rpd/trace.rpd", "speedscope/py-spy.speedscope.json",
    "timemory/wall_clock.txt", "torch-memory/two-gpus.pickle", "torch-table/cuda.txt", "xplane/gpu.xplane.pb",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault. cause: the words of which one must be in the error, "" where the exit code says it all.

    calls: those at which it happens, the first, the middle and the last one. sticky: later calls fail too, as on a full
    disk. after: it happens behind the call.
    """

    name: str
    place: Place
    calls: Call
    action: Action
    argument: int = 0
    sticky: bool = False
    after: bool = False
    cause: tuple[str, ...] = ()


DENIED, FULL, BROKEN, MANY = (
    ("permission", "not enough rights"),
    ("full", "no space"),
    ("input/output", "i/o"),
    ("too many open files", "too many opened files", "too many files are open"),
)
_FAIL, _SIGNAL = Action.FAIL, Action.SIGNAL
_NEW = Call.MAKE | Call.NAME
_ANY = Call.OPEN | Call.MAKE | Call.READ | Call.WRITE | Call.NAME | Call.SYNC | Call.REMOVE
_INPUT, _OUTPUT, _SCRATCH, _CACHE, _STDOUT = Place

FAULTS = (
    Fault("input: EACCES at open", _INPUT, Call.OPEN, _FAIL, errno.EACCES, sticky=True, cause=DENIED),
    Fault("input: EMFILE at open", _INPUT, Call.OPEN, _FAIL, errno.EMFILE, sticky=True, cause=MANY),
    Fault("input: EIO at open", _INPUT, Call.OPEN, _FAIL, errno.EIO, cause=BROKEN),
    Fault("input: EIO at read", _INPUT, Call.READ, _FAIL, errno.EIO, sticky=True, cause=BROKEN),
    Fault("input grows", _INPUT, Call.READ, Action.GROW),
    Fault("input shrinks", _INPUT, Call.READ, Action.SHRINK),
    Fault("input is replaced", _INPUT, Call.READ, Action.REPLACE),
    Fault("output: EACCES at create", _OUTPUT, _NEW, _FAIL, errno.EACCES, sticky=True, cause=DENIED),
    Fault("output: EMFILE at create", _OUTPUT, Call.MAKE | Call.OPEN, _FAIL, errno.EMFILE, sticky=True, cause=MANY),
    Fault("output: ENOSPC", _OUTPUT, Call.MAKE | Call.WRITE, _FAIL, errno.ENOSPC, sticky=True, cause=FULL),
    Fault("output: EIO at write", _OUTPUT, Call.WRITE, _FAIL, errno.EIO, cause=BROKEN),
    Fault("output: EIO at fsync", _OUTPUT, Call.SYNC, _FAIL, errno.EIO, cause=BROKEN),
    Fault("output: EIO at read", _OUTPUT, Call.READ, _FAIL, errno.EIO, sticky=True, cause=BROKEN),
    Fault("output: EIO at rename", _OUTPUT, Call.NAME, _FAIL, errno.EIO, sticky=True, cause=BROKEN),
    Fault("output: EACCES at remove", _OUTPUT, Call.REMOVE, _FAIL, errno.EACCES, cause=DENIED),
    Fault("TMPDIR: EACCES", _SCRATCH, _NEW, _FAIL, errno.EACCES, sticky=True, cause=DENIED),
    Fault("TMPDIR: EMFILE", _SCRATCH, Call.MAKE | Call.OPEN, _FAIL, errno.EMFILE, sticky=True, cause=MANY),
    Fault("TMPDIR: ENOSPC", _SCRATCH, Call.MAKE | Call.WRITE, _FAIL, errno.ENOSPC, sticky=True, cause=FULL),
    Fault("TMPDIR: EIO at read", _SCRATCH, Call.READ, _FAIL, errno.EIO, sticky=True, cause=BROKEN),
    Fault("cache: EACCES", _CACHE, _NEW | Call.OPEN, _FAIL, errno.EACCES, sticky=True, cause=DENIED),
    Fault("cache: ENOSPC", _CACHE, Call.MAKE | Call.WRITE, _FAIL, errno.ENOSPC, sticky=True, cause=FULL),
    Fault("stdout: ENOSPC", _STDOUT, Call.WRITE, _FAIL, errno.ENOSPC, sticky=True, cause=FULL),
    Fault("stdout: EIO", _STDOUT, Call.WRITE, _FAIL, errno.EIO, sticky=True, cause=BROKEN),
    Fault("stdout: EPIPE", _STDOUT, Call.WRITE, _FAIL, errno.EPIPE, sticky=True),
    *(
        Fault(f"{number.name} {when}", place, _ANY, _SIGNAL, number, after=True)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
        for when, place in (("reading", _INPUT), ("writing", _OUTPUT), ("in TMPDIR", _SCRATCH), ("caching", _CACHE))
    ),
    *(
        Fault(f"{number.name} around the rename", _OUTPUT, Call.NAME, _SIGNAL, number, after=after)
        for number in (signal.SIGTERM, signal.SIGKILL)
        for after in (False, True)
    ),
    Fault("clock +1 day", _INPUT, Call.READ, Action.STEP, 86_400),
    Fault("clock -1 day", _INPUT, Call.READ, Action.STEP, -86_400),
    Fault("clock -1 day, writing", _OUTPUT, Call.WRITE, Action.STEP, -86_400),
)


@dataclass(frozen=True, slots=True)
class Command:
    """One command line. setup: the command lines before it, which run without a fault.

    script: Python in the place of the command. host: it is a program that records, and goes on whatever happens.
    parts: its outputs are files of their own: some may be the new and some the old ones. about: how the names
    of its faults begin, where another command meets the others in the same way. stop: what it says when it has
    to be ended by Ctrl-C. code: of its exit without a fault.
    """

    words: str
    setup: tuple[str, ...] = ()
    parts: bool = False
    stop: str = ""
    code: int = 0
    script: str = ""
    host: bool = False
    about: tuple[str, ...] = ("",)

    def faults(self) -> Iterator[Fault]:
        """Yield the faults that are tried with the command."""
        yield from (fault for fault in FAULTS if fault.name.startswith(self.about))


_SELECT = "SELECT|name,|count(*)|AS|n|FROM|events|GROUP|BY|name|ORDER|BY|name"
_TARGETS = (
    ("a.csv", "json"), ("a.csv", "json.gz"), ("a.csv", "pftrace"), ("a.csv", "parquet"), ("a.csv", "jsonl"),
    ("a.csv", "csv"), ("a.csv", "kvp"), ("k.json", "prof"), ("k.json", "pb"), ("k.json", "firefox.json.gz"),
    ("a.csv", "csv.gz"), ("a.csv", "speedscope.json"), ("a.csv", "otf2"),
)  # fmt: skip
_ARCHIVE = ("archive add out/arch in/old.csv --run old --tag kept=1", "archive add out/arch in/a.csv --run r --tag a=1")

_OF_WRITERS = ("output", "TMPDIR", "SIGINT writing", "SIGTERM writing", "SIGKILL writing", "SIGKILL around")
_OF_COPIES = ("TMPDIR", "SIGINT in TMPDIR", "SIGTERM in TMPDIR", "SIGKILL in TMPDIR", "stdout")
_OF_BATCHES = ("output: ENOSPC", "SIGINT writing", "SIGTERM writing", "SIGKILL writing")
_OF_READERS = ("input: EIO at read",)
_RECORDS = """
import sys
from tracekit import recorder
try:
    recorder.start("out/run.jsonl", nvtx=False)
except OSError as err:
    print("the program was told:", err, file=sys.stderr)
for _ in range(3):
    with recorder.range("step"), recorder.range("inside", payload=1):
        recorder.mark("here")
    recorder.flush()
recorder.stop()
print("done")
"""

COMMANDS = (
    Command("summary in/a.csv"),
    Command("summary in/s.nvvp.gz --format json"),
    Command("inspect in/k.json"),
    Command(
        "report in/k.json -o out/a.html --force", ("report in/old.csv -o out/a.html",), about=(*_OF_WRITERS, "input")
    ),
    *(
        Command(
            f"convert in/{source} -o out/a.{kind} --force",
            (f"convert in/{old} -o out/a.{kind}",),
            about=("",) if kind == "json" else _OF_WRITERS,
        )
        for source, kind in _TARGETS
        for old in ("oldk.json" if source == "k.json" else "old.csv",)
    ),
    Command("convert in/u.json -o out/a.json", about=_OF_COPIES),
    Command(
        "convert in/s.nvvp.gz -o out/a.json --to fluid-pb --force",
        ("convert in/old.csv -o out/a.json",),
        about=_OF_COPIES,
    ),
    Command("convert in/a.csv -o - --to jsonl"),
    Command("convert in/a.csv in/k.json -o out/each/ --force", ("convert in/old.csv -o out/each/",), parts=True),
    Command("convert in/a.csv -o out/a.json --split events=60", parts=True, about=_OF_WRITERS),
    Command(
        "convert in/a.csv -o out/a.json --max-events 20 --force",
        ("convert in/old.csv -o out/a.json",),
        about=_OF_WRITERS,
    ),
    Command("compare in/a.csv in/old.csv"),
    Command(
        "compare in/a.csv in/old.csv -o out/c.html --force",
        ("compare in/old.csv in/old.csv -o out/c.html",),
        about=(*_OF_WRITERS, "input"),
    ),
    Command(f"query in/a.csv {_SELECT}"),
    Command(f"query in/a.csv {_SELECT} -o out/q.parquet --force", (f"query in/old.csv {_SELECT} -o out/q.parquet",)),
    Command("explain in/a.csv kernel.total device.kernel_time"),
    Command("doctor in/k.json", code=3),
    Command("doctor in/d.json --fix -o out/d.json --force", ("doctor in/oldk.json --fix -o out/d.json",), parts=True),
    Command("archive add out/arch in/k.json --run new --tag b=2", _ARCHIVE),
    Command("archive add out/arch in/a.csv --run r --tag b=2", _ARCHIVE, parts=True),
    Command("archive list out/arch", _ARCHIVE),
    Command("archive verify out/arch", _ARCHIVE),
    Command("archive prune out/arch --run r", _ARCHIVE, parts=True),
    Command("demo -o out/demo --force", ("demo -o out/demo",), parts=True, about=_OF_WRITERS),
    Command("open in/a.csv --trace --no-browser --keep", stop="ends with Ctrl-C"),
    Command("recorder", script=_RECORDS, host=True),
    Command("batch in/tree -o out/batch --jobs 1", parts=True, about=_OF_BATCHES),
)

READS = (
    *(Command(f"inspect in/readers/{name}", about=_OF_READERS) for name in SAMPLE_OF_EACH),
    Command("inspect in/p.parquet", ("convert in/a.csv -o in/p.parquet",), about=_OF_READERS),
)
"""A file of each format: each library has its own way to say that the system cannot read."""
