"""Chrome trace: the Trace Event format as Perfetto, chrome://tracing and speedscope read it. Every ns is kept.

`ts` is µs after the first event, with exactly three decimals: a double holds every ns for 101 days then, while Unix
time would be rounded to 256 ns. The top level has `displayTimeUnit` "ns", `traceEvents`, `baseTimeNanoseconds` (time of
ts 0 in ns: Unix time where the input states its clock, else the first event's own time), and `tracekit`, written last:
version, clock, sources, lanes, ledgers, arrows and what was left out.

| a row | is written as |
|---|---|
| with a duration | `X`; below 0: as 0, the value in args.dur_ns |
| of kind counter, with a value | `C`, the value under args.value, all else in `tracekit` beside args |
| with a duration, without tid, "id" in its args | `b` and `e` with an id of our own |
| of kind flow, args.ph "s", "t" or "f" | that point, where a viewer can take it |
| else (marks, memory) | `i`: s "t", or "p" where neither thread nor device is known |

Left out: counters whose value is not finite, rows that end 146 years after the first, totals.

`cat` is the kind, `name` the name ("", and args.name null, where there is none). args: device, context and stream of
device work (and of host rows that have them), tid of device rows, raw_name, copy_kind, correlation, step, bytes, grid
and block as [x, y, z] (grid_x ... where one is missing), registers, static_smem_bytes, dynamic_smem_bytes, value; then
the members of the row's own args. Those stand whole under "args" when they use one of these keys or are empty, and as
text under "args_text" when they are no JSON object. Source, rank and real ids are in `tracekit.lanes`, by the viewer's
pid and tid. Lines keep the order of the rows; event_id is not written.

Arrows go from a runtime or driver call to the device rows of its (source, pid, correlation): "s" at the call's start,
"f" with bp "e" at the device row's (1 ns later where another slice of the track ends at that instant).

How viewers take it was tried with Perfetto v52 and read in catapult's and speedscope's importers; the format is
"Trace Event Format" (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from isal import igzip

from tracekit import schema
from tracekit.errors import OutputError
from tracekit.writers.base import Stream, WriteOptions, Writer, Written, new_file
from tracekit.writers.chrome._arrows import PENDING_LAUNCHES
from tracekit.writers.chrome._rows import Rows
from tracekit.writers.chrome._text import facts_text

BATCH_ROWS = 32 << 10
"""Small batches are joined up to this many rows: what a batch costs, however small, is then paid once for all. Larger
tables are a tenth faster, and cost 60 MB more of memory."""
MOST_EVENTS = 1_000_000
MOST_BYTES = 250_000_000
"""Where chrome://tracing fails: 268 million characters (catapult issue 2826), about a million events (issue 298)."""
EXACT_NS = 1000 << 43
"""Up to here after the first event a viewer's double has every ns."""


class _Lines:
    """The elements of traceEvents: lines that end with a comma and a newline; the last one must not."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._open = False
        self.size = 0

    def write(self, lines: Any) -> None:
        if self._open:
            self._file.write(b",\n")
        self._open = True
        self._file.write(memoryview(lines)[:-2])
        self.size += len(lines)


def _tables(batches: Iterator[pa.RecordBatch], written: Written) -> Iterator[pa.Table]:
    """Give EVENTS in tables of one chunk a column; totals have no place in a timeline."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if schema.is_totals(batch):
            written.leave_out("totals", batch.num_rows)
            continue
        if rows and rows + batch.num_rows > BATCH_ROWS:
            yield _joined(pending)
            pending, rows = [], 0
        for start in range(0, batch.num_rows, BATCH_ROWS):
            piece = batch.slice(start, BATCH_ROWS)
            if piece.num_rows == BATCH_ROWS:
                yield _joined([piece])
            else:
                pending.append(piece)
                rows += piece.num_rows
    if rows:
        yield _joined(pending)


def _joined(batches: list[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(batches)
    return table if len(batches) == 1 else table.unify_dictionaries().combine_chunks()


def write(stream: Stream, target: Path, options: WriteOptions) -> Written:
    """Write a stream as a Chrome trace, gzipped where the name ends with .gz.

    Raises: OutputExistsError, OutputError.
    """
    if target.name.lower().endswith(".zst"):
        raise OutputError(f"{target}: no viewer reads zstd", hint="name it .json or .json.gz")
    written = Written(target)
    with new_file(target, force=options.force) as file:
        if not target.name.lower().endswith(".gz"):
            size = _write(stream, file, options, written)
        else:
            with igzip.IGzipFile(filename="", mode="wb", fileobj=file, compresslevel=1, mtime=0) as packed:
                size = _write(stream, packed, options, written)
    if options.viewer == "chrome" and (written.events > MOST_EVENTS or size > MOST_BYTES):
        written.notes.append(
            f"{written.events:,} events in {size / 1e6:,.0f} MB: chrome://tracing fails above about a million events "
            "or 250 MB; ui.perfetto.dev takes more, and --step, --time or --name make the trace smaller"
        )
    return written


def _write(stream: Stream, file: BinaryIO | Any, options: WriteOptions, written: Written) -> int:
    rows = Rows(stream.run, written, slices_only=options.viewer == "speedscope")
    file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
    lines = _Lines(file)
    for table in _tables(stream.batches, written):
        for chunk in rows.chunks(table):
            lines.write(chunk)
    late = rows.loader.lanes.tell_late()
    if late:
        lines.write("".join(late).encode())
    _note(rows, written)
    base = (stream.run.origin_ns or 0) + (rows.loader.first_ns or 0)
    end = f'\n],"baseTimeNanoseconds":{base},"tracekit":{facts_text(_facts(stream, options, rows, written))}}}\n'
    file.write(end.encode())
    return lines.size + len(end)


def _note(rows: Rows, written: Written) -> None:
    loader, launches = rows.loader, rows.launches
    notes = [
        (loader.moved, "slices overlap others on their lane: they stand on extra lanes, numbered (2), (3) ..."),
        (loader.clamped, "slices have a negative duration: written as 0, the value is in args.dur_ns"),
        (
            launches.without if launches.launches else 0,
            f"device rows have no launch with their correlation id among the {PENDING_LAUNCHES:,} before them: no arrow"
            if launches.forgotten
            else "device rows have no launch before them with their correlation id: no arrow",
        ),
        (written.left_out.get("counter-not-finite", 0), "counter values are not finite: JSON has none, left out"),
        (written.left_out.get("beyond-what-viewers-hold", 0), "rows end beyond what a viewer can hold: left out"),
    ]
    written.notes += [f"{count:,} {text}" for count, text in notes if count]
    if loader.last_ns > EXACT_NS:
        written.notes.append("the trace is longer than 101 days: viewers round its later times, the file has every ns")


def _facts(stream: Stream, options: WriteOptions, rows: Rows, written: Written) -> dict[str, Any]:
    launches = rows.launches
    return {
        "version": options.version,
        "clock": "not stated" if stream.run.origin_ns is None else "unix epoch",
        "origin_ns": stream.run.origin_ns,
        "sources": [source.to_json() for source in stream.run.sources],
        "lanes": rows.loader.lanes.facts(),
        "arrows": {"written": launches.made, "without_launch": launches.without},
        "written": written.events,
        "left_out": dict(sorted(written.left_out.items())),
        "notes": list(written.notes),
        "ledger": [ledger.to_json() for ledger in stream.ledgers],
    }


WRITER = Writer("chrome", "Chrome trace (Perfetto, chrome://tracing, speedscope)", (".json", ".json.gz"), write)
WRITERS_HERE = (WRITER,)
