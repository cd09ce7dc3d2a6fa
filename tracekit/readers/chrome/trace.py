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
times of 2001 and later; else the clock is not stated.

Async work (b, e, S, F) has no tid in its column: its id and tid are in args. The format is described in "Trace Event
Format" (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU); how viewers pair was tried with
Perfetto v52.

Not supported: systemTraceEvents and samples (skipped with a note); stackFrames are facts where they are short.
"""

from __future__ import annotations

import re

from tracekit.options import OptionSpec
from tracekit.readers.base import Mark, Marks, Opened, Reader, ReadOptions, Strength
from tracekit.readers.chrome._own import OwnReading, own_facts
from tracekit.readers.chrome._producers import ASCEND, FLUID, TRACEKIT, VIZTRACER, dialect_of
from tracekit.readers.source import Source
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.events import Reading
from tracekit.readers.trace_event.generic import ChromeReading
from tracekit.readers.trace_event.look import Dialect
from tracekit.trace import Ledger

NAME = "chrome-trace"
_OURS = re.compile(rb'\{"displayTimeUnit":"ns","traceEvents":\[')
"""Begin of a file of writers/chrome; its args may hold words of any other producer."""
_TEXT_TIME = re.compile(rb'"(ts|dur)"\s*:\s*"((?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?)"')
UNIT = OptionSpec(
    "time_unit_of_file", str, "", "Unit of the numbers of ts and dur. Without it the content decides.", ("us", "ns")
)
BEYOND_US = 4_500_000_000_000_000
"""Times of the year 2112 in µs are ns."""


def _read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    dialect = dialect_of(source.head().data)
    # Ascend writes times as text: as numbers, all events of a kind are read as one.
    rewrite = _as_numbers if dialect is ASCEND else None
    reading = events.begin(source, options, ledger, dialect.tool or "unknown (Chrome trace)", NAME, rewrite)
    if (own := own_facts(reading.facts)) is not None:
        reading.run.sources[0].facts["tool"] = TRACEKIT.tool
        return Opened(reading.run, OwnReading(reading, *own).batches(), False, (ledger,))
    first = events.first_time(source)
    per_unit = _unit(options, dialect, first, ledger)
    reading.run.origin_ns = _origin(reading, dialect, first * per_unit)
    return Opened(reading.run, ChromeReading(reading, dialect, per_unit).batches(), False, (ledger,))


def _as_numbers(text: bytes) -> bytes:
    return _TEXT_TIME.sub(rb'"\1":\2', text)


def _unit(options: ReadOptions, dialect: Dialect, first: int, ledger: Ledger) -> int:
    """Return ns of one unit of the file's times."""
    if unit := options.value(UNIT):
        return 1000 if unit == "us" else 1
    if dialect is FLUID or first > BEYOND_US:
        ledger.note(
            "ns-in-us", f"times are ns in the field of µs (timeline.py writes so); --option {UNIT.key}=us overrules"
        )
        return 1
    return 1000


def _origin(reading: Reading, dialect: Dialect, first_ns: int) -> int | None:
    base = reading.facts.get("baseTimeNanoseconds")
    metadata = reading.facts.get("viztracer_metadata")
    if dialect is VIZTRACER and isinstance(metadata, dict):
        base = metadata.get("baseTimeNanoseconds")
    if isinstance(base, int) and not isinstance(base, bool) and 0 < base < 1 << 62:
        return base
    return 0 if first_ns >= events.EPOCH_FROM_US * 1000 else None


READER = Reader(
    name=NAME,
    title="Chrome trace (Trace Event format) of any producer",
    suffixes=(".json", ".json.gz", ".trace"),
    sniff=None,
    read=_read,
    options=(UNIT,),
    marks=Marks(json=(Mark(_OURS.match, Strength.FIRST_BYTES), Mark(lambda _: True, Strength.GRAMMAR))),
    record="event",
    trace_events=True,
)
