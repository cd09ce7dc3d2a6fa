"""Rows that come from a file of our own become rows of the schema: checked, upgraded, numbered by source."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from tracekit.model import arrow, schema
from tracekit.model.arrow import Column, pc
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.builder import event_batch, map_texts, totals_batch

Columns = dict[str, Column]
Upgrade = Callable[[str, Columns], Columns]
"""(table, columns of version n) -> columns of version n + 1. table: "events" or "totals"."""

UPGRADES: Mapping[int, Upgrade] = {}
"""By the version they begin at. A column that a version only added needs no function: it is null in older files."""


def known_versions() -> str:
    """Return the versions of the schema that can be read, for errors."""
    return f"1 to {schema.VERSION}" if schema.VERSION > 1 else "1"


def upgraded(table: str, columns: Columns, version: int) -> Columns:
    """Return the columns as the present version has them."""
    for step in range(version, schema.VERSION):
        if step in UPGRADES:
            columns = UPGRADES[step](table, columns)
    return columns


def conform(table: str, columns: Mapping[str, Column], count: int, first_source: int) -> pa.RecordBatch:
    """Return a batch of the schema; sources count from `first_source`; columns that are not there are null.

    Raises: ValueError (pa.ArrowInvalid is one) for what the schema cannot hold: wrong types, nulls where none may be,
    kinds and texts that are none.
    """
    want = schema.EVENTS if table == "events" else schema.TOTALS
    known = {name: column for name, column in columns.items() if name in want.names}
    for column in known.values():
        column.validate(full=True)
    if first_source and "source" in known:
        known["source"] = pc.add_checked(known["source"], pa.scalar(first_source, known["source"].type))
    batch = event_batch(count, known) if table == "events" else totals_batch(count, known)
    for field in want:
        column = batch.column(field.name)
        if not field.nullable and column.null_count:
            raise ValueError(f"column {field.name} has {column.null_count} nulls")
    return _with_true_kinds(batch)


def _with_true_kinds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Raise ValueError for a kind that is not in the list; an unused one in the dictionary does no harm."""
    kinds = arrow.encoded(batch.column("kind"))
    texts = arrow.optional_texts(kinds.dictionary)
    if all(text in schema.KINDS for text in texts):
        return batch
    used = set(arrow.codes(kinds).tolist())
    bad = [text for code, text in enumerate(texts) if text not in schema.KINDS and code in used]
    if bad:
        raise ValueError(f"kind {bad[0]!r} is not in the list")
    cleaned = map_texts(kinds, lambda text: text if text in schema.KINDS else None)
    return arrow.with_column(batch, "kind", cleaned)


def run_from_json(data: object) -> Run:
    """Return the run that `Run.to_json` wrote. Raises: ValueError, TypeError or KeyError for what is none."""
    if not isinstance(data, dict):
        raise TypeError("the facts of the run are no object")
    run = Run.from_json(data)
    if not (run.origin_ns is None or (isinstance(run.origin_ns, int) and abs(run.origin_ns) < 1 << 63)):
        raise ValueError("the origin of the run is no time")
    for facts in run.sources:
        texts = facts.path, facts.format, facts.label, facts.sha256 or ""
        if not (all(isinstance(text, str) for text in texts) and isinstance(facts.facts, dict)):
            raise ValueError("the facts of a source have wrong types")
    tables = (run.devices, 2), (run.processes, 2), (run.threads, 3), (run.streams, 3)
    for table, length in tables:
        if not all(len(key) == length and all(isinstance(k, int | None) for k in key) for key in table):
            raise ValueError("a name of the run has no proper key")
    if not all(len(key) == 3 and isinstance(key[1], int) and isinstance(key[2], int) for key in run.ids):
        raise ValueError("an id of the run has no proper key")
    return run


def with_ledgers(run: Run, ledgers: list[dict[str, object]], path: str, reader: str) -> Run:
    """Return the run whose sources carry the ledgers of the conversion that made the file ("archived_ledgers").

    A run without sources gets the file itself as one. ledgers: as `Ledger.to_json` gives them; oldest first.
    """
    if not run.sources:
        run.sources.append(SourceFacts(path, reader))
    for stored in ledgers:
        number = Ledger.from_json(stored).source
        owner = run.sources[number if 0 <= number < len(run.sources) else 0]
        owner.facts = owner.facts | {"archived_ledgers": [*owner.facts.get("archived_ledgers", []), stored]}
    return run


def renumbered(run: Run, first_source: int) -> Run:
    """Return the run with the sources in its keys counted from `first_source`."""
    if first_source:
        for table in (run.devices, run.processes, run.threads, run.streams):
            moved = {(key[0] + first_source, *key[1:]): name for key, name in table.items()}
            table.clear()
            table.update(moved)
        run.ids = {(key[0], key[1] + first_source, *key[2:]): name for key, name in run.ids.items()}
    return run
