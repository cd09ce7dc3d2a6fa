"""Output formats of an answer: text, markdown, CSV (also for spreadsheets), JSON and Parquet. Times stay integer ns.

The unit of a column is in its name: `_ns` is a time, `_bytes` a size, `_ratio` a share of 1. A number that a format
cannot store exactly (decimals, integers beyond 64 bits) keeps its digits as text. Dates and times are ISO 8601. Lists,
structs and maps are JSON. NaN and infinity are words, since a gap would be read as null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from tracekit import pipeline
from tracekit._version import __version__
from tracekit.errors import TracekitError, UsageError
from tracekit.model.arrow import Column as ArrowColumn
from tracekit.model.arrow import pc
from tracekit.model.display import cell_text
from tracekit.model.report import Column, Report, ReportTable, Section
from tracekit.model.trace import Ledger
from tracekit.model.units import Unit
from tracekit.queries._cells import cells, to_json, values
from tracekit.queries._tables import ArrowField
from tracekit.render.base import RenderOptions
from tracekit.render.csv import exact_line
from tracekit.safety.anonymize import masked_rows

FORMS = ("text", "markdown", "csv", "spreadsheet", "json", "parquet")
_AS_TEXT = "CAST it AS VARCHAR"
_SUFFIXES = (("_ns", Unit.NS), ("_bytes", Unit.BYTES))


def plain(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return the same rows with common types: no dictionaries, and sums of integers as int64 if they fit.

    DuckDB's sum of integers has 128 bits (a decimal in Arrow). The first batch decides whether it fits: a later batch
    that does not fit raises TracekitError.
    """
    first = next(iter(reader), None)
    # By number: two columns of an answer may have the same name.
    schema = pa.schema([pa.field(f.name, _plain_type(f, number, first)) for number, f in enumerate(reader.schema)])
    return pa.RecordBatchReader.from_batches(schema, _cast(first, reader, schema))


def _plain_type(field: ArrowField, number: int, first: pa.RecordBatch | None) -> pa.DataType:
    kind = field.type
    if isinstance(kind, pa.DictionaryType):
        values: pa.DataType = kind.value_type
        return values
    if _scale(kind) == 0 and (first is None or _fits(first.column(number))):
        return pa.int64()
    return kind


def _scale(kind: pa.DataType) -> int | None:
    """Return the decimal places of a decimal type, None for another type."""
    return kind.scale if isinstance(kind, (pa.Decimal128Type, pa.Decimal256Type)) else None


def _fits(column: ArrowColumn) -> bool:
    if column.null_count == len(column):
        return True
    bounds = pc.min_max(column).as_py()
    return int(bounds["min"]) >= -(1 << 63) and int(bounds["max"]) < 1 << 63


def _cast(first: pa.RecordBatch | None, rest: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if first is None:
        return
    yield _as(first, schema)
    for batch in rest:
        yield _as(batch, schema)


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowInvalid as err:
            raise TracekitError(
                f"column {field.name}: a value does not fit into 64 bits, unlike the first ones",
                hint=f"CAST({field.name} AS VARCHAR) keeps all digits",
            ) from err
    # Files of an archive are scanned in place, also files of older versions that have credentials in them.
    return masked_rows(pa.RecordBatch.from_arrays(columns, schema=schema))


def unit_of(name: str, kind: pa.DataType) -> Unit:
    """Return the unit of a column of an answer, by its name and type."""
    if _scale(kind):
        return Unit.TEXT
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return next((unit for suffix, unit in _SUFFIXES if name.endswith(suffix)), Unit.ID)
    if pa.types.is_floating(kind):
        return Unit.RATIO if name.endswith("_ratio") else Unit.NUMBER
    return Unit.TEXT


def render(table: pa.Table, form: str, options: RenderOptions) -> str:
    """Return an answer as text or markdown. Raises: UsageError for an unknown unit of time."""
    columns = tuple(
        Column(name, name, unit_of(name, column.type), cells(column))
        for name, column in zip(table.schema.names, table.columns, strict=True)
    )
    title = f"{table.num_rows:,} {'row' if table.num_rows == 1 else 'rows'}"
    report = Report(
        "answer", __version__, (), (Section("query", title, (ReportTable("answer", title, columns, ordered=True),)),)
    )
    return pipeline.render(report, form, options)


def write(reader: pa.RecordBatchReader, form: str, file: BinaryIO, ledgers: Sequence[Ledger] = ()) -> int:
    """Write the rows as csv, spreadsheet, json or parquet, a batch at a time, and return how many there were."""
    return {"csv": _csv, "spreadsheet": _spreadsheet, "json": _json_rows, "parquet": _parquet}[form](
        reader, file, ledgers
    )


def _csv(reader: pa.RecordBatchReader, file: BinaryIO, _: Sequence[Ledger]) -> int:
    """Write RFC 4180 with one header. Null is an empty field; an empty text is quoted."""
    return _lines(reader, file, str)


def _spreadsheet(reader: pa.RecordBatchReader, file: BinaryIO, _: Sequence[Ledger]) -> int:
    """Write csv in which no cell is a formula."""
    return _lines(reader, file, cell_text)


def _lines(reader: pa.RecordBatchReader, file: BinaryIO, text_of: Callable[[str], str]) -> int:
    file.write(exact_line(reader.schema.names, text_of).encode())
    rows = 0
    for batch in reader:
        columns = [cells(column) for column in batch.columns]
        file.writelines(exact_line(row, text_of).encode("utf-8", "replace") for row in zip(*columns, strict=True))
        rows += batch.num_rows
    return rows


def _json_rows(reader: pa.RecordBatchReader, file: BinaryIO, ledgers: Sequence[Ledger]) -> int:
    """Write `{"tracekit", "columns": [{"name", "type", "unit"}], "rows": [[...]], "ledger": [...]}`, one row a line."""
    columns = [
        {"name": field.name, "type": str(field.type), "unit": str(unit_of(field.name, field.type))}
        for field in reader.schema
    ]
    head = f'{{"tracekit": {json.dumps(__version__)},\n "columns": {json.dumps(columns)},\n "rows": ['
    file.write(head.encode())
    rows = 0
    for batch in reader:
        for row in zip(*(values(column) for column in batch.columns), strict=True):
            line = json.dumps(to_json(list(row)), ensure_ascii=False)
            file.write(f"{',' if rows else ''}\n  {line}".encode())
            rows += 1
    ledger = json.dumps([each.to_json() for each in ledgers])
    file.write(f'],\n "ledger": {ledger}}}\n'.encode())
    return rows


def _parquet(reader: pa.RecordBatchReader, file: BinaryIO, _: Sequence[Ledger]) -> int:
    rows = 0
    repeated = sorted({name for name in reader.schema.names if reader.schema.names.count(name) > 1})
    if repeated:
        raise UsageError(
            f"two columns of the answer have the name {repeated[0]}, but Parquet needs different names",
            hint="rename one with AS",
        )
    # Parquet has no seconds. pyarrow 21 makes milliseconds of them without a look at overflow; a cast looks.
    seconds = {
        number: pa.timestamp("ms", field.type.tz)
        for number, field in enumerate(reader.schema)
        if pa.types.is_timestamp(field.type) and field.type.unit == "s"
    }
    schema = reader.schema
    for number, kind in seconds.items():
        schema = schema.set(number, schema.field(number).with_type(kind))
    try:
        made = pq.ParquetWriter(file, schema, compression="zstd")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as err:
        types = ", ".join(f"{field.name} is {field.type}" for field in reader.schema)
        raise UsageError(f"Parquet has no type for a column of the answer: {types}", hint=_AS_TEXT) from err
    with made as out:
        for batch in reader:
            try:
                for number, kind in seconds.items():
                    batch = batch.set_column(number, schema.field(number), batch.column(number).cast(kind))
                out.write_batch(batch)
            except pa.ArrowInvalid as err:
                raise TracekitError(f"Parquet cannot hold a value of the answer ({err})", hint=_AS_TEXT) from err
            rows += batch.num_rows
    return rows
