"""The longest chain through host threads, launches, streams and synchronization, and the savings on it.

**The model.** A node is a piece of work that ran without a break: a stretch of a host thread in one innermost range, or
a kernel or copy on a stream. An edge says that its head began after its tail had ended:

* thread: the stretch before on the same thread; stream: the work before on the same stream;
* launch: the stretch of host time up to the end of the launch call, or to the start of the work where that is earlier;
* wait: the host goes on when the device work that its call waits for has ended; a stream waits for another
  (`views/path/_waits.py`);
* doubt: a stream or a thread seems to have waited for another, but no row says so (`_path_doubts`).

The edge into a node whose tail ended last is *binding*: the time between the two is a lag that stays.
The others have slack: their tail could end that much later, and nothing would change. The path follows the binding
edges back from what ended last, so nodes and lags on it add up to the window exactly.

**Savings** if some nodes took no time: the graph is evaluated again. Let gain(v) be how much earlier v ends.
gain(v) = own time, if v is one of them, + the least over all edges of (gain(tail) + slack). The rest of the graph may
become critical, so this is less than the time on the path where another chain is nearly as long; never more, but for
doubts, where the largest gain counts of all that may be true. Along a chain this is a running minimum, so whole
stretches are done at once; only waits and doubts are taken one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import IntEnum

import numpy as np

from tracekit.analysis.path_graph import PathDevice, PathHost, PathNodes, PathPart, Waits, build_nodes, in_order
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I32, I64, Codes, Mask, Numbers

__all__ = [
    "SHORT_PAUSE",
    "Lag",
    "Path",
    "PathDevice",
    "PathGraph",
    "PathHost",
    "PathPart",
    "Waits",
    "build",
    "build_nodes",
    "connected",
    "upper_bound",
    "upper_bounds",
    "walk",
]

# Dependencies that no row names, as far as the schedule shows them (see critical_path).
#
# **Streams.** Work that began long after all that it is known to depend on had ended was held up by something else. If
# work of another stream ended shortly before it began, the stream waited for that one: for certain where a call told it
# to wait (cudaStreamWaitEvent names neither stream nor event in most traces), else perhaps.
#
# **Threads.** `_path_waits.between_threads` finds threads that seem to have waited for each other.
#
# **An upper bound must not be too small.** Let K be the gain of what is known, C that of the candidates, and R the gain
# if the head began as long after what is known as it did. A dependency that is overlooked makes the gain too small: R
# takes the lag for one that stays. One that is made up makes it too small too: min(K, C) has a limit that is not there.
# So the gain is max(R, min(K, C)), and min(K, C) where a call told the stream to wait.


LEAST_LAG = 10_000
"""ns: work that began no later than this after all that it is known to wait for was held up by nothing else."""
LEAST_LAG_TOLD = 2_000
"""The same for work whose stream was told to wait."""
SOON = 20_000
"""ns: a stream goes on within this time after the work that it waited for."""
_MOST = 4
"""Candidates for one wait: the works that ended last."""
_MOST_GUESSED = 10_000
"""The most waits of streams that the schedule alone shows, the longest: each is evaluated on its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Doubts:
    """Nodes that waited for one of several candidates, or perhaps for none of them; shape (g,).

    tails: the candidates, those of head i are first[i] .. first[i + 1], the likeliest first. lags: how long before the
    head all that is known had ended, -1 for threads: there it does not count. sure: it was one of the candidates.
    likely: for the path it was the first of them.
    """

    heads: I64
    first: I64
    tails: I64
    lags: I64
    sure: Mask
    likely: Mask

    @classmethod
    def none(cls) -> Doubts:
        """Return no doubts."""
        empty = np.zeros(0, np.int64)
        no = np.zeros(0, np.bool_)
        return cls(empty, np.zeros(1, np.int64), empty, empty, no, no)

    def only(self, keep: Mask) -> Doubts:
        """Return some of them. keep: shape (g,)."""
        count = np.diff(self.first)
        return Doubts(
            self.heads[keep],
            np.append(0, np.cumsum(count[keep])),
            self.tails[np.repeat(keep, count)],
            self.lags[keep],
            self.sure[keep],
            self.likely[keep],
        )


def find(nodes: PathNodes, ready: I64) -> Doubts:
    """Return the doubts of a graph. ready: when all that each node is known to wait for had ended, shape (n,)."""
    parts = _of_streams(nodes, ready), _of_threads(nodes)
    first = np.cumsum(np.concatenate([[0], *(np.diff(part.first) for part in parts)]))
    return Doubts(
        np.concatenate([part.heads for part in parts]),
        first,
        np.concatenate([part.tails for part in parts]),
        np.concatenate([part.lags for part in parts]),
        np.concatenate([part.sure for part in parts]),
        np.concatenate([part.likely for part in parts]),
    )


def _of_threads(nodes: PathNodes) -> Doubts:
    head, tail = nodes.woken_head, nodes.woken_tail
    forward = np.flatnonzero(in_order(nodes, tail, head))
    order = forward[np.lexsort((nodes.ends[tail[forward]], head[forward]))]
    last = order[np.append(head[order][1:] != head[order][:-1], True)] if order.size else order
    count = last.size
    lags, sure = np.full(count, -1, np.int64), np.zeros(count, np.bool_)
    return Doubts(head[last], np.arange(count + 1), tail[last], lags, sure, nodes.woken_long[last])


def _of_streams(nodes: PathNodes, ready: I64) -> Doubts:
    low = nodes.devices_from
    starts, ends, ordered = nodes.starts[low:], nodes.ends[low:], nodes.ordered[low:]
    known = ready[low:]
    lag = starts - known
    late = np.flatnonzero(lag >= np.where(ordered, LEAST_LAG_TOLD, LEAST_LAG))
    if not late.size:
        return Doubts.none()
    by_end = np.argsort(ends, kind="stable")
    sorted_ends = ends[by_end]
    place = np.searchsorted(sorted_ends, starts[late], "right") - 1
    heads, tails = [], []
    for back in range(_MOST):
        at = place - back
        other = by_end[np.maximum(at, 0)]
        # What ended after all that is known is of another chain: the chain's own work is known.
        fits = (at >= 0) & (ends[other] > known[late]) & (starts[late] - ends[other] <= SOON)
        fits &= starts[other] < starts[late]
        heads.append(late[fits])
        tails.append(other[fits])
    head, tail = np.concatenate(heads), np.concatenate(tails)
    order = np.lexsort((-ends[tail], head))
    head, tail = head[order], tail[order]
    begins = np.flatnonzero(np.append(True, head[1:] != head[:-1])) if head.size else head
    first_heads = head[begins]
    doubts = Doubts(
        first_heads + low,
        np.append(begins, head.size),
        tail + low,
        lag[first_heads],
        ordered[first_heads],
        first_heads >= 0,
    )
    guessed = np.where(doubts.sure, 0, doubts.lags)
    if np.count_nonzero(guessed) <= _MOST_GUESSED:
        return doubts
    longest = np.zeros(guessed.size, np.bool_)
    longest[np.argpartition(guessed, -_MOST_GUESSED)[-_MOST_GUESSED:]] = True
    return doubts.only(doubts.sure | longest)


# Upper bounds for `critical_path.upper_bounds`: a graph ends this much earlier when some of its nodes take no time.
#
# gain(v) = own time, if v takes none, + the least over its edges of (gain(tail) + slack). Along a chain, with P the
# running sum of slacks and own times, gain - P is a running minimum of the gains that come in from other chains, so a
# stretch of a chain takes one call of numpy. Waits are evaluated in order of their heads: then no wait needs a later
# one.
# On host threads only the nodes that other chains depend on are kept. Doubts (`_path_doubts`) are taken in the same
# order; there the running minimum of a chain breaks off and begins anew.


_NEVER = 1 << 60
"""More than any gain: marks a missing edge."""
SHORT_PAUSE = 50_000
"""ns: a pause between two nodes of a chain that take no time is theirs if it is no longer."""
_CELLS = 1 << 19
"""Kept nodes times sets evaluated at once: bounds the memory."""
_MOST_SOURCES = 16
"""Chains that launch nodes of one chain, for which the latest call before each node is kept."""
_MANY_DOUBTS = 1000
"""With so many doubts, eight times as many sets are evaluated at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Contracted:
    """The nodes that matter, in order of chain. kept: their numbers; the rest refers to places among them.

    bounds: of each chain. heads: nodes that waits or doubts lead to, in order of time. tails, slacks: waits, those of
    head i are lows[i] .. highs[i]. doubt: that of head i, -1 for none; candidates: those of doubt j are
    doubt_first[j] .. doubt_first[j + 1]; lags, sure: as in `Doubts`. anchored: it waits for nothing that is known.
    last: the nodes that must all end, and how long before the last of them each one ends.
    """

    starts: I64
    ends: I64
    chain_slack: I64
    kept: I64
    chain: I64
    bounds: I64
    launch: I64
    launch_slack: I64
    anchored: Mask
    heads: I64
    lows: I64
    highs: I64
    tails: I64
    slacks: I64
    doubt: I64
    doubt_first: I64
    candidates: I64
    lags: I64
    sure: Mask
    last: I64
    last_slack: I64

    @classmethod
    def of(
        cls,
        chain: I64,
        starts: I64,
        ends: I64,
        chain_slack: I64,
        launch: I64,
        launch_slack: I64,
        head: I64,
        tail: I64,
        slack: I64,
        doubts: Doubts,
        last: I64,
    ) -> Contracted:
        """Return the part of a graph on which gains depend; arguments as in `critical_path.Graph`."""
        count = chain.size
        opens = np.ones(count, np.bool_)
        opens[1:] = chain[1:] != chain[:-1]
        matters = opens | (launch >= 0)
        for some in (launch[launch >= 0], head, tail, doubts.heads, doubts.tails, last):
            matters[some] = True
        kept = np.flatnonzero(matters)
        place = np.cumsum(matters) - 1
        anchored = opens & (launch < 0)
        anchored[head] = False
        order = np.argsort(head, kind="stable")
        head, tail, slack = head[order], tail[order], slack[order]
        heads = np.union1d(head, doubts.heads)
        heads = heads[np.lexsort((heads, ends[heads], starts[heads]))]
        doubt = np.full(count, -1, np.int64)
        doubt[doubts.heads] = np.arange(doubts.heads.size)
        chains = np.cumsum(opens) - 1
        return cls(
            starts,
            ends,
            chain_slack,
            kept,
            chains[kept],
            np.append(np.flatnonzero(opens[kept]), kept.size),
            np.where(launch[kept] >= 0, place[launch[kept]], -1),
            launch_slack[kept],
            anchored[kept],
            place[heads],
            np.searchsorted(head, heads, "left"),
            np.searchsorted(head, heads, "right"),
            place[tail],
            slack,
            doubt[heads],
            doubts.first,
            place[doubts.tails],
            doubts.lags,
            doubts.sure,
            place[last],
            ends[last].max() - ends[last],
        )


def gains(graph: Contracted, masks: Sequence[Numbers], *, pauses: bool, longest: int | None = None) -> I64:
    """Return how much earlier the last node ends for each set of nodes that take no time, shape (k,), k at least 1.

    masks: true for the nodes of a set, or the ns by which each node would be shorter. pauses: short ones between two
    nodes of a set that follow each other on a chain take no time either. longest: of these, ns; None: SHORT_PAUSE.
    """
    # Doubts are evaluated one by one, which takes as long for many sets as for one: 8 times the cells are 60 MB more.
    cells = _CELLS if graph.sure.size < _MANY_DOUBTS else 8 * _CELLS
    at_once = max(1, cells // max(graph.kept.size, 1))
    between = _short_pauses(graph, SHORT_PAUSE if longest is None else longest) if pauses else None
    parts = [_Evaluation(graph, masks[i : i + at_once], between).result() for i in range(0, len(masks), at_once)]
    return np.concatenate(parts)


def _short_pauses(graph: Contracted, longest: int) -> I64:
    """Return the pause before each node, if the node before on its chain is all that it waited for; shape (n,)."""
    pause = np.zeros(graph.starts.size, np.int64)
    pause[1:] = graph.starts[1:] - graph.ends[:-1]
    pause[graph.kept[graph.bounds[:-1]]] = 0
    pause[(pause > longest) | (graph.chain_slack > 0)] = 0
    return pause


class _Evaluation:
    """One evaluation: `rel` is gain - P of the kept nodes, shape (n, k); `done` how far each chain is evaluated.

    P is the running sum of slacks and own times. It and own times are kept where an edge needs them alone: `called` is
    what a launch adds to `rel` of its call, and the others belong to heads, waits, candidates and last nodes.
    """

    def __init__(self, graph: Contracted, masks: Sequence[Numbers], pauses: I64 | None) -> None:
        self.graph = graph
        count, sets = graph.kept.size, len(masks)
        begins, has_launch = graph.bounds[:-1], graph.launch >= 0
        launches, kept_pauses = graph.launch[has_launch], None if pauses is None else pauses[graph.kept]
        self.called = np.full((count, sets), _NEVER, np.int64)
        self.heads_less, self.begins_less = (np.empty((at.size, sets), np.int64) for at in (graph.heads, begins))
        self.heads_launch = graph.launch[graph.heads]
        places = graph.tails, graph.candidates, self.heads_launch, graph.last
        sums_at = [np.empty((at.size, sets), np.int64) for at in places]
        self.tail_sums, self.candidate_sums, self.launch_sums, self.last_sums = sums_at
        kept_ns = np.empty_like(graph.ends)
        for k, mask in enumerate(masks):  # fresh memory for each set would cost more than the sums
            given, free = np.asarray(mask), np.zeros(kept_ns.size, np.bool_)
            np.subtract(graph.ends, graph.starts, out=kept_ns)
            if given.dtype == np.bool_:
                free = given.astype(np.bool_, copy=False)
                kept_ns *= free
            else:
                np.clip(given, 0, kept_ns, out=kept_ns)
            own = kept_ns[graph.kept]
            if pauses is not None and kept_pauses is not None:
                kept_ns[1:] += pauses[1:] * (free[1:] & free[:-1])
                # No kept node that is the first of all has a pause before it.
                own += kept_pauses * (free[graph.kept] & free[graph.kept - 1])
            kept_ns += graph.chain_slack
            np.cumsum(kept_ns, out=kept_ns)
            sums = kept_ns[graph.kept]
            own -= sums
            self.called[has_launch, k] = own[has_launch] + sums[launches] + graph.launch_slack[has_launch]
            self.heads_less[:, k], self.begins_less[:, k] = own[graph.heads], own[begins]
            for at, sums_of in zip(places, sums_at, strict=True):
                sums_of[:, k] = sums[at]
        # What launches nothing waits for has its own place behind the others, which adds nothing.
        self.rel = np.empty((count + 1, sets), np.int64)
        self.rel[count] = 0
        self.caller = np.where(has_launch, graph.launch, count)
        self.done = begins.tolist()
        self.begins = begins.tolist()
        self.anchored = graph.anchored[begins].tolist()
        self.has_launches = np.logical_or.reduceat(has_launch, begins).tolist()
        of = graph.chain[graph.launch]
        least = np.minimum.reduceat(np.where(has_launch, of, begins.size), begins)
        most = np.maximum.reduceat(np.where(has_launch, of, -1), begins)
        self.sources = np.where(least == most, most, -1).tolist()
        self.latest = [
            _latest_calls(of[low:high], graph.launch[low:high]) if source < 0 and launches else None
            for low, high, source, launches in zip(
                self.begins, graph.bounds[1:].tolist(), self.sources, self.has_launches, strict=True
            )
        ]

    def result(self) -> I64:
        graph, done, rel = self.graph, self.done, self.rel
        head_chains, doubts = graph.chain[graph.heads].tolist(), graph.doubt.tolist()
        tail_chains, tails = graph.chain[graph.tails].tolist(), graph.tails.tolist()
        lows, highs = graph.lows.tolist(), graph.highs.tolist()
        doubtful = _DoubtfulHeads.of(graph, self.heads_launch)
        for i, head in enumerate(graph.heads.tolist()):
            low, high = lows[i], highs[i]
            for j in range(low, high):
                if tails[j] >= done[tail_chains[j]]:
                    self._advance(tail_chains[j], tails[j])
            if doubts[i] >= 0:
                self._doubt(doubtful, i, head_chains[i], head, low, high, doubts[i])
                continue
            came = rel[graph.tails[low:high]]
            came += self.tail_sums[low:high]
            came += graph.slacks[low:high, None]
            self._advance(head_chains[i], head, came.min(axis=0) + self.heads_less[i])
        for chain, node in zip(graph.chain[graph.last].tolist(), graph.last.tolist(), strict=True):
            self._advance(chain, node)
        gain: I64 = (rel[graph.last] + self.last_sums + graph.last_slack[:, None]).min(axis=0)
        return gain

    def _doubt(
        self, doubtful: _DoubtfulHeads, place: int, chain: int, head: int, low: int, high: int, doubt: int
    ) -> None:
        """Evaluate a chain up to a node that perhaps waited for one of several others. low, high: its waits."""
        graph, rel, done = self.graph, self.rel, self.done
        less = self.heads_less[place]
        came = list[tuple[I64, int]]()
        if head > self.begins[chain]:
            self._advance(chain, head - 1)
            slack = doubtful.chain_slack[place]
            # The sums hold the slack already.
            before = rel[head - 1] - less
            before -= slack
            came.append((before, slack))
        launch = doubtful.launch[place]
        if launch >= 0:
            self._advance(doubtful.launch_chain[place], launch)
            came.append((rel[launch] + self.launch_sums[place], doubtful.launch_slack[place]))
        for j in range(low, high):
            came.append((rel[graph.tails[j]] + self.tail_sums[j], int(graph.slacks[j])))
        first, last = doubtful.first[doubt], doubtful.first[doubt + 1]
        for j in range(first, last):
            if doubtful.candidates[j] >= done[doubtful.candidate_chains[j]]:
                self._advance(doubtful.candidate_chains[j], doubtful.candidates[j])
        if first == last:
            least = np.zeros_like(less)
        elif last == first + 1:
            least = rel[doubtful.candidates[first]] + self.candidate_sums[first]
        else:
            gains_of = rel[graph.candidates[first:last]]
            gains_of += self.candidate_sums[first:last]
            least = gains_of.max(axis=0)
        lag = doubtful.lags[doubt]
        if lag >= 0:
            # The binding edge has no slack: its lag is what the wait may have filled.
            for each, slack in came:
                np.minimum(least, each + (slack or lag), out=least)
        if not doubtful.sure[doubt] and came:
            stays = came[0][0] + came[0][1]
            for each, slack in came[1:]:
                np.minimum(stays, each + slack, out=stays)
            np.maximum(least, stays, out=least)
        np.add(least, less, out=rel[head])
        done[chain] = head + 1

    def _advance(self, chain: int, to: int, came: I64 | None = None) -> None:
        """Evaluate a chain up to a node, it included.

        came: the least gain that waits bring to that last node, with P taken off.
        """
        at = self.done[chain]
        if to < at:
            return
        if self.has_launches[chain]:
            self._advance_callers(chain, at, to + 1)
        self.done[chain] = to + 1
        rel = self.rel[at : to + 1]
        before: I64 | None = None
        if at > self.begins[chain]:
            before = self.rel[at - 1]
        elif self.anchored[chain]:
            before = self.begins_less[chain]
        if self.has_launches[chain]:
            np.add(self.rel[self.caller[at : to + 1]], self.called[at : to + 1], out=rel)
            if before is not None:
                np.minimum(rel[0], before, out=rel[0])
            if came is not None:
                np.minimum(rel[-1], came, out=rel[-1])
            if to > at:
                np.minimum.accumulate(rel, axis=0, out=rel)
            return
        rel[:] = _NEVER if before is None else before
        if came is not None:
            np.minimum(rel[-1], came, out=rel[-1])

    def _advance_callers(self, chain: int, low: int, high: int) -> None:
        """Evaluate the chains of calls up to those that launched the nodes low .. high - 1 of a chain."""
        graph, source = self.graph, self.sources[chain]
        if source >= 0:
            latest = int(graph.launch[low:high].max())
            if latest >= self.done[source]:
                self._advance(source, latest)
            return
        if (latest_calls := self.latest[chain]) is not None:
            # Calls of earlier nodes are evaluated, so the latest of all nodes so far are those of these nodes.
            for source, calls in latest_calls:
                call = int(calls[high - 1 - self.begins[chain]])
                if call >= self.done[source]:
                    self._advance(source, call)
            return
        tail = graph.launch[low:high]
        tail = tail[tail >= 0]
        of = graph.chain[tail]
        for source in np.unique(of).tolist():
            self._advance(source, int(tail[of == source].max()))


def _latest_calls(chains: I64, launch: I64) -> list[tuple[int, I32]] | None:
    """Return for each chain that launched nodes of a chain the latest call up to each node; None for many chains.

    chains, launch: of each node; launch is -1 where nothing launched it.
    """
    sources = np.unique(chains[launch >= 0])
    if sources.size > _MOST_SOURCES or launch.max() > np.iinfo(np.int32).max:
        return None
    calls = launch.astype(np.int32)
    return [(int(source), np.maximum.accumulate(np.where(chains == source, calls, np.int32(-1)))) for source in sources]


@dataclass(frozen=True, slots=True, eq=False)
class _DoubtfulHeads:
    """Numbers of heads, candidates and doubts as lists: a loop reads them one by one."""

    launch: list[int]
    launch_chain: list[int]
    launch_slack: list[int]
    chain_slack: list[int]
    first: list[int]
    candidates: list[int]
    candidate_chains: list[int]
    lags: list[int]
    sure: list[bool]

    @classmethod
    def of(cls, graph: Contracted, launch: I64) -> _DoubtfulHeads:
        """Return the lists of a graph. launch: the call of each head."""
        return cls(
            launch.tolist(),
            graph.chain[launch].tolist(),
            graph.launch_slack[graph.heads].tolist(),
            graph.chain_slack[graph.kept[graph.heads]].tolist(),
            graph.doubt_first.tolist(),
            graph.candidates.tolist(),
            graph.chain[graph.candidates].tolist(),
            graph.lags.tolist(),
            graph.sure.tolist(),
        )


MOST_SPAN = 1 << 58
"""ns, nine years: sums of times stay far from the end of int64."""


class Lag(IntEnum):
    """The reason for a part of the path that no node covers; it replaces the name."""

    BEFORE = -1
    LAUNCH = -2
    THREAD = -3
    STREAM = -4
    WAIT = -5


@dataclass(frozen=True, slots=True, eq=False)
class PathGraph:
    """Nodes with their edges; all arrays of nodes have the shape (n,), those of joins (m,).

    bind: the tail of the binding edge; -1 where nothing is known that the node waited for. chain_slack: of the edge
    from the node before on the same chain. launch: tail of the launch edge, -1 for none. join_head, join_tail,
    join_slack: the waits; join_wait: which of `Waits`, -1 for one between streams. doubts: what may have been waited
    for as well; the edges are those of what is known, but bind is the likeliest. end: of the path, ns; begin: of the
    window. last: the last nodes of the main thread and of each stream; the window ends when all of these have, and the
    path with the one that ends last: sink, -1 for a graph without nodes.
    """

    nodes: PathNodes
    bind: I64
    chain_slack: I64
    launch: I64
    launch_slack: I64
    join_head: I64
    join_tail: I64
    join_slack: I64
    join_wait: I64
    doubts: Doubts
    begin: int
    end: int
    last: I64
    sink: int

    @property
    def span(self) -> int:
        """Return the window's length, which the parts of the path add up to."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """The parts of the path in order of time, without a gap from the graph's begin to its end; shape (k,).

    parts: `PathPart`. names: the code of the node's name, or a `Lag` where `node` is -1.
    """

    starts: I64
    ends: I64
    names: Codes
    parts: Codes
    node: I64


def build(
    host: PathHost,
    device: PathDevice,
    waits: Waits | None = None,
    *,
    main: int = 0,
    begin: int | None = None,
    end: int | None = None,
) -> PathGraph:
    """Return the graph of a window.

    main: the thread on which the run ends, where it does not end on a device. begin, end: ns; host ranges are cut to
    them, device work begins in them or is launched there; None: from the first start on, to the last end.
    Raises: OverflowError for a span of nine years or more, ValueError and TypeError for columns that do not fit.
    """
    return connected(build_nodes(host, device, waits or Waits.none(), main=main, begin=begin, end=end), main=main)


def connected(nodes: PathNodes, *, main: int) -> PathGraph:
    """Return the graph of these nodes, as `build` does; `nodes.launch` is then without edges back in time.

    For large graphs: the caller can let go of what `build_nodes` needed.
    Raises: OverflowError as `build`.
    """
    count = nodes.starts.size
    if not count:
        none = np.zeros(0, np.int64)
        return PathGraph(
            nodes, none, none, none, none, none, none, none, none, Doubts.none(), nodes.begin, nodes.begin, none, -1
        )
    finals = _last(nodes, main)
    sink = int(finals[np.argmax(nodes.ends[finals])])
    last = int(nodes.ends[sink])
    if int(nodes.ends.max()) - nodes.begin >= MOST_SPAN:
        raise OverflowError("the window is longer than nine years")

    places = np.arange(count)
    # A node begins when the one before it in its lane has ended, unless a launch or a wait ends later: the last of them
    # binds it.
    follows = np.zeros(count, np.bool_)
    follows[1:] = nodes.chain[1:] == nodes.chain[:-1]
    gap = np.zeros(count, np.int64)
    gap[1:] = nodes.starts[1:] - nodes.ends[:-1]
    bind = np.where(follows, places - 1, -1)
    ready = np.where(follows, nodes.starts - gap, nodes.begin)  # every node ends later than the window begins

    # Clocks that disagree make edges back in time. A path cannot follow these, so they are no edges.
    launch = nodes.launch
    launch[~in_order(nodes, launch, places)] = -1
    by_launch = (launch >= 0) & (nodes.ends[launch] > ready)
    bind[by_launch], ready[by_launch] = launch[by_launch], nodes.ends[launch[by_launch]]

    keep = in_order(nodes, nodes.join_tail, nodes.join_head)
    head, tail, which = nodes.join_head[keep], nodes.join_tail[keep], nodes.join_wait[keep]
    # Where a node has several waits, the one that ended last counts: it becomes the last of its run.
    order = np.lexsort((tail, nodes.ends[tail], head))
    head, tail, which = head[order], tail[order], which[order]
    final = np.flatnonzero(np.append(head[1:] != head[:-1], True)) if head.size else head
    # On a host thread the work waited for goes before the call that waits, where both ended together.
    late = nodes.ends[tail[final]] + (head[final] < nodes.devices_from) > ready[head[final]]
    bind[head[final[late]]] = tail[final[late]]
    ready[head[final[late]]] = nodes.ends[tail[final[late]]]

    doubts = find(nodes, ready)
    likely = bind.copy()
    likely[doubts.heads[doubts.likely]] = doubts.tails[doubts.first[:-1][doubts.likely]]
    return PathGraph(
        nodes,
        likely,
        np.where(follows & (bind != places - 1), gap, 0),
        launch,
        np.where((launch >= 0) & (bind != launch), nodes.starts - nodes.ends[launch], 0),
        head,
        tail,
        np.where(bind[head] == tail, 0, nodes.starts[head] - nodes.ends[tail]),
        which,
        doubts,
        nodes.begin,
        last,
        finals,
        sink,
    )


def _last(nodes: PathNodes, main: int) -> I64:
    """Return the last nodes of the main thread and of each chain of a device; of every chain where there is neither."""
    final = np.flatnonzero(np.append(nodes.chain[1:] != nodes.chain[:-1], True))
    able = (nodes.chain[final] == main) | (final >= nodes.devices_from)
    return final[able] if able.any() else final


def walk(graph: PathGraph) -> Path:
    """Return the path, from the sink back along the binding edges; loops over changes of thread or stream alone."""
    nodes, count = graph.nodes, graph.nodes.starts.size
    if graph.sink < 0:
        none = np.zeros(0, np.int64)
        return Path(none, none, none, none, none)
    here = np.arange(count)
    jump = np.maximum.accumulate(np.where(graph.bind == here - 1, 0, here))
    # A chain's first node is a jump of its own, also where it is number 0 or bound by nothing.
    at = graph.sink
    blocks: list[tuple[int, int]] = []
    while at >= 0:
        first = int(jump[at])
        blocks.append((first, at))
        at = int(graph.bind[first])
    blocks.reverse()
    found = np.concatenate([np.arange(first, last + 1) for first, last in blocks])
    starts, ends = nodes.starts[found], nodes.ends[found]
    lag_from = np.concatenate((np.array([graph.begin]), ends[:-1]))
    tails = np.concatenate((np.array([-1]), found[:-1]))
    lag, part = _lags(nodes, tails, found)

    every = np.repeat(found, 2)
    every[::2] = -1
    return _nonempty(
        Path(
            np.column_stack((lag_from, starts)).ravel(),
            np.column_stack((starts, ends)).ravel(),
            _paired(lag, nodes.names[found]),
            _paired(part, nodes.parts[found]),
            every,
        )
    )


def _paired(lags: Codes, nodes: Codes) -> Codes:
    """Return the codes of lag and node by turns, in the type of the latter."""
    every = np.empty(2 * nodes.size, nodes.dtype)
    every[::2], every[1::2] = lags, nodes
    return every


def _lags(nodes: PathNodes, tails: I64, heads: I64) -> tuple[I64, I64]:
    """Return what lies between each tail and head on the path: the lag, and the class of its time."""
    of_tail, of_head = tails >= nodes.devices_from, heads >= nodes.devices_from
    same = (nodes.chain[tails] == nodes.chain[heads]) & (tails >= 0)
    lag = np.select(
        [tails < 0, same & of_head, same, of_head & ~of_tail],
        [int(Lag.BEFORE), int(Lag.STREAM), int(Lag.THREAD), int(Lag.LAUNCH)],
        int(Lag.WAIT),
    )
    return lag, np.where(lag == Lag.LAUNCH, int(PathPart.LAUNCH), int(PathPart.IDLE))


def _nonempty(path: Path) -> Path:
    keep = path.ends > path.starts
    return Path(path.starts[keep], path.ends[keep], path.names[keep], path.parts[keep], path.node[keep])


def upper_bound(graph: PathGraph, names: Collection[int], *, without: Collection[int] = ()) -> int:
    """Return the ns by which the window would end earlier if all nodes of these names took no time: at most so much.

    names: codes of names, as in `PathHost.names` and `PathDevice.names`. without: numbers of waits that would not
    happen (rows of `Waits`): the host would go on at once. Between 0 and the span; without `without`, at most the time
    that these names take on the path.
    """
    mask = np.isin(graph.nodes.names, np.array(sorted(names), np.int64))
    return int(upper_bounds(graph, [mask], without=without)[0])


def upper_bounds(
    graph: PathGraph,
    masks: Sequence[Numbers],
    *,
    without: Collection[int] = (),
    path: Path | None = None,
    pauses: bool = False,
    certain: bool = False,
    longest: int | None = None,
) -> I64:
    """Return `upper_bound` for each of several sets of nodes, shape (k,).

    masks: of shape (n,), true for nodes that take no time; or the ns by which each node would be shorter. path: what
    `walk` returned, where it is at hand. pauses: short ones between two nodes of a set that follow each other on a
    thread or a stream take no time either; then a gain may exceed the time on the path. certain: streams waited only
    where a row says so; then this is no upper bound, but differs from it where doubts matter. longest: of the pauses,
    ns; None: SHORT_PAUSE.
    """
    if graph.sink < 0 or not masks:
        return np.zeros(len(masks), np.int64)
    nodes, doubts = graph.nodes, graph.doubts
    if certain:
        doubts = doubts.only(doubts.sure | (doubts.lags < 0))
    if without:
        # The first node of a chain keeps its wait: there is nothing else that it could begin after.
        opens = np.append(True, nodes.chain[1:] != nodes.chain[:-1])[graph.join_head]
        stays = opens | ~np.isin(graph.join_wait, np.array(sorted(without), np.int64))
        graph = replace(graph, chain_slack=_slack_without(graph, ~stays))
        return gains(_contracted(graph, stays, doubts), masks, pauses=pauses, longest=longest)
    # An edge with more slack than any gain cannot hold anything up. A gain is seldom more than the time on the path.
    on_path = (path or walk(graph)).node
    on_path = on_path[on_path >= 0]
    length = nodes.ends[on_path] - nodes.starts[on_path]
    most = max(_taken(np.asarray(mask)[on_path], length) for mask in masks)
    found = gains(_contracted(graph, graph.join_slack <= most, doubts), masks, pauses=pauses, longest=longest)
    larger = int(found.max())
    if ((graph.join_slack > most) & (graph.join_slack <= larger)).any():
        found = gains(_contracted(graph, graph.join_slack <= larger, doubts), masks, pauses=pauses, longest=longest)
    return found


def _slack_without(graph: PathGraph, gone: Mask) -> I64:
    """Return the slack of chain edges without some waits: a thread's pause after the wait is its own, and stays."""
    slack, nodes = graph.chain_slack.copy(), graph.nodes
    waited = np.full(slack.size, np.iinfo(np.int64).min)
    np.maximum.at(waited, graph.join_head[gone], nodes.ends[graph.join_tail[gone]])
    heads = np.unique(graph.join_head[gone])
    heads = heads[slack[heads] > 0]
    slack[heads] = np.clip(waited[heads] - nodes.ends[heads - 1], 0, slack[heads])
    return slack


def _taken(mask: Numbers, lengths: I64) -> int:
    """Return the ns that nodes of these lengths lose."""
    return int(lengths[mask].sum()) if mask.dtype == np.bool_ else int(np.clip(mask, 0, lengths).sum())


def _contracted(graph: PathGraph, stays: Mask, doubts: Doubts) -> Contracted:
    nodes = graph.nodes
    return Contracted.of(
        nodes.chain,
        nodes.starts,
        nodes.ends,
        graph.chain_slack,
        graph.launch,
        graph.launch_slack,
        graph.join_head[stays],
        graph.join_tail[stays],
        graph.join_slack[stays],
        doubts,
        graph.last,
    )
