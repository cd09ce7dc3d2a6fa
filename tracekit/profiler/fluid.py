"""`paddle.fluid.profiler` over tracekit's recorder: the same functions, defaults, errors and report.

    import tracekit.profiler.fluid as profiler

    with profiler.profiler("All", "total", "/tmp/profile"):
        for i in range(10):
            if i == 2:
                profiler.reset_profiler()            # the first iterations are not measured
            with tracekit.recorder.range("conv2d"):  # "conv2d/compute" would be a part of it
                ...

The ranges are those of `tracekit.recorder`, and of everything that records through it. The states GPU and All collect
kernels and copies through CUPTI where it is available. All also writes the profile proto, which Paddle's
tools/timeline.py reads. A second start, and a stop without a start, are silent. Ranges without an end are left out and
counted on stderr.
`cuda_profiler` comes from `tracekit.profiler.cuda`.

Source: python/paddle/fluid/profiler.py, Paddle 1.4 to 2.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tracekit.profiler._window import (
    Window,
    WindowRecording,
    begin_recording,
    error_text,
    print_note,
    save_windows,
    show,
)
from tracekit.profiler.cuda import cuda_profiler

if TYPE_CHECKING:
    from tracekit.model.trace import Trace

__all__ = ["cuda_profiler", "profiler", "reset_profiler", "start_profiler", "stop_profiler"]

# fluid's Profiling Report of a recording: the view and layout of `--compat fluid`, as Paddle 1.8 lays it out.
#
# The time of an event is its time on the host for the state CPU, the time of the GPU work launched in it for GPU, and
# the sum of both for All.


def report_text(trace: Trace, *, state: str, sorted_key: str, tracer_option: str) -> str:
    """Return the report(s) of the ranges of a trace that have both ends.

    state: CPU, GPU or All; sorted_key: default, calls, total, max, min or ave; tracer_option: Default, OpDetail or
    AllOpDetail. Raises: TracekitError.
    """
    from tracekit import pipeline
    from tracekit.views.base import ViewOptions

    for source in trace.run.sources:
        source.facts |= {"state": state, "layout": "1.8"}
    options = ViewOptions(compat="fluid", sorted_by=sorted_key, op_detail=tracer_option != "Default")
    return pipeline.render(pipeline.summary(trace, options=options), compat="fluid")


def unfinished(trace: Trace) -> int:
    """Return how many ranges have no end."""
    from tracekit.model import args

    return int(args.flags(trace.events.column("args"), "unfinished").sum())


STATES: Final = ("CPU", "GPU", "All")
TRACER_OPTIONS: Final = ("Default", "OpDetail", "AllOpDetail")
SORTED_KEYS: Final = ("default", "calls", "total", "max", "min", "ave")
PROFILE_PATH: Final = "/tmp/profile"


@dataclass(slots=True)
class _Running:
    """The profiler of the process: there is one, as upstream."""

    recording: WindowRecording | None = None
    state: str = ""
    tracer_option: str = ""


_RUNNING: Final = _Running()


def _begin() -> WindowRecording | None:
    return begin_recording("fluid", 0, gpu=_RUNNING.state != "CPU")


def start_profiler(state: str, tracer_option: str = "Default") -> None:
    """Begin to record. state: CPU, GPU or All; tracer_option: Default, OpDetail or AllOpDetail.

    It does nothing while the profiler runs.
    Raises: ValueError for another state or option.
    """
    if _RUNNING.recording is not None:
        return
    if state not in STATES:
        raise ValueError("The state must be 'CPU' or 'GPU' or 'All'.")
    if tracer_option not in TRACER_OPTIONS:
        raise ValueError("tracer option must be 'Default', 'OpDetail', 'AllOpDetail'.")
    _RUNNING.state, _RUNNING.tracer_option = state, tracer_option
    _RUNNING.recording = _begin()


def stop_profiler(sorted_key: str | None = None, profile_path: str = PROFILE_PATH) -> None:
    """End, and print the report. sorted_key: None (first end), calls, total, max, min or ave. Does nothing when none
    runs.

    With the state All the profile proto is written to `profile_path`; a failure is a note on stderr.
    Raises: ValueError for another key, and then it goes on.
    """
    recording = _RUNNING.recording
    if recording is None:
        return
    key = "default" if sorted_key is None else sorted_key
    if key not in SORTED_KEYS:
        raise ValueError("The sorted_key must be None or in 'calls', 'total', 'max', 'min' and 'ave'")
    _RUNNING.recording = None
    window = recording.stop(None)
    if window is None:
        return
    try:
        _print_report(window, key)
        if _RUNNING.state == "All":
            save_windows([window], profile_path, "fluid")
    except Exception as error:  # noqa: BLE001 - a report that cannot be made costs itself, not the program
        print_note(error_text(error))


def _print_report(window: Window, key: str) -> None:
    # FOLD

    trace = window.read()
    for remark in window.remarks:
        print_note(remark)
    if left_out := unfinished(trace):
        print_note(f"ranges without an end, left out of the report: {left_out:,}")
    show(report_text(trace, state=_RUNNING.state, sorted_key=key, tracer_option=_RUNNING.tracer_option))


def reset_profiler() -> None:
    """Forget all that `start_profiler` or `profiler` recorded so far; `cuda_profiler` keeps its own."""
    if _RUNNING.recording is not None:
        _RUNNING.recording.stop(None)
        _RUNNING.recording = _begin()


@contextmanager
def profiler(
    state: str, sorted_key: str | None = None, profile_path: str = PROFILE_PATH, tracer_option: str = "Default"
) -> Iterator[None]:
    """Record the block, then print the report: `start_profiler` and `stop_profiler`, also after an exception.

    Raises: ValueError as these do.
    """
    start_profiler(state, tracer_option)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)
