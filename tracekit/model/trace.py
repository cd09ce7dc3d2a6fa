"""Trace: all that a file says, in one schema. Run: its facts. Ledger and Note: what became of each record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NotRequired, Self, TypeAlias, TypedDict

import numpy as np
import pyarrow as pa

from tracekit.arguments import checked
from tracekit.credentials import masked
from tracekit.errors import (
    ArgumentTypeError,
    Failure,
    Option,
    SchemaError,
    Sentence,
    TracekitError,
    command_line,
    sentence,
)
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema
from tracekit.model.arrow import I64
from tracekit.model.display import NO_FORMULAS, escape_controls, escaped, first_few, html_facts, plural, shortened
from tracekit.model.frames import arrow_stream, to_polars
from tracekit.model.tables import in_one_chunk, start_order, with_own_dictionaries
from tracekit.model.units import format_span

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = [
    "ARCHIVED_LEDGERS",
    "ELAPSED",
    "INCOMPLETE_SHOWN",
    "JOINED_INTO",
    "MOST_DROPPED",
    "NAME_TABLES",
    "PLACES_KEPT",
    "STRICT",
    "TIMES",
    "WITHOUT_TIMES",
    "Json",
    "Key",
    "Ledger",
    "LedgerJson",
    "Note",
    "NoteJson",
    "Run",
    "SourceFacts",
    "Trace",
    "all_ledgers",
    "concat",
    "filter_with",
    "incomplete",
    "is_cut",
    "text_codes",
    "with_archived",
]

PLACES_KEPT = 3
STRICT = sentence(Option("strict"), " makes the first note an error")
MOST_DROPPED = 0.01
"""Part of the data records of an input that may be dropped; with more of them what is left is no result."""
INCOMPLETE_SHOWN = 3

Key: TypeAlias = tuple[Any, ...]
"""Numbers, texts and nulls that together name a device, process, thread, stream or id."""
Json: TypeAlias = Mapping[str, Any]
"""An object that a JSON parser made, of whatever a file holds."""


def is_cut(code: str) -> bool:
    """Return whether records are dropped for this reason because the file ends within them."""
    return "torn" in code


class NoteJson(TypedDict):
    """A note in JSON."""

    code: str
    text: str
    count: int
    places: list[str]


class LedgerJson(TypedDict):
    """A ledger in JSON: public, changed only with the version."""

    source: int
    path: str
    format: str
    read: int
    kept: int
    merged: int
    facts: int
    ignored: dict[str, int]
    filtered: int
    dropped: dict[str, int]
    events_out: int
    totals_out: int
    written: NotRequired[int]
    left_out: NotRequired[dict[str, int]]
    reservation: NotRequired[str]
    notes: list[NoteJson]


@dataclass(slots=True)
class Note:
    """Records that were dropped, repaired or guessed for one reason: how many, and where first.

    text: as the command line words it. said: the same with its options as parts, where it was made here.
    """

    code: str
    text: str
    count: int = 0
    places: list[str] = field(default_factory=list)
    said: Sentence = field(default=Sentence(), compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.text}{self._how_often()}"

    def sentence(self) -> Sentence:
        """Return the whole note for an error, which says the options of each surface where the text has some."""
        return sentence(self.said or self.text, self._how_often())

    def _how_often(self) -> str:
        where = f" (first at {', '.join(self.places)})" if self.places else ""
        return f"{f', {self.count:,} times' if self.count > 1 else ''}{where}"


def _note(code: str, text: str | Sentence) -> Note:
    return Note(code, masked(command_line(text)), said=text if isinstance(text, Sentence) else Sentence())


@dataclass(slots=True)
class Ledger:
    """Counts of what became of each record of one source.

    read = kept + merged + facts + ignored + filtered + dropped; `check` proves it. The reader's docstring defines a
    record (a line, a row, an event object). `events_out` and `totals_out` count rows: one record may make several.
    `reservation`: what the input says, or shows, is missing from it, so that the rest is no result; "" for nothing.
    With `strict` the first note is an error. path: the input's name as outputs have it. opened: its name in full, as
    this process opened it, which only errors show, since someone must find the file; "" for none.
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
    reservation: str = ""
    notes: dict[str, Note] = field(default_factory=dict)
    strict: bool = False
    opened: str = field(default="", repr=False, compare=False)

    @property
    def name_in_errors(self) -> str:
        """Return the whole name of the input: no output has it, and an error never shortens it."""
        return self.opened or self.path

    @property
    def is_empty(self) -> bool:
        """Return whether the source has no event and no total: nothing that was kept, filtered or dropped.

        One with a reservation is incomplete: whether it is empty is not known.
        """
        return not (self.kept or self.merged or self.filtered or self.dropped or self.reservation)

    def __repr__(self) -> str:
        counts = (
            *((self.kept, "kept"), (self.merged, "merged"), (self.facts, "facts"), (self.filtered, "filtered")),
            *((sum(self.ignored.values()), "ignored"), (sum(self.dropped.values()), "dropped")),
        )
        parts = [f"{count:,} {word}" for count, word in counts if count]
        read = f"{plural(self.read, 'record')} read"
        lines = [f"ledger of {self.path} ({self.format}): {', '.join([read, *parts])}"]
        lines += first_few([f"  note: {note}" for note in self.notes.values()], "note")
        return "\n".join(shortened(escape_controls(line), 200) for line in lines)

    def ignore(self, what: str, count: int = 1) -> None:
        """Count records of a class that carries no event: preamble, unit rows, the program's own output."""
        if count:
            what = masked(what)
            self.ignored[what] = self.ignored.get(what, 0) + count

    def drop(self, reason: str, count: int = 1, *, where: str = "", text: str | Sentence = "") -> None:
        """Count records that should have become rows but could not; adds a note of the same code."""
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count
            self.note(reason, text or f"dropped: {reason}", count, where=where)

    def note(self, code: str, text: str | Sentence, count: int = 1, *, where: str = "") -> None:
        """Note that something was repaired, guessed or dropped. The first text of a code is kept, as commands say it.

        Raises: TracekitError when strict.
        """
        if self.strict:
            raise TracekitError(sentence(f"{where}: " if where else "", text), path=self.name_in_errors, hint=STRICT)
        note = self.notes.get(code) or self.notes.setdefault(code, _note(code, text))
        note.count += count
        if where and len(note.places) < PLACES_KEPT:
            note.places.append(masked(where))

    def reserve(self, text: str) -> None:
        """Say what is missing from the input, after its name: "ended by a full disk after 3 of at least 9 events"."""
        if (text := masked(text)) and self.reservation.count("; ") < INCOMPLETE_SHOWN:
            self.reservation = f"{self.reservation}; {text}" if self.reservation else text

    def accounted(self) -> int:
        """Return the number of records that are accounted for."""
        return (
            self.kept
            + self.merged
            + self.facts
            + self.filtered
            + sum(self.ignored.values())
            + sum(self.dropped.values())
        )

    def incomplete(self) -> str:
        """Return the sentence for an input that lost more than 1 % of its data records or has a reservation, else "".

        Data records are those that should have become rows: kept, merged, filtered or dropped. The last record of a
        file that was cut does not count: what came before it is whole.
        """
        if self.reservation:
            return f"INCOMPLETE: {escape_controls(Path(self.path).name)} {self.reservation}, so shares are unknown"
        dropped = sum(count for code, count in self.dropped.items() if not is_cut(code))
        data = self.kept + self.merged + self.filtered + dropped
        if dropped <= MOST_DROPPED * data:
            return ""
        return (
            f"INCOMPLETE: {dropped:,} of {plural(data, 'record')} of "
            f"{escape_controls(Path(self.path).name)} could not be "
            "read: times and counts cover the others only, and shares are unknown"
        )

    def check(self) -> None:
        """Raise SchemaError unless each record read is accounted for exactly once."""
        if self.read != self.accounted() or min(self.kept, self.read, self.merged, self.facts, self.filtered) < 0:
            raise SchemaError(
                f"{self.path}: the ledger does not add up: {self.read} records read, {self.accounted()} accounted for"
            )

    def to_json(self) -> LedgerJson:
        """Return the public form, as `inspect --format json` and the archive's metadata hold it."""
        out: LedgerJson = {
            "source": self.source,
            "path": self.path,
            "format": self.format,
            "read": self.read,
            "kept": self.kept,
            "merged": self.merged,
            "facts": self.facts,
            "ignored": dict(sorted(self.ignored.items())),
            "filtered": self.filtered,
            "dropped": dict(sorted(self.dropped.items())),
            "events_out": self.events_out,
            "totals_out": self.totals_out,
            "notes": [],
        }
        if self.written or self.left_out:
            out["written"], out["left_out"] = self.written, dict(sorted(self.left_out.items()))
        if self.reservation:
            out["reservation"] = self.reservation
        out["notes"] = [
            {"code": n.code, "text": n.text, "count": n.count, "places": list(n.places)} for n in self.notes.values()
        ]
        return out

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """Return the ledger that `to_json` wrote; unknown keys are skipped. Credentials in it are masked."""
        path, format = masked(str(data.get("path", ""))), str(data.get("format", ""))
        ledger = cls(path=path, format=format, reservation=masked(str(data.get("reservation", ""))))
        for name in ("source", "read", "kept", "merged", "facts", "filtered", "events_out", "totals_out", "written"):
            setattr(ledger, name, int(data.get(name, 0)))
        for name in ("ignored", "dropped", "left_out"):
            setattr(ledger, name, {masked(str(k)): int(v) for k, v in dict(data.get(name, {})).items()})
        for n in data.get("notes", []):
            ledger.notes[n["code"]] = Note(
                n["code"], masked(n["text"]), int(n["count"]), [masked(str(p)) for p in n["places"]]
            )
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
    """The file has only durations: the reader laid the rows end to end. Or its starts hold no order (`TIMES`)."""
    facts: dict[str, Any] = field(default_factory=dict)
    opened: str = field(default="", repr=False, compare=False)
    """The input's name in full, as this process opened it; "" for none. No output has it."""

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {name: getattr(self, name) for name in _STORED}


_STORED = tuple(each.name for each in fields(SourceFacts) if each.repr)
TIMES = "times"  # the fact of a source whose starts hold no order: why not
NAME_TABLES = ("devices", "processes", "threads", "streams", "ids")


@dataclass(slots=True)
class Run:
    """Facts that are not rows. Complete when the batches of its reader are exhausted.

    origin_ns: Unix time of ts 0, in ns; None when the files do not have it.
    devices: (source, device) -> name. processes: (source, pid) -> name. threads: (source, pid, tid) -> name.
    streams: (source, device, stream) -> name. ids: (column, source, number) -> the id's own text, where the file's
    id was text or too large and the column has a small integer instead.
    """

    origin_ns: int | None = None
    sources: list[SourceFacts] = field(default_factory=list)
    devices: dict[Key, str] = field(default_factory=dict)
    processes: dict[Key, str] = field(default_factory=dict)
    threads: dict[Key, str] = field(default_factory=dict)
    streams: dict[Key, str] = field(default_factory=dict)
    ids: dict[Key, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        counts = [f"{len(getattr(self, name)):,} {name}" for name in NAME_TABLES if getattr(self, name)]
        sources = [f"  source {source.label or source.path} ({source.format})" for source in self.sources]
        head = ", ".join([f"run of {plural(len(self.sources), 'source')}", *counts])
        return "\n".join([head, *first_few(sources, "source")])

    def to_json(self) -> dict[str, object]:
        """Return a JSON object; each name table is a list of [key..., name], sorted."""
        out: dict[str, object] = {"origin_ns": self.origin_ns, "sources": [s.to_json() for s in self.sources]}
        for name in NAME_TABLES:
            table: dict[Key, str] = getattr(self, name)
            out[name] = [[*key, table[key]] for key in sorted(table, key=_nulls_last)]
        return out

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """Return the run that `to_json` wrote."""
        run = cls(origin_ns=data.get("origin_ns"))
        for s in data.get("sources", []):
            run.sources.append(SourceFacts(**{k: s[k] for k in _STORED if k in s}))
        for name in NAME_TABLES:
            setattr(run, name, {tuple(row[:-1]): str(row[-1]) for row in data.get(name, [])})
        return run


_BLOCK = 1 << 16
"""Rows that are looked at together, where a copy of a whole column would take memory."""
ARCHIVED_LEDGERS = "archived_ledgers"
"""The fact of a source that has the ledgers of the conversions which made the file, oldest first."""


def with_archived(facts: Mapping[str, Any], ledgers: object) -> dict[str, Any]:
    """Return the facts of a source with the ledgers of the last conversion behind those of the earlier ones."""
    earlier = facts.get(ARCHIVED_LEDGERS)
    made = [each for some in (earlier, ledgers) if isinstance(some, list) for each in some]
    return {**facts, ARCHIVED_LEDGERS: made}


JOINED_INTO = "joined_into"
"""The fact of a recorder's log whose rows are those of a process of another input: which one, and why."""

ELAPSED = "elapsed_ns"
"""The fact of an input without events that says how long the run took, in ns."""

WITHOUT_TIMES = "without_times"
"""The fact of an input that has no time at all: it needs no clock beside others."""


def incomplete(ledgers: Iterable[Ledger], run: Run | None = None) -> tuple[str, ...]:
    """Return the sentences for inputs that lost more than 1 % of their data records, or that say so: no results.

    run: its sources may be files that were converted from such inputs.
    """
    every = all_ledgers(ledgers, run)
    found = list(dict.fromkeys(text for ledger in every if (text := ledger.incomplete())))
    more = len(found) - INCOMPLETE_SHOWN
    return tuple([*found[:INCOMPLETE_SHOWN], f"INCOMPLETE: {plural(more, 'more input')}"] if more > 0 else found)


def all_ledgers(ledgers: Iterable[Ledger], run: Run | None) -> list[Ledger]:
    """Return the ledgers of the inputs, and those that its sources have of the conversions which made them."""
    every = [*ledgers]
    for source in run.sources if run is not None else ():
        every += _archived(source.facts.get(ARCHIVED_LEDGERS))
    return every


def _archived(stored: object) -> Iterator[Ledger]:
    """Yield the ledgers that a file has of its making; what is no ledger there is skipped."""
    for each in stored if isinstance(stored, list) else ():
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            yield Ledger.from_json(each)


def _nulls_last(key: Key) -> list[tuple[bool, Any]]:
    return [(part is None, 0 if part is None else part) for part in key]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Trace:
    """Events and totals in the schema, sorted by (ts_ns, -dur_ns), with one dictionary for each text column.

    The texts of a dictionary are in order of first use, so that the same rows are the same trace whatever file they
    come from, and a report from an archive equals the report from its source.

    events: pyarrow Table of schema.EVENTS; it may lack columns that the caller did not ask for.
    totals: pyarrow Table of schema.TOTALS.
    failures: inputs that could not be read, among others that could.
    Raises: SchemaError when a table is not of the schema.

    >>> rows = {"ts_ns": [5, 0], "dur_ns": [2, 4], "event_id": [1, 0], "source": [0, 0], "kind": ["kernel", "memcpy"]}
    >>> columns = [pa.array(values, schema.EVENTS.field(name).type) for name, values in rows.items()]
    >>> trace = Trace(pa.table(columns, schema=pa.schema([schema.EVENTS.field(name) for name in rows])))
    >>> trace
    trace of 2 events and 0 totals over 7 ns
      memcpy 1, kernel 1
    >>> trace.to_pandas()["dur_ns"].tolist()
    [4, 2]
    >>> len(trace), len(trace.filter(kind="kernel"))
    (2, 1)

    `len(trace)` is the number of events. polars, DuckDB and pyarrow take a trace where they take a table of Arrow: it
    is its events then.
    """

    events: pa.Table
    totals: pa.Table = field(default_factory=schema.TOTALS.empty_table)
    run: Run = field(default_factory=Run)
    ledgers: tuple[Ledger, ...] = ()
    failures: tuple[Failure, ...] = ()

    def __post_init__(self) -> None:
        for name, want in (("events", schema.EVENTS), ("totals", schema.TOTALS)):
            given: object = getattr(self, name)
            if not isinstance(given, pa.Table):
                raise ArgumentTypeError("Trace", name, "a pyarrow Table", type(given).__name__)
            table = given.unify_dictionaries()
            schema.check(table, want)
            order = start_order(table) if name == "events" else None
            object.__setattr__(self, name, with_own_dictionaries(in_one_chunk(table, order)))

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Return a sentence for each input that lost more than 1 % of its data records; () for a whole trace."""
        return incomplete(self.ledgers, self.run)

    def __repr__(self) -> str:
        lines = [*self.incomplete, self._size()]
        lines += [f"  {kinds}"] if (kinds := self._kinds()) else []
        lines += [f"  source {text}" for text in self._sources()]
        return "\n".join([*lines, *(f"  note: {text}" for text in self._notes())])

    def _repr_html_(self) -> str:
        facts = [("kinds", kinds)] if (kinds := self._kinds()) else []
        facts += [("source", text) for text in self._sources()]
        shown = f"<p>{escaped(self._size())}</p>{html_facts([*facts, *(('note', text) for text in self._notes())])}"
        return f'<div class="{NO_FORMULAS}">{shown}</div>'

    def _size(self) -> str:
        span = self.span() if "dur_ns" in self.events.schema.names else None
        rows = f"{plural(self.events.num_rows, 'event')} and {plural(self.totals.num_rows, 'total')}"
        return f"trace of {rows}{f' over {format_span(span[1] - span[0])}' if span else ''}"

    def _kinds(self) -> str:
        """Return how many rows each kind has, the most frequent first."""
        if "kind" not in self.events.schema.names:
            return ""
        codes, texts = text_codes(self.events.column("kind"))
        counts = np.bincount(codes, minlength=len(texts)).tolist()
        ranked = sorted(zip(texts, counts, strict=True), key=lambda pair: -pair[1])
        return ", ".join(f"{text} {count:,}" for text, count in ranked)

    def _sources(self) -> list[str]:
        return first_few([f"{source.label or source.path} ({source.format})" for source in self.run.sources], "source")

    def _notes(self) -> list[str]:
        return first_few([str(note) for ledger in self.ledgers for note in ledger.notes.values()], "note")

    def __len__(self) -> int:
        return self.events.num_rows

    def __bool__(self) -> bool:
        return True  # a trace without events is a trace

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the events as a stream of Arrow: polars, DuckDB, pyarrow and others read a trace by this."""
        return arrow_stream(self.events, requested_schema)

    @checked("selection")
    def filter(
        self,
        selection: object = None,
        *,
        name: str = "",
        kind: str | Iterable[str] = (),
        rank: int | Iterable[int] = (),
        device: int | Iterable[int] = (),
        stream: int | Iterable[int] = (),
        step: int | str | tuple[int | None, int | None] | None = None,
        time: str | tuple[int | None, int | None] | None = None,
        min_dur: int | str = 0,
    ) -> Trace:
        """Return the trace of the rows that pass all filters, the options of the same names of every command.

        name: a regular expression searched in the name. kind, rank, device, stream: one value or several. step: one
        step, (first, end) or "2:10". time: (first, end) in ns on this trace's clock, or "1.5s:2s". min_dur: the
        shortest duration, in ns or as "10us". selection: a `tracekit.Selection`, besides. A row whose column is null
        does not pass a filter on it. The ledgers of the result count the records of the other rows as filtered.
        Raises: UsageError, also where the trace was read without a column that is needed.
        """
        words: dict[str, object] = {
            "name": name,
            "kind": kind,
            "rank": rank,
            "device": device,
            "stream": stream,
            "step": step,
            "time": time,
            "min_dur": min_dur,
        }
        return _FILTERS[0](self, selection, words)

    @checked()
    def to_pandas(self, table: Literal["events", "totals"] = "events") -> pandas.DataFrame:
        """Return "events" or "totals" as a DataFrame, a row an event or a sum.

        Whole numbers are Int32 or Int64, with <NA> where a value is unknown; texts are categories; `attrs["units"]`
        has the columns' units. Raises: UsageError for another table.
        """
        import pandas as pd

        arrow: pa.Table = getattr(self, table)
        kinds = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype(), pa.float64(): pd.Float64Dtype()}
        frame: pandas.DataFrame = arrow.to_pandas(types_mapper=kinds.get)
        frame.attrs["units"] = {c.name: c.unit for c in schema.describe(table) if c.unit}
        return frame

    @checked()
    def to_polars(self, table: Literal["events", "totals"] = "events") -> polars.DataFrame:
        """Return "events" or "totals" as a DataFrame of polars; texts are categories, unknown values are null.

        Raises: MissingExtraError without polars; UsageError for another table.
        """
        return to_polars(getattr(self, table))

    def span(self) -> tuple[int, int] | None:
        """Return first start and last end in ns, None without events."""
        if not self.events.num_rows:
            return None
        last = []
        for block in self.events.select(["ts_ns", "dur_ns"]).to_batches(max_chunksize=_BLOCK):
            starts, lengths = map(arrow.ints, block.columns)
            last.append(int((starts + np.maximum(lengths, 0)).max()))
        return int(arrow.ints(self.events.column("ts_ns").slice(0, 1))[0]), max(last)


TraceFilter = Callable[[Trace, object, dict[str, object]], Trace]
_FILTERS: list[TraceFilter] = []


def filter_with(function: TraceFilter) -> None:
    """Set the function that `Trace.filter` calls: `tracekit.inputs`, which has the filters, is above this module."""
    _FILTERS[:] = [function]


def concat(tables: Sequence[pa.Table] | Sequence[pa.RecordBatch], empty: pa.Schema) -> pa.Table:
    """Return the rows of all tables in one, dictionaries unified; an empty table of the schema when there are none."""
    parts = [pa.Table.from_batches([t]) if isinstance(t, pa.RecordBatch) else t for t in tables]
    if not parts:
        return empty.empty_table()
    return pa.concat_tables(parts).unify_dictionaries()


def text_codes(column: arrow.Chunked) -> tuple[I64, list[str]]:
    """Return codes (int64, -1 for null) and the list of texts of a dictionary column that has one dictionary."""
    chunks = [arrow.encoded(chunk) for chunk in column.chunks]
    codes = [arrow.ints(chunk.indices, -1) for chunk in chunks]
    return (
        np.concatenate(codes) if codes else np.empty(0, np.int64),
        arrow.texts(chunks[-1].dictionary) if chunks else [],
    )
