"""Windows: the recording of a face from a start to a stop, as files that tracekit reads.

A window has a log of its own. Where the program already records (TRACEKIT_LOG, `recorder.start`), that recording goes
on. Then the window's log is the part of that log between the two moments, with the lines that define names and threads.
A range that was open when the window began is not in it.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import socket
import sys
import tempfile
import time
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, Protocol

from tracekit import recorder
from tracekit.errors import TracekitError
from tracekit.model.display import encodable
from tracekit.profiler import _cupti
from tracekit.profiler._cupti import Collected, CuptiCall, CuptiWork
from tracekit.recorder import log_format
from tracekit.recorder.descriptors import print_line

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.trace import Trace

# Load of the processors: by this process, and of the whole machine.
#
# Process: its processor time over elapsed time, so 1.0 is one core and more is possible. System: (all - idle) / all of
# the machine's processor time, 0 to 1, from /proc/stat on Linux (man 5 proc); elsewhere unknown. These are the two
# figures of Paddle's Device Summary (CPU(Process), CPU(System)).


_STAT = Path("/proc/stat")


class CpuReading(NamedTuple):
    """Clocks read together: ns of the monotonic clock and of this process's processors; ticks of the machine's."""

    elapsed_ns: int
    process_ns: int
    busy_ticks: int
    all_ticks: int


class CpuUse(NamedTuple):
    """Shares between two readings; None: unknown. process may pass 1, system does not."""

    process: float | None
    system: float | None


def read_cpu(stat: Path = _STAT) -> CpuReading:
    """Read the clocks; ticks are 0 where the system does not show them."""
    busy, every = _ticks(stat)
    return CpuReading(time.perf_counter_ns(), time.process_time_ns(), busy, every)


def _ticks(stat: Path) -> tuple[int, int]:
    try:
        with stat.open("rb") as file:
            words = file.readline().split()
        # user nice system idle iowait irq softirq steal; user and nice include guests already
        ticks = [int(word) for word in words[1:9]]
    except (OSError, ValueError):
        return 0, 0
    if words[0] != b"cpu" or len(ticks) < 4:
        return 0, 0
    return sum(ticks) - sum(ticks[3:5]), sum(ticks)


def use_between(first: CpuReading, last: CpuReading) -> CpuUse:
    """Return the load from one reading to a later one.

    >>> use_between(CpuReading(0, 0, 10, 100), CpuReading(1000, 1500, 40, 160))
    CpuUse(process=1.5, system=0.5)
    """
    elapsed = last.elapsed_ns - first.elapsed_ns
    ticks = last.all_ticks - first.all_ticks
    process = (last.process_ns - first.process_ns) / elapsed if elapsed > 0 else None
    busy = last.busy_ticks - first.busy_ticks
    return CpuUse(process, min(max(busy / ticks, 0.0), 1.0) if ticks > 0 else None)


# A region's GPU work as a file beside the log: JSON Lines with the schema's names (tracekit's events-jsonl).
#
# Times are ns since the Unix epoch, as in the recorder's log, so the two files share one clock.


LONGEST_MANGLED: Final = 4096
LONGEST_NAME: Final = 64 * 1024
Row = dict[str, object]


def write_rows(collected: Collected, path: Path) -> None:
    """Write the file whole. Raises: OSError."""
    # The host says beside the process id that this is the process of the log.
    facts = {"tool": "CUPTI", "host": socket.gethostname(), **({"lost": collected.lost} if collected.lost else {})}
    run = {
        "origin_ns": 0,
        "sources": [{"path": path.name, "format": "events-jsonl", "facts": facts}],
        "devices": [[0, number, name] for number, name in sorted(collected.devices.items())],
    }
    names: dict[str, str] = {}
    pid = os.getpid()
    rows = heapq.merge(
        ((work.start_ns, _work_row(work, pid, names)) for work in collected.work),
        ((call.start_ns, _call_row(call)) for call in collected.calls),
        key=lambda timed: timed[0],
    )
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(_line({"tracekit": "events-jsonl", "schema": 1, "run": run}))
        for count, (_, row) in enumerate(rows, 1):
            file.write(_line({"event_id": count - 1, "source": 0, **row}))
        file.write(_line({"tracekit": "end", "events": count, "totals": 0, "run": run, "ledger": []}))


def _line(value: Row) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True) + "\n"


def _work_row(work: CuptiWork, pid: int, names: dict[str, str]) -> Row:
    name = names.get(work.name)
    if name is None:
        name = names[work.name] = demangled(work.name)
    row: Row = {"ts_ns": work.start_ns, "dur_ns": work.end_ns - work.start_ns, "name": name}
    if name != work.name:
        row["raw_name"] = work.name
    row |= {
        "kind": work.kind,
        "pid": pid,
        "device": work.device,
        "context": work.context,
        "stream": work.stream,
        "correlation": work.correlation,
    }
    for axes, values in (("grid", work.grid), ("block", work.block)):
        if values is not None:
            row |= {f"{axes}_{axis}": value for axis, value in zip("xyz", values, strict=True)}
    optional = {
        "registers": work.registers,
        "static_smem_bytes": work.static_smem,
        "dynamic_smem_bytes": work.dynamic_smem,
        "bytes": work.size,
        "copy_kind": work.copy_kind or None,
    }
    row |= {key: value for key, value in optional.items() if value is not None}
    if work.kind != "kernel":
        args: Row = {"async": work.is_async}
        args |= {key: text for key, text in (("src", work.source_memory), ("dst", work.target_memory)) if text}
        row["args"] = args
    return row


def _call_row(call: CuptiCall) -> Row:
    return {
        "ts_ns": call.start_ns,
        "dur_ns": call.end_ns - call.start_ns,
        "name": call.name,
        "kind": call.kind,
        "pid": call.pid,
        "tid": call.tid,
        "correlation": call.correlation,
    }


def demangled(name: str) -> str:
    """Return a C++ symbol as people write it; any other text, and one that is too long, as it is.

    >>> demangled("_Z6vecaddPiS_")
    'vecadd(int*, int*)'
    """
    if not name.startswith("_Z") or len(name) > LONGEST_MANGLED:
        return name
    try:
        import cxxfilt

        readable = str(cxxfilt.demangle(name))
    except Exception:  # noqa: BLE001 - no such package (Windows), no library, no symbol
        return name
    return readable if len(readable) <= LONGEST_NAME else name


# Output of the faces: tables on stdout, notes on stderr.


PREFIX: Final = "tracekit.profiler: "
"""Each note begins with it."""


def show(text: str) -> None:
    """Write a table where the framework's own profiler prints it: on stdout, now."""
    line = text if text.endswith("\n") else text + "\n"
    sys.stdout.write(encodable(line, getattr(sys.stdout, "encoding", None)))
    sys.stdout.flush()


def print_note(text: str) -> None:
    """Write one line to stderr, if there is a stderr."""
    print_line(PREFIX + text)


def error_text(error: Exception) -> str:
    """Return an exception in words: with its type, unless its message is written for people."""
    if isinstance(error, TracekitError | OSError | ImportError):
        return str(error)
    return f"{type(error).__name__}: {error}"


class NoteOnce:
    """Prints each note once in its life."""

    def __init__(self) -> None:
        self._printed: set[str] = set()

    def __call__(self, text: str) -> None:
        if text not in self._printed:
            self._printed.add(text)
            print_note(text)


GPU_SUFFIX: Final = f".gpu{log_format.SUFFIX}"
FRAMEWORK_SUFFIX: Final = ".framework.pb"
BESIDE: Final = (GPU_SUFFIX, FRAMEWORK_SUFFIX)
"""Files of the process that also has a log of its own."""
SAMPLE_NS: Final = 50_000_000
"""The load of the processors is read no more often than this: a reading costs some 30 us."""
_note_once: Final = NoteOnce()
PROCESS_CPU: Final = "Process Cpu Utilization"
SYSTEM_CPU: Final = "System Cpu Utilization"
_DEFINES: Final = tuple(f'{{"k":"{kind}"'.encode() for kind in (log_format.NAME, log_format.THREAD, log_format.CLOCK))
_HAS_ITEMS: Final = tuple(f'{{"k":"{kind}"'.encode() for kind in log_format.ITEM_LENGTH)


class Tracer(Protocol):
    """A tracer of the program's framework, whose rows are read beside the window's log."""

    def start(self) -> str:
        """Begin; return why it records nothing, "" where it records. It does not raise."""

    def stop(self, path: Path, /) -> str:
        """End and write the rows; return why there are none, "" where there are. It does not raise."""


class LogFolder:
    """A folder of logs. A temporary one is removed with the last object that uses it, or with the process."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """Make the folder, a temporary one without a path. Raises: OSError."""
        if path is not None:
            self.path = Path(path)
            self.path.mkdir(parents=True, exist_ok=True)
            return
        self.path = Path(tempfile.mkdtemp(prefix="tracekit-profiler-"))
        weakref.finalize(self, _remove, self.path, os.getpid())


def begin_recording(
    stem: str, number: int, *, gpu: bool = False, failure: str = "not recording"
) -> WindowRecording | None:
    """Return a recording in a temporary folder, which has begun; None after a note on stderr that it failed."""
    try:
        recording = WindowRecording(LogFolder(), stem, number, gpu=gpu)
    except OSError as error:
        print_note(f"{failure}: {error}")
        return None
    return recording if recording.start() else None


def _remove(folder: Path, pid: int) -> None:
    """Remove temporary logs, in the process that made them: forked children have their parent's finalizers."""
    if os.getpid() == pid:
        rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Window:
    """A recording from a start to a stop. number: from 0; steps: (first, last) recorded; cpu: of all its time."""

    number: int
    folder: LogFolder
    stem: str
    steps: tuple[int, int] | None
    first_cpu: CpuReading
    last_cpu: CpuReading
    remarks: tuple[str, ...] = ()

    @property
    def cpu(self) -> CpuUse:
        """The load of the processors."""
        return use_between(self.first_cpu, self.last_cpu)

    @property
    def logs(self) -> tuple[Path, ...]:
        """The files of this window: a log for each process (forked workers have their own), one for the GPUs."""
        try:
            return tuple(sorted(path for path in self.folder.path.iterdir() if path.name.startswith(f"{self.stem}.")))
        except OSError:
            return ()

    def read(self) -> Trace:
        """Return the window as a trace. Raises: TracekitError."""
        return read_windows([self])

    def save(self, path: str | os.PathLike[str], format: str = "json") -> None:
        """Write the window as a Chrome trace ("json") or in Paddle's protobuf ("pb"); a file there is replaced.

        Raises: ValueError for another format; TracekitError.
        """
        save_windows([self], path, format)


WRITERS: Final = {"json": "chrome", "pb": "paddle-pb", "fluid": "fluid-pb"}


def read_windows(windows: list[Window]) -> Trace:
    """Return windows as one trace. Raises: TracekitError."""
    return _read_logs(_logs(windows))


def _read_logs(logs: Sequence[Path]) -> Trace:
    from tracekit import pipeline
    from tracekit.inputs import InputOptions

    trace = pipeline.read(logs, InputOptions(partial=True, same_process=False))  # `_joined` knows
    _print_failures(trace.failures)
    return _joined(trace)


def _joined(trace: Trace) -> Trace:
    """Return the trace with the rows of each file of BESIDE in the source of its process's own log.

    They are of one process: its ranges hold its calls, and the work of the calls counts for the ranges.
    """
    import pyarrow as pa

    from tracekit.model import arrow, sets

    names = defaultdict(str, {ledger.source: Path(ledger.path).name for ledger in trace.ledgers})
    source = trace.events.column("source").to_numpy().copy()
    pid = arrow.ints(trace.events.column("pid"), -1)
    pids = {int(number): set(pid[source == number].tolist()) for number in sets.unique(source).tolist()}
    devices = dict(trace.run.devices)
    for beside, suffix in [(number, suffix) for number in pids for suffix in BESIDE if names[number].endswith(suffix)]:
        stem = names[beside].removesuffix(suffix)
        for log in pids:
            own = not names[log].endswith(BESIDE) and names[log].startswith(f"{stem}.")
            if own and pids[beside] <= pids[log]:
                source[source == beside] = log
                devices |= {(log, *key[1:]): name for key, name in devices.items() if key[0] == beside}
                break
    events = trace.events
    for name, values in (("source", pa.array(source, pa.int32())), ("step", _steps_of_calls(events))):
        events = arrow.with_column(events, name, values)
    return replace(trace, events=events, run=replace(trace.run, devices=devices))


def _steps_of_calls(events: pa.Table) -> pa.Int32Array:
    """Return the column `step`: of the calls that other files have, the step of the log in which they start."""
    import numpy as np
    import pyarrow as pa

    from tracekit.model import arrow

    step = arrow.ints(events.column("step"), -1)
    start = events.column("ts_ns").to_numpy()
    end = start + arrow.ints(events.column("dur_ns"))
    is_step = arrow.bools(arrow.pc.equal(events.column("kind").cast(pa.string()), "step"))
    steps = np.flatnonzero(is_step & (step >= 0))
    if steps.size:
        around = np.searchsorted(start[steps], start, "right") - 1
        within = (around >= 0) & (start < end[steps][around])
        free = (step < 0) & events.column("tid").is_valid().to_numpy() & within
        step = np.where(free, step[steps][around], step)
    return pa.array(step, pa.int32(), mask=step < 0)


class _Failure(Protocol):
    """An input that cannot be read."""

    @property
    def error(self) -> Exception: ...


def _logs(windows: list[Window]) -> list[Path]:
    return [log for window in windows for log in window.logs]


def _print_failures(failures: Iterable[_Failure]) -> None:
    """Print a note for each file of a window that cannot be read, as of a worker killed before its first line."""
    for failure in failures:
        print_note(f"left out: {failure.error}")


def save_windows(windows: list[Window], path: str | os.PathLike[str], format: str) -> None:
    """Write windows into one file of a format of WRITERS; its folder is made. Raises: ValueError, TracekitError."""
    save_logs(_logs(windows), path, format)


def save_logs(logs: Sequence[Path], path: str | os.PathLike[str], format: str) -> None:
    """Write the logs of windows as `save_windows` does. Raises: ValueError, TracekitError."""
    if format not in WRITERS:
        raise ValueError(f"format {format!r} is not one of 'json', 'pb'")
    from tracekit import pipeline
    from tracekit.inputs import InputOptions

    target = Path(path)
    with contextlib.suppress(OSError):  # the writer reports a folder that cannot be made
        target.parent.mkdir(parents=True, exist_ok=True)
    if any(log.name.endswith(BESIDE) for log in logs):  # of one process, so they are joined before they are written
        pipeline.write(_read_logs(logs), target, to=WRITERS[format], force=True)
        return
    done = pipeline.convert(logs, target, InputOptions(partial=True), to=WRITERS[format], force=True)
    _print_failures(done.failures)


class SharedLog:
    """The log of a recording that is not ours: its definitions so far, and its lines since a moment."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.begin = 0
        self._known: list[bytes] = []
        self._known_to = 0

    def mark(self) -> None:
        """Begin a window now."""
        self.begin = self._flushed()
        with self.path.open("rb") as file:
            file.seek(self._known_to)
            for line in _lines(file, self.begin - self._known_to):
                if line.startswith((log_format.HEAD_PREFIX, *_DEFINES)):
                    self._known.append(line)
        self._known_to = self.begin

    def cut(self, target: Path) -> None:
        """Write the log of the window that began with `mark` and ends now."""
        end = self._flushed()
        items = 0
        head, *known = self._known
        with self.path.open("rb") as file, target.open("wb") as out:
            out.write(head)
            out.write(_beat(0))
            out.writelines(known)
            file.seek(self.begin)
            for line in _lines(file, end - self.begin):
                items += _items_in(line)
                out.write(line)
            out.write(self._end(items))
            out.seek(len(head))
            out.write(_beat(items))

    def _end(self, items: int) -> bytes:
        """Return the end line of a part: where the recording ended early, so did the part."""
        with self.path.open("rb") as file:
            file.readline()
            last = json.loads(file.readline())
        if last["k"] != log_format.END:
            return log_format.encode(log_format.end_line(perf_ns=time.perf_counter_ns(), items=items))
        return log_format.encode(last | {"items": items})

    def _flushed(self) -> int:
        recorder.flush()
        return self.path.stat().st_size


def _beat(items: int) -> bytes:
    """Return the reserved line of a log that is written at once: nothing in it waits any more."""
    now = time.perf_counter_ns()
    return log_format.filled(log_format.encode(log_format.beat_line(perf_ns=now, items=items, flushes=1, wait_ns=0)))


def _lines(file: BinaryIO, length: int) -> Iterator[bytes]:
    while length > 0 and (line := file.readline()):
        length -= len(line)
        yield line


def _items_in(line: bytes) -> int:
    """Return how many items a line of the log holds: it is as the recorder wrote it, so `x` is counted as text."""
    if not line.startswith(_HAS_ITEMS):
        return 0
    kind = line[6 : line.index(b'"', 6)].decode()
    begin = line.index(b'"x":[') + len(b'"x":[')
    end = line.index(b"]", begin)
    return (line.count(b",", begin, end) + 1) // log_format.ITEM_LENGTH[kind] if end > begin else 0


@dataclass(slots=True)
class WindowRecording:
    """A window while it is recorded.

    gpu: kernels, copies and CUDA calls too, through CUPTI. framework: the framework's own tracer.
    """

    folder: LogFolder
    stem: str
    number: int
    gpu: bool = False
    shared: SharedLog | None = None
    framework: Tracer | None = None
    active: bool = False
    _own_log: Path | None = None
    _nvtx_again: bool = False
    _collector: _cupti.Collector | None = None
    _first: CpuReading = field(default_factory=read_cpu)
    _sampled: CpuReading = field(default_factory=read_cpu)
    _remarks: list[str] = field(default_factory=list)

    def start(self) -> bool:
        """Begin; return whether something is recorded. It does not raise; a failure is a note on stderr."""
        try:
            self._start_log()
        except OSError as error:
            print_note(f"not recording: {error}")
            return False
        if self.gpu:
            try:
                self._collector = _cupti.Collector(_cupti.load(), api=True)
                self._collector.start()
            except _cupti.CuptiUnavailableError as error:
                self._collector = None
                self._remarks.append(f"no GPU work is recorded: {error}")
        if self.framework is not None:
            self._remark(self.framework.start())
        self._first = self._sampled = read_cpu()
        self.active = True
        return True

    def _remark(self, text: str) -> None:
        if text:
            _note_once(text)
            self._remarks.append(text)

    def _start_log(self) -> None:
        if recorder.is_recording():
            path = recorder.log_path()
            if path is not None:
                if self.shared is None or self.shared.path != path:
                    self.shared = SharedLog(path)
                self.shared.mark()
                return
            self._nvtx_again = True
        self.shared = None
        self._own_log = recorder.start(self.folder.path / f"{self.stem}{log_format.SUFFIX}")

    def sample(self, *, last: bool = False) -> None:
        """Record the load of the processors since the last sample, unless that was just now."""
        if not self.active or (not last and time.perf_counter_ns() - self._sampled.elapsed_ns < SAMPLE_NS):
            return
        now = read_cpu()
        use = use_between(self._sampled, now)
        self._sampled = now
        for name, share in ((PROCESS_CPU, use.process), (SYSTEM_CPU, use.system)):
            if share is not None:
                recorder.counter(name, share)

    def stop(self, steps: tuple[int, int] | None) -> Window | None:
        """End; return the window, None where nothing was recorded. It does not raise."""
        if not self.active:
            return None
        self.sample(last=True)
        self.active = False
        last = read_cpu()
        if self.framework is not None:
            self._remark(self.framework.stop(self.folder.path / f"{self.stem}{FRAMEWORK_SUFFIX}"))
        collected = self._collector.stop() if self._collector is not None else None
        try:
            self._stop_log()
            if collected is not None:
                write_rows(collected, self.folder.path / f"{self.stem}{GPU_SUFFIX}")
                self._remarks += [f"GPU: {count:,} {what} are lost" for what, count in collected.lost.items()]
        except (OSError, ValueError, KeyError) as error:  # the disk, or a log that somebody damaged
            print_note(f"a window is incomplete: {error}")
            self._remarks.append(f"incomplete: {error}")
        window = Window(self.number, self.folder, self.stem, steps, self._first, last, tuple(self._remarks))
        if not window.logs:
            print_note("a window is lost: its log is gone")
            return None
        return window

    def _stop_log(self) -> None:
        if self._own_log is not None:
            if recorder.log_path() == self._own_log:  # else the program has begun a recording of its own
                recorder.stop()
            if self._nvtx_again:
                recorder.start(None)
        elif self.shared is not None:
            self.shared.cut(self.folder.path / f"{self.stem}.shared{log_format.SUFFIX}")


# Calls of a watched model in a window: what `tracekit.recorder.torch.watch` and its like record of layers and phases.
#
# The faces that time operators or layers themselves (SINGA, Mini-Caffe) fill their tables from these, where the program
# only watches its model.


PHASES: Final = ("forward", "backward", "optimizer")
_LAYER_ENDINGS: Final = (".forward", ".backward")


class WatchedCall(NamedTuple):
    """A phase of a watched loop, or the forward or backward of a layer. Times are ns on the clock of the log.

    step: -1 outside of any. phase: the kind of the phase, "" for a layer. inner: it has none of these within it.
    """

    name: str
    phase: str
    tid: int
    step: int
    start_ns: int
    end_ns: int
    inner: bool


def watched_calls(window: Window) -> list[WatchedCall]:
    """Return the calls of a window, thread by thread, outer ones before those within them.

    A window that cannot be read has none, and a note says so.
    """
    from tracekit.errors import TracekitError

    columns = ["name", "kind", "tid", "step", "ts_ns", "dur_ns"]
    try:
        events = window.read().events
    except TracekitError as error:
        print_note(f"watched calls are lost: {error}")
        return []
    rows = [
        row
        for row in events.select(columns).to_pylist()
        if row["dur_ns"] is not None
        and (row["kind"] in PHASES or (row["kind"] == "user_range" and str(row["name"]).endswith(_LAYER_ENDINGS)))
    ]
    rows.sort(key=lambda row: (row["tid"], row["ts_ns"], -row["dur_ns"]))
    calls: list[WatchedCall] = []
    for number, row in enumerate(rows, 1):
        end = row["ts_ns"] + row["dur_ns"]
        inner = number == len(rows) or rows[number]["tid"] != row["tid"] or rows[number]["ts_ns"] >= end
        phase = row["kind"] if row["kind"] in PHASES else ""
        step = -1 if row["step"] is None else row["step"]
        calls.append(WatchedCall(row["name"], phase, row["tid"], step, row["ts_ns"], end, inner))
    return calls
