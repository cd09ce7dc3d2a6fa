"""DuckDB, locked: a query can read two tables that we register, and nothing else of this machine."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Protocol

import pyarrow as pa
import pyarrow.dataset as ds

from tracekit.errors import InputError, MissingExtraError, PerSurface, TracekitError, UsageError
from tracekit.queries._types import SqlType, projection
from tracekit.queries._views import SCRATCH, QueryTables, Readable, ViewRelation, create_views
from tracekit.safety.library_calls import interruptible, is_stuck
from tracekit.safety.scratch import cannot_read_back, scratch_error, scratch_folder


class SqlRelation(Protocol):
    """DuckDB's answer before it is computed."""

    columns: list[str]
    types: list[SqlType]

    def project(self, columns: str) -> SqlRelation:
        """Return a SELECT of these columns from the answer, its rows in the same order."""

    def fetch_arrow_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream (DuckDB 1; DuckDB 2 has `to_arrow_reader`)."""


class Statement(Protocol):
    """A parsed statement."""

    type: object


class Connection(Protocol):
    """The methods of a DuckDB connection that we use."""

    def from_arrow(self, table: Readable) -> ViewRelation:
        """Return a relation over a table, which has no name of its own."""

    def create_function(self, name: str, function: Callable[..., object], *types: object, **options: object) -> object:
        """Make a function of Python visible."""

    def execute(self, sql: str) -> object:
        """Run a statement."""

    def sql(self, sql: str) -> SqlRelation | None:
        """Return the relation of a query."""

    def extract_statements(self, sql: str) -> list[Statement]:
        """Return the parsed statements of a text."""

    def interrupt(self) -> None:
        """Stop the running query."""

    def close(self) -> None:
        """Close the connection."""


LOCKS = (
    "SET enable_progress_bar = false",  # DuckDB draws it on stdout, also where that is a pipe
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET python_enable_replacements = false",  # Python variables are not tables
    "SET enable_external_access = false",  # no files, no network, no ATTACH, COPY, INSTALL, LOAD
    "SET lock_configuration = true",
)
"""In this order: the last one makes the others final."""


def _duckdb() -> ModuleType:
    try:
        import duckdb
    except ImportError as err:
        raise MissingExtraError("tracekit query", "query") from err
    module: ModuleType = duckdb
    return module


def checked_sql(sql: str) -> None:
    """Raise UsageError unless the text is one SELECT (FROM, WITH, VALUES, DESCRIBE and SUMMARIZE count as one)."""
    duckdb = _duckdb()
    if not sql.strip():
        raise UsageError("the query is empty", hint=EXAMPLE)
    if not _is_text(sql):
        raise UsageError("the query is not valid UTF-8", hint="save or paste it as UTF-8")
    # Locked as well: to parse IMPORT DATABASE, DuckDB 1 opens a file.
    with scratch_folder("tracekit-query-") as folder, closing(_connected(str(folder))) as base:
        _lock(base)
        try:
            statements = base.extract_statements(sql)
        except duckdb.Error as err:
            raise _translated(err, duckdb) from err
    if len(statements) != 1:
        raise UsageError(f"the query has {len(statements)} statements instead of one SELECT", hint=EXAMPLE)
    try:
        kind = str(statements[0].type).rpartition(".")[2]
    except ValueError:  # DuckDB's enumeration lacks some statements of its parser (UPDATE EXTENSIONS)
        kind = "this statement"
    if kind == "MULTI":
        raise UsageError(
            "PIVOT without a list of values is several statements",
            hint="list the values: PIVOT ... ON kind IN ('kernel', 'memcpy')",
        )
    if kind != "SELECT":
        raise UsageError(f"{kind} is refused: a query can only read, with one SELECT", hint=EXAMPLE)


def _is_text(sql: str) -> bool:
    try:
        sql.encode()
    except UnicodeEncodeError:
        return False
    return True


EXAMPLE = 'for example "SELECT name, sum(dur_ns) AS total_ns FROM events GROUP BY name ORDER BY total_ns DESC"'


def locked(tables: QueryTables, temporary: str) -> Connection:
    """Return a connection that can read only the two views. temporary: folder for large intermediate results."""
    base = _connected(temporary)
    create_views(base, tables)
    _lock(base)
    return base


def _connected(temporary: str) -> Connection:
    config = {"temp_directory": temporary, "allow_persistent_secrets": "false"}
    connection: Connection = _duckdb().connect(":memory:", config=config)
    return connection


def _lock(base: Connection) -> None:
    for lock in LOCKS:
        base.execute(lock)


@contextmanager
def connected(tables: QueryTables) -> Iterator[Connection]:
    """Return a context with a connection that can read the two views, for one query after the other."""
    with scratch_folder(SCRATCH) as folder:
        base = locked(tables, str(folder))
        try:
            yield base
        finally:
            if is_stuck():
                _BUSY.append(base)
            else:
                base.close()


@contextmanager
def answered(base: Connection, tables: QueryTables, sql: str) -> Iterator[pa.RecordBatchReader]:
    """Return a context with the rows of a SELECT as a stream."""
    duckdb = _duckdb()
    events, totals = tables.events, tables.totals
    try:
        relation = interruptible(base.interrupt, base.sql, sql)
        if relation is None:
            raise UsageError("the query gives no rows and no columns", hint=EXAMPLE)
        if columns := projection(relation.columns, relation.types):
            relation = interruptible(base.interrupt, relation.project, columns)
        open_reader: Callable[[], pa.RecordBatchReader]
        open_reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        try:
            reader = interruptible(base.interrupt, open_reader)
        except pa.ArrowException as err:  # types nested deeper than Arrow's
            raise _translated(err, duckdb) from err
        batches = _batches(partial(interruptible, base.interrupt, _next, reader), duckdb, events, totals)
        try:
            yield pa.RecordBatchReader.from_batches(reader.schema, batches)
        finally:
            if not is_stuck():  # an open answer refuses the next query of the connection
                batches.close()
                reader.close()
    except duckdb.Error as err:
        raise _translated(err, duckdb, events, totals) from err
    except UnicodeDecodeError as err:  # in a list or a struct, where `_batches` does not look
        raise _not_text(err) from err


_BUSY: list[Connection] = []
"""Connections whose call does not come back: to close one, or to forget it, would wait for that."""


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def _batches(
    read: Callable[[], pa.RecordBatch | None], duckdb: ModuleType, *tables: Readable
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches. An error in the middle becomes one sentence too."""
    while True:
        try:
            batch = read()
        except (duckdb.Error, pa.ArrowException, OSError) as err:
            raise _translated(err, duckdb, *tables) from err
        if batch is None:
            return
        for column in batch.columns:
            if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
                try:
                    column.validate(full=True)
                except pa.ArrowInvalid as err:
                    raise _not_text(err) from err
        yield batch


def _not_text(err: Exception) -> TracekitError:
    """Return the error for text that is not UTF-8: only a file that was not checked before has some."""
    return TracekitError(
        f"an archived file is damaged: a text of the answer is not UTF-8 ({err})",
        hint="`tracekit archive verify` names it",
    )


_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")
_SCAN_FAILED = re.compile(r"reading the (?:stream registered as|Arrow source failed)|get_next failed|CRC checksum")
"""Messages of DuckDB 2 and 1 when Arrow cannot read a file."""
_SYSTEM = re.compile(r"\[errno (\d+)\]")
"""What Arrow adds where the system could not read it."""


def _files(table: Readable) -> list[str]:
    children: list[ds.Dataset] = getattr(table, "children", [])
    return [*getattr(table, "files", []), *(file for child in children for file in _files(child))]


def _translated(err: Exception, duckdb: ModuleType, *tables: Readable) -> TracekitError:
    """Return DuckDB's message as one sentence: UsageError for wrong SQL, TracekitError for the rest.

    tables: what the query reads.
    """
    first, _, rest = str(err).strip().partition("\n")
    text = re.sub(r"^(?:[A-Z][A-Za-z]+ )+Error: ", "", first).strip() or type(err).__name__
    candidates = re.search(r"^(?:Candidate|Did you mean).*", rest, re.MULTILINE)
    hint = candidates[0] if candidates else ""
    if _FULL.search(str(err)):
        return scratch_error(None, OSError(errno.ENOSPC, "no space"))
    if _SCAN_FAILED.search(str(err)):
        if system := _SYSTEM.search(str(err)):
            number = int(system[1])
            folders = {Path(file).parent for table in tables for file in _files(table)}
            if len(folders) == 1 and (own := folders.pop()).name.startswith(SCRATCH):
                return cannot_read_back(own, OSError(number, os.strerror(number)))
            if number == errno.ENOENT:
                return InputError(
                    f"an archived file was removed or replaced while the query ran ({text})",
                    hint="start the query again",
                )
            return InputError(f"an archived file cannot be read ({text})")
        return TracekitError(f"an archived file is damaged ({text})", hint="`tracekit archive verify` names it")
    if isinstance(err, duckdb.PermissionException):
        return UsageError(
            f"the query may read only its inputs: {text}",
            hint=PerSurface("give the file as an INPUT", "name the file as an input", "name the file in `profiles`"),
        )
    wrong = (
        duckdb.ParserException,
        duckdb.BinderException,
        duckdb.CatalogException,
        duckdb.SyntaxException,
        duckdb.InvalidInputException,
        duckdb.NotImplementedException,
        duckdb.InvalidTypeException,
    )
    if isinstance(err, wrong):
        if isinstance(err, (duckdb.BinderException, duckdb.CatalogException)):
            hint = hint or '"DESCRIBE events" lists the columns'
        elif isinstance(err, (duckdb.ParserException, duckdb.SyntaxException)):
            hint = hint or EXAMPLE
        return UsageError(f"the query: {text}", hint=hint)
    return TracekitError(f"the query: {text}", hint=hint)
