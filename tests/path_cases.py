"""Graphs of the critical path from rows by hand and at random, and how long they take, computed node by node."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from doors.analysis import analysis_path_build as _path_build
from doors.analysis import analysis_path_doubts as _path_doubts
from doors.analysis import analysis_path_gains as _path_gains
from doors.analysis import analysis_path_waits as _path_waits
from hypothesis import strategies as st

from tracekit.analysis.critical_path import PathGraph
from tracekit.analysis.path_graph import PathDevice, PathHost, PathPart, Waits
from tracekit.model.arrow import I64

OP, LAUNCH, SYNC, GEMM, COPY, RANGE = range(6)
PART = {
    OP: PathPart.HOST,
    LAUNCH: PathPart.LAUNCH,
    SYNC: PathPart.SYNC,
    GEMM: PathPart.KERNEL,
    COPY: PathPart.COPY,
    RANGE: PathPart.HOST,
}


def ints(values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(list(values), np.int64)


def host(*rows: tuple[int, int, int, int], processes: int = 0) -> PathHost:
    """(thread, start, end, name); a RANGE is not active."""
    threads = max((r[0] for r in rows), default=0) + 1
    return PathHost(
        ints(r[0] for r in rows), ints(r[1] for r in rows), ints(r[2] for r in rows), ints(r[3] for r in rows),
        ints(PART[r[3]] for r in rows), np.array([r[3] != RANGE for r in rows], np.bool_),
        np.arange(threads) if processes else np.zeros(threads, np.int64),
    )  # fmt: skip


def device(*rows: tuple[int, int, int, int, int]) -> PathDevice:
    """(stream, start, end, name, launch)."""
    return PathDevice(
        *(ints(r[i] for r in rows) for i in range(4)), ints(PART[r[3]] for r in rows), ints(r[4] for r in rows)
    )


def waits(
    *rows: tuple[int, int, int], works: tuple[int, ...] = (), streams: tuple[tuple[int, int, int, int], ...] = ()
) -> Waits:
    """(call, stream, before)."""
    call, stream, before = (ints(r[i] for r in rows) for i in range(3))
    head, after, tail, until = (ints(r[i] for r in streams) for i in range(4))
    return Waits(call, stream, before, ints(works or [-1] * len(rows)), head, after, tail, until)


TIMES = st.integers(0, 60)


@st.composite
def cases(draw: st.DrawFn, scale: int = 1) -> tuple[PathHost, PathDevice, Waits, dict[str, Any]]:
    """Anything that a trace could say, true or not: ranges that overlap in part, work before its launch, odd waits."""
    rows = draw(st.lists(st.tuples(st.integers(0, 2), TIMES, st.integers(0, 30), st.integers(0, 5)), max_size=12))
    made = host(*((t, a * scale, (a + d) * scale, n) for t, a, d, n in rows))
    launch = st.integers(-1, len(rows) - 1)
    work = draw(
        st.lists(st.tuples(st.integers(0, 2), TIMES, st.integers(0, 30), st.integers(3, 4), launch), max_size=10)
    )
    on = device(*((s, a * scale, (a + d) * scale, n, x) for s, a, d, n, x in work))
    calls = st.tuples(st.integers(0, max(len(rows) - 1, 0)), st.integers(-2, 2), TIMES.map(lambda t: t * scale))
    some = draw(st.lists(calls, max_size=4 if rows else 0))
    streams = draw(st.lists(st.tuples(st.integers(0, 2), TIMES, st.integers(0, 2), TIMES), max_size=3))
    works = draw(st.lists(st.integers(-1, len(work) - 1), min_size=len(some), max_size=len(some)))
    call, stream, before = (ints(r[i] for r in some) for i in range(3))
    head, after, tail, until = (ints(r[i] for r in streams) for i in range(4))
    orders = draw(
        st.lists(st.tuples(st.integers(0, max(len(rows) - 1, 0)), st.sampled_from([-2, 0, 1, 2])), max_size=3)
    )
    orders = orders if rows else []
    found = Waits(
        call, stream, before, ints(works), head, after * scale, tail, until * scale,
        ints(r[0] for r in orders), ints(r[1] for r in orders),
    )  # fmt: skip
    window = draw(st.sampled_from([{}, {"begin": 20 * scale}, {"begin": 10 * scale, "end": 40 * scale}]))
    return made, on, found, {"main": draw(st.integers(0, 2)), **window}


LIMITS: tuple[tuple[Any, dict[str, int]], ...] = (  # a module may be there twice
    (
        _path_waits,
        {
            "TOLERANCE": 2,
            "LEAST_FREE": 3,
            "LONG": 9,
            "LEAST_TIMES": 2,
            "SOON": 3,
            "HELD": 3,
            "MOST_ISSUE": 6,
            "_ENOUGH_PAUSES": 2,
            "PAUSE": 4,
        },
    ),
    (_path_doubts, {"LEAST_LAG": 5, "LEAST_LAG_TOLD": 2, "SOON": 6, "SHORT_PAUSE": 3}),
    (_path_build, {"PAUSE": 4}),
    (_path_gains, {"SHORT_PAUSE": 3}),
)


@contextmanager
def few_ns() -> Iterator[None]:
    """Make the limits of time a few ns, so that windows as those of `window` reach all of them."""
    with pytest.MonkeyPatch.context() as patch:
        for module, limits in LIMITS:
            for name, value in limits.items():
                patch.setattr(module, name, value)
        yield


def window(seed: int) -> tuple[PathHost, PathDevice, Waits, dict[str, Any]]:
    """As `cases`, closer together in time, and quicker to draw; seed: the same one gives the same window."""
    rng = np.random.default_rng(seed)
    first, most = int(rng.choice([-20, 0, 40])), int(rng.choice([8, 16, 30]))

    def times(count: int) -> I64:
        return rng.integers(first, first + most + 1, count)

    threads, rows, work = int(rng.integers(1, 5)), int(rng.integers(0, 14)), int(rng.integers(0, 12))
    starts, names, begins = times(rows), rng.integers(0, 6, rows), times(work)
    made = PathHost(
        rng.integers(0, threads, rows), starts, starts + rng.integers(0, most // 2, rows), names,
        rng.integers(0, 6, rows), names != RANGE, rng.integers(0, rng.integers(1, 3), threads),
    )  # fmt: skip
    on = PathDevice(
        rng.integers(0, 3, work), begins, begins + rng.integers(0, most // 2, work), rng.integers(0, 6, work),
        rng.integers(0, 6, work), rng.integers(-1, rows, work),
    )  # fmt: skip
    calls, orders = (int(rng.integers(0, 5)) if rows else 0 for _ in range(2))
    works = rng.integers(-1, work, calls) if rng.random() < 0.5 else np.full(calls, -1)
    joins = int(rng.integers(0, 4))
    found = Waits(
        rng.integers(0, max(rows, 1), calls), rng.integers(-2, 3, calls), times(calls), works,
        rng.integers(0, 3, joins), times(joins), rng.integers(0, 3, joins), times(joins),
        rng.integers(0, max(rows, 1), orders), rng.choice([-2, 0, 1, 2], orders),
    )  # fmt: skip
    begin, end = sorted(times(2).tolist())
    cut = [{}, {"begin": begin}, {"end": end}, {"begin": begin, "end": end}][int(rng.integers(0, 4))]
    return made, on, found, {"main": int(rng.integers(0, threads + 1)), "begin": None, "end": None, **cut}


def edges_of(graph: PathGraph, without: Collection[int] = ()) -> dict[int, list[tuple[int, int]]]:
    """For each node its (tail, slack)s, from the graph's columns. without: waits that all but a chain's first lose.

    What a thread pauses after such a wait stays.
    """
    nodes, out = graph.nodes, {}
    for v in range(nodes.starts.size):
        found = []
        if v and nodes.chain[v] == nodes.chain[v - 1]:
            found.append((v - 1, int(graph.chain_slack[v])))
        if graph.launch[v] >= 0:
            found.append((int(graph.launch[v]), int(graph.launch_slack[v])))
        out[v] = found
    joins = (graph.join_head, graph.join_tail, graph.join_slack, graph.join_wait)
    for h, t, s, wait in zip(*(column.tolist() for column in joins), strict=True):
        if wait not in without or not h or nodes.chain[h] != nodes.chain[h - 1]:
            out[h].append((t, s))
    gone = [
        (h, int(nodes.ends[t]))
        for h, t, _, wait in zip(*(column.tolist() for column in joins), strict=True)
        if wait in without and h and nodes.chain[h] == nodes.chain[h - 1]
    ]
    for h in {h for h, _ in gone}:
        until = max(end for head, end in gone if head == h)
        pause = min(max(until - int(nodes.ends[h - 1]), 0), int(graph.chain_slack[h]))
        out[h] = [(t, pause if t == h - 1 and at == 0 else s) for at, (t, s) in enumerate(out[h])]
    return out


def slow_end(
    graph: PathGraph, free: set[int], *, pauses: bool = False, certain: bool = False, without: Collection[int] = ()
) -> int:
    """When all has ended if nodes of these names take no time: the longest path, node by node, in times not gains.

    pauses, certain, without: as in `upper_bounds`.
    """
    nodes, edges, doubts = graph.nodes, edges_of(graph, without), graph.doubts
    doubt_of = {
        int(head): i for i, head in enumerate(doubts.heads) if not certain or doubts.sure[i] or doubts.lags[i] < 0
    }
    order = sorted(edges, key=lambda v: (nodes.starts[v], nodes.ends[v], v))
    ends: dict[int, int] = {}
    for v in order:
        start, end = int(nodes.starts[v]), int(nodes.ends[v])
        # The lag of the binding edge stays; over any other edge the node could have begun at once.
        ready = [ends[t] + start - int(nodes.ends[t]) - slack for t, slack in edges[v]]
        begin = max(ready, default=start)
        if v in doubt_of:
            i = doubt_of[v]
            tails = doubts.tails[doubts.first[i] : doubts.first[i + 1]].tolist()
            # The earliest of what may be: it waits for one of these, or for what is known alone.
            earliest = min(ends[t] + start - int(nodes.ends[t]) for t in tails)
            if doubts.lags[i] >= 0:
                earliest = max([earliest, graph.begin, *(ends[t] for t, _ in edges[v])])
            begin = earliest if doubts.sure[i] and edges[v] else min(begin, earliest)
        if (
            pauses
            and v
            and nodes.chain[v] == nodes.chain[v - 1]
            and {int(n) for n in nodes.names[v - 1 : v + 1]} <= free
        ):
            pause = start - int(nodes.ends[v - 1])
            begin -= pause if pause <= _path_gains.SHORT_PAUSE and not graph.chain_slack[v] else 0
        ends[v] = begin + (0 if int(nodes.names[v]) in free else end - start)
    return max(ends[v] for v in graph.last.tolist())
