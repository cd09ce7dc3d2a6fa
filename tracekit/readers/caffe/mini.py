"""Mini-Caffe's profiler (Profiler.dump): scopes as pairs B, E, in order of their ends.

    { "traceEvents": [ { "name": "net:conv1", "cat": "category", "ph": "B", "ts": 120, "pid": 0, "tid": 0 },
        { "name": "net:conv1", "cat": "category", "ph": "E", "ts": 310, "pid": 0, "tid": 0 },
        { "name": "net", "cat": "category", "ph": "B", "ts": 100, ... } ... ], "displayTimeUnit": "ms" }

A record is an element of the list. ts is whole µs since the profiler was made: no clock is stated. Each scope's B and E
are beside each other, inner scopes before outer ones, so the file is not in order of time. A name is the path
"outer:inner"; names are not escaped, so a quote in one breaks the JSON: such events are repaired, with a note.

Source of the facts: Mini-Caffe's profiler.cpp; no real file was at hand.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracekit.readers.base import ReadOptions, ReadResult
from tracekit.readers.trace_event.marks import PHASE

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["has_only_pairs", "read"]

NAME = "mini-caffe"
_CAT = rb'"cat"\s*:\s*"category"'


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events."""
    from tracekit.readers.trace_event.generic import read_generic
    from tracekit.readers.trace_event.look import Dialect

    return read_generic(source, options, ledger, Dialect(NAME, "Mini-Caffe profiler"))


def has_only_pairs(data: bytes) -> bool:
    """Return whether the head is an object whose events are all begins and ends of the one category."""
    phases = re.findall(PHASE, data)
    pairs = bool(phases) and all(phase.endswith((b'"B"', b'"E"')) for phase in phases)
    return pairs and data[:1] == b"{" and len(re.findall(_CAT, data)) >= max(len(phases) - 1, 1)
