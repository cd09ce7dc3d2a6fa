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

from pathlib import Path

from tracekit.writers.base import RowStream, WriteOptions, Written
from tracekit.writers.chrome._rows import LineMaker
from tracekit.writers.gzipped import Sink
from tracekit.writers.tracks.arrows import PENDING_LAUNCHES
from tracekit.writers.tracks.batch import event_tables, explain_missing_rows
from tracekit.writers.tracks.output import file_facts, viewer_file
from tracekit.writers.tracks.texts import facts_text

__all__ = ["BATCH_ROWS", "MOST_EVENTS", "write"]

BATCH_ROWS = 32 << 10
"""Small batches are joined up to this many rows, because each batch has a fixed cost. Larger tables are a tenth faster,
but need 60 MB more memory."""
MOST_EVENTS = 1_000_000
MOST_BYTES = 250_000_000
"""chrome://tracing fails above 268 million characters (catapult issue 2826) or about a million events (issue 298)."""
EXACT_NS = 1000 << 43
"""A viewer's double holds every ns up to this time after the first event."""


class _Lines:
    """Writes the elements of traceEvents: lines that end with a comma and a newline, which the last one must not."""

    def __init__(self, file: Sink) -> None:
        self._file = file
        self._open = False
        self.size = 0

    def write(self, lines: bytes | memoryview) -> None:
        if self._open:
            self._file.write(b",\n")
        self._open = True
        self._file.write(memoryview(lines)[:-2])
        self.size += len(lines)


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write a stream as a Chrome trace, gzipped where the name ends with .gz.

    Raises: OutputExistsError, OutputError.
    """
    written = Written(target)
    with viewer_file(target, force=options.force, viewer="no viewer reads", suffix=".json") as out:
        size = _write(stream, out, options, written)
    if options.viewer == "chrome" and (written.events > MOST_EVENTS or size > MOST_BYTES):
        written.notes.append(
            f"{written.events:,} events in {size / 1e6:,.0f} MB: chrome://tracing fails above about a million events "
            "or 250 MB; ui.perfetto.dev takes more, and --step, --time or --name make the trace smaller"
        )
    return written


def _write(stream: RowStream, file: Sink, options: WriteOptions, written: Written) -> int:
    line_maker = LineMaker(stream.run, written, slices_only=options.viewer == "speedscope")
    file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
    lines = _Lines(file)
    for table in event_tables(stream.batches, written, BATCH_ROWS):
        for chunk in line_maker.chunks(table):
            lines.write(chunk)
    renamed = line_maker.headings.renamed()
    if renamed:
        lines.write("".join(renamed).encode())
    _add_notes(line_maker, written)
    base = (stream.run.origin_ns or 0) + (line_maker.loader.first_ns or 0)
    arrows = {"written": line_maker.launches.made, "without_launch": line_maker.launches.without}
    facts = file_facts(stream, options, line_maker.loader.lanes, written, arrows=arrows)
    end = f'\n],"baseTimeNanoseconds":{base},"tracekit":{facts_text(facts)}}}\n'
    file.write(end.encode())
    return lines.size + len(end)


def _add_notes(line_maker: LineMaker, written: Written) -> None:
    loader, launches = line_maker.loader, line_maker.launches
    notes = [
        (loader.moved, "slices overlap others of their lane: they are on extra lanes, numbered (2), (3) ..."),
        (
            loader.undrawn,
            "flow events are in the file, but not drawn: they have no partner, or no slice is before them",
        ),
        (loader.clamped, "slices have a negative duration: written as 0, with the value in args.dur_ns"),
        (
            launches.without if launches.launches else 0,
            f"device rows have no arrow: no launch with their correlation id among the {PENDING_LAUNCHES:,} before them"
            if launches.forgotten
            else "device rows have no arrow: no launch before them has their correlation id",
        ),
    ]
    written.notes += [f"{count:,} {text}" for count, text in notes if count]
    explain_missing_rows(written, not_finite="JSON has no number that is not finite")
    if loader.last_ns > EXACT_NS:
        written.notes.append(
            "the trace is longer than 101 days: the file has every ns, but viewers round its later times"
        )
