"""speedscope: profiles in the file format of speedscope.app, which py-spy, rbspy, pyinstrument and others write.

    {"$schema": "https://www.speedscope.app/file-format-schema.json",
     "shared": {"frames": [{"name": "main", "file": "a.py", "line": 3}, ...]},
     "profiles": [{"type": "sampled", "name": "thread 1", "unit": "seconds", "samples": [[0, 1]], "weights": [0.01]}]}

A record is a sample, or an event of an evented profile (O opens a frame, C closes it). Each profile is a thread.
Samples become sums by stack: time where the unit is one, exact in decimal; else `value_avg` in the unit of the file
(bytes), or in samples where it is `none`. A sample without frames is idle time, and is skipped. `frames` in `args`
has the stack. A profile whose events do not nest, or that ends with a frame open, is refused as a whole.
Not supported: the order of the samples in time.
Sources: the schema of speedscope 1.20; files of speedscope and py-spy 0.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger

_WORD = "speedscope.app/file-format-schema"


def sniff(head: Head) -> Confidence:
    """Return YES for JSON that names the schema."""
    data = head.data
    found = data.lstrip()[:1] == b"{" and _WORD.encode() in data and (b'"profiles"' in data or b'"shared"' in data)
    return Confidence.YES if found else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals. Raises: ParseError for damaged JSON, or when no profile can be read."""
    from tracekit.readers.samples import _speedscope

    return _speedscope.read(source, options, ledger)
