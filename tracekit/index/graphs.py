"""Device work of CUDA and HIP graphs, and the call that captured each part of it.

A graph is launched by one call, so its kernels have the launch in common and nothing says which operator they are of.
The operator is around the call that was captured: a launch or copy between the begin and the end of a capture on its
thread, which launched nothing itself. What shows that call, the first that fits:

1. A node states its number (`graph node id`), and a call states the same one.
2. The creation of the node is an event (CUDA_GRAPH_NODE_EVENTS of Nsight Systems). An executable graph has copies of
   the nodes, with numbers of their own and that of the node that they are copies of.
3. Nodes state numbers, which ascend as nodes are made: a capture of the same process before the launch has as many
   nodes, each of the same kind (kernel, copy, memset), and where it names its kernels (HIP does) the names are equal.
4. The work of the graph in order of time: the capture names its kernels, and each name is equal. It may be in another
   input, a trace of the capture of the same run.
5. Neither numbers nor names: the graph is a chain, since its capture was on one stream and its work is one by one on
   one stream, so that both have one order. The capture is of the same process and before the launch, nodes are of the
   same kinds, and the names of most kernels agree with the operators (`analysis.kernel_operators`).

Of captures that fit equally well the operators count where all of them have the same, and their shapes where these are
the same too. Work with the names and the order of work whose operators are known has the same operators, in another
input too. Anything else is refused, with the reason.

A program may also name parts of a graph itself, as PyTorch's `mark_kernels` does: the name is in the args of the
kernels once the annotations were merged into the trace. It is no operator.
"""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np

from tracekit.analysis.kernel_operators import agrees_in_order
from tracekit.analysis.nesting import innermost
from tracekit.analysis.segments import rows_by
from tracekit.index import host_tree as _host
from tracekit.index.host_tree import HostTree
from tracekit.index.launches import named
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import args as members
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.schema import API_CALLS, DEVICE_WORK, Kind

__all__ = [
    "ARGS_OF",
    "BY_CAPTURE",
    "BY_CREATION",
    "BY_EQUAL",
    "BY_NODE",
    "BY_NUMBER",
    "BY_ORDER",
    "COLUMNS",
    "GraphWork",
    "graph_work",
    "host_with_graphs",
]

COLUMNS = _host.COLUMNS | {"name", "raw_name", "args", "device", "stream"}
ARGS_OF = API_CALLS | DEVICE_WORK | {Kind.MARK, Kind.OPERATOR}
BY_NODE, BY_NUMBER, BY_CAPTURE = "graph node id", "order of graph node ids", "capture with equal names and order"
BY_EQUAL = "work with equal names and order in another input"
BY_CREATION, BY_ORDER = "creation of the node", "order of one stream, with names that agree"
_API = r"^(?:cuda|cu|hip|mu|musa)"
_LAUNCHES_GRAPH = lazy_pattern(rf"{_API}GraphLaunch(?:_\w+)?$")
_BEGINS = lazy_pattern(rf"{_API}(?:Stream|Thread)?BeginCapture\w*$")
_ENDS = lazy_pattern(rf"{_API}(?:Stream|Thread)?EndCapture\w*$")
_KERNEL_CALL = lazy_pattern(rf"{_API}(?!Graph)\w*Launch\w*(?:Kernel|Grid)\w*$|{_API}Launch(?:_\w+)?$")
_COPY_CALL = lazy_pattern(rf"{_API}Memcpy\w*$")
_SET_CALL = lazy_pattern(rf"{_API}Memset\w*$")
_COPIES_NODES = lazy_pattern(rf"{_API}Graph(?:Instantiate|Clone|ExecUpdate|Exec\w*SetParams)\w*$")
"""Calls that make nodes out of other nodes: the range around them is not the one that the work is of."""
_JOINS_STREAMS = lazy_pattern(rf"{_API}StreamWait(?:Event|Value)\w*$")
_WHOLE = "[CUDA graph"
_KINDS = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
_MOST_COPIES = 64
"""Copies of copies of a node that are followed."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphWork:
    """Launches of graphs, g of them with the same nodes, and their device work, by device event of the host tree.

    graph: shape (m,), the graph of each device event, -1 for work of no graph. call: the place of the call that
    captured it, or of the innermost range where the call itself is not in the trace, -1 where neither is known. shaped:
    whether the shapes of the operator are those of the graph: captures with other shapes may fit as well.
    annotation: shape (m,), the program's own name for that part of the graph, as a number of `annotations`, -1 for
    none; backward: whether it says that the work is of the backward pass. launches, nodes: of each graph. how: what
    shows the calls, "" for nothing. why: the reason where nothing does. source: the number of the input of each.
    """

    host: HostTree
    graph: I64
    call: I64
    shaped: Mask
    annotation: I64
    annotations: list[str]
    backward: Mask
    launches: list[int]
    nodes: list[int]
    how: list[str]
    why: list[str]
    source: list[int]

    @property
    def range(self) -> I64:
        """Return shape (m,): the place of the innermost range in which each device event was captured, -1 for none."""
        return np.append(self.host.nearest(~self.host.is_call), -1)[self.call]


@dataclass(frozen=True, slots=True, eq=False)
class _Capture:
    """Captured calls in order: their places, kinds (numbers in _KINDS), and name texts as numbers, -1 for unknown.

    chain: no call in it makes a stream wait for another.
    """

    calls: I64
    kinds: I64
    names: I64
    raw_names: I64
    process: int
    end: int
    chain: bool


@join
def graph_work(index: TraceIndex) -> GraphWork | None:
    """Return the work of graphs; None for a trace without launches of graphs."""
    host = _host.host(index)
    launched = np.flatnonzero(host.launch >= 0)
    launched = launched[named(index, host.launch[launched], _LAUNCHES_GRAPH)] if launched.size else launched
    if not launched.size:
        return None
    captures = _captures(index, host)
    number = _node_numbers(index, host, launched)
    by_call = _stated_calls(index, host, launched, number)
    stated = np.where(by_call >= 0, by_call, _created_in(index, host, launched, number))
    annotation, annotations, backward = _annotations(index, host, launched, number)
    codes = index.texts("name")[0]
    kind = _kind_of_work(index, host.work)
    graph, call = np.full(host.work.size, -1, np.int64), np.full(host.work.size, -1, np.int64)
    known: dict[tuple[int, bytes, bytes], int] = {}
    found: dict[int, list[tuple[I64, int]]] = {}
    source = index.ints("source")
    for launch, at in rows_by(host.launch[launched]):
        events = launched[at]
        key = int(source[launch]), codes[host.work[events]].tobytes(), kind[events].tobytes()
        which = known.setdefault(key, len(known))
        graph[events] = which
        found.setdefault(which, []).append((events, launch))
    of_work = np.full(host.work.size, -1, np.int64)
    of_work[launched] = np.arange(launched.size)
    shaped = np.ones(host.work.size, np.bool_)
    process = np.full(index.events.num_rows, -1, np.int64)
    rows = sets.union(host.rows, host.launch[launched])
    process[rows] = _process_of(index, rows)
    matching = _Matching(index, host, captures, process, kind, number, (by_call, stated), of_work, call, shaped)
    how, why = [], []
    for which in range(len(known)):
        said = [matching.assign(which, *each) for each in found[which]]
        ways = dict.fromkeys(way for way, _ in said if way)
        how.append(", ".join(ways))
        why.append("; ".join(dict.fromkeys(reason for _, reason in said if reason)))
    _take_from_equals(list(known), found, call, shaped, how, why)
    return GraphWork(
        host,
        graph,
        call,
        shaped,
        _spread(annotation, launched, host.work.size),
        annotations,
        _spread(backward.astype(np.int64), launched, host.work.size) > 0,
        [len(found[which]) for which in range(len(known))],
        [int(found[which][0][0].size) for which in range(len(known))],
        how,
        why,
        [key[0] for key in known],
    )


@dataclass(frozen=True, slots=True, eq=False)
class _MatchedCapture:
    """A capture that is that of a graph: what shows it, and its calls; None for none, and why. shaped: of GraphWork."""

    way: str = ""
    calls: I64 | None = None
    shaped: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Matching:
    """Captures, and what is to be filled in: `call` and `shaped` of GraphWork.

    process: of each row of EVENTS. kind: of each device event. number: of the nodes of work that graphs launched;
    of_work: its place there of each device event. stated: the place of each such node, as calls state its number, and
    as these or its creation do. known, ends: what was found before, and the ends of the captures of each process.
    """

    index: TraceIndex
    host: HostTree
    captures: list[_Capture]
    process: I64
    kind: I64
    number: I64
    stated: tuple[I64, I64]
    of_work: I64
    call: I64
    shaped: Mask
    known: dict[tuple[object, ...], _MatchedCapture] = field(default_factory=dict)
    ends: dict[int, I64] = field(default_factory=dict)

    def assign(self, which: int, events: I64, launch: int) -> tuple[str, str]:
        """Find the calls that captured the work of one launch; return what shows them, or why nothing does.

        which: the graph, whose launches have the same work: what fits one of them fits the others after it.
        """
        by_call, direct = (each[self.of_work[events]] for each in self.stated)
        shown = direct >= 0
        if shown.any():
            # Each node is shown by itself, whatever is known of the others.
            self.call[events[shown]] = direct[shown]
            ways = [BY_NODE] * bool((by_call >= 0).any()) + [BY_CREATION] * bool((shown & (by_call < 0)).any())
            lacking = int(np.count_nonzero(~shown))
            reason = f"{lacking:,} of {events.size:,} nodes were made before recording" * bool(lacking)
            return ", ".join(ways), reason
        numbers = self.number[self.of_work[events]]
        by_number = bool((numbers > 0).all()) and sets.unique(numbers).size == numbers.size
        process, begin = int(self.process[launch]), int(self.index.starts[launch])
        if process not in self.ends:
            mine = [each.end for each in self.captures if each.process == process]
            self.ends[process] = np.array(mine, np.int64)
        before = int(np.searchsorted(self.ends[process], begin, "right"))
        order = np.argsort(numbers, kind="stable") if by_number else np.arange(events.size)
        key = (which, process, before, order.tobytes() if by_number else b"")
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._match(events, numbers if by_number else None, process, begin)
        if found.calls is None:
            return "", found.why
        if found.way == BY_ORDER and (reason := self._why_not_one_by_one(events)):
            return "", reason
        at = events[order] if found.way == BY_NUMBER else events
        self.call[at], self.shaped[at] = found.calls, found.shaped
        return found.way, ""

    def _match(self, events: I64, numbers: I64 | None, process: int, begin: int) -> _MatchedCapture:
        """Return what fits the work of one launch, which began then."""
        if _is_whole(self.index, self.host.work[events]):
            return _MatchedCapture(
                why="it was traced as a whole: record its kernels with nsys profile --cuda-graph-trace=node"
            )
        reason = "no capture of the graph is in the input: record it, or name a trace of the capture beside this one"
        # The last capture before the launch is the likeliest; those of other inputs have no order with it.
        own = [each for each in self.captures if each.process == process and each.end <= begin]
        others = [each for each in self.captures if each.process != process]
        fitting: dict[str, list[_Capture]] = {BY_NUMBER: [], BY_CAPTURE: [], BY_ORDER: []}
        for capture in [*reversed(own), *others]:
            if capture.calls.size != events.size:
                nearest = _nearest(self.captures, int(events.size))
                reason = f"no capture has {events.size:,} nodes (the nearest: {nearest:,})"
                continue
            way, text = self._fits(capture, events, numbers, own=capture in own)
            if way:
                fitting[way].append(capture)
            else:
                reason = text
        for way, found in fitting.items():
            if found:
                return self._chosen(way, found)
        return _MatchedCapture(why=reason)

    def _chosen(self, way: str, found: list[_Capture]) -> _MatchedCapture:
        """Return the first of the captures that fit, if all of them have the same operators."""
        shaped = True
        if len(found) > 1:
            names, shapes = zip(*(self._signature(each) for each in found), strict=True)
            if len(set(names)) > 1:
                return _MatchedCapture(why=f"{len(found):,} captures fit it, and their operators differ")
            shaped = len(set(shapes)) == 1
        return _MatchedCapture(way, found[0].calls, shaped)

    def _fits(self, capture: _Capture, events: I64, numbers: I64 | None, *, own: bool) -> tuple[str, str]:
        """Return what shows that a capture with as many nodes is of the graph, "" and why for nothing."""
        if numbers is not None and own:
            ordered = events[np.argsort(numbers, kind="stable")]
            if _agrees(self.index, self.host, capture, ordered, self.kind, need_names=False)[0]:
                return BY_NUMBER, ""
        fits, text = _agrees(self.index, self.host, capture, events, self.kind, need_names=True)
        if fits:
            return BY_CAPTURE, ""
        if own and numbers is None and (capture.names[capture.kinds == 0] == -1).all():
            fits, text = _agrees(self.index, self.host, capture, events, self.kind, need_names=False)
            text = self._why_no_order(capture, events) if fits else text
            return "" if text else BY_ORDER, text
        return "", text

    def _why_no_order(self, capture: _Capture, events: I64) -> str:
        """Return why the order of time is not known to be that of the capture, "" where it is."""
        if not capture.chain or not {"device", "stream"} <= set(self.index.events.column_names):
            return f"{_UNNAMED}, and it joins several streams, so that nothing shows the order"
        if reason := self._why_not_one_by_one(events):
            return reason
        index, rows = self.index, self.host.work[events]
        kernels = np.flatnonzero(capture.kinds == 0)
        operators = self._operator_of(capture)[kernels]
        codes, names = index.texts("name")
        own = codes[rows[kernels]]
        if not kernels.size or (operators < 0).any() or (own < 0).any():
            return f"{_UNNAMED}, and was not all in operators, so that nothing shows that it is of this graph"
        of_operators = [names[code] for code in codes[self.host.rows[operators]].tolist()]
        if agrees_in_order(of_operators, [names[code] for code in own.tolist()]):
            return ""
        return f"{_UNNAMED}, and the names of the graph's kernels do not show that they are of its operators"

    def _why_not_one_by_one(self, events: I64) -> str:
        """Return why the work of a launch is not one by one on one stream, "" where it is."""
        index, rows = self.index, self.host.work[events]
        known = index.has("stream")[rows] & index.has("device")[rows]
        device, stream = index.ints("device")[rows], index.ints("stream")[rows]
        starts = index.starts[rows]
        ends = starts + self.host.work_ns[events]
        if (
            not known.all()
            or (device != device[0]).any()
            or (stream != stream[0]).any()
            or (starts[1:] < ends[:-1] - _JITTER_NS).any()
        ):
            return f"{_UNNAMED}, and the work of the graph is not one by one, so that nothing shows the order"
        return ""

    def _operator_of(self, capture: _Capture) -> I64:
        """Return the place of the operator of each call of a capture, else of its innermost range; -1 for neither."""
        host = self.host
        around = host.tree.parent[capture.calls]
        ranges = np.append(host.nearest(~host.is_call), -1)[around]
        operator = self.index.kind_mask({Kind.OPERATOR})[host.rows]
        found = np.append(host.nearest(operator), -1)[around]
        return np.where(found >= 0, found, ranges)

    def _signature(self, capture: _Capture) -> tuple[bytes, tuple[object, ...]]:
        """Return the names of the operators of a capture, and their shapes."""
        place = self._operator_of(capture)
        codes = self.index.texts("name")[0]
        names = np.where(place >= 0, codes[np.append(self.host.rows, 0)[place]], -1)
        args = arrow.take(self.index.events.column("args"), np.append(self.host.rows, 0)[np.maximum(place, 0)])
        of_call, shapes = members.values(args, "Input Dims")
        return names.tobytes(), tuple(str(shapes[code]) if code >= 0 else "" for code in of_call.tolist())


_UNNAMED = "the capture does not name its kernels"
_JITTER_NS = 1_000
"""Overlap of two kernels of a chain that is a matter of clocks: torch.cuda._annotate_cuda_graph_trace has the same."""


def _take_from_equals(
    keys: list[tuple[int, bytes, bytes]],
    found: dict[int, list[tuple[I64, int]]],
    call: I64,
    shaped: Mask,
    how: list[str],
    why: list[str],
) -> None:
    """Give work without known operators those of work in another input with the same names in the same order."""
    known: dict[tuple[bytes, bytes], int] = {}
    for which, (_, names, kinds) in enumerate(keys):
        if all((call[events] >= 0).all() for events, _ in found[which]):
            known.setdefault((names, kinds), which)
    for which, (_, names, kinds) in enumerate(keys):
        if how[which] or (names, kinds) not in known:
            continue
        equal = found[known[names, kinds]][0][0]
        for events, _ in found[which]:
            call[events], shaped[events] = call[equal], shaped[equal]
        how[which], why[which] = BY_EQUAL, ""


def _nearest(captures: list[_Capture], nodes: int) -> int:
    return min((int(each.calls.size) for each in captures), key=lambda count: abs(count - nodes), default=0)


def _agrees(
    index: TraceIndex, host: HostTree, capture: _Capture, events: I64, kind: I64, *, need_names: bool
) -> tuple[bool, str]:
    """Return whether the work of a launch is what was captured, node by node, else the reason."""
    other = np.flatnonzero(kind[events] != capture.kinds)
    if other.size:
        kinds = [_KINDS[int(code)].value for code in (capture.kinds[other[0]], kind[events[other[0]]])]
        return False, f"node {int(other[0]) + 1:,} is a {kinds[0]} in the capture and a {kinds[1]} in the graph"
    kernels = np.flatnonzero(capture.kinds == 0)
    unnamed = capture.names[kernels] == -1
    if need_names and unnamed.any():
        return False, "the capture does not name its kernels, so that nothing shows that the order is the same"
    rows = host.work[events[kernels]]
    same = capture.names[kernels] == index.texts("name")[0][rows]
    if "raw_name" in index.events.column_names:
        raw = index.texts("raw_name")[0][rows]
        same |= (raw >= 0) & (capture.raw_names[kernels] == raw)
    wrong = np.flatnonzero(~same & ~unnamed)
    if wrong.size:
        return False, f"kernel {int(kernels[wrong[0]]) + 1:,} of the capture has another name than that of the graph"
    return True, ""


def _captures(index: TraceIndex, host: HostTree) -> list[_Capture]:
    """Return the captures, in order of their ends."""
    calls = np.flatnonzero(host.is_call)
    begins = calls[named(index, host.rows[calls], _BEGINS)]
    ends = calls[named(index, host.rows[calls], _ENDS)]
    if not begins.size or not ends.size:
        return []
    kind = np.full(host.rows.size, -1, np.int64)
    for code, pattern in enumerate((_KERNEL_CALL, _COPY_CALL, _SET_CALL)):
        kind[calls[named(index, host.rows[calls], pattern)]] = code
    joins = calls[named(index, host.rows[calls], _JOINS_STREAMS)]
    # A call that launched something ran; a driver call within a runtime call is the same launch.
    ran = np.zeros(host.rows.size, np.bool_)
    place = host.places()[host.launch[host.launch >= 0]]
    ran[place[place >= 0]] = True
    inner = np.append(kind >= 0, False)[host.tree.parent]
    captured = np.flatnonzero((kind >= 0) & ~ran & ~inner)
    captured = captured[np.lexsort((host.starts[captured], host.lanes[captured]))]
    names, raw_names = _kernel_names(index, host, captured)
    process = _process_of(index, host.rows)
    out = []
    for lane, opening in rows_by(host.lanes[begins]):
        closing = np.sort(host.starts[ends[host.lanes[ends] == lane]])
        mine = np.flatnonzero(host.lanes[captured] == lane)
        starts = host.starts[captured[mine]]
        for begin in begins[opening].tolist():
            behind = int(np.searchsorted(closing, host.ends[begin]))
            if behind == closing.size:
                continue
            end = int(closing[behind])
            at = mine[np.searchsorted(starts, host.starts[begin]) : np.searchsorted(starts, end)]
            calls_in = captured[at]
            waits = (
                (host.lanes[joins] == lane) & (host.starts[joins] >= host.starts[begin]) & (host.starts[joins] < end)
            )
            out.append(
                _Capture(calls_in, kind[calls_in], names[at], raw_names[at], int(process[begin]), end, not waits.any())
            )
    return sorted(out, key=lambda capture: capture.end)


def _kernel_names(index: TraceIndex, host: HostTree, captured: I64) -> tuple[I64, I64]:
    """Return the kernel that each captured call states, as places in the texts of names and of raw names.

    -1: it states none, -2: it states one that no row has.
    """
    unknown = np.full(captured.size, -1, np.int64)
    if "args" not in index.events.column_names or not captured.size:
        return unknown, unknown
    args = arrow.take(index.events.column("args"), host.rows[captured])
    codes, texts = members.texts(args, "kernel", "kernel_name", "kernelName")
    columns = []
    for column in ("name", "raw_name"):
        place: dict[str, int] = {}
        if column in index.events.column_names:
            place = {text: number for number, text in enumerate(index.texts(column)[1])}
        columns.append(np.array([*(place.get(text, -2) for text in texts), -1], np.int64)[codes])
    return columns[0], columns[1]


def _node_numbers(index: TraceIndex, host: HostTree, launched: I64) -> I64:
    """Return the number of its node that each of these device events states, 0 for none."""
    if "args" not in index.events.column_names:
        return np.zeros(launched.size, np.int64)
    args = arrow.take(index.events.column("args"), host.work[launched])
    return members.integers(args, *_NODE_KEYS)[0]


_NODE_KEYS = ("graph node id", "graphNodeId", "graph_node_id")
_ORIGINAL_KEYS = ("originalGraphNodeId",)


def _stated_calls(index: TraceIndex, host: HostTree, launched: I64, number: I64) -> I64:
    """Return the place of the call that states the number of each of these device events' nodes, -1 for none."""
    out = np.full(launched.size, -1, np.int64)
    calls = np.flatnonzero(host.is_call)
    if not (number > 0).any() or not calls.size:
        return out
    numbers, known = members.integers(arrow.take(index.events.column("args"), host.rows[calls]), *_NODE_KEYS)
    calls, numbers = calls[known & (numbers > 0)], numbers[known & (numbers > 0)]
    if not calls.size:
        return out
    process = _process_of(index, np.concatenate((host.rows[calls], host.work[launched])))
    keys = np.column_stack((process, np.concatenate((numbers, number))))
    code = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    place = np.full(int(code.max()) + 1, -1, np.int64)
    place[code[: calls.size][::-1]] = calls[::-1]
    found = place[code[calls.size :]]
    return np.where(number > 0, found, -1)


def _created_in(index: TraceIndex, host: HostTree, launched: I64, number: I64) -> I64:
    """Return the place of the call or innermost range in which each of these device events' nodes was made, -1 unknown.

    An executable graph has copies of nodes: what counts is where the first of them was made.
    """
    unknown = np.full(launched.size, -1, np.int64)
    rows = np.flatnonzero(index.kind_mask({Kind.MARK}) & index.has("tid"))
    if not (number > 0).any() or not rows.size or not host.rows.size:
        return unknown
    args = arrow.take(index.events.column("args"), rows)
    node, states = members.integers(args, *_NODE_KEYS)
    original, copied = members.integers(args, *_ORIGINAL_KEYS)
    kept = np.flatnonzero(states & (node > 0))
    if not kept.size:
        return unknown
    rows, node, original = rows[kept], node[kept], np.where(copied & (original > 0), original, 0)[kept]
    process = _process_of(index, np.concatenate((rows, host.work[launched])))
    own, of_work = process[: rows.size], process[rows.size :]
    keys = np.column_stack((np.concatenate((own, own, of_work)), np.concatenate((node, original, number))))
    code = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    node, above, asked = np.split(code, (rows.size, 2 * rows.size))
    count = int(code.max()) + 1
    is_copy = original > 0
    source = _the_only(node[is_copy], above[is_copy], count)
    # A node that is a copy has an event of its own too, beside the one that names its original.
    first = ~is_copy & (source[node] == -1)
    made = _the_only(node[first], np.flatnonzero(first), count)
    root = np.arange(count)
    for _ in range(_MOST_COPIES):
        further = np.where(source[root] >= 0, source[root], root)
        if np.array_equal(further, root):
            break
        root = further
    event = np.where(source[root] == -1, made[root], -1)[asked]
    event = np.where(number > 0, event, -1)
    some = np.flatnonzero(event >= 0)
    if not some.size:
        return unknown
    at = rows[event[some]]
    place = innermost(host.lanes, host.starts, host.ends, _host.lanes_in(index, host, at), index.starts[at])
    place = np.where(place >= 0, place, -1)
    inside = np.flatnonzero(place >= 0)
    copies = inside[named(index, host.rows[place[inside]], _COPIES_NODES)]
    place[copies] = -1
    unknown[some] = place
    return unknown


def _the_only(keys: I64, values: I64, count: int) -> I64:
    """Return the value of each key: -1 where it has none, -2 where it has several that differ."""
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, np.int64)
    np.minimum.at(low, keys, values)
    np.maximum.at(high, keys, values)
    return np.where(high < 0, -1, np.where(low == high, high, -2))


def _annotations(index: TraceIndex, host: HostTree, launched: I64, number: I64) -> tuple[I64, list[str], Mask]:
    """Return the name that the program gave to the node of each of these device events, -1 for none, and the names.

    The mask: nodes that it marked as work of the backward pass.
    """
    if not (number > 0).any():
        return np.full(launched.size, -1, np.int64), [], np.zeros(launched.size, np.bool_)
    args = arrow.take(index.events.column("args"), host.work[launched])
    codes, texts = members.texts(args, "name")
    passes, pass_texts = members.texts(args, "autograd_phase")
    backward = np.array([*(text == "backward" for text in pass_texts), False], np.bool_)[passes]
    return np.where(number > 0, codes, -1), texts, backward


def _spread(values: I64, at: I64, count: int) -> I64:
    """Return an array of this size with the values at these places, -1 elsewhere."""
    out = np.full(count, -1, np.int64)
    out[at] = values
    return out


def _is_whole(index: TraceIndex, rows: I64) -> bool:
    """Return whether these rows are one event for a whole graph."""
    codes, texts = index.texts("name")
    code = int(codes[rows[0]]) if rows.size == 1 else -1
    return code >= 0 and texts[code].startswith(_WHOLE)


@join
def host_with_graphs(index: TraceIndex) -> HostTree:
    """Return the host tree with the work of graphs charged to the range that captured it, where that is known."""
    host = _host.host(index)
    if not COLUMNS - {"raw_name"} <= set(index.events.column_names):
        return host
    graphs = graph_work(index)
    if graphs is None:
        return host
    # A captured call outside of ranges says as much as one inside: the launch of the graph is not what it is of.
    return replace(host, owner=np.where(graphs.call >= 0, graphs.range, host.owner))


def _process_of(index: TraceIndex, rows: I64) -> I64:
    source, pid = index.key("source", rows), index.key("pid", rows)
    return source.codes * len(pid.labels) + pid.codes


def _kind_of_work(index: TraceIndex, work: I64) -> I64:
    kind = np.zeros(work.size, np.int64)
    for code, each in enumerate(_KINDS):
        kind[index.kind_mask({each})[work]] = code
    return kind
