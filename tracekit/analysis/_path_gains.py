"""Upper bounds for `critical_path.upper_bounds`: a graph ends this much earlier when some of its nodes take no time.

gain(v) = own time, if v takes none, + the least over its edges of (gain(tail) + slack). Along a chain, with P the
running sum of slacks and own times, gain - P is a running minimum of the gains that come in from other chains, so a
stretch of a chain takes one call of numpy. Waits are evaluated in order of their heads: then no wait needs a later one.
On host threads only the nodes that other chains depend on are kept. Doubts (`_path_doubts`) are taken in the same
order; there the running minimum of a chain breaks off and begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracekit.analysis._path_doubts import Doubts
from tracekit.columns.arrays import I64, Mask, Numbers, Rows

_NEVER = 1 << 60
"""More than any gain: marks a missing edge."""
SHORT_PAUSE = 50_000
"""ns: a pause between two nodes of a chain that take no time is theirs if it is no longer."""
_CELLS = 1 << 19
"""Kept nodes times sets evaluated at once: bounds the memory."""
_MANY_DOUBTS = 1000
"""With so many doubts, twice as many sets are evaluated at once."""


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


def gains(graph: Contracted, masks: Sequence[Numbers], *, pauses: bool) -> I64:
    """Return how much earlier the last node ends for each set of nodes that take no time, shape (k,), k at least 1.

    pauses: short ones between two nodes of a set that follow each other on a chain take no time either.
    """
    # Doubts are evaluated one by one, which takes as long for many sets as for one.
    cells = _CELLS if graph.sure.size < _MANY_DOUBTS else 2 * _CELLS
    at_once = max(1, cells // max(graph.kept.size, 1))
    between = _short_pauses(graph) if pauses else None
    parts = [_Evaluation(graph, masks[i : i + at_once], between).result() for i in range(0, len(masks), at_once)]
    return np.concatenate(parts)


def _short_pauses(graph: Contracted) -> I64:
    """Return the pause before each node, if the node before on its chain is all that it waited for; shape (n,)."""
    pause = np.zeros(graph.starts.size, np.int64)
    pause[1:] = graph.starts[1:] - graph.ends[:-1]
    pause[graph.kept[graph.bounds[:-1]]] = 0
    pause[(pause > SHORT_PAUSE) | (graph.chain_slack > 0)] = 0
    return pause


class _Evaluation:
    """One evaluation: `rel` is gain - P of the kept nodes, shape (n, k); `done` how far each chain is evaluated.

    Own times are made of `free` (and `paused`) when they are asked for: as numbers they would take as much as `rel`.
    """

    def __init__(self, graph: Contracted, masks: Sequence[Numbers], pauses: I64 | None) -> None:
        self.graph = graph
        self.free = np.empty((graph.kept.size, len(masks)), np.bool_)
        self.paused = np.empty_like(self.free) if pauses is not None else None
        self.sums = np.empty(self.free.shape, np.int64)
        self.lengths = (graph.ends[graph.kept] - graph.starts[graph.kept])[:, None]
        self.pauses = None if pauses is None else pauses[graph.kept][:, None]
        own = np.empty_like(graph.ends)
        for k, mask in enumerate(masks):  # fresh memory for each set would cost more than the sums
            free = np.asarray(mask, np.bool_)
            np.subtract(graph.ends, graph.starts, out=own)
            own *= free
            if pauses is not None:
                own[1:] += pauses[1:] * (free[1:] & free[:-1])
            if self.paused is not None:
                # No kept node that is the first of all has a pause before it.
                self.paused[:, k] = free[graph.kept] & free[graph.kept - 1]
            self.free[:, k] = free[graph.kept]
            own += graph.chain_slack
            np.cumsum(own, out=own)
            self.sums[:, k] = own[graph.kept]
        self.rel = np.empty_like(self.sums)
        self.done = graph.bounds[:-1].tolist()
        self.begins = graph.bounds[:-1].tolist()
        self.has_launches = np.logical_or.reduceat(graph.launch >= 0, graph.bounds[:-1]).tolist()

    def own(self, at: int | slice | Rows) -> I64:
        """Return the ns that the kept nodes at these places lose themselves in each set."""
        own: I64 = self.lengths[at] * self.free[at]
        if self.pauses is not None and self.paused is not None:
            own += self.pauses[at] * self.paused[at]
        return own

    def result(self) -> I64:
        graph = self.graph
        chains, head_chains = graph.chain, graph.chain[graph.heads].tolist()
        tail_chains, tails = graph.chain[graph.tails].tolist(), graph.tails.tolist()
        lows, highs, doubts = graph.lows.tolist(), graph.highs.tolist(), graph.doubt.tolist()
        for i, head in enumerate(graph.heads.tolist()):
            low, high = lows[i], highs[i]
            for j in range(low, high):
                self._advance(tail_chains[j], tails[j])
            if doubts[i] >= 0:
                self._doubt(head_chains[i], head, low, high, doubts[i])
                continue
            at = graph.tails[low:high]
            came = (self.rel[at] + self.sums[at] + graph.slacks[low:high, None]).min(axis=0)
            self._advance(head_chains[i], head, came)
        for chain, node in zip(chains[graph.last].tolist(), graph.last.tolist(), strict=True):
            self._advance(chain, node)
        gain: I64 = (self.rel[graph.last] + self.sums[graph.last] + graph.last_slack[:, None]).min(axis=0)
        return gain

    def _doubt(self, chain: int, head: int, low: int, high: int, doubt: int) -> None:
        """Evaluate a chain up to a node that perhaps waited for one of several others. low, high: its waits."""
        graph, own, sums = self.graph, self.own(head), self.sums[head]
        came = list[tuple[I64, int]]()
        if head > self.begins[chain]:
            self._advance(chain, head - 1)
            slack = int(graph.chain_slack[graph.kept[head]])
            # The sums hold the slack already.
            came.append((self.rel[head - 1] + sums - own - slack, slack))
        launch = int(graph.launch[head])
        if launch >= 0:
            self._advance(int(graph.chain[launch]), launch)
            came.append((self.rel[launch] + self.sums[launch], int(graph.launch_slack[head])))
        for tail, slack in zip(graph.tails[low:high].tolist(), graph.slacks[low:high].tolist(), strict=True):
            came.append((self.rel[tail] + self.sums[tail], slack))
        best: I64 | None = None
        for tail in graph.candidates[graph.doubt_first[doubt] : graph.doubt_first[doubt + 1]].tolist():
            self._advance(int(graph.chain[tail]), tail)
            gain = self.rel[tail] + self.sums[tail]
            best = gain if best is None else np.maximum(best, gain)
        least = np.zeros_like(own) if best is None else best
        lag = int(graph.lags[doubt])
        if lag >= 0:
            # The binding edge has no slack: its lag is what the wait may have filled.
            for each, slack in came:
                np.minimum(least, each + (slack or lag), out=least)
        if not graph.sure[doubt] and came:
            stays = came[0][0] + came[0][1]
            for each, slack in came[1:]:
                np.minimum(stays, each + slack, out=stays)
            least = np.maximum(least, stays)
        self.rel[head] = least + own - sums
        self.done[chain] = head + 1

    def _advance(self, chain: int, to: int, came: I64 | None = None) -> None:
        """Evaluate a chain up to a node, it included; `came`: the least gain that waits bring to that last node."""
        graph = self.graph
        at = self.done[chain]
        if to < at:
            return
        if to == at:
            self._advance_one(chain, at, came)
            return
        if self.has_launches[chain]:
            found = self._launched(at, to + 1)
        else:
            found = np.full((to + 1 - at, self.free.shape[1]), _NEVER, np.int64)
        if at > self.begins[chain]:
            np.minimum(found[0], self.rel[at - 1], out=found[0])
        elif graph.anchored[at]:
            np.minimum(found[0], self.own(at) - self.sums[at], out=found[0])
        if came is not None:
            np.minimum(found[-1], came + self.own(to) - self.sums[to], out=found[-1])
        np.minimum.accumulate(found, axis=0, out=self.rel[at : to + 1])
        self.done[chain] = to + 1

    def _advance_one(self, chain: int, node: int, came: I64 | None) -> None:
        """Evaluate the next node of a chain, as `_advance` does; most steps between doubts are of one node."""
        graph = self.graph
        launch = int(graph.launch[node])
        if launch >= 0:
            self._advance(int(graph.chain[launch]), launch)
            called = self.rel[launch] + self.sums[launch] + graph.launch_slack[node]
            came = called if came is None else np.minimum(came, called)
        own = self.own(node) - self.sums[node]
        found = np.full(own.size, _NEVER, np.int64) if came is None else came + own
        if node > self.begins[chain]:
            np.minimum(found, self.rel[node - 1], out=found)
        elif graph.anchored[node]:
            np.minimum(found, own, out=found)
        self.rel[node] = found
        self.done[chain] = node + 1

    def _launched(self, low: int, high: int) -> I64:
        """Return what comes in by launches for nodes low .. high - 1, with P taken off."""
        graph = self.graph
        tail = graph.launch[low:high]
        has = np.flatnonzero(tail >= 0)
        found = np.full((high - low, self.free.shape[1]), _NEVER, np.int64)
        if not has.size:
            return found
        tail = tail[has]
        of = graph.chain[tail]
        latest = int(tail.max())
        if int(of.min()) == int(of.max()):
            self._advance(int(of[0]), latest)
        else:
            for chain in np.unique(of).tolist():
                self._advance(chain, int(tail[of == chain].max()))
        rows = has + low
        came = self.rel[tail] + self.sums[tail] + graph.launch_slack[rows, None]
        found[has] = came + self.own(rows) - self.sums[rows]
        return found
