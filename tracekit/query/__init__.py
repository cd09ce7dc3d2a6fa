"""Query: SQL over the rows of any input, by DuckDB (extra `query`). `docs/queries.md` has the columns and examples.

    query.query(["run.csv"], "SELECT kind, sum(dur_ns) AS total_ns FROM events GROUP BY kind").to_pandas()

Two views, `events` and `totals`: the columns of `tracekit.schema` with `entry`, `date` and `run_name`, which tell what
a row of an archive belongs to (null for other inputs). tracekit reads the inputs and hands them over; DuckDB itself may
open no file, load no extension and change no setting, and one SELECT is all that is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from tracekit.inputs import Failure, PathLike
from tracekit.query._engine import answered, checked_sql
from tracekit.query._results import FORMS, plain, render, write
from tracekit.query._tables import ARCHIVE_COLUMNS, tables
from tracekit.trace import Ledger

_TOTALS = re.compile(r"totals|query|u&", re.IGNORECASE)
"""What asks for `totals`: its name, or what may build a name: query_table('to' || 'tals'), U&"..."."""

__all__ = ["ARCHIVE_COLUMNS", "FORMS", "Answer", "ask", "query", "render", "write"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of an answer, as they come: `reader` gives each batch once. ledgers: of the inputs that were read."""

    reader: pa.RecordBatchReader
    ledgers: tuple[Ledger, ...] = field(default=())


@contextmanager
def ask(
    inputs: PathLike | Sequence[PathLike],
    sql: str,
    *,
    format: str = "",
    strict: bool = False,
    demangle: bool = True,
    options: Mapping[str, str] | None = None,
    failures: list[Failure] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Answer]:
    """Give the answer to one SELECT over inputs: files of any format, folders, archives, URLs.

    Archived files are read where they lie, only the columns and row groups that the query needs; other inputs are
    converted into a temporary file first, side by side. Memory does not grow with the inputs; DuckDB keeps what it
    cannot hold in a temporary folder. The other words as in `pipeline.read`.
    Raises: UsageError for what is no SELECT over these views; MissingExtraError without DuckDB; TracekitError.
    """
    checked_sql(sql)
    with (
        tables(
            inputs,
            totals=_TOTALS.search(sql) is not None,
            format=format,
            strict=strict,
            demangle=demangle,
            options=options,
            failures=failures,
            progress=progress,
        ) as (events, totals, ledgers),
        answered(events, totals, sql) as reader,
    ):
        yield Answer(plain(reader), ledgers)


def query(
    inputs: PathLike | Sequence[PathLike],
    sql: str,
    *,
    format: str = "",
    strict: bool = False,
    demangle: bool = True,
    options: Mapping[str, str] | None = None,
    failures: list[Failure] | None = None,
) -> pa.Table:
    """Return the whole answer as a table; the words as in `ask`. Raises: TracekitError."""
    with ask(
        inputs, sql, format=format, strict=strict, demangle=demangle, options=options, failures=failures
    ) as answer:
        return answer.reader.read_all()
