"""A first look at an input: its processes, when each of them ran, and the ranges that another file may have too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

import numpy as np
import pyarrow as pa

from tracekit.inputs.clocks.shared_ranges import NO_THREAD, ProcessRanges
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema, sets
from tracekit.model.arrow import I64, Chunked, Column, Mask
from tracekit.model.schema import Kind
from tracekit.model.trace import Run

__all__ = [
    "COLUMNS",
    "KINDS",
    "MOST_RANGES",
    "RANGE_KINDS",
    "RangeTexts",
    "Survey",
    "SurveyedProcess",
    "is_step",
    "look",
    "states_own_ids",
    "with_threads",
]

COLUMNS = frozenset(
    {"ts_ns", "dur_ns", "event_id", "name", "kind", "rank", "pid", "tid", "device", "stream", "step", "args"}
)
"""Columns of EVENTS that a survey looks at."""
RANGE_KINDS = frozenset(
    {
        *(Kind.USER_RANGE, Kind.USER_RANGE_NATIVE, Kind.STEP, Kind.DATALOADER, Kind.FORWARD, Kind.BACKWARD),
        *(Kind.OPTIMIZER, Kind.COMMUNICATION, Kind.OPERATOR, Kind.MARK),
    }
)
"""Kinds of ranges and marks that a program can set itself."""
MOST_RANGES = 1 << 22
"""Ranges of an input that are looked at; the others are taken as they are."""


@dataclass(slots=True)
class RangeTexts:
    """Numbers of texts, the same for all inputs of a run."""

    numbers: dict[str, int] = field(default_factory=dict)

    def of(self, column: Column, *, add: bool) -> I64:
        """Return the number of each text, -1 for null and, unless new ones are added, for one that is not known."""
        encoded = arrow.encoded(column)
        known = [self._number(text, add=add) for text in arrow.optional_texts(encoded.dictionary)]
        return np.array([*known, -1], np.int64)[arrow.codes(encoded)]

    def _number(self, text: str | None, *, add: bool) -> int:
        if text is None:
            return -1
        return self.numbers.setdefault(text, len(self.numbers)) if add else self.numbers.get(text, -1)


@dataclass(slots=True)
class SurveyedProcess:
    """One process in one input. first, last: ns on the input's clock. ranks: as its rows state them.

    threads: the ids of its threads. kinds: the number of each range's kind. args: of each range, none for other
    inputs than logs. whole: all ranges are here. device_work: rows on a device.
    """

    pid: int
    first: int
    last: int
    ranks: set[int] = field(default_factory=set)
    threads: set[int] = field(default_factory=set)
    device_work: int = 0
    whole: bool = True
    ranges: ProcessRanges = field(default_factory=lambda: ProcessRanges(*([np.empty(0, np.int64)] * 6)))
    kinds: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    args: Chunked = field(default_factory=lambda: pa.chunked_array([], pa.string()))


@dataclass(frozen=True, slots=True)
class Survey:
    """The processes of one input that were looked at, by pid.

    nameless_work: there are rows on a device that state no process. alone: no row is of another process.
    """

    processes: dict[int, SurveyedProcess]
    nameless_work: bool
    alone: bool


@dataclass(slots=True)
class _Parts:
    """Ranges of one process as they come."""

    columns: list[tuple[I64, ...]] = field(default_factory=list)
    args: list[Column] = field(default_factory=list)
    count: int = 0


def look(batches: Iterable[pa.RecordBatch], texts: RangeTexts, *, pids: frozenset[int] | None = None) -> Survey:
    """Return the processes of an input. texts: numbers the names; a log's names are added to it.

    pids: of another input than a log, the processes to look at; its ranges are kept where a log has the name, or where
    they are steps.
    """
    found: dict[int, SurveyedProcess] = {}
    parts: dict[int, _Parts] = {}
    nameless = False
    every: set[int] = set()
    for batch in batches:
        if schema.is_totals(batch) or not batch.num_rows:
            continue
        pid, known = arrow.ints(batch.column("pid")), arrow.valid(batch.column("pid"))
        on_device = arrow.valid(batch.column("device")) | arrow.valid(batch.column("stream"))
        nameless |= bool((on_device & ~known).any())
        numbers = sets.unique(pid[known]).tolist()
        every.update(numbers)
        for number in numbers:
            if pids is None or number in pids:
                rows = np.flatnonzero(known & (pid == number))
                _add(
                    found, parts, number, batch if rows.size == batch.num_rows else arrow.take(batch, rows), texts, pids
                )
    for number, process in found.items():
        _finish(process, parts[number])
    return Survey(found, nameless, len(every) == 1)


def _add(
    found: dict[int, SurveyedProcess],
    parts: dict[int, _Parts],
    pid: int,
    batch: pa.RecordBatch,
    texts: RangeTexts,
    pids: frozenset[int] | None,
) -> None:
    ts = arrow.ints(batch.column("ts_ns"))
    dur = arrow.ints(batch.column("dur_ns"), -1)
    first, last = int(ts.min()), int((ts + np.maximum(dur, 0)).max())
    process = found.setdefault(pid, SurveyedProcess(pid, first, last))
    mine = parts.setdefault(pid, _Parts())
    process.first, process.last = min(process.first, first), max(process.last, last)
    process.ranks.update(sets.unique(arrow.ints(batch.column("rank"))[arrow.valid(batch.column("rank"))]).tolist())
    threads = arrow.ints(batch.column("tid"), NO_THREAD)
    process.threads.update(sets.unique(threads[threads != NO_THREAD]).tolist())
    on_device = arrow.valid(batch.column("device")) | arrow.valid(batch.column("stream"))
    process.device_work += int(np.count_nonzero(on_device))
    kinds = _kinds(batch)
    wanted = np.isin(kinds, _RANGE_CODES) & ~on_device
    names = texts.of(batch.column("name"), add=pids is None)
    wanted &= (names >= 0) | (kinds == _STEP)
    rows = np.flatnonzero(wanted)
    if mine.count + rows.size > MOST_RANGES:
        process.whole = False
        return
    if not rows.size:
        return
    mine.count += rows.size
    columns = (
        ts,
        dur,
        threads,
        names,
        arrow.ints(batch.column("event_id")),
        arrow.ints(batch.column("step"), -1),
        kinds,
    )
    mine.columns.append(tuple(column[rows] for column in columns))
    if pids is None:
        mine.args.append(batch.column("args").take(arrow.array(rows)))


KINDS = tuple(sorted(schema.KINDS))
"""The kinds by the numbers that `SurveyedProcess.kinds` has."""
_RANGE_CODES = np.array([code for code, kind in enumerate(KINDS) if kind in RANGE_KINDS])
_STEP = KINDS.index(Kind.STEP)


def _kinds(batch: pa.RecordBatch) -> I64:
    encoded = arrow.encoded(batch.column("kind"))
    places = [KINDS.index(text) for text in arrow.texts(encoded.dictionary)]
    return np.array([*places, -1], np.int64)[arrow.codes(encoded)]


def _finish(process: SurveyedProcess, parts: _Parts) -> None:
    if not parts.columns:
        return
    *columns, kinds = (np.concatenate(column) for column in zip(*parts.columns, strict=True))
    process.ranges, process.kinds = ProcessRanges(*columns), kinds
    if parts.args:
        process.args = pa.chunked_array(parts.args, pa.string())


def with_threads(process: SurveyedProcess, names: Mapping[int, int]) -> SurveyedProcess:
    """Return a process whose ranges have other ids for these threads."""
    if not names:
        return process
    threads = process.ranges.threads.copy()
    for tid, other in names.items():
        threads[process.ranges.threads == tid] = other
    return replace(process, ranges=replace(process.ranges, threads=threads))


def is_step(process: SurveyedProcess) -> Mask:
    """Return which ranges of a process are steps with a number and an end."""
    steps: Mask = (process.kinds == _STEP) & (process.ranges.steps >= 0) & (process.ranges.lengths >= 0)
    return steps


def states_own_ids(run: Run, column: str, source: int) -> bool:
    """Return whether some ids of a column are numbers of ours, since the file's own are text: they name no process."""
    return any(key[0] == column and key[1] == source for key in run.ids)
