"""Events of a Chrome trace of any producer: its dialect, its unit of time, and the batches."""

from __future__ import annotations

import re

from tracekit.readers.base import Opened, ReadOptions
from tracekit.readers.chrome._own import OwnReading, own_facts
from tracekit.readers.chrome._producers import ASCEND, FLUID, TRACEKIT, VIZTRACER, dialect_of
from tracekit.readers.source import Source
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.events import Reading
from tracekit.readers.trace_event.generic import ChromeReading
from tracekit.readers.trace_event.look import Dialect
from tracekit.trace import Ledger

_TEXT_TIME = re.compile(rb'"(ts|dur)"\s*:\s*"((?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?)"')
BEYOND_US = 4_500_000_000_000_000
"""Times of the year 2112 in µs are ns."""


def read(source: Source, options: ReadOptions, ledger: Ledger, *, unit: str) -> Opened:
    dialect = dialect_of(source.head().data)
    # Ascend writes times as text: as numbers, all events of a kind are read as one.
    rewrite = _as_numbers if dialect is ASCEND else None
    reading = events.begin(source, options, ledger, dialect.tool or "unknown (Chrome trace)", "chrome-trace", rewrite)
    if (own := own_facts(reading.facts)) is not None:
        reading.run.sources[0].facts["tool"] = TRACEKIT.tool
        return Opened(reading.run, OwnReading(reading, *own).batches(), False, (ledger,))
    first = events.first_time(source)
    per_unit = _unit(unit, dialect, first, ledger)
    reading.run.origin_ns = _origin(reading, dialect, first * per_unit)
    return Opened(reading.run, ChromeReading(reading, dialect, per_unit).batches(), False, (ledger,))


def _as_numbers(text: bytes) -> bytes:
    return _TEXT_TIME.sub(rb'"\1":\2', text)


def _unit(unit: str, dialect: Dialect, first: int, ledger: Ledger) -> int:
    """Return ns of one unit of the file's times."""
    if unit:
        return 1000 if unit == "us" else 1
    if dialect is FLUID or first > BEYOND_US:
        ledger.note(
            "ns-in-us",
            "times are ns in the field of µs (timeline.py writes so); --option time_unit_of_file=us overrules",
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
