"""Perfetto trace: native TrackEvent protobuf for ui.perfetto.dev. Every ns is kept, at a fifth of the bytes of JSON.

| a row | is written as |
|---|---|
| with a duration | a slice; below 0: as 0, the value in the argument dur_ns |
| of kind counter, with a value | a value of a counter track of its process |
| of kind flow that Perfetto draws | a point of an arrow |
| any other (marks, memory) | an instant |

Each process and each device is a process of the viewer, each thread a thread, each stream a track. Slices that overlap
in part are on sibling tracks of one name, which Perfetto shows as one track of several rows. Work without a thread is
on a track of its process. An arrow leads from each launch to each of its device rows.

Category is the kind; arguments are those of the Chrome trace, but device, context and stream of device work are those
of its track. Time 0 is the first event; where the input states its clock, a clock snapshot has the Unix time of it.
Facts of the file (version, sources, lanes, ledgers) are a JSON text in its metadata: `cr-tracekit` under "Info and
stats".

Not written: flow events that Perfetto does not draw, counters whose value is not finite, rows that end 146 years
after the first event, totals.

Tested with Perfetto v52. The format is protos/perfetto/trace in github.com/google/perfetto.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.writers.base import RowStream, WriteOptions, Writer, Written

if TYPE_CHECKING:
    from pathlib import Path


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows as they come."""
    from tracekit.writers.perfetto import _trace

    return _trace.write(stream, target, options)


WRITER = Writer("perfetto", "Perfetto trace (ui.perfetto.dev)", (".pftrace", ".pftrace.gz"), write, names_only=True)
WRITERS_HERE = (WRITER,)
