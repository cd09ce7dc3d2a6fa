"""Waits, nodes and edges of the critical path, against loops over rows, works and instants.

The limits of time are a few ns here, so that small cases reach all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import inf
from statistics import median
from typing import Any, NamedTuple

import pytest
from doors.analysis import PathDevice, PathHost, PathNodes, Waits
from doors.analysis import analysis_path_build as _path_build
from doors.analysis import analysis_path_doubts as _path_doubts
from doors.analysis import analysis_path_waits as _path_waits
from path_cases import few_ns, window
from small_limits import Limit, small

from tracekit.analysis.critical_path import Lag, PathGraph, connected, walk
from tracekit.analysis.path_graph import PathPart, build_nodes


@pytest.fixture(autouse=True, scope="module")
def small_limits() -> Iterator[None]:
    with few_ns():
        yield


class Row(NamedTuple):
    thread: int
    start: int
    end: int
    active: bool


class Work(NamedTuple):
    """One piece of device work of the window; launch: -1 where it began before that call.

    lane: of its stream, 0 unless it overlaps other work there. released: up to when its launch call held it.
    """

    row: int
    stream: int
    lane: int
    start: int
    end: int
    launch: int
    called: float
    released: int


class Stop(NamedTuple):
    """A wait of a thread; work: the place of what it waits for; number: which of `Waits`."""

    thread: int
    start: int
    until: int
    work: int
    number: int


class Pause(NamedTuple):
    """A thread that seems to have waited for another one until then."""

    thread: int
    until: int
    other: int
    long: bool


class Slow:
    """The window of a graph, made row by row, work by work and instant by instant."""

    def __init__(
        self, host: PathHost, device: PathDevice, waits: Waits, main: int, begin: int | None, end: int | None
    ) -> None:
        columns = (host.threads, host.starts, host.ends, host.active)
        self.rows = [Row(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
        self.processes = host.processes.tolist()
        self.device, self.main, self.names = device, main, host.names.tolist()
        self.calls = list(zip(waits.calls.tolist(), waits.streams.tolist(), waits.before.tolist(), strict=True))
        self.call_works = waits.works.tolist()
        self.low, self.high = self.window(begin, end)
        self.works = self.all_works()
        self.streams = {stream: self.on(stream) for stream in sorted({work.stream for work in self.works})}
        self.stops = [stop for number in range(len(self.calls)) for stop in self.stops_of(number)]
        self.free = [
            self.busy(thread)
            - {t for stop in self.stops if stop.thread == thread for t in range(stop.start, stop.until)}
            for thread in range(len(self.processes))
        ]

    def window(self, begin: int | None, end: int | None) -> tuple[int, int]:
        """Of the main thread's rows, else of all, and of the devices."""
        starts = [row.start for row in self.rows if row.thread == self.main] or [row.start for row in self.rows]
        starts += self.device.starts.tolist()
        ends = [row.end for row in self.rows] + self.device.ends.tolist()
        low = min(starts, default=0) if begin is None else begin
        return low, max(low, max(ends, default=0) if end is None else end)

    def all_works(self) -> list[Work]:
        """A copy is cut where the first call that waits for it returned, if half of it or more was in that call."""
        device, pieces = self.device, list[tuple[int, int, int, bool, int]]()
        for row in range(device.starts.size):
            stream, start, end = int(device.streams[row]), int(device.starts[row]), int(device.ends[row])
            returns = [
                self.rows[call[0]].end for call, work in zip(self.calls, self.call_works, strict=True) if work == row
            ]
            cuts = [at for at in returns if at < end and 2 * (at - start) >= end - start][:1]
            pieces += [(stream, start, at, False, row) for at in cuts]
            pieces += [(stream, at, end, at != start, row) for at in cuts or [start]]
        works, lanes = list[Work](), dict[int, list[int]]()
        for stream, start, end, _, row in sorted(pieces):
            launch = int(device.launch[row])
            known = launch >= 0 and self.rows[launch].start <= start
            called = self.rows[launch].start if known else -inf
            if end > self.low and (called if known else start) < self.high:
                until = lanes.setdefault(stream, [])
                lane = next((lane for lane, at in enumerate(until) if at <= start), len(until))
                until[lane : lane + 1] = [end]
                released = min(self.rows[launch].end, start) if known else start
                begin = max(start, self.low)
                works.append(Work(row, stream, lane, begin, end, launch if known else -1, called, released))
        return sorted(works, key=lambda work: (work.lane > 0, work.stream, work.lane))

    def on(self, stream: int) -> list[int]:
        """Places of a stream's works by start."""
        mine = [at for at, work in enumerate(self.works) if work.stream == stream]
        return sorted(mine, key=lambda at: (self.works[at].start, self.works[at].lane))

    def before(self, stream: int, time: int) -> list[int]:
        """Places of a stream's works up to the first one that was launched at this time or later."""
        mine = self.streams.get(stream, [])
        return mine[: next((i for i, at in enumerate(mine) if self.works[at].called >= time), len(mine))]

    def waited(self, stream: int, before: int, returns: int) -> list[int]:
        """The last work that was launched before, if it and all that must have ended did so inside the call."""
        places = self.before(stream, before)
        launched = [at for at in places if self.works[at].launch >= 0]
        begun = [at for at in places if self.works[at].start < returns]
        late = returns + _path_waits.TOLERANCE
        over = all(self.works[at].end <= late for at in launched[-1:] + begun[-1:])
        return begun[-1:] if over else []

    def stops_of(self, number: int) -> list[Stop]:
        call, stream, before = self.calls[number]
        thread, begins, returns, _ = self.rows[call]
        if self.call_works[number] >= 0:
            pieces = sorted(
                (work.start, at) for at, work in enumerate(self.works) if work.row == self.call_works[number]
            )
            found = [at for _, at in pieces[:1] if self.works[at].end <= returns and self.works[at].released > self.low]
            stops = [Stop(thread, self.works[at].released, self.works[at].end, at, number) for at in found]
            return stops + [stop for at in found for stop in self.before_copy(call, at, number)]
        if returns <= self.low or begins >= self.high:
            return []
        streams = [each for each in self.streams if stream in (Waits.ALL, Waits.ANY, each)]
        found = [at for each in streams for at in self.waited(each, before, returns)]
        until = max([begins, *(self.works[at].end for at in found)])
        if stream == Waits.ANY:  # the one that ended last
            found = [at for at in found if self.works[at].end == until > begins][:1]
        return [Stop(thread, max(begins, self.low), until, at, number) for at in found]

    def lane_before(self, at: int) -> int | None:
        """The work before this one on its lane."""
        mine = [w for w in range(at) if (self.works[w].stream, self.works[w].lane) == self.lane(at)]
        return mine[-1] if mine else None

    def lane(self, at: int) -> tuple[int, int]:
        return self.works[at].stream, self.works[at].lane

    def holder(self, at: int) -> int | None:
        """The work of any stream that ended last before this one began, if soon before, and not of the same call."""
        work = self.works[at]
        ended = [(other.end, w) for w, other in enumerate(self.works) if other.end <= work.start]
        if not ended:
            return None
        end, latest = max(ended)
        near = work.start - end <= _path_waits.HELD and self.works[latest].launch != work.launch
        return latest if near else None

    def issue(self, at: int) -> int:
        """How long the call of a copy takes to issue it, as other calls of its name show."""
        taken = list[tuple[bool, int, int, int]]()
        for w, work in enumerate(self.works):
            if work.launch < 0 or self.device.parts[work.row] != PathPart.COPY:
                continue
            call = self.rows[work.launch]
            queue = [self.works[o].end for o in (self.lane_before(w), self.holder(w)) if o is not None]
            free = all(end <= call.start for end in queue) or call.end < work.start
            names = self.names[work.launch], int(self.device.names[work.row])
            taken.append((free, min(work.start, call.end) - call.start, *names))
        own = self.works[at]
        if own.launch < 0 or self.device.parts[own.row] != PathPart.COPY:
            return 0
        name, copy = self.names[own.launch], int(self.device.names[own.row])
        alike = sorted(ns for free, ns, n, c in taken if free and (n, c) == (name, copy))
        free = sorted(ns for free, ns, n, _ in taken if free and n == name)
        every = sorted(ns for _, ns, n, _ in taken if n == name)
        best = next(found[(len(found) - 1) // 2] for found in (alike, free, every[:1]) if found)
        return max(0, min(best, _path_waits.MOST_ISSUE))

    def before_copy(self, call: int, at: int, number: int) -> list[Stop]:
        """What a call that copies waits for before its first copy begins."""
        pieces = [(work.start, w) for w, work in enumerate(self.works) if work.launch == call]
        first = min(pieces)[1] if pieces else at
        froms = max(self.rows[call].start + self.issue(first), self.low)
        own, other = self.lane_before(first), self.holder(first)
        found = own if own is not None and self.works[own].end > froms else other
        if found is None or not froms + _path_waits.TOLERANCE < self.works[found].end <= self.works[first].start:
            return []
        return [Stop(self.rows[call].thread, froms, self.works[found].end, found, number)]

    def stream_waits(self, waits: Waits) -> list[tuple[int, int]]:
        columns = (waits.stream_heads, waits.stream_after, waits.stream_tails, waits.stream_before)
        found = []
        for head, after, tail, before in zip(*(column.tolist() for column in columns), strict=True):
            waiting = [at for at in self.streams.get(head, []) if at not in self.before(head, after)]
            found += [(at, to) for at in waiting[:1] for to in self.before(tail, before)[-1:]]
        return found

    def told_to_wait(self, waits: Waits) -> set[int]:
        """The first work of each stream that was told to wait that was launched from then on."""
        found = set[int]()
        for order, stream in zip(waits.orders.tolist(), waits.order_streams.tolist(), strict=True):
            thread, at = self.rows[order].thread, self.rows[order].start
            if stream == Waits.ANY:  # that of the next work that the thread launches
                launched = [w for w in self.works if w.launch >= 0 and self.rows[w.launch].thread == thread]
                streams = [w.stream for w in sorted(launched, key=lambda w: w.called) if w.called >= at]
            else:
                streams = [stream]
            for each in streams[:1]:
                found |= set([to for to in self.streams.get(each, []) if to not in self.before(each, at)][:1])
        return found

    def busy(self, thread: int, *, active: bool = False) -> set[int]:
        """The instants in which a thread is in any range, or in an active one."""
        mine = [row for row in self.rows if row.thread == thread and (row.active or not active)]
        return {t for row in mine for t in range(max(row.start, self.low), min(row.end, self.high))}

    def clipped(self, row: Row) -> tuple[int, ...]:
        """The start and end of a row in the window; nothing for one outside of it."""
        start, end = max(row.start, self.low), min(row.end, self.high)
        return (start, end) if start < end else ()

    def innermost(self, thread: int, t: int) -> int:
        """The row that began last of all that are open, the shortest of these."""
        rows = [
            (max(a, self.low), -min(b, self.high), i)
            for i, (x, a, b, _) in enumerate(self.rows)
            if x == thread and a <= t < b
        ]
        return max(rows)[2]

    def ended(self, thread: int, at: int) -> int | None:
        """When the thread last did something that ended up to then."""
        return max((t + 1 for t in self.free[thread] if t < at), default=None) if thread < len(self.free) else None

    def goes_on(self, thread: int, at: int) -> int | None:
        return min((t for t in self.free[thread] if t >= at), default=None)

    def launch_of(self, at: int) -> tuple[int, int] | None:
        """The thread that launched a work, and the end of what it did last before."""
        work = self.works[at]
        if work.start <= self.low:
            return None
        if work.launch >= 0:
            thread, time = self.rows[work.launch].thread, work.released
        else:
            ends = [w.end for w in self.works[:at] if (w.stream, w.lane) == (work.stream, work.lane)]
            if ends and work.start - ends[-1] <= _path_build.PAUSE:
                return None
            thread, time = self.main, work.start
        ended = self.ended(thread, time) if time > self.low else None
        return None if ended is None else (thread, ended)

    def pauses(self) -> list[Pause]:
        found = []
        for thread in range(len(self.processes)):
            runs = _runs(self.busy(thread, active=True))
            froms = [self.low, *(end for _, end in runs)]
            lengths = [begin - end for end, (begin, _) in zip(froms, runs, strict=False)]
            usual = _path_waits.LEAST_FREE
            if len(lengths) > _path_waits._ENOUGH_PAUSES:
                usual = min(_path_waits.LONG, _path_waits.LEAST_TIMES * int(median(lengths[1:])))
            for start, length in zip(froms, lengths, strict=False):
                if length >= _path_waits.LEAST_FREE:
                    found += self.woken(thread, start, start + length, long=length >= usual)
        return found

    def woken(self, thread: int, start: int, until: int, *, long: bool) -> list[Pause]:
        ends = [
            (self.woke(other, thread, start, until), -other)
            for other, process in enumerate(self.processes)
            if other != thread and process == self.processes[thread]
        ]
        end, other = max(ends, default=(start, 0))
        return [Pause(thread, end, -other, long)] if end > start else []

    def woke(self, other: int, thread: int, start: int, until: int) -> int:
        """When the other may have let this thread go on, `start` if it did not."""
        pause = set(range(start, until))
        active, alive = self.busy(other, active=True), self.busy(other)
        bare = 2 * len(self.busy(thread) & pause) < len(pause)
        ended = max((t + 1 for t in active if t < until and (t + 1 == until or t + 1 not in active)), default=self.low)
        silent = not {until - 1, until} <= active
        works = 2 * len(active & pause) >= len(pause)
        moved = any(start < at < until for row in self.rows if row.thread == other for at in self.clipped(row))
        lived = bare and (works or (moved and 2 * len(alive & pause) >= len(pause)))
        if silent and ended > start and (until - ended <= _path_waits.SOON or works or lived):
            return ended
        return until if lived and thread != self.main else start


def _runs(instants: set[int]) -> list[tuple[int, int]]:
    begins = sorted(t for t in instants if t - 1 not in instants)
    return list(zip(begins, sorted(t + 1 for t in instants if t + 1 not in instants), strict=True))


def key(nodes: PathNodes, at: int) -> tuple[str, int, int]:
    """(host, thread, end) or (device, row, start)"""
    if at < nodes.devices_from:
        return "host", int(nodes.chain[at]), int(nodes.ends[at])
    return "device", int(nodes.row[at]), int(nodes.starts[at])


@pytest.mark.parametrize("seed", range(20))
def test_nodes_and_their_edges_are_what_rows_works_and_instants_say(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    small(monkeypatch, Limit.PATH_BLOCK, 1 + seed % 6)
    if seed % 2:
        small(monkeypatch, Limit.PLACES_IN_FOUR_BYTES, 0)
    for case in range(30 * seed, 30 * seed + 30):
        check_nodes(*window(case))


def check_nodes(host: PathHost, device: PathDevice, waits: Waits, options: dict[str, Any]) -> None:
    slow = Slow(host, device, waits, **options)
    nodes = build_nodes(host, device, waits, **options)
    low = nodes.devices_from
    assert (nodes.begin, nodes.unseen) == (slow.low, 0)

    owners = {
        (int(nodes.chain[v]), t): int(nodes.row[v])
        for v in range(low) for t in range(int(nodes.starts[v]), int(nodes.ends[v]))
    }  # fmt: skip
    assert owners == {(x, t): slow.innermost(x, t) for x, free in enumerate(slow.free) for t in free}
    assert nodes.names[:low].tolist() == host.names[nodes.row[:low]].tolist()
    assert nodes.parts[:low].tolist() == host.parts[nodes.row[:low]].tolist()

    columns = (nodes.row, nodes.starts, nodes.ends, nodes.names, nodes.parts)
    works = [
        (work.row, work.start, work.end, int(device.names[work.row]), int(device.parts[work.row]))
        for work in slow.works
    ]
    assert sorted(zip(*(column[low:].tolist() for column in columns), strict=True)) == sorted(works)
    of_work = {(work.row, work.start): at for at, work in enumerate(slow.works)}
    place = [of_work[int(nodes.row[v]), int(nodes.starts[v])] for v in range(low, nodes.starts.size)]
    chains = {(int(nodes.chain[low + i]), (slow.works[at].stream, slow.works[at].lane)) for i, at in enumerate(place)}
    assert len({chain for chain, _ in chains}) == len({lane for _, lane in chains}) == len(chains)
    assert (nodes.chain[low:] >= len(slow.processes)).all()

    def work_key(at: int) -> tuple[str, int, int]:
        return "device", slow.works[at].row, slow.works[at].start

    launches = [None if tail < 0 else key(nodes, tail) for tail in nodes.launch.tolist()]
    expected = [slow.launch_of(at) for at in place]
    assert launches == [None] * low + [each and ("host", *each) for each in expected]

    joins = [(work_key(head), work_key(tail), -1) for head, tail in slow.stream_waits(waits)]
    for stop in slow.stops:
        if (start := slow.goes_on(stop.thread, stop.until)) is not None:
            joins.append((("start", stop.thread, start), work_key(stop.work), stop.number))
    found = zip(nodes.join_head.tolist(), nodes.join_tail.tolist(), nodes.join_wait.tolist(), strict=True)
    heads = [
        ("start", int(nodes.chain[h]), int(nodes.starts[h])) if h < low else key(nodes, h)
        for h in nodes.join_head.tolist()
    ]
    assert sorted((head, key(nodes, t), n) for head, (_, t, n) in zip(heads, found, strict=True)) == sorted(joins)

    woken = []
    for thread, until, other, long in slow.pauses():
        start, end = slow.goes_on(thread, until), slow.ended(other, until)
        if start is not None and end is not None:
            woken.append((thread, start, other, end, long))
    h, t = nodes.woken_head, nodes.woken_tail
    columns = (nodes.chain[h], nodes.starts[h], nodes.chain[t], nodes.ends[t], nodes.woken_long)
    assert sorted(zip(*(column.tolist() for column in columns), strict=True)) == sorted(woken)

    told = slow.told_to_wait(waits)
    assert nodes.ordered.tolist() == [False] * low + [at in told for at in place]


def slow_edges(nodes: PathNodes, launch: list[int]) -> list[list[tuple[int, int]]]:
    """For each node the tails of its edges, as (tail, number of the join), -1 for the chain's and -2 for the launch.

    The binding one ended last. If several ended together, it is the join on a host thread, else the edge on the
    chain, else the launch.
    """
    starts, ends, chain = nodes.starts.tolist(), nodes.ends.tolist(), nodes.chain.tolist()
    joins = list(enumerate(zip(nodes.join_head.tolist(), nodes.join_tail.tolist(), strict=True)))
    found = []
    for v in range(len(starts)):
        edges = [(v - 1, -1)] if v and chain[v - 1] == chain[v] else []
        edges += [(launch[v], -2)] if forward(nodes, launch[v], v) else []
        edges += [(tail, join) for join, (head, tail) in joins if head == v and forward(nodes, tail, v)]
        ranks = {-1: 1, -2: 0}
        join_rank = 2 if v < nodes.devices_from else -1
        found.append(sorted(edges, key=lambda edge: (ends[edge[0]], ranks.get(edge[1], join_rank), edge[0])))
    return found


def forward(nodes: PathNodes, tail: int, head: int) -> bool:
    """Whether the tail ended before the head began; nodes that touch are in order of (start, end, number)."""
    before, after = ((int(nodes.starts[v]), int(nodes.ends[v]), v) for v in (tail, head))
    return tail >= 0 and before[1] <= after[0] and (before[1] < after[0] or before < after)


class Doubt(NamedTuple):
    head: int
    tails: list[int]
    lag: int
    sure: bool
    likely: bool


def slow_doubts(nodes: PathNodes, known: list[int]) -> list[Doubt]:
    """known: when all that a node is known to wait for had ended."""
    starts, ends = nodes.starts.tolist(), nodes.ends.tolist()
    works = sorted(range(nodes.devices_from, len(starts)), key=lambda v: (ends[v], v))
    found = []
    for v in range(nodes.devices_from, len(starts)):
        told, lag = bool(nodes.ordered[v]), starts[v] - known[v]
        tails = [
            work
            for work in [work for work in works if ends[work] <= starts[v]][: -_path_doubts._MOST - 1 : -1]
            if ends[work] > known[v] and starts[v] - ends[work] <= _path_doubts.SOON and starts[work] < starts[v]
        ]
        if tails and lag >= (_path_doubts.LEAST_LAG_TOLD if told else _path_doubts.LEAST_LAG):
            found.append(Doubt(v, tails, lag, told, likely=True))
    last = dict[int, tuple[int, int, int, bool]]()
    columns = (nodes.woken_head, nodes.woken_tail, nodes.woken_long)
    for i, (head, tail, long) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        if forward(nodes, tail, head):
            edge = (ends[tail], i, tail, long)
            last[head] = max(last.get(head, edge), edge)
    return found + [Doubt(head, [last[head][2]], -1, False, last[head][3]) for head in sorted(last)]


@pytest.mark.parametrize("seed", range(20))
def test_the_edge_whose_tail_ended_last_binds_and_the_others_have_slack(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    small(monkeypatch, Limit.PATH_BLOCK, 1 + seed % 6)
    if seed % 2:
        small(monkeypatch, Limit.PLACES_IN_FOUR_BYTES, 0)
    for case in range(30 * seed, 30 * seed + 30):
        host, device, waits, options = window(case)
        nodes = build_nodes(host, device, waits, **options)
        check_graph(nodes, options["main"])


def check_graph(nodes: PathNodes, main: int) -> None:
    edges = slow_edges(nodes, nodes.launch.tolist())
    graph = connected(nodes, main=main)
    starts, ends, chain = nodes.starts.tolist(), nodes.ends.tolist(), nodes.chain.tolist()
    bind = [found[-1][0] if found else -1 for found in edges]
    known = [max(nodes.begin, ends[tail]) if tail >= 0 else nodes.begin for tail in bind]

    for v, found in enumerate(edges):
        slacks = {join: starts[v] - ends[tail] if tail != bind[v] else 0 for tail, join in found}
        launched = -2 in slacks
        assert graph.chain_slack[v] == slacks.get(-1, 0)
        assert (graph.launch[v] >= 0, graph.launch_slack[v]) == (launched, slacks.get(-2, 0))
        mine = graph.join_head == v
        joins = sorted((tail, slacks[join], int(nodes.join_wait[join])) for tail, join in found if join >= 0)
        columns = (graph.join_tail, graph.join_slack, graph.join_wait)
        assert sorted(zip(*(column[mine].tolist() for column in columns), strict=True)) == joins

    doubts = slow_doubts(nodes, known)
    made = graph.doubts
    tails = [made.tails[a:b].tolist() for a, b in pairwise(made.first.tolist())]
    columns = (made.heads.tolist(), tails, made.lags.tolist(), made.sure.tolist(), made.likely.tolist())
    assert list(zip(*columns, strict=True)) == doubts
    for doubt in doubts:
        bind[doubt.head] = doubt.tails[0] if doubt.likely else bind[doubt.head]
    assert graph.bind.tolist() == bind

    final = [v for v in range(len(starts)) if v + 1 == len(starts) or chain[v + 1] != chain[v]]
    able = [v for v in final if v >= nodes.devices_from or chain[v] == main]
    assert graph.last.tolist() == (able or final)
    end = max((ends[v] for v in graph.last.tolist()), default=nodes.begin)
    assert (graph.begin, graph.end, graph.span) == (nodes.begin, end, end - nodes.begin)
    assert graph.sink == min((v for v in graph.last.tolist() if ends[v] == end), default=-1)

    path = walk(graph)
    columns = (path.starts, path.ends, path.names, path.parts, path.node)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == slow_path(graph)


def slow_path(graph: PathGraph) -> list[tuple[int, int, int, int, int]]:
    nodes, low = graph.nodes, graph.nodes.devices_from
    found, at = list[tuple[int, int, int, int, int]](), graph.sink
    while at >= 0:
        tail = int(graph.bind[at])
        start, end = int(nodes.starts[at]), int(nodes.ends[at])
        since = int(nodes.ends[tail]) if tail >= 0 else graph.begin
        if tail < 0:
            lag = Lag.BEFORE
        elif nodes.chain[tail] == nodes.chain[at]:
            lag = Lag.STREAM if at >= low else Lag.THREAD
        else:
            lag = Lag.LAUNCH if tail < low <= at else Lag.WAIT
        found.append((start, end, int(nodes.names[at]), int(nodes.parts[at]), at))
        found.append((since, start, int(lag), int(PathPart.LAUNCH if lag == Lag.LAUNCH else PathPart.IDLE), -1))
        at = tail
    return [part for part in reversed(found) if part[0] < part[1]]
