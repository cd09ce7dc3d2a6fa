"""Tables of SQLite databases as blocks of Arrow columns, read-only, whatever state the file is in.

The fastest way, for whole numbers, is to take them from the pages (`leaves.py`). The next one is ADBC's SQLite driver,
which makes Arrow columns in C. It takes the type of a column from the first rows. SQLite allows cells of any type in
any column. Where such a cell makes these ways fail, `sqlite3` reads the rest of the table and checks each cell. All
ways return the same blocks.

A database is opened `immutable`: SQLite writes nothing beside it and takes no lock. A `-wal` or `-journal` file beside
it may hold newer data; then both are opened. Source: sqlite.org/fileformat2.html (header: page size at byte 16, journal
mode at 18, pages at 28, valid when bytes 24 and 92 agree), sqlite.org/wal.html.
"""

from __future__ import annotations

import contextlib
import sqlite3
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from enum import Enum
from io import FileIO
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Column, Mask, pc
from tracekit.model.trace import Ledger
from tracekit.readers.builder import BATCH_ROWS
from tracekit.readers.source import SQLITE_MAGIC, Source
from tracekit.readers.sqlite.leaves import NeedsSqlite, PlainTable, integer_blocks

__all__ = [
    "CellType",
    "Cells",
    "Database",
    "RowBlock",
    "TableSource",
    "quoted",
    "refuse_repeated_pages",
    "repeated_page",
]

# The pages of an SQLite database: each must be in its trees once, or a table of a few pages never ends.
#
# An inner page that points to one page below it many times, on several levels, gives SQLite more rows than can ever be
# read, in a file of some kilobytes. Format: https://sqlite.org/fileformat2.html, section 1.6.


_FILE_HEAD = 100
_AT_ONCE = 64
"""Pages that are read at once, where they are that near."""
_INNER = (b"\x02", b"\x05")
"""First bytes of inner pages, of an index and of a table."""


def refuse_repeated_pages(name: str, path: Path) -> None:
    """Raise ParseError for a database whose rows would never end. name: of the input.

    A database that is open elsewhere has newer pages in another file, and is not looked at.
    """
    if any(path.with_name(path.name + end).exists() for end in ("-wal", "-journal")):
        return
    try:
        page = repeated_page(path)
    except (sqlite3.Error, OSError, OverflowError, UnicodeDecodeError):
        return  # reading says so
    if page is not None:
        raise ParseError(
            name,
            f"page {page}",
            "it is in the trees of the database more than once, so that its rows may never end",
            hint="the file is damaged or made to be a trap: export it again",
        )


def repeated_page(path: Path) -> int | None:
    """Return a page that is in the trees of a database more than once, None where there is none.

    Pages that cannot be there are left to SQLite, which says so. Raises: sqlite3.Error, OSError.
    """
    with path.open("rb", buffering=0) as file:
        pages = _Pages(file)
        if not pages.count:
            return None
        if (found := pages.walk([1])) is not None:
            return found
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as db:
            rows = db.execute("select rootpage from sqlite_master where rootpage > 1").fetchall()
        return pages.walk([int(row[0]) for row in rows if isinstance(row[0], int)])


class _Pages:
    """Pages of a database, read one by one: most are leaves, of which one byte is enough."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        size = file.seek(0, 2)
        head = self._read(0, _FILE_HEAD)
        page = struct.unpack(">H", head[16:18])[0] if len(head) == _FILE_HEAD else 0
        self._size = 65536 if page == 1 else page
        self.count = size // self._size if self._size >= 512 else 0
        self._seen = np.zeros(self.count + 1, bool)

    def _read(self, start: int, count: int) -> bytes:
        self._file.seek(start)
        return self._file.read(count)

    def walk(self, roots: Sequence[int]) -> int | None:
        level = np.array(roots, np.int64)
        while level.size:
            level = level[(level > 0) & (level <= self.count)]
            ordered = np.sort(level)
            again = ordered[1:][ordered[1:] == ordered[:-1]]
            again = again if again.size else level[self._seen[level]]
            if again.size:
                return int(again[0])
            self._seen[level] = True
            below = self._below(ordered.tolist())
            level = np.concatenate(below) if below else np.empty(0, np.int64)
        return None

    def _inner(self, pages: list[int]) -> Iterator[int]:
        """Yield those of some ascending pages that are inner ones. Pages nearby are read at once."""
        at = 0
        while at < len(pages):
            first = pages[at]
            last = at + int(np.searchsorted(pages[at : at + _AT_ONCE], first + _AT_ONCE))
            data = self._read((first - 1) * self._size, (pages[last - 1] - first) * self._size + _FILE_HEAD + 1)
            for page in pages[at:last]:
                place = (page - first) * self._size + (_FILE_HEAD if page == 1 else 0)
                if data[place : place + 1] in _INNER:
                    yield page
            at = last

    def _below(self, pages: list[int]) -> list[I64]:
        """Return the pages below inner ones."""
        found = []
        for page in self._inner(pages):
            start, at = (page - 1) * self._size, _FILE_HEAD if page == 1 else 0
            bytes_ = np.frombuffer(self._read(start, self._size), np.uint8)
            if bytes_.size < self._size:
                continue  # the file became shorter
            cells = min(int.from_bytes(bytes_[at + 3 : at + 5].tobytes(), "big"), (self._size - at - 12) // 2)
            places = bytes_[at + 12 : at + 12 + 2 * cells].view(">u2").astype(np.int64)
            places = np.append(places[places <= self._size - 4], at + 8)
            found.append(bytes_[places[:, None] + np.arange(4)].view(">u4").ravel().astype(np.int64))
        return found


Cells: TypeAlias = tuple[object, ...]

MAX_CELL_BYTES = 64 << 20
"""Largest text or blob that is read. No name of a profile is that long."""
_ERRORS = (sqlite3.Error, OverflowError, UnicodeDecodeError)
"""UnicodeDecodeError: SQLite quotes damaged bytes of a schema in its own messages."""
_INT64 = pa.int64()
_NO_REAL = 9e999
_HINT = "the file is damaged or was cut: export or copy it again, or try `sqlite3 FILE .recover`"


class CellType(Enum):
    """The type that the cells of a column should have. HEX: a blob, read as hexadecimal digits. DIGITS: an integer, or
    a text of its digits.
    """

    INTEGER = 1
    REAL = 2
    TEXT = 3
    HEX = 4
    DIGITS = 5


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Some rows of a table. first: number of the first row, from 1.

    columns: name -> Arrow array of int64, float64 or string. A cell is null if it is null or of another type in the
    file. A column that the table lacks is missing here.
    """

    table: str
    first: int
    count: int
    columns: dict[str, Column]

    def integers(self, name: str, default: int = 0) -> I64:
        """Return an integer column, `default` where it is null or missing."""
        column = self.columns.get(name)
        return np.full(self.count, default, np.int64) if column is None else arrow.ints(column, default)

    def valid(self, name: str) -> Mask:
        """Return the mask of the rows that have a value in this column."""
        column = self.columns.get(name)
        return np.zeros(self.count, np.bool_) if column is None else arrow.valid(column)

    def filter(self, rows: Mask) -> RowBlock:
        """Return the rows where the mask is true. Their numbers do not follow from `first` any more."""
        mask = arrow.array(rows)
        kept = {name: pc.filter(column, mask) for name, column in self.columns.items()}
        return RowBlock(self.table, self.first, int(np.count_nonzero(rows)), kept)


class TableSource(Protocol):
    """Tables of a file: of a database, or of a file whose reader makes the same tables of it.

    tables: name -> its columns in their order.
    """

    tables: dict[str, tuple[str, ...]]

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None:
        """Close the file."""

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""

    def small(self, table: str, *columns: str, limit: int = 1 << 20) -> list[Cells]:
        """Return columns of a small table: None for a column that it lacks, no rows if there is no such table."""

    def matching(self, table: str, columns: Sequence[str], key: str, values: Sequence[int]) -> list[Cells]:
        """Return columns of the rows whose integer column `key` has one of the values."""

    def text(self, table: str, number: int) -> str | None:
        """Return the text under an id in a table of texts, None if there is none."""

    def blocks(
        self, table: str, wanted: Mapping[str, CellType], size: int = BATCH_ROWS, *, unread: Collection[str] = ()
    ) -> Iterator[RowBlock]:
        """Yield the rows of a table in their order.

        unread: columns that may be missing in a block where none of their cells is of another type or beyond 24 bits.
        """


class Database:
    """One database, open for reading. Use as a context manager.

    tables: name -> its columns in their order. Views and virtual tables are not listed, because they run code.
    Raises: ParseError when the file is not a readable SQLite database.
    """

    def __init__(self, source: Source, ledger: Ledger) -> None:
        self.name = source.name
        self._source = source
        self._ledger = ledger
        self.block_rows = BATCH_ROWS
        path = self._path = source.plain_path()
        self._uri = _uri(path, source, ledger)
        refuse_repeated_pages(self.name, path)
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
        """Close the database."""
        self._db.close()

    def error(self, err: BaseException, where: str = "") -> ParseError:
        """Return the error that the user sees for an error of SQLite.

        Raises: InputError or ScratchError where the system cannot read the file.
        """
        self._source.check_readable()
        text = str(err).partition("\n")[0].removeprefix("[SQLite] ")[:200]
        hint = _HINT
        if "locked" in text or "unable to open" in text:
            hint = (
                "another program has locked it, or a file beside it (-wal, -journal) cannot be opened: copy all of them"
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

    def rows(self, query: str, parameters: Sequence[int | str] = ()) -> list[Cells]:
        """Return the rows of a small query. Raises: ParseError."""
        try:
            return self._db.execute(query, parameters).fetchall()
        except _ERRORS as err:
            raise self.error(err) from err

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        count = self.rows(f"select count(*) from {quoted(table)}")[0][0]
        return count if isinstance(count, int) else 0

    def is_empty(self, table: str) -> bool:
        """Return whether a table has no rows."""
        return not self.rows(f"select 1 from {quoted(table)} limit 1")

    def small(self, table: str, *columns: str, limit: int = 1 << 20) -> list[Cells]:
        """Return columns of a small table: None for a column that it lacks, no rows if there is no such table."""
        have = self.tables.get(table)
        if have is None:
            return []
        wanted = ", ".join(quoted(c) if c in have else "null" for c in columns)
        return self.rows(f"select {wanted} from {quoted(table)} limit {limit}")

    def matching(self, table: str, columns: Sequence[str], key: str, values: Sequence[int]) -> list[Cells]:
        """Return columns of the rows whose integer column `key` has one of the values. Raises: ParseError."""
        have = self.tables[table]
        wanted = ", ".join(quoted(c) if c in have else "null" for c in columns)
        kinds = ", ".join(map(str, values))
        return self.rows(f"select {wanted} from {quoted(table)} where {quoted(key)} in ({kinds}) limit {1 << 20}")

    def text(self, table: str, number: int) -> str | None:
        """Return the text under an id in a table of texts, None if there is none. Raises: ParseError."""
        rows = self.rows(f'select "value" from {quoted(table)} where "id" = ?', (number,))
        return str(rows[0][0]) if rows and rows[0][0] is not None else None

    def blocks(
        self, table: str, wanted: Mapping[str, CellType], size: int = 0, *, unread: Collection[str] = ()
    ) -> Iterator[RowBlock]:
        """Yield the rows of a table in the order of the file. Raises: ParseError.

        unread: columns that may be missing in a block where none of their cells is of another type or beyond 24 bits.
        """
        size = size or self.block_rows
        have = [name for name in wanted if name in self.tables[table]]
        kinds = [wanted[name] for name in have]
        cells = ", ".join(f"{_cell(name, kind)} as {quoted(name)}" for name, kind in zip(have, kinds, strict=True))
        query = f"select {cells} from {quoted(table)}"
        done = 0
        plain = self._plain(table, have, unread) if set(kinds) == {CellType.INTEGER} else None
        with contextlib.suppress(NeedsSqlite):
            for count, columns in integer_blocks(plain, size) if plain is not None else ():
                yield RowBlock(table, done + 1, count, columns)
                done += count
                if self._source.stopped is not None:
                    return
            if plain is not None:
                return
        if not done:
            try:
                for block in self._fast(query, table, have, kinds, size):
                    done += block.count
                    yield block
                    if self._source.stopped is not None:
                        return
                return
            except _AdbcFailure:
                pass
        yield from self._slow(table, have, kinds, size, done)

    def _plain(self, table: str, names: Sequence[str], unread: Collection[str]) -> PlainTable | None:
        """Return the table where its whole numbers can be taken from its pages, None where SQLite is to be asked."""
        if not self._uri.endswith("&immutable=1"):
            return None
        try:
            # With an index SQLite may read that, in its order.
            parts = self.rows("select type, rootpage from sqlite_master where tbl_name = ? collate nocase", (table,))
            columns = self.rows(f"pragma table_info({quoted(table)})")
        except ParseError:
            return None
        if len(parts) != 1 or parts[0][0] != "table" or not isinstance(root := parts[0][1], int):
            return None
        # The key of a row is not in it, and a whole number may stand for a real one where the type allows that.
        plain = {str(row[1]): n for n, row in enumerate(columns) if "INT" in str(row[2]).upper() and row[5] == 0}
        if not names or not plain.keys() >= set(names):
            return None
        return PlainTable(self._path, root, len(columns), {name: plain[name] for name in names}, frozenset(unread))

    def _fast(self, query: str, table: str, names: list[str], kinds: list[CellType], size: int) -> Iterator[RowBlock]:
        try:
            import adbc_driver_manager as adbc
            import adbc_driver_sqlite
        except ImportError as err:
            raise _AdbcFailure from err
        failures = (adbc.Error, pa.ArrowException, OSError, UnicodeDecodeError)
        # Not by `adbc_driver_sqlite.dbapi`: before 1.13 its cursors print a traceback for a statement that has failed.
        with contextlib.ExitStack() as opened:
            try:
                database = _closed_at_end(opened, adbc_driver_sqlite.connect(self._uri), failures)
                connection = _closed_at_end(opened, adbc.AdbcConnection(database), failures)
                statement = _closed_at_end(opened, adbc.AdbcStatement(connection), failures)
                statement.set_options(**{"adbc.sqlite.query.batch_rows": str(size)})
                statement.set_sql_query(query)
                stream, _ = statement.execute_query()
                reader = opened.enter_context(pa.RecordBatchReader.from_stream(stream))
            except failures as err:
                raise _AdbcFailure from err
            first = 1
            while True:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except failures as err:
                    raise _AdbcFailure from err
                if not batch.num_rows:
                    continue
                arrays = [_checked_column(column, kind) for column, kind in zip(batch.columns, kinds, strict=True)]
                yield RowBlock(table, first, batch.num_rows, dict(zip(names, arrays, strict=True)))
                first += batch.num_rows

    def _slow(self, table: str, names: list[str], kinds: list[CellType], size: int, skip: int) -> Iterator[RowBlock]:
        """Yield the rows after the first `skip`, and check the type of each cell."""
        cells = ", ".join(
            f"hex({quoted(n)})" if k is CellType.HEX else quoted(n) for n, k in zip(names, kinds, strict=True)
        )
        first, odd = skip + 1, 0
        try:
            with closing(self._db.execute(f"select {cells} from {quoted(table)} limit -1 offset {skip}")) as cursor:
                while self._source.stopped is None and (rows := cursor.fetchmany(size)):
                    arrays: dict[str, Column] = {}
                    for name, kind, values in zip(names, kinds, zip(*rows, strict=True), strict=True):
                        arrays[name], of_other_type = _column_of_cells(values, kind)
                        odd += of_other_type
                    yield RowBlock(table, first, len(rows), arrays)
                    first += len(rows)
        except _ERRORS as err:
            raise self.error(err, f"table {table} after row {first - 1}") from err
        if odd:
            self._ledger.note(
                "cell-of-another-type", "a cell is not of the type of its column: it counts as empty", odd, where=table
            )


def _closed_at_end(opened: contextlib.ExitStack, handle: Any, failures: tuple[type[Exception], ...]) -> Any:
    """Return a handle of ADBC, closed with the stack. An error while it closes says nothing new.

    RuntimeError: a signal came before a connection was registered here, so that its database has an open one.
    """

    def close() -> None:
        with contextlib.suppress(RuntimeError, *failures):
            handle.close()

    opened.callback(close)
    return handle


class _AdbcFailure(Exception):
    """ADBC cannot read these rows."""


def quoted(name: str) -> str:
    """Return a name in the quotes of SQL."""
    return '"' + name.replace('"', '""') + '"'


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _cell(name: str, kind: CellType) -> str:
    """Return the SQL of a cell for ADBC, which infers a type from the first rows and takes nulls for integers."""
    cell = quoted(name)
    if kind is CellType.REAL:
        return f"case typeof({cell}) when 'integer' then {cell} + 0.0 when 'real' then {cell} else 9e999 end"
    if kind is CellType.TEXT:
        return f"coalesce({cell}, '')"
    if kind is CellType.HEX:
        return f"hex({cell})"
    if kind is CellType.DIGITS:
        # Digits beyond int64 become its largest number.
        is_text = f"typeof({cell}) = 'text' and {cell} not glob '*[^0-9]*' and length({cell}) between 1 and 19"
        return f"case when typeof({cell}) = 'integer' then {cell} when {is_text} then cast({cell} as integer) end"
    return cell


def _checked_column(column: Column, kind: CellType) -> Column:
    """Return a column of ADBC as a column of a block. Raises: _AdbcFailure when its type is not the expected one."""
    if kind in (CellType.INTEGER, CellType.DIGITS):
        if column.type != _INT64:
            raise _AdbcFailure
        return column
    if kind is CellType.REAL:
        if column.type != pa.float64():
            raise _AdbcFailure
        return pc.if_else(pc.equal(column, _NO_REAL), pa.scalar(None, pa.float64()), column)
    if column.type != pa.string():
        raise _AdbcFailure
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as err:
        raise _AdbcFailure from err
    data = column.buffers()[2]
    if data is None or not data.size:
        return arrow.nulls(len(column), pa.string())
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def _column_of_cells(values: Sequence[object], kind: CellType) -> tuple[Column, int]:
    """Return a column of Python cells, and the number of cells of another type."""
    kept: list[object]
    arrow_type: pa.DataType
    if kind is CellType.INTEGER:
        kept, arrow_type = [v if isinstance(v, int) else None for v in values], pa.int64()
    elif kind is CellType.DIGITS:
        kept, arrow_type = [_digits(v) for v in values], pa.int64()
    elif kind is CellType.REAL:
        kept, arrow_type = [float(v) if isinstance(v, (int, float)) else None for v in values], pa.float64()
    else:
        kept, arrow_type = [v if isinstance(v, str) and v else None for v in values], pa.string()
    odd = sum(a is None and b is not None and b != "" for a, b in zip(kept, values, strict=True))
    return arrow.array(kept, arrow_type), odd


def _digits(cell: object) -> int | None:
    if isinstance(cell, str) and len(cell) <= 19 and cell.isascii() and cell.isdecimal():
        return min(int(cell), (1 << 63) - 1)
    return cell if isinstance(cell, int) else None


def _uri(path: Path, source: Source, ledger: Ledger) -> str:
    """Return the URI of a database after a check of its head. Raises: ParseError when it is cut or not SQLite."""
    with path.open("rb") as file:
        head = file.read(100)
        file.seek(0, 2)
        size = file.tell()
    if len(head) < 100 or not head.startswith(SQLITE_MAGIC):
        raise ParseError(source.name, "byte 0", "not an SQLite database: it has no SQLite header", hint=_HINT)
    page = struct.unpack(">H", head[16:18])[0]
    page = 65536 if page == 1 else page
    pages, changed, valid = (struct.unpack(">I", head[at : at + 4])[0] for at in (28, 24, 92))
    beside = [path.with_name(path.name + end) for end in ("-wal", "-journal")]
    open_elsewhere = any(p.exists() and p.stat().st_size for p in beside)
    if changed == valid and pages and size < pages * page and not open_elsewhere:
        raise ParseError(
            source.name, f"byte {size}", f"the database is cut: it has {size:,} of {pages * page:,} bytes", hint=_HINT
        )
    if open_elsewhere:
        ledger.note("open-database", "the database was not closed (-wal or -journal beside it): both files were read")
        return f"{path.absolute().as_uri()}?mode=ro"
    if head[18] == 2:
        ledger.note(
            "no-wal",
            "the database is in WAL mode: if there was a -wal file beside it, copy that too, or its rows are missing",
        )
    return f"{path.absolute().as_uri()}?mode=ro&immutable=1"
