r"""JSON Lines: one event a line, the schema's names, no nulls; jq and every JSON library read it line by line.

    {"tracekit":"events-jsonl","schema":1,"version":"0.1.0","run":{"origin_ns":null,"sources":[...],...}}
    {"table":"totals","source":0,"run":0,"section":"GPU activities","order":0,"name":"gemm","calls":48}
    {"ts_ns":120,"dur_ns":35,"event_id":7,"name":"gemm","kind":"kernel","source":0,"device":0,"args":{"x":1}}
    {"tracekit":"end","events":1,"totals":1,"run":{...},"ledger":[...]}

The first line is the header, with the facts known at the start. The last one has all facts, the ledgers, and the number
of lines of each table: a file without it was cut. Lines of TOTALS have "table":"totals", those of EVENTS have no
"table". Integers are exact (64 bits). `value` is a number, or "NaN", "Infinity", "-Infinity", which are not numbers in
JSON. `args` is the JSON object itself; a text that is not a JSON object on one line stays a JSON string. UTF-8, with
no more escapes than JSON requires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.writers.base import RowStream, WriteOptions, Writer, Written

if TYPE_CHECKING:
    from pathlib import Path


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows as they come."""
    from tracekit.writers import _jsonl

    return _jsonl.write(stream, target, options)


WRITER = Writer(
    name="jsonl",
    title="JSON Lines: one line for each event",
    suffixes=(".jsonl", ".jsonl.gz", ".jsonl.zst"),
    write=write,
    holds="both",
)
WRITERS_HERE: tuple[Writer, ...] = (WRITER,)
