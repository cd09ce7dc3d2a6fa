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

import operator
from collections.abc import Collection, Iterator, Sequence
from enum import IntEnum
from itertools import islice, pairwise

import numpy as np

from tracekit.analysis.path_graph import PathDevice, PathHost, PathNodes, PathPart, Waits, build_nodes, in_order
from tracekit.analysis.segments import distinct, gathered, place_type, run_starts
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I32, I64, Codes, Mask, Numbers, Rows, sort

__all__ = [
    "SHORT_PAUSE",
    "Lag",
    "Path",
    "PathDevice",
    "PathGraph",
    "PathHost",
    "PathPart",
    "UpperBounds",
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
    """Return the doubts of a graph. ready: when all that each node of a device is known to wait for had ended."""
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
    is_late = np.empty(ready.size, np.bool_)
    for first in range(0, ready.size, _BLOCK):
        block = slice(first, first + _BLOCK)
        is_late[block] = starts[block] - ready[block] >= np.where(ordered[block], LEAST_LAG_TOLD, LEAST_LAG)
    late = np.flatnonzero(is_late)
    if not late.size:
        return Doubts.none()
    by_end = np.argsort(ends, kind="stable")
    place = np.searchsorted(gathered(ends, by_end), starts[late], "right") - 1
    heads, tails = [], []
    for back in range(_MOST):
        at = place - back
        other = by_end[np.maximum(at, 0)]
        # What ended after all that is known is of another chain: the chain's own work is known.
        fits = (at >= 0) & (ends[other] > ready[late]) & (starts[late] - ends[other] <= SOON)
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
        starts[first_heads] - ready[first_heads],
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
# running sum of slacks and own times, gain - P is a running minimum of the gains that come in from other chains. So it
# is evaluated at stops alone: nodes into which a wait or a doubt comes, and a few between them. What a stop reads is
# the same for all sets. It is found once, and a loop over the stops adds and compares. Stops are in order of start:
# then none reads a later one.


_NEVER = 1 << 60
"""More than any gain: marks a missing edge."""
SHORT_PAUSE = 50_000
"""ns: a pause between two nodes of a chain that take no time is theirs if it is no longer."""
_CELLS = 1 << 22
"""Inputs of all stops times sets evaluated at once: bounds the memory."""
_MOST_RUNS = 24
"""Runs of launches that a stop reads on its own chain: behind so many there is another stop."""
_FEW_SETS = 2
"""So few sets are evaluated one by one."""
_STOPS_AT_ONCE = 1 << 12
"""Stops whose inputs are Python's numbers at once."""
_BLOCK = 1 << 16
"""Nodes, or inputs, that are looked at together: what is made of them on the way stays in the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Edges:
    """The edges of a graph on which gains depend, with chains numbered from 0.

    waited: nodes whose chain's edge has another slack than in the graph, ascending, and these slacks. chain: of each
    node. bounds: where each chain begins, and where the last ends. anchored: of each chain, whether its first node
    waits for nothing that is known. heads: nodes that waits or doubts lead to, ascending. tails, slacks: waits, those
    of head i are lows[i] .. highs[i]. doubt: that of head i, -1 for none; doubts: all of them. last: the nodes that
    must all end; last_slack: how long before the last of them each one ends.
    """

    graph: PathGraph
    waited: tuple[I64, I64]
    chain: Rows
    bounds: I64
    anchored: Mask
    heads: I64
    lows: I64
    highs: I64
    tails: I64
    slacks: I64
    doubt: I64
    doubts: Doubts
    last: I64
    last_slack: I64

    @classmethod
    def of(cls, graph: PathGraph, stays: Mask, doubts: Doubts, *, without: bool) -> _Edges:
        """Return the edges of a graph. stays: the joins that count. doubts: likewise. without: the others are gone."""
        nodes = graph.nodes
        opens = np.ones(nodes.chain.size, np.bool_)
        np.not_equal(nodes.chain[1:], nodes.chain[:-1], out=opens[1:])
        begins = np.flatnonzero(opens)
        chain = np.cumsum(opens, dtype=np.min_scalar_type(-begins.size - 1))
        chain -= chain.dtype.type(1)
        head, tail, slack = graph.join_head[stays], graph.join_tail[stays], graph.join_slack[stays]
        anchored = graph.launch[begins] < 0
        anchored[np.isin(begins, head)] = False
        order = np.argsort(head, kind="stable")
        head, tail, slack = head[order], tail[order], slack[order]
        heads = sets.union(head, doubts.heads)
        doubt = np.full(heads.size, -1, np.int64)
        doubt[np.searchsorted(heads, doubts.heads)] = np.arange(doubts.heads.size)
        return cls(
            graph,
            _slack_without(graph, ~stays) if without else (heads[:0], heads[:0]),
            chain,
            np.append(begins, opens.size),
            anchored,
            heads,
            np.searchsorted(head, heads, "left"),
            np.searchsorted(head, heads, "right"),
            tail,
            slack,
            doubt,
            doubts,
            graph.last,
            nodes.ends[graph.last].max() - nodes.ends[graph.last],
        )

    def sums(self, mask: Numbers, longest: int | None) -> I64:
        """Return P of all nodes for a set, behind that of none; shape (n + 1,).

        A node's own time is P less its chain's slack and P of the node before. mask: nodes that take no time, or the
        ns that each one loses. longest: ns, of the pauses between two of them that go with them; None: none goes.
        """
        starts, ends = self.graph.nodes.starts, self.graph.nodes.ends
        n, (waited, slacks) = ends.size, self.waited
        sums = np.zeros(n + 1, np.int64)
        for low in range(0, n, _BLOCK):  # what is made on the way stays in the cache
            high = min(low + _BLOCK, n)
            taken = sums[low + 1 : high + 1]
            np.subtract(ends[low:high], starts[low:high], out=taken)
            first = max(low, 1)
            pause = starts[first:high] - ends[first - 1 : high - 1]
            slack = np.zeros(high - low, np.int64)
            np.multiply(pause, self.graph.late[first:high], out=slack[first - low :])
            other = slice(*np.searchsorted(waited, (low, high)).tolist())
            slack[waited[other] - low] = slacks[other]
            if mask.dtype == np.bool_:
                taken *= mask[low:high].astype(np.bool_, copy=False)
                if longest is not None:
                    goes = np.logical_and(mask[first:high], mask[first - 1 : high - 1])
                    # The pause before a node goes if the node before on its chain is all that it waited for.
                    goes &= (pause <= longest) & (slack[first - low :] <= 0)
                    opens = slice(*np.searchsorted(self.bounds, (first, high)).tolist())
                    goes[self.bounds[opens] - first] = False
                    np.add(taken[first - low :], pause, out=taken[first - low :], where=goes)
            else:
                np.clip(mask[low:high], 0, taken, out=taken)
            taken += slack
            taken[0] += sums[low]
            np.cumsum(taken, out=taken)
        return sums

    def launch_slack(self, nodes: Rows, calls: Rows) -> I64:
        """Return the slack of the edges from their launches to these nodes, less that of their chains' edges."""
        graph = self.graph
        starts, ends = graph.nodes.starts[nodes], graph.nodes.ends
        slack = starts - ends[calls]
        slack *= graph.launch_late[nodes]
        # Waits that would not happen are those of calls, and no call has a launch: the chain's slack is the graph's.
        starts -= ends[nodes - 1]
        starts *= graph.late[nodes]
        slack -= starts
        return slack

    def chain_slack(self, nodes: Rows) -> I64:
        """Return the slack of the edge from the node before each of these on its chain."""
        slack = self.graph.chain_slack_of(nodes)
        waited, slacks = self.waited
        if waited.size:
            at = np.minimum(np.searchsorted(waited, nodes), waited.size - 1)
            other = np.flatnonzero(waited[at] == nodes)
            slack[other] = slacks[at[other]]
        return slack


_LAG_STAYS, _LAG_GOES, _CANDIDATE = 0, 1, 2
"""Groups of what a stop reads: what is known, with the lag of the binding edge and without it, and each candidate."""


@dataclass(frozen=True, slots=True, eq=False)
class _Reads:
    """The gains that stops read, shape (r,), in order of the stop and of its groups.

    stops: the number of the stop that reads. groups: as above; _CANDIDATE + 1 for the next candidate. nodes: what is
    read. slacks: added to it. of_chain: a node of the stop's own chain, whose gain - P is read. own: the node of the
    stop itself, which depends on the stop before it.
    """

    stops: I32
    groups: I32
    nodes: Rows
    slacks: I64
    of_chain: Mask
    own: Mask

    @classmethod
    def of(cls, edges: _Edges, stops: I64) -> _Reads:
        """Return what stops read. stops: their nodes, by number; the number behind them reads the last nodes."""
        doubts = edges.doubts
        number = np.full(edges.chain.size, -1, np.int32)
        number[stops] = np.arange(stops.size, dtype=np.int32)
        doubt_of = np.full(edges.chain.size, -1, np.int32)
        doubt_of[edges.heads] = edges.doubt
        lags, sure = np.append(doubts.lags, -1), np.append(doubts.sure, False)  # the last ones: a head without a doubt
        parts: list[tuple[Numbers, ...]] = []
        place = place_type(edges.chain.size)

        def add(
            stop: I64 | I32, group: I64 | int, node: Rows, slack: Rows, *, of_chain: bool = False, own: bool = False
        ) -> None:
            none = np.zeros(stop.size, np.int32)
            parts.append(
                (
                    stop.astype(np.int32, copy=False),
                    none + np.asarray(group, np.int32),
                    node.astype(place, copy=False),
                    slack.astype(np.int64, copy=False),
                    none == int(not of_chain),
                    none == int(not own),
                )
            )

        def add_known(head: I64, node: Rows, slack: Rows, *, of_chain: bool = False) -> None:
            doubt, slack = doubt_of[head], slack.astype(np.int64, copy=False)
            # The binding edge has no slack: its lag is what the wait may have filled.
            held: I64 = np.where(slack > 0, slack, lags[doubt])
            in_sum = slack * of_chain  # P has the slack of a chain already
            stays, waits = ~sure[doubt], lags[doubt] >= 0
            add(number[head[stays]], _LAG_STAYS, node[stays], (slack - in_sum)[stays], of_chain=of_chain)
            add(number[head[waits]], _LAG_GOES, node[waits], (held - in_sum)[waits], of_chain=of_chain)

        plain = stops[doubt_of[stops] < 0]
        add(number[plain], _LAG_STAYS, plain, np.zeros_like(plain), of_chain=True, own=True)
        doubtful, doubt = edges.heads[edges.doubt >= 0], edges.doubt[edges.doubt >= 0]
        follows = doubtful[doubtful > edges.bounds[edges.chain[doubtful]]]
        add_known(follows, follows - 1, edges.chain_slack(follows), of_chain=True)
        launched = doubtful[edges.graph.launch[doubtful] >= 0]
        add_known(launched, edges.graph.launch[launched], edges.graph.launch_slack_of(launched))
        add_known(np.repeat(edges.heads, edges.highs - edges.lows), edges.tails, edges.slacks)
        count = np.diff(doubts.first)[doubt]
        which = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        candidates = doubts.tails[np.repeat(doubts.first[doubt], count) + which]
        add(np.repeat(number[doubtful], count), _CANDIDATE + which, candidates, np.zeros_like(which))
        add(np.full_like(edges.last, stops.size), _LAG_STAYS, edges.last, edges.last_slack)
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.lexsort((columns[1], columns[0]))
        return cls(*(column[order] for column in columns))


@dataclass(frozen=True, slots=True, eq=False)
class _GainPlan:
    """The reads of each stop, made of earlier stops and of what each set adds to their gains.

    launched: nodes with a launch. runs: where runs begin among them. Nodes of a run are read together, and their calls
    follow the same stop. origins: the places among `launched` of calls that follow no stop, and the chain of each.

    A read depends on the stop before its node and on the runs between them. Runs that depend on one stop are one input,
    shape (i,). heads: the node of the stop that reads, for each of `reads`; -1 for the last. inputs_of: how many inputs
    each read has. sources: the stop of each input, 1 and more, 0 for none. addends: what each set adds to an input: 0
    for nothing, then the runs, then the begins of chains; the least of an input's counts, the first of which is at
    addend_firsts. firsts: where the inputs of each stop begin, and where the last end. groups: where groups begin among
    the inputs of their stop; group_firsts: where those of each stop begin.
    """

    edges: _Edges
    launched: Rows
    runs: Rows
    origins: tuple[Rows, Rows]
    reads: _Reads
    heads: Rows
    inputs_of: I64
    sources: I32
    addends: Rows
    addend_firsts: Rows
    firsts: I64
    groups: I64
    group_firsts: I64

    @classmethod
    def of(cls, edges: _Edges) -> _GainPlan:
        """Return the plan of a graph."""
        begins, chain, size = edges.bounds[:-1], edges.chain, edges.chain.size
        place = place_type(size)
        launched = np.flatnonzero(edges.graph.launch >= 0).astype(place)
        calls = edges.graph.launch[launched]
        call_chain = chain[calls]
        launching = np.zeros(begins.size, np.bool_)
        launching[chain[launched]] = True

        # On a chain that launches reach, a call is a stop. On others gain - P stays as it is from one head to the next.
        stops = distinct(np.concatenate((edges.heads, calls[launching[call_chain]])), size)
        behind = _LastStops.of(stops, edges.bounds)
        call_stop = behind.up_to(calls, call_chain)
        follow_none = np.flatnonzero(call_stop < 0).astype(place)
        origins = np.full(calls.size, -1, chain.dtype)
        origins[follow_none] = call_chain[follow_none]
        is_read = np.zeros(size, np.bool_)
        for nodes in (stops, np.maximum(edges.heads - 1, 0), edges.tails, edges.doubts.tails, edges.last):
            is_read[nodes] = True
        is_read[edges.bounds[1:] - 1] = True
        read_before: Rows = np.cumsum(is_read, dtype=place)[launched] - is_read[launched]
        starts = np.ones(calls.size, np.bool_)
        for each in (read_before, call_stop, origins):
            starts[1:] &= each[1:] == each[:-1]
        starts[1:] ^= True
        runs: Rows = np.flatnonzero(starts).astype(place)
        origin_chains = origins[follow_none]
        del read_before, is_read, starts, origins
        first, last = launched[runs], launched[np.append(runs[1:], calls.size)[: runs.size] - 1]
        of_run, chain_of_run = calls[runs], call_chain[runs]
        call_stop_of_run = call_stop[runs]
        del calls, call_chain, call_stop
        # Another stop behind each so many runs, that none reads more.
        chain_of_first = chain[first]
        since = run_starts(chain_of_first + begins.size * behind.up_to(first, chain_of_first).astype(np.int64))
        number = np.arange(runs.size) - np.repeat(since, np.diff(np.append(since, runs.size)))
        more = last[number % _MOST_RUNS == _MOST_RUNS - 1]
        del number, since, chain_of_first, last
        stops = distinct(np.concatenate((stops, more)), size)

        order = np.lexsort((stops, edges.graph.nodes.ends[stops], edges.graph.nodes.starts[stops]))
        rank = np.zeros(stops.size + 1, np.int32)
        rank[order] = np.arange(1, stops.size + 1)
        behind = _LastStops.of(stops, edges.bounds)
        if more.size:
            call_stop_of_run = behind.up_to(of_run, chain_of_run)
        source_of_run = rank[call_stop_of_run]
        del of_run, chain_of_run, call_stop_of_run
        reads = _Reads.of(edges, stops[order])
        chain_of_read = chain[reads.nodes]
        stop = behind.up_to(reads.nodes - reads.own, chain_of_read)
        stop_node = np.where(stop < 0, begins[chain_of_read], np.append(stops, 0)[stop] + 1)
        low = np.searchsorted(first, stop_node.astype(place))
        high = np.searchsorted(first, reads.nodes, "right")
        of_stop = np.where(stop < 0, 1 + runs.size + chain_of_read.astype(np.int64), 0)
        inputs_of, sources, addends, addend_firsts = _merged(rank[stop], of_stop, low, high, source_of_run)

        firsts_of_read = np.cumsum(inputs_of) - inputs_of
        of_stop = np.append(np.searchsorted(reads.stops, np.arange(stops.size + 1)), inputs_of.size)
        fresh = np.flatnonzero(np.append(True, np.diff(reads.groups) | np.diff(reads.stops)))
        stop_firsts = np.append(firsts_of_read, sources.size)[of_stop]
        return cls(
            edges,
            launched,
            runs,
            (follow_none, origin_chains),
            reads,
            np.append(stops[order], -1)[reads.stops].astype(place),
            inputs_of,
            sources,
            addends,
            addend_firsts,
            stop_firsts,
            firsts_of_read[fresh] - stop_firsts[reads.stops[fresh]],
            np.searchsorted(fresh, of_stop),
        )

    def gains(self, masks: Sequence[Numbers], longest: int | None) -> I64:
        """Return how much earlier the last node ends for each set. longest: of the pauses that go with it, ns."""
        if len(masks) <= _FEW_SETS:
            return np.array([self._gain(self._added(mask, longest)) for mask in masks], np.int64)
        added = np.empty((self.sources.size, len(masks)), np.int64)
        for place, mask in enumerate(masks):
            added[:, place] = self._added(mask, longest)
        return self._gains(added)

    def _gains(self, added: I64) -> I64:
        """Return the gain of the last node for many sets. added: shape (i, k)."""
        rel = np.zeros((self.firsts.size, added.shape[1]), np.int64)  # gain - P of the stops, from 1 on
        groups_of_stop = zip(
            pairwise(self.firsts.tolist()), pairwise(self.group_firsts.tolist()), *self._lag_groups(), strict=True
        )
        for stop, ((low, high), (first, last), stays, goes) in enumerate(groups_of_stop, 1):
            came = rel.take(self.sources[low:high], axis=0)
            came += added[low:high]
            if last - first == 1:
                np.minimum.reduce(came, axis=0, out=rel[stop])
                continue
            least = np.minimum.reduceat(came, self.groups[first:last], axis=0)
            gain = least[-1] if last - first == stays + goes + 1 else least[stays + goes :].max(axis=0)
            # max(R, min(K, C)), see Dependencies that no row names
            if goes:
                np.minimum(gain, least[stays], out=gain)
            if stays:
                np.maximum(gain, least[0], out=gain)
            rel[stop] = gain
        gain_of_set: I64 = rel[-1]
        return gain_of_set

    def _gain(self, added: I64) -> int:
        """Return the gain of the last node for one set. added: shape (i,).

        As `_gains`, in Python's numbers: a stop has few inputs, and to call numpy takes longer than to add them up.
        """
        rel = [0]
        of_stop = rel.__getitem__
        stays_of, goes_of = self._lag_groups()
        for begin in range(0, len(stays_of), _STOPS_AT_ONCE):
            block = slice(begin, begin + _STOPS_AT_ONCE)
            firsts = self.firsts[begin : begin + _STOPS_AT_ONCE + 1].tolist()
            group_firsts = self.group_firsts[begin : begin + _STOPS_AT_ONCE + 1].tolist()
            groups = iter(self.groups[group_firsts[0] : group_firsts[-1]].tolist())
            inputs = slice(firsts[0], firsts[-1])
            gains = map(of_stop, self.sources[inputs].tolist())  # each is looked up when its stop is reached
            came = map(operator.add, gains, added[inputs].tolist())
            counts = np.diff(self.group_firsts[begin : begin + _STOPS_AT_ONCE + 1]).tolist()
            sizes = np.diff(self.firsts[begin : begin + _STOPS_AT_ONCE + 1]).tolist()
            for size, count, stays, goes in zip(sizes, counts, stays_of[block], goes_of[block], strict=True):
                if count == 1:
                    next(groups)
                    rel.append(min(islice(came, size)))
                    continue
                places = [*islice(groups, count), size]
                least = [min(islice(came, high - low)) for low, high in pairwise(places)]
                gain = max(least[stays + goes :])
                # max(R, min(K, C)), see Dependencies that no row names
                if goes:
                    gain = min(gain, least[stays])
                if stays:
                    gain = max(gain, least[0])
                rel.append(gain)
        return rel[-1]

    def _lag_groups(self) -> tuple[list[int], list[int]]:
        """Return how many groups _LAG_STAYS and _LAG_GOES each stop has: 0 or 1."""
        both = np.zeros((2, self.firsts.size - 1), np.int64)
        for group, of_stop in zip((_LAG_STAYS, _LAG_GOES), both, strict=True):
            of_stop[self.reads.stops[self.reads.groups == group]] = 1
        return both[0].tolist(), both[1].tolist()

    def _added(self, mask: Numbers, longest: int | None) -> I64:
        """Return what a set adds to each input, shape (i,)."""
        edges, reads = self.edges, self.reads
        begins = edges.bounds[:-1]
        sums = edges.sums(mask, longest)
        begin = np.where(edges.anchored, -sums[begins] - edges.chain_slack(begins), _NEVER)
        runs = self.runs.size
        of_addend = np.zeros(1 + runs + begin.size, np.int64)
        of_addend[1 + runs :] = begin
        self._by_launch(sums, begin, of_addend[1 : 1 + runs])
        taken = sums[1:]
        own = -sums[self.heads] - edges.chain_slack(np.maximum(self.heads, 0))  # not used where there is none
        of_read = np.where(reads.of_chain, 0, taken[reads.nodes] + np.where(self.heads < 0, 0, own)) + reads.slacks
        del sums, taken, own
        added = np.repeat(of_read, self.inputs_of)
        for low in range(0, added.size, _BLOCK):
            firsts = self.addend_firsts[low : low + _BLOCK]
            end = self.addends.size if low + _BLOCK >= added.size else int(self.addend_firsts[low + _BLOCK])
            addends = of_addend[self.addends[int(firsts[0]) : end]]
            added[low : low + _BLOCK] += np.minimum.reduceat(addends, firsts - firsts[0])
        return added

    def _by_launch(self, sums: I64, begin: I64, out: I64) -> None:
        """Write the least that the launches of each run add. begin: what the begin of each chain adds."""
        edges = self.edges
        places, chains = self.origins
        for low in range(0, self.runs.size, _BLOCK):
            runs = self.runs[low : low + _BLOCK]
            first = int(runs[0])
            last = self.launched.size if low + _BLOCK >= self.runs.size else int(self.runs[low + _BLOCK])
            launched = self.launched[first:last]
            calls = edges.graph.launch[launched]
            by_launch = sums[1:][calls] - sums[launched]
            by_launch += edges.launch_slack(launched, calls)
            follow = slice(*np.searchsorted(places, (first, last)).tolist())
            by_launch[places[follow] - first] += begin[chains[follow]]
            np.minimum.reduceat(by_launch, runs - first, out=out[low : low + runs.size])


@dataclass(frozen=True, slots=True, eq=False)
class _LastStops:
    """The last stop up to each node. number: shape (n + 1,), of the last stop on any chain, the last for no node."""

    number: I32
    firsts: I32

    @classmethod
    def of(cls, stops: I64, bounds: I64) -> _LastStops:
        """Return those of these stops, ascending. bounds: where chains begin, and where the last ends."""
        number = np.zeros(int(bounds[-1]) + 1, np.int32)
        number[stops] = 1
        np.cumsum(number, out=number)
        number -= 1
        number[-1] = -1
        return cls(number, np.searchsorted(stops, bounds[:-1]).astype(np.int32))

    def up_to(self, nodes: Rows, chain: Rows) -> I32:
        """Return the place of the last stop of its chain up to each node, -1 for none. chain: of the nodes."""
        place = self.number[nodes]
        place[place < self.firsts[chain]] = -1
        return place


def _merged(source: I32, addend: I64, low: I64, high: I64, source_of_run: I32) -> tuple[I64, I32, Rows, Rows]:
    """Return the inputs of each read: their number, their sources, their addends, and where those of each begin.

    source, addend: what each read has beside its runs. low, high: its runs.
    """
    count = 1 + high - low
    firsts = np.cumsum(count) - count
    size = int(count.sum())
    place = place_type(max(size, int(addend.max(initial=0)) + 1, source_of_run.size + 1))
    sources, addends = np.empty(size, np.int32), np.empty(size, place)
    opens = np.ones(size, np.bool_)
    inputs_of = np.zeros(count.size, np.int64)
    for begin, end in _blocks(firsts):
        of_read = firsts[begin:end] - firsts[begin]
        reads = np.repeat(np.arange(end - begin), count[begin:end])
        run = np.arange(-1, reads.size - 1)
        run += (low[begin:end] - of_read)[reads]
        run[of_read] = 0
        source_of = source_of_run[run] if source_of_run.size else np.zeros(run.size, np.int32)
        source_of[of_read] = source[begin:end]
        run += 1
        run[of_read] = addend[begin:end]
        order = _order(reads, source_of)
        source_of, of_block = source_of[order], slice(int(firsts[begin]), int(firsts[begin]) + run.size)
        sources[of_block], addends[of_block] = source_of, run[order]
        other = opens[of_block]
        other[1:] = (source_of[1:] != source_of[:-1]) | (reads[1:] != reads[:-1])
        inputs_of[begin:end] = np.add.reduceat(other, of_read, dtype=np.int64)
    addend_firsts = np.flatnonzero(opens).astype(place)
    return inputs_of, sources[addend_firsts], addends, addend_firsts


def _order(reads: I64, sources: I32) -> I64:
    """Return the order of a block's rows by read and source: numpy sorts plain numbers faster than places."""
    bits = (reads.size.bit_length(), int(sources.max()).bit_length(), int(reads[-1]).bit_length())
    if sum(bits) > 63:
        return np.lexsort((sources, reads))
    packed = reads << (bits[0] + bits[1])
    packed |= sources.astype(np.int64) << bits[0]
    packed |= np.arange(reads.size)
    sort(packed)
    packed &= (1 << bits[0]) - 1
    return packed


def _blocks(firsts: I64) -> Iterator[tuple[int, int]]:
    """Yield ranges of reads with about a block of inputs each. firsts: the first input of each read."""
    begin = 0
    while begin < firsts.size:
        end = max(begin + 1, int(np.searchsorted(firsts, firsts[begin] + _BLOCK)))
        yield begin, end
        begin = end


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

    bind: the tail of the binding edge; -1 where nothing is known that the node waited for. late: nodes that waited for
    more than the node before on the same chain, so that the edge from it has slack. launch_late: likewise, for more
    than their launch. launch: tail of the launch edge, -1 for none. join_head, join_tail,
    join_slack: the waits; join_wait: which of `Waits`, -1 for one between streams. doubts: what may have been waited
    for as well; the edges are those of what is known, but bind is the likeliest. end: of the path, ns; begin: of the
    window. last: the last nodes of the main thread and of each stream; the window ends when all of these have, and the
    path with the one that ends last: sink, -1 for a graph without nodes.
    """

    nodes: PathNodes
    bind: Rows
    late: Mask
    launch: Rows
    launch_late: Mask
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

    @property
    def chain_slack(self) -> I64:
        """Return the slack of the edge from the node before on the same chain, 0 where there is none."""
        return self.chain_slack_of(np.arange(self.late.size))

    @property
    def launch_slack(self) -> I64:
        """Return the slack of the edge from each node's launch, 0 where there is none."""
        return self.launch_slack_of(np.arange(self.late.size))

    def chain_slack_of(self, at: Rows) -> I64:
        """Return `chain_slack` of these nodes: for all at once it would be a column of its own."""
        slack = np.zeros(at.size, np.int64)
        late = np.flatnonzero(self.late[at])
        nodes = at[late]
        slack[late] = self.nodes.starts[nodes] - self.nodes.ends[nodes - 1]
        return slack

    def launch_slack_of(self, at: Rows) -> I64:
        """Return `launch_slack` of these nodes."""
        slack = np.zeros(at.size, np.int64)
        late = np.flatnonzero(self.launch_late[at])
        nodes = at[late]
        slack[late] = self.nodes.starts[nodes] - self.nodes.ends[self.launch[nodes]]
        return slack


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
        no = np.zeros(0, np.bool_)
        return PathGraph(
            nodes, none, no, none, no, none, none, none, none, Doubts.none(), nodes.begin, nodes.begin, none, -1
        )
    finals = _last(nodes, main)
    sink = int(finals[np.argmax(nodes.ends[finals])])
    last = int(nodes.ends[sink])
    if int(nodes.ends.max()) - nodes.begin >= MOST_SPAN:
        raise OverflowError("the window is longer than nine years")

    # A node begins when the one before it in its lane has ended, unless a launch or a wait ends later: the last of them
    # binds it. Clocks that disagree make edges back in time. A path cannot follow these, so they are no edges.
    low = nodes.devices_from
    bind, launch = np.empty(count, place_type(count)), nodes.launch
    ready = np.empty(count - low, np.int64)
    for first in range(0, count, _BLOCK):
        block = slice(first, first + _BLOCK)
        places = np.arange(first, min(first + _BLOCK, count))
        launch[block][~in_order(nodes, launch[block], places)] = -1
        bind[block], ends = _binding(nodes, places, launch[block])
        ready[max(first - low, 0) : max(first + places.size - low, 0)] = ends[max(low - first, 0) :]

    keep = in_order(nodes, nodes.join_tail, nodes.join_head)
    head, tail, which = nodes.join_head[keep], nodes.join_tail[keep], nodes.join_wait[keep]
    # Where a node has several waits, the one that ended last counts: it becomes the last of its run.
    order = np.lexsort((tail, nodes.ends[tail], head))
    head, tail, which = head[order], tail[order], which[order]
    final = np.flatnonzero(np.append(head[1:] != head[:-1], True)) if head.size else head
    at, ended = head[final], nodes.ends[tail[final]]
    # On a host thread the work waited for goes before the call that waits, where both ended together.
    waits = ended + (at < low) > _binding(nodes, at, launch[at])[1]
    bind[at[waits]] = tail[final[waits]]
    on_device = waits & (at >= low)
    ready[at[on_device] - low] = ended[on_device]

    doubts = find(nodes, ready)
    del ready
    late = np.zeros(count, np.bool_)
    late[1:] = nodes.chain[1:] == nodes.chain[:-1]
    for first in range(0, count, _BLOCK):
        late[first : first + _BLOCK] &= bind[first : first + _BLOCK] != np.arange(
            first - 1, min(first + _BLOCK, count) - 1
        )
    launch_late = (launch >= 0) & (bind != launch)
    join_slack = np.where(bind[head] == tail, 0, nodes.starts[head] - nodes.ends[tail])
    bind[doubts.heads[doubts.likely]] = doubts.tails[doubts.first[:-1][doubts.likely]]
    return PathGraph(
        nodes,
        bind,
        late,
        launch,
        launch_late,
        head,
        tail,
        join_slack,
        which,
        doubts,
        nodes.begin,
        last,
        finals,
        sink,
    )


def _before(nodes: PathNodes, places: I64) -> tuple[Mask, I64]:
    """Return whether each of these nodes follows another of its chain, and when that had ended."""
    before = np.maximum(places - 1, 0)
    follows: Mask = (nodes.chain[places] == nodes.chain[before]) & (places > 0)
    # Every node ends later than the window begins.
    return follows, np.where(follows, nodes.ends[before], nodes.begin)


def _binding(nodes: PathNodes, places: I64, launch: Rows) -> tuple[I64, I64]:
    """Return what of chain and launch each of these nodes waited for last, -1 for neither, and when that had ended."""
    follows, ready = _before(nodes, places)
    bind = np.where(follows, places - 1, -1)
    launched = np.flatnonzero(launch >= 0)
    ended = nodes.ends[launch[launched]]
    later = ended > ready[launched]
    bind[launched[later]], ready[launched[later]] = launch[launched[later]], ended[later]
    return bind, ready


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
    jump = np.empty(count, graph.bind.dtype)
    for low in range(0, count, _BLOCK):
        here = np.arange(low, min(low + _BLOCK, count))
        jump[here[0] : here[-1] + 1] = np.where(graph.bind[low : low + _BLOCK] == here - 1, 0, here)
    np.maximum.accumulate(jump, out=jump)
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


def upper_bound(graph: PathGraph, names: Collection[int], *, without: Collection[int] | I64 = ()) -> int:
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
    without: Collection[int] | I64 = (),
    pauses: bool = False,
    certain: bool = False,
    longest: int | None = None,
) -> I64:
    """Return `upper_bound` for each of several sets of nodes, shape (k,); arguments as in `UpperBounds.of`."""
    return UpperBounds(graph).of(masks, without=without, pauses=pauses, certain=certain, longest=longest)


class UpperBounds:
    """The upper bounds of one graph.

    What no set changes takes as long to find as the bounds of one set, and most calls need the same: it is kept for the
    next call. path: what `walk` returned, where it is at hand.
    """

    def __init__(self, graph: PathGraph, path: Path | None = None) -> None:
        self._graph = graph
        self._path = path
        self._plan: tuple[I64, bool, Mask, _GainPlan] | None = None

    def of(
        self,
        masks: Sequence[Numbers],
        *,
        without: Collection[int] | I64 = (),
        pauses: bool = False,
        certain: bool = False,
        longest: int | None = None,
    ) -> I64:
        """Return `upper_bound` for each of several sets of nodes, shape (k,).

        masks: of shape (n,), true for nodes that take no time; or the ns by which each node would be shorter. pauses:
        short ones between two nodes of a set that follow each other on a thread or a stream take no time either; then
        a gain may exceed the time on the path. certain: streams waited only where a row says so; then this is no upper
        bound, but differs from it where doubts matter. longest: of the pauses, ns; None: SHORT_PAUSE.
        """
        graph = self._graph
        if graph.sink < 0 or not masks:
            return np.zeros(len(masks), np.int64)
        masks = [np.asarray(mask) for mask in masks]
        most_pause = (SHORT_PAUSE if longest is None else longest) if pauses else None
        gone = sets.unique(np.array(without if isinstance(without, np.ndarray) else sorted(without), np.int64))
        if gone.size:
            # The first node of a chain keeps its wait: there is nothing else that it could begin after.
            opens = np.append(True, graph.nodes.chain[1:] != graph.nodes.chain[:-1])[graph.join_head]
            return self._gains(masks, opens | ~np.isin(graph.join_wait, gone), most_pause, gone, certain)
        # An edge with more slack than any gain cannot hold anything up. A gain is seldom more than the time on the
        # path.
        self._path = self._path or walk(graph)
        on_path = self._path.node[self._path.node >= 0]
        length = graph.nodes.ends[on_path] - graph.nodes.starts[on_path]
        most = max(_taken(mask[on_path], length) for mask in masks)
        found = self._gains(masks, graph.join_slack <= most, most_pause, gone, certain)
        larger = int(found.max())
        if ((graph.join_slack > most) & (graph.join_slack <= larger)).any():
            found = self._gains(masks, graph.join_slack <= larger, most_pause, gone, certain)
        return found

    def forget(self) -> None:
        """Forget what is kept for the next call."""
        self._plan = None

    def _gains(self, masks: Sequence[Numbers], stays: Mask, longest: int | None, without: I64, certain: bool) -> I64:
        """Return how much earlier the last node ends for each set. longest: of the pauses that go, None: none go."""
        plan = self._plan_of(stays, without, certain)
        at_once = max(1, _CELLS // plan.sources.size)
        return np.concatenate([plan.gains(masks[i : i + at_once], longest) for i in range(0, len(masks), at_once)])

    def _plan_of(self, stays: Mask, without: I64, certain: bool) -> _GainPlan:
        if self._plan is not None:
            gone, only_certain, joins, kept = self._plan
            if only_certain == certain and np.array_equal(gone, without) and np.array_equal(joins, stays):
                return kept
        self._plan = None  # two at once would be the largest of a report
        graph, doubts = self._graph, self._graph.doubts
        if certain:
            doubts = doubts.only(doubts.sure | (doubts.lags < 0))
        plan = _GainPlan.of(_Edges.of(graph, stays, doubts, without=bool(without.size)))
        self._plan = without, certain, stays, plan
        return plan


def _slack_without(graph: PathGraph, gone: Mask) -> tuple[I64, I64]:
    """Return nodes whose chain's edge has less slack without some waits, and that slack.

    A thread's pause after the wait is its own, and stays.
    """
    nodes = graph.nodes
    heads, place = np.unique(graph.join_head[gone], return_inverse=True)
    waited = np.full(heads.size, np.iinfo(np.int64).min)
    np.maximum.at(waited, place, nodes.ends[graph.join_tail[gone]])
    slack = graph.chain_slack_of(heads)
    held = slack > 0
    heads, waited, slack = heads[held], waited[held], slack[held]
    return heads, np.clip(waited - nodes.ends[heads - 1], 0, slack)


def _taken(mask: Numbers, lengths: I64) -> int:
    """Return the ns that nodes of these lengths lose."""
    return int(lengths[mask].sum()) if mask.dtype == np.bool_ else int(np.clip(mask, 0, lengths).sum())
