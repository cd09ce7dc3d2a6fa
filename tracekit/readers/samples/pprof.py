"""pprof: profiles of Go, of gperftools and of other writers of profile.proto (`.pb.gz`).

    sample_type: {type: "cpu", unit: "nanoseconds"}   sample: {location_id: [3, 2, 1], value: [20000000]}
    location: {id: 1, line: {function_id: 1, line: 42}}   function: {id: 1, name: "main.main"}

A record is a sample. A sample may have several values: the one of `default_sample_type` is read, else the last. A note
names the others. A unit of time gives `total_ns`; any other gives `value_avg` in its unit. `frames` in `args` has the
stack, the outermost frame first; the lines of inlined functions are frames. A location without a function is its
mapping and address.
Not supported: labels, and the files of gperftools that are not protobuf.
Sources: profile.proto of google/pprof; profiles of Go and gperftools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger

_TAGS = b"\x0a\x12\x1a\x22\x2a\x32\x48\x50\x5a\x60\x70"
"""Tags of the fields of a profile, any of which may be the first."""


def sniff(head: Head) -> Confidence:
    """Return YES for a protobuf whose fields are those of profile.proto, as far as the head goes."""
    if not head.data or head.data[:1] not in _TAGS:
        return Confidence.NO
    from tracekit.readers.samples import _pprof

    return _pprof.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals. Raises: ParseError for damage, and for a profile without samples."""
    from tracekit.readers.samples import _pprof

    return _pprof.read(source, options, ledger)
