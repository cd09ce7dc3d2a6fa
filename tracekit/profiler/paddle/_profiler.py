"""Paddle's Profiler: it follows the states of the steps, and records, exports and summarises windows."""

from __future__ import annotations

import datetime
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import Enum
from pathlib import Path
from typing import Final
from warnings import warn

from tracekit import recorder
from tracekit.profiler import _cupti
from tracekit.profiler._export import EXPORTS
from tracekit.profiler._window import LogFolder, NoteOnce, SharedLog, Window, WindowRecording, print_note, show
from tracekit.profiler.paddle import _tracer
from tracekit.profiler.paddle._benchmark import BENCHMARK, BenchmarkTiming, perf_text
from tracekit.profiler.paddle._record_event import RUNNING
from tracekit.profiler.paddle._result import ProfilerResult
from tracekit.profiler.paddle._summary import (
    TIME_UNITS,
    SortedKeys,
    SummaryRequest,
    SummaryView,
    summary_text,
    wanted_views,
)

# The steps that are recorded: the states of Paddle's profiler, and the functions from a step's number to its state.
#
# Source: python/paddle/profiler/profiler.py, Paddle 2.3 to 3.0.


class ProfilerState(Enum):
    """State of a step: closed, getting ready, recording, or recording as the last step of its window."""

    CLOSED = 0
    READY = 1
    RECORD = 2
    RECORD_AND_RETURN = 3


Scheduler = Callable[[int], ProfilerState]


def make_scheduler(*, closed: int, ready: int, record: int, repeat: int = 0, skip_first: int = 0) -> Scheduler:
    """Return the state of a step: skip_first closed ones, then rounds of `closed`, `ready` and `record` steps.

    repeat: rounds, 0 for ever. The last recorded step of a round is RECORD_AND_RETURN; with record=1 it is the only
    one. Warns when ready is 0. Raises: AssertionError for a negative number, or no step to record.

    >>> state = make_scheduler(closed=1, ready=1, record=2, repeat=1)
    >>> [state(step).name for step in range(5)]
    ['CLOSED', 'READY', 'RECORD', 'RECORD_AND_RETURN', 'CLOSED']
    """
    if not (closed >= 0 and ready >= 0 and record > 0 and repeat >= 0 and skip_first >= 0):
        raise AssertionError("Invalid profiler scheduler arguments")
    if ready == 0:
        warn(
            "Profiler will record data after enabling profiler immediately, "
            "some data collected at the beginning of profiling may be 'noisy' because of overhead.",
            stacklevel=2,
        )
    period = closed + ready + record

    def state_of(step: int) -> ProfilerState:
        if step < 0:
            raise AssertionError("step must be >= 0")
        if step < skip_first:
            return ProfilerState.CLOSED
        rounds, place = divmod(step - skip_first, period)
        if (repeat > 0 and rounds >= repeat) or place < closed:
            return ProfilerState.CLOSED
        if place < closed + ready:
            return ProfilerState.READY
        return ProfilerState.RECORD_AND_RETURN if place == period - 1 else ProfilerState.RECORD

    return state_of


def always(step: int) -> ProfilerState:  # noqa: ARG001 - as every scheduler
    """Return RECORD: the default scheduler."""
    return ProfilerState.RECORD


def scheduler_of(given: object) -> Scheduler:
    """Return the scheduler for a function, a half-open range (first, end) of steps, or None.

    Raises: AssertionError for a range that is not a pair, is empty, or ends before step 1.
    """
    if callable(given):
        return given
    if not isinstance(given, tuple | list):
        return always
    if len(given) != 2 or not given[1] > given[0]:
        raise AssertionError("scheduler as a range needs two numbers, the second larger than the first")
    first, end = max(given[0], 0), given[1]
    if first >= 1:
        return make_scheduler(closed=first - 1, ready=1, record=end - first, repeat=1)
    return make_scheduler(closed=0, ready=0, record=end - first, repeat=1)


class ProfilerTarget(Enum):
    """Target of a profiler: the program's own ranges (CPU), or the kernels and copies on GPUs too."""

    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM_DEVICE = 3


_note_once: Final = NoteOnce()


def supported_targets() -> list[ProfilerTarget]:
    """Return the targets that can be profiled here."""
    with_gpu = _cupti.is_available() or _tracer.sees_gpu()
    return [ProfilerTarget.CPU, ProfilerTarget.GPU] if with_gpu else [ProfilerTarget.CPU]


def export_chrome_tracing(dir_name: str, worker_name: str | None = None) -> Callable[[Profiler], None]:
    """Return a function for `on_trace_ready` that writes the newest window into `dir_name` as a Chrome trace.

    The file: `<worker>_time_<YYYY_MM_DD_HH_MM_SS_microseconds>.paddle_trace.json`, worker `host_<hostname>pid_<pid>`
    unless named. A child process writes it while the program goes on; `Profiler.stop` and the end of the program wait
    for it. An export that fails is a note on stderr. Raises: RuntimeError when the directory cannot be made.
    """
    return _exporter(dir_name, worker_name, "json")


def export_protobuf(dir_name: str, worker_name: str | None = None) -> Callable[[Profiler], None]:
    """Return a function for `on_trace_ready` as `export_chrome_tracing` does, for Paddle's protobuf (.pb)."""
    return _exporter(dir_name, worker_name, "pb")


def _exporter(dir_name: str, worker_name: str | None, format: str) -> Callable[[Profiler], None]:
    try:
        Path(dir_name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RuntimeError(f"Can not create directory '{dir_name}' for saving profiling results.") from error

    def export(profiler: Profiler) -> None:
        window = profiler.profiler_result
        if window is None:
            return
        worker = worker_name or f"host_{socket.gethostname()}pid_{os.getpid()}"
        now = datetime.datetime.now().strftime("%Y_%m_%d_%H_%M_%S_%f")
        path = Path(dir_name) / f"{worker}_time_{now}.paddle_trace.{format}"
        EXPORTS.add(window, path, format)

    return export


class Profiler:
    """Paddle's profiler; see the package. Keyword arguments as Paddle's.

    compat: "paddle" for Paddle's own figures, in the Perf Summary and in the tables. log_dir: folder that keeps the
    windows' logs; by default a temporary folder, removed with this object.
    """

    def __init__(
        self,
        *,
        targets: Iterable[ProfilerTarget] | None = None,
        scheduler: Scheduler | tuple[int, int] | list[int] | None = None,
        on_trace_ready: Callable[[Profiler], object] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        timer_only: bool = False,
        emit_nvtx: bool = False,  # noqa: ARG002 - a tool that listens always hears
        custom_device_types: Iterable[str] = (),
        with_flops: bool = False,
        compat: str = "",
        log_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        if compat not in ("", "paddle"):
            raise ValueError(f"compat {compat!r} is not '' or 'paddle'")
        self.targets = _targets(targets)
        self.scheduler = scheduler_of(scheduler)
        self.on_trace_ready = on_trace_ready or export_chrome_tracing("./profiler_log/")
        self.timer_only = timer_only
        self.record_shapes, self.profile_memory, self.with_flops = record_shapes, profile_memory, with_flops
        self.compat = compat
        self.step_num = 0
        self.previous_state = ProfilerState.CLOSED
        self.current_state = self.scheduler(0)
        self.windows: tuple[ProfilerResult, ...] = ()
        self._log_dir = log_dir
        self._folder: LogFolder | None = None
        self._timing: BenchmarkTiming | None = None
        self._recording: WindowRecording | None = None
        self._shared: SharedLog | None = None
        self._first_step = 0
        self._made = 0
        self._handles = False
        self._step: AbstractContextManager[object] | None = None
        self._started = False
        asked = {"record_shapes": record_shapes, "profile_memory": profile_memory, "with_flops": with_flops}
        for name in (name for name, value in asked.items() if value and not _tracer.loaded()):
            _note_once(f"{name} has no effect without Paddle: the recorder does not see what operators compute on")
        if list(custom_device_types):
            _note_once("custom_device_types has no effect: CPUs and CUDA devices are profiled")

    @property
    def profiler_result(self) -> ProfilerResult | None:
        """The newest window, None before the first."""
        return self.windows[-1] if self.windows else None

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(self, error: object, value: object, traceback: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with the step `step_num` (0 at first), in its state. Does nothing while it runs."""
        if self._started:
            return
        self._started = True
        self._ends = [recorder.on_batch(BENCHMARK.on_read), _tracer.time_loaders()]
        self._timing = BENCHMARK.begin()
        if self.timer_only:
            return
        RUNNING.add(self)
        self._hide_ranges = _tracer.show_python_ranges()
        if self.current_state in (ProfilerState.RECORD, ProfilerState.RECORD_AND_RETURN):
            self._begin_window()
        self._begin_step()

    def stop(self) -> None:
        """End: print the Perf Summary, hand a window that is being recorded to `on_trace_ready`, wait for its exports.

        Called again, it waits alone. Inside of `on_trace_ready` it does not wait. Steps after it record nothing.
        """
        if self._started:
            self._end()
        if not self._handles:
            EXPORTS.wait()

    def _end(self) -> None:
        self._started = False
        timing, self._timing = self._timing, None
        if timing is not None:
            BENCHMARK.end(timing)
            if BENCHMARK.current is None:
                for end in self._ends:
                    end()
            perf = timing.perf(self.compat)
            if perf is not None:
                show(perf_text(perf))
        if self.timer_only:
            return
        RUNNING.discard(self)
        self._hide_ranges()
        is_begun = self._step is not None
        self._end_step()
        if self.current_state is ProfilerState.READY:
            warn(
                "Improper Profiler state transform: READY->CLOSED, profiler will start and stop without saving data",
                stacklevel=3,
            )
        if not is_begun:  # inside of on_trace_ready, between two windows: the new one holds nothing yet
            self._drop_window()
        elif self._recording is not None:
            self._end_window(last_step=self.step_num)
            self._ready()

    def step(self, num_samples: float | None = None) -> None:
        """End a step and begin the next one. num_samples: samples of the step, for ips."""
        if not self._started:
            return
        timing = self._timing
        if timing is not None and BENCHMARK.current is timing:
            BENCHMARK.step(num_samples)
        if self.timer_only:
            return
        self._end_step()
        if self._recording is not None:
            self._recording.sample()
        self.previous_state = self.current_state
        self.step_num += 1
        self.current_state = self.scheduler(self.step_num)
        self._act()
        if self._started:
            self._begin_step()
        if timing is not None:
            BENCHMARK.resume(timing)

    def _act(self) -> None:
        """Follow the transition from the previous state to this one."""
        before, now = self.previous_state, self.current_state
        records = now in (ProfilerState.RECORD, ProfilerState.RECORD_AND_RETURN)
        if before is ProfilerState.READY and now is ProfilerState.CLOSED:
            warn("Improper schedule: READY->CLOSED, profiler will start and stop without saving data", stacklevel=3)
        elif before is ProfilerState.RECORD and not records:
            lost = "will not saving data" if now is ProfilerState.CLOSED else "will stop and re-prepare"
            warn(f"Improper schedule: RECORD->{now.name}, profiler {lost}", stacklevel=3)
            self._drop_window()
        elif before is ProfilerState.RECORD_AND_RETURN:
            self._end_window(last_step=self.step_num - 1)
            if records:
                self._begin_window()
            self._ready()
        elif before is not ProfilerState.RECORD and records:
            self._begin_window()

    def _ready(self) -> None:
        if self.on_trace_ready is not None and self.windows:
            self._handles = True
            try:
                self.on_trace_ready(self)
            finally:
                self._handles = False

    def _begin_step(self) -> None:
        if self._recording is not None:
            self._step = recorder.step(self.step_num, name=f"ProfileStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)

    def _begin_window(self) -> None:
        folder = self._folder_of_logs()
        if folder is None:
            return
        number = self._made
        stem = f"window{number}" if self._log_dir is None else f"window{number}-{id(self):x}"
        gpu = ProfilerTarget.GPU in self.targets
        by_paddle = gpu and _tracer.sees_gpu()
        shapes = self.record_shapes or self.with_flops
        tracer = _tracer.PaddleTracer(_tracer.TracerOptions(shapes=shapes, memory=self.profile_memory, gpu=by_paddle))
        recording = WindowRecording(
            folder, stem, number, gpu=gpu and not by_paddle, shared=self._shared, framework=tracer
        )
        if recording.start():
            self._made += 1
            self._recording = recording
            self._first_step = self.step_num
            self._shared = recording.shared

    def _end_window(self, *, last_step: int) -> None:
        recording, self._recording = self._recording, None
        window = recording.stop((self._first_step, last_step)) if recording is not None else None
        if window is not None:
            self.windows += (ProfilerResult.of(window),)

    def _drop_window(self) -> None:
        recording, self._recording = self._recording, None
        window = recording.stop(None) if recording is not None else None
        for log in window.logs if window is not None else ():
            log.unlink(missing_ok=True)

    def _folder_of_logs(self) -> LogFolder | None:
        if self._folder is None:
            try:
                self._folder = LogFolder(self._log_dir)
            except OSError as error:
                print_note(f"not recording: {error}")
        return self._folder

    def step_info(self, unit: str | None = None) -> str:
        """Return averages since the last call: " reader_cost: R s batch_cost: B s ips: I U/s", parts of 0 left out."""
        return self._timing.info(unit) if self._timing is not None else ""

    def export(self, path: str = "", format: str = "json") -> None:
        """Write the newest window: "json" a Chrome trace, "pb" Paddle's protobuf. Without a window it does nothing.

        Raises: ValueError for another format; TracekitError.
        """
        if format not in ("json", "pb"):
            raise ValueError(f"format {format!r} is not 'json' or 'pb'")
        window = self.profiler_result
        if window is not None:
            window.save(path, format)

    def summary(
        self,
        sorted_by: SortedKeys = SortedKeys.CPUTotal,
        op_detail: bool = True,
        thread_sep: bool = False,
        time_unit: str = "ms",
        views: SummaryView | Iterable[SummaryView] | None = None,
        window: int | str = -1,
    ) -> None:
        """Print the tables of a window: the newest, the one of a number, "each", or "all" as one.

        With compat="paddle" these are Paddle's own, and notes go to stderr. time_unit: s, ms, us or ns. Without a
        window it does nothing.
        Raises: ValueError, TypeError, IndexError for arguments that name nothing; TracekitError.
        """
        if time_unit not in TIME_UNITS:
            raise ValueError(f"time_unit {time_unit!r} is not one of {', '.join(TIME_UNITS)}")
        chosen = wanted_views(views)
        request = SummaryRequest(chosen, sorted_by, op_detail, thread_sep, time_unit, self.compat)
        for group in self._windows_of(window):
            text, notes = summary_text(group, request)
            show(text)
            for note in notes:
                print_note(note)

    def _windows_of(self, window: int | str) -> list[tuple[Window, ...]]:
        if isinstance(window, str) and window not in ("all", "each"):
            raise ValueError(f"window {window!r} is not a number, 'each' or 'all'")
        if not self.windows:
            return []
        if window == "all":
            return [self.windows]
        return [(one,) for one in self.windows] if isinstance(window, str) else [(self.windows[window],)]


def _targets(targets: Iterable[ProfilerTarget] | None) -> set[ProfilerTarget]:
    asked = list(targets or ())
    supported = supported_targets()
    for target in asked:
        if target not in supported:
            warn(f"Profiling {target} is not supported in current context.", stacklevel=3)
    return {target for target in asked if target in supported} if asked else set(supported)
