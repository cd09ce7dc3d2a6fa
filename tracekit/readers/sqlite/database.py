"""SQLite databases as columns: tables in blocks of rows, read-only, whatever state the file is in.

The fast way is ADBC's SQLite driver, which makes Arrow columns in C. It takes a column's type from the first rows, so
a table with cells of another type than its columns say (SQLite allows any) is read once more, by `sqlite3`, from the
row where the driver gave up; there each cell is looked at. Both give the same blocks.

A database is opened `immutable`: nothing is written beside it, no lock is taken. Where a `-wal` or a hot journal lies
beside it, the file alone is not the whole truth; then it is opened with them. Source: sqlite.org/fileformat2.html
(header: page size at byte 16, journal mode at 18, pages at 28, valid when bytes 24 and 92 agree), sqlite.org/wal.html.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.errors import ParseError
from tracekit.readers.builder import BATCH_ROWS
from tracekit.readers.source import SQLITE_MAGIC, Source
from tracekit.trace import Ledger

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MAX_CELL_BYTES = 64 << 20
"""A text or blob beyond this is refused: no name of a profile is that long."""
_ERRORS = (sqlite3.Error, OverflowError, UnicodeDecodeError)
"""UnicodeDecodeError: SQLite quotes damaged bytes of a schema in its own messages."""
_INT64 = pa.int64()
_NO_REAL = 9e999
_HINT = "it is damaged or was cut: export or copy it again, or try `sqlite3 FILE .recover`"


class Kind(Enum):
    """How a column is read."""

    INTEGER = 1
    REAL = 2
    TEXT = 3
    HEX = 4


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a table. first: number of the first row, from 1. Columns that the table lacks are not there.

    columns: name -> Arrow array of int64, float64 or string, nulls where the cell is null or of another type.
    """

    table: str
    first: int
    count: int
    columns: dict[str, pa.Array]

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def integers(self, name: str, default: int = 0) -> I64:
        """Return an integer column, `default` where it is null or missing."""
        column = self.columns.get(name)
        if column is None:
            return np.full(self.count, default, np.int64)
        if column.null_count:
            column = column.fill_null(default)
        values: I64 = column.to_numpy(zero_copy_only=False)
        return values

    def valid(self, name: str) -> Mask:
        """Tell where a column has a value."""
        column = self.columns.get(name)
        if column is None:
            return np.zeros(self.count, np.bool_)
        if not column.null_count:
            return np.ones(self.count, np.bool_)
        mask: Mask = column.is_valid().to_numpy(zero_copy_only=False)
        return mask

    def take(self, rows: Mask) -> Block:
        """Return some of the rows (which then have no numbers of their own)."""
        mask = pa.array(rows)
        kept = {name: column.filter(mask) for name, column in self.columns.items()}
        return Block(self.table, self.first, int(np.count_nonzero(rows)), kept)


class Database:
    """One database, open for reading. Use as a context manager.

    tables: name -> its columns in their order, ordinary tables only (no views, no virtual tables: these run code).
    Raises: ParseError for what is no readable SQLite database.
    """

    def __init__(self, source: Source, ledger: Ledger) -> None:
        self.name = source.name
        self._ledger = ledger
        path = source.plain_path()
        self._uri = _uri(path, source, ledger)
        try:
            self._db = sqlite3.connect(self._uri, uri=True, check_same_thread=False)
        except _ERRORS as err:
            raise self.error(err) from err
        self._db.text_factory = _text
        self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_CELL_BYTES)
        try:
            self.tables = self._tables()
        except ParseError:
            self._db.close()
            raise

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it."""
        self._db.close()

    def error(self, err: BaseException, where: str = "") -> ParseError:
        """Return the error that a user sees for one of SQLite's."""
        text = str(err).partition("\n")[0].removeprefix("[SQLite] ")[:200]
        hint = _HINT
        if "locked" in text or "unable to open" in text:
            hint = (
                "another program holds it, or what lies beside it (-wal, -journal) cannot be opened: copy all of them"
            )
        return ParseError(self.name, where, f"the database cannot be read ({text})", hint=hint)

    def _tables(self) -> dict[str, tuple[str, ...]]:
        names = self.rows("select name, sql from sqlite_master where type = 'table' order by rowid")
        out: dict[str, tuple[str, ...]] = {}
        for name, sql in names:
            if not isinstance(name, str) or name.startswith("sqlite_") or "VIRTUAL" in str(sql)[:32].upper():
                continue
            out[name] = tuple(str(row[1]) for row in self.rows(f"pragma table_info({quoted(name)})"))
        return out

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a small query. Raises: ParseError."""
        try:
            return self._db.execute(query, parameters).fetchall()
        except _ERRORS as err:
            raise self.error(err) from err

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return int(self.rows(f"select count(*) from {quoted(table)}")[0][0])

    def small(self, table: str, *columns: str, limit: int = 1 << 20) -> list[tuple[Any, ...]]:
        """Return columns of a small table, None for columns that it lacks; [] where there is no such table."""
        have = self.tables.get(table)
        if have is None:
            return []
        wanted = ", ".join(quoted(c) if c in have else "null" for c in columns)
        return self.rows(f"select {wanted} from {quoted(table)} limit {limit}")

    def blocks(self, table: str, wanted: Mapping[str, Kind], size: int = BATCH_ROWS) -> Iterator[Block]:
        """Give a table's rows in the order they lie there. Raises: ParseError."""
        have = [name for name in wanted if name in self.tables[table]]
        kinds = [wanted[name] for name in have]
        cells = ", ".join(f"{_cell(name, kind)} as {quoted(name)}" for name, kind in zip(have, kinds, strict=True))
        query = f"select {cells} from {quoted(table)}"
        done = 0
        try:
            for block in self._fast(query, table, have, kinds, size):
                done += block.count
                yield block
            return
        except _Unfit:
            pass
        yield from self._slow(table, have, kinds, size, done)

    def _fast(self, query: str, table: str, names: list[str], kinds: list[Kind], size: int) -> Iterator[Block]:
        try:
            import adbc_driver_sqlite.dbapi as adbc
        except ImportError as err:
            raise _Unfit from err
        try:
            connection = adbc.connect(self._uri, autocommit=True)
        except (adbc.Error, OSError, UnicodeDecodeError) as err:
            raise _Unfit from err
        with connection, connection.cursor() as cursor:
            try:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(size)})
                cursor.execute(query)
                reader = cursor.fetch_record_batch()
            except (adbc.Error, pa.ArrowException, OSError, UnicodeDecodeError) as err:
                raise _Unfit from err
            first = 1
            while True:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except (adbc.Error, pa.ArrowException, OSError, UnicodeDecodeError) as err:
                    raise _Unfit from err
                if not batch.num_rows:
                    continue
                arrays = [_checked(column, kind) for column, kind in zip(batch.columns, kinds, strict=True)]
                yield Block(table, first, batch.num_rows, dict(zip(names, arrays, strict=True)))
                first += batch.num_rows

    def _slow(self, table: str, names: list[str], kinds: list[Kind], size: int, skip: int) -> Iterator[Block]:
        """Give the rows after the first `skip`, looking at each cell."""
        cells = ", ".join(
            f"hex({quoted(n)})" if k is Kind.HEX else quoted(n) for n, k in zip(names, kinds, strict=True)
        )
        first, odd = skip + 1, 0
        try:
            with closing(self._db.execute(f"select {cells} from {quoted(table)} limit -1 offset {skip}")) as cursor:
                while found := cursor.fetchmany(size):
                    arrays = {}
                    for name, kind, values in zip(names, kinds, zip(*found, strict=True), strict=True):
                        arrays[name], strange = _looked_at(values, kind)
                        odd += strange
                    yield Block(table, first, len(found), arrays)
                    first += len(found)
        except _ERRORS as err:
            raise self.error(err, f"table {table} after row {first - 1}") from err
        if odd:
            self._ledger.note(
                "cell-of-another-type", "a cell is not of its column's type: it counts as empty", odd, where=table
            )


class _Unfit(Exception):
    """ADBC cannot give these rows."""


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _cell(name: str, kind: Kind) -> str:
    """Return the expression that ADBC can give: it infers a type from the first rows, and nulls look like integers."""
    cell = quoted(name)
    if kind is Kind.REAL:
        return f"case typeof({cell}) when 'integer' then {cell} + 0.0 when 'real' then {cell} else 9e999 end"
    if kind is Kind.TEXT:
        return f"coalesce({cell}, '')"
    if kind is Kind.HEX:
        return f"hex({cell})"
    return cell


def _checked(column: pa.Array, kind: Kind) -> pa.Array:
    """Return a column of ADBC as blocks hold it. Raises: _Unfit when the type is not the one expected."""
    if kind is Kind.INTEGER:
        if column.type != _INT64:
            raise _Unfit
        return column
    if kind is Kind.REAL:
        if column.type != pa.float64():
            raise _Unfit
        return pc.if_else(pc.equal(column, _NO_REAL), pa.scalar(None, pa.float64()), column)
    if column.type != pa.string():
        raise _Unfit
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as err:
        raise _Unfit from err
    data = column.buffers()[2]
    if data is None or not data.size:
        return pa.nulls(len(column), pa.string())
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


_TYPES: dict[Kind, tuple[type, ...]] = {
    Kind.INTEGER: (int,),
    Kind.REAL: (int, float),
    Kind.TEXT: (str,),
    Kind.HEX: (str,),
}
_ARROW = {Kind.INTEGER: pa.int64(), Kind.REAL: pa.float64(), Kind.TEXT: pa.string(), Kind.HEX: pa.string()}


def _looked_at(values: Sequence[Any], kind: Kind) -> tuple[pa.Array, int]:
    """Return a column of Python cells, and how many were of another type."""
    fit = _TYPES[kind]
    kept: list[Any] = [v if isinstance(v, fit) and v != "" else None for v in values]
    strange = sum(a is None and b is not None and b != "" for a, b in zip(kept, values, strict=True))
    if kind is Kind.REAL:
        return pa.array([None if v is None else float(v) for v in kept], pa.float64()), strange
    return pa.array(kept, _ARROW[kind]), strange


def _uri(path: Path, source: Source, ledger: Ledger) -> str:
    """Return how to open it, after a look at its head. Raises: ParseError when it is cut or no SQLite."""
    with path.open("rb") as file:
        head = file.read(100)
        file.seek(0, 2)
        size = file.tell()
    if len(head) < 100 or not head.startswith(SQLITE_MAGIC):
        raise ParseError(source.name, "byte 0", "no SQLite database: its head is not there", hint=_HINT)
    page = struct.unpack(">H", head[16:18])[0]
    page = 65536 if page == 1 else page
    pages, changed, valid = (struct.unpack(">I", head[at : at + 4])[0] for at in (28, 24, 92))
    beside = [path.with_name(path.name + end) for end in ("-wal", "-journal")]
    together = any(p.exists() and p.stat().st_size for p in beside)
    if changed == valid and pages and size < pages * page and not together:
        raise ParseError(
            source.name, f"byte {size}", f"the database is cut: it has {size:,} of {pages * page:,} bytes", hint=_HINT
        )
    if together:
        ledger.note("open-database", "the database was not closed (-wal or -journal beside it): both were read")
        return f"{path.absolute().as_uri()}?mode=ro"
    if head[18] == 2:
        ledger.note(
            "no-wal",
            "the database is in WAL mode: if a -wal file lay beside it when it was copied, its rows are missing",
        )
    return f"{path.absolute().as_uri()}?mode=ro&immutable=1"
