"""speedscope profile: flame graphs of each thread and stream, for speedscope.app.

| a row | is written as |
|---|---|
| with a duration | a frame that opens and closes; below 0: as 0 |
| any other (marks, memory, flow events), and counters | not written: the format has no place for it |

Each thread and stream is a profile of the list, in order of display; its name begins with the process. Slices that
overlap in part are in profiles of their own, numbered (2), (3) ... Times are integer ns after the first event. A double
holds every ns for 104 days; from then on speedscope rounds. A frame is a name, and its kind in the place of the file
name, which speedscope shows behind the name. Args are not written. Slices of 0 ns are in the file, but speedscope does
not draw them.

The object `tracekit` at the top level has version, clock, sources, lanes (each with the place of its profile in the
list), ledgers and the number of rows that were not written: marks, counters, rows that end 146 years after the first
event, totals.

Tested with speedscope 1.25. The format is https://www.speedscope.app/file-format-schema.json, evented profiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.writers.base import RowStream, WriteOptions, Writer, Written

if TYPE_CHECKING:
    from pathlib import Path


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows by track, once all have come."""
    from tracekit.writers.speedscope import _profile

    return _profile.write(stream, target, options)


WRITER = Writer(
    "speedscope",
    "speedscope profile (speedscope.app)",
    (".speedscope.json", ".speedscope.json.gz"),
    write,
    names_only=True,
)
WRITERS_HERE = (WRITER,)
