"""Tables of durations by name, made of batches that are not kept: of each row its name and its time are enough.

    made = batch_tables.summary("run.sqlite", options, ["kernel"], shown)

A trace in memory has all columns of all rows. Here the rows of a table leave eight or twelve bytes each, and the others
one place for each distinct name. The figures are put into the index of a trace of one row, and the views make of them
what they make of a whole trace; so the tables are the same, their order and ties included.

Where a table needs more of the rows (shapes of operators, totals, work whose duration cannot be) `summary` gives None,
and the input is to be read as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from tracekit import pipeline
from tracekit.index import grouping
from tracekit.index.grouping import Key
from tracekit.index.shapes_in_names import SIZES
from tracekit.index.stated_work import STATING
from tracekit.index.trace_index import index_of
from tracekit.index.work_units import KINDS
from tracekit.inputs import InputOptions, PathLike
from tracekit.inputs.paths import Input
from tracekit.inputs.stream import Inputs
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema
from tracekit.model.arrow import I32, I64, Mask, Rows
from tracekit.model.report import Cell, Report
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions, computed
from tracekit.views.named import NamedFigures, NamedTable, figures
from tracekit.views.tables import api, kernel

__all__ = ["TABLES", "NamedSummary", "fits", "summary"]

TABLES: Mapping[str, NamedTable] = MappingProxyType({"kernel": kernel.TABLE, "api": api.TABLE})
"""Views that are one such table."""
_STDIN = "-"
_COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "name", "raw_name"})


@dataclass(frozen=True, slots=True)
class NamedSummary:
    """The summary of one input, and its ledgers."""

    report: Report
    ledgers: tuple[Ledger, ...]


def fits(items: Sequence[Input], views: Sequence[str], shown: ViewOptions) -> bool:
    """Return whether these views of these inputs may be made of batches. An input from stdin is read only once."""
    plain = not (shown.compat or shown.by or shown.each or shown.topology or shown.thread_sep)
    return plain and bool(views) and set(views) <= TABLES.keys() and len(items) == 1 and items[0].name != _STDIN


def summary(
    inputs: PathLike | Sequence[PathLike], options: InputOptions, views: Sequence[str], shown: ViewOptions
) -> NamedSummary | None:
    """Return the summary of views of `TABLES`; None where the input is to be read as a whole.

    Raises: TracekitError as reading a trace does, UsageError for a column to sort by that is none.
    """
    columns = _COLUMNS.union(*(TABLES[name].columns for name in views))
    how = replace(options, columns=columns, args_of=frozenset(), more_columns=None)
    found = _Rows({name: _TableRows(TABLES[name].kinds) for name in dict.fromkeys(views)})
    with Inputs(inputs, how) as joined:
        stream = joined.stream(order=False)
        if STATING & joined.formats or len(stream.run.sources) != 1:
            return None
        for batch in stream.batches:
            if not found.take(batch):
                return None
        joined.bad()
        work = joined.work
    facts = stream.run.sources[0].facts
    if not found.count or len(facts.get("runs", ())) > 1 or (work is not None and work.covers()):
        return None
    trace = Trace(found.one_row(columns), run=stream.run, ledgers=stream.ledgers)
    index = index_of(trace)
    for name, rows in found.tables.items():
        kinds, by_kind, percents = TABLES[name].key
        named = found.figures(rows, percents, by_kind=by_kind)
        index.give(figures, named, kinds, by_kind=by_kind, percents=percents)
    report = pipeline.report_of(trace, [computed(VIEWS[name], index, shown) for name in views])
    told = [(key, f"{found.count:,}" if key == "events" else text) for key, text in report.facts]
    return NamedSummary(replace(report, facts=tuple(told)), stream.ledgers)


@dataclass(slots=True)
class _TableRows:
    """The rows of one table: the number of the name of each, of its kind, and its duration."""

    kinds: frozenset[Kind]
    names: list[I32] = field(default_factory=list)
    of_kind: list[I32] = field(default_factory=list)
    durations: list[Rows] = field(default_factory=list)
    untimed: int = 0
    negative: int = 0


@dataclass(slots=True)
class _Labels:
    """Distinct texts in order of their first row in a trace, which is sorted by start and then by length.

    numbers: of each text; first: where it is first, as (start, -duration, place in the stream).
    """

    numbers: dict[str | None, int] = field(default_factory=dict)
    first: list[tuple[int, int, int]] = field(default_factory=list)

    def number(self, texts: arrow.DictColumn, starts: I64, lengths: I64, place: int) -> I32:
        """Return the number of the text of each row of a batch. place: of the first row."""
        codes = arrow.codes(texts)
        order = _in_order(starts, lengths)
        ordered = codes if order is None else codes[order]
        at_first = np.full(len(texts.dictionary) + 1, -1, np.int64)  # the last one is of rows without a text
        at_first[ordered[::-1]] = np.arange(codes.size - 1, -1, -1)  # of equal codes the first row is put in last
        used = np.flatnonzero(at_first >= 0)
        first = at_first[used] if order is None else order[at_first[used]]
        number = np.zeros(at_first.size, np.int32)
        for code, row in zip(used.tolist(), first.tolist(), strict=True):
            text = texts.dictionary[code].as_py() if code < len(texts.dictionary) else None
            at = (int(starts[row]), -int(lengths[row]), place + row)
            own = number[code] = self.numbers.setdefault(text, len(self.first))
            if own == len(self.first):
                self.first.append(at)
            self.first[own] = min(self.first[own], at)
        numbers: I32 = number[codes]
        return numbers

    def key(self, numbers: list[I32]) -> Key:
        """Return these numbers as the key that a whole trace has."""
        order = sorted(range(len(self.first)), key=self.first.__getitem__)
        texts = list(self.numbers)
        labels: list[Cell] = [None, *(texts[number] for number in order if texts[number] is not None)]
        code_of = {text: code for code, text in enumerate(labels)}
        codes = np.array([code_of[text] for text in texts], np.int64)
        return Key(codes[np.concatenate([np.zeros(0, np.int32), *numbers])], labels)


@dataclass(slots=True)
class _Rows:
    """Names and times of all rows so far. first, last: start of the first row and end of the last, ns."""

    tables: Mapping[str, _TableRows]
    names: _Labels = field(default_factory=_Labels)
    kinds: _Labels = field(default_factory=_Labels)
    count: int = 0
    first: int = 0
    last: int = 0

    def take(self, batch: pa.RecordBatch) -> bool:
        """Take the rows of a batch. False: the tables need more of them than this keeps."""
        if not batch.num_rows:
            return True
        names, kinds = (arrow.encoded(batch.column(column)) for column in ("name", "kind"))
        of_kind = arrow.texts(kinds.dictionary)
        if schema.is_totals(batch) or not KINDS.isdisjoint(of_kind) or _has_sizes(batch):
            return False
        starts = arrow.ints(batch.column("ts_ns"))
        timed, lengths = arrow.valid(batch.column("dur_ns")), arrow.ints(batch.column("dur_ns"), -1)
        name = self.names.number(names, starts, lengths, self.count)
        kind = self.kinds.number(kinds, starts, lengths, self.count)
        first, last = int(starts.min()), int((starts + np.maximum(lengths, 0)).max())
        self.first, self.last = (min(first, self.first), max(last, self.last)) if self.count else (first, last)
        self.count += batch.num_rows
        for rows in self.tables.values():
            wanted = np.array([*(text in rows.kinds for text in of_kind), False], np.bool_)[arrow.codes(kinds)]
            self._add(rows, wanted, timed, name, kind, lengths)
        return True

    @staticmethod
    def _add(rows: _TableRows, wanted: Mask, timed: Mask, name: I32, kind: I32, lengths: I64) -> None:
        mine = wanted & timed
        lengths = lengths[mine]
        rows.untimed += int(np.count_nonzero(wanted & ~timed))
        rows.negative += int(np.count_nonzero(lengths < 0))
        lengths = np.maximum(lengths, 0)
        narrow = lengths.size and int(lengths.max()) <= np.iinfo(np.int32).max
        rows.durations.append(lengths.astype(np.int32) if narrow else lengths)
        rows.names.append(name[mine])
        rows.of_kind.append(kind[mine])

    def figures(self, rows: _TableRows, percents: tuple[int, ...], *, by_kind: bool) -> NamedFigures:
        """Return the figures of a table, as of a whole trace; the rows are let go."""
        keys = [self.names.key(rows.names), *([self.kinds.key(rows.of_kind)] if by_kind else [])]
        rows.names, rows.of_kind = [], []
        durations = np.concatenate([np.zeros(0, np.int64), *rows.durations])
        rows.durations = []
        groups = grouping.group_by(*keys)
        return NamedFigures(
            groups.labels, grouping.statistics(groups, durations, percents), rows.untimed, rows.negative
        )

    def one_row(self, columns: frozenset[str]) -> pa.Table:
        """Return a table of EVENTS with one row, over the time of all."""
        row: dict[str, Any] = {"ts_ns": self.first, "dur_ns": self.last - self.first, "kind": str(Kind.OTHER)}
        row |= {"event_id": 0, "source": 0}
        names = [name for name in schema.EVENTS.names if name in columns]
        cells = [pa.array([row.get(name)]).cast(schema.EVENTS.field(name).type) for name in names]
        fields = pa.schema([schema.EVENTS.field(name) for name in names])
        return pa.table(cells, schema=fields.with_metadata(schema.EVENTS.metadata))


def _in_order(starts: I64, lengths: I64) -> Rows | None:
    """Return the order of rows by start, the longest first; None where they are in it."""
    later = starts[1:] > starts[:-1]
    if bool(np.all(later | ((starts[1:] == starts[:-1]) & (lengths[1:] <= lengths[:-1])))):
        return None
    return np.lexsort((-lengths, starts))


def _has_sizes(batch: pa.RecordBatch) -> bool:
    columns = [batch.column(name) for name in ("name", "raw_name") if name in batch.schema.names]
    return any(SIZES in text for column in columns for text in arrow.texts(arrow.encoded(column).dictionary))
