"""The JSONL log of tracekit's own recorder. Its specification is the docstring of recorder/log_format.py.

    {"format":"tracekit-log","version":1,"tracekit":"0.1.0","pid":4242,"rank":0,"perf_ns":...,"epoch_ns":...}
    {"k":"name","id":1,"name":"step","kind":"step"}
    {"k":"r","t":0,"x":[1,1000001000,2,1000002000,-2,1000009000]}

A record is an item of a line (a begin, an end, a mark, a counter, a step number), or a line of another kind; what
becomes of each is said there. `event_id` counts records from 1. Times stay the log's own: `ts_ns` is the process's
monotonic clock, and Run.origin_ns is what the first anchor says of it. How far the wall clock drifted from that is a
fact of the source. The kind of a name that is none of ours goes into `args`, as do category and colour; an async range
has no `tid`, its handle is `id` in `args`, beside the `tid` where it began. A step of a watched loop is written as an
async range, but belongs to the thread that runs the loop: it has its `tid` where it began and ended on one thread and
overlaps no earlier step of that thread. `"unfinished": true` marks a range whose true end is unknown.

The step of an event is known only when all step lines have been read, since those of other threads may come later: a
first pass over the file takes them. Ranges are given when they have ended, so rows do not come by start.
"""

from __future__ import annotations

import shlex
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracekit.errors import ParseError, UnsupportedVersionError
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import F64, I64, Column, Mask
from tracekit.model.schema import Kind
from tracekit.model.trace import MOST_DROPPED, Ledger, Run, SourceFacts
from tracekit.model.units import format_span
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import IdTable, Values, event_batch
from tracekit.readers.engine.torn import LAST_LINE, TORN
from tracekit.readers.head import Head
from tracekit.readers.recorder_log import _rows as lines
from tracekit.readers.recorder_log._pairs import LogItems, Paired, Pending, by_handle, closed, nested, together
from tracekit.readers.recorder_log._rows import (
    BadLineError,
    Beat,
    End,
    Extras,
    HeaderLine,
    ItemsLine,
    Line,
    NamesLine,
    StepsLine,
    args_column,
    distinct,
    parse,
    step_column,
)
from tracekit.readers.source import Source
from tracekit.recorder import log_format as log

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["OPEN_KEPT", "THREADS_KEPT", "read", "sniff"]

# The end of a log: how it says that it ended, until when it is whole, and what is known to be missing.


MARGIN = 2
"""The loss at a kill is bounded by so many times the longest wait until then: the last wait may be longer than all
before. Of 133 kills on a machine with six to twelve processes a processor the worst lost 1.8 times the longest wait."""
FEWEST_FLUSHES = 10
"""With fewer flushes the longest wait says too little of the next one."""
MOST_TEXT = 200
MS = 1_000_000

_CLEAN = {log.STOP: "stopped by the program", log.EXIT: "stopped when its process ended"}
_EARLY = {log.DISK_FULL: "a full disk", log.WRITE_ERROR: "a write error", log.FAILED: "an error of the recorder"}
_NO_END = (
    "the log has no end: its process was killed, crashed, was left by os._exit, could write no more, or still runs"
)


@dataclass(frozen=True, slots=True)
class Ending:
    """The last words of one log.

    end, beat: its end line and its latest sign of life, if it has them. items: items that were found in it. events:
    ranges, marks and counters that were kept. begin_ns: the begin of the recording, None without a header.
    """

    end: End | None
    beat: Beat | None
    items: int
    events: int
    begin_ns: int | None

    @property
    def is_clean(self) -> bool:
        """Return whether the recording was stopped, so that nothing is missing at its end."""
        return self.end is not None and self.end.how in _CLEAN

    @property
    def missing_items(self) -> int:
        """Return how many items had been written, by the log's own count, and are not in it."""
        return max(0, self._written() - self.items)

    def _written(self) -> int:
        return max(line.items if line is not None else 0 for line in (self.end, self.beat))

    def facts(self) -> dict[str, object]:
        """Return the facts of the end. whole_for_ns: the time from the begin in which nothing is missing at the end."""
        out: dict[str, object] = {"clean_stop": self.is_clean, "ended": self._how()}
        last = self.end or self.beat
        if last is not None and self.begin_ns is not None:
            out["whole_for_ns"] = last.t - self.begin_ns
        if self.beat is not None:
            out |= {"flushes": self.beat.flushes, "longest_wait_ns": self.beat.wait}
        if self.end is None and (bound := self.loss_bound_ns) is not None:
            out["loss_bound_ns"] = bound
        return out

    @property
    def loss_bound_ns(self) -> int | None:
        """Return the longest time whose events are probably missing after a kill, None where too little is known."""
        if self.beat is None or self.beat.flushes < FEWEST_FLUSHES:
            return None
        return MARGIN * self.beat.wait

    def _how(self) -> str:
        if self.end is None:
            return "not known: the log has no end"
        return _CLEAN.get(self.end.how) or f"ended by {self._cause(self.end)}"

    def _cause(self, end: End) -> str:
        error = f" ({end.error[:MOST_TEXT]})" if end.error and end.how != log.DISK_FULL else ""
        return _EARLY.get(end.how, end.how[:MOST_TEXT]) + error

    def notes(self) -> Iterator[tuple[str, str]]:
        """Yield code and text of each note on what is missing."""
        if self.end is None:
            yield "log-cut", f"{_NO_END}. {self._until()}"
        elif not self.is_clean:
            yield "ended-early", self._early(self.end)
        if missing := self.missing_items:
            yield "items-missing", f"{missing:,} of the {self._written():,} items that were written are not in the log"

    def _until(self) -> str:
        if self.beat is None or self.begin_ns is None:
            return "It does not say until when it is whole: how much is missing is not known"
        whole = f"Nothing of its first {format_span((self.beat.t - self.begin_ns) // MS * MS)} is missing"
        bound = self.loss_bound_ns
        if bound is None:
            return f"{whole}; how much came later is not known, since it was flushed fewer than {FEWEST_FLUSHES} times"
        return (
            f"{whole}; what came later may be: usually at most {format_span(-(-bound // MS) * MS)}, twice the longest "
            "time that events had waited to be written"
        )

    def _early(self, end: End) -> str:
        of = f"{self.events:,} of at least {self.events + end.lost:,} events"
        return f"ended by {self._cause(end)} after {of}; what came later is missing"

    def reservation(self) -> str:
        """Return what makes the log no whole result, "" for nothing: the program went on without it, or lines are lost.

        A log that was cut with its process is whole but for its last moment, and has a note alone.
        """
        if self.end is not None and not self.is_clean:
            return self._early(self.end)
        if self.missing_items > MOST_DROPPED * self._written():
            return f"has lost {self.missing_items:,} of the {self._written():,} items that were written to it"
        return ""


# Facts that a recorder's log has about its process and its clocks.


MOST_STEP_NS = 10_000_000
"""Two anchors, some 5 s apart, that differ by more: the wall clock was set."""

Anchor = tuple[int, int, int]
"""perf_ns, epoch_ns, uncertainty_ns."""


def process_facts(head: HeaderLine, anchors: Sequence[Anchor], ending: Ending) -> dict[str, object]:
    """Return the facts of one log. clock_drift_ns: how far the wall clock went from the monotonic one, over all."""
    out: dict[str, object] = {"tool": "tracekit recorder", "tool_version": head.tracekit or None}
    if head.command:
        out["command"] = shlex.join(head.command)
    for key in ("process", "host", "python", "pid", "parent_pid", "rank", "world_size"):
        out[key] = getattr(head, key)
    if head.forked:
        out["forked"] = True
    if anchors:
        offsets = [epoch - perf for perf, epoch, _ in anchors]
        out["clock_anchors"] = len(offsets)
        out["clock_drift_ns"] = offsets[-1] - offsets[0]
        out["clock_uncertainty_ns"] = max(uncertainty for *_, uncertainty in anchors)
    out |= ending.facts()
    return {key: value for key, value in out.items() if value is not None}


def clock_jump_ns(anchors: Sequence[Anchor]) -> int:
    """Return by how much the wall clock was set between two anchors, 0 when it only drifted."""
    jumps = np.diff(np.array([epoch - perf for perf, epoch, _ in anchors], np.int64))
    if not jumps.size:
        return 0
    largest = int(jumps[np.abs(jumps).argmax()])
    return largest if abs(largest) > MOST_STEP_NS else 0


# The state of one log while it is read: names, threads, open ranges, and the items of the current block.


OPEN_KEPT = 1 << 20
"""Ranges open at once; beyond, those of a thread (or all async ones) are closed as unfinished."""
THREADS_KEPT = 1 << 16
IDENTS_KEPT = 256
"""Threads whose ids in the thread library are facts: profilers name those of few threads so."""
EXACT = 1 << 53


class RecorderLog:
    """One log of a file. `add` takes lines, `rows` yields what is complete, `close` the rest."""

    def __init__(
        self, head: lines.HeaderLine | None, source: int, shift: int, steps: tuple[I64, I64], run: Run, ledger: Ledger
    ) -> None:
        self.head = head or lines.HeaderLine(log.FORMAT_NAME, log.VERSION)
        self._source, self._shift, self._steps = source, shift, steps
        self._run, self._ledger = run, ledger
        self._names = NamesLine()
        self._tids: dict[int, int] = {}
        self._ids = IdTable(run, "tid", source)
        self._open: dict[int, LogItems] = {}
        self._async = LogItems.none()
        self._step_ends: dict[int, int] = {}
        self._payloads: dict[int, bytes] = {}
        self._ranges: dict[int, Pending] = {}
        self._others: dict[str, Pending] = {}
        self._anchors: list[tuple[int, int, int]] = []
        self._items = self._events = 0
        self._last = 0
        self._beat: lines.Beat | None = None
        self._end: lines.End | None = None
        if self.head.epoch_ns is not None:
            self._anchors.append((self.head.perf_ns, self.head.epoch_ns, 0))
            self._last = self.head.perf_ns
        if self.head.process and self.head.pid is not None:
            run.processes[(source, self.head.pid)] = self.head.process

    def add(self, line: lines.Line, record: int) -> bool:
        """Take a line whose first record has this number; False when it belongs to one thread too many."""
        if isinstance(line, lines.ItemsLine):
            return self._add_items(line, record)
        if isinstance(line, lines.NameLine):
            self._names.define(line)
        elif isinstance(line, lines.Thread):
            self._add_thread(line)
        elif isinstance(line, lines.Clock):
            self._anchors.append(line.x)
            self._last = max(self._last, line.x[0])
        elif isinstance(line, lines.NoteLine):
            code = line.code.replace("_", "-")[:60]
            text = f"the recorder: {log.NOTE_CODES.get(line.code, line.code[:200])}"
            self._ledger.note(code, text, line.count)
        else:
            self._last = max(self._last, line.t)
            if isinstance(line, lines.End):
                self._end = line
            elif self._beat is None or line.t >= self._beat.t:
                self._beat = line
        return True

    def _add_items(self, line: lines.ItemsLine, record: int) -> bool:
        count = line.count()
        self._items += count
        if isinstance(line, lines.StepsLine):
            self._ledger.facts += count
            return True
        if isinstance(line, lines.RangesLine):
            if line.t not in self._ranges and len(self._open) + len(self._ranges) > THREADS_KEPT:
                return False
            pending = self._ranges.setdefault(line.t, Pending())
        else:
            pending = self._others.setdefault(line.kind(), Pending())
        if line.u:
            before = sum(pending.counts)
            pending.cut.extend(before + n for n in line.u)
        for n, payload in line.p:
            self._payloads[record + n] = bytes(payload)
        if isinstance(line, lines.CountersLine):
            pending.values.extend(line.v)
        pending.flat.extend(line.x)
        pending.counts.append(count)
        pending.offsets.append(line.o)
        pending.firsts.append(record)
        return True

    def _add_thread(self, line: lines.Thread) -> None:
        tid = self._ids.number(line.tid)
        self._tids[line.t] = tid
        if line.ident is not None and tid == line.tid:
            idents = self._run.sources[0].facts.setdefault("thread_idents", [])
            if len(idents) < IDENTS_KEPT and (ident := [self.head.pid, tid, line.ident & 0xFFFFFFFF]) not in idents:
                idents.append(ident)
        if line.name:
            key = (self._source, self.head.pid, tid)
            known = self._run.threads.get(key)
            if known and known != line.name and len(known) < 200:
                # The operating system gives a tid again when its thread is over.
                self._run.threads[key] = f"{known}, {line.name}"
            else:
                self._run.threads[key] = line.name

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the ranges that ended, the marks and the counters of the lines since the last call."""
        done: list[tuple[int, Paired]] = []
        ranges, self._ranges = self._ranges, {}
        for thread, pending in ranges.items():
            new = self._items_of(pending, 2)
            opened = self._open.pop(thread, None)
            paired = nested(opened if opened is not None else LogItems.none(), new)
            self._account(new, paired)
            done.append((thread, paired))
            if len(paired.opened.ids):
                self._open[thread] = paired.opened
        others, self._others = self._others, {}
        done_async: list[Paired] = []
        if log.ASYNC in others:
            new = self._items_of(others.pop(log.ASYNC), 4)
            paired = by_handle(self._async, new)
            self._account(new, paired)
            self._async = paired.opened
            done_async.append(paired)
        self._close_too_many(done, done_async)
        yield from self._range_rows(done)
        for each in done_async:
            yield from self._async_rows(each)
        for kind, pending in others.items():
            yield from self._point_rows(kind, pending)
        # A payload that no begin took is at an end or at an item without a time.
        if self._payloads:
            self._drop_lost_payloads()

    def close(self) -> Iterator[pa.RecordBatch]:
        """Yield the open ranges, closed at the last time seen, and note what is wrong with the whole log."""
        yield from self.rows()
        done = [(thread, closed(opened, self._last)) for thread, opened in self._open.items()]
        left = closed(self._async, self._last)
        self._open, self._async = {}, LogItems.none()
        yield from self._range_rows(done)
        yield from self._async_rows(left)
        if self._names.lost:
            self._ledger.note(
                "name-lost", "events whose name is not in the log are named by its number", self._names.lost
            )
        ending = self._ending()
        for code, text in ending.notes():
            self._ledger.note(code, text)
        self._ledger.reserve(ending.reservation())

    def _ending(self) -> Ending:
        begin = self.head.perf_ns if self.head.epoch_ns is not None else None
        return Ending(self._end, self._beat, self._items, self._events, begin)

    def _items_of(self, pending: Pending, stride: int) -> LogItems:
        """Return begins and ends; items without a time or an id are dropped."""
        table, records = pending.arrays(stride)
        cut = np.zeros(len(table), np.bool_)
        cut[pending.cut] = True
        extra = (table[:, 2], table[:, 3]) if stride == 4 else (np.empty(0, np.int64), np.empty(0, np.int64))
        items = LogItems(table[:, 0], table[:, 1], records, cut, *extra)
        good = (items.times > 0) & (items.ids != 0)
        if not good.all():
            self._drop_items(records[~good])
            items = items.take(good)
        if len(items.times):
            self._last = max(self._last, int(items.times.max()))
        return items

    def _drop_items(self, records: I64) -> None:
        for record in records.tolist():
            self._payloads.pop(record, None)
        self._ledger.drop(
            "bad-item", len(records), where=f"record {records[0]}", text="dropped: items without a time or a name"
        )

    def _account(self, new: LogItems, paired: Paired) -> None:
        ledger, orphans = self._ledger, paired.orphans
        ledger.merged += int(np.count_nonzero(new.ids < 0)) - len(orphans)
        if len(orphans):
            text = "dropped: ends of ranges that were not open"
            ledger.drop("end-without-begin", len(orphans), where=f"record {orphans[0]}", text=text)
        if paired.repaired:
            text = "ranges that crossed the one around them, or lost their end, were closed with it"
            ledger.note("range-crossed", text, paired.repaired)

    def _close_too_many(self, done: list[tuple[int, Paired]], done_async: list[Paired]) -> None:
        count = sum(len(opened.ids) for opened in self._open.values()) + len(self._async.ids)
        while count > OPEN_KEPT:
            sizes = {thread: len(opened.ids) for thread, opened in self._open.items()}
            thread = max(sizes, key=lambda t: sizes[t], default=None)
            if thread is None or sizes[thread] < len(self._async.ids):
                left, self._async = closed(self._async, self._last), LogItems.none()
                done_async.append(left)
            else:
                left = closed(self._open.pop(thread), self._last)
                done.append((thread, left))
            count -= len(left.ends)
            text = f"more than {OPEN_KEPT:,} ranges were open at once: some were closed early"
            self._ledger.note("too-many-open", text, len(left.ends))

    def _range_rows(self, done: list[tuple[int, Paired]]) -> Iterator[pa.RecordBatch]:
        done = [(thread, paired) for thread, paired in done if len(paired.ends)]
        if not done:
            return
        tids = np.repeat([self._tid(thread) for thread, _ in done], [len(paired.ends) for _, paired in done])
        begins, ends, unfinished = together([paired for _, paired in done])
        # An outer range begins first: of two with the same times it stays the outer one.
        order = np.argsort(begins.records)
        begins, ends, unfinished = begins.take(order), ends[order], unfinished[order]
        yield self._batch(begins, ends, unfinished, arrow.array(tids[order]), {})

    def _async_rows(self, paired: Paired) -> Iterator[pa.RecordBatch]:
        if not len(paired.ends):
            return
        extras: dict[int, Extras] = {}
        begins, threads = paired.begins, self._tids_of(paired.begins.threads)
        ended = zip(begins.handles.tolist(), threads.tolist(), self._tids_of(paired.end_threads).tolist(), strict=True)
        of_thread = self._steps_of_a_thread(paired)
        for row, (handle, first, last) in enumerate(ended):
            where = {} if of_thread[row] else {"tid": first} | ({"end_tid": last} if last != first else {})
            extras[row] = {"id": handle, **where}
        yield self._batch(begins, paired.ends, paired.unfinished, arrow.array(threads, mask=~of_thread), extras)

    def _steps_of_a_thread(self, paired: Paired) -> Mask:
        """Return which async ranges are steps that one thread ran, one after the other."""
        begins = paired.begins
        one: Mask = self._names.are(Kind.STEP, begins.ids) & (begins.threads == paired.end_threads)
        for row in np.flatnonzero(one).tolist():
            thread, begin, end = int(begins.threads[row]), int(begins.times[row]), int(paired.ends[row])
            # Steps of asyncio tasks share a thread and overlap each other: they are nobody's alone.
            one[row] = begin >= self._step_ends.get(thread, begin)
            if one[row]:
                self._step_ends[thread] = end
        return one

    def _batch(
        self,
        begins: LogItems,
        ends: I64,
        unfinished: Mask,
        tids: Column | None,
        extras: dict[int, Extras],
    ) -> pa.RecordBatch:
        ledger = self._ledger
        durations = ends - begins.times
        if (backwards := durations < 0).any():
            count = int(backwards.sum())
            ledger.note("clock-went-back", "ranges that end before they begin have the duration 0", count)
            durations = np.maximum(durations, 0)
        if (cut := np.flatnonzero(unfinished)).size:
            text = "unfinished ranges: shown up to the last moment the log saw them open"
            ledger.note("unfinished-range", text, len(cut))
            for row in cut.tolist():
                extras[row] = {**extras.get(row, {}), "unfinished": True}
        names, kinds, named, codes = self._names.columns(begins.ids)
        columns: dict[str, Values] = {
            "dur_ns": durations,
            "event_id": begins.records,
            "name": names,
            "kind": kinds,
            "tid": tids,
        }
        args = args_column(begins.records, self._payloads, named, codes, extras)
        return self._counted(len(durations), begins.times, {**columns, "args": args})

    def _point_rows(self, kind: str, pending: Pending) -> Iterator[pa.RecordBatch]:
        """Yield marks or counters."""
        table, records = pending.arrays(3)
        good = (table[:, 1] > 0) & (table[:, 0] > 0)
        values = pending.values
        if not good.all():
            self._drop_items(records[~good])
            table, records = table[good], records[good]
            values = [v for v, keep in zip(values, good.tolist(), strict=False) if keep]
        if not len(table):
            return
        self._last = max(self._last, int(table[:, 1].max()))
        is_counter = kind == log.COUNTERS
        names, kinds, named, codes = self._names.columns(table[:, 0], "counter" if is_counter else "mark")
        extras: dict[int, Extras] = {}
        numbers: F64 | None = None
        if is_counter:
            numbers = np.array([log.NON_FINITE[v] if isinstance(v, str) else v for v in values], np.float64)
            for row in np.flatnonzero(np.abs(numbers) >= EXACT).tolist():
                if isinstance(values[row], int):
                    extras[row] = {"value": values[row]}  # a float would round it
        columns: dict[str, Values] = {"event_id": records, "name": names, "kind": kinds, "value": numbers}
        columns["tid"] = self._tids_of(table[:, 2])
        columns["args"] = args_column(records, self._payloads, named, codes, extras)
        yield self._counted(len(table), table[:, 1], columns)

    def _counted(self, count: int, times: I64, columns: Mapping[str, Values]) -> pa.RecordBatch:
        self._events += count
        self._ledger.kept += count
        self._ledger.events_out += count
        same: dict[str, Values] = {"source": self._source, "rank": self.head.rank, "pid": self.head.pid}
        same |= {"ts_ns": times + self._shift, "step": step_column(self._steps, times)}
        return event_batch(count, {**same, **columns})

    def _drop_lost_payloads(self) -> None:
        waiting = [opened.records for opened in self._open.values()] + [self._async.records]
        still = np.concatenate(waiting)
        keys = np.fromiter(self._payloads, np.int64, len(self._payloads))
        lost = keys[~np.isin(keys, still)]
        for key in lost.tolist():
            del self._payloads[key]
        if len(lost):
            text = "payloads at ends of ranges were left out: only a begin has one"
            self._ledger.note("payload-at-end", text, len(lost), where=f"record {lost[0]}")

    def _tid(self, thread: int) -> int:
        tid = self._tids.get(thread)
        if tid is None:
            tid = self._tids[thread] = self._ids.number(f"thread {thread} (lost)")
            self._ledger.note("thread-lost", "threads that the log uses and does not name")
        return tid

    def _tids_of(self, threads: I64) -> I64:
        distinct_threads, places = distinct(threads)
        return np.array([self._tid(thread) for thread in distinct_threads.tolist()], np.int64)[places]

    def facts(self) -> dict[str, object]:
        """Return the facts of the process and its clock; a wall clock that was set is noted."""
        if jump := clock_jump_ns(self._anchors):
            text = f"the wall clock was set by {jump / 1e9:+.3f} s while the log was written; the first anchor counts"
            self._ledger.note("wall-clock-set", text)
        return process_facts(self.head, self._anchors, self._ending())


# Lines of a recorder's log: the recognition, the first pass for facts and steps, and the batches.


BLANK = b"\0 \t\r"
_STEP_LINES = (b'{"k":"s"', b'{"k": "s"')
_REASONS = {
    TORN: f"dropped: {LAST_LINE}",
    "not-json": "dropped: lines that are no JSON object",
    "unknown-line-kind": "dropped: lines of a kind that is not in the log's version",
    "bad-line": "dropped: lines whose fields or types are not those of the log",
    "too-many-threads": "dropped: lines of more threads than can be kept apart",
}


def sniff(head: Head) -> Confidence:
    """Return YES for a log, also behind damage; MAYBE where a header begins within a line."""
    lines = head.lines()
    if any(line.strip(BLANK).startswith(log.HEAD_PREFIX) for line in lines):
        return Confidence.YES
    first = next((line.strip(BLANK) for line in lines if line.strip(BLANK)), b"")
    if first.startswith(b'{"format"') and b'"tracekit-log"' in first[:60]:
        return Confidence.YES
    return Confidence.MAYBE if log.HEAD_PREFIX in head.data else Confidence.NO


@dataclass(slots=True)
class _LogSteps:
    """The step numbers of one log, as they come."""

    times: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[int] = field(default_factory=lambda: array("q"))

    def sorted(self) -> tuple[I64, I64]:
        times, numbers = np.array(self.times, np.int64), np.array(self.numbers, np.int64)
        order = np.argsort(times, kind="stable")
        return times[order], np.clip(numbers[order], log.NO_STEP, (1 << 31) - 1)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events, in a second pass over the lines. Raises: ParseError, UnsupportedVersionError."""
    heads, steps, lines = _first_pass(source)
    if not heads and not lines:
        raise ParseError(
            source.name, "", "no line of a recorder's log was found", hint="`tracekit formats` lists what can be read"
        )
    for head in heads:
        if head.version != log.VERSION:
            raise UnsupportedVersionError(
                source.name, str(head.version), str(log.VERSION), hint="pip install --upgrade tracekit-gpu"
            )
    anchored = [head.epoch_ns - head.perf_ns for head in heads if head.epoch_ns is not None]
    run = Run(origin_ns=anchored[0] if anchored else None, sources=[SourceFacts(source.name, "recorder-log")])
    return ReadResult(run, _RecorderLogReading(source, options, ledger, run, steps).batches(), False, (ledger,))


def _first_pass(source: Source) -> tuple[list[HeaderLine], list[_LogSteps], int]:
    """Return the headers, the steps before the first header and after each, and how many lines are of a log."""
    heads: list[HeaderLine] = []
    steps = [_LogSteps()]
    lines = 0
    for block in source.line_blocks(Ledger()):
        for raw in block.data.split(b"\n"):
            line = raw.strip(BLANK)
            if b'"tracekit-log"' in line:
                parsed = _parsed(line)
                if parsed is None and (at := line.find(log.HEAD_PREFIX)) > 0:
                    parsed = _parsed(line[at:])
                if isinstance(parsed, HeaderLine):
                    heads.append(parsed)
                    steps.append(_LogSteps())
            elif line.startswith(_STEP_LINES):
                parsed = _parsed(line)
                if isinstance(parsed, StepsLine):
                    _take_steps(parsed, steps[-1])
            elif not heads and not lines:
                lines += _parsed(line) is not None
    return heads, steps, lines


def _parsed(line: bytes) -> Line | HeaderLine | None:
    try:
        return parse(line)
    except BadLineError:
        return None


def _take_steps(line: StepsLine, into: _LogSteps) -> None:
    for number, time in zip(line.x[0::3], line.x[1::3], strict=True):
        if line.o + time > 0:
            into.times.append(line.o + time)
            into.numbers.append(number)


class _RecorderLogReading:
    """One pass over a file, which holds one log or several."""

    def __init__(self, source: Source, options: ReadOptions, ledger: Ledger, run: Run, steps: list[_LogSteps]) -> None:
        self._source, self._options, self._ledger, self._run = source, options, ledger, run
        self._steps = iter(steps)
        self._logs: list[RecorderLog] = []
        self._log = self._begin(None)

    def _begin(self, head: HeaderLine | None) -> RecorderLog:
        shift = 0
        if head is not None and head.epoch_ns is not None and self._run.origin_ns is not None:
            shift = head.epoch_ns - head.perf_ns - self._run.origin_ns
        if head is not None and head.host and not self._logs:
            # Clocks are placed before a log has been read to its end, where it gets its other facts.
            self._run.sources[0].facts["host"] = head.host
        steps = next(self._steps, _LogSteps()).sorted()
        return RecorderLog(head, self._options.source, shift, steps, self._run, self._ledger)

    def batches(self) -> Iterator[pa.RecordBatch]:
        started = False
        ledger = self._ledger
        for block in self._source.line_blocks(ledger):
            lines = block.data.split(b"\n")
            if not block.torn:
                lines.pop()
            for place, raw in enumerate(lines):
                line = raw.strip(BLANK)
                if not line:
                    if b"\0" in raw:
                        ledger.read += 1
                        ledger.ignore("padding")
                    continue
                torn = block.torn and place == len(lines) - 1
                parsed = self._line(line, f"line {block.line + place}", torn=torn)
                if isinstance(parsed, HeaderLine):
                    if started:
                        yield from self._close()
                    ledger.read += 1
                    ledger.facts += 1
                    self._log = self._begin(parsed)
                elif parsed is not None:
                    self._take(parsed, f"line {block.line + place}")
                started = started or parsed is not None
            yield from self._log.rows()
        yield from self._close()

    def _line(self, line: bytes, where: str, *, torn: bool) -> Line | HeaderLine | None:
        """Return the parsed line; a damaged one is dropped, but for the header that it may end with."""
        try:
            return parse(line)
        except BadLineError as err:
            reason = str(err)
        at = line.find(log.HEAD_PREFIX)
        head = _parsed(line[at:]) if at > 0 else None
        if torn and head is None and reason == "not-json":
            reason = TORN
        self._ledger.read += 1
        self._ledger.drop(reason, where=where, text=_REASONS[reason])
        return head

    def _take(self, line: Line, where: str) -> None:
        ledger = self._ledger
        record = ledger.read + 1
        count = line.count() if isinstance(line, ItemsLine) else 1
        ledger.read += count
        if not self._log.add(line, record):
            ledger.drop("too-many-threads", count, where=where, text=_REASONS["too-many-threads"])
        elif not isinstance(line, ItemsLine):
            ledger.facts += 1

    def _close(self) -> Iterator[pa.RecordBatch]:
        yield from self._log.close()
        self._logs.append(self._log)
        mine = self._run.sources[0].facts
        facts = self._log.facts()
        if len(self._logs) == 1:
            mine.pop("host", None)  # it has its place among the others
            mine.update(facts)
        else:
            mine.setdefault("logs", []).append(facts)
