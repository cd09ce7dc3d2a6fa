"""Firefox profile: the processed profile format of profiler.firefox.com, whose marker chart shows a trace.

| a row | is written as |
|---|---|
| with a duration | an interval marker; below 0: as 0, the value in the field dur_ns |
| of kind counter, with a value | a value of a counter of its process |
| any other (marks, memory, flow events) | an instant marker |

Each thread and stream is a thread, each process and each device a process. Slices that overlap in part are on threads
of their own, numbered (2), (3) ... The kind is the category and the type of a marker, with a schema of its own. Columns
of numbers are fields; so are the members of args, as texts. Device, context and stream of device work are those of its
thread.

Times are ms after the first event, with exactly six decimals. A double holds every ns for 99 days; from then on viewers
round. Where the input states its clock, the profile starts at the Unix time of the first event. A counter is the sum of
the differences of its values: exact for integers up to 2^53. Its args are not written. Points of arrows are markers:
the viewer draws no arrows. There are no samples, so the call tree is empty.

The object `tracekit` at the top level has version, clock, sources, lanes, ledgers and the number of rows that were not
written: counters whose value is not finite, rows that end 146 years after the first event, totals.

Version 75 of the format; tested with the importer of @firefox-devtools/profiler-cli 0.10. The format is
docs-developer/CHANGELOG-formats.md and src/types/profile.ts in github.com/firefox-devtools/profiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.writers.base import RowStream, WriteOptions, Writer, Written

if TYPE_CHECKING:
    from pathlib import Path


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows by track, once all have come."""
    from tracekit.writers.firefox import _profile

    return _profile.write(stream, target, options)


WRITER = Writer(
    "firefox", "Firefox profile (profiler.firefox.com)", (".firefox.json.gz", ".firefox.json"), write, names_only=True
)
WRITERS_HERE = (WRITER,)
