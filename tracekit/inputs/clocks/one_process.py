"""A recorder's log and a trace of the same process: finding them among the inputs, and their rows as one process.

The rows of the log go to the process of the trace: they take its `source`, so that threads, launches and ranges meet in
every view and output. Their `args` name the file that they come from. A range that both files have is one row: that of
the trace, with the kind that the log states, and with the log's record in `also_in`; the log's ledger counts it as
merged. Steps are those of the log; a trace's own count only where the log has none. `same_process` decides which belong
together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tracekit.inputs.clocks.same_process import ProcessSide, Verdict, decide
from tracekit.inputs.clocks.shared_ranges import NO_THREAD, ProcessRanges
from tracekit.inputs.clocks.survey import (
    KINDS,
    MOST_RANGES,
    Survey,
    SurveyedProcess,
    is_step,
    states_own_ids,
    with_threads,
)
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema
from tracekit.model.arrow import I64, Column, Mask, pc
from tracekit.model.schema import Kind
from tracekit.model.trace import JOINED_INTO, Json, Ledger, Note, Run, SourceFacts

__all__ = ["ALSO", "COLUMNS", "LARGEST_PID", "LOG", "Joins", "SurveyedInput", "find_joins", "is_log", "with_members"]

LOG = "recorder-log"
"""The format of the recorder's logs."""
LARGEST_PID = 1 << 22
"""Linux has no larger process id; greater numbers are ours, for ids that are text."""
OfBatch: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
COLUMNS = frozenset({"event_id", "kind", "rank", "pid", "tid", "args"})
"""Columns of EVENTS that joining changes or looks at, besides times and steps."""
FROM, ALSO = "from_input", "also_in"
"""Members of `args`: the input of a row that was moved, and the other record of a row that is in two inputs."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A log and a trace of one process. log, trace: numbers of the inputs. log_source, trace_source: of their rows.

    log_name, trace_name: for people. log_process, trace_process: the process in each of them. log_origin_ns: Unix time
    of the log's time 0. alone: the trace has no other process. threads: the ids of the trace for threads of the log,
    where these differ.
    """

    log: int
    trace: int
    log_source: int
    trace_source: int
    log_name: str
    trace_name: str
    log_process: SurveyedProcess
    trace_process: SurveyedProcess
    verdict: Verdict
    log_origin_ns: int
    alone: bool
    threads: Mapping[int, int] = field(default_factory=dict)

    @property
    def pid(self) -> int:
        """The process id."""
        return self.log_process.pid

    @property
    def rank(self) -> int | None:
        """The rank that one of the two states."""
        return min(self.log_process.ranks | self.trace_process.ranks, default=None)

    def on_clock_of_trace(self, times: I64) -> I64:
        """Return times of the log, ns after its time 0, on the trace's clock; still after the log's time 0."""
        return self.verdict.moved(times + self.log_origin_ns) - self.log_origin_ns

    def steps_on_clock_of_trace(self) -> ProcessRanges:
        """Return the ranges of the log on the trace's clock, ns after the log's time 0."""
        ranges = self.log_process.ranges
        starts = self.on_clock_of_trace(ranges.starts)
        ends = self.on_clock_of_trace(ranges.starts + np.maximum(ranges.lengths, 0))
        lengths = np.where(ranges.lengths >= 0, ends - starts, ranges.lengths)
        return ProcessRanges(starts, lengths, ranges.threads, ranges.names, ranges.records, ranges.steps)

    def duplicates(self) -> tuple[I64, I64]:
        """Return the places of the ranges that both have, in the log and in the trace, by records of the trace."""
        shared = self.verdict.shared
        if shared is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        order = np.argsort(self.trace_process.ranges.records[shared.second], kind="stable")
        return shared.first[order], shared.second[order]

    def steps_of_log(self) -> bool:
        """Return whether the log has steps: then those of the trace are ranges like any other."""
        return bool(is_step(self.log_process).any())

    def facts(self) -> dict[str, object]:
        """Return what the log's facts say of it."""
        return {
            "input": self.trace_name,
            "process": self.pid,
            "because": self.verdict.text,
            "clock_offset_ns": self.verdict.offset_ns,
            "clock_uncertainty_ns": self.verdict.uncertainty_ns,
            **({"clock_drift_ppm": round(self.verdict.line.drift * 1e6, 6)} if self.verdict.line else {}),
            "ranges_in_both": int(self.duplicates()[0].size),
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
        if count := int(self.duplicates()[0].size):
            text = f"ranges that {self.trace_name} has too: they count once, as rows of that input"
            ledger.notes["range-in-both"] = Note("range-in-both", text, count)
        if not (self.log_process.whole and self.trace_process.whole):
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

    def movers(self, item: int, ledger: Ledger, told: Ledger) -> list[OfBatch]:
        """Return the functions that make rows of an input rows of the processes that they belong to, batch by batch.

        ledger: counts the rows. told: the ledger that a user is shown, for notes.
        """
        movers: list[OfBatch] = []
        for each in self.of(item):
            if each.log == item:
                each.note(told)
                movers.append(_log_mover(each, ledger))
            else:
                movers.append(_trace_enricher(each))
        for text in self.notes.get(item, ()):
            told.note("not-one-process", text)
        return movers

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
                left = is_step(each.log_process)
                left[each.duplicates()[0]] = False
                return _steps(each.steps_on_clock_of_trace(), left, each, forward)
            if not each.steps_of_log() and item == each.log and is_step(each.trace_process).any():
                return _steps(each.trace_process.ranges, is_step(each.trace_process), each, -forward)
        return None

    def name(self, run: Run) -> None:
        """Give threads and processes of a joined run the names that the log has for them: the program's own."""
        for each in self.joined:
            source = each.log_source
            for key in [key for key in run.threads if key[0] == source and key[1] == each.pid]:
                run.threads[each.trace_source, key[1], each.threads.get(key[2], key[2])] = run.threads.pop(key)
            if (source, each.pid) in run.processes:
                run.processes[each.trace_source, each.pid] = run.processes.pop((source, each.pid))


def _steps(every: ProcessRanges, which: Mask, joined: Joined, shift_ns: int) -> pa.RecordBatch:
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


def _log_mover(joined: Joined, ledger: Ledger) -> OfBatch:
    """Return the function that makes rows of a log rows of the trace, without ranges that the trace has."""
    duplicates = np.sort(joined.log_process.ranges.records[joined.duplicates()[0]])
    member = f'"{FROM}":{json.dumps(joined.log_name)}'

    def move(batch: pa.RecordBatch) -> pa.RecordBatch:
        if schema.is_totals(batch):
            return batch
        of_process = _of_process(batch, joined)
        if duplicates.size and (again := of_process & _place_of(batch, duplicates)[1]).any():
            count = int(np.count_nonzero(again))
            ledger.kept, ledger.merged = ledger.kept - count, ledger.merged + count
            ledger.events_out -= count
            batch, of_process = arrow.take(batch, np.flatnonzero(~again)), of_process[~again]
        if not of_process.any():
            return batch
        if joined.threads:
            batch = _with(batch, {"tid": _threads_of_trace(batch, of_process, joined)})
        before = arrow.ints(batch.column("ts_ns"))
        ts = np.where(of_process, joined.on_clock_of_trace(before), before)
        if joined.verdict.line is not None:
            lengths, timed = arrow.ints(batch.column("dur_ns")), arrow.valid(batch.column("dur_ns"))
            ends = joined.on_clock_of_trace(before + lengths)
            batch = _with(batch, {"dur_ns": arrow.array(np.where(of_process, ends - ts, lengths), mask=~timed)})
        source = np.where(of_process, joined.trace_source, arrow.ints(batch.column("source"))).astype(np.int32)
        batch = _with(batch, {"ts_ns": arrow.array(ts), "source": arrow.array(source)})
        free = of_process & ~arrow.bools(pc.fill_null(pc.match_substring(batch.column("args"), f'"{FROM}"'), False))
        members = arrow.array([member] * int(free.sum()), pa.string())
        return with_members(_ranked(batch, of_process, joined), free, members)

    return move


def _threads_of_trace(batch: pa.RecordBatch, of_process: Mask, joined: Joined) -> Column:
    threads, known = arrow.ints(batch.column("tid")), arrow.valid(batch.column("tid"))
    moved = threads.copy()
    for tid, other in joined.threads.items():
        moved[of_process & (threads == tid)] = other
    return arrow.array(moved, mask=~known)


def _trace_enricher(joined: Joined) -> OfBatch:
    """Return the function that gives rows of a trace that are in the log too what the log says of them."""
    ours, theirs = joined.duplicates()
    records = joined.trace_process.ranges.records[theirs]
    kinds = arrow.array(list(KINDS), pa.string())

    def enrich(batch: pa.RecordBatch) -> pa.RecordBatch:
        of_process = _of_process(batch, joined)
        if not of_process.any():
            return batch
        batch = _ranked(batch, of_process, joined)
        place, again = _place_of(batch, records)
        again &= of_process
        kind_of_row = batch.column("kind").cast(pa.string())
        if joined.steps_of_log():
            demoted = of_process & arrow.bools(pc.equal(kind_of_row, Kind.STEP))
            kind_of_row = pc.if_else(arrow.array(demoted), Kind.USER_RANGE.value, kind_of_row)
            none = arrow.nulls(batch.num_rows, pa.int32())
            batch = _with(batch, {"step": pc.if_else(arrow.array(of_process), none, batch.column("step"))})
        if again.any():
            rows = ours[place[again]]
            plain = again & arrow.bools(pc.equal(kind_of_row, Kind.USER_RANGE))
            of_log = kinds.take(arrow.array(np.where(again, joined.log_process.kinds[ours[place]], 0)))
            kind_of_row = pc.if_else(arrow.array(plain), of_log, kind_of_row)
            number = np.where(is_step(joined.log_process), joined.log_process.ranges.steps, -1)[ours[place]]
            step = arrow.array(number.astype(np.int32), mask=~again | (number < 0))
            batch = _with(batch, {"step": pc.coalesce(step, batch.column("step"))})
            batch = with_members(batch, again, _also(joined, rows))
        return _with(batch, {"kind": arrow.encoded(kind_of_row)})

    return enrich


def _of_process(batch: pa.RecordBatch, joined: Joined) -> Mask:
    if schema.is_totals(batch):
        return np.zeros(batch.num_rows, np.bool_)
    of_process: Mask = arrow.valid(batch.column("pid")) & (arrow.ints(batch.column("pid")) == joined.pid)
    return of_process


def _place_of(batch: pa.RecordBatch, records: I64) -> tuple[I64, Mask]:
    """Return for each row the place of its record among some, ascending, and whether it is one of them."""
    numbers = arrow.ints(batch.column("event_id"))
    if not records.size:
        return np.zeros(batch.num_rows, np.int64), np.zeros(batch.num_rows, np.bool_)
    place = np.minimum(np.searchsorted(records, numbers), records.size - 1)
    return place, records[place] == numbers


def _ranked(batch: pa.RecordBatch, of_process: Mask, joined: Joined) -> pa.RecordBatch:
    if joined.rank is None:
        return batch
    rank = arrow.array(np.full(batch.num_rows, joined.rank, np.int32), mask=~of_process)
    return _with(batch, {"rank": pc.coalesce(batch.column("rank"), rank)})


def _also(joined: Joined, rows: I64) -> Column:
    """Return the member that names the log's record of each range, with what its args say."""
    records = arrow.array(joined.log_process.ranges.records[rows]).cast(pa.string())
    args = joined.log_process.args.take(arrow.array(rows)).combine_chunks()
    args = pc.fill_null(pc.binary_join_element_wise(',"args":', args, ""), "")
    head = f'"{ALSO}":{{"input":{json.dumps(joined.log_name)},"record":'
    return pc.binary_join_element_wise(head, records, args, "}", "")


def with_members(batch: pa.RecordBatch, rows: Mask, members: Column) -> pa.RecordBatch:
    """Return a batch whose rows of a mask have one more member in `args`. members: texts, one for each."""
    args = batch.column("args")
    inner = pc.fill_null(pc.replace_substring_regex(args, r"(?s)^\s*\{(.*)\}\s*$", r"\1"), "")
    inner = pc.if_else(pc.equal(inner, ""), "", pc.binary_join_element_wise(inner, ",", ""))
    at = arrow.array(np.cumsum(rows) - 1, mask=~rows)
    whole = pc.binary_join_element_wise("{", inner, members.take(at), "}", "")
    return _with(batch, {"args": pc.if_else(arrow.array(rows), whole, args)})


def _with(batch: pa.RecordBatch, columns: Mapping[str, Column]) -> pa.RecordBatch:
    for name, column in columns.items():
        batch = arrow.with_column(batch, name, column)
    return batch


@dataclass(frozen=True, slots=True)
class SurveyedInput:
    """One input after its survey. item, source: its number among the inputs, and that of its rows."""

    item: int
    source: int
    run: Run
    survey: Survey

    @property
    def facts(self) -> SourceFacts:
        """The facts of the input."""
        return self.run.sources[0]

    @property
    def name(self) -> str:
        """The name of the input for people."""
        return self.facts.label or Path(self.facts.path).name

    def threads_in(self, process: SurveyedProcess, other: SurveyedProcess) -> dict[int, int]:
        """Return the thread of another file for each thread of a log that has it by another id there.

        nvprof names a thread by the lower half of its id in the thread library, the log by that of the system.
        """
        idents = self.facts.facts.get("thread_idents")
        threads = {}
        for each in idents if isinstance(idents, list) else ():
            match each:
                case [int(pid), int(tid), int(ident)] if pid == process.pid and tid not in other.threads:
                    if ident in other.threads:
                        threads[tid] = ident
        return threads

    def side(self, process: SurveyedProcess) -> ProcessSide | None:
        """Return what is known of one of its processes, None where the file has several logs of that process id."""
        facts = self._facts_of(process.pid)
        if facts is None:
            return None
        host = facts.get("host") or facts.get("host_name") or ""
        drift = facts.get("clock_drift_ns")
        return ProcessSide(
            process, host if isinstance(host, str) else "", self.run.origin_ns, drift if isinstance(drift, int) else 0
        )

    def _facts_of(self, pid: int) -> Json | None:
        facts = self.facts.facts
        more = facts.get("logs")
        if not is_log(self.run) or not isinstance(more, list):
            return facts
        of_process = [each for each in (facts, *more) if isinstance(each, dict) and each.get("pid") == pid]
        return of_process[0] if len(of_process) == 1 else None


def is_log(run: Run) -> bool:
    """Return whether an input is a recorder's log, or was made from one."""
    return len(run.sources) == 1 and run.sources[0].format == LOG


def find_joins(inputs: Sequence[SurveyedInput], sources: Mapping[int, int]) -> Joins:
    """Return the logs and traces that are of one process, and why others with the same process id are not.

    sources: the number of each input's rows, by that of the input.
    """
    logs = [each for each in inputs if is_log(each.run)]
    traces = [each for each in inputs if not is_log(each.run) and len(each.run.sources) == 1]
    joined: list[Joined] = []
    notes: dict[int, list[str]] = {}
    for log in logs:
        reasons = notes.setdefault(log.item, [])
        for process in log.survey.processes.values():
            same: list[tuple[SurveyedInput, Verdict]] = []
            for trace in traces:
                verdict = _verdict(log, process, trace)
                if verdict is not None and verdict.same:
                    same.append((trace, verdict))
                elif verdict is not None and verdict.text:
                    reasons.append(f"{trace.name} stays a process of its own: {verdict.text}")
            same.sort(key=_weight, reverse=True)
            for trace, verdict in same[:1]:
                joined.append(_joined(log, process, trace, verdict))
            for trace, _ in same[1:]:
                reasons.append(f"{trace.name} stays a process of its own: the log is joined with {same[0][0].name}")
        reasons += [
            f"{trace.name} stays a process of its own: its rows state no process"
            for trace in traces
            if trace.survey.nameless_work and not trace.survey.processes
        ]
    return Joins(tuple(joined), sources, {n: each for n, each in notes.items() if each})


def _weight(candidate: tuple[SurveyedInput, Verdict]) -> tuple[int, int]:
    """Return how much a trace has in common with the log, and then how much device work it has."""
    trace, verdict = candidate
    timed = verdict.shared.timed if verdict.shared else 0
    return timed, sum(process.device_work for process in trace.survey.processes.values())


def _verdict(log: SurveyedInput, process: SurveyedProcess, trace: SurveyedInput) -> Verdict | None:
    other = trace.survey.processes.get(process.pid)
    if other is None or not 0 < process.pid <= LARGEST_PID:
        return None
    ours, theirs = log.side(process), trace.side(other)
    pid = process.pid
    if ours is None or theirs is None:
        return Verdict(False, f"the log's file has several logs of process {pid}")
    if states_own_ids(log.run, "tid", log.source):
        return Verdict(False, f"the log lost the ids of threads of process {pid}")
    runs: Mapping[str, object] = trace.facts.facts
    several = runs.get("runs")
    if isinstance(several, list) and len(several) > 1:
        return Verdict(False, f"both have a process {pid}, but the trace has several runs, each on a clock of its own")
    if trace.facts.synthetic_time:
        return Verdict(False, f"both have a process {pid}, but the trace has durations without starts")
    threads = log.threads_in(process, other)
    if threads:
        ours = replace(ours, process=with_threads(process, threads))
    return decide(ours, theirs, one_program=bool(threads))


def _joined(log: SurveyedInput, process: SurveyedProcess, trace: SurveyedInput, verdict: Verdict) -> Joined:
    other = trace.survey.processes[process.pid]
    threads = log.threads_in(process, other)
    return Joined(
        threads=threads,
        log=log.item,
        trace=trace.item,
        log_source=log.source,
        trace_source=trace.source,
        log_name=log.name,
        trace_name=trace.name,
        log_process=with_threads(process, threads),
        trace_process=other,
        verdict=verdict,
        log_origin_ns=log.run.origin_ns or 0,
        alone=trace.survey.alone,
    )
