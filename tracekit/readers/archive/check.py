"""Checks of an archive that is scanned in place, by the code that reads it: an untrusted file may lie."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.errors import ParseError, first_line
from tracekit.lazy_dataclass import dataclass
from tracekit.model import schema
from tracekit.model.trace import Ledger, Run
from tracekit.readers.archive import parquet as _parquet
from tracekit.readers.archive._conform import run_from_json
from tracekit.readers.base import ReadOptions
from tracekit.readers.source import open_source
from tracekit.safety.limits import in_force

__all__ = ["CheckedFile", "check_footer", "check_rows", "checked_file"]


def check_rows(name: str) -> None:
    """Check the bytes and every row of a file as reading it does. Raises: TracekitError."""
    ledger = Ledger(path=name, format="parquet")
    with open_source(name) as source:
        for _ in _parquet.read(source, ReadOptions(), ledger).batches:
            pass


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file as we wrote it, byte for byte. table: "events" or "totals". rows: of the table. has_totals: beside events.

    run: the facts of its sources.
    """

    table: str
    rows: int
    has_totals: bool
    run: Run


def checked_file(name: str) -> CheckedFile | None:
    """Return what a file of `convert` holds, after a check of all its bytes; None where only its reader may read it.

    Those are files that another program wrote, of another version, of an archive, and such as unpack to so much that
    the reader stops.
    Raises: ParseError for a damaged file.
    """
    try:
        file = pq.ParquetFile(name)
        texts = {k.decode(): v for k, v in (file.metadata.metadata or {}).items() if k.startswith(b"tracekit.")}
        size = Path(name).stat().st_size
    except (*_parquet.BAD, OSError):
        return None  # its reader says what it is
    rows = file.metadata.num_rows
    is_ours = "tracekit.check" in texts and texts.get("tracekit.schema") == str(schema.VERSION).encode()
    unpacked = sum(file.metadata.row_group(number).total_byte_size for number in range(file.num_row_groups))
    most = in_force().most_bytes(size, packed=True) or unpacked
    if not is_ours or "tracekit.archive" in texts or rows > size or unpacked > most:
        return None
    if _parquet.is_rewritten(name, Path(name), file, texts):
        return None
    with pa.OSFile(name, "rb") as opened:
        _, plain = check_footer(name, opened)
    if not plain:
        return None
    run = run_from_json(json.loads(texts["tracekit.run"]))
    return CheckedFile(texts["tracekit.table"].decode(), rows, "tracekit.totals" in texts, run)


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
