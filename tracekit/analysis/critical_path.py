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
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tracekit.analysis import _path_doubts
from tracekit.analysis._path_build import build_nodes
from tracekit.analysis._path_doubts import Doubts
from tracekit.analysis._path_gains import SHORT_PAUSE, Contracted, gains
from tracekit.analysis._path_nodes import Device, Host, Nodes, Part, Waits, in_order
from tracekit.columns.arrays import I64, Codes, Mask, Numbers

__all__ = [
    "SHORT_PAUSE",
    "Device",
    "Graph",
    "Host",
    "Lag",
    "Part",
    "Path",
    "Waits",
    "build",
    "build_nodes",
    "connected",
    "upper_bound",
    "upper_bounds",
    "walk",
]

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
class Graph:
    """Nodes with their edges; all arrays of nodes have the shape (n,), those of joins (m,).

    bind: the tail of the binding edge; -1 where nothing is known that the node waited for. chain_slack: of the edge
    from the node before on the same chain. launch: tail of the launch edge, -1 for none. join_head, join_tail,
    join_slack: the waits; join_wait: which of `Waits`, -1 for one between streams. doubts: what may have been waited
    for as well; the edges are those of what is known, but bind is the likeliest. end: of the path, ns; begin: of the
    window. last: the last nodes of the main thread and of each stream; the window ends when all of these have, and the
    path with the one that ends last: sink, -1 for a graph without nodes.
    """

    nodes: Nodes
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

    parts: `Part`. names: the code of the node's name, or a `Lag` where `node` is -1.
    """

    starts: I64
    ends: I64
    names: Codes
    parts: Codes
    node: I64


def build(
    host: Host,
    device: Device,
    waits: Waits | None = None,
    *,
    main: int = 0,
    begin: int | None = None,
    end: int | None = None,
) -> Graph:
    """Return the graph of a window.

    main: the thread on which the run ends, where it does not end on a device. begin, end: ns; host ranges are cut to
    them, device work begins in them or is launched there; None: from the first start on, to the last end.
    Raises: OverflowError for a span of nine years or more, ValueError and TypeError for columns that do not fit.
    """
    return connected(build_nodes(host, device, waits or Waits.none(), main=main, begin=begin, end=end), main=main)


def connected(nodes: Nodes, *, main: int) -> Graph:
    """Return the graph of these nodes, as `build` does; `nodes.launch` is then without edges back in time.

    For large graphs: the caller can let go of what `build_nodes` needed.
    Raises: OverflowError as `build`.
    """
    count = nodes.starts.size
    if not count:
        none = np.zeros(0, np.int64)
        return Graph(
            nodes, none, none, none, none, none, none, none, none, Doubts.none(), nodes.begin, nodes.begin, none, -1
        )
    finals = _last(nodes, main)
    sink = int(finals[np.argmax(nodes.ends[finals])])
    last = int(nodes.ends[sink])
    if int(nodes.ends.max()) - nodes.begin >= MOST_SPAN:
        raise OverflowError("the window is longer than nine years")

    here = np.arange(count)
    follows = np.zeros(count, np.bool_)
    follows[1:] = nodes.chain[1:] == nodes.chain[:-1]
    gap = np.zeros(count, np.int64)
    gap[1:] = nodes.starts[1:] - nodes.ends[:-1]
    bind = np.where(follows, here - 1, -1)
    ready = np.where(follows, nodes.starts - gap, nodes.begin)  # every node ends later than the window begins

    launch = nodes.launch
    launch[~in_order(nodes, launch, here)] = -1
    by_launch = (launch >= 0) & (nodes.ends[launch] > ready)
    bind[by_launch], ready[by_launch] = launch[by_launch], nodes.ends[launch[by_launch]]

    keep = in_order(nodes, nodes.join_tail, nodes.join_head)
    head, tail, which = nodes.join_head[keep], nodes.join_tail[keep], nodes.join_wait[keep]
    order = np.lexsort((tail, nodes.ends[tail], head))
    head, tail, which = head[order], tail[order], which[order]
    final = np.flatnonzero(np.append(head[1:] != head[:-1], True)) if head.size else head
    # On a host thread the work waited for goes before the call that waits, where both ended together.
    late = nodes.ends[tail[final]] + (head[final] < nodes.devices_from) > ready[head[final]]
    bind[head[final[late]]] = tail[final[late]]
    ready[head[final[late]]] = nodes.ends[tail[final[late]]]

    doubts = _path_doubts.find(nodes, ready)
    likely = bind.copy()
    likely[doubts.heads[doubts.likely]] = doubts.tails[doubts.first[:-1][doubts.likely]]
    return Graph(
        nodes,
        likely,
        np.where(follows & (bind != here - 1), gap, 0),
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


def _last(nodes: Nodes, main: int) -> I64:
    """Return the last nodes of the main thread and of each chain of a device; of every chain where there is neither."""
    final = np.flatnonzero(np.append(nodes.chain[1:] != nodes.chain[:-1], True))
    able = (nodes.chain[final] == main) | (final >= nodes.devices_from)
    return final[able] if able.any() else final


def walk(graph: Graph) -> Path:
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


def _lags(nodes: Nodes, tails: I64, heads: I64) -> tuple[I64, I64]:
    """Return what lies between each tail and head on the path: the lag, and the class of its time."""
    of_tail, of_head = tails >= nodes.devices_from, heads >= nodes.devices_from
    same = (nodes.chain[tails] == nodes.chain[heads]) & (tails >= 0)
    lag = np.select(
        [tails < 0, same & of_head, same, of_head & ~of_tail],
        [int(Lag.BEFORE), int(Lag.STREAM), int(Lag.THREAD), int(Lag.LAUNCH)],
        int(Lag.WAIT),
    )
    return lag, np.where(lag == Lag.LAUNCH, int(Part.LAUNCH), int(Part.IDLE))


def _nonempty(path: Path) -> Path:
    keep = path.ends > path.starts
    return Path(path.starts[keep], path.ends[keep], path.names[keep], path.parts[keep], path.node[keep])


def upper_bound(graph: Graph, names: Collection[int], *, without: Collection[int] = ()) -> int:
    """Return the ns by which the window would end earlier if all nodes of these names took no time: at most so much.

    names: codes of names, as in `Host.names` and `Device.names`. without: numbers of waits that would not happen
    (rows of `Waits`): the host would go on at once. Between 0 and the span; without `without`, at most the time that
    these names take on the path.
    """
    mask = np.isin(graph.nodes.names, np.array(sorted(names), np.int64))
    return int(upper_bounds(graph, [mask], without=without)[0])


def upper_bounds(
    graph: Graph,
    masks: Sequence[Numbers],
    *,
    without: Collection[int] = (),
    path: Path | None = None,
    pauses: bool = False,
    certain: bool = False,
) -> I64:
    """Return `upper_bound` for each of several sets of nodes, shape (k,). masks: of shape (n,), true for its nodes.

    path: what `walk` returned, where it is at hand. pauses: short ones between two nodes of a set that follow each
    other on a thread or a stream take no time either; then a gain may exceed the time on the path. certain: streams
    waited only where a row says so; then this is no upper bound, but differs from it where doubts matter.
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
        return gains(_contracted(graph, stays, doubts), masks, pauses=pauses)
    # An edge with more slack than any gain cannot hold anything up. A gain is seldom more than the time on the path.
    on_path = (path or walk(graph)).node
    on_path = on_path[on_path >= 0]
    length = nodes.ends[on_path] - nodes.starts[on_path]
    most = max(int(length[np.asarray(mask)[on_path]].sum()) for mask in masks)
    found = gains(_contracted(graph, graph.join_slack <= most, doubts), masks, pauses=pauses)
    larger = int(found.max())
    if ((graph.join_slack > most) & (graph.join_slack <= larger)).any():
        found = gains(_contracted(graph, graph.join_slack <= larger, doubts), masks, pauses=pauses)
    return found


def _contracted(graph: Graph, stays: Mask, doubts: Doubts) -> Contracted:
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
