"""Search for logs and traces of one process among the inputs of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tracekit.run.one_process import Joined, Joins
from tracekit.run.same_process import Side, Verdict, decide
from tracekit.run.survey import Process, Survey, states_own_ids, with_threads
from tracekit.trace import Json, Run, SourceFacts

LOG = "recorder-log"
"""The format of the recorder's logs."""
LARGEST_PID = 1 << 22
"""Linux has no larger process id; greater numbers are ours, for ids that are text."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One input after the first look. item, source: its number among the inputs, and that of its rows."""

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

    def threads_in(self, process: Process, other: Process) -> dict[int, int]:
        """Return the thread of another file for each thread of a log that has it by another id there.

        nvprof names a thread by the lower half of its id in the thread library, the log by that of the system.
        """
        idents = self.facts.facts.get("thread_idents")
        found = {}
        for each in idents if isinstance(idents, list) else ():
            match each:
                case [int(pid), int(tid), int(ident)] if pid == process.pid and tid not in other.threads:
                    if ident in other.threads:
                        found[tid] = ident
        return found

    def side(self, process: Process) -> Side | None:
        """Return what is known of one of its processes, None where the file has several logs of that process id."""
        facts = self._facts_of(process.pid)
        if facts is None:
            return None
        host = facts.get("host") or facts.get("host_name") or ""
        drift = facts.get("clock_drift_ns")
        return Side(
            process, host if isinstance(host, str) else "", self.run.origin_ns, drift if isinstance(drift, int) else 0
        )

    def _facts_of(self, pid: int) -> Json | None:
        facts = self.facts.facts
        more = facts.get("logs")
        if not is_log(self.run) or not isinstance(more, list):
            return facts
        mine = [each for each in (facts, *more) if isinstance(each, dict) and each.get("pid") == pid]
        return mine[0] if len(mine) == 1 else None


def is_log(run: Run) -> bool:
    """Return whether an input is a recorder's log, or was made from one."""
    return len(run.sources) == 1 and run.sources[0].format == LOG


def find(inputs: Sequence[Looked], sources: Mapping[int, int]) -> Joins:
    """Return the logs and traces that are of one process, and why others with the same process id are not.

    sources: the number of each input's rows, by that of the input.
    """
    logs = [each for each in inputs if is_log(each.run)]
    traces = [each for each in inputs if not is_log(each.run) and len(each.run.sources) == 1]
    joined: list[Joined] = []
    notes: dict[int, list[str]] = {}
    for log in logs:
        mine = notes.setdefault(log.item, [])
        for process in log.survey.processes.values():
            same: list[tuple[Looked, Verdict]] = []
            for trace in traces:
                verdict = _verdict(log, process, trace)
                if verdict is not None and verdict.same:
                    same.append((trace, verdict))
                elif verdict is not None and verdict.text:
                    mine.append(f"{trace.name} stays a process of its own: {verdict.text}")
            same.sort(key=_weight, reverse=True)
            for trace, verdict in same[:1]:
                joined.append(_joined(log, process, trace, verdict))
            for trace, _ in same[1:]:
                mine.append(f"{trace.name} stays a process of its own: the log is joined with {same[0][0].name}")
        mine += [
            f"{trace.name} stays a process of its own: its rows state no process"
            for trace in traces
            if trace.survey.nameless_work and not trace.survey.processes
        ]
    return Joins(tuple(joined), sources, {n: each for n, each in notes.items() if each})


def _weight(found: tuple[Looked, Verdict]) -> tuple[int, int]:
    """Return how much a trace has in common with the log, and then how much device work it has."""
    trace, verdict = found
    timed = verdict.shared.timed if verdict.shared else 0
    return timed, sum(process.device_work for process in trace.survey.processes.values())


def _verdict(log: Looked, process: Process, trace: Looked) -> Verdict | None:
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


def _joined(log: Looked, process: Process, trace: Looked, verdict: Verdict) -> Joined:
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
        ours=with_threads(process, threads),
        theirs=other,
        verdict=verdict,
        log_origin_ns=log.run.origin_ns or 0,
        alone=trace.survey.alone,
    )
