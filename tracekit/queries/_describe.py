"""The views of a query with their columns, and examples that have rows: `tracekit query INPUT` without a SELECT."""

from __future__ import annotations

from tracekit.lazy_dataclass import dataclass
from tracekit.queries._engine import Connection, answered
from tracekit.queries._views import QueryTables

__all__ = ["DescribedView", "Description", "described"]

_SHOWN = 3
"""Examples that are shown."""
_EXAMPLES = (
    "SELECT file, count(*) AS n FROM events GROUP BY file ORDER BY n DESC",
    (
        "SELECT short_name, count(*) AS calls, sum(dur_ns) AS total_ns FROM events "
        "WHERE kind = 'kernel' GROUP BY short_name ORDER BY total_ns DESC LIMIT 10"
    ),
    "SELECT step, dur_ns FROM events WHERE kind = 'step' ORDER BY ts_ns LIMIT 10",
    "SELECT kind, count(*) AS n, sum(dur_ns) AS total_ns FROM events GROUP BY kind ORDER BY n DESC",
    (
        "SELECT copy_kind, sum(bytes) AS sum_bytes, sum(dur_ns) AS total_ns FROM events "
        "WHERE kind = 'memcpy' GROUP BY copy_kind ORDER BY total_ns DESC"
    ),
    "SELECT section, name, total_ns FROM totals WHERE total_ns IS NOT NULL ORDER BY total_ns DESC LIMIT 10",
    "SELECT name, kind, dur_ns FROM events WHERE dur_ns IS NOT NULL ORDER BY dur_ns DESC LIMIT 10",
    "SELECT section, name FROM totals LIMIT 10",
    "SELECT name, kind, ts_ns FROM events ORDER BY ts_ns LIMIT 10",
    "SELECT count(*) AS n FROM events",
    "DESCRIBE events",
    "DESCRIBE totals",
)
"""The most telling first. The first ones that have rows for an input are shown."""
_LEAST_ROWS = {_EXAMPLES[0]: 2}
"""Of one file, a row for each file says nothing."""


@dataclass(frozen=True, slots=True)
class DescribedView:
    """A view. filled: its columns that have a value in some row; empty: the others."""

    name: str
    rows: int
    filled: tuple[str, ...]
    empty: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Description:
    """The views of a query, and examples that have rows."""

    views: tuple[DescribedView, ...]
    examples: tuple[str, ...]


def described(base: Connection, tables: QueryTables) -> Description:
    """Return the views with their columns, and examples. Each was run: it has at least one row."""
    views = tuple(_view(base, tables, name) for name in ("events", "totals"))
    examples: list[str] = []
    for sql in _EXAMPLES:
        if len(examples) == _SHOWN:
            break
        with answered(base, tables, sql) as reader:
            if sum(batch.num_rows for batch in reader) >= _LEAST_ROWS.get(sql, 1):
                examples.append(sql)
    return Description(views, tuple(examples))


def _view(base: Connection, tables: QueryTables, name: str) -> DescribedView:
    with answered(base, tables, f"SELECT * FROM {name} LIMIT 0") as reader:
        columns = reader.schema.names
    counts = ", ".join(f'count("{column}")' for column in columns)
    with answered(base, tables, f"SELECT count(*), {counts} FROM {name}") as reader:
        rows, *known = (column[0].as_py() for column in reader.read_all().columns)
    filled = tuple(column for column, count in zip(columns, known, strict=True) if count)
    return DescribedView(name, rows, filled, tuple(column for column in columns if column not in filled))
