"""The JSONL log of tracekit's own recorder. Its specification is the docstring of recorder/log_format.py.

    {"format":"tracekit-log","version":1,"tracekit":"0.1.0","pid":4242,"rank":0,"perf_ns":...,"epoch_ns":...}
    {"k":"name","id":1,"name":"step","kind":"step"}
    {"k":"r","t":0,"x":[1,1000001000,2,1000002000,-2,1000009000]}

A record is an item of a line (a begin, an end, a mark, a counter, a step number), or a line of another kind; what
becomes of each is said there. `event_id` counts records from 1. Times stay the log's own: `ts_ns` is the process's
monotonic clock, and Run.origin_ns is what the first anchor says of it. How far the wall clock drifted from that is a
fact of the source. The kind of a name that is none of ours goes into `args`, as do category and colour; an async range
has no `tid`, its handle is `id` in `args`, beside the `tid` where it began. `"unfinished": true` marks a range whose
true end is unknown.

The step of an event is known only when all step lines have been read, since those of other threads may come later: a
first pass over the file takes them. Ranges are given when they have ended, so rows do not come by start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for a log, also behind damage; MAYBE where a header begins within a line."""
    from tracekit.readers.recorder_log import _reading

    return _reading.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events, in a second pass over the lines. Raises: ParseError, UnsupportedVersionError."""
    from tracekit.readers.recorder_log import _reading

    return _reading.read(source, options, ledger)
