"""CSV for scripts, and for spreadsheets: the schema's columns, a header, RFC 4180 quotes, one newline a row.

    ts_ns,dur_ns,event_id,name,raw_name,kind,source,...,args
    120,35,7,"gemm",,"kernel",0,...,"{""x"":1}"

Every text is in quotes, also an empty one; an empty cell without quotes is null. Integers are whole ns and bytes.
`value` is the shortest decimal that reads back as the same float, or nan, inf, -inf. `args` is JSON in a cell. A trace
with only totals becomes a table of TOTALS. Totals beside events are not written, since one table cannot hold both.
The facts of the run are not in the file: Parquet and JSON Lines keep them.

The target `csv` writes names unchanged. A spreadsheet takes a name that begins with = + - or @ for a formula: the
target `spreadsheet` puts an apostrophe in front of such a text (also behind a semicolon), and shows control characters
as escapes. Its files are for people, and are not read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from tracekit.model import arrow, schema
from tracekit.model.display import AS_TEXT, FORMULA, cell_text
from tracekit.writers.base import RowStream, WriteOptions, Written, new_file
from tracekit.writers.gzipped import Sink, compressed

__all__ = ["write", "write_for_spreadsheet"]


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows as they come."""
    return _write(stream, target, options, lambda batch: batch)


def write_for_spreadsheet(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows as they come, with no formula among the texts."""
    return _write(stream, target, options, without_formulas)


def _write(
    stream: RowStream, target: Path, options: WriteOptions, change: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Written:
    """Write the rows as they come, each batch changed before it becomes text."""
    written = Written(target)
    totals: list[pa.RecordBatch] = []
    with new_file(target, force=options.force) as file, compressed(file, target) as out:
        events = _events(stream.batches, totals)
        # Only the first event says which table the file holds: totals may come before it.
        first = next(events, None)
        if first is None and totals:
            written.totals = _table(out, schema.TOTALS, map(change, totals))
            return written
        written.events = _table(out, schema.EVENTS, map(change, chain([first] if first is not None else [], events)))
    if rows := sum(batch.num_rows for batch in totals):
        written.leave_out("totals-beside-events", rows)
        written.notes.append(
            f"{rows:,} rows of totals were not written: a CSV file holds one table; --to parquet keeps both"
        )
    return written


def _events(batches: Iterator[pa.RecordBatch], totals: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if schema.is_totals(batch):
            totals.append(batch)
        elif batch.num_rows:
            yield batch


def without_formulas(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with texts that a spreadsheet takes for text. Names are few; `args` is one JSON object a row."""
    columns: list[arrow.Column] = []
    for column in batch.columns:
        kind = column.type
        if isinstance(kind, pa.DictionaryType):
            encoded = arrow.encoded(column)
            texts = [None if text is None else cell_text(text) for text in encoded.dictionary.to_pylist()]
            column = pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, kind.value_type))
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            column = arrow.pc.replace_substring_regex(column, pattern=FORMULA, replacement=AS_TEXT)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _table(out: Sink, columns: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """Write the header and the rows, and return the number of rows."""
    out.write(",".join(columns.names).encode() + b"\n")
    rows = 0
    for batch in batches:
        # No CSVWriter: after a full disk it would try to write once more when it is collected.
        block = pa.BufferOutputStream()
        pyarrow.csv.write_csv(batch, block, pyarrow.csv.WriteOptions(include_header=False, batch_size=1 << 14))
        out.write(memoryview(block.getvalue()))
        rows += batch.num_rows
    return rows
