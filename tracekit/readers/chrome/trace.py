"""Chrome traces of any producer: the Trace Event format, as an array or an object, sorted or not, whole or torn.

    {"traceEvents": [ {"name": "f", "cat": "c", "ph": "B", "ts": 10.5, "pid": 1, "tid": 2, "args": {"x": 1}},
      {"ph": "E", "ts": 12, "pid": 1, "tid": 2},
      {"name": "g", "ph": "X", "ts": 11, "dur": 0.5, "pid": 1, "tid": 2} ], "displayTimeUnit": "ms"}

A record is an element of the list. ts and dur are µs, taken into ns without binary floats. Kept: X; B and b with the E
and e that end them (merged; `pairs` has the rules); i, I, R, n and other moments as marks; C as
counters, a row for each series; s, t, f as rows of kind flow. Facts: M. Ignored: empty objects. Dropped: ends without
a begin, events without phase or time, what is no JSON.

Ranges are of kind user_range where nothing better is known; cat stays in args. Known producers: TensorFlow's timeline
(Op: operator), JAX and XLA (names with "$": python_op; other: other), VizTracer and py-spy (python_op), Paddle's
timeline.py, which writes ns into the field of µs (recognised by its process names, or by times beyond the year 2112;
`--option time_unit_of_file=us` or `ns` overrules), and tracekit's own traces, whose rows come back to their lanes.
Device work of TensorFlow, ONNX Runtime, PyTorch before 1.8, Ascend's NPUs, rocprof, rocmProfileData, unitrace and what
Horovod does: `_devices`. A top-level baseTimeNanoseconds (VizTracer: in its metadata) makes the clock Unix time, as do
times of 2001 and later; else the clock is not stated. A producer that the first 64 KiB do not show is looked for in the
rest of the file. Text pids with a label, "[TP01] 4711", name ranks.

Async work (b, e, S, F) has no tid in its column: its id and tid are in args. The format is described in "Trace Event
Format" (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU); how viewers pair was tried with
Perfetto v52.

Not supported: systemTraceEvents and samples (skipped with a note); stackFrames are facts where they are short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import ReadOptions, ReadResult
from tracekit.readers.options import TIME_UNIT

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events."""
    from tracekit.readers.chrome import _trace

    return _trace.read(source, options, ledger, unit=options.value(TIME_UNIT))
