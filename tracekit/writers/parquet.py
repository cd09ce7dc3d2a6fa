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

import base64
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from isal import isal_zlib

from tracekit.model import arrow, schema
from tracekit.model.arrow import Column
from tracekit.model.tables import compact_texts
from tracekit.model.trace import concat
from tracekit.writers.base import RowStream, WriteOptions, Written, new_file
from tracekit.writers.json_text import facts_json

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["MOST_TOTALS_TEXT", "ROWS_PER_GROUP", "compact", "write"]

# Batches of any size become groups of a fixed number of rows, whose dictionaries hold only the texts in use.


def compact(table: pa.Table) -> pa.Table:
    """Return the same rows in one chunk, with the dictionaries that these rows need, in order of first use.

    The bytes of a file then depend on its rows alone, not on how a reader cut its batches.
    """
    if not table.num_rows:
        return table
    one = table.unify_dictionaries().combine_chunks()
    columns: list[Column] = []
    for column in one.columns:
        array: Column = column.chunks[0]
        if pa.types.is_dictionary(array.type):
            array = compact_texts(arrow.encoded(array))
        columns.append(array)
    return pa.Table.from_arrays(columns, schema=one.schema)


def row_groups(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Yield the rows in tables of exactly `rows` rows, the last one shorter."""
    pending: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        start = 0
        while count + batch.num_rows - start >= rows:
            take = rows - count
            pending.append(batch.slice(start, take))
            yield compact(pa.Table.from_batches(pending))
            pending, count, start = [], 0, start + take
        if start < batch.num_rows:
            pending.append(batch.slice(start))
            count += batch.num_rows - start
    if count:
        yield compact(pa.Table.from_batches(pending))


ROWS_PER_GROUP = 1 << 19
"""Dictionaries are written once for each group: four times the rows would save 2 %, with 150 MB more memory."""
MOST_TOTALS_TEXT = 48 << 20
"""Most base64 text of TOTALS: readers of Parquet refuse a footer with a text longer than about 100 MB."""

ENCODINGS = {
    "ts_ns": "DELTA_BINARY_PACKED",
    "event_id": "DELTA_BINARY_PACKED",
    "correlation": "DELTA_BINARY_PACKED",
}
"""Encoding of the columns that grow steadily; all others are written as dictionaries.

Measured on a million rows of an nvprof CSV. BYTE_STREAM_SPLIT of durations, sizes and registers would save 0.3 bytes an
event more. For integers it needs Parquet 2.11, which DuckDB before 2.0 and Spark 3 do not read.
"""
LEVEL = 9
"""Level of zstd: 1.5 times the time of level 3 in this stage, 2 % smaller, read as fast."""
MAY_BE_MISSING = frozenset({"tracekit.totals", "tracekit.archive"})


class _CountedBytes(io.RawIOBase):
    """Passes bytes on, and keeps their number and their CRC-32."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.count = 0
        self.crc = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        view = memoryview(data)
        self._file.write(view)
        self.crc = isal_zlib.crc32(view, self.crc)
        self.count += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self.count


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows as they come, in groups of a fixed number of rows. Raises: OutputExistsError, OutputError."""
    written = Written(target)
    totals: list[pa.RecordBatch] = []
    first_ns: int | None = None

    def events() -> Iterator[pa.RecordBatch]:
        nonlocal first_ns
        for batch in stream.batches:
            if schema.is_totals(batch):
                totals.append(batch)
            elif batch.num_rows:
                written.events += batch.num_rows
                if first_ns is None:
                    first_ns = int(arrow.ints(batch.column("ts_ns").slice(0, 1))[0])
                yield batch

    with new_file(target, force=options.force) as file:
        # A file has one schema, that of its first row group: it is opened when the first rows are there.
        groups = row_groups(events(), ROWS_PER_GROUP)
        first = next(groups, None)
        only_totals = compact(concat(totals, schema.TOTALS)) if first is None and totals else None
        sink = _CountedBytes(file)
        writer = _open(sink, schema.TOTALS if only_totals is not None else schema.EVENTS)
        try:
            if only_totals is not None:
                written.totals = only_totals.num_rows
                writer.write_table(only_totals, row_group_size=ROWS_PER_GROUP)
            while first is not None:
                writer.write_table(first, row_group_size=ROWS_PER_GROUP)
                first = next(groups, None)
            table, blob = ("totals", "") if only_totals is not None else ("events", _totals_text(totals, written))
            label = options.label(stream.run, first_ns) if options.label is not None else ""
            facts = _facts(stream, options, table, blob, label)
            rows = written.totals if only_totals is not None else written.events
            writer.add_key_value_metadata(facts | {"tracekit.check": _check(facts, sink, rows)})
            writer.close()
        finally:
            # After an error the writer must not write its footer again when it is collected.
            if writer.is_open:
                with suppress(Exception):
                    writer.close()
                writer.is_open = False
    return written


def _open(sink: _CountedBytes, columns: pa.Schema) -> pq.ParquetWriter:
    packed = {name: how for name, how in ENCODINGS.items() if name in columns.names}
    untyped: Any = pq.ParquetWriter  # the stubs know no file of our own, and no list of dictionary columns
    writer: pq.ParquetWriter = untyped(
        sink,
        columns.remove_metadata(),
        compression="zstd",
        compression_level=LEVEL,
        use_dictionary=[name for name in columns.names if name not in packed],
        column_encoding=packed,
        write_statistics=True,
        write_page_checksum=True,
    )
    return writer


def _totals_text(totals: list[pa.RecordBatch], written: Written) -> str:
    """Return the TOTALS as base64 of an Arrow stream, "" when there are none."""
    rows = sum(batch.num_rows for batch in totals)
    if not rows:
        return ""
    table = compact(concat(totals, schema.TOTALS))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as out:
        out.write_table(table)
    text = base64.b64encode(sink.getvalue()).decode("ascii")
    if len(text) > MOST_TOTALS_TEXT:
        written.leave_out("totals-too-large", rows)
        written.notes.append(
            f"{rows:,} rows of totals were not written: they are too large for the footer of a file with events; "
            "convert an input with only totals to keep them"
        )
        return ""
    written.totals = rows
    return text


def _facts(stream: RowStream, options: WriteOptions, table: str, totals: str, label: str) -> dict[str, str]:
    facts = {
        "tracekit.schema": str(schema.VERSION),
        "tracekit.table": table,
        "tracekit.version": options.version,
        "tracekit.run": facts_json(stream.run.to_json()),
        "tracekit.ledger": facts_json([ledger.to_json() for ledger in stream.ledgers]),
        "tracekit.totals": totals,
        "tracekit.archive": label,
    }
    return {key: text for key, text in facts.items() if text or key not in MAY_BE_MISSING}


def _check(facts: dict[str, str], sink: _CountedBytes, rows: int) -> str:
    crc = isal_zlib.crc32("".join(f"{text}\n" for text in facts.values()).encode())
    check = {"data_bytes": sink.count, "data_crc32": sink.crc, "facts_crc32": crc, "rows": rows}
    return json.dumps(check, separators=(",", ":"))
