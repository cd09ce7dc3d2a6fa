"""Device work whose launching thread no call states, charged by time: an estimate, apart from all that calls show.

This is for inputs that have no call of the runtime or driver with a thread: device work that Nsight Systems or CUPTI
collected without the API, `nvprof --print-gpu-trace`, a log of the CUDA command line profiler. A piece goes to the
innermost range that was open on the launching thread when its call began, where the call is known without its thread,
else when the piece itself started. Work waits in its stream's queue after the launch, and how long is not known: so
a piece that is charged by its own start may be of an earlier range of the thread, never of a later one.

The launching thread is the one that the row states, else the only thread of its process that has ranges. Work that
states no process is of the only process with ranges of its input. Across inputs this needs the user's word: an input
placed by `--align NAME=OFFSET` is charged to the only process with ranges of that clock. With several threads or
processes it is not known, and nothing is charged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.analysis.enclosing import innermost
from tracekit.columns.arrays import I64, Mask
from tracekit.index import grouping
from tracekit.index.host.tree import Host, host
from tracekit.index.sources import clock_groups, facts_by_source
from tracekit.index.trace_index import TraceIndex, join
from tracekit.schema import API_CALLS

__all__ = ["ByTime", "by_time"]

_OFFSET = "offset"
"""The method of an input's clock that the user gave."""


@dataclass(frozen=True, slots=True, eq=False)
class ByTime:
    """The estimate; m device events and n places, as in `Host`.

    owner: shape (m,), the place that is charged, -1 for none. thread: shape (m,), some place of the launching thread,
    -1 where that is not known; a piece that has a thread and no owner is in no range. times: shape (m,), ns, when the
    call began or the piece started. by_call: shape (m,), the pieces whose call is known. speaking: inputs with calls
    that show what a range launched. threads, processes: pieces that are not charged, since several threads, or
    processes, have ranges.
    """

    host: Host
    owner: I64
    thread: I64
    times: I64
    by_call: Mask
    speaking: I64
    threads: int
    processes: int

    @property
    def known(self) -> Mask:
        """Return shape (m,): whether a piece is charged by time, be it to no range."""
        known: Mask = self.thread >= 0
        return known

    @property
    def said(self) -> tuple[int, int]:
        """Return the pieces without a launch call, and of those with one, that the notes here name."""
        called = int(np.count_nonzero(self.by_call))
        return int(np.count_nonzero(self.known)) - called + self.threads + self.processes, called

    def silent(self, rows: I64) -> Mask:
        """Return for each of these rows of EVENTS whether no call of its input could show what it launched."""
        silent: Mask = ~np.isin(self.host.index.ints("source")[rows], self.speaking)
        return silent

    def own_work(self) -> I64:
        """Return shape (n,): device ns that are charged to each place itself."""
        spent = np.zeros(self.host.rows.size, np.int64)
        charged = self.owner >= 0
        np.add.at(spent, self.owner[charged], self.host.work_ns[charged])
        return spent

    def notes(self) -> list[str]:
        """Return what to know of the estimate, in words."""
        out = []
        count = int(np.count_nonzero(self.known))
        called = int(np.count_nonzero(self.by_call))
        whole = grouping.plural("device event", self.host.work.size)
        if count - called:
            out.append(
                f"{count - called:,} of {whole} have no launch call: device by time is an estimate, by the range that "
                "was open when each started; work that waited in a queue belongs to an earlier range"
            )
        if called:
            out.append(
                f"{called:,} of {whole} have a launch call without a thread: device by time is by the range that was "
                "open when the call began, on the only thread with ranges"
            )
        if self.threads:
            out.append(
                f"{self.threads:,} of {whole} have no known range: no launch call, and several threads have ranges"
            )
        if self.processes:
            out.append(
                f"{self.processes:,} of {whole} have no known range: no launch call, and no single process with ranges "
                "is known to be theirs"
            )
        return out


@join
def by_time(index: TraceIndex) -> ByTime:
    """Return the estimate for all device work that no call with a thread launched."""
    found = host(index)
    source = index.ints("source")
    calls = np.flatnonzero(index.kind_mask(API_CALLS) & index.has("tid"))
    speaking = np.unique(source[calls])
    called = found.launch >= 0
    asked = np.flatnonzero((found.owner < 0) & ~np.isin(source[found.work], speaking))
    owner, thread = np.full(found.work.size, -1, np.int64), np.full(found.work.size, -1, np.int64)
    times = np.where(called, np.append(index.starts, 0)[found.launch], index.starts[found.work])
    by_call = np.zeros(found.work.size, np.bool_)
    places = np.flatnonzero(~found.is_call & ~np.isin(source[found.rows], speaking))
    if not asked.size or not places.size:
        return ByTime(found, owner, thread, times, by_call, speaking, 0, 0)
    home, several = _threads(index, found, places, asked)
    sure = home >= 0
    rows, thread[asked] = asked[sure], home
    lane = found.lanes[home[sure]]
    at = innermost(found.lanes[places], found.starts[places], found.ends[places], lane, times[rows])
    owner[rows] = np.append(places, -1)[at]
    by_call[rows] = called[rows]
    unknown = int(np.count_nonzero(~sure & ~several))
    return ByTime(found, owner, thread, times, by_call, speaking, int(np.count_nonzero(several)), unknown)


def _threads(index: TraceIndex, found: Host, places: I64, asked: I64) -> tuple[I64, Mask]:
    """Return some place of the thread that launched each of these pieces, -1 where it is not known; and where several
    threads of the process could have."""
    rows, work = found.rows[places], found.work[asked]
    both = np.concatenate((rows, work))
    codes = grouping.numbered(index.key(name, both) for name in ("source", "pid"))
    threads = grouping.numbered([grouping.Key(codes, range(int(codes.max()) + 1)), index.key("tid", both)])
    process, of_work = codes[: rows.size], codes[rows.size :]
    place_of_process = np.full(int(codes.max()) + 1, -1, np.int64)
    place_of_process[process] = places
    lanes = np.unique(np.column_stack((process, found.lanes[places])), axis=0)[:, 0]
    count = np.bincount(lanes, minlength=place_of_process.size)
    of_work = _processes(index, rows, work, process, of_work, count)
    place = np.where(of_work >= 0, place_of_process[of_work], -1)
    several = (of_work >= 0) & (count[of_work] > 1)
    place[several] = -1
    # A row of device work that states a thread states the one that launched it.
    stated = np.full(int(threads.max()) + 1, -1, np.int64)
    stated[threads[: rows.size]] = places
    own = np.where(index.has("tid")[work], stated[threads[rows.size :]], -1)
    return np.where(own >= 0, own, place), several & (own < 0)


def _processes(index: TraceIndex, rows: I64, work: I64, process: I64, of_work: I64, count: I64) -> I64:
    """Return the process with ranges that each piece belongs to, -1 where that is not known.

    rows, process: ranges and their processes. work, of_work: pieces and the processes that they state. count: threads
    with ranges of each process.
    """
    source, pid, has_pid = index.ints("source"), index.ints("pid"), index.has("pid")
    placed = {
        number
        for number, facts in facts_by_source(index).items()
        if isinstance(clock := facts.facts.get("clock"), dict) and clock.get("method") == _OFFSET
    }
    groups = clock_groups(index)
    out = np.where(count[of_work] > 0, of_work, -1)
    every, first = np.unique(process, return_index=True)
    homes = source[rows[first]].tolist()
    for number in np.unique(source[work[out < 0]]).tolist():
        mine = np.flatnonzero((out < 0) & (source[work] == number))
        near = [place for place, home in enumerate(homes) if home == number]
        if near:
            mine = mine[~has_pid[work[mine]]]
        else:
            shared = [groups.get(home) == groups.get(number) and bool({home, number} & placed) for home in homes]
            near = [place for place, clock in enumerate(shared) if clock]
        if len(near) == 1:
            same = ~has_pid[work[mine]] | (pid[work[mine]] == pid[rows[first[near[0]]]])
            out[mine[same]] = every[near[0]]
    return out
