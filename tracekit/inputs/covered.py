"""Device work that lasts over whole later work of its stream: one runs after the other there, so its end is wrong.

It is looked for where streams are known to run so. AMD's, Intel's and Perfetto's `stream` may be a queue that several
streams share, XPlane's a line of nested operations, and Ascend's tasks have parts. Graphs that were traced as a whole
last over their own kernels, and migrations of unified memory belong to no stream. In the real files that the tests read
(88,000 rows of device work on streams, of every producer) no row lasts over two others of its stream.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace

import numpy as np
import pyarrow as pa

from tracekit.analysis.covered import CoverSearch
from tracekit.analysis.packed import Packed
from tracekit.analysis.segments import compact_codes
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema
from tracekit.model.args import with_member
from tracekit.model.arrow import I64, Mask, Rows, pc
from tracekit.model.display import escape_controls, shortened
from tracekit.model.schema import DEVICE_WORK
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.model.units import format_span

__all__ = ["CODE", "COLUMNS", "RECORD", "StreamWork", "note", "text_of", "without_impossible"]

CODE = "covered-work"
NAME = 60
"""Most characters of a name in the sentence, so that its figures are on the first screen."""
_LANE = ("source", "rank", "pid", "device", "context", "stream")
COLUMNS = frozenset({*_LANE, "ts_ns", "dur_ns", "event_id", "name", "kind", "correlation"})
"""Columns of EVENTS that are looked at."""
RECORD = frozenset({"source", "event_id"})
"""Columns of EVENTS that say which record a row is of."""
_NO_STREAMS_OF = ("rocprof", "ROCprofiler", "rocmProfileData", "Ascend", "XPlane", "JAX", "ONNX", "Perfetto", "Intel")
"""Begins of the names of tools whose streams are of another kind; a file that was converted keeps the name."""
_OUTSIDE = ("[Unified Memory", "[CUDA Unified Memory", "[CUDA graph ")


@dataclass(frozen=True, slots=True)
class Cover:
    """Device work that lasts over others. number: its event_id. later: whole later work of its stream."""

    source: int
    number: int
    name: str
    kind: str
    start_ns: int
    length_ns: int
    stream: int
    later: int


@dataclass(slots=True)
class StreamWork:
    """The device work of streams, gathered batch by batch. Memory: some 15 bytes a row, as `Packed` holds them.

    most: rows that are kept, 0 for all; of an input with more of them nothing is known.
    """

    most: int = 0
    _count: int = 0
    _runs: dict[int, Run] = field(default_factory=dict)
    _search: CoverSearch = field(default_factory=CoverSearch)
    _parts: list[tuple[int, Packed, Packed]] = field(default_factory=list)
    """Rows before each part, and the numbers and kinds of its own."""
    _kept: int = 0
    _names: dict[str, int] = field(default_factory=dict)
    _lanes: dict[tuple[int, ...], int] = field(default_factory=dict)

    def begin(self, run: Run, first: int) -> None:
        """Begin with an input, before its rows are taken. first: the number of its first source."""
        self._runs[first] = run

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take the device work of a batch, and return the batch; TOTALS have none."""
        self._take(batch)
        return batch

    def _take(self, batch: pa.RecordBatch) -> None:
        if schema.is_totals(batch) or not batch.num_rows or not set(batch.schema.names) >= COLUMNS:
            return
        if self.most and self._count > self.most:
            return
        timed = arrow.valid(batch.column("dur_ns")) & arrow.valid(batch.column("stream"))
        rows = np.flatnonzero(timed & _is_work(batch))
        if not rows.size:
            return
        self._count += rows.size
        if self.most and self._count > self.most:
            self._let_go()
            return
        name, texts = _texts(batch, "name", rows)
        outside = np.array([text.startswith(_OUTSIDE) for text in texts], np.bool_)[name]
        if outside.any():
            rows, name = rows[~outside], name[~outside]
            if not rows.size:
                return
        kind, kinds = _texts(batch, "kind", rows)
        name, kind = self._numbers_of(texts)[name], self._numbers_of(kinds)[kind]
        start, length, number, launch, source = (
            arrow.ints_or_least(batch.column(column))[rows]
            for column in ("ts_ns", "dur_ns", "event_id", "correlation", "source")
        )
        launch[launch <= 0] = -1
        self._search.take(self._lanes_of(batch, rows), start, length, name, launch, source)
        self._parts.append((self._kept, Packed(number), Packed(kind)))
        self._kept += rows.size

    def _numbers_of(self, texts: Sequence[str]) -> I64:
        """Return the number of each text."""
        return np.array([self._names.setdefault(text, len(self._names)) for text in texts], np.int64)

    def _let_go(self) -> None:
        self._parts, self._search = [], CoverSearch()

    def _lanes_of(self, batch: pa.RecordBatch, rows: Rows) -> I64:
        """Return a number for the stream of each row."""
        columns = [arrow.ints_or_least(batch.column(column))[rows] for column in _LANE]
        codes = np.zeros(columns[0].size, np.int64)
        for values in columns:
            if (values != values[0]).any():
                distinct, code = _numbered(values)
                codes = _numbered(codes * distinct.size + code)[1]
        first = np.empty(int(codes.max()) + 1, np.int64)
        first[codes[::-1]] = np.arange(codes.size)[::-1]  # of each code the first row is written last
        keys = zip(*(values[first].tolist() for values in columns), strict=True)
        return np.array([self._lanes.setdefault(key, len(self._lanes)) for key in keys], np.int64)[codes]

    def covers(self) -> list[Cover]:
        """Return the work that lasts over others, once: it lets go of the rows.

        All inputs must have been read to their end.
        """
        if not self._parts:
            return []
        inside = {number for number, facts in self._facts() if has_streams(facts)}
        keys, texts = [*self._lanes], [*self._names]
        found = self._search.covers(inside)
        lane, start, length, name, _ = (column.tolist() for column in self._search.at(found.rows))
        made = []
        for place, (row, later) in enumerate(zip(found.rows.tolist(), found.counts.tolist(), strict=True)):
            first, number, kind = self._parts[bisect_right(self._parts, row, key=lambda part: part[0]) - 1]
            at = np.array([row - first])
            made.append(
                Cover(
                    source=keys[lane[place]][0],
                    number=int(number.at(at)[0]),
                    name=texts[name[place]],
                    kind=texts[int(kind.at(at)[0])],
                    start_ns=start[place],
                    length_ns=length[place],
                    stream=keys[lane[place]][-1],
                    later=later,
                )
            )
        self._let_go()
        return made

    def _facts(self) -> Iterator[tuple[int, SourceFacts]]:
        for first, run in self._runs.items():
            yield from enumerate(run.sources, first)


def _texts(batch: pa.RecordBatch, column: str, rows: Rows) -> tuple[I64, list[str]]:
    """Return which text each row has, and the texts in use; "" for none."""
    encoded = arrow.encoded(batch.column(column))
    used, places = _numbered(arrow.codes(encoded)[rows])
    texts = arrow.optional_texts(arrow.pc.take(encoded.dictionary, arrow.array(used, mask=used < 0)))
    return places, [text or "" for text in texts]


def _numbered(values: Rows) -> tuple[Rows, I64]:
    """Return the distinct values, ascending, and the place of each row's value among them. There must be a row."""
    least, greatest = int(values.min()), int(values.max())
    if greatest - least > 4 * values.size:  # beyond int64, maybe: null is the least of all
        distinct, place = np.unique(values, return_inverse=True)
        return distinct, place
    found, place = compact_codes(values.astype(np.int64) - least, greatest - least + 1)
    return (found + least).astype(values.dtype), place


def has_streams(facts: SourceFacts) -> bool:
    """Return whether work of one stream runs one after the other in an input of this format and producer."""
    tool = facts.facts.get("tool")
    return not (isinstance(tool, str) and tool.startswith(_NO_STREAMS_OF)) and not facts.synthetic_time


def without_durations(table: pa.Table, covers: Sequence[Cover]) -> tuple[pa.Table, list[Cover]]:
    """Return EVENTS in which the durations of this work are null, and that of it which is in the table.

    The measured duration goes into `args`, where the table has these. Starts are those of the table.
    """
    wanted = {(each.source, each.number, each.length_ns): each for each in covers}
    if not wanted or not {"source", "event_id", "dur_ns"} <= set(table.schema.names):
        return table, []
    number, source, length = (arrow.ints(table.column(name)) for name in ("event_id", "source", "dur_ns"))
    rows, starts = np.flatnonzero(np.isin(number, [each.number for each in covers])), arrow.ints(table.column("ts_ns"))
    keys = [(int(source[row]), int(number[row]), int(length[row])) for row in rows.tolist()]
    found = [(row, key) for row, key in zip(rows.tolist(), keys, strict=True) if key in wanted]
    mask = np.zeros(table.num_rows, np.bool_)
    mask[[row for row, _ in found]] = True
    known = arrow.valid(table.column("dur_ns"))
    if found and "args" in table.schema.names:
        args = arrow.in_one(table.column("args"))
        old = arrow.take(args, np.array([row for row, _ in found])).to_pylist()
        new = [with_member(text, "measured_dur_ns", key[2]) for text, (_, key) in zip(old, found, strict=True)]
        table = arrow.with_column(
            table, "args", pc.replace_with_mask(args, arrow.array(mask), arrow.array(new, args.type))
        )
    table = arrow.with_column(table, "dur_ns", arrow.array(length, mask=mask | ~known)) if found else table
    return table, [replace(wanted[key], start_ns=int(starts[row])) for row, key in found]


def without_impossible(events: pa.Table, work: StreamWork | None, ledgers: Sequence[Ledger]) -> pa.Table:
    """Return EVENTS in which durations that cannot be are not known; each is noted in the ledger of its input.

    Raises: TracekitError where a ledger is strict.
    """
    if work is None:
        return events
    events, found = without_durations(events, work.covers())
    note(found, ledgers)
    return events


def note(covers: Iterable[Cover], ledgers: Iterable[Ledger]) -> None:
    """Note the work that lasts over others in the ledger of its input. Raises: TracekitError when strict."""
    by_source = {ledger.source: ledger for ledger in reversed([*ledgers])}
    for each in sorted(covers, key=lambda each: (-each.length_ns, each.source, each.number)):
        ledger = by_source.get(each.source) or next(iter(by_source.values()), None)
        if ledger is not None:
            ledger.note(CODE, text_of(each), where=f"event {each.number}")


def text_of(cover: Cover) -> str:
    """Return the sentence about work that lasts over others."""
    name = shortened(escape_controls(cover.name) or "(no name)", NAME)
    return (
        f"{name}, {format_span(cover.length_ns)} from {cover.start_ns:,} ns on, lasts over {cover.later:,} whole later "
        f"kernels and copies of its stream {cover.stream}: this is impossible, so its duration is treated as unknown"
    )


def _is_work(batch: pa.RecordBatch) -> Mask:
    kinds = arrow.encoded(batch.column("kind"))
    table = np.array([text in DEVICE_WORK for text in arrow.texts(kinds.dictionary)] or [False], np.bool_)
    found: Mask = table[arrow.codes(kinds)]
    return found
