"""Dependencies that no row names, as far as the schedule shows them (see critical_path).

**Streams.** Work that began long after all that it is known to depend on had ended was held up by something else. If
work of another stream ended shortly before it began, the stream waited for that one: for certain where a call told it
to wait (cudaStreamWaitEvent names neither stream nor event in most traces), else perhaps.

**Threads.** `_path_waits.between_threads` finds threads that seem to have waited for each other.

**An upper bound must not be too small.** Let K be the gain of what is known, C that of the candidates, and R the gain
if the head began as long after what is known as it did. A dependency that is overlooked makes the gain too small: R
takes the lag for one that stays. One that is made up makes it too small too: min(K, C) has a limit that is not there.
So the gain is max(R, min(K, C)), and min(K, C) where a call told the stream to wait.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.analysis._path_nodes import Nodes, in_order
from tracekit.columns.arrays import I64, Mask

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


def find(nodes: Nodes, ready: I64) -> Doubts:
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


def _of_threads(nodes: Nodes) -> Doubts:
    head, tail = nodes.woken_head, nodes.woken_tail
    forward = np.flatnonzero(in_order(nodes, tail, head))
    order = forward[np.lexsort((nodes.ends[tail[forward]], head[forward]))]
    last = order[np.append(head[order][1:] != head[order][:-1], True)] if order.size else order
    count = last.size
    lags, sure = np.full(count, -1, np.int64), np.zeros(count, np.bool_)
    return Doubts(head[last], np.arange(count + 1), tail[last], lags, sure, nodes.woken_long[last])


def _of_streams(nodes: Nodes, ready: I64) -> Doubts:
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
    found = head[begins]
    doubts = Doubts(found + low, np.append(begins, head.size), tail + low, lag[found], ordered[found], found >= 0)
    guessed = np.where(doubts.sure, 0, doubts.lags)
    if np.count_nonzero(guessed) <= _MOST_GUESSED:
        return doubts
    longest = np.zeros(guessed.size, np.bool_)
    longest[np.argpartition(guessed, -_MOST_GUESSED)[-_MOST_GUESSED:]] = True
    return doubts.only(doubts.sure | longest)
