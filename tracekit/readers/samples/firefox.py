"""firefox: profiles of the Firefox Profiler, which samply, Firefox and its DevTools write (JSON, also gzip).

    {"meta": {"interval": 1, "preprocessedProfileVersion": 55, ...}, "threads": [{"name": "main",
     "samples": {"length": 2, "stack": [0, 1], "weight": [1, 1], ...}, "stackTable": {"prefix": [null, 0],
     "frame": [0, 1], ...}, "frameTable": {"func": [0, 1], ...}, "funcTable": {"name": [0, 1], ...}, ...}]}

A record is a sample or a marker of a thread. Processed profiles (all versions, `stringArray` of a thread or shared)
and the raw ones of Gecko (`schema` and `data`, child processes) are read, and exports of DevTools with the profile
inside. Samples become sums by thread and stack, by their weight: samples, ms (tracing-ms) or bytes. A sample without
a stack is idle. `frames` in `args` has the stack, the outermost frame first; `cpu_ns` in the facts the CPU time of
all samples, where the profile has it. Markers are counted and skipped.
Not supported: markers, counters, the order of the samples in time.
Sources: files of samply 0.12 and 0.13 and of Firefox 63 and 79; the types of firefox-devtools/profiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger

_RAW = (b'"stackTable"', b'"frameTable"', b'"stringTable"', b'"schema"')


def sniff(head: Head) -> Confidence:
    """Return YES for the tables of a profile, or the first members of one."""
    data = head.data
    if not head.text or data.lstrip()[:1] != b"{" or b'"traceEvents"' in data:
        return Confidence.NO
    if b'"preprocessedProfileVersion"' in data or all(word in data for word in _RAW):
        return Confidence.YES
    if b'"meta"' in data and b'"threads"' in data and b'"stackTable"' in data:
        return Confidence.YES
    if data.lstrip()[:9] == b'{"label":' and b'"markers":[' in data and b'"duration":' in data:
        return Confidence.YES
    return Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals. Raises: ParseError for damaged JSON, and for a profile without samples."""
    from tracekit.readers.samples import _firefox

    return _firefox.read(source, options, ledger)
