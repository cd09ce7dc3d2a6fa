"""SQL over the rows of any input, by DuckDB (extra `query`). Columns and examples: `docs/queries.md`.

    tracekit.query("run.csv", "SELECT kind, sum(dur_ns) AS total_ns FROM events GROUP BY kind").to_pandas()

Two views, `events` and `totals`, have the columns of `tracekit.schema`, `short_name`, and columns that say where a row
is from: `entry` and `date` of an archive (null for other inputs), `run_name` and `file`. tracekit reads the inputs and
passes them to DuckDB. DuckDB itself cannot open a file, load an extension or change a setting, and runs only one
SELECT.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from tracekit.errors import Failure
from tracekit.inputs import USUAL, InputOptions, PathLike
from tracekit.lazy_dataclass import dataclass
from tracekit.model.trace import Ledger, Trace
from tracekit.queries._describe import Description, described
from tracekit.queries._engine import Connection, answered, checked_sql, connected
from tracekit.queries._results import FORMS, plain, render, write
from tracekit.queries._tables import ARCHIVE_COLUMNS, tables
from tracekit.queries._views import QueryTables

_TOTALS = re.compile(r"totals|query|u&", re.IGNORECASE)
"""Signs that a query reads `totals`: its name, or a way to build a name: query_table('to' || 'tals'), U&"..."."""

__all__ = [
    "ARCHIVE_COLUMNS",
    "FORMS",
    "Description",
    "QueryAnswer",
    "QuerySession",
    "ask",
    "described",
    "query",
    "render",
    "session",
    "write",
]


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The rows of an answer as a stream: `reader` yields each batch once.

    ledgers: of the inputs that were read. failures: inputs that could not be read, among others that could.
    unchecked: archived files whose checksums and rows were not checked: they have many, or are on another machine.
    empty: names of inputs without events and totals; `archive add` has named those of an archive. older: archived
    versions of runs that were left out, since the runs changed.
    """

    reader: pa.RecordBatchReader
    ledgers: tuple[Ledger, ...] = ()
    failures: tuple[Failure, ...] = ()
    unchecked: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    older: int = 0


@dataclass(frozen=True, slots=True)
class QuerySession:
    """Inputs that are read once, for one query after the other."""

    _tables: QueryTables
    _connection: Connection

    @contextmanager
    def ask(self, sql: str) -> Iterator[QueryAnswer]:
        """Return a context with the answer to one SELECT. Raises: UsageError, TracekitError."""
        checked_sql(sql)
        found = self._tables
        with answered(self._connection, found, sql) as reader:
            yield _answer_of(found, reader)

    def describe(self) -> Description:
        """Return the tables with their columns, and examples that have rows here."""
        return described(self._connection, self._tables)

    @property
    def inputs(self) -> QueryAnswer:
        """Return an answer without rows: what is known of the inputs."""
        found = self._tables
        return QueryAnswer(
            pa.table({}).to_reader(), found.ledgers, found.failures, found.unchecked, found.empty, found.older
        )


def _answer_of(found: QueryTables, reader: pa.RecordBatchReader) -> QueryAnswer:
    return QueryAnswer(plain(reader), found.ledgers, found.failures, found.unchecked, found.empty, found.older)


@contextmanager
def session(
    inputs: PathLike | Sequence[PathLike], options: InputOptions = USUAL, *, all_versions: bool = False
) -> Iterator[QuerySession]:
    """Return a context in which several queries are asked over the same inputs, with the limits of `ask`."""
    with tables(inputs, totals=True, options=options, all_versions=all_versions) as found, connected(found) as base:
        yield QuerySession(found, base)


@contextmanager
def ask(
    inputs: PathLike | Sequence[PathLike] | Trace,
    sql: str,
    options: InputOptions = USUAL,
    *,
    all_versions: bool = False,
) -> Iterator[QueryAnswer]:
    """Return a context with the answer to one SELECT over inputs (files, folders, archives, URLs) or a trace.

    all_versions: of an archive, count the older versions of a changed run too.

    Of archived files, only the columns and row groups that the query needs are read. Other inputs are first converted
    to one temporary file; a trace is read in memory, with the columns that it has. Memory does not grow with the
    inputs: DuckDB uses a temporary folder for large intermediate results.
    Raises: UsageError for anything but a SELECT over these views; MissingExtraError without DuckDB; TracekitError.
    """
    checked_sql(sql)
    with (
        tables(inputs, totals=_TOTALS.search(sql) is not None, options=options, all_versions=all_versions) as found,
        connected(found) as base,
        answered(base, found, sql) as reader,
    ):
        yield _answer_of(found, reader)


def query(
    inputs: PathLike | Sequence[PathLike] | Trace,
    sql: str,
    options: InputOptions = USUAL,
    *,
    all_versions: bool = False,
) -> pa.Table:
    """Return the whole answer as a table. The arguments are those of `ask`. Raises: TracekitError."""
    with ask(inputs, sql, options, all_versions=all_versions) as answer:
        return answer.reader.read_all()
