"""DuckDB, locked: it sees two tables that we hand over, and nothing else of this machine."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from tracekit.errors import MissingExtraError, TracekitError, UsageError

LOCKS = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET python_enable_replacements = false",  # names of Python variables are no tables
    "SET enable_external_access = false",  # no files, no network, no ATTACH, COPY, INSTALL, LOAD
    "SET lock_configuration = true",
)
"""In this order: the last one makes the others final."""


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError as err:
        raise MissingExtraError("tracekit query", "query") from err
    return duckdb


def checked_sql(sql: str) -> None:
    """Raise UsageError unless the text is exactly one SELECT (FROM, WITH, VALUES, DESCRIBE and SUMMARIZE are such)."""
    duckdb = _duckdb()
    if not sql.strip():
        raise UsageError("the query is empty", hint=EXAMPLE)
    # Locked as well: to parse IMPORT DATABASE, DuckDB 1 opens a file.
    with tempfile.TemporaryDirectory(prefix="tracekit-query-") as folder, _connected(folder) as base:
        _lock(base)
        try:
            found = base.extract_statements(sql)
        except duckdb.Error as err:
            raise _told(err, duckdb) from err
    if len(found) != 1:
        raise UsageError(f"the query has {len(found)} statements: one SELECT is all that is run", hint=EXAMPLE)
    try:
        kind = str(found[0].type).rpartition(".")[2]
    except ValueError:  # DuckDB's enumeration lacks some statements that its parser knows (UPDATE EXTENSIONS)
        kind = "this statement"
    if kind == "MULTI":
        raise UsageError(
            "PIVOT without its values is several statements",
            hint="name them: PIVOT ... ON kind IN ('kernel', 'memcpy')",
        )
    if kind != "SELECT":
        raise UsageError(f"{kind} is refused: a query only reads, so it is one SELECT", hint=EXAMPLE)


EXAMPLE = 'for example "SELECT name, sum(dur_ns) AS total_ns FROM events GROUP BY name ORDER BY total_ns DESC"'


def locked(events: Any, totals: Any, temporary: str) -> Any:
    """Return a connection that sees the two tables alone. temporary: where DuckDB may put what it cannot hold."""
    base = _connected(temporary)
    base.register("events", events)
    base.register("totals", totals)
    _lock(base)
    return base


def _connected(temporary: str) -> Any:
    config = {"temp_directory": temporary, "allow_persistent_secrets": "false"}
    return _duckdb().connect(":memory:", config=config)


def _lock(base: Any) -> None:
    for lock in LOCKS:
        base.execute(lock)


@contextmanager
def answered(events: Any, totals: Any, sql: str) -> Iterator[pa.RecordBatchReader]:
    """Give the rows of a SELECT as they come. events, totals: Arrow tables or datasets."""
    duckdb = _duckdb()
    with tempfile.TemporaryDirectory(prefix="tracekit-query-") as folder:
        base = locked(events, totals, folder)
        try:
            relation = base.sql(sql)
            if relation is None:
                raise UsageError("the query gives no rows and no columns", hint=EXAMPLE)
            with ThreadPoolExecutor(1) as worker:
                ask = partial(_interruptible, worker, base)
                reader = ask(getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)
                yield pa.RecordBatchReader.from_batches(reader.schema, _batches(partial(ask, _next, reader), duckdb))
        except duckdb.Error as err:
            raise _told(err, duckdb) from err
        finally:
            base.close()


def _interruptible(worker: ThreadPoolExecutor, base: Any, work: Callable[..., Any], *words: Any) -> Any:
    """Do work of DuckDB in the worker: Python cannot answer Ctrl-C while its main thread is in a query."""
    waiting = worker.submit(work, *words)
    try:
        return waiting.result()
    except KeyboardInterrupt:
        base.interrupt()
        raise


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def _batches(read: Callable[[], pa.RecordBatch | None], duckdb: Any) -> Iterator[pa.RecordBatch]:
    """Pass batches on; what goes wrong in the middle is told in one sentence too."""
    while True:
        try:
            batch = read()
        except (duckdb.Error, pa.ArrowException, OSError) as err:
            raise _told(err, duckdb) from err
        if batch is None:
            return
        yield batch


_SCAN_FAILED = re.compile(r"reading the stream registered as|get_next failed|CRC checksum")
"""What DuckDB 2 and 1 say when Arrow cannot read a file that it scans for them."""


def _told(err: Exception, duckdb: Any) -> TracekitError:
    """Return DuckDB's message in one sentence: wrong SQL is wrong usage, the rest is an input that failed."""
    first, _, rest = str(err).strip().partition("\n")
    text = re.sub(r"^(?:[A-Z][A-Za-z]+ )+Error: ", "", first).strip() or type(err).__name__
    candidates = re.search(r"^(?:Candidate|Did you mean).*", rest, re.MULTILINE)
    hint = candidates[0] if candidates else ""
    if _SCAN_FAILED.search(str(err)):
        return TracekitError(f"an archived file is damaged ({text})", hint="`tracekit archive verify` says which")
    if isinstance(err, duckdb.PermissionException):
        return UsageError(f"the query may read its inputs alone: {text}", hint="give the file as an INPUT")
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
        return UsageError(f"the query: {text}", hint=hint or "docs/queries.md lists the columns and shows examples")
    return TracekitError(f"the query: {text}", hint=hint)
