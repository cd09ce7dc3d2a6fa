"""The state of one log while it is read: names, threads, open ranges, and the items of the current block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import F64, I64, Mask
from tracekit.columns.arrow import Column
from tracekit.readers.builder import IdTable, Values, event_batch
from tracekit.readers.recorder_log import _lines as lines
from tracekit.readers.recorder_log._ending import Ending
from tracekit.readers.recorder_log._facts import clock_jump_ns, process_facts
from tracekit.readers.recorder_log._pairs import Items, Paired, Pending, by_handle, closed, nested, together
from tracekit.readers.recorder_log._rows import Extras, Names, args_column, distinct, step_column
from tracekit.recorder import log_format as log
from tracekit.trace import Ledger, Run

OPEN_KEPT = 1 << 20
"""Ranges open at once; beyond, those of a thread (or all async ones) are closed as unfinished."""
THREADS_KEPT = 1 << 16
IDENTS_KEPT = 256
"""Threads whose ids in the thread library are facts: profilers name those of few threads so."""
EXACT = 1 << 53


class Log:
    """One log of a file. `add` takes lines, `rows` yields what is complete, `close` the rest."""

    def __init__(
        self, head: lines.Header | None, source: int, shift: int, steps: tuple[I64, I64], run: Run, ledger: Ledger
    ) -> None:
        self.head = head or lines.Header(log.FORMAT_NAME, log.VERSION)
        self._source, self._shift, self._steps = source, shift, steps
        self._run, self._ledger = run, ledger
        self._names = Names()
        self._tids: dict[int, int] = {}
        self._ids = IdTable(run, "tid", source)
        self._open: dict[int, Items] = {}
        self._async = Items.none()
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
        if isinstance(line, lines.Items):
            return self._add_items(line, record)
        if isinstance(line, lines.Name):
            self._names.define(line)
        elif isinstance(line, lines.Thread):
            self._add_thread(line)
        elif isinstance(line, lines.Clock):
            self._anchors.append(line.x)
            self._last = max(self._last, line.x[0])
        elif isinstance(line, lines.Note):
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

    def _add_items(self, line: lines.Items, record: int) -> bool:
        count = line.count()
        self._items += count
        if isinstance(line, lines.Steps):
            self._ledger.facts += count
            return True
        if isinstance(line, lines.Ranges):
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
        if isinstance(line, lines.Counters):
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
            found = nested(opened if opened is not None else Items.none(), new)
            self._account(new, found)
            done.append((thread, found))
            if len(found.opened.ids):
                self._open[thread] = found.opened
        others, self._others = self._others, {}
        done_async: list[Paired] = []
        if log.ASYNC in others:
            new = self._items_of(others.pop(log.ASYNC), 4)
            found = by_handle(self._async, new)
            self._account(new, found)
            self._async = found.opened
            done_async.append(found)
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
        self._open, self._async = {}, Items.none()
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

    def _items_of(self, pending: Pending, stride: int) -> Items:
        """Return begins and ends; items without a time or an id are dropped."""
        table, records = pending.arrays(stride)
        cut = np.zeros(len(table), np.bool_)
        cut[pending.cut] = True
        extra = (table[:, 2], table[:, 3]) if stride == 4 else (np.empty(0, np.int64), np.empty(0, np.int64))
        items = Items(table[:, 0], table[:, 1], records, cut, *extra)
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

    def _account(self, new: Items, found: Paired) -> None:
        ledger, orphans = self._ledger, found.orphans
        ledger.merged += int(np.count_nonzero(new.ids < 0)) - len(orphans)
        if len(orphans):
            text = "dropped: ends of ranges that were not open"
            ledger.drop("end-without-begin", len(orphans), where=f"record {orphans[0]}", text=text)
        if found.repaired:
            text = "ranges that crossed the one around them, or lost their end, were closed with it"
            ledger.note("range-crossed", text, found.repaired)

    def _close_too_many(self, done: list[tuple[int, Paired]], done_async: list[Paired]) -> None:
        count = sum(len(opened.ids) for opened in self._open.values()) + len(self._async.ids)
        while count > OPEN_KEPT:
            sizes = {thread: len(opened.ids) for thread, opened in self._open.items()}
            thread = max(sizes, key=lambda t: sizes[t], default=None)
            if thread is None or sizes[thread] < len(self._async.ids):
                left, self._async = closed(self._async, self._last), Items.none()
                done_async.append(left)
            else:
                left = closed(self._open.pop(thread), self._last)
                done.append((thread, left))
            count -= len(left.ends)
            text = f"more than {OPEN_KEPT:,} ranges were open at once: some were closed early"
            self._ledger.note("too-many-open", text, len(left.ends))

    def _range_rows(self, done: list[tuple[int, Paired]]) -> Iterator[pa.RecordBatch]:
        done = [(thread, found) for thread, found in done if len(found.ends)]
        if not done:
            return
        tids = np.repeat([self._tid(thread) for thread, _ in done], [len(found.ends) for _, found in done])
        begins, ends, unfinished = together([found for _, found in done])
        # An outer range begins first: of two with the same times it stays the outer one.
        order = np.argsort(begins.records)
        begins, ends, unfinished = begins.take(order), ends[order], unfinished[order]
        yield self._batch(begins, ends, unfinished, arrow.array(tids[order]), {})

    def _async_rows(self, found: Paired) -> Iterator[pa.RecordBatch]:
        if not len(found.ends):
            return
        extras: dict[int, Extras] = {}
        begins, threads = found.begins, self._tids_of(found.begins.threads)
        ended = zip(begins.handles.tolist(), threads.tolist(), self._tids_of(found.end_threads).tolist(), strict=True)
        for row, (handle, first, last) in enumerate(ended):
            extras[row] = {"id": handle, "tid": first} | ({"end_tid": last} if last != first else {})
        yield self._batch(begins, found.ends, found.unfinished, None, extras)

    def _batch(
        self,
        begins: Items,
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
        found, places = distinct(threads)
        return np.array([self._tid(thread) for thread in found.tolist()], np.int64)[places]

    def facts(self) -> dict[str, object]:
        """Return the facts of the process and its clock; a wall clock that was set is noted."""
        if jump := clock_jump_ns(self._anchors):
            text = f"the wall clock was set by {jump / 1e9:+.3f} s while the log was written; the first anchor counts"
            self._ledger.note("wall-clock-set", text)
        return process_facts(self.head, self._anchors, self._ending())
