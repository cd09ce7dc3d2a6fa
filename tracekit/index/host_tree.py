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

import re
from dataclasses import replace

import numpy as np

from tracekit.analysis.nesting import NestingTree, innermost, nest, parents
from tracekit.analysis.segments import narrow, rows_by
from tracekit.index import grouping
from tracekit.index.launches import launches_of
from tracekit.index.sources import clock_groups, facts_by_source
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Codes, Mask, Rows
from tracekit.model.display import plural
from tracekit.model.schema import API_CALLS, DEVICE_WORK, HOST_RANGES, Kind

__all__ = [
    "CALLS",
    "COLUMNS",
    "KINDS",
    "NO_NAME",
    "STACKS",
    "UNATTRIBUTED",
    "ByTime",
    "HostTree",
    "by_time",
    "call_paths",
    "ends_of",
    "host",
    "lanes_in",
    "lanes_of",
]

# Host ranges as a tree, and the device work charged to the range that launched it.
#
# The tree of a thread is that of `analysis.nesting`: a range belongs to the innermost one that contains it entirely.
# Calls of the runtime and driver, and waits, are leaves: their time is no self time of the operator around them (as in
# PyTorch's key_averages and Paddle's summary). Python frames of PyTorch's stacks are left out: they overlap user ranges
# in part.
#
# Device work is charged to the innermost range in which its launch call BEGAN, wherever and whenever it ran. Launches
# and work are joined by (source, pid, correlation). Work whose launch is not in the trace, or began in no range,
# belongs into a row "(unattributed)".


CALLS = API_CALLS | {Kind.SYNC}
KINDS = HOST_RANGES | CALLS | DEVICE_WORK
COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "source", "pid", "tid", "correlation"})
UNATTRIBUTED = "(unattributed)"
STACKS = frozenset({"kineto"})
"""Formats whose rows of kind python_op are frames of a stack, not operators."""


@dataclass(frozen=True, slots=True, eq=False)
class HostTree:
    """Ranges and calls that have a thread and a duration, n of them, and m rows of device work.

    Numbers of rows, places, depths and threads are as narrow as they fit: multiply none of them.
    rows: shape (n,), rows of EVENTS. starts, ends: ns. tree: parents are places in `rows`. is_call: leaves that launch
    or wait. lanes: shape (n,), the thread of each.
    work, work_ns: shape (m,), rows of EVENTS and their durations; launch: the row of EVENTS that launched it, -1 where
    none is known; owner: the place in `rows` that is charged, -1 for none.
    """

    index: TraceIndex
    rows: Rows
    starts: I64
    ends: I64
    lanes: Codes
    is_call: Mask
    tree: NestingTree
    work: I64
    work_ns: I64
    launch: I64
    owner: Rows
    negative: int

    @property
    def crossing(self) -> int:
        """The number of ranges that overlap another of their thread in part."""
        return int(np.count_nonzero((self.tree.crosses >= 0) & ~self.is_call))

    def places(self) -> I64:
        """Return for each row of EVENTS its place in `rows`, -1 for none."""
        at = np.full(self.index.events.num_rows, -1, np.int64)
        at[self.rows] = np.arange(self.rows.size)
        return at

    def places_of(self, rows: I64) -> I64:
        """Return the place of each of these rows of EVENTS in `rows`, -1 for none."""
        return _places_in(self.rows, rows)

    def own_work(self) -> tuple[I64, I64]:
        """Return shape (n,) twice: device ns and device events that each range launched itself."""
        charged = self.owner >= 0
        spent = np.zeros(self.rows.size, np.int64)
        np.add.at(spent, self.owner[charged], self.work_ns[charged])
        pieces = np.bincount(self.owner[charged], minlength=self.rows.size)
        return spent, pieces.astype(np.int64, copy=False)

    def with_children(self, values: I64) -> I64:
        """Return shape (n,): the values of each range and of all below it added up."""
        total = values.copy()
        for level in reversed(self.levels()[1:]):
            np.add.at(total, self.tree.parent[level], total[level])
        return total

    def nearest(self, wanted: Mask) -> I64:
        """Return shape (n,): each range that is wanted itself, else the innermost wanted one around it; -1 for none."""
        ranges = np.where(wanted, np.arange(self.rows.size), -1)
        for level in self.levels()[1:]:
            lacking = level[ranges[level] < 0]
            ranges[lacking] = ranges[self.tree.parent[lacking]]
        return ranges

    def levels(self) -> list[I64]:
        """Return the places of each depth, roots first."""
        if not self.rows.size:
            return []
        by_depth = np.argsort(narrow(self.tree.depth), kind="stable")
        return np.split(by_depth, np.cumsum(np.bincount(self.tree.depth))[:-1])

    def notes(self, no_call: int = 0, no_thread: int = 0) -> list[str]:
        """Return the notes on the tree and on the charges.

        no_call, no_thread: pieces without a launch call, and with one without a thread, that are named elsewhere.
        """
        out = []
        if self.crossing:
            verb = "overlaps" if self.crossing == 1 else "overlap"
            out.append(
                f"{plural(self.crossing, 'range')} {verb} another of the same thread in part: neither is "
                "part of the other, and self times count their common time once"
            )
        if not self.work.size:
            return out
        lost = int(np.count_nonzero(self.launch < 0)) - no_call
        outside = int(np.count_nonzero((self.owner < 0) & (self.launch >= 0))) - no_thread
        if lost:
            out.append(f"{lost:,} of {plural(self.work.size, 'device event')} have no launch call here")
        if outside:
            out.append(f"{outside:,} of {plural(self.work.size, 'device event')} were launched outside ranges")
        return out


def ends_of(starts: I64, durations: I64) -> I64:
    """Return starts + durations, the last instant of int64 where that is beyond it. durations: not negative."""
    ends = starts + durations
    ends[ends < starts] = grouping.INT64_MAX
    return ends


@join
def host(index: TraceIndex) -> HostTree:
    """Return the tree and the charges. Raises: TracekitError where device times add up to more than int64 holds."""
    rows, is_call = _on_threads(index)
    starts = index.starts[rows]
    negative = int(np.count_nonzero(index.ints("dur_ns")[rows] < 0))
    ends = ends_of(starts, index.lengths[rows])
    # The tree is the largest of what views share until the last of them: its numbers are as narrow as they can be.
    of_row = np.int32 if index.events.num_rows < 1 << 31 else np.int64
    lanes: Codes = _narrowest(lanes_of(index, rows))
    rows = rows.astype(of_row)
    arrow.release_memory()
    tree = nest(lanes, starts, ends)
    tree = replace(tree, parent=tree.parent.astype(of_row), depth=_narrowest(tree.depth))
    picked = index.pick(DEVICE_WORK)
    work, work_ns = picked.rows, picked.durations
    if float(work_ns.sum(dtype=np.float64)) >= float(grouping.INT64_MAX):
        raise grouping.too_long()
    launch = launches_of(index, work).launch
    owner: Rows = np.full(work.size, -1, of_row)
    if work.size and rows.size:
        owner = _owners(launch, rows, lanes, starts, ends, is_call, tree).astype(of_row)
    return HostTree(index, rows, starts, ends, lanes, is_call, tree, work, work_ns, launch, owner, negative)


def _on_threads(index: TraceIndex) -> tuple[Rows, Mask]:
    """Return the rows that are ranges or calls with a thread and a duration, and which of them are calls."""
    ranges = index.kind_mask(HOST_RANGES) & ~_frames(index)
    calls = index.kind_mask(CALLS)
    rows = np.flatnonzero((ranges | calls) & index.has("dur_ns") & index.has("tid"))
    return rows, calls[rows]


def _narrowest(codes: Codes) -> Codes:
    """Return codes of 0 and more in the narrowest type of whole numbers."""
    return codes.astype(np.min_scalar_type(-int(codes.max(initial=0)) - 1))


def _places_in(ascending: Rows, rows: Rows) -> I64:
    """Return the place of each row in others, which ascend; -1 for none."""
    if not ascending.size:
        return np.full(rows.size, -1, np.int64)
    place = np.minimum(np.searchsorted(ascending, rows.astype(ascending.dtype)), ascending.size - 1)
    return np.where(ascending[place] == rows, place, -1)


def lanes_of(index: TraceIndex, rows: I64) -> I64:
    """Return the number of the thread of each row: rows of one (source, pid, tid) share it."""
    return grouping.numbered(index.key(name, rows) for name in ("source", "pid", "tid"))


def lanes_in(index: TraceIndex, host: HostTree, rows: I64) -> I64:
    """Return the number that the host tree has for the thread of each of these rows, -1 where it has none."""
    both = lanes_of(index, np.concatenate((host.rows, rows)))
    number = np.full(int(both.max(initial=0)) + 1, -1, np.int64)
    number[both[: host.rows.size]] = host.lanes
    return number[both[host.rows.size :]]


def _frames(index: TraceIndex) -> Mask:
    """Return for each row whether it is a frame of Python's stack."""
    numbers = [number for number, facts in facts_by_source(index).items() if facts.format in STACKS]
    if not numbers:
        return np.zeros(index.events.num_rows, np.bool_)
    return index.of_sources(numbers) & index.kind_mask({Kind.PYTHON_OP})


def _owners(launch: I64, rows: Rows, lanes: Codes, starts: I64, ends: I64, is_call: Mask, tree: NestingTree) -> Rows:
    """Return the place of the range that each device event is charged to, -1 for none."""
    place = _places_in(rows, launch)
    parent = tree.parent
    if (tree.crosses[is_call] >= 0).any():
        # Rounded times let calls stick out of the range they are in: where they BEGAN is what counts.
        first = np.where(is_call, starts, ends)
        parent = parents(lanes, starts, first)
    owner = np.where(place >= 0, parent[place], -1)
    # A call within a call (driver within runtime) is not what launched.
    while (within := (owner >= 0) & is_call[owner]).any():
        owner = np.where(within, parent[owner], owner)
    return owner


# Call paths of the host: ranges and calls merged by the names of all that hold them, as a flame graph draws them.


NO_NAME = "(no name)"


@dataclass(frozen=True, slots=True, eq=False)
class CallPaths:
    """The call paths of a trace, p of them; each is below its parent, which has a smaller number.

    parents: shape (p,), -1 for the outermost. names: of the innermost range. calls, self_ns: shape (p,), ranges of that
    path, and their time that no range below them has.
    """

    parents: I64
    names: list[str]
    calls: I64
    self_ns: I64


@join
def call_paths(index: TraceIndex) -> CallPaths:
    """Return the call paths of all threads. Steps have one name, whatever their number: `ProfilerStep#…`."""
    tree = host(index)
    codes, texts = index.texts("name")
    kinds, kind_names = index.texts("kind")
    step = kind_names.index(Kind.STEP) if Kind.STEP in kind_names else -2
    labels = list(dict.fromkeys([NO_NAME, *texts]))
    place = {text: number for number, text in enumerate(labels)}
    numbers = np.array([*(place[text] for text in texts), place[NO_NAME]], np.int64)
    name = numbers[codes[tree.rows]]
    steps = kinds[tree.rows] == step
    at = np.flatnonzero(steps)
    for number, places in rows_by(name[at]):
        name[at[places]] = place.setdefault(re.sub(r"\d+", "…", labels[number]), len(place))
    labels = list(place)
    path = np.full(tree.rows.size, -1, np.int64)
    parents: list[I64] = []
    names: list[I64] = []
    count = 0
    for level in tree.levels():
        above = tree.tree.parent[level]
        keys = (np.where(above >= 0, path[above], -1) + 1) * len(labels) + name[level]
        paths, inverse = np.unique(keys, return_inverse=True)
        path[level] = count + inverse
        parents.append(paths // len(labels) - 1)
        names.append(paths % len(labels))
        count += paths.size
    self_ns = np.zeros(count, np.int64)
    np.add.at(self_ns, path, tree.tree.self_ns)
    return CallPaths(
        np.concatenate(parents) if parents else np.zeros(0, np.int64),
        [labels[number] for part in names for number in part.tolist()],
        np.bincount(path, minlength=count),
        self_ns,
    )


_OFFSET = "offset"
"""The method of an input's clock that the user gave."""


@dataclass(frozen=True, slots=True, eq=False)
class ByTime:
    """The estimate; m device events and n places, as in `HostTree`.

    owner: shape (m,), the place that is charged, -1 for none. thread: shape (m,), some place of the launching thread,
    -1 where that is not known; a piece that has a thread and no owner is in no range. times: shape (m,), ns, when the
    call began or the piece started. by_call: shape (m,), the pieces whose call is known. speaking: inputs with calls
    that show what a range launched. threads, processes: pieces that are not charged, since several threads, or
    processes, have ranges.
    """

    host: HostTree
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
        whole = plural(self.host.work.size, "device event")
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
    tree = host(index)
    source = index.ints("source")
    calls = np.flatnonzero(index.kind_mask(API_CALLS) & index.has("tid"))
    speaking = sets.unique(source[calls])
    called = tree.launch >= 0
    asked = np.flatnonzero((tree.owner < 0) & ~np.isin(source[tree.work], speaking))
    times = index.starts[tree.work]
    times[called] = index.starts[tree.launch[called]]
    places = np.flatnonzero(~tree.is_call & ~np.isin(source[tree.rows], speaking)) if asked.size else asked
    if not places.size:
        none, never = np.broadcast_to(np.int64(-1), tree.work.size), np.broadcast_to(np.False_, tree.work.size)
        return ByTime(tree, none, none, times, never, speaking, 0, 0)
    owner, thread = np.full(tree.work.size, -1, np.int64), np.full(tree.work.size, -1, np.int64)
    by_call = np.zeros(tree.work.size, np.bool_)
    home, several = _threads(index, tree, places, asked)
    sure = home >= 0
    rows, thread[asked] = asked[sure], home
    lane = tree.lanes[home[sure]]
    at = innermost(tree.lanes[places], tree.starts[places], tree.ends[places], lane, times[rows])
    owner[rows] = np.append(places, -1)[at]
    by_call[rows] = called[rows]
    unknown = int(np.count_nonzero(~sure & ~several))
    return ByTime(tree, owner, thread, times, by_call, speaking, int(np.count_nonzero(several)), unknown)


def _threads(index: TraceIndex, tree: HostTree, places: I64, asked: I64) -> tuple[I64, Mask]:
    """Return some place of the thread that launched each of these pieces, -1 where it is not known; and where several
    threads of the process could have."""
    rows, work = tree.rows[places], tree.work[asked]
    both = np.concatenate((rows, work))
    codes = grouping.numbered(index.key(name, both) for name in ("source", "pid"))
    threads = grouping.numbered([grouping.Key(codes, range(int(codes.max()) + 1)), index.key("tid", both)])
    process, of_work = codes[: rows.size], codes[rows.size :]
    place_of_process = np.full(int(codes.max()) + 1, -1, np.int64)
    place_of_process[process] = places
    lanes = np.unique(np.column_stack((process, tree.lanes[places])), axis=0)[:, 0]
    count = np.bincount(lanes, minlength=place_of_process.size)
    of_work = _processes(index, rows, work, process, of_work, count)
    place = np.where(of_work >= 0, place_of_process[of_work], -1)
    several = (of_work >= 0) & (count[of_work] > 1)
    place[several] = -1
    # A row of device work that states a thread states the one that launched it.
    stated = np.full(int(threads.max()) + 1, -1, np.int64)
    stated[threads[: rows.size]] = places
    stated_thread = np.where(index.has("tid")[work], stated[threads[rows.size :]], -1)
    return np.where(stated_thread >= 0, stated_thread, place), several & (stated_thread < 0)


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
    for number in sets.unique(source[work[out < 0]]).tolist():
        without_process = np.flatnonzero((out < 0) & (source[work] == number))
        near = [place for place, home in enumerate(homes) if home == number]
        if near:
            without_process = without_process[~has_pid[work[without_process]]]
        else:
            shared = [groups.get(home) == groups.get(number) and bool({home, number} & placed) for home in homes]
            near = [place for place, clock in enumerate(shared) if clock]
        if len(near) == 1:
            same = ~has_pid[work[without_process]] | (pid[work[without_process]] == pid[rows[first[near[0]]]])
            out[without_process[same]] = every[near[0]]
    return out
