"""`paddle.profiler` over tracekit's recorder: the same names, states, errors and files, for any framework.

    import tracekit.profiler.paddle as profiler

    with profiler.Profiler(scheduler=(2, 10), on_trace_ready=profiler.export_chrome_tracing("./log")) as prof:
        for batch in watch_loader(loader):              # tracekit.recorder.watch_loader: reader_cost
            with profiler.RecordEvent("forward", profiler.TracerEventType.Forward):
                loss = model(batch)
            prof.step(num_samples=len(batch))
    prof.summary()

What differs from Paddle, on purpose:

- All windows are kept: `prof.windows`; `summary(window="all")`, `window="each"` or a number.
- An unknown `time_unit` or `format` raises.
- The figures of the Perf Summary and of the tables are right; `compat="paddle"` prints Paddle's.
- A missing directory or a full disk costs the window, not the training.
- `stop()` may be called anywhere, also inside of `on_trace_ready`.
- Operators of a framework are recorded only where something records them (`tracekit.recorder.torch.watch`). So
  `record_shapes`, `profile_memory` and `with_flops` have no effect, and a note says so.
- NVTX ranges are sent whenever a tool listens, with and without `emit_nvtx`.

Source: python/paddle/profiler/profiler.py and utils.py, Paddle 2.3 to 3.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.profiler._window import Window
from tracekit.profiler.paddle._profiler import (
    Profiler,
    ProfilerTarget,
    export_chrome_tracing,
    export_protobuf,
    supported_targets,
)
from tracekit.profiler.paddle._record_event import RecordEvent, TracerEventType
from tracekit.profiler.paddle._schedule import ProfilerState, make_scheduler
from tracekit.profiler.paddle._summary import SortedKeys, SummaryView

if TYPE_CHECKING:
    from tracekit.trace import Trace

__all__ = [
    "Profiler",
    "ProfilerState",
    "ProfilerTarget",
    "RecordEvent",
    "SortedKeys",
    "SummaryView",
    "TracerEventType",
    "Window",
    "export_chrome_tracing",
    "export_protobuf",
    "load_profiler_result",
    "make_scheduler",
    "supported_targets",
]


def load_profiler_result(filename: str) -> Trace:
    """Return the trace of an exported file, or of any other file that tracekit reads. Raises: TracekitError."""
    from tracekit import pipeline

    return pipeline.read(filename)
