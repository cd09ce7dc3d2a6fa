"""`paddle.profiler` over tracekit's recorder: the same names, states, errors and files, for any framework.

    import tracekit.profiler.paddle as profiler

    with profiler.Profiler(scheduler=(2, 10), on_trace_ready=profiler.export_chrome_tracing("./log")) as prof:
        for batch in loader:
            with profiler.RecordEvent("prepare"):
                batch = prepare(batch)
            loss = model(batch)
            prof.step(num_samples=len(batch))
    prof.summary()

Where the program uses Paddle, a window has what Paddle's own profiler shows: its data loaders, layers, backward passes,
optimizers and operators, with memory under `profile_memory=True`, and the timer has `reader_cost`. These come from
Paddle's own tracer (`_tracer`). Paddle allows one at a time: beside a Profiler of Paddle's own, a note says what is not
seen. For another framework, `tracekit.recorder.torch.watch` records the loop, and `tracekit.recorder.watch_loader`
times a loader. Importing this needs no framework.

What differs from Paddle, on purpose (docs/paddle.md has the whole list):

- All windows are kept: `prof.windows`; `summary(window="all")`, `window="each"` or a number.
- An unknown `time_unit` or `format` raises.
- The figures of the Perf Summary and of the tables are right; `compat="paddle"` prints Paddle's.
- A missing directory or a full disk costs the window, not the training.
- `export_chrome_tracing` and `export_protobuf` write in a child process, not inside of `step()`. `stop()` and the end
  of the program wait for it. An export that fails is a note on stderr; the window's logs are kept beside the target.
- What the profiler does inside of `step()`, `on_trace_ready` included, is in no batch cost.
- `stop()` may be called anywhere, also inside of `on_trace_ready`.
- Without Paddle, `record_shapes`, `profile_memory` and `with_flops` have no effect, and a note says so.
- NVTX ranges are sent whenever a tool listens, with and without `emit_nvtx`.

Source: python/paddle/profiler/profiler.py and utils.py, Paddle 2.3 to 3.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.profiler._window import Window
from tracekit.profiler.paddle._profiler import (
    Profiler,
    ProfilerState,
    ProfilerTarget,
    export_chrome_tracing,
    export_protobuf,
    make_scheduler,
    supported_targets,
)
from tracekit.profiler.paddle._record_event import RecordEvent, TracerEventType
from tracekit.profiler.paddle._result import ProfilerResult
from tracekit.profiler.paddle._summary import SortedKeys, SummaryView

if TYPE_CHECKING:
    from tracekit.profiler.paddle._loaded import LoadedResult

__all__ = [
    "Profiler",
    "ProfilerResult",
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


def load_profiler_result(filename: str) -> LoadedResult:
    """Return an exported file, or any other file that tracekit reads: a trace with the methods of Paddle's result.

    Raises: TracekitError.
    """
    from tracekit import pipeline
    from tracekit.profiler.paddle._loaded import LoadedResult

    return LoadedResult.of(pipeline.read(filename))
