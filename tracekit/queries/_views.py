"""The two views of a query, `events` and `totals`: the columns of the schema, and those of where a row is from.

Three columns are computed, by functions of Python, and only where a query asks for them: `short_name`, the name of a
kernel as the tables show it where it is too wide; `file`, the input of a row; and `run_name` of an input that is not
archived, the folder of its file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from tracekit.errors import Failure
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import Values, array, pc
from tracekit.model.names import bare_function
from tracekit.model.trace import Ledger

__all__ = ["SCRATCH", "QueryTables", "Readable", "SourceName", "ViewConnection", "ViewRelation", "create_views"]

SCRATCH = "tracekit-query-"
"""Begin of the names of a query's temporary folders."""
Readable: TypeAlias = "pa.Table | ds.Dataset"
_MOST_NAMES = 1 << 16
"""Names whose short form is kept."""


@dataclass(frozen=True, slots=True)
class SourceName:
    """The input that rows are from. run: its folder, "" where it is not known."""

    file: str
    run: str = ""


@dataclass(frozen=True, slots=True)
class QueryTables:
    """EVENTS as a dataset, TOTALS as a table (empty if the query does not read them), ledgers and failures.

    unchecked: archived files whose rows were not checked. names: the inputs by archive entry ("" for none) and source.
    empty: names of inputs that are not archived and have neither events nor totals. older: archived versions of runs
    that are left out.
    """

    events: Readable
    totals: pa.Table
    ledgers: tuple[Ledger, ...] = ()
    failures: tuple[Failure, ...] = ()
    unchecked: tuple[str, ...] = ()
    names: Mapping[tuple[str, int], SourceName] = field(default_factory=dict)
    empty: tuple[str, ...] = ()
    older: int = 0


class ViewRelation(Protocol):
    """DuckDB's relation over a table."""

    def project(self, columns: str) -> ViewRelation:
        """Return a SELECT of these columns."""

    def create_view(self, name: str) -> object:
        """Make the relation visible under a name."""


class ViewConnection(Protocol):
    """The methods of a DuckDB connection that make views."""

    def from_arrow(self, table: Readable) -> ViewRelation:
        """Return a relation over a table, which has no name of its own."""

    def create_function(self, name: str, function: Callable[..., object], *types: object, **options: object) -> object:
        """Make a function of Python visible."""


def create_views(base: ViewConnection, tables: QueryTables) -> None:
    """Make the two views of a connection, before it is locked."""
    # "special": a source without an archive entry has a name too.
    options = {"type": "arrow", "null_handling": "special"}
    names = tables.names
    base.create_function("tracekit_short_name", _short_names, ["VARCHAR"], "VARCHAR", **options)
    for column in ("file", "run"):
        by_source = {key: getattr(name, column) or None for key, name in names.items()}
        base.create_function(f"tracekit_{column}", _Lookup(by_source), ["VARCHAR", "INTEGER"], "VARCHAR", **options)
    for view, table in (("events", tables.events), ("totals", tables.totals)):
        base.from_arrow(table).project(_columns(table.schema.names, names)).create_view(view)


def _columns(columns: list[str], names: Mapping[tuple[str, int], SourceName]) -> str:
    shown = []
    for column in columns:
        if column == "run_name" and "source" in columns and any(not entry for entry, _ in names):
            # Of archived runs alone, the column stays as it is: files of other runs are then not opened at all.
            shown.append("coalesce(run_name, tracekit_run(entry, source)) AS run_name")
            continue
        shown.append(f'"{column}"')
        if column == "name" and "kind" in columns:  # a trace may hold some columns only
            shown.append("CASE WHEN kind = 'kernel' THEN tracekit_short_name(name) ELSE name END AS short_name")
    if "source" in columns and "entry" in columns:
        shown.append("tracekit_file(entry, source) AS file")
    return ", ".join(shown)


@lru_cache(_MOST_NAMES)
def _short_name(name: str | None) -> str | None:
    return None if name is None else bare_function(name)


def _short_names(names: Values) -> arrow.Column:
    """Return the short forms of names, each computed once."""
    encoded = arrow.encoded(_one(names))
    short = array([_short_name(text) for text in encoded.dictionary.to_pylist()], pa.string())
    return short.take(encoded.indices)


class _Lookup:
    """Returns a text for each pair of archive entry and source."""

    def __init__(self, texts: Mapping[tuple[str, int], str | None]) -> None:
        self._texts = texts

    def __call__(self, entries: Values, sources: Values) -> arrow.Column:
        """Return the text of each row; null where there is none."""
        entry = arrow.encoded(pc.fill_null(_one(entries), ""))
        of_entry = np.asarray(entry.indices).astype(np.int64)
        source = np.asarray(pc.fill_null(_one(sources), -1)).astype(np.int64)
        pairs, rows = np.unique(of_entry << 32 | source & 0xFFFFFFFF, return_inverse=True)
        known = entry.dictionary.to_pylist()
        texts = [self._texts.get((known[pair >> 32], pair & 0xFFFFFFFF)) for pair in pairs.tolist()]
        return array(texts, pa.string()).take(array(rows))


def _one(values: Values) -> arrow.Column:
    """Return a column in one chunk."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
