"""Graphs of the critical path from rows by hand and at random, and how long they take, computed node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tracekit.analysis.critical_path import SHORT_PAUSE, Device, Graph, Host, Part, Waits

OP, LAUNCH, SYNC, GEMM, COPY, RANGE = range(6)
PART = {OP: Part.HOST, LAUNCH: Part.LAUNCH, SYNC: Part.SYNC, GEMM: Part.KERNEL, COPY: Part.COPY, RANGE: Part.HOST}


def ints(values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(list(values), np.int64)


def host(*rows: tuple[int, int, int, int], processes: int = 0) -> Host:
    """(thread, start, end, name); a RANGE is not active."""
    threads = max((r[0] for r in rows), default=0) + 1
    return Host(
        ints(r[0] for r in rows), ints(r[1] for r in rows), ints(r[2] for r in rows), ints(r[3] for r in rows),
        ints(PART[r[3]] for r in rows), np.array([r[3] != RANGE for r in rows], np.bool_),
        np.arange(threads) if processes else np.zeros(threads, np.int64),
    )  # fmt: skip


def device(*rows: tuple[int, int, int, int, int]) -> Device:
    """(stream, start, end, name, launch)."""
    return Device(
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
def cases(draw: st.DrawFn, scale: int = 1) -> tuple[Host, Device, Waits, dict[str, Any]]:
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


def edges_of(graph: Graph) -> dict[int, list[tuple[int, int]]]:
    """For each node its (tail, slack)s, from the graph's columns."""
    nodes, out = graph.nodes, {}
    for v in range(nodes.starts.size):
        found = []
        if v and nodes.chain[v] == nodes.chain[v - 1]:
            found.append((v - 1, int(graph.chain_slack[v])))
        if graph.launch[v] >= 0:
            found.append((int(graph.launch[v]), int(graph.launch_slack[v])))
        out[v] = found
    for h, t, s in zip(graph.join_head.tolist(), graph.join_tail.tolist(), graph.join_slack.tolist(), strict=True):
        out[h].append((t, s))
    return out


def slow_end(graph: Graph, free: set[int], *, pauses: bool = False, certain: bool = False) -> int:
    """When all has ended if nodes of these names take no time: the longest path, node by node, in times not gains.

    pauses, certain: as in `upper_bounds`.
    """
    nodes, edges, doubts = graph.nodes, edges_of(graph), graph.doubts
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
            begin -= pause if pause <= SHORT_PAUSE and not graph.chain_slack[v] else 0
        ends[v] = begin + (0 if int(nodes.names[v]) in free else end - start)
    return max(ends[v] for v in graph.last.tolist())
