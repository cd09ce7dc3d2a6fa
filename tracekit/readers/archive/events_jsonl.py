r"""JSON Lines with the schema's names, as writers/jsonl.py gives them, or as anybody's script does.

    {"tracekit":"events-jsonl","schema":1,"version":"0.1.0","run":{...}}
    {"ts_ns":120,"dur_ns":35,"event_id":7,"name":"gemm","kind":"kernel","source":0,"device":0,"args":{"x":1}}
    {"tracekit":"end","events":1,"totals":0,"run":{...},"ledger":[...]}

A record is a line; an empty line is none. Lines of EVENTS and, with "table":"totals", of TOTALS are kept; the header
and the end line are facts; lines of NULs and blanks (a disk's padding) are ignored. A line that is no JSON object, or
whose values do not fit their columns, is dropped with its reason and costs itself alone.

Files of others need no header: `ts_ns` and `kind` are enough. Without `event_id` an event has its line's number,
without `source` it is of this input; a kind that is none of ours becomes "other"; it and every key that is no column
go into `args`. The ledgers of the conversion that made the file are facts of its sources ("archived_ledgers").

Not supported: several of our files joined by `cat` (name them all instead).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for our header, or an event with ts_ns and kind in the first line; MAYBE for a cut one."""
    from tracekit.readers.archive import _events_jsonl

    return _events_jsonl.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events and totals. Raises: ParseError, UnsupportedVersionError."""
    from tracekit.readers.archive import _events_jsonl

    return _events_jsonl.read(source, options, ledger)
