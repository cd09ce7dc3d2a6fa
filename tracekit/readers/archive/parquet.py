"""Our own archive: Parquet with the schema, the facts and the ledgers in its metadata (written by writers/parquet.py).

    PAR1 ... row groups ... | footer: the columns of EVENTS, and texts under tracekit.schema, tracekit.run,
    tracekit.ledger, tracekit.totals, tracekit.check ... | length of the footer | PAR1

A record is a row of the table, and a row of the TOTALS in the metadata. Each is kept: a damaged file is refused as a
whole (checksums over all of it), never read in part. The ledgers of the conversion that made the archive are facts of
its sources ("archived_ledgers", oldest first). A file of `tracekit archive` (it has tracekit.archive) represents its
sources: their ledgers are `ReadResult.original`, so that a report made from it is the one made from them.

A file that another program wrote anew is read as it is, with a note; columns that it lost are null. Where our
metadata is lost too (DuckDB's COPY, pandas' to_parquet of a changed frame), our columns tell what it is, and the note
says what is not known any more: clock, names of devices and threads, facts of the sources, totals beside events.
Parquet of others is not read: `tracekit query` is no reader of any table.
Older versions of the schema are brought up to the present one; newer ones are refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from isal import isal_zlib

from tracekit.errors import InputError, ParseError, UnsupportedVersionError, first_line
from tracekit.lazy_dataclass import dataclass
from tracekit.model import schema
from tracekit.model.arrow import pc
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.archive._conform import conform, known_versions, renumbered, run_from_json, upgraded, with_ledgers
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import BATCH_ROWS
from tracekit.readers.head import Head
from tracekit.readers.source import Source

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["BAD", "HINT", "check_columns", "check_facts", "check_number", "is_rewritten", "read", "sniff"]

# A Parquet archive: the recognition, the checks, and the batches.


MAGIC = b"PAR1"
_FACTS = ("schema", "table", "version", "run", "ledger", "totals", "archive")
FACT_KEYS = tuple(f"tracekit.{name}" for name in _FACTS)
"""In the order in which their checksum is taken."""

BAD = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError)
"""Errors of pyarrow and of the conversions for damaged bytes."""

MOST_SOURCES = 10_000
HINT = "it is damaged: take it from a backup, or make it again from the original trace"


OWN_COLUMNS = {"events": ("ts_ns", "dur_ns", "kind"), "totals": ("section", "order", "total_ns", "kind")}
"""Columns by which a file without our metadata is recognised."""


def sniff(head: Head) -> Confidence:
    """Return YES for Parquet with our metadata or columns, or too long to see them."""
    if not head.data.startswith(MAGIC) or head.beside:  # a table of an export of Nsight Systems
        return Confidence.NO
    ours = b"tracekit.schema" in head.data or any(
        all(name.encode() in head.data for name in names) for names in OWN_COLUMNS.values()
    )
    return Confidence.YES if ours or not head.complete else Confidence.NO


@dataclass(frozen=True, slots=True)
class _Archive:
    """An opened file. rewritten: another program wrote the rows, so that our checksum does not hold."""

    name: str
    file: pq.ParquetFile
    table: str
    version: int
    totals: bytes
    rewritten: bool
    source: Source
    bare: bool = False
    """The metadata was lost."""


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events and totals. Raises: ParseError, UnsupportedVersionError."""
    path = source.plain_path()
    with _raw(source.name, path) as raw:
        if raw.read(len(MAGIC)) != MAGIC:
            raise ParseError(source.name, "byte 0", "no Parquet file: it does not begin with PAR1")
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        texts = {k.decode(): v for k, v in (file.metadata.metadata or {}).items() if k.startswith(b"tracekit.")}
    except BAD as err:
        raise ParseError(source.name, "", f"no readable Parquet file ({first_line(err)})", hint=HINT) from err
    if "tracekit.schema" not in texts and texts:
        raise ParseError(
            source.name, "footer", "the facts of this archive are there, but not tracekit.schema", hint=HINT
        )
    if not texts:
        return _read_bare(source, file, options, ledger)
    version = _version(source.name, texts["tracekit.schema"])
    rewritten = is_rewritten(source.name, path, file, texts)
    stands_for = "tracekit.archive" in texts and not rewritten
    try:
        run, table, ledgers = _facts(texts)
        if not stands_for:
            with_ledgers(run, ledgers, source.name, "parquet")
        original = tuple(map(Ledger.from_json, ledgers)) if stands_for else ()
        totals = base64.b64decode(texts.get("tracekit.totals", b""), validate=True)
    except BAD as err:
        raise ParseError(source.name, "footer", f"the facts cannot be read ({first_line(err)})", hint=HINT) from err
    if rewritten:
        ledger.note(
            "written-anew", "another program wrote this archive anew: its rows are read as they are, unverified"
        )
    for each in original:
        each.source += options.source
        each.strict = ledger.strict
    archive = _Archive(source.name, file, table, version, totals, rewritten, source)
    rows = _batches(archive, options, ledger)
    return ReadResult(renumbered(run, options.source), rows, True, (ledger,), original=original)


def _read_bare(source: Source, file: pq.ParquetFile, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Read what another program wrote without our metadata. Raises: ParseError where the columns are not ours."""
    name = source.name
    have = set(file.schema_arrow.names)
    table = next((table for table, names in OWN_COLUMNS.items() if have.issuperset(names)), "")
    if not table:
        reason = "a Parquet file, but no archive of tracekit: neither its metadata nor its columns are ours"
        raise ParseError(name, "", reason, hint="`tracekit convert TRACE -o archive.parquet` makes one")
    ledger.note(
        "facts-lost",
        "another program wrote this archive anew and lost its facts: the rows are read as they are, unverified; "
        "clock, names of devices and threads, the facts of the sources and totals beside events are not known",
    )
    try:
        last = _last_source(file)
    except BAD as err:
        raise ParseError(name, "column source", first_line(err), hint=HINT) from err
    if not 0 <= last <= MOST_SOURCES:
        raise ParseError(name, "column source", f"{last} is not the number of a source", hint=HINT)
    run = Run(sources=[SourceFacts(name, "parquet") for _ in range(last + 1)])
    archive = _Archive(name, file, table, schema.VERSION, b"", True, source, bare=True)
    return ReadResult(run, _batches(archive, options, ledger), True, (ledger,))


def _last_source(file: pq.ParquetFile) -> int:
    if "source" not in file.schema_arrow.names:
        return 0
    last = 0
    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=["source"]):
        last = max(last, pc.max(batch.column(0)).as_py() or 0)
    return last


def _version(name: str, text: bytes) -> int:
    try:
        version = int(text)
    except ValueError as err:
        raise ParseError(name, "footer", f"the version of the schema is {text[:20]!r}, no number", hint=HINT) from err
    if not 1 <= version <= schema.VERSION:
        hint = "a newer tracekit wrote this archive: pip install --upgrade tracekit-gpu"
        raise UnsupportedVersionError(name, str(version), known_versions(), hint=hint)
    return version


def _check(name: str, texts: Mapping[str, bytes]) -> dict[str, int]:
    """Return the numbers under which the writer left its checksums. Raises: ParseError."""
    try:
        found = json.loads(texts["tracekit.check"])
        return {key: int(found[key]) for key in ("data_bytes", "data_crc32", "facts_crc32", "rows")}
    except BAD as err:
        raise ParseError(name, "footer", "the checksums cannot be read", hint=HINT) from err


def check_facts(name: str, texts: Mapping[str, bytes]) -> None:
    """Raise ParseError where the facts in a footer do not match their checksum."""
    want = _check(name, texts)["facts_crc32"]
    if isal_zlib.crc32(b"".join(texts[key] + b"\n" for key in FACT_KEYS if key in texts)) != want:
        raise ParseError(name, "footer", "the facts do not match their checksum", hint=HINT)


def check_number(name: str, file: pq.ParquetFile, texts: Mapping[str, bytes]) -> None:
    """Raise ParseError where a file does not have the number of rows that was written."""
    rows = _check(name, texts)["rows"]
    if file.metadata.num_rows != rows:
        raise ParseError(name, "footer", f"it holds {file.metadata.num_rows} rows instead of {rows}", hint=HINT)


def check_columns(name: str, have: list[str], table: str) -> None:
    """Raise ParseError where a file of the present version does not have the columns of its table."""
    columns = [spec.name for spec in schema.describe(table)]
    if strange := [each for each in columns if each not in have] + sorted(set(have) - set(columns)):
        raise ParseError(name, "footer", f"column {strange[0]!r} is not as we wrote it", hint=HINT)


def is_rewritten(name: str, path: Path, file: pq.ParquetFile, texts: Mapping[str, bytes]) -> bool:
    """Return whether another program wrote the rows. Raises: ParseError when what we wrote is damaged."""
    check = _check(name, texts)
    check_facts(name, texts)
    with _raw(name, path) as raw:
        raw.seek(-8, 2)
        length = raw.tell() - struct.unpack("<I", raw.read(4))[0]
        if length != check["data_bytes"]:
            return True
        raw.seek(0)
        crc, left = 0, length
        while left and (chunk := raw.read(min(left, 1 << 20))):
            crc = isal_zlib.crc32(chunk, crc)
            left -= len(chunk)
    if left or crc != check["data_crc32"]:
        raise ParseError(name, f"the first {length} bytes", "they do not match their checksum", hint=HINT)
    check_number(name, file, texts)
    return False


def _raw(name: str, path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as err:  # it was there a moment ago: an archive may get a newer file in its place
        raise InputError(f"cannot be read ({err.strerror or err})", path=name) from err


def _facts(texts: Mapping[str, bytes]) -> tuple[Run, str, list[dict[str, object]]]:
    """Return the run, which table the file holds, and the ledgers of the conversion that made it."""
    run = run_from_json(json.loads(texts["tracekit.run"]))
    ledgers: list[dict[str, object]] = json.loads(texts["tracekit.ledger"])
    table = texts["tracekit.table"].decode()
    if table not in ("events", "totals"):
        raise ValueError(f"tracekit.table is {table!r}")
    return run, table, ledgers


def _batches(archive: _Archive, options: ReadOptions, ledger: Ledger) -> Iterator[pa.RecordBatch]:
    if archive.totals:
        try:
            stream = pa.ipc.open_stream(archive.totals)
            found = [_conformed(archive, "totals", batch, options) for batch in stream]
        except (*BAD, binascii.Error) as err:
            raise ParseError(archive.name, "footer", f"bad totals ({first_line(err)})", hint=HINT) from err
        for batch in found:
            yield _counted(batch, ledger)
    _tell_columns(archive, ledger)
    rows = held = 0
    source = archive.source
    size = source.size_bytes()
    most = source.limits.most_bytes(size, packed=True) or 0
    # pyarrow 19 raises where a file has no rows at all.
    batches = archive.file.iter_batches(batch_size=BATCH_ROWS) if archive.file.num_row_groups else iter(())
    while source.stopped is None:
        try:
            raw = next(batches, None)
            if raw is None:
                break
            held += raw.nbytes
            made = _conformed(archive, archive.table, raw, options, rows)
        except BAD as err:
            raise ParseError(archive.name, f"after row {rows}", first_line(err), hint=HINT) from err
        rows += made.num_rows
        yield _counted(made, ledger)
        if held > most and rows < archive.file.metadata.num_rows:
            source.stop(source.limits.at_most_bytes(size, most))
    if source.stopped is None and rows != archive.file.metadata.num_rows:
        raise ParseError(archive.name, f"after row {rows}", "the rows end before their number is reached", hint=HINT)


def _conformed(
    archive: _Archive, table: str, raw: pa.RecordBatch, options: ReadOptions, first: int = 0
) -> pa.RecordBatch:
    """Return rows of the schema. first: number of the first of them, for a file that lost its own numbers."""
    columns = dict(zip(raw.schema.names, raw.columns, strict=True))
    if archive.bare:
        for column, values in (("source", 0), ("run", 0), ("event_id", None), ("order", None)):
            if column not in columns:
                numbers = np.arange(first, first + raw.num_rows) if values is None else np.zeros(raw.num_rows, np.int64)
                columns[column] = pa.array(numbers)
    return conform(table, upgraded(table, columns, archive.version), raw.num_rows, options.source)


def _tell_columns(archive: _Archive, ledger: Ledger) -> None:
    """Note columns that are gone or not ours; a file that nobody rewrote must have all of its version."""
    have: list[str] = archive.file.schema_arrow.names
    specs = schema.describe(archive.table)
    lost = [spec.name for spec in specs if spec.since <= archive.version and spec.name not in have]
    new = sorted(set(have) - {spec.name for spec in specs})
    if not archive.rewritten and archive.version == schema.VERSION:
        check_columns(archive.name, have, archive.table)
    made = {"source", "run", "event_id", "order"} if archive.bare else set()
    if needed := [spec.name for spec in specs if spec.name in lost and not spec.nullable and spec.name not in made]:
        raise ParseError(archive.name, "footer", f"column {needed[0]} is missing", hint="it cannot be left out")
    if lost and archive.rewritten:
        numbered = made & set(lost)
        ledger.note(
            "columns-lost",
            f"the archive lost columns, which are empty now: {', '.join(lost)}"
            + (f" (but {', '.join(sorted(numbered))}: numbered anew)" if numbered else ""),
        )
    if new and archive.rewritten:
        ledger.note("columns-not-ours", f"columns that are not of the schema were not read: {', '.join(new)[:200]}")


def _counted(batch: pa.RecordBatch, ledger: Ledger) -> pa.RecordBatch:
    ledger.read += batch.num_rows
    ledger.kept += batch.num_rows
    if schema.is_totals(batch):
        ledger.totals_out += batch.num_rows
    else:
        ledger.events_out += batch.num_rows
    return batch
