"""Checks of the rows that a reader gives, in order of start, batch by batch.

Memory: 24 bytes for each row with a defect, 56 for each launch and each device row that has a launch id, and 48 for
each device row of a stream.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tracekit.analysis.captures import CAPTURE_BEGIN, CAPTURE_END, between
from tracekit.analysis.lanes import LaneAssigner
from tracekit.analysis.links import one_key
from tracekit.credentials import masked
from tracekit.doctor.defects import DEFECTS
from tracekit.doctor.findings import EXAMPLES, Example, FoundDefect, Gathered, gather
from tracekit.inputs.covered import CODE, StreamWork, text_of
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema, sets
from tracekit.model.arrow import I64, Mask, Rows
from tracekit.model.schema import API_CALLS, DEVICE_WORK, Kind

__all__ = ["RowChecks", "RowGroup"]

FAR_NS = 7 * 24 * 3600 * 10**9
"""Groups of events with no event for a week between them are not one recording."""
MOST_GROUPS = 1000

_LAUNCH = re.compile(
    r"(?:cuda|cu|hip)(?:Graph|Module|ExtModule|Ext|HccModule)?(?:Launch(?!HostFunc)|Memcpy(?!.*(?:Params|Node)))"
)
"""Calls that always start work. One that sets no bytes starts none."""
_HOST_KINDS = frozenset({Kind.OPERATOR, Kind.OPERATOR_INNER, Kind.PYTHON_OP, *API_CALLS})
_CAPTURE_COLUMNS = (0, 1, 2, 10, 4)
"""Of the columns of launches: what makes a thread, and the start."""
_MOSTLY = 0.5
_NONE = np.iinfo(np.int64).min


@dataclass(slots=True)
class RowGroup:
    """Events without a gap of a week. first_ns: the first start; last_ns: the last end; example: its first event."""

    first_ns: int
    last_ns: int
    count: int
    example: tuple[int, str]


@dataclass(slots=True)
class RowChecks:
    """Takes all rows of one input.

    lanes: also look for what `_raw` finds in JSON traces: slices that cross, or that end before they start.
    parts: the format has calls and work in one file, so that one without the other is a file that lacks something.
    """

    lanes: bool
    parts: bool = True
    events: int = 0
    totals: int = 0
    streams: StreamWork = field(default_factory=StreamWork)
    """Sees the same rows before `see` does."""
    groups: list[RowGroup] = field(default_factory=list)
    forsaken: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    """Numbers of the launches all of whose work starts before them, once `findings` was called."""
    _found: dict[str, Gathered] = field(default_factory=dict)
    _assigner: LaneAssigner = field(default_factory=LaneAssigner)
    _lane_codes: dict[tuple[int, ...], int] = field(default_factory=dict)
    _launches: list[tuple[I64, ...]] = field(default_factory=list)
    _work: list[tuple[I64, ...]] = field(default_factory=list)
    _captures: tuple[list[tuple[I64, ...]], list[tuple[I64, ...]]] = field(default_factory=lambda: ([], []))
    _names: dict[str, int] = field(default_factory=dict)
    _has_device: bool = False
    _fine: bool = False
    """Device work has durations below 1 us."""

    def see(self, batch: pa.RecordBatch) -> None:
        """Take the next rows."""
        if schema.is_totals(batch):
            self.totals += batch.num_rows
            return
        if not batch.num_rows:
            return
        self.events += batch.num_rows
        dur, timed = arrow.ints(batch.column("dur_ns")), arrow.valid(batch.column("dur_ns"))
        kinds = arrow.encoded(batch.column("kind"))
        kind, texts = arrow.codes(kinds), arrow.texts(kinds.dictionary)
        work = _any_of(kind, texts, DEVICE_WORK)
        if self.lanes:
            gather(self._found, "negative-duration", batch, timed & (dur < 0))
        gather(self._found, "zero-duration", batch, work & timed & (dur == 0))
        self._fine |= bool((dur[work] % 1000).any())
        self._group(batch, dur)
        if self.lanes:
            self._cross(batch, dur, timed, work, _any_of(kind, texts, _HOST_KINDS))
        self._has_device |= bool(arrow.valid(batch.column("device")).any())
        self._take_launches(batch, work, _any_of(kind, texts, API_CALLS))

    def span_ns(self) -> int:
        """Return the ns from the first start to the last end."""
        return self.groups[-1].last_ns - self.groups[0].first_ns if self.groups else 0

    def findings(self, word: str) -> list[FoundDefect]:
        """Return the defects of all rows."""
        self._link()
        if not self._fine:
            self._found.pop("zero-duration", None)  # in whole us, work of less than half a us takes 0
        span = self.span_ns()
        found = [each.finding(word, span) for each in self._found.values()]
        return [each for each in (*found, self._far(word), self._covered(word, span)) if each is not None]

    def _covered(self, word: str, span: int) -> FoundDefect | None:
        """Return the work that lasts over whole later work of its stream."""
        covers = sorted(self.streams.covers(), key=lambda each: -each.length_ns)
        if not covers:
            return None
        numbers, starts, lengths = np.array([(c.number, c.start_ns, c.length_ns) for c in covers], np.int64).T
        gathered = Gathered(CODE)
        gathered.take(numbers, starts, lengths, [each.name for each in covers])
        finding = gathered.finding(word, span)
        return None if finding is None else replace(finding, text=text_of(covers[0]))

    def _group(self, batch: pa.RecordBatch, dur: I64) -> None:
        """Divide the rows where nothing happens for a week."""
        ts = arrow.ints(batch.column("ts_ns"))
        ends = np.maximum.accumulate(ts + np.maximum(dur, 0))
        last = self.groups[-1].last_ns if self.groups else _NONE
        reach = np.maximum(np.concatenate((np.array([last]), ends[:-1])), last)
        # Without overflow: starts and ends are within 146 years of 0, and _NONE is only before the first row.
        begins = np.flatnonzero((ts - np.maximum(reach, -(1 << 62)) > FAR_NS) & (reach != _NONE))
        if not self.groups:
            begins = np.concatenate((np.zeros(1, np.int64), begins))
        bounds = [0, *begins.tolist(), len(ts)]
        for at, (start, stop) in enumerate(pairwise(bounds)):
            if start == stop:
                continue
            if at and len(self.groups) < MOST_GROUPS:
                number, name = _event(batch, start)
                self.groups.append(RowGroup(int(ts[start]), int(ends[start]), 0, (number, name)))
            group = self.groups[-1]
            group.count += stop - start
            group.last_ns = max(group.last_ns, int(ends[stop - 1]))

    def _far(self, word: str) -> FoundDefect | None:
        if len(self.groups) < 2:
            return None
        main = max(self.groups, key=lambda group: group.count)
        others = [group for group in self.groups if group is not main]
        examples = [Example(f"{word} {g.example[0]}", masked(g.example[1])) for g in others[:EXAMPLES]]
        return FoundDefect(DEFECTS["clock-reset"], sum(group.count for group in others), examples)

    def _cross(self, batch: pa.RecordBatch, dur: I64, timed: Mask, work: Mask, host: Mask) -> None:
        """Find slices that cross others of their stream or thread. Rows without one may run side by side."""
        ts = arrow.ints(batch.column("ts_ns"))
        on_stream = work & arrow.valid(batch.column("stream"))
        on_thread = host & ~work & arrow.valid(batch.column("tid"))
        if (ts % 10 == 0).mean() > _MOSTLY:
            # Printed times: work that follows other work may seem to start before its end.
            on_thread[:] = False
            dur = np.maximum(dur - 2 * _step(ts) - _step(dur), np.minimum(dur, 0))
        rows = np.flatnonzero(timed & (on_stream | on_thread))
        if not len(rows):
            return
        keys = [arrow.ints_or_least(batch.column(n))[rows] for n in ("source", "rank", "pid", "device", "context")]
        keys.append(np.where(on_stream, arrow.ints(batch.column("stream")), arrow.ints(batch.column("tid")))[rows])
        keys.append(on_stream[rows].astype(np.int64))
        distinct, place = np.unique(np.stack(keys), axis=1, return_inverse=True)
        codes = [self._lane_codes.setdefault(tuple(key), len(self._lane_codes)) for key in distinct.T.tolist()]
        extra = self._assigner.assign(np.array(codes, np.int64)[place.reshape(-1)], ts[rows], dur[rows])
        mask = np.zeros(batch.num_rows, np.bool_)
        mask[rows[extra > 0]] = True
        gather(self._found, "overlapping-slices", batch, mask)

    def _take_launches(self, batch: pa.RecordBatch, work: Mask, api: Mask) -> None:
        known = arrow.valid(batch.column("correlation"))
        work, api = work & known, api & known
        if not (work | api).any():
            return
        names = arrow.encoded(batch.column("name"))
        texts = [text or "" for text in arrow.optional_texts(names.dictionary)]
        launches = np.array([bool(_LAUNCH.match(text)) for text in texts] or [False])
        name = np.array([self._names.setdefault(text, len(self._names)) for text in texts] or [0], np.int64)
        code = arrow.codes(names) if len(texts) else np.zeros(batch.num_rows, np.int64)
        kinds = arrow.encoded(batch.column("kind"))
        driver = _any_of(arrow.codes(kinds), arrow.texts(kinds.dictionary), {Kind.DRIVER})
        pid = batch.column("pid")
        columns = [
            arrow.ints(batch.column("source")), arrow.valid(pid).astype(np.int64), arrow.ints(pid),
            arrow.ints(batch.column("correlation")), arrow.ints(batch.column("ts_ns")),
            arrow.ints(batch.column("dur_ns")), arrow.ints(batch.column("event_id")), name[code],
            driver.astype(np.int64), launches[code].astype(np.int64), arrow.ints_or_least(batch.column("tid")),
        ]  # fmt: skip
        if api.any():
            for pattern, kept in zip((CAPTURE_BEGIN, CAPTURE_END), self._captures, strict=True):
                mask = api & np.array([bool(pattern.match(text)) for text in texts] or [False])[code]
                if mask.any():
                    kept.append(tuple(columns[n][mask] for n in _CAPTURE_COLUMNS))
        for mask, rows in ((api, self._launches), (work, self._work)):
            if mask.any():
                rows.append(tuple(column[mask] for column in columns))

    def _link(self) -> None:
        """Find launches and device work without each other, ids of two launches, and work before its launch."""
        if not self._launches:
            return
        calls = [np.concatenate(column) for column in zip(*self._launches, strict=True)]
        if not self._work:
            if self.parts and not self._has_device:
                self._take("missing-table", calls, calls[9] == 1)
            return
        work = [np.concatenate(column) for column in zip(*self._work, strict=True)]
        both = [np.concatenate(pair) for pair in zip(calls[:4], work[:4], strict=True)]
        key = one_key(both, len(both[0]))
        call_key, work_key = key[: len(calls[0])], key[len(calls[0]) :]
        starts = calls[9] == 1
        # A runtime call may make the driver's call: one of the two has the id of the work.
        second = (calls[8] == 1) & bool((calls[8] == 0).any())
        order = np.lexsort((calls[4], second, ~starts, call_key))
        first = np.ones(len(order), np.bool_)
        first[1:] = call_key[order][1:] != call_key[order][:-1]
        again = np.zeros(len(order), np.bool_)
        again[order] = ~first
        twins = np.zeros(len(order), np.bool_)
        alike = (calls[8][order][1:] == calls[8][order][:-1]) & starts[order][1:] & starts[order][:-1]
        twins[order[1:]] = ~first[1:] & alike
        used = call_key[order[first]]
        place = np.minimum(np.searchsorted(used, work_key), len(used) - 1)
        linked = used[place] == work_key
        own = order[first][place]
        self._take("duplicate-id", calls, twins & starts)
        early = linked & (work[4] < calls[4][own])
        self._take("clock-skew", work, early)
        self.forsaken = sets.without(calls[6][own[early]], calls[6][own[linked & ~early]])
        if not linked.any():
            return
        # Before the first launch that was recorded, and after the last work, the other side is missing as it must be.
        orphan_calls = ~np.isin(call_key, work_key) & ~second & ~again & starts
        orphan_calls &= ~self._captured(calls)
        self._take("orphan-launch", calls, orphan_calls & (calls[4] < calls[4][own[linked]].max()))
        self._take("orphan-work", work, ~linked & (work[4] > work[4][linked].min()))

    def _captured(self, calls: Sequence[I64]) -> Mask:
        """Return which calls a graph captured: they launch nothing."""
        if not all(self._captures):
            return np.zeros(len(calls[0]), np.bool_)
        groups = [[np.concatenate(column) for column in zip(*kept, strict=True)] for kept in self._captures]
        groups.append([calls[n] for n in _CAPTURE_COLUMNS])
        columns = [np.concatenate(column) for column in zip(*groups, strict=True)]
        lanes = one_key(columns[:-1], len(columns[0]))
        cuts = np.cumsum([len(group[0]) for group in groups])[:-1]
        pairs = [(lane, group[-1]) for lane, group in zip(np.split(lanes, cuts), groups, strict=True)]
        return between(pairs[0], pairs[1], pairs[2])

    def _take(self, code: str, columns: list[I64], mask: Mask) -> None:
        rows = np.flatnonzero(mask)
        if len(rows):
            rows = rows[np.argsort(columns[4][rows], kind="stable")]
            texts = list(self._names)
            names = [texts[number] for number in columns[7][rows[:EXAMPLES]].tolist()]
            gathered = self._found.setdefault(code, Gathered(code))
            gathered.take(columns[6][rows], columns[4][rows], columns[5][rows], names)


def _any_of(codes: Rows, names: list[str], wanted: frozenset[Kind] | set[Kind]) -> Mask:
    table = np.array([name in wanted for name in names] or [False], np.bool_)
    found: Mask = table[codes]
    return found


def _step(times: I64) -> I64:
    """Return the least power of ten that each time may have been rounded to.

    >>> _step(np.array([1_234_500, 7, 0])).tolist()
    [100, 1, 1]
    """
    step = np.ones(len(times), np.int64)
    for power in range(1, 10):
        step[(times % 10**power == 0) & (times != 0)] = 10**power
    return step


def _event(batch: pa.RecordBatch, row: int) -> tuple[int, str]:
    number = int(arrow.ints(batch.column("event_id").slice(row, 1))[0])
    return number, batch.column("name")[row].as_py() or ""
