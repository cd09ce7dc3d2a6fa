"""Trace: all that a file said, in one schema. Run: its facts. Ledger and Notes: what became of each record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from tracekit import schema
from tracekit.errors import SchemaError, TracekitError

if TYPE_CHECKING:
    import pandas

PLACES_KEPT = 3


@dataclass(slots=True)
class Note:
    """One thing that was dropped, repaired or guessed: how often, and where first."""

    code: str
    text: str
    count: int = 0
    places: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        where = f" (first at {', '.join(self.places)})" if self.places else ""
        return f"{self.text}{f', {self.count:,} times' if self.count > 1 else ''}{where}"


@dataclass(slots=True)
class Ledger:
    """What became of each record of one source.

    read = kept + merged + facts + ignored + filtered + dropped; `check` proves it. A record is what the reader's
    docstring says (a line, a row, an event object). `events_out` and `totals_out` count rows, apart: one record may
    make several. With `strict` the first note is an error.
    """

    source: int = 0
    path: str = ""
    format: str = ""
    read: int = 0
    kept: int = 0
    merged: int = 0
    facts: int = 0
    filtered: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    events_out: int = 0
    totals_out: int = 0
    written: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    notes: dict[str, Note] = field(default_factory=dict)
    strict: bool = False

    def ignore(self, what: str, count: int = 1) -> None:
        """Count records of a class that carries no event: preamble, unit rows, the program's own output."""
        if count:
            self.ignored[what] = self.ignored.get(what, 0) + count

    def drop(self, reason: str, count: int = 1, *, where: str = "", text: str = "") -> None:
        """Count records that should have become rows and could not; makes a note of the same code."""
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count
            self.note(reason, text or f"dropped: {reason}", count, where=where)

    def note(self, code: str, text: str, count: int = 1, *, where: str = "") -> None:
        """Tell the user about something repaired, guessed or dropped. The first text of a code stands.

        Raises: TracekitError when strict.
        """
        if self.strict:
            raise TracekitError(
                f"{self.path}{f': {where}' if where else ''}: {text}", hint="--strict makes the first note an error"
            )
        note = self.notes.setdefault(code, Note(code, text))
        note.count += count
        if where and len(note.places) < PLACES_KEPT:
            note.places.append(where)

    def accounted(self) -> int:
        """Return the records whose fate is known."""
        return (
            self.kept
            + self.merged
            + self.facts
            + self.filtered
            + sum(self.ignored.values())
            + sum(self.dropped.values())
        )

    def check(self) -> None:
        """Raise SchemaError unless each record read is accounted for exactly once."""
        if self.read != self.accounted() or min(self.kept, self.read, self.merged, self.facts, self.filtered) < 0:
            raise SchemaError(
                f"{self.path}: the ledger does not add up: {self.read} records read, {self.accounted()} accounted for"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the public form, as `inspect --format json` and the archive's metadata hold it."""
        out: dict[str, Any] = {
            "source": self.source, "path": self.path, "format": self.format, "read": self.read, "kept": self.kept,
            "merged": self.merged, "facts": self.facts, "ignored": dict(sorted(self.ignored.items())),
            "filtered": self.filtered, "dropped": dict(sorted(self.dropped.items())),
            "events_out": self.events_out, "totals_out": self.totals_out,
        }  # fmt: skip
        if self.written or self.left_out:
            out["written"], out["left_out"] = self.written, dict(sorted(self.left_out.items()))
        out["notes"] = [
            {"code": n.code, "text": n.text, "count": n.count, "places": list(n.places)} for n in self.notes.values()
        ]
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the ledger that `to_json` wrote; unknown keys are passed over."""
        numbers = ("source", "read", "kept", "merged", "facts", "filtered", "events_out", "totals_out", "written")
        ledger = cls(path=str(data.get("path", "")), format=str(data.get("format", "")))
        for name in numbers:
            setattr(ledger, name, int(data.get(name, 0)))
        for name in ("ignored", "dropped", "left_out"):
            setattr(ledger, name, {str(k): int(v) for k, v in dict(data.get(name, {})).items()})
        for n in data.get("notes", []):
            ledger.notes[n["code"]] = Note(n["code"], n["text"], int(n["count"]), [str(p) for p in n["places"]])
        return ledger


@dataclass(slots=True)
class SourceFacts:
    """Facts of one input: `facts` holds tool, tool version, command, process and the like, as JSON values."""

    path: str
    format: str
    label: str = ""
    size_bytes: int | None = None
    sha256: str | None = None
    synthetic_time: bool = False
    """The file has durations alone: starts were laid end to end by the reader."""
    facts: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "path": self.path, "format": self.format, "label": self.label, "size_bytes": self.size_bytes,
            "sha256": self.sha256, "synthetic_time": self.synthetic_time, "facts": self.facts,
        }  # fmt: skip


_NAME_TABLES = ("devices", "processes", "threads", "streams", "ids")


@dataclass(slots=True)
class Run:
    """Facts that are not rows. Complete once the batches of its reader are exhausted.

    origin_ns: Unix time of ts 0, in ns; None when the files do not say.
    devices: (source, device) -> name. processes: (source, pid) -> name. threads: (source, pid, tid) -> name.
    streams: (source, device, stream) -> name. ids: (column, source, number) -> the id's own text, where the file's
    id was text or too large and the column has a small integer instead.
    """

    origin_ns: int | None = None
    sources: list[SourceFacts] = field(default_factory=list)
    devices: dict[tuple[Any, ...], str] = field(default_factory=dict)
    processes: dict[tuple[Any, ...], str] = field(default_factory=dict)
    threads: dict[tuple[Any, ...], str] = field(default_factory=dict)
    streams: dict[tuple[Any, ...], str] = field(default_factory=dict)
    ids: dict[tuple[Any, ...], str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; each name table is a list of [key..., name], sorted."""
        out: dict[str, Any] = {"origin_ns": self.origin_ns, "sources": [s.to_json() for s in self.sources]}
        for name in _NAME_TABLES:
            table: dict[tuple[Any, ...], str] = getattr(self, name)
            out[name] = [[*key, table[key]] for key in sorted(table, key=_nulls_last)]
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the run that `to_json` wrote."""
        run = cls(origin_ns=data.get("origin_ns"))
        for s in data.get("sources", []):
            run.sources.append(SourceFacts(**{k: s[k] for k in SourceFacts.__dataclass_fields__ if k in s}))
        for name in _NAME_TABLES:
            setattr(run, name, {tuple(row[:-1]): str(row[-1]) for row in data.get(name, [])})
        return run


def _nulls_last(key: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(part is None, 0 if part is None else part) for part in key]


def _start_order(events: pa.Table) -> np.ndarray[Any, np.dtype[np.intp]] | None:
    """Return the permutation that sorts by (ts_ns, -dur_ns), stable; None when the rows are sorted already."""
    ts = events.column("ts_ns").to_numpy()
    if "dur_ns" in events.schema.names:
        dur = events.column("dur_ns").fill_null(-1).to_numpy()
    else:
        dur = np.zeros(len(ts), np.int64)
    if bool(np.all((ts[1:] > ts[:-1]) | ((ts[1:] == ts[:-1]) & (dur[1:] <= dur[:-1])))):
        return None
    order = _stable_order(ts)
    ts, dur = ts[order], dur[order]
    same = ts[1:] == ts[:-1]
    if (wrong := same & (dur[1:] > dur[:-1])).any():
        # Few starts are shared by rows that do not come longest first: only these are ordered by both.
        group = np.concatenate(([0], np.cumsum(~same)))
        touched = np.zeros(len(ts), np.bool_)
        touched[group[1:][wrong]] = True
        rows = np.flatnonzero(touched[group])
        order[rows] = order[rows[np.lexsort((-dur[rows], ts[rows]))]]
    return order


def _stable_order(values: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Return the permutation that sorts int64 values, stable; sorting them with their places in them is faster."""
    bits = len(values).bit_length()
    low = int(values.min())
    if (int(values.max()) - low).bit_length() + bits > 63:
        return np.argsort(values, kind="stable")
    packed = ((values - low) << bits) | np.arange(len(values))
    packed.sort()
    order: np.ndarray[Any, np.dtype[np.intp]] = packed & ((1 << bits) - 1)
    return order


@dataclass(frozen=True, slots=True)
class Trace:
    """Events and totals in the schema, sorted by (ts_ns, -dur_ns), with one dictionary a text column.

    The texts of a dictionary stand in order of first use: whoever read the rows, the same rows are the same trace, so
    that a report from an archive is the report from its source.

    events: pyarrow Table of schema.EVENTS; it may lack columns that the caller did not ask for.
    totals: pyarrow Table of schema.TOTALS.
    Raises: SchemaError when a table is not of the schema.
    """

    events: pa.Table
    totals: pa.Table = field(default_factory=schema.TOTALS.empty_table)
    run: Run = field(default_factory=Run)
    ledgers: tuple[Ledger, ...] = ()

    def __post_init__(self) -> None:
        for name, want in (("events", schema.EVENTS), ("totals", schema.TOTALS)):
            table: pa.Table = getattr(self, name).unify_dictionaries()
            schema.check(table, want)
            order = None
            if name == "events":
                order = _start_order(table)
            table = _in_one_piece(table, None if order is None else pa.array(order))
            object.__setattr__(self, name, _in_own_words(table))

    def to_pandas(self, table: str = "events") -> pandas.DataFrame:
        """Return "events" or "totals" as a DataFrame with nullable types; the unit of each column stands in `attrs`."""
        import pandas as pd

        arrow: pa.Table = getattr(self, table)
        kinds = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype(), pa.float64(): pd.Float64Dtype()}
        frame: pandas.DataFrame = arrow.to_pandas(types_mapper=kinds.get)
        frame.attrs["units"] = {c.name: c.unit for c in schema.describe(table) if c.unit}
        return frame

    def span(self) -> tuple[int, int] | None:
        """Return first start and last end in ns, None without events."""
        if not self.events.num_rows:
            return None
        ts = self.events.column("ts_ns").to_numpy()
        dur = self.events.column("dur_ns").fill_null(0).to_numpy()
        return int(ts[0]), int((ts + np.maximum(dur, 0)).max())


def _in_one_piece(table: pa.Table, order: pa.Array | None) -> pa.Table:
    """Return the rows in an order, one chunk a column.

    Column by column: the memory of one serves the next. Columns without any value share theirs.
    """
    if order is None and all(column.num_chunks == 1 for column in table.columns):
        return table
    columns: list[pa.ChunkedArray] = []
    empty: dict[pa.DataType, pa.Array] = {}
    for index, field_ in enumerate(table.schema):
        column = table.column(index)
        if column.null_count == table.num_rows:
            if field_.type not in empty:
                empty[field_.type] = pa.nulls(table.num_rows, field_.type)
            columns.append(pa.chunked_array([empty[field_.type]]))
            continue
        column = table.select([index]).combine_chunks().column(0)
        columns.append(column if order is None else column.take(order))
    return pa.Table.from_arrays(columns, schema=table.schema)


def compact_texts(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the same texts with the dictionary that they need and no more, in order of first use."""
    if array.null_count == len(array):
        return pa.nulls(len(array), array.type)
    codes = array.indices.fill_null(-1).to_numpy()
    size = len(array.dictionary)
    # Written from the last row to the first, the first use of each code is what stays.
    first = np.full(size + 1, len(codes), np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    first[size] = len(codes)  # code -1 (null) landed here
    used = np.flatnonzero(first < len(codes))
    used = used[np.argsort(first[used])]
    new = np.full(size + 1, -1, np.int32)
    new[used] = np.arange(len(used), dtype=np.int32)
    renumbered = new[codes]
    indices = pa.array(renumbered, mask=renumbered < 0) if array.null_count else pa.array(renumbered)
    return pa.DictionaryArray.from_arrays(indices, array.dictionary.take(pa.array(used)))


def _in_own_words(table: pa.Table) -> pa.Table:
    """Return the table with each dictionary in order of first use."""
    for index, field_ in enumerate(table.schema):
        if pa.types.is_dictionary(field_.type) and table.num_rows:
            array: pa.DictionaryArray = table.column(index).chunk(0)
            if not _is_in_order(array):
                table = table.set_column(index, field_, compact_texts(array))
    return table


def _is_in_order(array: pa.DictionaryArray) -> bool:
    """Tell whether the dictionary holds what is used, in order of first use."""
    if array.null_count == len(array):
        return len(array.dictionary) == 0
    codes = array.indices.fill_null(-1).to_numpy()
    highest = np.maximum.accumulate(codes)
    steps = np.diff(highest, prepend=-1)
    return bool(steps.max(initial=0) <= 1 and highest[-1] + 1 == len(array.dictionary))


def concat(tables: Sequence[pa.Table] | Sequence[pa.RecordBatch], empty: pa.Schema) -> pa.Table:
    """Return the rows of all tables in one, dictionaries unified; an empty table of the schema when there are none."""
    parts = [pa.Table.from_batches([t]) if isinstance(t, pa.RecordBatch) else t for t in tables]
    if not parts:
        return empty.empty_table()
    return pa.concat_tables(parts).unify_dictionaries()


def text_codes(column: pa.ChunkedArray) -> tuple[np.ndarray[Any, np.dtype[np.int64]], list[str]]:
    """Return codes (int64, -1 for null) and the list of texts of a dictionary column that has one dictionary."""
    chunks: Iterable[pa.DictionaryArray] = column.chunks
    codes: list[np.ndarray[Any, np.dtype[np.int64]]] = []
    texts: list[str] = []
    for chunk in chunks:
        texts = chunk.dictionary.to_pylist()
        codes.append(chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64))
    return (np.concatenate(codes) if codes else np.empty(0, np.int64)), texts
