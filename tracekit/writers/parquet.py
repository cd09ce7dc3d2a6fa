"""Parquet archive: the table of a trace in one file that says itself what it is.

The file's table is EVENTS, so that DuckDB and pandas need to know nothing of us. TOTALS beside them are an Arrow IPC
stream in base64 in the metadata; a trace of totals alone has TOTALS as the file's table. Key-value metadata, all text:

    tracekit.schema    version of the schema, a decimal number
    tracekit.table     "events" or "totals": which of the two the file's table is
    tracekit.version   version of the program that wrote the file
    tracekit.run       JSON of Run: origin, names, for each source its path, size, SHA-256, tool and command
    tracekit.ledger    JSON list of the ledgers: what became of each record of each source
    tracekit.totals    base64 of the TOTALS, where the table is EVENTS and there are any
    tracekit.archive   JSON of what an archive knows of the file (id, run, date, tags), where it stands in one
    tracekit.check     JSON: data_bytes and data_crc32 of all bytes before the footer, facts_crc32 of the entries above
                       (their texts in the order of this list, one newline after each), rows of the table

The same rows give the same bytes, however they were cut into batches. Encodings: zstd, deltas for what grows steadily,
dictionaries for the rest: 9.97 bytes an event of a generated nvprof CSV.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from isal import isal_zlib

from tracekit import schema
from tracekit.trace import concat
from tracekit.writers._row_groups import compact, row_groups
from tracekit.writers.base import Stream, WriteOptions, Writer, Written, new_file
from tracekit.writers.json_text import facts_json

ROWS_PER_GROUP = 1 << 19
"""Dictionaries are written once a group: four times the rows save 2 % (and 150 MB more are in memory)."""
MOST_TOTALS_TEXT = 48 << 20
"""Readers of Parquet refuse a footer whose single text is longer than some 100 MB."""

ENCODINGS = {
    "ts_ns": "DELTA_BINARY_PACKED",
    "event_id": "DELTA_BINARY_PACKED",
    "correlation": "DELTA_BINARY_PACKED",
}
"""How columns are packed that grow steadily; all others as dictionaries.

Measured on a million rows of an nvprof CSV. BYTE_STREAM_SPLIT of durations, sizes and registers would save 0.3 bytes an
event more, but for integers it is of Parquet 2.11: DuckDB before 2.0 and Spark 3 refuse it, and an archive is for all.
"""
LEVEL = 9
"""Of zstd; half as slow again as 3 in this stage, 2 % smaller, read as fast."""
FACT_KEYS = (
    "tracekit.schema", "tracekit.table", "tracekit.version", "tracekit.run", "tracekit.ledger", "tracekit.totals",
    "tracekit.archive",
)  # fmt: skip
MAY_BE_MISSING = frozenset({"tracekit.totals", "tracekit.archive"})


class _Counted(io.RawIOBase):
    """Passes bytes on, and knows how many there were and their CRC-32."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.count = 0
        self.crc = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        self._file.write(view)
        self.crc = isal_zlib.crc32(view, self.crc)
        self.count += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self.count


def _write(stream: Stream, target: Path, options: WriteOptions) -> Written:
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
                first_ns = batch.column("ts_ns")[0].as_py() if first_ns is None else first_ns
                yield batch

    with new_file(target, force=options.force) as file:
        groups = row_groups(events(), ROWS_PER_GROUP)
        first = next(groups, None)
        summed = compact(concat(totals, schema.TOTALS)) if first is None and totals else None
        sink = _Counted(file)
        writer = _open(sink, schema.TOTALS if summed is not None else schema.EVENTS)
        try:
            if summed is not None:
                written.totals = summed.num_rows
                writer.write_table(summed, row_group_size=ROWS_PER_GROUP)
            while first is not None:
                writer.write_table(first, row_group_size=ROWS_PER_GROUP)
                first = next(groups, None)
            table, blob = ("totals", "") if summed is not None else ("events", _totals_text(totals, written))
            label = options.label(stream.run, first_ns) if options.label is not None else ""
            facts = _facts(stream, options, table, blob, label)
            rows = written.totals if summed is not None else written.events
            writer.add_key_value_metadata(facts | {"tracekit.check": _check(facts, sink, rows)})
            writer.close()
        finally:
            # After an error the writer must not try again to write its footer when it is collected.
            if writer.is_open:
                with suppress(Exception):
                    writer.close()
                writer.is_open = False
    return written


def _open(sink: _Counted, columns: pa.Schema) -> pq.ParquetWriter:
    packed = {name: how for name, how in ENCODINGS.items() if name in columns.names}
    return pq.ParquetWriter(
        sink,
        columns.remove_metadata(),
        compression="zstd",
        compression_level=LEVEL,
        use_dictionary=[name for name in columns.names if name not in packed],
        column_encoding=packed,
        write_statistics=True,
        write_page_checksum=True,
    )


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
            f"{rows:,} rows of totals are too large for the footer beside the events and were left out; "
            "an input that holds totals alone keeps them"
        )
        return ""
    written.totals = rows
    return text


def _facts(stream: Stream, options: WriteOptions, table: str, totals: str, label: str) -> dict[str, str]:
    texts = (
        str(schema.VERSION), table, options.version, facts_json(stream.run.to_json()),
        facts_json([ledger.to_json() for ledger in stream.ledgers]), totals, label,
    )  # fmt: skip
    return {key: text for key, text in zip(FACT_KEYS, texts, strict=True) if text or key not in MAY_BE_MISSING}


def _check(facts: dict[str, str], sink: _Counted, rows: int) -> str:
    crc = isal_zlib.crc32("".join(f"{text}\n" for text in facts.values()).encode())
    check = {"data_bytes": sink.count, "data_crc32": sink.crc, "facts_crc32": crc, "rows": rows}
    return json.dumps(check, separators=(",", ":"))


WRITER = Writer(
    name="parquet",
    title="tracekit archive (Parquet): events, totals, facts and ledgers in one file",
    suffixes=(".parquet",),
    write=_write,
    holds="both",
    fingerprint=True,
)
WRITERS_HERE: tuple[Writer, ...] = (WRITER,)
