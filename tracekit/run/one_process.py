"""Rows of a recorder's log and of another trace of the same process as rows of one process.

The rows of the log go to the process of the trace: they take its `source`, so that threads, launches and ranges meet in
every view and output. Their `args` name the file that they come from. A range that both files have is one row: that of
the trace, with the kind that the log states, and with the log's record in `also_in`; the log's ledger counts it as
merged. Steps are those of the log; a trace's own count only where the log has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tracekit import schema
from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask
from tracekit.columns.arrow import Column, pc
from tracekit.run.same_process import Verdict
from tracekit.run.shared_ranges import NO_THREAD, Ranges
from tracekit.run.survey import KINDS, MOST_RANGES, Process, is_step
from tracekit.schema import Kind
from tracekit.trace import JOINED_INTO, Ledger, Note, Run

COLUMNS = frozenset({"event_id", "kind", "rank", "pid", "tid", "args"})
"""Columns of EVENTS that joining changes or looks at, besides times and steps."""
FROM, ALSO = "from_input", "also_in"
"""Members of `args`: the input of a row that was moved, and the other record of a row that is in two inputs."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A log and a trace of one process. log, trace: numbers of the inputs. log_source, trace_source: of their rows.

    log_name, trace_name: for people. ours, theirs: the process in the log and in the trace. log_origin_ns: Unix time of
    the log's time 0. alone: the trace has no other process. threads: the ids of the trace for threads of the log, where
    these differ.
    """

    log: int
    trace: int
    log_source: int
    trace_source: int
    log_name: str
    trace_name: str
    ours: Process
    theirs: Process
    verdict: Verdict
    log_origin_ns: int
    alone: bool
    threads: Mapping[int, int] = field(default_factory=dict)

    @property
    def pid(self) -> int:
        """The process id."""
        return self.ours.pid

    @property
    def rank(self) -> int | None:
        """The rank that one of the two states."""
        return min(self.ours.ranks | self.theirs.ranks, default=None)

    def on_clock_of_trace(self, times: I64) -> I64:
        """Return times of the log, ns after its time 0, on the trace's clock; still after the log's time 0."""
        return self.verdict.moved(times + self.log_origin_ns) - self.log_origin_ns

    def steps_on_clock_of_trace(self) -> Ranges:
        """Return the ranges of the log on the trace's clock, ns after the log's time 0."""
        ranges = self.ours.ranges
        starts = self.on_clock_of_trace(ranges.starts)
        ends = self.on_clock_of_trace(ranges.starts + np.maximum(ranges.lengths, 0))
        lengths = np.where(ranges.lengths >= 0, ends - starts, ranges.lengths)
        return Ranges(starts, lengths, ranges.threads, ranges.names, ranges.records, ranges.steps)

    def twins(self) -> tuple[I64, I64]:
        """Return the places of the ranges that both have, in the log and in the trace, by records of the trace."""
        shared = self.verdict.shared
        if shared is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        order = np.argsort(self.theirs.ranges.records[shared.second], kind="stable")
        return shared.first[order], shared.second[order]

    def steps_of_log(self) -> bool:
        """Return whether the log has steps: then those of the trace are ranges like any other."""
        return bool(is_step(self.ours).any())

    def facts(self) -> dict[str, object]:
        """Return what the log's facts say of it."""
        return {
            "input": self.trace_name,
            "process": self.pid,
            "because": self.verdict.text,
            "clock_offset_ns": self.verdict.offset_ns,
            "clock_uncertainty_ns": self.verdict.uncertainty_ns,
            **({"clock_drift_ppm": round(self.verdict.line.drift * 1e6, 6)} if self.verdict.line else {}),
            "ranges_in_both": int(self.twins()[0].size),
        }

    def note(self, ledger: Ledger) -> None:
        """Put into the log's ledger what was done. It is no fault, so `strict` does not refuse it."""
        apart, sure = self.verdict.offset_ns, self.verdict.uncertainty_ns
        if sure is None:
            clocks = "nothing in the files shows how well their wall clocks agree"
        elif self.verdict.origin_given:
            clocks = f"the trace takes the wall clock of the log, to {sure:,} ns"
        elif apart:
            faster = f" and {-self.verdict.line.drift * 1e6:+.3f} ppm" if self.verdict.line else ""
            clocks = f"times of the log are moved by {apart:+,} ns{faster}, to {sure:,} ns at most from the true time"
        else:
            clocks = f"the clocks of both agree to {sure:,} ns"
        text = f"process {self.pid} is one process with that of {self.trace_name} ({self.verdict.text}); {clocks}"
        ledger.notes["one-process"] = Note("one-process", text, 1)
        if count := int(self.twins()[0].size):
            text = f"ranges that {self.trace_name} has too: they count once, as rows of that input"
            ledger.notes["range-in-both"] = Note("range-in-both", text, count)
        if not (self.ours.whole and self.theirs.whole):
            text = f"only the first {MOST_RANGES:,} ranges were compared with those of {self.trace_name}"
            ledger.notes["ranges-not-compared"] = Note("ranges-not-compared", text, 1)


@dataclass(frozen=True, slots=True)
class Joins:
    """All processes of a run that were joined. notes: of a log that was not, by the number of its input."""

    joined: tuple[Joined, ...] = ()
    sources: Mapping[int, int] = field(default_factory=dict)
    notes: Mapping[int, Sequence[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.joined or self.notes)

    def of(self, item: int) -> list[Joined]:
        """Return the joins that an input has part in."""
        return [each for each in self.joined if item in (each.log, each.trace)]

    def group(self, item: int) -> frozenset[int]:
        """Return the inputs whose times have to stay together with this one's."""
        group = {item}
        while more := {n for j in self.joined if {j.log, j.trace} & group for n in (j.log, j.trace)} - group:
            group |= more
        return frozenset(group)

    def batches(
        self, item: int, batches: Iterator[pa.RecordBatch], ledger: Ledger, told: Ledger
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows of an input as rows of the processes that they belong to.

        ledger: counts the rows. told: the ledger that a user is shown, for notes.
        """
        for each in self.of(item):
            if each.log == item:
                each.note(told)
                batches = _moved(batches, each, ledger)
            else:
                batches = _enriched(batches, each)
        for text in self.notes.get(item, ()):
            told.note("not-one-process", text)
        return batches

    def settle(self, item: int, run: Run) -> None:
        """Put into the facts of an input what is known of it now: its clock, its place, a label for both files."""
        for each in self.of(item):
            facts = run.sources[0]
            if item == each.log:
                facts.facts = facts.facts | {JOINED_INTO: each.facts()}
                continue
            run.origin_ns = each.verdict.trace_origin_ns
            if each.alone and each.log_name != each.trace_name:
                facts.label = f"{facts.label or each.trace_name} + {each.log_name}"

    def steps(self, item: int) -> pa.RecordBatch | None:
        """Return the steps that rows of this input take from another one, None for none."""
        for each in self.of(item):
            forward = each.log_origin_ns - each.verdict.trace_origin_ns
            if each.steps_of_log() and item == each.trace:
                left = is_step(each.ours)
                left[each.twins()[0]] = False
                return _steps(each.steps_on_clock_of_trace(), left, each, forward)
            if not each.steps_of_log() and item == each.log and is_step(each.theirs).any():
                return _steps(each.theirs.ranges, is_step(each.theirs), each, -forward)
        return None

    def name(self, run: Run) -> None:
        """Give threads and processes of a joined run the names that the log has for them: the program's own."""
        for each in self.joined:
            source = each.log_source
            for key in [key for key in run.threads if key[0] == source and key[1] == each.pid]:
                run.threads[each.trace_source, key[1], each.threads.get(key[2], key[2])] = run.threads.pop(key)
            if (source, each.pid) in run.processes:
                run.processes[each.trace_source, each.pid] = run.processes.pop((source, each.pid))


def _steps(every: Ranges, which: Mask, joined: Joined, shift_ns: int) -> pa.RecordBatch:
    ranges = every.take(which)
    count = len(ranges.starts)
    given: dict[str, Column] = {
        "ts_ns": arrow.array(ranges.starts + shift_ns),
        "dur_ns": arrow.array(ranges.lengths),
        "step": arrow.array(ranges.steps.astype(np.int32)),
        "source": arrow.array(np.full(count, joined.trace_source, np.int32)),
        "pid": arrow.array(np.full(count, joined.pid)),
        "tid": arrow.array(ranges.threads, mask=ranges.threads == NO_THREAD),
        "kind": _same(Kind.STEP, count),
    }
    columns = [given[f.name] if f.name in given else arrow.nulls(count, f.type) for f in schema.EVENTS]
    return pa.RecordBatch.from_arrays(columns, schema=schema.EVENTS)


def _same(text: str, count: int) -> Column:
    return pa.DictionaryArray.from_arrays(arrow.array(np.zeros(count, np.int32)), arrow.array([text], pa.string()))


def _moved(batches: Iterator[pa.RecordBatch], joined: Joined, ledger: Ledger) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a log: those of the process without the ranges that the trace has, as rows of its source."""
    twins = np.sort(joined.ours.ranges.records[joined.twins()[0]])
    member = f'"{FROM}":{json.dumps(joined.log_name)}'
    for batch in batches:
        if schema.is_totals(batch):
            yield batch
            continue
        mine = _of_process(batch, joined)
        if twins.size and (again := mine & _found(batch, twins)[1]).any():
            count = int(np.count_nonzero(again))
            ledger.kept, ledger.merged = ledger.kept - count, ledger.merged + count
            ledger.events_out -= count
            batch, mine = arrow.take(batch, np.flatnonzero(~again)), mine[~again]
        if mine.any():
            if joined.threads:
                batch = _with(batch, {"tid": _threads_of_trace(batch, mine, joined)})
            before = arrow.ints(batch.column("ts_ns"))
            ts = np.where(mine, joined.on_clock_of_trace(before), before)
            if joined.verdict.line is not None:
                lengths, timed = arrow.ints(batch.column("dur_ns")), arrow.valid(batch.column("dur_ns"))
                ends = joined.on_clock_of_trace(before + lengths)
                batch = _with(batch, {"dur_ns": arrow.array(np.where(mine, ends - ts, lengths), mask=~timed)})
            source = np.where(mine, joined.trace_source, arrow.ints(batch.column("source"))).astype(np.int32)
            batch = _with(batch, {"ts_ns": arrow.array(ts), "source": arrow.array(source)})
            free = mine & ~arrow.bools(pc.fill_null(pc.match_substring(batch.column("args"), f'"{FROM}"'), False))
            batch = _with_member(
                _ranked(batch, mine, joined), free, arrow.array([member] * int(free.sum()), pa.string())
            )
        yield batch


def _threads_of_trace(batch: pa.RecordBatch, mine: Mask, joined: Joined) -> Column:
    threads, known = arrow.ints(batch.column("tid")), arrow.valid(batch.column("tid"))
    moved = threads.copy()
    for tid, other in joined.threads.items():
        moved[mine & (threads == tid)] = other
    return arrow.array(moved, mask=~known)


def _enriched(batches: Iterator[pa.RecordBatch], joined: Joined) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a trace; rows that are in the log too have what the log says of them."""
    ours, theirs = joined.twins()
    twins = joined.theirs.ranges.records[theirs]
    kinds = arrow.array(list(KINDS), pa.string())
    for batch in batches:
        mine = _of_process(batch, joined)
        if not mine.any():
            yield batch
            continue
        batch = _ranked(batch, mine, joined)
        place, again = _found(batch, twins)
        again &= mine
        own = batch.column("kind").cast(pa.string())
        if joined.steps_of_log():
            demoted = mine & arrow.bools(pc.equal(own, Kind.STEP))
            own = pc.if_else(arrow.array(demoted), Kind.USER_RANGE.value, own)
            none = arrow.nulls(batch.num_rows, pa.int32())
            batch = _with(batch, {"step": pc.if_else(arrow.array(mine), none, batch.column("step"))})
        if again.any():
            rows = ours[place[again]]
            plain = again & arrow.bools(pc.equal(own, Kind.USER_RANGE))
            of_log = kinds.take(arrow.array(np.where(again, joined.ours.kinds[ours[place]], 0)))
            own = pc.if_else(arrow.array(plain), of_log, own)
            number = np.where(is_step(joined.ours), joined.ours.ranges.steps, -1)[ours[place]]
            step = arrow.array(number.astype(np.int32), mask=~again | (number < 0))
            batch = _with(batch, {"step": pc.coalesce(step, batch.column("step"))})
            batch = _with_member(batch, again, _also(joined, rows))
        yield _with(batch, {"kind": arrow.encoded(own)})


def _of_process(batch: pa.RecordBatch, joined: Joined) -> Mask:
    if schema.is_totals(batch):
        return np.zeros(batch.num_rows, np.bool_)
    mine: Mask = arrow.valid(batch.column("pid")) & (arrow.ints(batch.column("pid")) == joined.pid)
    return mine


def _found(batch: pa.RecordBatch, records: I64) -> tuple[I64, Mask]:
    """Return for each row the place of its record among some, ascending, and whether it is one of them."""
    numbers = arrow.ints(batch.column("event_id"))
    if not records.size:
        return np.zeros(batch.num_rows, np.int64), np.zeros(batch.num_rows, np.bool_)
    place = np.minimum(np.searchsorted(records, numbers), records.size - 1)
    return place, records[place] == numbers


def _ranked(batch: pa.RecordBatch, mine: Mask, joined: Joined) -> pa.RecordBatch:
    if joined.rank is None:
        return batch
    rank = arrow.array(np.full(batch.num_rows, joined.rank, np.int32), mask=~mine)
    return _with(batch, {"rank": pc.coalesce(batch.column("rank"), rank)})


def _also(joined: Joined, rows: I64) -> Column:
    """Return the member that names the log's record of each range, with what its args say."""
    records = arrow.array(joined.ours.ranges.records[rows]).cast(pa.string())
    args = joined.ours.args.take(arrow.array(rows)).combine_chunks()
    args = pc.fill_null(pc.binary_join_element_wise(',"args":', args, ""), "")
    head = f'"{ALSO}":{{"input":{json.dumps(joined.log_name)},"record":'
    return pc.binary_join_element_wise(head, records, args, "}", "")


def _with_member(batch: pa.RecordBatch, rows: Mask, members: Column) -> pa.RecordBatch:
    """Return a batch whose rows of a mask have one more member in `args`. members: texts, one for each."""
    args = batch.column("args")
    inner = pc.fill_null(pc.replace_substring_regex(args, r"(?s)^\s*\{(.*)\}\s*$", r"\1"), "")
    inner = pc.if_else(pc.equal(inner, ""), "", pc.binary_join_element_wise(inner, ",", ""))
    at = arrow.array(np.cumsum(rows) - 1, mask=~rows)
    whole = pc.binary_join_element_wise("{", inner, members.take(at), "}", "")
    return _with(batch, {"args": pc.if_else(arrow.array(rows), whole, args)})


def _with(batch: pa.RecordBatch, columns: Mapping[str, Column]) -> pa.RecordBatch:
    for name, column in columns.items():
        at = batch.schema.get_field_index(name)
        batch = batch.set_column(at, schema.EVENTS.field(name), column)
    return batch
