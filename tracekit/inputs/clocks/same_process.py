"""The decision whether a recorder's log and another trace are of one process.

Both have to state the same process id, and their times have to overlap on the wall clock. That is not enough: a process
id counts on one machine, or in one container, alone. So one of two things decides. Either both state the same host, and
the process id is one that a container's first processes do not have. Or the files share ranges: ranges of one name on
one thread that lie within one another at one offset between the clocks. Ranges that are in both and meet at no offset
speak against it. Where neither decides, it is not known, and the files stay side by side.
"""

from __future__ import annotations

from dataclasses import replace

from tracekit.analysis.clocks.line import ClockLine
from tracekit.inputs.clocks.shared_ranges import (
    FEWEST,
    ProcessRanges,
    SharedRanges,
    find_clock,
    find_line,
    find_offset,
    on_line,
    share,
)
from tracekit.inputs.clocks.survey import SurveyedProcess
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64
from tracekit.model.display import plural
from tracekit.model.units import format_span

__all__ = ["FIRST_ORDINARY_PID", "ProcessSide", "Verdict", "decide", "differ"]

FIRST_ORDINARY_PID = 300
"""Linux gives smaller process ids once after a start: to the system's own processes, and to those of a container."""
FEWEST_OF_ONE_HOST = 3
"""Pairs of ranges that prove it where both files state one host."""
CLOCK_SET_NS = 10_000_000
"""A wall clock that went this far from the monotonic one was set, so it does not tell the time between two anchors."""

MOST_OFFSET_NS = 1_000_000_000
"""Two readings of one wall clock are usually not further apart than this."""
MOST_CLOCK_ERROR_NS = 3_600_000_000_000
"""A wall clock that was set between two readings is not further from the other than this."""
FEWEST_OF_FAR_CLOCKS = 32
"""Pairs that prove it where the wall clocks say that one process ended before the other began: a program that runs
twice has the same ranges, but not at the same distances."""


@dataclass(frozen=True, slots=True)
class ProcessSide:
    """One process of one file.

    host: "" where the file states none. origin_ns: Unix time of the file's time 0, None where it is not known.
    drift_ns: of a log, how far the wall clock went from the log's own over its whole time.
    """

    process: SurveyedProcess
    host: str
    origin_ns: int | None
    drift_ns: int = 0

    def moved(self, ns: int | None) -> ProcessRanges:
        """Return the ranges with their starts on the wall clock; as in the file where that is not known."""
        ranges = self.process.ranges
        return ProcessRanges(
            ranges.starts + (ns or 0), *(getattr(ranges, name) for name in ProcessRanges.__slots__[1:])
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """same: both files are of one process. text: the reason, "" where nothing needs to be said.

    offset_ns: to add to the wall clock times of the log. uncertainty_ns: how far the true offset may be from that,
    None where nothing in the files says. shared: ranges of both; places in the log and in the trace.
    trace_origin_ns: Unix time of the trace's time 0; origin_given: the log's clock says it, the trace does not.
    line: the log's clock against the trace's, where it goes faster or slower; offset_ns is for its middle then.
    """

    same: bool
    text: str
    offset_ns: int = 0
    uncertainty_ns: int | None = None
    shared: SharedRanges | None = None
    trace_origin_ns: int = 0
    origin_given: bool = False
    line: ClockLine | None = None

    def moved(self, times: I64) -> I64:
        """Return wall clock times of the log as those of the trace."""
        return times + self.offset_ns if self.line is None else self.line.corrected(times)


def decide(log: ProcessSide, trace: ProcessSide, *, one_program: bool = False) -> Verdict:
    """Return whether a log and a trace with the same process id are of one process.

    one_program: threads have the same ids in the thread library too, which are places in the program's memory.
    """
    pid = trace.process.pid
    if differ(log.host, trace.host):
        return Verdict(False, "")
    ranks = log.process.ranks, trace.process.ranks
    if len(ranks[0]) == len(ranks[1]) == 1 and ranks[0] != ranks[1]:
        return Verdict(False, f"both have a process {pid}, of rank {min(ranks[0])} and of rank {min(ranks[1])}")
    if len(ranks[1]) > 1 or len(ranks[0]) > 1:
        return Verdict(False, f"the rows of process {pid} are of several ranks")
    if log.origin_ns is None:
        return Verdict(False, "the log has no wall clock")
    ours = log.moved(log.origin_ns)
    if trace.origin_ns is None or abs(log.drift_ns) > CLOCK_SET_NS:
        return _by_ranges_alone(trace, ours)
    first, last = trace.process.first + trace.origin_ns, trace.process.last + trace.origin_ns
    if last < log.process.first + log.origin_ns or first > log.process.last + log.origin_ns:
        if (
            met := find_clock(ours, trace.moved(trace.origin_ns), MOST_CLOCK_ERROR_NS, FEWEST_OF_FAR_CLOCKS)
        ) is not None:
            return _on_line(*met, trace.origin_ns)
        apart = max(log.process.first + log.origin_ns - last, first - log.process.last - log.origin_ns)
        text = f"both have a process {pid}, {format_span(apart)} apart: a process id can be used again"
        return Verdict(False, text)
    drift = _drift(log, (first + last) // 2)
    theirs = trace.moved(trace.origin_ns)
    shared = share(ours, theirs, drift)
    if shared.contradicts or not shared.timed:
        found = find_offset(ours, theirs)
        if found is not None and abs(found - drift) <= MOST_OFFSET_NS:
            shared = share(ours, theirs, found)
    fewest = FEWEST_OF_ONE_HOST if log.host and trace.host else FEWEST
    if not shared.proves(fewest):
        if (line := find_line(ours, theirs, drift)) is not None and line.drift:
            straight = share(on_line(ours, line), theirs)
            if straight.proves(FEWEST) and not straight.contradicts:
                return _on_line(line, straight, trace.origin_ns)
        if (met := find_clock(ours, theirs, MOST_OFFSET_NS, FEWEST)) is not None:
            return _on_line(*met, trace.origin_ns)
    verdict = _verdict(log, trace, shared, drift, trace.origin_ns)
    if one_program and not verdict.same and not shared.contradicts:
        agree = shared if shared.timed and shared.nested else None
        return Verdict(True, "same process id and ids of threads", drift, None, agree, trace.origin_ns)
    return verdict


def _on_line(line: ClockLine, shared: SharedRanges, origin_ns: int) -> Verdict:
    """Return the verdict on files whose ranges meet on a line: the interval is that of what it leaves."""
    more, uncertainty = shared.offset()
    line = replace(line, offset=line.offset - more)
    text = f"{plural(shared.timed, 'range')} in both"
    if not line.drift:
        return Verdict(True, text, -line.offset, uncertainty, shared, origin_ns)
    # Times are rounded to whole ns on the way.
    return Verdict(True, text, -line.offset, max(uncertainty, 1), shared, origin_ns, line=line)


def _verdict(log: ProcessSide, trace: ProcessSide, shared: SharedRanges, drift: int, origin_ns: int) -> Verdict:
    pid = trace.process.pid
    one_host = bool(log.host) and bool(trace.host)
    fewest = FEWEST_OF_ONE_HOST if one_host else FEWEST
    if shared.proves(fewest):
        offset, uncertainty = shared.offset()
        return Verdict(True, f"{plural(shared.timed, 'range')} in both", offset, uncertainty, shared, origin_ns)
    if shared.contradicts or (shared.timed and not shared.nested):
        return Verdict(False, f"both have a process {pid}, but ranges of the same names cross each other")
    if not one_host:
        who = "the log" if not log.host else "the trace"
        return Verdict(False, f"both have a process {pid}, but {who} states no host, and they share too few ranges")
    if pid < FIRST_ORDINARY_PID:
        text = f"process {pid} on one host may be of two containers, and the files share too few ranges"
        return Verdict(False, text)
    agree = shared if shared.timed and shared.nested else None
    return Verdict(True, "same host and process id", drift, None, agree, origin_ns)


def _by_ranges_alone(trace: ProcessSide, ours: ProcessRanges) -> Verdict:
    """Decide where no wall clock joins the files: by ranges that meet at one offset."""
    pid = trace.process.pid
    theirs = trace.moved(trace.origin_ns)
    found = find_offset(ours, theirs)
    shared = None if found is None else share(ours, theirs, found)
    if shared is None or not shared.proves(FEWEST):
        text = f"both have a process {pid}, but their clocks share no ground: how far apart they are is not known"
        return Verdict(False, text)
    offset, uncertainty = shared.offset()
    text = f"{plural(shared.timed, 'range')} in both"
    if trace.origin_ns is not None:
        return Verdict(True, text, offset, uncertainty, shared, trace.origin_ns)
    # The trace's clock takes the log's wall clock.
    return Verdict(True, text, 0, uncertainty, shared, -offset, origin_given=True)


def differ(host: str, other: str) -> bool:
    """Return whether two names are of two machines: "node1" and "node1.example.org" are one."""
    if not host or not other:
        return False
    parts, others = host.lower().split("."), other.lower().split(".")
    shorter = min(len(parts), len(others))
    return parts[:shorter] != others[:shorter] or (shorter > 1 and parts != others)


def _drift(log: ProcessSide, at_ns: int) -> int:
    """Return how far the wall clock has gone from the log's at a time, if it went evenly."""
    span = log.process.last - log.process.first
    if not log.drift_ns or span <= 0 or log.origin_ns is None:
        return 0
    into = min(max(at_ns - log.origin_ns - log.process.first, 0), span)
    return round(log.drift_ns * (into / span))
