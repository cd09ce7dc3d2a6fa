"""Checks of an archive that is scanned in place, by the code that reads it: an untrusted file may lie."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.errors import ParseError, first_line
from tracekit.model import schema
from tracekit.model.trace import Ledger
from tracekit.readers.archive import parquet as _parquet
from tracekit.readers.base import ReadOptions
from tracekit.readers.source import open_source

__all__ = ["check_footer", "check_rows"]


def check_rows(name: str) -> None:
    """Check the bytes and every row of a file as reading it does. Raises: TracekitError."""
    ledger = Ledger(path=name, format="parquet")
    with open_source(name) as source:
        for _ in _parquet.read(source, ReadOptions(), ledger).batches:
            pass


def check_footer(name: str, file: pa.NativeFile) -> tuple[int, bool]:
    """Check facts, number of rows and columns. Return the number, and whether the types are those of the schema.

    Raises: ParseError where they are not as they were written, UnsupportedVersionError.
    """
    try:
        parquet = pq.ParquetFile(file)
        texts = {k.decode(): v for k, v in (parquet.metadata.metadata or {}).items() if k.startswith(b"tracekit.")}
        table = texts["tracekit.table"].decode()
        want = {"events": schema.EVENTS, "totals": schema.TOTALS}[table]
    except _parquet.BAD as err:
        raise ParseError(name, "footer", f"it cannot be read ({first_line(err)})", hint=_parquet.HINT) from err
    _parquet.check_facts(name, texts)
    _parquet.check_number(name, parquet, texts)
    _parquet.check_columns(name, parquet.schema_arrow.names, table)
    return parquet.metadata.num_rows, all(parquet.schema_arrow.field(field.name).type == field.type for field in want)
