"""Windows: the recording of a face from a start to a stop, as files that tracekit reads.

A window has a log of its own. Where the program already records (TRACEKIT_LOG, `recorder.start`), that recording goes
on. Then the window's log is the part of that log between the two moments, with the lines that define names and threads.
A range that was open when the window began is not in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from tracekit import recorder
from tracekit.profiler import _cupti
from tracekit.profiler._cpu import CpuReading, CpuUse, read_cpu, use_between
from tracekit.profiler._gpu_rows import write_rows
from tracekit.profiler._notes import NoteOnce, print_note
from tracekit.recorder import log_format

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.trace import Trace

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
    import numpy as np
    import pyarrow as pa

    from tracekit.columns import arrow

    names = defaultdict(str, {ledger.source: Path(ledger.path).name for ledger in trace.ledgers})
    source = trace.events.column("source").to_numpy().copy()
    pid = arrow.ints(trace.events.column("pid"), -1)
    pids = {int(number): set(pid[source == number].tolist()) for number in np.unique(source).tolist()}
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
        at = events.schema.get_field_index(name)
        events = events.set_column(at, events.schema.field(at), values)
    return replace(trace, events=events, run=replace(trace.run, devices=devices))


def _steps_of_calls(events: pa.Table) -> pa.Int32Array:
    """Return the column `step`: of the calls that other files have, the step of the log in which they start."""
    import numpy as np
    import pyarrow as pa

    from tracekit.columns import arrow

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
