"""Parquet archive: the table of a trace in one file that describes itself.

The table of the file is EVENTS, so DuckDB and pandas read it without our help. TOTALS beside them are an Arrow IPC
stream in base64 in the metadata; a trace with only totals has TOTALS as the table of the file. Key-value metadata, all
text:

    tracekit.schema    version of the schema, a decimal number
    tracekit.table     "events" or "totals": the table of the file
    tracekit.version   version of the program that wrote the file
    tracekit.run       JSON of Run: origin, names, for each source its path, size, SHA-256, tool and command
    tracekit.ledger    JSON list of the ledgers: how many records of each source were kept, skipped or dropped
    tracekit.totals    base64 of the TOTALS, where the table is EVENTS and there are any
    tracekit.archive   JSON of the archive's entry for the file (id, run, date, tags), if the file is in an archive
    tracekit.check     JSON: data_bytes and data_crc32 of all bytes before the footer, facts_crc32 of the entries above
                       (their texts in the order of this list, one newline after each), rows of the table

The same rows give the same bytes, however they were cut into batches. Encodings: zstd, deltas for columns that grow
steadily, dictionaries for the rest: 9.97 bytes an event of a generated nvprof CSV.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.writers.base import RowStream, WriteOptions, Writer, Written

if TYPE_CHECKING:
    from pathlib import Path


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows as they come."""
    from tracekit.writers import _parquet

    return _parquet.write(stream, target, options)


WRITER = Writer(
    name="parquet",
    title="tracekit archive (Parquet): events, totals, facts and ledgers in one file",
    suffixes=(".parquet",),
    write=write,
    holds="both",
    fingerprint=True,
    names_only=True,
)
WRITERS_HERE: tuple[Writer, ...] = (WRITER,)
