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
Device work of TensorFlow, ONNX Runtime, PyTorch before 1.8, Ascend's NPUs, rocprof, rocmProfileData, unitrace,
Triton's Proton and what Horovod does: `_producers`. Proton's ranges within kernels are in cycles of a GPU, which a
note says. A top-level baseTimeNanoseconds (VizTracer: in its metadata) makes the clock Unix time, as do times of 2001
and later; else the clock is not stated. A producer that the first 64 KiB do not show is looked for in the rest of the
file. Text pids with a label, "[TP01] 4711", name ranks.

Async work (b, e, S, F) has no tid in its column: its id and tid are in args. The format is described in "Trace Event
Format" (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU); how viewers pair was tried with
Perfetto v52.

Not supported: systemTraceEvents and samples (skipped with a note); stackFrames are facts where they are short.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress

from tracekit.errors import Option, sentence
from tracekit.model.trace import Ledger
from tracekit.readers.base import ReadOptions, ReadResult
from tracekit.readers.chrome._own import OwnReading, own_facts
from tracekit.readers.chrome._producers import ANY, ASCEND, FLUID, TRACEKIT, VIZTRACER, dialect_of
from tracekit.readers.chrome.marks import LATE, OURS, VIZTRACER_METADATA
from tracekit.readers.options import TIME_UNIT
from tracekit.readers.printed.late import text_around
from tracekit.readers.source import Source
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.events import EventReading
from tracekit.readers.trace_event.generic import ChromeReading
from tracekit.readers.trace_event.look import Dialect

__all__ = ["read"]

_TEXT_TIME = re.compile(rb'"(ts|dur)"\s*:\s*"((?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?)"')
_VIZTRACER = re.compile(VIZTRACER_METADATA + rb"\s*:\s*(\{[^{}]{0,900}\})")
BEYOND_US = 4_500_000_000_000_000
"""Times of the year 2112 in µs are ns."""


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events. Option `time_unit_of_file`: the unit of `ts` and `dur` where the file does not show it."""
    dialect = _dialect(source)
    # Ascend writes times as text: as numbers, all events of a kind are read as one.
    rewrite = _as_numbers if dialect is ASCEND else None
    reading = events.begin(source, options, ledger, dialect.tool or "unknown (Chrome trace)", "chrome-trace", rewrite)
    if (own := own_facts(reading.facts)) is not None:
        reading.run.sources[0].facts["tool"] = TRACEKIT.tool
        return ReadResult(reading.run, OwnReading(reading, *own).batches(), False, (ledger,))
    if dialect.lanes:
        events.look_for_names(reading, dialect.lanes)
    first = events.first_time(source)
    per_unit = _unit(options.value(TIME_UNIT), dialect, first, ledger)
    reading.run.origin_ns = _origin(reading, dialect, first * per_unit)
    return ReadResult(reading.run, ChromeReading(reading, dialect, per_unit).batches(), False, (ledger,))


def _dialect(source: Source) -> Dialect:
    """Return the producer that the file shows, in its head or behind it."""
    head = source.head().data
    found = dialect_of(head)
    return found if found is not ANY or re.match(OURS, head) else dialect_of(text_around(source, LATE))


def _as_numbers(text: bytes) -> bytes:
    return _TEXT_TIME.sub(rb'"\1":\2', text)


_AS_US = Option("option", "time_unit_of_file=us")


def _unit(unit: str, dialect: Dialect, first: int, ledger: Ledger) -> int:
    """Return ns of one unit of the file's times."""
    if unit:
        return 1000 if unit == "us" else 1
    if dialect is FLUID:
        ledger.note(
            "ns-in-us",
            sentence("times are ns in the field of µs (timeline.py writes so); ", _AS_US, " overrules"),
        )
        return 1
    if first > BEYOND_US:
        ledger.note(
            "ns-guessed",
            sentence(
                "the unit of times is a guess: they are read as ns, since as µs they would be beyond the year 2112; ",
                _AS_US,
                " overrules",
            ),
        )
        return 1
    return 1000


def _metadata(reading: EventReading) -> dict[str, object]:
    """Return VizTracer's metadata, {} where there are none: they are before the texts of the program's files."""
    found = reading.facts.get("viztracer_metadata")
    if found is None:
        source = reading.source
        text = source.head().data + b"\n" + text_around(source, [VIZTRACER_METADATA])
        if match := _VIZTRACER.search(text):
            with suppress(ValueError):
                found = reading.facts["viztracer_metadata"] = json.loads(match[1])
    return found if isinstance(found, dict) else {}


def _origin(reading: EventReading, dialect: Dialect, first_ns: int) -> int | None:
    base = reading.facts.get("baseTimeNanoseconds")
    metadata = _metadata(reading) if dialect is VIZTRACER else {}
    base = metadata.get("baseTimeNanoseconds", base)
    if isinstance(base, int) and not isinstance(base, bool) and 0 < base < 1 << 62:
        return base
    return 0 if first_ns >= events.EPOCH_FROM_US * 1000 else None
