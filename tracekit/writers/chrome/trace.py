"""Chrome trace: the Trace Event format that Perfetto, chrome://tracing and speedscope read. Every ns is kept.

`ts` is µs after the first event, with exactly three decimals. A double then holds every ns for 101 days; Unix time
would be rounded to 256 ns. The top level has `displayTimeUnit` "ns", `traceEvents`, `baseTimeNanoseconds` (time of
ts 0 in ns: Unix time where the input states its clock, else the first event's own time), and `tracekit`, written last:
version, clock, sources, lanes, ledgers, arrows and the number of rows that were not written.

| a row | is written as |
|---|---|
| with a duration | `X`; below 0: as 0, the value in args.dur_ns |
| of kind counter, with a value | `C`, the value under args.value, all other args in `tracekit` beside args |
| with a duration, without tid, "id" in its args | `b` and `e` with an id of our own |
| of kind flow, args.ph "s", "t" or "f" | that point, where Perfetto draws it; else `c`, which no viewer draws |
| any other (marks, memory) | `i`: s "t", or "p" where neither thread nor device is known |

Not written: counters whose value is not finite, rows that end 146 years after the first event, totals.

`cat` is the kind, `name` the name ("", and args.name null, where there is none). args: device, context and stream of
device work (and of host rows that have them), tid of device rows, raw_name, copy_kind, correlation, step, bytes, grid
and block as [x, y, z] (grid_x ... where one is missing), registers, static_smem_bytes, dynamic_smem_bytes, value; then
the members of the row's own args. An args object that uses one of these keys, or is empty, is put under "args" as a
whole. A text that is not a JSON object is put under "args_text". Source, rank and real ids are in `tracekit.lanes`, by
the viewer's pid and tid. Lines keep the order of the rows; event_id is not written.

Arrows go from a runtime or driver call to the device rows of its (source, pid, correlation): "s" at the call's start,
"f" with bp "e" at the device row's (1 ns later where another slice of the track ends at that instant). Arrows of the
input keep their points, on the track of the lane where a slice is open, and get an id for each start.

Tested with Perfetto v52; the importers of catapult and speedscope were read. The format is
"Trace Event Format" (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.writers.base import RowStream, WriteOptions, Writer, Written

if TYPE_CHECKING:
    from pathlib import Path


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows as they come."""
    from tracekit.writers.chrome import _trace

    return _trace.write(stream, target, options)


WRITER = Writer(
    "chrome", "Chrome trace (Perfetto, chrome://tracing, speedscope)", (".json", ".json.gz"), write, names_only=True
)
WRITERS_HERE = (WRITER,)
